/* Results of benchmarks: the mean and its interval against figures worked out by hand, JSON against
 * a reader that is not ours, and what is left out when arguments are stripped. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/strip.h"
#include "bench/result.h"
#include "sonde/sonde.h"

static void mean_of_parts(void **state)
{
    (void)state;
    struct sonde_bench_result r;
    sonde_bench_result_init(&r, "cmd", "x");
    struct sonde_bench_figure *f = sonde_bench_figure_add(&r, "wall_s", "s", -1);
    assert_non_null(f);
    assert_true(isnan(f->value));
    sonde_bench_figure_mean(f);
    assert_true(isnan(f->value) && !f->samples);

    static const double parts[] = { 9, 10, 11, 10, 10 };
    assert_int_equal(sonde_bench_figure_parts(f, parts, 1), 0);
    sonde_bench_figure_mean(f);
    assert_true(f->value == 9 && isnan(f->low) && isnan(f->high));

    assert_int_equal(sonde_bench_figure_parts(f, parts, SONDE_COUNT(parts)), 0);
    sonde_bench_figure_mean(f);
    assert_true(f->value == 10 && f->samples == 5);
    /* s = sqrt(2 / 4), t(0.975, 4) = 2.776445: 10 +- 0.877989 */
    assert_true(fabs(f->low - 9.122011) < 1e-5 && fabs(f->high - 10.877989) < 1e-5);
    assert_ptr_equal(sonde_bench_figure_find(&r, "wall_s"), f);
    assert_null(sonde_bench_figure_find(&r, "wall"));
    sonde_bench_result_release(&r);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void result_fill(struct sonde_bench_result *r)
{
    char first[] = "bench", second[] = "a \"b\"\xff", *argv[] = { first, second };
    sonde_bench_result_init(r, "http", "name \x01");
    r->seed = UINT64_MAX;
    sonde_bench_result_command(r, argv, 2);
    struct sonde_bench_figure *f = sonde_bench_figure_add(r, "ttft_s.p50", "s", -1);
    if (f && !sonde_bench_figure_parts(f, (const double[]){ 1, NAN, 3 }, 3)) f->value = 2;
    sonde_bench_figure_add(r, "empty", "", 0);
    sonde_bench_result_doubt(r, "the client was the limit: %d %%", 99);
    sonde_json_key_open(&r->extra, "metrics", '{');
    sonde_json_close(&r->extra, '}');
    sonde_json_num(&r->extra, "requests_per_s", 1.5);
    sonde_bench_result_end(r);
}

static void read_by_another(void **state)
{
    (void)state;
    struct sonde_bench_result r;
    struct sonde_buf out;
    result_fill(&r);
    sonde_buf_init(&out, 1 << 20);
    sonde_bench_result_json(&r, &out);
    assert_int_equal(out.error, 0);
    json_error_t error;
    json_t *o = json_loadb(out.data, out.len, JSON_DECODE_INT_AS_REAL, &error);
    if (!o) fail_msg("%s: %s", error.text, out.data);
    assert_string_equal(json_string_value(json_object_get(o, "kind")), "http");
    json_t *command = json_object_get(o, "command");
    assert_int_equal(json_array_size(command), 2);
    assert_string_equal(json_string_value(json_array_get(command, 1)), "a \"b\"\xef\xbf\xbd");
    assert_true(json_is_object(json_object_get(o, "metrics")));
    assert_true(json_number_value(json_object_get(o, "requests_per_s")) == 1.5);
    json_t *verdict = json_object_get(o, "verdict");
    assert_true(json_is_false(json_object_get(verdict, "valid")));
    assert_string_equal(json_string_value(json_array_get(json_object_get(verdict, "reasons"), 0)),
                        "the client was the limit: 99 %");
    json_t *figure = json_array_get(json_object_get(o, "figures"), 0);
    assert_true(json_number_value(json_object_get(figure, "value")) == 2);
    assert_true(json_is_null(json_object_get(figure, "low")));
    json_t *parts = json_object_get(figure, "parts");
    assert_int_equal(json_array_size(parts), 3);
    assert_true(json_is_null(json_array_get(parts, 1)));
    assert_true(json_number_value(json_object_get(json_object_get(o, "machine"), "cpus")) >= 1);
    json_decref(o);
    sonde_buf_release(&out);
    sonde_bench_result_release(&r);
}

static void stripped(void **state)
{
    (void)state;
    struct sonde_bench_result r;
    sonde_strip_set(1);
    result_fill(&r);
    sonde_strip_set(0);
    assert_int_equal(r.command_count, 0);
    assert_string_equal(r.machine.host, "");
    sonde_bench_result_release(&r);
}

/* What cannot be kept for lack of memory is left out; nothing leaks. */
static void without_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 30; nth++) {
        struct sonde_bench_result r;
        struct sonde_buf out;
        sonde__alloc_fail_nth(nth);
        result_fill(&r);
        sonde_buf_init(&out, 1 << 20);
        sonde_bench_result_json(&r, &out);
        sonde__alloc_fail_nth(0);
        sonde_buf_release(&out);
        sonde_bench_result_release(&r);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mean_of_parts),
        cmocka_unit_test(read_by_another),
        cmocka_unit_test(stripped),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
