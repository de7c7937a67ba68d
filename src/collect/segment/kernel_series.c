/* kernel_series.c - commands of GPUs as series, for every agent that reads the segment: how many
 * there were and how long they took by class, kernel and device, bytes moved, how long queues stood
 * still between commands, and how long the program waited. Each process has KERNELS_MAX kernels of
 * its own at most, the rest is one; what is missing is counted by reason. */
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/utf8.h"
#include "collect/segment/kernel_records.h"
#include "collect/segment/private.h"
#include "profile/gpu.h"
#include "sonde/sonde.h"

#define KERNELS_MAX 128u

struct gpu_series_kernel {
    uint64_t key;                 /* operation, queue's device, name */
    struct sonde_model_series *seconds, *count, *bytes;
};

enum { GPU_CROWDED, GPU_FULL, GPU_UNPROFILED, GPU_LOST, GPU_MISSING };

struct segment_gpu {
    struct gpu_series_kernel kernel[KERNELS_MAX + 1]; /* the last: all others */
    uint32_t kernel_count;
    struct sonde_map by_key;
    uint64_t end_ns[SONDE__KERNEL_QUEUES];            /* of the last command of a queue */
    struct sonde_model_series *wait[SONDE__KERNEL_WAIT_COUNT], *waits[SONDE__KERNEL_WAIT_COUNT];
    struct sonde_model_series *missing[GPU_MISSING], *own, *tracking;
    struct sonde_model_series *idle[SONDE__KERNEL_DEVICES + 1], *busy[SONDE__KERNEL_DEVICES + 1];
    char device[SONDE__KERNEL_DEVICES + 1][128];      /* names; 0 = of a queue that is not known */
};

struct gpu_series_work { struct segment_drain *d; struct segment_gpu *g; };

#define GPU_SERIES(n, t, u, s, h)                                                              \
    { .name = n, .type = t, .unit = u, .help = h, .source = "sonde", .kind = SONDE_KIND_TIME,  \
      .scale = s }

static const struct sonde_model_family_spec gpu_specs[] = {
    GPU_SERIES("sonde_gpu_kernel_seconds_total", SONDE_COUNTER, "seconds", 1e-9,
               "Time that commands ran on the device, by class of operation and kernel."),
    GPU_SERIES("sonde_gpu_commands_total", SONDE_COUNTER, NULL, 1,
               "Commands that have ended: kernels and transfers."),
    GPU_SERIES("sonde_gpu_transfer_bytes_total", SONDE_COUNTER, "bytes", 1,
               "Bytes that commands moved, by direction."),
    GPU_SERIES("sonde_gpu_wait_seconds_total", SONDE_COUNTER, "seconds", 1e-9,
               "Time that the program waited for commands to end."),
    GPU_SERIES("sonde_gpu_waits_total", SONDE_COUNTER, NULL, 1,
               "How often the program waited for commands to end."),
    GPU_SERIES("sonde_gpu_commands_missing_total", SONDE_COUNTER, NULL, 1,
               "Commands that were queued but are in no other figure, by reason."),
    GPU_SERIES("sonde_gpu_recording_seconds_total", SONDE_COUNTER, "seconds", 1e-9,
               "Time that recording commands took of the program's threads."),
    GPU_SERIES("sonde_gpu_tracking", SONDE_GAUGE, NULL, 1,
               "1 while commands of the program are recorded, 0 while that is switched off."),
    GPU_SERIES("sonde_gpu_queue_idle_seconds_total", SONDE_COUNTER, "seconds", 1e-9,
               "Time between one command of a queue and the next."),
    GPU_SERIES("sonde_gpu_queue_busy_seconds_total", SONDE_COUNTER, "seconds", 1e-9,
               "Time that queues had a command running."),
};
enum { SECONDS, COMMANDS, BYTES, WAIT, WAITS, MISSING, OWN, TRACKING, IDLE, BUSY };

static struct sonde_model_series *gpu_series(const struct gpu_series_work *w, int spec,
                                             const struct sonde_label *labels, size_t count)
{
    return sonde_model_own_series(w->d->m, &gpu_specs[spec], w->d->p, labels, count);
}

static void gpu_series_add(struct sonde_model_series *s, uint64_t n)
{
    if (s) s->counter += n;
}

/* ---- Devices and kernels ----------------------------------------------------------------- */

