/* read.h - what this process has recorded, read by itself: for a program that decides by its own
 * figures (admit a request, shrink a batch, write a warning).
 *
 *     static struct sonde_read_rate last;
 *     const double tokens_per_s = sonde_read_rate(&last, sonde_read_counter(tokens));
 *     if (tokens_per_s < 50) warn("low throughput");
 *
 * Contract: any thread and signal handlers, no allocation, no lock, beside writers. A reading adds
 * up what all threads recorded: all that happened before the call is in it, what happens meanwhile
 * may be. It costs some nanoseconds a thread, a histogram about a microsecond. Figures are of this
 * process since it began (a forked child begins anew), also while recording is switched off.
 *
 * What is not known is NaN (the rate of a first reading, percentiles of nothing), so that comparing
 * with it is false. A handle of all zero reads as nothing. Time to first token, queues and all else
 * that is worked out from events of inference.h is known to the agent alone. */
#ifndef SONDE_READ_H
#define SONDE_READ_H

#include "sonde/sonde.h"

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow" /* function and struct of one name, as with stat() */
extern "C" {
#endif

/* ---- Values ------------------------------------------------------------------------------- */

SONDE_API uint64_t sonde_read_counter(struct sonde_counter c);
SONDE_API double sonde_read_gauge(struct sonde_gauge g);

struct sonde_read_hist {         /* in the exported unit; of nothing: count and sum 0, else NaN */
    uint64_t count;
    double sum, mean;            /* exact */
    double min, max;             /* these are off by 0.54 % at most */
    double p50, p90, p95, p99;
};

SONDE_API void sonde_read_hist(struct sonde_hist h, struct sonde_read_hist *out);

/* The value that a share of q (0 … 1) of all lies at or below, to 0.54 %; NaN for another q. */
SONDE_API double sonde_read_quantile(struct sonde_hist h, double q);

/* ---- Rates -------------------------------------------------------------------------------- */

struct sonde_read_rate {         /* the caller's; all zero = no reading yet. One thread at a time */
    uint64_t total, ticks;
};

/* By how much a total (of a counter, or a histogram's count) has grown per second since it was last
 * told here. NaN: it was not, no time has passed, or it went back (another process's). */
SONDE_API double sonde_read_rate(struct sonde_read_rate *last, uint64_t total);

/* ---- By name ------------------------------------------------------------------------------ */

/* The handle of a series that exists: values of its labels, in order (NULL = it has none). Nothing
 * is defined. 0; SONDE_ENOENT: not defined (yet); SONDE_EEXIST: it is of another type; SONDE_EOFF:
 * nothing is recorded here. *out is then all zero. */
SONDE_API int sonde_counter_find(const char *name, const char *const *values,
                                 struct sonde_counter *out);
SONDE_API int sonde_gauge_find(const char *name, const char *const *values,
                               struct sonde_gauge *out);
SONDE_API int sonde_hist_find(const char *name, const char *const *values,
                              struct sonde_hist *out);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
