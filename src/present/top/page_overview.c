/* page_overview.c - the host in a line or two, and the processes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/own_cost.h"
#include "base/percent.h"
#include "base/alloc.h"
#include "present/sparkline.h"
#include "present/top/pages.h"
#include "present/units.h"
#include "sonde/sonde.h"

enum { PID, PROGRAM, STATE, CPU, RSS, THREADS, SERIES, SPANS, SEGMENT, DROPS, COLUMNS };

static const struct sonde_column columns[COLUMNS] = {
    [PID] = { .title = "PID", .align = SONDE_RIGHT, .want = 7 },
    [PROGRAM] = { .title = "PROGRAM", .min = 6, .want = 16 },
    [STATE] = { .title = "STATE", .want = 7, .drop = 5 },
    [CPU] = { .title = "CPU", .align = SONDE_RIGHT, .want = 7, .drop = 1 },
    [RSS] = { .title = "RSS", .align = SONDE_RIGHT, .want = 9, .drop = 2 },
    [THREADS] = { .title = "THREADS", .align = SONDE_RIGHT, .drop = 6 },
    [SERIES] = { .title = "SERIES", .align = SONDE_RIGHT, .drop = 7 },
    [SPANS] = { .title = "SPANS/s", .align = SONDE_RIGHT, .drop = 3 },
    [SEGMENT] = { .title = "SEGMENT", .align = SONDE_RIGHT, .want = 9, .drop = 8 },
    [DROPS] = { .title = "DROPS", .align = SONDE_RIGHT, .drop = 4 },
};

const char *const sonde_top_overview_sorts[] = { "cpu", "pid", "program", "rss", "spans/s", NULL };
static const int sort_columns[] = { CPU, PID, PROGRAM, RSS, SPANS };

/* ---- The host ------------------------------------------------------------------------------ */

static unsigned load_style(double ratio)
{
    return ratio >= 0.9 ? SONDE_STYLE_RED : ratio >= 0.7 ? SONDE_STYLE_YELLOW : 0;
}

static void host_cpu(const struct sonde_top_host *h, int ascii, struct sonde_top_part *out)
{
    char v[SONDE_VALUE_BYTES], spark[SONDE_SPARKLINE_BYTES(20)];
    sonde_sparkline(spark, sizeof(spark), h->cpu_history, h->cpu_history_count, 20,
                    SONDE_SPARK_PERCENT, ascii);
    const char *shown = spark;
    while (*shown == ' ') shown++;
    snprintf(out->text, sizeof(out->text), "CPU %6s %s",
             sonde_value_format(v, h->cpu_ratio, SONDE_UNIT_RATIO, ascii), shown);
    out->style = load_style(h->cpu_ratio);
}

static void draw_host(const struct sonde_top_host *h, struct sonde_grid *g, int y)
{
    struct sonde_top_part part[6] = { 0 };
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES], c[SONDE_VALUE_BYTES];
    const int ascii = g->ascii;

    if (!isnan(h->cpu_ratio)) host_cpu(h, ascii, &part[0]);
    if (h->memory_total > 0) {
        const double used = h->memory_total - h->memory_available;
        snprintf(part[1].text, sizeof(part[1].text), "memory %s of %s, %s",
                 sonde_value_format(a, used, SONDE_UNIT_BYTES, ascii),
                 sonde_value_format(b, h->memory_total, SONDE_UNIT_BYTES, ascii),
                 sonde_value_format(c, used / h->memory_total, SONDE_UNIT_RATIO, ascii));
        part[1].style = load_style(used / h->memory_total);
    }
    if (!isnan(h->load1)) {
        snprintf(part[2].text, sizeof(part[2].text), "load %.2f %.2f %.2f", h->load1, h->load5,
                 h->load15);
    }
    if (!isnan(h->net_in) || !isnan(h->net_out)) {
        snprintf(part[3].text, sizeof(part[3].text), "network ↓ %s/s ↑ %s/s",
                 sonde_value_format(a, h->net_in, SONDE_UNIT_BYTES, ascii),
                 sonde_value_format(b, h->net_out, SONDE_UNIT_BYTES, ascii));
    }
    if (!isnan(h->disk_ratio)) {
        snprintf(part[4].text, sizeof(part[4].text), "disk / %s",
                 sonde_value_format(a, h->disk_ratio, SONDE_UNIT_RATIO, ascii));
        part[4].style = load_style(h->disk_ratio);
    }
    if (!isnan(h->uptime_s)) {
        snprintf(part[5].text, sizeof(part[5].text), "up %s",
                 sonde_value_format(a, h->uptime_s, SONDE_UNIT_SECONDS, ascii));
    }
    sonde_top_parts(g, 0, y, part, 6);
}

