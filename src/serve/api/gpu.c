/* gpu.c - GPUs as JSON: see api.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "collect/gpu/gpu.h"
#include "model/model.h"
#include "serve/api/api.h"

#define FAMILY_PREFIX (sizeof("sonde_gpu_") - 1)

/* "temperature_celsius" or "temperature_celsius.core". */
static void api_gpu_figure_name(size_t f, char *out, size_t size)
{
    const struct sonde_gpu_figure_row *row = &sonde_gpu_figures[f];
    snprintf(out, size, "%s%s%s", row->family + FAMILY_PREFIX, row->value ? "." : "",
             row->value ? row->value : "");
}

static void api_gpu_put_figures(const struct sonde_gpu_device *d, struct sonde_buf *out)
{
    char name[96], why[96];
    sonde_json_key_open(out, "figures", '{');
    for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
        const struct sonde_gpu_value *v = &d->figure[f];
        if (v->state != SONDE_GPU_OK) continue;
        api_gpu_figure_name(f, name, sizeof(name));
        const int counter = sonde_gpu_figures[f].type == SONDE_COUNTER;
        sonde_json_num(out, name, counter ? (double)v->n * sonde_gpu_figures[f].scale : v->v);
    }
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "absent", '{');
    for (size_t f = 0; f < SONDE_GPU_FIGURES; f++) {
        const struct sonde_gpu_value *v = &d->figure[f];
        if (v->state == SONDE_GPU_OK || v->state == SONDE_GPU_NONE) continue;
        api_gpu_figure_name(f, name, sizeof(name));
        sonde_json_str(out, name, sonde_gpu_why(v, why, sizeof(why)));
    }
    sonde_json_close(out, '}');
}

static void api_gpu_put_device(const struct sonde_gpu_row *r, struct sonde_buf *out)
{
    const struct sonde_gpu_device *d = &r->device;
    sonde_json_open(out, '{');
    sonde_json_u64(out, "gpu", r->index);
    if (d->parent[0]) sonde_json_u64(out, "mig", d->instance);
    else sonde_json_str(out, "mig", NULL);
    sonde_json_str(out, "name", d->name);
    sonde_json_str(out, "uuid", d->uuid[0] ? d->uuid : NULL);
    sonde_json_str(out, "pci", d->parent[0] ? d->parent : d->key);
    sonde_json_str(out, "driver", d->driver[0] ? d->driver : NULL);
    sonde_json_str(out, "driver_version", d->version[0] ? d->version : NULL);
    sonde_json_str(out, "by", r->by);
    sonde_json_str(out, "state", !r->there ? "gone" : d->lost ? "lost" : "ok");
    sonde_json_bool(out, "partitioned", d->partitioned != 0);
    api_gpu_put_figures(d, out);
    sonde_json_key_open(out, "xid_errors", '{');
    for (uint32_t i = 0; i < d->xid_count; i++) {
        char number[16];
        snprintf(number, sizeof(number), "%u", d->xid[i].xid);
        sonde_json_u64(out, number, d->xid[i].count);
    }
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

static void api_gpu_put_sources(const struct sonde_gpu *g, struct sonde_buf *out)
{
    static const char *const states[] = {
        [SONDE_GPU_ABSENT] = "absent", [SONDE_GPU_STARTING] = "starting",
        [SONDE_GPU_READING] = "reading", [SONDE_GPU_BROKEN] = "broken",
        [SONDE_GPU_NOT_NEEDED] = "not_needed" };
    struct sonde_gpu_source s;
    sonde_json_key_open(out, "sources", '[');
    for (size_t i = 0; g && sonde_gpu_source(g, i, &s); i++) {
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", s.name);
        sonde_json_str(out, "summary", s.summary);
        sonde_json_str(out, "looked_for", s.looked_for);
        sonde_json_str(out, "state", states[s.state]);
        sonde_json_str(out, "note", s.note[0] ? s.note : NULL);
        sonde_json_num(out, "read_seconds", s.state == SONDE_GPU_READING ? s.read_s : NAN);
        sonde_json_u64(out, "restarts", s.restarts);
        sonde_json_u64(out, "hangs", s.hangs);
        sonde_json_u64(out, "crashes", s.crashes);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void api_gpu_put_processes(const struct sonde_gpu *g, const struct sonde_model *m,
                                  struct sonde_buf *out)
{
    const struct sonde_gpu_row *row = NULL;
    const struct sonde_gpu_process *p = NULL;
    const size_t rows = g ? sonde_gpu_rows(g, &row) : 0, count = g ? sonde_gpu_processes(g, &p) : 0;
    sonde_json_key_open(out, "processes", '[');
    for (size_t i = 0; i < count; i++) {
        const char *program = p[i].name[0] ? p[i].name : NULL;
        int watched = 0;
        size_t k = 0;
        while (k < rows && strcmp(row[k].device.key, p[i].key) != 0) k++;
        for (size_t q = 0; q < m->process_count; q++) {
            const struct sonde_model_process *known = m->processes[q];
            if (known->pid != p[i].pid || known->state != SONDE_PROCESS_RUNNING) continue;
            program = known->program;
            watched = 1;
        }
        sonde_json_open(out, '{');
        if (k < rows) sonde_json_u64(out, "gpu", row[k].index);
        else sonde_json_str(out, "gpu", NULL);
        if (p[i].instance != UINT32_MAX) sonde_json_u64(out, "mig", p[i].instance);
        else sonde_json_str(out, "mig", NULL);
        sonde_json_u64(out, "pid", p[i].pid);
        sonde_json_str(out, "program", program);
        sonde_json_bool(out, "watched", watched);
        sonde_json_num(out, "memory_bytes", p[i].memory_bytes);
        sonde_json_num(out, "utilization_ratio", p[i].utilization);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

void sonde_api_gpu(const struct sonde_gpu *g, const struct sonde_model *m, struct sonde_buf *out)
{
    sonde_assert_held(&m->lock);
    const struct sonde_gpu_row *row = NULL;
    const size_t rows = g ? sonde_gpu_rows(g, &row) : 0;
    sonde_json_open(out, '{');
    sonde_json_time(out, "time", m->now_s);
    sonde_json_bool(out, "enabled", g != NULL);
    api_gpu_put_sources(g, out);
    sonde_json_key_open(out, "devices", '[');
    for (size_t i = 0; i < rows; i++) api_gpu_put_device(&row[i], out);
    sonde_json_close(out, ']');
    api_gpu_put_processes(g, m, out);
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
}
