/* profile_diff.c - what changed between two profiles, function by function.
 *
 * Of time, shares are compared, since a longer recording is not a slower program. Of memory, bytes
 * are: twice as much in use is twice as much. */
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
    const struct sonde_flat *f;
    double self_before, self_after, total_before, total_after; /* shares of the totals, or bytes */
    const struct sonde_compare_measure *self, *total; /* NULL = not judged */
};

static double self_change(const struct change *c) { return c->self_after - c->self_before; }
static double total_change(const struct change *c) { return c->total_after - c->total_before; }

/* 1 if it is sure that the function changed. */
static int is_sure(const struct change *c)
{
    return (c->self && sonde_compare_measure_changed(c->self)) || (c->total && sonde_compare_measure_changed(c->total));
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

static int profile_diff_in_bytes(const struct sonde_tree *t)
{
    return !strcmp(sonde_sample_kind_unit(t->kind), "bytes");
}

static int profile_diff_by_name(const void *a, const void *b)
{
    return strcmp((*(const struct change *const *)a)->f->name,
                  (*(const struct change *const *)b)->f->name);
}

/* Gives each function its figures. */
static int profile_diff_judge(struct change *c, size_t count,
                              const struct sonde_comparison *comparison)
{
    struct change **names = sonde__calloc(count ? count : 1, sizeof(struct change *));
    if (!names) return SONDE_ENOMEM;
    for (size_t i = 0; i < count; i++) names[i] = &c[i];
    qsort(names, count, sizeof(struct change *), profile_diff_by_name);
    for (size_t i = 0; i < comparison->count; i++) {
        const struct sonde_compare_measure *f = &comparison->figures[i];
        if (f->group != SONDE_MEASURE_FUNCTIONS || f->verdict == SONDE_VERDICT_UNKNOWN) continue;
        const struct sonde_flat named = { .name = f->subject };
        const struct change key = { .f = &named }, *at = &key;
        struct change **found =
            bsearch(&at, names, count, sizeof(struct change *), profile_diff_by_name);
        if (!found) continue;
        if (!strcmp(f->measure, "self")) (*found)->self = f;
        else (*found)->total = f;
    }
    sonde__free(names);
    return 0;
}

static struct change *changes_create(const struct sonde_tree *t, const struct sonde_flat *flat,
                                     size_t count, const struct sonde_comparison *comparison)
{
    const int bytes = profile_diff_in_bytes(t);
    const uint64_t before = bytes ? 1 : t->base_total, after = bytes ? 1 : t->nodes[0].total;
    struct change *c = sonde__calloc(count ? count : 1, sizeof(*c));
    for (size_t i = 0; c && i < count; i++) {
        c[i] = (struct change){ .f = &flat[i],
                                .self_before = profile_diff_share(flat[i].base_self, before),
                                .self_after = profile_diff_share(flat[i].self, after),
                                .total_before = profile_diff_share(flat[i].base_total, before),
                                .total_after = profile_diff_share(flat[i].total, after) };
    }
    if (c && comparison && profile_diff_judge(c, count, comparison)) {
        sonde__free(c);
        return NULL;
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
    for (size_t i = 0; i < count; i++) judged += c[i].self || c[i].total;
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
    if (c->self) sonde_table_cell(t, column, "%s", sonde_compare_measure_interval(text, c->self, ascii));
    if (c->self && sonde_compare_measure_changed(c->self)) {
        sonde_table_cell(t, column + 1, "%s", sonde_verdict_name(c->self->verdict));
    } else if (c->total && sonde_compare_measure_changed(c->total)) {
        sonde_table_cell(t, column + 1, "%s in total", sonde_verdict_name(c->total->verdict));
    } else if (c->self || c->total) {
        sonde_table_cell(t, column + 1, "%s", sonde_verdict_name(SONDE_VERDICT_SAME));
    }
}

static void write_bytes(const struct sonde_tree *t, const struct sonde_report_options *o,
                        const struct change *c, size_t count, struct sonde_buf *out)
{
    struct sonde_column columns[COLUMNS_MAX] = {
        { .title = "SELF BEFORE", .align = SONDE_RIGHT },
        { .title = "AFTER", .align = SONDE_RIGHT }, { .title = "CHANGE", .align = SONDE_RIGHT },
        { .title = "TOTAL BEFORE", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "AFTER", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "CHANGE", .align = SONDE_RIGHT, .drop = 1 },
    };
    char before[SONDE_WEIGHT_BYTES], after[SONDE_WEIGHT_BYTES], change[SONDE_VALUE_BYTES + 1];
    sonde_buf_printf(out, "%s: %s before, %s after, %s\n\n", sonde_sample_kind_title(t->kind),
                     sonde_weight_format(before, t->base_total, t->kind, o->ascii),
                     sonde_weight_format(after, t->nodes[0].total, t->kind, o->ascii),
                     signed_bytes(change, (double)t->nodes[0].total - (double)t->base_total,
                                  o->ascii));
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

static void write_text(const struct sonde_tree *t, const struct sonde_report_options *o,
                       const struct change *c, size_t count, struct sonde_buf *out)
{
    struct sonde_column columns[COLUMNS_MAX] = {
        { .title = "SELF % BEFORE", .align = SONDE_RIGHT }, { .title = "AFTER", .align = SONDE_RIGHT },
        { .title = "CHANGE", .align = SONDE_RIGHT },
        { .title = "TOTAL % BEFORE", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "AFTER", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "CHANGE", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "SELF BEFORE", .align = SONDE_RIGHT, .drop = 5 },
        { .title = "AFTER", .align = SONDE_RIGHT, .drop = 4 },
    };
    char before[SONDE_WEIGHT_BYTES], after[SONDE_WEIGHT_BYTES];
    sonde_buf_printf(out, "%s: %s before, %s after\n\n", sonde_sample_kind_title(t->kind),
                     sonde_weight_format(before, t->base_total, t->kind, o->ascii),
                     sonde_weight_format(after, t->nodes[0].total, t->kind, o->ascii));
    const size_t name = judged_columns(columns, 8, c, count);
    struct sonde_table table;
    sonde_table_init(&table, columns, name + 1);
    for (size_t i = 0; i < count; i++) {
        sonde_table_row(&table);
        change_cells(&table, 0, c[i].self_before, c[i].self_after);
        change_cells(&table, 3, c[i].total_before, c[i].total_after);
        sonde_table_cell(&table, 6, "%s", sonde_weight_format(before, c[i].f->base_self, t->kind,
                                                              o->ascii));
        sonde_table_cell(&table, 7, "%s", sonde_weight_format(after, c[i].f->self, t->kind,
                                                              o->ascii));
        if (name > 8) judged_cells(&table, 8, &c[i], o->ascii);
        sonde_table_cell(&table, name, "%s", c[i].f->name);
    }
    report_put_rows(o, &table, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_change(struct sonde_buf *out, const char *key, uint64_t before, uint64_t after,
                        const struct sonde_tree *t)
{
    const double share_before = profile_diff_share(before, t->base_total);
    const double share_after = profile_diff_share(after, t->nodes[0].total);
    sonde_json_key_open(out, key, '{');
    sonde_json_u64(out, "before", before);
    sonde_json_u64(out, "after", after);
    sonde_json_num(out, "share_before", round(share_before * 1e6) / 1e6);
    sonde_json_num(out, "share_after", round(share_after * 1e6) / 1e6);
    sonde_json_num(out, "share_change", round((share_after - share_before) * 1e6) / 1e6);
    sonde_json_close(out, '}');
}

static void write_members(const struct sonde_tree *t, const struct change *c, size_t count,
                          struct sonde_buf *out)
{
    sonde_json_str(out, "type", sonde_sample_kind_name(t->kind));
    sonde_json_str(out, "unit", sonde_sample_kind_unit(t->kind));
    sonde_json_u64(out, "weight_before", t->base_total);
    sonde_json_u64(out, "weight_after", t->nodes[0].total);
    sonde_json_key_open(out, "functions", '[');
    for (size_t i = 0; i < count; i++) {
        const struct sonde_flat *f = c[i].f;
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", f->name);
        if (*f->module) sonde_json_str(out, "module", f->module);
        if (*f->file) sonde_json_str(out, "file", f->file);
        if (f->line) sonde_json_u64(out, "line", f->line);
        json_change(out, "self", f->base_self, f->self, t);
        json_change(out, "total", f->base_total, f->total, t);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void write_diff(const struct sonde_tree *diff, const struct sonde_report_options *o,
                       const struct change *c, size_t count, struct sonde_buf *out)
{
    if (o->style == SONDE_REPORT_JSON) write_members(diff, c, count, out);
    else if (profile_diff_in_bytes(diff)) write_bytes(diff, o, c, count, out);
    else write_text(diff, o, c, count, out);
}

static int put_diff(const struct sonde_tree *diff, const struct sonde_report_options *o,
                    struct sonde_buf *out)
{
    struct sonde_flat *flat;
    size_t count;
    const int rc = sonde_tree_flat(diff, &flat, &count);
    if (rc) return rc;
    struct change *c = changes_create(diff, flat, count, o->comparison);
    const size_t limit = o->limit ? o->limit : LIMIT_DEFAULT;
    if (c) write_diff(diff, o, c, count < limit ? count : limit, out);
    const int none = !c;
    sonde__free(c);
    sonde__free(flat);
    return none ? SONDE_ENOMEM : out->error;
}

int report_diff_members(const struct sonde_tree *diff, size_t limit,
                        const struct sonde_comparison *comparison, struct sonde_buf *out)
{
    const struct sonde_report_options o = { .style = SONDE_REPORT_JSON, .limit = limit,
                                            .comparison = comparison };
    return put_diff(diff, &o, out);
}

int sonde_profile_diff(const struct sonde_tree *diff, const struct sonde_report_options *o,
                       struct sonde_buf *out, struct sonde_err *err)
{
    if (o->style == SONDE_REPORT_JSON) sonde_buf_putc(out, '{');
    int rc = put_diff(diff, o, out);
    if (o->style == SONDE_REPORT_JSON) sonde_buf_puts(out, "}\n");
    if (!rc) rc = out->error;
    return rc ? sonde_err_set(err, rc, "no memory for the comparison") : 0;
}
