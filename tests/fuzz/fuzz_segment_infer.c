/* fuzz_segment_infer.c - damaged inference events, through the reader and the model: no figure is
 * negative or out of range, and everything stays within its bounds. */
#include "infer/tracker.h"
#include "base/utf8.h"
#include "fuzz/fuzz_segment.h"
#include "segment/llama.h"

enum { RECORDS = 80, LANE = 2 };

static void put(struct build *b, uint64_t type, const uint64_t w[7])
{
    struct sonde__ring *ring = build_ring(b, LANE);
    const uint64_t index = ring->reserve++;
    uint64_t words[8] = { (index + 1) << 8 | type };
    memcpy(&words[1], w, 7 * sizeof(uint64_t));
    memcpy(&ring->rec[index % SONDE__RING_RECS], words, sizeof(words));
}

#define PUT(type, ...) put(b, SONDE__REC_##type, (const uint64_t[7]){ __VA_ARGS__ })

/* Calls of llama.cpp: a model, a context, and two requests in one batch. */
static void call(struct build *b, uint32_t fn, uint64_t begin, uint64_t object, uint64_t result,
                 uint64_t a, uint64_t c, uint64_t parts)
{
    PUT(LLAMA_CALL, begin, begin + 5, object, result, a, c, 99ull << 32 | fn << 24 | parts);
}

static void batch(struct build *b, uint64_t begin, uint64_t pos, uint64_t tokens)
{
    const uint64_t key = sonde__phase_id(begin, 0xc, 99, SONDE__LLAMA_DECODE);
    PUT(LLAMA_PART, key, pos, tokens << 20 | 1, 7, 1ull << 32 | pos,
        tokens << 40 | tokens << 20 | 1, 7);
    PUT(LLAMA_PART, key, 1ull << 63 | 2ull << 32 | pos, tokens << 20 | 1, 7);
    call(b, SONDE__LLAMA_DECODE, begin, 0xc, 0, 2 * tokens, 0, 3);
}

static void build_llama(struct build *b)
{
    const uint64_t load = sonde__phase_id(600, 0, 99, SONDE__LLAMA_MODEL_LOAD);
    const uint64_t kv = sonde__phase_id(612, 0x7, 99, SONDE__LLAMA_ALLOC_CTX);
    call(b, SONDE__LLAMA_SET_USAGE, 600, 0xb, 0, 1, 4096, 0);
    PUT(LLAMA_TEXT, load, 5, 0x6c6c616d73);
    call(b, SONDE__LLAMA_MODEL_LOAD, 600, 0, 0xa, 0, 0, 0);
    PUT(LLAMA_TEXT, kv, 10, 0x6b5f6568636163, 0x306c5f);
    call(b, SONDE__LLAMA_ALLOC_CTX, 612, 0x7, 0xd, 0, 512, 0);
    call(b, SONDE__LLAMA_CONTEXT_NEW, 610, 0xa, 0xc, 0, 0, 0);
    call(b, SONDE__LLAMA_GET_MEMORY, 620, 0xc, 0xe, 0, 0, 0);
    call(b, SONDE__LLAMA_TOKENIZE, 622, 0xf, 9, 9ull << 32 | 64, 7, 0);
    call(b, SONDE__LLAMA_SEQ_RM, 625, 0xe, 1, 0, UINT32_MAX, 0);
    batch(b, 630, 0, 9);
    for (uint64_t i = 0; i < 3; i++) {
        const uint64_t at = 640 + 20 * i;
        call(b, SONDE__LLAMA_LOGITS_ITH, at, 0xc, 1, UINT64_MAX, 0, 0);
        call(b, SONDE__LLAMA_APPLY, at + 1, 0xf, 0, 0, 0, 0);
        call(b, SONDE__LLAMA_SAMPLE, at + 2, 0xf, 3, 0xc, 0, 0);
        call(b, SONDE__LLAMA_IS_EOG, at + 3, 0xf, i == 2, 3, 0, 0);
        batch(b, at + 8, 9 + i, 1);
    }
    call(b, SONDE__LLAMA_PERF, 700, 0xc, 18ull << 32 | 3, 5, 15, 0);
    call(b, SONDE__LLAMA_CONTEXT_FREE, 710, 0xc, 0, 0, 0, 0);
}

