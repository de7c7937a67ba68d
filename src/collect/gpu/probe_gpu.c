/* probe_gpu.c - what the monitor of GPUs (gpu.h) has, as series of the model.
 *
 * A card is told by a number that stays while the agent lives; its names are labels of one series,
 * sonde_gpu_info. Instances of a partitioned card are families of their own (sonde_gpu_mig_…), so
 * that a sum over a family never counts anything twice. Of processes those are shown that the
 * model has; all of them are in GET /api/gpu. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "collect/gpu/gpu.h"
#include "collect/proc/probe.h"
#include "collect/proc/probe_series.h"

struct probe_gpu_device {
    char key[32];
    struct sonde_model_series *series[SONDE_GPU_FIGURES];
    struct sonde_model_series *info;
    struct sonde_model_series *xid[SONDE_GPU_XIDS];
};

struct probe_gpu_process {
    uint64_t serial;                    /* of the model's process */
    char key[32];
    uint32_t instance, seen;
    struct sonde_model_series *memory, *utilization;
};

struct probe_gpu {
    struct probe_gpu_device *device;    /* owned */
    size_t count, cap;
    struct probe_gpu_process *process;  /* owned */
    size_t process_count, process_cap;
    uint32_t tick;
};

static const struct sonde_model_family_spec spec_info = {
    .name = "sonde_gpu_info", .help = "A GPU: which it is, and who reads it. Always 1.",
    .source = "gpu", .type = SONDE_GAUGE, .kind = SONDE_KIND_CUSTOM, .scale = 1 };
static const struct sonde_model_family_spec spec_mig_info = {
    .name = "sonde_gpu_mig_info", .help = "An instance of a partitioned GPU. Always 1.",
    .source = "gpu", .type = SONDE_GAUGE, .kind = SONDE_KIND_CUSTOM, .scale = 1 };
static const struct sonde_model_family_spec spec_xid = {
    .name = "sonde_gpu_xid_errors_total",
    .help = "Errors that NVIDIA's driver reported (XID), by number, since sonde reads the GPU.",
    .source = "gpu", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER, .scale = 1 };
static const struct sonde_model_family_spec spec_process_memory = {
    .name = "sonde_gpu_process_memory_bytes", .help = "Memory of a GPU that the process uses.",
    .unit = "bytes", .source = "gpu", .type = SONDE_GAUGE, .kind = SONDE_KIND_MEMORY, .scale = 1 };
static const struct sonde_model_family_spec spec_process_utilization = {
    .name = "sonde_gpu_process_utilization_ratio",
    .help = "Share of time in which the GPU did something for the process.",
    .unit = "ratio", .source = "gpu", .type = SONDE_GAUGE, .kind = SONDE_KIND_RATIO, .scale = 1 };

/* ---- Devices --------------------------------------------------------------------------------- */

static struct probe_gpu_device *probe_gpu_device_of(struct probe_gpu *p, const char *key)
{
    for (size_t i = 0; i < p->count; i++) {
        if (!strcmp(p->device[i].key, key)) return &p->device[i];
    }
    struct probe_gpu_device *d = SONDE_ARRAY_ADD(p->device, p->count, p->cap);
    if (!d) return NULL;
    memset(d, 0, sizeof(*d));
    snprintf(d->key, sizeof(d->key), "%s", key);
    return d;
}

static void probe_gpu_put_figure(struct sonde_model *m, const struct sonde_gpu_row *row, size_t f,
                                 const struct sonde_label *own, size_t own_count,
                                 struct sonde_model_series **s)
{
    const struct sonde_gpu_figure_row *figure = &sonde_gpu_figures[f];
    const struct sonde_gpu_value *v = &row->device.figure[f];
    char name[96];
    if (!row->there || v->state != SONDE_GPU_OK) {
        sonde_probe_drop(m, s);
        return;
    }
    snprintf(name, sizeof(name), "sonde_gpu_%s%s", row->device.parent[0] ? "mig_" : "",
             figure->family + strlen("sonde_gpu_"));
    const struct sonde_model_family_spec spec = {
        .name = name, .help = figure->help, .unit = figure->unit, .source = "gpu",
        .type = figure->type, .kind = figure->kind, .scale = figure->scale };
    struct sonde_label label[3];
    size_t n = own_count;
    memcpy(label, own, own_count * sizeof(*own));
    if (figure->label) label[n++] = (struct sonde_label){ figure->label, figure->value };
    if (figure->type == SONDE_COUNTER) sonde_probe_counter(m, &spec, NULL, label, n, s, v->n);
    else sonde_probe_gauge(m, &spec, NULL, label, n, s, v->v);
}

