/* A race on surfaces that are known: simulated settings with noise, drift and knobs that interact. What
 * it recommends is judged by the true surface. An exhaustive search that tries each point three times
 * stands beside it: a race has a quarter of its trials. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/tune/race.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "sonde/sonde.h"

#define REPEATS 3u

static uint64_t chance;

static double uniform(void)
{
    chance += SONDE_HASH_MUL;
    return ((double)(sonde_hash_u64(chance) >> 11) + 0.5) * 0x1p-53;
}

static double normal(void)
{
    const double radius = sqrt(-2 * log(uniform()));
    return radius * cos(6.283185307179586 * uniform());
}

/* Under a sanitizer, ten times slower, a few surfaces show that nothing is read or written where it
 * should not be; rates are judged without. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SURFACES(n) ((n) / 10)
#define JUDGED 0
#else
#define SURFACES(n) (n)
#define JUDGED 1
#endif

struct surface {
    struct sonde_tune_space space;
    uint32_t points;
    double *f;           /* logarithms, of all points */
    double best, noise;
};

static void space_make(struct sonde_tune_space *s, const int *shape, size_t count)
{
    memset(s, 0, sizeof(*s));
    for (size_t k = 0; k < count; k++) {
        char name[24];
        snprintf(name, sizeof(name), "k%zu", k);
        struct sonde_tune_knob *knob = sonde_tune_knob_add(s, name);
        assert_non_null(knob);
        for (int l = 0; l < shape[k]; l++) {
            snprintf(name, sizeof(name), "%d", 1 << l);
            assert_int_equal(sonde_tune_level_add(knob, name), l);
        }
        sonde_tune_knob_ready(knob);
    }
}

/* One knob matters most, some a little, some not at all; half of the pairs interact; the start is among
 * the worst fifth. */
static void surface_make(struct surface *s, uint64_t seed, double noise_low, double noise_high)
{
    static const int shapes[][5] = { { 2, 3, 3, 2, 2 }, { 2, 2, 4, 2, 2 } };
    double main_[5][4], pair[5][5];
    chance = seed * 7919;
    space_make(&s->space, shapes[seed % 2], 5);
    s->points = sonde_tune_points(&s->space);
    s->f = calloc(s->points, sizeof(*s->f));
    assert_non_null(s->f);
    s->noise = noise_low + (noise_high - noise_low) * uniform();
    for (size_t k = 0; k < 5; k++) {
        const int n = shapes[seed % 2][k];
        const double size = k == seed % 5 ? 1 : uniform() < 0.25 ? 0 : 0.05 + 0.3 * uniform();
        const double peak = uniform() * (n - 1);
        for (int l = 0; l < n; l++) {
            main_[k][l] = n > 2 ? -size * fabs(l - peak) / (n - 1) + 0.1 * size * normal()
                                : size * 0.5 * normal();
        }
        for (size_t l = 0; l < 5; l++) pair[k][l] = uniform() < 0.5 ? 0 : 0.3 * (2 * uniform() - 1);
    }
    s->best = -INFINITY;
    for (uint32_t p = 0; p < s->points; p++) {
        uint8_t at[SONDE_TUNE_KNOBS_MAX];
        sonde_tune_levels(&s->space, p, at);
        s->f[p] = 3 + 0.005 * normal();
        for (size_t k = 0; k < 5; k++) {
            const double x = (double)at[k] / (s->space.knobs[k].level_count - 1) - 0.5;
            s->f[p] += main_[k][at[k]];
            for (size_t l = k + 1; l < 5; l++) {
                s->f[p] += 2 * pair[k][l] * x *
                           ((double)at[l] / (s->space.knobs[l].level_count - 1) - 0.5);
            }
        }
        if (s->f[p] > s->best) s->best = s->f[p];
    }
    for (;;) {
        const uint32_t start = (uint32_t)(uniform() * s->points);
        uint32_t worse = 0;
        for (uint32_t p = 0; p < s->points; p++) worse += s->f[p] < s->f[start];
        if (worse * 5 > s->points) continue;
        uint8_t at[SONDE_TUNE_KNOBS_MAX];
        sonde_tune_levels(&s->space, start, at);
        for (size_t k = 0; k < 5; k++) s->space.knobs[k].start = at[k];
        return;
    }
}

