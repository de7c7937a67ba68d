/* many_series.c - a program with many series that move: many_series COUNTERS GAUGES HISTOGRAMS
 * SECONDS
 * Says "ready" when all are there, then ten times a second counts, sets a level and records ten
 * values in each, until the time is over. For measuring what an agent costs. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sonde/sonde.h"

enum { SERIES_MAX = 20000, ROUND_MS = 100, RECORDS = 10 };

static struct sonde_counter counters[SERIES_MAX];
static struct sonde_gauge gauges[SERIES_MAX];
static struct sonde_hist hists[SERIES_MAX];

static unsigned number(int argc, char **argv, int i)
{
    const unsigned long n = argc > i ? strtoul(argv[i], NULL, 10) : 0;
    return n < SERIES_MAX ? (unsigned)n : SERIES_MAX;
}

static uint32_t random_u32(void)
{
    static uint32_t state = 2463534242u;
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    return state;
}

int main(int argc, char **argv)
{
    const unsigned c = number(argc, argv, 1), g = number(argc, argv, 2), h = number(argc, argv, 3);
    const unsigned long rounds = (argc > 4 ? strtoul(argv[4], NULL, 10) : 60) * 1000 / ROUND_MS;
    char name[64];
    for (unsigned i = 0; i < c; i++) {
        snprintf(name, sizeof(name), "many_%u_total", i);
        counters[i] = sonde_counter(name, "Counted.");
    }
    for (unsigned i = 0; i < g; i++) {
        snprintf(name, sizeof(name), "many_%u_level", i);
        gauges[i] = sonde_gauge(name, "A level.");
    }
    for (unsigned i = 0; i < h; i++) {
        snprintf(name, sizeof(name), "many_%u_seconds", i);
        hists[i] = sonde_hist(name, "Times.", 1e-9);
    }
    printf("ready\n");
    fflush(stdout);
    for (unsigned long n = 0; n < rounds; n++) {
        const struct timespec t = { .tv_nsec = ROUND_MS * 1000000L };
        for (unsigned i = 0; i < c; i++) sonde_counter_add(counters[i], random_u32() % 100);
        for (unsigned i = 0; i < g; i++) sonde_gauge_set(gauges[i], random_u32() * 1e-6);
        for (unsigned i = 0; i < h * RECORDS; i++) {
            sonde_hist_record(hists[i % h], 1000000 + random_u32() % 100000000);
        }
        nanosleep(&t, NULL);
    }
    return 0;
}
