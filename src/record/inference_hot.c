/* inference_hot.c - inference events: each is one record of the thread's span ring, laid out as
 * "Span rings" in segment.h says. May run in any thread and in signal handlers. */
#include "sonde/inference.h"

#include <string.h>

#include "record/state.h"

#include "base/hot_banned.h"

/* 1 if records are kept now. A lane of one's own gets its ring. */
static inline int record_infer_ready(void)
{
    const uint32_t state = SONDE__GATE();
    if (state == SONDE__GATE_OFF) return 0;
    if (SONDE__LIKELY(state == SONDE__GATE_ON && sonde__tls.ring)) return 1;
    return sonde__span_begin_slow();
}

static inline void record_infer_put(uint64_t type, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                                    uint64_t e, uint64_t f, uint64_t g)
{
    struct sonde__ring *ring = sonde__tls.ring;
    if (SONDE__UNLIKELY(!ring)) { /* a shared lane */
        const struct sonde__span_rec r = { 0, a, b, c, d, e, f, g };
        sonde__ring_put(&r, type);
        return;
    }
    const uint64_t index = sonde__own_ring_reserve(ring);
    struct sonde__span_rec *r = &ring->rec[index % SONDE__RING_RECS];
    __atomic_store_n(&r->start, a, __ATOMIC_RELAXED);
    __atomic_store_n(&r->end, b, __ATOMIC_RELAXED);
    __atomic_store_n(&r->trace_hi, c, __ATOMIC_RELAXED);
    __atomic_store_n(&r->trace_lo, d, __ATOMIC_RELAXED);
    __atomic_store_n(&r->id, e, __ATOMIC_RELAXED);
    __atomic_store_n(&r->parent, f, __ATOMIC_RELAXED);
    __atomic_store_n(&r->name_tid, g, __ATOMIC_RELAXED);
    __atomic_store_n(&r->seq_type, (index + 1) << 8 | type, __ATOMIC_RELEASE);
}

static inline uint64_t record_infer_who(uint32_t flags, uint32_t name)
{
    return (uint64_t)sonde__tls.tid << 32 | (uint64_t)flags << 24 | (name & 0xffffffu);
}

/* The time of an event: what the caller says (0 = now), but not in the future, and not before what
 * it is part of began. Two CPUs' counters may be a few ticks apart: that is not an error. */
static inline uint64_t record_infer_instant(uint64_t at, uint64_t from)
{
    const uint64_t now = sonde_ticks();
    if (!at || at > now) at = now;
    return at > from ? at : from;
}

/* As many whole words as the record has, of a text that may be shorter. */
static size_t record_infer_take_text(uint64_t *words, size_t max, const char *text)
{
    const size_t len = strnlen(text, max);
    memset(words, 0, max);
    memcpy(words, text, len);
    return len;
}

static uint32_t record_infer_outcome_of(enum sonde_outcome outcome)
{
    return (unsigned)outcome <= SONDE_TIMEOUT ? (uint32_t)outcome : SONDE_ERROR;
}

/* ---- Requests ------------------------------------------------------------------------------ */

static void record_infer_put_text(uint64_t type, uint64_t id, const char *text)
{
    uint64_t w[SONDE_REQUEST_TEXT_MAX / 8];
    if (!text || !*text) return;
    const size_t len = record_infer_take_text(w, sizeof(w), text);
    record_infer_put(type, id, len, w[0], w[1], w[2], w[3], w[4]);
}

void sonde_request_begin(struct sonde_request *r, const struct sonde_request_info *info)
{
    struct sonde_request_info i;
    struct sonde__tls *t = &sonde__tls;
    memset(r, 0, sizeof(*r));
    if (!record_infer_ready()) return;
    if (!info || sonde__take_options(&i, sizeof(i), info)) memset(&i, 0, sizeof(i));

    const uint64_t id = sonde__rand(t);
    r->begin = record_infer_instant(i.arrived, 0);
    r->trace = i.trace;
    if (!(i.trace.hi | i.trace.lo)) {
        r->trace = (struct sonde_trace){ t->trace_hi, t->trace_lo, t->span };
    }
    if (!(r->trace.hi | r->trace.lo)) {
        r->trace = (struct sonde_trace){ sonde__rand(t), sonde__rand(t), 0 };
    }
    r->parent = r->trace.span;
    r->trace.span = id;
    record_infer_put_text(SONDE__REC_REQUEST_ID, id, i.id);
    record_infer_put(SONDE__REC_REQUEST, r->begin,
                     (uint64_t)i.tokens_max << 32 | (uint64_t)(i.profile != 0) << 24 |
                         (i.route & 0xffffffu),
                     r->trace.hi, r->trace.lo, id, r->parent, record_infer_who(0, i.model));
    r->id = id;
}

