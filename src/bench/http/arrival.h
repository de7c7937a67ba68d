/* arrival.h - when requests of an open loop are due.
 *
 * A process has two parts: how regular it is (constant, Poisson, gamma, bursts), and how the rate
 * changes over time (stages, each with a rate at its begin and one at its end). The first is made
 * with a mean gap of 1, as positions on an axis of "requests expected so far"; the second says
 * when so many are expected, which is found by solving a square. So every kind goes with every
 * course, and a ramp of Poisson arrivals is exactly that.
 *
 *   constant      the i-th at position i
 *   poisson       gaps exponential
 *   gamma:SHAPE   gaps gamma: SHAPE < 1 comes in clusters, 1 is Poisson, > 1 is more regular
 *   burst:N       N at once, every N positions */
#ifndef SONDE_BENCH_HTTP_ARRIVAL_H
#define SONDE_BENCH_HTTP_ARRIVAL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "bench/http/random.h"

#define SONDE_LOAD_STAGES_MAX 1000u
#define SONDE_LOAD_RATE_MAX 1e7 /* per second */

enum sonde_load_arrival_kind {
    SONDE_LOAD_CONSTANT, SONDE_LOAD_POISSON, SONDE_LOAD_GAMMA, SONDE_LOAD_BURST
};

struct sonde_load_stage {
    double begin_rate, end_rate; /* requests per second */
    double seconds;              /* INFINITY = without end; only the last */
};

struct sonde_load_arrival {
    enum sonde_load_arrival_kind kind;
    double shape;                /* GAMMA */
    uint32_t burst;              /* BURST */
    struct sonde_load_stage *stages; /* owned */
    size_t stage_count;
    /* Where it is. */
    struct sonde_load_random random;
    double position;             /* of the last */
    uint64_t made;
    size_t stage;                /* in which the last was … */
    double stage_position, stage_s; /* … and where that began */
};

/* "constant", "poisson", "gamma:0.5", "burst:8". SONDE_EINVAL and why. */
int sonde_load_arrival_parse(const char *text, struct sonde_load_arrival *a,
                             struct sonde_err *err);
/* "10:30s,20:30s,5..50:1m": rate or ramp, and for how long. Replaces the stages. */
int sonde_load_stages_parse(const char *text, struct sonde_load_arrival *a, struct sonde_err *err);
/* One stage. 0 or SONDE_ENOMEM. */
int sonde_load_arrival_stage(struct sonde_load_arrival *a, double begin_rate, double end_rate,
                             double seconds);
void sonde_load_arrival_release(struct sonde_load_arrival *a);

/* From the beginning, with this seed. */
void sonde_load_arrival_start(struct sonde_load_arrival *a, uint64_t seed);
/* When the next is due, from the beginning: 0, or SONDE_ENOENT: all stages are over. */
int sonde_load_arrival_next(struct sonde_load_arrival *a, uint64_t *at_ns);

/* Requests expected between two times, in seconds from the beginning. */
double sonde_load_arrival_expected(const struct sonde_load_arrival *a, double from_s, double to_s);
/* Of all stages; INFINITY = without end. */
double sonde_load_arrival_seconds(const struct sonde_load_arrival *a);
/* 1: the rate is the same all the time. */
int sonde_load_arrival_level(const struct sonde_load_arrival *a);

/* "30s", "1m", "500ms", "1.5h", "30" (seconds): *out in seconds. 0 or SONDE_EINVAL. */
int sonde_load_seconds_parse(const char *text, size_t len, double *out);

#endif
