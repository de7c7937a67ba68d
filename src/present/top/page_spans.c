/* page_spans.c - spans by name with the slowest of the chosen one below, the latest, the
 * slowest, and the most frequent pairs of parent and child. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "present/top/pages.h"
#include "present/units.h"
#include "sonde/sonde.h"

#define FIGURE_COLUMN(text, number) \
    { .title = text, .align = SONDE_RIGHT, .want = SONDE_VALUE_CELLS, .drop = number }

enum { G_NAME, G_COUNT, G_RATE, G_P50, G_P95, G_P99, G_MAX, G_ERRORS, G_COLUMNS };
static const struct sonde_column group_columns[G_COLUMNS] = {
    [G_NAME] = { .title = "SPAN", .min = 8, .want = 24 },
    [G_COUNT] = { .title = "COUNT", .align = SONDE_RIGHT, .want = 6, .drop = 6 },
    [G_RATE] = FIGURE_COLUMN("RATE/s", 2),
    [G_P50] = FIGURE_COLUMN("P50", 3),
    [G_P95] = FIGURE_COLUMN("P95", 5),
    [G_P99] = FIGURE_COLUMN("P99", 1),
    [G_MAX] = FIGURE_COLUMN("MAX", 7),
    [G_ERRORS] = { .title = "ERRORS", .align = SONDE_RIGHT, .drop = 4 },
};

enum { S_AGE, S_NAME, S_DURATION, S_OUTCOME, S_PROCESS, S_TRACE, S_ATTRIBUTES, S_COLUMNS };
static const struct sonde_column span_columns[S_COLUMNS] = {
    [S_AGE] = { .title = "AGE", .align = SONDE_RIGHT, .want = 8, .drop = 3 },
    [S_NAME] = { .title = "SPAN", .min = 8, .want = 16 },
    [S_DURATION] = FIGURE_COLUMN("TOOK", 1),
    [S_OUTCOME] = { .title = "OUTCOME", .drop = 2 },
    [S_PROCESS] = { .title = "PROCESS", .min = 9, .max = 24, .drop = 5 },
    [S_TRACE] = { .title = "TRACE", .min = 8, .drop = 6 },
    [S_ATTRIBUTES] = { .title = "ATTRIBUTES", .min = 10, .drop = 4 },
};

/* ---- By name and pairs --------------------------------------------------------------------- */

static void top_page_spans_add_group(struct sonde_table *t, const struct sonde_top_group *group,
                                     int ascii)
{
    char v[SONDE_VALUE_BYTES];
    sonde_table_row(t);
    if (group->parent) sonde_table_cell(t, G_NAME, "%s → %s", group->parent, group->name);
    else sonde_table_cell(t, G_NAME, "%s", group->name);
#define FIGURE(column, value, unit) \
    sonde_table_cell(t, column, "%s", sonde_value_format(v, value, unit, ascii))
    FIGURE(G_COUNT, (double)group->count, SONDE_UNIT_COUNT);
    FIGURE(G_RATE, group->rate, SONDE_UNIT_COUNT);
    FIGURE(G_P50, group->p50, SONDE_UNIT_SECONDS);
    FIGURE(G_P95, group->p95, SONDE_UNIT_SECONDS);
    FIGURE(G_P99, group->p99, SONDE_UNIT_SECONDS);
    FIGURE(G_MAX, group->max, SONDE_UNIT_SECONDS);
    FIGURE(G_ERRORS, (double)group->errors, SONDE_UNIT_COUNT);
#undef FIGURE
}

static unsigned group_style(const void *arg, size_t row, size_t column)
{
    const struct sonde_top_group *const *groups = arg;
    if (column == G_ERRORS) return groups[row]->errors ? SONDE_STYLE_RED : SONDE_STYLE_DIM;
    return 0;
}

