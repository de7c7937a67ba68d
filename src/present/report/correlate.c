/* correlate.c - see correlate.h. */
#include "present/report/correlate.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/json.h"
#include "present/report/profile_private.h"
#include "present/table.h"

/* ---- JSON ------------------------------------------------------------------------------------ */

static void correlate_json_series(struct sonde_buf *out, const struct sonde_correlate_series *s)
{
    sonde_json_str(out, "name", s->name);
    sonde_json_str(out, "labels", s->labels);
    sonde_json_str(out, "process", *s->program ? s->program : NULL);
    sonde_json_u64_or_null(out, "pid", s->pid);
    sonde_json_str(out, "figure", s->figure);
}

static void correlate_json_view(struct sonde_buf *out, const char *key,
                                const struct sonde_correlate_view *v)
{
    sonde_json_key_open(out, key, '{');
    sonde_json_num(out, "n_effective", v->n_effective);
    sonde_json_num(out, "pearson", v->pearson);
    sonde_json_num(out, "pearson_low", v->pearson_low);
    sonde_json_num(out, "pearson_high", v->pearson_high);
    sonde_json_num(out, "pearson_p", v->pearson_p);
    sonde_json_num(out, "spearman", v->spearman);
    sonde_json_num(out, "spearman_low", v->spearman_low);
    sonde_json_num(out, "spearman_high", v->spearman_high);
    sonde_json_num(out, "spearman_p", v->spearman_p);
    sonde_json_close(out, '}');
}

static void correlate_json_row(struct sonde_buf *out, const struct sonde_correlate_answer *a,
                               const struct sonde_correlation *c)
{
    const int known = !isnan(c->innovation);
    sonde_json_open(out, '{');
    sonde_json_key_open(out, "target", '{');
    correlate_json_series(out, &a->targets[c->target]);
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "series", '{');
    correlate_json_series(out, &a->others[c->other]);
    sonde_json_close(out, '}');
    sonde_json_str(out, "verdict", sonde_correlate_verdict_name(c->verdict));
    sonde_json_str(out, "reason", *c->reason ? c->reason : NULL);
    sonde_json_num(out, "lag_s", known ? c->lag * a->step_s : NAN);
    sonde_json_u64(out, "points", c->points);
    sonde_json_num(out, "innovation", c->innovation);
    sonde_json_num(out, "p", c->p);
    sonde_json_num(out, "p_adjusted", c->p_adjusted);
    correlate_json_view(out, "level", &c->level);
    correlate_json_view(out, "change", &c->change);
    sonde_json_close(out, '}');
}

static void correlate_json_write(const struct sonde_correlate_answer *a, struct sonde_buf *out)
{
    const struct sonde_correlations *f = &a->found;
    sonde_buf_putc(out, '{');
    sonde_json_time(out, "from", a->from_s);
    sonde_json_time(out, "to", a->to_s);
    sonde_json_num(out, "step_s", a->step_s);
    sonde_json_u64(out, "points", f->points);
    sonde_json_num(out, "lag_max_s", f->lag_max * a->step_s);
    sonde_json_num(out, "level", f->level);
    sonde_json_u64(out, "pairs", f->pairs);
    for (int i = 0; i < (int)SONDE_COUNT(f->verdicts); i++) {
        sonde_json_u64(out, sonde_correlate_verdict_name((enum sonde_correlate_verdict)i),
                       f->verdicts[i]);
    }
    sonde_json_key_open(out, "reasons", '{');
    for (size_t i = 0; f->reasons[i].text; i++) {
        sonde_json_u64(out, f->reasons[i].text, f->reasons[i].count);
    }
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "targets", '[');
    for (size_t i = 0; i < a->target_count; i++) {
        sonde_json_open(out, '{');
        correlate_json_series(out, &a->targets[i]);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_u64(out, "targets_left_out", a->targets_left_out);
    sonde_json_key_open(out, "correlations", '[');
    for (size_t i = 0; i < f->count; i++) correlate_json_row(out, a, &f->rows[i]);
    sonde_json_close(out, ']');
    sonde_buf_puts(out, "}\n");
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void correlate_name(char *out, size_t size, const struct sonde_correlate_series *s)
{
    const char *figure = !strcmp(s->figure, "mean") ? "mean of " : "";
    int n = snprintf(out, size, "%s%s", figure, s->name);
    if (*s->labels && (size_t)n < size) {
        n += snprintf(out + n, size - (size_t)n, "{%s}", s->labels);
    }
    if (*s->program && (size_t)n < size) {
        n += snprintf(out + n, size - (size_t)n, " of %s", s->program);
    }
    if (s->pid && *s->program && (size_t)n < size) {
        snprintf(out + n, size - (size_t)n, " %u", s->pid);
    }
}

static void correlate_r_cell(struct sonde_table *t, size_t column, double r)
{
    if (!isnan(r)) sonde_table_cell(t, column, "%+.2f", r);
}

static void correlate_cells(const struct sonde_correlate_answer *a,
                            const struct sonde_correlation *c, struct sonde_table *t)
{
    char name[1024];
    correlate_name(name, sizeof(name), &a->others[c->other]);
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%s", name);
    sonde_table_cell(t, 1, "%s", c->verdict == SONDE_CORRELATE_CORRELATED ? "correlated"
                                 : c->verdict == SONDE_CORRELATE_LEVELS   ? "levels only"
                                 : c->verdict == SONDE_CORRELATE_NONE     ? "not shown"
                                                                          : c->reason);
    if (isnan(c->innovation)) return;
    /* The best of lags that are all noise is noise. */
    if (c->verdict == SONDE_CORRELATE_CORRELATED) {
        sonde_table_cell(t, 2, "%+.3g s", c->lag * a->step_s);
    }
    correlate_r_cell(t, 3, c->level.pearson);
    if (!isnan(c->level.pearson_low)) {
        sonde_table_cell(t, 4, "%+.2f to %+.2f", c->level.pearson_low, c->level.pearson_high);
    }
    correlate_r_cell(t, 5, c->level.spearman);
    correlate_r_cell(t, 6, c->change.pearson);
    correlate_r_cell(t, 7, c->innovation);
    if (!isnan(c->level.n_effective)) sonde_table_cell(t, 8, "%.0f", c->level.n_effective);
    if (!isnan(c->p_adjusted)) {
        if (c->p_adjusted < 1e-4) sonde_table_cell(t, 9, "< 0.0001");
        else sonde_table_cell(t, 9, "%.4f", c->p_adjusted);
    }
}

/* The rows of one target; how many. */
static size_t correlate_table_put(const struct sonde_correlate_answer *a,
                                  const struct sonde_correlate_style *style, size_t target,
                                  struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "SERIES", .min = 24 }, { .title = "VERDICT" },
        { .title = "LAG", .align = SONDE_RIGHT }, { .title = "R", .align = SONDE_RIGHT },
        { .title = "95 %", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "SPEARMAN", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "R CHANGES", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "R INNOVATIONS", .align = SONDE_RIGHT },
        { .title = "N EFF", .align = SONDE_RIGHT, .drop = 4 },
        { .title = "P", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    size_t rows = 0;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < a->found.count; i++) {
        const struct sonde_correlation *c = &a->found.rows[i];
        if (c->target != target || (!style->all && c->verdict > SONDE_CORRELATE_LEVELS)) continue;
        correlate_cells(a, c, &t);
        rows++;
    }
    if (rows) sonde_table_render(&t, style->width, style->ascii, out);
    sonde_table_release(&t);
    return rows;
}

