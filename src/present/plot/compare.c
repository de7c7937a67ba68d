/* compare.c - figures of several runs beside each other, each with its 95 % interval, on an axis of
 * its own. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "present/plot/kind.h"
#include "sonde/sonde.h"

enum { COMPARE_SHOWN = 12 };

static const struct sonde_plot_value *compare_value(const struct sonde_plot_series *s)
{
    return s->count && isfinite(s->values[0].y) ? &s->values[0] : NULL;
}

/* "+3.1 %; less is better" */
static void compare_chart_note(struct sonde_chart *c, double first, double last, int better)
{
    size_t n = 0;
    c->note[0] = '\0';
    if (isfinite(first) && isfinite(last) && fabs(first) > 0) {
        n = (size_t)snprintf(c->note, sizeof(c->note), "%+.1f %% from first to last",
                             100 * (last - first) / fabs(first));
    }
    if (better) {
        snprintf(c->note + n, sizeof(c->note) - n, "%s%s is better", n ? "; " : "",
                 better < 0 ? "less" : "more");
    }
}

static int compare_chart(const struct sonde_plot_data *d, const struct sonde_plot_series *of,
                         struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    double first = NAN, last = NAN;
    int rc = 0;
    struct sonde_chart *c = sonde_plot_page_chart(page, "name", of->unit);
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    snprintf(c->title, sizeof(c->title), "%s", of->name);
    c->horizontal = 1;
    struct sonde_chart_series *to = sonde_chart_series(c, "");
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_FIGURE, &at)) != NULL;) {
        const struct sonde_plot_value *v = compare_value(s);
        char text[SONDE_CHART_VALUE_BYTES];
        if (!v || strcmp(s->name, of->name) != 0) continue;
        const int name = sonde_chart_name(c, s->group);
        if (name < 0) break;
        if (isnan(first)) first = v->y;
        last = v->y;
        rc = sonde_chart_add(c, to, name, v->y, v->low, v->high,
                             sonde_chart_value(text, v->y, s->unit));
    }
    if (to->count > 1) compare_chart_note(c, first, last, of->better);
    sonde_plot_page_drop_empty(page);
    return rc;
}

static int compare_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    const size_t before = page->count;
    size_t left = 0;
    int rc = 0;
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_FIGURE, &at)) != NULL;) {
        int known = 0;
        for (const struct sonde_plot_series *e = d->series; e < s; e++) {
            known |= e->role == SONDE_ROLE_FIGURE && e->count && !strcmp(e->name, s->name);
        }
        if (known) continue;
        if (page->count - before < COMPARE_SHOWN) rc = compare_chart(d, s, page);
        else left++;
    }
    if (left && !page->note[0]) {
        snprintf(page->note, sizeof(page->note), "%zu more figures not shown: --of NAME chooses",
                 left);
    }
    return rc;
}

const struct sonde_plot_kind sonde_plot_compare = {
    .name = "compare",
    .summary = "figures of two or more runs, with 95 % intervals",
    .needs = "two or more recordings, or results of `sonde bench`",
    .hint =
        "Name them one after the other: sonde plot compare before.run after.run; or give a data "
        "file with series of the role figure (docs/plot.md).",
    .role = SONDE_ROLE_FIGURE,
    .draw = compare_draw,
};
