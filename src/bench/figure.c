/* figure.c - see figure.h. */
#include "bench/figure.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyze/compare_fail.h"
#include "base/array.h"
#include "present/table.h"
#include "present/units.h"
#include "sonde/sonde.h"

/* ---- Values ---------------------------------------------------------------------------------- */

const char *sonde_bench_value_format(char out[SONDE_BENCH_VALUE_BYTES], double v, const char *unit,
                                     int ascii)
{
    static const struct { const char *unit; enum sonde_unit as; const char *behind; } units[] = {
        { "s", SONDE_UNIT_SECONDS, "" },     { "bytes", SONDE_UNIT_BYTES, "" },
        { "1/s", SONDE_UNIT_COUNT, "/s" },   { "bytes/s", SONDE_UNIT_BYTES, "/s" },
        { "", SONDE_UNIT_COUNT, "" },
    };
    char text[SONDE_VALUE_BYTES];
    if (isnan(v) || isinf(v)) {
        snprintf(out, SONDE_BENCH_VALUE_BYTES, "%s", ascii ? "-" : "–");
        return out;
    }
    for (size_t i = 0; i < SONDE_COUNT(units); i++) {
        if (strcmp(units[i].unit, unit) != 0) continue;
        snprintf(out, SONDE_BENCH_VALUE_BYTES, "%s%s",
                 sonde_value_format(text, v, units[i].as, ascii), units[i].behind);
        return out;
    }
    if (!strcmp(unit, "ratio")) snprintf(out, SONDE_BENCH_VALUE_BYTES, "%.3g", v);
    else snprintf(out, SONDE_BENCH_VALUE_BYTES, "%.4g %.16s", v, unit);
    return out;
}

const char *sonde_bench_percent_format(char out[SONDE_BENCH_VALUE_BYTES], double ratio, int ascii)
{
    /* Not "-0.00 %": what rounds to nothing has no sign. */
    const double p = fabs(ratio) < 5e-5 ? 0 : 100 * ratio, size = fabs(p);
    if (isnan(p) || isinf(p)) snprintf(out, SONDE_BENCH_VALUE_BYTES, "%s", ascii ? "-" : "–");
    else snprintf(out, SONDE_BENCH_VALUE_BYTES, "%+.*f %%", size < 1 ? 2 : size < 100 ? 1 : 0, p);
    return out;
}

const char *sonde_bench_time_format(char out[SONDE_BENCH_VALUE_BYTES], double time_s)
{
    const time_t t = (time_t)time_s;
    struct tm tm;
    out[0] = '\0';
    if (time_s > 0 && localtime_r(&t, &tm)) {
        strftime(out, SONDE_BENCH_VALUE_BYTES, "%Y-%m-%d %H:%M:%S", &tm);
    }
    return out;
}

/* ---- A result -------------------------------------------------------------------------------- */

/* Cells come from files: a bar would make one more of them, and a newline end the table. */
static void figure_markdown_cell(const char *s, struct sonde_buf *out)
{
    for (; *s; s++) {
        if (*s == '|' || *s == '\\' || *s == '<' || *s == '`') sonde_buf_putc(out, '\\');
        sonde_buf_putc(out, (unsigned char)*s < ' ' ? ' ' : *s);
    }
}

void sonde_bench_table_text(const struct sonde_table *t, const struct sonde_bench_view *v,
                            struct sonde_buf *out)
{
    if (!v->markdown) {
        sonde_table_render(t, v->width, v->ascii, out);
        return;
    }
    for (size_t c = 0; c < t->column_count; c++) {
        sonde_buf_printf(out, "%s %s", c ? " |" : "|", t->columns[c].title);
    }
    sonde_buf_puts(out, " |\n");
    for (size_t c = 0; c < t->column_count; c++) {
        sonde_buf_puts(out, t->columns[c].align == SONDE_RIGHT ? "|---:" : "|:---");
    }
    sonde_buf_puts(out, "|\n");
    for (size_t r = 0; r < t->row_count; r++) {
        for (size_t c = 0; c < t->column_count; c++) {
            sonde_buf_puts(out, c ? " | " : "| ");
            figure_markdown_cell(sonde_table_text(t, r, c), out);
        }
        sonde_buf_puts(out, " |\n");
    }
    if (t->error && !out->error) out->error = t->error;
}

static void figure_machine_text(const struct sonde_bench_machine *m, struct sonde_buf *out)
{
    char memory[SONDE_BENCH_VALUE_BYTES];
    sonde_buf_printf(out, "machine  %s, %u CPUs, %s", m->cpu[0] ? m->cpu : "unknown CPU", m->cpus,
                     sonde_bench_value_format(memory, (double)m->memory_bytes, "bytes", 0));
    if (m->governor[0]) sonde_buf_printf(out, ", governor %s", m->governor);
    if (m->kernel[0]) sonde_buf_printf(out, ", %s", m->kernel);
    if (m->virtual) sonde_buf_puts(out, ", virtual");
    if (m->host[0]) sonde_buf_printf(out, ", host %s", m->host);
    if (!isnan(m->load_before)) sonde_buf_printf(out, "\nload     %.2f before", m->load_before);
    if (!isnan(m->stolen_ratio)) {
        sonde_buf_printf(out, ", %.2f %% of the CPU time taken by the host", 100 * m->stolen_ratio);
    }
    sonde_buf_putc(out, '\n');
}

