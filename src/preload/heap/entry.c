/* entry.c - the functions that programs call instead of the allocator's. Each has a fast way,
 * that ends in a jump to the real one, and a slow way. */
#include <errno.h>
#include <stdlib.h>

#include "preload/heap/entry.h"

/* ---- The slow way ---------------------------------------------------------------------------- */

/* A signal handler that came in the middle of it, or the library itself, or an allocator's own
 * operator delete that calls free. */
static int heap_entry_interrupted(void)
{
    if (LIKELY(!sonde__heap_tls.busy)) return 0;
    sonde__heap_tls.probed = 1;
    if (sonde__heap_gate.mode && sonde__heap_tls.busy != SONDE__HEAP_PASSING) {
        sonde__heap_gate.missed = 1;
        sonde__heap_count(&sonde__heap_state.area->reentrant);
    }
    return 1;
}

int sonde__heap_chosen(size_t n)
{
    struct sonde__heap_tls *tls = &sonde__heap_tls;
    if (heap_entry_interrupted()) return 0;
    const uint32_t mode = sonde__heap_gate.mode ? sonde__heap_gate.mode : sonde__heap_wake();
    if (!mode) return 0;
    if (sonde__heap_gate.closed) {
        tls->countdown = SONDE__HEAP_OFF;
        sonde__heap_count(&sonde__heap_state.area->refused);
        return 0;
    }
    if (!tls->rng) {
        sonde__heap_busy(1);
        sonde__heap_thread_enter();
        sonde__heap_busy(0);
        if (mode == SONDE__HEAP_SAMPLED) {
            tls->countdown = sonde__heap_draw(&tls->rng, sonde__heap_state.mean);
        }
    }
    if (mode == SONDE__HEAP_FULL) return 1;
    if (passes(n)) return 0;
    tls->countdown = sonde__heap_draw(&tls->rng, sonde__heap_state.mean);
    return 1;
}

SLOW_WAY(malloc, sonde__heap_real.malloc, (size_t n), n, n)
SLOW_WAY(calloc, sonde__heap_real.calloc, (size_t count, size_t size, size_t n), n, count, size)
SLOW_WAY(aligned_alloc, sonde__heap_real.aligned_alloc, (size_t align, size_t n), n, align, n)
SLOW_WAY(memalign, sonde__heap_real.memalign, (size_t align, size_t n), n, align, n)
SLOW_WAY(valloc, sonde__heap_real.valloc, (size_t n), n, n)
SLOW_WAY(pvalloc, sonde__heap_real.pvalloc, (size_t n), n, n)

SLOW int slow_posix_memalign(void **out, size_t align, size_t n)
{
    const struct sonde__caller c = sonde__arch_caller();
    const int choose = chosen(n);
    const int rc = sonde__heap_real.posix_memalign(out, align, n);
    if (choose && rc != EINVAL) record(&c, rc ? NULL : *out, n);
    return rc;
}

void sonde__heap_leave_rare(void *p)
{
    struct sonde__heap_block b;
    if (!p || !sonde__heap_gate.mode || heap_entry_interrupted()) return;
    sonde__heap_busy(1);
    if (sonde__heap_gate.mode == SONDE__HEAP_FULL) {
        sonde__heap_full_free(p);
    } else if (sonde__heap_sampled_forget(p, &b)) {
        sonde__heap_sampled_freed(&b);
    }
    sonde__heap_busy(0);
}

SLOW void slow_free(void *p)
{
    leave(p);
    sonde__heap_real.free(p);
}

static int heap_entry_forget(void *p, struct sonde__heap_block *b)
{
    return sonde__heap_gate.mode == SONDE__HEAP_FULL ? sonde__heap_full_forget(p, b)
                                                     : sonde__heap_sampled_forget(p, b);
}

static void heap_entry_freed(const struct sonde__heap_block *b)
{
    if (sonde__heap_gate.mode == SONDE__HEAP_FULL) sonde__heap_full_freed(b);
    else sonde__heap_sampled_freed(b);
}

/* A free and an allocation. The old block is out of the table while the allocator has it, and
 * back in if there is no new one. To size 0 is a free, for allocators that return NULL for it. */
SLOW void *slow_realloc(void *p, size_t n)
{
    struct sonde__heap_block b;
    const struct sonde__caller c = sonde__arch_caller();
    const int choose = chosen(n);
    int known = 0;
    if (p && sonde__heap_gate.mode && !sonde__heap_tls.busy) {
        sonde__heap_busy(1);
        known = heap_entry_forget(p, &b);
        sonde__heap_busy(0);
    }
    void *q = sonde__heap_real.realloc(p, n);
    const int failed = !q && n;
    if (known) {
        sonde__heap_busy(1);
        if (failed) sonde__heap_put_back(&b);
        else heap_entry_freed(&b);
        sonde__heap_busy(0);
    }
    if (choose && (q || failed)) record(&c, q, n);
    return q;
}

/* ---- What programs call ---------------------------------------------------------------------- */

EXPORT void *malloc(size_t n)
{
    return passes(n) ? sonde__heap_real.malloc(n) : slow_malloc(n);
}

EXPORT void free(void *p)
{
    if (unsampled(p)) sonde__heap_real.free(p);
    else slow_free(p);
}

EXPORT void *calloc(size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n)) return sonde__heap_real.calloc(count, size);
    return passes(n) ? sonde__heap_real.calloc(count, size) : slow_calloc(count, size, n);
}

EXPORT void *realloc(void *p, size_t n)
{
    return unsampled(p) && passes(n) ? sonde__heap_real.realloc(p, n) : slow_realloc(p, n);
}

EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
    size_t n;
    if (__builtin_mul_overflow(count, size, &n)) {
        errno = ENOMEM;
        return NULL;
    }
    return unsampled(p) && passes(n) ? sonde__heap_real.realloc(p, n) : slow_realloc(p, n);
}

EXPORT int posix_memalign(void **out, size_t align, size_t n)
{
    return passes(n) ? sonde__heap_real.posix_memalign(out, align, n)
                     : slow_posix_memalign(out, align, n);
}

EXPORT void *aligned_alloc(size_t align, size_t n)
{
    return passes(n) ? sonde__heap_real.aligned_alloc(align, n) : slow_aligned_alloc(align, n);
}

EXPORT void *memalign(size_t align, size_t n)
{
    return passes(n) ? sonde__heap_real.memalign(align, n) : slow_memalign(align, n);
}

EXPORT void *valloc(size_t n) { return passes(n) ? sonde__heap_real.valloc(n) : slow_valloc(n); }

EXPORT void *pvalloc(size_t n) { return passes(n) ? sonde__heap_real.pvalloc(n) : slow_pvalloc(n); }
