/* merge.c - one profile added to another: all its rows (copy.h), and the facts that can be
 * joined. */
#include <assert.h>

#include "profile/copy.h"
#include "profile/final.h"
#include "profile/gpu.h"
#include "profile/heap.h"
#include "profile/infer.h"
#include "profile/track.h"
#include "sonde/sonde.h"

static int merge_heap(struct sonde_profile *p, const struct sonde_profile *from,
                      const struct sonde_profile_copy *c)
{
    if (p->heap || !from->heap) return 0;
    struct sonde_heap *h = sonde_heap_copy(from->heap);
    if (!h) return SONDE_ENOMEM;
    h->allocator = c->strings[h->allocator];
    for (uint32_t i = 0; i < h->site_count; i++) h->sites[i].stack = c->stacks[h->sites[i].stack];
    for (uint32_t i = 0; i < h->thread_count; i++) {
        h->threads[i].thread = c->threads[h->threads[i].thread];
    }
    for (uint32_t i = 0; i < h->pool_count; i++) h->pools[i].name = c->strings[h->pools[i].name];
    const int rc = sonde_profile_take_heap(p, h);
    if (rc) sonde_heap_destroy(h);
    return rc;
}

int sonde_profile_merge(struct sonde_profile *p, const struct sonde_profile *from)
{
    assert(p != from);
    struct sonde_profile_copy c;
    int rc = sonde_profile_copy_init(&c, p, from);
    if (!rc) rc = sonde_profile_copy_tables(&c);
    if (!rc) rc = sonde_profile_copy_spans(&c, NULL, NULL, 1);
    if (!rc) rc = sonde_profile_copy_samples(&c, NULL, NULL);
    if (!rc) rc = merge_heap(p, from, &c);
    if (!rc) rc = sonde_profile_copy_facts(&c, from->start_ns, from->end_ns);
    if (!rc) {
        p->lost_records += from->lost_records;
        p->dropped_samples += from->dropped_samples;
        p->unsampled_ns += from->unsampled_ns;
    }
    sonde_profile_copy_release(&c);
    if (!rc) rc = sonde_gpu_merge(p, from);
    if (!rc) rc = sonde_infer_run_merge(p, from);
    if (!rc) rc = sonde_final_merge(p, from);
    return rc ? rc : sonde_tracks_merge(p, from);
}
