/* From events to figures: scenarios whose truth is known, and events that cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "unit/infer/infer_play.h"

/* ---- Scenarios ------------------------------------------------------------------------------ */

/* Arrives at 0, waits 20 ms, encodes 5, prefills 100 tokens of which 60 are reused in 50, then a
 * token every 10 ms, each with 8 of decode and 1 of sampling. */
static void streaming(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_request(&g, 1, 0);
    play_phase(&g, 1, SONDE_PHASE_QUEUE, 0, 20, 0);
    play_phase(&g, 1, SONDE_PHASE_ENCODE, 20, 25, 100);
    play_prompt(&g, 1, 25, 100, 60);
    play_phase(&g, 1, SONDE_PHASE_PREFILL, 25, 75, 40);
    play_tokens(&g, 1, 76, 1);
    for (int i = 1; i <= 9; i++) {
        play_phase(&g, 1, SONDE_PHASE_DECODE, 76 + 10 * i - 10, 76 + 10 * i - 2, 1);
        play_phase(&g, 1, SONDE_PHASE_SAMPLE, 76 + 10 * i - 2, 76 + 10 * i - 1, 1);
        play_tokens(&g, 1, 76 + 10 * i, 1);
    }
    play_phase(&g, 1, SONDE_PHASE_NAMED, 166, 168, 0);
    play_end(&g, 1, 170, SONDE_OK, "");
    play_until(&g, 1000);

    const struct sonde_infer_request *r = need(&g, 1);
    assert_int_equal(r->outcome, SONDE_OK);
    assert_string_equal(r->model, "tiny");
    assert_string_equal(r->route, "/v1/chat/completions");
    assert_string_equal(r->program, "engine");
    NEAR(r->total_s, 0.170);
    NEAR(r->ttft_s, 0.076);
    NEAR(sonde_infer_queue_s(r), 0.020);
    assert_false(r->flags & SONDE_INFER_QUEUE_DERIVED);
    NEAR(r->phase_s[SONDE_PHASE_ENCODE], 0.005);
    NEAR(r->phase_s[SONDE_PHASE_PREFILL], 0.050);
    NEAR(r->phase_s[SONDE_PHASE_DECODE], 0.072);
    NEAR(r->phase_s[SONDE_PHASE_SAMPLE], 0.009);
    NEAR(r->phase_s[SONDE_PHASE_NONE], 0.002);
    assert_int_equal(r->phase_count[SONDE_PHASE_DECODE], 9);
    assert_int_equal(r->phase_count[SONDE_PHASE_DETOKENIZE], 0);
    assert_int_equal(r->tokens_in, 100);
    assert_int_equal(r->tokens_reused, 60);
    assert_int_equal(r->tokens_out, 10);
    assert_int_equal(r->itl_count, 9);
    NEAR(r->itl_s, 0.010);
    NEAR(r->itl_min_s, 0.010);
    NEAR(r->itl_max_s, 0.010);
    WITHIN(r->itl_p50_s, 0.010, 0.006);
    NEAR(r->tokens_per_s, 10 / 0.170);
    NEAR(r->efficiency, 10 / 170.0);
    NEAR(r->hit_ratio, 0.6);
    assert_int_equal(r->item_count, 1 + 1 + 1 + 1 + 9 * 3 + 1);
    assert_string_equal(r->items[0].name, "queue");
    assert_string_equal(r->items[r->item_count - 1].name, "rerank");

    const struct sonde_model_series *s = play_series(
        &g, "gen_ai_server_time_to_first_token_seconds", "gen_ai_operation_name=\"chat\","
        "gen_ai_provider_name=\"engine\",gen_ai_request_model=\"tiny\"");
    assert_non_null(s);
    assert_int_equal(s->hist->count, 1);
    assert_int_equal(s->hist->sum_raw, 76000000);
    assert_int_equal(s->le[6], 1); /* 0.06 < 0.076 <= 0.08 */
    assert_int_equal(s->exemplar_count, 1);
    assert_int_equal(s->exemplar[0].trace_lo, 1);
    s = play_series(&g, "sonde_infer_inter_token_seconds", "model=\"tiny\"");
    assert_int_equal(s->hist->count, 9);
    assert_int_equal(s->le[0], 9); /* at the bound, not over it */
    s = play_series(&g, "sonde_infer_phase_seconds", "phase=\"prefill\"");
    assert_int_equal(s->hist->sum_raw, 50000000);
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "outcome=\"ok\""), 1);
    assert_int_equal(counter(&g, "sonde_infer_tokens_total", "type=\"input\""), 100);
    assert_int_equal(counter(&g, "sonde_infer_tokens_total", "type=\"reused\""), 60);
    assert_int_equal(counter(&g, "sonde_infer_tokens_total", "type=\"output\""), 10);
    assert_int_equal(counter(&g, "sonde_infer_computed_tokens_total", "phase=\"prefill\""), 40);
    assert_int_equal(counter(&g, "sonde_infer_computed_tokens_total", "phase=\"decode\""), 9);
    assert_int_equal(counter(&g, "sonde_infer_compute_seconds_total", "phase=\"decode\""),
                     72000000);
    NEAR(play_series(&g, "sonde_infer_prefix_hit_ratio", "tiny")->gauge, 0.6);
    assert_null(play_series(&g, "vllm:time_to_first_token_seconds", ""));
    play_release(&g);
}

