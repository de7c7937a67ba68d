/* pairs_text.c - what came of pairs: as figures, JSON, and for people (pairs.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "bench/ab/pairs.h"
#include "present/table.h"
#include "sonde/sonde.h"

/* ---- As a result ----------------------------------------------------------------------------- */

static int pairs_figure(const struct sonde_pairs *p, size_t f, int arm, double *work,
                        struct sonde_bench_result *r)
{
    const struct sonde_pairs_figure *figure = &p->o->figures[f];
    char name[SONDE_BENCH_NAME_MAX + 1];
    size_t count = 0;
    for (size_t i = 0; i < p->pairs; i++) {
        const double v = p->values[arm][i * p->o->figure_count + f];
        if (isfinite(v)) work[count++] = v;
    }
    if (!count) return 0;
    snprintf(name, sizeof(name), "%s.%s", arm ? "b" : "a", figure->name);
    struct sonde_bench_figure *out = sonde_bench_figure_add(r, name, figure->unit, figure->better);
    if (!out || sonde_bench_figure_parts(out, work, count)) return SONDE_ENOMEM;
    sonde_bench_figure_mean(out);
    return 0;
}

static void pairs_json_figure(const struct sonde_pairs *p, size_t f, struct sonde_buf *out)
{
    const struct sonde_pairs_figure *figure = &p->o->figures[f];
    const struct sonde_sequential_look look = sonde_sequential_look(&p->tests[f]);
    sonde_json_open(out, '{');
    sonde_json_str(out, "name", figure->name);
    sonde_json_str(out, "unit", figure->unit);
    sonde_json_num(out, "a", look.a);
    sonde_json_num(out, "b", look.b);
    sonde_json_num(out, "change", look.change);
    sonde_json_num(out, "low", isinf(look.low) ? NAN : look.low);
    sonde_json_num(out, "high", isinf(look.high) ? NAN : look.high);
    sonde_json_num(out, "relative", look.relative);
    sonde_json_num(out, "relative_low", isinf(look.relative_low) ? NAN : look.relative_low);
    sonde_json_num(out, "relative_high", isinf(look.relative_high) ? NAN : look.relative_high);
    sonde_json_num(out, "p", look.p);
    sonde_json_u64(out, "pairs", look.pairs);
    sonde_json_str(out, "verdict", sonde_sequential_verdict_name(look.verdict));
    sonde_json_close(out, '}');
}

int sonde_pairs_result(const struct sonde_pairs *p, struct sonde_bench_result *r)
{
    double *work = sonde__calloc(p->pairs ? p->pairs : 1, sizeof(*work));
    int rc = work ? 0 : SONDE_ENOMEM;
    for (size_t f = 0; f < p->o->figure_count && !rc; f++) {
        rc = pairs_figure(p, f, 0, work, r);
        if (!rc) rc = pairs_figure(p, f, 1, work, r);
    }
    sonde__free(work);
    struct sonde_buf *out = &r->extra;
    const enum sonde_sequential_verdict verdict = sonde_sequential_decide(&p->tests[p->o->lead]);
    sonde_json_key_open(out, "ab", '{');
    sonde_json_str(out, "verdict", sonde_sequential_verdict_name(verdict));
    sonde_json_str(out, "figure", p->o->figures[p->o->lead].name);
    sonde_json_num(out, "detect", p->o->detect > 0 ? p->o->detect : NAN);
    sonde_json_num(out, "level", p->tests[p->o->lead].options.level);
    sonde_json_u64(out, "pairs", p->pairs);
    sonde_json_str(out, "stopped", sonde_pairs_end_name(p->end));
    sonde_json_num(out, "elapsed_s", p->elapsed_s);
    sonde_json_key_open(out, "order", '[');
    for (size_t i = 0; i < p->pairs; i++) sonde_json_str(out, NULL, p->b_first[i] ? "ba" : "ab");
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "figures", '[');
    for (size_t f = 0; f < p->o->figure_count; f++) pairs_json_figure(p, f, out);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
    return rc ? rc : out->error;
}

/* ---- For people ------------------------------------------------------------------------------ */

