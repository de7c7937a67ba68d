/* heatmap.h - how many of what happened at a time had a value: counts by columns of time and rows
 * of value, the picture in which a slow minute, a second mode and a few stragglers can be seen
 * apart.
 *
 * Columns are of equal length, a length that people count in (1, 2, 5, 10, 15, 30 s …), and begin
 * at multiples of it, so that a picture that is drawn anew a second later has the same columns.
 * Rows are of equal ratio, bounded by preferred numbers (10^(k/n), to three digits), as fine as
 * fits; what is below them all, 0 above all, is in a row that begins at 0. So every bound is a
 * short decimal number, and whoever asks for what is between two of them gets what the cell
 * counts. */
#ifndef SONDE_ANALYZE_HEATMAP_H
#define SONDE_ANALYZE_HEATMAP_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_HEATMAP_COLUMNS_MAX 2000
#define SONDE_HEATMAP_ROWS_MAX 400

struct sonde_heatmap_options {
    double from_s, to_s;       /* unix; taken down and up to whole columns */
    uint32_t columns, rows;    /* at most so many, and one column more; 0 = 120 and 40 */
    size_t points_max;         /* that are kept until the rows are known; 0 = 1000000 */
};

struct sonde_heatmap_cell { uint32_t count, failed; };

struct sonde_heatmap {
    int64_t from_ms, step_ms;
    uint32_t columns, rows;    /* rows: after sonde_heatmap_finish; 0 = there was nothing */
    double edges[SONDE_HEATMAP_ROWS_MAX + 1]; /* row r: edges[r] <= value < edges[r + 1] */
    struct sonde_heatmap_cell *cells; /* owned: [column * rows + row] */
    uint64_t counted;
    int truncated;             /* there was no room for some */

    /* Private. */
    uint32_t rows_max;
    size_t points_max, count, cap;
    struct sonde_heatmap_point *points; /* owned */
};

/* from_s < to_s. */
void sonde_heatmap_init(struct sonde_heatmap *h, const struct sonde_heatmap_options *o);
void sonde_heatmap_release(struct sonde_heatmap *h);

/* What is before or after the columns, or is not a value from 0 on, is passed over. 1 = there is no
 * room for more. */
int sonde_heatmap_add(struct sonde_heatmap *h, uint64_t time_ns, double value, int failed);

/* Rows and cells of what was added. 0 or SONDE_ENOMEM. */
int sonde_heatmap_finish(struct sonde_heatmap *h);

#endif
