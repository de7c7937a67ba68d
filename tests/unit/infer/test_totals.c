/* inference: what is kept, summed and named: bounds, objectives, totals, aliases, models, and a
 * request that the front and the engine behind it both report. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "unit/infer/infer_play.h"

/* ---- Bounds --------------------------------------------------------------------------------- */

static void everything_is_bounded(void **state)
{
    (void)state;
    struct play g;
    const struct sonde_infer_options o = { .done_max = 100, .running_max = 50 };
    play_init(&g, &o);
    for (uint64_t id = 1; id <= 5000; id++) { /* none of them ends */
        play_request(&g, id, (double)id);
        play_phase(&g, id, SONDE_PHASE_PREFILL, (double)id, (double)id + 1, 1);
    }
    play_until(&g, 10000);
    struct sonde_infer_request running[60];
    assert_int_equal(sonde_infer_running(g.tracker, (double)T0 + 10, running, 60), 50);
    assert_int_equal(sonde_infer_done_count(g.tracker), 100);
    assert_string_equal(sonde_infer_done(g.tracker, 0)->error, "too_many");
    assert_null(sonde_infer_done(g.tracker, 100));
    assert_int_equal(counter(&g, "sonde_infer_requests_total", "outcome=\"lost\""), 4950);

    /* A thousand routes, each another; and a phase name for each. */
    for (uint64_t id = 10000; id < 12000; id++) {
        char route[32], name[32];
        snprintf(route, sizeof(route), "/users/%u", (unsigned)id);
        snprintf(name, sizeof(name), "phase%u", (unsigned)id);
        play_event(&g, &(struct sonde_infer_event){
            .type = SONDE_INFER_REQUEST, .id = id, .time_ns = MS((double)id + 5000),
            .model = "tiny", .request.route = route });
        play_event(&g, &(struct sonde_infer_event){
            .type = SONDE_INFER_PHASE, .id = id, .begin_ns = MS((double)id + 5000),
            .time_ns = MS((double)id + 5001),
            .phase = { .kind = SONDE_PHASE_NAMED, .name = name } });
        play_end(&g, id, (double)id + 5002, SONDE_OK, "");
    }
    play_until(&g, 20000);
    assert_true(sonde_infer_group_count(g.tracker) <= 1024);
    assert_non_null(play_series(&g, "sonde_infer_requests_total", "route=\"(other)\""));
    play_release(&g);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A long answer: the timeline stays short, and nothing of it is lost. */
static void long_timelines_are_joined(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_request(&g, 1, 0);
    const int tokens = 3000;
    for (int i = 0; i < tokens; i++) {
        play_phase(&g, 1, SONDE_PHASE_DECODE, i * 4, i * 4 + 3, 1);
        play_tokens(&g, 1, i * 4 + 3.5, 1);
    }
    play_end(&g, 1, tokens * 4, SONDE_OK, "");
    play_until(&g, tokens * 4 + 1000);
    const struct sonde_infer_request *r = need(&g, 1);
    assert_true(r->item_count > SONDE_INFER_ITEMS_MAX / 4 &&
                r->item_count <= SONDE_INFER_ITEMS_MAX);
    uint64_t busy = 0, out = 0, last = 0, count = 0;
    for (uint32_t i = 0; i < r->item_count; i++) {
        const struct sonde_infer_item *item = &r->items[i];
        assert_true(item->start_ns >= last && item->end_ns >= item->start_ns);
        assert_true(item->busy_ns <= item->end_ns - item->start_ns);
        last = item->start_ns;
        count += item->count;
        busy += item->busy_ns;
        if (item->kind == SONDE_PHASE_NONE) out += item->tokens;
    }
    assert_int_equal(out, tokens);
    assert_int_equal(count, 2 * tokens);
    assert_int_equal(busy, 9000000000ull);
    play_release(&g);
}

/* Of many, the slowest, the failed and the newest keep their timelines. */
static void which_timelines_are_kept(void **state)
{
    (void)state;
    struct play g;
    const struct sonde_infer_options o = { .done_max = 1000 };
    play_init(&g, &o);
    for (uint64_t id = 1; id <= 900; id++) {
        const double at = (double)id * 10;
        /* 100 and 200 are slow, 300 failed, 400 is to be profiled. */
        const double ms = id == 100 ? 5000 : id == 200 ? 9 : 1 + (double)id * 1e-3;
        play_event(&g, &(struct sonde_infer_event){
            .type = SONDE_INFER_REQUEST, .id = id, .time_ns = MS(at), .model = "tiny",
            .request.profile = id == 400 });
        play_phase(&g, id, SONDE_PHASE_PREFILL, at, at + 0.5, 1);
        play_tokens(&g, id, at + (id == 200 ? 8 : 0.6), 1);
        play_end(&g, id, at + ms, id == 300 ? SONDE_ERROR : SONDE_OK, "");
    }
    play_until(&g, 15000);
    size_t kept = 0;
    for (size_t i = 0; i < sonde_infer_done_count(g.tracker); i++) {
        kept += sonde_infer_done(g.tracker, i)->items != NULL;
    }
    assert_true(kept <= 4 * 64 + 1);
    assert_non_null(need(&g, 100)->items);
    assert_non_null(need(&g, 200)->items); /* by its first token */
    assert_non_null(need(&g, 300)->items);
    assert_non_null(need(&g, 400)->items);
    assert_non_null(need(&g, 900)->items);
    assert_null(need(&g, 500)->items);
    /* What leaves the ring takes its timeline along. */
    for (uint64_t id = 1000; id < 2000; id++) {
        play_request(&g, id, 15000 + (double)id);
        play_end(&g, id, 15000 + (double)id + 1, SONDE_OK, "");
    }
    play_until(&g, 30000);
    assert_null(play_done(&g, 100));
    play_release(&g);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- Objectives, totals, aliases, models ----------------------------------------------------- */

static void goodput(void **state)
{
    (void)state;
    static const struct { double ttft, itl, total; uint32_t outcome; int met; const char *missed; }
    cases[] = {
        { 50, 10, 150, SONDE_OK, 1, NULL },
        { 101, 10, 150, SONDE_OK, 0, "ttft" },
        { 50, 21, 150, SONDE_OK, 0, "itl" },
        { 50, 10, 501, SONDE_OK, 0, "total" },
        { 50, 10, 150, SONDE_ERROR, 0, NULL },
        { 50, 10, 150, SONDE_CANCELLED, -1, NULL },
    };
    const struct sonde_infer_options o = { .slo_ttft_s = 0.1, .slo_itl_s = 0.02,
                                           .slo_total_s = 0.5 };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct play g;
        play_init(&g, &o);
        play_request(&g, 1, 0);
        play_tokens(&g, 1, cases[i].ttft, 1);
        play_tokens(&g, 1, cases[i].ttft + cases[i].itl, 1);
        play_end(&g, 1, cases[i].total, cases[i].outcome, "");
        play_until(&g, 1000);
        const uint32_t flags = need(&g, 1)->flags;
        assert_int_equal(!!(flags & SONDE_INFER_SLO_MET), cases[i].met == 1);
        assert_int_equal(!!(flags & SONDE_INFER_SLO_MISSED), cases[i].met == 0);
        assert_int_equal(counter(&g, "sonde_infer_slo_requests_total", "result=\"met\""),
                         cases[i].met == 1);
        if (cases[i].missed) {
            char text[64];
            snprintf(text, sizeof(text), "objective=\"%s\"", cases[i].missed);
            assert_int_equal(counter(&g, "sonde_infer_slo_missed_total", text), 1);
        }
        play_release(&g);
    }
}

static void totals_and_reset(void **state)
{
    (void)state;
    struct play g;
    struct sonde_infer_totals t;
    play_init(&g, NULL);
    sonde_infer_totals(g.tracker, (double)T0, &t);
    assert_true(isnan(t.hit_ratio)); /* none before the first access */
    for (uint64_t id = 1; id <= 4; id++) {
        play_request(&g, id, (double)id * 100);
        play_prompt(&g, id, (double)id * 100 + 1, 10, id == 4 ? 5 : 0);
        play_tokens(&g, id, (double)id * 100 + 10, 25);
        play_end(&g, id, (double)id * 100 + 20, id == 1 ? SONDE_ERROR : SONDE_OK, "");
    }
    struct sonde_infer_event e = { .type = SONDE_INFER_MEMORY, .time_ns = MS(1), .model = "tiny",
                                   .memory = { 1000, "weights" } };
    play_event(&g, &e);
    strcpy(e.memory.kind, "kv");
    e.time_ns = MS(2);
    e.memory.bytes = 500;
    play_event(&g, &e);
    e.time_ns = MS(3);
    e.memory.bytes = 100;
    play_event(&g, &e);
    play_until(&g, 10000);
    sonde_infer_totals(g.tracker, (double)T0 + 10, &t);
    assert_int_equal(t.requests[SONDE_OK], 3);
    assert_int_equal(t.requests[SONDE_ERROR], 1);
    assert_int_equal(t.tokens_out, 100);
    NEAR(t.uptime_s, 10);
    NEAR(t.tokens_per_s, 10); /* over wall time */
    NEAR(t.requests_per_s, 0.4);
    NEAR(t.hit_ratio, 5.0 / 40);
    assert_int_equal(t.memory_bytes, 1100);
    assert_int_equal(t.memory_peak, 1500);
    sonde_infer_reset(g.tracker, (double)T0 + 10);
    sonde_infer_totals(g.tracker, (double)T0 + 12, &t);
    NEAR(t.uptime_s, 2);
    assert_int_equal(t.requests[SONDE_OK] + t.tokens_out + t.tokens_in, 0);
    assert_true(isnan(t.hit_ratio));
    assert_int_equal(t.memory_peak, 1100); /* what is in use stays in use */
    NEAR(play_series(&g, "sonde_infer_memory_bytes", "kind=\"kv\"")->gauge, 100);
    NEAR(play_series(&g, "sonde_infer_memory_peak_bytes", "tiny")->gauge, 1500);
    play_release(&g);
}

/* What a process frees at its end may be known only when it is gone already, with all it had. */
static void memory_of_the_dead(void **state)
{
    (void)state;
    struct play g;
    struct sonde_infer_totals t;
    struct sonde_infer_event e = { .type = SONDE_INFER_MEMORY, .time_ns = MS(1), .model = "tiny",
                                   .memory = { 1000, "weights" } };
    play_init(&g, NULL);
    play_event(&g, &e);
    strcpy(e.memory.kind, "kv");
    e.memory.bytes = 500;
    play_event(&g, &e);
    play_until(&g, 1000);
    g.p->state = SONDE_PROCESS_EXITED;
    g.p->ended_s = (double)T0 + 2;
    play_until(&g, 2000);
    sonde_infer_totals(g.tracker, (double)T0 + 2, &t);
    assert_int_equal(t.memory_bytes, 0);

    e.time_ns = MS(1999);
    e.memory.bytes = 0;
    play_event(&g, &e);
    play_until(&g, 3000);
    sonde_infer_totals(g.tracker, (double)T0 + 3, &t);
    assert_int_equal(t.memory_bytes, 0);
    assert_int_equal(t.memory_peak, 1500);
    struct sonde_infer_model_view view;
    sonde_infer_model_at(g.tracker, 0, &view);
    assert_int_equal(view.facts.memory_peak, 1500);
    play_release(&g);
}

/* What vLLM and llama.cpp call …_total is a counter, but for one. */
static void check_alias_types(const struct play *g)
{
    size_t seen = 0;
    for (size_t i = 0; i < g->m->family_count; i++) {
        const struct sonde_model_family *f = g->m->families[i];
        const size_t len = strlen(f->name);
        if (strncmp(f->name, "vllm:", 5) && strncmp(f->name, "llamacpp:", 9)) continue;
        if (len < 6 || strcmp(f->name + len - 6, "_total")) continue;
        const int hist = !strcmp(f->name, "vllm:iteration_tokens_total");
        if (f->type != (hist ? SONDE_HISTOGRAM : SONDE_COUNTER)) {
            fail_msg("the type of %s", f->name);
        }
        seen++;
    }
    assert_true(seen >= 7);
}

static void aliases(void **state)
{
    (void)state;
    static const char *const names[] = {
        "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
        "vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds",
        "vllm:request_prefill_time_seconds", "vllm:request_decode_time_seconds",
        "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc",
        "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total",
        "vllm:prompt_tokens_total", "vllm:generation_tokens_total",
        "llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total",
        "llamacpp:prompt_seconds_total", "llamacpp:tokens_predicted_seconds_total",
        "llamacpp:prompt_tokens_seconds", "llamacpp:predicted_tokens_seconds",
        "llamacpp:prompt_tokens_cached_total", "llamacpp:n_decode_total",
        "llamacpp:n_busy_slots_per_decode",
        "llamacpp:requests_processing", "llamacpp:requests_deferred",
        "requests_total", "request_duration_seconds", "active_requests", "tokens_per_second",
        "memory_usage_bytes",
    };
    struct play g;
    const struct sonde_infer_options o = { .aliases = 1 };
    play_init(&g, &o);
    for (uint64_t id = 1; id <= 2; id++) { /* two routes are one model */
        play_event(&g, &(struct sonde_infer_event){
            .type = SONDE_INFER_REQUEST, .id = id, .time_ns = MS(1), .model = "tiny",
            .request.route = id == 1 ? "/a" : "/b" });
        play_prompt(&g, id, 2, 10, 4);
        play_phase(&g, id, SONDE_PHASE_PREFILL, 5, 10, 6);
        play_phase(&g, id, SONDE_PHASE_DECODE, 10, 20, 1);
        play_tokens(&g, id, 11, 1);
        play_tokens(&g, id, 21, 1);
        play_end(&g, id, 30, id == 1 ? SONDE_OK : SONDE_ERROR, "");
    }
    play_request(&g, 3, 40);
    play_request(&g, 4, 40);
    play_batch(&g, 50, 60, (const struct play_part[]){ { 3, 8, 0 }, { 4, 2, 0 } }, 2);
    play_batch(&g, 60, 65, (const struct play_part[]){ { 3, 0, 1 } }, 1);
    play_event(&g, &(struct sonde_infer_event){ .type = SONDE_INFER_KV, .model = "tiny",
                                                .time_ns = MS(3), .kv = { 1, 4 } });
    play_event(&g, &(struct sonde_infer_event){ .type = SONDE_INFER_MEMORY, .model = "tiny",
                                                .time_ns = MS(3), .memory = { 700, "weights" } });
    play_until(&g, 1000);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (!play_series(&g, names[i], "model_name=\"tiny\",process=\"engine\",pid=\"42\"")) {
            fail_msg("%s is missing", names[i]);
        }
    }
    check_alias_types(&g);
    assert_int_equal(counter(&g, "vllm:prefix_cache_queries_total", ""), 20);
    assert_int_equal(counter(&g, "vllm:prefix_cache_hits_total", ""), 8);
    assert_int_equal(play_series(&g, "vllm:time_to_first_token_seconds", "")->hist->count, 2);
    NEAR(play_series(&g, "vllm:kv_cache_usage_perc", "")->gauge, 0.25);
    assert_int_equal(counter(&g, "requests_total", ""), 2); /* of all outcomes and routes */
    /* As llama.cpp's server counts: what was computed of prompts, requests' own time. */
    assert_int_equal(counter(&g, "llamacpp:prompt_tokens_total", ""), 22);
    assert_int_equal(counter(&g, "llamacpp:prompt_tokens_cached_total", ""), 8);
    assert_int_equal(counter(&g, "llamacpp:prompt_seconds_total", ""), 20000000);
    assert_int_equal(counter(&g, "llamacpp:tokens_predicted_total", ""), 4);
    assert_int_equal(counter(&g, "llamacpp:tokens_predicted_seconds_total", ""), 20000000);
    assert_int_equal(counter(&g, "llamacpp:n_decode_total", ""), 2);
    NEAR(play_series(&g, "llamacpp:n_busy_slots_per_decode", "")->gauge, 1.5);
    NEAR(play_series(&g, "llamacpp:prompt_tokens_seconds", "")->gauge, 22 / 0.02);
    NEAR(play_series(&g, "llamacpp:predicted_tokens_seconds", "")->gauge, 4 / 0.02);
    play_until(&g, 5000); /* averages, which do not fall when nothing is to do */
    NEAR(play_series(&g, "llamacpp:predicted_tokens_seconds", "")->gauge, 4 / 0.02);
    NEAR(play_series(&g, "memory_usage_bytes", "")->gauge, 700);
    play_release(&g);
}

