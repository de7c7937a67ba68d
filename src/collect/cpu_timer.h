/* cpu_timer.h - what the files of the timer engine share; the engine itself is a row in
 * cpu_engine_list.h. The other half of it is src/preload/.
 *
 * The agent finds the segments of the program by the number of the session, which it made up and
 * gave the program in its environment: they are the first image's, those of images it was
 * replaced by, and of its children if they are sampled too. */
#ifndef SONDE_COLLECT_CPU_TIMER_H
#define SONDE_COLLECT_CPU_TIMER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "collect/aspace.h"
#include "collect/cpu_stack.h"
#include "collect/segment_read.h"
#include "profile/profile.h"

/* ---- cpu_timer_library.c ------------------------------------------------------------------- */

#define SONDE_TIMER_ENV_MAX 6144u /* bytes of both variables */

/* Where libsonde_preload.so is: $SONDE_PRELOAD, beside the agent, or in ../lib…/sonde from there.
 * SONDE_EOFF with a sentence. */
int sonde_timer_library(char *out, size_t size, struct sonde_err *err);

/* LD_PRELOAD, with what this process was given itself behind it, and SONDE_SAMPLER: "NAME=value",
 * each with its NUL. */
int sonde_timer_environment(uint64_t session, uint64_t period_ns, uint32_t depth_max, int children,
                            char out[SONDE_TIMER_ENV_MAX], size_t *size, struct sonde_err *err);

/* ---- cpu_timer_target.c: one segment ------------------------------------------------------- */

#define SONDE_TIMER_NAMES 256u

struct sonde_timer_figures {   /* of all targets */
    uint64_t samples, truncated, frames, lost;
};

struct sonde_timer_target {
    struct sonde_segment_name id;
    char name[64];                    /* of the file */
    struct sonde_segment *segment;    /* NULL = not ours, or done with */
    struct sonde_sampler_info info;   /* valid once sampled */
    int sampled;
    int gone;                         /* the process has ended, or replaced itself */
    int other_root;                   /* it is in another mount namespace than we are */
    struct sonde_aspace *as;
    uint32_t layout;
    uint64_t scanned_ns;              /* when /proc/PID/maps was last looked at */
    uint64_t cpu_ns;                  /* used while it was sampled */
    uint64_t lost;
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
/* What it holds on to but its figures. */
void sonde_timer_target_release(struct sonde_timer_target *t);

#endif
