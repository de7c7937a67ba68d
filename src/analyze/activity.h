/* activity.h - what programs recorded of their own work with the ready-made records of sonde.h:
 * operations with their latency and errors, caches with their hits, bandwidth in and out, what
 * scopes took of CPU and memory, and how many items were handled in them. One way
 * for a live agent (the series of its model) and for a recording (those at its end).
 *
 * Figures are since each program began; processes of one program are added up. What is not known is
 * NaN. */
#ifndef SONDE_ANALYZE_ACTIVITY_H
#define SONDE_ANALYZE_ACTIVITY_H

#include <stddef.h>
#include <stdint.h>

#include "profile/final.h"

/* Outcomes of operations, as sonde_op_end() has them. */
#define SONDE_ACTIVITY_OUTCOMES(X) X(OK, "ok") X(ERROR, "error") X(CANCELLED, "cancelled")         \
    X(TIMEOUT, "timeout")

enum sonde_activity_outcome {
#define SONDE__X(id, name) SONDE_ACTIVITY_##id,
    SONDE_ACTIVITY_OUTCOMES(SONDE__X)
#undef SONDE__X
    SONDE_ACTIVITY_OUTCOME_COUNT
};
const char *sonde_activity_outcome_name(enum sonde_activity_outcome o);

struct sonde_activity_operation {
    const char *program, *operation;
    uint64_t count;
    uint64_t outcomes[SONDE_ACTIVITY_OUTCOME_COUNT];
    uint64_t errors;             /* all outcomes but ok */
    double seconds;              /* that they took */
    double rate;                 /* per second */
    double mean_s, p50_s, p95_s, p99_s, max_s;
};

struct sonde_activity_error {
    const char *program, *operation, *type;
    uint64_t count;
    double share;                /* of all times that the operation was done */
    double rate;
};

struct sonde_activity_cache {
    const char *program, *tier;
    uint64_t hits, misses;
    double hit_ratio, rate;      /* rate: of look-ups */
};

struct sonde_activity_bandwidth {
    const char *program, *source;
    double in_bytes, out_bytes, in_rate, out_rate;
};

struct sonde_activity_scope {     /* sonde_resource_* */
    const char *program, *scope;
    uint64_t count;
    double wall_s, cpu_s;        /* in all */
    double wall_mean_s, wall_p95_s, wall_max_s;
    double cpu_ratio;            /* CPU time by wall time */
    uint64_t faults_minor, faults_major;
    double memory_last_bytes, memory_sum_bytes; /* that the process's memory grew by */
};

struct sonde_activity_throughput { /* sonde_throughput_* */
    const char *program, *scope;
    double items, seconds;       /* seconds: inside the scope, of all threads */
    double rate, last_rate;      /* items per second of those; the last time */
};

struct sonde_activity {
    struct sonde_activity_operation *operations;  /* most time first */
    struct sonde_activity_error *errors;          /* most first */
    struct sonde_activity_cache *caches;          /* most look-ups first */
    struct sonde_activity_bandwidth *bandwidths;  /* most bytes first */
    struct sonde_activity_scope *scopes;          /* most wall time first */
    struct sonde_activity_throughput *throughputs; /* most items first */
    uint32_t operation_count, error_count, cache_count, bandwidth_count, scope_count,
        throughput_count;
    uint32_t operation_cap, error_cap, cache_cap, bandwidth_cap, scope_cap, throughput_cap;
    int several;                 /* programs: say whose each is */
};

/* Of these series; texts are borrowed from them. *out is NULL if there is nothing to say. 0 or
 * SONDE_ENOMEM. */
int sonde_activity_build(const struct sonde_final_series *series, size_t count,
                         struct sonde_activity **out);
/* Percentiles of a part of a recording, whose histograms are not known: of the spans of operations
 * that ended in it, where nearly all of them are known. 0 or SONDE_ENOMEM. */
struct sonde_profile;
int sonde_activity_of_spans(struct sonde_activity *a, const struct sonde_profile *p,
                            uint64_t from_ns, uint64_t to_ns);

void sonde_activity_destroy(struct sonde_activity *a); /* NULL is fine */

#endif