static void play_quiet(struct play *g, uint64_t id, double ms)
{
    play_event(g, &(struct sonde_infer_event){ .type = SONDE_INFER_END, .id = id,
                                               .time_ns = MS(ms), .end.silent = 1 });
}

/* It was silent and counted; it goes on: counted once, its figures are corrected. */
static void went_on(void **state)
{
    (void)state;
    struct play g;
    struct sonde_infer_request running[2];
    play_init(&g, NULL);
    play_request(&g, 5, 0);
    play_tokens(&g, 5, 100, 1);
    play_tokens(&g, 5, 200, 1);
    play_quiet(&g, 5, 200);
    play_request(&g, 6, 150);
    play_until(&g, 1000);
    assert_int_equal(sonde_infer_running(g.tracker, (double)T0 + 1, running, 2), 1);
    assert_int_equal(running[0].id, 6);
    NEAR(need(&g, 5)->total_s, 0.200);
    assert_int_equal(need(&g, 5)->item_count, 2);
    play_tokens(&g, 5, 3200, 1);
    play_until(&g, 4000);
    assert_int_equal(sonde_infer_running(g.tracker, (double)T0 + 4, running, 2), 2);
    play_quiet(&g, 5, 3200);
    play_end(&g, 6, 4000, SONDE_OK, "");
    play_until(&g, 5000);
    assert_int_equal(sonde_infer_running(g.tracker, (double)T0 + 5, running, 2), 0);
    assert_int_equal(sonde_infer_done_count(g.tracker), 2);
    NEAR(need(&g, 5)->total_s, 3.200);
    assert_int_equal(need(&g, 5)->tokens_out, 3);
    assert_int_equal(need(&g, 5)->item_count, 3);
    assert_true(need(&g, 5)->flags & SONDE_INFER_WENT_ON);
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "outcome=\"ok\""), 2);
    assert_int_equal(counter(&g, "sonde_infer_tokens_total", "type=\"output\""), 3);
    assert_int_equal(play_series(&g, "gen_ai_server_request_duration_seconds", "tiny")->hist->count,
                     2);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_went_on), 1);
    struct sonde_infer_totals t;
    sonde_infer_totals(g.tracker, (double)T0 + 5, &t);
    assert_int_equal(t.requests[SONDE_OK], 2);

    /* Told twice, or of what was before: nothing goes on. */
    play_end(&g, 5, 3200, SONDE_OK, "");
    play_tokens(&g, 5, 3100, 1);
    play_until(&g, 6000);
    assert_int_equal(sonde_infer_running(g.tracker, (double)T0 + 6, running, 2), 0);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_after_end), 2);

    /* Many more than are kept in mind. */
    for (uint64_t id = 100; id < 1000; id++) {
        play_request(&g, id, 6000);
        play_tokens(&g, id, 6001, 1);
        play_quiet(&g, id, 6001);
    }
    play_until(&g, 7000);
    for (uint64_t id = 100; id < 1000; id++) play_tokens(&g, id, 7000, 1);
    play_until(&g, 8000);
    assert_int_equal(sonde_infer_running(g.tracker, (double)T0 + 8, NULL, 0), 256);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_after_end) +
                     sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_unknown_request), 2 + 644);
    play_release(&g);
}

