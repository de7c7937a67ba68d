/* Change points: steps that are found, and what is not one (spikes, rhythm, gaps, warm-up); effect
 * and interval; what went away; a small version of the simulated weeks (perf/changes.c). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "analyze/change.h"
#include "base/alloc.h"
#include "unit/analyze/change_sim.h"

/* A series by the minute: level, noise, and a step. */
struct plain {
    double level, noise, rhythm, step;
    int days, step_at, step_until;    /* minutes; until 0 = it stays */
    int hole_from, hole_to, restart_at;
    double warm;                      /* after the restart, for ten minutes: times the value */
};

struct outcome { int found, returned, at; struct sonde_change first, last; size_t bins; };

static double plain_value(const struct plain *p, struct sim_random *r, int t)
{
    double x = p->level * (1 + p->noise * sim_normal(r)) *
               (1 + p->rhythm * sin(SIM_TAU * t / 1440.0));
    if (p->step_at && t >= p->step_at && (!p->step_until || t < p->step_until)) x *= 1 + p->step;
    if (p->restart_at && t >= p->restart_at && t < p->restart_at + 10) x *= p->warm;
    return x;
}

static struct outcome plain_run(const struct plain *p, uint64_t seed)
{
    struct outcome o = { 0 };
    struct sim_random r = { .state = seed };
    struct sonde_change_series *s;
    struct sonde_change c;
    assert_int_equal(sonde_change_create(NULL, &s), 0);
    for (int t = 0; t < p->days * 1440; t++) {
        const double x = plain_value(p, &r, t);
        if (t >= p->hole_from && t < p->hole_to) continue;
        if (p->restart_at && t == p->restart_at) sonde_change_restart(s, 60.0 * t);
        const enum sonde_change_event e = sonde_change_add(s, 60.0 * t, 60, x, &c);
        if (e == SONDE_CHANGE_NONE) continue;
        if (!o.found) o.first = c;
        if (!o.found) o.at = t;
        o.found += e == SONDE_CHANGE_FOUND;
        o.returned += e == SONDE_CHANGE_RETURNED;
        o.last = c;
    }
    o.bins = sonde_change_bins(s);
    sonde_change_destroy(s);
    return o;
}

static void test_step_is_found(void **state)
{
    (void)state;
    const struct plain p = { .level = 200, .noise = 0.02, .days = 4, .step = 0.1,
                             .step_at = 3 * 1440 + 407 };
    const struct outcome o = plain_run(&p, 1);
    assert_int_equal(o.found, 1);
    assert_int_equal(o.returned, 0);
    assert_true(o.at > p.step_at && o.at <= p.step_at + 60);
    assert_true(o.first.time_low_s <= 60.0 * p.step_at && o.first.time_high_s >= 60.0 * p.step_at);
    assert_true(o.first.relative_low < 0.1 && o.first.relative_high > 0.1);
    assert_true(o.first.relative_high - o.first.relative_low < 0.05);
    assert_true(o.first.absolute > 15 && o.first.absolute < 25);
    assert_true(o.first.confidence > 0.9 && o.first.n_eff >= 1);
    assert_int_equal(o.first.state, SONDE_CHANGE_OPEN);
    assert_string_equal(sonde_change_state_name(o.first.state), "open");
}

static void test_step_down_of_rhythm_is_found(void **state)
{
    (void)state;
    const struct plain p = { .level = 0.05, .noise = 0.02, .rhythm = 0.2, .days = 6, .step = -0.15,
                             .step_at = 5 * 1440 + 600 };
    const struct outcome o = plain_run(&p, 2);
    assert_int_equal(o.found, 1);
    assert_true(o.first.absolute < 0 && o.first.relative_low < -0.15 &&
                o.first.relative_high > -0.15);
}

static void test_what_is_not_a_change(void **state)
{
    (void)state;
    static const struct plain cases[] = {
        { .level = 1, .noise = 0.05, .days = 5 },
        { .level = 1, .noise = 0.05, .rhythm = 0.4, .days = 6 },
        { .level = 1, .noise = 0, .days = 4 },                     /* constant */
        { .level = 0, .noise = 0, .days = 4 },                     /* nothing at all */
        { .level = 1, .noise = 0.02, .days = 4, .step = 9, .step_at = 4000,
          .step_until = 4012 },                                    /* a spike of 12 minutes */
        { .level = 1, .noise = 0.02, .days = 4, .step = 0.5, .step_at = 4000, .step_until = 4025 },
        { .level = 1, .noise = 0.02, .days = 4, .hole_from = 4000, .hole_to = 4200 },
        { .level = 1, .noise = 0.02, .days = 4, .restart_at = 4000, .hole_from = 3997,
          .hole_to = 4000, .warm = 5 },
        { .level = 1, .noise = 0.02, .days = 1, .step = 0.5, .step_at = 1000 }, /* too young */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct outcome o = plain_run(&cases[i], 10 + i);
        if (o.found) print_error("case %zu: found one of %g\n", i, o.first.relative);
        assert_int_equal(o.found, 0);
    }
}

