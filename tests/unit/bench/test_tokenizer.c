/* What sonde-engine prints is read as rows; anything else is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "bench/tokenizer.h"
#include "sonde/sonde.h"

static const char good[] =
    "{\"tokenizer\":\"gpt2\",\"vocabulary\":50257,\"rows\":[{\"kind\":\"text\",\"length\":100,\"inputs\":7,"
    "\"bytes\":700,\"tokens\":175,\"round_trips\":7,\"round_trips_same\":6,\"cache_hits\":90,\"cache_misses\":10,"
    "\"words_long\":0,\"encode_bytes_per_s\":1e6,\"encode_tokens_per_s\":[1,2,3],\"decode_tokens_per_s\":[4,0]}],"
    "\"slowest\":[{\"bytes\":100,\"tokens\":25,\"merges\":3,\"seconds\":0.5}],\"more\":{}}\n";

static void test_good(void **state)
{
    (void)state;
    struct sonde_tokenizer_bench b;
    struct sonde_bench_result r;
    assert_int_equal(sonde_tokenizer_parse(good, strlen(good), &b, NULL), 0);
    assert_string_equal(b.tokenizer, "gpt2");
    assert_int_equal(b.vocabulary, 50257);
    assert_int_equal(b.count, 1);
    assert_string_equal(b.rows[0].kind, "text");
    assert_int_equal(b.rows[0].trips_same, 6);
    assert_int_equal(b.rows[0].encode_count, 3);
    assert_int_equal(b.rows[0].decode_count, 1); /* 0 is not a rate */
    assert_int_equal(b.slow_count, 1);
    assert_true(b.slowest[0].seconds == 0.5);
    sonde_bench_result_init(&r, "tokenizer", "x");
    assert_int_equal(sonde_tokenizer_result(&b, &r), 0);
    const struct sonde_bench_figure *f = sonde_bench_figure_find(&r, "text.100.encode_tokens_per_s");
    assert_non_null(f);
    assert_true(f->value == 2 && f->part_count == 3);
    assert_non_null(strstr(r.extra.data, "\"cache_hit_ratio\":0.9"));
    assert_non_null(strstr(r.extra.data, "\"bytes_per_token\":4"));
    sonde_bench_result_release(&r);
    sonde_tokenizer_release(&b);
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "{", "[]", "{}", "null", "{\"rows\":[]}", "{\"rows\":7}", "{\"rows\":[1]}",
        "{\"rows\":[{\"length\":-1}]}", "{\"rows\":[{}]} x", "{\"rows\":[{\"kind\":{}}]}" };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct sonde_tokenizer_bench b;
        struct sonde_err err = { "" };
        assert_int_equal(sonde_tokenizer_parse(texts[i], strlen(texts[i]), &b, &err), SONDE_EIO);
        assert_true(err.text[0]);
        sonde_tokenizer_release(&b);
    }
    /* Cut off anywhere. */
    for (size_t len = 0; len < strlen(good) - 2; len++) {
        struct sonde_tokenizer_bench b;
        assert_int_equal(sonde_tokenizer_parse(good, len, &b, NULL), SONDE_EIO);
        sonde_tokenizer_release(&b);
    }
    /* More rows than there can be. */
    char *many = malloc(8192);
    size_t at = (size_t)sprintf(many, "{\"rows\":[");
    for (unsigned i = 0; i <= SONDE_TOKENIZER_ROWS_MAX; i++) at += (size_t)sprintf(many + at, "%s{}", i ? "," : "");
    at += (size_t)sprintf(many + at, "]}");
    struct sonde_tokenizer_bench b;
    assert_int_equal(sonde_tokenizer_parse(many, at, &b, NULL), SONDE_EIO);
    sonde_tokenizer_release(&b);
    free(many);
}

static void test_no_program(void **state)
{
    (void)state;
    struct sonde_tokenizer_bench b;
    struct sonde_err err = { "" };
    struct sonde_tokenizer_options o = { .engine = "/nowhere/sonde-engine", .model = "x", .seconds = 1, .turns = 1 };
    assert_int_equal(sonde_tokenizer_run(&o, &b, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "--engine"));
    o.engine = "/bin/true"; /* prints nothing */
    assert_int_equal(sonde_tokenizer_run(&o, &b, &err), SONDE_EIO);
    sonde_tokenizer_release(&b);
    o.engine = "/bin/false";
    assert_int_equal(sonde_tokenizer_run(&o, &b, &err), SONDE_EIO);
    sonde_tokenizer_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good), cmocka_unit_test(test_bad), cmocka_unit_test(test_no_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
