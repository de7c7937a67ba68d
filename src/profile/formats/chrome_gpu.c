/* chrome_gpu.c - see chrome_gpu.h. Commands of a queue that run beside each other (out of order)
 * would not nest as slices: those that begin before the last one has ended are asynchronous. */
#include "profile/formats/chrome_gpu.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/gpu.h"
#include "sonde/sonde.h"

static int chrome_gpu_by_start(const void *a, const void *b, void *commands)
{
    const struct sonde_gpu_command *x =
        (const struct sonde_gpu_command *)commands + *(const uint32_t *)a;
    const struct sonde_gpu_command *y =
        (const struct sonde_gpu_command *)commands + *(const uint32_t *)b;
    if (x->queue != y->queue) return SONDE_CMP(x->queue, y->queue);
    if (x->start_ns != y->start_ns) return SONDE_CMP(x->start_ns, y->start_ns);
    return *(const uint32_t *)a < *(const uint32_t *)b ? -1 : 1;
}

int sonde_chrome_gpu_find(struct sonde_chrome_gpu *g, const struct sonde_profile *p,
                          const struct sonde_profile_filter *f)
{
    const struct sonde_gpu_work *from = p->gpu;
    *g = (struct sonde_chrome_gpu){ .p = p };
    if (!from || !from->command_count || f->span || f->trace_hi || f->trace_lo || f->thread) {
        return 0;
    }
    g->order = sonde__alloc(from->command_count * sizeof(*g->order));
    if (!g->order) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < from->command_count; i++) {
        const struct sonde_gpu_command *c = &from->commands[i];
        if ((f->from_ns && c->end_ns <= f->from_ns) || (f->to_ns && c->start_ns >= f->to_ns)) {
            continue;
        }
        g->order[g->count++] = i;
    }
    qsort_r(g->order, g->count, sizeof(*g->order), chrome_gpu_by_start, from->commands);
    return 0;
}

void sonde_chrome_gpu_release(struct sonde_chrome_gpu *g)
{
    sonde__free(g->order);
    g->order = NULL;
}

uint64_t sonde_chrome_gpu_base(const struct sonde_chrome_gpu *g)
{
    uint64_t base = UINT64_MAX;
    for (uint32_t i = 0; i < g->count; i++) {
        const struct sonde_gpu_command *c = &g->p->gpu->commands[g->order[i]];
        if (c->call_ns < base) base = c->call_ns;
        if (c->start_ns < base) base = c->start_ns; /* clocks are compared to some microseconds */
    }
    return base;
}

struct chrome_gpu_writer {
    const struct sonde_chrome_gpu *g;
    uint64_t base_ns, *events;
    uint32_t pids;
    struct sonde_buf *out;
};

static void chrome_gpu_event(const struct chrome_gpu_writer *w, char phase, const char *name,
                             uint32_t queue)
{
    sonde_buf_printf(w->out, "%s{\"ph\":\"%c\",\"name\":", (*w->events)++ ? ",\n" : "\n", phase);
    sonde_buf_json_str(w->out, name, strlen(name));
    sonde_buf_printf(w->out, ",\"pid\":%u,\"tid\":%u", 3 * w->pids, queue + 1);
}

static void chrome_gpu_time(const struct chrome_gpu_writer *w, const char *key, uint64_t ns)
{
    sonde_buf_printf(w->out, ",\"%s\":%" PRIu64 ".%03u", key, ns / 1000, (unsigned)(ns % 1000));
}

static void chrome_gpu_named(const struct chrome_gpu_writer *w, const char *what, uint32_t queue,
                             const char *text)
{
    chrome_gpu_event(w, 'M', what, queue);
    sonde_buf_puts(w->out, ",\"args\":{\"name\":");
    sonde_buf_json_str(w->out, text, strlen(text));
    sonde_buf_puts(w->out, "}}");
}

static void chrome_gpu_args(const struct chrome_gpu_writer *w, const struct sonde_gpu_command *c)
{
    const struct sonde_profile *p = w->g->p;
    const struct sonde_gpu_kernel *k = &p->gpu->kernels[c->kernel];
    sonde_buf_printf(w->out, ",\"cat\":\"gpu\",\"args\":{\"class\":\"%s\",\"thread\":%u",
                     sonde_gpu_class_name((enum sonde_gpu_class)k->class),
                     p->threads[c->thread].tid);
    chrome_gpu_time(w, "queued_us", c->call_ns - w->base_ns);
    if (c->bytes) sonde_buf_printf(w->out, ",\"bytes\":%" PRIu64, c->bytes);
    sonde_buf_puts(w->out, "}}");
}

static void chrome_gpu_command(const struct chrome_gpu_writer *w, uint32_t i, int beside)
{
    const struct sonde_profile *p = w->g->p;
    const struct sonde_gpu_command *c = &p->gpu->commands[i];
    const char *name = sonde_profile_str(p, p->gpu->kernels[c->kernel].name);
    if (!beside) {
        chrome_gpu_event(w, 'X', name, c->queue);
        chrome_gpu_time(w, "ts", c->start_ns - w->base_ns);
        chrome_gpu_time(w, "dur", c->end_ns - c->start_ns);
        chrome_gpu_args(w, c);
        return;
    }
    chrome_gpu_event(w, 'b', name, c->queue);
    chrome_gpu_time(w, "ts", c->start_ns - w->base_ns);
    sonde_buf_printf(w->out, ",\"id\":\"0x%x\"", i + 1);
    chrome_gpu_args(w, c);
    chrome_gpu_event(w, 'e', name, c->queue);
    chrome_gpu_time(w, "ts", c->end_ns - w->base_ns);
    sonde_buf_printf(w->out, ",\"cat\":\"gpu\",\"id\":\"0x%x\"}", i + 1);
}

void sonde_chrome_gpu_put(const struct sonde_chrome_gpu *g, uint64_t base_ns, uint32_t pids,
                          uint64_t *events, struct sonde_buf *out)
{
    const struct chrome_gpu_writer w = { g, base_ns, events, pids, out };
    uint64_t end_ns = 0;
    uint32_t queue = UINT32_MAX;
    for (uint32_t i = 0; i < g->count && !out->error; i++) {
        const struct sonde_gpu_command *c = &g->p->gpu->commands[g->order[i]];
        if (c->queue != queue) {
            char text[600];
            const struct sonde_gpu_queue *q = &g->p->gpu->queues[c->queue];
            if (queue == UINT32_MAX) chrome_gpu_named(&w, "process_name", c->queue, "GPU");
            snprintf(text, sizeof(text), "%.512s, queue %u of %u",
                     sonde_profile_str(g->p, q->device), q->number, q->pid);
            chrome_gpu_named(&w, "thread_name", c->queue, text);
            queue = c->queue;
            end_ns = 0;
        }
        chrome_gpu_command(&w, g->order[i], c->start_ns < end_ns);
        if (c->end_ns > end_ns) end_ns = c->end_ns;
    }
}
