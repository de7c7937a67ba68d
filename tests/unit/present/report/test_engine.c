/* Devices, pools and tokenizers in a report: text, Markdown, JSON, the answer of /api/engine, and
 * what `sonde top` makes of that. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>

#include "base/alloc.h"
#include "present/report/engine.h"
#include "present/report/profile.h"
#include "present/top/data.h"
#include "sonde/sonde.h"
#include "unit/profile/engine_build.h"
#include "unit/present/report_text.h"
#include "unit/profile/profile_build.h"

static struct sonde_profile *create(int samples, int programs)
{
    static struct engine_built b;
    struct sonde_profile *p;
    memset(&b, 0, sizeof(b));
    for (int i = 0; i < programs; i++) {
        b.pid = 42 + (uint32_t)i;
        engine_built_times(&b, "sonde_device_operation_seconds", "cpu", "mat|mul", 300, 1000000, 0);
        engine_built_value(&b, "sonde_device_memory_bytes", "cpu", "used", 256 << 20);
        engine_built_value(&b, "sonde_device_memory_bytes", "cpu", "total", 1024 << 20);
        engine_built_value(&b, "sonde_memory_pool_bytes", "kv", "", 4 << 20);
        engine_built_value(&b, "sonde_memory_pool_capacity_bytes", "kv", "", 8 << 20);
        engine_built_value(&b, "sonde_memory_pool_free_block_bytes", "kv", "", 1 << 20);
    }
    engine_built_times(&b, "sonde_tokenizer_encode_seconds", "bpe\n", "1-64", 50, 100000, 0);
    engine_built_value(&b, "sonde_tokenizer_tokens_total", "bpe\n", "", 500);
    assert_int_equal(sonde_profile_create(0, &p), 0);
    if (samples) build_sample(p, "main;forward", 1000000, 0, 1000000000);
    for (size_t i = 0; i < b.count; i++) assert_int_equal(sonde_final_add(p, &b.series[i]), 0);
    p->end_ns = 2000000000000000000ull;
    return p;
}

static void text_of_one_program(void **state)
{
    (void)state;
    for (int samples = 0; samples < 2; samples++) {
        struct sonde_profile *p = create(samples, 1);
        char *text = report(p, (struct sonde_report_options){ .ascii = 1, .width = 100 });
        has(text, "\nDevices\n");
        has(text, "operations 300 on CPUs, 0 on GPUs, 0 fallbacks; 300 ms in all");
        has(text, "\ncpu            300  300 ms  100.0 %  256 MiB  1.00 GiB    25.0 %");
        has(text, "\nPools\n");
        has(text, "\nkv    4.00 MiB  4.00 MiB  8.00 MiB");
        has(text, "75.0 %");
        has(text,
            "encoded    50 inputs, 0 B, 500 tokens (0.00 bytes each); 100k tokens per second");
        assert_null(strstr(text, "advice")); /* too few inputs */
        has(text, "\n  name       bpe?\n"); /* no control character gets through */
        sonde__free(text);
        sonde_profile_destroy(p);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void text_of_several(void **state)
{
    (void)state;
    struct sonde_profile *p = create(1, 3);
    char *text = report(p, (struct sonde_report_options){ .ascii = 1, .limit = 2 });
    has(text, "Devices, the first 2 of 3");
    has(text, "\ncpu of engine 42 ");
    has(text, "Operations by device and kind, the first 2 of 3");
    has(text, "\nall "); /* pools of all programs */
    sonde__free(text);
    text = report(p, (struct sonde_report_options){ .style = SONDE_REPORT_MARKDOWN });
    has(text, "\n## Devices\n");
    has(text, "mat\\|mul");
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void json_and_top(void **state)
{
    (void)state;
    struct sonde_profile *p = create(1, 1);
    char *text = report(p, (struct sonde_report_options){ .style = SONDE_REPORT_JSON });
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(root, "devices"),
                                                        "cpu_operations")), 300);
    assert_int_equal(json_array_size(json_object_get(root, "tokenizers")), 1);
    json_decref(root);
    sonde__free(text);

    struct sonde_buf out;
    struct sonde_top_data d;
    struct sonde_err err;
    int any = 0;
    sonde_buf_init(&out, 1 << 20);
    assert_int_equal(sonde_engine_answer_run(p, &any, &out), 0);
    assert_true(any);
    sonde_top_data_init(&d);
    assert_int_equal(sonde_top_read_engine(&d, out.data, out.len, &err), 0);
    assert_int_equal(d.engine.device_count, 1);
    assert_true(d.engine.devices[0].operations == 300 && d.engine.devices[0].share == 1);
    assert_string_equal(d.engine.pools[0].pool, "kv");
    assert_true(d.engine.pools[0].external == 0.75 && isnan(d.engine.pools[0].internal));
    assert_true(d.engine.tokenizers[0].tokens_per_s == 100000);
    assert_true(isnan(d.engine.tokenizers[0].hit_ratio));
    assert_int_equal(sonde_top_read_engine(&d, "{", 1, &err), SONDE_EFORMAT);
    sonde_top_data_release(&d);
    sonde_buf_release(&out);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void nothing_told_nothing_said(void **state)
{
    (void)state;
    struct sonde_profile *p;
    struct sonde_buf out;
    int any = 1;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    build_sample(p, "main", 1000000, 0, 1000000000);
    char *text = report(p, (struct sonde_report_options){ .style = SONDE_REPORT_JSON });
    assert_null(strstr(text, "\"devices\""));
    assert_null(strstr(text, "\"pools\""));
    assert_null(strstr(text, "\"tokenizers\""));
    sonde__free(text);
    sonde_buf_init(&out, 1 << 20);
    assert_int_equal(sonde_engine_answer_run(p, &any, &out), 0);
    assert_false(any);
    assert_non_null(strstr(out.data, "\"devices\":null,\"pools\":null,\"tokenizers\":null"));
    sonde_buf_release(&out);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_of_one_program),
        cmocka_unit_test(text_of_several),
        cmocka_unit_test(json_and_top),
        cmocka_unit_test(nothing_told_nothing_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
