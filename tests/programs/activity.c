/* activity.c - a program that records operations, caches and bandwidth, and prints how many: what
 * reports are held against. With SECONDS, it goes on until then with load that rises and falls. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sonde/sonde.h"

static void pause_ms(long ms) { nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL); }

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* 20 operations of 1 ms or more, then errors of two types, a timeout and one that was cancelled. */
static void operations_do(void)
{
    struct sonde_op op;
    for (int i = 0; i < 20; i++) {
        sonde_op_begin(&op, "load");
        pause_ms(1);
        sonde_op_end(&op, SONDE_OK, NULL);
    }
    for (int i = 0; i < 7; i++) {
        sonde_op_begin(&op, "load");
        sonde_op_end(&op, SONDE_ERROR, i < 5 ? "io" : "parse");
    }
    sonde_op_begin(&op, "load");
    sonde_op_end(&op, SONDE_TIMEOUT, NULL);
    sonde_op_begin(&op, "save");
    sonde_op_end(&op, SONDE_CANCELLED, NULL);
}

/* Rounds of a hundredth of a second; how much is done in each changes by chance twice a second or
 * so, and the queue is as long. */
static void load_do(double seconds)
{
    const struct sonde_counter done = sonde_counter("activity_requests_total", "Requests.");
    const struct sonde_gauge queue = sonde_gauge("activity_queue_depth", "Waiting.");
    const struct sonde_gauge noise = sonde_gauge("activity_noise_queue", "Of no use.");
    const double start = now_s();
    uint64_t state = 1, load = 0;
    for (uint64_t round = 0; now_s() - start < seconds; round++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        if (round % 40 == 0) load = 20 + (state >> 33) % 200;
        sonde_counter_add(done, load);
        sonde_gauge_set(queue, (double)load);
        state = state * 6364136223846793005u + 1442695040888963407u;
        sonde_gauge_set(noise, (double)((state >> 33) % 100));
        pause_ms(10);
    }
}

int main(int argc, char **argv)
{
    const int rc = sonde_open(&(struct sonde_config){ .size = sizeof(struct sonde_config),
                                                      .name = "activity" });
    if (rc) return 1;
    operations_do();
    for (int i = 0; i < 1000; i++) sonde_cache_access("l1", i % 4 != 0);
    for (int i = 0; i < 250; i++) sonde_cache_access("l2", 0);
    sonde_bandwidth_in("disk", 1 << 20);
    sonde_bandwidth_in("net", 3000);
    sonde_bandwidth_out("net", 70000);
    if (argc > 1) load_do(atof(argv[1]));
    puts("load 28 8 save 1 1 io 5 parse 2 timeout 1 cancelled 1 l1 750/250 l2 0/250 disk 1048576/0 "
         "net 3000/70000");
    return 0;
}
