/* arms_json.c - how two servers compare, as JSON and in a sentence; see arms.h. */
#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "agent/arms_private.h"
#include "analyze/stats.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "model/window.h"
#include "sonde/sonde.h"

#define ARM_QUANTILE 1.96      /* of the normal distribution: 95 % */
#define ARM_DROPPED_RATIO 0.01 /* more copies dropped than this are told */

enum { ARM_WARNINGS = 6 };

struct arms_verdict {
    struct sonde_sequential_look look[SONDE_ARM_MEASURE_COUNT];
    const char *name;          /* static */
    char text[400];
    char warnings[ARM_WARNINGS][240];
    size_t warning_count;
};

/* ---- Each server ---------------------------------------------------------------------------- */

static double arm_finite(double v) { return isfinite(v) ? v : NAN; }

/* The mean of all values, and its 95 % interval by how means of blocks differ. */
static void arm_put_mean(struct sonde_buf *out, const struct sonde_sequential_arms *values, int arm)
{
    const struct sonde_sequential *s = &values->pairs;
    const double n = s->all.n;
    const double sum = arm ? s->all.v : s->all.u, squares = arm ? s->all.vv : s->all.uu;
    const double mean = values->total_count[arm]
                            ? values->total[arm] / (double)values->total_count[arm]
                            : NAN;
    double off = NAN;
    if (n >= 2) {
        const double variance = fmax(0, (squares - sum * sum / n) / (n - 1));
        off = sonde_t_quantile(0.975, n - 1) * sqrt(variance / n);
    }
    sonde_json_u64(out, "count", values->total_count[arm]);
    sonde_json_num(out, "mean", mean);
    sonde_json_num(out, "low", arm_finite(off) >= 0 ? fmax(0, mean - off) : NAN);
    sonde_json_num(out, "high", arm_finite(mean + off));
}

/* A percentile, and the values between whose ranks it is in 95 % of samples of this size, if
 * requests are independent of each other (Woodruff). */
static void arm_put_percentile(struct sonde_buf *out, const char *name,
                               const struct sonde_hist_value *h, double q)
{
    const uint64_t *octave[SONDE__HIST_OCTAVES];
    for (size_t i = 0; i < SONDE_COUNT(octave); i++) octave[i] = h->octave[i];
    const double off =
        h->count ? ARM_QUANTILE * sqrt(q * (1 - q) / (double)h->count) : INFINITY;
    const double low = q - off, high = q + off;
    char key[16];
    sonde_json_num(out, name, sonde_quantile(q, h->zero, octave, 1e-9));
    snprintf(key, sizeof(key), "%s_low", name);
    sonde_json_num(out, key, low >= 0 ? sonde_quantile(low, h->zero, octave, 1e-9) : NAN);
    snprintf(key, sizeof(key), "%s_high", name);
    sonde_json_num(out, key, high <= 1 ? sonde_quantile(high, h->zero, octave, 1e-9) : NAN);
}

