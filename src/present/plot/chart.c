/* chart.c - see chart.h: what a chart holds. */
#include "present/plot/chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/utf8.h"
#include "present/plot/axis.h"
#include "present/units.h"
#include "sonde/sonde.h"

const char *sonde_chart_mark_name(enum sonde_chart_mark m)
{
    static const char *const names[] = { "dots", "line", "curve", "dashed", "step", "area", "bar" };
    return names[m];
}

void sonde_chart_release(struct sonde_chart *c)
{
    for (size_t i = 0; i < c->series_count; i++) sonde__free(c->series[i].points);
    sonde__free(c->names);
    sonde__free(c->cells);
    memset(c, 0, sizeof(*c));
}

static void chart_copy(char *out, size_t size, const char *text)
{
    int changed = 0;
    out[sonde__utf8_copy(out, size - 1, text, strlen(text), &changed)] = '\0';
}

struct sonde_chart_series *sonde_chart_series(struct sonde_chart *c, const char *name)
{
    if (c->series_count == SONDE_CHART_SERIES_MAX) return NULL;
    struct sonde_chart_series *s = &c->series[c->series_count++];
    memset(s, 0, sizeof(*s));
    chart_copy(s->name, sizeof(s->name), name);
    return s;
}

static int chart_finite(double v)
{
    return isfinite(v) && fabs(v) < SONDE_AXIS_VALUE_MAX;
}

/* NULL: no memory, or (*rc 0) it is left out. */
static struct sonde_chart_point *chart_point(struct sonde_chart *c, struct sonde_chart_series *s,
                                             int *rc)
{
    *rc = 0;
    if (s->count >= SONDE_CHART_POINTS_MAX) {
        c->left_out++;
        return NULL;
    }
    struct sonde_chart_point *p = SONDE_ARRAY_ADD(s->points, s->count, s->cap);
    if (!p) *rc = SONDE_ENOMEM;
    else *p = (struct sonde_chart_point){ .low = NAN, .high = NAN, .x_end = NAN };
    return p;
}

int sonde_chart_add(struct sonde_chart *c, struct sonde_chart_series *s, double x, double y,
                    double low, double high, const char *label)
{
    int rc;
    if (!chart_finite(x) || !chart_finite(y) || (c->x_log && x <= 0) || (c->y_log && y <= 0)) {
        c->not_finite++;
        return 0;
    }
    struct sonde_chart_point *p = chart_point(c, s, &rc);
    if (!p) return rc;
    p->x = x;
    p->y = y;
    if (chart_finite(low) && chart_finite(high) && low <= high && !(c->y_log && low <= 0)) {
        p->low = low;
        p->high = high;
    }
    if (label) chart_copy(p->label, sizeof(p->label), label);
    return 0;
}

int sonde_chart_add_bar(struct sonde_chart *c, struct sonde_chart_series *s, double x, double x_end,
                        double y, const char *label)
{
    const size_t before = s->count;
    if (!chart_finite(x_end) || !(x_end > x)) {
        c->not_finite++;
        return 0;
    }
    const int rc = sonde_chart_add(c, s, x, y, NAN, NAN, label);
    if (s->count > before) s->points[before].x_end = x_end;
    return rc;
}

int sonde_chart_add_gap(struct sonde_chart *c, struct sonde_chart_series *s, double x)
{
    int rc;
    if (!chart_finite(x) || !s->count || isnan(s->points[s->count - 1].y)) return 0;
    struct sonde_chart_point *p = chart_point(c, s, &rc);
    if (!p) return rc;
    p->x = x;
    p->y = NAN;
    return 0;
}

int sonde_chart_add_cell(struct sonde_chart *c, const struct sonde_chart_cell *cell)
{
    struct sonde_chart_cell *new = SONDE_ARRAY_ADD(c->cells, c->cell_count, c->cell_cap);
    if (!new) return SONDE_ENOMEM;
    *new = *cell;
    return 0;
}

int sonde_chart_name(struct sonde_chart *c, const char *name)
{
    char copy[SONDE_CHART_NAME_MAX];
    chart_copy(copy, sizeof(copy), name);
    for (size_t i = 0; i < c->name_count; i++) {
        if (!strcmp(c->names[i], copy)) return (int)i;
    }
    if (c->name_count == SONDE_CHART_NAMES_MAX) return -1;
    char(*new)[SONDE_CHART_NAME_MAX] = SONDE_ARRAY_ADD(c->names, c->name_count, c->name_cap);
    if (!new) return -1;
    memcpy(*new, copy, sizeof(copy));
    return (int)c->name_count - 1;
}

void sonde_chart_rule(struct sonde_chart *c, int of_x, double at, const char *label)
{
    if (c->rule_count == SONDE_CHART_RULES_MAX || !chart_finite(at)) return;
    if ((of_x ? c->x_log : c->y_log) && at <= 0) return;
    struct sonde_chart_rule *r = &c->rules[c->rule_count++];
    *r = (struct sonde_chart_rule){ .at = at, .of_x = of_x };
    chart_copy(r->label, sizeof(r->label), label);
}

int sonde_chart_empty(const struct sonde_chart *c)
{
    size_t points = c->cell_count;
    for (size_t i = 0; i < c->series_count; i++) points += c->series[i].count;
    return !points;
}

const char *sonde_chart_value(char out[SONDE_CHART_VALUE_BYTES], double v, const char *unit)
{
    static const struct { const char *unit; enum sonde_unit as; const char *behind; } units[] = {
        { "s", SONDE_UNIT_SECONDS, "" },   { "bytes", SONDE_UNIT_BYTES, "" },
        { "1/s", SONDE_UNIT_COUNT, "/s" }, { "bytes/s", SONDE_UNIT_BYTES, "/s" },
        { "share", SONDE_UNIT_RATIO, "" },
    };
    char text[SONDE_VALUE_BYTES];
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        if (strcmp(units[i].unit, unit) != 0) continue;
        snprintf(out, SONDE_CHART_VALUE_BYTES, "%s%s", sonde_value_format(text, v, units[i].as, 0),
                 units[i].behind);
        return out;
    }
    const time_t t = (time_t)(fabs(v) < 1e15 ? v : 0);
    struct tm tm;
    if (!strcmp(unit, "time") && localtime_r(&t, &tm)) {
        strftime(out, SONDE_CHART_VALUE_BYTES, "%H:%M:%S", &tm);
    } else if (isnan(v)) {
        snprintf(out, SONDE_CHART_VALUE_BYTES, "–");
    } else {
        snprintf(out, SONDE_CHART_VALUE_BYTES, fabs(v) < 1e6 ? "%.5g" : "%.6g", v);
    }
    return out;
}
