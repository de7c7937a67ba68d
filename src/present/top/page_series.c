/* page_series.c - series with their figures of the last minute and a sparkline. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "present/sparkline.h"
#include "present/top/pages.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { NAME, PROCESS, TYPE, VALUE, RATE, AVG, P50, P95, P99, TREND, LINE, COLUMNS };

#define FIGURE_COLUMN(text, number) \
    { .title = text, .align = SONDE_RIGHT, .want = SONDE_VALUE_CELLS, .drop = number }
static const struct sonde_column columns[COLUMNS] = {
    [NAME] = { .title = "SERIES" },                    /* min and line's want follow the width */
    [PROCESS] = { .title = "PROCESS", .min = 9, .max = 24, .drop = 8 },
    [TYPE] = { .title = "TYPE", .min = 5, .drop = 9 },
    [VALUE] = FIGURE_COLUMN("VALUE", 1),
    [RATE] = FIGURE_COLUMN("RATE/s", 2),
    [AVG] = FIGURE_COLUMN("AVG", 7),
    [P50] = FIGURE_COLUMN("P50", 6),
    [P95] = FIGURE_COLUMN("P95", 10),
    [P99] = FIGURE_COLUMN("P99", 3),
    [TREND] = { .title = " ", .want = 1, .drop = 5 },
    [LINE] = { .title = "LAST 60", .align = SONDE_RIGHT, .min = 10, .drop = 4 },
};

const char *const sonde_top_series_sorts[] = { "name", "rate", "p99", "value", NULL };
static const int sort_columns[] = { NAME, RATE, P99, VALUE };

struct top_page_series_order { const struct sonde_top_series *s; unsigned sort; int reverse; };

static int top_page_series_by_choice(const void *x, const void *y)
{
    const struct top_page_series_order *ox = x, *oy = y;
    const struct sonde_top_series *a = ox->s, *b = oy->s;
    const int rev = ox->reverse;
    int order = 0;
    switch (sort_columns[ox->sort]) {
    case RATE: order = sonde_top_compare(a->rate, b->rate, rev); break;
    case P99: order = sonde_top_compare(a->p99, b->p99, rev); break;
    case VALUE: order = sonde_top_compare(a->value, b->value, rev); break;
    default: order = rev ? strcmp(b->name, a->name) : strcmp(a->name, b->name); break;
    }
    if (!order) order = strcmp(a->name, b->name);
    if (!order) order = strcmp(a->labels, b->labels);
    return order ? order : sonde_top_compare(b->pid, a->pid, 0);
}

static const char *trend_mark(const char *trend)
{
    return strcmp(trend, "up") == 0 ? "↑" : strcmp(trend, "down") == 0 ? "↓" : "";
}

/* What the columns are in depends on the type: a counter's value is a total, its figures are per
 * second; a histogram's value and rate count records, its figures are what was recorded. */
struct row_units { enum sonde_unit value, rate, figures; };

static struct row_units units_of(const struct sonde_top_series *s)
{
    const enum sonde_unit u = sonde_unit_of(s->unit, s->name);
    if (strcmp(s->type, "counter") == 0) {
        return (struct row_units){ u, sonde_unit_rate(u), sonde_unit_rate(u) };
    }
    if (strcmp(s->type, "histogram") == 0) {
        return (struct row_units){ SONDE_UNIT_COUNT, SONDE_UNIT_COUNT, u };
    }
    return (struct row_units){ u, u, u };
}

static void top_page_series_add_row(struct sonde_table *t, const struct sonde_top_series *s,
                                    int with_process, int ascii)
{
    char v[SONDE_VALUE_BYTES];
    const struct row_units u = units_of(s);
    sonde_table_row(t);
    sonde_table_cell(t, NAME, "%s%s", s->name, s->labels);
    if (with_process && s->pid) sonde_table_cell(t, PROCESS, "%s %u", s->process, s->pid);
    sonde_table_cell(t, TYPE, "%s", strcmp(s->type, "counter") == 0     ? "count"
                                    : strcmp(s->type, "histogram") == 0 ? "hist" : s->type);
#define FIGURE(column, value, unit) \
    sonde_table_cell(t, column, "%s", sonde_value_format(v, value, unit, ascii))
    FIGURE(VALUE, s->value, u.value);
    FIGURE(RATE, strcmp(s->type, "gauge") == 0 ? NAN : s->rate, u.rate);
    FIGURE(AVG, s->avg, u.figures);
    FIGURE(P50, s->p50, u.figures);
    FIGURE(P95, s->p95, u.figures);
    FIGURE(P99, s->p99, u.figures);
#undef FIGURE
    sonde_table_cell(t, TREND, "%s", trend_mark(s->trend));
}

static unsigned top_page_series_cell_style(const void *arg, size_t row, size_t column)
{
    const struct top_page_series_order *order = arg;
    const struct sonde_top_series *s = order[row].s;
    if (column == PROCESS || column == TYPE) return SONDE_STYLE_DIM;
    if (column == TREND) return SONDE_STYLE_BOLD;
    /* What stands still steps back. */
    if (column >= RATE && column <= P99 && strcmp(s->type, "gauge") != 0 && !(s->rate > 0)) {
        return SONDE_STYLE_DIM;
    }
    return 0;
}

