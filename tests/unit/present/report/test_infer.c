/* The part of a report on inference, of requests whose figures can be worked out by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>

#include "base/alloc.h"
#include "present/report/profile.h"
#include "sonde/sonde.h"
#include "unit/profile/infer_build.h"
#include "unit/present/report_text.h"
#include "unit/profile/profile_build.h"

static struct sonde_profile *create(int samples)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    if (samples) build_sample(p, "main;forward", 1000000, 0, INFER_T0);
    infer_build(p, 100);
    return p;
}

/* Request n of 0 … 99: first token after 20 + n ms, in all 25 + 6n ms; the second was cancelled and
 * the third failed. */
static void test_text(void **state)
{
    (void)state;
    struct sonde_profile *p = create(1);
    char *text = report(p, (struct sonde_report_options){ .ascii = 1, .width = 100 });
    has(text, "\nInference\n");
    has(text, "requests   100: 98 ok, 1 error, 1 cancelled; ");
    has(text, "prompts    10000 tokens, 2500 of them reused from a cache (25.0 %)");
    has(text, "output     5050 tokens: ");
    has(text, "goodput    99.0 % (99 of 100 requests met all objectives: first token within 100 "
              "ms, total within\n             1.00 s)");
    has(text, "not used   3 events: duplicate (told before)");
    has(text, "dropped    2 requests did not fit in memory");
    /* Nearest rank: of 100 the 50th, 95th and 99th. */
    has(text, "first token     69.0 ms   114 ms   118 ms   119 ms  69.5 ms  100\n");
    has(text, "between tokens  5.00 ms  5.00 ms  5.00 ms  5.00 ms  5.00 ms   99\n");
    has(text, "queue           49.0 ms  94.0 ms  98.0 ms  99.0 ms  49.5 ms  100\n");
    has(text, "By model and route");
    has(text, "prefill  2.00 s   6.3 %       100  20.0 ms\n");
    has(text, "tiny on cpu  weights 2.00 MiB, kv 1.00 MiB  4.00 MiB   30.0 %  500 ms   2.00");
    has(text, "Slowest requests");
    has(text, "job-99 ");
    has(text, "Functions");
    sonde__free(text);
    text = report(p, (struct sonde_report_options){ .style = SONDE_REPORT_MARKDOWN });
    has(text, "## Inference");
    has(text, "### Slowest requests\n\n```\n");
    has(text, "| MEASURE | P50 |");
    sonde__free(text);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static double number(const json_t *o, const char *a, const char *b)
{
    o = json_object_get(o, a);
    if (b) o = json_object_get(o, b);
    return json_is_number(o) ? json_number_value(o) : NAN;
}

static void test_json(void **state)
{
    (void)state;
    struct sonde_profile *p = create(1);
    char *text = report(p, (struct sonde_report_options){ .style = SONDE_REPORT_JSON });
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(root);
    assert_non_null(json_object_get(root, "functions"));
    const json_t *x = json_object_get(root, "inference");
    assert_true(number(x, "requests_total", NULL) == 100 && number(x, "requests", "ok") == 98);
    assert_true(number(x, "tokens_out", NULL) == 5050 && number(x, "hit_ratio", NULL) == 0.25);
    const json_t *measures = json_object_get(x, "measures");
    assert_true(fabs(number(measures, "ttft_s", "p95") - 0.114) < 1e-9);
    assert_true(number(measures, "itl_s", "count") == 99);
    assert_true(fabs(number(measures, "total_s", "max") - 0.619) < 1e-9);
    assert_true(number(measures, "total_s", "count") == 98);
    assert_true(number(x, "invalid_events", "duplicate") == 3);
    assert_int_equal(json_array_size(json_object_get(x, "routes")), 2);
    assert_int_equal(json_array_size(json_object_get(x, "slowest")), 10);
    const json_t *model = json_array_get(json_object_get(x, "models"), 0);
    assert_true(number(json_object_get(model, "memory"), "kv", "peak") == 2 << 20);
    assert_true(number(model, "decode_tokens", NULL) == 400);
    json_decref(root);
    sonde__free(text);
    sonde_profile_destroy(p);
}

/* A run whose CPU was not sampled; and reports on something else. */
static void test_alone_and_absent(void **state)
{
    (void)state;
    struct sonde_profile *p = create(0);
    char *text = report(p, (struct sonde_report_options){ .ascii = 1 });
    has(text, "requests   100: 98 ok");
    assert_null(strstr(text, "Functions"));
    sonde__free(text);
    text = report(p, (struct sonde_report_options){ .style = SONDE_REPORT_JSON });
    json_t *root = json_loads(text, 0, NULL);
    assert_non_null(json_object_get(root, "inference"));
    json_decref(root);
    sonde__free(text);
    sonde_profile_destroy(p);

    /* A model that was loaded and asked nothing. */
    assert_int_equal(sonde_profile_create(0, &p), 0);
    infer_build(p, 0);
    text = report(p, (struct sonde_report_options){ .ascii = 1 });
    has(text, "requests   0; ");
    has(text, "tiny on cpu");
    sonde__free(text);
    /* Freed by now: what it took is still told. */
    p->infer->models[0].memory[0].bytes = 0;
    p->infer->models[0].memory[0].peak = 3 << 20;
    text = report(p, (struct sonde_report_options){ .ascii = 1 });
    has(text, " 3.00 MiB (freed)");
    sonde__free(text);
    sonde_profile_destroy(p);

    p = create(1);
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 1 << 20);
    /* Of a part: those that arrived in it; one comes every 10 ms. */
    const struct sonde_report_options part = {
        .filter = { .kind = -1, .from_ns = INFER_T0 - 1, .to_ns = INFER_T0 + 45 * INFER_MS } };
    assert_int_equal(sonde_profile_report(p, &part, &b, &err), 0);
    has(b.data, "requests   5: 3 ok, 1 error, 1 cancelled");
    sonde_buf_release(&b);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_text), cmocka_unit_test(test_json),
                                        cmocka_unit_test(test_alone_and_absent) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
