/* change_sim.h - series as those of a server are, second by second, for tests and measurements of
 * change points. Seeded; the same numbers on every machine.
 *
 *   value = level · exp(day + slow + noise) · spike · warm-up
 *
 *   noise  AR(1) from second to second; one innovation in ten is three times as large (kurtosis 8)
 *   slow   AR(1) from minute to minute, with a memory of minutes to two hours
 *   day    a daily rhythm with a second harmonic, whose size differs from day to day by a fifth;
 *          days differ in level, Saturdays and Sundays (of some series) by up to 40 %
 *   spike  2 to 20 times a day for 1 s to 8 minutes, 1.5 to 6 times the value (or a part of it)
 *   job    of some series: every hour or every day for 5 to 25 minutes, 1.1 to 2 times the value
 *   restart up to 4 in a week: 1 to 10 minutes without values, then up to 10 minutes of warm-up;
 *          one in three is not announced
 *   gap    up to 4 in a week, 5 minutes to 3 hours without values
 *
 * Four kinds: latencies, throughputs (strong rhythm), memory (grows until a restart) and rare
 * events (Poisson counts). */
#ifndef SONDE_TESTS_CHANGE_SIM_H
#define SONDE_TESTS_CHANGE_SIM_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { SIM_DAY = 86400, SIM_DAYS_MAX = 32, SIM_EVENTS_MAX = 1024 };
#define SIM_TAU 6.283185307179586

struct sim_random { uint64_t state; double spare; int has_spare; };

static inline double sim_uniform(struct sim_random *r) /* (0, 1) */
{
    uint64_t x = (r->state += 0x9e3779b97f4a7c15ull);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return ((double)((x ^ (x >> 31)) >> 11) + 0.5) / 9007199254740992.0;
}

static inline double sim_normal(struct sim_random *r)
{
    if (r->has_spare) {
        r->has_spare = 0;
        return r->spare;
    }
    double a, b, q;
    do {
        a = 2 * sim_uniform(r) - 1;
        b = 2 * sim_uniform(r) - 1;
        q = a * a + b * b;
    } while (q >= 1 || q == 0);
    const double f = sqrt(-2 * log(q) / q);
    r->spare = b * f;
    r->has_spare = 1;
    return a * f;
}

static inline double sim_between(struct sim_random *r, double low, double high)
{
    return low + (high - low) * sim_uniform(r);
}

enum sim_kind { SIM_LATENCY, SIM_THROUGHPUT, SIM_MEMORY, SIM_RARE };

struct sim_event { int from, to; double factor; int announced; };

struct sim_series {
    struct sim_random random;
    enum sim_kind kind;
    int days;
    double level;
    double noise, phi;             /* sd of the values' noise; from second to second */
    double slow, slow_phi;         /* alike; from minute to minute */
    double rhythm, phase, second;  /* amplitude, in [0, 1) of a day, of the harmonic */
    double growth;                 /* memory: a second */
    double day_size[SIM_DAYS_MAX + 1], day_level[SIM_DAYS_MAX + 1];
    struct sim_event spikes[SIM_EVENTS_MAX], restarts[16], gaps[16];
    int spike_count, restart_count, gap_count;
    int job_every, job_from, job_length; /* seconds; 0 = none */
    double job_factor;
    int shift_at;                  /* the planted change: second, and by how much … */
    double shift;                  /* … relative; 0 = none */
    int shift_until;               /* 0 = it stays */
    /* While it runs. */
    double ar, slow_ar, day_now, slow_now, grown;
    int spike_next;
    double rare_carry;
};

static inline int sim_by_start(const struct sim_event *a, const struct sim_event *b)
{
    return (a->from > b->from) - (a->from < b->from);
}

static inline void sim_plan_days(struct sim_series *s, double weekend, double wander,
                                 double sizes)
{
    for (int d = 0; d <= s->days; d++) {
        s->day_size[d] = 1 + sizes * sim_normal(&s->random);
        s->day_level[d] = wander * sim_normal(&s->random);
        if (d % 7 == 5 || d % 7 == 6) s->day_level[d] += log(weekend);
    }
}

