/* arena.c - what glibc's allocator says about itself: at most once a second, and for at most a
 * thousandth of the time, since it walks through all that is free with the arenas locked. */
#include <errno.h>

#include "preload/heap/heap.h"
#include "record/state.h"

#define EVERY_NS 1000000000u
#define REST 1000u

static uint64_t next_ns;

static void write_figures(struct sonde__heap_arena *a, const struct mallinfo2 *i)
{
    const uint64_t seq = a->seq;
    __atomic_store_n(&a->seq, seq + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&a->ticks, sonde_ticks(), __ATOMIC_RELAXED);
    __atomic_store_n(&a->system_bytes, i->arena, __ATOMIC_RELAXED);
    __atomic_store_n(&a->used_bytes, i->uordblks, __ATOMIC_RELAXED);
    __atomic_store_n(&a->free_bytes, i->fordblks, __ATOMIC_RELAXED);
    __atomic_store_n(&a->mapped_bytes, i->hblkhd, __ATOMIC_RELAXED);
    __atomic_store_n(&a->trim_bytes, i->keepcost, __ATOMIC_RELAXED);
    __atomic_store_n(&a->seq, seq + 2, __ATOMIC_RELEASE);
}

void sonde__heap_arena(void)
{
    SONDE_MUST(sonde__heap_tls.busy);
    if (!sonde__heap_state.mallinfo2) return;
    const uint64_t now = sonde__mono_ns();
    if (now < __atomic_load_n(&next_ns, __ATOMIC_RELAXED) ||
        sonde__heap_trylock(&sonde__heap_gate.arena_lock, SONDE__HEAP_RANK_ARENA)) {
        return;
    }
    if (now >= next_ns) {
        const int saved = errno;
        const struct mallinfo2 i = sonde__heap_state.mallinfo2();
        write_figures(&sonde__heap_state.area->arena, &i);
        const uint64_t took = sonde__mono_ns() - now;
        __atomic_store_n(&next_ns, now + took + (took * REST > EVERY_NS ? took * REST : EVERY_NS),
                         __ATOMIC_RELAXED);
        errno = saved;
    }
    sonde__heap_unlock(&sonde__heap_gate.arena_lock, SONDE__HEAP_RANK_ARENA);
}
