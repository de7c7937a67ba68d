/* Which earlier predictions a recording checks, and what the errors add up to. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/predict/history.h"

static struct sonde_prediction made(double rate, double ttft)
{
    struct sonde_prediction p = { .id = (uint64_t)(rate * 10), .made_s = 100, .recorded_s = 50,
                                  .host = "h", .model = "m", .program = "p", .rate = rate,
                                  .slots = 4, .batch_tokens = 256, .requests = 100,
                                  .tokens_in = 100, .tokens_out = 20 };
    for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
        p.figures[f] = (struct sonde_predict_value){ ttft, 0.8 * ttft, 1.2 * ttft };
    }
    return p;
}

static void test_matches(void **state)
{
    (void)state;
    const struct sonde_prediction p = made(5, 0.1);
    struct sonde_prediction m = made(5.2, 0.11);
    m.recorded_s = 60;
    assert_true(sonde_prediction_matches(&p, &m));
    struct sonde_prediction o = m;
    o.recorded_s = 50;
    assert_false(sonde_prediction_matches(&p, &o)); /* what it was made from */
    o = m;
    o.rate = 6;
    assert_false(sonde_prediction_matches(&p, &o));
    o = m;
    o.slots = 8;
    assert_false(sonde_prediction_matches(&p, &o));
    o.slots = 0; /* not known: it may be */
    assert_true(sonde_prediction_matches(&p, &o));
    o = m;
    o.tokens_in = 130;
    assert_false(sonde_prediction_matches(&p, &o));
    o = m;
    o.tokens_out = 30;
    assert_false(sonde_prediction_matches(&p, &o));
    o = m;
    snprintf(o.host, sizeof(o.host), "elsewhere");
    assert_false(sonde_prediction_matches(&p, &o));
    o = m;
    snprintf(o.model, sizeof(o.model), "another");
    assert_false(sonde_prediction_matches(&p, &o));
}

static void test_check(void **state)
{
    (void)state;
    struct sonde_predictions all = { 0 };
    struct sonde_prediction p = made(5, 0.1), m = made(5, 0.125);
    struct sonde_prediction_errors e;
    uint32_t checked;
    assert_int_equal(sonde_predictions_add(&all, &p), 0);
    p = made(9, 0.3);
    assert_int_equal(sonde_predictions_add(&all, &p), 0);
    m.recorded_s = 60;
    assert_int_equal(sonde_predictions_check(&all, &m, 200, &checked), 0);
    assert_int_equal(checked, 1);
    assert_int_equal(all.count, 2);
    assert_true(all.list[0].checked_s == 200 && all.list[1].checked_s == 0);
    /* The same recording checks once; another one is another check. */
    assert_int_equal(sonde_predictions_check(&all, &m, 210, &checked), 0);
    assert_int_equal(checked, 0);
    m = made(5, 0.1);
    m.recorded_s = 70;
    assert_int_equal(sonde_predictions_check(&all, &m, 220, &checked), 0);
    assert_int_equal(checked, 1);
    assert_int_equal(all.count, 3);
    sonde_predictions_errors(&all, "h", "m", SONDE_PREDICT_TTFT_P50, &e);
    assert_int_equal(e.count, 2);
    assert_int_equal(e.inside, 1);              /* 0.125 is above 1.2 times 0.1 */
    assert_true(fabs(e.worst - 0.2) < 1e-9);    /* 0.1 instead of 0.125 */
    assert_true(fabs(e.median) < 1e-9);
    sonde_predictions_errors(&all, "h", "x", SONDE_PREDICT_TTFT_P50, &e);
    assert_int_equal(e.count, 0);
    assert_true(isnan(e.median) != 0);
    sonde_predictions_release(&all);
}

static void test_bounded(void **state)
{
    (void)state;
    struct sonde_predictions all = { 0 };
    for (uint32_t i = 0; i < SONDE_PREDICTIONS_MAX + 10; i++) {
        struct sonde_prediction p = made(5, 0.1);
        p.id = i;
        assert_int_equal(sonde_predictions_add(&all, &p), 0);
    }
    assert_int_equal(all.count, SONDE_PREDICTIONS_MAX);
    assert_int_equal(all.list[0].id, 10); /* the oldest went */
    sonde_predictions_release(&all);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches), cmocka_unit_test(test_check),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
