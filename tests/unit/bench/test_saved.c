/* Results that are kept: round trips with all members, runs that are added, hostile files with the
 * sentence each gives, no memory at any point. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "bench/figure.h"
#include "bench/saved.h"
#include "sonde/sonde.h"

static char saved_dir[64];

static void saved_example(struct sonde_bench_result *r, double value)
{
    static const double parts[] = { 1, 2.5, 3 };
    sonde_bench_result_init(r, "http", "night \"ly\"");
    char *argv[] = { "sonde", "bench", "http", "http://127.0.0.1:1/\x01" };
    assert_int_equal(sonde_bench_result_command(r, argv, 4), 0);
    r->seed = 18446744073709551615u;
    struct sonde_bench_figure *f = sonde_bench_figure_add(r, "ttft_s.p50", "s", -1);
    assert_int_equal(sonde_bench_figure_parts(f, parts, 3), 0);
    sonde_bench_figure_mean(f);
    f = sonde_bench_figure_add(r, "requests_per_s", "1/s", 1);
    f->value = value;
    sonde_bench_figure_add(r, "unknown", "", 0);
    sonde_bench_result_doubt(r, "the client was the limit");
    sonde_json_key_open(&r->extra, "metrics", '{');
    sonde_json_num(&r->extra, "deep", 1.5);
    sonde_json_close(&r->extra, '}');
    sonde_bench_result_end(r);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct sonde_bench_result r;
    struct sonde_bench_saved s = { 0 };
    struct sonde_buf once, twice;
    struct sonde_err err = { "" };
    saved_example(&r, 40.25);
    sonde_buf_init(&once, SONDE_BENCH_JSON_MAX);
    sonde_buf_init(&twice, SONDE_BENCH_JSON_MAX);
    sonde_bench_result_json(&r, &once);
    assert_int_equal(sonde_bench_saved_load_bytes(once.data, once.len, "x", &s, &err), 0);
    assert_int_equal(s.count, 1);
    const struct sonde_bench_result *got = &s.runs[0];
    assert_string_equal(got->kind, "http");
    assert_string_equal(got->name, r.name);
    assert_true(got->seed == r.seed && got->command_count == 4 && got->figure_count == 3);
    assert_string_equal(got->command[3], r.command[3]);
    assert_true(got->figures[0].part_count == 3 && got->figures[0].parts[1] == 2.5);
    assert_true(got->figures[0].value == r.figures[0].value);
    assert_true(got->figures[1].better == 1 && got->figures[1].value == 40.25);
    assert_true(isnan(got->figures[2].value) && isnan(got->figures[2].low));
    assert_int_equal(got->reason_count, 1);
    assert_string_equal(got->machine.cpu, r.machine.cpu);
    /* All of it, byte for byte. */
    sonde_bench_result_json(got, &twice);
    assert_int_equal(once.len, twice.len);
    assert_memory_equal(once.data, twice.data, once.len);
    sonde_buf_release(&once);
    sonde_buf_release(&twice);
    sonde_bench_saved_release(&s);
    sonde_bench_result_release(&r);
}

static void test_append(void **state)
{
    (void)state;
    char path[160], folder[128];
    struct sonde_err err = { "" };
    size_t runs = 0;
    snprintf(folder, sizeof(folder), "%s/new", saved_dir);
    snprintf(path, sizeof(path), "%s/one.json", folder);
    for (int i = 0; i < 3; i++) {
        struct sonde_bench_result r;
        saved_example(&r, 40 + i);
        const int rc = sonde_bench_saved_append(path, &r, &runs, &err);
        if (rc) fail_msg("%s", err.text);
        assert_int_equal(runs, i + 1);
        sonde_bench_result_release(&r);
    }
    struct sonde_bench_saved s = { 0 };
    assert_int_equal(sonde_bench_saved_load(path, &s, &err), 0);
    assert_int_equal(s.count, 3);
    for (int i = 0; i < 3; i++) assert_true(s.runs[i].figures[1].value == 40 + i);
    sonde_bench_saved_release(&s);
    /* What is not ours stays as it is. */
    struct sonde_bench_result r;
    saved_example(&r, 1);
    assert_int_equal(sonde_file_replace(path, "my notes\n", 9, &err), 0);
    assert_int_equal(sonde_bench_saved_append(path, &r, &runs, &err), SONDE_EFORMAT);
    assert_non_null(strstr(err.text, "one.json"));
    struct sonde_buf file;
    sonde_buf_init(&file, 1000);
    assert_int_equal(sonde_file_read(path, &file, &err), 0);
    assert_string_equal(file.data, "my notes\n");
    sonde_buf_release(&file);
    unlink(path);
    assert_int_equal(sonde_bench_saved_load(path, &s, &err), SONDE_ENOENT);
    rmdir(folder);
    sonde_bench_result_release(&r);
}

