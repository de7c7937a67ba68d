/* suite_report.c - what `sonde bench run` found, as a result, a table and Markdown. Members of its
 * own in the result:
 *
 *   program, processes, cases[{name, threads, iterations, failed, time_s{value, low, high},
 *     cpu_s, bytes_per_s, items_per_s}], scaling[{name, contention, coherence, best_threads …}] */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/path.h"
#include "bench/run/suite.h"
#include "present/table.h"
#include "present/units.h"
#include "sonde/sonde.h"

/* A case in numbers; NaN = not known, or it has none. */
struct suite_row { double time_s, half_s, cpu_s, bytes_per_s, items_per_s, rate; };

static struct suite_row suite_row_of(const struct sonde_suite *s, size_t which)
{
    const struct sonde_suite_case *c = &s->cases[which];
    struct suite_row r = { NAN, NAN, NAN, NAN, NAN, NAN };
    double cpu = 0, count = 0;
    if (!c->iterations || !s->processes) return r;
    const struct sonde_estimate e = sonde_suite_time(s, which);
    for (size_t i = 0; i < s->processes; i++) {
        cpu += c->cpu_s[i];
        count += c->count[i];
    }
    const double threads = (double)c->of.threads;
    r.time_s = e.value;
    if (isfinite(e.se_high)) r.half_s = sonde_t_quantile(0.975, e.df) * e.se_high;
    r.cpu_s = cpu / count / threads;
    r.rate = threads / e.value;
    if (c->bytes) r.bytes_per_s = (double)c->bytes * r.rate;
    if (c->items) r.items_per_s = (double)c->items * r.rate;
    return r;
}

/* ---- The result ------------------------------------------------------------------------------ */

/* factor / time: a rate, whose parts are those of the time turned around. */
static int suite_rate_figure(const struct sonde_suite *s, size_t which, const char *what,
                             const char *unit, double factor, double *work,
                             struct sonde_bench_result *out)
{
    const struct sonde_suite_case *c = &s->cases[which];
    const struct suite_row r = suite_row_of(s, which);
    char name[SONDE_PROGRAM_CASE_MAX + 32];
    snprintf(name, sizeof(name), "%s.%s", c->of.name, what);
    struct sonde_bench_figure *f = sonde_bench_figure_add(out, name, unit, 1);
    if (!f) return SONDE_ENOMEM;
    for (size_t i = 0; i < s->processes; i++) work[i] = factor * c->count[i] / c->real_s[i];
    f->value = factor / r.time_s;
    f->samples = s->processes;
    if (r.half_s < r.time_s) {
        f->low = factor / (r.time_s + r.half_s);
        f->high = factor / (r.time_s - r.half_s);
    }
    return sonde_bench_figure_parts(f, work, s->processes);
}

static int suite_time_figure(const struct sonde_suite *s, size_t which, double *work,
                             struct sonde_bench_result *out)
{
    const struct sonde_suite_case *c = &s->cases[which];
    const struct suite_row r = suite_row_of(s, which);
    char name[SONDE_PROGRAM_CASE_MAX + 32];
    snprintf(name, sizeof(name), "%s.time_s", c->of.name);
    struct sonde_bench_figure *f = sonde_bench_figure_add(out, name, "s", -1);
    if (!f) return SONDE_ENOMEM;
    for (size_t i = 0; i < s->processes; i++) work[i] = c->real_s[i] / c->count[i];
    f->value = r.time_s;
    f->samples = s->processes;
    if (!isnan(r.half_s)) {
        f->low = fmax(r.time_s - r.half_s, 0);
        f->high = r.time_s + r.half_s;
    }
    return sonde_bench_figure_parts(f, work, s->processes);
}

static int suite_figures(const struct sonde_suite *s, size_t which, double *work,
                         struct sonde_bench_result *out)
{
    const struct sonde_suite_case *c = &s->cases[which];
    const double threads = (double)c->of.threads;
    if (!c->iterations) return 0;
    int rc = suite_time_figure(s, which, work, out);
    if (!rc && c->bytes) {
        rc = suite_rate_figure(s, which, "bytes_per_s", "bytes/s", (double)c->bytes * threads, work,
                               out);
    }
    if (!rc && c->items) {
        rc = suite_rate_figure(s, which, "items_per_s", "1/s", (double)c->items * threads, work,
                               out);
    }
    return rc;
}

static void suite_json_range(struct sonde_buf *out, const char *key,
                             const struct sonde_usl_range *v)
{
    sonde_json_key_open(out, key, '{');
    sonde_json_num(out, "value", v->value);
    sonde_json_num(out, "low", v->low);
    sonde_json_num(out, "high", v->high);
    sonde_json_close(out, '}');
}

