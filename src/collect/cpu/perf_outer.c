#include "collect/cpu/perf_outer.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/intern.h"
#include "sonde/sonde.h"

#define WORDS 128u          /* remembered of a thread; a power of two */
#define WAYS 4u             /* places that a word may be in */
#define TABLES_MAX 4096u    /* threads that are remembered, 20 MB */
#define PIECE 512u          /* read at once; does not cross a page */
#define PIECES 16u          /* of a stack that are kept */
#define STEP_WORDS 8u       /* that one frame may need */
#define SEEN_SURE 8u        /* so often the same, and it is believed at once */
#define SEEN_OTHER 16u      /* so often the same, and a jump explains a call of another function */
#define DOUBT 64u           /* so often the same again, and a frame that changed is believed */
#define APART_NS 2000000u   /* looks that are nearer to each other are one */

struct word {
    uint64_t function, addr; /* of the frame that asked for it; function 0 = free */
    uint64_t value;
    uint64_t seen_ns;       /* time of the sample that it was last counted with */
    uint32_t seen;          /* in a row */
    uint32_t doubt;         /* times that it must be seen again */
    uint32_t used;          /* tick of the last look */
    uint8_t believed;
    uint8_t caller;         /* a return address … */
    uint8_t other;          /* … behind the call of another function */
};

struct sonde_perf_words {
    struct sonde_perf_outer *owner;
    struct word words[WORDS];
};

struct perf_outer_piece {
    uint64_t addr;          /* 0 = free */
    uint8_t bytes[PIECE];
};

struct sonde_perf_outer {
    struct sonde_aspace_outer ops;
    struct sonde_uprobe_returns *returns;
    struct sonde_aspace *as;
    uint32_t pid, tid;
    uint64_t time_ns;
    struct sonde_perf_words **words;
    uint32_t tables, tick;
    enum sonde_perf_outer_why why;
    int final;              /* there will be no better time */
    int looked;             /* that the thread is there */
    uint32_t piece_count;
    struct perf_outer_piece pieces[PIECES];

    /* The frame at hand. */
    uint64_t pc;
    uint64_t function;      /* its; 0 = not looked up */
    int again;              /* with words that are remembered */
    uint32_t count;
    struct { uint64_t addr, value; } step[STEP_WORDS];
};

/* ---- Remembering ----------------------------------------------------------------------------- */

static struct word *words_at(struct sonde_perf_outer *o, uint64_t addr)
{
    const uint64_t hash = (o->function ^ addr << 20) * SONDE_HASH_MUL;
    return &(*o->words)->words[(hash >> 40) % (WORDS / WAYS) * WAYS];
}

static struct word *word_find(struct sonde_perf_outer *o, uint64_t addr)
{
    if (!*o->words) return NULL;
    struct word *w = words_at(o, addr);
    for (uint32_t i = 0; i < WAYS; i++) {
        if (w[i].function == o->function && w[i].addr == addr) {
            w[i].used = ++o->tick;
            return &w[i];
        }
    }
    return NULL;
}

static struct sonde_perf_words *words_new(struct sonde_perf_outer *o)
{
    struct sonde_perf_words *w =
        o->tables < TABLES_MAX ? sonde__calloc(1, sizeof(*w)) : NULL;
    if (!w) return NULL;
    w->owner = o;
    o->tables++;
    return w;
}

/* In the place of the one not used for longest. NULL: no memory. */
static struct word *word_add(struct sonde_perf_outer *o, uint64_t addr, uint64_t value)
{
    if (!*o->words) *o->words = words_new(o);
    if (!*o->words) return NULL;
    struct word *w = words_at(o, addr), *to = w;
    for (uint32_t i = 1; i < WAYS; i++) {
        if (o->tick - w[i].used > o->tick - to->used) to = &w[i];
    }
    *to = (struct word){ .function = o->function, .addr = addr, .value = value,
                         .used = ++o->tick };
    return to;
}