static void fuzz_build(struct build *b)
{
    const uint64_t who = 99ull << 32;
    const uint32_t model = build_family(b, SONDE__TYPE_NAME, "llama", 0, NULL, NULL);
    const uint32_t route = build_family(b, SONDE__TYPE_NAME, "/v1", 0, NULL, NULL);
    PUT(MODEL_LOAD, 10, 90, 4096, 0, 0, 0, who | model);
    PUT(MODEL_MEMORY, 95, 1000, 2, 0x766b, 0, 0, who | model);
    PUT(MODEL_BACKEND, 96, 0, 3, 0x757063, 0, 0, who | model);
    for (uint64_t id = 1; id <= 3; id++) {
        const uint64_t at = 100 * id, batch = sonde__phase_id(at + 30, 0, 99, SONDE__PHASE_BATCH);
        PUT(REQUEST_ID, id, 3, 0x636261);
        PUT(REQUEST, at, 50ull << 32 | route, 1, id, id, 0, who | model);
        PUT(REQUEST_ATTR, id, 8ull << 32 | SONDE__ATTR_INT << 24 | route, at, 7);
        PUT(PROMPT, id, at + 5, 10, 4, 0, 0, who);
        PUT(PHASE, at + 10, at + 20, 1, id, 6, id, who | 1 << 24 | SONDE_PHASE_PREFILL);
        PUT(BATCH_PART, batch, id, 1, 0, 0, 0, 0);
        PUT(BATCH, at + 30, at + 50, 1, id, 1, 0, who | 1);
        PUT(TOKENS, id, at + 55, 1, 0, 0, 0, who);
        PUT(TOKENS, id, at + 65, 2, 0, 0, 0, who);
        PUT(REQUEST_ERROR, id, 3, 0x6d6f6f);
        PUT(REQUEST_END, at, at + 80, 1, id, id, 0, who | (id % 2) << 24);
    }
    PUT(MODEL_KV, 500, 3, 9, 0, 0, 0, who | model);
    PUT(MODEL_WAITING, 510, 2, 0, 0, 0, 0, who | model);
    build_llama(b);
}

static void check_request(const struct sonde_infer_request *r)
{
    CHECK(r->outcome < SONDE_INFER_OUTCOMES);
    CHECK(r->total_s >= 0 && r->ttft_s >= 0 && r->itl_s >= 0 && r->itl_min_s >= 0);
    CHECK(r->tokens_reused <= r->tokens_in && r->hit_ratio >= 0 && r->hit_ratio <= 1);
    CHECK((r->invalid[0] != 0) == (sonde_infer_validate(r, NULL, NULL) != 0));
    CHECK(sonde__utf8_valid(r->own_id, strlen(r->own_id)));
    CHECK(r->item_count <= SONDE_INFER_ITEMS_MAX && r->attr_count <= SONDE_INFER_ATTRS_MAX);
    for (size_t k = 0; k < SONDE_PHASE_COUNT; k++) CHECK(r->phase_s[k] >= 0);
    for (uint32_t i = 0; i < r->item_count; i++) {
        CHECK(r->items[i].start_ns <= r->items[i].end_ns);
    }
}

static void check(const struct sonde_infer_tracker *tracker, double now_s)
{
    struct sonde_infer_request running[64];
    struct sonde_infer_totals t;
    for (size_t i = 0; i < sonde_infer_done_count(tracker); i++) {
        check_request(sonde_infer_done(tracker, i));
    }
    const size_t n = sonde_infer_running(tracker, now_s, running, 64);
    CHECK(n <= 16);
    for (size_t i = 0; i < n; i++) CHECK(running[i].total_s >= 0);
    sonde_infer_totals(tracker, now_s, &t);
    CHECK(!(t.hit_ratio < 0) && !(t.hit_ratio > 1));
    CHECK(t.tokens_reused <= t.tokens_in);
}

static int fuzz_read(struct sonde_segment *s, const struct edits *late, struct sonde_err *err)
{
    const struct sonde_infer_options o = { .done_max = 8, .running_max = 16, .timeout_s = 1,
                                           .slo_ttft_s = 1, .aliases = 1 };
    const struct sonde_model_limits limits = { .series_max = 200, .spans_max = 64 };
    struct sonde_tick_clock clock = { .now_tsc = 1u << 20, .now_mono_ns = 1u << 20,
                                      .unix_ns = 1u << 30, .tsc_ns = 0.5 };
    struct sonde_model *m;
    struct sonde_infer_tracker *tracker;
    CHECK(sonde_model_create(&limits, &m) == 0 && sonde_infer_create(m, &o, &tracker) == 0);
    struct sonde_model_process *p = sonde_model_process(m, 4242, 777, "prog");
    const struct sonde_infer_sink sink = sonde_infer_sink(tracker);
    int rc = 0;
    sonde_segment_deliver_to(s, &sink);
    for (int pass = 0; rc == 0 && pass < PASSES; pass++) {
        rc = sonde_segment_drain(s, m, p, &clock, pass == PASSES - 1, err);
        sonde_infer_drained(tracker, (1ull << 30) + 1000000000ull);
        sonde_infer_tick(tracker, 2 + 3 * pass);
        sonde_model_tick(m, 2 + 3 * pass);
        check(tracker, 2 + 3 * pass);
        if (pass == 0) fuzz_late(late);
    }
    sonde_infer_flush(tracker);
    check(tracker, 10);
    sonde_segment_deliver_to(s, NULL);
    sonde_infer_destroy(tracker);
    sonde_model_destroy(m);
    return rc;
}

#ifdef SONDE_FUZZ_MAIN

static uint32_t fuzz_offset(void)
{
    const uint64_t ring = ((const struct sonde__lane *)(const void *)(
        seed.base + sonde__lane_at(seed.h, LANE)))->ring;
    return (uint32_t)(ring + draw() % (64 + 64 * RECORDS));
}

#endif
