/* record_hot.c - records into the ring; see segment/kernels.h. */
#include <string.h>

#include "preload/kernels/recorder.h"
#include "preload/ring.h"
#include "record/state.h"

#include "base/hot_banned.h"

static uint64_t kernels_ready_chunks(void)
{
    const uint64_t bytes = __atomic_load_n(&sonde__kernels_state.ready_bytes, __ATOMIC_ACQUIRE);
    return (bytes - sizeof(struct sonde__kernels)) / sizeof(struct sonde__chunk);
}

/* The ring is populated as it is first gone through: up to then chunks are reserved only when they
 * can be written. 0, or -1: there is no room. */
static int kernels_ring_reserve(struct sonde__kernels *k, uint32_t chunks, uint64_t *at)
{
    uint64_t index = __atomic_load_n(&k->reserve, __ATOMIC_RELAXED);
    while (kernels_ready_chunks() < k->chunk_count) {
        if (index + chunks > kernels_ready_chunks()) {
            if (sonde__kernels_grow(index + chunks)) return -1;
        } else if (__atomic_compare_exchange_n(&k->reserve, &index, index + chunks, 1,
                                               __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
            __atomic_thread_fence(__ATOMIC_RELEASE); /* as in sonde__chunk_reserve */
            *at = index;
            return 0;
        }
    }
    *at = sonde__chunk_reserve(&k->reserve, chunks);
    return 0;
}

static void kernels_ring_put(struct sonde__kernels *k, uint64_t index, uint32_t type,
                             const uint64_t word[7])
{
    sonde__chunk_put(k->chunk, k->chunk_count, index, type, word);
}

static uint64_t kernels_local(const uint64_t local[3])
{
    const uint64_t max = (1u << SONDE__KERNEL_LOCAL_BITS) - 1;
    uint64_t packed = 0;
    for (uint32_t i = 0; i < 3; i++) {
        packed |= (local[i] < max ? local[i] : max) << (i * SONDE__KERNEL_LOCAL_BITS);
    }
    return packed;
}

void sonde__kernels_put(struct sonde__kernels *k, const struct sonde__kernels_record *r)
{
    uint64_t at;
    const uint64_t took = r->took_ns < UINT32_MAX ? r->took_ns : UINT32_MAX;
    if (kernels_ring_reserve(k, 2, &at)) {
        sonde__kernels_count(&k->full, 1);
        return;
    }
    const uint64_t more[7] = { r->end_ns, r->bytes, r->global[0], r->global[1], r->global[2],
                               kernels_local(r->local), r->doubt_ns };
    kernels_ring_put(k, at + 1, SONDE__CHUNK_MORE, more);
    const uint64_t word[7] = {
        r->call_ns, (uint64_t)r->tid << 32 | took,
        (uint64_t)r->stack << 32 | (uint64_t)(r->flags & 0xff) << 24 |
            (uint64_t)(r->op & 0xff) << 16 | (r->queue & 0xffff),
        (uint64_t)r->name << 32 | (uint32_t)r->status, r->queued_ns, r->submit_ns, r->start_ns
    };
    kernels_ring_put(k, at, SONDE__CHUNK_KERNEL, word);
    sonde__kernels_count(&k->recorded, 1);
    if (!r->stack) sonde__kernels_count(&k->stackless, 1);
    if (!r->name && r->op == SONDE__KERNEL_OP_KERNEL) sonde__kernels_count(&k->unnamed, 1);
}

void sonde__kernels_put_wait(struct sonde__kernels *k, uint64_t begin_ns, uint64_t end_ns,
                             uint32_t queue, enum sonde__kernel_wait kind, uint32_t stack)
{
    uint64_t at;
    sonde__kernels_count(&k->waits, 1);
    sonde__kernels_count(&k->wait_ns, end_ns - begin_ns);
    if (kernels_ring_reserve(k, 1, &at)) return;
    const uint64_t word[7] = { begin_ns, end_ns,
                               (uint64_t)sonde__tls.tid << 32 | (uint64_t)kind << 16 |
                                   (queue & 0xffff),
                               (uint64_t)stack << 32, 0, 0, 0 };
    kernels_ring_put(k, at, SONDE__CHUNK_WAIT, word);
}

void sonde__kernels_put_map(struct sonde__kernels *k, uint64_t start, uint64_t end, uint64_t offset,
                            const char *path, uint32_t path_len)
{
    uint64_t w[7], at;
    if (kernels_ring_reserve(k, sonde__map_chunks(path_len), &at)) return;
    uint64_t index = at;
    for (uint32_t done = SONDE__MAP_FIRST; done < path_len; done += sizeof(w)) {
        const uint32_t left = path_len - done;
        memset(w, 0, sizeof(w));
        memcpy(w, path + done, left < sizeof(w) ? left : sizeof(w));
        kernels_ring_put(k, ++index, SONDE__CHUNK_MORE, w);
    }
    memset(w, 0, sizeof(w));
    w[0] = start;
    w[1] = end;
    w[2] = offset;
    w[3] = path_len;
    memcpy(&w[4], path, path_len < SONDE__MAP_FIRST ? path_len : SONDE__MAP_FIRST);
    kernels_ring_put(k, at, SONDE__CHUNK_MAP, w);
}
