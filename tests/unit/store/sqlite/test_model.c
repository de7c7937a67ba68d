/* From a model to the store: counters of others, which are doubles there and whole numbers here. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "model/model.h"
#include "unit/store/sqlite/store_build.h"

/* A total of others, tick by tick, as it is now and is asked for. */
static const struct {
    const char *name;
    double from, step;
} totals[] = {
    { "few_seconds_total", 0.25, 0.125 },
    { "many_seconds_total", 9.1e9, 100 },
    { "most_billionths_seconds_total", 9.3e9, 100 }, /* over 2^63 of them */
    { "more_seconds_total", 3e10, 100 },
    { "whole_total", 12, 3 },
    { "fractions_total", 12.5, 0.5 },
};
enum { TOTALS = sizeof(totals) / sizeof(totals[0]), TICKS = 20 };

static void test_counters_of_others(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
    struct sonde_store_feed *feed = NULL;
    struct sonde_model *m = NULL;
    struct sonde_model_series *series[TOTALS];
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    assert_int_equal(sonde_store_feed_create(OPS, s, &feed), 0);
    for (int i = 0; i < TOTALS; i++) {
        const struct sonde_model_family_spec spec = { .name = totals[i].name,
                                                      .type = SONDE_COUNTER };
        struct sonde_model_family *f = sonde_model_family(m, &spec);
        assert_non_null(f);
        series[i] = sonde_model_series(m, f, NULL, NULL, 0);
        assert_non_null(series[i]);
        series[i]->real = 1;
    }
    for (int tick = 0; tick < TICKS; tick++) {
        for (int i = 0; i < TOTALS; i++) series[i]->gauge = totals[i].from + tick * totals[i].step;
        sonde_model_tick(m, START_S + tick);
        sonde_store_feed_tick(m, feed);
    }
    flush(s);
    for (int i = 0; i < TOTALS; i++) {
        must_ask(s, totals[i].name, START_S, 0, 0);
        assert_int_equal(build_answer.series, 1);
        assert_int_equal(build_answer.count, TICKS);
        for (int tick = 1; tick < TICKS; tick++) {
            const struct sonde_store_point *p = &build_answer.point[tick];
            if (!(fabs(p->sum - totals[i].step) < 1e-6)) {
                fail_msg("%s: %g at tick %d", totals[i].name, p->sum, tick);
            }
        }
    }
    sonde_store_feed_destroy(feed);
    sonde_model_destroy(m);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(test_counters_of_others) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
