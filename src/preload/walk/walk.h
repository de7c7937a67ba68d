/* walk.h - stacks of this process, walked by whoever is on them: the CPU sampler in its signal
 * handler, the heap profiler inside malloc.
 *
 * _dl_find_object says lock-free which module an address is in; its .eh_frame_hdr leads to the rule
 * (unwind/find.c), which is remembered by address. Nothing is prepared at load, so starting costs
 * nothing and dlopen needs no interposing (a dlopen called from here would search by our RUNPATH
 * instead of its caller's). Code is not taken away under a walk: dlclose is interposed and waits
 * for walks that are under way. Words of the stack are read after asking the kernel, once a page,
 * whether they are there, so that any stack will do: of coroutines, of signals, or nonsense. The
 * kernel is not asked where a thread is on the stack it began with, up to where that ends.
 *
 * Most frames need little: sp or bp plus a number, a return address, where bp was saved. Such a
 * rule is a word, and a step by it is in line: a probe of a table and a load or two
 * (sonde__walk_fast). All others take the long way (sonde__walk_next), which also fills the
 * table. */
#ifndef SONDE_PRELOAD_WALK_WALK_H
#define SONDE_PRELOAD_WALK_WALK_H

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "unwind/arch_x86_64.h"
#include "unwind/unwind.h"

/* ---- walk.c -------------------------------------------------------------------------------- */

struct sonde__walks {
    uint32_t active;              /* walks that look at modules now */
    uint32_t closing;             /* threads in dlclose */
    uint32_t unloads;             /* modules were unloaded that often: rules before are void */
    uint32_t wanted;              /* somebody walks at all */
    uint32_t spare_taken;         /* a thread is on the spare stack of preload/timer/hot.c */
};

extern struct sonde__walks sonde__walks;
extern __thread uint32_t sonde__walk_closing __attribute__((tls_model("initial-exec")));

/* Somebody is going to walk, from now on. Also: what paths of modules are relative to. */
void sonde__walks_start(void);
void sonde__walks_forked(void);   /* in a child: the other threads are gone */

/* From dlclose's side: it counts itself in closing first and then waits for walks to be none; a
 * walk counts itself first and then looks at closing. One of them sees the other. The thread that
 * is in dlclose cannot take code away from itself. Returns 1 if only rules that are remembered may
 * be used, since modules may be going. */
static inline int sonde__walk_begin(void)
{
    __atomic_fetch_add(&sonde__walks.active, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&sonde__walks.closing, __ATOMIC_SEQ_CST) != sonde__walk_closing;
}

static inline void sonde__walk_end(void)
{
    __atomic_fetch_sub(&sonde__walks.active, 1, __ATOMIC_SEQ_CST);
}

static inline uint32_t sonde__unloads(void)
{
    return __atomic_load_n(&sonde__walks.unloads, __ATOMIC_RELAXED);
}

/* The stack that a thread began with: where it can be at most, and how far down it is known to be
 * there. All 0: not known. Whoever is on it can read all that lies above him on it. */
struct sonde__stack { uint64_t low, high, known; };
extern __thread struct sonde__stack sonde__stack __attribute__((tls_model("initial-exec")));

static inline int sonde__on_stack(uint64_t sp)
{
    return sp >= sonde__stack.low && sp < sonde__stack.high;
}

/* Of this thread, which pthread_create has made with such a stack; low = 0: the C library's own, of
 * so many bytes that can be used. */
void sonde__stack_thread(uint64_t low, uint64_t bytes);

/* ---- hot.c ----------------------------------------------------------------------------- */

enum sonde__rule {
    SONDE__RULE_ROW,
    SONDE__RULE_FP,       /* no table has it, but it keeps a frame pointer … */
    SONDE__RULE_FP_DOUBT, /* … or perhaps not */
    SONDE__RULE_NOWHERE,
    SONDE__RULE_UNKNOWN
};

/* Stack that looking up a rule may take, with what it calls. */
#define SONDE__ROOM_TO_FIND 5120u

/* Which part of memory is known to be there: it grows upwards, as stacks are walked. */
struct sonde__memory { uint64_t low, high; };

