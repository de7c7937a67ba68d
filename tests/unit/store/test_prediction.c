/* Predictions in their file: what goes in comes out, and what is not a prediction is refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "sonde/sonde.h"
#include "store/prediction.h"

static char path[] = "/tmp/sonde-prediction-XXXXXX";

static int setup(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int teardown(void **state)
{
    (void)state;
    return unlink(path);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct sonde_predictions all = { 0 }, back = { 0 };
    struct sonde_err err = { "" };
    for (int i = 0; i < 3; i++) {
        struct sonde_prediction p = { .id = 0xfedcba9876543210ull - (unsigned)i,
                                      .made_s = 1700000000.5, .recorded_s = 1699999999.25,
                                      .host = "h \"q\" \xc3\xbc",
                                      .model = "m", .program = "p", .rate = 3.5, .tokens_in = 100.5,
                                      .tokens_out = 7, .slots = 4, .batch_tokens = 256,
                                      .requests = 200, .knee = { 9, 8, 10 } };
        for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
            p.figures[f] = (struct sonde_predict_value){ f + 0.125, f, f + 1 };
            p.measured[f] = f == 3 ? (double)NAN : f * 2.0;
        }
        p.figures[2].value = NAN;
        if (i == 1) {
            p.checked_s = 1700000100;
            p.checked_recorded_s = 1700000050;
            p.checked_rate = 3.4;
        }
        assert_int_equal(sonde_predictions_add(&all, &p), 0);
    }
    assert_int_equal(sonde_predictions_save(&all, path, &err), 0);
    assert_int_equal(sonde_predictions_load(path, &back, &err), 0);
    assert_int_equal(back.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct sonde_prediction *a = &all.list[i], *b = &back.list[i];
        assert_true(a->id == b->id && a->made_s == b->made_s && a->recorded_s == b->recorded_s);
        assert_string_equal(a->host, b->host);
        assert_true(a->rate == b->rate && a->slots == b->slots && a->tokens_in == b->tokens_in);
        assert_true(b->knee.value == 9 && b->knee.low == 8 && b->knee.high == 10);
        assert_true(isnan(b->figures[2].value) != 0);
        assert_true(b->figures[5].value == 5.125 && b->figures[5].high == 6);
        assert_true(a->checked_s == b->checked_s);
        if (i != 1) continue;
        assert_true(isnan(b->measured[3]) != 0);
        assert_true(b->measured[4] == 8 && b->checked_rate == 3.4);
    }
    sonde_predictions_release(&all);
    sonde_predictions_release(&back);
}

static void test_not_there(void **state)
{
    (void)state;
    struct sonde_predictions all = { 0 };
    struct sonde_err err = { "" };
    assert_int_equal(sonde_predictions_load("/tmp/sonde-not-there/x", &all, &err), 0);
    assert_int_equal(all.count, 0);
    assert_int_equal(sonde_predictions_read("", 0, "x", &all, &err), 0);
    assert_int_equal(sonde_predictions_read("\n\n", 2, "x", &all, &err), 0);
    assert_int_equal(all.count, 0);
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "x", "{", "[]", "{}", "null", "\xff\xfe", "{\"id\": 5}",
        "{\"id\": \"zz\", \"made_s\": 1}",
    };
    struct sonde_err err = { "" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sonde_predictions all = { 0 };
        assert_int_equal(sonde_predictions_read(bad[i], strlen(bad[i]), "file", &all, &err),
                         SONDE_EFORMAT);
        assert_non_null(strstr(err.text, "line 1 of 'file'"));
        assert_null(all.list);
    }
    /* Any byte of a good one replaced or cut: never more than an error. */
    struct sonde_predictions all = { 0 };
    struct sonde_buf text;
    struct sonde_prediction p = { .id = 1, .made_s = 1, .host = "h", .model = "m", .program = "p",
                                  .rate = 1, .checked_s = 2 };
    assert_int_equal(sonde_predictions_add(&all, &p), 0);
    assert_int_equal(sonde_predictions_save(&all, path, &err), 0);
    sonde_predictions_release(&all);
    sonde_buf_init(&text, SONDE_PREDICTIONS_BYTES_MAX);
    assert_int_equal(sonde_file_read(path, &text, &err), 0);
    for (size_t i = 0; i < text.len; i++) {
        const char was = text.data[i];
        static const char replaced[] = { '\0', '"', '9', '}', '-', 'n' };
        for (size_t k = 0; k < sizeof(replaced); k++) {
            text.data[i] = replaced[k];
            all = (struct sonde_predictions){ 0 };
            sonde_predictions_read(text.data, text.len, "file", &all, &err);
            sonde_predictions_release(&all);
        }
        text.data[i] = was;
        all = (struct sonde_predictions){ 0 };
        sonde_predictions_read(text.data, i, "file", &all, &err);
        sonde_predictions_release(&all);
    }
    sonde_buf_release(&text);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_not_there),
        cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
