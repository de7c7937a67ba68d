#include "collect/cpu/perf_python.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/proc_maps.h"
#include "profile/python_code.h"
#include "profile/python_function.h"
#include "segment/python_layout.h"
#include "sonde/sonde.h"

enum {
    PROGRAM_HEADERS_MAX = 64, DYNAMIC_MAX = 128, CHAIN_MAX = 65536, THREADS_MAX = 16384,
    CODES = 1024 /* that are remembered; a power of two */
};
#define LENGTH_MAX (1u << 24)

struct perf_python_code {
    uint64_t key;              /* 0 = free */
    uint32_t first_line, lines_bytes;
    char *name, *file, *lines; /* owned, in one block with name */
};

struct sonde_perf_python {
    uint32_t pid;
    struct sonde__python_layout layout;
    uint64_t runtime, type_code, type_text, type_bytes;
    uint64_t thread;           /* state of the thread that was read last */
    struct perf_python_code codes[CODES];
};

/* ---- Memory ---------------------------------------------------------------------------------- */

static int perf_python_copy(uint32_t pid, uint64_t addr, void *to, size_t n)
{
    const struct iovec here = { to, n }, there = { (void *)(uintptr_t)addr, n };
    return process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0) == (ssize_t)n ? 0 : -1;
}

static int perf_python_word(uint32_t pid, uint64_t addr, uint64_t *out)
{
    return perf_python_copy(pid, addr, out, sizeof(*out));
}

static uint64_t perf_python_field(const char *object, uint32_t off)
{
    uint64_t v;
    memcpy(&v, object + off, sizeof(v));
    return v;
}

/* ---- The interpreter's symbols --------------------------------------------------------------- */

/* Read from memory as the dynamic linker does: it is there also where the file is not. */
struct perf_python_image {
    uint32_t pid;
    uint64_t bias, symbols, strings, hash;
};

static int perf_python_dynamic(struct perf_python_image *m, uint64_t at)
{
    Elf64_Dyn d;
    for (uint32_t i = 0; i < DYNAMIC_MAX; i++, at += sizeof(d)) {
        if (perf_python_copy(m->pid, at, &d, sizeof(d))) return -1;
        const uint64_t p = d.d_un.d_ptr < m->bias ? d.d_un.d_ptr + m->bias : d.d_un.d_ptr;
        if (d.d_tag == DT_NULL) break;
        if (d.d_tag == DT_SYMTAB) m->symbols = p;
        else if (d.d_tag == DT_STRTAB) m->strings = p;
        else if (d.d_tag == DT_GNU_HASH) m->hash = p;
    }
    return m->symbols && m->strings && m->hash ? 0 : -1;
}

static int perf_python_image_open(struct perf_python_image *m, uint32_t pid, uint64_t start)
{
    Elf64_Ehdr h;
    Elf64_Phdr p[PROGRAM_HEADERS_MAX];
    uint64_t dynamic = 0, first = UINT64_MAX;
    *m = (struct perf_python_image){ .pid = pid };
    if (perf_python_copy(pid, start, &h, sizeof(h)) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_phentsize != sizeof(p[0]) || !h.e_phnum ||
        h.e_phnum > PROGRAM_HEADERS_MAX ||
        perf_python_copy(pid, start + h.e_phoff, p, h.e_phnum * sizeof(p[0]))) {
        return -1;
    }
    for (uint32_t i = 0; i < h.e_phnum; i++) {
        if (p[i].p_type == PT_LOAD && p[i].p_vaddr < first) first = p[i].p_vaddr;
        if (p[i].p_type == PT_DYNAMIC) dynamic = p[i].p_vaddr;
    }
    m->bias = start - (first & ~(uint64_t)4095);
    return dynamic ? perf_python_dynamic(m, dynamic + m->bias) : -1;
}

static int perf_python_symbol_is(const struct perf_python_image *m, uint32_t index,
                                 const char *name, uint64_t *value)
{
    Elf64_Sym s;
    char text[64];
    const size_t len = strlen(name) + 1;
    if (perf_python_copy(m->pid, m->symbols + (uint64_t)index * sizeof(s), &s, sizeof(s)) ||
        s.st_shndx == SHN_UNDEF || perf_python_copy(m->pid, m->strings + s.st_name, text, len) ||
        memcmp(text, name, len) != 0) {
        return 0;
    }
    *value = s.st_value + m->bias;
    return 1;
}

