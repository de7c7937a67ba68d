/* What of a recording becomes requests and steps: the process that computes, requests that are
 * known whole, parts by their ids; and what a command line says of slots and batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/predict/observe.h"
#include "infer/event.h"
#include "profile/infer.h"
#include "sonde/sonde.h"

#define START 1700000000000000000ull
#define MS 1000000ull

static void test_options(void **state)
{
    (void)state;
    static const char *const names[] = { "--slots", "-np", NULL };
    static const struct { const char *command; uint32_t value; } rows[] = {
        { "server --slots 4", 4 },        { "server --slots=8 x", 8 },
        { "llama-server -np 3 -b 5", 3 }, { "server", 0 },
        { "", 0 },                        { "server --slots", 0 },
        { "server --slots four", 0 },     { "server --slots 4x", 0 },
        { "server --slotsy 4", 0 },       { "server x--slots 4", 0 },
        { "server --slots 0", 0 },        { "server --slots 99999999999999999999", 0 },
        { "a  --slots x  -np 2", 2 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const uint32_t got = sonde_predict_option(rows[i].command, names);
        if (got != rows[i].value) fail_msg("'%s' is %u", rows[i].command, got);
    }
}

static struct sonde_profile *profile_make(void)
{
    struct sonde_profile *p = NULL;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    p->start_ns = START;
    p->end_ns = START + 10000 * MS;
    p->host = sonde_profile_cstring(p, "here");
    p->command = sonde_profile_cstring(p, "engine serve --slots 4 --batch 256");
    return p;
}

static void request_add(struct sonde_profile *p, uint64_t id, uint32_t pid, uint32_t source,
                        uint64_t at_ms, uint64_t in, uint64_t out, uint32_t flags)
{
    const struct sonde_infer_request r = {
        .id = id, .pid = pid, .source = source, .flags = flags, .program = "engine",
        .model = pid == 9 ? "other" : "m", .route = "", .backend = "", .error = "", .invalid = "",
        .arrived_ns = START + at_ms * MS, .tokens_in = in, .tokens_out = out, .total_s = 0.5,
        .ttft_s = 0.1 };
    assert_int_equal(sonde_infer_run_add(p, &r), 0);
}

static void step_add(struct sonde_profile *p, uint32_t pid, uint64_t at_ms, uint64_t request,
                     uint32_t in, uint32_t out)
{
    const struct sonde_profile_span s = {
        .start_ns = START + at_ms * MS, .end_ns = START + (at_ms + 5) * MS,
        .thread = sonde_profile_thread(p, pid, pid, "engine"),
        .name = sonde_profile_cstring(p, "decode") };
    assert_int_equal(sonde_profile_add_span(p, &s), 0);
    const struct sonde_profile_part part = { .request = request, .span = p->spans_count - 1,
                                             .tokens_in = in, .tokens_out = out };
    assert_int_equal(sonde_profile_add_part(p, &part), 0);
}

static const struct sonde_predict_choice any;

static int observe_model(const struct sonde_profile *p, const char *model,
                         struct sonde_predict_recording *r, struct sonde_err *err)
{
    const struct sonde_predict_choice of = { .model = model };
    return sonde_predict_observe(p, &of, r, err);
}

static void test_observe(void **state)
{
    (void)state;
    struct sonde_profile *p = profile_make();
    struct sonde_predict_recording r;
    struct sonde_err err = { "" };
    /* In the order they ended, which is not that of arrival. */
    request_add(p, 2, 7, SONDE_INFER_API, 200, 20, 3, 0);
    request_add(p, 1, 7, SONDE_INFER_API, 100, 10, 2, 0);
    request_add(p, 3, 7, SONDE_INFER_API, 300, 0, 0, 0);                      /* no prompt */
    request_add(p, 4, 7, SONDE_INFER_API, 50, 10, 2, SONDE_INFER_INCOMPLETE); /* no beginning */
    request_add(p, 5, 7, SONDE_INFER_FRONT, 99, 10, 2, 0);                    /* the client's */
    request_add(p, 1, 9, SONDE_INFER_API, 100, 10, 2, 0);                     /* another process */
    step_add(p, 7, 210, 2, 20, 0);
    step_add(p, 7, 110, 1, 10, 0);
    step_add(p, 9, 115, 1, 10, 0);
    step_add(p, 7, 120, 1, 0, 1);
    step_add(p, 7, 60, 4, 10, 0);
    assert_int_equal(sonde_predict_observe(p, &any, &r, &err), 0);
    assert_int_equal(r.pid, 7);
    assert_int_equal(r.others, 1);
    assert_int_equal(r.left_out, 2);
    assert_string_equal(r.model, "m");
    assert_string_equal(r.host, "here");
    assert_int_equal(r.observed.slots, 4);
    assert_int_equal(r.observed.batch_tokens, 256);
    assert_int_equal(r.observed.share, -1);
    assert_int_equal(r.observed.request_count, 2);
    assert_int_equal(r.requests[0].tokens_in, 10);
    assert_int_equal(r.requests[1].tokens_in, 20);
    assert_true(r.requests[0].arrived_s > 0.0999 && r.requests[0].arrived_s < 0.1001);
    assert_int_equal(r.observed.step_count, 4);
    static const uint32_t of[] = { UINT32_MAX, 0, 0, 1 }; /* by start */
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(r.parts[r.steps[i].part].request, of[i]);
        assert_int_equal(r.steps[i].part_count, 1);
    }
    sonde_predict_recording_release(&r);
    /* What arrived after 150 ms. */
    const struct sonde_predict_choice late = { .from_ns = START + 150 * MS };
    assert_int_equal(sonde_predict_observe(p, &late, &r, &err), 0);
    assert_int_equal(r.observed.request_count, 1);
    assert_int_equal(r.observed.step_count, 1);
    assert_int_equal(r.requests[0].tokens_in, 20);
    sonde_predict_recording_release(&r);
    /* By the model it serves. */
    assert_int_equal(observe_model(p, "other", &r, &err), 0);
    assert_int_equal(r.pid, 9);
    sonde_predict_recording_release(&r);
    assert_int_equal(observe_model(p, "none", &r, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "'none'"));
    sonde_profile_destroy(p);
}

