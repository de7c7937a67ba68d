/* own_cost_plan.c - when sampling is switched off and on, and what becomes of the windows; see
 * own_cost_control.h. Time comes with the readings, so tests can have any that they like. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/own_cost_private.h"
#include "sonde/sonde.h"

#define GUARD_S 0.25          /* work is counted a fifth of a second after it was done */
#define FIRST_S 15.0          /* before the first pair: programs that start are not steady, and
                               * short runs are over before there would be anything to say */
#define FIRST_WINDOWS 7.5     /* … or so many windows, if they are short */
#define RETRY_S 2.0           /* after sampling could not be switched off for the moment */
#define REFUSED_S 60.0        /* … or cannot be at all */
#define OTHER_RATE_S 120.0    /* a rate that stays so long is the rate; else it was a burst */
#define LATE_SHARE 1.5        /* a window that is longer by so much was not looked at in time */
#define EARLY_S 0.005         /* ticks are not more exact */

/* ---- Chance ---------------------------------------------------------------------------------- */

/* SplitMix64. */
static uint64_t own_cost_plan_random(struct own_cost_plan *p)
{
    uint64_t x = (p->random += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static double own_cost_plan_guard(const struct own_cost_plan *p)
{
    return fmin(GUARD_S, p->settings.window_s / 2);
}

/* So long that the share of time without samples is as wanted, times 0.5 … 1.5. */
static double own_cost_plan_gap(struct own_cost_plan *p)
{
    const double share = sonde_own_cost_off_share(
        p->has_headline ? &p->figures[0].estimate : NULL, p->settings.off_ratio_max);
    const double side_s = own_cost_plan_guard(p) + p->settings.window_s;
    const double mean_s = fmax(side_s / share - 2 * side_s, 0);
    return mean_s * (0.5 + (double)(own_cost_plan_random(p) >> 11) * 0x1p-53);
}

/* ---- Switching ------------------------------------------------------------------------------- */

static int own_cost_plan_turn(struct own_cost_plan *p, int off, double now_s, struct sonde_err *err)
{
    const int rc = p->to.turn(p->to.arg, off, err);
    if (rc) return rc;
    if (off && !(p->off_since_s > 0)) p->off_since_s = now_s;
    if (!off && p->off_since_s > 0) {
        p->off_s += now_s - p->off_since_s;
        p->off_since_s = 0;
    }
    return 0;
}

static void own_cost_plan_wait(struct own_cost_plan *p, double now_s, double seconds)
{
    p->phase = OWN_COST_GAP;
    p->until_s = now_s + seconds;
}

/* Nothing can be made of this pair. */
static void own_cost_plan_drop(struct own_cost_plan *p, double now_s)
{
    struct sonde_err err = { "" };
    own_cost_plan_turn(p, 0, now_s, &err);
    p->dropped++;
    own_cost_plan_wait(p, now_s, own_cost_plan_gap(p));
}

void own_cost_plan_stop(struct own_cost_plan *p, double now_s)
{
    struct sonde_err err = { "" };
    own_cost_plan_turn(p, 0, now_s, &err);
    own_cost_plan_wait(p, now_s, INFINITY);
}

static void own_cost_plan_why(struct own_cost_plan *p, const char *text)
{
    snprintf(p->reason, sizeof(p->reason), "%.255s", text);
}

/* ---- Work ------------------------------------------------------------------------------------ */

/* Where in the plan's table a work of r is; it is added. -1 = there is no room. */
static int own_cost_plan_place(struct own_cost_plan *p, const struct sonde_own_cost_work *work)
{
    struct sonde_own_cost *c = &p->cost;
    for (size_t i = 0; i < c->work_count; i++) {
        if (!strcmp(c->works[i].name, work->name)) return (int)i;
    }
    if (c->work_count == SONDE_OWN_COST_WORKS_MAX) return -1;
    c->works[c->work_count] = *work;
    return (int)c->work_count++;
}

static double own_cost_plan_done(const struct own_cost_reading *r, const char *name, double *sum_s)
{
    for (size_t i = 0; i < r->work_count; i++) {
        if (strcmp(r->works[i].name, name) != 0) continue;
        *sum_s = r->done[i].sum_s;
        return r->done[i].count;
    }
    return NAN;
}

/* What was done between two readings; of what was not in both, nothing. */
static struct sonde_own_cost_window own_cost_plan_window(struct own_cost_plan *p,
                                                         const struct own_cost_reading *from,
                                                         const struct own_cost_reading *to)
{
    struct sonde_own_cost_window w = { .seconds = to->time_s - from->time_s,
                                       .cpu_s = to->cpu_s - from->cpu_s };
    for (size_t i = 0; i < to->work_count; i++) {
        double sum_s = 0;
        const double had = own_cost_plan_done(from, to->works[i].name, &sum_s);
        const int at = own_cost_plan_place(p, &to->works[i]);
        if (at < 0 || !(to->done[i].count >= had)) continue;
        w.work[at] = (struct sonde_own_cost_done){ .count = to->done[i].count - had,
                                                   .sum_s = fmax(to->done[i].sum_s - sum_s, 0) };
    }
    return w;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

/* 1: pairs that begin now are of the same rate as those before. */
static int own_cost_plan_same_rate(struct own_cost_plan *p, double rate_hz, double now_s)
{
    if (!(p->rate_hz > 0)) p->rate_hz = rate_hz;
    if (fabs(p->rate_hz - rate_hz) <= 0.01 * p->rate_hz) {
        p->rate_other_s = 0;
        return 1;
    }
    if (!(p->rate_other_s > 0)) p->rate_other_s = now_s;
    if (now_s - p->rate_other_s < OTHER_RATE_S) return 0;
    sonde_own_cost_clear(&p->cost);
    p->figure_count = 0;
    p->has_headline = 0;
    p->rate_hz = rate_hz;
    p->rate_other_s = 0;
    return 1;
}

static void own_cost_plan_begin(struct own_cost_plan *p, const struct own_cost_reading *r)
{
    struct sonde_sampling s;
    struct sonde_err err = { "" };
    p->to.look(p->to.arg, &s);
    if (!s.processes || !r->work_count) {
        own_cost_plan_why(p, s.processes ? "the program counts nothing that could be compared: no "
                                           "tokens, requests, spans, histograms or counters"
                                         : "no process is sampled");
        own_cost_plan_wait(p, r->time_s, RETRY_S);
        return;
    }
    if (!own_cost_plan_same_rate(p, s.rate_hz, r->time_s)) {
        own_cost_plan_why(p, "the sampling rate is another one for the moment");
        own_cost_plan_wait(p, r->time_s, RETRY_S);
        return;
    }
    p->off_first = (int)(own_cost_plan_random(p) >> 63);
    p->changes = s.changes;
    p->processes = r->processes;
    /* Whether it can be switched off is asked in both cases: or pairs that begin with it would be
     * missing whenever it cannot. */
    int rc = s.wanted ? sonde_err_set(&err, SONDE_EBUSY, "a profile is being taken, for which "
                                      "every sample is wanted")
                      : own_cost_plan_turn(p, 1, r->time_s, &err);
    if (!rc && !p->off_first) rc = own_cost_plan_turn(p, 0, r->time_s, &err);
    if (rc) {
        own_cost_plan_why(p, err.text);
        own_cost_plan_wait(p, r->time_s, rc == SONDE_EBUSY ? RETRY_S : REFUSED_S);
        return;
    }
    p->reason[0] = '\0';
    p->phase = OWN_COST_GUARD_FIRST;
    p->until_s = r->time_s + own_cost_plan_guard(p);
}

/* A window is over. 1: its figures can be used. */
static int own_cost_plan_end(struct own_cost_plan *p, const struct own_cost_reading *r, int off,
                             struct sonde_own_cost_window *out)
{
    struct sonde_sampling s;
    p->to.look(p->to.arg, &s);
    *out = own_cost_plan_window(p, &p->before, r);
    return s.changes == p->changes && s.off == off &&
           out->seconds < p->settings.window_s * LATE_SHARE + 2 * EARLY_S +
                          2 * own_cost_plan_guard(p);
}

static int own_cost_plan_second(struct own_cost_plan *p, const struct own_cost_reading *r)
{
    struct sonde_err err = { "" };
    struct sonde_own_cost_window second;
    const int good = own_cost_plan_end(p, r, !p->off_first, &second);
    if (!good || own_cost_plan_turn(p, 0, r->time_s, &err)) {
        own_cost_plan_drop(p, r->time_s);
        return 0;
    }
    struct sonde_own_cost_pair pair = { .off = second, .on = p->first };
    if (p->off_first) pair = (struct sonde_own_cost_pair){ .off = p->first, .on = second };
    sonde_own_cost_add(&p->cost, &pair);
    p->has_headline = sonde_own_cost_judge(&p->cost, p->figures, OWN_COST_FIGURES_MAX,
                                           &p->figure_count) && p->figure_count;
    own_cost_plan_wait(p, r->time_s, own_cost_plan_gap(p));
    return 1;
}

static int own_cost_plan_next(struct own_cost_plan *p, const struct own_cost_reading *r)
{
    struct sonde_err err = { "" };
    switch (p->phase) {
    case OWN_COST_GAP:
        own_cost_plan_begin(p, r);
        return 0;
    case OWN_COST_GUARD_FIRST:
    case OWN_COST_GUARD_SECOND:
        p->before = *r;
        p->phase = p->phase == OWN_COST_GUARD_FIRST ? OWN_COST_FIRST : OWN_COST_SECOND;
        p->until_s = r->time_s + p->settings.window_s;
        return 0;
    case OWN_COST_FIRST:
        if (!own_cost_plan_end(p, r, p->off_first, &p->first) ||
            own_cost_plan_turn(p, !p->off_first, r->time_s, &err)) {
            own_cost_plan_drop(p, r->time_s);
            return 0;
        }
        p->phase = OWN_COST_GUARD_SECOND;
        p->until_s = r->time_s + own_cost_plan_guard(p);
        return 0;
    case OWN_COST_SECOND:
        return own_cost_plan_second(p, r);
    }
    return 0;
}

int own_cost_plan_step(struct own_cost_plan *p, const struct own_cost_reading *r)
{
    assert(r->work_count <= SONDE_OWN_COST_WORKS_MAX);
    if (!(p->began_s > 0)) {
        p->began_s = r->time_s;
        own_cost_plan_wait(p, r->time_s, fmin(FIRST_S, FIRST_WINDOWS * p->settings.window_s));
    }
    if (r->time_s < p->until_s - EARLY_S) return 0;
    if (p->phase != OWN_COST_GAP && r->processes != p->processes) {
        own_cost_plan_drop(p, r->time_s);
        return 0;
    }
    return own_cost_plan_next(p, r);
}

int own_cost_plan_init(struct own_cost_plan *p, const struct sonde_own_cost_settings *s,
                       const struct own_cost_switch *to)
{
    assert(s->window_s > 0 && s->off_ratio_max > 0);
    *p = (struct own_cost_plan){ .settings = *s, .to = *to, .random = s->seed };
    own_cost_plan_why(p, "it has just begun");
    return sonde_own_cost_init(&p->cost);
}

void own_cost_plan_release(struct own_cost_plan *p) { sonde_own_cost_release(&p->cost); }
