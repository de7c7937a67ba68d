/* The sequential comparison: its evidence against the integral that it is the closed form of; false
 * alarms of equal arms that are looked at after every pair, for noise of many kinds; how many pairs
 * a planted difference takes; intervals that hold the truth at every look. All seeds are fixed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/sequential.h"
#include "analyze/stats.h"
#include "unit/analyze/random.h"

#define TESTS 1000

enum sim_noise { SIM_NORMAL, SIM_LOGNORMAL, SIM_SKEWED, SIM_HEAVY, SIM_TWO_VALUES };

static double sim_value(enum sim_noise kind)
{
    switch (kind) {
    case SIM_NORMAL: return 1 + 0.03 * random_normal();
    case SIM_LOGNORMAL: return exp(0.1 * random_normal());
    case SIM_SKEWED: return exp(random_normal());
    case SIM_HEAVY: { /* Student's t of 2 degrees: no variance */
        const double z = random_normal();
        return 1 + 0.03 * z / sqrt(-log(random_uniform()));
    }
    case SIM_TWO_VALUES: break;
    }
    return random_uniform() < 0.5 ? 1 : 1.05;
}

/* Noise of time that is alike from one value to the next (phi), added to that of each value. */
struct sim {
    enum sim_noise noise;
    double phi, effect, detect;
    int arms;          /* each arm has slow noise of its own, and pairs are not drawn */
    uint32_t values;   /* of b in a block, nine times that of a: a split of 10 % */
    uint32_t pairs_max;
};

struct sim_outcome { double differ, same, wrong, pairs; };

static double sim_mean(enum sim_noise kind, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++) sum += sim_value(kind);
    return sum / count;
}

static double sim_step(double *slow, double phi)
{
    *slow = phi * *slow + sqrt(1 - phi * phi) * 0.03 * random_normal();
    return phi > 0 ? *slow : 0;
}

static enum sonde_sequential_verdict sim_once(const struct sim *m, struct sonde_sequential *s)
{
    const struct sonde_sequential_options options = {
        .detect = m->detect, .better = -1, .drawn = !m->arms
    };
    double slow[2] = { 0.03 * random_normal(), 0.03 * random_normal() };
    sonde_sequential_init(s, &options);
    while (s->pairs < m->pairs_max) {
        double a = sim_mean(m->noise, m->values ? 9 * m->values : 1);
        double b = sim_mean(m->noise, m->values ? m->values : 1);
        if (m->arms) {
            a += sim_step(&slow[0], m->phi);
            b += sim_step(&slow[1], m->phi);
        } else {
            /* Two places in time, of which one is drawn for a. */
            const double place[2] = { sim_step(&slow[0], m->phi), sim_step(&slow[0], m->phi) };
            const int first = random_uniform() < 0.5;
            a += place[!first];
            b += place[first];
        }
        sonde_sequential_add(s, a, b * (1 + m->effect));
        const enum sonde_sequential_verdict v = sonde_sequential_decide(s);
        if (v != SONDE_SEQUENTIAL_UNDECIDED) return v;
    }
    return SONDE_SEQUENTIAL_UNDECIDED;
}

static struct sim_outcome sim_run(const char *name, const struct sim *m)
{
    struct sim_outcome o = { 0, 0, 0, 0 };
    random_state = 1;
    for (int i = 0; i < TESTS; i++) {
        struct sonde_sequential s;
        const enum sonde_sequential_verdict v = sim_once(m, &s);
        o.differ += v == SONDE_SEQUENTIAL_A || v == SONDE_SEQUENTIAL_B;
        o.wrong += v == SONDE_SEQUENTIAL_B; /* less is better, and b has more */
        o.same += v == SONDE_SEQUENTIAL_SAME;
        o.pairs += (double)s.pairs;
    }
    o.pairs /= TESTS;
    printf("%-34s differ %5.1f %%  same %5.1f %%  pairs %6.1f\n", name, 100 * o.differ / TESTS,
           100 * o.same / TESTS, o.pairs);
    return o;
}

