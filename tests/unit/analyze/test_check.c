/* Checks against a baseline, of runs whose truth is known: how often an unchanged program is called
 * regressed on a machine that has slow minutes, whether a planted slowdown is found with as many
 * runs as were asked for, and what verdicts and limits make of figures. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/check.h"
#include "analyze/power.h"
#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"
#include "unit/analyze/compare_build.h"

enum { RUNS_MAX = 80 };

struct checked {
    struct sonde_profile *side[2][RUNS_MAX];
    size_t count[2];
    struct sonde_fail_on *limits;
    size_t limit_count;
    struct sonde_check_options how;
    struct sonde_comparison *comparison;
    struct sonde_check check;
};

static int checked_run(struct checked *c)
{
    static struct sonde_compare_run runs[2][RUNS_MAX];
    const struct sonde_profile_filter any = { .kind = -1, .span = "handle" };
    const struct sonde_compare_options o = { .kind = -1, .lend = 1, .consecutive = 1,
                                             .watched = sonde_check_watches,
                                             .watched_arg = &c->how, .level = SONDE_CHECK_LEVEL };
    struct sonde_err err = { "" };
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < c->count[s]; i++) {
            runs[s][i] = (struct sonde_compare_run){ c->side[s][i], any };
        }
    }
    sonde_check_release(&c->check);
    sonde_comparison_destroy(c->comparison);
    if (sonde_compare(runs[0], c->count[0], runs[1], c->count[1], &o, &c->comparison, &err)) {
        fail_msg("%s", err.text);
    }
    return sonde_check_run(c->comparison, &c->how, &c->check, &err);
}

static void checked_limits(struct checked *c, const char *const *texts, size_t count)
{
    struct sonde_err err;
    c->limits = sonde__calloc(count, sizeof(*c->limits));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(sonde_fail_on_parse(texts[i], &c->limits[i], &err), 0);
    }
    c->how.limits = c->limits;
    c->how.limit_count = count;
}

static void checked_defaults(struct checked *c)
{
    assert_int_equal(sonde_check_defaults(1, 0, &c->limits, &c->how.limit_count), 0);
    c->how.limits = c->limits;
    c->how.defaults = 1;
}

static void checked_release(struct checked *c)
{
    for (int s = 0; s < 2; s++) {
        for (size_t i = 0; i < c->count[s]; i++) sonde_profile_destroy(c->side[s][i]);
    }
    sonde_check_release(&c->check);
    sonde_comparison_destroy(c->comparison);
    sonde__free(c->limits);
}

/* A machine whose speed wanders: what it is for one run it mostly still is for the next. */
struct machine { double likeness, spread, state; };

static struct sonde_profile *machine_record(struct machine *m, double slower)
{
    m->state = m->likeness * m->state + sqrt(1 - m->likeness * m->likeness) * random_normal();
    const double speed = exp(m->spread * m->state) * slower;
    const struct build_program b = { .latency_s = 0.001 * speed, .request_hz = 400, .rate_hz = 40,
                                     .seconds = 1, .spans = 1 };
    return build_run(&b);
}

static void checked_add(struct checked *c, struct machine *m, int side, size_t runs, double slower)
{
    for (size_t i = 0; i < runs; i++) {
        assert_true(c->count[side] < RUNS_MAX);
        c->side[side][c->count[side]++] = machine_record(m, slower);
    }
}

/* ---- An unchanged program -------------------------------------------------------------------- */

static void test_unchanged(void **state)
{
    (void)state;
    enum { PAIRS = 80 };
    static const double likeness[] = { 0, 0.3, 0.6 };
    random_state = 14;
    for (size_t k = 0; k < SONDE_COUNT(likeness); k++) {
        struct machine m = { .likeness = likeness[k], .spread = 0.03 };
        int alarms = 0;
        for (int i = 0; i < PAIRS; i++) {
            struct checked c = { .how = { 0 } };
            checked_defaults(&c);
            checked_add(&c, &m, 0, 5, 1); /* first all of one, then all of the other */
            checked_add(&c, &m, 1, 5, 1);
            assert_int_equal(checked_run(&c), 0);
            alarms += c.check.failed;
            checked_release(&c);
        }
        /* 2 of 40, at most. */
        print_message("likeness %g: %d alarms in %d\n", likeness[k], alarms, PAIRS);
        if (alarms > PAIRS / 20) fail_msg("likeness %g: %d alarms", likeness[k], alarms);
    }
}

