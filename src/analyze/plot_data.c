/* plot_data.c - see plot_data.h. */
#include "analyze/plot_data.h"

#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

static const struct { const char *name, *unit; } roles[] = {
#define SONDE__X(id, name, unit, timed) { name, unit },
    SONDE_PLOT_ROLES(SONDE__X)
#undef SONDE__X
};

const char *sonde_plot_role_name(enum sonde_plot_role r) { return roles[r].name; }
const char *sonde_plot_role_unit(enum sonde_plot_role r) { return roles[r].unit; }

int sonde_plot_role_find(const char *name)
{
    for (size_t i = 0; i < SONDE_COUNT(roles); i++) {
        if (!strcmp(roles[i].name, name)) return (int)i;
    }
    return -1;
}

const char *sonde_plot_unit_find(const char *unit)
{
    static const char *const units[] = { "s", "bytes", "1/s", "bytes/s", "share", "ratio", "" };
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        if (!strcmp(units[i], unit)) return units[i];
    }
    return NULL;
}

void sonde_plot_data_release(struct sonde_plot_data *d)
{
    for (size_t i = 0; i < d->count; i++) sonde__free(d->series[i].values);
    sonde__free(d->series);
    *d = (struct sonde_plot_data){ .kind = "" };
}

int sonde_plot_data_full(const struct sonde_plot_data *d)
{
    return d->count == SONDE_PLOT_SERIES_MAX;
}

void sonde_plot_data_keep(struct sonde_plot_data *d, const char *glob)
{
    size_t kept = 0;
    for (size_t i = 0; i < d->count; i++) {
        struct sonde_plot_series *s = &d->series[i];
        if (!fnmatch(glob, s->name, FNM_CASEFOLD)) {
            if (kept != i) d->series[kept] = *s;
            kept++;
        } else {
            d->values -= s->count;
            sonde__free(s->values);
        }
    }
    d->count = kept;
}

static void plot_data_copy(char out[SONDE_PLOT_NAME_MAX], const char *text)
{
    int changed = 0;
    out[sonde__utf8_copy(out, SONDE_PLOT_NAME_MAX - 1, text, strlen(text), &changed)] = '\0';
}

struct sonde_plot_series *sonde_plot_series_add(struct sonde_plot_data *d,
                                                enum sonde_plot_role role, const char *group,
                                                const char *name)
{
    if (d->count == SONDE_PLOT_SERIES_MAX) return NULL;
    struct sonde_plot_series *s = SONDE_ARRAY_ADD(d->series, d->count, d->cap);
    if (!s) return NULL;
    *s = (struct sonde_plot_series){ .role = role, .unit = sonde_plot_role_unit(role),
                                       .sum = NAN };
    plot_data_copy(s->name, name);
    plot_data_copy(s->group, group);
    return s;
}

int sonde_plot_value_add(struct sonde_plot_data *d, struct sonde_plot_series *s,
                         const struct sonde_plot_value *v)
{
    if (d->values == SONDE_PLOT_VALUES_MAX) {
        d->left_out++;
        return 0;
    }
    struct sonde_plot_value *new = SONDE_ARRAY_ADD(s->values, s->count, s->cap);
    if (!new) return SONDE_ENOMEM;
    *new = *v;
    d->values++;
    return 0;
}

int sonde_plot_xy_add(struct sonde_plot_data *d, struct sonde_plot_series *s, double x, double y)
{
    const struct sonde_plot_value v = { .x = x, .y = y, .low = NAN, .high = NAN, .weight = 1 };
    return sonde_plot_value_add(d, s, &v);
}

/* ---- What series say ------------------------------------------------------------------------- */

static int plot_data_counts(const struct sonde_plot_value *v)
{
    return fabs(v->y) < SONDE_PLOT_VALUE_MAX && isfinite(v->weight) && v->weight > 0;
}

static int plot_data_by_y(const void *a, const void *b)
{
    const struct sonde_plot_value *x = a, *y = b;
    return (x->y > y->y) - (x->y < y->y);
}

struct sonde_plot_value *sonde_plot_sorted(const struct sonde_plot_series *s, size_t *count)
{
    struct sonde_plot_value *sorted = s->count ? sonde__calloc(s->count, sizeof(*sorted)) : NULL;
    *count = 0;
    for (size_t i = 0; sorted && i < s->count; i++) {
        if (plot_data_counts(&s->values[i])) sorted[(*count)++] = s->values[i];
    }
    if (*count) qsort(sorted, *count, sizeof(*sorted), plot_data_by_y);
    if (*count) return sorted;
    sonde__free(sorted);
    return NULL;
}

double sonde_plot_quantile(const struct sonde_plot_value *sorted, size_t count, double q)
{
    double all = 0, below = 0;
    for (size_t i = 0; i < count; i++) all += sorted[i].weight;
    /* Sums of weights that are no integers are off by a little. */
    const double wanted = q * all * (1 - 1e-12);
    for (size_t i = 0; i < count; i++) {
        below += sorted[i].weight;
        if (below >= wanted) return sorted[i].y;
    }
    return count ? sorted[count - 1].y : NAN;
}

double sonde_plot_weight(const struct sonde_plot_series *s)
{
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (plot_data_counts(&s->values[i])) sum += s->values[i].weight;
    }
    return sum;
}

double sonde_plot_sum(const struct sonde_plot_series *s)
{
    double sum = 0;
    if (!isnan(s->sum)) return s->sum;
    for (size_t i = 0; i < s->count; i++) {
        if (plot_data_counts(&s->values[i])) sum += s->values[i].y * s->values[i].weight;
    }
    return sum;
}

size_t sonde_plot_not_finite(const struct sonde_plot_series *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) n += fabs(s->values[i].y) >= SONDE_PLOT_VALUE_MAX;
    return n;
}

int sonde_plot_has_x(const struct sonde_plot_series *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (isfinite(s->values[i].x)) return 1;
    }
    return 0;
}