static void test_false_alarms(void **state)
{
    (void)state;
    static const struct { const char *name; struct sim sim; } cases[] = {
        { "normal", { .noise = SIM_NORMAL, .pairs_max = 300 } },
        { "lognormal", { .noise = SIM_LOGNORMAL, .pairs_max = 300 } },
        { "lognormal, skewed", { .noise = SIM_SKEWED, .pairs_max = 300 } },
        { "heavy tails", { .noise = SIM_HEAVY, .pairs_max = 300 } },
        { "two values", { .noise = SIM_TWO_VALUES, .pairs_max = 300 } },
        { "AR 0.3", { .noise = SIM_NORMAL, .phi = 0.3, .pairs_max = 300 } },
        { "AR 0.9", { .noise = SIM_NORMAL, .phi = 0.9, .pairs_max = 300 } },
        { "normal, detect 3 %", { .noise = SIM_NORMAL, .detect = 0.03, .pairs_max = 300 } },
        { "arms", { .noise = SIM_NORMAL, .arms = 1, .pairs_max = 300 } },
        { "arms, AR 0.3", { .noise = SIM_NORMAL, .arms = 1, .phi = 0.3, .pairs_max = 300 } },
        { "arms, AR 0.6", { .noise = SIM_NORMAL, .arms = 1, .phi = 0.6, .pairs_max = 300 } },
        { "arms, heavy tails", { .noise = SIM_HEAVY, .arms = 1, .pairs_max = 300 } },
        { "arms 10 %, skewed", { .noise = SIM_SKEWED, .arms = 1, .values = 20, .pairs_max = 60 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct sim_outcome o = sim_run(cases[i].name, &cases[i].sim);
        assert_true(o.differ <= 0.05 * TESTS);
    }
}

/* What looking does to a test that is made for one look: why this file exists. */
static void test_student_at_every_look(void **state)
{
    (void)state;
    double limit[201];
    int alarms = 0;
    for (int n = 2; n <= 200; n++) limit[n] = sonde_t_quantile(0.975, n - 1);
    random_state = 1;
    for (int i = 0; i < TESTS; i++) {
        double sum = 0, square = 0;
        for (int n = 1; n <= 200; n++) {
            const double d = sim_value(SIM_NORMAL) - sim_value(SIM_NORMAL);
            sum += d;
            square += d * d;
            const double variance = (square - sum * sum / n) / (n - 1);
            if (n < 5 || fabs(sum / n) <= limit[n] * sqrt(variance / n)) continue;
            alarms++;
            break;
        }
    }
    printf("Student's t at every look          differ %5.1f %%\n", 100.0 * alarms / TESTS);
    assert_true(alarms > 0.2 * TESTS);
}

static void test_planted(void **state)
{
    (void)state;
    static const struct { const char *name; struct sim sim; double pairs_max; } cases[] = {
        { "3 % in noise of 3 %",
          { .noise = SIM_NORMAL, .effect = 0.03, .detect = 0.03, .pairs_max = 1000 }, 40 },
        { "1 % in noise of 3 %",
          { .noise = SIM_NORMAL, .effect = 0.01, .detect = 0.01, .pairs_max = 2000 }, 220 },
        { "3 % in lognormal noise of 10 %",
          { .noise = SIM_LOGNORMAL, .effect = 0.03, .detect = 0.03, .pairs_max = 2000 }, 260 },
        { "3 %, heavy tails",
          { .noise = SIM_HEAVY, .effect = 0.03, .detect = 0.03, .pairs_max = 2000 }, 200 },
        { "3 %, arms, AR 0.3",
          { .noise = SIM_NORMAL, .effect = 0.03, .detect = 0.03, .arms = 1, .phi = 0.3,
            .pairs_max = 1000 }, 120 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct sim_outcome o = sim_run(cases[i].name, &cases[i].sim);
        assert_true(o.differ >= 0.98 * TESTS);
        assert_true(o.wrong == 0);
        assert_true(o.pairs <= cases[i].pairs_max);
    }
    /* Equal arms are called equal, and soon. */
    const struct sim equal = { .noise = SIM_NORMAL, .detect = 0.03, .pairs_max = 300 };
    const struct sim_outcome o = sim_run("equal, noise of 3 %, detect 3 %", &equal);
    assert_true(o.same >= 0.97 * TESTS);
    assert_true(o.pairs <= 60);
}

/* E is the mean of exp(k S - k^2 V / 2) over k that is normal with variance K. */
static double mixture_integral(double sum, double square, double variance)
{
    double total = 0;
    const double width = sqrt(variance), step = width / 500;
    for (double k = -12 * width; k <= 12 * width; k += step) {
        total += exp(k * sum - k * k * square / 2 - k * k / (2 * variance)) * step;
    }
    return total / (width * sqrt(2 * M_PI));
}

static void test_evidence(void **state)
{
    (void)state;
    static const double a[] = { 10.0, 10.4, 9.9, 10.2, 10.1, 9.7, 10.6, 10.0 };
    static const double b[] = { 10.9, 10.7, 10.8, 11.2, 10.7, 10.6, 11.5, 10.8 };
    const struct sonde_sequential_options options = { .drawn = 1, .better = -1 };
    struct sonde_sequential s;
    double sum = 0, square = 0, first = 0, evidence = 0, most = 1;
    sonde_sequential_init(&s, &options);
    for (size_t i = 0; i < 8; i++) {
        const double d = b[i] - a[i];
        sum += d;
        square += d * d;
        if (i < SONDE_SEQUENTIAL_FIRST) first += d * d / SONDE_SEQUENTIAL_FIRST;
        sonde_sequential_add(&s, a[i], b[i]);
        if (i + 1 < SONDE_SEQUENTIAL_FIRST) {
            assert_int_equal(sonde_sequential_decide(&s), SONDE_SEQUENTIAL_UNDECIDED);
            assert_true(sonde_sequential_look(&s).p == 1);
            continue;
        }
        evidence = (mixture_integral(sum, square, 1 / first) +
                    mixture_integral(sum, square, 0.1 / first) +
                    mixture_integral(sum, square, 0.01 / first)) / 3;
        if (evidence > most) most = evidence;
        assert_true(fabs(sonde_sequential_look(&s).p * most - 1) < 1e-6);
    }
    /* Eight of eight in the same direction is little: so many coins fall alike in 1 of 128 cases.
     * */
    const struct sonde_sequential_look look = sonde_sequential_look(&s);
    assert_true(fabs(look.change - 0.7875) < 1e-9 && fabs(look.a - 10.1125) < 1e-9);
    assert_true((look.p <= 0.05) == (look.low > 0) && (look.low > 0) == (look.relative_low > 0));
}

/* The truth is in the intervals at all of several looks together in 95 % of tests: of the ratio
 * where arms differ by a factor, whatever the noise, and of the difference where they differ by a
 * sum. */
static void test_coverage(void **state)
{
    (void)state;
    static const uint32_t looks[] = { 8, 12, 20, 40, 80, 160 };
    const struct sonde_sequential_options options = { .drawn = 1, .better = -1 };
    for (int kind = SIM_NORMAL; kind <= SIM_HEAVY; kind++) {
        int missed[2] = { 0, 0 };
        random_state = 7;
        for (int i = 0; i < 400; i++) {
            struct sonde_sequential s[2];
            int out[2] = { 0, 0 };
            size_t at = 0;
            sonde_sequential_init(&s[0], &options);
            sonde_sequential_init(&s[1], &options);
            for (uint32_t n = 1; n <= 160; n++) {
                const double a = sim_value((enum sim_noise)kind);
                const double b = sim_value((enum sim_noise)kind);
                sonde_sequential_add(&s[0], a, b * 1.1);
                sonde_sequential_add(&s[1], a, b + 0.1);
                if (n != looks[at]) continue;
                at++;
                const struct sonde_sequential_look r = sonde_sequential_look(&s[0]);
                const struct sonde_sequential_look d = sonde_sequential_look(&s[1]);
                out[0] |= !(r.relative_low <= 0.1 && r.relative_high >= 0.1);
                out[1] |= !(d.low <= 0.1 && d.high >= 0.1);
            }
            missed[0] += out[0];
            missed[1] += out[1];
        }
        printf("kind %d: ratio missed %d of 400, difference %d\n", kind, missed[0], missed[1]);
        assert_true(missed[0] <= 20 && missed[1] <= 20);
    }
}

/* What look says and what decide says are one. */
static void test_look_agrees(void **state)
{
    (void)state;
    random_state = 3;
    for (int i = 0; i < 300; i++) {
        const struct sonde_sequential_options options = {
            .drawn = i % 2, .better = i % 3 - 1, .detect = 0.05
        };
        struct sonde_sequential s;
        sonde_sequential_init(&s, &options);
        const double effect = 0.04 * random_normal();
        for (int n = 0; n < 5 + i; n++) {
            sonde_sequential_add(&s, sim_value(SIM_NORMAL), sim_value(SIM_NORMAL) * (1 + effect));
        }
        const struct sonde_sequential_look look = sonde_sequential_look(&s);
        const int differ = look.low > 0 || look.high < 0;
        const int same = !differ && look.relative_low > -0.05 && look.relative_high < 0.05;
        assert_int_equal(differ, look.relative_low > 0 || look.relative_high < 0);
        assert_int_equal(look.verdict == SONDE_SEQUENTIAL_SAME, same);
        if (!differ) continue;
        const int b_better = options.better && (look.change > 0) == (options.better > 0);
        assert_int_equal(look.verdict, !options.better ? SONDE_SEQUENTIAL_DIFFERENT
                                       : b_better      ? SONDE_SEQUENTIAL_B
                                                       : SONDE_SEQUENTIAL_A);
    }
}

static void test_degenerate(void **state)
{
    (void)state;
    const struct sonde_sequential_options options = { .drawn = 1, .better = -1, .detect = 0.01 };
    struct sonde_sequential s;
    /* Counts that are always the same. */
    sonde_sequential_init(&s, &options);
    for (int i = 0; i < 12; i++) sonde_sequential_add(&s, 4096, 4096);
    struct sonde_sequential_look look = sonde_sequential_look(&s);
    assert_int_equal(look.verdict, SONDE_SEQUENTIAL_SAME);
    assert_true(look.change == 0 && fabs(look.low) < 1e-6 && fabs(look.high) < 1e-6);
    /* Counts that always differ by the same: as sure as signs can be. */
    sonde_sequential_init(&s, &options);
    for (int i = 0; i < 12; i++) sonde_sequential_add(&s, 4096, 8192);
    look = sonde_sequential_look(&s);
    assert_int_equal(look.verdict, SONDE_SEQUENTIAL_A);
    assert_true(fabs(look.relative - 1) < 1e-12 && look.relative_low > 0.99);
    /* Nothing at all, and zeros. */
    sonde_sequential_init(&s, &options);
    look = sonde_sequential_look(&s);
    assert_true(isnan(look.a) && look.p == 1 && look.verdict == SONDE_SEQUENTIAL_UNDECIDED);
    for (int i = 0; i < 20; i++) sonde_sequential_add(&s, 0, 0);
    look = sonde_sequential_look(&s);
    assert_true(look.change == 0 && isnan(look.relative) && look.low == 0 && look.high == 0);
    assert_int_equal(look.verdict, SONDE_SEQUENTIAL_SAME);
    /* What is no number is left out and counted. */
    sonde_sequential_add(&s, NAN, 1);
    sonde_sequential_add(&s, 1, INFINITY);
    assert_int_equal(s.skipped, 2);
    assert_int_equal(s.pairs, 20);
    /* Large values that hardly differ keep their digits. */
    sonde_sequential_init(&s, &options);
    random_state = 5;
    for (int i = 0; i < 200; i++) {
        const double a = 1e12 + random_normal();
        sonde_sequential_add(&s, a, 1e12 + 2 + random_normal());
    }
    look = sonde_sequential_look(&s);
    assert_true(fabs(look.change - 2) < 0.4 && look.low > 1 && look.high < 3);
}

static void test_arms(void **state)
{
    (void)state;
    const struct sonde_sequential_options options = { .better = -1, .detect = 0.05 };
    struct sonde_sequential_arms arms;
    sonde_sequential_arms_init(&arms, &options);
    random_state = 11;
    uint64_t values = 0;
    double now = 100;
    while (sonde_sequential_decide(&arms.pairs) == SONDE_SEQUENTIAL_UNDECIDED && values < 1000000) {
        const int arm = random_uniform() < 0.1;
        sonde_sequential_arms_add(&arms, arm, sim_value(SIM_LOGNORMAL) * (arm ? 1.1 : 1), now);
        now += 0.02;
        values++;
    }
    const struct sonde_sequential_look look = sonde_sequential_look(&arms.pairs);
    assert_int_equal(look.verdict, SONDE_SEQUENTIAL_A);
    assert_true(look.relative_low < 0.1 && look.relative_high > 0.1);
    assert_true(arms.total_count[0] + arms.total_count[1] == values);
    /* A block lasts 10 s at least: 500 values, of which b has 50. */
    assert_true(look.pairs <= values / 500 && look.pairs >= values / 700);
    /* A block waits for the smaller arm. */
    sonde_sequential_arms_init(&arms, &options);
    for (int i = 0; i < 10000; i++) sonde_sequential_arms_add(&arms, 0, 1, i);
    assert_int_equal(arms.pairs.pairs, 0);
    for (int i = 0; i < 20; i++) sonde_sequential_arms_add(&arms, 1, 1, 10000 + i);
    assert_int_equal(arms.pairs.pairs, 1);
    sonde_sequential_arms_add(&arms, 1, NAN, 10020);
    assert_int_equal(arms.pairs.skipped, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evidence),   cmocka_unit_test(test_false_alarms),
        cmocka_unit_test(test_planted),    cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_look_agrees), cmocka_unit_test(test_degenerate),
        cmocka_unit_test(test_arms),       cmocka_unit_test(test_student_at_every_look),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
