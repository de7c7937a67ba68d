/* pairs.h - two arms measured in pairs until it is clear which is better, or that neither is by an
 * amount that matters: `sonde ab`.
 *
 *   pair 1: B A   pair 2: A B   pair 3: B A …      which comes first is drawn for each pair
 *
 * After every pair the sequential comparison (analyze/sequential.h) is looked at, which may be done
 * as often as one likes. What an arm is, the caller knows: it measures one and hands back a value
 * for each figure. One figure leads and decides when to stop; the others are compared beside it,
 * each with an interval that is valid whenever it stops. */
#ifndef SONDE_BENCH_AB_PAIRS_H
#define SONDE_BENCH_AB_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#include "analyze/sequential.h"
#include "base/buf.h"
#include "base/err.h"
#include "bench/figure.h"
#include "bench/result.h"

#define SONDE_PAIRS_FIGURES_MAX 32u
#define SONDE_PAIRS_MAX 100000u

struct sonde_pairs_figure {
    const char *name;        /* "wall_s"; static, as the others */
    const char *text;        /* "wall time" */
    const char *unit;        /* as result.h has it */
    int better;
};

struct sonde_pairs_options {
    const struct sonde_pairs_figure *figures;
    size_t figure_count;
    size_t lead;             /* the figure that decides */
    double detect;           /* relative difference that matters; 0 = stop only for a difference */
    uint64_t warmup;         /* pairs that are not counted */
    uint64_t pairs_max;
    double time_max_s;       /* no pair begins later; 0 = no limit */
    uint64_t seed;
    /* Measure an arm, 0 = a, 1 = b: a value for each figure, NaN = not known. 0; 1 = it was
     * interrupted; or an error with its sentence. */
    int (*measure)(void *arg, int arm, double *values, struct sonde_err *err);
    void *measure_arg;
    void (*progress)(void *arg, double share, const char *state); /* NULL = none */
    void *progress_arg;
};

enum sonde_pairs_end { SONDE_PAIRS_DECIDED, SONDE_PAIRS_MAX_PAIRS, SONDE_PAIRS_MAX_TIME,
                       SONDE_PAIRS_INTERRUPTED };
const char *sonde_pairs_end_name(enum sonde_pairs_end e); /* "decided", "--max-runs" … */

struct sonde_pairs {
    const struct sonde_pairs_options *o;
    struct sonde_sequential tests[SONDE_PAIRS_FIGURES_MAX];
    double *values[2];       /* owned: of each pair a value for each figure, by arm */
    uint8_t *b_first;        /* owned: the order that was drawn */
    size_t pairs, cap[3];
    enum sonde_pairs_end end;
    double elapsed_s;
};

/* 0: there are pairs, maybe none if it was interrupted. Else what measure returned, or
 * SONDE_ENOMEM. */
int sonde_pairs_run(const struct sonde_pairs_options *o, struct sonde_pairs *out,
                    struct sonde_err *err);
void sonde_pairs_release(struct sonde_pairs *p);

/* ---- What came of it ------------------------------------------------------------------------- */

/* Figures a.NAME and b.NAME with their parts, and `ab` with the comparison. 0 or SONDE_ENOMEM. */
int sonde_pairs_result(const struct sonde_pairs *p, struct sonde_bench_result *r);
/* "b is better: 5.1 % less wall time (3.2 … 7.0 %) after 34 pairs". Without a newline. */
void sonde_pairs_sentence(const struct sonde_pairs *p, int ascii, struct sonde_buf *out);
/* A table of all figures, and the sentence. a, b: what the arms are called. */
void sonde_pairs_text(const struct sonde_pairs *p, const char *a, const char *b,
                      const struct sonde_bench_view *v, struct sonde_buf *out);

#endif