/* The last token and the end of a request were told with the same ticks, and two conversions of
 * those are a nanosecond apart. */
static void the_end_comes_last_of_its_instant(void **state)
{
    struct play g;
    (void)state;
    play_init(&g, NULL);
    play_request(&g, 1, 1000);
    play_end(&g, 1, 1100, SONDE_OK, "");
    play_event(&g, &(struct sonde_infer_event){ .type = SONDE_INFER_TOKENS, .id = 1,
                                                .time_ns = MS(1100) + 1, .tokens.count = 50 });
    play_until(&g, 2000);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_after_end), 0);
    assert_int_equal(sonde_infer_done(g.tracker, 0)->tokens_out, 50);
    assert_true(fabs(sonde_infer_done(g.tracker, 0)->total_s - 0.1) < 2e-9);
    play_release(&g);
}

/* Rings hold what was before a recording: only what ended in its time counts. */
static void only_from_then_on(void **state)
{
    (void)state;
    struct play g;
    struct sonde_infer_totals t;
    const struct sonde_infer_options o = { .from_s = (double)T0 + 10 };
    play_init(&g, &o);
    play_request(&g, 1, 0); /* ended before */
    play_prompt(&g, 1, 1, 100, 0);
    play_batch(&g, 1, 50, (struct play_part[]){ { 1, 100, 0 } }, 1);
    play_tokens(&g, 1, 50, 1);
    play_end(&g, 1, 9000, SONDE_OK, "");
    play_request(&g, 4, 0); /* alike, and silent since; it goes on */
    play_tokens(&g, 4, 100, 1);
    play_quiet(&g, 4, 100);
    play_request(&g, 2, 9000); /* under way */
    play_prompt(&g, 2, 9001, 7, 0);
    play_tokens(&g, 2, 9500, 1);
    play_tokens(&g, 2, 11000, 1);
    play_end(&g, 2, 12000, SONDE_OK, "");
    play_request(&g, 3, 11000);
    play_tokens(&g, 3, 11500, 1);
    play_end(&g, 3, 12000, SONDE_OK, "");
    play_tokens(&g, 4, 12000, 1);
    play_end(&g, 4, 13000, SONDE_OK, "");
    play_until(&g, 14000);
    assert_int_equal(sonde_infer_done_count(g.tracker), 3);
    assert_null(play_done(&g, 1));
    NEAR(need(&g, 2)->total_s, 3);
    NEAR(need(&g, 2)->ttft_s, 0.5);
    assert_int_equal(need(&g, 2)->tokens_out, 2);
    assert_int_equal(need(&g, 4)->tokens_out, 2);
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "outcome=\"ok\""), 3);
    assert_int_equal(counter(&g, "sonde_infer_tokens_total", "type=\"output\""), 3);
    assert_int_equal(play_series(&g, "gen_ai_server_time_to_first_token_seconds",
                                 "tiny")->hist->count, 1);
    assert_null(play_series(&g, "sonde_infer_computed_tokens_total", "phase=\"prefill\""));
    sonde_infer_totals(g.tracker, (double)T0 + 14, &t);
    assert_int_equal(t.requests[SONDE_OK], 3);
    assert_int_equal(t.tokens_out, 3);
    assert_int_equal(t.tokens_in, 0);
    play_release(&g);
}

/* Its arrival is not known: it counts, and its tokens do, but no time from there. */
static void began_before(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_event(&g, &(struct sonde_infer_event){ .type = SONDE_INFER_REQUEST, .id = 1,
                                                .time_ns = MS(100), .model = "tiny",
                                                .request.incomplete = 1 });
    play_batch(&g, 150, 200, (struct play_part[]){ { 1, 10, 0 } }, 1);
    play_tokens(&g, 1, 200, 1);
    play_tokens(&g, 1, 210, 1);
    play_end(&g, 1, 300, SONDE_OK, "");
    play_request(&g, 2, 100);
    play_tokens(&g, 2, 200, 1);
    play_end(&g, 2, 300, SONDE_INFER_LOST, "calls_lost");
    play_until(&g, 1000);
    const struct sonde_infer_request *r = need(&g, 1);
    assert_true(r->flags & SONDE_INFER_INCOMPLETE);
    assert_false(sonde_infer_has_ttft(r));
    assert_int_equal(r->phase_count[SONDE_PHASE_QUEUE], 0);
    NEAR(r->itl_s, 0.010);
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "outcome=\"ok\""), 1);
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "outcome=\"lost\""), 1);
    assert_null(play_series(&g, "gen_ai_server_request_duration_seconds", "tiny"));
    assert_int_equal(need(&g, 2)->outcome, SONDE_INFER_LOST);
    play_release(&g);
}

