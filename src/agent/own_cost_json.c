/* own_cost_json.c - what sonde costs, in words, as JSON, as series of the model, and as facts of a
 * profile; see own_cost_control.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/own_cost_private.h"
#include "base/percent.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "sonde/sonde.h"

/* ---- Words ----------------------------------------------------------------------------------- */

static const char *const measure_titles[] = {
#define SONDE__X(id, name, title) title,
    SONDE_OWN_COST_MEASURES(SONDE__X)
#undef SONDE__X
};

/* The figure that speaks for all, once it has an interval; NULL = there is none. */
static const struct sonde_own_cost_figure *own_cost_headline(
    const struct sonde_own_cost_control *c)
{
    const struct own_cost_plan *p = &c->shown;
    return p->has_headline && !isnan(p->figures[0].estimate.ratio) ? &p->figures[0] : NULL;
}

/* Pairs that are missing until there is an interval; 0 = there is one, or nobody knows. */
static size_t own_cost_more(const struct own_cost_plan *p)
{
    size_t most = 0;
    for (size_t i = 0; i < p->figure_count; i++) {
        if (p->figures[i].estimate.pairs > most) most = p->figures[i].estimate.pairs;
    }
    return most < SONDE_OWN_COST_PAIRS_MIN ? SONDE_OWN_COST_PAIRS_MIN - most : 0;
}

/* Why there is no interval. */
static void own_cost_why(const struct own_cost_plan *p, char *out, size_t size)
{
    const size_t more = own_cost_more(p);
    if (p->reason[0]) {
        snprintf(out, size, "%s", p->reason);
    } else if (!p->figure_count && p->cost.pair_count >= SONDE_OWN_COST_PAIRS_MIN) {
        snprintf(out, size, "nothing that the program counts can be compared: less than 50 in a "
                 "window, or longer than a tenth of it, or driven by the clock; cost.work names a "
                 "series that counts its work");
    } else {
        snprintf(out, size, "%zu pair%s of windows more", more ? more : 1, more == 1 ? "" : "s");
    }
}

void own_cost_text(const struct sonde_own_cost_control *c, char *out, size_t size)
{
    sonde_assert_held(&c->lock);
    const struct own_cost_plan *p = &c->shown;
    const struct sonde_own_cost_figure *f = own_cost_headline(c);
    char percent[64], why[320];
    if (f) {
        sonde_own_cost_percent(&f->estimate, percent, sizeof(percent));
        snprintf(out, size, "sonde costs this program %s (%s %s; %zu pairs of windows)", percent,
                 measure_titles[f->measure], p->cost.works[f->work].name, f->estimate.pairs);
        return;
    }
    own_cost_why(p, why, sizeof(why));
    if (!isnan(c->direct.ratio)) {
        char share[SONDE_PERCENT_BYTES];
        snprintf(out, size, "sonde costs this program about %s (an estimate: %.2g us per "
                 "sample; not compared: %s)", sonde_percent_text(share, c->direct.ratio),
                 1e6 * c->direct.sample_s, why);
    } else {
        snprintf(out, size, "what sonde costs this program is not known yet: %s", why);
    }
}

