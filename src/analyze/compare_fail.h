/* compare_fail.h - the little language of --fail-on: which change of a comparison is too much.
 *
 *   MEASURE[:GLOB] > LIMIT%      it grew by more than that
 *   MEASURE[:GLOB] < LIMIT%      it shrank by more
 *   MEASURE[:GLOB] > LIMIT[UNIT] it is more than that in the runs after, whatever it was before
 *   MEASURE[:GLOB] < LIMIT[UNIT] it is less
 *
 * MEASURE is that of a figure ("p95", "cpu", "peak"), GLOB the name of a span, phase or function:
 * without it, figures that have no name. Blanks do not count. A limit in per cent is broken by a
 * figure that has changed (compare.h: it is not noise) by more than that, and by one of which it is
 * not known: a test that cannot be made does not pass. An absolute limit is broken by the value
 * itself. UNIT: ns us ms s min h of times, B KB MB GB TB (1000) and KiB MiB GiB TiB of bytes, which
 * have to have one: whoever writes p95>200 does not mean seconds. Without one, a ratio, a number of
 * CPUs, or so many per second. */
#ifndef SONDE_ANALYZE_COMPARE_FAIL_H
#define SONDE_ANALYZE_COMPARE_FAIL_H

#include "analyze/compare.h"

struct sonde_fail_on {
    const char *text;      /* borrowed: as it was given */
    char measure[24];
    char glob[256];        /* "" = none */
    int sign;              /* 1: grew, or more than; -1: shrank, or less */
    int absolute;          /* the limit is one of the value after, in its base unit */
    double limit;          /* 0.05 = 5 % */
    const char *kind;      /* static: what a unit was given of, "seconds" or "bytes"; NULL = none */
};

/* SONDE_EINVAL: err names text and what is wrong with it. */
int sonde_fail_on_parse(const char *text, struct sonde_fail_on *out, struct sonde_err *err);

/* What follows > or <: sets limit, absolute and kind. -1: it is not one. */
int sonde_fail_on_limit(const char *text, struct sonde_fail_on *out);

/* 1 if the limit is one of this figure. */
int sonde_fail_on_matches(const struct sonde_fail_on *f, const struct sonde_compare_measure *g);

/* By how much the figure, which it matches, breaks the limit; 0 or less: it does not. */
double sonde_fail_on_excess(const struct sonde_fail_on *f, const struct sonde_compare_measure *g,
                            int unknown_ok);

/* 1 and the figure that breaks it by most; 0: none does. unknown_ok: figures of which it is not
 * known whether they changed break nothing. SONDE_ENOENT: there is no such figure in these runs.
 * SONDE_EINVAL: the figure is not of the limit's unit. */
int sonde_fail_on_check(const struct sonde_fail_on *f, const struct sonde_comparison *c,
                        int unknown_ok, const struct sonde_compare_measure **out,
                        struct sonde_err *err);

#endif
