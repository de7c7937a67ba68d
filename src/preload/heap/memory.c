/* memory.c - what the heap profiler needs of the kernel: pages, a clock. System calls
 * rather than the functions of their names, which are interposed. */
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/heap/heap.h"
#include "record/state.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define OWN_MAX 4096u

/* ---- Pages ----------------------------------------------------------------------------------- */

/* Where ours are, for the scan, which must not take them for the program's. What does not fit is
 * not known, and may make lost blocks look as if they were not. */
static struct own { uint64_t start, bytes; } own[OWN_MAX];
static uint32_t own_count; /* ever used */

static void own_add(uint64_t start, uint64_t bytes)
{
    uint32_t i = 0;
    for (; i < OWN_MAX; i++) {
        uint64_t none = 0;
        if (__atomic_compare_exchange_n(&own[i].bytes, &none, bytes, 0, __ATOMIC_ACQ_REL,
                                        __ATOMIC_RELAXED)) {
            break;
        }
    }
    if (i == OWN_MAX) return;
    __atomic_store_n(&own[i].start, start, __ATOMIC_RELEASE);
    uint32_t count = __atomic_load_n(&own_count, __ATOMIC_RELAXED);
    while (count <= i && !__atomic_compare_exchange_n(&own_count, &count, i + 1, 0,
                                                      __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
}

static void own_remove(uint64_t start)
{
    const uint32_t count = __atomic_load_n(&own_count, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < count; i++) {
        if (__atomic_load_n(&own[i].start, __ATOMIC_ACQUIRE) != start) continue;
        __atomic_store_n(&own[i].start, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&own[i].bytes, 0, __ATOMIC_RELEASE);
        return;
    }
}

uint64_t sonde__heap_own(uint32_t i, uint64_t *bytes)
{
    if (i >= __atomic_load_n(&own_count, __ATOMIC_ACQUIRE)) return 0;
    *bytes = __atomic_load_n(&own[i].bytes, __ATOMIC_ACQUIRE);
    const uint64_t start = __atomic_load_n(&own[i].start, __ATOMIC_ACQUIRE);
    return start && *bytes ? start : UINT64_MAX;
}

void *sonde__heap_pages(uint64_t bytes)
{
    const int saved = errno;
    if (sonde__g.silent) return NULL;
    const long p = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != -1) {
        madvise((void *)p, bytes, MADV_WIPEONFORK);
        own_add((uint64_t)p, bytes);
    }
    errno = saved;
    return p == -1 ? NULL : (void *)p;
}

void sonde__heap_pages_give(void *pages, uint64_t bytes)
{
    const int saved = errno;
    if (!pages || sonde__g.silent) return;
    own_remove((uint64_t)(uintptr_t)pages);
    syscall(SYS_munmap, pages, bytes);
    errno = saved;
}

/* ---- Time ------------------------------------------------------------------------------------ */

static uint64_t coarse_ns(void)
{
    struct timespec t = { 0, 0 };
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint32_t sonde__heap_coarse(void)
{
    const uint64_t now = coarse_ns();
    if (!sonde__heap_state.start_ns) sonde__heap_state.start_ns = now;
    return (uint32_t)((now - sonde__heap_state.start_ns) >> 20);
}
