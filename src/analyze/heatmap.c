/* heatmap.c - see heatmap.h.
 *
 * Where rows begin depends on all values, so they are kept, 16 bytes each, until the last is known.
 * Rejected: counting in fine rows at once and joining them, whose bounds would be those of the
 * joined ones only where these are multiples. */
#include "analyze/heatmap.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

enum { COLUMNS = 120, ROWS = 40, POINTS = 1000000, ROWS_LEAST = 8 };
#define TINY 1e-9         /* less counts as nothing: a nanosecond */
#define HUGE_VALUE 1e15   /* more does not occur */

struct sonde_heatmap_point { uint32_t column, failed; double value; };

/* ---- Columns --------------------------------------------------------------------------------- */

static const int64_t day_ms = 86400000;

/* The shortest of the lengths that people count in with which the columns suffice: one more, since
 * what is asked for mostly begins in the midst of one. */
static int64_t choose_step(int64_t from_ms, int64_t to_ms, uint32_t columns)
{
    static const int64_t steps[] = {
        1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000,
        300000, 600000, 900000, 1800000, 3600000, 7200000, 10800000, 21600000, 43200000,
    };
    for (size_t i = 0; i < SONDE_COUNT(steps); i++) {
        const int64_t s = steps[i];
        if ((to_ms + s - 1) / s - from_ms / s <= columns + 1) return s;
    }
    int64_t days = (to_ms - from_ms) / day_ms / columns + 1;
    while ((to_ms + days * day_ms - 1) / (days * day_ms) -
           from_ms / (days * day_ms) > columns + 1) {
        days++;
    }
    return days * day_ms;
}

void sonde_heatmap_init(struct sonde_heatmap *h, const struct sonde_heatmap_options *o)
{
    const int64_t from_ms = (int64_t)floor(o->from_s * 1e3);
    const int64_t to_ms = (int64_t)ceil(o->to_s * 1e3);
    const uint32_t columns = o->columns ? o->columns : COLUMNS;
    assert(from_ms >= 0 && from_ms < to_ms);
    assert(columns <= SONDE_HEATMAP_COLUMNS_MAX && o->rows <= SONDE_HEATMAP_ROWS_MAX);
    *h = (struct sonde_heatmap){ .rows_max = o->rows ? o->rows : ROWS,
                                 .points_max = o->points_max ? o->points_max : POINTS };
    h->step_ms = choose_step(from_ms, to_ms, columns);
    h->from_ms = from_ms - from_ms % h->step_ms;
    h->columns = (uint32_t)((to_ms - h->from_ms + h->step_ms - 1) / h->step_ms);
}

void sonde_heatmap_release(struct sonde_heatmap *h)
{
    sonde__free(h->points);
    sonde__free(h->cells);
    h->points = NULL;
    h->cells = NULL;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

static int room_for_one(struct sonde_heatmap *h)
{
    return SONDE_ARRAY_ROOM_MAX(h->points, h->count, h->cap, h->points_max) == 0;
}

int sonde_heatmap_add(struct sonde_heatmap *h, uint64_t time_ns, double value, int failed)
{
    assert(h->step_ms > 0 && h->columns > 0);
    const int64_t at_ms = (int64_t)(time_ns / 1000000) - h->from_ms;
    if (at_ms < 0 || at_ms / h->step_ms >= h->columns) return 0;
    if (!(value >= 0 && value < HUGE_VALUE)) return 0;
    if (h->count >= h->points_max || !room_for_one(h)) {
        h->truncated = 1;
        return 1;
    }
    h->points[h->count++] = (struct sonde_heatmap_point){
        .column = (uint32_t)(at_ms / h->step_ms), .failed = failed != 0, .value = value };
    return 0;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static double power_of_ten(int n)
{
    double p = 1;
    for (; n > 0; n--) p *= 10; /* exact up to 1e22 */
    return p;
}

/* Bound k of those that cut a factor of ten into n: the double that its decimal digits mean. */
static double edge_at(int n, int k)
{
    static const int coarse[] = { 100, 200, 500 };
    const int tens = k >= 0 ? k / n : -((n - 1 - k) / n), rest = k - tens * n;
    const double digits =
        n == 3 ? coarse[rest] : nearbyint(100 * pow(10, (double)rest / (double)n));
    return tens >= 2 ? digits * power_of_ten(tens - 2) : digits / power_of_ten(2 - tens);
}

/* The last bound that is not above v. */
static int edge_below(int n, double v)
{
    int k = (int)floor(n * log10(v));
    while (edge_at(n, k) > v) k--;
    while (edge_at(n, k + 1) <= v) k++;
    return k;
}

/* The finest rows that hold everything from least to greatest, in at most max; where even a factor
 * of ten each is too many, what is least is in the row from 0. */
static void choose_edges(struct sonde_heatmap *h, double least, double greatest, int from_zero)
{
    static const int fineness[] = { 40, 20, 10, 5, 3, 1 };
    const int max = (int)h->rows_max - from_zero;
    int n = 1, first = 0, end = 1, fits = 0;
    for (size_t i = 0; i < SONDE_COUNT(fineness) && !fits; i++) {
        n = fineness[i];
        first = edge_below(n, least);
        end = edge_below(n, greatest) + 1;
        fits = end - first <= max;
    }
    if (!fits) {
        from_zero = 1;
        first = end - ((int)h->rows_max - 1);
    }
    /* Values that are all alike are shown with some room around them. */
    while (fits && end - first < ROWS_LEAST && end - first < max) {
        end++;
        if (end - first < max) first--;
    }
    if (from_zero) h->edges[h->rows++] = 0;
    for (int k = first; k < end; k++) h->edges[h->rows++] = edge_at(n, k);
    h->edges[h->rows] = edge_at(n, end);
}

/* The row that holds value, which is not below the first edge. */
static uint32_t heatmap_row(const struct sonde_heatmap *h, double value)
{
    assert(h->rows); /* finished */
    uint32_t low = 0, high = h->rows;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (h->edges[middle] <= value) low = middle;
        else high = middle;
    }
    return low;
}

int sonde_heatmap_finish(struct sonde_heatmap *h)
{
    assert(!h->rows); /* once */
    double least = INFINITY, greatest = 0;
    int tiny = 0;
    for (size_t i = 0; i < h->count; i++) {
        const double v = h->points[i].value;
        tiny |= v < TINY;
        if (v >= TINY && v < least) least = v;
        if (v > greatest) greatest = v;
    }
    if (!h->count) return 0;
    if (greatest < TINY) least = greatest = 1e-3;
    if (h->rows_max == 1) {
        h->rows = 1;
        h->edges[1] = edge_at(1, edge_below(1, greatest) + 1);
    } else {
        choose_edges(h, least, greatest, tiny);
    }
    h->cells = sonde__calloc((size_t)h->columns * h->rows, sizeof(*h->cells));
    if (!h->cells) return SONDE_ENOMEM;
    for (size_t i = 0; i < h->count; i++) {
        const struct sonde_heatmap_point *p = &h->points[i];
        struct sonde_heatmap_cell *c =
            &h->cells[(size_t)p->column * h->rows + heatmap_row(h, p->value)];
        c->count++;
        c->failed += p->failed;
    }
    h->counted = h->count;
    return 0;
}
