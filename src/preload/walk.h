/* walk.h - stacks of this process, walked by whoever is on them: the CPU sampler in its signal
 * handler, the heap profiler inside malloc.
 *
 * _dl_find_object says lock-free which module an address is in; its .eh_frame_hdr leads to the rule
 * (unwind/find.c), which is remembered by address. Nothing is prepared at load, so starting costs
 * nothing and dlopen needs no interposing (a dlopen called from here would search by our RUNPATH
 * instead of its caller's). Code is not taken away under a walk: dlclose is interposed and waits
 * for walks that are under way. Words of the stack are read after asking the kernel, once a page,
 * whether they are there, so that any stack will do: of coroutines, of signals, or nonsense. */
#ifndef SONDE_PRELOAD_WALK_H
#define SONDE_PRELOAD_WALK_H

#include <dlfcn.h>
#include <stdint.h>

#include "unwind/unwind.h"

/* ---- walk.c -------------------------------------------------------------------------------- */

struct sonde__walks {
    uint32_t active;              /* walks that look at modules now */
    uint32_t closing;             /* threads in dlclose */
    uint32_t unloads;             /* modules were unloaded that often: rules before are void */
    uint32_t wanted;              /* somebody walks at all */
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

/* ---- walk_hot.c ----------------------------------------------------------------------------- */

enum sonde__rule { SONDE__RULE_ROW, SONDE__RULE_FP, SONDE__RULE_NOWHERE, SONDE__RULE_UNKNOWN };

/* Stack that looking up a rule may take, with what it calls. */
#define SONDE__ROOM_TO_FIND 5120u

/* Which part of memory is known to be there: it grows upwards, as stacks are walked. */
struct sonde__memory { uint64_t low, high; };

struct sonde__walker {
    struct sonde__regs regs;      /* of the frame that is next */
    struct sonde__memory memory;
    int exact;                    /* regs.ip is where it was interrupted, not a return address */
    int known_only;
    int jumps;                    /* it went through a function that ends in a jump … */
    enum sonde__landing landing;  /* … of the first of which this is to be thought */
    enum sonde__rule rule;        /* of the last step … */
    struct sonde__unwind_row row; /* … if that is ROW */
};

/* Tell the frame that w stands in, and go on to its caller. *ip: an address in the call, or where
 * the frame was interrupted; 0: this is no frame, the step before went wrong. first: nothing was
 * told yet. The step's outcome: FAIL and END both mean that this was the last. */
enum sonde__step sonde__walk_next(struct sonde__walker *w, int first, uint64_t *ip);

/* One word of the stack; arg is a struct sonde__memory. */
int sonde__walk_word(void *arg, uint64_t addr, uint64_t *out);

/* Is there stack below sp for looking up a rule? Threads may have very little, and what is below
 * it can only be a guess: that it ends where memory does. */
int sonde__walk_room(struct sonde__memory *m, uint64_t sp);

/* ---- rules_hot.c ---------------------------------------------------------------------------- */

/* How to step from pc. known_only: what is not remembered is UNKNOWN. */
enum sonde__rule sonde__rule_find(uint64_t pc, int exact, int known_only,
                                  struct sonde__unwind_row *row);

/* ---- modules_hot.c -------------------------------------------------------------------------- */

/* For each stretch of a module's code: addresses, where it is in the file, and the file. Stops
 * when call says other than 0. */
typedef int sonde__text_fn(void *arg, uint64_t start, uint64_t end, uint64_t offset,
                           const char *path, uint32_t path_len);
void sonde__module_texts(const struct dl_find_object *o, sonde__text_fn *call, void *arg);

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

/* ---- walk_probe.c --------------------------------------------------------------------------- */

/* Can the 8 bytes at addr, which is a multiple of 8, be read? One system call that does nothing
 * else. Changes errno. */
int sonde__readable(uint64_t addr);

#endif
