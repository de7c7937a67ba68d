/* oversubscribed.c - a renderer that has a thread for each tile, several times as many as there are
 * CPUs, all of them busy. Work of a tile is spread over functions, none of which stands out. */
#include <pthread.h>
#include <sched.h>

#include "bench.h"

enum { THREADS_MAX = 64, TILE = 4096 };

static struct bench b;

struct tile { pthread_t thread; uint64_t random; uint32_t pixels[TILE]; };

BENCH_NOINLINE static void tile_shade(struct tile *t)
{
    for (unsigned i = 0; i < TILE; i++) t->pixels[i] += (uint32_t)bench_random(&t->random);
}

BENCH_NOINLINE static void tile_blend(struct tile *t)
{
    for (unsigned k = 0; k < 3; k++) {
        for (unsigned i = 1; i < TILE; i++) {
            t->pixels[i] = (t->pixels[i] ^ t->pixels[i - 1]) * 2654435761u;
        }
    }
}

BENCH_NOINLINE static void tile_pack(struct tile *t)
{
    for (unsigned i = 0; i < TILE; i++) {
        t->pixels[i] = __builtin_popcount(t->pixels[i]) * 0x01010101u + i % 7;
    }
}

static void *tile_render(void *arg)
{
    struct tile *t = arg;
    while (bench_running(&b)) {
        tile_shade(t);
        tile_blend(t);
        tile_pack(t);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct tile tiles[THREADS_MAX];
    cpu_set_t cpus;
    bench_options(&b, argc, argv);
    if (sched_getaffinity(0, sizeof(cpus), &cpus)) bench_fail("sched_getaffinity");
    unsigned count = (unsigned)CPU_COUNT(&cpus) * bench_between(&b.random, 4, 8);
    if (count > THREADS_MAX) count = THREADS_MAX;
    for (unsigned i = 0; i < count; i++) {
        tiles[i].random = bench_random(&b.random);
        if (pthread_create(&tiles[i].thread, NULL, tile_render, &tiles[i])) return 1;
    }
    for (unsigned i = 0; i < count; i++) pthread_join(tiles[i].thread, NULL);
    return 0;
}
