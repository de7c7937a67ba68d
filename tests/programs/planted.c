/* planted - requests whose cost is known: for comparisons of runs of one program with another that
 * is slower by so much.
 *
 *   planted PERCENT REQUESTS [SEED]
 *
 * A request is a span of that name. It takes about 1 ms of CPU time, half more or less at random,
 * and PERCENT more than that. Without SEED no two runs have the same sizes, as real load has not.
 * At the end it prints "done requests COUNT cpu SECONDS", by its own clock. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "sonde/sonde.h"

enum { UNIT = 1000, UNITS = 1000 };

static uint64_t planted_work(uint64_t x, uint64_t units)
{
    for (uint64_t i = 0; i < units * UNIT; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x));
    }
    return x;
}

int main(int argc, char **argv)
{
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: planted PERCENT REQUESTS [SEED]\n");
        return 2;
    }
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t x = argc > 3 ? (uint64_t)strtoull(argv[3], NULL, 10)
                          : (uint64_t)getpid() ^ ((uint64_t)t.tv_nsec << 20);
    const double factor = 1 + atof(argv[1]) / 100;
    const long requests = atol(argv[2]);
    for (long i = 0; i < requests; i++) {
        SONDE_SCOPE("request");
        x = x * 6364136223846793005u + 1442695040888963407u;
        const double size = UNITS * (0.5 + (double)(x >> 40) / (1 << 24));
        x = planted_work(x, (uint64_t)(size * factor));
    }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    printf("done requests %ld cpu %.6f\n", requests, (double)t.tv_sec + (double)t.tv_nsec / 1e9);
    return x == 1;
}
