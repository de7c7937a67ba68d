/* compare_private.h - what the files of a comparison share: its parts, and how figures are added.
 * Side 0 is before, side 1 after. */
#ifndef SONDE_ANALYZE_COMPARE_PRIVATE_H
#define SONDE_ANALYZE_COMPARE_PRIVATE_H

#include "analyze/compare.h"
#include "base/intern.h"
#include "profile/infer.h"

#define CMP_NO_PART UINT32_MAX
#define CMP_BYTES_MAX ((size_t)1 << 30)
#define CMP_SPANS_MAX 64 /* names of spans that are compared: those that took the most time */

struct sonde_compare_texts {
    struct sonde_strings pool;
    size_t bytes;
};

struct cmp_side {
    const struct sonde_compare_run *runs;
    size_t run_count;
    uint32_t per_run;      /* parts of a run */
    size_t n;              /* parts */
    uint32_t *run_of;      /* by part, as are all below */
    double *seconds;
    double *ones;
    double *requests;      /* that ended in it */
    double *cpu, *off_cpu; /* seconds, of samples that pass the filter */
    double cpu_all, off_cpu_all;
    double cpu_samples;    /* that cpu_all is the sum of */
    uint64_t request_count;
};

struct cmp {
    const struct sonde_compare_options *o;
    struct cmp_side side[2];
    struct sonde_comparison *out;
    struct sonde_budget budget; /* of texts */
    int request_is_span;        /* what a request is, is said by the filter */
    double *work;               /* 2 * the most parts */
    struct sonde_err *err;
};

/* What a figure is called. Order within a group is that of the screen. */
struct cmp_measure {
    const char *measure, *title, *unit;
    enum sonde_compare_measure_group group;
    int better;
    int amount; /* less and more, rather than faster and slower */
};

/* The part a time of a run is in, or CMP_NO_PART. */
uint32_t cmp_part(const struct cmp *c, int side, size_t run, uint64_t time_ns);
/* When the compared part of a run starts and ends. */
void cmp_range(const struct sonde_compare_run *r, uint64_t *start_ns, uint64_t *end_ns);

/* subject may be NULL. 0 or SONDE_ENOMEM. Figures of which a side has none (NaN) are left out. */
int cmp_add(struct cmp *c, const struct cmp_measure *m, const char *subject, double weight,
            const struct sonde_estimate estimates[2]);
/* sum y / sum x of a side's parts, as estimates. */
struct sonde_estimate cmp_ratio(const struct cmp *c, int side, const double *y, const double *x,
                                double variance_min);
/* sum y / sum x */
int cmp_add_ratio(struct cmp *c, const struct cmp_measure *m, const char *subject, double weight,
                  const double *const y[2], const double *const x[2], const double variance_min[2]);

struct cmp_list {
    struct sonde_observed *v;
    size_t count, cap;
};
int cmp_list_add(struct cmp_list *l, double value, uint32_t part);
/* p50, p95, p99 of lists[0] and [1], which are sorted for it. */
int cmp_add_quantiles(struct cmp *c, const struct cmp_measure m[3], const char *subject,
                      double weight, struct cmp_list lists[2]);

/* Requests that have ended and whose figures can be; and when that was. */
static inline int cmp_request_counts(const struct sonde_infer_request *r)
{
    return !(r->flags & (SONDE_INFER_RUNNING | SONDE_INFER_INCOMPLETE)) &&
           (!r->invalid || !*r->invalid);
}

static inline uint64_t cmp_request_end(const struct sonde_infer_request *r)
{
    return r->arrived_ns + (uint64_t)(r->total_s * 1e9);
}

/* CPU time that one sample stands for. */
static inline double cmp_sample_seconds(const struct cmp *c, int side)
{
    const struct cmp_side *s = &c->side[side];
    return s->cpu_samples > 0 ? s->cpu_all / s->cpu_samples : 0;
}

/* What functions are divided by; share: ones. */
const double *cmp_basis(const struct cmp *c, int side);

int cmp_requests(struct cmp *c);   /* and phases */
int cmp_spans(struct cmp *c);
int cmp_run(struct cmp *c);
int cmp_memory(struct cmp *c);
int cmp_functions(struct cmp *c);
/* After judging: each function's row points to its figures. */
void cmp_functions_link(struct sonde_comparison *out);

#endif
