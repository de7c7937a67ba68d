/* tick_clock.h - from a recorded process's ticks to time.
 *
 * Ticks are the TSC or nanoseconds of CLOCK_MONOTONIC, both the same for all processes of the
 * machine. So the agent calibrates by itself and counts back from now: what it reads is seconds
 * old, and an error of the rate is not multiplied by the uptime of the process, as it would be
 * if it counted on from when the process started. */
#ifndef SONDE_COLLECT_TICK_CLOCK_H
#define SONDE_COLLECT_TICK_CLOCK_H

#include <stdint.h>

struct sonde_tick_clock {
    uint64_t first_tsc, first_mono_ns;          /* where the calibration began */
    uint64_t now_tsc, now_mono_ns, now_real_ns; /* one instant on three clocks */
    double tsc_ns;                              /* nanoseconds per TSC tick */
};

void sonde_tick_clock_init(struct sonde_tick_clock *c);
/* Look at the clocks again. Within 10 ms of init it waits for the rest of them, once: with less
 * the rate would be worth nothing. */
void sonde_tick_clock_update(struct sonde_tick_clock *c);

/* Unix time of a tick, and a difference of ticks, in nanoseconds. */
uint64_t sonde_tick_unix_ns(const struct sonde_tick_clock *c, int tsc, uint64_t tick);
uint64_t sonde_tick_span_ns(const struct sonde_tick_clock *c, int tsc, uint64_t from,
                            uint64_t to);

#endif
