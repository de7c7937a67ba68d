#include "collect/cpu/perf_python_stack.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "segment/python.h"

enum { PYTHON_MAX = 1024 };

/* The interpreter is looked for again when code was mapped since. */
static struct sonde_perf_python *perf_python_of(struct sonde_perf_process *p)
{
    if (p->python || p->python_layout == p->layout) return p->python;
    p->python_layout = p->layout;
    if (sonde_perf_python_create(p->pid, &p->python)) p->python = NULL;
    return p->python;
}

static uint32_t perf_python_fit(size_t count)
{
    return count < SONDE_PERF_NATIVE_MAX ? (uint32_t)count : SONDE_PERF_NATIVE_MAX;
}

void sonde_perf_python_keep(struct sonde_perf_thread *t, uint64_t sp, const uint64_t *ips,
                            const uint64_t *cfas, size_t count, const uint64_t *kernel,
                            size_t kernel_count)
{
    /* What is deeper is not put together again: the native stack stands. */
    if (!perf_python_of(t->process) || count > SONDE_PERF_NATIVE_MAX) {
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

struct perf_python_mix {
    struct sonde_perf_python_frame frames[PYTHON_MAX];
    uint64_t ips[SONDE_PERF_NATIVE_MAX + PYTHON_MAX];
};

static uint32_t perf_python_location(void *arg, uint64_t ip, int *final)
{
    const struct perf_python_mix *m = arg;
    *final = 0; /* the number is one of this stack's */
    return m->frames[sonde__python_instruction(ip)].location;
}

/* Each run in place of the native frame that has its anchor. 0 = they do not fit together. */
static size_t perf_python_mix(struct perf_python_mix *m, const struct sonde_perf_native *n,
                              size_t frames)
{
    size_t count = 0, next = 0;
    uint64_t sp = n->sp;
    for (uint32_t i = 0; i < n->count; i++) {
        const uint64_t anchor = next < frames ? m->frames[next].anchor : 0;
        if (anchor && anchor >= sp && anchor < n->cfas[i]) {
            while (next < frames && m->frames[next].anchor == anchor) {
                m->ips[count++] = sonde__python_frame_of(0, next++);
            }
        } else {
            m->ips[count++] = n->ips[i];
        }
        if (n->cfas[i]) sp = n->cfas[i];
    }
    return next == frames ? count : 0;
}

void sonde_perf_python_look(struct sonde_perf_thread *t, struct sonde_cpu_stacks *stacks,
                            struct sonde_profile *p)
{
    struct sonde_perf_process *process = t->process;
    t->python_looked = 1;
    if (!t->native || !t->native->count || !perf_python_of(process)) return;
    struct perf_python_mix *m = sonde__alloc(sizeof(*m));
    if (!m) return;
    const size_t frames = sonde_perf_python_read(process->python, p, t->tid, m->frames, PYTHON_MAX);
    t->python_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    const size_t count = frames ? perf_python_mix(m, t->native, frames) : 0;
    if (count) {
        sonde_cpu_stacks_python(stacks, perf_python_location, m);
        uint32_t stack = sonde_cpu_stacks_add(stacks, process->as, process->layout, 0, m->ips,
                                              count);
        sonde_cpu_stacks_python(stacks, NULL, NULL);
        if (stack && t->native->kernel_count) {
            stack = sonde_cpu_stacks_add(stacks, NULL, 0, stack, t->native->kernel,
                                         t->native->kernel_count);
        }
        t->python_stack = stack;
    }
    sonde__free(m);
}