static inline void sim_plan_spikes(struct sim_series *s, double per_day)
{
    const double mean_s = SIM_DAY / per_day;
    double at = 0;
    while (s->spike_count < SIM_EVENTS_MAX) {
        at += -log(sim_uniform(&s->random)) * mean_s;
        if (at > (double)s->days * SIM_DAY) break;
        const double length = exp(sim_between(&s->random, 0, log(480)));
        double factor = exp(sim_between(&s->random, log(1.5), log(6)));
        if (s->kind == SIM_THROUGHPUT && sim_uniform(&s->random) < 0.7) factor = 1 / factor;
        s->spikes[s->spike_count++] = (struct sim_event){ (int)at, (int)(at + length) + 1,
                                                          factor, 0 };
        at += length;
    }
}

static inline void sim_plan_holes(struct sim_series *s)
{
    const int seconds = s->days * SIM_DAY;
    const double weeks = s->days / 7.0;
    s->restart_count = (int)(sim_uniform(&s->random) * 5 * weeks);
    s->gap_count = (int)(sim_uniform(&s->random) * 5 * weeks);
    if (s->restart_count > 16) s->restart_count = 16;
    if (s->gap_count > 16) s->gap_count = 16;
    for (int i = 0; i < s->restart_count; i++) {
        const int at = (int)(sim_uniform(&s->random) * seconds);
        s->restarts[i] = (struct sim_event){ at, at + (int)sim_between(&s->random, 60, 600),
            sim_between(&s->random, 1.2, 3), sim_uniform(&s->random) < 0.67 };
    }
    for (int i = 0; i < s->gap_count; i++) {
        const int at = (int)(sim_uniform(&s->random) * seconds);
        s->gaps[i] = (struct sim_event){ at, at + (int)sim_between(&s->random, 300, 10800), 1, 0 };
    }
}

static inline void sim_start(struct sim_series *s)
{
    s->ar = sim_normal(&s->random);
    s->slow_ar = sim_normal(&s->random);
}

/* A series of a host without any change. */
static inline void sim_host_series(struct sim_series *s, uint64_t seed, int days)
{
    static const double phis[] = { 0, 0.3, 0.5, 0.8, 0.9, 0.95 };
    memset(s, 0, sizeof(*s));
    s->random.state = seed * 0x2545f4914f6cdd1dull + 12345;
    struct sim_random *r = &s->random;
    s->days = days;
    const double which = sim_uniform(r);
    s->kind = which < 0.45 ? SIM_LATENCY : which < 0.8 ? SIM_THROUGHPUT
              : which < 0.9 ? SIM_MEMORY : SIM_RARE;
    s->level = exp(sim_between(r, -5, 10));
    s->phi = phis[(int)(sim_uniform(r) * 6)];
    s->phase = sim_uniform(r);
    s->second = sim_between(r, 0, 0.5);
    const double slow_s = exp(sim_between(r, log(300), log(7200)));
    s->slow_phi = exp(-60 / slow_s);
    double weekend = 1, wander = sim_between(r, 0, 0.03);
    switch (s->kind) {
    case SIM_LATENCY:
        s->noise = sim_between(r, 0.03, 0.2);
        s->rhythm = sim_between(r, 0, 0.15);
        s->slow = sim_between(r, 0, 0.04);
        break;
    case SIM_THROUGHPUT:
        s->noise = sim_between(r, 0.03, 0.25);
        s->rhythm = sim_between(r, 0.1, 0.6);
        s->slow = sim_between(r, 0, 0.06);
        if (sim_uniform(r) < 0.5) weekend = sim_between(r, 0.6, 1);
        break;
    case SIM_MEMORY:
        s->noise = sim_between(r, 0.0005, 0.01);
        s->slow = sim_between(r, 0, 0.02);
        s->growth = sim_between(r, 0, 0.3) / (7 * SIM_DAY);
        s->rhythm = sim_between(r, 0, 0.05);
        break;
    case SIM_RARE:
        s->level = exp(sim_between(r, log(0.001), log(0.5)));
        s->rhythm = sim_between(r, 0, 0.6);
        break;
    }
    sim_plan_days(s, weekend, wander, 0.2);
    if (s->kind != SIM_RARE && s->kind != SIM_MEMORY) sim_plan_spikes(s, sim_between(r, 2, 20));
    if (s->kind == SIM_LATENCY && sim_uniform(r) < 0.2) {
        s->job_every = sim_uniform(r) < 0.5 ? 3600 : SIM_DAY;
        s->job_from = (int)(sim_uniform(r) * s->job_every);
        s->job_length = (int)sim_between(r, 300, 1500);
        s->job_factor = sim_between(r, 1.1, 2);
    }
    sim_plan_holes(s);
    sim_start(s);
}

