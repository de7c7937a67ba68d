/* burner.c - a program to be sampled: a known amount of work, on deep stacks, without frame
 * pointers.
 *
 *     bench_burner UNITS CPU
 *
 * One thread does UNITS units of work of some 20 us each, at the bottom of 20 to 60 calls of three
 * functions that call each other, one unit in eight in a callback of libc's qsort. It prints
 *
 *     TID LOST CPU PROCESS
 *
 * the thread's id, the time that was taken from it, its CPU time and that of the whole process, in
 * nanoseconds.
 *
 * LOST are the interrupts and signals that it sees itself: it looks at the clock every half
 * microsecond, and what passes unseen in between was not its own. That tells what a sample costs
 * the program, where the times of two runs differ by a percent anyway. Turns of other threads do
 * not count; the profiler's own are in its CPU time. Interrupts take twice as long while others
 * keep the machine busy, which comes and goes, so work is cut into windows of some 20 ms: LOST is
 * what the whole would have lost had all of them been as the first quartile. The thread keeps to
 * one CPU, and the profiler best to others.
 *
 * Linked at a fixed address, so that `burn` is found by its number in any profile: in a stack that
 * reaches the thread's start it is followed by the two frames of libc that start a thread. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 16000, LOOK = 400, DEPTH_MIN = 20, DEPTHS = 41, SORTED = 64 };
enum { WINDOW = 1000, WINDOWS_MAX = 8192 }; /* units of a window; how many are kept */

#define OWN_NS 2000u           /* no longer without looking by itself */
#define INTERRUPT_NS 200000u   /* longer: another machine's turn */

static struct {
    uint64_t units;
    int cpu;
    pid_t tid;
    uint64_t last, lost;       /* ticks */
    uint64_t own, interrupt;   /* the limits above, in ticks */
    long switches;             /* how often another thread had its turn */
    uint64_t lost_ns, cpu_ns;
    uint64_t windows[WINDOWS_MAX]; /* what each lost, in ticks */
} the;

static volatile uint64_t sink;

static uint64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- Time ---------------------------------------------------------------------------------- */

/* Apart, so that frames of those who look stay small. */
static __attribute__((noinline)) void unseen(uint64_t passed)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    if (u.ru_nivcsw == the.switches && passed < the.interrupt) the.lost += passed;
    the.switches = u.ru_nivcsw;
    the.last = __builtin_ia32_rdtsc();
}

static void look(void)
{
    const uint64_t t = __builtin_ia32_rdtsc(), passed = t - the.last;
    the.last = t;
    if (passed > the.own) unseen(passed);
}

/* Ticks for each nanosecond, over 10 ms. */
static double tick_rate(void)
{
    const uint64_t begin = now(CLOCK_MONOTONIC), ticks = __builtin_ia32_rdtsc();
    uint64_t ns;
    while ((ns = now(CLOCK_MONOTONIC) - begin) < 10000000) continue;
    return (double)(__builtin_ia32_rdtsc() - ticks) / (double)ns;
}

/* ---- Work ---------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) { return x * 6364136223846793005u + 1442695040888963407u; }

static __attribute__((noinline)) uint64_t spin(uint64_t x, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        x = mix(x);
        __asm__ volatile("" : "+r"(x));
        if (i % LOOK == 0) look();
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

static void keep_to(int cpu)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (!sched_setaffinity(0, sizeof(one), &one)) return;
    fprintf(stderr, "bench_burner: cannot keep to CPU %d: %s\n", cpu, strerror(errno));
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Ticks that all units have lost, by the first quartile of windows; too few of them: by all. */
static double lost_ticks(uint64_t count)
{
    if (count < 4) return (double)the.lost;
    qsort(the.windows, count, sizeof(the.windows[0]), by_value);
    return (double)the.windows[count / 4] * (double)the.units / WINDOW;
}

static __attribute__((noinline)) void *burn(void *arg)
{
    (void)arg;
    the.tid = gettid();
    keep_to(the.cpu);
    const double rate = tick_rate();
    the.own = (uint64_t)(OWN_NS * rate);
    the.interrupt = (uint64_t)(INTERRUPT_NS * rate);
    the.last = __builtin_ia32_rdtsc();
    uint64_t x = 1, windows = 0, before = 0;
    for (uint64_t i = 0; i < the.units; i++) {
        x = mix(x);
        sink += blue(x >> 17, DEPTH_MIN + (unsigned)(x >> 40) % DEPTHS);
        if ((i + 1) % WINDOW || windows == WINDOWS_MAX) continue;
        the.windows[windows++] = the.lost - before;
        before = the.lost;
    }
    the.lost_ns = (uint64_t)(lost_ticks(windows) / rate);
    the.cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

int main(int argc, char **argv)
{
    the.units = argc == 3 ? strtoull(argv[1], NULL, 10) : 0;
    the.cpu = argc == 3 ? atoi(argv[2]) : 0;
    if (!the.units || the.cpu < 0 || the.cpu >= CPU_SETSIZE) {
        fputs("usage: bench_burner UNITS CPU\n", stderr);
        return 2;
    }
    pthread_t t;
    if (pthread_create(&t, NULL, burn, NULL) || pthread_join(t, NULL)) {
        fputs("bench_burner: cannot make a thread\n", stderr);
        return 1;
    }
    printf("%d %llu %llu %llu\n", (int)the.tid, (unsigned long long)the.lost_ns,
           (unsigned long long)the.cpu_ns, (unsigned long long)now(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
