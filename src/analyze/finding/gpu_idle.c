/* gpu_idle.c - a device that stands idle while requests are being served: by its own figure of
 * utilisation where there is one, else by the time that the engine says its operations took. */
#include <math.h>

#include "analyze/engine.h"
#include "analyze/finding/gpus.h"

#define INFO_RATIO 0.5
#define WARNING_RATIO 0.3
#define SECONDS_MIN 1.0

static void gpu_idle_add(struct finding_look *l, const char *device, double busy, const char *how)
{
    if (!(busy < INFO_RATIO)) return;
    struct sonde_finding *f = finding_add(
        l, busy < WARNING_RATIO ? SONDE_SEVERITY_WARNING : SONDE_SEVERITY_INFO, 1 - busy);
    finding_subject(l, f, device, "", 0);
    f->share = busy;
    f->gain = 1 - busy;
    f->gain_of = "capacity of the device";
    finding_text(l, f, "%.60s is busy %.0f %% of the time (%s): it waits for the host", device,
                 100 * busy, how);
    if (l->cpu.count) {
        finding_advise(l, f,
                       "give it more at once (larger batches, more requests in parallel) and take "
                       "work off the host between passes: %.200s uses %.0f %% of the CPU time",
                       l->cpu.rows[0].name,
                       100 * (double)l->cpu.rows[0].self * 1e-9 / l->cpu.seconds);
        finding_prove_function(l, f, &l->cpu.rows[0], "CPU time");
    } else {
        finding_advise(l, f, "give it more at once: larger batches, more requests in parallel");
    }
}

/* Work was done at all: an idle service has an idle device, and nothing is wrong with that. */
static int gpu_idle_has_work(const struct finding_look *l)
{
    return l->seconds >= SECONDS_MIN && l->cpu.seconds > 0.3 * l->seconds;
}

/* Of each GPU that processes of the profile use. 0 = none is known to be. */
static int gpu_idle_look_at_devices(struct finding_look *l)
{
    struct finding_gpu gpu[FINDING_GPUS_MAX];
    const size_t count = finding_gpus(l, gpu);
    int known = 0;
    for (size_t i = 0; i < count; i++) {
        char label[64];
        const struct finding_series used = finding_gpu_series(
            &gpu[i], "sonde_gpu_utilization_ratio", NULL, label);
        const double ratio = finding_series_mean(l, &used, NULL);
        if (isnan(ratio)) continue;
        known = 1;
        gpu_idle_add(l, gpu[i].subject, ratio, "its own figure");
    }
    return known;
}

static void gpu_idle_look(struct finding_look *l)
{
    const struct sonde_final *run = l->p->final;
    struct sonde_engine *e = NULL;
    if (!gpu_idle_has_work(l) || gpu_idle_look_at_devices(l)) return;
    if (run) l->rc = sonde_engine_build(run->series, run->count, &e);
    for (uint32_t i = 0; e && i < e->device_count; i++) {
        const struct sonde_engine_device *d = &e->devices[i];
        if (!d->gpu || !d->operations) continue;
        gpu_idle_add(l, d->device, d->seconds / l->seconds,
                     "its operations, as the engine times them");
    }
    sonde_engine_destroy(e);
}

extern const struct finding_rule finding_rule_gpu_idle;
const struct finding_rule finding_rule_gpu_idle = {
    .kind = "gpu_idle",
    .title = "GPU stands idle",
    .summary = "a device is busy less than half of the time while the host works; a warning below "
               "30 %",
    .explains = "cpu_hot_spot",
    .look = gpu_idle_look,
};
