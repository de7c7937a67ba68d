/* system.c - see system.h. */
#include "analyze/system.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"

const struct sonde_system_name sonde_system_host_names[SONDE_HOST_FIGURES] = {
#define SONDE__X(id, key, title, unit) { key, title, unit },
    SONDE_SYSTEM_HOST(SONDE__X)
#undef SONDE__X
};
const struct sonde_system_name sonde_system_process_names[SONDE_PROCESS_FIGURES] = {
#define SONDE__X(id, key, title, unit) { key, title, unit },
    SONDE_SYSTEM_PROCESS(SONDE__X)
#undef SONDE__X
};

enum { TRACKS_OF_ONE = 128 }; /* disks, modes of a CPU … of a figure; more are left out */

/* Which tracks make a figure: those of the family, of which labels hold this text; added up, or the
 * largest. */
struct system_source {
    const char *family, *label;
    int largest;
};

/* of - less, by by: what is in use, as a share. */
struct system_row {
    struct system_source of, less, by;
};

static const struct system_row host_rows[SONDE_HOST_FIGURES] = {
    [SONDE_HOST_CPU] = { .of = { .family = "sonde_host_cpu_utilization_ratio" } },
    [SONDE_HOST_LOAD] = { .of = { .family = "sonde_host_load1" } },
    [SONDE_HOST_MEMORY] = { { .family = "sonde_host_memory_total_bytes" },
                            { .family = "sonde_host_memory_available_bytes" },
                            { .family = "sonde_host_memory_total_bytes" } },
    [SONDE_HOST_MEMORY_USED] = { .of = { .family = "sonde_host_memory_total_bytes" },
                                 .less = { .family = "sonde_host_memory_available_bytes" } },
    [SONDE_HOST_SWAP] = { .of = { .family = "sonde_host_memory_swap_total_bytes" },
                          .less = { .family = "sonde_host_memory_swap_free_bytes" } },
    [SONDE_HOST_DISK_READ] = { .of = { .family = "sonde_host_disk_read_bytes_total" } },
    [SONDE_HOST_DISK_WRITTEN] = { .of = { .family = "sonde_host_disk_written_bytes_total" } },
    [SONDE_HOST_DISK_BUSY] = { .of = { .family = "sonde_host_disk_io_time_seconds_total",
                                       .largest = 1 } },
    [SONDE_HOST_RECEIVED] = { .of = { .family = "system_network_bytes_received_total" } },
    [SONDE_HOST_SENT] = { .of = { .family = "system_network_bytes_sent_total" } },
};

static const struct system_row process_rows[SONDE_PROCESS_FIGURES] = {
    [SONDE_PROCESS_CPU] = { .of = { .family = "sonde_process_cpu_seconds_total" } },
    [SONDE_PROCESS_MEMORY] = { .of = { .family = "sonde_process_resident_memory_bytes",
                                       .largest = 1 } },
    [SONDE_PROCESS_DISK_READ] = { .of = { "sonde_process_storage_bytes_total", "\"read\"", 0 } },
    [SONDE_PROCESS_DISK_WRITTEN] = { .of = { "sonde_process_storage_bytes_total", "\"write\"",
                                             0 } },
    [SONDE_PROCESS_SWITCHES] = { .of = { .family = "sonde_process_context_switches_total" } },
    [SONDE_PROCESS_FAULTS] = { .of = { "sonde_process_page_faults_total", "\"major\"", 0 } },
    [SONDE_PROCESS_THREADS] = { .of = { .family = "sonde_process_threads", .largest = 1 } },
    [SONDE_PROCESS_FILES] = { .of = { .family = "sonde_process_open_fds", .largest = 1 } },
};

/* ---- Figures --------------------------------------------------------------------------------- */

struct system_range {
    const struct sonde_tracks *t;
    uint32_t first, end;         /* ticks */
    uint32_t pid;                /* 0 = the host */
};

struct system_found {
    const struct sonde_track *tracks[TRACKS_OF_ONE];
    size_t count;
    int largest;
};

static void system_find(const struct system_range *r, const struct system_source *source,
                        struct system_found *out)
{
    out->count = 0;
    out->largest = source->largest;
    for (uint32_t i = 0; source->family && i < r->t->count && out->count < TRACKS_OF_ONE; i++) {
        const struct sonde_track *t = &r->t->rows[i];
        if (t->pid != r->pid || strcmp(t->family, source->family) != 0) continue;
        if (source->label && !strstr(t->labels, source->label)) continue;
        out->tracks[out->count++] = t;
    }
}

static double system_at(const struct system_found *f, uint32_t tick)
{
    double v = NAN;
    for (size_t i = 0; i < f->count; i++) {
        const double one = f->tracks[i]->values[tick];
        if (isnan(one)) continue;
        v = isnan(v) ? one : f->largest ? fmax(v, one) : v + one;
    }
    return v;
}

