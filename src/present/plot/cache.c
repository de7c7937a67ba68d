/* cache.c - what caches had and had not, by tier; and the hit ratio over time where it is known. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "present/plot/kind.h"
#include "sonde/sonde.h"

/* The sum of a tier's series of a role: totals, or what was counted over time if there are none. */
static double cache_sum(const struct sonde_plot_data *d, enum sonde_plot_role role,
                        const struct sonde_plot_series *of)
{
    const struct sonde_plot_series *s;
    double sum[2] = { 0, 0 };
    int totals = 0;
    for (size_t at = 0; (s = sonde_plot_next(d, role, &at)) != NULL;) {
        const int timed = sonde_plot_has_x(s);
        if (strcmp(s->name, of->name) != 0 || strcmp(s->group, of->group) != 0) continue;
        sum[timed] += sonde_plot_sum(s);
        totals |= !timed;
    }
    return sum[!totals];
}

static int cache_first(const struct sonde_plot_data *d, const struct sonde_plot_series *s)
{
    for (const struct sonde_plot_series *e = d->series; e < s; e++) {
        if ((e->role == SONDE_ROLE_HITS || e->role == SONDE_ROLE_MISSES) && e->count &&
            !strcmp(e->name, s->name) && !strcmp(e->group, s->group)) return 0;
    }
    return 1;
}

/* A row of either chart for every tier that was asked. */
static int cache_rows(const struct sonde_plot_data *d, int ratio, struct sonde_chart *c)
{
    int rc = 0;
    for (size_t i = 0; i < d->count && !rc; i++) {
        const struct sonde_plot_series *s = &d->series[i];
        char label[SONDE_PLOT_LABEL_BYTES], text[SONDE_CHART_LABEL_MAX], v[SONDE_CHART_VALUE_BYTES];
        if ((s->role != SONDE_ROLE_HITS && s->role != SONDE_ROLE_MISSES) || !s->count) continue;
        if (!cache_first(d, s)) continue;
        const double hits = cache_sum(d, SONDE_ROLE_HITS, s);
        const double misses = cache_sum(d, SONDE_ROLE_MISSES, s), all = hits + misses;
        if (!(all > 0)) continue;
        const int name = sonde_chart_name(c, sonde_plot_label(d, s, label));
        if (name < 0) continue;
        sonde_chart_value(v, hits / all, "share");
        if (ratio) {
            rc = sonde_chart_add(c, &c->series[0], name, hits / all, NAN, NAN, v);
            continue;
        }
        snprintf(text, sizeof(text), "%.7g and %.7g", hits, misses);
        rc = sonde_chart_add(c, &c->series[0], name, hits, NAN, NAN, NULL);
        if (!rc) rc = sonde_chart_add(c, &c->series[1], name, misses, NAN, NAN, text);
    }
    return rc;
}

static int cache_bars(const struct sonde_plot_data *d, int ratio, struct sonde_plot_page *page)
{
    struct sonde_chart *c = sonde_plot_page_chart(page, "name", ratio ? "share" : "");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    c->horizontal = c->y_zero = 1;
    c->y_one = ratio;
    c->stacked = !ratio;
    snprintf(c->title, sizeof(c->title), "%s", ratio ? "hit ratio by tier" : "look-ups by tier");
    sonde_chart_series(c, ratio ? "" : "hits")->mark = SONDE_MARK_BAR;
    if (!ratio) sonde_chart_series(c, "misses")->mark = SONDE_MARK_BAR;
    const int rc = cache_rows(d, ratio, c);
    sonde_plot_page_drop_empty(page);
    return rc;
}

/* Of hits and misses at the same times. */
static int cache_tier_over_time(const struct sonde_plot_data *d,
                                const struct sonde_plot_series *hits, struct sonde_chart *c)
{
    const struct sonde_plot_series *misses = NULL, *s;
    char label[SONDE_PLOT_LABEL_BYTES];
    int rc = 0;
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_MISSES, &at)) != NULL;) {
        if (!strcmp(s->name, hits->name) && !strcmp(s->group, hits->group) && sonde_plot_has_x(s)) {
            misses = s;
        }
    }
    if (!misses || misses->count != hits->count) return 0;
    struct sonde_chart_series *to = sonde_chart_series(c, sonde_plot_label(d, hits, label));
    if (!to) return 0;
    to->mark = SONDE_MARK_CURVE;
    for (size_t i = 0; i < hits->count && !rc; i++) {
        const double all = hits->values[i].y + misses->values[i].y, x = hits->values[i].x;
        if (!(all > 0)) rc = sonde_chart_add_gap(c, to, x);
        else rc = sonde_chart_add(c, to, x, hits->values[i].y / all, NAN, NAN, NULL);
    }
    return rc;
}

static int cache_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    int rc = cache_bars(d, 0, page);
    if (!rc) rc = cache_bars(d, 1, page);
    if (rc) return rc;
    struct sonde_chart *c = sonde_plot_page_chart(page, "time", "share");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "hit ratio over time");
    c->y_zero = c->y_one = 1;
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_HITS, &at)) != NULL;) {
        if (sonde_plot_has_x(s)) rc = cache_tier_over_time(d, s, c);
    }
    sonde_plot_page_drop_empty(page);
    return rc;
}

const struct sonde_plot_kind sonde_plot_cache = {
    .name = "cache",
    .summary = "hits and misses by tier, and hit ratio",
    .needs = "accesses to caches",
    .hint = "Record them with sonde_cache_access() (sonde.h), or give a data file with series of "
            "the roles hits and misses (docs/plot.md).",
    .role = SONDE_ROLE_HITS,
    .draw = cache_draw,
};
