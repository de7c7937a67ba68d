/* What HTTP and the terminal are told of inference, from an engine whose times are known: as JSON,
 * against what the requests were. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "serve/api/api.h"
#include "sonde/sonde.h"
#include "unit/infer/infer_play.h"

static struct play g;

/* Twenty requests, 100 ms apart: request n waits 10 ms, prefill takes 20, five tokens follow 10 ms
 * after each other. The fifth fails, one still runs. */
static void play_all(void)
{
    const struct sonde_infer_options o = { .slo_ttft_s = 0.1, .slo_total_s = 0.075 };
    play_init(&g, &o);
    for (uint64_t n = 1; n <= 20; n++) {
        const double at = (double)n * 100;
        play_request(&g, n, at);
        play_prompt(&g, n, at + 10, 100, 25);
        play_phase(&g, n, SONDE_PHASE_QUEUE, at, at + 10, 0);
        play_phase(&g, n, SONDE_PHASE_PREFILL, at + 10, at + 30, 75);
        if (n == 5) {
            play_end(&g, n, at + 30, SONDE_ERROR, "oom");
            continue;
        }
        for (int k = 0; k < 5; k++) {
            if (k) play_phase(&g, n, SONDE_PHASE_DECODE, at + 20 + 10 * k, at + 30 + 10 * k, 1);
            play_tokens(&g, n, at + 30 + 10 * k, 1);
        }
        if (n < 20) play_end(&g, n, at + (n == 7 ? 90 : 70), SONDE_OK, "");
    }
    play_until(&g, 2070);
}

static json_t *ask(void (*fill)(struct sonde_buf *out, const void *arg), const void *arg)
{
    struct sonde_buf b;
    json_error_t why;
    sonde_buf_init(&b, 1 << 24);
    fill(&b, arg);
    assert_int_equal(b.error, 0);
    json_t *root = json_loadb(b.data, b.len, 0, &why);
    if (!root) fail_msg("%s at %d of %s", why.text, why.position, b.data);
    sonde_buf_release(&b);
    return root;
}

static void fill_inference(struct sonde_buf *out, const void *arg)
{
    (void)arg;
    sonde_rdlock(&g.m->lock);
    sonde_api_infer(g.m, g.tracker, 0, out);
    sonde_rwunlock(&g.m->lock);
}

static void fill_requests(struct sonde_buf *out, const void *arg)
{
    sonde_rdlock(&g.m->lock);
    sonde_api_requests(g.m, g.tracker, arg, out);
    sonde_rwunlock(&g.m->lock);
}

static void fill_request(struct sonde_buf *out, const void *arg)
{
    sonde_rdlock(&g.m->lock);
    assert_int_equal(sonde_api_request(g.m, g.tracker, arg, out), 1);
    sonde_rwunlock(&g.m->lock);
}

static double number(const json_t *o, const char *a, const char *b)
{
    o = json_object_get(o, a);
    if (b) o = json_object_get(o, b);
    return json_is_number(o) ? json_number_value(o) : NAN;
}

static void near(double is, double wanted, double room)
{
    if (!(fabs(is - wanted) <= room)) fail_msg("%g, not %g", is, wanted);
}

