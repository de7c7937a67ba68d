/* What `sonde bench cmd` says of runs: how often intervals hold the truth on noise of several kinds,
 * stopping rule included; how often equal commands are called different, and different ones found; why
 * runs fell out; words of command lines. All random numbers are seeded. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/random.h"
#include "bench/cmd/timing.h"
#include "sonde/sonde.h"

enum { TIMES = 2000, MAX = 400 };

/* ---- Noise ----------------------------------------------------------------------------------- */

struct noise { uint64_t seed; double before; };

static double noise_normal(struct noise *n) { return 1 + 0.03 * sonde_random_normal(&n->seed); }

static double noise_lognormal(struct noise *n)
{
    return exp(0.1 * sonde_random_normal(&n->seed) - 0.005); /* its mean is 1 */
}

/* Two speeds, as with two kinds of cores. */
static double noise_bimodal(struct noise *n)
{
    const double mode = sonde_random_unit(&n->seed) < 0.3 ? 1.07 : 0.97;
    return mode + 0.01 * sonde_random_normal(&n->seed);
}

/* Slow for a while: neighbours are alike by 0.3. */
static double noise_alike(struct noise *n)
{
    n->before = 0.3 * n->before + sqrt(1 - 0.09) * sonde_random_normal(&n->seed);
    return 1 + 0.03 * n->before;
}

/* Mostly fast, now and then much slower: other load. */
static double noise_spikes(struct noise *n)
{
    const double spike = sonde_random_unit(&n->seed) < 0.2 ? 0.25 * sonde_random_unit(&n->seed) : 0;
    return 0.975 + 0.01 * sonde_random_normal(&n->seed) + spike;
}

static void test_coverage(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double (*draw)(struct noise *n);
        size_t least;         /* runs */
        double until;         /* 0: no more than these */
        double wanted;        /* share that holds */
    } cases[] = {
        { "normal, 10 runs", noise_normal, 10, 0, 0.93 },
        { "lognormal, 10 runs", noise_lognormal, 10, 0, 0.93 },
        { "two speeds, 10 runs", noise_bimodal, 10, 0, 0.93 },
        { "neighbours alike, 10 runs", noise_alike, 10, 0, 0.93 },
        /* One time in nine no spike is among 10 runs, and nothing in them tells of it: so a command
         * runs for a second at least (settle_s), which is 100 times if it takes 10 ms. */
        { "spikes, 10 runs", noise_spikes, 10, 0, 0.78 },
        { "spikes, 100 runs", noise_spikes, 100, 0, 0.93 },
        { "normal, until 1 %", noise_normal, 10, 0.01, 0.93 },
        { "lognormal, until 3 %", noise_lognormal, 10, 0.03, 0.93 },
        { "two speeds, until 1 %", noise_bimodal, 10, 0.01, 0.93 },
        { "neighbours alike, until 1 %", noise_alike, 10, 0.01, 0.93 },
        { "spikes, 100, then until 1 %", noise_spikes, 100, 0.01, 0.93 },
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        int held = 0;
        size_t runs = 0;
        for (uint64_t t = 0; t < TIMES; t++) {
            struct noise noise = { .seed = 1000 * c + 7 * t };
            double v[MAX];
            size_t n = 0, stop_at = 0;
            struct sonde_estimate e = { NAN, INFINITY, INFINITY, 1 };
            for (int i = 0; i < 20; i++) cases[c].draw(&noise); /* long past its beginning */
            for (;;) {
                v[n++] = cases[c].draw(&noise);
                if (n == MAX) break;
                if (!cases[c].until && n == cases[c].least) break;
                if (!cases[c].until || !sonde_timing_looks(n, cases[c].least)) continue;
                e = sonde_timing_mean(v, n);
                if (sonde_timing_enough(n, sonde_timing_half(&e) / e.value, cases[c].until,
                                        &stop_at)) {
                    break;
                }
            }
            e = sonde_timing_mean(v, n);
            held += fabs(e.value - 1) <= sonde_timing_half(&e);
            runs += n;
        }
        const double share = (double)held / TIMES;
        print_message("%-28s %.1f %% of intervals hold the mean, %.0f runs\n", cases[c].name,
                      100 * share, (double)runs / TIMES);
        if (share < cases[c].wanted) fail_msg("%s: %.3f", cases[c].name, share);
    }
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Both are slow in the same rounds: so they are compared round by round. */
static double compared(uint64_t seed, double times, size_t pairs, double *share_held)
{
    enum { ROUNDS = 20 };
    int called = 0, held = 0;
    for (uint64_t t = 0; t < TIMES; t++) {
        struct noise noise = { .seed = seed + 13 * t };
        double a[ROUNDS], b[ROUNDS];
        for (int i = 0; i < ROUNDS; i++) {
            const double shared = exp(0.2 * sonde_random_normal(&noise.seed));
            a[i] = shared * (1 + 0.01 * sonde_random_normal(&noise.seed));
            b[i] = times * shared * (1 + 0.01 * sonde_random_normal(&noise.seed));
        }
        const struct sonde_timing_ratio r = sonde_timing_compare(a, b, ROUNDS, pairs);
        called += r.p <= 0.05;
        held += r.low <= times && times <= r.high;
    }
    *share_held = (double)held / TIMES;
    return (double)called / TIMES;
}

