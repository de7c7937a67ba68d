/* profiler_heap.c - heaps on demand; see profiler.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "analyze/growth.h"
#include "collect/proc/smaps.h"
#include "profile/heap.h"
#include "agent/profiler_private.h"
#include "sonde/sonde.h"

#define HEAP_BYTES_MAX ((size_t)64 << 20) /* of each process that is watched here */

void profiler_heap_init(struct profiler_heap *h)
{
    sonde_lock_init(&h->lock, SONDE_RANK_HEAP_PROFILER);
}

/* The watched process i is done with. */
static void profiler_heap_forget(struct profiler_heap *h, size_t i)
{
    assert(i < h->count);
    struct sonde_profile *unused = NULL;
    if (sonde_heap_reader_stop(h->watched[i].heap_reader, &unused) == 0) {
        sonde_profile_destroy(unused);
    }
    h->watched[i] = h->watched[--h->count];
}

void profiler_heap_release(struct profiler_heap *h)
{
    while (h->count) profiler_heap_forget(h, h->count - 1);
    sonde_symbolizer_destroy(h->symbolizer);
    sonde_lock_destroy(&h->lock);
}

void sonde_profiler_use_heap_reader(struct sonde_profiler *p, struct sonde_heap_reader *heap_reader,
                                    uint32_t pid)
{
    if (!heap_reader) captures_keep_heaps(p);
    sonde_lock(&p->heap.lock);
    p->heap.running = (struct profiler_watched){ .pid = pid, .heap_reader = heap_reader };
    sonde_unlock(&p->heap.lock);
}

/* ---- Which ----------------------------------------------------------------------------------- */

static int is_watched(const struct profiler_heap *h, uint32_t pid)
{
    if (h->running.heap_reader && h->running.pid == pid) return 1;
    for (size_t i = 0; i < h->count; i++) {
        if (h->watched[i].pid == pid) return 1;
    }
    return 0;
}

/* Watch what is profiled and not watched yet, forget what the model has forgotten. */
static void profiler_heap_look_around(struct sonde_profiler *p)
{
    struct profiler_heap *h = &p->heap;
    uint32_t pids[PROFILER_PROCESSES_MAX];
    if (p->o.no_heap) return;
    size_t count = profiler_processes(p, 1, pids, PROFILER_PROCESSES_MAX);
    for (size_t i = h->count; i-- > 0;) {
        if (!profiler_contains(pids, count, h->watched[i].pid)) profiler_heap_forget(h, i);
    }
    count = profiler_processes(p, 0, pids, PROFILER_PROCESSES_MAX);
    for (size_t i = 0; i < count && h->count < PROFILER_PROCESSES_MAX; i++) {
        const struct sonde_heap_reader_options o = {
            .pid = pids[i], .dir = p->o.dir, .bytes_max = HEAP_BYTES_MAX,
            .readers = sonde_collector_readers(p->o.collector) };
        struct sonde_heap_reader *heap_reader;
        if (is_watched(h, pids[i]) || sonde_heap_reader_start(&o, &heap_reader, NULL) != 0) {
            continue;
        }
        h->watched[h->count++] =
            (struct profiler_watched){ .pid = pids[i], .heap_reader = heap_reader };
    }
}

/* Those that are asked for; pid 0 = all. */
static size_t profiler_heap_choose(const struct profiler_heap *h, uint32_t pid,
                                   struct profiler_watched *out)
{
    size_t count = 0;
    if (h->running.heap_reader && (!pid || pid == h->running.pid)) out[count++] = h->running;
    for (size_t i = 0; i < h->count; i++) {
        if (!pid || pid == h->watched[i].pid) out[count++] = h->watched[i];
    }
    return count;
}

static int profiler_heap_none(const struct sonde_profiler *p, uint32_t pid, struct sonde_err *err)
{
    if (p->o.no_heap) {
        return sonde_err_set(err, SONDE_ENOENT, "heaps are not profiled here: memory.enabled is "
                             "false");
    }
    if (pid) {
        return sonde_err_set(err, SONDE_ENOENT, "the heap of process %u is not profiled: start it "
                             "with `sonde run`; what that starts in turn is profiled once it has "
                             "allocated enough for a sample", pid);
    }
    return sonde_err_set(err, SONDE_ENOENT, "no heap is profiled: start the program with "
                         "`sonde run`");
}

static int profiler_heap_several(const struct profiler_watched *found, size_t count,
                                 struct sonde_err *err)
{
    char list[160] = "";
    size_t len = 0;
    for (size_t i = 0; i < count && len + 16 < sizeof(list); i++) {
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%u", i ? ", " : "",
                                found[i].pid);
    }
    return sonde_err_set(err, SONDE_EINVAL, "say which process with pid=: the heaps of %zu are "
                         "profiled (%s)", count, list);
}

/* ---- Of a request ---------------------------------------------------------------------------- */

void profiler_heap_watch(struct sonde_profiler *p)
{
    sonde_lock(&p->heap.lock);
    profiler_heap_look_around(p);
    sonde_unlock(&p->heap.lock);
}

