/* units.c - see units.h. */
#include "present/units.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/array.h"

/* A prefix is used from its factor up to the next one's. */
struct prefix { double factor; const char *text, *plain; };

static const struct prefix counts[] = {
    { 1, "", "" }, { 1e3, "k", "k" }, { 1e6, "M", "M" }, { 1e9, "G", "G" }, { 1e12, "T", "T" },
    { 1e15, "P", "P" }, { 1e18, "E", "E" },
};
static const struct prefix seconds[] = {
    { 1e-9, " ns", " ns" }, { 1e-6, " µs", " us" }, { 1e-3, " ms", " ms" }, { 1, " s", " s" },
    { 60, " min", " min" }, { 3600, " h", " h" }, { 86400, " d", " d" },
};
static const struct prefix bytes[] = {
    { 1, " B", " B" }, { 1024, " KiB", " KiB" }, { 1048576, " MiB", " MiB" },
    { 1073741824, " GiB", " GiB" }, { 1099511627776, " TiB", " TiB" },
    { 1125899906842624, " PiB", " PiB" }, { 1152921504606846976, " EiB", " EiB" },
};
static const struct prefix hertz[] = {
    { 1, " Hz", " Hz" }, { 1e3, " kHz", " kHz" }, { 1e6, " MHz", " MHz" }, { 1e9, " GHz", " GHz" },
};
static const struct prefix ratio[] = { { 0.01, " %", " %" } };
static const struct prefix percent[] = { { 1, " %", " %" } };
static const struct prefix celsius[] = { { 1, " C", " C" } };
static const struct prefix watts[] = { { 1, " W", " W" } };

#define SCALE(table) { table, SONDE_COUNT(table) }
static const struct { const struct prefix *prefix; size_t count; } scales[] = {
    [SONDE_UNIT_COUNT] = SCALE(counts),     [SONDE_UNIT_SECONDS] = SCALE(seconds),
    [SONDE_UNIT_BYTES] = SCALE(bytes),      [SONDE_UNIT_RATIO] = SCALE(ratio),
    [SONDE_UNIT_PERCENT] = SCALE(percent),  [SONDE_UNIT_CELSIUS] = SCALE(celsius),
    [SONDE_UNIT_WATTS] = SCALE(watts),      [SONDE_UNIT_HERTZ] = SCALE(hertz),
    [SONDE_UNIT_DATE] = SCALE(seconds),
};

static const struct { const char *word; enum sonde_unit unit; } words[] = {
    { "seconds", SONDE_UNIT_SECONDS }, { "bytes", SONDE_UNIT_BYTES },
    { "ratio", SONDE_UNIT_RATIO },     { "percent", SONDE_UNIT_PERCENT },
    { "celsius", SONDE_UNIT_CELSIUS }, { "watts", SONDE_UNIT_WATTS },
    { "hertz", SONDE_UNIT_HERTZ },
};

static int units_ends_with(const char *s, size_t len, const char *end)
{
    const size_t n = strlen(end);
    return len > n && s[len - n - 1] == '_' && memcmp(s + len - n, end, n) == 0;
}

enum sonde_unit sonde_unit_of(const char *unit, const char *name)
{
    static const char *const dates[] = { "boot_time_seconds", "start_time_seconds",
                                         "timestamp_seconds" };
    const size_t n = SONDE_COUNT(words);
    for (size_t i = 0; name && i < SONDE_COUNT(dates); i++) {
        if (units_ends_with(name, strlen(name), dates[i])) return SONDE_UNIT_DATE;
    }
    for (size_t i = 0; unit && i < n; i++) {
        if (strcmp(unit, words[i].word) == 0) return words[i].unit;
    }
    if (!name) return SONDE_UNIT_COUNT;

    size_t len = strlen(name);
    if (units_ends_with(name, len, "total")) len -= strlen("_total");
    for (size_t i = 0; i < n; i++) {
        if (units_ends_with(name, len, words[i].word)) return words[i].unit;
    }
    return SONDE_UNIT_COUNT;
}

enum sonde_unit sonde_unit_rate(enum sonde_unit u)
{
    return u == SONDE_UNIT_SECONDS ? SONDE_UNIT_RATIO : u;
}