static void models(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_event(&g, &(struct sonde_infer_event){ .type = SONDE_INFER_LOAD, .model = "a",
                                                .begin_ns = MS(0), .time_ns = MS(1500),
                                                .load.bytes = 4096 });
    play_event(&g, &(struct sonde_infer_event){ .type = SONDE_INFER_LOAD, .model = "b",
                                                .begin_ns = MS(0), .time_ns = MS(10),
                                                .load.outcome = SONDE_ERROR });
    play_event(&g, &(struct sonde_infer_event){ .type = SONDE_INFER_BACKEND, .model = "a",
                                                .time_ns = MS(1), .backend.name = "cpu" });
    play_event(&g, &(struct sonde_infer_event){ .type = SONDE_INFER_BACKEND, .model = "a",
                                                .time_ns = MS(2), .backend.name = "cuda" });
    play_event(&g, &(struct sonde_infer_event){ .type = SONDE_INFER_WAITING, .model = "a",
                                                .time_ns = MS(3), .waiting.requests = 7 });
    /* A phase and a batch of nobody, in a process with two models: neither's. */
    play_phase(&g, 0, SONDE_PHASE_PREFILL, 10, 20, 5);
    play_batch(&g, 30, 40, NULL, 0);
    play_until(&g, 2000);
    NEAR(play_series(&g, "sonde_infer_model_load_seconds", "model=\"a\"")->gauge, 1.5);
    assert_null(play_series(&g, "sonde_infer_model_load_seconds", "model=\"b\""));
    assert_int_equal(counter(&g, "sonde_infer_model_loads_total", "model=\"b\""), 1);
    NEAR(play_series(&g, "sonde_infer_model_info", "backend=\"cpu\"")->gauge, 0);
    NEAR(play_series(&g, "sonde_infer_model_info", "backend=\"cuda\"")->gauge, 1);
    NEAR(play_series(&g, "sonde_infer_requests_waiting", "model=\"a\"")->gauge, 7);
    struct sonde_infer_model_view v;
    sonde_infer_model_at(g.tracker, 0, &v);
    assert_int_equal(v.facts.load_bytes, 4096);
    assert_int_equal(v.facts.phase_tokens[SONDE_PHASE_PREFILL], 0);
    const struct sonde_model_series *s =
        play_series(&g, "sonde_infer_computed_tokens_total", "phase=\"prefill\"");
    assert_int_equal(s->counter, 5);
    assert_null(strstr(s->label_text, "model="));
    play_release(&g);
}

