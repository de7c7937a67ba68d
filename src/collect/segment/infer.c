/* infer.c - inference events out of the rings, as "Span rings" in segment.h lays them out.
 *
 * Here only the bytes are checked: lengths, names, kinds, text. Whether events make sense together
 * is asked where they come together, for all sources alike (infer/tracker.h).
 *
 * Texts stand before what they belong to, in the same ring, and wait here for it; so do the parts
 * of a batch, which become events of their own that say all that has to be known of the batch, and
 * go before it. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "collect/segment/private.h"

static void words_of(const struct sonde__span_rec *r, uint64_t w[8])
{
    memcpy(w, r, sizeof(*r));
}

static uint64_t unix_ns(const struct segment_drain *d, uint64_t ticks)
{
    return sonde_tick_unix_ns(d->clock, d->s->h.tsc != 0, ticks);
}

/* A stretch of ticks ends where its length says: two conversions may round apart. Ends before
 * begins are left as such, for who judges events. */
static void segment_infer_stretch(const struct segment_drain *d, uint64_t begin, uint64_t end,
                                  struct sonde_infer_event *e)
{
    const int tsc = d->s->h.tsc != 0;
    e->begin_ns = unix_ns(d, begin);
    if (end >= begin && e->begin_ns) {
        e->time_ns = e->begin_ns + sonde_tick_span_ns(d->clock, tsc, begin, end);
    } else {
        e->time_ns = unix_ns(d, end);
    }
}

static const char *segment_infer_name_of(struct segment_drain *d, uint64_t id)
{
    const struct segment_family *f = segment_name(d, (uint32_t)(id & 0xffffff));
    return f ? f->name : "";
}

static struct sonde_infer_event event_of(const struct segment_drain *d, uint16_t type, uint64_t who)
{
    return (struct sonde_infer_event){ .type = type, .source = SONDE_INFER_API, .pid = d->p->pid,
                                       .tid = (uint32_t)(who >> 32), .model = "" };
}

void sonde_segment_deliver_to(struct sonde_segment *s, const struct sonde_infer_sink *sink)
{
    s->sink = sink ? *sink : (struct sonde_infer_sink){ 0 };
}

void segment_infer_deliver(struct segment_drain *d, const struct sonde_infer_event *e)
{
    if (d->s->sink.event) d->s->sink.event(d->s->sink.arg, d->p, e);
}

static void segment_infer_copy_text(char to[SONDE_INFER_TEXT], const void *bytes, uint64_t len,
                                    size_t max)
{
    assert(max < SONDE_INFER_TEXT);
    int changed = 0;
    sonde__utf8_copy(to, max, bytes, len < max ? (size_t)len : max, &changed);
}

static uint32_t segment_infer_outcome_of(uint64_t v)
{
    return v <= SONDE_TIMEOUT ? (uint32_t)v : SONDE_ERROR;
}

/* ---- Requests ------------------------------------------------------------------------------ */

/* Texts wait among the attributes, under the key that no name has. */
static void segment_infer_text_keep(struct segment_drain *d, uint32_t type, const uint64_t w[8])
{
    const uint32_t len = w[2] < SONDE__ATTR_BYTES ? (uint32_t)w[2] : SONDE__ATTR_BYTES;
    segment_attr_keep(d->s, w[1], 0, type, len, &w[3]);
}

static void segment_infer_text_take(struct segment_drain *d, uint64_t id, uint32_t type,
                                    char to[SONDE_INFER_TEXT])
{
    struct sonde_segment *s = d->s;
    for (uint32_t i = 0; i < SEGMENT_PENDING_ATTRS && s->attrs_pending > 0; i++) {
        struct segment_attr *a = &s->attr[(s->attr_next - 1 - i) % SEGMENT_PENDING_ATTRS];
        if (a->span != id || a->key != 0 || a->type != type) continue;
        segment_infer_copy_text(to, a->bytes, a->len, SONDE_INFER_TEXT - 1);
        a->span = 0;
        s->attrs_pending--;
        return;
    }
}

