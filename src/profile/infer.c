/* infer.c - see infer.h: names, and figures that cannot be. */
#include "profile/infer.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/names.h"

static const char *const outcomes[SONDE_INFER_OUTCOMES] = { "ok", "error", "cancelled", "timeout",
                                                            "lost" };

const char *sonde_infer_outcome_name(uint32_t outcome)
{
    return SONDE_NAME_OF(outcomes, outcome);
}

int sonde_infer_outcome_find(const char *name)
{
    return SONDE_NAME_FIND(outcomes, name);
}

static const char *const sources[] = { "api", "hook", "probe", "front" };

const char *sonde_infer_source_name(uint32_t source)
{
    return SONDE_NAME_OF(sources, source);
}

int sonde_infer_source_find(const char *name)
{
    return SONDE_NAME_FIND(sources, name);
}

/* ---- Figures that cannot be ----------------------------------------------------------------- */

#define FIGURES(X)                                                                             \
    X(total_s) X(ttft_s) X(itl_s) X(itl_min_s) X(itl_p50_s) X(itl_p95_s) X(itl_p99_s)          \
    X(itl_max_s) X(tokens_per_s) X(hit_ratio) X(efficiency)

static const struct { const char *name; size_t offset; } figures[] = {
#define FIGURE(field) { #field, offsetof(struct sonde_infer_request, field) },
    FIGURES(FIGURE)
#undef FIGURE
};

/* Of phases: "queue_s", … */
static const char *const phase_fields[SONDE_PHASE_COUNT] = {
    "other_s",
#define SONDE__X(id, name) name "_s",
    SONDE_PHASES(SONDE__X)
#undef SONDE__X
};

static int infer_wrong(const char **field, struct sonde_err *err, const char *name, const char *why,
                       double v, double limit)
{
    if (field) *field = name;
    return sonde_err_set(err, SONDE_EINVAL, "%s is %g, %s %g", name, v, why, limit);
}

static int check_figure(const char *name, double v, const char **field, struct sonde_err *err)
{
    if (!isfinite(v)) {
        if (field) *field = name;
        return sonde_err_set(err, SONDE_EINVAL, "%s is not a number", name);
    }
    return v < 0 ? infer_wrong(field, err, name, "less than", v, 0) : 0;
}

static int check_alone(const struct sonde_infer_request *r, const char **field,
                       struct sonde_err *err)
{
    int rc = 0;
    for (size_t i = 0; !rc && i < SONDE_COUNT(figures); i++) {
        double v;
        memcpy(&v, (const char *)r + figures[i].offset, sizeof(v));
        rc = check_figure(figures[i].name, v, field, err);
    }
    for (size_t k = 0; !rc && k < SONDE_PHASE_COUNT; k++) {
        rc = check_figure(phase_fields[k], r->phase_s[k], field, err);
    }
    if (!rc && r->hit_ratio > 1) {
        rc = infer_wrong(field, err, "hit_ratio", "more than", r->hit_ratio, 1);
    }
    return rc;
}

/* Times are read one after the other and divided: a little is not a contradiction. */
static int infer_longer(double part, double whole) { return part > whole * 1.01 + 1e-3; }

static int infer_check_order(const struct sonde_infer_request *r, const char **field,
                             struct sonde_err *err)
{
    const struct { const char *name; double value; } up[] = {
        { "itl_min_s", r->itl_min_s }, { "itl_p50_s", r->itl_p50_s },
        { "itl_p95_s", r->itl_p95_s }, { "itl_p99_s", r->itl_p99_s },
        { "itl_max_s", r->itl_max_s },
    };
    for (size_t i = 1; r->itl_count && i < SONDE_COUNT(up); i++) {
        if (up[i].value < up[i - 1].value) {
            return infer_wrong(field, err, up[i].name, "less than the one below it,", up[i].value,
                               up[i - 1].value);
        }
    }
    return 0;
}

static int check_together(const struct sonde_infer_request *r, const char **field,
                          struct sonde_err *err)
{
    if (r->tokens_reused > r->tokens_in) {
        return infer_wrong(field, err, "tokens_reused", "more than tokens_in,",
                           (double)r->tokens_reused, (double)r->tokens_in);
    }
    if (r->itl_count && r->itl_count >= r->tokens_out) {
        return infer_wrong(field, err, "itl_count", "too many for tokens_out,",
                           (double)r->itl_count, (double)r->tokens_out);
    }
    if (infer_longer(r->ttft_s, r->total_s)) {
        return infer_wrong(field, err, "ttft_s", "more than total_s,", r->ttft_s, r->total_s);
    }
    if (infer_longer(r->ttft_s + r->itl_s * (double)r->itl_count, r->total_s)) {
        return infer_wrong(field, err, "itl_s", "so that tokens came later than total_s,", r->itl_s,
                           r->total_s);
    }
    for (size_t k = 0; k < SONDE_PHASE_COUNT; k++) {
        /* Named ones may nest. */
        if (k != SONDE_PHASE_NONE && infer_longer(r->phase_s[k], r->total_s)) {
            return infer_wrong(field, err, phase_fields[k], "more than total_s,", r->phase_s[k],
                               r->total_s);
        }
    }
    /* It waits, or it is computed. */
    const double sum = r->phase_s[SONDE_PHASE_QUEUE] + r->phase_s[SONDE_PHASE_PREFILL] +
                       r->phase_s[SONDE_PHASE_DECODE];
    if (infer_longer(sum, r->total_s)) {
        return infer_wrong(field, err, "decode_s", "with queue and prefill more than total_s,",
                           r->phase_s[SONDE_PHASE_DECODE], r->total_s);
    }
    return infer_check_order(r, field, err);
}

int sonde_infer_validate(const struct sonde_infer_request *r, const char **field,
                         struct sonde_err *err)
{
    if (r->outcome >= SONDE_INFER_OUTCOMES) {
        return infer_wrong(field, err, "outcome", "more than", r->outcome,
                           SONDE_INFER_OUTCOMES - 1);
    }
    const int rc = check_alone(r, field, err);
    return rc ? rc : check_together(r, field, err);
}

void sonde_infer_request_release(struct sonde_infer_request *r)
{
    sonde__free(r->items);
    sonde__free(r->attrs);
    r->items = NULL;
    r->attrs = NULL;
    r->item_count = r->attr_count = 0;
}
