/* compare.c - see compare.h: text and Markdown. */
#include "present/report/compare.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "present/report/profile_private.h"
#include "present/table.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum {
    CONTRIBUTORS = 3,
    NAME_BYTES = 160, /* longer names are cut */
    UNBOUNDED = 3,    /* of these so many are named */
    ROWS_ALL = 30,    /* figures; with more, spans that have not changed are left out */
};

/* ---- Values ---------------------------------------------------------------------------------- */

const char *sonde_compare_measure_format(char out[SONDE_MEASURE_BYTES], double value,
                                         const char *unit, int ascii)
{
    char text[SONDE_VALUE_BYTES];
    const enum sonde_unit u = !strncmp(unit, "bytes", 5)     ? SONDE_UNIT_BYTES
                              : !strcmp(unit, "seconds")     ? SONDE_UNIT_SECONDS
                              : !strcmp(unit, "ratio")       ? SONDE_UNIT_RATIO
                                                             : SONDE_UNIT_COUNT;
    const char *suffix = strstr(unit, "per second") ? "/s" : "";
    snprintf(out, SONDE_MEASURE_BYTES, "%s%s", sonde_value_format(text, value, u, ascii), suffix);
    return out;
}

/* A relative change, without a sign on nothing. */
static const char *compare_text_percent(char out[SONDE_MEASURE_BYTES], double relative,
                                        const char *format)
{
    double v = relative * 100;
    if (fabs(v) < 0.05) v = 0;
    snprintf(out, SONDE_MEASURE_BYTES, format, v);
    return out;
}

/* Bounds beyond this are no news. */
static int is_bound(double relative) { return !isnan(relative) && relative < 100; }

const char *sonde_compare_measure_interval(char out[SONDE_MEASURE_BYTES],
                                           const struct sonde_compare_measure *f, int ascii)
{
    const double low = f->d.relative_low, high = f->d.relative_high;
    char a[SONDE_MEASURE_BYTES], b[SONDE_MEASURE_BYTES];
    *out = '\0';
    if (!is_bound(low) && !is_bound(high)) return out;
    snprintf(out, SONDE_MEASURE_BYTES, "%.12s%s%.12s %%",
             is_bound(low) ? compare_text_percent(a, low, "%+.1f") : "", ascii ? ".." : "…",
             is_bound(high) ? compare_text_percent(b, high, "%+.1f") : "");
    return out;
}

/* "12.1 % ± 3.0 %" */
static const char *plus_minus(char out[SONDE_MEASURE_BYTES * 2],
                              const struct sonde_compare_measure *f, int ascii)
{
    char a[SONDE_MEASURE_BYTES];
    const double half = (f->d.relative_high - f->d.relative_low) / 2;
    compare_text_percent(a, fabs(f->d.relative), "%.1f %%");
    if (isnan(f->d.relative)) snprintf(out, SONDE_MEASURE_BYTES * 2, "%s", "");
    else if (is_bound(half)) {
        snprintf(out, SONDE_MEASURE_BYTES * 2, "%.20s %s %.1f %% ", a, ascii ? "+-" : "±",
                 100 * half);
    } else {
        snprintf(out, SONDE_MEASURE_BYTES * 2, "%.20s ", a);
    }
    return out;
}

static const char *basis_words(const struct sonde_comparison *c)
{
    switch (c->basis) {
    case SONDE_BASIS_REQUEST: return "a request";
    case SONDE_BASIS_SECOND: return "a second";
    case SONDE_BASIS_RUN: return "a run";
    default: return "as a share";
    }
}

/* ---- The sentence on top --------------------------------------------------------------------- */

static void compare_text_put_name(const struct sonde_compare_view *v, struct sonde_buf *out,
                                  const char *name)
{
    const struct sonde_report_options o = { .style = v->style, .ascii = v->ascii };
    char cut[NAME_BYTES];
    const size_t len = strlen(name);
    snprintf(cut, sizeof(cut), "%.*s%s", NAME_BYTES - 4, name, len > NAME_BYTES - 4 ? "…" : "");
    if (v->style == SONDE_REPORT_JSON) sonde_buf_puts(out, cut);
    else report_put_text(&o, out, cut);
}

