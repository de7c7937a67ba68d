/* compare_fail.h - the little language of --fail-on: which change of a comparison is too much.
 *
 *   MEASURE[:GLOB] > LIMIT%      it grew by more than that
 *   MEASURE[:GLOB] < LIMIT%      it shrank by more
 *
 * MEASURE is that of a figure ("p95", "cpu", "peak"), GLOB the name of a span, phase or function:
 * without it, figures that have no name. Blanks do not count. A limit is broken by a figure that has
 * changed (compare.h: it is not noise) by more than that. */
#ifndef SONDE_ANALYZE_COMPARE_FAIL_H
#define SONDE_ANALYZE_COMPARE_FAIL_H

#include "analyze/compare.h"

struct sonde_fail_on {
    const char *text;        /* borrowed: as it was given */
    char measure[16];
    char glob[256];          /* "" = none */
    int sign;                /* 1: grew, -1: shrank */
    double limit;            /* 0.05 = 5 % */
};

/* SONDE_EINVAL: err names text and what is wrong with it. */
int sonde_fail_on_parse(const char *text, struct sonde_fail_on *out, struct sonde_err *err);

/* 1 and the figure that breaks it by most; 0: none does. SONDE_ENOENT: there is no such figure in
 * these runs, or it has no interval, so it cannot be said; err says why. */
int sonde_fail_on_check(const struct sonde_fail_on *f, const struct sonde_comparison *c,
                        const struct sonde_figure **out, struct sonde_err *err);

#endif