static void probe_gpu_put_xids(struct sonde_model *m, const struct sonde_gpu_row *row,
                               const struct sonde_label *gpu, struct probe_gpu_device *d)
{
    for (uint32_t i = 0; i < SONDE_GPU_XIDS; i++) {
        if (!row->there || i >= row->device.xid_count) {
            sonde_probe_drop(m, &d->xid[i]);
            continue;
        }
        char number[16];
        snprintf(number, sizeof(number), "%u", row->device.xid[i].xid);
        const struct sonde_label label[] = { *gpu, { "xid", number } };
        const int fresh = !d->xid[i];
        sonde_probe_counter(m, &spec_xid, NULL, label, 2, &d->xid[i], row->device.xid[i].count);
        if (fresh && d->xid[i]) d->xid[i]->from_zero = 1;
    }
}

static void probe_gpu_put(struct probe_gpu *p, struct sonde_model *m,
                          const struct sonde_gpu_row *row)
{
    struct probe_gpu_device *d = probe_gpu_device_of(p, row->device.key);
    char index[16], instance[16];
    if (!d) return;
    snprintf(index, sizeof(index), "%u", row->index);
    snprintf(instance, sizeof(instance), "%u", row->device.instance);
    const struct sonde_label own[] = { { "gpu", index }, { "mig", instance } };
    const int mig = row->device.parent[0] != '\0';
    for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
        probe_gpu_put_figure(m, row, f, own, mig ? 2 : 1, &d->series[f]);
    }
    probe_gpu_put_xids(m, row, own, d);
    if (!row->there) {
        sonde_probe_drop(m, &d->info);
        return;
    }
    if (d->info) return; /* names do not change */
    const struct sonde_label card[] = {
        own[0], { "name", row->device.name }, { "uuid", row->device.uuid },
        { "pci", row->device.key }, { "driver", row->device.driver },
        { "driver_version", row->device.version } };
    const struct sonde_label part[] = { own[0], own[1], { "name", row->device.name },
                                        { "uuid", row->device.uuid } };
    if (mig) sonde_probe_gauge(m, &spec_mig_info, NULL, part, SONDE_COUNT(part), &d->info, 1);
    else sonde_probe_gauge(m, &spec_info, NULL, card, SONDE_COUNT(card), &d->info, 1);
}

/* ---- Processes ------------------------------------------------------------------------------- */

static struct sonde_model_process *probe_gpu_model_process(const struct sonde_model *m,
                                                           uint32_t pid)
{
    for (size_t i = 0; i < m->process_count; i++) {
        struct sonde_model_process *p = m->processes[i];
        if (p->pid == pid && p->state == SONDE_PROCESS_RUNNING && !p->elsewhere) return p;
    }
    return NULL;
}

static struct probe_gpu_process *probe_gpu_process_of(struct probe_gpu *p, uint64_t serial,
                                                      const struct sonde_gpu_process *from)
{
    for (size_t i = 0; i < p->process_count; i++) {
        struct probe_gpu_process *q = &p->process[i];
        if (q->serial == serial && q->instance == from->instance && !strcmp(q->key, from->key)) {
            return q;
        }
    }
    struct probe_gpu_process *q = SONDE_ARRAY_ADD(p->process, p->process_count, p->process_cap);
    if (!q) return NULL;
    memset(q, 0, sizeof(*q));
    q->serial = serial;
    q->instance = from->instance;
    memcpy(q->key, from->key, sizeof(q->key));
    return q;
}