/* What sonde itself costs them; 0 = it is not known, and nothing is drawn. */
static int draw_cost(const struct sonde_top_host *h, struct sonde_grid *g, int y)
{
    const struct sonde_own_cost_estimate e = { .ratio = h->cost_ratio, .low = h->cost_low,
                                               .high = h->cost_high };
    struct sonde_top_part part = { .style = SONDE_STYLE_DIM };
    char percent[64];
    if (isnan(h->cost_ratio)) return 0;
    if (isnan(h->cost_low) || isnan(h->cost_high)) {
        snprintf(part.text, sizeof(part.text), "sonde costs about %s (an estimate)",
                 sonde_percent_text(percent, h->cost_ratio));
    } else {
        sonde_own_cost_percent(&e, percent, sizeof(percent));
        snprintf(part.text, sizeof(part.text), "sonde costs %s", percent);
    }
    sonde_top_parts(g, 0, y, &part, 1);
    return 1;
}

/* The weightiest finding, and how many there are; 0 = there is none, and nothing is drawn. */
static int draw_finding(const struct sonde_top_findings *f, struct sonde_grid *g, int y)
{
    struct sonde_top_part part[2] = { { .text = "" } };
    if (!f->count) return 0;
    part[0].style = sonde_top_severity_style(f->rows[0].severity);
    snprintf(part[0].text, sizeof(part[0].text), "%.16s: %.120s", f->rows[0].severity,
             f->rows[0].title);
    part[1].style = SONDE_STYLE_DIM;
    snprintf(part[1].text, sizeof(part[1].text), f->count > 1 ? "%zu findings on page %d"
                                                               : "%zu finding on page %d",
             f->count, SONDE_TOP_FINDINGS + 1);
    sonde_top_parts(g, 0, y, part, 2);
    return 1;
}

/* ---- The processes ------------------------------------------------------------------------- */

struct top_page_overview_order { const struct sonde_top_process *p; unsigned sort; int reverse; };

static int top_page_overview_by_choice(const void *x, const void *y)
{
    const struct top_page_overview_order *ox = x, *oy = y;
    const struct sonde_top_process *a = ox->p, *b = oy->p;
    const int rev = ox->reverse;
    int order = 0;
    switch (sort_columns[ox->sort]) {
    case CPU: order = sonde_top_compare(a->cpu_ratio, b->cpu_ratio, rev); break;
    case RSS: order = sonde_top_compare(a->rss_bytes, b->rss_bytes, rev); break;
    case SPANS: order = sonde_top_compare(a->spans_per_s, b->spans_per_s, rev); break;
    case PROGRAM: order = rev ? strcmp(b->program, a->program)
                              : strcmp(a->program, b->program); break;
    default: order = sonde_top_compare(b->pid, a->pid, rev); break;
    }
    return order ? order : sonde_top_compare(b->pid, a->pid, 0);
}

