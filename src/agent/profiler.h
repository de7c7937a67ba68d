/* profiler.h - profiles on demand, for the routes that answer with one.
 *
 * CPU: samples for the time that is asked, then hands over what it saw, with the spans and
 * inference requests of that time. Several at a time share engines: capture.h, where one can
 * also be begun and ended.
 *
 * Heap: how it stands now. What allocates counts all along, so there is nothing to wait for; but
 * growth shows only over time, so a process that was asked for once is watched from then on. */
#ifndef SONDE_AGENT_PROFILER_H
#define SONDE_AGENT_PROFILER_H

#include "base/err.h"
#include "collect/collector.h"
#include "collect/cpu/cpu.h"
#include "collect/heap/heap.h"
#include "profile/profile.h"

struct sonde_profiler;

struct sonde_profiler_options {
    struct sonde_collector *collector; /* borrowed; its processes are sampled */
    double rate_hz;                    /* 0 = 99 */
    uint32_t depth_max;                /* 0 = 128 */
    const char *dir;                   /* of segments; NULL = the default directory */
    int no_cpu;                        /* cpu.enabled is false: nothing is sampled, … */
    int no_heap;                       /* … memory.enabled: and no heap is looked at */
};

int sonde_profiler_create(const struct sonde_profiler_options *options,
                          struct sonde_profiler **out);
void sonde_profiler_destroy(struct sonde_profiler *p);  /* NULL is fine; nothing may be running */

/* Whether the CPU may be sampled. */
int sonde_profiler_has_cpu(const struct sonde_profiler *p);

/* An engine that runs anyway, to be used rather than a new one. NULL = there is none any more:
 * must be called before it is stopped, and returns when nobody uses it. */
void sonde_profiler_use(struct sonde_profiler *p, struct sonde_cpu *cpu);

/* The same of a heap that is profiled anyway, that of process pid. */
void sonde_profiler_use_heap_reader(struct sonde_profiler *p, struct sonde_heap_reader *heap_reader,
                                    uint32_t pid);

/* The heap as it is now, symbolized and judged, of process pid, or (0) of all, in one profile
 * whose facts are those of the first. one: of several processes none is better than all, so that
 * is SONDE_EINVAL and says which there are. SONDE_ENOENT: none is profiled, and how one would
 * be. */
int sonde_profiler_heap(struct sonde_profiler *p, uint32_t pid, int one,
                        struct sonde_profile **out, struct sonde_err *err);

/* Warm-up ends now, of that process or (0) of all. *count: how many. SONDE_ENOENT as above. */
int sonde_profiler_mark(struct sonde_profiler *p, uint32_t pid, size_t *count,
                        struct sonde_err *err);

/* Sample for seconds and return the profile, symbolized. gone(client), unless NULL, is asked now
 * and then: 1 = nobody waits for it any more. SONDE_EBUSY: too many are being taken. SONDE_ENOENT:
 * there is no process to sample, or nothing may be. SONDE_EOFF: ended early, by cancel or since
 * nobody waits. Others: as sonde_cpu_start. */
int sonde_profiler_capture(struct sonde_profiler *p, double seconds, int (*gone)(void *client),
                           void *client, struct sonde_profile **out, struct sonde_err *err);

/* The spans that the model still has, and that end after from_ns (unix time), into profile. 0 or
 * SONDE_ENOMEM. */
int sonde_profiler_spans(struct sonde_profiler *p, uint64_t from_ns, struct sonde_profile *profile);

/* ---- profiler_switch.c: sampling off for a moment, to measure what it costs ---------------- */

struct sonde_sampling {
    size_t processes;          /* whose engines captures share now */
    double rate_hz;            /* of the first of them */
    int off;                   /* sampling is switched off */
    int wanted;                /* somebody wants every sample: it cannot be switched off */
    uint64_t changes;          /* grows when engines change, or when it had to be switched on */
};
void sonde_profiler_sampling(struct sonde_profiler *p, struct sonde_sampling *out);

/* Off: no engine that captures share takes samples, until it is switched on, or until somebody
 * wants every sample (a session, a request's profile), or engines change; both count as a change.
 * Weights of later samples make up for what was used meanwhile. SONDE_EBUSY: not now, since every
 * sample is wanted or none is taken; SONDE_EOFF: an engine cannot be switched, and why. */
int sonde_profiler_switch(struct sonde_profiler *p, int off, struct sonde_err *err);

/* What is known of it is told to every profile that is captured from now on, before anybody has
 * it. */
void sonde_profiler_annotate(struct sonde_profiler *p,
                             void (*annotate)(struct sonde_profile *profile, void *arg),
                             void *arg);

/* End a take that is under way, now and for good: the service stops. */
void sonde_profiler_cancel(struct sonde_profiler *p);

#endif
