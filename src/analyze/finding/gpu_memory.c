/* gpu_memory.c - a device whose memory is full, and operations that fell back to the CPU. */
#include <string.h>

#include "analyze/engine.h"
#include "analyze/finding/gpus.h"

#define WARNING_RATIO 0.95
#define MIB 1048576.0

static void gpu_memory_add(struct finding_look *l, const char *device, double used, double total,
                           uint64_t fallbacks, const char *reason)
{
    if (!(total > 0) || !(used / total >= WARNING_RATIO)) return;
    struct sonde_finding *f = finding_add(
        l, fallbacks ? SONDE_SEVERITY_CRITICAL : SONDE_SEVERITY_WARNING, used / total);
    finding_subject(l, f, device, "", 0);
    f->share = used / total;
    f->bytes = used;
    f->count = (double)fallbacks;
    finding_text(l, f, "%.60s has %.0f of %.0f MiB in use (%.0f %%); %llu operations fell back to "
                       "the CPU%s%.60s",
                 device, used / MIB, total / MIB, 100 * used / total,
                 (unsigned long long)fallbacks, *reason ? ", most for " : "", reason);
    finding_advise(l, f,
                   "free %.0f MiB at least: a smaller context or batch, KV cache in fewer bits, "
                   "fewer layers on the device (llama-server: --n-gpu-layers), or a more quantised "
                   "model",
                   (used - 0.9 * total) / MIB);
}

/* Of each GPU that processes of the profile use. */
static void gpu_memory_look_at_devices(struct finding_look *l)
{
    struct finding_gpu gpu[FINDING_GPUS_MAX];
    const size_t count = finding_gpus(l, gpu);
    for (size_t i = 0; i < count; i++) {
        char label[2][64];
        const struct finding_series used = finding_gpu_series(
            &gpu[i], "sonde_gpu_memory_used_bytes", NULL, label[0]);
        const struct finding_series total = finding_gpu_series(
            &gpu[i], "sonde_gpu_memory_total_bytes", NULL, label[1]);
        gpu_memory_add(l, gpu[i].subject, finding_series_max(l, &used),
                       finding_series_last(l, &total), 0, "");
    }
}

static void gpu_memory_look(struct finding_look *l)
{
    const struct sonde_final *run = l->p->final;
    struct sonde_engine *e = NULL;
    if (run) l->rc = sonde_engine_build(run->series, run->count, &e);
    for (uint32_t i = 0; e && i < e->device_count; i++) {
        const struct sonde_engine_device *d = &e->devices[i];
        if (!d->gpu) continue;
        gpu_memory_add(l, d->device, d->used_bytes, d->total_bytes, d->fallbacks,
                       d->reason_count ? d->reasons[0].reason : "");
    }
    sonde_engine_destroy(e);
    /* An engine that tells of its devices knows more: how often it had to do without. */
    const uint32_t before = (uint32_t)l->out->count;
    if (before == 0 || strcmp(l->out->rows[before - 1].kind, "gpu_memory") != 0) {
        gpu_memory_look_at_devices(l);
    }
}

extern const struct finding_rule finding_rule_gpu_memory;
const struct finding_rule finding_rule_gpu_memory = {
    .kind = "gpu_memory",
    .title = "GPU memory is full",
    .summary = "95 % of a device's memory or more are in use; critical if operations fell back to "
               "the CPU",
    .explains = "gpu_idle low_throughput",
    .look = gpu_memory_look,
};
