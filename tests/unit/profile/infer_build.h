/* infer_build.h - a run with inference requests whose figures are known: for tests of what stores
 * and shows them. */
#ifndef SONDE_TESTS_INFER_BUILD_H
#define SONDE_TESTS_INFER_BUILD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/infer.h"
#include "profile/profile.h"

#define INFER_T0 1700000000000000000ull
#define INFER_MS 1000000ull

/* Request n (from 0): arrives at n * 10 ms, waits n ms, prefill of 20 ms, then a token every 5 ms,
 * n + 1 of them; the last one 5 ms before its end. */
static inline struct sonde_infer_request infer_build_request(uint32_t n)
{
    struct sonde_infer_request r = {
        .id = 0x1000 + n, .trace_hi = 1, .trace_lo = 0x100 + n, .pid = 42, .source = 0,
        .program = "engine", .model = n % 2 ? "big" : "tiny", .route = "/v1/chat", .backend = "cpu",
        .error = "", .invalid = "", .arrived_ns = INFER_T0 + n * 10 * INFER_MS,
        .tokens_max = 64, .tokens_in = 100, .tokens_reused = 25, .tokens_out = n + 1,
        .hit_ratio = 0.25, .memory_bytes = 3 << 20, .batches = n + 1,
    };
    snprintf(r.own_id, sizeof(r.own_id), "job-%u", n);
    r.ttft_s = 0.020 + n * 0.001;
    r.total_s = r.ttft_s + n * 0.005 + 0.005;
    r.phase_s[SONDE_PHASE_QUEUE] = n * 0.001;
    r.phase_count[SONDE_PHASE_QUEUE] = 1;
    r.phase_s[SONDE_PHASE_PREFILL] = 0.020;
    r.phase_count[SONDE_PHASE_PREFILL] = 1;
    r.phase_s[SONDE_PHASE_DECODE] = n * 0.005;
    r.phase_count[SONDE_PHASE_DECODE] = n;
    r.itl_count = n;
    if (n) r.itl_s = r.itl_min_s = r.itl_p50_s = r.itl_p95_s = r.itl_p99_s = r.itl_max_s = 0.005;
    r.tokens_per_s = (double)r.tokens_out / r.total_s;
    r.efficiency = r.tokens_per_s * 1e-3;
    r.flags = SONDE_INFER_QUEUE_DERIVED | SONDE_INFER_SLO_MET;
    return r;
}

/* Its timeline, into room for 2 * (n + 1) + 1. */
static inline uint32_t infer_build_items(const struct sonde_infer_request *r, uint32_t n,
                                         struct sonde_infer_item *out)
{
    uint64_t at = r->arrived_ns + n * INFER_MS;
    uint32_t count = 0;
    out[count++] = (struct sonde_infer_item){
        .start_ns = at, .end_ns = at + 20 * INFER_MS, .busy_ns = 20 * INFER_MS, .tokens = 75,
        .name = "prefill", .kind = SONDE_PHASE_PREFILL, .count = 1, .batch = 2 };
    at += 20 * INFER_MS;
    for (uint32_t i = 0; i <= n; i++) {
        out[count++] = (struct sonde_infer_item){ .start_ns = at, .end_ns = at, .tokens = 1,
                                                  .name = "tokens", .count = 1 };
        if (i == n) break;
        out[count++] = (struct sonde_infer_item){
            .start_ns = at, .end_ns = at + 5 * INFER_MS, .busy_ns = 2 * INFER_MS, .tokens = 1,
            .name = "decode", .kind = SONDE_PHASE_DECODE, .count = 1, .batch = 2 };
        at += 5 * INFER_MS;
    }
    return count;
}

/* count requests (at most 100); every fourth has no timeline; the second was cancelled, the third
 * failed. One model with memory. */
static inline void infer_build(struct sonde_profile *p, uint32_t count)
{
    struct sonde_infer_item items[256];
    struct sonde_infer_attr attrs[2] = { { "temperature", "0.7" }, { "user", "a \"b\"" } };
    for (uint32_t n = 0; n < count; n++) {
        struct sonde_infer_request r = infer_build_request(n);
        if (n == 1) r.outcome = SONDE_CANCELLED;
        if (n == 2) {
            r.outcome = SONDE_ERROR;
            r.error = "context_full";
            r.flags = SONDE_INFER_SLO_MISSED;
        }
        r.attrs = attrs;
        r.attr_count = n ? 2 : 0;
        if (n % 4 != 3) {
            r.items = items;
            r.item_count = infer_build_items(&r, n, items);
        }
        if (sonde_infer_run_add(p, &r)) abort();
    }
    struct sonde_infer_model m = {
        .pid = 42, .program = "engine", .model = "tiny", .backend = "cpu", .load_s = 0.5,
        .load_bytes = 1 << 20, .memory_peak = 4 << 20, .kv_used = 100, .kv_total = 1000,
        .kv_peak = 300, .batches = 10, .batch_requests = 20, .batch_tokens = 200, .memory_count = 2,
        .memory = { { "weights", 2 << 20, 2 << 20 }, { "kv", 1 << 20, 2 << 20 } },
    };
    m.phase_s[SONDE_PHASE_PREFILL] = 0.5;
    m.phase_tokens[SONDE_PHASE_PREFILL] = 1000;
    m.phase_s[SONDE_PHASE_DECODE] = 2;
    m.phase_tokens[SONDE_PHASE_DECODE] = 400;
    if (sonde_infer_run_model(p, &m)) abort();
    if (sonde_infer_run_invalid(p, "duplicate", 3)) abort();
    p->infer->slo_ttft_s = 0.1;
    p->infer->slo_total_s = 1;
    p->infer->dropped = 2;
}

#endif
