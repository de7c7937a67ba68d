/* steps.c - runs through code that is hard to unwind, to be stepped through one instruction at a
 * time (tests/unit/collect/aspace/test_steps.c): recursion, alloca, large frames, realigned
 * stacks, callbacks from libc, lazy binding, signal handlers, the vDSO, longjmp. Compiled with
 * -O2 -fomit-frame-pointer. Prints a sum, so that nothing is optimized away. */
#include <alloca.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile uint64_t sum;
static jmp_buf back;

NOINLINE static uint64_t recurse(uint64_t n, uint64_t a, uint64_t b)
{
    if (!n) return a ^ b;
    const uint64_t below = recurse(n - 1, b + n, a * 3);
    return below + recurse(0, below, n);
}

NOINLINE static uint64_t with_alloca(size_t n)
{
    char *p = alloca(n * 16 + 1);
    memset(p, (int)n, n * 16);
    sum += (uint64_t)p[n];
    return n ? with_alloca(n - 1) + (uint64_t)p[0] : 0;
}

NOINLINE static uint64_t large_frame(uint64_t n)
{
    volatile char room[20000];
    room[n % sizeof(room)] = (char)n;
    room[sizeof(room) - 1] = 1;
    return recurse(2, (uint64_t)room[n % sizeof(room)], n) + (uint64_t)room[sizeof(room) - 1];
}

__attribute__((force_align_arg_pointer)) NOINLINE static uint64_t realigned(uint64_t n)
{
    volatile uint64_t v[8] = { n };
    return recurse(2, v[0], n);
}

/* Arguments on the stack, a variable frame and an aligned local: the frame is reached through a
 * register that the prologue sets up (r10). */
NOINLINE static uint64_t realigned_with_arguments(int a, int b, int c, int d, int e, int f, int g,
                                                  int h, size_t n)
{
    volatile char aligned[64] __attribute__((aligned(64)));
    char *p = alloca(n + 8);
    memset(p, g, n + 8);
    aligned[(size_t)h % 64] = p[n];
    const uint64_t r = recurse(2, (uint64_t)(a + b + c + d), (uint64_t)(e + f + g + h));
    return r + (uint64_t)aligned[(size_t)h % 64] + (uint64_t)p[n / 2];
}

typedef float floats __attribute__((vector_size(32)));

__attribute__((target("avx2"))) NOINLINE static uint64_t with_avx(uint64_t n)
{
    volatile floats v = { 1, 2, 3, 4, 5, 6, 7, (float)n };
    const uint64_t r = recurse(3, n, 1);
    floats w = v;
    w *= w;
    v = w;
    return r + (uint64_t)v[7];
}

static int compare(const void *a, const void *b)
{
    const int x = *(const int *)a, y = *(const int *)b;
    if (x == y) sum += recurse(1, 1, 2);
    return x < y ? -1 : x > y;
}

NOINLINE static void sort(void)
{
    int v[24];
    for (int i = 0; i < 24; i++) v[i] = i * 7 % 24 / 2;
    qsort(v, 24, sizeof(v[0]), compare);
    const int key = 5;
    sum += (uint64_t)*(int *)bsearch(&key, v, 24, sizeof(v[0]), compare);
}

NOINLINE static uint64_t variadic(int n, ...)
{
    va_list ap;
    uint64_t r = 0;
    va_start(ap, n);
    for (int i = 0; i < n; i++) r += (uint64_t)va_arg(ap, double);
    va_end(ap);
    return r;
}

NOINLINE static void libc(void)
{
    char text[200];
    double d = strtod("3.25e3", NULL);
    sum += (uint64_t)snprintf(text, sizeof(text), "%d %s %.6f %#lx", 42, "text", d, sum);
    sum += strlen(text) + strtoul(strchr(text, ' ') ? "77" : "1", NULL, 0);
    char *p = malloc(3000);
    if (!p) abort();
    memset(p, 1, 3000);
    memmove(p + 1, p, 2000);
    sum += (uint64_t)memcmp(p, p + 1, 100);
    p = realloc(p, 300000);
    if (!p) abort();
    free(p);
    struct stat st;
    sum += (uint64_t)stat("/", &st) + variadic(3, 1.0, 2.0, d) + (uint64_t)cbrt(d);
    const time_t t = 86400;
    struct tm tm;
    gmtime_r(&t, &tm);
    sum += strftime(text, sizeof(text), "%Y-%m-%d %H:%M", &tm);
    sum += getenv("SONDE_NO_SUCH_VARIABLE") ? 1 : 0;
}

NOINLINE static void clocks(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    sum += (uint64_t)t.tv_sec / 1000000000;
    clock_gettime(CLOCK_REALTIME_COARSE, &t);
    sum += (uint64_t)(time(NULL) < 0);
}

NOINLINE static void nested(int sig)
{
    sum += recurse(2, (uint64_t)sig, 1);
}

static void handler(int sig)
{
    sum += realigned((uint64_t)sig);
    if (sig == SIGUSR1) raise(SIGUSR2);
    nested(sig);
}

NOINLINE static void jump(int n)
{
    if (!n && sum) longjmp(back, 1);
    if (n) jump(n - 1);
    sum++;
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) __asm__ volatile("int3"); /* whoever steps through it may begin here */
    const struct sigaction on_signal = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigaction(SIGUSR1, &on_signal, NULL);
    sigaction(SIGUSR2, &on_signal, NULL);
    sum += recurse(12, 1, 2);
    sum += with_alloca(5);
    sum += large_frame(77);
    sum += realigned(5);
    sum += realigned_with_arguments(1, 2, 3, 4, 5, 6, 7, 8, 40);
    if (__builtin_cpu_supports("avx2")) sum += with_avx(9);
    sort();
    libc();
    clocks();
    raise(SIGUSR1);
    if (!setjmp(back)) jump(4);
    libc(); /* with everything bound */
    printf("%d\n", sum != 0);
    return 0;
}
