/* profile_diff.c - what changed between two profiles, function by function.
 *
 * Of time, shares are compared, since a longer recording is not a slower program. Of memory, bytes
 * are: twice as much in use is twice as much. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/compare.h"
#include "base/alloc.h"
#include "base/json.h"
#include "present/report/compare.h"
#include "present/report/profile_private.h"
#include "present/table.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { LIMIT_DEFAULT = 30 };

struct change {
    const struct sonde_compare_function *f;
    double self_before, self_after, total_before, total_after; /* shares of the totals, or bytes */
};

static double self_change(const struct change *c) { return c->self_after - c->self_before; }
static double total_change(const struct change *c) { return c->total_after - c->total_before; }

/* 1 if it is sure that the function changed. */
static int is_sure(const struct change *c)
{
    const struct sonde_compare_measure *self = c->f->self_measure, *total = c->f->total_measure;
    return (self && sonde_compare_measure_changed(self)) ||
           (total && sonde_compare_measure_changed(total));
}

static int profile_diff_by_change(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (is_sure(x) != is_sure(y)) return is_sure(y) - is_sure(x);
    const double s = fabs(self_change(y)) - fabs(self_change(x));
    if (s < 0 || s > 0) return s < 0 ? -1 : 1;
    const double t = fabs(total_change(y)) - fabs(total_change(x));
    if (t < 0 || t > 0) return t < 0 ? -1 : 1;
    const double w = y->self_after - x->self_after;
    if (w < 0 || w > 0) return w < 0 ? -1 : 1;
    return strcmp(x->f->name, y->f->name);
}

static double profile_diff_share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static int profile_diff_in_bytes(const struct sonde_comparison *c)
{
    return sonde_sample_kind_is_bytes((enum sonde_sample_kind)c->kind);
}

