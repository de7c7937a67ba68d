/* two_parts - requests of two parts whose sizes are told, so that it is known how two runs differ.
 *
 *   two_parts HEAVY LIGHT SECONDS
 *
 * A request is a span of that name: HEAVY units of work in heavy() and LIGHT units in light(), in
 * random order, until SECONDS of CPU time are over. At the end it prints what it measured itself,
 * with the thread's CPU clock: "truth heavy NS", "truth light NS", "done requests COUNT". */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sonde/sonde.h"

enum { UNIT = 20000 };

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline __attribute__((always_inline)) uint64_t spin(uint64_t x)
{
    for (int i = 0; i < UNIT; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

static __attribute__((noinline, noclone)) uint64_t heavy(uint64_t x) { return spin(x) + 1; }
static __attribute__((noinline, noclone)) uint64_t light(uint64_t x) { return spin(x) + 2; }

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: two_parts HEAVY LIGHT SECONDS\n");
        return 2;
    }
    const int units[2] = { atoi(argv[1]), atoi(argv[2]) };
    const uint64_t all = (uint64_t)(atof(argv[3]) * 1e9);
    uint64_t truth[2] = { 0, 0 }, requests = 0, x = (uint64_t)getpid();
    uint64_t before = now();
    const uint64_t start = before;
    while (before - start < all) {
        SONDE_SCOPE("request");
        int left[2] = { units[0], units[1] };
        while (left[0] + left[1] > 0) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            const int light_next = (int)((x >> 33) % (uint64_t)(left[0] + left[1])) >= left[0];
            x = light_next ? light(x) : heavy(x);
            left[light_next]--;
            const uint64_t after = now();
            truth[light_next] += after - before;
            before = after;
        }
        requests++;
    }
    printf("truth heavy %llu\ntruth light %llu\ndone requests %llu\n", (unsigned long long)truth[0],
           (unsigned long long)truth[1], (unsigned long long)requests);
    return x == 1;
}
