#include "collect/cpu/perf_python_stack.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "segment/python.h"

enum { FRAMES_MAX = SONDE_PYTHON_BPF_FRAMES_MAX + 1 };

struct sonde_perf_python_mix {
    struct sonde_perf_python_frame frames[FRAMES_MAX];
    uint64_t ips[SONDE_CPU_FRAMES_MAX + FRAMES_MAX];
};

struct sonde_perf_python_mix *sonde_perf_python_mix_create(void)
{
    return sonde__alloc(sizeof(struct sonde_perf_python_mix));
}

void sonde_perf_python_mix_destroy(struct sonde_perf_python_mix *m) { sonde__free(m); }

static uint32_t perf_python_fit(size_t count)
{
    return count < SONDE_PERF_NATIVE_MAX ? (uint32_t)count : SONDE_PERF_NATIVE_MAX;
}

void sonde_perf_python_keep(struct sonde_perf_thread *t, uint64_t sp, const uint64_t *ips,
                            const uint64_t *cfas, size_t count, const uint64_t *kernel,
                            size_t kernel_count)
{
    /* What is deeper is not put together again: the native stack stands. */
    if (!sonde_perf_python_of(t->process) || count > SONDE_PERF_NATIVE_MAX) {
        if (t->native) t->native->count = 0;
        return;
    }
    if (!t->native) t->native = sonde__calloc(1, sizeof(*t->native));
    if (!t->native) return;
    struct sonde_perf_native *n = t->native;
    n->sp = sp;
    n->count = (uint32_t)count;
    n->kernel_count = perf_python_fit(kernel_count);
    memcpy(n->ips, ips, n->count * sizeof(*ips));
    memcpy(n->cfas, cfas, n->count * sizeof(*cfas));
    if (n->kernel_count) memcpy(n->kernel, kernel, n->kernel_count * sizeof(*kernel));
}

static uint32_t perf_python_told(void *arg, uint64_t ip, int *final)
{
    const struct sonde_perf_python_mix *m = arg;
    *final = 0; /* the number is one of this stack's */
    return m->frames[sonde__python_instruction(ip)].location;
}

/* Each run in place of the native frame that has its anchor; returns how many frames there are
 * then, *placed: of Python's. The stack grows down: what has an anchor below is not further out. */
static size_t perf_python_mix(struct sonde_perf_python_mix *m, size_t frames, uint64_t sp,
                              const uint64_t *ips, const uint64_t *cfas, size_t native,
                              size_t *placed)
{
    size_t count = 0, next = 0;
    *placed = 0;
    for (size_t i = 0; i < native; i++) {
        while (next < frames && m->frames[next].anchor < sp) next++;
        const uint64_t anchor = next < frames ? m->frames[next].anchor : 0;
        if (anchor && anchor < cfas[i]) {
            while (next < frames && m->frames[next].anchor == anchor) {
                m->ips[count++] = sonde__python_frame_of(0, next++);
                (*placed)++;
            }
        } else {
            m->ips[count++] = ips[i];
        }
        if (cfas[i]) sp = cfas[i];
    }
    return count;
}

static uint32_t perf_python_add(struct sonde_perf_python_mix *m,
                                const struct sonde_perf_process *process, size_t count,
                                struct sonde_cpu_stacks *stacks)
{
    sonde_cpu_stacks_python(stacks, perf_python_told, m);
    const uint32_t stack =
        sonde_cpu_stacks_add(stacks, process->as, process->layout, 0, m->ips, count);
    sonde_cpu_stacks_python(stacks, NULL, NULL);
    return stack;
}

uint32_t sonde_perf_python_stack(struct sonde_perf_python_mix *m,
                                 const struct sonde_perf_process *process,
                                 const struct sonde_perf_python_sample *s, uint64_t sp,
                                 const uint64_t *ips, const uint64_t *cfas, size_t count,
                                 struct sonde_cpu_stacks *stacks, struct sonde_profile *p,
                                 uint32_t *missing)
{
    size_t placed;
    uint32_t unnamed;
    const size_t frames =
        sonde_perf_python_sampled(process->python, p, s->frames, s->count,
                                  (s->flags & SONDE_PYTHON_BPF_CUT) != 0, m->frames, &unnamed);
    count = perf_python_mix(m, frames, sp, ips, cfas, count, &placed);
    *missing = unnamed + (uint32_t)(frames - placed);
    return perf_python_add(m, process, count, stacks);
}

void sonde_perf_python_look(struct sonde_perf_python_mix *m, struct sonde_perf_thread *t,
                            struct sonde_cpu_stacks *stacks, struct sonde_profile *p)
{
    struct sonde_perf_process *process = t->process;
    const struct sonde_perf_native *n = t->native;
    size_t placed;
    t->python_looked = 1;
    if (!n || !n->count || !sonde_perf_python_of(process)) return;
    const size_t frames =
        sonde_perf_python_read(process->python, p, t->tid, m->frames, FRAMES_MAX);
    t->python_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    if (!frames) return;
    const size_t count = perf_python_mix(m, frames, n->sp, n->ips, n->cfas, n->count, &placed);
    if (placed < frames) return; /* they are of later */
    uint32_t stack = perf_python_add(m, process, count, stacks);
    if (stack && n->kernel_count) {
        stack = sonde_cpu_stacks_add(stacks, NULL, 0, stack, n->kernel, n->kernel_count);
    }
    t->python_stack = stack;
}
