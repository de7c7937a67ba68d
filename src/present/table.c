/* table.c - see table.h. */
#include "present/table.h"

#include <assert.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

void sonde_table_init(struct sonde_table *t, const struct sonde_column *columns, size_t count)
{
    assert(count > 0 && count <= SONDE_TABLE_COLUMNS_MAX);
    *t = (struct sonde_table){ .columns = columns, .column_count = count };
}

void sonde_table_release(struct sonde_table *t)
{
    for (size_t i = 0; i < t->row_count * t->column_count; i++) sonde__free(t->cells[i]);
    sonde__free(t->cells);
    *t = (struct sonde_table){ .columns = t->columns, .column_count = t->column_count };
}

void sonde_table_row(struct sonde_table *t)
{
    const size_t used = t->row_count * t->column_count;
    assert(used <= t->cell_cap);
    if (t->error) return;
    if (t->row_count == SONDE_TABLE_ROWS_MAX) {
        t->error = SONDE_EFULL;
        return;
    }
    t->error = SONDE_ARRAY_RESERVE(t->cells, t->cell_cap, used + t->column_count);
    if (t->error) return;
    memset(&t->cells[used], 0, t->column_count * sizeof(*t->cells));
    t->row_count++;
}

void sonde_table_cell(struct sonde_table *t, size_t column, const char *format, ...)
{
    assert(column < t->column_count);
    if (t->error) return;
    assert(t->row_count > 0);
    char text[SONDE_TABLE_CELL_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    char **cell = &t->cells[(t->row_count - 1) * t->column_count + column];
    char *copy = sonde__strdup(text);
    if (!copy) {
        t->error = SONDE_ENOMEM;
        return;
    }
    sonde__free(*cell);
    *cell = copy;
}

const char *sonde_table_text(const struct sonde_table *t, size_t row, size_t column)
{
    assert(row < t->row_count && column < t->column_count);
    const char *text = t->cells[row * t->column_count + column];
    return text ? text : "";
}

/* How wide column c would like to be. */
static int table_natural(const struct sonde_table *t, size_t c, int ascii)
{
    const struct sonde_column *col = &t->columns[c];
    int cells = sonde_text_cells(col->title, ascii);
    if (col->want > cells) cells = col->want;
    for (size_t r = 0; r < t->row_count; r++) {
        const int n = sonde_text_cells(sonde_table_text(t, r, c), ascii);
        if (n > cells) cells = n;
    }
    return col->max && cells > col->max ? col->max : cells;
}

static int table_total(const int *width, size_t count)
{
    int sum = 0, shown = 0;
    for (size_t i = 0; i < count; i++) {
        if (!width[i]) continue;
        sum += width[i];
        shown++;
    }
    return shown ? sum + (shown - 1) * SONDE_TABLE_GAP : 0;
}

/* Shorten the widest column that is above its floor by one; 0 if there is none. */
static int table_squeeze(int *width, const int *floor, size_t count)
{
    size_t widest = count;
    for (size_t i = 0; i < count; i++) {
        if (width[i] <= floor[i]) continue;
        if (widest == count || width[i] > width[widest]) widest = i;
    }
    if (widest == count) return 0;
    width[widest]--;
    return 1;
}

/* Take away the shown column with the highest drop number; 0 if all that are left stay. */
static int drop_one(const struct sonde_table *t, int *width, int *floor)
{
    size_t victim = t->column_count;
    for (size_t i = 0; i < t->column_count; i++) {
        if (!width[i] || !t->columns[i].drop) continue;
        if (victim == t->column_count || t->columns[i].drop > t->columns[victim].drop) victim = i;
    }
    if (victim == t->column_count) return 0;
    width[victim] = floor[victim] = 0;
    return 1;
}

void sonde_table_fit(const struct sonde_table *t, int width, int ascii,
                     int out[SONDE_TABLE_COLUMNS_MAX])
{
    int floor[SONDE_TABLE_COLUMNS_MAX];
    const size_t count = t->column_count;

    for (size_t i = 0; i < count; i++) {
        const struct sonde_column *col = &t->columns[i];
        out[i] = table_natural(t, i, ascii);
        const int least = col->min ? col->min
                        : col->align == SONDE_RIGHT ? out[i]
                        : sonde_text_cells(col->title, ascii);
        floor[i] = least < out[i] ? least : out[i];
    }
    while (table_total(floor, count) > width && drop_one(t, out, floor)) { }
    while (table_total(out, count) > width && table_squeeze(out, floor, count)) { }

    /* Nothing more may be dropped and it is still too wide: a terminal of a few columns. The
     * last columns go, then what is left is cut. */
    static const int one[SONDE_TABLE_COLUMNS_MAX] = {
        [0 ... SONDE_TABLE_COLUMNS_MAX - 1] = 1
    };
    for (size_t i = count; i > 1 && table_total(out, count) > width; i--) {
        int least = 0;
        for (size_t k = 0; k < i; k++) least += out[k] ? 1 + SONDE_TABLE_GAP : 0;
        if (least - SONDE_TABLE_GAP > width) out[i - 1] = 0;
    }
    while (table_total(out, count) > width && table_squeeze(out, one, count)) { }
    if (width < 1) memset(out, 0, count * sizeof(*out));
}

/* One line: texts of row r, or the titles. Blanks are held back until text follows. */
static void render_line(const struct sonde_table *t, const int *width, size_t r, int titles,
                        int ascii, struct sonde_buf *out)
{
    size_t held = 0;
    for (size_t c = 0; c < t->column_count; c++) {
        if (!width[c]) continue;
        char text[4 * SONDE_TABLE_CELL_MAX];
        const char *from = titles ? t->columns[c].title : sonde_table_text(t, r, c);
        const size_t len = sonde_text_fit(text, sizeof(text), from, width[c], t->columns[c].align,
                                          ascii);
        size_t end = len;
        while (end > 0 && text[end - 1] == ' ') end--;
        if (end > 0) {
            while (held > 0) { sonde_buf_putc(out, ' '); held--; }
            sonde_buf_add(out, text, end);
        }
        held += len - end + SONDE_TABLE_GAP;
    }
    sonde_buf_putc(out, '\n');
}

void sonde_table_render(const struct sonde_table *t, int width, int ascii, struct sonde_buf *out)
{
    int widths[SONDE_TABLE_COLUMNS_MAX];
    sonde_table_fit(t, width ? width : INT_MAX, ascii, widths);
    render_line(t, widths, 0, 1, ascii, out);
    for (size_t r = 0; r < t->row_count; r++) render_line(t, widths, r, 0, ascii, out);
}