static void test_llama(void **state)
{
    (void)state;
    struct sonde_profile *p = profile_make();
    struct sonde_predict_recording r;
    struct sonde_err err = { "" };
    const struct sonde_infer_model m = { .pid = 7, .source = SONDE_INFER_HOOK, .program = "engine",
                                         .model = "m", .backend = "", .kv_total = 4096 };
    p->command = sonde_profile_cstring(p, "llama-server -m x.gguf -np 2 -b 512");
    request_add(p, 1, 7, SONDE_INFER_HOOK, 100, 10, 2, 0);
    step_add(p, 7, 110, 1, 10, 0);
    assert_int_equal(sonde_infer_run_model(p, &m), 0);
    assert_int_equal(sonde_predict_observe(p, &any, &r, &err), 0);
    assert_int_equal(r.observed.share, SONDE_PREDICT_FIRST);
    assert_int_equal(r.observed.slots, 2);
    assert_int_equal(r.observed.batch_tokens, 512);
    assert_int_equal(r.observed.kv_cells, 4096);
    sonde_predict_recording_release(&r);
    sonde_profile_destroy(p);
}

static void test_nothing(void **state)
{
    (void)state;
    struct sonde_profile *p = profile_make();
    struct sonde_predict_recording r;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_predict_observe(p, &any, &r, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "no inference requests"));
    request_add(p, 1, 7, SONDE_INFER_FRONT, 100, 10, 2, 0);
    assert_int_equal(sonde_predict_observe(p, &any, &r, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "no forward passes"));
    sonde_profile_destroy(p);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_options), cmocka_unit_test(test_observe),
        cmocka_unit_test(test_llama), cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
