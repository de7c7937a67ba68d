/* pair.h - from hits of probes at the entry and at the return of functions to calls.
 *
 * A thread's calls nest, so open ones are a stack, as the thread's own is: which return belongs to
 * which entry is told by the function and by the stack pointer, which is above the return address
 * then. What is deeper in the stack than a new hit has been left without a return (an exception, a
 * longjmp, a lost record) and is given up. Hits come in the order of a thread's time. What is not
 * worth telling is left out as the hooks of libsonde_preload leave it out. */
#ifndef SONDE_COLLECT_UPROBE_PAIR_H
#define SONDE_COLLECT_UPROBE_PAIR_H

#include "infer/llama/call.h"
#include "collect/uprobe/memory.h"
#include "unwind/arch_call.h"

/* How a function is probed. */
struct sonde_uprobe_rule {
    uint8_t returns;             /* its return is probed too: its result or its duration counts */
    uint8_t result;              /* enum sonde_uprobe_value: of what kind */
    uint8_t at_entry, at_return; /* memory is read then, so the agent is woken */
    struct { uint8_t kind, reg; } arg[3]; /* of what segment/llama.h names: enum …_value,
                                           * argument */
};
enum sonde_uprobe_value {
    SONDE_UPROBE_NONE,
    SONDE_UPROBE_I32,
    SONDE_UPROBE_U64,
    SONDE_UPROBE_BOOL,           /* of a register only the lowest byte counts */
    SONDE_UPROBE_MEMORY          /* was read from the process's memory */
};
const struct sonde_uprobe_rule *sonde_uprobe_rule(uint32_t fn); /* NULL = it is not probed */

struct sonde_uprobe_hit {
    uint64_t time_ns;            /* CLOCK_MONOTONIC */
    uint64_t sp;
    uint64_t back;               /* at an entry: the return address */
    uint64_t arg[SONDE__ARCH_ARGS]; /* at an entry; [0] of a return: the result */
    uint32_t tid;
    uint16_t fn;                 /* enum sonde__llama_fn */
    uint16_t is_return;
    int32_t batch_tokens;        /* at the entry of DECODE and ENCODE */
    struct sonde_uprobe_memory *memory; /* NULL = nothing was read */
};

#define SONDE_UPROBE_THREADS_MAX 1024u /* known at one time; the one longest silent is forgotten */
#define SONDE_UPROBE_DEPTH_MAX 64u     /* of open calls, as in the kernel */

struct sonde_uprobe_thread;

struct sonde_uprobe_pairs {
    void (*call)(void *arg, const struct sonde_llama_call *c);
    /* A forward pass of a context begins, at unix time begin_ns. May be set after init. */
    void (*pass)(void *arg, uint32_t tid, uint64_t object, uint64_t begin_ns);
    void *arg;
    uint64_t unix_ns;            /* to be added to times */
    struct sonde_uprobe_thread **threads; /* lists by tid */
    uint32_t thread_count;
    uint64_t calls;
    uint64_t late;               /* batches whose sequences were read too late, or not at all */
    uint64_t unpaired;           /* entries without return, and the other way round */
};

/* 0 or SONDE_ENOMEM. */
int sonde_uprobe_pairs_init(struct sonde_uprobe_pairs *p,
                            void (*call)(void *arg, const struct sonde_llama_call *c), void *arg);
void sonde_uprobe_pairs_release(struct sonde_uprobe_pairs *p);

/* Takes over h->memory. Any values are put up with. */
void sonde_uprobe_pairs_take(struct sonde_uprobe_pairs *p, const struct sonde_uprobe_hit *h);

#endif
