/* check.h - a comparison with a baseline held against limits: which figures regressed, which
 * improved, of which nothing can be seen, how small a change could be seen, and how many more runs
 * would do to see one of a given size.
 *
 * The figures that limits in per cent name are a family of their own (compare.h, `watched`), tested
 * at SONDE_CHECK_LEVEL: of checks of a program that has not changed, at most one in twenty finds
 * any change in them, in either direction, so about one in forty a regression.
 *
 * Without limits those of sonde_check_defaults apply. They are many, and a run rarely has what all
 * of them need; so a default limit of which nothing is known is passed over, unless that is so of
 * all of them. A limit that was asked for and cannot be tested is broken (compare_fail.h). */
#ifndef SONDE_ANALYZE_CHECK_H
#define SONDE_ANALYZE_CHECK_H

#include <stddef.h>

#include "analyze/compare.h"
#include "analyze/compare_fail.h"

#define SONDE_CHECK_LEVEL 0.05
#define SONDE_CHECK_DETECT 0.03 /* change that default limits ask runs for */

enum sonde_check_verdict {
    SONDE_CHECK_UNKNOWN,    /* no interval, or one so wide that it says nothing */
    SONDE_CHECK_NOTHING,    /* nothing to be seen with so many runs */
    SONDE_CHECK_IMPROVED,
    SONDE_CHECK_REGRESSED,
    SONDE_CHECK_CHANGED,    /* a figure of which neither more nor less is better */
    SONDE_CHECK_WITHIN,     /* an absolute limit, kept */
    SONDE_CHECK_BEYOND,     /* and broken */
};
const char *sonde_check_verdict_name(enum sonde_check_verdict v); /* "regressed" … */

/* A limit and one figure that it is of. */
struct sonde_check_row {
    const struct sonde_fail_on *limit;            /* borrowed, as is the next */
    const struct sonde_compare_measure *figure;
    enum sonde_check_verdict verdict;
    int broken;
    int goal;               /* runs are asked for until a change of it by `detect` would be seen */
    double detect;          /* relative; NaN: the limit is absolute */
    double smallest;        /* relative change that would be seen; NaN = not known */
    size_t more, more_each; /* runs to record after, or on both sides, to see `detect`;
                               SONDE_POWER_NEVER = more than is of use, or not known */
};

struct sonde_check {
    struct sonde_check_row *rows;
    size_t count, cap;
    size_t broken;          /* rows that are */
    int undecided;          /* defaults, and nothing is known of any figure */
    int failed;             /* a limit is broken, or it is undecided and that is not allowed */
    enum sonde_check_verdict verdict; /* the weightiest of all rows */
    size_t lead;            /* goal that needs the most runs; count = none */
};

struct sonde_check_options {
    const struct sonde_fail_on *limits;
    size_t limit_count;
    int defaults;           /* the limits are those of sonde_check_defaults */
    int unknown_ok;
    double detect;          /* relative change to see; 0 = that of each limit, or the default */
    double chance;          /* with which it would be seen; 0 = SONDE_POWER_DEFAULT */
};

/* spans: limits of spans too, for runs without requests of inference. span_cpu: and of CPU time in
 * them, which is that of a request where a filter says that they are requests. The caller frees
 * *out with sonde__free. 0 or SONDE_ENOMEM. */
int sonde_check_defaults(int spans, int span_cpu, struct sonde_fail_on **out, size_t *count);

/* For sonde_compare_options: arg is a struct sonde_check_options. */
int sonde_check_watches(const struct sonde_compare_measure *f, const void *arg);

/* Borrows c and the limits. SONDE_ENOENT, SONDE_EINVAL: of a limit that was asked for there is no
 * figure, or it is not of its unit. SONDE_ENOMEM. */
int sonde_check_run(const struct sonde_comparison *c, const struct sonde_check_options *o,
                    struct sonde_check *out, struct sonde_err *err);
void sonde_check_release(struct sonde_check *c);

#endif