/* All tokens at once, when it is done: the first token is the last. */
static void not_streaming(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_request(&g, 5, 0);
    play_phase(&g, 5, SONDE_PHASE_ENCODE, 20, 25, 7);
    play_phase(&g, 5, SONDE_PHASE_PREFILL, 30, 80, 7);
    play_phase(&g, 5, SONDE_PHASE_DECODE, 80, 280, 20);
    play_tokens(&g, 5, 290, 20);
    play_end(&g, 5, 300, SONDE_OK, "");
    play_until(&g, 1000);
    const struct sonde_infer_request *r = need(&g, 5);
    NEAR(r->ttft_s, 0.290);
    assert_int_equal(r->itl_count, 0);
    assert_int_equal(r->tokens_out, 20);
    NEAR(sonde_infer_queue_s(r), 0.025); /* nobody told: what was not spent before the first work */
    assert_true(r->flags & SONDE_INFER_QUEUE_DERIVED);
    assert_null(play_series(&g, "gen_ai_server_time_per_output_token_seconds", ""));
    play_release(&g);
}

/* Two sequences in one batch: 30 ms for a prompt of 9 tokens and a decode of 1, then 20 ms shared
 * by two decodes. */
static void batched(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_request(&g, 1, 0);
    play_request(&g, 2, 0);
    play_batch(&g, 10, 20, (const struct play_part[]){ { 1, 10, 0 } }, 1);
    play_tokens(&g, 1, 21, 1);
    play_batch(&g, 30, 60, (const struct play_part[]){ { 2, 9, 0 }, { 1, 0, 1 } }, 2);
    play_tokens(&g, 1, 61, 1);
    play_tokens(&g, 2, 61, 1);
    play_batch(&g, 70, 90, (const struct play_part[]){ { 1, 0, 1 }, { 2, 0, 1 } }, 2);
    play_tokens(&g, 1, 91, 1);
    play_tokens(&g, 2, 91, 1);
    play_end(&g, 1, 92, SONDE_OK, "");
    play_end(&g, 2, 93, SONDE_OK, "");
    play_until(&g, 1000);

    const struct sonde_infer_request *a = need(&g, 1), *b = need(&g, 2);
    NEAR(a->phase_s[SONDE_PHASE_PREFILL], 0.010);
    NEAR(a->phase_s[SONDE_PHASE_DECODE], 0.003 + 0.010); /* a tenth, and a half */
    NEAR(b->phase_s[SONDE_PHASE_PREFILL], 0.027);
    NEAR(b->phase_s[SONDE_PHASE_DECODE], 0.010);
    NEAR(a->ttft_s, 0.021);
    NEAR(b->ttft_s, 0.061);
    NEAR(a->itl_s, 0.035);
    NEAR(b->itl_s, 0.030);
    NEAR(sonde_infer_queue_s(a), 0.010);
    NEAR(sonde_infer_queue_s(b), 0.030);
    assert_int_equal(a->batches, 3);
    assert_int_equal(b->batches, 2);
    assert_int_equal(a->items[2].batch, 2);

    struct sonde_infer_model_view v;
    assert_int_equal(sonde_infer_model_count(g.tracker), 1);
    sonde_infer_model_at(g.tracker, 0, &v);
    assert_int_equal(v.facts.batches, 3);
    assert_int_equal(v.facts.batch_requests, 5);
    assert_int_equal(v.facts.phase_tokens[SONDE_PHASE_PREFILL], 19);
    assert_int_equal(v.facts.phase_tokens[SONDE_PHASE_DECODE], 3);
    NEAR(v.facts.phase_s[SONDE_PHASE_PREFILL], 0.010 + 0.027); /* each batch once */
    NEAR(v.facts.phase_s[SONDE_PHASE_DECODE], 0.003 + 0.020);
    NEAR(v.prefill_per_s, 19);
    NEAR(v.output_per_s, 5);
    assert_true(isnan(v.hit_ratio)); /* nobody told of a prompt */
    const struct sonde_model_series *s = play_series(&g, "sonde_infer_batch_requests", "tiny");
    assert_int_equal(s->hist->count, 3);
    assert_int_equal(s->hist->sum_raw, 5);
    play_release(&g);
}