static void test_compare(void **state)
{
    (void)state;
    double held;
    const double same = compared(1, 1, 1, &held);
    print_message("equal ones called different: %.1f %%, interval holds %.1f %%\n", 100 * same,
                  100 * held);
    assert_true(same <= 0.05 && held >= 0.93);
    /* 2 %, where each varies by 20 % from round to round. */
    const double found = compared(2, 1.02, 1, &held);
    print_message("2 %% found: %.1f %%\n", 100 * found);
    assert_true(found >= 0.95 && held >= 0.93);
    assert_true(compared(3, 1, 6, &held) <= 0.02); /* one pair of four commands */
    /* What it says would be seen is seen in about nine of ten. */
    enum { ROUNDS = 20 };
    double a[ROUNDS], b[ROUNDS];
    uint64_t seed = 5;
    for (int i = 0; i < ROUNDS; i++) {
        a[i] = 1 + 0.01 * sonde_random_normal(&seed);
        b[i] = 1 + 0.01 * sonde_random_normal(&seed);
    }
    const struct sonde_timing_ratio r = sonde_timing_compare(a, b, ROUNDS, 1);
    assert_true(r.smallest > 0.005 && r.smallest < 0.03);
    /* Nothing varies: the same is the same, and what differs does. */
    for (int i = 0; i < ROUNDS; i++) a[i] = b[i] = 1;
    assert_true(sonde_timing_compare(a, b, ROUNDS, 1).p == 1);
    for (int i = 0; i < ROUNDS; i++) b[i] = 2;
    assert_true(sonde_timing_compare(a, b, ROUNDS, 1).p == 0);
    assert_true(isnan(sonde_timing_compare(a, b, 1, 1).p));
    /* A hundred times as long as what varies by half: longer, though how many times is not known. */
    for (int i = 0; i < 3; i++) {
        a[i] = 0.1 + 0.09 * i;
        b[i] = 20 + 0.1 * i;
    }
    const struct sonde_timing_ratio far = sonde_timing_compare(a, b, 3, 1);
    assert_true(far.p < 0.01 && far.value > 50 && !(far.low <= 1));
}

static void test_looks(void **state)
{
    (void)state;
    size_t looks = 0, before = 0;
    for (size_t n = 1; n <= 100000; n++) {
        if (!sonde_timing_looks(n, 10)) continue;
        assert_true(n >= 10 && (!before || n - before <= n / 16 + 1));
        looks++;
        before = n;
    }
    assert_true(looks < 250);
    assert_false(sonde_timing_looks(2, 2)); /* nothing is known of two */
}