/* "5.1 % less (-7.0 % … -3.2 %)" */
static void pairs_sentence_change(const struct sonde_sequential_look *look, int ascii,
                                  struct sonde_buf *out)
{
    char low[SONDE_BENCH_VALUE_BYTES], high[SONDE_BENCH_VALUE_BYTES];
    const double size = 100 * fabs(look->relative);
    if (isnan(size)) sonde_buf_puts(out, look->change > 0 ? "more" : "less");
    else {
        sonde_buf_printf(out, "%.*f %% %s", size < 1 ? 2 : size < 100 ? 1 : 0, size,
                         look->change > 0 ? "more" : "less");
    }
    if (!isfinite(look->relative_low) || !isfinite(look->relative_high)) return;
    sonde_buf_printf(out, " (%s %s %s)",
                     sonde_bench_percent_format(low, look->relative_low, ascii),
                     ascii ? "to" : "…",
                     sonde_bench_percent_format(high, look->relative_high, ascii));
}

void sonde_pairs_sentence(const struct sonde_pairs *p, int ascii, struct sonde_buf *out)
{
    const struct sonde_pairs_figure *figure = &p->o->figures[p->o->lead];
    const struct sonde_sequential_look look = sonde_sequential_look(&p->tests[p->o->lead]);
    switch (look.verdict) {
    case SONDE_SEQUENTIAL_SAME:
        sonde_buf_printf(out, "no difference of %.3g %% or more: %s of b was ",
                         100 * p->o->detect, figure->text);
        break;
    case SONDE_SEQUENTIAL_UNDECIDED:
        sonde_buf_printf(out, "undecided: %s of b was ", figure->text);
        break;
    default:
        sonde_buf_printf(out, "%s: %s of b was ", sonde_sequential_verdict_name(look.verdict),
                         figure->text);
        break;
    }
    pairs_sentence_change(&look, ascii, out);
    sonde_buf_printf(out, " than that of a, after %zu pair%s", p->pairs, p->pairs == 1 ? "" : "s");
    if (p->end == SONDE_PAIRS_DECIDED) return;
    sonde_buf_printf(out, "; stopped: %s", sonde_pairs_end_name(p->end));
    if (!isnan(look.more)) sonde_buf_printf(out, ", about %.0f more would decide", look.more);
}

static void pairs_row(struct sonde_table *t, const struct sonde_pairs *p, size_t f, int ascii)
{
    const struct sonde_pairs_figure *figure = &p->o->figures[f];
    const struct sonde_sequential_look look = sonde_sequential_look(&p->tests[f]);
    char a[SONDE_BENCH_VALUE_BYTES], b[SONDE_BENCH_VALUE_BYTES];
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%s", figure->text);
    sonde_table_cell(t, 1, "%s", sonde_bench_value_format(a, look.a, figure->unit, ascii));
    sonde_table_cell(t, 2, "%s", sonde_bench_value_format(a, look.b, figure->unit, ascii));
    const int relative = !isnan(look.relative);
    if (relative) {
        sonde_table_cell(t, 3, "%s", sonde_bench_percent_format(a, look.relative, ascii));
    } else {
        sonde_table_cell(t, 3, "%s", sonde_bench_value_format(a, look.change, figure->unit, ascii));
    }
    if (relative && isfinite(look.relative_low) && isfinite(look.relative_high)) {
        sonde_table_cell(t, 4, "%s %s %s", sonde_bench_percent_format(a, look.relative_low, ascii),
                         ascii ? "to" : "…",
                         sonde_bench_percent_format(b, look.relative_high, ascii));
    } else if (!relative && isfinite(look.low) && isfinite(look.high)) {
        sonde_table_cell(t, 4, "%s %s %s",
                         sonde_bench_value_format(a, look.low, figure->unit, ascii),
                         ascii ? "to" : "…",
                         sonde_bench_value_format(b, look.high, figure->unit, ascii));
    }
    sonde_table_cell(t, 5, "%s", sonde_sequential_verdict_name(look.verdict));
}

void sonde_pairs_text(const struct sonde_pairs *p, const char *a, const char *b,
                      const struct sonde_bench_view *v, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "" }, { .title = "a", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "b", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "b beside a", .align = SONDE_RIGHT },
        { .title = "95 % interval", .align = SONDE_RIGHT, .drop = 3 }, { .title = "verdict" },
    };
    struct sonde_table t;
    const char *end = v->markdown ? "  \n" : "\n"; /* two blanks: a line break of Markdown */
    sonde_buf_printf(out, "a  %s%sb  %s%s\n", a, end, b, end);
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t f = 0; f < p->o->figure_count; f++) {
        if (p->tests[f].pairs) pairs_row(&t, p, f, v->ascii);
    }
    sonde_bench_table_text(&t, v, out);
    if (t.error && !out->error) out->error = t.error;
    sonde_table_release(&t);
    sonde_buf_putc(out, '\n');
    sonde_pairs_sentence(p, v->ascii, out);
    sonde_buf_putc(out, '\n');
}
