/* malloc_pairs CALLS PAIRS DEPTH: what an interposer adds to malloc and free, so that other load
 * counts little. The work of mallocs.c is done in windows of CALLS calls, by turns with malloc and
 * free and with the C library's own names for them, which no interposer sees; each way has its own
 * blocks. Two windows next to each other meet the same machine, so the ratio of the sums over many
 * pairs is steady where the time of a program is not. Pairs that took half as long again as the median
 * one were disturbed and do not count; a sample takes far less than that. (The median of the ratios
 * would leave out most samples: windows that are short enough have none.) Prints that ratio, and the
 * quartiles of the pairs' own. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

extern void *__libc_malloc(size_t size);
extern void __libc_free(void *p);

enum { KEPT = 1 << 16, PAIRS_MAX = 100000, WARM_UP = 500000 };

struct blocks { uint64_t random; void *kept[KEPT]; };

static struct blocks ours, theirs;
static double ratio[PAIRS_MAX], total[PAIRS_MAX];
static struct { double with, without; } pair[PAIRS_MAX];

static uint64_t next(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* Mostly small, some large: 16 … 271 bytes, one in 64 up to 16 KiB. */
static size_t size_of(uint64_t r) { return r % 64 ? 16 + (r >> 8) % 256 : (r >> 8) % 16384; }

#define WINDOW(name, allocate, release)                                                        \
    static __attribute__((noinline)) void name(struct blocks *b, int calls)                    \
    {                                                                                          \
        for (int i = 0; i < calls; i += 2) {                                                   \
            const uint64_t r = next(&b->random);                                               \
            void **slot = &b->kept[r >> 24 & (KEPT - 1)];                                      \
            release(*slot);                                                                    \
            char *p = allocate(size_of(r));                                                    \
            if (p) p[0] = 1;                                                                   \
            *slot = p;                                                                         \
        }                                                                                      \
    }
WINDOW(through, malloc, free)
WINDOW(past, __libc_malloc, __libc_free)

static __attribute__((noinline)) void descend(int depth, void (*window)(struct blocks *, int),
                                              struct blocks *b, int calls)
{
    if (depth > 0) descend(depth - 1, window, b, calls);
    else window(b, calls);
    __asm__ volatile("" ::: "memory"); /* no tail calls: each level has its frame */
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double took(int depth, void (*window)(struct blocks *, int), struct blocks *b, int calls)
{
    const double start = seconds();
    descend(depth, window, b, calls);
    return seconds() - start;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    const int calls = atoi(argv[1]), pairs = atoi(argv[2]), depth = atoi(argv[3]);
    if (calls < 2 || pairs < 1 || pairs > PAIRS_MAX || depth < 0) return 2;
    ours.random = theirs.random = UINT64_C(88172645463325252);
    took(depth, through, &ours, WARM_UP);
    took(depth, past, &theirs, WARM_UP);
    for (int i = 0; i < pairs; i++) {
        /* Neither is always the first. */
        double a = i & 1 ? took(depth, past, &theirs, calls) : 0;
        const double b = took(depth, through, &ours, calls);
        if (!(i & 1)) a = took(depth, past, &theirs, calls);
        pair[i].with = b;
        pair[i].without = a;
        ratio[i] = b / a;
        total[i] = a + b;
    }
    qsort(total, (size_t)pairs, sizeof(*total), compare);
    double with = 0, without = 0;
    for (int i = 0; i < pairs; i++) {
        if (pair[i].with + pair[i].without > 1.5 * total[pairs / 2]) continue;
        with += pair[i].with;
        without += pair[i].without;
    }
    qsort(ratio, (size_t)pairs, sizeof(*ratio), compare);
    printf("%.5f %.5f %.5f\n", with / without, ratio[pairs / 4], ratio[pairs * 3 / 4]);
    return 0;
}
