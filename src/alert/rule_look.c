/* rule_look.c - rules against the model. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "alert/rule.h"
#include "model/window.h"
#include "sonde/sonde.h"

struct rule_look {
    struct alert_rule *rule;
    const struct sonde_model *model;
    struct alert_table *table;
    uint64_t round;
    double now_s;
};

int alert_rule_holds(const struct alert_rule *r, double v, int firing)
{
    const double above = firing && !isnan(r->clear) ? r->clear : r->above;
    const double below = firing && !isnan(r->clear) ? r->clear : r->below;
    return (!isnan(r->above) && v > above) || (!isnan(r->below) && v < below);
}

/* ---- Telling --------------------------------------------------------------------------------- */

static void rule_summary(const struct alert_rule *r, double v, int holds, const char *labels,
                         char *out, size_t out_size)
{
    char what[700], limit[80];
    const int over = !isnan(r->above) && (isnan(r->below) || v > r->above);
    snprintf(limit, sizeof(limit), "%s %g", over ? "above" : "below", over ? r->above : r->below);
    if (r->per.series) {
        snprintf(what, sizeof(what), "%s per %s", r->of.series, r->per.series);
    } else if (r->function == ALERT_LAST) {
        snprintf(what, sizeof(what), "%s", r->of.series);
    } else {
        snprintf(what, sizeof(what), "%s of %s over %g s", alert_function_name(r->function),
                 r->of.series, r->window_s);
    }
    snprintf(out, out_size, "%s: %s%s%s%s is %.6g%s (limit: %s)", r->name, what,
             *labels ? " {" : "", labels, *labels ? "}" : "", v, holds ? "" : " again", limit);
}

static void rule_tell(struct rule_look *l, double v, const struct sonde_label *labels, size_t count,
                      const char *label_text)
{
    struct alert_rule *r = l->rule;
    char summary[1600], key[ALERT_KEY_MAX], link[256];
    struct alert_labels sorted;
    if (alert_labels_copy(&sorted, labels, count) != 0) return;
    alert_subject_key(r->name, NULL, &sorted, key);
    const struct alert_entry *known = alert_table_find(l->table, key);
    const int holds = alert_rule_holds(r, v, known && known->active &&
                                                 known->state == ALERT_FIRING);
    rule_summary(r, v, holds, label_text, summary, sizeof(summary));
    snprintf(link, sizeof(link), "/api/query?name=%s", r->of.glob ? "" : r->of.series);
    const struct sonde_alert_event e = {
        .kind = r->name, .severity = r->severity, .labels = sorted.at, .label_count = sorted.count,
        .summary = summary, .value = v, .link = r->of.glob ? NULL : link, .firing = holds,
        .time_s = l->now_s, .for_s = r->for_s, .keep_s = r->keep_s,
    };
    alert_table_tell(l->table, &e, ALERT_RULE, l->round, NULL);
    alert_labels_release(&sorted);
    r->matched++;
    const int worse = isnan(r->value) || (!isnan(r->above) ? v > r->value : v < r->value);
    if (worse) r->value = v;
}

/* ---- Series ---------------------------------------------------------------------------------- */

static double rule_pick(const struct sonde_window *w, enum alert_function f)
{
    switch (f) {
    case ALERT_LAST: return w->last;
    case ALERT_AVG: return w->avg;
    case ALERT_MIN: return w->min;
    case ALERT_MAX: return w->max;
    case ALERT_P50: return w->p50;
    case ALERT_P90: return w->p90;
    case ALERT_P95: return w->p95;
    case ALERT_P99: return w->p99;
    case ALERT_RATE: return w->rate;
    case ALERT_INCREASE: return w->total;
    case ALERT_RATIO: break;
    }
    return NAN;
}

static double rule_value(const struct rule_look *l, const struct sonde_model_series *s)
{
    const enum alert_function f = l->rule->function;
    struct sonde_window w;
    /* Gauges that are too many for a history still have what they are now. */
    if (f == ALERT_LAST && s->family->type == SONDE_GAUGE) return s->gauge;
    if (f == ALERT_INCREASE && s->family->type == SONDE_GAUGE) return NAN;
    sonde_window_stats(l->model, s, l->rule->window_s, &w);
    return rule_pick(&w, f);
}

/* What a series counted in the window: records of a histogram. */
static double rule_amount(const struct rule_look *l, const struct sonde_model_series *s)
{
    struct sonde_window w;
    if (s->family->type == SONDE_GAUGE) return s->gauge;
    sonde_window_stats(l->model, s, l->rule->window_s, &w);
    const double amount = s->family->type == SONDE_HISTOGRAM ? w.count : w.total;
    return isnan(amount) ? 0 : amount;
}

static int rule_is_live(const struct sonde_model_series *s)
{
    return !s->process || s->process->state == SONDE_PROCESS_RUNNING;
}

static void rule_each_in(struct rule_look *l, const struct sonde_filter *filter,
                         const struct sonde_model_family *f,
                         void (*each)(struct rule_look *l, const struct sonde_model_series *s,
                                      void *arg),
                         void *arg)
{
    for (size_t i = 0; i < f->series_count; i++) {
        const struct sonde_model_series *s = f->series[i];
        if (rule_is_live(s) && sonde_filter_series(filter, s)) each(l, s, arg);
    }
}