static void test_change_across_a_restart(void **state)
{
    (void)state;
    const struct plain p = { .level = 1, .noise = 0.02, .days = 4, .step = 0.2, .step_at = 4000,
                             .hole_from = 3995, .hole_to = 4000, .restart_at = 4000, .warm = 3 };
    const struct outcome o = plain_run(&p, 3);
    assert_int_equal(o.found, 1);
    assert_true(o.first.relative_low < 0.2 && o.first.relative_high > 0.2);
}

static void test_excursion_went_away(void **state)
{
    (void)state;
    const struct plain p = { .level = 1, .noise = 0.02, .days = 5, .step = 0.3, .step_at = 5000,
                             .step_until = 5200 };
    const struct outcome o = plain_run(&p, 4);
    assert_int_equal(o.found, 1);
    assert_int_equal(o.returned, 1);
    assert_int_equal(o.last.state, SONDE_CHANGE_WENT_AWAY);
    assert_true(o.last.time_s == o.first.time_s);
    assert_true(fabs(o.last.until_s - 60.0 * p.step_until) <= 900);
}

static void test_values_that_cannot_be(void **state)
{
    (void)state;
    struct sonde_change_series *s;
    struct sonde_change c;
    assert_int_equal(sonde_change_create(NULL, &s), 0);
    static const double bad[] = { NAN, INFINITY, -INFINITY };
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(sonde_change_add(s, 60 * (double)i, 60, bad[i], &c), SONDE_CHANGE_NONE);
        assert_int_equal(sonde_change_add(s, bad[i], 60, 1, &c), SONDE_CHANGE_NONE);
    }
    assert_int_equal(sonde_change_add(s, 1e300, 60, 1, &c), SONDE_CHANGE_NONE);
    assert_int_equal(sonde_change_bins(s), 0);
    assert_true(isnan(sonde_change_smallest(s)));
    /* Back in time is left out; a year later begins anew. */
    for (int t = 0; t < 100; t++) sonde_change_add(s, 60.0 * t, 60, 1, &c);
    assert_int_equal(sonde_change_add(s, 0, 60, 1e9, &c), SONDE_CHANGE_NONE);
    assert_true(sonde_change_bins(s) > 10);
    for (int t = 0; t < 20; t++) sonde_change_add(s, 3e7 + 60.0 * t, 60, -1, &c);
    assert_true(sonde_change_bins(s) <= 3);
    sonde_change_destroy(s);
    sonde_change_destroy(NULL);
}

/* Values for three minutes of every five, as traffic in bursts has them: each silence would look like
 * a restart, and nothing would be left. */
static void test_bursts(void **state)
{
    (void)state;
    struct sonde_change_series *s;
    struct sonde_change c;
    assert_int_equal(sonde_change_create(NULL, &s), 0);
    for (int t = 0; t < 6 * 3600; t++) {
        if (t % 300 < 180) sonde_change_add(s, t, 1, 100 + t % 7, &c);
    }
    assert_true(sonde_change_bins(s) >= 6 * 12 - 4);
    sonde_change_destroy(s);
}

/* The host of perf/changes.c, fewer series. */
static void test_week_without_alarm(void **state)
{
    (void)state;
    static struct sim_series s;
    int alarms = 0;
    for (uint64_t i = 0; i < 8; i++) {
        struct sonde_change_series *d;
        struct sonde_change c;
        sim_host_series(&s, 5000 + i, 7);
        assert_int_equal(sonde_change_create(NULL, &d), 0);
        for (int t = 0; t < 7 * SIM_DAY; t++) {
            int restart;
            const double x = sim_next(&s, t, &restart);
            if (restart) sonde_change_restart(d, t);
            if (isnan(x) || sonde_change_add(d, t, 1, x, &c) != SONDE_CHANGE_FOUND) continue;
            alarms += (c.absolute > 0) == (s.kind != SIM_THROUGHPUT);
        }
        sonde_change_destroy(d);
    }
    assert_int_equal(alarms, 0);
}

static void test_small_shift_is_found_within_an_hour(void **state)
{
    (void)state;
    static struct sim_series s;
    int found = 0;
    for (uint64_t i = 0; i < 8; i++) {
        struct sonde_change_series *d;
        struct sonde_change c;
        sim_shift_series(&s, 100 + i, 5, 0.5, 0, 0.02);
        assert_int_equal(sonde_change_create(NULL, &d), 0);
        for (int t = 0; t <= s.shift_at + 3600; t++) {
            int restart;
            const double x = sim_next(&s, t, &restart);
            if (sonde_change_add(d, t, 1, x, &c) != SONDE_CHANGE_FOUND) continue;
            found += t >= s.shift_at && c.absolute > 0;
        }
        sonde_change_destroy(d);
    }
    assert_true(found >= 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_is_found),
        cmocka_unit_test(test_step_down_of_rhythm_is_found),
        cmocka_unit_test(test_what_is_not_a_change),
        cmocka_unit_test(test_change_across_a_restart),
        cmocka_unit_test(test_excursion_went_away),
        cmocka_unit_test(test_values_that_cannot_be), cmocka_unit_test(test_bursts),
        cmocka_unit_test(test_week_without_alarm),
        cmocka_unit_test(test_small_shift_is_found_within_an_hour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
