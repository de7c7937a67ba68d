/* gpus.c - what GPUs did (analyze/gpus.h) as a part of a report: text, Markdown, JSON and CSV. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "present/report/profile_private.h"
#include "present/units.h"

/* ---- Text ------------------------------------------------------------------------------------ */

static void gpus_cell(const struct sonde_report_options *o, struct sonde_table *t, size_t column,
                      double v, enum sonde_unit unit)
{
    char text[SONDE_VALUE_BYTES];
    if (!isnan(v)) {
        sonde_table_cell(t, column, "%s", sonde_value_format(text, v, unit, o->ascii));
    }
}

static void gpus_number_cell(struct sonde_table *t, size_t column, double v)
{
    if (!isnan(v)) sonde_table_cell(t, column, "%.0f", v);
}

static void gpus_devices_text(const struct sonde_gpus *g, const struct sonde_report_options *o,
                              size_t limit, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "GPU", .align = SONDE_RIGHT }, { .title = "NAME", .min = 8, .max = 40 },
        { .title = "BUSY", .align = SONDE_RIGHT }, { .title = "MAX", .align = SONDE_RIGHT },
        { .title = "MEMORY MAX", .align = SONDE_RIGHT }, { .title = "OF", .align = SONDE_RIGHT },
        { .title = "WATTS", .align = SONDE_RIGHT }, { .title = "JOULES", .align = SONDE_RIGHT },
        { .title = "°C MAX", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "MHz", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "BY POWER", .align = SONDE_RIGHT, .drop = 4 },
        { .title = "BY HEAT", .align = SONDE_RIGHT, .drop = 5 },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < g->count && i < limit; i++) {
        const struct sonde_gpus_one *one = &g->gpus[i];
        const struct sonde_system_figure *f = one->figures;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%u", one->gpu);
        sonde_table_cell(&t, 1, "%s", one->name);
        gpus_cell(o, &t, 2, f[SONDE_GPUS_BUSY].mean, SONDE_UNIT_RATIO);
        gpus_cell(o, &t, 3, f[SONDE_GPUS_BUSY].max, SONDE_UNIT_RATIO);
        gpus_cell(o, &t, 4, f[SONDE_GPUS_MEMORY].max, SONDE_UNIT_BYTES);
        gpus_cell(o, &t, 5, one->memory_bytes, SONDE_UNIT_BYTES);
        gpus_number_cell(&t, 6, f[SONDE_GPUS_POWER].mean);
        gpus_number_cell(&t, 7, one->joules);
        gpus_number_cell(&t, 8, f[SONDE_GPUS_TEMPERATURE].max);
        gpus_number_cell(&t, 9, f[SONDE_GPUS_CLOCK].mean / 1e6);
        gpus_cell(o, &t, 10, f[SONDE_GPUS_BY_POWER].mean, SONDE_UNIT_RATIO);
        gpus_cell(o, &t, 11, f[SONDE_GPUS_BY_HEAT].mean, SONDE_UNIT_RATIO);
    }
    report_put_rows(o, &t, out);
}

static void gpus_processes_text(const struct sonde_gpus *g, const struct sonde_report_options *o,
                                size_t limit, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "PROCESS", .min = 8 }, { .title = "PID", .align = SONDE_RIGHT },
        { .title = "GPU", .align = SONDE_RIGHT }, { .title = "MEMORY MAX", .align = SONDE_RIGHT },
        { .title = "BUSY", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    if (!g->process_count) return;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < g->process_count && i < limit; i++) {
        const struct sonde_gpus_process *p = &g->processes[i];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", p->program);
        sonde_table_cell(&t, 1, "%u", p->pid);
        sonde_table_cell(&t, 2, "%u", p->gpu);
        gpus_cell(o, &t, 3, p->memory_max_bytes, SONDE_UNIT_BYTES);
        gpus_cell(o, &t, 4, p->utilization, SONDE_UNIT_RATIO);
    }
    sonde_buf_putc(out, '\n');
    report_put_rows(o, &t, out);
}

void report_gpus_text(const struct sonde_gpus *g, const struct sonde_report_options *o,
                      size_t limit, struct sonde_buf *out)
{
    if (!g) return;
    report_put_heading(o, 2, "GPUs", out);
    gpus_devices_text(g, o, limit, out);
    gpus_processes_text(g, o, limit, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void gpus_json_figure(struct sonde_buf *out, const char *key,
                             const struct sonde_system_figure *f)
{
    if (!f->points) {
        sonde_json_str(out, key, NULL);
        return;
    }
    sonde_json_key_open(out, key, '{');
    sonde_json_num(out, "min", f->min);
    sonde_json_num(out, "mean", f->mean);
    sonde_json_num(out, "max", f->max);
    sonde_json_close(out, '}');
}

void report_gpus_json(const struct sonde_gpus *g, struct sonde_buf *out)
{
    if (!g) return;
    sonde_json_key_open(out, "gpus", '{');
    sonde_json_key_open(out, "list", '[');
    for (uint32_t i = 0; i < g->count; i++) {
        const struct sonde_gpus_one *one = &g->gpus[i];
        sonde_json_open(out, '{');
        sonde_json_u64(out, "gpu", one->gpu);
        sonde_json_str(out, "name", one->name[0] ? one->name : NULL);
        sonde_json_str(out, "uuid", one->uuid[0] ? one->uuid : NULL);
        sonde_json_num(out, "memory_total_bytes", one->memory_bytes);
        sonde_json_num(out, "energy_joules", one->joules);
        for (size_t f = 0; f < SONDE_GPUS_FIGURE_COUNT; f++) {
            gpus_json_figure(out, sonde_gpus_names[f].key, &one->figures[f]);
        }
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_key_open(out, "processes", '[');
    for (uint32_t i = 0; i < g->process_count; i++) {
        const struct sonde_gpus_process *p = &g->processes[i];
        sonde_json_open(out, '{');
        sonde_json_u64(out, "gpu", p->gpu);
        sonde_json_str(out, "program", p->program);
        sonde_json_u64(out, "pid", p->pid);
        sonde_json_num(out, "memory_max_bytes", p->memory_max_bytes);
        sonde_json_num(out, "utilization_ratio", p->utilization);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}