/* ---- The front and the engine behind it ------------------------------------------------------ */

static void play_from(struct play *g, uint32_t source, uint32_t type, uint64_t id, double ms,
                      uint64_t tokens, uint32_t outcome)
{
    struct sonde_infer_event e = { .type = (uint16_t)type, .source = (uint16_t)source, .id = id,
                                   .time_ns = MS(ms), .model = "tiny" };
    if (type == SONDE_INFER_TOKENS) {
        e.tokens.count = tokens;
        e.tokens.seq = (uint64_t)ms; /* tokens of one time are told once */
    } else if (type == SONDE_INFER_PROMPT) {
        e.prompt.count = tokens;
    } else if (type == SONDE_INFER_END) {
        e.end.outcome = outcome;
        if (outcome == SONDE_CANCELLED) strcpy(e.end.error, "client_closed");
    }
    play_event(g, &e);
}

enum { FRONT = SONDE_INFER_FRONT, HOOK = SONDE_INFER_HOOK };

/* Its calls look as if it had said all; the front saw its client leave. */
static void client_gone(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_from(&g, FRONT, SONDE_INFER_REQUEST, 1, 0, 0, 0);
    play_from(&g, HOOK, SONDE_INFER_REQUEST, 2, 3, 0, 0);
    play_from(&g, FRONT, SONDE_INFER_REQUEST, 3, 100, 0, 0); /* another, which is not cancelled */
    play_from(&g, HOOK, SONDE_INFER_REQUEST, 4, 104, 0, 0);
    for (int i = 0; i < 5; i++) {
        play_from(&g, HOOK, SONDE_INFER_TOKENS, 2, 150 + 10 * i, 1, 0);
        play_from(&g, FRONT, SONDE_INFER_TOKENS, 1, 151 + 10 * i, 1, 0);
        play_from(&g, HOOK, SONDE_INFER_TOKENS, 4, 152 + 10 * i, 1, 0);
        play_from(&g, FRONT, SONDE_INFER_TOKENS, 3, 153 + 10 * i, 1, 0);
    }
    play_from(&g, FRONT, SONDE_INFER_END, 1, 200, 0, SONDE_CANCELLED);
    play_from(&g, HOOK, SONDE_INFER_END, 2, 210, 0, SONDE_OK);
    play_from(&g, HOOK, SONDE_INFER_END, 4, 300, 0, SONDE_OK);
    play_from(&g, FRONT, SONDE_INFER_END, 3, 301, 0, SONDE_OK);
    play_until(&g, 1000);
    assert_int_equal(need(&g, 1)->outcome, SONDE_CANCELLED);
    assert_int_equal(need(&g, 2)->outcome, SONDE_CANCELLED);
    assert_string_equal(need(&g, 2)->error, "client_closed");
    assert_int_equal(need(&g, 3)->outcome, SONDE_OK);
    assert_int_equal(need(&g, 4)->outcome, SONDE_OK);
    play_release(&g);
}

