/* heap.h - what a heap profile says beyond its samples. The samples (kinds live, peak, leaked,
 * alloc, temporary) say where the bytes are; this says how sure that is, how they came and went,
 * and what to think of each place.
 *
 * Belongs to a struct sonde_profile (its field heap), is written to run files and read back, and
 * printed by reports. A site is a stack that has allocated. */
#ifndef SONDE_PROFILE_HEAP_H
#define SONDE_PROFILE_HEAP_H

#include <stddef.h>
#include <stdint.h>

#include "profile/curve.h"

/* Names are used in files and by --fail-on: append only. */
#define SONDE_HEAP_VERDICTS(X)                                                                 \
    X(UNKNOWN, "unknown", "not enough was seen to say")                                        \
    X(STABLE, "stable", "does not grow")                                                       \
    X(CACHE, "cache filling", "grows ever more slowly")                                        \
    X(LEAK, "leak", "grows and does not slow down")                                            \
    X(SHRINKING, "shrinking", "has become less")

enum sonde_heap_verdict {
#define SONDE__X(id, name, text) SONDE_HEAP_##id,
    SONDE_HEAP_VERDICTS(SONDE__X)
#undef SONDE__X
    SONDE_HEAP_VERDICT_COUNT
};

const char *sonde_heap_verdict_name(enum sonde_heap_verdict v);   /* "leak" */
const char *sonde_heap_verdict_text(enum sonde_heap_verdict v);
int sonde_heap_verdict_find(const char *name);                    /* or -1 */

/* An amount with the bounds of its 95 % interval; exact: all three are the same. */
struct sonde_heap_amount { double value, low, high; };

/* The amount that was estimated with this variance. one: by how much one sample more would change
 * it (the root of its part of the variance); both 0 = exact.
 *
 * The bounds are those of Fay and Feuer (1997) for weighted sums of Poisson counts, with equal
 * weights the exact ones of a Poisson count. For many samples they are value +- 1.96
 * sqrt(variance), which misses the truth too often where there are few: in 9 of 100 runs that have
 * 4 on average. */
struct sonde_heap_amount sonde_heap_amount(double value, double variance, double one);

struct sonde_heap_site {
    uint32_t stack;                      /* of the profile */
    uint32_t verdict;                    /* enum sonde_heap_verdict */
    struct sonde_heap_amount live_bytes, live_count, alloc_bytes, alloc_count;
    double peak_bytes, temp_bytes, temp_count, mapped_bytes;
    double lifetime_s;                   /* mean, of what was freed; < 0 = nothing was */
    double mark_bytes, mark_count;       /* in use at the mark */
    double grown_bytes;                  /* in use now, less at the mark */
    double slope;                        /* bytes a second at the end; of the verdict */
    double slope_low, slope_high;        /* 95 % */
    double lost_bytes, lost_count;       /* by the scan at exit; -1 = there was none */
    struct sonde_curve growth;          /* bytes in use, by ticks */
};

struct sonde_heap_point {                /* of the curve, oldest first */
    uint64_t time_ns;                    /* unix time */
    uint64_t live_bytes, live_count, alloc_bytes, alloc_count;
    uint64_t rss_bytes;                  /* 0 = unknown */
};

struct sonde_heap_thread { uint32_t thread; uint64_t alloc_bytes, alloc_count; };

struct sonde_heap_pool {                 /* by the C API, or by a name of mappings */
    uint32_t name;                       /* string of the profile */
    uint32_t mapped;                     /* 1: a name of mappings, 0: the program's own figure */
    uint64_t bytes, rss_bytes;           /* rss: mappings only */
};

#define SONDE_HEAP_SIZES 64u             /* classes as in segment/heap.h */
#define SONDE_HEAP_LIFETIMES 32u

struct sonde_heap {
    int full;                            /* every allocation, exact; else sampled */
    uint64_t mean;                       /* bytes between samples */
    uint32_t allocator;                  /* string: file of the real malloc */
    uint64_t mark_ns;                    /* unix time of the mark; 0 = none */
    int mark_automatic;                  /* the end of warm-up was found, not told */
    int ended;                           /* the process came to its end */
    double tick_s;                       /* between ticks of series */
    uint64_t tick0_ns;                   /* unix time of tick 0 */
    struct sonde_curve growth;          /* all bytes in use */
    struct sonde_heap_amount live_bytes, live_count, alloc_bytes, alloc_count;
    uint64_t peak_bytes, peak_ns;
    uint64_t rss_bytes, rss_peak_bytes, pss_bytes; /* of the process; 0 = unknown */
    uint64_t arenas, arena_system, arena_used, arena_free, arena_mapped, arena_trim; /* glibc */
    int arena_known;
    uint64_t lost_events, reentrant, refused, truncated, unmatched, failed;
    int scanned;                         /* leaks were told apart by a scan at exit */
    double size_class[SONDE_HEAP_SIZES]; /* allocations */
    double lifetime[SONDE_HEAP_LIFETIMES];
    struct sonde_heap_site *sites;       /* by bytes in use, the most first */
    struct sonde_heap_point *points;
    struct sonde_heap_thread *threads;
    struct sonde_heap_pool *pools;
    uint32_t site_count, point_count, thread_count, pool_count;
};

/* Its tables are sonde__alloc'ed and its own. NULL is fine. */
void sonde_heap_destroy(struct sonde_heap *h);
/* A copy for a profile with the same ids. NULL: no memory. */
struct sonde_heap *sonde_heap_copy(const struct sonde_heap *h);
/* Memory that it takes. */
size_t sonde_heap_bytes(const struct sonde_heap *h);

/* Bounds of size class i: [*low, *high). */
void sonde_heap_size_bounds(uint32_t i, uint64_t *low, uint64_t *high);

#endif