static void figure_details_text(const struct sonde_bench_result *r, struct sonde_buf *out)
{
    figure_machine_text(&r->machine, out);
    if (r->seed) sonde_buf_printf(out, "seed     %llu\n", (unsigned long long)r->seed);
    if (r->command_count) sonde_buf_puts(out, "command ");
    for (size_t i = 0; i < r->command_count; i++) sonde_buf_printf(out, " %s", r->command[i]);
    if (r->command_count) sonde_buf_putc(out, '\n');
}

void sonde_bench_result_text(const struct sonde_bench_result *r, const struct sonde_bench_view *v,
                             struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "figure" },
        { .title = "value", .align = SONDE_RIGHT },
        { .title = "95 % interval", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "parts", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "samples", .align = SONDE_RIGHT, .drop = 2 },
    };
    char a[SONDE_BENCH_VALUE_BYTES], b[SONDE_BENCH_VALUE_BYTES];
    struct sonde_table t;
    const char *bold = v->markdown ? "**" : "";
    sonde_buf_printf(out, "%s%s%s  ", bold, r->name[0] ? r->name : r->kind, bold);
    if (r->name[0]) sonde_buf_printf(out, "%s  ", r->kind);
    sonde_buf_printf(out, "%s  sonde %s\n", sonde_bench_time_format(a, r->time_s), r->sonde);
    if (v->markdown) sonde_buf_putc(out, '\n');
    if (v->details) figure_details_text(r, out);
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < r->figure_count; i++) {
        const struct sonde_bench_figure *f = &r->figures[i];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", f->name);
        sonde_table_cell(&t, 1, "%s", sonde_bench_value_format(a, f->value, f->unit, v->ascii));
        if (!isnan(f->low) && !isnan(f->high)) {
            sonde_table_cell(&t, 2, "%s %s %s",
                             sonde_bench_value_format(a, f->low, f->unit, v->ascii),
                             v->ascii ? "to" : "…",
                             sonde_bench_value_format(b, f->high, f->unit, v->ascii));
        }
        if (f->part_count) sonde_table_cell(&t, 3, "%zu", f->part_count);
        if (f->samples) sonde_table_cell(&t, 4, "%llu", (unsigned long long)f->samples);
    }
    if (r->figure_count) sonde_bench_table_text(&t, v, out);
    if (t.error && !out->error) out->error = t.error;
    sonde_table_release(&t);
    if (v->markdown) sonde_buf_putc(out, '\n');
    if (!r->reason_count) sonde_buf_puts(out, "valid\n");
    for (size_t i = 0; i < r->reason_count; i++) {
        sonde_buf_printf(out, "not valid: %s\n", r->reasons[i]);
    }
}

/* ---- Limits ---------------------------------------------------------------------------------- */

int sonde_bench_limit_parse(const char *text, struct sonde_bench_limit *out, struct sonde_err *err)
{
    struct sonde_bench_limit l = { .sign = 1 };
    struct sonde_fail_on number = { .text = text };
    const char *op = strpbrk(text, "<>");
    size_t len = op ? (size_t)(op - text) : 0;
    while (len && text[len - 1] == ' ') len--;
    if (!len || len > SONDE_BENCH_NAME_MAX || strlen(text) >= sizeof(l.text) ||
        sonde_fail_on_limit(op + 1, &number)) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.100s' is not a figure, > or <, and a number of "
                             "per cent or one with a unit, for example 'ttft_s.p95>5%%', "
                             "'e2e_s.p99>2s' or 'requests_per_s<50'", text);
    }
    memcpy(l.text, text, strlen(text) + 1);
    memcpy(l.glob, text, len);
    l.sign = *op == '>' ? 1 : -1;
    l.absolute = number.absolute;
    l.limit = number.limit;
    l.kind = number.kind;
    *out = l;
    return 0;
}

int sonde_bench_limit_unit(const struct sonde_bench_limit *l, const char *name, const char *unit,
                           struct sonde_err *err)
{
    const char *kind = !strcmp(unit, "s") ? "seconds" : !strncmp(unit, "bytes", 5) ? "bytes" : NULL;
    const int alike = !kind && !l->kind;
    if (!l->absolute || alike || (kind && l->kind && !strcmp(kind, l->kind))) return 0;
    if (kind && !l->kind) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.100s': %.100s is a %s and its limit needs a "
                             "unit, such as %s", l->text, name,
                             *kind == 's' ? "time" : "size", *kind == 's' ? "200ms" : "1GB");
    }
    return sonde_err_set(err, SONDE_EINVAL, "'%.100s': %.100s is not measured in %s", l->text, name,
                         l->kind);
}

int sonde_bench_limit_check(const struct sonde_bench_limit *l, const struct sonde_bench_result *r,
                            const struct sonde_bench_figure **out, struct sonde_err *err)
{
    double most = 0;
    int found = 0, broken = 0;
    if (!l->absolute) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.100s' is a limit of a change, which one result "
                             "does not have: say a value, or use `sonde bench compare`", l->text);
    }
    for (size_t i = 0; i < r->figure_count; i++) {
        const struct sonde_bench_figure *f = &r->figures[i];
        if (fnmatch(l->glob, f->name, 0) != 0) continue;
        const int rc = sonde_bench_limit_unit(l, f->name, f->unit, err);
        if (rc) return rc;
        found = 1;
        /* What could not be measured does not pass. */
        const double excess = isnan(f->value) ? INFINITY : (f->value - l->limit) * l->sign;
        if (!(excess > 0) || (broken && excess <= most)) continue;
        broken = 1;
        most = excess;
        *out = f;
    }
    if (!found) {
        return sonde_err_set(err, SONDE_ENOENT, "'%.100s': there is no such figure in this result",
                             l->text);
    }
    return broken;
}
