/* axis.c - see axis.h. */
#include "present/plot/axis.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "present/units.h"

enum { AXIS_TICKS = 6 };

#define AXIS_POINT 1e-12 /* values that differ by less are one, as far as doubles can tell */

double sonde_axis_place(const struct sonde_axis *a, double v)
{
    const double at = a->log ? log10(v) : v;
    return a->begin + (at - a->from) / (a->to - a->from) * (a->end - a->begin);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten, the nearest by ratio. */
static double axis_step_decimal(double raw)
{
    const double power = pow(10, floor(log10(raw))), m = raw / power;
    return power * (m < 1.414 ? 1 : m < 3.162 ? 2 : m < 7.071 ? 5 : 10);
}

static double axis_step_binary(double raw)
{
    return raw < 1 ? axis_step_decimal(raw) : pow(2, floor(log2(raw) + 0.5));
}

/* What people count time in. */
static double axis_step_time(double raw)
{
    static const double steps[] = { 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
                                    10800, 21600, 43200, 86400, 172800, 604800 };
    if (raw < 1) return axis_step_decimal(raw);
    for (size_t i = 0; i < SONDE_COUNT(steps); i++) {
        const double next = i + 1 < SONDE_COUNT(steps) ? steps[i + 1] : steps[i] * 2;
        if (raw < sqrt(steps[i] * next)) return steps[i];
    }
    return 86400 * axis_step_decimal(raw / 86400);
}

static double axis_step(const char *unit, double raw, double span)
{
    if (!strncmp(unit, "bytes", 5)) return axis_step_binary(raw);
    /* Times of day have fractions only where there is nothing else to tell. */
    if (!strcmp(unit, "time")) return axis_step_time(span > 2 ? fmax(raw, 1) : raw);
    if (!strcmp(unit, "s") && span > 120) return axis_step_time(raw);
    return axis_step_decimal(raw);
}

static void axis_tick(struct sonde_axis *a, double v)
{
    if (a->tick_count < SONDE_AXIS_TICKS_MAX) a->ticks[a->tick_count++] = v;
}

static void axis_ticks_log(struct sonde_axis *a)
{
    static const double inner[] = { 1, 2, 5 };
    const double decades = a->to - a->from;
    const size_t each = decades > 3 ? 1 : 3;
    const double by = fmax(1, ceil(decades / 10));
    for (double d = floor(a->from); d <= a->to; d += by) {
        for (size_t i = 0; i < each; i++) {
            const double v = d + log10(inner[i]);
            if (v >= a->from - 1e-9 && v <= a->to + 1e-9) axis_tick(a, inner[i] * pow(10, d));
        }
    }
}

static void axis_ticks(struct sonde_axis *a)
{
    a->tick_count = 0;
    a->step = 0;
    if (a->log) {
        axis_ticks_log(a);
        return;
    }
    const double span = a->to - a->from;
    a->step = axis_step(a->unit, span / (a->wanted ? a->wanted : AXIS_TICKS), span);
    const double first = ceil(a->from / a->step - 1e-9);
    for (size_t i = 0; i < SONDE_AXIS_TICKS_MAX; i++) {
        const double v = (first + (double)i) * a->step;
        if (v > a->to + a->step * 1e-6) break;
        axis_tick(a, fabs(v) < a->step * 1e-6 ? 0 : v);
    }
}

/* ---- Range ----------------------------------------------------------------------------------- */

/* A single value lies in the middle of a range that has something to do with it. */
static double axis_span(const struct sonde_axis *a, double low, double high)
{
    const double size = fmax(fabs(low), fabs(high));
    if (high - low > size * AXIS_POINT && high > low) return high - low;
    if (a->log) return 0.6;
    if (!strcmp(a->unit, "time")) return 1;
    return size > 0 ? size * 0.4 : 1;
}

void sonde_axis_fit(struct sonde_axis *a, double low, double high)
{
    if (a->log) {
        low = log10(low);
        high = log10(high);
    } else if (a->zero) {
        low = fmin(low, 0);
        high = fmax(high, 0);
    }
    const double span = axis_span(a, low, high), size = fmax(fabs(low), fabs(high));
    const int point = !(high > low && high - low > size * AXIS_POINT);
    const double air = point ? span / 2 : a->tight ? 0 : 0.05 * span;
    /* What begins at nothing has no air there. */
    a->from = a->zero && !a->log && low >= 0 ? 0 : low - air;
    a->to = a->zero && !a->log && high <= 0 && !point ? 0 : high + air;
    if (a->one) a->to = fmax(1, high);
    axis_ticks(a);
}

void sonde_axis_names(struct sonde_axis *a, size_t count)
{
    a->from = -0.5;
    a->to = (double)(count ? count : 1) - 0.5;
    a->step = 1;
    a->tick_count = 0;
    for (size_t i = 0; i < count; i++) axis_tick(a, (double)i);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

static void axis_label_time(const struct sonde_axis *a, double tick, char *out)
{
    const time_t t = (time_t)floor(tick + 1e-6);
    struct tm tm;
    char text[SONDE_AXIS_LABEL_BYTES - 16];
    out[0] = '\0';
    if (!localtime_r(&t, &tm)) return;
    const char *format = a->step >= 86400 ? "%d %b" : a->step >= 60 ? "%H:%M" : "%H:%M:%S";
    if (!strftime(text, sizeof(text), format, &tm)) return;
    if (a->step >= 1) snprintf(out, SONDE_AXIS_LABEL_BYTES, "%s", text);
    else {
        const int ms = (int)fmin(999, fmax(0, floor((tick - (double)t) * 1000 + 0.5)));
        if (a->step < 0.1) snprintf(out, SONDE_AXIS_LABEL_BYTES, "%s.%03d", text, ms);
        else snprintf(out, SONDE_AXIS_LABEL_BYTES, "%s.%d", text, ms / 100);
    }
}

static const struct axis_unit { const char *name; enum sonde_unit as; const char *behind; }
    axis_units[] = {
    { "s", SONDE_UNIT_SECONDS, "" },   { "bytes", SONDE_UNIT_BYTES, "" },
    { "1/s", SONDE_UNIT_COUNT, "/s" }, { "bytes/s", SONDE_UNIT_BYTES, "/s" },
    { "share", SONDE_UNIT_RATIO, "" }, { "", SONDE_UNIT_COUNT, "" },
    { "ratio", SONDE_UNIT_COUNT, "" },
};

/* Behind the point, as many as steps need. */
static int axis_digits(double step)
{
    int digits = 0;
    for (double s = step; digits < 7 && fabs(s - floor(s + 0.5)) > 1e-6 * s; s *= 10) digits++;
    return digits;
}

const char *sonde_axis_label(const struct sonde_axis *a, double tick,
                             char out[SONDE_AXIS_LABEL_BYTES])
{
    const struct axis_unit *u = &axis_units[SONDE_COUNT(axis_units) - 1];
    if (!strcmp(a->unit, "time")) {
        axis_label_time(a, tick, out);
        return out;
    }
    for (size_t i = 0; i < SONDE_COUNT(axis_units); i++) {
        if (!strcmp(a->unit, axis_units[i].name)) u = &axis_units[i];
    }
    /* One prefix for all: that of the largest; of a logarithmic axis each its own. */
    const char *prefix;
    double most = tick;
    if (!a->log) most = fmax(fabs(a->ticks[0]), fabs(a->ticks[a->tick_count - 1]));
    double factor = sonde_unit_prefix(u->as, most, &prefix);
    int digits = a->log ? 0 : axis_digits(a->step / factor);
    const int small = digits && u->as == SONDE_UNIT_COUNT && most < 1e4;
    if (digits > 1 || small) { /* not 0.5k, 1.0k; and steps of 20 s are not minutes */
        factor = sonde_unit_prefix(u->as, a->step, &prefix);
        digits = axis_digits(a->step / factor);
    }
    const double v = tick / factor;
    if (tick == 0 && strcmp(a->unit, "share") != 0) snprintf(out, SONDE_AXIS_LABEL_BYTES, "0");
    else if (a->log || fabs(v) >= 1e7 || digits > 6) {
        snprintf(out, SONDE_AXIS_LABEL_BYTES, "%g%s%s", v, prefix, u->behind);
    } else {
        snprintf(out, SONDE_AXIS_LABEL_BYTES, "%.*f%s%s", digits, v, prefix, u->behind);
    }
    return out;
}