struct sonde__walker {
    struct sonde__regs regs;      /* of the frame that is next */
    struct sonde__memory memory;
    int exact;                    /* regs.ip is where it was interrupted, not a return address */
    int known_only;
    int asks;                     /* known_only, but if need be it may begin to look at modules … */
    int begun;                    /* … which it did: sonde__walk_end is due */
    int judges;                   /* is to find out whether it has skipped frames … */
    int doubt;                    /* … which it may have */
    int jumps;                    /* it went through a function that ends in a jump … */
    enum sonde__landing landing;  /* … of the first of which this is to be thought */
    enum sonde__rule rule;        /* of the last step … */
    struct sonde__unwind_row row; /* … if that is ROW */
};

/* Tell the frame that w stands in, and go on to its caller. *ip: an address in the call, or where
 * the frame was interrupted; 0: this is no frame, the step before went wrong. first: nothing was
 * told yet. The step's outcome: FAIL and END both mean that this was the last. */
enum sonde__step sonde__walk_next(struct sonde__walker *w, int first, uint64_t *ip);

/* What a walk that is done at here, on whatever stack, can read from there on up. */
static inline struct sonde__memory sonde__memory_above(uint64_t here)
{
    const struct sonde__memory none = { 0, 0 };
    return sonde__on_stack(here) ? (struct sonde__memory){ here, sonde__stack.high } : none;
}

/* One word of the stack; arg is a struct sonde__memory. */
int sonde__walk_word(void *arg, uint64_t addr, uint64_t *out);

/* Is there stack below sp for looking up a rule? Threads may have very little, and what is below
 * it can only be a guess: that it ends where memory does. */
int sonde__walk_room(struct sonde__memory *m, uint64_t sp);

/* ---- rules_hot.c ---------------------------------------------------------------------------- */

/* Rules that are a word, for frames that have called: 8 bits of flags, then offsets: of bx in words
 * (8 bits), of bp (16), of the CFA (32). An entry is two words that are stored one by one, and the
 * first one is made of both: what two writers have mixed is nobody's. */
enum {
    SONDE__FAST_SP = 1, SONDE__FAST_BP = 2, SONDE__FAST_END = 3, SONDE__FAST_KIND = 3,
    SONDE__FAST_BP_SAVED = 4, SONDE__FAST_BX_SAVED = 8, SONDE__FAST_BX_LOST = 16
};

#define SONDE__FAST_RULES 4096u
struct sonde__fast_rule { uint64_t key, rule; };
extern struct sonde__fast_rule sonde__fast_rules[SONDE__FAST_RULES];

/* Rules from before a module was unloaded are void: for a walk, ahead of it. */
static inline uint64_t sonde__fast_salt(void)
{
    return (sonde__unloads() + 1ull) * 0xd6e8feb86659fd93ull;
}

static inline struct sonde__fast_rule *sonde__fast_at(uint64_t pc)
{
    _Static_assert(SONDE__FAST_RULES == 1u << (64 - 52), "as many as bits are left");
    return &sonde__fast_rules[pc * 0x9e3779b97f4a7c15ull >> 52];
}

static inline uint64_t sonde__fast_key(uint64_t salt, uint64_t pc, uint64_t rule)
{
    return pc ^ salt ^ rule * 0x9e3779b97f4a7c15ull;
}

/* 0: none is remembered, or it is not that simple. */
static inline uint64_t sonde__fast_find(uint64_t salt, uint64_t pc)
{
    const struct sonde__fast_rule *e = sonde__fast_at(pc);
    const uint64_t rule = __atomic_load_n(&e->rule, __ATOMIC_RELAXED);
    const uint64_t key = __atomic_load_n(&e->key, __ATOMIC_RELAXED);
    return key == sonde__fast_key(salt, pc, rule) ? rule : 0;
}

static inline int sonde__fast_cfa_off(uint64_t rule) { return (int32_t)(rule >> 32); }
static inline int sonde__fast_bp_off(uint64_t rule) { return (int16_t)(rule >> 16); }
static inline int sonde__fast_bx_off(uint64_t rule) { return (int8_t)(rule >> 8); }

static inline uint64_t sonde__walk_load(uint64_t addr)
{
    uint64_t v;
    memcpy(&v, (const void *)(uintptr_t)addr, sizeof(v));
    return v;
}

