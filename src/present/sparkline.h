/* sparkline.h - a series of values as one line of block characters. */
#ifndef SONDE_PRESENT_SPARKLINE_H
#define SONDE_PRESENT_SPARKLINE_H

#include <stddef.h>

/* Bytes that a line of `cells` cells takes, with its NUL. */
#define SONDE_SPARKLINE_BYTES(cells) (3u * (size_t)(cells) + 1)

enum sonde_spark_base {
    SONDE_SPARK_ZERO,   /* the bottom is 0 (or the smallest value, if negative): rates */
    SONDE_SPARK_MIN,    /* the bottom is the smallest value: levels whose change matters */
    SONDE_SPARK_PERCENT, /* from 0 to 100, so that idle looks idle */
};

/* Draw value[0..count), oldest first, into exactly `cells` cells, right-aligned: the newest is
 * the last cell. More values than cells: each cell is the mean of its share. NaN and infinities
 * are gaps, drawn as blanks. Values that are all the same are drawn at the bottom if they are
 * zero and half-way if not. Returns the bytes written without the NUL. */
size_t sonde_sparkline(char *out, size_t out_size, const double *value, size_t count, int cells,
                       enum sonde_spark_base base, int ascii);

#endif