static void top_page_overview_add_row(struct sonde_table *t, const struct sonde_top_process *p,
                                      int ascii)
{
    char v[SONDE_VALUE_BYTES];
    sonde_table_row(t);
    sonde_table_cell(t, PID, "%u", p->pid);
    sonde_table_cell(t, PROGRAM, "%s", p->program);
    sonde_table_cell(t, STATE, "%s", p->state);
#define FIGURE(column, value, unit) \
    sonde_table_cell(t, column, "%s", sonde_value_format(v, value, unit, ascii))
    FIGURE(CPU, p->cpu_ratio, SONDE_UNIT_RATIO);
    FIGURE(RSS, p->rss_bytes, SONDE_UNIT_BYTES);
    FIGURE(THREADS, p->threads, SONDE_UNIT_COUNT);
    FIGURE(SERIES, p->series, SONDE_UNIT_COUNT);
    FIGURE(SPANS, p->spans_per_s, SONDE_UNIT_COUNT);
    FIGURE(SEGMENT, p->segment_bytes, SONDE_UNIT_BYTES);
    FIGURE(DROPS, p->drops + (isnan(p->spans_lost) ? 0 : p->spans_lost), SONDE_UNIT_COUNT);
#undef FIGURE
}

static unsigned top_page_overview_cell_style(const void *arg, size_t row, size_t column)
{
    const struct top_page_overview_order *order = arg;
    const struct sonde_top_process *p = order[row].p;
    const int running = strcmp(p->state, "running") == 0;
    if (column == STATE) {
        return running ? SONDE_STYLE_GREEN
             : strcmp(p->state, "killed") == 0 ? SONDE_STYLE_RED : SONDE_STYLE_DIM;
    }
    if (column == DROPS && (p->drops > 0 || p->spans_lost > 0)) return SONDE_STYLE_YELLOW;
    return running ? 0 : SONDE_STYLE_DIM;
}

static void top_page_overview_draw_nothing(const struct sonde_top_state *s, struct sonde_grid *g,
                                           struct sonde_top_area area)
{
    char where[300];
    snprintf(where, sizeof(where), "Looked at %s.",
             s->origin ? s->origin : "the default directory");
    const char *const lines[] = {
        "No process is being recorded.",
        "Start one:  sonde run -- CMD",
        "or any program that uses libsonde.", where, NULL };
    sonde_top_message(g, area, lines);
}

int sonde_top_page_overview(struct sonde_top_state *s, const struct sonde_top_data *d,
                            struct sonde_grid *g, struct sonde_top_area area)
{
    if (area.height > 3) {
        draw_host(&d->host, g, area.y);
        int gap = area.height > 8 ? 2 : 1;
        if (gap > 1) {
            gap += draw_cost(&d->host, g, area.y + gap - 1);
            gap += draw_finding(&d->findings, g, area.y + gap - 1);
        }
        area.y += gap;
        area.height -= gap;
    }
    if (d->process_count == 0) {
        top_page_overview_draw_nothing(s, g, area);
        return 0;
    }

    struct top_page_overview_order *order = sonde__calloc(d->process_count, sizeof(*order));
    uint64_t *ids = sonde__calloc(d->process_count, sizeof(*ids));
    struct sonde_table t;
    sonde_table_init(&t, columns, COLUMNS);
    int rc = order && ids ? 0 : SONDE_ENOMEM;
    if (!rc) {
        for (size_t i = 0; i < d->process_count; i++) {
            order[i] = (struct top_page_overview_order){ .p = &d->processes[i],
                                                         .sort = s->sort[s->page],
                                                         .reverse = s->reverse[s->page] };
        }
        qsort(order, d->process_count, sizeof(*order), top_page_overview_by_choice);
        for (size_t i = 0; i < d->process_count; i++) {
            top_page_overview_add_row(&t, order[i].p, g->ascii);
            ids[i] = sonde_top_row_id(order[i].p->program, "", order[i].p->pid);
        }
        rc = t.error;
    }
    if (!rc) {
        const struct sonde_top_list list = { .table = &t,
                                             .ids = ids,
                                             .cursor = sonde_top_cursor(s),
                                             .style = top_page_overview_cell_style,
                                             .sorted = sort_columns[s->sort[s->page]],
                                             .arg = order };
        sonde_top_draw_list(s, &list, g, area);
        s->row_pid = order[list.cursor->index].p->pid;
    }
    sonde_table_release(&t);
    sonde__free(order);
    sonde__free(ids);
    return rc;
}
