/* ring_hot.c - records into the sampler's ring; see "The sampler" in segment.h. */
#include <string.h>

#include "preload/ring.h"
#include "preload/timer/timer.h"
#include "preload/walk/walk.h"
#include "segment/never.h"

#include "base/hot_banned.h"

static uint64_t ready_chunks(void)
{
    const uint64_t bytes = __atomic_load_n(&sonde__timer.ready_bytes, __ATOMIC_ACQUIRE);
    return (bytes - sizeof(struct sonde__sampler)) / sizeof(struct sonde__chunk);
}

/* Most processes never fill the ring, so it is populated as it is first gone through: up to then
 * chunks are reserved only when they can be written. 0, or -1: there is no room. */
static int timer_ring_reserve(struct sonde__sampler *s, uint32_t chunks, uint64_t *at)
{
    uint64_t index = __atomic_load_n(&s->reserve, __ATOMIC_RELAXED);
    while (ready_chunks() < s->chunk_count) {
        if (index + chunks > ready_chunks()) {
            if (sonde__timer_grow(index + chunks)) return -1;
        } else if (__atomic_compare_exchange_n(&s->reserve, &index, index + chunks, 1,
                                               __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            __atomic_thread_fence(__ATOMIC_RELEASE); /* as in sonde__chunk_reserve */
            *at = index;
            return 0;
        }
    }
    *at = sonde__chunk_reserve(&s->reserve, chunks);
    return 0;
}

static void timer_ring_put(struct sonde__sampler *s, uint64_t index, uint32_t type,
                           const uint64_t word[7])
{
    sonde__chunk_put(s->chunk, s->chunk_count, index, type, word);
}

/* The ith address of those that are kept. */
static uint64_t timer_ring_kept(const struct sonde__thread *t, uint32_t i, uint32_t inner,
                                uint32_t left_out)
{
    const uint32_t frame = left_out && i >= inner ? i + left_out : i;
    return t->ips[sonde__frame_slot(sonde__timer.depth_max, frame)];
}

void sonde__ring_sample(const struct sonde__thread *t, uint32_t frames, uint32_t overrun,
                        uint32_t flags)
{
    SONDE_MUST(sonde__timer.depth_max >= 4);
    struct sonde__sampler *s = sonde__timer.area;
    const uint32_t max = sonde__timer.depth_max;
    const uint32_t depth = frames < max ? frames : max;
    const uint32_t left_out = frames - depth, inner = depth - depth / 4;
    uint64_t w[7], at;
    if (timer_ring_reserve(s, sonde__sample_chunks(depth), &at)) {
        __atomic_fetch_add(&s->full, 1, __ATOMIC_RELAXED);
        return;
    }
    uint64_t index = at;
    for (uint32_t done = SONDE__SAMPLE_FIRST; done < depth; done += 7) {
        for (uint32_t i = 0; i < 7; i++) {
            w[i] = done + i < depth ? timer_ring_kept(t, done + i, inner, left_out) : 0;
        }
        timer_ring_put(s, ++index, SONDE__CHUNK_MORE, w);
    }
    w[0] = sonde_ticks();
    w[1] = (uint64_t)t->tid << 32 | overrun;
    w[2] = (uint64_t)left_out << 32 | (uint64_t)flags << 16 | depth;
    for (uint32_t i = 0; i < SONDE__SAMPLE_FIRST; i++) {
        w[3 + i] = i < depth ? timer_ring_kept(t, i, inner, left_out) : 0;
    }
    timer_ring_put(s, at, SONDE__CHUNK_SAMPLE, w);
}

static uint32_t timer_ring_smaller(uint32_t a, uint32_t b) { return a < b ? a : b; }

static void timer_ring_map(uint64_t start, uint64_t end, uint64_t offset, const char *path,
                           uint32_t path_len)
{
    struct sonde__sampler *s = sonde__timer.area;
    uint64_t w[7], at;
    if (timer_ring_reserve(s, sonde__map_chunks(path_len), &at)) return;
    uint64_t index = at;
    for (uint32_t done = SONDE__MAP_FIRST; done < path_len; done += sizeof(w)) {
        memset(w, 0, sizeof(w));
        memcpy(w, path + done, timer_ring_smaller(path_len - done, sizeof(w)));
        timer_ring_put(s, ++index, SONDE__CHUNK_MORE, w);
    }
    memset(w, 0, sizeof(w));
    w[0] = start;
    w[1] = end;
    w[2] = offset;
    w[3] = path_len;
    memcpy(&w[4], path, timer_ring_smaller(path_len, SONDE__MAP_FIRST));
    timer_ring_put(s, at, SONDE__CHUNK_MAP, w);
}

void sonde__ring_thread(uint32_t tid, uint64_t cpu_ns, const char name[16])
{
    struct sonde__sampler *s = sonde__timer.area;
    uint64_t w[7] = { tid, cpu_ns }, at;
    memcpy(&w[2], name, 16);
    if (!timer_ring_reserve(s, 1, &at)) timer_ring_put(s, at, SONDE__CHUNK_THREAD, w);
}

/* ---- Where code is that samples will be in --------------------------------------------------- */

#define ANNOUNCED 256u

static uint64_t timer_announced[ANNOUNCED]; /* what was last told about the module at a place */

static int timer_maps_tell(void *arg, uint64_t start, uint64_t end, uint64_t offset,
                           const char *path, uint32_t path_len)
{
    (void)arg;
    timer_ring_map(start, end, offset, path, path_len);
    return 0;
}

/* Once, and again when something was unloaded since: another module may have been there. Marked
 * when done, so that nobody's sample gets ahead of it. */
void sonde__timer_announce(const struct dl_find_object *o)
{
    const uint64_t start = (uint64_t)(uintptr_t)o->dlfo_map_start;
    const uint64_t what = sonde__mix(sonde__mix(sonde__unloads(), start),
                                     (uint64_t)(uintptr_t)o->dlfo_map_end) | 1;
    uint64_t *slot = &timer_announced[sonde__mix(0, start) % ANNOUNCED];
    if (__atomic_load_n(slot, __ATOMIC_ACQUIRE) == what) return;
    sonde__module_texts(o, timer_maps_tell, NULL);
    __atomic_store_n(slot, what, __ATOMIC_RELEASE);
}