static void record_infer_put_attr(const struct sonde_request *r, uint32_t key, uint32_t type,
                                  const void *value, size_t len)
{
    uint64_t w[SONDE_REQUEST_ATTR_MAX / 8] = { 0 };
    if (!r->id || !record_infer_ready()) return;
    memcpy(w, value, len);
    record_infer_put(SONDE__REC_REQUEST_ATTR, r->id,
                     (uint64_t)len << 32 | (uint64_t)type << 24 | (key & 0xffffffu), sonde_ticks(),
                     w[0], w[1], w[2], w[3]);
}

void sonde_request_attr_int(const struct sonde_request *r, uint32_t key, int64_t value)
{
    record_infer_put_attr(r, key, SONDE__ATTR_INT, &value, sizeof(value));
}

void sonde_request_attr_double(const struct sonde_request *r, uint32_t key, double value)
{
    record_infer_put_attr(r, key, SONDE__ATTR_DOUBLE, &value, sizeof(value));
}

void sonde_request_attr_str(const struct sonde_request *r, uint32_t key, const char *value)
{
    if (value) {
        record_infer_put_attr(r, key, SONDE__ATTR_STR, value,
                              strnlen(value, SONDE_REQUEST_ATTR_MAX));
    }
}

void sonde_request_prompt(const struct sonde_request *r, uint64_t tokens, uint64_t reused)
{
    if (!r->id || !record_infer_ready()) return;
    record_infer_put(SONDE__REC_PROMPT, r->id, sonde_ticks(), tokens, reused, 0, 0,
                     record_infer_who(0, 0));
}

void sonde_request_tokens_at(const struct sonde_request *r, uint64_t n, uint64_t at)
{
    if (!r->id || !n || !record_infer_ready()) return;
    record_infer_put(SONDE__REC_TOKENS, r->id, record_infer_instant(at, r->begin), n, 0, 0, 0,
                     record_infer_who(0, 0));
}

void sonde_request_tokens(const struct sonde_request *r, uint64_t n)
{
    sonde_request_tokens_at(r, n, 0);
}

void sonde_request_end_at(const struct sonde_request *r, enum sonde_outcome outcome,
                          const char *error_type, uint64_t at)
{
    if (!r->id || !record_infer_ready()) return;
    const uint64_t end = record_infer_instant(at, r->begin);
    record_infer_put_text(SONDE__REC_REQUEST_ERROR, r->id, error_type);
    record_infer_put(SONDE__REC_REQUEST_END, r->begin, end, r->trace.hi, r->trace.lo, r->id,
                     r->parent, record_infer_who(record_infer_outcome_of(outcome), 0));
}

void sonde_request_end(const struct sonde_request *r, enum sonde_outcome outcome,
                       const char *error_type)
{
    sonde_request_end_at(r, outcome, error_type, 0);
}

/* Ticks that so many nanoseconds are; exact to one for three months. */
static uint64_t record_infer_ticks_of(uint64_t ns)
{
    const uint64_t q32 = __atomic_load_n(&sonde__gate.tick_ns_q32, __ATOMIC_RELAXED);
    const double ticks = q32 ? (double)ns * 4294967296.0 / (double)q32 : 0;
    return ticks < 9e18 ? (uint64_t)ticks : UINT64_MAX;
}

void sonde_inference_record(uint32_t model, uint64_t tokens, uint64_t ns)
{
    struct sonde_request r;
    if (!record_infer_ready()) return;
    const uint64_t end = sonde_ticks(), ticks = record_infer_ticks_of(ns);
    const struct sonde_request_info info = { .size = sizeof(info), .model = model,
                                             .arrived = ticks < end ? end - ticks : 1 };
    sonde_request_begin(&r, &info);
    sonde_request_tokens_at(&r, tokens, end);
    sonde_request_end_at(&r, SONDE_OK, NULL, end);
}