#define HEAD "{\"schema\":1,\"kind\":\"cmd\","
static void test_hostile(void **state)
{
    (void)state;
    static const struct { const char *text; int rc; const char *says; } cases[] = {
        { "", SONDE_EFORMAT, "empty" },
        { "  \n ", SONDE_EFORMAT, "empty" },
        { "[]", SONDE_EFORMAT, "line 1" },
        { "{}", SONDE_EFORMAT, "no schema" },
        { "{\"schema\":1}", SONDE_EFORMAT, "no kind" },
        { "{\"schema\":2,\"kind\":\"x\"}", SONDE_EVERSION, "newer" },
        { "{\"schema\":99,\"kind\":3}", SONDE_EVERSION, "newer" },
        { HEAD "\"figures\":3}", SONDE_EFORMAT, "line 1" },
        { HEAD "\"figures\":[{}]}", SONDE_EFORMAT, "without a name" },
        { HEAD "\"figures\":[{\"name\":\"a\",\"value\":1e999}]}", SONDE_EFORMAT, "number" },
        { HEAD "\"figures\":[{\"name\":\"a\",\"low\":2,\"high\":1}]}", SONDE_EFORMAT, "interval" },
        { HEAD "\"figures\":[{\"name\":\"a\",\"better\":7}]}", SONDE_EFORMAT, "cannot be" },
        { HEAD "\"figures\":[{\"name\":\"a\",\"unit\":\"furlongs per fortnight\"}]}",
          SONDE_EFORMAT, "too long" },
        { HEAD "\"figures\":[{\"name\":\"a\",\"parts\":[1,\"x\"]}]}", SONDE_EFORMAT, "number" },
        { HEAD "\"time_s\":-1}", SONDE_EFORMAT, "cannot be" },
        { HEAD "\"seed\":-5}", SONDE_EFORMAT, "negative" },
        { HEAD "\"machine\":{\"cpus\":-2}}", SONDE_EFORMAT, "cannot be" },
        { HEAD "\"verdict\":{\"valid\":true,\"reasons\":[\"no\"]}}", SONDE_EFORMAT, "contradicts" },
        { HEAD "\"verdict\":{\"valid\":false,\"reasons\":[]}}", SONDE_EFORMAT, "contradicts" },
        { HEAD "\"name\":\"a\"", SONDE_EFORMAT, "line 1" },
        { HEAD "\"name\":\"a\"}\n{\"schema\":", SONDE_EFORMAT, "line 2" },
        { HEAD "\"name\":\"a\"} tail", SONDE_EFORMAT, "line 1" },
        { HEAD "\"extra\":[[[[[[}", SONDE_EFORMAT, "line 1" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_bench_saved s = { 0 };
        struct sonde_err err = { "" };
        const int rc = sonde_bench_saved_load_bytes(cases[i].text, strlen(cases[i].text), "F", &s,
                                                    &err);
        if (rc != cases[i].rc || !strstr(err.text, cases[i].says) || !strstr(err.text, "'F'")) {
            fprintf(stderr, "%s: %d %s\n", cases[i].text, rc, err.text);
            fail();
        }
        assert_null(s.runs);
    }
    /* Every beginning of a good one, and every byte of it changed, ends in order. */
    struct sonde_bench_result r;
    struct sonde_buf good;
    saved_example(&r, 1);
    sonde_buf_init(&good, SONDE_BENCH_JSON_MAX);
    sonde_bench_result_json(&r, &good);
    for (size_t i = 0; i < good.len; i++) {
        struct sonde_bench_saved s = { 0 };
        struct sonde_err err = { "" };
        if (sonde_bench_saved_load_bytes(good.data, i, "F", &s, &err) == 0) {
            sonde_bench_saved_release(&s);
            assert_true(i + 1 >= good.len);
        }
        const char was = good.data[i];
        good.data[i] = (char)(was ^ 0x15);
        if (sonde_bench_saved_load_bytes(good.data, good.len, "F", &s, &err) == 0) {
            sonde_bench_saved_release(&s);
        }
        good.data[i] = was;
    }
    sonde_buf_release(&good);
    sonde_bench_result_release(&r);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_bench_result r;
    struct sonde_buf good;
    saved_example(&r, 1);
    sonde_buf_init(&good, SONDE_BENCH_JSON_MAX);
    sonde_bench_result_json(&r, &good);
    sonde_bench_result_release(&r);
    const int64_t live = sonde__alloc_live();
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 200; nth++) {
        struct sonde_bench_saved s = { 0 };
        struct sonde_err err = { "" };
        sonde__alloc_fail_nth(nth);
        rc = sonde_bench_saved_load_bytes(good.data, good.len, "F", &s, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        if (!rc) sonde_bench_saved_release(&s);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
    sonde_buf_release(&good);
}

static void test_names(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    static const char *const bad[] = { "", ".", "..", ".hidden", "-f", "a b", "a\n", "ä", "a:b" };
    static const char *const good[] = { "a", "nightly-2026.11_x", "_", "7" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(sonde_bench_saved_name_check(bad[i], &err), SONDE_EINVAL);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(sonde_bench_saved_name_check(good[i], &err), 0);
    }
    char longest[200];
    memset(longest, 'a', sizeof(longest));
    longest[SONDE_BENCH_SAVED_NAME_MAX] = '\0';
    assert_int_equal(sonde_bench_saved_name_check(longest, &err), 0);
    longest[SONDE_BENCH_SAVED_NAME_MAX] = 'a';
    longest[SONDE_BENCH_SAVED_NAME_MAX + 1] = '\0';
    assert_int_equal(sonde_bench_saved_name_check(longest, &err), SONDE_EINVAL);
}

static void test_limits(void **state)
{
    (void)state;
    struct sonde_bench_result r;
    struct sonde_bench_limit l;
    struct sonde_err err = { "" };
    const struct sonde_bench_figure *f = NULL;
    static const char *const bad[] = { "", "x", "x>", ">5", "x>5furlongs", "x>nan", "x>-1" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(sonde_bench_limit_parse(bad[i], &l, &err), SONDE_EINVAL);
    }
    saved_example(&r, 40.25);
    static const struct { const char *text; int rc; } cases[] = {
        { "ttft_s.p50>2s", 1 },         { "ttft_s.p50 > 3000 ms", 0 }, { "ttft_s.p50<3s", 1 },
        { "requests_per_s<50", 1 },     { "requests_per_s<40", 0 },    { "unknown>5", 1 },
        { "ttft_s.*>1ms", 1 },          { "nothing>1", SONDE_ENOENT },
        { "ttft_s.p50>2", SONDE_EINVAL }, { "ttft_s.p50>2GB", SONDE_EINVAL },
        { "requests_per_s>5%", SONDE_EINVAL },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sonde_bench_limit_parse(cases[i].text, &l, &err), 0);
        const int rc = sonde_bench_limit_check(&l, &r, &f, &err);
        if (rc != cases[i].rc) fprintf(stderr, "%s: %d\n", cases[i].text, rc);
        assert_int_equal(rc, cases[i].rc);
    }
    sonde_bench_result_release(&r);
}

static void test_values(void **state)
{
    (void)state;
    char out[SONDE_BENCH_VALUE_BYTES];
    static const struct { double v; const char *unit, *text; } cases[] = {
        { 0.00123, "s", "1.23 ms" }, { 2048, "bytes", "2.00 KiB" }, { 1500, "1/s", "1.50k/s" },
        { 1048576, "bytes/s", "1.00 MiB/s" }, { 3.14159, "ratio", "3.14" }, { NAN, "s", "-" },
        { INFINITY, "", "-" }, { 7, "widgets", "7 widgets" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_string_equal(sonde_bench_value_format(out, cases[i].v, cases[i].unit, 1),
                            cases[i].text);
    }
    assert_string_equal(sonde_bench_percent_format(out, 0.031, 1), "+3.1 %");
    assert_string_equal(sonde_bench_percent_format(out, -0.0012, 1), "-0.12 %");
}

static int saved_setup(void **state)
{
    (void)state;
    snprintf(saved_dir, sizeof(saved_dir), "/tmp/sonde-saved-XXXXXX");
    return mkdtemp(saved_dir) ? 0 : -1;
}

static int saved_teardown(void **state)
{
    (void)state;
    return rmdir(saved_dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_append),
        cmocka_unit_test(test_hostile),    cmocka_unit_test(test_names),
        cmocka_unit_test(test_limits),     cmocka_unit_test(test_values),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, saved_setup, saved_teardown);
}