static void arm_put(struct sonde_buf *out, const struct sonde_arms *arms, int arm)
{
    const struct arm_figures *f = &arms->figures[arm];
    sonde_json_key_open(out, arm ? "b" : "a", '{');
    sonde_json_str(out, "url", arms->url[arm]);
    sonde_json_u64(out, "requests", f->ok + f->failed + f->cancelled);
    sonde_json_u64(out, "ok", f->ok);
    sonde_json_u64(out, "failed", f->failed);
    sonde_json_u64(out, "cancelled", f->cancelled);
    sonde_json_u64(out, "fell_back", f->fell_back);
    sonde_json_u64(out, "output_tokens", f->tokens_out);
    sonde_json_key_open(out, "errors", '{');
    for (size_t i = 0; i < ARM_ERRORS + 1; i++) {
        if (f->errors[i].count) sonde_json_u64(out, f->errors[i].name, f->errors[i].count);
    }
    sonde_json_close(out, '}');
    for (int m = 0; m < SONDE_ARM_MEASURE_COUNT; m++) {
        sonde_json_key_open(out, arm_measure_key((enum sonde_arm_measure)m), '{');
        arm_put_mean(out, &arms->measure[m], arm);
        if (m < SONDE_ARM_ERRORS) {
            arm_put_percentile(out, "p50", &f->hist[m], 0.5);
            arm_put_percentile(out, "p95", &f->hist[m], 0.95);
            arm_put_percentile(out, "p99", &f->hist[m], 0.99);
        }
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
}

/* ---- Both ----------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static void arms_warn(struct arms_verdict *v, const char *format, ...)
{
    assert(v->warning_count < ARM_WARNINGS);
    va_list args;
    va_start(args, format);
    vsnprintf(v->warnings[v->warning_count++], sizeof(v->warnings[0]), format, args);
    va_end(args);
}

static void arms_look_for_trouble(const struct sonde_arms *arms, struct arms_verdict *v)
{
    const struct arm_figures *b = &arms->figures[1];
    uint64_t dropped = 0;
    for (int i = 0; i < SONDE_FRONT_DROPS; i++) dropped += arms->state.dropped_total[i];
    const uint64_t all = dropped + arms->state.copies_total;
    if (dropped && (double)dropped > ARM_DROPPED_RATIO * (double)all) {
        arms_warn(v, "%.1f %% of the requests that should have been mirrored were not: a smaller "
                     "--share, or a faster b, is needed for b to be compared under this load",
                  100 * (double)dropped / (double)all);
    }
    if (b->fell_back) {
        arms_warn(v, "b could not be reached for %llu of its requests; a answered them instead",
                  (unsigned long long)b->fell_back);
    }
    if (v->look[SONDE_ARM_E2E].inflation > 4) {
        arms_warn(v, "neighbouring blocks are very much alike (variance raised %.1f times): longer "
                     "blocks (ab.block_seconds) or a longer test say more",
                  v->look[SONDE_ARM_E2E].inflation);
    }
}

/* "time to first token +12.3 % (+8.1 … +16.9 %)" */
static void arms_change_text(const struct arms_verdict *v, int m, char *out, size_t size)
{
    const struct sonde_sequential_look *l = &v->look[m];
    const char *title = arm_measure_title((enum sonde_arm_measure)m);
    if (m == SONDE_ARM_ERRORS) {
        snprintf(out, size, "%s %.2f %% against %.2f %%", title, 100 * l->b, 100 * l->a);
    } else if (isfinite(l->relative_low) && isfinite(l->relative_high)) {
        snprintf(out, size, "%s %+.1f %% (%+.1f … %+.1f %%)", title, 100 * l->relative,
                 100 * l->relative_low, 100 * l->relative_high);
    } else {
        snprintf(out, size, "%s %+.1f %%", title, 100 * l->relative);
    }
}

static void arms_judge(const struct sonde_arms *arms, struct arms_verdict *v)
{
    int better = 0, worse = 0, same = 0, empty = 0, first[2] = { -1, -1 };
    for (int m = 0; m < SONDE_ARM_MEASURE_COUNT; m++) {
        v->look[m] = sonde_sequential_look(&arms->measure[m].pairs);
        const enum sonde_sequential_verdict verdict = v->look[m].verdict;
        better += verdict == SONDE_SEQUENTIAL_B;
        worse += verdict == SONDE_SEQUENTIAL_A;
        same += verdict == SONDE_SEQUENTIAL_SAME;
        /* Nothing to compare: no request streams, none fails. */
        empty += verdict != SONDE_SEQUENTIAL_SAME &&
                 !(arms->measure[m].total[0] > 0 || arms->measure[m].total[1] > 0);
        if (verdict == SONDE_SEQUENTIAL_B && first[0] < 0) first[0] = m;
        if (verdict == SONDE_SEQUENTIAL_A && first[1] < 0) first[1] = m;
    }
    char text[160] = "", other[160] = "";
    if (first[0] >= 0) arms_change_text(v, first[0], text, sizeof(text));
    if (first[1] >= 0) arms_change_text(v, first[1], other, sizeof(other));
    if (better && worse) {
        v->name = "mixed";
        snprintf(v->text, sizeof(v->text), "b is better in one thing and worse in another: %s; %s",
                 text, other);
    } else if (better || worse) {
        v->name = better ? "b_better" : "a_better";
        snprintf(v->text, sizeof(v->text), "b is %s: %s", better ? "better" : "worse",
                 better ? text : other);
    } else if (same && same + empty == SONDE_ARM_MEASURE_COUNT) {
        v->name = "same";
        snprintf(v->text, sizeof(v->text), "no difference of %g %% or more",
                 100 * arms->settings.detect);
    } else {
        v->name = "undecided";
        snprintf(v->text, sizeof(v->text), "no difference found yet (%llu blocks of both servers)",
                 (unsigned long long)arms->measure[SONDE_ARM_E2E].pairs.pairs);
    }
}

static void arms_put_difference(struct sonde_buf *out, const struct arms_verdict *v, int m)
{
    const struct sonde_sequential_look *l = &v->look[m];
    static const char *const verdicts[] = {
        [SONDE_SEQUENTIAL_UNDECIDED] = "undecided", [SONDE_SEQUENTIAL_A] = "a_better",
        [SONDE_SEQUENTIAL_B] = "b_better", [SONDE_SEQUENTIAL_DIFFERENT] = "different",
        [SONDE_SEQUENTIAL_SAME] = "same" };
    sonde_json_open(out, '{');
    sonde_json_str(out, "measure", arm_measure_key((enum sonde_arm_measure)m));
    sonde_json_str(out, "title", arm_measure_title((enum sonde_arm_measure)m));
    sonde_json_str(out, "better", arm_measure_better((enum sonde_arm_measure)m) < 0 ? "less"
                                                                                    : "more");
    sonde_json_num(out, "a", l->a);
    sonde_json_num(out, "b", l->b);
    sonde_json_num(out, "change", l->change);
    sonde_json_num(out, "low", arm_finite(l->low));
    sonde_json_num(out, "high", arm_finite(l->high));
    sonde_json_num(out, "relative", arm_finite(l->relative));
    sonde_json_num(out, "relative_low", arm_finite(l->relative_low));
    sonde_json_num(out, "relative_high", arm_finite(l->relative_high));
    sonde_json_num(out, "p", l->p);
    sonde_json_u64(out, "blocks", l->pairs);
    sonde_json_num(out, "blocks_more", arm_finite(l->more));
    sonde_json_str(out, "verdict", verdicts[l->verdict]);
    sonde_json_close(out, '}');
}

static void arms_put_mirror(struct sonde_buf *out, const struct sonde_front_state *s)
{
    sonde_json_key_open(out, "mirror", '{');
    sonde_json_u64(out, "sent", s->copies_total);
    sonde_json_u64(out, "in_flight", s->copies);
    sonde_json_key_open(out, "dropped", '{');
    for (int i = 0; i < SONDE_FRONT_DROPS; i++) {
        sonde_json_u64(out, sonde_front_drop_name((enum sonde_front_drop)i), s->dropped_total[i]);
    }
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

void sonde_arms_json(struct sonde_arms *arms, struct sonde_buf *out)
{
    struct arms_verdict v = { .name = "undecided" };
    const struct sonde_sequential_arms *any = &arms->measure[SONDE_ARM_E2E];
    sonde_lock(&arms->lock);
    arms_judge(arms, &v);
    arms_look_for_trouble(arms, &v);
    sonde_json_open(out, '{');
    sonde_json_str(out, "mode", arms->mode == SONDE_FRONT_MIRROR ? "mirror" : "split");
    sonde_json_num(out, "share", arms->share);
    sonde_json_str(out, "session_header", arms->session[0] ? arms->session : NULL);
    sonde_json_time(out, "started", arms->started_s);
    sonde_json_num(out, "seconds", sonde_clock_s(CLOCK_REALTIME) - arms->started_s);
    sonde_json_str(out, "verdict", v.name);
    sonde_json_str(out, "text", v.text);
    sonde_json_key_open(out, "warnings", '[');
    for (size_t i = 0; i < v.warning_count; i++) sonde_json_str(out, NULL, v.warnings[i]);
    sonde_json_close(out, ']');
    sonde_json_num(out, "level", SONDE_SEQUENTIAL_LEVEL);
    sonde_json_num(out, "detect", arms->settings.detect);
    sonde_json_num(out, "block_seconds", any->block_s);
    sonde_json_u64(out, "block_requests", any->block_values);
    for (int arm = 0; arm < ARMS; arm++) arm_put(out, arms, arm);
    if (arms->mode == SONDE_FRONT_MIRROR) arms_put_mirror(out, &arms->state);
    else sonde_json_str(out, "mirror", NULL);
    sonde_json_key_open(out, "differences", '[');
    for (int m = 0; m < SONDE_ARM_MEASURE_COUNT; m++) arms_put_difference(out, &v, m);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
    sonde_unlock(&arms->lock);
}
