/* table.h - rows of text laid out in columns that fit a width given in cells. Used for plain
 * output (`sonde ls`) and, row by row, for full-screen views. */
#ifndef SONDE_PRESENT_TABLE_H
#define SONDE_PRESENT_TABLE_H

#include <stddef.h>

#include "base/buf.h"
#include "present/text.h"

#define SONDE_TABLE_GAP 2          /* blanks between columns */
#define SONDE_TABLE_COLUMNS_MAX 32
#define SONDE_TABLE_ROWS_MAX 100000
#define SONDE_TABLE_CELL_MAX 2048  /* bytes kept of a cell */

struct sonde_column {
    const char *title;         /* "" and no text in any row: not shown */
    enum sonde_align align;
    int min;    /* cells below which it is not squeezed; 0 = its title's, and for right-aligned
                   ones what they need: half a number is worse than none */
    int want;   /* at least this wide when there is room, whatever the rows hold; 0 = as needed */
    int max;    /* never wider; 0 = no limit */
    int drop;   /* when there is no room, columns go, highest number first; 0 = stays */
};

struct sonde_table {
    const struct sonde_column *columns;  /* borrowed */
    size_t column_count;
    char **cells;                        /* owned; row by row; NULL = empty */
    size_t row_count, cell_cap;
    int error;                           /* 0, SONDE_ENOMEM or SONDE_EFULL; adds then do nothing */
};

void sonde_table_init(struct sonde_table *t, const struct sonde_column *columns, size_t count);
void sonde_table_release(struct sonde_table *t);

/* A new row, and text into a column of the last row. */
void sonde_table_row(struct sonde_table *t);
void sonde_table_cell(struct sonde_table *t, size_t column, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* "" if empty. */
const char *sonde_table_text(const struct sonde_table *t, size_t row, size_t column);

/* Widths of the columns within `width` cells, 0 = not shown. Columns are dropped by their number
 * first; if those that stay are too wide still, the widest are squeezed, at last even below min. */
void sonde_table_fit(const struct sonde_table *t, int width, int ascii,
                     int out[SONDE_TABLE_COLUMNS_MAX]);

/* Title line and rows as plain text, no trailing blanks; width 0 = as wide as needed. */
void sonde_table_render(const struct sonde_table *t, int width, int ascii, struct sonde_buf *out);

#endif