static void segment_infer_on_request(struct segment_drain *d, const uint64_t w[8])
{
    struct sonde_infer_event e = event_of(d, SONDE_INFER_REQUEST, w[7]);
    e.begin_ns = e.time_ns = unix_ns(d, w[1]);
    e.id = w[5];
    e.model = segment_infer_name_of(d, w[7]);
    e.request.tokens_max = (uint32_t)(w[2] >> 32);
    e.request.profile = w[2] >> 24 & 1;
    e.request.route = segment_infer_name_of(d, w[2]);
    e.request.trace_hi = w[3];
    e.request.trace_lo = w[4];
    e.request.parent = w[6];
    segment_infer_text_take(d, e.id, SONDE__REC_REQUEST_ID, e.request.own_id);
    segment_infer_deliver(d, &e);
}

static void on_request_end(struct segment_drain *d, const uint64_t w[8])
{
    struct sonde_infer_event e = event_of(d, SONDE_INFER_END, w[7]);
    segment_infer_stretch(d, w[1], w[2], &e);
    e.id = w[5];
    e.end.outcome = segment_infer_outcome_of(w[7] >> 24 & 0xff);
    segment_infer_text_take(d, e.id, SONDE__REC_REQUEST_ERROR, e.end.error);
    segment_infer_deliver(d, &e);

    struct sonde_model_span span = {
        .name = "request", .start_ns = e.begin_ns,
        .duration_ns = sonde_tick_span_ns(d->clock, d->s->h.tsc != 0, w[1], w[2]),
        .trace_hi = w[3], .trace_lo = w[4], .id = e.id, .parent = w[6], .outcome = e.end.outcome,
    };
    segment_span_deliver(d, &span, &d->s->request_duration[e.end.outcome]);
}

static void on_request_attr(struct segment_drain *d, const uint64_t w[8])
{
    const uint32_t key = (uint32_t)(w[2] & 0xffffff), type = (uint32_t)(w[2] >> 24 & 0xff);
    const uint64_t len = w[2] >> 32;
    const uint32_t bytes = len < 32 ? (uint32_t)len : 32;
    struct sonde_infer_event e = event_of(d, SONDE_INFER_ATTR, 0);
    const char *name = segment_infer_name_of(d, key);
    e.id = w[1];
    e.begin_ns = e.time_ns = unix_ns(d, w[3]);
    if (!name[0] || !segment_attr_value(&e.attr, type, &w[4], bytes)) return;
    segment_attr_keep(d->s, e.id, key, type, bytes, &w[4]); /* its span has it too */
    e.attr.key = name;
    segment_infer_deliver(d, &e);
}

static void segment_infer_on_prompt(struct segment_drain *d, const uint64_t w[8])
{
    struct sonde_infer_event e = event_of(d, SONDE_INFER_PROMPT, w[7]);
    e.id = w[1];
    e.begin_ns = e.time_ns = unix_ns(d, w[2]);
    e.prompt.count = w[3];
    e.prompt.reused = w[4];
    segment_infer_deliver(d, &e);
}

static void segment_infer_on_tokens(struct segment_drain *d, const uint64_t w[8])
{
    struct sonde_infer_event e = event_of(d, SONDE_INFER_TOKENS, w[7]);
    e.id = w[1];
    e.begin_ns = e.time_ns = unix_ns(d, w[2]);
    e.tokens.count = w[3];
    segment_infer_deliver(d, &e);
}

/* ---- Phases and batches -------------------------------------------------------------------- */