static void outcomes(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    for (uint64_t id = 1; id <= 4; id++) play_request(&g, id, 0);
    play_tokens(&g, 1, 10, 1);
    play_end(&g, 1, 20, SONDE_CANCELLED, "");
    play_end(&g, 2, 20, SONDE_ERROR, "oom");
    play_end(&g, 3, 20, SONDE_TIMEOUT, "");
    play_end(&g, 4, 20, 77, ""); /* no such outcome */
    play_until(&g, 1000);
    assert_int_equal(need(&g, 1)->outcome, SONDE_CANCELLED);
    assert_string_equal(need(&g, 2)->error, "oom");
    assert_int_equal(need(&g, 4)->outcome, SONDE_ERROR);
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "outcome=\"error\""), 2);
    assert_int_equal(counter(&g, "sonde_infer_errors_total", "type=\"oom\""), 1);
    assert_int_equal(counter(&g, "sonde_infer_errors_total", "type=\"timeout\""), 1);
    assert_int_equal(counter(&g, "sonde_infer_errors_total", "type=\"cancelled\""), 0);
    assert_null(play_series(&g, "gen_ai_server_request_duration_seconds",
                            "source=\"api\",process"));
    assert_non_null(play_series(&g, "gen_ai_server_request_duration_seconds",
                                "error_type=\"oom\""));
    play_release(&g);
}

static void never_ends(void **state)
{
    (void)state;
    struct play g;
    const struct sonde_infer_options o = { .timeout_s = 60 };
    play_init(&g, &o);
    play_request(&g, 1, 0);
    play_tokens(&g, 1, 100, 1);
    play_until(&g, 50000);
    struct sonde_infer_request running[2];
    assert_int_equal(sonde_infer_running(g.tracker, (double)T0 + 50, running, 2), 1);
    assert_true(running[0].flags & SONDE_INFER_RUNNING);
    NEAR(running[0].ttft_s, 0.1);
    NEAR(running[0].total_s, 50);
    NEAR(play_series(&g, "sonde_infer_requests_running", "tiny")->gauge, 1);
    play_until(&g, 70000);
    const struct sonde_infer_request *r = play_done(&g, 1);
    assert_non_null(r);
    assert_int_equal(r->outcome, SONDE_INFER_LOST);
    assert_string_equal(r->error, "not_heard_of");
    NEAR(r->total_s, 0.1); /* as far as it was heard of */
    assert_int_equal(sonde_infer_running(g.tracker, (double)T0 + 70, running, 2), 0);
    NEAR(play_series(&g, "sonde_infer_requests_running", "tiny")->gauge, 0);
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "outcome=\"lost\""), 1);
    play_tokens(&g, 1, 70500, 1);
    play_until(&g, 71000);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_after_end), 1);
    play_release(&g);
}

/* The process dies in the middle: its requests are lost, and later all that is about it goes. */
static void process_dies(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_request(&g, 1, 0);
    play_request(&g, 2, 5);
    play_until(&g, 300);
    g.p->state = SONDE_PROCESS_KILLED;
    g.p->ended_s = (double)T0 + 0.3;
    play_end(&g, 2, 290, SONDE_OK, ""); /* in its ring when it was read for the last time */
    play_until(&g, 600);
    assert_null(play_done(&g, 1));
    play_until(&g, 1400);
    assert_int_equal(play_done(&g, 1)->outcome, SONDE_INFER_LOST);
    assert_string_equal(play_done(&g, 1)->error, "process_ended");
    assert_int_equal(play_done(&g, 2)->outcome, SONDE_OK);
    play_request(&g, 3, 1450); /* still waits to be put in order */
    sonde_model_process_forget(g.m, g.p);
    assert_int_equal(play_done(&g, 3)->outcome, SONDE_INFER_LOST);
    assert_int_equal(sonde_infer_group_count(g.tracker), 0);
    assert_int_equal(sonde_infer_model_count(g.tracker), 0);
    assert_null(play_series(&g, "sonde_infer_requests_total", ""));
    assert_string_equal(play_done(&g, 2)->model, "tiny"); /* what ended is still known */
    play_release(&g);
}

