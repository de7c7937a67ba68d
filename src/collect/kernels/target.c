/* target.c - one segment: its records, and how much is missing. */
#include <string.h>

#include "base/alloc.h"
#include "collect/kernels/reading.h"
#include "sonde/sonde.h"

struct kernels_reading {
    struct kernels_reader *r;
    struct kernels_target *t;
};

static void target_on_kernel(void *arg, const struct sonde_segment_kernel *k)
{
    const struct kernels_reading *g = arg;
    kernels_add_command(g->r, g->t, k);
}

static void target_on_wait(void *arg, const struct sonde_segment_kernel_wait *w)
{
    const struct kernels_reading *g = arg;
    kernels_add_wait(g->r, g->t, w);
}

static void target_on_map(void *arg, const struct sonde_mapping *m)
{
    const struct kernels_reading *g = arg;
    if (sonde_preload_map(&g->t->base, g->t->as, m) == 0) {
        g->t->layout = sonde_cpu_stacks_layout_new(g->r->stacks);
    }
}

/* What the process counts since it was last read, into the facts. */
static void target_figures(struct kernels_reader *r, struct kernels_target *t)
{
    struct sonde_gpu_work *g = sonde_gpu_of(r->profile);
    const struct sonde_segment_kernels_info *now = &t->info, *was = &t->before;
    if (!g) return;
    g->enqueued += now->enqueued - was->enqueued;
    g->recorded += now->recorded - was->recorded;
    g->crowded += now->crowded - was->crowded;
    g->full += now->full - was->full;
    g->unprofiled += now->foreign - was->foreign;
    g->failed += now->failed - was->failed;
    g->off_calls += now->off_calls - was->off_calls;
    g->own_ns += now->own_ns - was->own_ns;
    g->waits += now->waits - was->waits;
    g->wait_ns += now->wait_ns - was->wait_ns;
    g->lost += t->lost - t->lost_before;
    t->before = *now;
    t->lost_before = t->lost;
}

/* The program has ended: what it had queued and not looked at is not known. */
static void target_end(struct kernels_reader *r, const struct kernels_target *t)
{
    const struct sonde_segment_kernels_info *i = &t->info;
    const uint64_t told = i->recorded + i->crowded + i->full + i->foreign + i->failed;
    struct sonde_gpu_work *g = sonde_gpu_of(r->profile);
    if (g && i->enqueued > told) g->unread += i->enqueued - told;
}

int kernels_target_read(struct kernels_reader *r, struct kernels_target *t, int last,
                        struct sonde_err *err)
{
    struct kernels_reading g = { r, t };
    const struct sonde_segment_kernel_sink sink = { target_on_kernel, target_on_wait,
                                                    target_on_map, &g };
    if (!t->as && sonde_aspace_create(r->modules, t->base.id.pid, &t->as) != 0) {
        return sonde_err_set(err, SONDE_ENOMEM, "no memory for the mappings of it");
    }
    /* Counts of before the records: what has been read has been counted. */
    int rc = sonde_segment_kernel_records(t->base.segment, &sink, last, &t->lost, err);
    if (!rc) rc = sonde_segment_kernels(t->base.segment, &t->info, err);
    if (rc) return rc;
    target_figures(r, t);
    if (last) target_end(r, t);
    return 0;
}

void kernels_target_release(struct kernels_target *t)
{
    sonde_preload_close(&t->base);
    sonde_aspace_destroy(t->as);
    sonde_map_release(&t->by_stack);
    sonde_map_release(&t->by_name);
    sonde__free(t->stacks);
    sonde__free(t->names);
    t->as = NULL;
    t->stacks = t->names = NULL;
    t->stack_count = t->stack_cap = t->name_count = t->name_cap = 0;
}
