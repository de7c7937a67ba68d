/* infer_play.h - events of made-up engines, with times whose sums are known. */
#ifndef SONDE_TEST_INFER_INFER_PLAY_H
#define SONDE_TEST_INFER_INFER_PLAY_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "infer/tracker.h"

#define T0 1700000000ull            /* seconds; times of events are ms after it */
#define MS(ms) (T0 * 1000000000ull + (uint64_t)((ms) * 1e6))

struct play {
    struct sonde_model *m;
    struct sonde_model_process *p;
    struct sonde_infer_tracker *tracker;
};

static inline void play_init(struct play *g, const struct sonde_infer_options *o)
{
    static const struct sonde_infer_options none;
    if (sonde_model_create(NULL, &g->m) != 0 ||
        sonde_infer_create(g->m, o ? o : &none, &g->tracker) != 0) {
        abort();
    }
    g->p = sonde_model_process(g->m, 42, 7, "engine");
    g->m->now_s = (double)T0;
    sonde_infer_tick(g->tracker, (double)T0);
    sonde_infer_reset(g->tracker, (double)T0);
}

static inline void play_release(struct play *g)
{
    sonde_infer_destroy(g->tracker);
    sonde_model_destroy(g->m);
}

static inline void play_event(struct play *g, const struct sonde_infer_event *e)
{
    struct sonde_infer_event full = *e;
    full.pid = 42;
    if (!full.tid) full.tid = 43;
    if (!full.model) full.model = "";
    if (!full.begin_ns) full.begin_ns = full.time_ns;
    sonde_infer_event(g->tracker, g->p, &full);
}

/* Everything that happened before ms is worked out, and a tick closes there. */
static inline void play_until(struct play *g, double ms)
{
    sonde_infer_drained(g->tracker, MS(ms) + 1000000000ull);
    sonde_infer_tick(g->tracker, (double)T0 + ms * 1e-3);
    sonde_model_tick(g->m, (double)T0 + ms * 1e-3);
}

static inline void play_request(struct play *g, uint64_t id, double ms)
{
    play_event(g, &(struct sonde_infer_event){
        .type = SONDE_INFER_REQUEST, .id = id, .time_ns = MS(ms), .model = "tiny",
        .request = { .route = "/v1/chat/completions", .trace_hi = 1, .trace_lo = id } });
}

static inline void play_end(struct play *g, uint64_t id, double ms, uint32_t outcome,
                            const char *error)
{
    struct sonde_infer_event e = { .type = SONDE_INFER_END, .id = id, .time_ns = MS(ms),
                                   .end.outcome = outcome };
    strncpy(e.end.error, error, sizeof(e.end.error) - 1);
    play_event(g, &e);
}

static inline void play_tokens(struct play *g, uint64_t id, double ms, uint64_t n)
{
    play_event(g, &(struct sonde_infer_event){ .type = SONDE_INFER_TOKENS, .id = id,
                                               .time_ns = MS(ms), .tokens.count = n });
}

static inline void play_prompt(struct play *g, uint64_t id, double ms, uint64_t tokens,
                               uint64_t reused)
{
    play_event(g, &(struct sonde_infer_event){ .type = SONDE_INFER_PROMPT, .id = id,
                                               .time_ns = MS(ms),
                                               .prompt = { tokens, reused } });
}

static inline void play_phase(struct play *g, uint64_t id, uint32_t kind, double from_ms,
                              double to_ms, uint64_t tokens)
{
    play_event(g, &(struct sonde_infer_event){
        .type = SONDE_INFER_PHASE, .id = id, .begin_ns = MS(from_ms), .time_ns = MS(to_ms),
        .phase = { .kind = kind, .tokens = tokens,
                   .name = kind < SONDE_PHASE_COUNT ? sonde_phase_name(kind) : "rerank" } });
}

struct play_part { uint64_t id, prompt, output; };

static inline void play_batch(struct play *g, double from_ms, double to_ms,
                              const struct play_part *parts, uint32_t count)
{
    uint64_t prompt = 0, output = 0;
    for (uint32_t i = 0; i < count; i++) {
        prompt += parts[i].prompt;
        output += parts[i].output;
    }
    for (uint32_t i = 0; i < count; i++) {
        play_event(g, &(struct sonde_infer_event){
            .type = SONDE_INFER_PART, .id = parts[i].id, .begin_ns = MS(from_ms),
            .time_ns = MS(to_ms),
            .part = { .prompt = parts[i].prompt, .output = parts[i].output, .all = prompt + output,
                      .requests = count } });
    }
    play_event(g, &(struct sonde_infer_event){
        .type = SONDE_INFER_BATCH, .begin_ns = MS(from_ms), .time_ns = MS(to_ms),
        .batch = { .prompt = prompt, .output = output, .requests = count } });
}

/* The series of a family whose labels hold this text; NULL if there is none. */
static inline struct sonde_model_series *play_series(const struct play *g, const char *family,
                                                     const char *labels)
{
    for (size_t i = 0; i < g->m->family_count; i++) {
        const struct sonde_model_family *f = g->m->families[i];
        if (strcmp(f->name, family) != 0) continue;
        for (size_t k = 0; k < f->series_count; k++) {
            if (strstr(f->series[k]->label_text, labels)) return f->series[k];
        }
    }
    return NULL;
}

/* The request that ended with this id, or NULL. */
static inline const struct sonde_infer_request *play_done(const struct play *g, uint64_t id)
{
    for (size_t i = 0; i < sonde_infer_done_count(g->tracker); i++) {
        const struct sonde_infer_request *r = sonde_infer_done(g->tracker, i);
        if (r->id == id) return r;
    }
    return NULL;
}

#define NEAR(a, b) assert_true(fabs((a) - (double)(b)) <= 1e-9 + fabs((double)(b)) * 1e-9)
#define WITHIN(a, b, share) assert_true(fabs((a) - (b)) <= (b) * (share))

static inline const struct sonde_infer_request *need(const struct play *g, uint64_t id)
{
    const struct sonde_infer_request *r = play_done(g, id);
    assert_non_null(r);
    assert_string_equal(r->invalid, "");
    assert_int_equal(sonde_infer_validate(r, NULL, NULL), 0);
    return r;
}

static inline uint64_t counter(const struct play *g, const char *family, const char *labels)
{
    const struct sonde_model_series *s = play_series(g, family, labels);
    return s ? s->counter : 0;
}

#endif
