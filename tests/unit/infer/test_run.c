/* inference: events of several threads, requests that do not add up, requests in a run file, and
 * any allocation failing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "profile/profile.h"
#include "unit/infer/infer_play.h"

/* ---- Events of other threads ----------------------------------------------------------------- */

struct poster { struct sonde_infer_tracker *tracker; uint64_t first; };

static void *post_many(void *arg)
{
    const struct poster *p = arg;
    for (uint64_t id = p->first; id < p->first + 500; id++) {
        char model[16] = "front";
        struct sonde_infer_event e = { .type = SONDE_INFER_REQUEST, .source = SONDE_INFER_FRONT,
                                       .id = id, .begin_ns = MS(10), .time_ns = MS(10),
                                       .model = model, .request.route = "/v1" };
        sonde_infer_post(p->tracker, &e);
        e = (struct sonde_infer_event){ .type = SONDE_INFER_END, .source = SONDE_INFER_FRONT,
                                        .id = id, .begin_ns = MS(10), .time_ns = MS(20) };
        sonde_infer_post(p->tracker, &e);
        memset(model, 'x', sizeof(model) - 1); /* it was copied */
    }
    return NULL;
}

static void posted_by_threads(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    pthread_t t[4];
    struct poster p[4];
    for (size_t i = 0; i < 4; i++) {
        p[i] = (struct poster){ g.tracker, 1 + i * 1000 };
        assert_int_equal(pthread_create(&t[i], NULL, post_many, &p[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) pthread_join(t[i], NULL);
    play_until(&g, 1000);
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "source=\"front\""), 2000);
    assert_null(strstr(play_series(&g, "sonde_infer_requests_total", "front")->label_text, "pid"));
    const struct sonde_infer_event e = { .type = SONDE_INFER_REQUEST, .id = 5, .time_ns = MS(10),
                                         .begin_ns = MS(10), .pid = 42 };
    sonde_infer_post(g.tracker, &e); /* texts may be missing; the process is found */
    play_until(&g, 2000);
    assert_non_null(play_series(&g, "sonde_infer_requests_running", "pid=\"42\""));
    sonde_infer_post(g.tracker, &e); /* never taken: freed all the same */
    play_release(&g);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- Validation ----------------------------------------------------------------------------- */

static struct sonde_infer_request good_request(void)
{
    return (struct sonde_infer_request){
        .outcome = SONDE_OK, .tokens_in = 10, .tokens_reused = 5, .tokens_out = 11,
        .total_s = 2, .ttft_s = 0.5, .itl_count = 10, .itl_s = 0.1, .itl_min_s = 0.05,
        .itl_p50_s = 0.1, .itl_p95_s = 0.2, .itl_p99_s = 0.2, .itl_max_s = 0.3,
        .tokens_per_s = 5.5, .hit_ratio = 0.5, .efficiency = 0.0055,
    };
}

static void validate_names_the_field(void **state)
{
    (void)state;
    struct sonde_infer_request r = good_request();
    const char *field;
    struct sonde_err err;
    assert_int_equal(sonde_infer_validate(&r, NULL, NULL), 0);
#define BAD(member, value, named)                                                              \
    do {                                                                                       \
        r = good_request();                                                                    \
        r.member = value;                                                                      \
        field = "";                                                                            \
        assert_int_equal(sonde_infer_validate(&r, &field, &err), SONDE_EINVAL);                \
        assert_string_equal(field, named);                                                     \
        assert_non_null(strstr(err.text, named));                                              \
    } while (0)
    BAD(total_s, NAN, "total_s");
    BAD(total_s, -1, "total_s");
    BAD(ttft_s, INFINITY, "ttft_s");
    BAD(ttft_s, -1e-9, "ttft_s");
    BAD(tokens_per_s, -1, "tokens_per_s");
    BAD(efficiency, NAN, "efficiency");
    BAD(hit_ratio, 1.5, "hit_ratio");
    BAD(hit_ratio, -0.5, "hit_ratio");
    BAD(itl_p95_s, NAN, "itl_p95_s");
    BAD(phase_s[SONDE_PHASE_PREFILL], NAN, "prefill_s");
    BAD(phase_s[SONDE_PHASE_SAMPLE], -1, "sample_s");
    BAD(phase_s[SONDE_PHASE_NONE], -1, "other_s");
    /* Sums that cannot be. */
    BAD(ttft_s, 2.5, "ttft_s");
    BAD(tokens_reused, 11, "tokens_reused");
    BAD(phase_s[SONDE_PHASE_QUEUE], 2.5, "queue_s");
    BAD(itl_count, 11, "itl_count");
    BAD(itl_s, 0.2, "itl_s");
    BAD(itl_p50_s, 0.01, "itl_p50_s");
    BAD(itl_max_s, 0.1, "itl_max_s");
    BAD(outcome, 9, "outcome");
    r = good_request();
    r.phase_s[SONDE_PHASE_PREFILL] = 1.2;
    r.phase_s[SONDE_PHASE_DECODE] = 1.2;
    assert_int_equal(sonde_infer_validate(&r, &field, &err), SONDE_EINVAL);
    assert_string_equal(field, "decode_s");
    r.phase_s[SONDE_PHASE_DECODE] = 0.8;
    assert_int_equal(sonde_infer_validate(&r, &field, &err), 0);
}

/* ---- Runs, and every allocation failing ------------------------------------------------------ */

static void keep_in_run(const struct sonde_infer_request *r, void *arg)
{
    struct sonde_infer_request flat = *r;
    flat.items = NULL;
    flat.item_count = 0;
    sonde_infer_run_add(arg, &flat);
}

static void play_some(struct play *g)
{
    for (uint64_t id = 1; id <= 20; id++) {
        const double at = (double)id * 10;
        play_request(g, id, at);
        play_event(g, &(struct sonde_infer_event){
            .type = SONDE_INFER_ATTR, .id = id, .time_ns = MS(at),
            .attr = { .key = "temperature", .type = SONDE__ATTR_DOUBLE, .value.d = 0.5 } });
        play_prompt(g, id, at + 1, 10, 2);
        play_phase(g, id, SONDE_PHASE_PREFILL, at + 1, at + 3, 8);
        play_tokens(g, id, at + 4, 1);
        play_tokens(g, id, at + 6, 1);
        play_end(g, id, at + 8, id % 5 ? SONDE_OK : SONDE_ERROR, "oom");
    }
    play_event(g, &(struct sonde_infer_event){ .type = SONDE_INFER_MEMORY, .model = "tiny",
                                               .time_ns = MS(1), .memory = { 77, "kv" } });
    play_until(g, 1000);
}

static void a_run_keeps_requests(void **state)
{
    (void)state;
    struct play g;
    struct sonde_profile *p, *other;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_profile_create(0, &other), 0);
    const struct sonde_infer_options o = { .on_done = keep_in_run, .on_done_arg = p };
    play_init(&g, &o);
    play_some(&g);
    assert_int_equal(sonde_infer_complete_run(g.tracker, p), 0);
    play_release(&g); /* the run has its own of everything */
    assert_int_equal(sonde_profile_merge(other, p), 0);
    sonde_profile_destroy(p);
    const struct sonde_infer_run *run = other->infer;
    assert_int_equal(run->request_count, 20);
    assert_string_equal(run->requests[3].model, "tiny");
    assert_string_equal(run->requests[4].error, "oom");
    assert_int_equal(run->requests[3].item_count, 3);
    assert_string_equal(run->requests[3].items[0].name, "prefill");
    assert_string_equal(run->requests[3].attrs[0].key, "temperature");
    assert_string_equal(run->requests[3].attrs[0].value, "0.5");
    assert_int_equal(run->model_count, 1);
    assert_int_equal(run->models[0].memory[0].bytes, 77);
    assert_string_equal(run->models[0].memory[0].kind, "kv");
    sonde_profile_destroy(other);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 400; nth++) {
        struct play g;
        struct sonde_profile *p;
        assert_int_equal(sonde_profile_create(0, &p), 0);
        const struct sonde_infer_options o = { .on_done = keep_in_run, .on_done_arg = p,
                                               .aliases = 1 };
        play_init(&g, &o);
        sonde__alloc_fail_nth(nth);
        play_some(&g);
        sonde_infer_complete_run(g.tracker, p);
        sonde__alloc_fail_nth(0);
        play_release(&g);
        sonde_profile_destroy(p);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posted_by_threads),
        cmocka_unit_test(validate_names_the_field),
        cmocka_unit_test(a_run_keeps_requests),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