/* A series with 5 % noise, spikes and a daily rhythm of 10 %, that shifts. */
static inline void sim_shift_series(struct sim_series *s, uint64_t seed, int days, double phi,
                                    double rhythm, double shift)
{
    memset(s, 0, sizeof(*s));
    s->random.state = seed * 0x9e6c63d0876a9a35ull + 777;
    struct sim_random *r = &s->random;
    s->days = days;
    s->kind = SIM_LATENCY;
    s->level = exp(sim_between(r, -5, 10));
    s->noise = 0.05;
    s->phi = phi;
    s->slow_phi = 0.9;
    s->rhythm = rhythm;
    s->phase = sim_uniform(r);
    s->second = sim_between(r, 0, 0.5);
    sim_plan_days(s, 1, 0.005, 0.1);
    sim_plan_spikes(s, 6);
    s->shift_at = (days - 1) * SIM_DAY + (int)(sim_uniform(r) * (SIM_DAY - 7200));
    s->shift = shift;
    sim_start(s);
}

static inline double sim_day(const struct sim_series *s, int t)
{
    const int noon = t + SIM_DAY / 2, day = noon / SIM_DAY;
    const int from = day > 0 ? day - 1 : 0, to = day < s->days ? day : s->days;
    const double part = (double)(noon % SIM_DAY) / SIM_DAY;
    const double size = s->day_size[from] * (1 - part) + s->day_size[to] * part;
    const double level = s->day_level[from] * (1 - part) + s->day_level[to] * part;
    const double x = SIM_TAU * ((double)(t % SIM_DAY) / SIM_DAY + s->phase);
    return level + s->rhythm * size * (sin(x) + s->second * sin(2 * x));
}

static inline double sim_noise(struct sim_series *s)
{
    /* Nine in ten of sd 1, one of sd 3: the whole has a variance of 1.8. */
    const double wide = sim_uniform(&s->random) < 0.1 ? 3 : 1;
    const double e = wide * sim_normal(&s->random) / 1.3416407865;
    s->ar = s->phi * s->ar + sqrt(1 - s->phi * s->phi) * e;
    return s->noise * s->ar;
}

static inline double sim_rare(struct sim_series *s, double rate)
{
    int n = 0;
    double p = exp(-rate), u = sim_uniform(&s->random);
    double sum = p;
    while (u > sum && n < 100) {
        n++;
        p *= rate / n;
        sum += p;
    }
    return n;
}

/* The value of second t, which ascends by one; NaN = there is none. *restart: it begins anew. */
static inline double sim_next(struct sim_series *s, int t, int *restart)
{
    double factor = 1;
    *restart = 0;
    s->grown += s->growth;
    if (t % 60 == 0) {
        s->slow_ar = s->slow_phi * s->slow_ar +
                     sqrt(1 - s->slow_phi * s->slow_phi) * sim_normal(&s->random);
        s->day_now = exp(sim_day(s, t) + s->slow * s->slow_ar + s->grown);
    }
    const double noise = s->kind == SIM_RARE ? 0 : sim_noise(s);
    while (s->spike_next < s->spike_count && s->spikes[s->spike_next].to <= t) s->spike_next++;
    if (s->spike_next < s->spike_count && s->spikes[s->spike_next].from <= t) {
        factor *= s->spikes[s->spike_next].factor;
    }
    if (s->job_every && (t + s->job_every - s->job_from) % s->job_every < s->job_length) {
        factor *= s->job_factor;
    }
    for (int i = 0; i < s->gap_count; i++) {
        if (t >= s->gaps[i].from && t < s->gaps[i].to) return NAN;
    }
    for (int i = 0; i < s->restart_count; i++) {
        const struct sim_event *e = &s->restarts[i];
        if (t < e->from || t >= e->to + 600) continue;
        if (t < e->to) return NAN;
        if (t == e->to) {
            *restart = e->announced;
            s->grown = 0;
        }
        if (s->kind != SIM_MEMORY) factor *= 1 + (e->factor - 1) * exp(-(t - e->to) / 150.0);
    }
    if (s->shift != 0 && t >= s->shift_at && (!s->shift_until || t < s->shift_until)) {
        factor *= 1 + s->shift;
    }
    const double mean = s->level * s->day_now * factor;
    /* exp(noise), near enough, and never below 0. */
    return s->kind == SIM_RARE ? sim_rare(s, mean) : mean * fmax(0.01, 1 + noise);
}

#endif