static void rule_each_series(struct rule_look *l, const struct alert_which *w,
                             void (*each)(struct rule_look *l, const struct sonde_model_series *s,
                                          void *arg),
                             void *arg)
{
    struct sonde_filter filter = { .label_count = w->labels.count };
    assert(w->labels.count <= sizeof(filter.label) / sizeof(filter.label[0]));
    for (size_t i = 0; i < w->labels.count; i++) filter.label[i] = w->labels.at[i];
    if (!w->glob) {
        const struct sonde_model_family *f = sonde_model_family_find(l->model, w->series);
        if (f) rule_each_in(l, &filter, f, each, arg);
        return;
    }
    filter.name = w->series;
    for (size_t i = 0; i < l->model->family_count; i++) {
        const struct sonde_model_family *f = l->model->families[i];
        if (sonde_filter_family(&filter, f)) rule_each_in(l, &filter, f, each, arg);
    }
}

static void rule_on_series(struct rule_look *l, const struct sonde_model_series *s, void *arg)
{
    (void)arg;
    const double v = rule_value(l, s);
    if (isnan(v)) return;
    if (!l->rule->of.glob) {
        rule_tell(l, v, s->labels, s->label_count, s->label_text);
        return;
    }
    /* Of a glob, the name is what tells series of two families apart. */
    struct sonde_label labels[SONDE_ALERT_LABELS_MAX];
    size_t n = 0;
    labels[n++] = (struct sonde_label){ "series", s->family->name };
    for (size_t i = 0; i < s->label_count && n < SONDE_ALERT_LABELS_MAX; i++) {
        labels[n++] = s->labels[i];
    }
    rule_tell(l, v, labels, n, s->label_text);
}

/* ---- Quotients ------------------------------------------------------------------------------- */

struct rule_group {
    const char *value[ALERT_RULE_BY_MAX]; /* of the series' labels, under the model's lock */
    double of, per;
};

struct rule_groups {
    struct rule_group at[ALERT_RULE_GROUPS_MAX];
    size_t count;
    int numerator;
};

static const char *rule_label_of(const struct sonde_model_series *s, const char *name)
{
    for (size_t i = 0; i < s->label_count; i++) {
        if (!strcmp(s->labels[i].name, name)) return s->labels[i].value;
    }
    return "";
}

static struct rule_group *rule_group_of(const struct alert_rule *r, struct rule_groups *g,
                                        const struct sonde_model_series *s)
{
    const char *value[ALERT_RULE_BY_MAX] = { NULL };
    for (size_t k = 0; k < r->by_count; k++) value[k] = rule_label_of(s, r->by[k]);
    for (size_t i = 0; i < g->count; i++) {
        int same = 1;
        for (size_t k = 0; k < r->by_count && same; k++) {
            same = !strcmp(g->at[i].value[k], value[k]);
        }
        if (same) return &g->at[i];
    }
    /* Nothing divides what has no divisor. */
    if (g->numerator || g->count == ALERT_RULE_GROUPS_MAX) return NULL;
    struct rule_group *const one = &g->at[g->count++];
    *one = (struct rule_group){ .of = 0 };
    memcpy(one->value, value, sizeof(value));
    return one;
}

static void rule_on_part(struct rule_look *l, const struct sonde_model_series *s, void *arg)
{
    struct rule_groups *g = arg;
    struct rule_group *one = rule_group_of(l->rule, g, s);
    if (!one) return;
    if (g->numerator) one->of += rule_amount(l, s);
    else one->per += rule_amount(l, s);
}

static void rule_look_ratio(struct rule_look *l)
{
    const struct alert_rule *r = l->rule;
    struct rule_groups g = { .count = 0 };
    rule_each_series(l, &r->per, rule_on_part, &g);
    g.numerator = 1;
    rule_each_series(l, &r->of, rule_on_part, &g);
    for (size_t i = 0; i < g.count; i++) {
        const struct rule_group *one = &g.at[i];
        if (!(one->per > 0) || one->per < r->count_min) continue;
        struct sonde_label labels[ALERT_RULE_BY_MAX];
        char text[512] = "";
        size_t n = 0, len = 0;
        for (size_t k = 0; k < r->by_count; k++) {
            if (!*one->value[k]) continue;
            labels[n++] = (struct sonde_label){ r->by[k], one->value[k] };
            if (len < sizeof(text)) {
                len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=\"%s\"",
                                        len ? "," : "", r->by[k], one->value[k]);
            }
        }
        rule_tell(l, one->of / one->per, labels, n, text);
    }
}

/* ---- All of them ----------------------------------------------------------------------------- */

void alert_rules_look(struct alert_rules *r, const struct sonde_model *m, struct alert_table *t,
                      uint64_t round, double now_s)
{
    if (m->shared) sonde_assert_held(&m->lock);
    for (size_t i = 0; i < r->count; i++) {
        struct rule_look l = { &r->at[i], m, t, round, now_s };
        l.rule->matched = 0;
        l.rule->value = NAN;
        if (l.rule->function == ALERT_RATIO) rule_look_ratio(&l);
        else rule_each_series(&l, &l.rule->of, rule_on_series, NULL);
    }
}
