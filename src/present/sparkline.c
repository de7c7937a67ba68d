/* sparkline.c - see sparkline.h. */
#include "present/sparkline.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
static const char *const plain[] = { "_", ".", "-", ":", "=", "+", "*", "#" };
#define LEVELS 8

/* Mean of the finite values in [from, to); NaN if there is none. */
static double sparkline_mean(const double *value, size_t from, size_t to)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = from; i < to; i++) {
        if (!isfinite(value[i])) continue;
        sum += value[i];
        n++;
    }
    return n ? sum / (double)n : NAN;
}

/* What cell i of n shows. */
static double cell_value(const double *value, size_t count, size_t i, size_t n)
{
    return sparkline_mean(value, i * count / n, (i + 1) * count / n);
}

static int level_of(double v, double lo, double hi)
{
    if (!(hi > lo)) return v == 0 ? 0 : LEVELS / 2 - 1;
    /* Halved first: hi - lo of two huge values of opposite sign would be infinite. */
    const double share = (v / 2 - lo / 2) / (hi / 2 - lo / 2);
    if (share <= 0) return 0;
    return share >= 1 ? LEVELS - 1 : (int)(share * LEVELS);
}

size_t sonde_sparkline(char *out, size_t out_size, const double *value, size_t count, int cells,
                       enum sonde_spark_base base, int ascii)
{
    assert(out_size > 0);
    const size_t width = cells > 0 ? (size_t)cells : 0;
    const size_t n = count < width ? count : width; /* cells that carry a value */
    double lo = INFINITY, hi = -INFINITY;
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        const double v = cell_value(value, count, i, n);
        if (isnan(v)) continue;
        if (v < lo) lo = v;
        if (v > hi) hi = v;
    }
    if (base == SONDE_SPARK_ZERO && lo > 0 && hi > 0) lo = 0;
    if (base == SONDE_SPARK_PERCENT) { lo = 0; hi = 100; }

    for (size_t i = 0; i < width; i++) {
        const char *glyph = " ";
        if (i >= width - n) {
            const double v = cell_value(value, count, i - (width - n), n);
            if (!isnan(v)) glyph = (ascii ? plain : blocks)[level_of(v, lo, hi)];
        }
        const size_t bytes = strlen(glyph);
        if (len + bytes + 1 > out_size) break;
        memcpy(out + len, glyph, bytes);
        len += bytes;
    }
    out[len] = 0;
    return len;
}
