/* mem_memory.c - what the heap profiler needs of the kernel: pages, waiting, a clock. System calls
 * rather than the functions of their names, which are interposed. */
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "preload/mem.h"
#include "record/state.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define SPINS 200
#define WAIT_NS 2000000000u

void *sonde__mem_pages(uint64_t bytes)
{
    const long p = syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == -1) return NULL;
    madvise((void *)p, bytes, MADV_WIPEONFORK);
    return (void *)p;
}

void sonde__mem_pages_give(void *pages, uint64_t bytes)
{
    if (pages) syscall(SYS_munmap, pages, bytes);
}

/* Whoever holds it needs nanoseconds, but may be kept from running. */
int sonde__mem_lock_wait(uint32_t *lock)
{
    uint64_t until = 0;
    for (int i = 0;; i++) {
        if (!__atomic_load_n(lock, __ATOMIC_RELAXED) &&
            !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) {
            return 0;
        }
        if (i < SPINS) {
            sonde__arch_pause();
            continue;
        }
        sched_yield();
        const uint64_t now = sonde__mono_ns();
        if (!until) until = now + WAIT_NS;
        if (now > until) return -1;
    }
}

static uint64_t coarse_ns(void)
{
    struct timespec t = { 0, 0 };
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint32_t sonde__mem_coarse(void)
{
    const uint64_t now = coarse_ns();
    if (!sonde__mem_state.start_ns) sonde__mem_state.start_ns = now;
    return (uint32_t)((now - sonde__mem_state.start_ns) >> 20);
}
