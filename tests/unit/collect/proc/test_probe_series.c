/* Series that come and go: forgetting one leaves the others as they are, and rows follow the
 * things they stand for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "collect/proc/probe_series.h"

static const struct sonde_model_family_spec spec = {
    .name = "things_total", .type = SONDE_COUNTER, .scale = SONDE_PROBE_CLOCK_TICKS,
};

static void forget_one_of_many(void **state)
{
    (void)state;
    enum { N = 300 };
    struct sonde_model *m = NULL;
    struct sonde_model_series *s[N] = { NULL };
    char text[16];
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    for (unsigned i = 0; i < N; i++) {
        snprintf(text, sizeof(text), "%u", i);
        const struct sonde_label label = { "n", text };
        sonde_probe_counter(m, &spec, NULL, &label, 1, &s[i], i);
        assert_non_null(s[i]);
    }
    sonde_model_tick(m, 1);
    for (unsigned i = 0; i < N; i += 3) sonde_probe_drop(m, &s[i]);
    assert_int_equal(m->series_count, N - N / 3);
    assert_int_equal(m->families[0]->series_count, N - N / 3);
    sonde_model_tick(m, 2);
    for (unsigned i = 0; i < N; i++) {
        snprintf(text, sizeof(text), "%u", i);
        const struct sonde_label label = { "n", text };
        struct sonde_model_series *again = NULL;
        sonde_probe_counter(m, &spec, NULL, &label, 1, &again, i);
        if (i % 3) assert_ptr_equal(again, s[i]);
        else assert_int_equal(again->history_count, 0); /* a new one */
        assert_int_equal(again->counter, i);
    }
    /* In the order they were added, the new ones last. */
    assert_string_equal(m->families[0]->series[0]->label_text, "n=\"1\"");
    assert_string_equal(m->families[0]->series[N - 1]->label_text, "n=\"297\"");
    /* The last one of a family: the family stays, and takes new ones. */
    while (m->families[0]->series_count) {
        sonde_model_series_forget(m, m->families[0]->series[0]);
    }
    assert_int_equal(m->series_count, 0);
    assert_int_equal(m->family_count, 1);
    struct sonde_model_series *last = NULL;
    sonde_probe_counter(m, &spec, NULL, NULL, 0, &last, 7);
    assert_non_null(last);
    sonde_model_tick(m, 3);
    sonde_model_destroy(m);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void clock_tick_scale(void **state)
{
    (void)state;
    struct sonde_model *m = NULL;
    struct sonde_model_series *s = NULL, *none = NULL;
    struct sonde_model_family_spec other = spec;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    sonde_probe_counter(m, &spec, NULL, NULL, 0, &s, (uint64_t)sysconf(_SC_CLK_TCK));
    const double seconds = (double)s->counter * s->family->scale;
    assert_true(seconds > 0.999999 && seconds < 1.000001);
    /* A name that is taken by another type is left alone. */
    other.type = SONDE_GAUGE;
    sonde_probe_gauge(m, &other, NULL, NULL, 0, &none, 1);
    assert_null(none);
    sonde_probe_drop(m, &none);
    assert_int_equal(m->dropped_conflicts, 1);
    sonde_model_destroy(m);
}

static void rows(void **state)
{
    (void)state;
    struct sonde_model *m = NULL;
    struct sonde_probe_rows r = { .max = 3 };
    int fresh;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    static const char *const order[] = { "a", "b", "c" };
    for (size_t i = 0; i < 3; i++) {
        const struct sonde_label label = { "k", order[i] };
        struct sonde_probe_row *row = sonde_probe_row(&r, order[i], &fresh);
        assert_int_equal(fresh, 1);
        sonde_probe_counter(m, &spec, NULL, &label, 1, &row->series[0], i);
    }
    assert_null(sonde_probe_row(&r, "d", &fresh));
    assert_int_equal(r.left_out, 1);
    sonde_probe_rows_sweep(m, &r);
    assert_int_equal(r.count, 3);
    /* Next time in another order, without b. */
    assert_string_equal(sonde_probe_row(&r, "c", &fresh)->key, "c");
    assert_int_equal(fresh, 0);
    assert_string_equal(sonde_probe_row(&r, "a", &fresh)->key, "a");
    sonde_probe_rows_sweep(m, &r);
    assert_int_equal(r.count, 2);
    assert_int_equal(m->series_count, 2);
    sonde_probe_rows_sweep(m, &r);
    assert_int_equal(m->series_count, 0);
    sonde_probe_rows_release(&r);
    sonde_model_destroy(m);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forget_one_of_many),
        cmocka_unit_test(clock_tick_scale),
        cmocka_unit_test(rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
