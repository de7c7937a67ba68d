/* check_report.c - see check_report.h: text, Markdown, and the sentences that all formats have. */
#include "present/check_report.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/power.h"
#include "base/array.h"
#include "base/names.h"
#include "present/report/compare.h"
#include "present/report/profile_private.h"
#include "present/table.h"
#include "present/units.h"
#include "sonde/sonde.h"

static const char *const check_format_names[] = { "text", "markdown", "json", "junit" };

int sonde_check_format_find(const char *name)
{
    return SONDE_NAME_FIND(check_format_names, name);
}

/* ---- Sentences ------------------------------------------------------------------------------- */

static void check_put_name(const struct sonde_compare_measure *f, struct sonde_buf *out)
{
    sonde_buf_printf(out, "%.200s%s%s", f->subject, *f->subject ? ": " : "", f->title);
}

static void check_put_change(const struct sonde_compare_measure *f, int ascii,
                             struct sonde_buf *out)
{
    char a[SONDE_MEASURE_BYTES], b[SONDE_MEASURE_BYTES], interval[SONDE_MEASURE_BYTES];
    sonde_compare_measure_interval(interval, f, ascii);
    if (!isnan(f->d.relative)) sonde_buf_printf(out, " by %.1f %%", 100 * fabs(f->d.relative));
    if (*interval) sonde_buf_printf(out, " (%s)", interval);
    sonde_buf_printf(out, ": %s %s %s", sonde_compare_measure_format(a, f->before, f->unit, ascii),
                     ascii ? "->" : "→",
                     sonde_compare_measure_format(b, f->after, f->unit, ascii));
}

void sonde_check_row_sentence(const struct sonde_check_row *r, int ascii, struct sonde_buf *out)
{
    const struct sonde_compare_measure *f = r->figure;
    char value[SONDE_MEASURE_BYTES];
    check_put_name(f, out);
    switch (r->verdict) {
    case SONDE_CHECK_WITHIN:
    case SONDE_CHECK_BEYOND:
        sonde_buf_printf(out, " is %s, %s %s",
                         sonde_compare_measure_format(value, f->after, f->unit, ascii),
                         sonde_check_verdict_name(r->verdict), r->limit->text);
        return;
    case SONDE_CHECK_UNKNOWN:
        sonde_buf_puts(out, ": it is not known whether it changed");
        return;
    case SONDE_CHECK_NOTHING:
        sonde_buf_puts(out, ": nothing to be seen with so many runs");
        if (!isnan(r->smallest)) {
            sonde_buf_printf(out, "; the smallest difference that could be is %.1f %%",
                             100 * r->smallest);
        }
        return;
    default:
        sonde_buf_printf(out, " %s", sonde_check_verdict_name(r->verdict));
        check_put_change(f, ascii, out);
        if (!r->broken && r->verdict == SONDE_CHECK_REGRESSED) {
            sonde_buf_printf(out, ", within the limit %s", r->limit->text);
        }
    }
}

/* The row that the headline is about: the weightiest verdict, of those the largest change; a
 * broken one before all. */
static const struct sonde_check_row *check_headline_row(const struct sonde_check *k)
{
    const struct sonde_check_row *best = NULL;
    for (size_t i = 0; i < k->count; i++) {
        const struct sonde_check_row *r = &k->rows[i];
        if (k->broken ? !r->broken : r->verdict != k->verdict) continue;
        if (r->verdict == SONDE_CHECK_NOTHING && k->lead < k->count &&
            k->rows[k->lead].verdict == SONDE_CHECK_NOTHING) {
            return &k->rows[k->lead];
        }
        /* What rests on the steadiest figure is believed first. */
        if (!best || r->figure->adjusted < best->figure->adjusted) best = r;
    }
    return best;
}

