/* bare.c - see bare.h. */
#include "bare.h"

#include "harness.h"

static __thread uint64_t local;
static struct { uint64_t word; char pad[120]; } own[2] __attribute__((aligned(128)));
static uint64_t shared __attribute__((aligned(128)));
static double shared_double __attribute__((aligned(128)));
static struct { uint64_t bucket[1024], sum; } plain_hist[2] __attribute__((aligned(128)));
static struct { uint64_t word[8]; } ring[2][4096] __attribute__((aligned(128)));

uint64_t bare_loop(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n) {}
    return 0;
}

static void __attribute__((noinline)) empty(uint64_t off, uint64_t n)
{
    __asm__ volatile("" ::"r"(off), "r"(n));
}

uint64_t bare_call(uint64_t n, unsigned thread)
{
    BENCH_LOOP(i, n) empty(thread, 1);
    return 0;
}

uint64_t bare_add_local(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n) __asm__ volatile("addq $1, %0" : "+m"(local));
    return 0;
}

uint64_t bare_add_plain(uint64_t n, unsigned thread)
{
    BENCH_LOOP(i, n) __asm__ volatile("addq $1, %0" : "+m"(own[thread].word));
    return 0;
}

uint64_t bare_add_locked(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n) __atomic_fetch_add(&shared, 1, __ATOMIC_RELAXED);
    return 0;
}

uint64_t bare_two_adds(uint64_t n, unsigned thread)
{
    const uint64_t *v = bench_latencies_ns();
    BENCH_LOOP(i, n)
    {
        const uint64_t value = v[i % BENCH_LATENCIES];
        __asm__ volatile("addq $1, %0" : "+m"(plain_hist[thread].bucket[value % 1024]));
        __asm__ volatile("addq %1, %0" : "+m"(plain_hist[thread].sum) : "r"(value));
    }
    return 0;
}

uint64_t bare_store(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n) __atomic_store_n(&shared, i, __ATOMIC_RELAXED);
    return 0;
}

uint64_t bare_cas_double(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n)
    {
        double old, next;
        __atomic_load(&shared_double, &old, __ATOMIC_RELAXED);
        do {
            next = old + 1;
        } while (!__atomic_compare_exchange(&shared_double, &old, &next, 1, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED));
    }
    return 0;
}

uint64_t bare_rdtsc(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n) bench_use(__builtin_ia32_rdtsc());
    return 0;
}

uint64_t bare_clock_gettime(uint64_t n, unsigned thread)
{
    (void)thread;
    BENCH_LOOP(i, n) bench_use(bench_now_ns());
    return 0;
}

uint64_t bare_span(uint64_t n, unsigned thread)
{
    BENCH_LOOP(i, n)
    {
        const uint64_t start = __builtin_ia32_rdtsc();
        bench_clobber();
        const uint64_t end = __builtin_ia32_rdtsc();
        uint64_t *w = ring[thread][i % 4096].word;
        w[0] = i, w[1] = start, w[2] = end;
        for (int j = 3; j < 8; j++) w[j] = n;
    }
    return 0;
}
