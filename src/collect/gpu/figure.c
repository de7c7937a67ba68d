/* figure.c - the schema as a table, and how back-ends fill rows of it: see gpu.h and backend.h. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/file.h"
#include "base/utf8.h"
#include "collect/gpu/backend.h"

enum { MEAN = 1, LAST = 0 };

const struct sonde_gpu_figure_row sonde_gpu_figures[SONDE_GPU_FIGURES] = {
#define SONDE_GPU_FIGURE(id, f, u, t, k, s, how, l, v, h)                                      \
    [SONDE_GPU_##id] = { .family = "sonde_gpu_" f, .unit = u, .help = h, .type = SONDE_##t,    \
                         .kind = SONDE_KIND_##k, .scale = s, .mean = how, .label = l, .value = v },
#include "collect/gpu/figure_list.h"
#undef SONDE_GPU_FIGURE
};

const char *sonde_gpu_why(const struct sonde_gpu_value *v, char *out, size_t out_size)
{
    static const char *const text[SONDE_GPU_STATE_COUNT] = {
#define SONDE__X(id, why) [SONDE_GPU_##id] = why,
        SONDE_GPU_STATES(SONDE__X)
#undef SONDE__X
    };
    const char *why = v->state < SONDE_GPU_STATE_COUNT ? text[v->state] : "not known";
    if (v->state == SONDE_GPU_FAILED && v->code) {
        snprintf(out, out_size, "%s (error %d)", why, v->code);
    } else {
        snprintf(out, out_size, "%s", why);
    }
    return out;
}

struct sonde_gpu_device *sonde_gpu_device_of(struct sonde_gpu_snapshot *s, const char *key)
{
    for (uint32_t i = 0; i < s->device_count; i++) {
        if (!strcmp(s->device[i].key, key)) return &s->device[i];
    }
    if (s->device_count == SONDE_GPU_DEVICES_MAX) return NULL;
    struct sonde_gpu_device *d = &s->device[s->device_count++];
    memset(d, 0, sizeof(*d));
    sonde_gpu_text(d->key, sizeof(d->key), key);
    return d;
}

struct sonde_gpu_process *sonde_gpu_process_of(struct sonde_gpu_snapshot *s, const char *key,
                                               uint32_t instance, uint32_t pid)
{
    for (uint32_t i = 0; i < s->process_count; i++) {
        struct sonde_gpu_process *p = &s->process[i];
        if (p->pid == pid && p->instance == instance && !strcmp(p->key, key)) return p;
    }
    if (s->process_count == SONDE_GPU_PROCESSES_MAX) return NULL;
    struct sonde_gpu_process *p = &s->process[s->process_count++];
    memset(p, 0, sizeof(*p));
    p->pid = pid;
    p->instance = instance;
    p->memory_bytes = p->utilization = NAN;
    sonde_gpu_text(p->key, sizeof(p->key), key);
    return p;
}

void sonde_gpu_process_name(struct sonde_gpu_process *p, const char *root)
{
    char path[300], name[64];
    if (p->name[0]) return;
    snprintf(path, sizeof(path), "%s/proc/%u/comm", root, p->pid);
    if (sonde_file_read_small(AT_FDCWD, path, name, sizeof(name)) > 0) {
        sonde_gpu_text(p->name, sizeof(p->name), name);
    }
}

void sonde_gpu_set(struct sonde_gpu_device *d, enum sonde_gpu_figure f, double v)
{
    const struct sonde_gpu_figure_row *row = &sonde_gpu_figures[f];
    struct sonde_gpu_value value = { .state = SONDE_GPU_OK, .v = v };
    /* A driver that says 4294967295 % means that it does not know. */
    if (!isfinite(v) || v < -273.15 || (row->kind == SONDE_KIND_RATIO && (v < 0 || v > 1.5))) {
        value = (struct sonde_gpu_value){ .state = SONDE_GPU_MALFORMED };
    } else if (row->kind == SONDE_KIND_RATIO && v > 1) {
        value.v = 1;
    }
    d->figure[f] = value;
}

void sonde_gpu_count(struct sonde_gpu_device *d, enum sonde_gpu_figure f, uint64_t n)
{
    d->figure[f] = (struct sonde_gpu_value){ .state = SONDE_GPU_OK, .n = n };
}

void sonde_gpu_absent(struct sonde_gpu_device *d, enum sonde_gpu_figure f,
                      enum sonde_gpu_state state, int code)
{
    d->figure[f] = (struct sonde_gpu_value){ .state = state, .code = code };
}

void sonde_gpu_text(char *out, size_t out_size, const char *text)
{
    int changed;
    const size_t n = sonde__utf8_copy(out, out_size - 1, text, strnlen(text, 4096), &changed);
    out[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)out[i] < 0x20 || out[i] == 0x7f) out[i] = ' ';
    }
    for (size_t i = n; i-- > 0 && out[i] == ' ';) out[i] = '\0';
}

int sonde_gpu_has(const struct sonde_gpu_env *env, const char *path)
{
    char full[512];
    const int n = snprintf(full, sizeof(full), "%s/%s", env->root, path);
    return n > 0 && (size_t)n < sizeof(full) && access(full, F_OK) == 0;
}
