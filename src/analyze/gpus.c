#include "analyze/gpus.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

const struct sonde_system_name sonde_gpus_names[SONDE_GPUS_FIGURE_COUNT] = {
#define SONDE__X(id, key, title, unit, family, label) { key, title, unit },
    SONDE_GPUS_FIGURES(SONDE__X)
#undef SONDE__X
};

static const struct { const char *family, *label; } gpus_sources[SONDE_GPUS_FIGURE_COUNT] = {
#define SONDE__X(id, key, title, unit, family, label) { family, label },
    SONDE_GPUS_FIGURES(SONDE__X)
#undef SONDE__X
};

struct gpus_range { const struct sonde_tracks *t; uint32_t first, end; };

/* 1 and which GPU a series is of; those of instances are of none. */
static int gpus_number(const char *labels, uint32_t *out)
{
    if (strncmp(labels, "gpu=\"", 5) != 0) return 0;
    char *end;
    const unsigned long n = strtoul(labels + 5, &end, 10);
    if (end == labels + 5 || *end != '"' || n > 100000) return 0;
    *out = (uint32_t)n;
    return 1;
}

static struct sonde_gpus_one *gpus_one(struct sonde_gpus *g, uint32_t number)
{
    for (uint32_t i = 0; i < g->count; i++) {
        if (g->gpus[i].gpu == number) return &g->gpus[i];
    }
    if (g->count == SONDE_GPUS_MAX) return NULL;
    struct sonde_gpus_one *one = &g->gpus[g->count++];
    memset(one, 0, sizeof(*one));
    one->gpu = number;
    one->memory_bytes = one->joules = NAN;
    for (size_t f = 0; f < SONDE_GPUS_FIGURE_COUNT; f++) {
        one->figures[f] = (struct sonde_system_figure){ NAN, NAN, NAN, 0 };
    }
    return one;
}

static struct sonde_system_figure gpus_figure(const struct gpus_range *r,
                                              const struct sonde_track *track)
{
    struct sonde_system_figure f = { NAN, NAN, NAN, 0 };
    double sum = 0, seconds = 0;
    for (uint32_t k = r->first; k < r->end; k++) {
        const double v = track->values[k];
        if (!isfinite(v)) continue;
        f.min = fmin(f.min, v);
        f.max = fmax(f.max, v);
        f.points++;
        sum += v * r->t->ticks[k].length_s;
        seconds += r->t->ticks[k].length_s;
    }
    if (seconds > 0) f.mean = sum / seconds;
    return f;
}

/* The value of a label, as exporters write it, with its escapes left as they are. */
static void gpus_label(const char *labels, const char *name, char *out, size_t size)
{
    char start[32];
    snprintf(start, sizeof(start), ",%s=\"", name);
    const char *at = strstr(labels, start);
    size_t n = 0;
    out[0] = '\0';
    if (!at) return;
    for (at += strlen(start); *at && *at != '"' && n + 1 < size; at++) {
        if (*at == '\\' && at[1]) at++;
        out[n++] = *at;
    }
    out[n] = '\0';
}

static void gpus_add_host(struct sonde_gpus *g, const struct gpus_range *r,
                          const struct sonde_track *track, struct sonde_gpus_one *one)
{
    for (size_t f = 0; f < SONDE_GPUS_FIGURE_COUNT; f++) {
        if (strcmp(track->family, gpus_sources[f].family) != 0) continue;
        if (gpus_sources[f].label && !strstr(track->labels, gpus_sources[f].label)) continue;
        one->figures[f] = gpus_figure(r, track);
    }
    const struct sonde_system_figure all = gpus_figure(r, track);
    if (!strcmp(track->family, "sonde_gpu_memory_total_bytes")) one->memory_bytes = all.max;
    if (!strcmp(track->family, "sonde_gpu_info")) {
        gpus_label(track->labels, "name", one->name, sizeof(one->name));
        gpus_label(track->labels, "uuid", one->uuid, sizeof(one->uuid));
    }
    if (strcmp(track->family, "sonde_gpu_energy_joules_total") != 0) return;
    double joules = 0; /* a counter's track is an increase per second */
    for (uint32_t k = r->first; k < r->end; k++) {
        if (isfinite(track->values[k])) joules += track->values[k] * r->t->ticks[k].length_s;
    }
    if (all.points) one->joules = joules;
    (void)g;
}

static void gpus_add_process(struct sonde_gpus *g, const struct gpus_range *r,
                             const struct sonde_track *track, uint32_t number)
{
    struct sonde_gpus_process *p = NULL;
    for (uint32_t i = 0; i < g->process_count && !p; i++) {
        if (g->processes[i].gpu == number && g->processes[i].pid == track->pid) {
            p = &g->processes[i];
        }
    }
    if (!p) {
        if (g->process_count == SONDE_GPUS_PROCESSES_MAX) return;
        p = &g->processes[g->process_count++];
        *p = (struct sonde_gpus_process){ .gpu = number, .pid = track->pid,
                                          .program = track->program,
                                          .memory_max_bytes = NAN, .utilization = NAN };
    }
    const struct sonde_system_figure f = gpus_figure(r, track);
    /* Of instances of a card: the most of each, added up. */
    if (!strcmp(track->family, "sonde_gpu_process_memory_bytes")) {
        p->memory_max_bytes = isnan(p->memory_max_bytes) ? f.max : p->memory_max_bytes + f.max;
    } else if (!strcmp(track->family, "sonde_gpu_process_utilization_ratio")) {
        p->utilization = fmax(p->utilization, f.mean);
    }
}

static int gpus_order(const void *a, const void *b)
{
    const struct sonde_gpus_one *x = a, *y = b;
    return (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

int sonde_gpus_build(const struct sonde_tracks *t, double from_s, double to_s,
                     struct sonde_gpus **out)
{
    struct gpus_range r = { .t = t };
    int any = 0;
    *out = NULL;
    for (uint32_t i = 0; t && i < t->count && !any; i++) {
        any = !strncmp(t->rows[i].family, "sonde_gpu_", 10);
    }
    if (!any) return 0;
    r.end = t->tick_count;
    while (from_s > 0 && r.first < r.end && t->ticks[r.first].end_s <= from_s) r.first++;
    while (to_s > 0 && r.end > r.first &&
           t->ticks[r.end - 1].end_s - t->ticks[r.end - 1].length_s >= to_s) {
        r.end--;
    }
    struct sonde_gpus *g = sonde__calloc(1, sizeof(*g));
    if (!g) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct sonde_track *track = &t->rows[i];
        uint32_t number;
        if (strncmp(track->family, "sonde_gpu_", 10) != 0 ||
            !strncmp(track->family, "sonde_gpu_mig_", 14) || !gpus_number(track->labels, &number)) {
            continue;
        }
        if (track->pid) {
            gpus_add_process(g, &r, track, number);
            continue;
        }
        struct sonde_gpus_one *one = gpus_one(g, number);
        if (one) gpus_add_host(g, &r, track, one);
    }
    if (!g->count) {
        sonde__free(g);
        return 0;
    }
    qsort(g->gpus, g->count, sizeof(g->gpus[0]), gpus_order);
    *out = g;
    return 0;
}

void sonde_gpus_destroy(struct sonde_gpus *g) { sonde__free(g); }
