/* tall - frames of 100 KB to 1 MB at every level, as no copy of a stack holds them, and for each
 * moment it is known which functions are on the stack: the innermost one tells.
 *
 *   tall [--seconds S] [--threads N] [--alternate | --holes]
 *
 * spin_deep is under main (or worker), deep_1 … deep_6; spin_back is called by deep_3 itself, time
 * and again after deep_4 has returned. With --alternate, spin_left is under left, middle, inner and
 * spin_right under right, middle, inner: frames of left and right are alike, so that only a word
 * far out tells them apart, and it changes every millisecond. --holes is the same with frames that
 * a copy has room for, in the middle of which is memory that is never used. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noinline, noclone))
#endif
#define FRAME(bytes)                                                                           \
    volatile char frame[bytes];                                                                \
    frame[0] = frame[sizeof(frame) - 1] = 1

static double seconds = 1;
static int alternate, holes;
static __thread double until;

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Some CPU time in the function that it is inlined into. */
#define SPIN(s)                                                                                \
    for (const double end = cpu_s() + (s); cpu_s() < end;) {                                   \
        for (volatile int i = 0; i < 20000; i++) { }                                           \
    }

NOINLINE static int spin_deep(void) { SPIN(0.005); return 1; }
NOINLINE static int spin_back(void) { SPIN(0.003); return 1; }
NOINLINE static int spin_left(void) { SPIN(0.001); return 1; }
NOINLINE static int spin_right(void) { SPIN(0.001); return 1; }

NOINLINE static int deep_6(void) { FRAME(100 << 10); return spin_deep() + frame[0]; }
NOINLINE static int deep_5(void) { FRAME(1 << 20); return deep_6() + frame[0]; }
NOINLINE static int deep_4(void) { FRAME(300 << 10); return deep_5() + frame[0]; }
NOINLINE static int deep_3(void)
{
    FRAME(1 << 20);
    int n = 0;
    while (cpu_s() < until) {
        n += deep_4() + frame[0];
        n += spin_back();
    }
    return n;
}
NOINLINE static int deep_2(void) { FRAME(1 << 20); return deep_3() + frame[0]; }
NOINLINE static int deep_1(void) { FRAME(200 << 10); return deep_2() + frame[0]; }

NOINLINE static int inner(int (*spin)(void)) { FRAME(100 << 10); return spin() + frame[0]; }
NOINLINE static int middle(int (*spin)(void)) { FRAME(1 << 20); return inner(spin) + frame[0]; }
NOINLINE static int left(void) { FRAME(500 << 10); return middle(spin_left) + frame[0]; }
NOINLINE static int right(void) { FRAME(500 << 10); return middle(spin_right) + frame[1]; }

/* Only the inner end of the frame is used. */
#define HOLE(bytes)                                                                            \
    volatile char frame[bytes];                                                                \
    frame[0] = 1

NOINLINE static int hole(int (*spin)(void)) { HOLE(20 << 10); return spin() + frame[0]; }
NOINLINE static int hole_left(void) { HOLE(64); return hole(spin_left) + frame[0]; }
NOINLINE static int hole_right(void) { HOLE(64); return hole(spin_right) + 2 * frame[0]; }

NOINLINE static void *hole_worker(void *arg)
{
    int n = 0;
    until = cpu_s() + seconds;
    while (cpu_s() < until) n += hole_left() + hole_right();
    *(int *)arg = n;
    return NULL;
}

NOINLINE static int work(void)
{
    FRAME(1 << 20);
    int n = frame[0];
    until = cpu_s() + seconds;
    if (!alternate) return deep_1() + n;
    while (cpu_s() < until) n += left() + right();
    return n;
}

NOINLINE static void *worker(void *arg)
{
    FRAME(1 << 20);
    *(int *)arg = work() + frame[0];
    return NULL;
}

int main(int argc, char **argv)
{
    FRAME(1 << 20);
    int threads = 0, result[16];
    pthread_t thread[16];
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seconds") && i + 1 < argc) seconds = strtod(argv[++i], NULL);
        else if (!strcmp(argv[i], "--threads") && i + 1 < argc) threads = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--alternate")) alternate = 1;
        else if (!strcmp(argv[i], "--holes")) holes = 1;
        else return 2;
    }
    if (threads < 0 || threads > 16) return 2;
    if (holes) threads = 1;
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&thread[i], NULL, holes ? hole_worker : worker, &result[i])) return 1;
    }
    const int n = holes ? 0 : work() + frame[0];
    for (int i = 0; i < threads; i++) pthread_join(thread[i], NULL);
    printf("%d\n", n);
    return 0;
}