/* Go on to the caller of a frame that has called (w->exact is 0), by such a rule; as
 * sonde__walk_next would. FAIL: not this way, nothing has changed. What is saved lies between sp
 * and the CFA, so that is all that has to be there. */
static inline enum sonde__step sonde__walk_fast(struct sonde__walker *w, uint64_t rule)
{
    struct sonde__regs *r = &w->regs;
    const uint64_t kind = rule & SONDE__FAST_KIND, sp = r->sp;
    if (kind == SONDE__FAST_END) return SONDE__STEP_END;
    if (!kind || (kind == SONDE__FAST_BP && r->bp_lost)) return SONDE__STEP_FAIL;
    const uint64_t cfa = (kind == SONDE__FAST_BP ? r->bp : sp) +
                         (uint64_t)(int64_t)sonde__fast_cfa_off(rule);
    if (cfa <= sp || cfa - sp < 8 || sp < w->memory.low || cfa > w->memory.high) {
        return SONDE__STEP_FAIL;
    }
    const uint64_t ra = sonde__walk_load(cfa - 8);
    if (!ra) return SONDE__STEP_FAIL;
    const uint64_t bp_at = cfa + (uint64_t)(int64_t)sonde__fast_bp_off(rule);
    const uint64_t bx_at = cfa + (uint64_t)(int64_t)sonde__fast_bx_off(rule) * 8;
    if (rule & SONDE__FAST_BP_SAVED && bp_at >= sp) {
        r->bp = sonde__walk_load(bp_at);
        r->bp_lost = 0;
    }
    if (rule & SONDE__FAST_BX_LOST) {
        r->known = 0;
    } else if (rule & SONDE__FAST_BX_SAVED && bx_at >= sp) {
        r->other[SONDE__ARCH_BX] = sonde__walk_load(bx_at);
        r->known = 1u << SONDE__ARCH_BX;
    } else {
        r->known &= 1u << SONDE__ARCH_BX;
    }
    r->sp = cfa;
    r->ip = ra;
    return SONDE__STEP_OK;
}

/* How to step from pc. known_only: what is not remembered is UNKNOWN. */
enum sonde__rule sonde__rule_find(uint64_t pc, int exact, int known_only,
                                  struct sonde__unwind_row *row);

/* Code that no table describes, of which it is not known that it keeps a frame pointer: if it does
 * not, fp is of a frame further out, and where it returns to lies between sp and there. 1:
 * something there returns behind a call, or nobody can tell. */
int sonde__rule_hides_call(struct sonde__memory *m, uint64_t pc, uint64_t sp, uint64_t fp);

/* Such code, where it was interrupted: is the word on top of the stack behind a call that can have
 * led there, so that it has put nothing on the stack? */
int sonde__rule_is_leaf(struct sonde__memory *m, uint64_t pc, uint64_t sp);

/* ---- modules_hot.c -------------------------------------------------------------------------- */

/* For each stretch of a module's code: addresses, where it is in the file, and the file. Stops
 * when call says other than 0. */
typedef int sonde__text_fn(void *arg, uint64_t start, uint64_t end, uint64_t offset,
                           const char *path, uint32_t path_len);
void sonde__module_texts(const struct dl_find_object *o, sonde__text_fn *call, void *arg);

/* The program itself, from its first byte to behind its last; 0: not known. */
struct sonde__program { uint64_t start, end; };
extern struct sonde__program sonde__program;

/* The module that pc is in: 0, or -1. As _dl_find_object says, which of a program whose parts do
 * not lie side by side (node) tells the part alone. */
int sonde__module_find(uint64_t pc, struct dl_find_object *out);

struct sonde__paths {
    char exe[512];                /* path of the program */
    char cwd[256];                /* for paths that are relative; "" = unknown */
};
extern struct sonde__paths sonde__paths;

static inline uint64_t sonde__mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 29;
}

/* ---- walk.c: memory ------------------------------------------------------------------------ */

/* Can the 8 bytes at addr, which is a multiple of 8, be read? One system call that does nothing
 * else. Changes errno. */
int sonde__readable(uint64_t addr);

#endif
