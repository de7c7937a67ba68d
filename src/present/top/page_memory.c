/* page_memory.c - memory of the processes: what is in use, how fast it comes and goes, what is
 * resident; curves of both; the pools of the one that is chosen. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "present/sparkline.h"
#include "present/top/pages.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { PID, PROGRAM, IN_USE, TREND, PEAK, RATE, CALLS, COUNT, RSS, FREE, LINE, RATE_LINE, COLUMNS };

#define FIGURE_COLUMN(text, number) \
    { .title = text, .align = SONDE_RIGHT, .want = SONDE_VALUE_CELLS, .drop = number }
static const struct sonde_column columns[COLUMNS] = {
    [PID] = { .title = "PID", .align = SONDE_RIGHT, .want = 7 },
    [PROGRAM] = { .title = "PROGRAM", .min = 6, .want = 14 },
    [IN_USE] = FIGURE_COLUMN("IN USE", 0),
    [TREND] = { .title = " ", .want = 1, .drop = 8 },
    [PEAK] = FIGURE_COLUMN("PEAK", 4),
    [RATE] = FIGURE_COLUMN("ALLOC/s", 3),
    [CALLS] = { .title = "CALLS/s", .align = SONDE_RIGHT, .drop = 6 },
    [COUNT] = { .title = "COUNT", .align = SONDE_RIGHT, .drop = 9 },
    [RSS] = FIGURE_COLUMN("RSS", 1),
    [FREE] = FIGURE_COLUMN("FREE", 7),
    [LINE] = { .title = "IN USE, LAST 60", .align = SONDE_RIGHT, .min = 15, .want = 30, .drop = 2 },
    [RATE_LINE] = { .title = "ALLOC/s, LAST 60", .align = SONDE_RIGHT, .min = 16, .want = 20,
                    .drop = 5 },
};

const char *const sonde_top_memory_sorts[] = { "in use", "alloc/s", "rss", "pid", NULL };
static const int sort_columns[] = { IN_USE, RATE, RSS, PID };

struct top_page_memory_row {
    uint32_t pid;
    const char *program;
    double live, peak, rate, calls, count, rss, free;
    const char *trend;                   /* of what the line shows */
    const struct sonde_top_series *line; /* in use; else resident; NULL */
    const struct sonde_top_series *rate_line;
    unsigned sort;
    int reverse;
};

/* ---- Series into rows ------------------------------------------------------------------------ */

static struct top_page_memory_row *top_page_memory_row_of(
    struct top_page_memory_row *rows, size_t *count, const struct sonde_top_series *s)
{
    for (size_t i = 0; i < *count; i++) {
        if (rows[i].pid == s->pid) return &rows[i];
    }
    rows[*count] = (struct top_page_memory_row){ .pid = s->pid, .program = s->process, .live = NAN,
                                                 .peak = NAN, .rate = NAN, .calls = NAN,
                                                 .count = NAN, .rss = NAN, .free = NAN,
                                                 .trend = "" };
    return &rows[(*count)++];
}

static void top_page_memory_add_series(struct top_page_memory_row *r,
                                       const struct sonde_top_series *s)
{
    if (!strcmp(s->name, "sonde_heap_live_bytes")) {
        r->live = s->value;
        r->line = s;
        r->trend = s->trend;
    } else if (!strcmp(s->name, "sonde_heap_peak_bytes")) {
        r->peak = s->value;
    } else if (!strcmp(s->name, "sonde_heap_allocated_bytes_total")) {
        r->rate = s->rate;
        r->rate_line = s;
    } else if (!strcmp(s->name, "sonde_heap_allocations_total")) {
        r->calls = s->rate;
    } else if (!strcmp(s->name, "sonde_heap_live_allocations")) {
        r->count = s->value;
    } else if (!strcmp(s->name, "sonde_heap_allocator_bytes")) {
        if (strstr(s->labels, "state=\"free\"")) r->free = s->value;
    } else if (!strcmp(s->name, "sonde_process_resident_memory_bytes")) {
        r->rss = s->value;
        if (!r->line) {
            r->line = s;
            r->trend = s->trend;
        }
    }
}

