/* writer.c - a program with many series that all change, for measuring the agent.
 *
 *     bench_writer SERIES UPDATES-A-SECOND SECONDS
 *
 * Of ten series seven are counters, two gauges and one a histogram; each update touches all. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "harness.h"
#include "sonde/sonde.h"

static long number(const char *text, long min, long max)
{
    char *end;
    const long v = strtol(text, &end, 10);
    if (end == text || *end || v < min || v > max) {
        fprintf(stderr, "bench_writer: %s is not a number from %ld to %ld\n", text, min, max);
        exit(2);
    }
    return v;
}

static struct sonde_family define(enum sonde_type type, const char *name, long series)
{
    static const char *const labels[] = { "id", NULL };
    const struct sonde_metric m = { .size = sizeof(m), .name = name, .help = "h",
                                    .labels = labels, .scale = type == SONDE_HISTOGRAM ? 1e-9 : 1,
                                    .series_max = (uint32_t)series };
    struct sonde_family f;
    const int rc = sonde_define(type, &m, &f);
    if (rc) {
        fprintf(stderr, "bench_writer: %s: %s\n", name, sonde_strerror(rc));
        exit(1);
    }
    return f;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fputs("usage: bench_writer SERIES UPDATES-A-SECOND SECONDS\n", stderr);
        return 2;
    }
    const long series = number(argv[1], 1, 100000), rate = number(argv[2], 1, 1000);
    const long seconds = number(argv[3], 1, 86400);
    const struct sonde_family c = define(SONDE_COUNTER, "bench_writer_total", series);
    const struct sonde_family g = define(SONDE_GAUGE, "bench_writer_level", series);
    const struct sonde_family h = define(SONDE_HISTOGRAM, "bench_writer_seconds", series);
    const uint64_t *latency = bench_latencies_ns();
    const struct timespec pause = { .tv_sec = rate == 1,
                                    .tv_nsec = rate == 1 ? 0 : 1000000000 / rate };
    for (long update = 0; update < seconds * rate; update++) {
        for (long i = 0; i < series; i++) {
            char id[24];
            snprintf(id, sizeof(id), "%ld", i);
            const char *values[] = { id };
            if (i % 10 < 7) {
                sonde_counter_add(sonde_counter_bind(c, values), 1 + (uint64_t)i);
            } else if (i % 10 < 9) {
                sonde_gauge_set(sonde_gauge_bind(g, values), (double)(update % 97));
            } else {
                const uint64_t value = latency[(size_t)(update + i) % BENCH_LATENCIES];
                sonde_hist_record(sonde_hist_bind(h, values), value);
            }
        }
        nanosleep(&pause, NULL);
    }
    return 0;
}
