#include "collect/cpu/perf_python_sample.h"

#include <string.h>

#include "base/alloc.h"

/* Program and sample are of one interrupt; a virtual machine may stand still within it. */
#define APART_NS 500000u

void sonde_perf_python_samples_release(struct sonde_perf_python_samples *s)
{
    for (uint32_t i = 0; i < s->count; i++) sonde__free(s->waiting[i].frames);
    sonde__free(s->waiting);
    *s = (struct sonde_perf_python_samples){ 0 };
}

static int perf_python_sample_room(struct sonde_perf_python_samples *s, uint32_t cpu, uint32_t cpus)
{
    if (!s->waiting) {
        s->waiting = sonde__calloc(cpus, sizeof(*s->waiting));
        s->count = s->waiting ? cpus : 0;
    }
    if (cpu >= s->count) return -1;
    struct sonde_perf_python_sample *w = &s->waiting[cpu];
    if (!w->frames) {
        w->frames = sonde__calloc(SONDE_PYTHON_BPF_FRAMES_MAX, sizeof(*w->frames));
    }
    return w->frames ? 0 : -1;
}

void sonde_perf_python_samples_put(struct sonde_perf_python_samples *s, uint32_t cpu, uint32_t cpus,
                                   const struct sonde_perf_record *rec)
{
    if (perf_python_sample_room(s, cpu, cpus)) return;
    struct sonde_perf_python_sample *w = &s->waiting[cpu];
    w->pid = rec->pid;
    w->tid = rec->tid;
    w->time_ns = rec->time_ns;
    w->count = (uint32_t)sonde_python_bpf_parse(rec->u.output.data, rec->u.output.size, w->frames,
                                                &w->flags);
}

const struct sonde_perf_python_sample *
sonde_perf_python_samples_take(struct sonde_perf_python_samples *s, uint32_t cpu,
                               const struct sonde_perf_record *rec)
{
    struct sonde_perf_python_sample *w = cpu < s->count ? &s->waiting[cpu] : NULL;
    if (!w || !w->tid) return NULL;
    const uint64_t apart = w->time_ns > rec->time_ns ? w->time_ns - rec->time_ns
                                                     : rec->time_ns - w->time_ns;
    const int fits = w->pid == rec->pid && w->tid == rec->tid && apart < APART_NS;
    w->tid = 0;
    return fits ? w : NULL;
}