/* A single run against five: its own spread is not known, the baseline's is. */
static void test_single(void **state)
{
    (void)state;
    enum { PAIRS = 60 };
    struct machine m = { .spread = 0.03 };
    int alarms = 0, seen = 0;
    random_state = 15;
    for (int i = 0; i < PAIRS; i++) {
        for (int slower = 0; slower < 2; slower++) {
            struct checked c = { .how = { 0 } };
            checked_defaults(&c);
            checked_add(&c, &m, 0, 5, 1);
            checked_add(&c, &m, 1, 1, slower ? 1.5 : 1);
            assert_int_equal(checked_run(&c), 0);
            assert_true(c.comparison->by_runs && c.comparison->lent);
            *(slower ? &seen : &alarms) += c.check.failed;
            checked_release(&c);
        }
    }
    assert_true(alarms <= PAIRS / 20);
    assert_true(seen >= PAIRS * 9 / 10);
}

/* ---- A planted slowdown ---------------------------------------------------------------------- */

static void test_planted(void **state)
{
    (void)state;
    enum { TRIALS = 20 };
    static const char *const limits[] = { "p50:handle>1%" };
    struct machine m = { .spread = 0.02 };
    int found = 0, early = 0;
    random_state = 16;
    for (int i = 0; i < TRIALS; i++) {
        struct checked c = { .how = { .detect = 0.05 } };
        checked_limits(&c, limits, 1);
        checked_add(&c, &m, 0, 5, 1);
        checked_add(&c, &m, 1, 5, 1.05);
        assert_int_equal(checked_run(&c), 0);
        early += c.check.failed;
        for (int stage = 0; stage < 3 && c.check.rows[0].more_each; stage++) {
            const size_t more = c.check.rows[0].more_each;
            assert_true(more < RUNS_MAX - c.count[0]);
            checked_add(&c, &m, 0, more, 1);
            checked_add(&c, &m, 1, more, 1.05);
            assert_int_equal(checked_run(&c), 0);
        }
        found += c.check.failed && c.check.rows[0].verdict == SONDE_CHECK_REGRESSED;
        checked_release(&c);
    }
    print_message("%d of %d found, %d with five runs\n", found, TRIALS, early);
    if (found < TRIALS * 9 / 10) fail_msg("%d of %d found", found, TRIALS);
    assert_true(early < found); /* it did not ask for nothing */
}

/* ---- Power ----------------------------------------------------------------------------------- */

static void test_power(void **state)
{
    (void)state;
    /* Spread 2 %, five of each: (t(0.975, 8) + t(0.9, 8)) 0.02 sqrt(0.4) = (2.306 + 1.397) … */
    const double se = 0.02 / sqrt(5);
    const struct sonde_estimate e[2] = { { 1, se, se, 4 }, { 1, se, se, 4 } };
    const size_t n[2] = { 5, 5 }, none[2] = { 0, 0 };
    const struct sonde_power p = sonde_power_of(e, n);
    assert_float_equal(p.spread, 0.02, 1e-9);
    const double smallest = sonde_power_smallest(&p, none, 0.05, 0.9);
    assert_float_equal(smallest, 0.04684, 1e-4);
    assert_int_equal(sonde_power_more(&p, 0.05, 0.05, 0.9, 0), 0);
    const size_t each = sonde_power_more(&p, 0.03, 0.05, 0.9, 1);
    assert_in_range(each, 4, 6);
    const size_t enough[2] = { each, each }, less[2] = { each - 1, each - 1 };
    assert_true(sonde_power_smallest(&p, enough, 0.05, 0.9) <= 0.03);
    assert_true(sonde_power_smallest(&p, less, 0.05, 0.9) > 0.03);
    /* With five before, however many after, less than 2.9 % cannot be. */
    assert_true(sonde_power_more(&p, 0.032, 0.05, 0.9, 0) > each);
    assert_int_equal(sonde_power_more(&p, 0.02, 0.05, 0.9, 0), SONDE_POWER_NEVER);
    /* Not known. */
    const struct sonde_estimate blind[2] = { { 1, INFINITY, INFINITY, 1 }, { 1, 0, 0, 1 } };
    const size_t one[2] = { 1, 1 };
    const struct sonde_power q = sonde_power_of(blind, one);
    assert_true(isnan(sonde_power_smallest(&q, none, 0.05, 0.9)));
    assert_int_equal(sonde_power_more(&q, 0.1, 0.05, 0.9, 1), SONDE_POWER_NEVER);
}

