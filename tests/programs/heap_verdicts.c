/* heap_verdicts.c - memory that is used in all the ways there are, for verdicts to be right about:
 *   heap_verdicts SECONDS
 * One leak (8 bytes, 100,000 times), one cache that fills ever more slowly, one pool that grows and
 * then shrinks to nothing, one ring, something that is loaded once, and replies that are freed at
 * once. Everything follows the clock, not the number of rounds: on a busy machine a round does
 * more. Prints "ready" when it begins and the leak's line number at the end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sonde/sonde.h"

enum { LEAKS = 100000, SLOTS = 2000, BLOCKS = 1000, RING = 64, LOADED = 4 << 20 };

void *leaked[LEAKS], *slots[SLOTS], *blocks[BLOCKS], *ring[RING], *loaded; /* seen from outside: the
    compiler cannot leave allocations out */

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *get(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p) abort();
    memset(p, 1, bytes);
    return p;
}

__attribute__((noinline)) static void load(void) { loaded = get(LOADED); }

static int leak_line;

__attribute__((noinline)) static void leak(size_t until)
{
    static size_t count;
    for (; count < until && count < LEAKS; count++) {
        leak_line = __LINE__ + 1;
        leaked[count] = malloc(8);
        if (!leaked[count]) abort();
    }
}

__attribute__((noinline)) static void fill_cache(size_t until)
{
    static size_t count;
    for (; count < until && count < SLOTS; count++) slots[count] = get(1000);
}

__attribute__((noinline)) static void use_pool(size_t wanted)
{
    static size_t count;
    while (count < wanted && count < BLOCKS) blocks[count++] = get(5000);
    while (count > wanted) free(blocks[--count]);
}

__attribute__((noinline)) static void push_ring(void)
{
    static size_t at;
    free(ring[at % RING]);
    ring[at % RING] = get(1000 + 500 * (at % 3));
    at++;
}

__attribute__((noinline)) static void reply(void)
{
    SONDE_SCOPE("reply");
    volatile char *p = get(100000);
    p[5] = 1;
    free((void *)(uintptr_t)p);
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 10, start = now_s();
    const struct sonde_pool cache = sonde_pool("cache");
    load();
    for (int i = 0; i < RING; i++) push_ring();
    printf("ready\n");
    fflush(stdout);
    for (double f = 0; f < 1; f = (now_s() - start) / seconds) {
        leak((size_t)(f * LEAKS));
        const size_t filled = (size_t)(SLOTS * (1 - exp(-3 * f)));
        fill_cache(filled);
        sonde_pool_set(cache, filled * 1000);
        use_pool((size_t)(BLOCKS * (f < 0.4 ? f / 0.4 : f < 0.8 ? (0.8 - f) / 0.4 : 0)));
        for (int i = 0; i < 10; i++) push_ring();
        reply();
        const struct timespec pause = { .tv_nsec = 5000000 };
        nanosleep(&pause, NULL);
    }
    printf("%d\n", leak_line);
    return 0;
}
