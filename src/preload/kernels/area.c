/* area.c - where records of GPUs go: made with the first command, anew in a child. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "preload/kernels/recorder.h"
#include "preload/preload.h"
#include "preload/walk/walk.h"
#include "record/state.h"

#define CHUNKS 65536u          /* 4 MiB: 32,000 commands between two looks of the agent */
#define CHUNKS_LEAST 2048u     /* … where segments must be small: */
#define RING_SHARE 32u         /* one part in so many of what a segment may take */
#define FIRST_BYTES 32768u     /* of the area */

struct sonde__kernels_state sonde__kernels_state;

static int kernels_populate(uint64_t need)
{
    struct sonde__kernels_state *s = &sonde__kernels_state;
    const uint64_t mask = SONDE__PAGE - 1;
    uint64_t ready = __atomic_load_n(&s->ready_bytes, __ATOMIC_ACQUIRE);
    need = (need + mask) & ~mask;
    if (need > s->area_bytes) need = s->area_bytes;
    while (ready < need) {
        const uint64_t from = ready;
        uint64_t to = 2 * ready > need ? 2 * ready : need;
        if (to > s->area_bytes) to = s->area_bytes;
        if (sonde__populate(s->area_off + ready, to - ready)) {
            to = need; /* the bare need may still fit */
            if (sonde__populate(s->area_off + ready, to - ready)) return -1;
        }
        if (!__atomic_compare_exchange_n(&s->ready_bytes, &ready, to, 0, __ATOMIC_RELEASE,
                                         __ATOMIC_ACQUIRE)) {
            sonde__populate_undo(to - from); /* another thread was first */
        }
        ready = __atomic_load_n(&s->ready_bytes, __ATOMIC_ACQUIRE);
    }
    return 0;
}

int sonde__kernels_grow(uint64_t chunks)
{
    struct sonde__kernels_state *s = &sonde__kernels_state;
    const int saved = errno;
    int rc = -1;
    if (sonde__resting(&s->full_until)) return -1;
    rc = kernels_populate(sizeof(struct sonde__kernels) + chunks * sizeof(struct sonde__chunk));
    if (rc) sonde__rest(&s->full_until);
    errno = saved;
    return rc;
}

static uint32_t kernels_chunks_wanted(void)
{
    const uint64_t share = sonde__g.h->bytes_max / RING_SHARE / sizeof(struct sonde__chunk);
    uint32_t n = CHUNKS;
    while (n > CHUNKS_LEAST && n > share) n /= 2;
    return n;
}

static void own_code(struct sonde__kernels_state *s)
{
    struct dl_find_object o;
    if (_dl_find_object((void *)(uintptr_t)own_code, &o)) return;
    s->own_low = (uint64_t)(uintptr_t)o.dlfo_map_start;
    s->own_high = (uint64_t)(uintptr_t)o.dlfo_map_end;
    s->walks = 1;
}

/* With the lock held. */
static struct sonde__kernels *kernels_make(void)
{
    struct sonde__kernels_state *s = &sonde__kernels_state;
    const uint32_t chunks = kernels_chunks_wanted();
    const uint64_t bytes = sizeof(struct sonde__kernels) +
                           (uint64_t)chunks * sizeof(struct sonde__chunk);
    s->area_bytes = (bytes + SONDE__PAGE - 1) & ~(uint64_t)(SONDE__PAGE - 1);
    s->area_off = sonde__block_take_bare(s->area_bytes, &s->ready_bytes);
    if (!s->area_off || kernels_populate(FIRST_BYTES)) return NULL;
    struct sonde__kernels *k = (struct sonde__kernels *)(void *)sonde__at(s->area_off);
    k->session = sonde__gpu_config.session;
    k->chunk_count = chunks;
    k->depth_max = s->depth_max;
    k->start_ns = sonde__mono_ns();
    k->queue_count = 1;
    k->state = s->on ? SONDE__KERNEL_ON : SONDE__KERNEL_OFF;
    s->pid = (uint32_t)getpid();
    own_code(s);
    sonde__walks_start();
    __atomic_store_n(&sonde__g.h->kernels, s->area_off, __ATOMIC_RELEASE);
    return k;
}

static int kernels_silent(struct sonde__kernels *k)
{
    if (SONDE__LIKELY(!sonde__silent())) return 0;
    if (k) __atomic_store_n(&k->state, SONDE__KERNEL_SANDBOXED, __ATOMIC_RELAXED);
    return 1;
}

static struct sonde__kernels *kernels_ready_slow(void)
{
    struct sonde__kernels_state *s = &sonde__kernels_state;
    if (sonde__ensure_open() || sonde__resting(&s->full_until)) return NULL;
    if (sonde__spin_wait(&s->lock)) return NULL;
    struct sonde__kernels *k = __atomic_load_n(&s->area, __ATOMIC_ACQUIRE);
    if (!k) {
        k = kernels_make();
        if (!k) sonde__rest(&s->full_until);
        __atomic_store_n(&s->area, k, __ATOMIC_RELEASE);
    }
    __atomic_store_n(&s->lock, 0, __ATOMIC_RELEASE);
    return k;
}

struct sonde__kernels *sonde__kernels_ready(void)
{
    struct sonde__kernels_state *s = &sonde__kernels_state;
    struct sonde__kernels *k = __atomic_load_n(&s->area, __ATOMIC_ACQUIRE);
    const uint32_t gate = SONDE__GATE();
    if (!s->wanted || gate == SONDE__GATE_OFF || kernels_silent(k)) return NULL;
    if (SONDE__LIKELY(k && gate == SONDE__GATE_ON)) return k;
    /* A child that fork's handlers have not seen has a wiped gate, and its parent's area. */
    if (k && s->pid != (uint32_t)getpid()) sonde__kernels_forked((int)s->wanted);
    return kernels_ready_slow();
}

void sonde__kernels_start(void)
{
    struct sonde__kernels_state *s = &sonde__kernels_state;
    s->depth_max = sonde__gpu_config.depth_max;
    if (s->depth_max > SONDE__KERNEL_DEPTH_MAX) s->depth_max = SONDE__KERNEL_DEPTH_MAX;
    s->on = sonde__gpu_config.on != 0;
    s->wanted = 1;
}

void sonde__kernels_forked(int wanted)
{
    struct sonde__kernels_state *s = &sonde__kernels_state;
    s->area = NULL;
    s->lock = 0;
    s->looked_ticks = 0;
    s->full_until = 0;
    s->on = sonde__gpu_config.on != 0;
    s->wanted = wanted != 0;
    sonde__kernels_forget();
}
