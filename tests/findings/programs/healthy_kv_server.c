/* healthy_kv_server.c - a key-value server whose cache holds nearly all that is asked for, at a
 * moderate rate. */
#include "bench.h"
#include "sonde/sonde.h"

enum { SLOTS = 1 << 14, VALUE = 128 };

static struct { uint64_t key; char value[VALUE]; } cache[SLOTS];
static volatile uint64_t sent;

BENCH_NOINLINE static void store_read(uint64_t key, char *value)
{
    for (unsigned i = 0; i < VALUE; i++) value[i] = (char)bench_random(&key);
}

BENCH_NOINLINE static const char *value_get(uint64_t key)
{
    const unsigned slot = (unsigned)(key * 0x9e3779b97f4a7c15u >> 50);
    const int hit = cache[slot].key == key;
    sonde_cache_access("values", hit);
    if (!hit) {
        store_read(key, cache[slot].value);
        cache[slot].key = key;
    }
    return cache[slot].value;
}

BENCH_NOINLINE static void answer_write(uint64_t key, const char *value)
{
    char line[VALUE * 2 + 32];
    int n = snprintf(line, sizeof(line), "VALUE %llu ", (unsigned long long)key);
    for (unsigned i = 0; i < VALUE; i++) line[n++] = "0123456789abcdef"[value[i] & 15];
    sent += (uint64_t)n;
}

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const unsigned keys = bench_between(&b.random, 200, 500);
    const double per_s = bench_between(&b.random, 5000, 40000);
    for (uint64_t n = 0; bench_running(&b); n++) {
        const uint64_t key = 1 + bench_random(&b.random) % keys;
        answer_write(key, value_get(key));
        const uint64_t at = b.begin_ns + (uint64_t)((double)n * 1e9 / per_s);
        if (at > bench_now_ns() + 1000000) bench_sleep_until(at);
    }
    return 0;
}
