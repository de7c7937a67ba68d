/* burner.c - a program to be sampled: a known amount of work, on deep stacks, without frame
 * pointers.
 *
 *     bench_burner UNITS
 *
 * One thread does UNITS units of work of some 20 us each, at the bottom of 20 to 60 calls of three
 * functions that call each other, one unit in eight in a callback of libc's qsort. It prints
 *
 *     TID CPU ON PROCESS
 *
 * the thread's id, its CPU time, the time that it was on a CPU, and the CPU time of the whole
 * process, in nanoseconds. What a profiler takes from the program is what ON is longer for the same
 * units. CPU time alone would not tell: where the kernel accounts interrupts apart, it lacks those
 * that the samples are taken in.
 *
 * Linked at a fixed address, so that `burn` is found by its number in any profile: in a stack that
 * reaches the thread's start it is followed by the two frames of libc that start a thread. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 16000, DEPTH_MIN = 20, DEPTHS = 41, SORTED = 64 };

static struct {
    uint64_t units;
    pid_t tid;
    uint64_t cpu_ns, on_ns;
} the;

static volatile uint64_t sink;

static uint64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Work ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) { return x * 6364136223846793005u + 1442695040888963407u; }

static uint64_t spin(uint64_t x, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        x = mix(x);
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    sink = spin(x, ROUNDS / (SORTED * 6)); /* some 6 comparisons an element */
    return (x > y) - (x < y);
}

static __attribute__((noinline)) uint64_t sort(uint64_t x)
{
    uint64_t values[SORTED];
    for (int i = 0; i < SORTED; i++) values[i] = x = mix(x);
    qsort(values, SORTED, sizeof(values[0]), compare);
    return values[SORTED / 2];
}

/* Frames of three sizes. The locals are read after the call, which keeps it from being a jump. */
static uint64_t red(uint64_t x, unsigned depth);

static __attribute__((noinline)) uint64_t blue(uint64_t x, unsigned depth)
{
    volatile uint64_t local[9] = { x };
    const uint64_t y = depth ? red(x + 1, depth - 1) : x % 8 ? spin(x, ROUNDS) : sort(x);
    return y + local[depth % 9];
}

static __attribute__((noinline)) uint64_t green(uint64_t x, unsigned depth)
{
    volatile uint64_t local[2] = { x };
    const uint64_t y = depth ? blue(x + 3, depth - 1) : x % 8 ? spin(x, ROUNDS) : sort(x);
    return y + local[depth % 2];
}

static __attribute__((noinline)) uint64_t red(uint64_t x, unsigned depth)
{
    volatile uint64_t local[4] = { x };
    const uint64_t y = !depth      ? spin(x, ROUNDS)
                       : depth % 3 ? green(x, depth - 1)
                                   : blue(x, depth - 1);
    return y + local[depth % 4];
}

/* ---- The thread ---------------------------------------------------------------------------- */

/* How long this thread was ready to run while another one had the CPU. */
static uint64_t waited_ns(void)
{
    unsigned long long run, wait;
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    const int got = f ? fscanf(f, "%llu %llu", &run, &wait) : 0;
    if (f) fclose(f);
    if (got == 2) return wait;
    fputs("bench_burner: cannot read /proc/thread-self/schedstat\n", stderr);
    exit(1);
}

static __attribute__((noinline)) void *burn(void *arg)
{
    (void)arg;
    the.tid = gettid();
    const uint64_t wait = waited_ns(), begin = now(CLOCK_MONOTONIC);
    uint64_t x = 1;
    for (uint64_t i = 0; i < the.units; i++) {
        x = mix(x);
        sink += blue(x >> 17, DEPTH_MIN + (unsigned)(x >> 40) % DEPTHS);
    }
    the.on_ns = now(CLOCK_MONOTONIC) - begin - (waited_ns() - wait);
    the.cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    the.units = argc == 2 ? strtoull(argv[1], &end, 10) : 0;
    if (!the.units || *end) {
        fputs("usage: bench_burner UNITS\n", stderr);
        return 2;
    }
    pthread_t t;
    if (pthread_create(&t, NULL, burn, NULL) || pthread_join(t, NULL)) {
        fputs("bench_burner: cannot make a thread\n", stderr);
        return 1;
    }
    printf("%d %llu %llu %llu\n", (int)the.tid, (unsigned long long)the.cpu_ns,
           (unsigned long long)the.on_ns, (unsigned long long)now(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