/* Loss of what is recommended; *trials: how many it took. */
static double surface_race(const struct surface *s, uint64_t seed, uint32_t *trials,
                           struct sonde_tune_answer *a)
{
    const uint32_t may = s->points * REPEATS / 4;
    const struct sonde_tune_race_options o = { .space = &s->space, .trials_max = may, .seed = seed,
                                               .min_gain = 0.01 };
    struct sonde_tune_race *r;
    struct sonde_tune_step step;
    double drift = 0;
    *trials = 0;
    assert_int_equal(sonde_tune_race_create(&o, &r), 0);
    for (;;) {
        assert_int_equal(sonde_tune_race_next(r, &step), 0);
        if (step.phase == SONDE_TUNE_DONE) break;
        drift = 0.8 * drift + 0.01 * normal();
        const double y = s->f[step.point] + drift + s->noise * normal();
        assert_int_equal(sonde_tune_race_tell(r, step, SONDE_TUNE_OK, exp(y)), 0);
        (*trials)++;
    }
    assert_int_equal(sonde_tune_race_answer(r, a), 0);
    assert_true(*trials <= may);
    sonde_tune_race_destroy(r);
    return -expm1(s->f[a->recommended] - s->best);
}

static double surface_exhaustive(const struct surface *s)
{
    double most = -INFINITY, of = 0;
    for (uint32_t p = 0; p < s->points; p++) {
        double sum = 0;
        for (unsigned i = 0; i < REPEATS; i++) sum += s->f[p] + s->noise * normal();
        if (sum > most) {
            most = sum;
            of = s->f[p];
        }
    }
    return -expm1(of - s->best);
}

/* What a model would expect of one knob: its mean effect, times `right`: 1 = a model that is right,
 * -1 = one that says the contrary. */
static void surface_expect(struct surface *s, size_t k, double right)
{
    struct sonde_tune_knob *knob = &s->space.knobs[k];
    uint32_t counts[SONDE_TUNE_LEVELS_MAX] = { 0 };
    double means[SONDE_TUNE_LEVELS_MAX] = { 0 }, all = 0;
    for (uint32_t p = 0; p < s->points; p++) {
        uint8_t at[SONDE_TUNE_KNOBS_MAX];
        sonde_tune_levels(&s->space, p, at);
        means[at[k]] += s->f[p];
        counts[at[k]]++;
        all += s->f[p] / s->points;
    }
    for (size_t l = 0; l < knob->level_count; l++) {
        knob->expected[l] = right * (means[l] / counts[l] - all);
    }
}

static void surfaces(unsigned count, double noise_low, double noise_high, double right,
                     unsigned *near, unsigned *near_exhaustive)
{
    double share = 0;
    *near = *near_exhaustive = 0;
    for (unsigned i = 0; i < count; i++) {
        struct surface s;
        struct sonde_tune_answer a;
        uint32_t trials;
        surface_make(&s, i + 1, noise_low, noise_high);
        if (right != 0) surface_expect(&s, (i + 1) % 5, right);
        *near += surface_race(&s, i + 1, &trials, &a) <= 0.03;
        *near_exhaustive += surface_exhaustive(&s) <= 0.03;
        share += (double)trials / (REPEATS * s.points) / count;
        free(s.f);
    }
    printf("noise %.0f to %.0f %%, expectations %+.0f: within 3 %% of the best %u of %u with %.0f %% of the trials, "
           "exhaustive search %u\n", 100 * noise_low, 100 * noise_high, right, *near, count, 100 * share,
           *near_exhaustive);
}

