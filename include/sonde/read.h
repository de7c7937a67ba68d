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

/* ---- All of it ---------------------------------------------------------------------------- */

struct sonde_read_text {         /* UTF-8 in the segment, not NUL-terminated; good until a fork */
    const char *text;
    size_t len;
};

struct sonde_read_series {
    struct sonde_read_text name, help, unit, source;
    uint32_t type;               /* enum sonde_type: which of the handles below is valid */
    uint32_t kind;               /* enum sonde_kind */
    uint32_t overflow;           /* 1: what did not fit its family; label values are not known */
    uint32_t label_count;        /* labels and tags */
    struct sonde_read_text label[SONDE_LABELS_MAX + SONDE_LABELS_MAX / 2];
    struct sonde_read_text value[SONDE_LABELS_MAX + SONDE_LABELS_MAX / 2];
    double scale;                /* what one recorded unit is worth */
    struct sonde_counter counter;
    struct sonde_gauge gauge;
    struct sonde_hist hist;
};

/* The next series of this process, in the order in which they came: 1, and *out is filled; 0: there
 * are no more yet. *cursor is the caller's, 0 before the first. */
SONDE_API int sonde_read_next(uint32_t *cursor, struct sonde_read_series *out);

/* Spans that ended, and their attributes, as far as the threads' rings still hold them: the last
 * 4,096 records a thread. */
struct sonde_read_cursor {       /* the caller's; all zero = from the oldest */
    uint32_t lane, pad;
    uint64_t index;              /* within the lane's ring */
    uint64_t lost;               /* records that were written over before or while they were read */
};

enum sonde_read_what { SONDE_READ_SPAN = 1, SONDE_READ_ATTR = 2 };

struct sonde_read_record {
    uint32_t what;               /* enum sonde_read_what */
    uint32_t type;               /* of an attribute: 1 = number, 2 = real, 3 = text */
    uint64_t span;               /* whose: its id */
    struct sonde_read_text name; /* of the span, or of the attribute */

    /* A span's. */
    uint64_t trace_hi, trace_lo, parent;
    uint64_t start_ns;           /* CLOCK_REALTIME */
    uint64_t duration_ns;
    uint32_t outcome;            /* enum sonde_outcome */
    uint32_t tid;

    /* An attribute's. */
    int64_t number;
    double real;
    char text[48];
    size_t text_len;
};

/* The next record: 1, and *out is filled; 0: no more. Lane by lane, each in the order of time. An
 * attribute comes before its span unless another thread ended that. */
SONDE_API int sonde_read_record(struct sonde_read_cursor *cursor, struct sonde_read_record *out);

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