void sonde_own_cost_annotate(struct sonde_profile *p, void *arg)
{
    struct sonde_own_cost_control *c = arg;
    char text[SONDE_OWN_COST_TEXT_MAX];
    if (!c) return;
    sonde_lock(&c->lock);
    const struct sonde_own_cost_figure *f = own_cost_headline(c);
    own_cost_text(c, text, sizeof(text));
    p->cost = (struct sonde_profile_cost){ .ratio = c->direct.ratio, .low = NAN, .high = NAN };
    if (f) {
        p->cost = (struct sonde_profile_cost){ .pairs = (uint32_t)f->estimate.pairs,
                                               .ratio = f->estimate.ratio,
                                               .low = f->estimate.low,
                                               .high = f->estimate.high };
    }
    sonde_unlock(&c->lock);
    p->cost.text = sonde_profile_cstring(p, text);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void own_cost_put_figure(const struct own_cost_plan *p,
                                const struct sonde_own_cost_figure *f, struct sonde_buf *out)
{
    sonde_json_str(out, "measure", f ? sonde_own_cost_measure_name(f->measure) : NULL);
    sonde_json_str(out, "work", f ? p->cost.works[f->work].name : NULL);
    sonde_json_num(out, "ratio", f ? f->estimate.ratio : NAN);
    sonde_json_num(out, "low", f ? f->estimate.low : NAN);
    sonde_json_num(out, "high", f ? f->estimate.high : NAN);
    sonde_json_u64(out, "pairs", f ? f->estimate.pairs : 0);
}

static void own_cost_put_measured(const struct sonde_own_cost_control *c, struct sonde_buf *out)
{
    sonde_assert_held(&c->lock);
    const struct own_cost_plan *p = &c->shown;
    const struct sonde_own_cost_figure *f = own_cost_headline(c);
    char why[320];
    if (f) {
        sonde_json_str(out, "method", "comparison");
        own_cost_put_figure(p, f, out);
    } else {
        sonde_json_str(out, "method", isnan(c->direct.ratio) ? NULL : "estimate");
        sonde_json_str(out, "measure", NULL);
        sonde_json_str(out, "work", NULL);
        sonde_json_num(out, "ratio", c->direct.ratio);
        sonde_json_num(out, "low", NAN);
        sonde_json_num(out, "high", NAN);
        sonde_json_u64(out, "pairs", 0);
    }
    sonde_json_num(out, "confidence", 0.95);
    sonde_json_u64(out, "pairs_more", f ? 0 : own_cost_more(p));
    sonde_json_u64(out, "pairs_dropped", p->dropped);
    sonde_json_num(out, "window_seconds", p->settings.window_s);
    const double now_s = sonde_clock_s(CLOCK_MONOTONIC);
    const double off_s = p->off_s + (p->off_since_s > 0 ? now_s - p->off_since_s : 0);
    sonde_json_num(out, "off_seconds", off_s);
    sonde_json_num(out, "off_ratio", p->began_s > 0 && now_s > p->began_s
                                         ? off_s / (now_s - p->began_s) : NAN);
    sonde_json_num(out, "rate_hz", p->rate_hz > 0 ? p->rate_hz : NAN);
    own_cost_why(p, why, sizeof(why));
    sonde_json_str(out, "reason", f ? NULL : why);
}

/* The same members where nothing is measured. */
static void own_cost_put_nothing(struct sonde_buf *out)
{
    static const char *const unknown[] = { "method", "measure", "work", "ratio", "low", "high" };
    static const char *const later[] = { "window_seconds", "off_seconds", "off_ratio", "rate_hz" };
    sonde_json_str(out, "state", "off");
    sonde_json_str(out, "text", NULL);
    for (size_t i = 0; i < SONDE_COUNT(unknown); i++) sonde_json_str(out, unknown[i], NULL);
    sonde_json_u64(out, "pairs", 0);
    sonde_json_num(out, "confidence", 0.95);
    sonde_json_u64(out, "pairs_more", 0);
    sonde_json_u64(out, "pairs_dropped", 0);
    for (size_t i = 0; i < SONDE_COUNT(later); i++) sonde_json_str(out, later[i], NULL);
    sonde_json_str(out, "reason", "nothing is compared: cost.enabled is false, or profiles are not "
                   "taken all the time (see continuous)");
    sonde_json_str(out, "estimate", NULL);
    sonde_json_key_open(out, "measures", '[');
    sonde_json_close(out, ']');
}

void sonde_own_cost_json(struct sonde_own_cost_control *c, struct sonde_buf *out)
{
    char text[SONDE_OWN_COST_TEXT_MAX];
    sonde_json_open(out, '{');
    sonde_json_bool(out, "enabled", c != NULL);
    sonde_json_str(out, "covers", "cpu_sampling");
    if (!c) {
        own_cost_put_nothing(out);
        sonde_json_close(out, '}');
        return;
    }
    sonde_lock(&c->lock);
    const struct own_cost_plan *p = &c->shown;
    own_cost_text(c, text, sizeof(text));
    sonde_json_str(out, "state", p->reason[0] ? "waiting" : "measuring");
    sonde_json_str(out, "text", text);
    own_cost_put_measured(c, out);
    sonde_json_key_open(out, "estimate", '{');
    sonde_json_num(out, "ratio", c->direct.ratio);
    sonde_json_num(out, "sample_cost_seconds", c->direct.sample_s);
    sonde_json_str(out, "reason", c->direct.why[0] ? c->direct.why : NULL);
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "measures", '[');
    for (size_t i = 0; i < p->figure_count; i++) {
        sonde_json_open(out, '{');
        own_cost_put_figure(p, &p->figures[i], out);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_unlock(&c->lock);
    sonde_json_close(out, '}');
}

/* ---- Series ---------------------------------------------------------------------------------- */

enum { RATIO, LOW, HIGH, PAIRS, OFF, SERIES };

struct own_cost_series {
    struct sonde_model_series *at[SERIES];
    char measure[32], work[SONDE_OWN_COST_NAME_MAX]; /* labels of the first three */
};

static const struct sonde_model_family_spec families[SERIES] = {
    [RATIO] = { .name = "sonde_cost_ratio", .type = SONDE_GAUGE, .unit = "ratio",
                .help = "Share of the program's time that CPU sampling takes, by windows with it "
                        "off and on; measure=\"estimate\": computed from what a sample takes." },
    [LOW] = { .name = "sonde_cost_low_ratio", .type = SONDE_GAUGE, .unit = "ratio",
              .help = "Lower end of the 95 % interval of sonde_cost_ratio." },
    [HIGH] = { .name = "sonde_cost_high_ratio", .type = SONDE_GAUGE, .unit = "ratio",
               .help = "Upper end of the 95 % interval of sonde_cost_ratio." },
    [PAIRS] = { .name = "sonde_cost_pairs_total", .type = SONDE_COUNTER,
                .help = "Pairs of windows, with sampling off and on, that were compared." },
    [OFF] = { .name = "sonde_cost_off_seconds_total", .type = SONDE_COUNTER, .unit = "seconds",
              .scale = 1e-9,
              .help = "Time without CPU samples, to measure what they cost." },
};

static void own_cost_define(struct sonde_model *m, struct own_cost_series *s, int i)
{
    struct sonde_model_family_spec spec = families[i];
    const struct sonde_label labels[] = { { "measure", s->measure }, { "work", s->work } };
    spec.source = "sonde";
    if (!s->at[i]) s->at[i] = sonde_model_own_series(m, &spec, NULL, labels, i <= HIGH ? 2 : 0);
}

/* What speaks for all may be another figure now: its series go. */
static void own_cost_relabel(struct sonde_model *m, struct own_cost_series *s, const char *measure,
                             const char *work)
{
    if (!strcmp(s->measure, measure) && !strcmp(s->work, work)) return;
    for (int i = RATIO; i <= HIGH; i++) {
        if (s->at[i]) sonde_model_series_forget(m, s->at[i]);
        s->at[i] = NULL;
    }
    snprintf(s->measure, sizeof(s->measure), "%s", measure);
    snprintf(s->work, sizeof(s->work), "%s", work);
}

void own_cost_show(struct sonde_own_cost_control *c)
{
    struct sonde_model *m = sonde_collector_model(c->o.collector);
    if (!c->series) c->series = sonde__calloc(1, sizeof(*c->series));
    struct own_cost_series *s = c->series;
    if (!s || !(c->plan.rate_hz > 0)) return; /* nothing was sampled yet */
    sonde_lock(&c->lock);
    const struct sonde_own_cost_figure *f = own_cost_headline(c);
    const struct sonde_own_cost_figure figure = f ? *f : (struct sonde_own_cost_figure){ 0 };
    const double direct = c->direct.ratio;
    sonde_unlock(&c->lock);
    const double gauges[] = { [RATIO] = f ? figure.estimate.ratio : direct,
                              [LOW] = f ? figure.estimate.low : NAN,
                              [HIGH] = f ? figure.estimate.high : NAN };
    sonde_wrlock(&m->lock);
    own_cost_relabel(m, s, f ? sonde_own_cost_measure_name(figure.measure) : "estimate",
                     f ? c->plan.cost.works[figure.work].name : "");
    for (int i = RATIO; i <= HIGH; i++) {
        if (isnan(gauges[i])) continue;
        own_cost_define(m, s, i);
        if (s->at[i]) s->at[i]->gauge = gauges[i];
    }
    own_cost_define(m, s, PAIRS);
    own_cost_define(m, s, OFF);
    if (s->at[PAIRS]) s->at[PAIRS]->counter = c->plan.cost.pair_count;
    if (s->at[OFF]) s->at[OFF]->counter = (uint64_t)(c->plan.off_s * 1e9);
    sonde_rwunlock(&m->lock);
}

void own_cost_series_free(struct own_cost_series *s) { sonde__free(s); }
