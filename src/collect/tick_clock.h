/* tick_clock.h - from a recorded process's ticks to time.
 *
 * Ticks are the TSC or nanoseconds of CLOCK_MONOTONIC, both the same for all processes of the
 * machine. So the agent calibrates by itself and counts back from now: what it reads is seconds
 * old, and an error of the rate is not multiplied by the uptime of the process, as it would be
 * if it counted on from when the process started.
 *
 * Samples of the CPU are joined with spans by time, and spans may be shorter than a millisecond and
 * follow each other at once: a microsecond counts. So between two looks at the clocks ticks are
 * interpolated (the kernel steers CLOCK_MONOTONIC, the TSC runs free), and everything that turns
 * CLOCK_MONOTONIC into unix time does it by one offset. */
#ifndef SONDE_COLLECT_TICK_CLOCK_H
#define SONDE_COLLECT_TICK_CLOCK_H

#include <stdint.h>

struct sonde_tick_clock {
    uint64_t first_tsc, first_mono_ns; /* where the calibration began */
    uint64_t last_tsc, last_mono_ns;   /* at the last look but one; 0 0 = there was none */
    uint64_t now_tsc, now_mono_ns;     /* at the last look */
    uint64_t unix_ns;                  /* unix time at 0 of CLOCK_MONOTONIC, then */
    double tsc_ns;                     /* nanoseconds per TSC tick, over all */
};

/* Unix time in nanoseconds less CLOCK_MONOTONIC, the same for all callers as long as nobody sets
 * the clock. Any thread. */
uint64_t sonde_unix_offset_ns(void);

/* Go on with the offset of an agent before this one, if it is right to a millisecond: then times of
 * a request that both saw a part of are of one clock. */
void sonde_unix_offset_adopt(uint64_t offset_ns);

void sonde_tick_clock_init(struct sonde_tick_clock *c);
/* Look at the clocks again. Within 10 ms of init it waits for the rest of them, once: with less
 * the rate would be worth nothing. */
void sonde_tick_clock_update(struct sonde_tick_clock *c);

/* Unix time of a tick, and a difference of ticks, in nanoseconds. */
uint64_t sonde_tick_unix_ns(const struct sonde_tick_clock *c, int tsc, uint64_t tick);
uint64_t sonde_tick_span_ns(const struct sonde_tick_clock *c, int tsc, uint64_t from,
                            uint64_t to);

#endif
