/* profiler.h - CPU profiles on demand, for the routes that answer with one. Samples for the time
 * that is asked, then hands over what it saw, joined with the spans the model has of that time.
 *
 * One at a time: sampling costs, and two would see each other. */
#ifndef SONDE_SERVE_PROFILER_H
#define SONDE_SERVE_PROFILER_H

#include "base/err.h"
#include "collect/collector.h"
#include "collect/cpu.h"
#include "profile/profile.h"

struct sonde_profiler;

struct sonde_profiler_options {
    struct sonde_collector *collector; /* borrowed; its processes are sampled */
    double rate_hz;                    /* 0 = 99 */
    uint32_t depth_max;                /* 0 = 128 */
    const char *dir;                   /* of segments; NULL = the default directory */
};

int sonde_profiler_create(const struct sonde_profiler_options *options,
                          struct sonde_profiler **out);
void sonde_profiler_destroy(struct sonde_profiler *p);  /* NULL is fine; nothing may be running */

/* An engine that runs anyway, to be used rather than a new one. NULL = there is none any more:
 * must be called before it is stopped, and returns when nobody uses it. */
void sonde_profiler_use(struct sonde_profiler *p, struct sonde_cpu *cpu);

/* Sample for seconds and return the profile, symbolized. SONDE_EBUSY: another one is running.
 * SONDE_ENOENT: there is no process to sample. SONDE_EOFF: ended early, by cancel. Others: as
 * sonde_cpu_start. */
int sonde_profiler_take(struct sonde_profiler *p, double seconds, struct sonde_profile **out,
                        struct sonde_err *err);

/* End a take that is under way, now and for good: the service stops. */
void sonde_profiler_cancel(struct sonde_profiler *p);

#endif