static void segment_infer_on_phase(struct segment_drain *d, const uint64_t w[8])
{
    struct sonde_infer_event e = event_of(d, SONDE_INFER_PHASE, w[7]);
    const uint32_t kind = (uint32_t)(w[7] & 0xffffff), flags = (uint32_t)(w[7] >> 24 & 0xff);
    const uint32_t tid = e.tid;
    segment_infer_stretch(d, w[1], w[2], &e);
    e.phase.tokens = w[5];
    e.id = flags & SONDE__PHASE_REQUEST ? w[6] : 0;
    e.phase.kind = kind;
    e.phase.name = sonde_phase_name(kind);
    if (kind >= SONDE_PHASE_NAMED) {
        e.phase.kind = SONDE_PHASE_NAMED;
        e.phase.name = segment_infer_name_of(d, kind - SONDE_PHASE_NAMED);
    }
    if (!e.phase.name[0]) e.phase.name = "(unnamed)";
    if (flags & SONDE__PHASE_ELSEWHERE) e.tid = 0;
    segment_infer_deliver(d, &e);

    struct sonde_model_span span = {
        .name = e.phase.name, .tid = e.tid, .start_ns = e.begin_ns,
        .duration_ns = sonde_tick_span_ns(d->clock, d->s->h.tsc != 0, w[1], w[2]),
        .trace_hi = w[3], .trace_lo = w[4], .parent = w[6],
        .id = sonde__phase_id(w[1], w[6], tid, kind),
    };
    struct sonde_model_series *none = NULL;
    segment_span_deliver(d, &span, e.phase.kind < SONDE_PHASE_COUNT
                                       ? &d->s->phase_duration[e.phase.kind] : &none);
}

void segment_part_keep(struct sonde_segment *s, const struct segment_part *part)
{
    assert(s->parts_pending <= SEGMENT_PENDING_PARTS);
    if (!s->part) s->part = sonde__calloc(SEGMENT_PENDING_PARTS, sizeof(*s->part));
    if (!s->part || part->batch == 0 || part->request == 0) return;
    struct segment_part *p = &s->part[s->part_next++ % SEGMENT_PENDING_PARTS];
    if (p->batch == 0) s->parts_pending++;
    *p = *part;
}

static void on_parts(struct segment_drain *d, const uint64_t w[8])
{
    for (uint32_t i = 0; i < SONDE__BATCH_PARTS; i++) {
        segment_part_keep(d->s, &(struct segment_part){ w[1], w[2 + 2 * i], w[3 + 2 * i] });
    }
}

static void segment_infer_part_add(struct sonde_model_span *span, uint64_t request, uint64_t in,
                                   uint64_t out)
{
    if (!span->parts || !(in | out)) return;
    assert(span->part_count <= SEGMENT_PENDING_PARTS); /* there is room for one more */
    span->parts[span->part_count++] =
        (struct sonde_model_part){ request, (uint32_t)in, (uint32_t)out };
}

/* An event for each, and a part of the span. Numbers of tokens are of 32 bits. */
static void parts_deliver(struct segment_drain *d, const struct sonde_infer_event *whole,
                          struct sonde_model_span *span)
{
    assert(whole->type == SONDE_INFER_BATCH);
    struct sonde_segment *s = d->s;
    struct sonde_infer_event e = *whole;
    uint64_t in = whole->batch.prompt, out = whole->batch.output; /* of nobody yet */
    e.type = SONDE_INFER_PART;
    memset(&e.part, 0, sizeof(e.part));
    e.part.all = in + out;
    e.part.requests = whole->batch.requests;
    if (!s->told) s->told = sonde__calloc(SEGMENT_PENDING_PARTS + 1, sizeof(*s->told));
    span->parts = s->told;
    for (uint32_t i = 0; i < SEGMENT_PENDING_PARTS && s->parts_pending > 0; i++) {
        struct segment_part *p = &s->part[(s->part_next + i) % SEGMENT_PENDING_PARTS];
        if (p->batch != span->id) continue;
        e.id = p->request;
        const uint64_t prompt = e.part.prompt = p->tokens >> 32;
        const uint64_t output = e.part.output = p->tokens & UINT32_MAX;
        p->batch = 0;
        s->parts_pending--;
        segment_infer_part_add(span, e.id, prompt, output);
        in -= in < prompt ? in : prompt;
        out -= out < output ? out : output;
        segment_infer_deliver(d, &e);
    }
    segment_infer_part_add(span, 0, in, out);
}

