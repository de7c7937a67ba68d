/* cost_sim.h - a day of continuous profiling of a program with 211 functions, as its samples would
 * be, for tests and measurements of cost.h.
 *
 *   19 samples a second of one busy thread; load varies over the day by 30 %. Shares fall off as
 *   1/k. The mix of work wanders: each share is an AR(1) from quarter to quarter (0.7, sd 3 %) and
 *   has a daily rhythm of up to 3 %. Counts are Poisson. Function "target" has 1 % of the time. */
#ifndef SONDE_TESTS_COST_SIM_H
#define SONDE_TESTS_COST_SIM_H

#include <stdio.h>

#include "profile/profile.h"
#include "unit/analyze/change_sim.h"
#include "unit/profile/profile_build.h"

enum cost_sim_kind {
    COST_SIM_NOTHING,
    COST_SIM_SLOWER,        /* target takes 20 % longer */
    COST_SIM_INLINED,       /* target's work is its caller's from now on */
    COST_SIM_SIBLING,       /* a fifth of a function of 5 % is target's from now on */
    COST_SIM_RENAMED,       /* target has another name */
    COST_SIM_SPLIT,         /* a function of 5 % becomes three */
    COST_SIM_MERGED,        /* three become one */
    COST_SIM_EXCURSION,     /* target takes 50 % longer, for two hours */
    COST_SIM_KINDS
};

enum { COST_SIM_GROUPS = 10, COST_SIM_FUNCTIONS = 200, COST_SIM_BINS = 96 };

struct cost_sim {
    struct sim_random random;
    double share[COST_SIM_FUNCTIONS], ar[COST_SIM_FUNCTIONS], rhythm[COST_SIM_FUNCTIONS],
        phase[COST_SIM_FUNCTIONS];
    uint64_t start_ns;
    int at;                 /* the bin of the change */
};

static inline uint32_t cost_sim_poisson(struct sim_random *r, double mean)
{
    if (mean > 50) { /* near enough */
        const double x = mean + sqrt(mean) * sim_normal(r);
        return x > 0 ? (uint32_t)(x + 0.5) : 0;
    }
    uint32_t n = 0;
    double p = exp(-mean), u = sim_uniform(r), sum = p;
    while (u > sum && n < 1000) {
        n++;
        p *= mean / n;
        sum += p;
    }
    return n;
}

static inline void cost_sim_put(struct cost_sim *s, struct sonde_profile *p, int bin, int group,
                                const char *name, double mean)
{
    char folded[128];
    const uint32_t n = cost_sim_poisson(&s->random, mean);
    if (!n) return;
    snprintf(folded, sizeof(folded), "main;serve;group_%d%s%s", group, *name ? ";" : "", name);
    sonde_profile_add_sample(p, &(struct sonde_profile_sample){
        .stack = build_stack(p, folded), .weight = (uint64_t)n * 52631579u, .count = n,
        .time_ns = s->start_ns + (uint64_t)bin * UINT64_C(900000000000) + 1000000000u });
}

static inline void cost_sim_init(struct cost_sim *s, uint64_t seed)
{
    double sum = 0;
    memset(s, 0, sizeof(*s));
    s->random.state = seed * 0xd1342543de82ef95ull + 99;
    s->start_ns = UINT64_C(1700000100000000000);
    for (int f = 1; f < COST_SIM_FUNCTIONS; f++) sum += 1.0 / (f + 3);
    for (int f = 0; f < COST_SIM_FUNCTIONS; f++) {
        s->share[f] = f ? 0.94 / (f + 3) / sum : 0.01; /* groups themselves have 5 % */
        s->ar[f] = sim_normal(&s->random);
        s->rhythm[f] = sim_between(&s->random, 0, 0.03);
        s->phase[f] = sim_uniform(&s->random);
    }
    s->at = 24 + (int)(sim_uniform(&s->random) * 48);
}

static inline void cost_sim_function(struct cost_sim *s, struct sonde_profile *p, int bin, int f,
                                     double mean, enum cost_sim_kind kind)
{
    char name[32];
    const int after = kind != COST_SIM_NOTHING && bin >= s->at;
    const int group = f % COST_SIM_GROUPS;
    snprintf(name, sizeof(name), f ? "function_%d" : "target", f);
    if (!after) {
        if (kind == COST_SIM_MERGED && f == 10) { /* before: three of group 0 */
            cost_sim_put(s, p, bin, group, "part_a", mean * 0.4);
            cost_sim_put(s, p, bin, group, "part_b", mean * 0.3);
            cost_sim_put(s, p, bin, group, "part_c", mean * 0.3);
            return;
        }
    } else if (kind == COST_SIM_SLOWER && f == 0) {
        mean *= 1.2;
    } else if (kind == COST_SIM_EXCURSION && f == 0) {
        mean *= bin < s->at + 8 ? 1.5 : 1;
    } else if (kind == COST_SIM_INLINED && f == 0) {
        name[0] = '\0';
    } else if (kind == COST_SIM_RENAMED && f == 0) {
        snprintf(name, sizeof(name), "target_v2");
    } else if (kind == COST_SIM_SIBLING && f == 10) {
        cost_sim_put(s, p, bin, 0, "target", mean * 0.2);
        mean *= 0.8;
    } else if (kind == COST_SIM_SPLIT && f == 10) {
        cost_sim_put(s, p, bin, group, "part_a", mean * 0.4);
        cost_sim_put(s, p, bin, group, "part_b", mean * 0.3);
        cost_sim_put(s, p, bin, group, "part_c", mean * 0.3);
        return;
    }
    cost_sim_put(s, p, bin, group, name, mean);
}

/* All samples of the day. */
static inline void cost_sim_day(struct cost_sim *s, enum cost_sim_kind kind,
                                struct sonde_profile *p)
{
    for (int bin = 0; bin < COST_SIM_BINS; bin++) {
        const double day = (double)bin / COST_SIM_BINS;
        const double load = 19 * 900 * (1 + 0.3 * sin(SIM_TAU * day));
        for (int f = 0; f < COST_SIM_FUNCTIONS; f++) {
            s->ar[f] = 0.7 * s->ar[f] + 0.714142842854285 * sim_normal(&s->random);
            const double mix = 0.03 * s->ar[f] +
                               s->rhythm[f] * sin(SIM_TAU * (day + s->phase[f]));
            cost_sim_function(s, p, bin, f, load * s->share[f] * exp(mix), kind);
        }
        for (int g = 0; g < COST_SIM_GROUPS; g++) {
            cost_sim_put(s, p, bin, g, "", load * 0.005);
        }
    }
}

#endif