/* Where it is; 0 = the module does not define it. */
static uint64_t perf_python_symbol(const struct perf_python_image *m, const char *name)
{
    uint32_t head[4], h = 5381, index, c;
    uint64_t value;
    for (const char *s = name; *s; s++) h = h * 33 + (unsigned char)*s;
    if (perf_python_copy(m->pid, m->hash, head, sizeof(head)) || !head[0]) return 0;
    const uint64_t buckets = m->hash + sizeof(head) + head[2] * 8ull;
    const uint64_t chain = buckets + head[0] * 4ull;
    if (perf_python_copy(m->pid, buckets + h % head[0] * 4ull, &index, sizeof(index)) ||
        index < head[1]) {
        return 0;
    }
    for (uint32_t n = 0; n < CHAIN_MAX; n++, index++) {
        if (perf_python_copy(m->pid, chain + (index - head[1]) * 4ull, &c, sizeof(c))) return 0;
        if ((c | 1) == (h | 1) && perf_python_symbol_is(m, index, name, &value)) return value;
        if (c & 1) return 0;
    }
    return 0;
}

struct perf_python_search {
    struct sonde_perf_python *y;
    uint64_t start;            /* of the file at hand */
    uint64_t inode;
};

static int perf_python_fill(struct sonde_perf_python *y, uint64_t start)
{
    struct perf_python_image m;
    uint64_t says[SONDE__PYTHON_SAYS_WORDS] = { 0 };
    uint32_t version;
    if (perf_python_image_open(&m, y->pid, start)) return 0;
    const uint64_t at = perf_python_symbol(&m, "Py_Version");
    y->runtime = perf_python_symbol(&m, "_PyRuntime");
    if (!at || !y->runtime || perf_python_copy(y->pid, at, &version, sizeof(version))) return 0;
    (void)perf_python_copy(y->pid, y->runtime, says, sizeof(says));
    y->type_code = perf_python_symbol(&m, "PyCode_Type");
    y->type_text = perf_python_symbol(&m, "PyUnicode_Type");
    y->type_bytes = perf_python_symbol(&m, "PyBytes_Type");
    return y->type_code && y->type_text && y->type_bytes &&
           sonde__python_layout_of(version, says, sizeof(says), &y->layout) ==
               SONDE__PYTHON_READS;
}

/* The file's first mapping has its header. */
static int perf_python_look(void *arg, const struct sonde_mapping *m)
{
    struct perf_python_search *s = arg;
    const char *base = sonde_path_base(m->path);
    if (strncmp(base, "python3", 7) != 0 && strncmp(base, "libpython3", 10) != 0) return 0;
    if (m->offset != 0 || m->inode == s->inode) return 0;
    s->inode = m->inode;
    s->start = m->start;
    return perf_python_fill(s->y, m->start);
}

int sonde_perf_python_create(uint32_t pid, struct sonde_perf_python **out)
{
    struct sonde_perf_python *y = sonde__calloc(1, sizeof(*y));
    if (!y) return SONDE_ENOMEM;
    y->pid = pid;
    struct perf_python_search s = { .y = y };
    if (sonde_proc_maps(pid, perf_python_look, &s) != 1) {
        sonde__free(y);
        return SONDE_ENOENT;
    }
    *out = y;
    return 0;
}

static void perf_python_forget(struct sonde_perf_python *y)
{
    for (uint32_t i = 0; i < CODES; i++) sonde__free(y->codes[i].name);
    memset(y->codes, 0, sizeof(y->codes));
}

void sonde_perf_python_destroy(struct sonde_perf_python *y)
{
    if (!y) return;
    perf_python_forget(y);
    sonde__free(y);
}

/* ---- Code objects ---------------------------------------------------------------------------- */

struct perf_python_bytes {
    char bytes[SONDE__PYTHON_LINES_MAX];
    uint32_t count, kind;
};

static void perf_python_bytes_read(const struct sonde_perf_python *y, uint64_t at, uint64_t bytes,
                                   uint32_t kind, struct perf_python_bytes *out)
{
    out->kind = kind;
    out->count = bytes <= sizeof(out->bytes) ? (uint32_t)bytes : (uint32_t)sizeof(out->bytes);
    if (out->count && perf_python_copy(y->pid, at, out->bytes, out->count)) out->count = 0;
}

