/* plot_gather_compare.c - see plot_gather.h: figures of runs, as `sonde diff` estimates them. The
 * first run is compared with each of the others; its own figures are of the first comparison that
 * has them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/compare.h"
#include "analyze/plot_gather.h"
#include "sonde/sonde.h"

/* As charts call them; NULL: it is not drawn. */
static const char *compare_plot_unit(const char *unit)
{
    static const struct { const char *is, *as; } units[] = {
        { "seconds", "s" }, { "bytes", "bytes" }, { "ratio", "share" }, { "per second", "1/s" },
        { "bytes per second", "bytes/s" } };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (!strcmp(units[i].is, unit)) return units[i].as;
    }
    return NULL;
}

static struct sonde_plot_series *compare_plot_find(struct sonde_plot_data *d, const char *name,
                                                   const char *group)
{
    for (size_t i = 0; i < d->count; i++) {
        struct sonde_plot_series *s = &d->series[i];
        if (s->role == SONDE_ROLE_FIGURE && !strcmp(s->name, name) && !strcmp(s->group, group)) {
            return s;
        }
    }
    return NULL;
}

static int compare_plot_add(struct sonde_plot_data *out, const struct sonde_compare_measure *f,
                            const struct sonde_estimate *e, const char *unit, const char *run)
{
    char name[SONDE_PLOT_NAME_MAX];
    snprintf(name, sizeof(name), "%.60s%s%.60s", f->title, f->subject[0] ? ", " : "", f->subject);
    if (compare_plot_find(out, name, run)) return 0;
    struct sonde_plot_series *s = sonde_plot_series_add(out, SONDE_ROLE_FIGURE, run, name);
    if (!s) return sonde_plot_data_full(out) ? 0 : SONDE_ENOMEM;
    s->unit = unit;
    s->better = f->better;
    const double t = e->df > 0 ? sonde_t_quantile(0.975, e->df) : NAN;
    const struct sonde_plot_value v = { .x = NAN, .y = e->value, .weight = 1,
                                        .low = fmax(0, e->value - t * e->se_low),
                                        .high = e->value + t * e->se_high };
    return sonde_plot_value_add(out, s, &v);
}

int sonde_plot_gather_compare(const struct sonde_profile *const *runs, const char *const *labels,
                              size_t count, struct sonde_plot_data *out)
{
    const struct sonde_compare_options o = { .kind = -1 };
    int rc = 0;
    for (size_t i = 1; i < count && rc != SONDE_ENOMEM; i++) {
        const struct sonde_compare_run a = { .profile = runs[0], .filter.kind = -1 };
        const struct sonde_compare_run b = { .profile = runs[i], .filter.kind = -1 };
        struct sonde_comparison *c;
        struct sonde_err err;
        rc = sonde_compare(&a, 1, &b, 1, &o, &c, &err);
        if (rc) continue; /* nothing in common: another may have */
        for (size_t k = 0; k < c->count && !rc; k++) {
            const struct sonde_compare_measure *f = &c->figures[k];
            const char *unit = compare_plot_unit(f->unit);
            if (!unit || f->group == SONDE_MEASURE_FUNCTIONS) continue;
            rc = compare_plot_add(out, f, &f->estimate[0], unit, labels[0]);
            if (!rc) rc = compare_plot_add(out, f, &f->estimate[1], unit, labels[i]);
        }
        sonde_comparison_destroy(c);
    }
    return rc == SONDE_ENOMEM ? rc : 0;
}