/* ---- Order ---------------------------------------------------------------------------------- */

/* A thread's ring is read before that of the thread where the request began. */
static void any_order_within_a_drain(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_end(&g, 1, 50, SONDE_OK, "");
    play_tokens(&g, 1, 40, 1);
    play_tokens(&g, 1, 20, 1);
    play_tokens(&g, 1, 30, 1);
    play_prompt(&g, 1, 5, 10, 0);
    play_request(&g, 1, 0);
    play_until(&g, 100);
    const struct sonde_infer_request *r = need(&g, 1);
    assert_int_equal(r->tokens_out, 3);
    NEAR(r->ttft_s, 0.020);
    NEAR(r->itl_s, 0.010);
    for (int i = 0; i < SONDE_INFER_REASON_COUNT; i++) {
        assert_int_equal(sonde_infer_invalid(g.tracker, (enum sonde_infer_reason)i), 0);
    }
    play_release(&g);
}

/* What is younger than the slack waits. */
static void waits_for_what_may_come(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_end(&g, 1, 90, SONDE_OK, "");
    sonde_infer_drained(g.tracker, MS(100));
    play_request(&g, 1, 0);
    play_tokens(&g, 1, 80, 1);
    sonde_infer_drained(g.tracker, MS(200));
    assert_null(play_done(&g, 1)); /* may still have tokens of another thread */
    sonde_infer_drained(g.tracker, MS(300));
    assert_int_equal(need(&g, 1)->tokens_out, 1);
    play_request(&g, 2, 400);
    play_end(&g, 2, 410, SONDE_OK, "");
    sonde_infer_flush(g.tracker); /* nothing will come */
    need(&g, 2);
    play_release(&g);
}

/* ---- What cannot be ------------------------------------------------------------------------- */

static const struct bad_case {
    const char *what;
    struct sonde_infer_event e;
    enum sonde_infer_reason reason;
} bad_cases[] = {
    { "no such request", { .type = SONDE_INFER_TOKENS, .id = 9, .time_ns = MS(10),
                           .tokens.count = 1 },
      SONDE_INFER_BAD_unknown_request },
    { "end of no request", { .type = SONDE_INFER_END, .id = 9, .time_ns = MS(10) },
      SONDE_INFER_BAD_unknown_request },
    { "request 0", { .type = SONDE_INFER_REQUEST, .id = 0, .time_ns = MS(10) },
      SONDE_INFER_BAD_bad_value },
    { "the same request", { .type = SONDE_INFER_REQUEST, .id = 1, .time_ns = MS(0) },
      SONDE_INFER_BAD_duplicate },
    { "tokens before arrival", { .type = SONDE_INFER_TOKENS, .id = 1, .time_ns = MS(0) - 5000000,
                                 .tokens.count = 1 }, SONDE_INFER_BAD_unknown_request },
    { "no tokens", { .type = SONDE_INFER_TOKENS, .id = 1, .time_ns = MS(10) },
      SONDE_INFER_BAD_bad_value },
    { "too many tokens", { .type = SONDE_INFER_TOKENS, .id = 1, .time_ns = MS(10),
                           .tokens.count = UINT64_MAX }, SONDE_INFER_BAD_bad_value },
    { "more reused than asked", { .type = SONDE_INFER_PROMPT, .id = 1, .time_ns = MS(10),
                                  .prompt = { 5, 6 } }, SONDE_INFER_BAD_bad_value },
    { "a phase that ends before it begins", { .type = SONDE_INFER_PHASE, .id = 1,
                                              .begin_ns = MS(20), .time_ns = MS(10),
                                              .phase.kind = SONDE_PHASE_PREFILL },
      SONDE_INFER_BAD_negative },
    { "a phase of too many tokens",
      { .type = SONDE_INFER_PHASE, .id = 1, .begin_ns = MS(5),
        .time_ns = MS(10), .phase = { .kind = SONDE_PHASE_PREFILL, .tokens = UINT64_MAX } },
      SONDE_INFER_BAD_bad_value },
    { "a batch backwards", { .type = SONDE_INFER_BATCH, .begin_ns = MS(20), .time_ns = MS(10),
                             .batch = { .prompt = 1, .requests = 1 } }, SONDE_INFER_BAD_negative },
    { "a part larger than its batch", { .type = SONDE_INFER_PART, .id = 1, .begin_ns = MS(5),
                                        .time_ns = MS(10), .part = { .prompt = 3, .all = 2 } },
      SONDE_INFER_BAD_bad_value },
    { "a part of nothing", { .type = SONDE_INFER_PART, .id = 1, .begin_ns = MS(5),
                             .time_ns = MS(10), .part.all = 2 }, SONDE_INFER_BAD_bad_value },
    { "a part whose sum overflows",
      { .type = SONDE_INFER_PART, .id = 1, .begin_ns = MS(5), .time_ns = MS(10),
        .part = { .prompt = UINT64_MAX, .output = 2, .all = 5 } }, SONDE_INFER_BAD_bad_value },
    { "more cells than there are", { .type = SONDE_INFER_KV, .time_ns = MS(10),
                                     .kv = { .used = 3, .total = 2 } }, SONDE_INFER_BAD_bad_value },
    { "a cache of nothing", { .type = SONDE_INFER_KV, .time_ns = MS(10) },
      SONDE_INFER_BAD_bad_value },
    { "memory beyond all", { .type = SONDE_INFER_MEMORY, .time_ns = MS(10),
                             .memory = { UINT64_MAX, "kv" } }, SONDE_INFER_BAD_bad_value },
    { "loaded before it was begun", { .type = SONDE_INFER_LOAD, .begin_ns = MS(20),
                                      .time_ns = MS(10) }, SONDE_INFER_BAD_negative },
    { "in an hour", { .type = SONDE_INFER_TOKENS, .id = 1, .time_ns = MS(3600000),
                      .tokens.count = 1 },
      SONDE_INFER_BAD_bad_time },
};