/* About 95 of 100, which is what the exhaustive search reaches: the bounds are below that, so that
 * another libm does not break the test. */
static void test_little_noise(void **state)
{
    unsigned near, exhaustive;
    (void)state;
    surfaces(SURFACES(100), 0.03, 0.05, 0, &near, &exhaustive);
    assert_true(near >= 90 || !JUDGED);
    assert_true(near + 6 >= exhaustive);
}

/* Where even all points three times do not find the best for sure, a quarter of that finds it about as
 * often. */
static void test_much_noise(void **state)
{
    unsigned near, exhaustive;
    (void)state;
    surfaces(SURFACES(40), 0.05, 0.1, 0, &near, &exhaustive);
    assert_true(near + 6 >= exhaustive);
}

/* Of the knob that matters most something is expected beforehand. If that is right the best is found
 * about as often as by the exhaustive search; if it is the contrary of what is so, trials outvote it. */
static void test_expected(void **state)
{
    unsigned right, wrong, exhaustive;
    (void)state;
    surfaces(SURFACES(20), 0.05, 0.1, 1, &right, &exhaustive);
    assert_true(right + 4 >= exhaustive);
    surfaces(SURFACES(20), 0.05, 0.1, -1, &wrong, &exhaustive);
    assert_true(wrong + 4 >= exhaustive);
}

static void test_flat_keeps_given(void **state)
{
    unsigned kept = 0;
    (void)state;
    for (unsigned i = 0; i < SURFACES(40); i++) {
        struct surface s;
        struct sonde_tune_answer a;
        uint32_t trials;
        surface_make(&s, i + 1, 0.03, 0.1);
        for (uint32_t p = 0; p < s.points; p++) s.f[p] = 3;
        s.best = 3;
        surface_race(&s, i + 1, &trials, &a);
        kept += a.recommended == a.given;
        free(s.f);
    }
    assert_true(kept >= 38 || !JUDGED);
}

/* The interval of the gain holds the true one. */
static void test_gain_is_covered(void **state)
{
    unsigned covered = 0, judged = 0;
    (void)state;
    for (unsigned i = 0; i < SURFACES(30); i++) {
        struct surface s;
        struct sonde_tune_answer a;
        uint32_t trials;
        surface_make(&s, i + 500, 0.03, 0.06);
        surface_race(&s, i + 500, &trials, &a);
        const double gain = expm1(s.f[a.winner] - s.f[a.given]);
        judged += a.pairs > 0;
        covered += a.pairs > 0 && a.low <= gain && gain <= a.high;
        free(s.f);
    }
    assert_true(judged >= 25 || !JUDGED);
    assert_true(covered * 100 >= judged * 85 || !JUDGED);
}

/* ---- Settings that do not work ---------------------------------------------------------------- */

/* value(x) without noise; NaN = fails, negative = breaks a constraint with that value. */
static struct sonde_tune_answer race_plain(struct sonde_tune_space *s, int less,
                                           double (*value)(const uint8_t *levels), size_t *failed)
{
    const struct sonde_tune_race_options o = { .space = s, .trials_max = 24, .seed = 5, .less = less,
                                               .min_gain = 0.01 };
    struct sonde_tune_race *r;
    struct sonde_tune_step step;
    struct sonde_tune_answer a;
    *failed = 0;
    assert_int_equal(sonde_tune_race_create(&o, &r), 0);
    for (;;) {
        uint8_t levels[SONDE_TUNE_KNOBS_MAX];
        assert_int_equal(sonde_tune_race_next(r, &step), 0);
        if (step.phase == SONDE_TUNE_DONE) break;
        sonde_tune_levels(s, step.point, levels);
        const double v = value(levels);
        *failed += !(v > 0);
        assert_int_equal(sonde_tune_race_tell(r, step, isnan(v) ? SONDE_TUNE_FAILED
                                                       : v < 0 ? SONDE_TUNE_BROKEN : SONDE_TUNE_OK,
                                              fabs(v)), 0);
    }
    assert_int_equal(sonde_tune_race_answer(r, &a), 0);
    sonde_tune_race_destroy(r);
    return a;
}