/* 0 … SONDE__KERNEL_DEVICES: of a queue. */
static uint32_t gpu_series_device(const struct gpu_series_work *w, uint32_t queue)
{
    struct sonde_segment *s = w->d->s;
    struct sonde_segment_kernels_info info;
    struct sonde__kernel_queue q = { 0 };
    struct sonde__kernel_device d;
    char name[SONDE_SEGMENT_KERNEL_TEXT];
    struct sonde_err err;
    if (sonde_segment_kernels(s, &info, &err) || !queue || queue >= info.queues) return 0;
    sonde_segment_kernel_queue(s, queue, &q);
    if (!q.device || q.device > info.devices || w->g->device[q.device][0]) {
        return q.device <= info.devices ? q.device : 0;
    }
    sonde_segment_kernel_device(s, q.device - 1, &d);
    if (sonde_segment_kernel_name(s, d.name, name, &err) != 0) return 0;
    int changed = 0;
    char *to = w->g->device[q.device];
    to[sonde__utf8_copy(to, sizeof(w->g->device[0]) - 1, name, strlen(name), &changed)] = '\0';
    return q.device;
}

static const char *gpu_series_op(uint32_t op)
{
    static const char *const names[] = {
#define SONDE__X(id, name, text) name,
        SONDE__KERNEL_OPS(SONDE__X)
#undef SONDE__X
    };
    return names[op];
}

static void gpu_series_define(const struct gpu_series_work *w, struct gpu_series_kernel *row,
                              const struct sonde_segment_kernel *k, uint32_t device, int others)
{
    char name[SONDE_SEGMENT_KERNEL_TEXT] = "(others)";
    struct sonde_err err;
    enum sonde_gpu_class class = SONDE_GPU_OTHER;
    if (!others && k->op != SONDE__KERNEL_OP_KERNEL) {
        memcpy(name, gpu_series_op(k->op), strlen(gpu_series_op(k->op)) + 1);
        if (k->op >= SONDE__KERNEL_OP_READ && k->op <= SONDE__KERNEL_OP_MIGRATE) {
            class = SONDE_GPU_COPY;
        }
    } else if (!others) {
        if (sonde_segment_kernel_name(w->d->s, k->name, name, &err) != 0) {
            memcpy(name, "(unnamed)", sizeof("(unnamed)"));
        }
        class = sonde_gpu_class_of(name);
    }
    const struct sonde_label labels[] = { { "device", w->g->device[device] },
                                          { "class", sonde_gpu_class_name(class) },
                                          { "kernel", name } };
    row->seconds = gpu_series(w, SECONDS, labels, 3);
    row->count = gpu_series(w, COMMANDS, labels, 3);
    if (others || !k->bytes) return;
    const struct sonde_label moved[] = { { "device", w->g->device[device] },
                                         { "operation", gpu_series_op(k->op) } };
    row->bytes = gpu_series(w, BYTES, moved, 2);
}

static struct gpu_series_kernel *gpu_series_kernel(const struct gpu_series_work *w,
                                                   const struct sonde_segment_kernel *k,
                                                   uint32_t device)
{
    struct segment_gpu *g = w->g;
    const uint64_t key = (uint64_t)k->op << 56 | (uint64_t)device << 40 | k->name;
    const uint32_t hash = (uint32_t)sonde_hash_u64(key);
    uint32_t at = hash, i;
    while ((i = sonde_map_next(&g->by_key, hash, &at))) {
        if (g->kernel[i - 1].key == key) return &g->kernel[i - 1];
    }
    struct gpu_series_kernel *row = &g->kernel[g->kernel_count];
    if (g->kernel_count == KERNELS_MAX || sonde_map_reserve(&g->by_key)) {
        row = &g->kernel[KERNELS_MAX];
        if (!row->count) gpu_series_define(w, row, k, device, 1);
        return row;
    }
    row->key = key;
    sonde_map_put(&g->by_key, hash, ++g->kernel_count);
    gpu_series_define(w, row, k, device, 0);
    return row;
}

/* ---- Records ----------------------------------------------------------------------------- */