/* "request time p50", "time p50 of load", "parse by itself" */
static void put_figure_name(const struct sonde_compare_view *v,
                            const struct sonde_compare_measure *f, struct sonde_buf *out)
{
    const int function = f->group == SONDE_MEASURE_FUNCTIONS;
    if (function) compare_text_put_name(v, out, f->subject);
    sonde_buf_printf(out, "%s%s", function ? " " : "", f->title);
    if (function || !*f->subject) return;
    sonde_buf_puts(out, " of ");
    compare_text_put_name(v, out, f->subject);
}

static void put_function_change(const struct sonde_comparison *c,
                                const struct sonde_compare_view *v,
                                const struct sonde_compare_measure *f, struct sonde_buf *out)
{
    char change[SONDE_MEASURE_BYTES * 2], a[SONDE_MEASURE_BYTES], b[SONDE_MEASURE_BYTES];
    compare_text_put_name(v, out, f->subject);
    sonde_buf_printf(
        out, " %s%s (%s %s %s %s)", plus_minus(change, f, v->ascii), sonde_verdict_name(f->verdict),
        sonde_compare_measure_format(a, f->before, f->unit, v->ascii), v->ascii ? "->" : "→",
        sonde_compare_measure_format(b, f->after, f->unit, v->ascii),
        c->basis == SONDE_BASIS_SHARE
            ? sonde_sample_kind_title((enum sonde_sample_kind)c->kind) : basis_words(c));
}

static int compare_text_by_change(const void *a, const void *b)
{
    const struct sonde_compare_measure *x = *(const struct sonde_compare_measure *const *)a;
    const struct sonde_compare_measure *y = *(const struct sonde_compare_measure *const *)b;
    const double d = fabs(y->d.change) - fabs(x->d.change);
    if (d < 0 || d > 0) return d < 0 ? -1 : 1;
    return strcmp(x->subject, y->subject);
}

/* Functions that changed by themselves, the most first; those that went the way of the headline
 * before all others. */
static void put_contributors(const struct sonde_comparison *c, const struct sonde_compare_view *v,
                             struct sonde_buf *out)
{
    assert(c->headline < c->count);
    const struct sonde_compare_measure *best[CONTRIBUTORS + 1];
    const struct sonde_compare_measure *top = &c->figures[c->headline];
    const double way = top->better > 0 ? -top->d.change : top->d.change;
    size_t n = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        if (f->group != SONDE_MEASURE_FUNCTIONS || strcmp(f->measure, "self") != 0 || f == top ||
            !sonde_compare_measure_changed(f) || (top->better && f->d.change * way < 0)) {
            continue;
        }
        best[n++] = f;
        qsort(best, n, sizeof(best[0]), compare_text_by_change);
        if (n > CONTRIBUTORS) n = CONTRIBUTORS;
    }
    if (!n) return;
    sonde_buf_puts(out,
                   top->group == SONDE_MEASURE_FUNCTIONS ? "also: " : "largest contributors: ");
    for (size_t i = 0; i < n; i++) {
        if (i) sonde_buf_puts(out, ", ");
        put_function_change(c, v, best[i], out);
    }
    sonde_buf_putc(out, '\n');
}

/* How small a change could still have been seen: of the figure that a verdict would have been
 * of. */
static void put_sensitivity(const struct sonde_comparison *c, const struct sonde_compare_view *v,
                            struct sonde_buf *out)
{
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        const double half = (f->d.relative_high - f->d.relative_low) / 2;
        const int function = f->group == SONDE_MEASURE_FUNCTIONS;
        if (f->verdict == SONDE_VERDICT_UNKNOWN || !is_bound(half) ||
            (!f->better && !function) || (function && strcmp(f->measure, "self") != 0)) {
            continue;
        }
        char text[SONDE_MEASURE_BYTES];
        sonde_buf_printf(out, "; less than about %s in ",
                         compare_text_percent(text, fmax(half, 0.01), "%.1f %%"));
        put_figure_name(v, f, out);
        sonde_buf_puts(out, " could not have been seen");
        return;
    }
}