static void on_batch(struct segment_drain *d, const uint64_t w[8])
{
    struct sonde_infer_event e = event_of(d, SONDE_INFER_BATCH, w[7]);
    segment_infer_stretch(d, w[1], w[2], &e);
    e.batch.prompt = w[5] >> 32;
    e.batch.output = w[5] & UINT32_MAX;
    e.batch.requests = (uint32_t)(w[7] & 0xffffff);
    const uint32_t kind =
        e.batch.prompt > e.batch.output ? SONDE_PHASE_PREFILL : SONDE_PHASE_DECODE;

    struct sonde_model_span span = {
        .name = sonde_phase_name(kind), .tid = e.tid, .start_ns = e.begin_ns,
        .duration_ns = sonde_tick_span_ns(d->clock, d->s->h.tsc != 0, w[1], w[2]),
        .trace_hi = w[3], .trace_lo = w[4], .parent = w[6],
        .id = sonde__phase_id(w[1], w[6], e.tid, SONDE__PHASE_BATCH),
    };
    parts_deliver(d, &e, &span);
    segment_infer_deliver(d, &e);
    if (e.batch.requests == 1 && span.part_count && span.parts[0].request) {
        span.parent = span.parts[0].request;
    }
    segment_span_deliver(d, &span, &d->s->phase_duration[kind]);
}

/* ---- Models -------------------------------------------------------------------------------- */

static void on_model(struct segment_drain *d, uint64_t type, const uint64_t w[8])
{
    struct sonde_infer_event e = event_of(d, SONDE_INFER_LOAD, w[7]);
    e.model = segment_infer_name_of(d, w[7]);
    e.begin_ns = e.time_ns = unix_ns(d, w[1]);
    switch (type) {
    case SONDE__REC_MODEL_LOAD:
        segment_infer_stretch(d, w[1], w[2], &e);
        e.load.bytes = w[3];
        e.load.outcome = segment_infer_outcome_of(w[4]);
        break;
    case SONDE__REC_MODEL_MEMORY:
        e.type = SONDE_INFER_MEMORY;
        e.memory.bytes = w[2];
        segment_infer_copy_text(e.memory.kind, &w[4], w[3], 24);
        break;
    case SONDE__REC_MODEL_BACKEND:
        e.type = SONDE_INFER_BACKEND;
        segment_infer_copy_text(e.backend.name, &w[4], w[3], 24);
        break;
    case SONDE__REC_MODEL_KV:
        e.type = SONDE_INFER_KV;
        e.kv.used = w[2];
        e.kv.total = w[3];
        break;
    default:
        assert(type == SONDE__REC_MODEL_WAITING);
        e.type = SONDE_INFER_WAITING;
        e.waiting.requests = w[2];
        break;
    }
    segment_infer_deliver(d, &e);
}

void segment_infer_record(struct segment_drain *d, const struct sonde__span_rec *r)
{
    const uint64_t type = r->seq_type & 0xff;
    uint64_t w[8];
    words_of(r, w);
    switch (type) {
    case SONDE__REC_REQUEST: segment_infer_on_request(d, w); break;
    case SONDE__REC_REQUEST_END: on_request_end(d, w); break;
    case SONDE__REC_REQUEST_ID:
    case SONDE__REC_REQUEST_ERROR: segment_infer_text_keep(d, (uint32_t)type, w); break;
    case SONDE__REC_REQUEST_ATTR: on_request_attr(d, w); break;
    case SONDE__REC_PROMPT: segment_infer_on_prompt(d, w); break;
    case SONDE__REC_TOKENS: segment_infer_on_tokens(d, w); break;
    case SONDE__REC_PHASE: segment_infer_on_phase(d, w); break;
    case SONDE__REC_BATCH: on_batch(d, w); break;
    case SONDE__REC_BATCH_PART: on_parts(d, w); break;
    case SONDE__REC_MODEL_LOAD:
    case SONDE__REC_MODEL_MEMORY:
    case SONDE__REC_MODEL_BACKEND:
    case SONDE__REC_MODEL_KV:
    case SONDE__REC_MODEL_WAITING: on_model(d, type, w); break;
    default: break; /* a newer library's */
    }
}
