/* sequential.h - compares two arms while their values still come in, and may be looked at after
 * every one of them: the interval holds the truth at all looks together in at least 95 % of tests,
 * so stopping at the first look that is clear is allowed. Pure arithmetic in constant memory.
 *
 * Values come in pairs (a, b) that were taken under the same conditions: two runs next to each
 * other, or what both arms did in the same seconds. For an assumed ratio r of the arms, x = b - r
 * a is as often above 0 as below it, and then (de la Pena 1999)
 *
 *   exp(k S - k^2 V / 2),   S = sum x,   V = sum x^2
 *
 * is a supermartingale for every k, whatever the tails of x; so is its mean over k, N(0, K), in
 * closed form
 *
 *   E = exp(K S^2 / (2 (1 + K V))) / sqrt(1 + K V)
 *
 * which exceeds 1 / level at any time with a chance of at most level (Ville). The interval is of
 * all r (or, for the absolute difference, of all c in x = b - a - c) that E has not excluded. K is
 * of three sizes, from the spread of the first pairs, so that small and large effects are both
 * found.
 *
 * Two designs:
 *
 *   drawn     Which of a pair's two places was a's has been drawn at random. Then, if the arms are
 *             alike, the sign of b - a is a fair coin whatever else happened: drifts, neighbours
 *             that are alike and heavy tails cannot cause a false alarm. The bound is exact.
 *   arms      Both arms ran beside each other, on places of their own (two servers). A slow minute
 *             of one of them is in several neighbouring pairs, so V is raised by as much as sums
 *             of pairs spread more than single ones do. The bound is then approximate: pairs
 *             should be blocks of many values and of some seconds (struct sonde_sequential_arms
 *             makes them), and noise of one arm that lasts for tens of blocks looks like a
 *             difference.
 *
 * Rejected: Student's t at every look, which calls equal arms different in 40 % of tests of 200
 * pairs; a level that is spent over planned looks, which needs their number before, and a live
 * split has none; mixtures of Student's t (Lai 1976), which are wrong where the noise has the same
 * size each time, as that of counts has. tests/unit/analyze/test_sequential.c has the figures, as
 * has docs/ab.md. */
#ifndef SONDE_ANALYZE_SEQUENTIAL_H
#define SONDE_ANALYZE_SEQUENTIAL_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_SEQUENTIAL_LEVEL 0.05
#define SONDE_SEQUENTIAL_FIRST 5u    /* pairs that say of what size the noise is */

enum sonde_sequential_verdict {
    SONDE_SEQUENTIAL_UNDECIDED,
    SONDE_SEQUENTIAL_A,          /* a is better */
    SONDE_SEQUENTIAL_B,          /* b is better */
    SONDE_SEQUENTIAL_DIFFERENT,  /* they differ, and neither is better (better = 0) */
    SONDE_SEQUENTIAL_SAME,       /* no difference as large as `detect` */
};
/* "undecided", "a is better" … */
const char *sonde_sequential_verdict_name(enum sonde_sequential_verdict v);

struct sonde_sequential_options {
    double level;    /* chance of a false alarm, of all looks together; 0 = 0.05 */
    double detect;   /* relative difference that matters, 0.03 = 3 %; 0 = none: never "same" */
    int better;      /* -1: less is, 1: more is, 0: neither */
    int drawn;       /* the order within pairs was drawn at random: see above */
};

#define SONDE_SEQUENTIAL_SCALES 24u

/* Sums over pairs, of values less an offset. */
struct sonde_sequential_sums { double n, u, v, uu, uv, vv; };

struct sonde_sequential {
    struct sonde_sequential_options options;
    uint64_t pairs;
    uint64_t skipped;        /* pairs that were not numbers */
    double offset;           /* of all values: the first a */
    struct sonde_sequential_sums all, first;
    double lag;              /* sum of products of neighbouring b - a */
    double begin, last;      /* the first and the last b - a */
    /* Of b - a less the first, added up over 2, 4, 8 … pairs: the sum that is not complete, and
     * those that are. */
    struct { double open, sum, squares; uint64_t count; } scales[SONDE_SEQUENTIAL_SCALES];
    double evidence_max;     /* the logarithm of the largest E that the arms are alike, so far */
};

void sonde_sequential_init(struct sonde_sequential *s,
                           const struct sonde_sequential_options *options);
/* A pair that is not finite is counted and left out. */
void sonde_sequential_add(struct sonde_sequential *s, double a, double b);

/* What can be said now; cheap. */
enum sonde_sequential_verdict sonde_sequential_decide(const struct sonde_sequential *s);

struct sonde_sequential_look {
    enum sonde_sequential_verdict verdict;
    uint64_t pairs;
    double a, b;                                   /* means; NaN = no pairs */
    double change, low, high;                      /* b - a; infinite = not bounded yet */
    double relative, relative_low, relative_high;  /* of a: 0.1 = 10 % more; NaN: a is 0 */
    double p;                                      /* that the arms are alike; valid at any time */
    double inflation;                              /* of the variance by likeness; 1 if drawn */
    double more;                                   /* pairs to a decision, about; NaN: unknown */
};
struct sonde_sequential_look sonde_sequential_look(const struct sonde_sequential *s);

/* Arms whose values come one by one and in unequal numbers (a split of 10 % and 90 %), collected to
 * blocks, of which the means are pairs. A block ends when it lasted block_s and both arms have
 * block_values in it. */
#define SONDE_SEQUENTIAL_BLOCK_S 10.0
#define SONDE_SEQUENTIAL_BLOCK_VALUES 20u
struct sonde_sequential_arms {
    struct sonde_sequential pairs;
    double block_s;          /* set by init; may be changed before the first value */
    uint32_t block_values;
    double begin_s;          /* of the block that is open; NaN = none is */
    double sum[2];           /* in it, of a and b */
    uint64_t count[2];
    double total[2];         /* of all values, also of those in the open block */
    uint64_t total_count[2];
};
void sonde_sequential_arms_init(struct sonde_sequential_arms *arms,
                                const struct sonde_sequential_options *options);
/* arm: 0 = a, 1 = b. time_s: when it was seen, any clock that only goes forward. */
void sonde_sequential_arms_add(struct sonde_sequential_arms *arms, int arm, double value,
                               double time_s);

#endif
