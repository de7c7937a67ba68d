/* versus.h - two results that were kept, or two sets of them, figure by figure: before, after, the
 * change with its 95 % interval, and whether it is one.
 *
 * What a figure's interval is made of:
 *
 *   several results on a side   the results: how much the figure differs from run to run
 *   one on a side, several on   that side borrows the spread of the other's
 *     the other
 *   one on each                 the parts of each (sub-windows, runs of a command) or the interval
 *                               that it was given, whichever is wider. That knows how much it
 *                               varied within the run, and not from one run to the next.
 *
 * A figure is called changed if its p-value, raised for all figures that were looked at (Benjamini
 * and Hochberg), is at most 0.05. */
#ifndef SONDE_BENCH_VERSUS_H
#define SONDE_BENCH_VERSUS_H

#include "analyze/stats.h"
#include "base/buf.h"
#include "base/err.h"
#include "bench/figure.h"
#include "bench/saved.h"

#define SONDE_BENCH_COMPARE_LEVEL 0.05

enum sonde_bench_verdict {
    SONDE_BENCH_UNKNOWN,    /* no interval */
    SONDE_BENCH_SAME,       /* no difference seen */
    SONDE_BENCH_BETTER, SONDE_BENCH_WORSE,
    SONDE_BENCH_CHANGED,    /* of a figure that is neither better nor worse when it is more */
};
const char *sonde_bench_verdict_name(enum sonde_bench_verdict v); /* "no difference seen" … */

struct sonde_bench_change {
    const char *name, *unit; /* borrowed from the results */
    int better;
    struct sonde_estimate estimate[2]; /* of before and after */
    struct sonde_difference d;
    double adjusted;         /* p, raised for all that were looked at; NaN = no interval */
    double smallest;         /* relative change that would be seen in nine of ten; NaN = unknown */
    enum sonde_bench_verdict verdict;
};

struct sonde_bench_comparison {
    struct sonde_bench_change *changes; /* owned; in the order of the last result after */
    size_t count, cap;
    size_t runs[2];
    size_t left_out;         /* figures that only one side has */
    char **notes;            /* owned: what the two sides do not have in common, and doubts */
    size_t note_count, note_cap;
};

/* Both sides have at least one result; they are borrowed for as long as the comparison lives.
 * SONDE_EINVAL and why: they are of different kinds, or have no figure in common. SONDE_ENOMEM. */
int sonde_bench_compare(const struct sonde_bench_saved *before,
                        const struct sonde_bench_saved *after,
                        struct sonde_bench_comparison *out, struct sonde_err *err);
void sonde_bench_comparison_release(struct sonde_bench_comparison *c);

/* Figures of commands are called after them ("./old.wall_s" and "./new.wall_s"). If two sets have
 * no figure in common, what all figures of a result begin with, up to a dot, is taken off. */
void sonde_bench_compare_align(struct sonde_bench_saved *a, struct sonde_bench_saved *b);

/* 1 and the figure that breaks the limit by most; 0: none does. A limit in per cent is broken by a
 * figure that has changed by more than that, and, unless unknown_ok, by one of which that is not
 * known. SONDE_ENOENT, SONDE_EINVAL as sonde_bench_limit_check. */
int sonde_bench_compare_limit(const struct sonde_bench_limit *l,
                              const struct sonde_bench_comparison *c, int unknown_ok,
                              const struct sonde_bench_change **out, struct sonde_err *err);

/* before, after: what the sides are called. */
struct sonde_bench_compare_view {
    const char *before, *after;
    struct sonde_bench_view view;
};
void sonde_bench_compare_text(const struct sonde_bench_comparison *c,
                              const struct sonde_bench_compare_view *v, struct sonde_buf *out);
void sonde_bench_compare_json(const struct sonde_bench_comparison *c,
                              const struct sonde_bench_compare_view *v, struct sonde_buf *out);

#endif