/* Where the engine's may be one or the other, neither is called cancelled; nor is one that the
 * front has never seen, or one whose tokens are not the front's. */
static void client_gone_unclear(void **state)
{
    (void)state;
    struct play g;
    play_init(&g, NULL);
    play_from(&g, FRONT, SONDE_INFER_REQUEST, 1, 0, 0, 0);
    play_from(&g, FRONT, SONDE_INFER_REQUEST, 2, 1, 0, 0);
    play_from(&g, HOOK, SONDE_INFER_REQUEST, 3, 4, 0, 0);
    play_from(&g, HOOK, SONDE_INFER_REQUEST, 4, 5, 0, 0);
    play_from(&g, FRONT, SONDE_INFER_END, 1, 200, 0, SONDE_CANCELLED);
    play_from(&g, HOOK, SONDE_INFER_END, 3, 210, 0, SONDE_OK);
    play_from(&g, HOOK, SONDE_INFER_END, 4, 300, 0, SONDE_OK);
    play_from(&g, FRONT, SONDE_INFER_END, 2, 301, 0, SONDE_OK);
    play_until(&g, 1000);
    assert_int_equal(need(&g, 3)->outcome, SONDE_OK);
    assert_int_equal(need(&g, 4)->outcome, SONDE_OK);

    play_from(&g, HOOK, SONDE_INFER_REQUEST, 10, 2000, 0, 0); /* before the front's */
    play_from(&g, FRONT, SONDE_INFER_REQUEST, 11, 2100, 0, 0);
    play_from(&g, HOOK, SONDE_INFER_REQUEST, 12, 2104, 0, 0);
    for (int i = 0; i < 30; i++) play_from(&g, FRONT, SONDE_INFER_TOKENS, 11, 2110 + i, 1, 0);
    play_from(&g, HOOK, SONDE_INFER_TOKENS, 12, 2200, 1, 0); /* one, where the front saw 30 */
    play_from(&g, FRONT, SONDE_INFER_END, 11, 2300, 0, SONDE_CANCELLED);
    play_from(&g, HOOK, SONDE_INFER_END, 10, 2400, 0, SONDE_OK);
    play_from(&g, HOOK, SONDE_INFER_END, 12, 2400, 0, SONDE_OK);
    play_until(&g, 3000);
    assert_int_equal(need(&g, 10)->outcome, SONDE_OK);
    assert_int_equal(need(&g, 12)->outcome, SONDE_OK);
    play_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_bounded),
        cmocka_unit_test(long_timelines_are_joined),
        cmocka_unit_test(which_timelines_are_kept),
        cmocka_unit_test(goodput),
        cmocka_unit_test(totals_and_reset),
        cmocka_unit_test(memory_of_the_dead),
        cmocka_unit_test(aliases),
        cmocka_unit_test(models),
        cmocka_unit_test(client_gone),
        cmocka_unit_test(client_gone_unclear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