static double value_fails_at_best(const uint8_t *l)
{
    if (l[0] == 2) return NAN;
    return 10.0 * (1 + l[0]) * (1 + l[1]);
}

static double value_breaks_at_best(const uint8_t *l)
{
    return (l[1] == 2 ? -10 : 10) * (1.0 + l[0]) * (1 + l[1]);
}

static double value_start_fails(const uint8_t *l)
{
    return l[0] == 0 && l[1] == 0 ? (double)NAN : 10.0 * (1 + l[0]) * (1 + l[1]);
}

static double value_nothing(const uint8_t *l)
{
    (void)l;
    return NAN;
}

static double value_seconds(const uint8_t *l)
{
    return 10.0 / (1 + l[0]) / (1 + l[1]);
}

static void test_failures(void **state)
{
    static const int shape[] = { 3, 3, 2 };
    struct sonde_tune_space s;
    uint8_t levels[SONDE_TUNE_KNOBS_MAX];
    size_t failed;
    (void)state;
    space_make(&s, shape, 3);
    struct sonde_tune_answer a = race_plain(&s, 0, value_fails_at_best, &failed);
    sonde_tune_levels(&s, a.recommended, levels);
    assert_int_equal(a.verdict, SONDE_TUNE_CHANGE);
    assert_int_equal(levels[0], 1);
    assert_int_equal(levels[1], 2);
    assert_int_equal(levels[2], 0); /* makes no difference: as given */
    assert_true(failed <= 4);       /* a level that only fails is not tried again and again */

    a = race_plain(&s, 0, value_breaks_at_best, &failed);
    sonde_tune_levels(&s, a.recommended, levels);
    assert_int_equal(a.verdict, SONDE_TUNE_CHANGE);
    assert_int_equal(levels[0], 2);
    assert_int_equal(levels[1], 1);

    a = race_plain(&s, 0, value_start_fails, &failed);
    assert_int_equal(a.verdict, SONDE_TUNE_ONLY);
    assert_true(isnan(a.value_given));
    sonde_tune_levels(&s, a.recommended, levels);
    assert_int_equal(levels[0], 2);
    assert_int_equal(levels[1], 2);

    a = race_plain(&s, 0, value_nothing, &failed);
    assert_int_equal(a.verdict, SONDE_TUNE_NOTHING);
    assert_int_equal(a.recommended, a.given);

    a = race_plain(&s, 1, value_seconds, &failed);
    sonde_tune_levels(&s, a.recommended, levels);
    assert_int_equal(a.verdict, SONDE_TUNE_CHANGE);
    assert_int_equal(levels[0], 2);
    assert_int_equal(levels[1], 2);
}

/* ---- Resuming, memory ------------------------------------------------------------------------- */

/* A race that is told the first trials of another goes on as that did. */
static void test_resumed(void **state)
{
    static const int shape[] = { 3, 2, 2 };
    struct sonde_tune_space s;
    struct sonde_tune_race *whole;
    struct sonde_tune_step step;
    (void)state;
    space_make(&s, shape, 3);
    const struct sonde_tune_race_options o = { .space = &s, .trials_max = 14, .seed = 3,
                                               .min_gain = 0.01 };
    assert_int_equal(sonde_tune_race_create(&o, &whole), 0);
    chance = 1;
    for (;;) {
        assert_int_equal(sonde_tune_race_next(whole, &step), 0);
        if (step.phase == SONDE_TUNE_DONE) break;
        assert_int_equal(sonde_tune_race_tell(whole, step, SONDE_TUNE_OK,
                                              (1 + step.point % 3) * exp(0.05 * normal())), 0);
    }
    size_t count;
    const struct sonde_tune_trial *t = sonde_tune_race_trials(whole, &count);
    for (size_t kept = 0; kept < count; kept += 3) {
        struct sonde_tune_race *r;
        assert_int_equal(sonde_tune_race_create(&o, &r), 0);
        for (size_t i = 0; i < kept; i++) {
            assert_int_equal(sonde_tune_race_tell(r, t[i].step, t[i].outcome, t[i].value), 0);
        }
        assert_int_equal(sonde_tune_race_next(r, &step), 0);
        assert_int_equal(step.point, t[kept].step.point);
        assert_int_equal(step.phase, t[kept].step.phase);
        sonde_tune_race_destroy(r);
    }
    sonde_tune_race_destroy(whole);
}