static void what_cannot_be_is_counted(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_cases) / sizeof(bad_cases[0]); i++) {
        const struct bad_case *c = &bad_cases[i];
        struct play g;
        play_init(&g, NULL);
        play_request(&g, 1, 0);
        play_event(&g, &c->e);
        play_tokens(&g, 1, 30, 1);
        play_end(&g, 1, 40, SONDE_OK, "");
        play_until(&g, 1000);
        if (sonde_infer_invalid(g.tracker, c->reason) != 1) {
            fail_msg("%s: counted %llu times", c->what,
                     (unsigned long long)sonde_infer_invalid(g.tracker, c->reason));
        }
        /* And the request is what it would be without. */
        const struct sonde_infer_request *r = need(&g, 1);
        assert_int_equal(r->tokens_out, 1);
        NEAR(r->ttft_s, 0.030);
        NEAR(r->total_s, 0.040);
        assert_int_equal(r->phase_count[SONDE_PHASE_PREFILL], 0);
        uint64_t all = 0;
        for (int k = 0; k < SONDE_INFER_REASON_COUNT; k++) {
            all += sonde_infer_invalid(g.tracker, (enum sonde_infer_reason)k);
        }
        assert_int_equal(all, 1);
        play_release(&g);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void no_time_at_all(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    struct sonde_infer_event e = { .type = SONDE_INFER_REQUEST, .id = 1, .model = "" };
    sonde_infer_event(g.tracker, g.p, &e);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_bad_time), 1);
    e.time_ns = e.begin_ns = MS(1);
    e.type = 999; /* of a newer source */
    sonde_infer_event(g.tracker, g.p, &e);
    play_until(&g, 10);
    play_release(&g);
}

static void duplicates_and_repeated_ids(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_request(&g, 1, 0);
    for (int i = 0; i < 2; i++) {
        play_prompt(&g, 1, 5, 10, 2);
        play_phase(&g, 1, SONDE_PHASE_PREFILL, 10, 20, 8);
        play_tokens(&g, 1, 30, 1);
    }
    play_tokens(&g, 1, 40, 1);
    play_end(&g, 1, 50, SONDE_OK, "");
    play_end(&g, 1, 50, SONDE_OK, "");
    play_until(&g, 100);
    const struct sonde_infer_request *r = need(&g, 1);
    assert_int_equal(r->tokens_in, 10);
    assert_int_equal(r->tokens_out, 2);
    assert_int_equal(r->phase_count[SONDE_PHASE_PREFILL], 1);
    NEAR(r->phase_s[SONDE_PHASE_PREFILL], 0.010);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_duplicate), 3);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_after_end), 1);

    play_request(&g, 1, 200); /* an id may be used again after its end … */
    play_tokens(&g, 1, 210, 1);
    play_request(&g, 1, 300); /* … but not before */
    play_tokens(&g, 1, 305, 1);
    play_end(&g, 1, 310, SONDE_OK, "");
    play_until(&g, 1000);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_repeated_id), 1);
    assert_int_equal(sonde_infer_done_count(g.tracker), 3);
    r = sonde_infer_done(g.tracker, 0);
    NEAR(r->total_s, 0.010);
    assert_int_equal(r->tokens_out, 1);
    assert_int_equal(sonde_infer_done(g.tracker, 1)->outcome, SONDE_INFER_LOST);
    assert_string_equal(sonde_infer_done(g.tracker, 1)->error, "repeated_id");
    play_release(&g);
}

