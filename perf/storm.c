/* storm THREADS BLOCKS: a program that allocates all over the place. Each thread makes BLOCKS blocks of
 * 16 bytes to 64 KB, small ones more often, and keeps some thousands of them; each new one takes the
 * place of one that is chosen at random and freed. Every block is asked for by another way down
 * through the code: eight times in turn one of two functions is called by chance, so that there are
 * 2^8 stacks, of 13 frames with those of the C library. Prints seconds of wall time, of CPU time, and its peak
 * memory in kB. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { KEPT = 4096, LEVELS = 8 };

struct storm { uint64_t random; unsigned char *kept[KEPT]; };

static uint64_t blocks;

static uint64_t next(struct storm *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

/* As many between 16 and 32 as between 32 and 64, and so on up to 64 KB. */
static size_t size_of(uint64_t r)
{
    const size_t least = (size_t)16 << r % 12;
    return least + (r >> 8) % least;
}

static __attribute__((noinline)) unsigned char *make(struct storm *s)
{
    const size_t size = size_of(next(s));
    unsigned char *p = malloc(size);
    if (!p) abort();
    p[0] = p[size - 1] = 1;
    return p;
}

/* No tail calls: each level has its frame. */
#define AFTER_CALL() __asm__ volatile("" ::: "memory")

static __attribute__((noinline)) unsigned char *right(struct storm *s, unsigned turns, int levels);

static __attribute__((noinline)) unsigned char *left(struct storm *s, unsigned turns, int levels)
{
    unsigned char *p = !levels     ? make(s)
                       : turns & 1 ? right(s, turns >> 1, levels - 1)
                                   : left(s, turns >> 1, levels - 1);
    AFTER_CALL();
    return p;
}

static __attribute__((noinline)) unsigned char *right(struct storm *s, unsigned turns, int levels)
{
    unsigned char *p = !levels     ? make(s)
                       : turns & 1 ? right(s, turns >> 1, levels - 1)
                                   : left(s, turns >> 1, levels - 1);
    AFTER_CALL();
    return p;
}

static void *work(void *arg)
{
    struct storm *s = arg;
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t r = next(s);
        unsigned char **slot = &s->kept[r % KEPT];
        free(*slot);
        *slot = left(s, (unsigned)(r >> 32), LEVELS);
    }
    for (int i = 0; i < KEPT; i++) free(s->kept[i]);
    return NULL;
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    static struct storm storms[64];
    pthread_t thread[64];
    const int threads = atoi(argv[1]);
    blocks = strtoull(argv[2], NULL, 10);
    if (threads < 1 || threads > 64) return 2;
    const double start = seconds(CLOCK_MONOTONIC);
    for (int i = 0; i < threads; i++) {
        storms[i].random = UINT64_C(88172645463325252) + (uint64_t)i * 7;
        if (pthread_create(&thread[i], NULL, work, &storms[i])) return 1;
    }
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    printf("%.6f %.6f %ld\n", seconds(CLOCK_MONOTONIC) - start, seconds(CLOCK_PROCESS_CPUTIME_ID),
           u.ru_maxrss);
    return 0;
}