static void perf_python_text(const struct sonde_perf_python *y, uint64_t addr,
                             struct perf_python_bytes *out)
{
    const struct sonde__python_layout *l = &y->layout;
    char head[SONDE__PYTHON_TEXT_BYTES];
    uint32_t state;
    out->count = 0;
    if (perf_python_copy(y->pid, addr, head, sizeof(head)) ||
        perf_python_field(head, l->object_type) != y->type_text) {
        return;
    }
    memcpy(&state, head + l->text_state, sizeof(state));
    const uint32_t kind = state >> 2 & 7, compact = state >> 5 & 1, ascii = state >> 6 & 1;
    const uint64_t length = perf_python_field(head, l->text_length);
    if (!compact || (kind != 1 && kind != 2 && kind != 4) || length > LENGTH_MAX) return;
    perf_python_bytes_read(y, addr + (ascii ? l->text_ascii : l->text_compact), length * kind,
                           kind, out);
}

static void perf_python_lines(const struct sonde_perf_python *y, uint64_t addr,
                              struct perf_python_bytes *out)
{
    char head[SONDE__PYTHON_BYTES_BYTES];
    out->count = 0;
    if (perf_python_copy(y->pid, addr, head, sizeof(head)) ||
        perf_python_field(head, y->layout.object_type) != y->type_bytes) {
        return;
    }
    perf_python_bytes_read(y, addr + y->layout.bytes_text,
                           perf_python_field(head, y->layout.bytes_size), 1, out);
}

static int perf_python_code_fill(struct sonde_perf_python *y, const char *code,
                                 struct perf_python_code *c)
{
    const struct sonde__python_layout *l = &y->layout;
    char name[4 * SONDE__PYTHON_NAME_MAX], file[4 * SONDE__PYTHON_FILE_MAX];
    struct perf_python_bytes b = { .count = 0 };
    perf_python_text(y, perf_python_field(code, l->code_name), &b);
    sonde_python_text(name, sizeof(name), b.bytes, b.count, b.count ? b.kind : 1);
    perf_python_text(y, perf_python_field(code, l->code_file), &b);
    sonde_python_text(file, sizeof(file), b.bytes, b.count, b.count ? b.kind : 1);
    perf_python_lines(y, perf_python_field(code, l->code_lines), &b);
    const size_t names = strlen(name) + 1, files = strlen(file) + 1;
    char *block = sonde__alloc(names + files + b.count);
    if (!block) return -1;
    memcpy(block, name, names);
    memcpy(block + names, file, files);
    memcpy(block + names + files, b.bytes, b.count);
    c->name = block;
    c->file = block + names;
    c->lines = block + names + files;
    c->lines_bytes = b.count;
    memcpy(&c->first_line, code + l->code_first_line, sizeof(c->first_line));
    if (c->first_line > INT32_MAX) c->first_line = 0;
    return 0;
}

static uint64_t perf_python_code_key(const struct sonde__python_layout *l, uint64_t addr,
                                     const char *code)
{
    const uint64_t parts[] = { addr, perf_python_field(code, l->code_name),
                               perf_python_field(code, l->code_file),
                               perf_python_field(code, l->code_lines) };
    uint64_t h = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        h = (h ^ parts[i]) * SONDE_HASH_MUL;
        h ^= h >> 29;
    }
    return h | 1;
}