static void test_inference(void **state)
{
    (void)state;
    play_all();
    json_t *root = ask(fill_inference, NULL);
    const json_t *totals = json_object_get(root, "totals");
    near(number(totals, "requests", "ok"), 18, 0);
    near(number(totals, "requests", "error"), 1, 0);
    near(number(totals, "tokens_in", NULL), 2000, 0);
    near(number(totals, "tokens_reused", NULL), 500, 0);
    near(number(totals, "tokens_out", NULL), 95, 0);
    near(number(totals, "hit_ratio", NULL), 0.25, 1e-9);
    near(number(totals, "slo_met", NULL), 17, 0);
    near(number(totals, "slo_missed", NULL), 2, 0); /* one failed, one took 90 ms */
    near(number(root, "slo", "ttft_s"), 0.1, 0);
    assert_true(json_is_null(json_object_get(json_object_get(root, "slo"), "itl_s")));
    assert_int_equal(json_array_size(json_object_get(root, "models")), 1);
    const json_t *model = json_array_get(json_object_get(root, "models"), 0);
    near(number(model, "running", NULL), 1, 0);
    assert_string_equal(json_string_value(json_object_get(model, "model")), "tiny");
    assert_true(json_is_null(json_object_get(model, "kv")));

    assert_int_equal(json_array_size(json_object_get(root, "groups")), 1);
    const json_t *group = json_array_get(json_object_get(root, "groups"), 0);
    assert_string_equal(json_string_value(json_object_get(group, "route")),
                        "/v1/chat/completions");
    near(number(group, "ttft", "count"), 19, 0);
    near(number(group, "ttft", "p50"), 0.03, 0.03 * 0.01);
    near(number(group, "itl", "count"), 76, 0);
    near(number(group, "itl", "p99"), 0.01, 0.01 * 0.01);
    near(number(group, "tpot", "count"), 18, 0);
    near(number(group, "duration", "p50"), 0.07, 0.07 * 0.01);
    near(number(group, "duration", "max"), 0.09, 0.09 * 0.01);
    near(number(group, "user_tokens_per_s", "count"), 18, 0);
    near(number(group, "user_tokens_per_s", "p50"), 5 / 0.07, 1e-6);
    near(number(group, "user_tokens_per_s", "p5"), 5 / 0.09, 1e-6);
    const json_t *phases = json_object_get(group, "phases");
    near(number(phases, "queue", "p95"), 0.01, 0.01 * 0.01);
    near(number(phases, "prefill", "total"), 19 * 0.02, 1e-9);
    assert_true(json_is_null(json_object_get(phases, "sample")));
    json_decref(root);

    /* With a reset totals, counts and percentiles begin anew, whether in the midst of a tick or
     * not; they agree, and series go on. */
    play_request(&g, 50, 3000);
    play_tokens(&g, 50, 3500, 1);
    play_end(&g, 50, 3600, SONDE_OK, "");
    sonde_infer_drained(g.tracker, MS(5000));
    sonde_infer_reset(g.tracker, g.m->now_s);
    root = ask(fill_inference, NULL);
    near(number(json_object_get(root, "totals"), "requests", "ok"), 0, 0);
    near(number(json_array_get(json_object_get(root, "groups"), 0), "ttft", "count"), 0, 0);
    json_decref(root);
    for (uint64_t id = 51; id < 54; id++) {
        play_request(&g, id, 6000);
        play_tokens(&g, id, 6200, 1);
        play_end(&g, id, 6300, SONDE_OK, "");
    }
    play_until(&g, 7000);
    root = ask(fill_inference, NULL);
    group = json_array_get(json_object_get(root, "groups"), 0);
    near(number(json_object_get(root, "totals"), "requests", "ok"), 3, 0);
    near(number(group, "requests", "ok"), 3, 0);
    near(number(group, "tokens_out", NULL), 3, 0);
    near(number(group, "duration", "count"), 3, 0);
    near(number(group, "duration", "max"), 0.3, 0.3 * 0.01);
    near(number(group, "user_tokens_per_s", "count"), 3, 0);
    assert_int_equal(play_series(&g, "sonde_infer_requests_total", "\"ok\"")->counter, 22);
    json_decref(root);
    play_release(&g);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_requests(void **state)
{
    (void)state;
    play_all();
    struct sonde_requests_query q = { .outcome = -1, .source = -1, .limit = 3 };
    json_t *root = ask(fill_requests, &q);
    near(number(root, "total", NULL), 20, 0);
    const json_t *list = json_object_get(root, "requests");
    assert_int_equal(json_array_size(list), 3);
    const json_t *first = json_array_get(list, 0);
    assert_string_equal(json_string_value(json_object_get(first, "id")), "0000000000000007");
    near(number(first, "total_s", NULL), 0.09, 1e-9);
    near(number(first, "ttft_s", NULL), 0.03, 1e-9);
    near(number(first, "itl", "mean_s"), 0.01, 1e-9);
    near(number(json_object_get(first, "phases"), "prefill", "seconds"), 0.02, 1e-9);
    assert_string_equal(json_string_value(json_object_get(first, "slo")), "missed");
    /* queue, prefill, five tokens, four times decode */
    assert_int_equal(json_array_size(json_object_get(first, "timeline")), 11);
    json_decref(root);

    q = (struct sonde_requests_query){ .outcome = -1, .source = -1,
                                       .state = SONDE_REQUESTS_RUNNING };
    root = ask(fill_requests, &q);
    near(number(root, "total", NULL), 1, 0);
    first = json_array_get(json_object_get(root, "requests"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "state")), "running");
    near(number(first, "total_s", NULL), 0.07, 1e-6);
    near(number(first, "tokens_out", NULL), 5, 0);
    json_decref(root);

    q = (struct sonde_requests_query){ .outcome = SONDE_ERROR, .source = -1 };
    root = ask(fill_requests, &q);
    near(number(root, "total", NULL), 1, 0);
    json_decref(root);

    root = ask(fill_request, "0000000000000005");
    assert_string_equal(json_string_value(json_object_get(root, "error")), "oom");
    json_decref(root);
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    sonde_rdlock(&g.m->lock);
    assert_int_equal(sonde_api_request(g.m, g.tracker, "0000000000000099", &b), 0);
    sonde_rwunlock(&g.m->lock);
    assert_int_equal(b.len, 0);
    sonde_buf_release(&b);
    play_release(&g);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Of a model that nobody follows inference in. */
static void test_nothing(void **state)
{
    (void)state;
    const struct sonde_requests_query q = { .outcome = -1, .source = -1 };
    g = (struct play){ 0 }; /* no tracker */
    assert_int_equal(sonde_model_create(NULL, &g.m), 0);
    json_t *root = ask(fill_requests, &q);
    assert_int_equal(json_array_size(json_object_get(root, "requests")), 0);
    json_decref(root);
    root = ask(fill_inference, NULL);
    assert_true(json_is_array(json_object_get(root, "groups")));
    json_decref(root);
    play_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_inference),
                                        cmocka_unit_test(test_requests),
                                        cmocka_unit_test(test_nothing) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