/* What is less than the first prefix shows. Numbers without a unit may be tiny by nature, as a
 * learning rate is; of all else it is enough to know that it is next to nothing. */
static void units_digits_small(char *out, size_t size, double x, enum sonde_unit u)
{
    const double a = fabs(x);
    if (u == SONDE_UNIT_COUNT && a < 1e-6) snprintf(out, size, "%.0e", x);
    else if (u == SONDE_UNIT_COUNT) snprintf(out, size, "%.*f", (int)-floor(log10(a * 1.05)), x);
    else if (a >= 0.0005) snprintf(out, size, "%.3f", x);
    else snprintf(out, size, x < 0 ? ">-.001" : "<0.001");
}

/* Three significant digits, without the prefix; whole small counts without a fraction. */
static void units_digits(char *out, size_t size, double x, enum sonde_unit u, int first)
{
    const double a = fabs(x);
    const int whole = u == SONDE_UNIT_COUNT || u == SONDE_UNIT_BYTES;
    if (a >= 99.95 || (x == floor(x) && first && whole)) snprintf(out, size, "%.0f", x);
    else if (a >= 9.995) snprintf(out, size, "%.1f", x);
    else if (a == 0) snprintf(out, size, "0");
    else if (a >= 0.0095) snprintf(out, size, "%.2f", x);
    else units_digits_small(out, size, x, u);
}

static const struct prefix *units_prefix(double v, enum sonde_unit u)
{
    const struct prefix *p = scales[u].prefix;
    const size_t count = scales[u].count;
    size_t i = 0;
    /* 0.05 % early, so that 999.6 is written 1.00k and not 1000; exact where 1024 follows 1023. */
    const double slack = u == SONDE_UNIT_BYTES ? 0.5 / 1024 : 0.0005;
    while (i + 1 < count && fabs(v) >= p[i + 1].factor * (1 - slack)) i++;
    if (v == 0 && u == SONDE_UNIT_SECONDS) i = 3; /* "0 s" */
    return &p[i];
}

double sonde_unit_prefix(enum sonde_unit u, double v, const char **text)
{
    const struct prefix *p = units_prefix(v, u);
    *text = p->text;
    return p->factor;
}

const char *sonde_value_format(char out[SONDE_VALUE_BYTES], double v, enum sonde_unit u, int ascii)
{
    if (!isfinite(v)) {
        snprintf(out, SONDE_VALUE_BYTES, "%s", isnan(v) ? (ascii ? "-" : "–")
                                               : v > 0 ? "+Inf" : "-Inf");
        return out;
    }
    struct tm day;
    const time_t at = (time_t)(v > 0 && v < 1e11 ? v : 0);
    if (u == SONDE_UNIT_DATE && at > 0 && localtime_r(&at, &day)) {
        strftime(out, SONDE_VALUE_BYTES, "%d %b %y", &day);
        return out;
    }
    if (fabs(v) < 1e-90) v = 0; /* an exponent of three digits would be too wide */
    const struct prefix *p = units_prefix(v, u);

    /* Past the last prefix, as far as there is room for more digits. */
    const double most = strlen(p->plain) > 2 ? 9999.5 : 99999.5;
    if (fabs(v / p->factor) >= most) {
        if (u == SONDE_UNIT_COUNT || v < 0) snprintf(out, SONDE_VALUE_BYTES, "%.0e", v);
        else snprintf(out, SONDE_VALUE_BYTES, ">%.0f%s", most - 0.5, ascii ? p->plain : p->text);
        return out;
    }
    char number[16];
    units_digits(number, sizeof(number), v / p->factor, u, p == scales[u].prefix);
    snprintf(out, SONDE_VALUE_BYTES, "%s%s", number, ascii ? p->plain : p->text);
    return out;
}

const char *sonde_weight_format(char out[SONDE_WEIGHT_BYTES], uint64_t weight,
                                enum sonde_sample_kind kind, int ascii)
{
    if (sonde_sample_kind_is_time(kind)) {
        return sonde_value_format(out, (double)weight * 1e-9, SONDE_UNIT_SECONDS, ascii);
    }
    return sonde_value_format(out, (double)weight,
                              sonde_sample_kind_is_bytes(kind) ? SONDE_UNIT_BYTES
                                                               : SONDE_UNIT_COUNT,
                              ascii);
}