static void suite_json_cases(const struct sonde_suite *s, struct sonde_buf *out)
{
    sonde_json_key_open(out, "cases", '[');
    for (size_t i = 0; i < s->case_count; i++) {
        const struct sonde_suite_case *c = &s->cases[i];
        const struct suite_row r = suite_row_of(s, i);
        const struct sonde_usl_range time = { r.time_s, fmax(r.time_s - r.half_s, 0),
                                              r.time_s + r.half_s };
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", c->of.name);
        sonde_json_u64(out, "threads", c->of.threads);
        sonde_json_u64_or_null(out, "iterations", c->iterations);
        sonde_json_str(out, "failed", c->failed[0] ? c->failed : NULL);
        suite_json_range(out, "time_s", &time);
        sonde_json_num(out, "cpu_s", r.cpu_s);
        sonde_json_num(out, "bytes_per_s", r.bytes_per_s);
        sonde_json_num(out, "items_per_s", r.items_per_s);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void suite_json_scaling(const struct sonde_suite *s, uint64_t seed, struct sonde_buf *out)
{
    sonde_json_key_open(out, "scaling", '[');
    for (size_t i = 0; i < s->case_count; i++) {
        struct sonde_usl u;
        if (sonde_suite_scaling(s, i, seed, &u)) continue;
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", s->cases[i].of.group);
        suite_json_range(out, "single_per_s", &u.single);
        suite_json_range(out, "contention", &u.contention);
        suite_json_range(out, "coherence", &u.coherence);
        suite_json_range(out, "best_threads", &u.best_n);
        sonde_json_num(out, "best_per_s", u.best_throughput);
        sonde_json_num(out, "r2", u.r2);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static int suite_doubts(const struct sonde_suite_options *o, const struct sonde_suite *s,
                        struct sonde_bench_result *out)
{
    int rc = 0;
    if (s->interrupted) {
        rc = sonde_bench_result_doubt(out, "interrupted after %zu processes", s->processes);
    } else if (o->until > 0 && !s->narrow) {
        rc = sonde_bench_result_doubt(out, "not every time is known to ±%g %% after %zu processes: "
                                      "give it more time (--duration, --max-processes) or a wider "
                                      "--until", 100 * o->until, s->processes);
    }
    for (size_t i = 0; i < s->case_count && !rc; i++) {
        if (!s->cases[i].failed[0]) continue;
        rc = sonde_bench_result_doubt(out, "%s: %s", s->cases[i].of.name, s->cases[i].failed);
    }
    return rc;
}

int sonde_suite_result(const struct sonde_suite_options *o, const struct sonde_suite *s,
                       struct sonde_bench_result *out)
{
    double *work = sonde__calloc(s->processes ? s->processes : 1, sizeof(*work));
    int rc = work ? suite_doubts(o, s, out) : SONDE_ENOMEM;
    out->seed = o->seed;
    for (size_t i = 0; i < s->case_count && !rc && s->processes; i++) {
        rc = suite_figures(s, i, work, out);
    }
    sonde__free(work);
    if (rc) return rc;
    sonde_json_str(&out->extra, "program", sonde_path_base(o->path));
    sonde_json_u64(&out->extra, "processes", s->processes);
    suite_json_cases(s, &out->extra);
    suite_json_scaling(s, o->seed, &out->extra);
    return out->extra.error;
}

/* ---- For people ------------------------------------------------------------------------------ */

static void suite_text_scaling(const struct sonde_suite *s, size_t i, const struct sonde_usl *u,
                               int ascii, struct sonde_buf *out)
{
    const char *to = ascii ? "..." : "…";
    sonde_buf_printf(out, "  %s: contention %.3g (%.3g %s %.3g), coherence %.3g (%.3g %s %.3g)",
                     s->cases[i].of.group, u->contention.value, u->contention.low, to,
                     u->contention.high, u->coherence.value, u->coherence.low, to,
                     u->coherence.high);
    if (isinf(u->best_n.value)) {
        sonde_buf_puts(out, "; more threads never do less\n");
        return;
    }
    sonde_buf_printf(out, "; best with %.1f threads (%.1f %s ", u->best_n.value, u->best_n.low, to);
    if (isinf(u->best_n.high)) sonde_buf_puts(out, "no end)");
    else sonde_buf_printf(out, "%.1f)", u->best_n.high);
    sonde_buf_printf(out, "%s\n", u->best_n.value > u->seen_n
                                      ? ": a guess, beyond what was tried" : "");
}

static void suite_table(const struct sonde_suite *s, int width, int ascii, struct sonde_buf *out)
{
    int bytes = 0, items = 0;
    for (size_t i = 0; i < s->case_count; i++) {
        bytes |= s->cases[i].bytes != 0;
        items |= s->cases[i].items != 0;
    }
    const struct sonde_column columns[] = {
        { .title = "benchmark", .min = 12 },
        { .title = "time", .align = SONDE_RIGHT },
        { .title = ascii ? "+- 95 %" : "± 95 %" },
        { .title = "CPU", .align = SONDE_RIGHT, .drop = 1 },
        { .title = bytes ? "bytes/s" : "", .align = SONDE_RIGHT },
        { .title = items ? "items/s" : "", .align = SONDE_RIGHT },
        { .title = "iterations", .align = SONDE_RIGHT, .drop = 2 },
    };
    char a[SONDE_VALUE_BYTES];
    struct sonde_table t;
    sonde_table_init(&t, columns, sizeof(columns) / sizeof(columns[0]));
    for (size_t i = 0; i < s->case_count; i++) {
        const struct sonde_suite_case *c = &s->cases[i];
        const struct suite_row r = suite_row_of(s, i);
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", c->of.name);
        if (!c->iterations) continue;
        sonde_table_cell(&t, 1, "%s", sonde_value_format(a, r.time_s, SONDE_UNIT_SECONDS, ascii));
        if (!isnan(r.half_s)) {
            sonde_value_format(a, r.half_s, SONDE_UNIT_SECONDS, ascii);
            sonde_table_cell(&t, 2, "%s (%.1f %%)", a, 100 * r.half_s / r.time_s);
        }
        sonde_table_cell(&t, 3, "%s", sonde_value_format(a, r.cpu_s, SONDE_UNIT_SECONDS, ascii));
        if (!isnan(r.bytes_per_s)) {
            sonde_table_cell(&t, 4, "%s",
                             sonde_value_format(a, r.bytes_per_s, SONDE_UNIT_BYTES, ascii));
        }
        if (!isnan(r.items_per_s)) {
            sonde_table_cell(&t, 5, "%s",
                             sonde_value_format(a, r.items_per_s, SONDE_UNIT_COUNT, ascii));
        }
        sonde_table_cell(&t, 6, "%s",
                         sonde_value_format(a, (double)c->iterations, SONDE_UNIT_COUNT, ascii));
    }
    sonde_table_render(&t, width, ascii, out);
    sonde_table_release(&t);
}

void sonde_suite_text(const struct sonde_suite_options *o, const struct sonde_suite *s, int width,
                      int ascii, struct sonde_buf *out)
{
    int head = 0;
    sonde_buf_printf(out, "%s: %zu benchmarks, %zu processes of %llu samples in random order (seed "
                     "%llu), %.1f s\n\n", sonde_path_base(o->path), s->case_count, s->processes,
                     (unsigned long long)o->samples, (unsigned long long)o->seed, s->elapsed_s);
    suite_table(s, width, ascii, out);
    for (size_t i = 0; i < s->case_count; i++) {
        if (!s->cases[i].failed[0]) continue;
        sonde_buf_printf(out, "%s%s: %s\n", head++ ? "" : "\nnot measured:\n", s->cases[i].of.name,
                         s->cases[i].failed);
    }
    head = 0;
    for (size_t i = 0; i < s->case_count; i++) {
        struct sonde_usl u;
        if (sonde_suite_scaling(s, i, o->seed, &u)) continue;
        if (!head++) sonde_buf_puts(out, "\nscaling (universal scalability law):\n");
        suite_text_scaling(s, i, &u, ascii, out);
    }
    if (s->interrupted) {
        sonde_buf_printf(out, "\nInterrupted after %zu processes.\n", s->processes);
    } else if (o->until > 0 && !s->narrow) {
        sonde_buf_printf(out, "\nNot every time is known to %s%g %%: give it more time "
                         "(--duration, --max-processes) or a wider --until.\n", ascii ? "+-" : "±",
                         100 * o->until);
    }
}

void sonde_suite_markdown(const struct sonde_suite *s, struct sonde_buf *out)
{
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES], c[SONDE_VALUE_BYTES], d[SONDE_VALUE_BYTES];
    sonde_buf_puts(out, "| Benchmark | Time ± 95 % | Bytes/s | Items/s |\n|:---|---:|---:|---:|\n");
    for (size_t i = 0; i < s->case_count; i++) {
        const struct suite_row r = suite_row_of(s, i);
        if (s->cases[i].failed[0]) {
            sonde_buf_printf(out, "| `%s` | %s | | |\n", s->cases[i].of.name, s->cases[i].failed);
            continue;
        }
        sonde_buf_printf(out, "| `%s` | %s ± %s | %s | %s |\n", s->cases[i].of.name,
                         sonde_value_format(a, r.time_s, SONDE_UNIT_SECONDS, 0),
                         sonde_value_format(b, r.half_s, SONDE_UNIT_SECONDS, 0),
                         isnan(r.bytes_per_s) ? ""
                             : sonde_value_format(c, r.bytes_per_s, SONDE_UNIT_BYTES, 0),
                         isnan(r.items_per_s) ? ""
                             : sonde_value_format(d, r.items_per_s, SONDE_UNIT_COUNT, 0));
    }
}
