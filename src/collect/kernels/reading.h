/* reading.h - what the files of this room share. */
#ifndef SONDE_COLLECT_KERNELS_READING_H
#define SONDE_COLLECT_KERNELS_READING_H

#include "base/map.h"
#include "collect/cpu/stack.h"
#include "collect/kernels/kernels.h"
#include "collect/preload_targets.h"
#include "collect/segment/kernel_records.h"
#include "collect/tick_clock.h"
#include "profile/gpu.h"

#define KERNELS_NAMES 256u
#define KERNELS_EXACT_MAX (1u << 20)    /* commands with a sample each; later ones are summed … */
#define KERNELS_SLICE_NS 100000000u     /* … by stack and thread, in slices of this */

struct kernels_number {                 /* of a segment, and what it is in the profile */
    uint32_t number, row;
};

struct kernels_target {
    struct sonde_preload_target base;
    struct sonde_segment_kernels_info info, before; /* as last read; before: as was added up */
    struct sonde_aspace *as;
    uint32_t layout;
    uint64_t lost, lost_before;
    struct sonde_map by_stack, by_name; /* numbers of the segment */
    struct kernels_number *stacks, *names;
    uint32_t stack_count, stack_cap, name_count, name_cap;
    uint32_t queue[SONDE__KERNEL_QUEUES]; /* row + 1 in the facts; 0 = not told yet */
    struct { uint32_t tid; uint64_t at_ns; } named[KERNELS_NAMES]; /* when the name was read */
};

struct kernels_reader {                 /* what reading a target needs */
    struct sonde_profile *profile;
    struct sonde_modules *modules;
    struct sonde_cpu_stacks *stacks;
    struct sonde_tick_clock clock;
    uint64_t now_ns;                    /* CLOCK_MONOTONIC */
    uint32_t samples;                   /* of the profile, one for each command */
    struct sonde_map by_slice;          /* the last sample of a stack and thread */
    uint64_t seen;                      /* commands */
};

/* ---- target.c: one segment --------------------------------------------------------------- */

/* All that is new. SONDE_ENOENT: no GPU was used yet. */
int kernels_target_read(struct kernels_reader *r, struct kernels_target *t, int last,
                        struct sonde_err *err);
void kernels_target_release(struct kernels_target *t);

/* ---- sample.c: commands into the profile ------------------------------------------------- */

void kernels_add_command(struct kernels_reader *r, struct kernels_target *t,
                         const struct sonde_segment_kernel *k);
void kernels_add_wait(struct kernels_reader *r, struct kernels_target *t,
                      const struct sonde_segment_kernel_wait *w);

#endif