static int top_page_memory_by_choice(const void *x, const void *y)
{
    const struct top_page_memory_row *a = x, *b = y;
    int order = 0;
    switch (sort_columns[a->sort]) {
    case IN_USE:
        order = sonde_top_compare(a->live, b->live, a->reverse);
        if (!order) order = sonde_top_compare(a->rss, b->rss, a->reverse);
        break;
    case RATE: order = sonde_top_compare(a->rate, b->rate, a->reverse); break;
    case RSS: order = sonde_top_compare(a->rss, b->rss, a->reverse); break;
    default: order = sonde_top_compare(b->pid, a->pid, a->reverse); break;
    }
    return order ? order : sonde_top_compare(b->pid, a->pid, 0);
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static void add_cells(struct sonde_table *t, const struct top_page_memory_row *r, int ascii)
{
    char v[SONDE_VALUE_BYTES];
    sonde_table_row(t);
    sonde_table_cell(t, PID, "%u", r->pid);
    sonde_table_cell(t, PROGRAM, "%s", r->program);
#define FIGURE(column, value, unit) \
    sonde_table_cell(t, column, "%s", sonde_value_format(v, value, unit, ascii))
    FIGURE(IN_USE, r->live, SONDE_UNIT_BYTES);
    FIGURE(PEAK, r->peak, SONDE_UNIT_BYTES);
    FIGURE(RATE, r->rate, SONDE_UNIT_BYTES);
    FIGURE(CALLS, r->calls, SONDE_UNIT_COUNT);
    FIGURE(COUNT, r->count, SONDE_UNIT_COUNT);
    FIGURE(RSS, r->rss, SONDE_UNIT_BYTES);
    FIGURE(FREE, r->free, SONDE_UNIT_BYTES);
#undef FIGURE
    sonde_table_cell(t, TREND, "%s", !strcmp(r->trend, "up") ? "↑"
                                     : !strcmp(r->trend, "down") ? "↓" : "");
}

static unsigned top_page_memory_cell_style(const void *arg, size_t row, size_t column)
{
    const struct top_page_memory_row *r = (const struct top_page_memory_row *)arg + row;
    if (column == TREND) {
        return SONDE_STYLE_BOLD | (strcmp(r->trend, "up") ? 0 : SONDE_STYLE_YELLOW);
    }
    return isnan(r->live) && column != RSS ? SONDE_STYLE_DIM : 0;
}

static void draw_line(const struct sonde_top_series *s, unsigned style, struct sonde_grid *g,
                      int x, int y, int cells)
{
    char line[SONDE_SPARKLINE_BYTES(SONDE_TOP_HISTORY)];
    if (cells > SONDE_TOP_HISTORY) cells = SONDE_TOP_HISTORY;
    sonde_sparkline(line, sizeof(line), s->history, s->history_count, cells,
                    strcmp(s->type, "gauge") ? SONDE_SPARK_ZERO : SONDE_SPARK_MIN, g->ascii);
    sonde_grid_field(g, x, y, cells, 0, style, line);
}

static int top_page_memory_draw_cell(const void *arg, size_t row, size_t column,
                                     struct sonde_grid *g, int x, int y, int cells)
{
    const struct top_page_memory_row *r = (const struct top_page_memory_row *)arg + row;
    const struct sonde_top_series *s = column == LINE ? r->line
                                       : column == RATE_LINE ? r->rate_line : NULL;
    if (!s) return 0;
    draw_line(s, column == LINE && !isnan(r->live) ? SONDE_STYLE_CYAN : SONDE_STYLE_DIM, g, x, y,
              cells);
    return 1;
}

static void top_page_memory_draw_context(const struct sonde_top_state *s, size_t count,
                                         size_t profiled, struct sonde_grid *g, int y)
{
    struct sonde_top_part part[4] = { 0 };
    snprintf(part[0].text, sizeof(part[0].text), "%zu process%s", count, count == 1 ? "" : "es");
    snprintf(part[1].text, sizeof(part[1].text), "the heap of %zu is profiled%s", profiled,
             profiled ? "" : ": start programs with `sonde run`");
    if (s->pid) snprintf(part[2].text, sizeof(part[2].text), "process %u", s->pid);
    snprintf(part[3].text, sizeof(part[3].text), "by %s%s",
             sonde_top_memory_sorts[s->sort[s->page]], s->reverse[s->page] ? ", reversed" : "");
    sonde_top_parts(g, 0, y, part, 4);
}

/* ---- Pools ----------------------------------------------------------------------------------- */

static int is_pool_of(const struct sonde_top_series *s, uint32_t pid)
{
    return s->pid == pid && !strcmp(s->name, "sonde_memory_pool_bytes");
}

/* `{pool="kv"}` as kv. */
static void top_page_memory_pool_name(const char *labels, char *out, size_t out_size)
{
    const char *from = strstr(labels, "pool=\"");
    from = from ? from + 6 : labels;
    const char *end = strrchr(from, '"');
    snprintf(out, out_size, "%.*s", end ? (int)(end - from) : (int)strlen(from), from);
}

/* What the process's own allocators tell of their pools is between the two; where there is nothing
 * of the kind, they are left out. */
static const struct sonde_column pool_columns[] = {
    { .title = "POOL", .min = 8, .want = 22 },
    { .title = "BYTES", .align = SONDE_RIGHT, .want = SONDE_VALUE_CELLS },
    { .title = "CAPACITY", .align = SONDE_RIGHT, .want = SONDE_VALUE_CELLS, .drop = 3 },
    { .title = "EXTERNAL FRAG", .align = SONDE_RIGHT, .drop = 2 },
    { .title = "INTERNAL", .align = SONDE_RIGHT, .drop = 2 },
    { .title = "FAILURES", .align = SONDE_RIGHT, .drop = 4 },
    { .title = "LAST 60", .align = SONDE_RIGHT, .min = 10, .want = 30, .drop = 1 },
};
enum { POOL_TOLD = 2, POOL_LINE = 6, POOL_COLUMNS };
static const struct sonde_column pool_columns_plain[] = {
    { .title = "POOL", .min = 8, .want = 22 },
    { .title = "BYTES", .align = SONDE_RIGHT, .want = SONDE_VALUE_CELLS },
    { .title = "LAST 60", .align = SONDE_RIGHT, .min = 10, .want = 30, .drop = 1 },
};

struct pools {
    const struct sonde_top_series *row[16];
    const struct sonde_top_pool *told[16]; /* NULL = nothing */
    size_t count;
    int any_told;
};

static int draw_pool_cell(const void *arg, size_t row, size_t column, struct sonde_grid *g, int x,
                          int y, int cells)
{
    const struct pools *p = arg;
    if (column != (p->any_told ? POOL_LINE : POOL_TOLD)) return 0;
    draw_line(p->row[row], SONDE_STYLE_CYAN, g, x, y, cells);
    return 1;
}

static void add_told(struct sonde_table *t, const struct sonde_top_pool *p, int ascii)
{
    char v[SONDE_VALUE_BYTES];
    const struct { double v; enum sonde_unit unit; } cells[] = {
        { p->capacity, SONDE_UNIT_BYTES }, { p->external, SONDE_UNIT_RATIO },
        { p->internal, SONDE_UNIT_RATIO }, { p->failures, SONDE_UNIT_COUNT },
    };
    for (size_t i = 0; i < SONDE_COUNT(cells); i++) {
        sonde_table_cell(t, POOL_TOLD + i, "%s",
                         sonde_value_format(v, cells[i].v, cells[i].unit, ascii));
    }
}

static int draw_pools(struct sonde_top_state *s, const struct pools *p, struct sonde_grid *g,
                      struct sonde_top_area area)
{
    struct sonde_table t;
    if (p->any_told) sonde_table_init(&t, pool_columns, POOL_COLUMNS);
    else sonde_table_init(&t, pool_columns_plain, POOL_TOLD + 1);
    for (size_t i = 0; i < p->count; i++) {
        char v[SONDE_VALUE_BYTES], name[256];
        top_page_memory_pool_name(p->row[i]->labels, name, sizeof(name));
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", name);
        sonde_table_cell(&t, 1, "%s",
                         sonde_value_format(v, p->row[i]->value, SONDE_UNIT_BYTES, g->ascii));
        if (p->told[i]) add_told(&t, p->told[i], g->ascii);
    }
    const int rc = t.error;
    const struct sonde_top_list list = { .table = &t, .sorted = -1, .fill = draw_pool_cell,
                                         .arg = p };
    if (!rc) sonde_top_draw_list(s, &list, g, area);
    sonde_table_release(&t);
    return rc;
}

static const struct sonde_top_pool *told_of(const struct sonde_top_engine *e,
                                            const struct sonde_top_series *s)
{
    char name[256];
    top_page_memory_pool_name(s->labels, name, sizeof(name));
    for (size_t i = 0; i < e->pool_count; i++) {
        if (e->pools[i].pid == s->pid && !strcmp(e->pools[i].pool, name)) return &e->pools[i];
    }
    return NULL;
}

static struct pools pools_of(const struct sonde_top_data *d, uint32_t pid)
{
    struct pools p = { .count = 0 };
    for (size_t i = 0; i < d->series_count; i++) {
        const struct sonde_top_series *one = &d->series[i];
        if (!is_pool_of(one, pid) || p.count == SONDE_COUNT(p.row)) continue;
        p.told[p.count] = told_of(&d->engine, one);
        p.any_told |= p.told[p.count] != NULL;
        p.row[p.count++] = one;
    }
    return p;
}

/* ---- The page -------------------------------------------------------------------------------- */

static int draw_rows(struct sonde_top_state *s, const struct sonde_top_data *d,
                     struct top_page_memory_row *rows,
                     size_t count, struct sonde_grid *g, struct sonde_top_area area)
{
    uint64_t *ids = sonde__calloc(count, sizeof(*ids));
    struct sonde_table t;
    if (!ids) return SONDE_ENOMEM;
    sonde_table_init(&t, columns, COLUMNS);
    for (size_t i = 0; i < count; i++) {
        add_cells(&t, &rows[i], g->ascii);
        ids[i] = sonde_top_row_id(rows[i].program, "", rows[i].pid);
    }
    int rc = t.error;
    if (!rc) {
        /* The pools of the chosen process are below, if there is room for both. */
        struct sonde_top_cursor *cursor = sonde_top_cursor(s);
        sonde_top_place(cursor, ids, count, count);
        const struct pools pools = pools_of(d, rows[cursor->index].pid);
        const int wanted = pools.count ? (int)pools.count + 3 : 0; /* a gap, titles, one spare */
        struct sonde_top_area below = area;
        if (wanted && area.height >= wanted + 4) {
            area.height -= wanted;
            below.height = wanted - 1;
        } else {
            below.height = 0;
        }
        const struct sonde_top_list list = { .table = &t,
                                             .ids = ids,
                                             .cursor = cursor,
                                             .style = top_page_memory_cell_style,
                                             .fill = top_page_memory_draw_cell,
                                             .sorted = sort_columns[s->sort[s->page]],
                                             .arg = rows };
        below.y += sonde_top_draw_list(s, &list, g, area) + 1;
        s->row_pid = rows[cursor->index].pid;
        if (below.height > 0) rc = draw_pools(s, &pools, g, below);
    }
    sonde_table_release(&t);
    sonde__free(ids);
    return rc;
}

int sonde_top_page_memory(struct sonde_top_state *s, const struct sonde_top_data *d,
                          struct sonde_grid *g, struct sonde_top_area area)
{
    static const char *const nothing[] = {
        "No process is being watched.", "Start one:  sonde run -- CMD", NULL };
    struct top_page_memory_row *rows = sonde__calloc(d->series_count + 1, sizeof(*rows));
    size_t count = 0, profiled = 0;
    if (!rows) return SONDE_ENOMEM;
    for (size_t i = 0; i < d->series_count; i++) {
        const struct sonde_top_series *one = &d->series[i];
        if (one->pid) top_page_memory_add_series(top_page_memory_row_of(rows, &count, one), one);
    }
    for (size_t i = 0; i < count; i++) {
        rows[i].sort = s->sort[s->page];
        rows[i].reverse = s->reverse[s->page];
        if (!isnan(rows[i].live)) profiled++;
    }
    qsort(rows, count, sizeof(*rows), top_page_memory_by_choice);
    if (count && area.height > 3) {
        top_page_memory_draw_context(s, count, profiled, g, area.y);
        area.y++;
        area.height--;
    }
    int rc = 0;
    if (count) rc = draw_rows(s, d, rows, count, g, area);
    else sonde_top_message(g, area, nothing);
    sonde__free(rows);
    return rc;
}
