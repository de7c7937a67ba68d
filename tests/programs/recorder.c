/* recorder.c - a program whose records are known: recorder [COUNT [SECONDS [EXIT]]]
 * Counts COUNT, records COUNT histogram values of 1 ms and as many spans, says "ready" on the
 * standard output, sleeps SECONDS and returns EXIT. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "sonde/sonde.h"

int main(int argc, char **argv)
{
    const unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 10;
    const double seconds = argc > 2 ? strtod(argv[2], NULL) : 0;
    const struct sonde_counter c = sonde_counter("rec_events_total", "Events.");
    const struct sonde_gauge g = sonde_gauge("rec_level", "Level.");
    const struct sonde_hist h = sonde_hist("rec_wait_seconds", "Waiting.", 1e-9);
    const uint32_t name = sonde_name("rec.step");
    for (unsigned long i = 0; i < count; i++) {
        struct sonde_span s;
        sonde_span_begin(&s, name);
        sonde_counter_add(c, 1);
        sonde_hist_record(h, 1000000);
        sonde_span_end(&s, SONDE_OK);
    }
    sonde_gauge_set(g, 2.5);
    printf("ready\n");
    fflush(stdout);
    const struct timespec t = { .tv_sec = (time_t)seconds,
                                .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
    return argc > 3 ? atoi(argv[3]) : 0;
}