static void correlate_counts_put(const struct sonde_correlate_answer *a, size_t rows,
                                 struct sonde_buf *out)
{
    const struct sonde_correlations *f = &a->found;
    sonde_buf_printf(out, "\n%zu pair%s looked at: %zu correlated, %zu in levels only, "
                     "%zu not shown to be, %zu not known", f->pairs, f->pairs == 1 ? "" : "s",
                     f->verdicts[0], f->verdicts[1], f->verdicts[2], f->verdicts[3]);
    for (size_t i = 0; f->reasons[i].text; i++) {
        sonde_buf_printf(out, "%s%s: %zu", i ? ", " : " (", f->reasons[i].text,
                         f->reasons[i].count);
    }
    sonde_buf_printf(out, "%s.\n", f->reasons[0].text ? ")" : "");
    if (a->targets_left_out) {
        sonde_buf_printf(out, "%zu targets more match: the %d that change most were taken.\n",
                         a->targets_left_out, SONDE_CORRELATE_TARGETS_MAX);
    }
    if (!rows) return;
    sonde_buf_puts(out,
                   "A positive lag: the series moves first, the target follows. R is of the "
                   "values as they are;\nits interval counts N EFF observations, since "
                   "neighbouring values are alike. What decides is\nR INNOVATIONS: of what each "
                   "series does not predict of itself. P allows for all lags and pairs.\n");
}

/* Why a target has no rows. */
static const char *correlate_nothing(const struct sonde_correlate_answer *a, size_t target)
{
    for (size_t i = 0; i < a->found.count; i++) {
        const struct sonde_correlation *c = &a->found.rows[i];
        if (c->target != target) continue;
        if (c->verdict == SONDE_CORRELATE_UNKNOWN && strstr(c->reason, "target")) {
            return strstr(c->reason, "few") ? ": not known, at least 30 values in a row are needed"
                                            : ": not known, it does not vary";
        }
        break;
    }
    return ": nothing moves with it that can be told from chance";
}

static void correlate_text_write(const struct sonde_correlate_answer *a,
                                 const struct sonde_correlate_style *style, struct sonde_buf *out)
{
    char from[32], name[1024];
    const time_t began = (time_t)a->from_s;
    struct tm tm;
    size_t rows = 0;
    if (!gmtime_r(&began, &tm)) memset(&tm, 0, sizeof(tm));
    strftime(from, sizeof(from), "%Y-%m-%d %H:%M:%S", &tm);
    sonde_buf_printf(out, "%u points of %.3g s from %s UTC on, lags up to %.3g s either way\n",
                     a->found.points, a->step_s, from, a->found.lag_max * a->step_s);
    for (size_t i = 0; i < a->target_count; i++) {
        struct sonde_buf table;
        sonde_buf_init(&table, out->max);
        const size_t n = correlate_table_put(a, style, i, &table);
        correlate_name(name, sizeof(name), &a->targets[i]);
        sonde_buf_putc(out, '\n');
        report_put_clean(out, name, style->ascii);
        sonde_buf_printf(out, "%s%s\n%s",
                         !strcmp(a->targets[i].figure, "rate") ? ", per second" : "",
                         n ? "" : correlate_nothing(a, i), n ? "\n" : "");
        if (table.error) out->error = table.error;
        else if (n) sonde_buf_add(out, table.data, table.len);
        sonde_buf_release(&table);
        rows += n;
    }
    correlate_counts_put(a, rows, out);
}

void sonde_correlate_write(const struct sonde_correlate_answer *a,
                           const struct sonde_correlate_style *style, struct sonde_buf *out)
{
    if (style->json) correlate_json_write(a, out);
    else correlate_text_write(a, style, out);
}