static void put_requests_unknown(const struct sonde_comparison *c, struct sonde_buf *out)
{
    sonde_buf_printf(out, "it is not known whether requests are faster or slower: %llu and %llu "
                     "are too few to tell\n", (unsigned long long)c->requests[0],
                     (unsigned long long)c->requests[1]);
}

static void put_unchanged(const struct sonde_comparison *c, const struct sonde_compare_view *v,
                          struct sonde_buf *out)
{
    size_t known = 0;
    for (size_t i = 0; i < c->count; i++) known += c->figures[i].verdict != SONDE_VERDICT_UNKNOWN;
    if (c->requests_unknown) {
        put_requests_unknown(c, out);
        return;
    }
    if (c->verdict == SONDE_VERDICT_UNKNOWN) {
        sonde_buf_puts(out, "it cannot be said whether ");
        compare_text_put_name(v, out, v->after);
        sonde_buf_puts(out, " is different from ");
        compare_text_put_name(v, out, v->before);
        sonde_buf_puts(out, c->by_runs || c->timed
                                ? ": there is too little in them"
                                : ": they do not know when samples were taken. Compare two or more "
                                  "runs of each");
        if (!c->by_runs && !c->timed && v->more_runs) sonde_buf_printf(out, ": %s", v->more_runs);
    } else {
        compare_text_put_name(v, out, v->after);
        sonde_buf_puts(out, " is not different from ");
        compare_text_put_name(v, out, v->before);
        sonde_buf_printf(out, ": %zu figures differ by no more than noise", known);
        put_sensitivity(c, v, out);
    }
    sonde_buf_putc(out, '\n');
}

void sonde_compare_headline(const struct sonde_comparison *c, const struct sonde_compare_view *v,
                            struct sonde_buf *out)
{
    assert(c->headline <= c->count); /* count: nothing has changed */
    if (c->headline == c->count) {
        put_unchanged(c, v, out);
        return;
    }
    const struct sonde_compare_measure *f = &c->figures[c->headline];
    char change[SONDE_MEASURE_BYTES * 2];
    if (c->requests_unknown) put_requests_unknown(c, out);
    compare_text_put_name(v, out, v->after);
    if (f->group == SONDE_MEASURE_FUNCTIONS) {
        sonde_buf_puts(out, " differs from ");
        compare_text_put_name(v, out, v->before);
        sonde_buf_puts(out, ": ");
        put_function_change(c, v, f, out);
    } else {
        sonde_buf_printf(out, " is %s%s than ", plus_minus(change, f, v->ascii),
                         sonde_verdict_name(f->verdict));
        compare_text_put_name(v, out, v->before);
        sonde_buf_puts(out, " in ");
        put_figure_name(v, f, out);
    }
    sonde_buf_putc(out, '\n');
    put_contributors(c, v, out);
}

/* What the intervals rest on, and what they do not know. */
static void compare_text_put_method(const struct sonde_comparison *c, struct sonde_buf *out)
{
    if (c->by_runs) {
        sonde_buf_printf(out, "95 %% intervals from %zu and %zu runs\n", c->runs[0], c->runs[1]);
    } else if (c->timed) {
        sonde_buf_printf(out, "95 %% intervals from %zu and %zu sub-windows: how much runs differ "
                         "from each other is not in them\n", c->parts[0], c->parts[1]);
    }
}

/* ---- Figures --------------------------------------------------------------------------------- */

