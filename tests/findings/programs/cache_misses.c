/* cache_misses.c - a server with a cache in front of its store that is far too small for what
 * is asked for: most look-ups miss. */
#include "bench.h"
#include "sonde/sonde.h"

enum { SLOTS_MAX = 4096, VALUE = 256 };

static struct { uint64_t key; char value[VALUE]; } cache[SLOTS_MAX];
static unsigned cache_slots;

BENCH_NOINLINE static void store_read(uint64_t key, char *value)
{
    for (unsigned k = 0; k < 40; k++) {
        for (unsigned i = 0; i < VALUE; i++) {
            value[i] = (char)(key = key * 6364136223846793005u + 1442695040888963407u);
        }
    }
}

BENCH_NOINLINE static const char *value_get(uint64_t key)
{
    /* PLANTED: too few slots */
    const unsigned slot = (unsigned)((key * 0x9e3779b97f4a7c15u >> 32) % cache_slots);
    const int hit = cache[slot].key == key;
    sonde_cache_access("values", hit);
    if (!hit) {
        store_read(key, cache[slot].value);
        cache[slot].key = key;
    }
    return cache[slot].value;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    cache_slots = bench_between(&b.random, 256, SLOTS_MAX);
    const unsigned keys = cache_slots * bench_between(&b.random, 5, 20);
    const double per_s = bench_between(&b.random, 5000, 15000);
    uint64_t sum = 0, n = 0;
    for (; bench_running(&b); n++) {
        sum += (unsigned char)*value_get(1 + bench_random(&b.random) % keys);
        const uint64_t at = b.begin_ns + (uint64_t)((double)n * 1e9 / per_s);
        if (at > bench_now_ns() + 1000000) bench_sleep_until(at);
    }
    return sum == 1;
}
