/* python_hot.c - from frame to frame of Python, and what a frame's function is called: see
 * python_walk.h. */
#include <string.h>

#include "preload/walk/python_walk.h"
#include "preload/walk/walk.h"
#include "record/state.h"

#include "base/hot_banned.h"

#define FRAMES_MAX 4096u     /* of a stack */
#define SLOTS 32768u         /* a power of two; more than SONDE__PYTHON_CODES_MAX */
#define KEY_BITS (64u - SONDE__PYTHON_BLOCK_BITS)
#define LENGTH_MAX (1u << 24)

_Static_assert(SLOTS > SONDE__PYTHON_CODES_MAX, "probing ends at a free one");

/* Code objects that are known: hash << 26 | block. The hash is of all that makes one, so that
 * another one which has taken the memory of one that is gone is told apart. */
static uint64_t python_codes[SLOTS];
static struct sonde__python *python_area;    /* in the segment; NULL = none yet */
static uint32_t python_area_tried;

/* ---- Memory ---------------------------------------------------------------------------------- */

/* An address that an object can have. */
static int python_is_object(uint64_t addr) { return addr >= 4096 && !(addr >> 47) && !(addr % 8); }

static int python_read(const struct sonde__python_walk *w, uint64_t addr, void *to, size_t n)
{
    if (!python_is_object(addr)) return -1;
    if (!w->direct) return sonde__python_copy(addr, to, n);
    memcpy(to, (const void *)(uintptr_t)addr, n);
    return 0;
}

static uint64_t python_word(const char *object, uint32_t off)
{
    uint64_t v;
    memcpy(&v, object + off, sizeof(v));
    return v;
}

/* ---- The segment's table --------------------------------------------------------------------- */

static void python_count(uint64_t *cell) { __atomic_fetch_add(cell, 1, __ATOMIC_RELAXED); }

