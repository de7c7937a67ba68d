/* sweep.h - several loads, one heavier than the other: when the server is saturated, where the knee
 * is, and the search for the highest rate that meets objectives. Decisions only; who sends is
 * bench.h.
 *
 * Saturated: in a closed loop more concurrency brings less than 5 % more requests per second than
 * the best before; in an open loop less than 95 % of what was sent comes back in the window, or the
 * server fell behind.
 *
 * Knee: of a closed loop the load with the most power, rate by latency (Kleinrock 1979): before it
 * more load buys more rate than it costs latency, behind it less. Of an open loop the highest rate
 * that the server kept up with. */
#ifndef SONDE_BENCH_HTTP_SWEEP_H
#define SONDE_BENCH_HTTP_SWEEP_H

#include <stddef.h>

#include "bench/http/bench.h"

#define SONDE_LOAD_SWEEP_MAX 64u

struct sonde_load_point {
    double load;                 /* concurrency, or requests per second */
    double requests_per_s, output_per_s, good_ratio, good_low, good_high;
    double ttft_p50_s, ttft_p95_s, itl_p50_s, e2e_p50_s, e2e_p95_s; /* NaN = not known */
    double sent_per_s, failed_ratio;
    double e2e_mean_s;
    int behind;                  /* the server fell behind, or the schedule was not kept */
    int valid;
    char reason[160];            /* the first; "" = valid */
};

struct sonde_load_sweep {
    int open;
    struct sonde_load_point points[SONDE_LOAD_SWEEP_MAX];
    size_t count;
    int saturated;
    int knee;                    /* which point; -1 = not known */
};

/* One more point of what was measured. */
void sonde_load_sweep_add(struct sonde_load_sweep *s, double load,
                          const struct sonde_load_bench *b, const struct sonde_bench_result *r);
/* After each: 1 = the server is saturated. */
int sonde_load_sweep_saturated(const struct sonde_load_sweep *s);
void sonde_load_sweep_knee(struct sonde_load_sweep *s);

/* ---- The highest rate ------------------------------------------------------------------------ */

#define SONDE_LOAD_FIND_STEPS_MAX 24u
#define SONDE_LOAD_FIND_NARROW 1.05   /* passed and failed are so near: found */

enum sonde_load_answer { SONDE_LOAD_PASSED, SONDE_LOAD_FAILED, SONDE_LOAD_UNDECIDED };

/* Whether a share of requests meets the objectives, as its interval says. */
enum sonde_load_answer sonde_load_find_judge(const struct sonde_load_point *p, double share);

struct sonde_load_find {
    double passed, failed;       /* highest that passed, lowest that failed; 0 = none yet */
    double next;                 /* rate to try; 0 = it is over */
    unsigned steps;
};
void sonde_load_find_begin(struct sonde_load_find *f, double first);
/* UNDECIDED counts as failed: it was tried longer before. */
void sonde_load_find_told(struct sonde_load_find *f, enum sonde_load_answer answer);

#endif