static struct sonde_system_figure system_figure(const struct system_range *r,
                                                const struct system_row *row)
{
    struct sonde_system_figure f = { NAN, NAN, NAN, 0 };
    struct system_found of, less, by;
    double sum = 0, seconds = 0;
    system_find(r, &row->of, &of);
    system_find(r, &row->less, &less);
    system_find(r, &row->by, &by);
    for (uint32_t k = r->first; of.count && k < r->end; k++) {
        double v = system_at(&of, k);
        if (row->less.family) v -= system_at(&less, k);
        if (row->by.family) v /= system_at(&by, k);
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

static double system_last(const struct system_range *r, const char *family)
{
    struct system_found f;
    double last = NAN;
    system_find(r, &(struct system_source){ .family = family }, &f);
    for (uint32_t k = r->first; k < r->end; k++) {
        const double v = system_at(&f, k);
        if (!isnan(v)) last = v;
    }
    return last;
}

/* ---- Processes ------------------------------------------------------------------------------- */

/* A process is called by its file until it opens its segment, which may say another name: the later
 * one is what everything else calls it. */
static int system_process_add(struct sonde_system *s, const struct sonde_track *t)
{
    for (uint32_t i = 0; i < s->process_count; i++) {
        struct sonde_system_one *one = &s->processes[i];
        if (one->pid != t->pid) continue;
        one->program = t->program;
        return 0;
    }
    struct sonde_system_one *one = SONDE_ARRAY_ADD(s->processes, s->process_count, s->process_cap);
    if (!one) return SONDE_ENOMEM;
    *one = (struct sonde_system_one){ .program = t->program, .pid = t->pid };
    return 0;
}

static int system_by_cpu(const void *a, const void *b)
{
    const struct sonde_system_one *x = a, *y = b;
    const double cx = x->figures[SONDE_PROCESS_CPU].mean, cy = y->figures[SONDE_PROCESS_CPU].mean;
    const double kx = isnan(cx) ? -1 : cx, ky = isnan(cy) ? -1 : cy;
    return kx != ky ? SONDE_CMP(ky, kx) : SONDE_CMP(x->pid, y->pid);
}

static int system_processes(struct sonde_system *s, struct system_range r)
{
    static const char prefix[] = "sonde_process_";
    for (uint32_t i = 0; i < r.t->count; i++) {
        const struct sonde_track *t = &r.t->rows[i];
        if (!t->pid || strncmp(t->family, prefix, sizeof(prefix) - 1) != 0) continue;
        if (system_process_add(s, t)) return SONDE_ENOMEM;
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->process_count; i++) {
        struct sonde_system_one one = s->processes[i];
        uint32_t points = 0;
        r.pid = one.pid;
        for (int k = 0; k < SONDE_PROCESS_FIGURES; k++) {
            one.figures[k] = system_figure(&r, &process_rows[k]);
            points += one.figures[k].points;
        }
        if (points) s->processes[kept++] = one; /* others were not there in that time */
    }
    s->process_count = kept;
    if (kept) qsort(s->processes, kept, sizeof(*s->processes), system_by_cpu);
    return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void system_range_find(struct system_range *r, double from_s, double to_s)
{
    const struct sonde_tracks *t = r->t;
    while (r->first < t->tick_count && from_s > 0 && t->ticks[r->first].end_s <= from_s) r->first++;
    r->end = r->first;
    while (r->end < t->tick_count &&
           !(to_s > 0 && t->ticks[r->end].end_s - t->ticks[r->end].length_s >= to_s)) {
        r->end++;
    }
}

int sonde_system_build(const struct sonde_tracks *t, double from_s, double to_s,
                       struct sonde_system **out)
{
    struct system_range r = { .t = t };
    *out = NULL;
    if (!t || !t->tick_count) return 0;
    struct sonde_system *s = sonde__calloc(1, sizeof(*s));
    if (!s) return SONDE_ENOMEM;
    system_range_find(&r, from_s, to_s);
    uint32_t points = 0;
    for (int i = 0; i < SONDE_HOST_FIGURES; i++) {
        s->host[i] = system_figure(&r, &host_rows[i]);
        points += s->host[i].points;
    }
    s->cpus = system_last(&r, "sonde_host_cpus");
    s->memory_bytes = system_last(&r, "sonde_host_memory_total_bytes");
    for (uint32_t k = r.first; k < r.end; k++) s->seconds += t->ticks[k].length_s;
    const int rc = system_processes(s, r);
    if (!rc && (points || s->process_count)) *out = s;
    else sonde_system_destroy(s);
    return rc;
}

void sonde_system_destroy(struct sonde_system *s)
{
    if (!s) return;
    sonde__free(s->processes);
    sonde__free(s);
}