static struct sonde__python *python_area_now(void)
{
    struct sonde__python *area = __atomic_load_n(&python_area, __ATOMIC_ACQUIRE);
    uint32_t version;
    if (area || !sonde__g.h || __atomic_exchange_n(&python_area_tried, 1, __ATOMIC_RELAXED)) {
        return area;
    }
    const uint32_t state = sonde__python_met(&version);
    const uint64_t at = sonde__block_take(sizeof(*area));
    if (!at) return NULL;
    area = (struct sonde__python *)(void *)sonde__at(at);
    area->version = version;
    __atomic_store_n(&area->state, state, __ATOMIC_RELAXED);
    __atomic_store_n(&sonde__g.h->python, at, __ATOMIC_RELEASE);
    __atomic_store_n(&python_area, area, __ATOMIC_RELEASE);
    return area;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

struct python_text {
    uint64_t at;                /* of its characters; 0 = there are none */
    uint32_t bytes, kind;
};

/* A str, of which max bytes are wanted: the first, or the last. */
static struct python_text python_text_of(const struct sonde__python_found *f, uint64_t addr,
                                         uint32_t max, int last)
{
    const struct sonde__python_layout *l = &f->layout;
    const struct python_text none = { 0, 0, 1 };
    char head[SONDE__PYTHON_TEXT_BYTES];
    uint32_t state;
    if (!python_is_object(addr) || sonde__python_copy(addr, head, sizeof(head)) ||
        python_word(head, l->object_type) != f->type_text) {
        return none;
    }
    memcpy(&state, head + l->text_state, sizeof(state));
    /* Bits, from the lowest: 2 interned, 3 kind, compact, ascii. */
    const uint32_t kind = state >> 2 & 7, compact = state >> 5 & 1, ascii = state >> 6 & 1;
    const uint64_t length = python_word(head, l->text_length);
    if (!compact || (kind != 1 && kind != 2 && kind != 4) || length > LENGTH_MAX) return none;
    const uint64_t all = length * kind, bytes = all < max ? all : max / kind * kind;
    const uint64_t from = addr + (ascii ? l->text_ascii : l->text_compact);
    return (struct python_text){ last ? from + all - bytes : from, (uint32_t)bytes, kind };
}

/* A bytes, the first max of it. */
static struct python_text python_bytes_of(const struct sonde__python_found *f, uint64_t addr,
                                          uint32_t max)
{
    char head[SONDE__PYTHON_BYTES_BYTES];
    const struct sonde__python_layout *l = &f->layout;
    struct python_text t = { 0, 0, 1 };
    if (!python_is_object(addr) || sonde__python_copy(addr, head, sizeof(head)) ||
        python_word(head, l->object_type) != f->type_bytes) {
        return t;
    }
    const uint64_t size = python_word(head, l->bytes_size);
    t.at = addr + l->bytes_text;
    t.bytes = (uint32_t)(size < max ? size : max);
    return t;
}

/* Straight into the segment. What cannot be read is not there. */
static uint32_t python_text_put(char *to, const struct python_text *t)
{
    return t->bytes && !sonde__python_copy(t->at, to, t->bytes) ? t->bytes : 0;
}

/* ---- Code objects ---------------------------------------------------------------------------- */

static uint32_t python_first_line(const struct sonde__python_layout *l, const char *code)
{
    uint32_t line;
    memcpy(&line, code + l->code_first_line, sizeof(line));
    return line;
}

static uint64_t python_code_hash(const struct sonde__python_layout *l, uint64_t addr,
                                 const char *code)
{
    uint64_t h = sonde__mix(addr, python_first_line(l, code));
    h = sonde__mix(h, python_word(code, l->code_name));
    h = sonde__mix(h, python_word(code, l->code_file));
    return sonde__mix(h, python_word(code, l->code_lines));
}

/* Room for it, with nothing in it yet: number of its block, 0 = there is none. */
static uint64_t python_code_take(const struct sonde__python_found *f, const char *code,
                                 struct python_text part[3])
{
    const struct sonde__python_layout *l = &f->layout;
    part[0] = python_text_of(f, python_word(code, l->code_name), SONDE__PYTHON_NAME_MAX, 0);
    part[1] = python_text_of(f, python_word(code, l->code_file), SONDE__PYTHON_FILE_MAX, 1);
    part[2] = python_bytes_of(f, python_word(code, l->code_lines), SONDE__PYTHON_LINES_MAX);
    const uint64_t at = sonde__block_take(sizeof(struct sonde__python_code) + part[0].bytes +
                                          part[1].bytes + part[2].bytes);
    const uint64_t block = at / SONDE__PYTHON_BLOCK;
    return block >> SONDE__PYTHON_BLOCK_BITS ? 0 : block;
}

static void python_code_fill(const struct sonde__python_layout *l, const char *code, uint64_t block,
                             const struct python_text part[3])
{
    struct sonde__python_code *c = (struct sonde__python_code *)(void *)
        sonde__at(block * SONDE__PYTHON_BLOCK);
    c->magic = SONDE__PYTHON_CODE_MAGIC;
    c->first_line = python_first_line(l, code);
    c->name_kind = (uint16_t)part[0].kind;
    c->file_kind = (uint16_t)part[1].kind;
    c->name_bytes = python_text_put(c->text, &part[0]);
    c->file_bytes = python_text_put(c->text + c->name_bytes, &part[1]);
    c->lines_bytes = python_text_put(c->text + c->name_bytes + c->file_bytes, &part[2]);
    __atomic_store_n(&c->ready, 1, __ATOMIC_RELEASE);
}

/* Whoever enters it fills it in; another thread that meets the same one meanwhile has its number
 * already. A thread that is interrupted in between, inside malloc, by the sampler's signal does so
 * too, and waits for nothing. */
__attribute__((noinline)) static uint64_t python_code_add(const struct sonde__python_found *f,
                                                          const char *code, uint64_t *slot,
                                                          uint64_t key)
{
    struct sonde__python *area = python_area_now();
    struct python_text part[3];
    uint64_t known = 0;
    if (!area) return 0;
    const int room = __atomic_load_n(&area->codes, __ATOMIC_RELAXED) < SONDE__PYTHON_CODES_MAX;
    const uint64_t block = room ? python_code_take(f, code, part) : 0;
    if (!block) return 0;
    if (!__atomic_compare_exchange_n(slot, &known, key << SONDE__PYTHON_BLOCK_BITS | block, 0,
                                     __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        /* Another was first; the block is wasted. If it was another code, this one waits for the
         * next time. */
        return known >> SONDE__PYTHON_BLOCK_BITS == key
                   ? known & ((1ull << SONDE__PYTHON_BLOCK_BITS) - 1) : 0;
    }
    python_count(&area->codes);
    python_code_fill(&f->layout, code, block, part);
    return block;
}

static uint64_t python_code_block(const struct sonde__python_found *f, uint64_t addr,
                                  const char *code)
{
    const uint64_t h = python_code_hash(&f->layout, addr, code);
    const uint64_t key = h >> SONDE__PYTHON_BLOCK_BITS;
    for (uint64_t i = h;; i++) {
        uint64_t *slot = &python_codes[i % SLOTS];
        const uint64_t known = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
        if (!known) return python_code_add(f, code, slot, key);
        if (known >> SONDE__PYTHON_BLOCK_BITS == key) {
            return known & ((1ull << SONDE__PYTHON_BLOCK_BITS) - 1);
        }
    }
}

/* ---- Room ------------------------------------------------------------------------------------ */

#define ROOMS 16u
#define PAGE 4096u

static struct sonde__python_room python_rooms[ROOMS];

static struct sonde__python_room *python_room_take(void)
{
    for (uint32_t i = 0; i < ROOMS; i++) {
        struct sonde__python_room *r = &python_rooms[i];
        if (__atomic_exchange_n(&r->taken, 1, __ATOMIC_ACQUIRE)) continue;
        r->count = r->at = r->over = 0;
        r->low = r->high = 0;
        return r;
    }
    return NULL;
}

/* With what lies before it in its page: frames further out do. */
static int python_frame_ahead(struct sonde__python_room *r, uint64_t addr, char *frame)
{
    const uint64_t end = addr + SONDE__PYTHON_FRAME_BYTES;
    if (addr < r->low || end > r->high) {
        r->low = addr & ~(uint64_t)(PAGE - 1);
        r->high = end;
        if (sonde__python_copy(r->low, r->page, (size_t)(r->high - r->low))) {
            r->low = r->high = 0;
            return -1;
        }
    }
    memcpy(frame, r->page + (addr - r->low), SONDE__PYTHON_FRAME_BYTES);
    return 0;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

/* In units of two bytes. A frame that has just begun stands before its first instruction. */
static uint64_t python_instruction(const struct sonde__python_layout *l, uint64_t addr,
                                   uint64_t instruction)
{
    const uint64_t start = addr + l->code_start;
    return instruction >= start ? (instruction - start) / 2 : 0;
}

/* A frame as a number, by its code object, of which code is a copy; 0 = it is not one. */
static uint64_t python_number(struct sonde__python_walk *w, uint64_t addr, uint64_t instruction,
                              const char *code)
{
    const struct sonde__python_layout *l = &w->found->layout;
    if (python_word(code, l->object_type) != w->found->type_code) return 0;
    const uint64_t block = python_code_block(w->found, addr, code);
    if (!block && python_area_now()) python_count(&python_area_now()->full);
    return sonde__python_frame_of(block, python_instruction(l, addr, instruction));
}

static int python_frame_read(struct sonde__python_walk *w, uint64_t addr,
                             char frame[SONDE__PYTHON_FRAME_BYTES])
{
    if (!w->left || !python_is_object(addr)) return -1;
    w->left--;
    if (w->room) return python_frame_ahead(w->room, addr, frame);
    return python_read(w, addr, frame, SONDE__PYTHON_FRAME_BYTES);
}

static int python_is_last(const struct sonde__python_layout *l, const char *frame)
{
    return (unsigned char)frame[l->frame_flag] == l->frame_last;
}

/* What is not as it should be is being changed just now, and nothing further out is looked at. */
static uint64_t python_break(struct sonde__python_walk *w)
{
    w->anchor = w->frame = w->outer = 0;
    if (python_area_now()) python_count(&python_area_now()->broken);
    return 0;
}

/* Without cframes: the run that begins at frame ends in one on the C stack, its anchor. */
static void python_run_by_entry(struct sonde__python_walk *w, uint64_t first)
{
    const struct sonde__python_layout *l = &w->found->layout;
    char frame[SONDE__PYTHON_FRAME_BYTES];
    w->anchor = w->outer = 0;
    w->frame = first;
    for (uint64_t at = first; at; at = python_word(frame, l->frame_previous)) {
        if (python_frame_read(w, at, frame)) break;
        if (!python_is_last(l, frame)) continue;
        w->anchor = at;
        w->outer = python_word(frame, l->frame_previous);
        return;
    }
    if (first) python_break(w);
}

/* The thread's state is there while the thread has the GIL, and its stack, above where it is now,
 * always. */
static int python_read_own(const struct sonde__python_walk *w, uint64_t addr, void *to, size_t n)
{
    const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
    const int on_stack = sonde__on_stack(here) && addr > here && addr < sonde__stack.high - n;
    const int in_state = w->state && addr >= w->state &&
                         addr + n <= w->state + w->found->layout.thread_bytes;
    if (!on_stack && !in_state) return python_read(w, addr, to, n);
    memcpy(to, (const void *)(uintptr_t)addr, n);
    return 0;
}

static void python_run_by_anchor(struct sonde__python_walk *w, uint64_t anchor)
{
    const struct sonde__python_layout *l = &w->found->layout;
    char cframe[SONDE__PYTHON_ANCHOR_BYTES];
    w->anchor = w->frame = w->outer = 0;
    if (!python_is_object(anchor) ||
        python_read_own(w, anchor, cframe, l->anchor_previous + sizeof(uint64_t))) {
        return;
    }
    w->frame = python_word(cframe, l->anchor_frame);
    if (!w->frame) return; /* the outermost, which is part of the thread's state */
    w->anchor = anchor;
    w->outer = python_word(cframe, l->anchor_previous);
}

static void python_run(struct sonde__python_walk *w, uint64_t at)
{
    if (w->room) w->room->count = w->room->at = w->room->over = 0;
    if (w->found->layout.chained) python_run_by_anchor(w, at);
    else python_run_by_entry(w, at);
}

void sonde__python_begin(struct sonde__python_walk *w, int inside_malloc)
{
    uint64_t top;
    memset(w, 0, sizeof(*w));
    w->found = sonde__python_found();
    if (!w->found) {
        uint32_t version;
        if (sonde__python_met(&version) > SONDE__PYTHON_READS) python_area_now();
        return;
    }
    const uint64_t state = (uint64_t)(uintptr_t)w->found->thread_state();
    if (!state) return;
    w->left = 2 * FRAMES_MAX; /* runs without cframes are gone through twice */
    const int holds = w->found->thread_holds &&
                      (uint64_t)(uintptr_t)w->found->thread_holds() == state;
    w->direct = inside_malloc && holds;
    w->state = holds ? state : 0;
    if (!w->direct) w->room = python_room_take();
    if (!python_read_own(w, state + w->found->layout.thread_top, &top, sizeof(top))) {
        python_run(w, top);
    }
}

void sonde__python_end(struct sonde__python_walk *w)
{
    if (w->room) __atomic_store_n(&w->room->taken, 0, __ATOMIC_RELEASE);
    w->room = NULL;
}

/* One frame of the run: 1, 0 if it is over, -1 if it is not as it should be. */
static int python_step(struct sonde__python_walk *w, uint64_t *code, uint64_t *instruction)
{
    const struct sonde__python_layout *l = &w->found->layout;
    char frame[SONDE__PYTHON_FRAME_BYTES];
    if (!w->frame) return 0;
    if (python_frame_read(w, w->frame, frame)) return -1;
    const int last = python_is_last(l, frame);
    if (last && !l->last_is_real) return 0;
    *code = python_word(frame, l->frame_code);
    *instruction = python_word(frame, l->frame_instruction);
    w->frame = last ? 0 : python_word(frame, l->frame_previous);
    return python_is_object(*code) && (last || w->frame) ? 1 : -1;
}

/* Some of the run's frames, with their code objects. */
static int python_ahead(struct sonde__python_walk *w)
{
    struct sonde__python_room *r = w->room;
    int step = 1;
    r->count = r->at = 0;
    while (!r->over && r->count < SONDE__PYTHON_BATCH) {
        const uint32_t i = r->count;
        step = python_step(w, &r->frame[i].code, &r->frame[i].instruction);
        if (step <= 0) break;
        r->from[i] = (struct iovec){ (void *)(uintptr_t)r->frame[i].code, sizeof(r->code[i]) };
        r->count++;
    }
    r->over = step == 0;
    if (step < 0) return -1;
    if (!r->count) return 0;
    return sonde__python_copy_all(r->from, r->count, r->code);
}

static uint64_t python_frame_from_room(struct sonde__python_walk *w)
{
    struct sonde__python_room *r = w->room;
    if (r->at == r->count && !r->over && python_ahead(w)) return python_break(w);
    if (r->at == r->count) {
        python_run(w, w->outer);
        return 0;
    }
    const uint32_t i = r->at++;
    const uint64_t number = python_number(w, r->frame[i].code, r->frame[i].instruction, r->code[i]);
    return number ? number : python_break(w);
}

uint64_t sonde__python_frame(struct sonde__python_walk *w)
{
    char code[SONDE__PYTHON_CODE_BYTES];
    uint64_t addr, instruction;
    if (w->room) return python_frame_from_room(w);
    const int step = python_step(w, &addr, &instruction);
    if (!step) {
        python_run(w, w->outer);
        return 0;
    }
    const uint64_t number = step > 0 && !python_read(w, addr, code, sizeof(code))
                                ? python_number(w, addr, instruction, code) : 0;
    return number ? number : python_break(w);
}

void sonde__python_forked(void)
{
    if (python_area) memset(python_codes, 0, sizeof(python_codes));
    python_area = NULL;
    python_area_tried = 0;
    for (uint32_t i = 0; i < ROOMS; i++) python_rooms[i].taken = 0; /* who had them is gone */
}
