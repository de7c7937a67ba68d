/* Pairs of two arms whose values are known: order drawn evenly, the verdict, every way to stop,
 * failures, and what leaves as a result. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/random.h"
#include "bench/ab/pairs.h"
#include "sonde/sonde.h"

static const struct sonde_pairs_figure arm_figures[] = {
    { "wall_s", "wall time", "s", -1 },
    { "rate", "rate", "1/s", 1 },
    { "none", "nothing", "", -1 },
};

struct arm_world {
    double mean[2];
    uint64_t seed;
    uint64_t calls[2], fail_at, stop_at;
    int order[64];
};

static int arm_measure(void *arg, int arm, double *values, struct sonde_err *err)
{
    struct arm_world *w = arg;
    const uint64_t call = w->calls[0] + w->calls[1];
    if (w->fail_at && call + 1 == w->fail_at) {
        return sonde_err_set(err, SONDE_EIO, "it failed");
    }
    if (w->stop_at && call + 1 == w->stop_at) return 1;
    if (call < SONDE_COUNT(w->order)) w->order[call] = arm;
    w->calls[arm]++;
    values[0] = w->mean[arm] * (1 + 0.02 * sonde_random_normal(&w->seed));
    values[1] = 1 / values[0];
    values[2] = NAN;
    return 0;
}

static struct sonde_pairs_options arm_options(struct arm_world *w)
{
    return (struct sonde_pairs_options){
        .figures = arm_figures, .figure_count = SONDE_COUNT(arm_figures), .detect = 0.03,
        .pairs_max = 300, .seed = 7, .measure = arm_measure, .measure_arg = w };
}

static void verdicts(void **state)
{
    (void)state;
    static const struct { double b; enum sonde_sequential_verdict verdict, rate; } cases[] = {
        { 1.1, SONDE_SEQUENTIAL_A, SONDE_SEQUENTIAL_A },
        { 0.9, SONDE_SEQUENTIAL_B, SONDE_SEQUENTIAL_B },
        { 1.0, SONDE_SEQUENTIAL_SAME, SONDE_SEQUENTIAL_SAME },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        struct arm_world w = { .mean = { 1, cases[i].b }, .seed = 11 };
        const struct sonde_pairs_options o = arm_options(&w);
        struct sonde_pairs p;
        struct sonde_err err = { "" };
        assert_int_equal(sonde_pairs_run(&o, &p, &err), 0);
        assert_int_equal(p.end, SONDE_PAIRS_DECIDED);
        assert_int_equal(sonde_sequential_decide(&p.tests[0]), cases[i].verdict);
        assert_true(p.pairs < 60 && w.calls[0] == p.pairs && w.calls[1] == p.pairs);
        assert_int_equal(p.tests[2].pairs, 0);
        struct sonde_bench_result r;
        sonde_bench_result_init(&r, "ab", "");
        assert_int_equal(sonde_pairs_result(&p, &r), 0);
        assert_int_equal(r.figure_count, 4); /* a and b of two figures; nothing of the third */
        assert_int_equal(sonde_bench_figure_find(&r, "b.wall_s")->part_count, p.pairs);
        struct sonde_buf text;
        sonde_buf_init(&text, 1 << 16);
        sonde_pairs_text(&p, "A", "B", &(struct sonde_bench_view){ .ascii = 1 }, &text);
        sonde_buf_putc(&text, '\0');
        assert_non_null(strstr(text.data, sonde_sequential_verdict_name(cases[i].rate)));
        sonde_buf_release(&text);
        sonde_bench_result_release(&r);
        sonde_pairs_release(&p);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void order(void **state)
{
    (void)state;
    struct arm_world w = { .mean = { 1, 1 }, .seed = 2 };
    struct sonde_pairs_options o = arm_options(&w);
    struct sonde_pairs p;
    struct sonde_err err = { "" };
    o.detect = 0;
    o.warmup = 3;
    o.pairs_max = 20;
    assert_int_equal(sonde_pairs_run(&o, &p, &err), 0);
    assert_int_equal(p.end, SONDE_PAIRS_MAX_PAIRS);
    assert_int_equal(p.pairs, 20);
    assert_int_equal(w.calls[0], 23);
    int first = 0;
    for (int i = 0; i < 23; i++) {
        assert_true(w.order[2 * i] != w.order[2 * i + 1]); /* each once in a pair */
        first += w.order[2 * i];
        if (i >= 3) assert_int_equal(w.order[2 * i], p.b_first[i - 3]);
    }
    assert_true(first > 3 && first < 20);
    sonde_pairs_release(&p);
}

static void ends(void **state)
{
    (void)state;
    struct sonde_pairs p;
    struct sonde_err err = { "" };
    struct arm_world w = { .mean = { 1, 1 }, .seed = 2, .stop_at = 8 };
    struct sonde_pairs_options o = arm_options(&w);
    assert_int_equal(sonde_pairs_run(&o, &p, &err), 0);
    assert_int_equal(p.end, SONDE_PAIRS_INTERRUPTED);
    assert_int_equal(p.pairs, 3); /* half a pair does not count */
    sonde_pairs_release(&p);
    w = (struct arm_world){ .mean = { 1, 1 }, .seed = 2, .fail_at = 5 };
    assert_int_equal(sonde_pairs_run(&o, &p, &err), SONDE_EIO);
    assert_string_equal(err.text, "it failed");
    w = (struct arm_world){ .mean = { 1, 1 }, .seed = 2 };
    o.detect = 0;
    o.time_max_s = 1e-9;
    assert_int_equal(sonde_pairs_run(&o, &p, &err), 0);
    assert_int_equal(p.end, SONDE_PAIRS_MAX_TIME);
    assert_int_equal(p.pairs, 1);
    sonde_pairs_release(&p);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdicts), cmocka_unit_test(order), cmocka_unit_test(ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