struct sonde_perf_words *sonde_perf_words_copy(const struct sonde_perf_words *of)
{
    struct sonde_perf_words *w = of ? words_new(of->owner) : NULL;
    if (w) memcpy(w->words, of->words, sizeof(w->words));
    return w;
}

void sonde_perf_words_free(struct sonde_perf_words *w)
{
    if (!w) return;
    assert(w->owner->tables);
    w->owner->tables--;
    sonde__free(w);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A thread that is gone may have left its stack to another one. */
static int perf_outer_is_there(struct sonde_perf_outer *o)
{
    if (o->looked) return o->why != SONDE_PERF_OUTER_GONE;
    o->looked = 1;
    if (syscall(SYS_tgkill, o->pid, o->tid, 0) && errno == ESRCH) o->why = SONDE_PERF_OUTER_GONE;
    return o->why != SONDE_PERF_OUTER_GONE;
}

static const struct perf_outer_piece *piece_read(struct sonde_perf_outer *o, uint64_t addr)
{
    for (uint32_t i = 0; i < o->piece_count; i++) {
        if (o->pieces[i].addr == addr) return &o->pieces[i];
    }
    if (!perf_outer_is_there(o)) return NULL;
    struct perf_outer_piece *p = &o->pieces[o->piece_count < PIECES ? o->piece_count : PIECES - 1];
    const struct iovec to = { p->bytes, PIECE };
    const struct iovec from = { (void *)(uintptr_t)addr, PIECE };
    p->addr = 0;
    if (process_vm_readv((pid_t)o->pid, &to, 1, &from, 1, 0) != PIECE) {
        if (errno == ESRCH) o->why = SONDE_PERF_OUTER_GONE;
        if (errno == EPERM || errno == ENOSYS) o->why = SONDE_PERF_OUTER_DENIED;
        return NULL;
    }
    p->addr = addr;
    if (o->piece_count < PIECES) o->piece_count++;
    return p;
}

static uint64_t function_of(const struct sonde_perf_outer *o)
{
    return o->as ? sonde_aspace_function(o->as, o->pc) : o->pc;
}

static uint64_t outer_returns_to(void *arg, uint64_t place, uint64_t hidden, int *sure)
{
    struct sonde_perf_outer *o = arg;
    struct sonde_uprobe_return call;
    if (!o->function) o->function = function_of(o);
    if (sonde_uprobe_returns_find(o->returns, o->tid, place, hidden, o->function, o->time_ns,
                                  &call)) {
        o->why = o->final ? SONDE_PERF_OUTER_HIDDEN : SONDE_PERF_OUTER_EARLY;
        return 0;
    }
    *sure = call.time_ns <= o->time_ns;
    return call.address;
}

/* The return address that a probe has taken from there, if it has. */
static void perf_outer_put_back(struct sonde_perf_outer *o, uint64_t addr, uint64_t *word)
{
    if (!o->ops.returns_to || !sonde_aspace_probes(o->as, *word)) return;
    int sure;
    const uint64_t to = outer_returns_to(o, addr, *word, &sure);
    if (to) *word = to;
}

static int outer_word(void *arg, uint64_t addr, uint64_t *out)
{
    struct sonde_perf_outer *o = arg;
    if (addr % sizeof(*out)) return -1;
    /* The return address is the same wherever in the function it is. */
    if (!o->function) o->function = function_of(o);
    if (o->again) {
        const struct word *w = word_find(o, addr);
        if (!w || !w->believed || w->doubt) return -1;
        if (w->caller && w->seen < SEEN_SURE && !o->final) {
            o->why = SONDE_PERF_OUTER_EARLY;
            return -1;
        }
        *out = w->value;
        return 0;
    }
    const struct perf_outer_piece *p = piece_read(o, addr & ~(uint64_t)(PIECE - 1));
    if (!p) return -1;
    memcpy(out, p->bytes + addr % PIECE, sizeof(*out));
    perf_outer_put_back(o, addr, out);
    if (o->count == STEP_WORDS) return -1;
    o->step[o->count].addr = addr;
    o->step[o->count++].value = *out;
    return 0;
}

/* ---- Believing ------------------------------------------------------------------------------- */

static void outer_frame(void *arg, uint64_t pc, int again)
{
    struct sonde_perf_outer *o = arg;
    o->pc = pc;
    o->function = 0;
    o->again = again;
    o->count = 0;
}

/* A caller that was read just now: has it been that one before? */
static int caller_believe(struct sonde_perf_outer *o, uint64_t addr, uint64_t caller,
                          enum sonde_aspace_call call)
{
    const uint8_t other = call == SONDE_ASPACE_CALL_OTHER;
    struct word *w = word_find(o, addr);
    if (w && w->value != caller) {
        if (other && !w->other) return 0; /* it has returned since, and something else was called */
        if (!other && w->other) w->believed = 0;
        if (w->believed) w->doubt = DOUBT;
        w->value = caller;
        w->seen = w->believed = 0;
    }
    if (!w) w = word_add(o, addr, caller);
    if (!w) return call == SONDE_ASPACE_CALL_FITS;
    w->other = other;
    w->caller = 1;
    if (!w->seen || o->time_ns >= w->seen_ns + APART_NS) {
        w->seen++;
        w->seen_ns = o->time_ns;
        if (w->doubt) w->doubt--;
    }
    w->believed |= !other || w->seen >= SEEN_OTHER;
    if (!o->final && w->seen < SEEN_SURE && !w->doubt) o->why = SONDE_PERF_OUTER_EARLY;
    return w->believed && !w->doubt && (o->final || w->seen >= SEEN_SURE);
}

static int outer_believe(void *arg, uint64_t caller, enum sonde_aspace_call call)
{
    struct sonde_perf_outer *o = arg;
    int believed = 1; /* the caller itself may be in the copy */
    if (o->again) return 1;
    if (call == SONDE_ASPACE_CALL_NOT) believed = 0;
    for (uint32_t i = 0; believed && i < o->count; i++) {
        if (o->step[i].value == caller) {
            believed = caller_believe(o, o->step[i].addr, caller, call);
            break;
        }
    }
    if (!believed) {
        if (!o->why && !o->final && !word_find(o, o->count ? o->step[0].addr : 0)) {
            o->why = SONDE_PERF_OUTER_EARLY; /* a later look may find the right one */
        }
        if (!o->why) o->why = SONDE_PERF_OUTER_CHANGED;
        return 0;
    }
    for (uint32_t i = 0; i < o->count; i++) { /* registers that the frame has saved */
        if (o->step[i].value == caller) continue;
        struct word *w = word_find(o, o->step[i].addr);
        if (!w) w = word_add(o, o->step[i].addr, 0);
        if (!w) continue;
        w->value = o->step[i].value;
        w->believed = 1;
    }
    return 1;
}

/* ---- Life ------------------------------------------------------------------------------------ */

int sonde_perf_outer_create(struct sonde_uprobe_returns *returns, struct sonde_perf_outer **out)
{
    assert(out);
    struct sonde_perf_outer *o = sonde__calloc(1, sizeof(*o));
    if (!o) return SONDE_ENOMEM;
    o->ops = (struct sonde_aspace_outer){ o, outer_frame, outer_word, outer_believe,
                                          returns ? outer_returns_to : NULL };
    o->returns = returns;
    *out = o;
    return 0;
}

void sonde_perf_outer_destroy(struct sonde_perf_outer *o) { sonde__free(o); }

const struct sonde_aspace_outer *sonde_perf_outer_begin(struct sonde_perf_outer *o,
                                                        struct sonde_aspace *as, uint32_t pid,
                                                        uint32_t tid, uint64_t time_ns, int final,
                                                        struct sonde_perf_words **words)
{
    assert(o && words);
    o->as = as;
    o->pid = pid;
    o->tid = tid;
    o->time_ns = time_ns;
    o->final = final;
    o->words = words;
    o->why = SONDE_PERF_OUTER_NOTHING;
    o->looked = 0;
    o->piece_count = 0;
    return &o->ops;
}

enum sonde_perf_outer_why sonde_perf_outer_why(const struct sonde_perf_outer *o) { return o->why; }
