/* page_trace.c - all spans of one trace as a tree, with a bar for when and how long. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "present/top/pages.h"
#include "present/top/spans.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { NAME, TOOK, BAR, OUTCOME, PROCESS, ATTRIBUTES, COLUMNS };

static const struct sonde_column columns[COLUMNS] = {
    [NAME] = { .title = "SPAN", .min = 10 },
    [TOOK] = { .title = "TOOK", .align = SONDE_RIGHT, .want = SONDE_VALUE_CELLS, .drop = 1 },
    [BAR] = { .title = "WHEN", .min = 10, .want = 40, .drop = 2 },
    [OUTCOME] = { .title = "OUTCOME", .drop = 3 },
    [PROCESS] = { .title = "PROCESS", .min = 9, .max = 24, .drop = 5 },
    [ATTRIBUTES] = { .title = "ATTRIBUTES", .min = 10, .drop = 4 },
};

struct trace {
    const struct sonde_top_data *d;
    const struct sonde_top_node *nodes;
    double start, seconds;
};

static const struct sonde_top_span *top_page_trace_span_of(const struct trace *t, size_t row)
{
    return &t->d->trace[t->nodes[row].span];
}

static unsigned top_page_trace_cell_style(const void *arg, size_t row, size_t column)
{
    const int ok = strcmp(top_page_trace_span_of(arg, row)->outcome, "ok") == 0;
    if (column == OUTCOME) return ok ? SONDE_STYLE_DIM : SONDE_STYLE_RED;
    return column == PROCESS ? SONDE_STYLE_DIM : 0;
}

/* At least one cell, so that nothing is invisible. */
static int draw_bar(const void *arg, size_t row, size_t column, struct sonde_grid *g, int x, int y,
                    int cells)
{
    const struct trace *t = arg;
    const struct sonde_top_span *span = top_page_trace_span_of(t, row);
    if (column != BAR) return 0;
    int from = 0, to = cells;
    if (t->seconds > 0 && isfinite(t->seconds)) {
        from = (int)((span->start - t->start) / t->seconds * cells);
        to = (int)ceil((span->start + span->duration_s - t->start) / t->seconds * cells);
    }
    if (from > cells - 1) from = cells - 1;
    if (to <= from) to = from + 1;
    if (to > cells) to = cells;
    sonde_grid_field(g, x, y, cells, 0, SONDE_STYLE_NORMAL, "");
    const unsigned style = strcmp(span->outcome, "ok") == 0 ? SONDE_STYLE_CYAN : SONDE_STYLE_RED;
    for (int i = from; i < to; i++) sonde_grid_text(g, x + i, y, 1, style, "█");
    return 1;
}

static void top_page_trace_add_row(struct sonde_table *table, const struct sonde_top_span *span,
                                   int depth, int ascii)
{
    char v[SONDE_VALUE_BYTES];
    sonde_table_row(table);
    sonde_table_cell(table, NAME, "%*s%s%s", depth > 0 ? 2 * (depth - 1) : 0, "",
                     depth > 0 ? "└ " : "", span->name);
    sonde_table_cell(table, TOOK, "%s",
                     sonde_value_format(v, span->duration_s, SONDE_UNIT_SECONDS, ascii));
    sonde_table_cell(table, OUTCOME, "%s", span->outcome);
    sonde_table_cell(table, PROCESS, "%s %u", span->program, span->tid ? span->tid : span->pid);
    sonde_table_cell(table, ATTRIBUTES, "%s", span->attributes);
}

static void top_page_trace_extent(struct trace *t)
{
    double first = INFINITY, last = -INFINITY;
    for (size_t i = 0; i < t->d->trace_count; i++) {
        const struct sonde_top_span *s = &t->d->trace[i];
        if (s->start < first) first = s->start;
        if (s->start + s->duration_s > last) last = s->start + s->duration_s;
    }
    t->start = first;
    t->seconds = last - first;
}

int sonde_top_page_trace(struct sonde_top_state *s, const struct sonde_top_data *d,
                         struct sonde_grid *g, struct sonde_top_area area)
{
    static const char *const gone[] = {
        "This trace is not at hand.",
        "Its spans are too old, or have not been read yet. Esc: back.", NULL };
    static const char *const waiting[] = { "Reading …", NULL };
    const size_t n = d->trace_count;
    /* What is at hand may still be from before the trace was chosen. */
    if (n == 0 || strcmp(d->trace[0].trace_id, s->trace_id) != 0) {
        sonde_top_message(g, area, d->trace && n == 0 ? gone : waiting);
        return 0;
    }
    struct sonde_top_node *nodes = sonde__calloc(n, sizeof(*nodes));
    uint64_t *ids = sonde__calloc(n, sizeof(*ids));
    struct trace trace = { .d = d, .nodes = nodes };
    struct sonde_table t;
    sonde_table_init(&t, columns, COLUMNS);
    int rc = nodes && ids ? sonde_top_trace_tree(d, nodes) : SONDE_ENOMEM;
    for (size_t i = 0; !rc && i < n; i++) {
        const struct sonde_top_span *span = top_page_trace_span_of(&trace, i);
        top_page_trace_add_row(&t, span, nodes[i].depth, g->ascii);
        ids[i] = sonde_top_row_id(span->span_id, span->name, 0);
        rc = t.error;
    }
    if (!rc) {
        top_page_trace_extent(&trace);
        if (area.height > 3) {
            struct sonde_top_part part[2] = { 0 };
            char v[SONDE_VALUE_BYTES];
            snprintf(part[0].text, sizeof(part[0].text), "trace %s", s->trace_id);
            part[0].style = SONDE_STYLE_BOLD;
            snprintf(part[1].text, sizeof(part[1].text), "%zu spans, %s", n,
                     sonde_value_format(v, trace.seconds, SONDE_UNIT_SECONDS, g->ascii));
            sonde_top_parts(g, 0, area.y++, part, 2);
            area.height--;
        }
        const struct sonde_top_list list = { .table = &t,
                                             .ids = ids,
                                             .cursor = sonde_top_cursor(s),
                                             .style = top_page_trace_cell_style,
                                             .fill = draw_bar,
                                             .sorted = -1,
                                             .arg = &trace };
        sonde_top_draw_list(s, &list, g, area);
    }
    sonde_table_release(&t);
    sonde__free(nodes);
    sonde__free(ids);
    return rc;
}
