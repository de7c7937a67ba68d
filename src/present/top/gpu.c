/* gpu.c - what `sonde top` shows of GPUs, from the answer of /api/gpu: see data.h. */
#include "present/top/json.h"

#include <string.h>

#include "sonde/sonde.h"

static double top_gpu_figure(const json_t *device, const char *name)
{
    return top_number(json_object_get(device, "figures"), name);
}

static void top_gpu_read_devices(const json_t *list, struct sonde_top_gpus *out)
{
    const size_t n = top_at_most(list, SONDE_TOP_GPUS_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        struct sonde_top_gpu *g = &out->devices[out->device_count++];
        *g = (struct sonde_top_gpu){
            .gpu = top_number(o, "gpu"), .mig = top_number(o, "mig"),
            .name = top_string(o, "name"), .state = top_string(o, "state"),
            .utilization = top_gpu_figure(o, "utilization_ratio"),
            .used = top_gpu_figure(o, "memory_used_bytes"),
            .total = top_gpu_figure(o, "memory_total_bytes"),
            .celsius = top_gpu_figure(o, "temperature_celsius.core"),
            .watts = top_gpu_figure(o, "power_watts"),
            .watts_max = top_gpu_figure(o, "power_limit_watts"),
            .hertz = top_gpu_figure(o, "clock_hertz.graphics"),
            .sm = top_gpu_figure(o, "sm_activity_ratio"),
            .power = top_gpu_figure(o, "throttled_ratio.power"),
            .thermal = top_gpu_figure(o, "throttled_ratio.thermal"),
            .hardware = top_gpu_figure(o, "throttled_ratio.hardware"),
        };
        if (isnan(g->utilization)) g->utilization = g->sm;
    }
}

static void top_gpu_read_processes(const json_t *list, struct sonde_top_gpus *out)
{
    const size_t n = top_at_most(list, SONDE_TOP_GPU_PROCESSES_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *o = json_array_get(list, i);
        out->processes[out->process_count++] = (struct sonde_top_gpu_process){
            .gpu = top_number(o, "gpu"), .mig = top_number(o, "mig"), .pid = top_id(o, "pid"),
            .program = top_string(o, "program"), .memory = top_number(o, "memory_bytes"),
            .utilization = top_number(o, "utilization_ratio"),
        };
    }
}

int sonde_top_read_gpu(struct sonde_top_data *d, const char *text, size_t len,
                       struct sonde_err *err)
{
    struct sonde_top_gpus *out = &d->gpus;
    json_t *array;
    const int rc = top_open(d, "GPUs", "devices", text, len, &array, err);
    if (rc) return rc;
    const json_t *root = d->json[d->json_count - 1], *sources = json_object_get(root, "sources");
    out->enabled = json_is_true(json_object_get(root, "enabled"));
    out->broken = "";
    out->device_count = out->process_count = 0;
    for (size_t i = 0; i < json_array_size(sources); i++) {
        const json_t *s = json_array_get(sources, i);
        if (!strcmp(top_string(s, "state"), "broken")) out->broken = top_string(s, "note");
    }
    top_gpu_read_devices(array, out);
    top_gpu_read_processes(json_object_get(root, "processes"), out);
    return 0;
}