/* Names are cut in the middle, where cutting hurts least: family and last labels stay. */
static int top_page_series_draw_cell(const void *arg, size_t row, size_t column,
                                     struct sonde_grid *g, int x, int y, int cells)
{
    const struct top_page_series_order *order = arg;
    const struct sonde_top_series *s = order[row].s;
    if (column == NAME) {
        char name[SONDE_TABLE_CELL_MAX];
        snprintf(name, sizeof(name), "%s%s", s->name, s->labels);
        sonde_grid_field_middle(g, x, y, cells, SONDE_STYLE_NORMAL, name);
        return 1;
    }
    char line[SONDE_SPARKLINE_BYTES(SONDE_TOP_HISTORY)];
    if (column != LINE || cells > SONDE_TOP_HISTORY) return 0;
    const int gauge = strcmp(s->type, "gauge") == 0;
    sonde_sparkline(line, sizeof(line), s->history, s->history_count, cells,
                    gauge ? SONDE_SPARK_MIN : SONDE_SPARK_ZERO, g->ascii);
    sonde_grid_field(g, x, y, cells, 0, SONDE_STYLE_CYAN, line);
    return 1;
}

static void top_page_series_draw_context(const struct sonde_top_state *s,
                                         const struct sonde_top_data *d, struct sonde_grid *g,
                                         int y)
{
    struct sonde_top_part part[5] = { 0 };
    if (d->series_total > d->series_count) {
        snprintf(part[0].text, sizeof(part[0].text), "%zu of %zu series; filter with /",
                 d->series_count, d->series_total);
        part[0].style = SONDE_STYLE_YELLOW;
    } else {
        snprintf(part[0].text, sizeof(part[0].text), "%zu series", d->series_count);
    }
    if (s->pid) snprintf(part[1].text, sizeof(part[1].text), "process %u", s->pid);
    if (s->filter[0]) {
        snprintf(part[2].text, sizeof(part[2].text), "filter %s", s->filter);
        part[2].style = SONDE_STYLE_BOLD;
    }
    if (s->type) snprintf(part[3].text, sizeof(part[3].text), "%ss only", sonde_top_type(s));
    snprintf(part[4].text, sizeof(part[4].text), "by %s%s",
             sonde_top_series_sorts[s->sort[s->page]], s->reverse[s->page] ? ", reversed" : "");
    sonde_top_parts(g, 0, y, part, 5);
}

static void top_page_series_draw_nothing(const struct sonde_top_state *s, struct sonde_grid *g,
                                         struct sonde_top_area area)
{
    static const char *const none[] = {
        "No series yet.", "Start a program that records some:  sonde run -- CMD", NULL };
    static const char *const filtered[] = {
        "No series matches.", "/ changes the filter, Esc clears it, t the type,",
        "a shows all processes.", NULL };
    const int narrowed = s->filter[0] || s->type || s->pid;
    sonde_top_message(g, area, narrowed ? filtered : none);
}

static int draw_series(struct sonde_top_state *s, const struct sonde_top_data *d,
                       struct sonde_grid *g, struct sonde_top_area area)
{
    const size_t n = d->series_count;
    struct sonde_column shown[COLUMNS];
    memcpy(shown, columns, sizeof(shown));
    shown[NAME].min = g->width * 2 / 5 < 24 ? 24 : g->width * 2 / 5 > 60 ? 60 : g->width * 2 / 5;
    shown[LINE].want = g->width >= 240 ? SONDE_TOP_HISTORY : SONDE_TOP_HISTORY / 2;
    if (s->pid) shown[PROCESS].title = ""; /* one process: the context line names it */
    struct top_page_series_order *order = sonde__calloc(n, sizeof(*order));
    uint64_t *ids = sonde__calloc(n, sizeof(*ids));
    struct sonde_table t;
    sonde_table_init(&t, shown, COLUMNS);
    int rc = order && ids ? 0 : SONDE_ENOMEM;
    if (!rc) {
        for (size_t i = 0; i < n; i++) {
            order[i] = (struct top_page_series_order){ .s = &d->series[i], .sort = s->sort[s->page],
                                                       .reverse = s->reverse[s->page] };
        }
        qsort(order, n, sizeof(*order), top_page_series_by_choice);
        for (size_t i = 0; i < n; i++) {
            top_page_series_add_row(&t, order[i].s, !s->pid, g->ascii);
            ids[i] = sonde_top_row_id(order[i].s->name, order[i].s->labels, order[i].s->pid);
        }
        rc = t.error;
    }
    if (!rc) {
        const struct sonde_top_list list = { .table = &t,
                                             .ids = ids,
                                             .cursor = sonde_top_cursor(s),
                                             .style = top_page_series_cell_style,
                                             .fill = top_page_series_draw_cell,
                                             .sorted = sort_columns[s->sort[s->page]],
                                             .arg = order };
        sonde_top_draw_list(s, &list, g, area);
        s->row_pid = order[list.cursor->index].s->pid;
    }
    sonde_table_release(&t);
    sonde__free(order);
    sonde__free(ids);
    return rc;
}

int sonde_top_page_series(struct sonde_top_state *s, const struct sonde_top_data *d,
                          struct sonde_grid *g, struct sonde_top_area area)
{
    if (area.height > 3) {
        top_page_series_draw_context(s, d, g, area.y);
        area.y++;
        area.height--;
    }
    if (d->series_count > 0) return draw_series(s, d, g, area);
    top_page_series_draw_nothing(s, g, area);
    return 0;
}