/* ---- Phases -------------------------------------------------------------------------------- */

static uint32_t record_infer_kind_of(uint32_t kind)
{
    return kind < SONDE__PHASE_BATCH ? kind : SONDE_PHASE_NAMED;
}

/* The thread is in a span of this trace, below this parent. The clock is read last. from: as of
 * record_infer_instant(). */
static void record_infer_enter(struct sonde_phase *p, struct sonde_trace in, uint32_t kind,
                               uint64_t at, uint64_t from)
{
    struct sonde__tls *t = &sonde__tls;
    struct sonde_span *s = &p->span;
    p->before = (struct sonde_trace){ t->trace_hi, t->trace_lo, t->span };
    p->kind = kind;
    if (!(in.hi | in.lo)) {
        in.hi = sonde__rand(t);
        in.lo = sonde__rand(t);
    }
    t->trace_hi = s->trace_hi = in.hi;
    t->trace_lo = s->trace_lo = in.lo;
    s->parent = in.span;
    s->name = 0;
    s->flags = SONDE__SPAN_LIVE;
    s->start = record_infer_instant(at, from);
    s->id = t->span = sonde__phase_id(s->start, s->parent, t->tid, kind);
}

/* 1 if it is to be recorded. */
static int record_infer_leave(struct sonde_phase *p)
{
    struct sonde__tls *t = &sonde__tls;
    if (!p->span.flags) return 0;
    p->span.flags = 0;
    t->trace_hi = p->before.hi;
    t->trace_lo = p->before.lo;
    t->span = p->before.span;
    return record_infer_ready();
}

void sonde_phase_begin_at(struct sonde_phase *p, const struct sonde_request *r, uint32_t kind,
                          uint64_t at)
{
    const struct sonde__tls *t = &sonde__tls;
    p->span.flags = 0;
    if ((r && !r->id) || !record_infer_ready()) return;
    p->flags = r ? SONDE__PHASE_REQUEST : 0;
    record_infer_enter(p, r ? r->trace : (struct sonde_trace){ t->trace_hi, t->trace_lo, t->span },
                       record_infer_kind_of(kind), at, r ? r->begin : 0);
}

void sonde_phase_begin(struct sonde_phase *p, const struct sonde_request *r, uint32_t kind)
{
    sonde_phase_begin_at(p, r, kind, 0);
}

void sonde_phase_end_at(struct sonde_phase *p, uint64_t tokens, uint64_t at)
{
    const struct sonde_span *s = &p->span;
    const uint64_t end = s->flags ? record_infer_instant(at, s->start) : 0;
    if (!record_infer_leave(p)) return;
    record_infer_put(SONDE__REC_PHASE, s->start, end, s->trace_hi, s->trace_lo, tokens, s->parent,
                     record_infer_who(p->flags, p->kind));
}

void sonde_phase_end(struct sonde_phase *p, uint64_t tokens) { sonde_phase_end_at(p, tokens, 0); }

void sonde_phase_record(const struct sonde_request *r, uint32_t kind, uint64_t begin,
                        uint64_t end, uint64_t tokens)
{
    if ((r && !r->id) || !record_infer_ready()) return;
    const struct sonde_trace none = { 0, 0, 0 }, *in = r ? &r->trace : &none;
    record_infer_put(SONDE__REC_PHASE, begin, end, in->hi, in->lo, tokens, in->span,
                     record_infer_who(SONDE__PHASE_ELSEWHERE | (r ? SONDE__PHASE_REQUEST : 0),
                                      record_infer_kind_of(kind)));
}

/* ---- Batches ------------------------------------------------------------------------------- */

void sonde_batch_begin_at(struct sonde_batch *b, uint64_t at)
{
    const struct sonde__tls *t = &sonde__tls;
    memset(b, 0, sizeof(*b));
    if (!record_infer_ready()) return;
    record_infer_enter(&b->phase, (struct sonde_trace){ t->trace_hi, t->trace_lo, t->span },
                       SONDE__PHASE_BATCH, at, 0);
}

void sonde_batch_begin(struct sonde_batch *b) { sonde_batch_begin_at(b, 0); }