void sonde_check_headline(const struct sonde_check *k, const struct sonde_comparison *c,
                          const struct sonde_check_view *v, struct sonde_buf *out)
{
    (void)c;
    const struct sonde_check_row *r = check_headline_row(k);
    sonde_buf_puts(out, k->failed ? "failed: " : "passed: ");
    if (k->undecided) {
        sonde_buf_puts(out, "nothing can be said: there is too little in the baseline or in what "
                            "is compared with it");
    } else if (r) {
        sonde_check_row_sentence(r, v->ascii, out);
        if (k->broken > 1) sonde_buf_printf(out, "; and %zu more limits are broken", k->broken - 1);
    } else {
        sonde_buf_puts(out, "no figure is watched");
    }
}

void sonde_check_advice(const struct sonde_check *k, const struct sonde_comparison *c,
                        const struct sonde_check_view *v, struct sonde_buf *out)
{
    if (!c->by_runs) {
        sonde_buf_puts(out, "How much one run differs from the next is not known: record 3 or more "
                            "of each (`sonde baseline save --add`)");
        return;
    }
    if (k->lead >= k->count) return;
    const struct sonde_check_row *r = &k->rows[k->lead];
    if (!r->more || isnan(r->smallest)) return;
    sonde_buf_printf(out, "To see a change of %.1f %% in ", 100 * r->detect);
    check_put_name(r->figure, out);
    if (r->more != SONDE_POWER_NEVER) {
        sonde_buf_printf(out, ", record %zu more run%s", r->more, r->more == 1 ? "" : "s");
    }
    if (r->more_each != SONDE_POWER_NEVER && r->more_each < r->more) {
        sonde_buf_printf(out, "%s %zu more of each, in turns (`sonde baseline save --add %s`)",
                         r->more != SONDE_POWER_NEVER ? ", or" : ", record", r->more_each,
                         v->baseline);
    }
    if (r->more == SONDE_POWER_NEVER && r->more_each == SONDE_POWER_NEVER) {
        sonde_buf_printf(out, " more than %u runs of each would be needed: make runs longer, or "
                         "the machine quieter", SONDE_POWER_MORE_MAX);
    }
}

/* ---- Text and Markdown ----------------------------------------------------------------------- */

static void check_put_line(const struct sonde_report_options *o, struct sonde_buf *out,
                           struct sonde_buf *line)
{
    if (line->len) {
        report_put_text(o, out, line->data);
        sonde_buf_puts(out, o->style == SONDE_REPORT_MARKDOWN ? "\n\n" : "\n");
    }
    if (line->error) out->error = line->error;
    sonde_buf_reset(line);
}

static void check_put_ground(const struct sonde_comparison *c, const struct sonde_check_view *v,
                             struct sonde_buf *out)
{
    char age[SONDE_VALUE_BYTES];
    const double old = v->now_s - v->created_s;
    sonde_buf_printf(out, "baseline %s (%zu run%s, %s old) against %s (%zu run%s)", v->baseline,
                     c->runs[0], c->runs[0] == 1 ? "" : "s",
                     sonde_value_format(age, old > 0 ? old : 0, SONDE_UNIT_SECONDS, v->ascii),
                     v->after, c->runs[1], c->runs[1] == 1 ? "" : "s");
    if (c->lent) {
        sonde_buf_printf(out, "; how much runs differ is that of the %s",
                         c->runs[0] > 1 ? "baseline" : "new ones");
    } else if (!c->by_runs) {
        sonde_buf_puts(out, "; intervals come from sub-windows, which do not know how much runs "
                            "differ");
    }
}

static void check_put_difference(const struct sonde_check_difference *d, struct sonde_buf *out)
{
    sonde_buf_printf(out, "warning: the %s %s: '%.120s' in the baseline, '%.120s' now; what is "
                     "compared may be that", sonde_run_fact_title(d->fact),
                     d->fact == SONDE_FACT_CPU || d->fact == SONDE_FACT_ARGUMENTS ? "differ"
                                                                                 : "differs",
                     d->before, d->after);
}

