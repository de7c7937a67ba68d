/* scaling.c - throughput by workers, and the universal scalability law fitted to it
 * (analyze/usl.h): solid is measured, dashed the law. */
#include <math.h>
#include <stdio.h>

#include "analyze/usl.h"
#include "present/plot/kind.h"
#include "sonde/sonde.h"

enum { SCALING_CURVE = 60, SCALING_SEED = 1 };

/* 0 and the law; SONDE_EINVAL: too few points for one. */
static int scaling_fit(const struct sonde_plot_series *s, struct sonde_usl *out)
{
    struct sonde_usl_point points[SONDE_USL_POINTS_MAX];
    size_t n = 0;
    for (size_t i = 0; i < s->count && n < SONDE_USL_POINTS_MAX; i++) {
        const struct sonde_plot_value *v = &s->values[i];
        if (!(v->x >= 1) || !(v->y > 0) || !isfinite(v->x) || !isfinite(v->y)) continue;
        /* An interval of 95 % is 1.96 standard errors each way; how many values it rests on is not
         * told here. */
        const double se = (v->high - v->low) / (2 * 1.96);
        points[n++] = (struct sonde_usl_point){ .n = v->x, .throughput = v->y,
                                                .se = isfinite(se) && se > 0 ? se : 0, .df = 10 };
    }
    return n ? sonde_usl_fit(points, n, SCALING_SEED, out) : SONDE_EINVAL;
}

static int scaling_curve(struct sonde_chart *c, const struct sonde_usl *u, int color)
{
    struct sonde_chart_series *to = sonde_chart_series(c, "");
    int rc = 0;
    if (!to) return 0;
    to->mark = SONDE_MARK_DASHED;
    to->color = color;
    for (int i = 0; i <= SCALING_CURVE && !rc; i++) {
        const double n = 1 + (u->seen_n - 1) * i / SCALING_CURVE;
        rc = sonde_chart_add(c, to, n, sonde_usl_at(u, n), NAN, NAN, NULL);
    }
    return rc;
}

static void scaling_note(struct sonde_chart *c, const struct sonde_usl *u)
{
    char best[64] = "more is always more";
    if (isfinite(u->best_n.value)) {
        snprintf(best, sizeof(best), "most with %.1f workers", u->best_n.value);
    }
    snprintf(c->note, sizeof(c->note), "dashed: universal scalability law; contention %.2f %%, "
             "coherence %.3f %%, %s", 100 * u->contention.value, 100 * u->coherence.value, best);
}

static int scaling_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    size_t at = 0, laws = 0;
    int rc = 0;
    if (!sonde_plot_next(d, SONDE_ROLE_SCALING, &at)) return 0;
    struct sonde_chart *c = sonde_plot_page_chart(page, "", "1/s");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "throughput by workers");
    snprintf(c->x_title, sizeof(c->x_title), "workers");
    c->y_zero = 1;
    for (at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_SCALING, &at)) != NULL;) {
        char label[SONDE_PLOT_LABEL_BYTES];
        struct sonde_usl u;
        if (c->series_count + 2 > SONDE_CHART_SERIES_MAX) break;
        rc = sonde_plot_add_series(c, s, sonde_plot_label(d, s, label), SONDE_MARK_DOTS, 0);
        const int color = (int)c->series_count;
        if (rc || scaling_fit(s, &u)) continue;
        rc = scaling_curve(c, &u, color);
        if (!laws++) scaling_note(c, &u);
    }
    if (laws > 1) snprintf(c->note, sizeof(c->note), "dashed: universal scalability law, fitted");
    if (!laws) {
        snprintf(c->note, sizeof(c->note),
                 "three different numbers of workers are needed to fit the "
                 "universal scalability law");
    }
    sonde_plot_page_drop_empty(page);
    return rc;
}

const struct sonde_plot_kind sonde_plot_scaling = {
    .name = "scaling",
    .summary = "throughput by workers, with the fitted universal scalability law",
    .needs = "throughput by workers",
    .hint = "Measure it with `sonde bench cmd --parallel 1,2,4,8`, or give a data file with series "
            "of the role scaling (docs/plot.md).",
    .role = SONDE_ROLE_SCALING,
    .draw = scaling_draw,
};