int profiler_heap_window(struct sonde_profiler *p, uint64_t from_ns, uint64_t to_ns,
                         struct sonde_profile *into, int *count)
{
    struct profiler_watched found[PROFILER_PROCESSES_MAX + 1];
    int rc = 0;
    sonde_lock(&p->heap.lock);
    const size_t known = profiler_heap_choose(&p->heap, 0, found);
    for (size_t i = 0; !rc && i < known; i++) {
        struct sonde_profile *one = NULL;
        rc = sonde_heap_reader_window(found[i].heap_reader, from_ns, to_ns, into->bytes_max, &one);
        if (!rc) rc = sonde_profile_merge(into, one);
        sonde_profile_destroy(one);
    }
    sonde_unlock(&p->heap.lock);
    *count = (int)known;
    return rc;
}

/* ---- Profiles -------------------------------------------------------------------------------- */

/* The library in a program comes to work with the first allocation that it samples, and tells how
 * the process is from then on. Before, the kernel is asked. */
static void add_resident(uint32_t pid, struct sonde_profile *p)
{
    struct sonde_heap *h = p->heap;
    struct sonde_smaps smaps;
    struct sonde_err err;
    uint64_t rss, peak;
    if (!h || h->ended || h->rss_bytes || sonde_smaps_resident(pid, &rss, &peak) != 0) return;
    h->rss_bytes = rss;
    h->rss_peak_bytes = peak;
    if (h->pss_bytes || sonde_smaps_read(pid, &smaps, &err) != 0) return;
    h->pss_bytes = smaps.all.pss_bytes;
    sonde_smaps_release(&smaps);
}

/* One after the other into *out; the profile of the first is the start. */
static int snapshot_all(const struct profiler_watched *found, size_t count,
                        struct sonde_profile **out)
{
    struct sonde_profile *all = NULL;
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        struct sonde_profile *one = NULL;
        rc = sonde_heap_reader_snapshot(found[i].heap_reader, &one);
        if (rc) break;
        rc = sonde_growth_judge_profile(one);
        add_resident(found[i].pid, one);
        if (!all) {
            all = one;
        } else {
            if (!rc) rc = sonde_profile_merge(all, one);
            sonde_profile_destroy(one);
        }
    }
    if (rc) sonde_profile_destroy(all);
    else *out = all;
    return rc;
}

/* Totals since the process began are not of that time. */
static void drop_totals(struct sonde_profile *p)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const uint16_t kind = p->samples[i].kind;
        if (kind == SONDE_SAMPLE_ALLOC || kind == SONDE_SAMPLE_TEMPORARY) continue;
        p->samples[kept++] = p->samples[i];
    }
    p->samples_count = kept;
    p->weights[SONDE_SAMPLE_ALLOC] = p->weights[SONDE_SAMPLE_TEMPORARY] = 0;
}

int profiler_heap_add(struct sonde_profiler *p, uint64_t from_ns, uint64_t to_ns,
                      struct sonde_profile *into)
{
    struct profiler_watched found[PROFILER_PROCESSES_MAX + 1];
    struct sonde_profile *now = NULL;
    int windows = 0;
    sonde_lock(&p->heap.lock);
    profiler_heap_look_around(p);
    const size_t count = profiler_heap_choose(&p->heap, 0, found);
    int rc = count ? snapshot_all(found, count, &now) : 0;
    sonde_unlock(&p->heap.lock);
    if (now && !rc) {
        drop_totals(now);
        rc = sonde_profile_merge(into, now);
    }
    sonde_profile_destroy(now);
    return rc ? rc : profiler_heap_window(p, from_ns, to_ns, into, &windows);
}

static int profiler_heap_take(struct sonde_profiler *p, const struct profiler_watched *found,
                              size_t count, struct sonde_profile **out, struct sonde_err *err)
{
    struct profiler_heap *h = &p->heap;
    struct sonde_profile *profile = NULL;
    int rc = snapshot_all(found, count, &profile);
    if (!rc) rc = profiler_spans(p, 0, profile);
    if (!rc) rc = profiler_requests(p, 0, profile);
    if (!rc && !h->symbolizer) rc = sonde_symbolizer_create(&h->symbolizer);
    if (!rc) rc = sonde_symbolize(h->symbolizer, profile);
    if (rc) {
        sonde_profile_destroy(profile);
        return sonde_err_set(err, rc, "no memory to put the heap profile together");
    }
    *out = profile;
    return 0;
}

int sonde_profiler_heap(struct sonde_profiler *p, uint32_t pid, int one,
                        struct sonde_profile **out, struct sonde_err *err)
{
    struct profiler_watched found[PROFILER_PROCESSES_MAX + 1];
    sonde_lock(&p->heap.lock);
    profiler_heap_look_around(p);
    const size_t count = profiler_heap_choose(&p->heap, pid, found);
    int rc;
    if (!count) rc = profiler_heap_none(p, pid, err);
    else if (one && count > 1) rc = profiler_heap_several(found, count, err);
    else rc = profiler_heap_take(p, found, count, out, err);
    sonde_unlock(&p->heap.lock);
    return rc;
}

int sonde_profiler_mark(struct sonde_profiler *p, uint32_t pid, size_t *count,
                        struct sonde_err *err)
{
    struct profiler_watched found[PROFILER_PROCESSES_MAX + 1];
    sonde_lock(&p->heap.lock);
    profiler_heap_look_around(p);
    *count = profiler_heap_choose(&p->heap, pid, found);
    for (size_t i = 0; i < *count; i++) sonde_heap_reader_mark(found[i].heap_reader);
    sonde_unlock(&p->heap.lock);
    return *count ? 0 : profiler_heap_none(p, pid, err);
}