/* ---- Outliers -------------------------------------------------------------------------------- */

static void test_outliers(void **state)
{
    (void)state;
    enum { RUNS = 20 };
    static const struct {
        const char *says;
        struct sonde_spawn_use use; /* beyond the usual */
        double wall_s;
    } cases[] = {
        { "page cache", { .faults_major = 12, .waited_s = 0.2 }, 0.5 },
        { "page cache", { .read_bytes = 1 << 20 }, 0.5 },
        { "other load: the host took", { .stolen_s = 0.4 }, 0.5 },
        { "waited", { .waited_s = 0.3, .others_s = 0.5 }, 0.5 },
        { "more CPU time", { .user_s = 0.3 }, 0.5 },
        { "and the host took", { .waited_s = 0.2, .stolen_s = 0.1 }, 0.5 },
        { "other load: 30 involuntary", { .switches_involuntary = 30, .others_s = 0.4 }, 0.5 },
        { "not seen from outside", { .wall_s = 0 }, 0.5 },
        { "shorter", { .wall_s = 0 }, -0.5 },
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        struct sonde_spawn_use runs[RUNS];
        double walls[RUNS];
        struct sonde_timing_outlier *out;
        size_t count;
        for (size_t i = 0; i < RUNS; i++) {
            runs[i] = (struct sonde_spawn_use){ .user_s = 0.5, .counts = { NAN, NAN } };
            walls[i] = 1 + 0.001 * (double)(i % 5);
        }
        runs[7] = cases[c].use;
        runs[7].user_s += 0.5;
        walls[7] += cases[c].wall_s;
        assert_int_equal(sonde_timing_outliers(runs, walls, RUNS, &out, &count), 0);
        assert_int_equal(count, 1);
        assert_int_equal(out[0].run, 7);
        if (!strstr(out[0].reason, cases[c].says)) fail_msg("%s: %s", cases[c].says, out[0].reason);
        sonde__free(out);
        /* Without it there is none. */
        walls[7] -= cases[c].wall_s;
        assert_int_equal(sonde_timing_outliers(runs, walls, RUNS, &out, &count), 0);
        assert_int_equal(count, 0);
    }
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void test_words(void **state)
{
    (void)state;
    static const struct { const char *text; const char *words[5]; } good[] = {
        { "a", { "a" } },
        { "  a  b\tc ", { "a", "b", "c" } },
        { "'a b' \"c d\"", { "a b", "c d" } },
        { "a'b'\"c\"d", { "abcd" } },
        { "a\\ b '\\' \"\\\"\" \"\\n\"", { "a b", "\\", "\"", "\\n" } },
        { "'$x * |' ''", { "$x * |", "" } },
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char **argv;
        size_t n = 0;
        struct sonde_err err = { "" };
        assert_int_equal(sonde_timing_words(good[i].text, &argv, &err), 0);
        for (; argv[n]; n++) assert_string_equal(argv[n], good[i].words[n]);
        assert_true(n == 5 || !good[i].words[n]);
        sonde_timing_words_free(argv);
    }
    static const char *const bad[] = { "", "  ", "'a", "\"a", "a\\", "a | b", "$x", "\"$x\"", "a*",
                                       "`a`", "a > b", "a & b" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char **argv = NULL;
        struct sonde_err err = { "" };
        if (sonde_timing_words(bad[i], &argv, &err) != SONDE_EINVAL) fail_msg("%s", bad[i]);
        assert_null(argv);
        assert_true(err.text[0]);
    }
    /* Every allocation may fail. */
    const int64_t live = sonde__alloc_live();
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 50; nth++) {
        char **argv = NULL;
        sonde__alloc_fail_nth(nth);
        rc = sonde_timing_words("a 'b c' d", &argv, NULL);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        sonde_timing_words_free(argv);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coverage), cmocka_unit_test(test_compare),
        cmocka_unit_test(test_looks), cmocka_unit_test(test_outliers),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