static uint64_t record_infer_both(uint64_t prompt_tokens, uint64_t output_tokens)
{
    const uint64_t p = prompt_tokens < UINT32_MAX ? prompt_tokens : UINT32_MAX;
    return p << 32 | (output_tokens < UINT32_MAX ? output_tokens : UINT32_MAX);
}

static void record_infer_put_parts(struct sonde_batch *b)
{
    const uint64_t *w = b->part;
    if (!b->parts) return;
    if (record_infer_ready()) {
        record_infer_put(SONDE__REC_BATCH_PART, b->phase.span.id, w[0], w[1], w[2], w[3], w[4],
                         w[5]);
    }
    memset(b->part, 0, sizeof(b->part));
    b->parts = 0;
}

void sonde_batch_add(struct sonde_batch *b, const struct sonde_request *r, uint64_t prompt_tokens,
                     uint64_t output_tokens)
{
    if (!b->phase.span.flags) return;
    b->prompt_tokens += prompt_tokens;
    b->output_tokens += output_tokens;
    if (!b->requests++ && r) b->first = r->trace;
    if (!r || !r->id) return;
    b->part[2 * b->parts] = r->id;
    b->part[2 * b->parts + 1] = record_infer_both(prompt_tokens, output_tokens);
    if (++b->parts == SONDE__BATCH_PARTS) record_infer_put_parts(b);
}

/* A batch for one request belongs to that one's trace. Its parent is what its id was made of: whose
 * batch it is the agent knows from its part. */
void sonde_batch_end_at(struct sonde_batch *b, uint64_t at)
{
    const struct sonde_span *s = &b->phase.span;
    const int live = s->flags != 0;
    const uint64_t end = live ? record_infer_instant(at, s->start) : 0;
    if (live) record_infer_put_parts(b);
    if (!record_infer_leave(&b->phase)) return;
    const int one = b->requests == 1 && (b->first.hi | b->first.lo);
    record_infer_put(SONDE__REC_BATCH, s->start, end, one ? b->first.hi : s->trace_hi,
                     one ? b->first.lo : s->trace_lo,
                     record_infer_both(b->prompt_tokens, b->output_tokens), s->parent,
                     record_infer_who(0, b->requests < 0xffffffu ? b->requests : 0xffffffu));
}

void sonde_batch_end(struct sonde_batch *b) { sonde_batch_end_at(b, 0); }

/* ---- Models -------------------------------------------------------------------------------- */

void sonde_model_load_begin(struct sonde_model_load *l, uint32_t model)
{
    l->begin = record_infer_ready() ? sonde_ticks() : 0;
    l->model = model;
    l->pad = 0;
}

void sonde_model_load_end(struct sonde_model_load *l, uint64_t bytes, enum sonde_outcome outcome)
{
    if (!l->begin || !record_infer_ready()) return;
    record_infer_put(SONDE__REC_MODEL_LOAD, l->begin, sonde_ticks(), bytes,
                     record_infer_outcome_of(outcome), 0, 0, record_infer_who(0, l->model));
    l->begin = 0;
}

static void put_model_text(uint64_t type, uint32_t model, uint64_t value, const char *text)
{
    uint64_t w[SONDE_MODEL_TEXT_MAX / 8];
    if (!text || !record_infer_ready()) return;
    const size_t len = record_infer_take_text(w, sizeof(w), text);
    record_infer_put(type, sonde_ticks(), value, len, w[0], w[1], w[2], record_infer_who(0, model));
}

void sonde_model_backend(uint32_t model, const char *backend)
{
    put_model_text(SONDE__REC_MODEL_BACKEND, model, 0, backend);
}

void sonde_model_memory(uint32_t model, const char *kind, uint64_t bytes)
{
    put_model_text(SONDE__REC_MODEL_MEMORY, model, bytes, kind);
}

void sonde_model_kv(uint32_t model, uint64_t used, uint64_t total)
{
    if (!record_infer_ready()) return;
    record_infer_put(SONDE__REC_MODEL_KV, sonde_ticks(), used, total, 0, 0, 0,
                     record_infer_who(0, model));
}

void sonde_model_waiting(uint32_t model, uint64_t requests)
{
    if (!record_infer_ready()) return;
    record_infer_put(SONDE__REC_MODEL_WAITING, sonde_ticks(), requests, 0, 0, 0, 0,
                     record_infer_who(0, model));
}
