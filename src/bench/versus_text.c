/* versus_text.c - a comparison of results for people and as JSON (versus.h). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/percent.h"
#include "base/array.h"
#include "base/json.h"
#include "bench/versus.h"
#include "present/table.h"

static void compare_row(struct sonde_table *t, const struct sonde_bench_change *k, int ascii)
{
    char a[SONDE_BENCH_VALUE_BYTES], b[SONDE_BENCH_VALUE_BYTES];
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%s", k->name);
    sonde_table_cell(t, 1, "%s", sonde_bench_value_format(a, k->estimate[0].value, k->unit, ascii));
    sonde_table_cell(t, 2, "%s", sonde_bench_value_format(a, k->estimate[1].value, k->unit, ascii));
    if (isfinite(k->d.relative)) {
        sonde_table_cell(t, 3, "%s", sonde_bench_percent_format(a, k->d.relative, ascii));
    } else {
        sonde_table_cell(t, 3, "%s", sonde_bench_value_format(a, k->d.change, k->unit, ascii));
    }
    if (isfinite(k->d.relative_low) && isfinite(k->d.relative_high)) {
        sonde_table_cell(t, 4, "%s %s %s", sonde_bench_percent_format(a, k->d.relative_low, ascii),
                         ascii ? "to" : "…",
                         sonde_bench_percent_format(b, k->d.relative_high, ascii));
    }
    if (k->verdict == SONDE_BENCH_SAME && isfinite(k->smallest)) {
        char smallest[SONDE_PERCENT_BYTES];
        sonde_table_cell(t, 5, "%s (seen from %s on)", sonde_bench_verdict_name(k->verdict),
                         sonde_percent_text(smallest, k->smallest));
    } else {
        sonde_table_cell(t, 5, "%s", sonde_bench_verdict_name(k->verdict));
    }
}

static void compare_headline(const struct sonde_bench_comparison *c, struct sonde_buf *out)
{
    size_t counts[SONDE_BENCH_CHANGED + 1] = { 0 };
    for (size_t i = 0; i < c->count; i++) counts[c->changes[i].verdict]++;
    sonde_buf_printf(out, "%zu figure%s: %zu worse, %zu better, %zu changed, %zu without a "
                     "difference, %zu not known", c->count, c->count == 1 ? "" : "s",
                     counts[SONDE_BENCH_WORSE], counts[SONDE_BENCH_BETTER],
                     counts[SONDE_BENCH_CHANGED], counts[SONDE_BENCH_SAME],
                     counts[SONDE_BENCH_UNKNOWN]);
    if (c->left_out) sonde_buf_printf(out, "; %zu that only one side has", c->left_out);
    sonde_buf_putc(out, '\n');
}

void sonde_bench_compare_text(const struct sonde_bench_comparison *c,
                              const struct sonde_bench_compare_view *v, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "figure" },
        { .title = "before", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "after", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "change", .align = SONDE_RIGHT },
        { .title = "95 % interval", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "verdict" },
    };
    struct sonde_table t;
    sonde_buf_printf(out, "%s (%zu run%s) %s %s (%zu run%s)\n", v->before, c->runs[0],
                     c->runs[0] == 1 ? "" : "s", v->view.ascii ? "->" : "→", v->after, c->runs[1],
                     c->runs[1] == 1 ? "" : "s");
    sonde_buf_putc(out, '\n');
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < c->count; i++) compare_row(&t, &c->changes[i], v->view.ascii);
    sonde_bench_table_text(&t, &v->view, out);
    if (t.error && !out->error) out->error = t.error;
    sonde_table_release(&t);
    sonde_buf_putc(out, '\n');
    compare_headline(c, out);
    for (size_t i = 0; i < c->note_count; i++) {
        sonde_buf_printf(out, "%snote: %s\n", v->view.markdown ? "\n" : "", c->notes[i]);
    }
}

void sonde_bench_compare_json(const struct sonde_bench_comparison *c,
                              const struct sonde_bench_compare_view *v, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "before", v->before);
    sonde_json_str(out, "after", v->after);
    sonde_json_key_open(out, "runs", '[');
    for (int i = 0; i < 2; i++) sonde_json_u64(out, NULL, c->runs[i]);
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "figures", '[');
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_bench_change *k = &c->changes[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", k->name);
        sonde_json_str(out, "unit", k->unit);
        sonde_json_num(out, "better", k->better);
        sonde_json_num(out, "before", k->estimate[0].value);
        sonde_json_num(out, "after", k->estimate[1].value);
        sonde_json_num(out, "change", k->d.change);
        sonde_json_num(out, "low", k->d.low);
        sonde_json_num(out, "high", k->d.high);
        sonde_json_num(out, "relative", k->d.relative);
        sonde_json_num(out, "relative_low", k->d.relative_low);
        sonde_json_num(out, "relative_high", k->d.relative_high);
        sonde_json_num(out, "p", k->d.p);
        sonde_json_num(out, "p_adjusted", k->adjusted);
        sonde_json_num(out, "smallest", k->smallest);
        sonde_json_str(out, "verdict", sonde_bench_verdict_name(k->verdict));
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "notes", '[');
    for (size_t i = 0; i < c->note_count; i++) sonde_json_str(out, NULL, c->notes[i]);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
}
