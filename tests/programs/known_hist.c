/* known_hist: records a distribution whose quantiles it knows, prints them, and goes on until it
 * is killed, so that a test can compare what comes out at the other end.
 *
 *   quantile Q VALUE    exact, by rank, in seconds
 *   below BOUND COUNT   values <= BOUND, a power of two
 *   count N, sum S, trace ID
 *   ready               all of the above is recorded
 *
 * Besides: known_requests_total{path=…} = 12345 with a path that needs every escape, and
 * known_clock_total, which follows the clock: its rate is 1000 a second whatever the load. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sonde/sonde.h"

enum { COUNT = 100000 };

static uint64_t seed = 20240229;

static double uniform(void) /* in (0, 1) */
{
    seed = seed * 6364136223846793005ull + 1442695040888963407ull;
    return ((double)(seed >> 12) + 0.5) / 4503599627370496.0;
}

/* A median of 20 ms and a long tail, as latencies have. */
static uint64_t lognormal_ns(void)
{
    const double normal = sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
    return (uint64_t)(0.020e9 * exp(normal));
}

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_truth(uint64_t *values)
{
    static const double quantiles[] = { 0.5, 0.9, 0.99 };
    uint64_t sum = 0;
    qsort(values, COUNT, sizeof(*values), ascending);
    for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
        const size_t rank = (size_t)ceil(quantiles[i] * COUNT);
        printf("quantile %g %.17g\n", quantiles[i], (double)values[rank - 1] * 1e-9);
    }
    for (int e = -10; e <= 0; e++) {
        size_t below = 0;
        while (below < COUNT && (double)values[below] * 1e-9 <= ldexp(1, e)) below++;
        printf("below %.17g %zu\n", ldexp(1, e), below);
    }
    for (size_t i = 0; i < COUNT; i++) sum += values[i];
    printf("count %d\nsum %.17g\n", COUNT, (double)sum * 1e-9);
}

static uint64_t clock_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

int main(void)
{
    static uint64_t values[COUNT];
    const int rc = sonde_open(NULL);
    if (rc != 0) {
        fprintf(stderr, "known_hist: cannot record: %s\n", sonde_strerror(rc));
        return 1;
    }
    const struct sonde_hist hist = sonde_hist("known_seconds", "Known values.", 1e-9);
    const struct sonde_trace trace = sonde_trace_new();
    for (size_t i = 0; i < COUNT; i++) {
        values[i] = lognormal_ns();
        if (i + 1 < COUNT) {
            sonde_hist_record(hist, values[i]);
        } else {
            const struct sonde_trace before = sonde_trace_set(trace);
            sonde_hist_record_traced(hist, values[i]);
            sonde_trace_set(before);
        }
    }
    const struct sonde_metric metric = { .size = sizeof(metric), .name = "known_requests_total",
                                         .help = "Requests.",
                                         .labels = (const char *const[]){ "path", NULL } };
    struct sonde_family requests;
    if (sonde_define(SONDE_COUNTER, &metric, &requests) != 0) return 1;
    const char *path[] = { "/a\"b\\c\nd\xc3\xa4" };
    sonde_counter_add(sonde_counter_bind(requests, path), 12345);

    print_truth(values);
    printf("trace %016llx%016llx\nready\n", (unsigned long long)trace.hi,
           (unsigned long long)trace.lo);
    fflush(stdout);

    const struct sonde_counter clock =
        sonde_counter("known_clock_total", "Milliseconds that passed.");
    uint64_t counted = clock_ms();
    for (;;) {
        const uint64_t now = clock_ms();
        sonde_counter_add(clock, now - counted);
        counted = now;
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
}
