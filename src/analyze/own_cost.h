/* own_cost.h - what sampling costs the program that is sampled, from windows of time in which it
 * was on and off. Pure arithmetic: agent/own_cost_control.h switches and reads.
 *
 * A pair is two windows of equal length, one right after the other: sampling is off in one of them
 * and on in the other, and a coin decides in which. One pair is one observation, whatever happens
 * within it:
 *
 *     d = log(figure while on / figure while off)  of each measure, as it says below
 *     cost = 1 - exp(-d)                           the share of the program's time that is gone
 *
 * Why the interval is right. Figures of a program are autocorrelated, drift and have outliers. Let
 * a and b be what log figures of the first and second window would have been without sampling. Then
 * d = effect ± (a - b), and the sign is the coin's: independent of a, b and of all other coins. So
 * given any series whatever, d is distributed symmetrically around the effect, and what is left of
 * neighbours' likeness has no part in it. That is the one assumption of Wilcoxon's signed-rank
 * test, whose inversion (the Hodges-Lehmann estimate and its interval, Lehmann 1975) is therefore
 * exact for any number of pairs, and bounded by nothing that an outlier can do to one of them. What
 * is assumed besides: the cost is the same in all windows, and a window does not change the next.
 *
 * Rejected: all on against all off windows (Welch), which takes autocorrelated windows for
 * independent ones; Student's t of the d, which one outlier makes useless for an hour; a bootstrap,
 * which is too narrow for few pairs.
 *
 * What is work? Whatever the program counts: tokens, requests, spans, histograms, counters. CPU
 * time alone says nothing, since a program that is busy has one second of it per second. A counter
 * that follows the clock instead of the work (a heartbeat) would always say 0 % and is left out. */
#ifndef SONDE_ANALYZE_OWN_COST_H
#define SONDE_ANALYZE_OWN_COST_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_OWN_COST_WORKS_MAX 16
#define SONDE_OWN_COST_PAIRS_MAX 256  /* the newest are kept */
#define SONDE_OWN_COST_PAIRS_MIN 10   /* fewer say nothing */
#define SONDE_OWN_COST_NAME_MAX 128
#define SONDE_OWN_COST_TEXT_MAX 512

/* id, name in JSON and labels, what it is per unit of work, and what it is called in a sentence. */
#define SONDE_OWN_COST_MEASURES(X)                                                             \
    X(CPU, "cpu_per_work", "CPU time per")                                                     \
    X(LATENCY, "latency", "mean time of")                                                      \
    X(THROUGHPUT, "throughput", "rate of")

enum sonde_own_cost_measure {
#define SONDE__X(id, name, title) SONDE_OWN_COST_##id,
    SONDE_OWN_COST_MEASURES(SONDE__X)
#undef SONDE__X
    SONDE_OWN_COST_MEASURE_COUNT
};
const char *sonde_own_cost_measure_name(enum sonde_own_cost_measure m);

/* What kind of work, the one that says most first. */
enum sonde_own_cost_rank {
    SONDE_OWN_COST_NAMED,    /* the settings name it */
    SONDE_OWN_COST_TOKENS,
    SONDE_OWN_COST_REQUESTS,
    SONDE_OWN_COST_TIMED,    /* spans and histograms of seconds */
    SONDE_OWN_COST_COUNTED,  /* a counter of the program */
};

/* Of one work in one window. */
struct sonde_own_cost_done {
    double count;            /* units */
    double sum_s;            /* seconds that they took, each by itself; 0 = not known */
};

struct sonde_own_cost_window {
    double seconds;
    double cpu_s;            /* CPU time of the program; NaN = not known */
    struct sonde_own_cost_done work[SONDE_OWN_COST_WORKS_MAX];
};

struct sonde_own_cost_pair { struct sonde_own_cost_window off, on; };

struct sonde_own_cost_work {
    char name[SONDE_OWN_COST_NAME_MAX]; /* of the series; spans: "span NAME" */
    enum sonde_own_cost_rank rank;
};

/* An estimate with its 95 % interval: shares of the program's time, 0.01 = 1 %. */
struct sonde_own_cost_estimate {
    size_t pairs;            /* that could be compared */
    double ratio, low, high; /* NaN: there are fewer than SONDE_OWN_COST_PAIRS_MIN */
};

/* Of n values of d. work: n (n + 1) / 2 doubles. */
struct sonde_own_cost_estimate sonde_own_cost_estimate(const double *d, size_t n, double *work);

/* How many of n (n + 1) / 2 sorted averages are out on each side of the 95 % interval; n >= 6. */
size_t sonde_own_cost_outside(size_t n);

/* NaN: this measure cannot be compared in this pair. */
double sonde_own_cost_difference(const struct sonde_own_cost_pair *p, size_t work,
                                 enum sonde_own_cost_measure m);

struct sonde_own_cost_figure {
    size_t work;
    enum sonde_own_cost_measure measure;
    struct sonde_own_cost_estimate estimate;
};

/* All that was compared. All zero but chosen = -1 is an empty one; see init. */
struct sonde_own_cost {
    struct sonde_own_cost_work works[SONDE_OWN_COST_WORKS_MAX];
    size_t work_count;
    struct sonde_own_cost_pair *pairs; /* owned; a ring */
    double *scratch;                   /* owned */
    uint64_t pair_count;               /* ever added */
    int chosen;                        /* work * MEASURE_COUNT + measure; -1 = none yet */
};

int sonde_own_cost_init(struct sonde_own_cost *o); /* 0 or SONDE_ENOMEM */
void sonde_own_cost_release(struct sonde_own_cost *o);
void sonde_own_cost_clear(struct sonde_own_cost *o); /* pairs and works */

void sonde_own_cost_add(struct sonde_own_cost *o, const struct sonde_own_cost_pair *p);

/* Which figure speaks for all: chosen once, by how much the first pairs differ, not by what they
 * say; so the choice does not bend the interval. *count figures, that one first, at most max.
 * NULL out: only chooses. 1 = there is one. */
int sonde_own_cost_judge(struct sonde_own_cost *o, struct sonde_own_cost_figure *out, size_t max,
                         size_t *count);

/* The share of time that sampling should be off from now on: much until there is something to say,
 * then at most `most`, and a fifth of that once the interval is narrow. */
double sonde_own_cost_off_share(const struct sonde_own_cost_estimate *e, double most);

/* "0.3 ± 0.2 %" */
void sonde_own_cost_percent(const struct sonde_own_cost_estimate *e, char *out, size_t size);

#endif