/* In the order they are shown; free with sonde__free. NULL = no memory. */
static struct change *changes_create(const struct sonde_comparison *compared)
{
    const int bytes = profile_diff_in_bytes(compared);
    const uint64_t before = bytes ? 1 : compared->weights[0],
                   after = bytes ? 1 : compared->weights[1];
    const size_t count = compared->function_count;
    struct change *c = sonde__calloc(count ? count : 1, sizeof(*c));
    for (size_t i = 0; c && i < count; i++) {
        const struct sonde_compare_function *f = &compared->functions[i];
        c[i] = (struct change){ .f = f,
                                .self_before = profile_diff_share(f->self[0], before),
                                .self_after = profile_diff_share(f->self[1], after),
                                .total_before = profile_diff_share(f->total[0], before),
                                .total_after = profile_diff_share(f->total[1], after) };
    }
    if (c) qsort(c, count, sizeof(*c), profile_diff_by_change);
    return c;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void change_cells(struct sonde_table *t, size_t column, double before, double after)
{
    sonde_table_cell(t, column, "%.2f", 100 * before);
    sonde_table_cell(t, column + 1, "%.2f", 100 * after);
    /* -0.00 would look as if there were something. */
    const double change = round((after - before) * 1e4) / 100;
    sonde_table_cell(t, column + 2, "%+.2f", change == 0 ? 0 : change);
}

static const char *signed_bytes(char out[SONDE_VALUE_BYTES + 1], double change, int ascii)
{
    char text[SONDE_VALUE_BYTES];
    snprintf(out, SONDE_VALUE_BYTES + 1, "%s%s", change > 0 ? "+" : "",
             sonde_value_format(text, change, SONDE_UNIT_BYTES, ascii));
    return out;
}

static void byte_cells(struct sonde_table *t, size_t column, double before, double after,
                       int ascii)
{
    char text[SONDE_VALUE_BYTES + 1];
    sonde_table_cell(t, column, "%s", sonde_value_format(text, before, SONDE_UNIT_BYTES, ascii));
    sonde_table_cell(t, column + 1, "%s",
                     sonde_value_format(text, after, SONDE_UNIT_BYTES, ascii));
    sonde_table_cell(t, column + 2, "%s", signed_bytes(text, after - before, ascii));
}

enum { COLUMNS_MAX = 12 };

/* Interval and verdict go before the name, where there are any. Returns the column of the name. */
static size_t judged_columns(struct sonde_column *columns, size_t at, const struct change *c,
                             size_t count)
{
    size_t judged = 0;
    for (size_t i = 0; i < count; i++) judged += c[i].f->self_measure || c[i].f->total_measure;
    if (judged) {
        columns[at++] = (struct sonde_column){ .title = "95 % OF SELF", .align = SONDE_RIGHT,
                                               .drop = 6 };
        columns[at++] = (struct sonde_column){ .title = "VERDICT" };
    }
    columns[at] = (struct sonde_column){ .title = "FUNCTION", .min = 20 };
    return at;
}

/* What is said of a function by itself; if that is nothing, of it with what it calls. */
static void judged_cells(struct sonde_table *t, size_t column, const struct change *c, int ascii)
{
    char text[SONDE_MEASURE_BYTES];
    const struct sonde_compare_measure *self = c->f->self_measure, *total = c->f->total_measure;
    if (self) sonde_table_cell(t, column, "%s", sonde_compare_measure_interval(text, self, ascii));
    if (self && sonde_compare_measure_changed(self)) {
        sonde_table_cell(t, column + 1, "%s", sonde_verdict_name(self->verdict));
    } else if (total && sonde_compare_measure_changed(total)) {
        sonde_table_cell(t, column + 1, "%s in total", sonde_verdict_name(total->verdict));
    } else if (self || total) {
        sonde_table_cell(t, column + 1, "%s", sonde_verdict_name(SONDE_VERDICT_SAME));
    }
}

static void write_bytes(const struct sonde_comparison *compared,
                        const struct sonde_report_options *o,
                        const struct change *c, size_t count, struct sonde_buf *out)
{
    struct sonde_column columns[COLUMNS_MAX] = {
        { .title = "SELF BEFORE", .align = SONDE_RIGHT },
        { .title = "AFTER", .align = SONDE_RIGHT }, { .title = "CHANGE", .align = SONDE_RIGHT },
        { .title = "TOTAL BEFORE", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "AFTER", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "CHANGE", .align = SONDE_RIGHT, .drop = 1 },
    };
    const enum sonde_sample_kind kind = (enum sonde_sample_kind)compared->kind;
    char before[SONDE_WEIGHT_BYTES], after[SONDE_WEIGHT_BYTES], change[SONDE_VALUE_BYTES + 1];
    sonde_buf_printf(out, "%s: %s before, %s after, %s\n\n", sonde_sample_kind_title(kind),
                     sonde_weight_format(before, compared->weights[0], kind, o->ascii),
                     sonde_weight_format(after, compared->weights[1], kind, o->ascii),
                     signed_bytes(change, (double)compared->weights[1] -
                                          (double)compared->weights[0], o->ascii));
    const size_t name = judged_columns(columns, 6, c, count);
    columns[name + 1] = (struct sonde_column){ .title = "WHERE", .min = 12, .drop = 4 };
    struct sonde_table table;
    sonde_table_init(&table, columns, name + 2);
    for (size_t i = 0; i < count; i++) {
        sonde_table_row(&table);
        byte_cells(&table, 0, c[i].self_before, c[i].self_after, o->ascii);
        byte_cells(&table, 3, c[i].total_before, c[i].total_after, o->ascii);
        if (name > 6) judged_cells(&table, 6, &c[i], o->ascii);
        sonde_table_cell(&table, name, "%s", c[i].f->name);
        if (*c[i].f->file && c[i].f->line) {
            sonde_table_cell(&table, name + 1, "%s:%u", c[i].f->file, c[i].f->line);
        } else {
            sonde_table_cell(&table, name + 1, "%s", *c[i].f->file ? c[i].f->file
                                                                   : c[i].f->module);
        }
    }
    report_put_rows(o, &table, out);
}

static void write_text(const struct sonde_comparison *compared,
                       const struct sonde_report_options *o,
                       const struct change *c, size_t count, struct sonde_buf *out)
{
    struct sonde_column columns[COLUMNS_MAX] = {
        { .title = "SELF % BEFORE", .align = SONDE_RIGHT },
        { .title = "AFTER", .align = SONDE_RIGHT },
        { .title = "CHANGE", .align = SONDE_RIGHT },
        { .title = "TOTAL % BEFORE", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "AFTER", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "CHANGE", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "SELF BEFORE", .align = SONDE_RIGHT, .drop = 5 },
        { .title = "AFTER", .align = SONDE_RIGHT, .drop = 4 },
    };
    const enum sonde_sample_kind kind = (enum sonde_sample_kind)compared->kind;
    char before[SONDE_WEIGHT_BYTES], after[SONDE_WEIGHT_BYTES];
    sonde_buf_printf(out, "%s: %s before, %s after\n\n", sonde_sample_kind_title(kind),
                     sonde_weight_format(before, compared->weights[0], kind, o->ascii),
                     sonde_weight_format(after, compared->weights[1], kind, o->ascii));
    const size_t name = judged_columns(columns, 8, c, count);
    struct sonde_table table;
    sonde_table_init(&table, columns, name + 1);
    for (size_t i = 0; i < count; i++) {
        sonde_table_row(&table);
        change_cells(&table, 0, c[i].self_before, c[i].self_after);
        change_cells(&table, 3, c[i].total_before, c[i].total_after);
        sonde_table_cell(&table, 6, "%s", sonde_weight_format(before, c[i].f->self[0], kind,
                                                              o->ascii));
        sonde_table_cell(&table, 7, "%s", sonde_weight_format(after, c[i].f->self[1], kind,
                                                              o->ascii));
        if (name > 8) judged_cells(&table, 8, &c[i], o->ascii);
        sonde_table_cell(&table, name, "%s", c[i].f->name);
    }
    report_put_rows(o, &table, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_change(struct sonde_buf *out, const char *key, const uint64_t weights[2],
                        const struct sonde_comparison *c)
{
    const double share_before = profile_diff_share(weights[0], c->weights[0]);
    const double share_after = profile_diff_share(weights[1], c->weights[1]);
    sonde_json_key_open(out, key, '{');
    sonde_json_u64(out, "before", weights[0]);
    sonde_json_u64(out, "after", weights[1]);
    sonde_json_num(out, "share_before", round(share_before * 1e6) / 1e6);
    sonde_json_num(out, "share_after", round(share_after * 1e6) / 1e6);
    sonde_json_num(out, "share_change", round((share_after - share_before) * 1e6) / 1e6);
    sonde_json_close(out, '}');
}

static void write_members(const struct sonde_comparison *compared, const struct change *c,
                          size_t count, struct sonde_buf *out)
{
    const enum sonde_sample_kind kind = (enum sonde_sample_kind)compared->kind;
    sonde_json_str(out, "type", sonde_sample_kind_name(kind));
    sonde_json_str(out, "unit", sonde_sample_kind_unit(kind));
    sonde_json_u64(out, "weight_before", compared->weights[0]);
    sonde_json_u64(out, "weight_after", compared->weights[1]);
    sonde_json_key_open(out, "functions", '[');
    for (size_t i = 0; i < count; i++) {
        const struct sonde_compare_function *f = c[i].f;
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", f->name);
        if (*f->module) sonde_json_str(out, "module", f->module);
        if (*f->file) sonde_json_str(out, "file", f->file);
        if (f->line) sonde_json_u64(out, "line", f->line);
        json_change(out, "self", f->self, compared);
        json_change(out, "total", f->total, compared);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

int report_put_functions(const struct sonde_comparison *compared,
                         const struct sonde_report_options *o, struct sonde_buf *out)
{
    assert(compared->kind >= 0 && compared->kind < SONDE_SAMPLE_KIND_COUNT);
    if (!compared->functions) return 0;
    struct change *c = changes_create(compared);
    if (!c) return SONDE_ENOMEM;
    const size_t limit = o->limit ? o->limit : LIMIT_DEFAULT;
    const size_t count = compared->function_count < limit ? compared->function_count : limit;
    if (o->style == SONDE_REPORT_JSON) write_members(compared, c, count, out);
    else if (profile_diff_in_bytes(compared)) write_bytes(compared, o, c, count, out);
    else write_text(compared, o, c, count, out);
    sonde__free(c);
    return out->error;
}
