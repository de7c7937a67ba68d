/* timer.h - what the files of the timer engine share; the engine itself is a row in
 * engine_list.h. The other half of it is src/preload/. */
#ifndef SONDE_COLLECT_CPU_TIMER_H
#define SONDE_COLLECT_CPU_TIMER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collect/aspace/aspace.h"
#include "collect/cpu/stack.h"
#include "collect/preload_targets.h"
#include "profile/profile.h"

#define SONDE_TIMER_ENV_MAX SONDE_PRELOAD_ENV_MAX

/* As sonde_preload_environment, with SONDE_SAMPLER. */
int sonde_timer_environment(uint64_t session, uint64_t period_ns, uint32_t depth_max, int children,
                            char out[SONDE_TIMER_ENV_MAX], size_t *size, struct sonde_err *err);

/* ---- timer_target.c: one segment ------------------------------------------------------- */

#define SONDE_TIMER_NAMES 256u

struct sonde_timer_figures {   /* of all targets */
    uint64_t samples, truncated, frames;
    uint64_t lost, cpu_ns;     /* of those that are done with */
};

struct sonde_timer_target {
    struct sonde_preload_target base; /* ours: it is sampled */
    struct sonde_sampler_info info;   /* valid if it is ours */
    struct sonde_aspace *as;
    uint32_t layout;
    int busy;                         /* there were samples when it was last read */
    uint64_t cpu_ns;                  /* used while it was sampled */
    uint64_t lost;
    int python_told;                  /* it was said that its functions are not seen */
    struct { uint32_t tid; uint64_t at_ns; } named[SONDE_TIMER_NAMES]; /* when the name was read */
};

struct sonde_timer_reader {           /* what reading a target needs */
    struct sonde_profile *profile;
    struct sonde_modules *modules;
    struct sonde_cpu_stacks *stacks;
    const struct sonde_tick_clock *clock;
    uint64_t now_ns;                  /* CLOCK_MONOTONIC */
    struct sonde_timer_figures figures;
};

/* All that is new, into the profile. last: pass over what is unfinished. */
int sonde_timer_read(struct sonde_timer_reader *r, struct sonde_timer_target *t, int last,
                     struct sonde_err *err);
/* Done with it: lets go of what it holds, and its figures are the reader's. */
void sonde_timer_target_release(struct sonde_timer_reader *r, struct sonde_timer_target *t);

#endif
