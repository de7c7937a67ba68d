/* infer.h - what a report says of inference: requests by outcome, percentiles, phases, tokens,
 * objectives, models and their memory, the slowest requests. Private to src/present/. */
#ifndef SONDE_PRESENT_REPORT_INFER_H
#define SONDE_PRESENT_REPORT_INFER_H

#include "base/buf.h"
#include "present/report/profile.h"
#include "profile/infer.h"

/* Of values that are all known: exact, by nearest rank. */
struct infer_dist { size_t count; double mean, p50, p95, p99, max; };

/* Of requests that ended and whose figures can be, what each measure says. */
#define INFER_MEASURES(X)                                                                      \
    X(TTFT, "ttft_s", "first token")          /* with a token */                               \
    X(ITL, "itl_s", "between tokens")         /* a request's mean; with two tokens */          \
    X(GAP, "itl_max_s", "longest gap")        /* a request's */                                \
    X(QUEUE, "queue_s", "queue")                                                               \
    X(TOTAL, "total_s", "total")              /* that ended well */                            \
    X(RATE, "tokens_per_s", "tokens/s")       /* as users saw it; that ended well */

enum infer_measure {
#define SONDE__X(id, key, title) INFER_##id,
    INFER_MEASURES(SONDE__X)
#undef SONDE__X
    INFER_MEASURE_COUNT
};
extern const char *const infer_measure_keys[], *const infer_measure_titles[];

struct infer_part {                  /* of one model and route, or all */
    const char *model, *route;       /* NULL = all */
    uint64_t requests[SONDE_INFER_OUTCOMES], count, invalid;
    uint64_t slo_met, slo_missed;
    struct infer_dist dist[INFER_MEASURE_COUNT];
};

struct infer_report {
    const struct sonde_profile *p;
    const struct sonde_report_options *o;
    const struct sonde_infer_run *run;  /* NULL = nothing is written */
    size_t limit;
    struct infer_part all;
    struct infer_part *parts;           /* most requests first */
    size_t part_count;
    uint64_t tokens_in, tokens_reused, tokens_out;
    double seconds;                     /* from the first arrival to the last end */
    double phase_s[SONDE_PHASE_COUNT], phase_all_s;
    uint64_t phase_requests[SONDE_PHASE_COUNT];
    const struct sonde_infer_request **slowest;
    size_t slowest_count;
};

/* o is borrowed. 0 or SONDE_ENOMEM. */
int infer_report_init(struct infer_report *r, const struct sonde_profile *p,
                      const struct sonde_report_options *o, size_t limit);
void infer_report_release(struct infer_report *r);

/* Both do nothing without requests and models. JSON: the member "inference" of an open object. */
void infer_report_text(const struct infer_report *r, struct sonde_buf *out);
void infer_report_json(const struct infer_report *r, struct sonde_buf *out);

#endif