static void check_put_rows(const struct sonde_check *k, const struct sonde_report_options *o,
                           struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "LIMIT", .min = 8 },
        { .title = "FIGURE", .min = 20 },
        { .title = "BASELINE", .align = SONDE_RIGHT }, { .title = "NOW", .align = SONDE_RIGHT },
        { .title = "CHANGE", .align = SONDE_RIGHT },
        { .title = "95 % INTERVAL", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "SMALLEST", .align = SONDE_RIGHT, .drop = 2 }, { .title = "VERDICT" },
    };
    struct sonde_table t;
    char text[SONDE_MEASURE_BYTES];
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < k->count; i++) {
        const struct sonde_check_row *r = &k->rows[i];
        const struct sonde_compare_measure *f = r->figure;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", r->limit->text);
        sonde_table_cell(&t, 1, "%.200s%s%s", f->subject, *f->subject ? ": " : "", f->title);
        sonde_table_cell(&t, 2, "%s",
                         sonde_compare_measure_format(text, f->before, f->unit, o->ascii));
        sonde_table_cell(&t, 3, "%s",
                         sonde_compare_measure_format(text, f->after, f->unit, o->ascii));
        if (!isnan(f->d.relative)) {
            sonde_table_cell(&t, 4, "%+.1f %%", fabs(f->d.relative) < 0.0005 ? 0
                                                                            : 100 * f->d.relative);
        }
        sonde_table_cell(&t, 5, "%s", sonde_compare_measure_interval(text, f, o->ascii));
        if (!isnan(r->smallest)) sonde_table_cell(&t, 6, "%.1f %%", 100 * r->smallest);
        sonde_table_cell(&t, 7, "%s%s", sonde_check_verdict_name(r->verdict),
                         r->broken ? ": FAILED" : "");
    }
    if (t.row_count) {
        sonde_buf_putc(out, '\n');
        report_put_rows(o, &t, out);
        sonde_buf_putc(out, '\n');
    } else {
        sonde_table_release(&t);
    }
}

static void check_put_text(const struct sonde_check *k, const struct sonde_comparison *c,
                           const struct sonde_check_view *v, struct sonde_buf *out)
{
    const struct sonde_report_options o = {
        .style = v->format == SONDE_CHECK_MARKDOWN ? SONDE_REPORT_MARKDOWN : SONDE_REPORT_TEXT,
        .width = v->width, .ascii = v->ascii };
    struct sonde_buf line;
    sonde_buf_init(&line, 1 << 16);
    if (o.style == SONDE_REPORT_MARKDOWN) sonde_buf_puts(out, "# Check\n\n");
    sonde_check_headline(k, c, v, &line);
    check_put_line(&o, out, &line);
    check_put_ground(c, v, &line);
    check_put_line(&o, out, &line);
    for (size_t i = 0; i < v->difference_count; i++) {
        check_put_difference(&v->differences[i], &line);
        check_put_line(&o, out, &line);
    }
    if (v->same_build) {
        sonde_buf_puts(&line, "the program is the same build as the baseline's");
        check_put_line(&o, out, &line);
    }
    check_put_rows(k, &o, out);
    sonde_buf_puts(&line, "SMALLEST is the change that would be seen in nine of ten checks with "
                          "so many runs.");
    if (!k->count) sonde_buf_reset(&line);
    check_put_line(&o, out, &line);
    sonde_check_advice(k, c, v, &line);
    if (line.len) sonde_buf_putc(&line, '.');
    check_put_line(&o, out, &line);
    sonde_buf_puts(&line, "A saved baseline cannot be recorded in turns with new runs: what else "
                          "the machine did at either time is in the change, not in its interval.");
    check_put_line(&o, out, &line);
    sonde_buf_release(&line);
}

int sonde_check_report(const struct sonde_check *k, const struct sonde_comparison *c,
                       const struct sonde_check_view *v, struct sonde_buf *out,
                       struct sonde_err *err)
{
    assert(k && c && v->baseline && v->after);
    switch (v->format) {
    case SONDE_CHECK_JSON: sonde_check_json(k, c, v, out); break;
    case SONDE_CHECK_JUNIT: sonde_check_junit(k, c, v, out); break;
    default: check_put_text(k, c, v, out);
    }
    return out->error ? sonde_err_set(err, out->error, "no memory for the report") : 0;
}