/* Draws the groups and returns the rows used, or SONDE_ENOMEM. */
static int draw_groups(struct sonde_top_state *s, const struct sonde_top_group *from,
                       size_t count, struct sonde_grid *g, struct sonde_top_area area)
{
    const struct sonde_top_group **groups = sonde__calloc(count + 1, sizeof(const void *));
    uint64_t *ids = sonde__calloc(count + 1, sizeof(*ids));
    struct sonde_top_words words;
    struct sonde_table t;
    size_t n = 0;
    sonde_table_init(&t, group_columns, G_COLUMNS);
    sonde_top_split_filter(s->filter, &words);
    int rc = groups && ids ? 0 : SONDE_ENOMEM;
    for (size_t i = 0; !rc && i < count; i++) {
        if (!sonde_top_name_passes(&words, from[i].name)) continue;
        groups[n] = &from[i];
        ids[n++] = sonde_top_row_id(from[i].name, from[i].parent ? from[i].parent : "", 0);
        top_page_spans_add_group(&t, &from[i], g->ascii);
        rc = t.error;
    }
    if (!rc) {
        const struct sonde_top_list list = {
            .table = &t, .ids = ids, .cursor = sonde_top_cursor(s), .style = group_style,
            .sorted = G_COUNT, .arg = groups };
        rc = sonde_top_draw_list(s, &list, g, area);
        if (n > 0) {
            snprintf(s->row_span, sizeof(s->row_span), "%s", groups[list.cursor->index]->name);
        }
    }
    sonde_table_release(&t);
    sonde__free(groups);
    sonde__free(ids);
    return rc;
}

/* ---- Single spans -------------------------------------------------------------------------- */

static void top_page_spans_add(struct sonde_table *t, const struct sonde_top_span *span,
                               double now_s, int ascii)
{
    char v[SONDE_VALUE_BYTES];
    const double age = now_s - span->start - span->duration_s;
    sonde_table_row(t);
    sonde_table_cell(t, S_AGE, "%s",
                     sonde_value_format(v, age > 0 ? age : 0, SONDE_UNIT_SECONDS, ascii));
    sonde_table_cell(t, S_NAME, "%s", span->name);
    sonde_table_cell(t, S_DURATION, "%s",
                     sonde_value_format(v, span->duration_s, SONDE_UNIT_SECONDS, ascii));
    sonde_table_cell(t, S_OUTCOME, "%s", span->outcome);
    sonde_table_cell(t, S_PROCESS, "%s %u", span->program, span->pid);
    sonde_table_cell(t, S_TRACE, "%s", span->trace_id);
    sonde_table_cell(t, S_ATTRIBUTES, "%s", span->attributes);
}

static unsigned span_style(const void *arg, size_t row, size_t column)
{
    const struct sonde_top_span *const *spans = arg;
    if (column == S_OUTCOME) {
        return strcmp(spans[row]->outcome, "ok") == 0 ? SONDE_STYLE_DIM : SONDE_STYLE_RED;
    }
    return column == S_TRACE || column == S_AGE || column == S_PROCESS ? SONDE_STYLE_DIM : 0;
}

static int top_page_spans_slowest_first(const void *a, const void *b)
{
    const struct sonde_top_span *x = *(const struct sonde_top_span *const *)a;
    const struct sonde_top_span *y = *(const struct sonde_top_span *const *)b;
    return (x->duration_s < y->duration_s) - (x->duration_s > y->duration_s);
}

struct span_choice {
    const char *name;                /* "" = every one the filter lets through */
    int slowest;                     /* sorted by duration; else newest first */
    size_t max;
    struct sonde_top_cursor *cursor; /* NULL = a preview */
};

static int draw_spans(struct sonde_top_state *s, const struct sonde_top_data *d,
                      const struct span_choice *choice, struct sonde_grid *g,
                      struct sonde_top_area area)
{
    const struct sonde_top_span **spans = sonde__calloc(d->span_count + 1, sizeof(const void *));
    uint64_t *ids = sonde__calloc(d->span_count + 1, sizeof(*ids));
    struct sonde_top_words words;
    struct sonde_table t;
    size_t n = 0;
    sonde_table_init(&t, span_columns, S_COLUMNS);
    sonde_top_split_filter(s->filter, &words);
    int rc = spans && ids ? 0 : SONDE_ENOMEM;
    if (!rc) {
        for (size_t i = 0; i < d->span_count; i++) {
            const char *name = d->spans[i].name;
            if (choice->name[0] ? strcmp(name, choice->name) == 0
                                : sonde_top_name_passes(&words, name)) {
                spans[n++] = &d->spans[i];
            }
        }
        if (choice->slowest) qsort(spans, n, sizeof(*spans), top_page_spans_slowest_first);
        if (n > choice->max) n = choice->max;
        for (size_t i = 0; i < n; i++) {
            top_page_spans_add(&t, spans[i], d->time_s, g->ascii);
            ids[i] = sonde_top_row_id(spans[i]->trace_id, spans[i]->span_id, 0);
        }
        rc = t.error;
    }
    if (!rc) {
        const struct sonde_top_list list = {
            .table = &t, .ids = ids, .cursor = choice->cursor, .style = span_style,
            .sorted = choice->slowest ? S_DURATION : S_AGE, .arg = spans };
        rc = sonde_top_draw_list(s, &list, g, area);
        if (n > 0 && choice->cursor) {
            snprintf(s->row_trace, sizeof(s->row_trace), "%s",
                     spans[choice->cursor->index]->trace_id);
        }
    }
    sonde_table_release(&t);
    sonde__free(spans);
    sonde__free(ids);
    return rc;
}