static void gpu_series_queue(const struct gpu_series_work *w, const struct sonde_segment_kernel *k,
                             uint32_t device)
{
    const struct sonde_label label = { "device", w->g->device[device] };
    uint64_t *end_ns = &w->g->end_ns[k->queue];
    if (!w->g->busy[device]) {
        w->g->busy[device] = gpu_series(w, BUSY, &label, 1);
        w->g->idle[device] = gpu_series(w, IDLE, &label, 1);
    }
    const uint64_t from = k->start_ns > *end_ns ? k->start_ns : *end_ns;
    if (*end_ns && k->start_ns > *end_ns) {
        gpu_series_add(w->g->idle[device], k->start_ns - *end_ns);
    }
    if (k->end_ns > from) gpu_series_add(w->g->busy[device], k->end_ns - from);
    if (k->end_ns > *end_ns) *end_ns = k->end_ns;
}

static void gpu_series_on_kernel(void *arg, const struct sonde_segment_kernel *k)
{
    const struct gpu_series_work *w = arg;
    const uint32_t device = gpu_series_device(w, k->queue);
    const struct gpu_series_kernel *row = gpu_series_kernel(w, k, device);
    const int orders = k->op == SONDE__KERNEL_OP_MARKER || k->op == SONDE__KERNEL_OP_BARRIER;
    gpu_series_add(row->count, 1);
    gpu_series_add(row->bytes, k->bytes);
    if (orders || !k->start_ns) return;
    gpu_series_add(row->seconds, k->end_ns - k->start_ns);
    gpu_series_queue(w, k, device);
}

static void gpu_series_on_wait(void *arg, const struct sonde_segment_kernel_wait *wait)
{
    static const char *const names[] = {
#define SONDE__X(id, name, text) name,
        SONDE__KERNEL_WAITS(SONDE__X)
#undef SONDE__X
    };
    const struct gpu_series_work *w = arg;
    const struct sonde_label label = { "for", names[wait->kind] };
    if (!w->g->wait[wait->kind]) {
        w->g->wait[wait->kind] = gpu_series(w, WAIT, &label, 1);
        w->g->waits[wait->kind] = gpu_series(w, WAITS, &label, 1);
    }
    gpu_series_add(w->g->wait[wait->kind], wait->end_ns - wait->begin_ns);
    gpu_series_add(w->g->waits[wait->kind], 1);
}

static void gpu_series_on_map(void *arg, const struct sonde_mapping *map)
{
    (void)arg;
    (void)map;
}

/* ---- What the process counts itself ------------------------------------------------------ */

static void gpu_series_figures(const struct gpu_series_work *w,
                               const struct sonde_segment_kernels_info *info, uint64_t lost)
{
    static const char *const reasons[] = { "crowded", "no_room", "unprofiled_queue", "lost" };
    const uint64_t counts[] = { info->crowded, info->full, info->foreign, lost };
    struct segment_gpu *g = w->g;
    for (int i = 0; i < GPU_MISSING; i++) {
        const struct sonde_label label = { "reason", reasons[i] };
        if (!counts[i]) continue;
        if (!g->missing[i]) g->missing[i] = gpu_series(w, MISSING, &label, 1);
        if (g->missing[i]) g->missing[i]->counter = counts[i];
    }
    if (!g->own) {
        g->own = gpu_series(w, OWN, NULL, 0);
        g->tracking = gpu_series(w, TRACKING, NULL, 0);
    }
    if (g->own && info->own_ns > g->own->counter) g->own->counter = info->own_ns;
    if (g->tracking) g->tracking->gauge = info->state == SONDE__KERNEL_ON;
}

int segment_gpu_drain(struct segment_drain *d, int last, struct sonde_err *err)
{
    struct sonde_segment *s = d->s;
    struct sonde_segment_kernels_info info;
    uint64_t lost = 0;
    int rc = sonde_segment_kernels(s, &info, err);
    if (rc == SONDE_ENOENT) return 0;
    if (!rc && !s->gpu && !(s->gpu = sonde__calloc(1, sizeof(*s->gpu)))) rc = SONDE_ENOMEM;
    if (rc) return rc;
    struct gpu_series_work w = { d, s->gpu };
    const struct sonde_segment_kernel_sink sink = { gpu_series_on_kernel, gpu_series_on_wait,
                                                    gpu_series_on_map, &w };
    rc = sonde_segment_kernel_records(s, &sink, last, &lost, err);
    if (!rc) gpu_series_figures(&w, &info, lost);
    return rc;
}

void segment_gpu_free(struct sonde_segment *s)
{
    if (!s->gpu) return;
    sonde_map_release(&s->gpu->by_key);
    sonde__free(s->gpu);
    s->gpu = NULL;
}
