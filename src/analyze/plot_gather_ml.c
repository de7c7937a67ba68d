/* plot_gather_ml.c - see plot_gather.h: epochs, phases of training, and workers. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>

#include "analyze/ml.h"
#include "analyze/plot_gather.h"
#include "sonde/sonde.h"

/* As the program counts them, or in order. */
static double gather_ml_epoch_number(const struct sonde_ml_training *t, uint32_t i)
{
    return t->epochs[i].epoch == INT64_MIN ? (double)i + 1 : (double)t->epochs[i].epoch;
}

static int gather_ml_epochs(const struct sonde_ml_training *t, const char *group,
                            struct sonde_plot_data *out)
{
    int rc = 0;
    for (uint32_t k = 0; k <= t->curve_count && !rc && t->epoch_count; k++) {
        const char *name = k < t->curve_count ? t->curve_names[k] : "seconds";
        struct sonde_plot_series *s = sonde_plot_series_add(out, SONDE_ROLE_EPOCH, group, name);
        if (!s) return sonde_plot_data_full(out) ? 0 : SONDE_ENOMEM;
        if (k == t->curve_count) s->unit = "s";
        for (uint32_t i = 0; i < t->epoch_count && !rc; i++) {
            const double y = k < t->curve_count ? sonde_ml_epoch_value(&t->epochs[i], name)
                                                : t->epochs[i].duration_s;
            rc = sonde_plot_xy_add(out, s, gather_ml_epoch_number(t, i), y);
        }
    }
    return rc;
}

static int gather_ml_phases(const struct sonde_ml_training *t, const char *label,
                            struct sonde_plot_data *out)
{
    char group[SONDE_PLOT_NAME_MAX];
    int rc = 0;
    snprintf(group, sizeof(group), "training %.60s%s%.40s", t->model, label[0] ? " of " : "",
             label);
    for (uint32_t i = 0; i < t->phase_count && !rc; i++) {
        struct sonde_plot_series *s = sonde_plot_series_add(out, SONDE_ROLE_PHASE, group,
                                                            t->phases[i].phase);
        if (!s) return sonde_plot_data_full(out) ? 0 : SONDE_ENOMEM;
        rc = sonde_plot_xy_add(out, s, NAN, t->phases[i].time.sum_s);
    }
    return rc;
}

static int gather_ml_worker(const struct sonde_ml_worker *w, const char *group,
                            struct sonde_plot_data *out)
{
    const struct sonde_ml_history *h = &w->utilizations;
    int rc = 0;
    if (!h->count && isnan(w->utilization)) return 0;
    struct sonde_plot_series *s = sonde_plot_series_add(out, SONDE_ROLE_WORKER, group, w->worker);
    if (!s) return sonde_plot_data_full(out) ? 0 : SONDE_ENOMEM;
    if (!h->count) return sonde_plot_xy_add(out, s, NAN, w->utilization);
    for (uint32_t i = 0; i < h->count && !rc; i++) {
        rc = sonde_plot_xy_add(out, s, h->time_s[i], h->value[i]);
    }
    return rc;
}

int sonde_plot_gather_ml(const struct sonde_profile *p, const char *label,
                         struct sonde_plot_data *out)
{
    struct sonde_ml *ml;
    int rc = sonde_ml_of_profile(p, &ml);
    if (rc || !ml) return rc;
    for (uint32_t i = 0; i < ml->training_count && !rc; i++) {
        const struct sonde_ml_training *t = &ml->trainings[i];
        char group[SONDE_PLOT_NAME_MAX];
        snprintf(group, sizeof(group), "%.60s%s%.40s", t->model, label[0] ? ", " : "", label);
        rc = gather_ml_epochs(t, group, out);
        if (!rc) rc = gather_ml_phases(t, label, out);
    }
    for (uint32_t i = 0; i < ml->worker_count && !rc; i++) {
        rc = gather_ml_worker(&ml->workers[i],
                              label[0]      ? label
                              : ml->several ? ml->workers[i].program
                                            : "",
                              out);
    }
    sonde_ml_destroy(ml);
    return rc;
}