/* ---- Verdicts -------------------------------------------------------------------------------- */

static void test_verdicts(void **state)
{
    (void)state;
    static const char *const limits[] = { "p50:handle>1%", "p50:handle>50%", "p50:handle<1%",
                                          "p95:handle>1h", "p95:handle>1ns" };
    static const struct {
        double slower;
        enum sonde_check_verdict verdict;
        int broken[5];
        const char *name;
    } cases[] = {
        { 1.3, SONDE_CHECK_REGRESSED, { 1, 0, 0, 0, 1 }, "regressed" },
        { 0.7, SONDE_CHECK_IMPROVED, { 0, 0, 1, 0, 1 }, "improved" },
        { 1, SONDE_CHECK_NOTHING, { 0, 0, 0, 0, 1 }, "nothing to be seen" },
    };
    struct machine m = { .spread = 0.01 };
    random_state = 17;
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        struct checked c = { .how = { 0 } };
        checked_limits(&c, limits, SONDE_COUNT(limits));
        checked_add(&c, &m, 0, 5, 1);
        checked_add(&c, &m, 1, 5, cases[i].slower);
        assert_int_equal(checked_run(&c), 0);
        assert_int_equal(c.check.count, SONDE_COUNT(limits));
        for (size_t k = 0; k < c.check.count; k++) {
            if (c.check.rows[k].broken != cases[i].broken[k]) {
                fail_msg("%s: %s is%s broken", cases[i].name, limits[k],
                         c.check.rows[k].broken ? "" : " not");
            }
        }
        assert_int_equal(c.check.rows[0].verdict, cases[i].verdict);
        assert_string_equal(sonde_check_verdict_name(cases[i].verdict), cases[i].name);
        assert_int_equal(c.check.rows[3].verdict, SONDE_CHECK_WITHIN);
        assert_int_equal(c.check.rows[4].verdict, SONDE_CHECK_BEYOND);
        assert_true(isnan(c.check.rows[4].smallest) && !c.check.rows[4].goal);
        checked_release(&c);
    }
}

/* What cannot be tested: a limit that was asked for is broken, defaults are passed over. */
static void test_unknown(void **state)
{
    (void)state;
    static const char *const known[] = { "p50:handle>1%" }, *const lacking[] = { "rss>1%" };
    const struct build_program few = { .latency_s = 0.001, .request_hz = 6, .rate_hz = 100,
                                       .seconds = 2, .spans = 1 };
    for (int kind = 0; kind < 4; kind++) {
        struct checked c = { .how = { .unknown_ok = kind == 1 } };
        random_state = 18;
        if (kind < 2) checked_limits(&c, known, 1);
        else if (kind == 2) checked_limits(&c, lacking, 1);
        else checked_defaults(&c);
        c.side[0][c.count[0]++] = build_run(&few);
        c.side[1][c.count[1]++] = build_run(&few);
        const int rc = checked_run(&c);
        if (kind == 2) {
            assert_int_equal(rc, SONDE_ENOENT);
        } else if (kind < 2) {
            assert_int_equal(rc, 0);
            assert_int_equal(c.check.rows[0].verdict, SONDE_CHECK_UNKNOWN);
            assert_int_equal(c.check.failed, kind == 0);
        } else {
            assert_int_equal(rc, 0);
            assert_int_equal(c.check.broken, 0);
        }
        checked_release(&c);
    }
}

/* The number of other figures does not make it harder to see one that is watched. */
static void test_family(void **state)
{
    (void)state;
    static const char *const one[] = { "p50:handle>1%" };
    struct machine m = { .spread = 0.01 };
    struct checked c = { .how = { 0 } };
    random_state = 19;
    checked_limits(&c, one, 1);
    checked_add(&c, &m, 0, 4, 1);
    checked_add(&c, &m, 1, 4, 1.02);
    assert_int_equal(checked_run(&c), 0);
    const struct sonde_compare_measure *f = c.check.rows[0].figure;
    assert_int_equal(c.comparison->watched, 1);
    assert_true(f->watched && f->adjusted == f->d.p);
    for (size_t i = 0; i < c.comparison->count; i++) {
        const struct sonde_compare_measure *g = &c.comparison->figures[i];
        assert_int_equal(g->watched, g == f);
        assert_true(g->level > 0);
    }
    checked_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unchanged), cmocka_unit_test(test_single),
        cmocka_unit_test(test_planted),   cmocka_unit_test(test_power),
        cmocka_unit_test(test_verdicts),  cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