/* Late ones of a slow thread: no time goes backwards. */
static void late_events(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_request(&g, 1, 0);
    play_tokens(&g, 1, 10, 1);
    play_tokens(&g, 1, 30, 1);
    play_until(&g, 500);
    play_tokens(&g, 1, 20, 1); /* half a second late */
    play_event(&g, &(struct sonde_infer_event){ .type = SONDE_INFER_TOKENS, .id = 1,
                                                .time_ns = MS(0) - 1, .tokens.count = 1 });
    play_until(&g, 600);
    play_end(&g, 1, 25, SONDE_OK, ""); /* before its last token */
    play_until(&g, 1000);
    const struct sonde_infer_request *r = need(&g, 1);
    assert_int_equal(r->tokens_out, 3);
    assert_int_equal(r->itl_count, 1);
    NEAR(r->itl_s, 0.020);
    NEAR(r->total_s, 0.030);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_out_of_order), 1);
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_before_arrival), 1);
    play_release(&g);
}

/* A forward pass told as a phase and as a batch: the sum is longer than the request. */
static void contradictions_are_no_statistics(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_request(&g, 1, 0);
    play_phase(&g, 1, SONDE_PHASE_DECODE, 0, 90, 1);
    play_batch(&g, 0, 90, (const struct play_part[]){ { 1, 0, 1 } }, 1);
    play_tokens(&g, 1, 95, 1);
    play_end(&g, 1, 100, SONDE_OK, "");
    play_until(&g, 1000);
    const struct sonde_infer_request *r = play_done(&g, 1);
    assert_string_equal(r->invalid, "decode_s");
    assert_int_equal(counter(&g, "sonde_infer_invalid_requests_total", "field=\"decode_s\""), 1);
    assert_null(play_series(&g, "gen_ai_server_request_duration_seconds", ""));
    play_release(&g);
}

/* A request whose end may have been overwritten is not lost: nobody knows. */
static void end_overwritten(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_request(&g, 1, 0);
    play_request(&g, 2, 10);
    play_request(&g, 3, 50);
    g.p->gap_ns = MS(40);
    play_end(&g, 2, 60, SONDE_OK, "");
    play_until(&g, 100);
    g.p->state = SONDE_PROCESS_KILLED;
    g.p->ended_s = (double)T0;
    play_until(&g, 5000);
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "\"ok\""), 1);
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "\"lost\""), 1); /* the third */
    assert_int_equal(sonde_infer_invalid(g.tracker, SONDE_INFER_BAD_overwritten), 1);
    assert_int_equal(sonde_infer_running(g.tracker, 0, NULL, 0), 0);
    play_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_comes_last_of_its_instant),
        cmocka_unit_test(end_overwritten),
        cmocka_unit_test(streaming),
        cmocka_unit_test(not_streaming),
        cmocka_unit_test(went_on),
        cmocka_unit_test(only_from_then_on),
        cmocka_unit_test(began_before),
        cmocka_unit_test(batched),
        cmocka_unit_test(outcomes),
        cmocka_unit_test(never_ends),
        cmocka_unit_test(process_dies),
        cmocka_unit_test(any_order_within_a_drain),
        cmocka_unit_test(waits_for_what_may_come),
        cmocka_unit_test(what_cannot_be_is_counted),
        cmocka_unit_test(no_time_at_all),
        cmocka_unit_test(duplicates_and_repeated_ids),
        cmocka_unit_test(late_events),
        cmocka_unit_test(contradictions_are_no_statistics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