/* What the frame's code is; NULL = it is not one, or there is no memory. */
static const struct perf_python_code *perf_python_code(struct sonde_perf_python *y, uint64_t addr)
{
    char code[SONDE__PYTHON_CODE_BYTES];
    if (perf_python_copy(y->pid, addr, code, sizeof(code)) ||
        perf_python_field(code, y->layout.object_type) != y->type_code) {
        return NULL;
    }
    const uint64_t key = perf_python_code_key(&y->layout, addr, code);
    struct perf_python_code *c = &y->codes[key >> 1 & (CODES - 1)];
    if (c->key == key) return c;
    sonde__free(c->name);
    *c = (struct perf_python_code){ 0 };
    if (perf_python_code_fill(y, code, c)) return NULL;
    c->key = key;
    return c;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

/* The thread's state: in the list of the main interpreter's, which is behind that of the one that
 * was made last. 0 = it has none. */
static uint64_t perf_python_thread(struct sonde_perf_python *y, uint32_t tid)
{
    const struct sonde__python_layout *l = &y->layout;
    uint64_t at, id;
    if (y->thread && !perf_python_word(y->pid, y->thread + l->thread_id, &id) && id == tid) {
        return y->thread;
    }
    if (perf_python_word(y->pid, y->runtime + l->runtime_interpreter + 8, &at) || !at ||
        perf_python_word(y->pid, at + l->interpreter_thread, &at)) {
        return 0;
    }
    for (uint32_t n = 0; at && n < THREADS_MAX; n++) {
        if (perf_python_word(y->pid, at + l->thread_id, &id)) return 0;
        if (id == tid) return y->thread = at;
        if (perf_python_word(y->pid, at + l->thread_next, &at)) return 0;
    }
    return 0;
}

struct perf_python_walk {
    struct sonde_perf_python *y;
    struct sonde_profile *p;
    struct sonde_perf_python_frame *out;
    size_t count, max;
};

static int perf_python_put(struct perf_python_walk *w, const char *frame, uint64_t anchor)
{
    const struct sonde__python_layout *l = &w->y->layout;
    const uint64_t addr = perf_python_field(frame, l->frame_code);
    const uint64_t start = addr + l->code_start;
    const uint64_t instruction = perf_python_field(frame, l->frame_instruction);
    const struct perf_python_code *c = perf_python_code(w->y, addr);
    if (!c || w->count == w->max) return -1;
    const uint64_t at = instruction >= start ? (instruction - start) / 2 : 0;
    const uint32_t line = sonde_python_line(c->lines, c->lines_bytes, c->first_line,
                                            at < UINT32_MAX ? (uint32_t)at : UINT32_MAX);
    const uint32_t location = sonde_profile_python(w->p, c->name, c->file, c->first_line, line);
    if (!location) return -1;
    w->out[w->count++] = (struct sonde_perf_python_frame){ anchor, location };
    return 0;
}

/* A run from its innermost frame on. *next: the one behind it; of an entry frame, its anchor is
 * known when it is come to. */
static int perf_python_run(struct perf_python_walk *w, uint64_t at, uint64_t anchor, uint64_t *next)
{
    const struct sonde__python_layout *l = &w->y->layout;
    char frame[SONDE__PYTHON_FRAME_BYTES];
    const size_t first = w->count;
    for (uint32_t n = 0; at && n <= w->max; n++) {
        if (perf_python_copy(w->y->pid, at, frame, sizeof(frame))) return -1;
        const int last = (unsigned char)frame[l->frame_flag] == l->frame_last;
        if ((!last || l->last_is_real) && perf_python_put(w, frame, anchor)) return -1;
        *next = perf_python_field(frame, l->frame_previous);
        if (last && !l->chained) {
            for (size_t i = first; i < w->count; i++) w->out[i].anchor = at;
        }
        if (last) return 0;
        at = *next;
    }
    return -1;
}

size_t sonde_perf_python_read(struct sonde_perf_python *y, struct sonde_profile *p, uint32_t tid,
                              struct sonde_perf_python_frame *out, size_t max)
{
    const struct sonde__python_layout *l = &y->layout;
    struct perf_python_walk w = { y, p, out, 0, max };
    char cframe[SONDE__PYTHON_ANCHOR_BYTES];
    const uint64_t state = perf_python_thread(y, tid);
    uint64_t at, frame;
    if (!state || perf_python_word(y->pid, state + l->thread_top, &at)) return 0;
    while (at && w.count < max) {
        const uint64_t anchor = at;
        if (!l->chained) {
            if (perf_python_run(&w, at, 0, &at)) return 0;
            continue;
        }
        if (perf_python_copy(y->pid, at, cframe, sizeof(cframe))) return 0;
        frame = perf_python_field(cframe, l->anchor_frame);
        at = perf_python_field(cframe, l->anchor_previous);
        if (!frame) break; /* the outermost, which is part of the thread's state */
        if (perf_python_run(&w, frame, anchor, &frame)) return 0;
    }
    return w.count;
}
