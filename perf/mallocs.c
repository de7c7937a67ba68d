/* mallocs THREADS CALLS DEPTH: a program that does little but allocate. Each thread makes CALLS
 * calls (half of them frees) of mixed sizes with up to 65,536 blocks in use, from one of eight places
 * under DEPTH frames. Prints seconds of wall time, of CPU time, and its peak memory in kB. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { KEPT = 1 << 16, BLOCKS_A_DESCENT = 64 };

static uint64_t calls;
static int depth;

struct worker { uint64_t done, random; void *kept[KEPT]; };

static uint64_t next(struct worker *w)
{
    w->random ^= w->random << 13;
    w->random ^= w->random >> 7;
    w->random ^= w->random << 17;
    return w->random;
}

/* Mostly small, some large: 16 … 271 bytes, one in 64 up to 16 KiB. */
static size_t size_of(uint64_t r) { return r % 64 ? 16 + (r >> 8) % 256 : (r >> 8) % 16384; }

#define PLACE(n)                                                                               \
    static __attribute__((noinline)) void *place_##n(size_t size)                              \
    {                                                                                          \
        char *p = malloc(size);                                                                \
        if (p) p[0] = n;                                                                       \
        return p;                                                                              \
    }
PLACE(0) PLACE(1) PLACE(2) PLACE(3) PLACE(4) PLACE(5) PLACE(6) PLACE(7)
static void *(*const places[])(size_t) = { place_0, place_1, place_2, place_3,
                                           place_4, place_5, place_6, place_7 };

static __attribute__((noinline)) void allocate(struct worker *w)
{
    for (int i = 0; i < BLOCKS_A_DESCENT; i++) {
        const uint64_t r = next(w);
        void **slot = &w->kept[r >> 24 & (KEPT - 1)];
        free(*slot);
        *slot = places[r >> 40 & 7](size_of(r));
        w->done += 2;
    }
}

/* No tail calls: each level has its frame. */
#define AFTER_CALL() __asm__ volatile("" ::: "memory")

/* Two functions in turn, by the work: so that stacks differ. */
static __attribute__((noinline)) void right(struct worker *w, int left_over);

static __attribute__((noinline)) void left(struct worker *w, int left_over)
{
    if (left_over <= 0) allocate(w);
    else right(w, left_over - 1);
    AFTER_CALL();
}

static __attribute__((noinline)) void right(struct worker *w, int left_over)
{
    if (left_over <= 0) allocate(w);
    else if (next(w) & 1) left(w, left_over - 1);
    else right(w, left_over - 1);
    AFTER_CALL();
}

static void *work(void *arg)
{
    struct worker *w = arg;
    while (w->done < calls) {
        /* Of the deep ones only the last four turns are by chance: 16 stacks, not 2^depth. */
        if (depth > 4) right(w, 4);
        else allocate(w);
    }
    for (int i = 0; i < KEPT; i++) free(w->kept[i]);
    return NULL;
}

/* Down to the depth, then the work. */
static __attribute__((noinline)) void *descend(void *arg, int levels)
{
    void *p = levels > 0 ? descend(arg, levels - 1) : work(arg);
    AFTER_CALL();
    return p;
}

static void *run(void *arg) { return descend(arg, depth > 4 ? depth - 4 : 0); }

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    const int threads = atoi(argv[1]);
    calls = strtoull(argv[2], NULL, 10);
    depth = atoi(argv[3]);
    if (threads < 1 || threads > 64) return 2;
    static struct worker workers[64];
    pthread_t thread[64];
    const double start = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < threads; i++) {
        workers[i].random = UINT64_C(88172645463325252) + (uint64_t)i;
        if (pthread_create(&thread[i], NULL, run, &workers[i])) return 1;
    }
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("%.6f %.6f %ld\n", seconds(CLOCK_MONOTONIC) - start, seconds(CLOCK_PROCESS_CPUTIME_ID),
           u.ru_maxrss);
    return 0;
}