/* ---- The page ------------------------------------------------------------------------------ */

static void top_page_spans_draw_context(const struct sonde_top_state *s,
                                        const struct sonde_top_data *d, struct sonde_grid *g, int y)
{
    static const char *const views[] = { "by name", "latest", "slowest", "pairs parent → child" };
    struct sonde_top_part part[5] = { 0 };
    char v[SONDE_VALUE_BYTES];
    snprintf(part[0].text, sizeof(part[0].text), "%s", views[s->view]);
    part[0].style = SONDE_STYLE_BOLD;
    if (s->view == SONDE_TOP_LATEST || s->view == SONDE_TOP_SLOWEST) {
        snprintf(part[1].text, sizeof(part[1].text), "%s", s->span_name);
    }
    if (s->pid) snprintf(part[2].text, sizeof(part[2].text), "process %u", s->pid);
    if (s->filter[0]) snprintf(part[3].text, sizeof(part[3].text), "filter %s", s->filter);
    snprintf(part[4].text, sizeof(part[4].text), "%s%zu spans of the last %s",
             d->spans_from_s > 0 ? "" : "newest ", d->span_count,
             sonde_value_format(v, d->spans_seconds, SONDE_UNIT_SECONDS, g->ascii));
    part[4].style = SONDE_STYLE_DIM;
    sonde_top_parts(g, 0, y, part, 5);
}

/* Names above, the slowest spans of the chosen one below if there is room for both. */
static int draw_names(struct sonde_top_state *s, const struct sonde_top_data *d,
                      struct sonde_grid *g, struct sonde_top_area area)
{
    struct sonde_top_area upper = area;
    const int names = (int)(d->name_count < 1000 ? d->name_count : 1000) + 1;
    if (area.height >= 12) {
        const int most = area.height * 6 / 10;
        upper.height = names < most ? names : most;
    }
    const int used = draw_groups(s, d->names, d->name_count, g, upper);
    if (used < 0) return used;

    struct sonde_top_area lower = { .y = area.y + used + 2, .height = area.height - used - 2 };
    if (lower.height < 4 || area.height < 12) return 0;
    char title[SONDE_TOP_SPAN_NAME + 16];
    snprintf(title, sizeof(title), "slowest%s%s", s->once ? "" : " ", s->once ? "" : s->row_span);
    sonde_grid_text(g, 0, lower.y - 1, g->width, SONDE_STYLE_BOLD, title);
    const struct span_choice slowest = {
        .name = s->once ? "" : s->row_span, .slowest = 1, .max = s->once ? 10 : 1000 };
    const int rc = draw_spans(s, d, &slowest, g, lower);
    return rc < 0 ? rc : 0;
}

int sonde_top_page_spans(struct sonde_top_state *s, const struct sonde_top_data *d,
                         struct sonde_grid *g, struct sonde_top_area area)
{
    static const char *const none[] = {
        "No spans yet.", "A program records them with SONDE_SCOPE(\"name\") or sonde_op_begin().",
        "a shows all processes, Esc clears the filter.", NULL };
    int rc = 0;
    if (area.height > 3) {
        top_page_spans_draw_context(s, d, g, area.y);
        area.y++;
        area.height--;
    }
    if (d->span_count == 0) {
        sonde_top_message(g, area, none);
        return 0;
    }
    if (s->view == SONDE_TOP_NAMES) return draw_names(s, d, g, area);
    if (s->view == SONDE_TOP_PAIRS) {
        rc = draw_groups(s, d->pairs, d->pair_count, g, area);
    } else {
        const struct span_choice choice = {
            .name = s->span_name, .slowest = s->view == SONDE_TOP_SLOWEST,
            .max = SONDE_TOP_SPANS_MAX, .cursor = sonde_top_cursor(s) };
        rc = draw_spans(s, d, &choice, g, area);
    }
    return rc < 0 ? rc : 0;
}
