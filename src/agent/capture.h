/* capture.h - profiles that somebody begins and ends: a session, a request for some seconds,
 * continuous profiling. Any number up to SONDE_CAPTURES_MAX at a time: they share the engines,
 * which run at the highest rate that one of them asks for (a weight is CPU time, so that a sample
 * more or less a second changes no share), or use the one that runs anyway if it is fast enough.
 *
 * One may be left open for days. A thread takes what engines have seen to those that want it, every
 * few seconds; engines keep nothing. Of each there are
 *   - samples: a million as they came; then those of the same stack and thread are added up within
 *     slices of a 64th of the time, again and again as it goes on. So totals stay exact, and what
 *     is lost is when in its slice a sample was, and with it which short span it was in;
 *   - spans and requests of inference: the first 64 MiB of them, the rest is counted;
 *   - stacks: 96 MiB of them with the samples; samples for which there is no room are counted. */
#ifndef SONDE_AGENT_CAPTURE_H
#define SONDE_AGENT_CAPTURE_H

#include "agent/profiler.h"

#define SONDE_CAPTURES_MAX 16

struct sonde_capture;

struct sonde_capture_options {
    double rate_hz;   /* samples a second at least; 0 = the profiler's */
    int no_cpu;       /* nothing is sampled */
    int memory;       /* with heaps that are profiled: what is in use at the end, at the peak and
                         leaked, and what was allocated meanwhile */
    int no_spans;     /* without spans and requests */
    size_t spans_bytes_max; /* of them; 0 = 64 MiB */
    int background;   /* it may go without samples for some seconds, to measure what they cost:
                         sonde_profiler_switch */
    int wait;         /* that there is nothing to sample now is no error: what starts is sampled */
};

/* From now on. SONDE_ENOENT: no process records (without wait). SONDE_EBUSY: there are
 * SONDE_CAPTURES_MAX. SONDE_EOFF: the service stops. Others as sonde_cpu_start, if there are
 * processes and none can be sampled. Pass *out to sonde_profiler_end. */
int sonde_profiler_begin(struct sonde_profiler *p, const struct sonde_capture_options *o,
                         struct sonde_capture **out, struct sonde_err *err);

/* The profile so far, symbolized, as sonde_profiler_end would return it. */
int sonde_profiler_peek(struct sonde_profiler *p, struct sonde_capture *t,
                        struct sonde_profile **out, struct sonde_err *err);

/* The end: everything from begin until now, symbolized, with spans that ended meanwhile (and a
 * fifth of a second later, when they are known) and requests. t is gone, also on failure. out NULL:
 * nobody wants it. Who goes on with another one begins that before: engines then run through. */
int sonde_profiler_end(struct sonde_profiler *p, struct sonde_capture *t,
                       struct sonde_profile **out, struct sonde_err *err);

struct sonde_capture_status {
    uint64_t since_ns;           /* unix time */
    double rate_hz;              /* of the engines now; 0 = nothing is sampled */
    size_t processes;            /* that are sampled now */
    uint64_t samples;
    uint64_t dropped_samples;    /* there was no room for them */
    uint64_t spans, requests;
    uint64_t dropped_spans, dropped_requests;
    double slice_s;              /* samples are added up in slices of so long; 0 = they are not */
    size_t bytes;                /* of memory */
    char note[256];              /* what is not sampled, and why; "" = nothing */
};
void sonde_profiler_capture_status(struct sonde_profiler *p, struct sonde_capture *t,
                                   struct sonde_capture_status *out);

#endif