static void probe_gpu_put_process(struct probe_gpu *p, const struct sonde_probe_env *env,
                                  const struct sonde_gpu_process *from)
{
    const struct sonde_gpu_row *row;
    const size_t rows = sonde_gpu_rows(env->gpu, &row);
    struct sonde_model_process *process = probe_gpu_model_process(env->model, from->pid);
    char index[16] = "", instance[16];
    for (size_t i = 0; i < rows; i++) {
        if (strcmp(row[i].device.key, from->key) != 0) continue;
        snprintf(index, sizeof(index), "%u", row[i].index);
    }
    if (!process || !index[0]) return;
    struct probe_gpu_process *q = probe_gpu_process_of(p, process->serial, from);
    if (!q) return;
    q->seen = p->tick;
    snprintf(instance, sizeof(instance), "%u", from->instance);
    const struct sonde_label label[] = { { "gpu", index }, { "mig", instance } };
    const size_t n = from->instance == UINT32_MAX ? 1 : 2;
    if (isnan(from->memory_bytes)) {
        sonde_probe_drop(env->model, &q->memory);
    } else {
        sonde_probe_gauge(env->model, &spec_process_memory, process, label, n, &q->memory,
                          from->memory_bytes);
    }
    /* NVML has no new sample of a process that did nothing. */
    sonde_probe_gauge(env->model, &spec_process_utilization, process, label, n, &q->utilization,
                      isnan(from->utilization) ? 0 : from->utilization);
}

static int probe_gpu_known(const struct sonde_model *m, uint64_t serial)
{
    for (size_t i = 0; i < m->process_count; i++) {
        if (m->processes[i]->serial == serial) return 1;
    }
    return 0;
}

static void probe_gpu_sweep(struct probe_gpu *p, struct sonde_model *m)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->process_count; i++) {
        struct probe_gpu_process *q = &p->process[i];
        if (q->seen == p->tick) {
            p->process[kept++] = *q;
        } else if (probe_gpu_known(m, q->serial)) { /* else they went with it */
            sonde_probe_drop(m, &q->memory);
            sonde_probe_drop(m, &q->utilization);
        }
    }
    p->process_count = kept;
}

/* ---- The probe ------------------------------------------------------------------------------- */

static void probe_gpu_read(void *state, const struct sonde_probe_env *env)
{
    struct probe_gpu *p = state;
    const struct sonde_gpu_row *row;
    const struct sonde_gpu_process *process;
    if (!env->gpu) return;
    sonde_gpu_tick(env->gpu);
    p->tick++;
    const size_t rows = sonde_gpu_rows(env->gpu, &row);
    for (size_t i = 0; i < rows; i++) probe_gpu_put(p, env->model, &row[i]);
    const size_t processes = sonde_gpu_processes(env->gpu, &process);
    for (size_t i = 0; i < processes; i++) probe_gpu_put_process(p, env, &process[i]);
    if (p->process_count) probe_gpu_sweep(p, env->model);
}

static int probe_gpu_open(const struct sonde_probe_env *env, void **state, struct sonde_err *err)
{
    (void)env;
    struct probe_gpu *p = sonde__calloc(1, sizeof(*p));
    if (!p) return sonde_err_set(err, SONDE_ENOMEM, "gpu: out of memory");
    *state = p;
    return 0;
}

static int probe_gpu_check(const struct sonde_probe_env *env, struct sonde_err *note)
{
    (void)env;
    return sonde_err_set(note, 0, "see gpu below");
}

static void probe_gpu_close(void *state)
{
    struct probe_gpu *p = state;
    if (!p) return;
    sonde__free(p->device);
    sonde__free(p->process);
    sonde__free(p);
}

extern const struct sonde_probe_ops sonde_probe_gpu;
const struct sonde_probe_ops sonde_probe_gpu = {
    .name = "gpu",
    .summary = "GPUs: utilization, memory, power, clocks, errors, and what processes use of them",
    .open = probe_gpu_open,
    .read = probe_gpu_read,
    .check = probe_gpu_check,
    .close = probe_gpu_close,
};
