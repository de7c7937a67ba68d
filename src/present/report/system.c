/* system.c - what the machine and its processes did (analyze/system.h) as a part of a report: text,
 * Markdown and JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "present/report/profile_private.h"
#include "present/units.h"

/* ---- Text ------------------------------------------------------------------------------------ */

static void system_cell(const struct sonde_report_options *o, struct sonde_table *t, size_t column,
                        double v, const char *unit)
{
    char text[SONDE_VALUE_BYTES];
    if (isnan(v)) return;
    sonde_table_cell(t, column, "%s",
                     sonde_value_format(text, v, sonde_unit_of(unit, NULL), o->ascii));
}

/* Of what was there and never moved from zero there is nothing to say. */
static int system_is_quiet(const struct sonde_system_figure *f)
{
    return !f->points || (!(f->max > 0) && !(f->min < 0));
}

static void system_machine_text(const struct sonde_system *s, const struct sonde_report_options *o,
                                struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "MACHINE", .min = 14 }, { .title = "MIN", .align = SONDE_RIGHT },
        { .title = "MEAN", .align = SONDE_RIGHT }, { .title = "MAX", .align = SONDE_RIGHT },
    };
    struct sonde_table t;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < SONDE_HOST_FIGURES; i++) {
        const struct sonde_system_figure *f = &s->host[i];
        const struct sonde_system_name *name = &sonde_system_host_names[i];
        if (system_is_quiet(f)) continue;
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", name->title);
        system_cell(o, &t, 1, f->min, name->unit);
        system_cell(o, &t, 2, f->mean, name->unit);
        system_cell(o, &t, 3, f->max, name->unit);
    }
    if (t.row_count) report_put_rows(o, &t, out);
    else sonde_table_release(&t);
}

static void system_processes_text(const struct sonde_system *s,
                                  const struct sonde_report_options *o, size_t limit,
                                  struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "PROCESS", .min = 8 }, { .title = "PID", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "CPU", .align = SONDE_RIGHT }, { .title = "MAX", .align = SONDE_RIGHT },
        { .title = "MEMORY", .align = SONDE_RIGHT }, { .title = "MAX", .align = SONDE_RIGHT },
        { .title = "READ/S", .align = SONDE_RIGHT, .drop = 3 },
        { .title = "WRITTEN/S", .align = SONDE_RIGHT, .drop = 4 },
        { .title = "SWITCHES/S", .align = SONDE_RIGHT, .drop = 5 },
        { .title = "THREADS", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "FILES", .align = SONDE_RIGHT, .drop = 6 },
    };
    static const struct { int figure, most; } cells[] = {
        { SONDE_PROCESS_CPU, 0 }, { SONDE_PROCESS_CPU, 1 }, { SONDE_PROCESS_MEMORY, 0 },
        { SONDE_PROCESS_MEMORY, 1 }, { SONDE_PROCESS_DISK_READ, 0 },
        { SONDE_PROCESS_DISK_WRITTEN, 0 }, { SONDE_PROCESS_SWITCHES, 0 },
        { SONDE_PROCESS_THREADS, 1 }, { SONDE_PROCESS_FILES, 1 },
    };
    struct sonde_table t;
    if (!s->process_count) return;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (uint32_t i = 0; i < s->process_count && i < limit; i++) {
        const struct sonde_system_one *p = &s->processes[i];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", p->program);
        sonde_table_cell(&t, 1, "%u", p->pid);
        for (size_t k = 0; k < SONDE_COUNT(cells); k++) {
            const struct sonde_system_figure *f = &p->figures[cells[k].figure];
            system_cell(o, &t, 2 + k, cells[k].most ? f->max : f->mean,
                        sonde_system_process_names[cells[k].figure].unit);
        }
    }
    sonde_buf_putc(out, '\n');
    report_put_rows(o, &t, out);
}

void report_system_text(const struct sonde_system *s, const struct sonde_report_options *o,
                        size_t limit, struct sonde_buf *out)
{
    char title[96] = "System", memory[SONDE_VALUE_BYTES];
    if (!s) return;
    if (s->cpus > 0 && s->memory_bytes > 0) {
        snprintf(title, sizeof(title), "System: %.0f CPU%s, %s", s->cpus, s->cpus > 1 ? "s" : "",
                 sonde_value_format(memory, s->memory_bytes, SONDE_UNIT_BYTES, o->ascii));
    }
    report_put_heading(o, 2, title, out);
    system_machine_text(s, o, out);
    system_processes_text(s, o, limit, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static double system_round(double v, double by) { return round(v * by) / by; }

/* {"min","mean","max"}, or null. */
static void system_json_figure(struct sonde_buf *out, const struct sonde_system_name *name,
                               const struct sonde_system_figure *f)
{
    if (!f->points) {
        sonde_json_str(out, name->key, NULL);
        return;
    }
    sonde_json_key_open(out, name->key, '{');
    sonde_json_num(out, "min", system_round(f->min, 1e6));
    sonde_json_num(out, "mean", system_round(f->mean, 1e6));
    sonde_json_num(out, "max", system_round(f->max, 1e6));
    sonde_json_close(out, '}');
}

/* "percent" is the mean, which is what most readers want. */
static void system_json_part(const struct sonde_system *s, const char *key, double percent,
                             enum sonde_system_host first, enum sonde_system_host last,
                             struct sonde_buf *out)
{
    sonde_json_key_open(out, key, '{');
    if (first == SONDE_HOST_CPU || first == SONDE_HOST_MEMORY) {
        sonde_json_num(out, "percent", system_round(100 * percent, 100));
    }
    if (first == SONDE_HOST_CPU) sonde_json_num(out, "cpus", s->cpus);
    if (first == SONDE_HOST_MEMORY) sonde_json_num(out, "total_bytes", s->memory_bytes);
    for (unsigned i = first; i <= (unsigned)last; i++) {
        system_json_figure(out, &sonde_system_host_names[i], &s->host[i]);
    }
    sonde_json_close(out, '}');
}

void report_system_json(const struct sonde_system *s, struct sonde_buf *out)
{
    if (!s) return;
    sonde_json_key_open(out, "system", '{');
    sonde_json_num(out, "seconds", s->seconds);
    system_json_part(s, "cpu", s->host[SONDE_HOST_CPU].mean, SONDE_HOST_CPU, SONDE_HOST_LOAD, out);
    system_json_part(s, "memory", s->host[SONDE_HOST_MEMORY].mean, SONDE_HOST_MEMORY,
                     SONDE_HOST_SWAP, out);
    system_json_part(s, "disk", NAN, SONDE_HOST_DISK_READ, SONDE_HOST_DISK_BUSY, out);
    system_json_part(s, "network", NAN, SONDE_HOST_RECEIVED, SONDE_HOST_SENT, out);
    sonde_json_key_open(out, "processes", '[');
    for (uint32_t i = 0; i < s->process_count; i++) {
        const struct sonde_system_one *p = &s->processes[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "program", p->program);
        sonde_json_u64(out, "pid", p->pid);
        for (size_t k = 0; k < SONDE_PROCESS_FIGURES; k++) {
            system_json_figure(out, &sonde_system_process_names[k], &p->figures[k]);
        }
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_close(out, '}');
}
