/* phases.c - where time goes: the sum of each phase, and its share. A panel for each group
 * (requests, steps of training). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "present/plot/kind.h"
#include "sonde/sonde.h"

static int phases_chart(const struct sonde_plot_data *d, const char *group,
                        struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    char v[SONDE_CHART_VALUE_BYTES], label[SONDE_CHART_LABEL_MAX];
    double all = 0;
    int rc = 0;
    struct sonde_chart *c = sonde_plot_page_chart(page, "name", "s");
    if (!c) return sonde_plot_page_full(page) ? 0 : SONDE_ENOMEM;
    struct sonde_chart_series *to = sonde_chart_series(c, "");
    to->mark = SONDE_MARK_BAR;
    c->horizontal = c->y_zero = 1;
    for (size_t at = 0; (s = sonde_plot_next(d, SONDE_ROLE_PHASE, &at)) != NULL;) {
        if (!strcmp(s->group, group)) all += sonde_plot_sum(s);
    }
    snprintf(c->title, sizeof(c->title), "where the time goes%s%.100s", group[0] ? ": " : "",
             group);
    snprintf(c->note, sizeof(c->note), "%s in all", sonde_chart_value(v, all, "s"));
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_PHASE, &at)) != NULL;) {
        const double sum = sonde_plot_sum(s);
        if (strcmp(s->group, group) != 0 || !(sonde_plot_weight(s) > 0)) continue;
        const int name = sonde_chart_name(c, s->name);
        if (name < 0) break;
        const size_t n =
            (size_t)snprintf(label, sizeof(label), "%s", sonde_chart_value(v, sum, "s"));
        if (all > 0) {
            snprintf(label + n, sizeof(label) - n, ", %s",
                     sonde_chart_value(v, sum / all, "share"));
        }
        rc = sonde_chart_add(c, to, name, sum, NAN, NAN, label);
    }
    sonde_plot_page_drop_empty(page);
    return rc;
}

static int phases_draw(const struct sonde_plot_data *d, struct sonde_plot_page *page)
{
    const struct sonde_plot_series *s;
    int rc = 0;
    for (size_t at = 0; !rc && (s = sonde_plot_next(d, SONDE_ROLE_PHASE, &at)) != NULL;) {
        int known = 0;
        for (const struct sonde_plot_series *e = d->series; e < s; e++) {
            known |= e->role == SONDE_ROLE_PHASE && e->count && !strcmp(e->group, s->group);
        }
        if (!known) rc = phases_chart(d, s->group, page);
    }
    return rc;
}

const struct sonde_plot_kind sonde_plot_phases = {
    .name = "phases",
    .summary = "where the time of requests, or of training steps, goes",
    .needs = "requests with phases, or phases of training",
    .hint =
        "Record an inference server, or a program that uses sonde/inference.h or sonde/ml.h, or "
        "give a data file with series of the role phase (docs/plot.md).",
    .role = SONDE_ROLE_PHASE,
    .draw = phases_draw,
};
