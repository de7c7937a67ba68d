/* bench.c - benchmarks with sonde/bench.h: parameters, bytes, threads, and work that is not timed.
 *
 *     gcc -O2 examples/bench.c -Iinclude -o bench
 *     ./bench                         a short table
 *     sonde bench run ./bench         in random order and several processes, with intervals
 */
#include <sonde/bench.h>

/* What a tokenizer does with its vocabulary: look words up by their hash. */
static uint64_t hash_of(const char *text, size_t len)
{
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < len; i++) h = (h ^ (unsigned char)text[i]) * 1099511628211u;
    return h;
}

SONDE_BENCH(hash)
{
    const size_t len = (size_t)sonde_bench_param(state);
    char *text = (char *)malloc(len);
    if (!text) {
        sonde_bench_fail(state, "no memory");
        return;
    }
    memset(text, 'x', len);
    sonde_bench_bytes(state, len);
    SONDE_BENCH_LOOP(state) {
        const uint64_t h = hash_of(text, len);
        SONDE_BENCH_KEEP(h);
    }
    free(text);
}
SONDE_BENCH_PARAMS(hash, 4, 64, 1024);

/* Where two blocks lie to each other in their pages can make copying many times slower. So it is
 * not left to malloc: they are 1 KiB and whole pages apart. */
SONDE_BENCH(copy)
{
    const size_t bytes = (size_t)sonde_bench_param(state);
    char *block = (char *)calloc(2, bytes + 1024), *to = block + bytes + 1024;
    if (!block) {
        sonde_bench_fail(state, "no memory");
        return;
    }
    sonde_bench_bytes(state, bytes);
    SONDE_BENCH_LOOP(state) {
        memcpy(to, block, bytes);
        SONDE_BENCH_KEEP(to);
    }
    free(block);
}
SONDE_BENCH_RANGE(copy, 4096, 1 << 20, 16);

static int by_value(const void *a, const void *b)
{
    const unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return (x > y) - (x < y);
}

/* Sorting what is sorted already would be another benchmark: so it is filled anew each time. */
SONDE_BENCH(sort)
{
    enum { COUNT = 2000 };
    static unsigned values[COUNT];
    unsigned seed = 1;
    sonde_bench_items(state, COUNT);
    SONDE_BENCH_LOOP(state) {
        sonde_bench_pause(state);
        for (int i = 0; i < COUNT; i++) values[i] = seed = seed * 1664525u + 1013904223u;
        sonde_bench_resume(state);
        qsort(values, COUNT, sizeof(values[0]), by_value);
        SONDE_BENCH_CLOBBER();
    }
}

/* One counter that all threads want: the more of them, the less each gets done. */
static uint64_t shared_count;

SONDE_BENCH(shared_counter)
{
    sonde_bench_items(state, 1);
    SONDE_BENCH_LOOP(state) {
        __atomic_fetch_add(&shared_count, 1, __ATOMIC_RELAXED);
    }
}
SONDE_BENCH_THREADS(shared_counter, 1, 2, 4);

SONDE_BENCH_MAIN()
