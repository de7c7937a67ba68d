/* recorder.h - what is recorded of a program's GPUs (segment/kernels.h), for whichever interface
 * sees it: names, stacks, devices and queues that are stored once, the ring of records, and whether
 * anything is recorded at all.
 *
 * Nothing is made before the first command: a program that uses no GPU pays a test of a variable
 * when it starts. Interfaces are asked about nothing here; they hand over what they know when a
 * command has ended. One lock, for adding what is new: a word (spin.c), held for as long as a stack
 * or a name is copied, never while anything outside of this library is called.
 *
 * Switching. Recording may begin off and be switched on while the program runs, by a file that an
 * agent puts beside the segments: looked for at most ten times a second, and only while commands
 * are queued (switch_look.c). */
#ifndef SONDE_PRELOAD_KERNELS_RECORDER_H
#define SONDE_PRELOAD_KERNELS_RECORDER_H

#include <stddef.h>
#include <stdint.h>

#include "segment/kernels.h"

struct sonde__kernels_state {
    struct sonde__kernels *area;  /* NULL = not made yet */
    uint64_t area_off, area_bytes, ready_bytes;
    uint64_t full_until;          /* there was no room for the ring: see sonde__rest */
    uint32_t lock;                /* of adding names, stacks, devices and queues */
    uint32_t wanted;              /* the agent that started the program asked for it */
    uint32_t on;
    uint32_t pid;                 /* whose area it is */
    uint32_t depth_max;
    uint32_t walks;               /* stacks can be walked */
    uint64_t own_low, own_high;   /* code of this library */
    uint64_t looked_ticks;        /* when the file that switches was last looked for; 0 = never */
};
extern struct sonde__kernels_state sonde__kernels_state;

/* ---- area.c ------------------------------------------------------------------------------ */

void sonde__kernels_start(void);   /* it is wanted: from the environment */
void sonde__kernels_forked(int wanted); /* in a child */

/* The area, made if need be; NULL = nothing can be recorded. May change errno. */
struct sonde__kernels *sonde__kernels_ready(void);
/* So many chunks of the ring can be written. 0 or -1. */
int sonde__kernels_grow(uint64_t chunks);

static inline void sonde__kernels_count(uint64_t *of, uint64_t n)
{
    __atomic_fetch_add(of, n, __ATOMIC_RELAXED);
}

/* ---- switch_look.c ----------------------------------------------------------------------- */

/* 1: what is queued now is to be recorded. May change errno. */
int sonde__kernels_on(struct sonde__kernels *k);

/* What a file of these bytes says of a process: 1 on, 0 off, -1 nothing. */
int sonde__kernels_switch_read(const char *text, size_t len, uint32_t pid, uint64_t now_ns);

/* In a child: numbers are of the parent's segment. */
void sonde__kernels_forget(void);   /* name.c */

/* ---- name.c: numbers, 0 = no room -------------------------------------------------------- */

uint32_t sonde__kernels_name(struct sonde__kernels *k, const char *text, size_t len);
uint32_t sonde__kernels_device(struct sonde__kernels *k, uint32_t name, uint32_t api);
uint32_t sonde__kernels_queue(struct sonde__kernels *k, const struct sonde__kernel_queue *q);
/* Of these addresses, innermost first. */
uint32_t sonde__kernels_stack_add(struct sonde__kernels *k, const uint64_t *ips, uint32_t depth,
                                  uint32_t flags, uint64_t unloads);

/* ---- stack_hot.c ------------------------------------------------------------------------- */

/* The stack of the caller, out of this library. Any thread, not in a signal handler. */
uint32_t sonde__kernels_stack(struct sonde__kernels *k);

/* ---- record_hot.c ------------------------------------------------------------------------ */

struct sonde__kernels_record {
    uint64_t call_ns, took_ns;      /* of the call that queued it */
    uint64_t queued_ns, submit_ns, start_ns, end_ns; /* CLOCK_MONOTONIC */
    uint64_t bytes;
    uint64_t global[3], local[3];
    uint64_t doubt_ns;              /* of those times, since clocks were compared */
    uint32_t tid, stack, name, queue;
    uint32_t op, flags;             /* enum sonde__kernel_op, SONDE__KERNEL_… */
    int32_t status;                 /* 0, or why it failed */
};

void sonde__kernels_put(struct sonde__kernels *k, const struct sonde__kernels_record *r);
void sonde__kernels_put_wait(struct sonde__kernels *k, uint64_t begin_ns, uint64_t end_ns,
                             uint32_t queue, enum sonde__kernel_wait kind, uint32_t stack);
void sonde__kernels_put_map(struct sonde__kernels *k, uint64_t start, uint64_t end, uint64_t offset,
                            const char *path, uint32_t path_len);

#endif
