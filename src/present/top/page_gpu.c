/* page_gpu.c - GPUs, and below them the processes that use them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "present/top/pages.h"
#include "present/units.h"

enum { GPU, NAME, BUSY, USED, TOTAL, SHARE, CELSIUS, WATTS, LIMIT, CLOCK, SM, THROTTLED, COLUMNS };

#define FIGURE_COLUMN(text, number) \
    { .title = text, .align = SONDE_RIGHT, .want = SONDE_VALUE_CELLS, .drop = number }
static const struct sonde_column columns[COLUMNS] = {
    [GPU] = { .title = "GPU", .want = 4 },
    [NAME] = { .title = "NAME", .min = 20, .max = 40, .drop = 1 },
    [BUSY] = FIGURE_COLUMN("BUSY", 0),
    [USED] = FIGURE_COLUMN("MEMORY", 0),
    [TOTAL] = FIGURE_COLUMN("OF", 3),
    [SHARE] = FIGURE_COLUMN("USED", 5),
    [CELSIUS] = { .title = "°C", .align = SONDE_RIGHT, .want = 4 },
    [WATTS] = { .title = "WATTS", .align = SONDE_RIGHT, .want = 6 },
    [LIMIT] = { .title = "LIMIT", .align = SONDE_RIGHT, .want = 6, .drop = 6 },
    [CLOCK] = { .title = "MHz", .align = SONDE_RIGHT, .want = 6, .drop = 4 },
    [SM] = FIGURE_COLUMN("SM", 7),
    [THROTTLED] = { .title = "THROTTLED", .min = 9, .drop = 2 },
};

enum { P_PID, P_PROGRAM, P_GPU, P_MEMORY, P_BUSY, P_COLUMNS };
static const struct sonde_column process_columns[P_COLUMNS] = {
    [P_PID] = { .title = "PID", .align = SONDE_RIGHT, .want = 7 },
    [P_PROGRAM] = { .title = "PROGRAM", .min = 8, .max = 40 },
    [P_GPU] = { .title = "GPU", .want = 4 },
    [P_MEMORY] = FIGURE_COLUMN("MEMORY", 0),
    [P_BUSY] = FIGURE_COLUMN("BUSY", 0),
};

static void top_page_gpu_number(struct sonde_table *t, size_t column, double v)
{
    if (!isnan(v)) sonde_table_cell(t, column, "%.0f", v);
}

static void top_page_gpu_value(struct sonde_table *t, size_t column, double v, enum sonde_unit unit,
                               int ascii)
{
    char text[SONDE_VALUE_BYTES];
    if (!isnan(v)) sonde_table_cell(t, column, "%s", sonde_value_format(text, v, unit, ascii));
}

/* "0", or "0.2" of an instance. */
static void top_page_gpu_index(struct sonde_table *t, size_t column, double gpu, double mig)
{
    if (isnan(gpu)) return;
    if (isnan(mig)) sonde_table_cell(t, column, "%.0f", gpu);
    else sonde_table_cell(t, column, "%.0f.%.0f", gpu, mig);
}

static const char *top_page_gpu_throttled(const struct sonde_top_gpu *g)
{
    if (strcmp(g->state, "ok") != 0) return g->state;
    if (g->thermal > 0) return "thermal";
    if (g->hardware > 0) return "hardware";
    return g->power > 0 ? "power" : "";
}

static void top_page_gpu_add(struct sonde_table *t, const struct sonde_top_gpu *g, int ascii)
{
    sonde_table_row(t);
    top_page_gpu_index(t, GPU, g->gpu, g->mig);
    sonde_table_cell(t, NAME, "%s", g->name);
    top_page_gpu_value(t, BUSY, g->utilization, SONDE_UNIT_RATIO, ascii);
    top_page_gpu_value(t, USED, g->used, SONDE_UNIT_BYTES, ascii);
    top_page_gpu_value(t, TOTAL, g->total, SONDE_UNIT_BYTES, ascii);
    if (g->total > 0) top_page_gpu_value(t, SHARE, g->used / g->total, SONDE_UNIT_RATIO, ascii);
    top_page_gpu_number(t, CELSIUS, g->celsius);
    top_page_gpu_number(t, WATTS, g->watts);
    top_page_gpu_number(t, LIMIT, g->watts_max);
    top_page_gpu_number(t, CLOCK, g->hertz / 1e6);
    top_page_gpu_value(t, SM, g->sm, SONDE_UNIT_RATIO, ascii);
    sonde_table_cell(t, THROTTLED, "%s", top_page_gpu_throttled(g));
}