static void test_no_memory(void **state)
{
    static const int shape[] = { 2, 2 };
    struct sonde_tune_space s;
    int rc = SONDE_ENOMEM;
    (void)state;
    space_make(&s, shape, 2);
    const struct sonde_tune_race_options o = { .space = &s, .trials_max = 8, .seed = 1 };
    const int64_t before = sonde__alloc_live();
    for (uint64_t nth = 1; rc == SONDE_ENOMEM; nth++) {
        struct sonde_tune_race *r = NULL;
        struct sonde_tune_step step;
        struct sonde_tune_answer a;
        assert_true(nth < 10000);
        sonde__alloc_fail_nth(nth);
        rc = sonde_tune_race_create(&o, &r);
        for (int i = 0; i < 6 && !rc; i++) {
            rc = sonde_tune_race_next(r, &step);
            if (!rc) rc = sonde_tune_race_tell(r, step, SONDE_TUNE_OK, 1 + step.point);
        }
        if (!rc) rc = sonde_tune_race_answer(r, &a);
        sonde_tune_race_destroy(r);
        sonde__alloc_fail_nth(0);
        assert_int_equal(sonde__alloc_live(), before);
    }
    assert_int_equal(rc, 0);
}

static void test_space(void **state)
{
    struct sonde_tune_space s = { .knob_count = 0 };
    (void)state;
    assert_int_equal(sonde_tune_points(&s), 0);
    struct sonde_tune_knob *k = sonde_tune_knob_add(&s, "threads");
    assert_int_equal(sonde_tune_level_add(k, "8"), 0);
    assert_int_equal(sonde_tune_level_add(k, "2"), 1);
    assert_int_equal(sonde_tune_level_add(k, "4"), 2);
    assert_int_equal(sonde_tune_level_add(k, "2"), 1);
    assert_int_equal(sonde_tune_level_add(k, ""), -1);
    k->start = 0;
    sonde_tune_knob_ready(k);
    assert_true(k->ordered);
    assert_string_equal(k->levels[0], "2");
    assert_string_equal(k->levels[k->start], "8");
    assert_true(fabs(k->places[1] - 0.5) < 1e-12);
    assert_null(sonde_tune_knob_add(&s, "threads"));
    for (int i = 0; i < 4; i++) {
        char name[8];
        snprintf(name, sizeof(name), "k%d", i);
        k = sonde_tune_knob_add(&s, name);
        for (int l = 0; l < 16; l++) {
            snprintf(name, sizeof(name), "v%d", l);
            assert_int_equal(sonde_tune_level_add(k, name), l);
        }
        assert_int_equal(sonde_tune_level_add(k, "one too many"), -1);
    }
    assert_int_equal(sonde_tune_points(&s), 0); /* 3 * 65536 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_space),           cmocka_unit_test(test_failures),
        cmocka_unit_test(test_resumed),         cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_little_noise),    cmocka_unit_test(test_much_noise),
        cmocka_unit_test(test_expected),
        cmocka_unit_test(test_flat_keeps_given), cmocka_unit_test(test_gain_is_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
