/* entry.h - what all interposed allocation functions do: entry.c, new.c. */
#ifndef SONDE_PRELOAD_HEAP_ENTRY_H
#define SONDE_PRELOAD_HEAP_ENTRY_H

#include "preload/heap/heap.h"

#define EXPORT __attribute__((visibility("default")))
#define SLOW __attribute__((noinline)) static
#define LIKELY(x) (__builtin_expect(!!(x), 1) != 0)

/* Is the slow way needed for n more bytes? If not, they are taken off, with one more. Adding ~n
 * does both: the sum is countdown - n - 1, and carries if countdown is more than n. */
static inline int passes(size_t n)
{
    uint64_t left;
    const int more = __builtin_add_overflow(sonde__heap_tls.countdown, ~(uint64_t)n, &left);
    if (!LIKELY(more)) return 0;
    sonde__heap_tls.countdown = left;
    return 1;
}

static inline int unsampled(const void *p)
{
    const uint64_t addr = (uint64_t)(uintptr_t)p;
    const uint64_t *filter = sonde__heap_gate.filter;
    __asm__("" : "+r"(filter)); /* else gcc adds where it begins to the number of the word */
    const uint64_t word = __atomic_load_n(&filter[sonde__heap_filter_word(addr)], __ATOMIC_RELAXED);
    return LIKELY(!(word >> sonde__heap_filter_bit(addr) & 1));
}

/* In full mode, by a thread that was here before, in no handler. */
static inline int full_as_usual(void)
{
    return LIKELY(sonde__heap_tls.self && !sonde__heap_tls.busy && sonde__heap_gate.mode);
}

static inline int chosen(size_t n) { return full_as_usual() || sonde__heap_chosen(n); }

static inline void record(const struct sonde__caller *c, void *p, size_t n)
{
    if (!LIKELY(p && !sonde__heap_gate.closed)) {
        sonde__heap_count(p ? &sonde__heap_state.area->refused : &sonde__heap_state.area->failed);
        return;
    }
    sonde__heap_busy(1);
    if (sonde__heap_gate.mode == SONDE__HEAP_FULL) sonde__heap_full_alloc(c, p, n);
    else if (sonde__heap_gate.mode) sonde__heap_sampled_alloc(c, p, n);
    sonde__heap_busy(0);
}

/* The one at p ends: whatever is known of it is forgotten, before the allocator gets it. */
void sonde__heap_leave_rare(void *p);

static inline void leave(void *p)
{
    if (!full_as_usual() || !p) {
        sonde__heap_leave_rare(p);
        return;
    }
    /* Where allocators have their own notes: it is in the cache when they need it. */
    __builtin_prefetch((const char *)p - 16, 1);
    sonde__heap_busy(1);
    sonde__heap_full_free(p);
    sonde__heap_busy(0);
}

/* One for each function: the caller is the caller of this very one, which was jumped to. */
#define SLOW_WAY(name, real, parameters, bytes, ...)                                           \
    SLOW void *slow_##name parameters                                                          \
    {                                                                                          \
        const struct sonde__caller caller = sonde__arch_caller();                              \
        const int choose = chosen(bytes);                                                      \
        void *p = (real)(__VA_ARGS__);                                                         \
        if (choose) record(&caller, p, bytes);                                                 \
        return p;                                                                              \
    }

#endif
