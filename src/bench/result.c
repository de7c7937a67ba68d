/* result.c - see result.h. */
#include "bench/result.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyze/stats.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/strip.h"
#include "bench/machine.h"
#include "sonde/sonde.h"

void sonde_bench_result_init(struct sonde_bench_result *r, const char *kind, const char *name)
{
    memset(r, 0, sizeof(*r));
    r->kind = kind;
    snprintf(r->name, sizeof(r->name), "%s", name ? name : "");
    snprintf(r->sonde, sizeof(r->sonde), "%s", SONDE_VERSION);
    r->time_s = sonde_clock_s(CLOCK_REALTIME);
    sonde_buf_init(&r->extra, SONDE_BENCH_JSON_MAX);
    bench_machine_begin(&r->machine);
}

void sonde_bench_result_release(struct sonde_bench_result *r)
{
    for (size_t i = 0; i < r->figure_count; i++) sonde__free(r->figures[i].parts);
    for (size_t i = 0; i < r->command_count; i++) sonde__free(r->command[i]);
    for (size_t i = 0; i < r->reason_count; i++) sonde__free(r->reasons[i]);
    sonde__free(r->figures);
    sonde__free(r->kind_owned);
    sonde__free(r->command);
    sonde__free(r->reasons);
    sonde_buf_release(&r->extra);
    memset(r, 0, sizeof(*r));
}

int sonde_bench_result_command(struct sonde_bench_result *r, char *const *argv, size_t count)
{
    if (sonde_strip_on() || !count) return 0;
    r->command = sonde__calloc(count, sizeof(*r->command));
    if (!r->command) return SONDE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        r->command[i] = sonde__strdup(argv[i]);
        if (!r->command[i]) return SONDE_ENOMEM;
        r->command_count++;
    }
    return 0;
}

struct sonde_bench_figure *sonde_bench_figure_add(struct sonde_bench_result *r, const char *name,
                                                  const char *unit, int better)
{
    if (r->figure_count >= SONDE_BENCH_FIGURES_MAX) return NULL;
    struct sonde_bench_figure *f = SONDE_ARRAY_ADD(r->figures, r->figure_count, r->figure_cap);
    if (!f) return NULL;
    *f = (struct sonde_bench_figure){ .better = better, .value = NAN, .low = NAN, .high = NAN };
    snprintf(f->name, sizeof(f->name), "%s", name);
    snprintf(f->unit, sizeof(f->unit), "%s", unit);
    return f;
}

const struct sonde_bench_figure *sonde_bench_figure_find(const struct sonde_bench_result *r,
                                                         const char *name)
{
    for (size_t i = 0; i < r->figure_count; i++) {
        if (!strcmp(r->figures[i].name, name)) return &r->figures[i];
    }
    return NULL;
}

int sonde_bench_figure_parts(struct sonde_bench_figure *f, const double *parts, size_t count)
{
    if (count > SONDE_BENCH_PARTS_MAX) count = SONDE_BENCH_PARTS_MAX;
    double *copy = count ? sonde__calloc(count, sizeof(*copy)) : NULL;
    if (count && !copy) return SONDE_ENOMEM;
    if (count) memcpy(copy, parts, count * sizeof(*copy));
    sonde__free(f->parts);
    f->parts = copy;
    f->part_count = count;
    return 0;
}

void sonde_bench_figure_mean(struct sonde_bench_figure *f)
{
    const double n = (double)f->part_count;
    double sum = 0, squares = 0;
    f->samples = f->part_count;
    f->value = f->low = f->high = NAN;
    if (!f->part_count) return;
    for (size_t i = 0; i < f->part_count; i++) sum += f->parts[i];
    f->value = sum / n;
    if (f->part_count < 2) return;
    for (size_t i = 0; i < f->part_count; i++) {
        squares += (f->parts[i] - f->value) * (f->parts[i] - f->value);
    }
    const double half = sonde_t_quantile(0.975, n - 1) * sqrt(squares / (n - 1) / n);
    f->low = f->value - half;
    f->high = f->value + half;
}

int sonde_bench_result_doubt(struct sonde_bench_result *r, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    char *copy = sonde__strdup(text);
    char **at = copy ? SONDE_ARRAY_ADD(r->reasons, r->reason_count, r->reason_cap) : NULL;
    if (!at) {
        sonde__free(copy);
        return SONDE_ENOMEM;
    }
    *at = copy;
    return 0;
}

void sonde_bench_result_end(struct sonde_bench_result *r)
{
    bench_machine_end(&r->machine);
}

/* ---- As JSON --------------------------------------------------------------------------------- */

static void result_json_machine(const struct sonde_bench_machine *m, struct sonde_buf *out)
{
    sonde_json_key_open(out, "machine", '{');
    sonde_json_str(out, "cpu", m->cpu[0] ? m->cpu : NULL);
    sonde_json_u64_or_null(out, "cpus", m->cpus);
    sonde_json_u64_or_null(out, "memory_bytes", m->memory_bytes);
    sonde_json_str(out, "kernel", m->kernel[0] ? m->kernel : NULL);
    sonde_json_str(out, "governor", m->governor[0] ? m->governor : NULL);
    sonde_json_str(out, "host", m->host[0] ? m->host : NULL);
    sonde_json_bool(out, "virtual", m->virtual);
    sonde_json_num(out, "load_before", m->load_before);
    sonde_json_num(out, "stolen_ratio", m->stolen_ratio);
    sonde_json_close(out, '}');
}

static void result_json_figure(const struct sonde_bench_figure *f, struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "name", f->name);
    sonde_json_str(out, "unit", f->unit);
    sonde_json_num(out, "better", f->better);
    sonde_json_num(out, "value", f->value);
    sonde_json_num(out, "low", f->low);
    sonde_json_num(out, "high", f->high);
    sonde_json_u64(out, "samples", f->samples);
    sonde_json_key_open(out, "parts", '[');
    for (size_t i = 0; i < f->part_count; i++) sonde_json_num(out, NULL, f->parts[i]);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}

void sonde_bench_result_json(const struct sonde_bench_result *r, struct sonde_buf *out)
{
    sonde_buf_putc(out, '{'); /* one that follows another is no element of anything: no comma */
    sonde_json_u64(out, "schema", SONDE_BENCH_SCHEMA);
    sonde_json_str(out, "kind", r->kind);
    sonde_json_str(out, "name", r->name);
    sonde_json_time(out, "time_s", r->time_s);
    sonde_json_str(out, "sonde", r->sonde);
    sonde_json_u64(out, "seed", r->seed);
    sonde_json_key_open(out, "command", '[');
    for (size_t i = 0; i < r->command_count; i++) sonde_json_str(out, NULL, r->command[i]);
    sonde_json_close(out, ']');
    result_json_machine(&r->machine, out);
    sonde_json_key_open(out, "verdict", '{');
    sonde_json_bool(out, "valid", !r->reason_count);
    sonde_json_key_open(out, "reasons", '[');
    for (size_t i = 0; i < r->reason_count; i++) sonde_json_str(out, NULL, r->reasons[i]);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
    if (r->extra.len) {
        sonde_buf_putc(out, ',');
        sonde_buf_add(out, r->extra.data, r->extra.len);
    }
    sonde_json_key_open(out, "figures", '[');
    for (size_t i = 0; i < r->figure_count; i++) result_json_figure(&r->figures[i], out);
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
    if (r->extra.error && !out->error) out->error = r->extra.error;
}