static void compare_text_put_figures(const struct sonde_comparison *c,
                                     const struct sonde_compare_view *v,
                                     const struct sonde_report_options *o, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "FIGURE", .min = 20 },
        { .title = "BEFORE", .align = SONDE_RIGHT }, { .title = "AFTER", .align = SONDE_RIGHT },
        { .title = "CHANGE", .align = SONDE_RIGHT },
        { .title = "95 % INTERVAL", .align = SONDE_RIGHT, .drop = 1 }, { .title = "VERDICT" },
    };
    struct sonde_table t;
    char text[SONDE_MEASURE_BYTES];
    size_t figures = 0, left_out = 0;
    for (size_t i = 0; i < c->count; i++) {
        figures += c->figures[i].group != SONDE_MEASURE_FUNCTIONS;
    }
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        if (f->group == SONDE_MEASURE_FUNCTIONS) continue;
        if (figures > ROWS_ALL && !sonde_compare_measure_changed(f) &&
            (f->group == SONDE_MEASURE_PHASES || f->group == SONDE_MEASURE_SPANS)) {
            left_out++;
            continue;
        }
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%.200s%s%s", f->subject, *f->subject ? ": " : "", f->title);
        sonde_table_cell(&t, 1, "%s",
                         sonde_compare_measure_format(text, f->before, f->unit, o->ascii));
        sonde_table_cell(&t, 2, "%s",
                         sonde_compare_measure_format(text, f->after, f->unit, o->ascii));
        if (!isnan(f->d.relative)) {
            sonde_table_cell(&t, 3, "%s", compare_text_percent(text, f->d.relative, "%+.1f %%"));
        }
        sonde_table_cell(&t, 4, "%s", sonde_compare_measure_interval(text, f, o->ascii));
        sonde_table_cell(&t, 5, "%s", sonde_verdict_name(f->verdict));
    }
    if (t.row_count) {
        sonde_buf_putc(out, '\n');
        report_put_rows(o, &t, out);
    } else {
        sonde_table_release(&t);
    }
    if (left_out) {
        sonde_buf_printf(
            out, "\n%zu figures of phases and spans that have not changed are left out", left_out);
        if (v->all_figures) sonde_buf_printf(out, "; %s has all", v->all_figures);
        sonde_buf_putc(out, '\n');
    }
}

/* Percentiles beyond which there are too few values to say how far off they may be. */
static void put_unbounded(const struct sonde_comparison *c, const struct sonde_compare_view *v,
                          struct sonde_buf *out)
{
    size_t n = 0;
    if (!c->by_runs && !c->timed) return; /* nothing has an interval: the first line says so */
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        const size_t len = strlen(f->measure);
        const int percentile = len >= 3 && f->measure[len - 3] == 'p' &&
                               strspn(f->measure + len - 2, "0123456789") == 2;
        if (!percentile || (isfinite(f->d.low) && isfinite(f->d.high))) continue;
        if (n < UNBOUNDED) {
            sonde_buf_puts(out, n ? ", " : "\nToo few values to bound ");
            put_figure_name(v, f, out);
        }
        n++;
    }
    if (!n) return;
    if (n > UNBOUNDED) sonde_buf_printf(out, " and %zu more", n - UNBOUNDED);
    sonde_buf_printf(out, ". Record longer%s: a p95 takes some 200 values on both sides, a p99 "
                     "some 1,000\n", c->by_runs ? ", or more runs" : "");
}

int sonde_compare_report(const struct sonde_comparison *c, const struct sonde_compare_view *v,
                         struct sonde_buf *out, struct sonde_err *err)
{
    const struct sonde_report_options o = { .style = v->style, .limit = v->limit,
                                            .width = v->width, .ascii = v->ascii };
    int rc = 0;
    if (v->style == SONDE_REPORT_JSON) {
        sonde_compare_json(c, v, out);
    } else {
        if (v->style == SONDE_REPORT_MARKDOWN) sonde_buf_puts(out, "# Comparison\n\n");
        sonde_compare_headline(c, v, out);
        if (v->style == SONDE_REPORT_MARKDOWN) sonde_buf_putc(out, '\n');
        compare_text_put_method(c, out);
        compare_text_put_figures(c, v, &o, out);
        put_unbounded(c, v, out);
        sonde_buf_putc(out, '\n');
        rc = report_put_functions(c, &o, out);
    }
    if (!rc) rc = out->error;
    return rc ? sonde_err_set(err, rc, "no memory for the comparison") : 0;
}