static unsigned top_page_gpu_style(const void *arg, size_t row, size_t column)
{
    const struct sonde_top_gpu *g = (const struct sonde_top_gpu *)arg + row;
    if (strcmp(g->state, "ok") != 0) return column == THROTTLED ? SONDE_STYLE_RED : SONDE_STYLE_DIM;
    if (column == THROTTLED) return SONDE_STYLE_YELLOW;
    return column == SHARE && g->used / g->total >= 0.95 ? SONDE_STYLE_YELLOW : 0;
}

static int top_page_gpu_processes(struct sonde_top_state *s, const struct sonde_top_gpus *g,
                                  struct sonde_grid *grid, struct sonde_top_area area)
{
    struct sonde_table t;
    uint64_t ids[SONDE_TOP_GPU_PROCESSES_MAX];
    size_t n = 0;
    sonde_table_init(&t, process_columns, P_COLUMNS);
    for (size_t i = 0; i < g->process_count; i++) {
        const struct sonde_top_gpu_process *p = &g->processes[i];
        if (s->pid && p->pid != s->pid) continue;
        sonde_table_row(&t);
        sonde_table_cell(&t, P_PID, "%u", p->pid);
        sonde_table_cell(&t, P_PROGRAM, "%s", p->program);
        top_page_gpu_index(&t, P_GPU, p->gpu, p->mig);
        top_page_gpu_value(&t, P_MEMORY, p->memory, SONDE_UNIT_BYTES, grid->ascii);
        top_page_gpu_value(&t, P_BUSY, p->utilization, SONDE_UNIT_RATIO, grid->ascii);
        ids[n++] = sonde_top_row_id(p->program, "", p->pid);
    }
    const int rc = t.error;
    if (!rc && n && area.height > 1) {
        const struct sonde_top_list list = { .table = &t, .ids = ids, .sorted = -1 };
        sonde_top_draw_list(NULL, &list, grid, area);
    }
    sonde_table_release(&t);
    return rc;
}

int sonde_top_page_gpu(struct sonde_top_state *s, const struct sonde_top_data *d,
                       struct sonde_grid *grid, struct sonde_top_area area)
{
    static const char *const none[] = {
        "No GPU found.", "What was looked for, and why not:  sonde doctor", NULL };
    static const char *const off[] = { "GPUs are not read: gpu.enabled is false.", NULL };
    const struct sonde_top_gpus *g = &d->gpus;
    uint64_t ids[SONDE_TOP_GPUS_MAX];
    struct sonde_table t;
    if (!g->device_count) {
        const char *const broken[] = { g->broken, "See  sonde doctor", NULL };
        sonde_top_message(grid, area, g->broken && *g->broken ? broken : g->enabled ? none : off);
        return 0;
    }
    sonde_table_init(&t, columns, COLUMNS);
    for (size_t i = 0; i < g->device_count; i++) {
        top_page_gpu_add(&t, &g->devices[i], grid->ascii);
        ids[i] = sonde_top_row_id("gpu", "", i);
    }
    int rc = t.error;
    if (!rc) {
        struct sonde_top_area below = area;
        if (g->process_count && area.height > 8) area.height = area.height * 2 / 3;
        const struct sonde_top_list list = { .table = &t, .ids = ids, .sorted = -1,
                                             .cursor = sonde_top_cursor(s),
                                             .style = top_page_gpu_style, .arg = g->devices };
        const int used = sonde_top_draw_list(s, &list, grid, area) + 1;
        below.y += used;
        below.height -= used;
        rc = top_page_gpu_processes(s, g, grid, below);
    }
    sonde_table_release(&t);
    return rc;
}
