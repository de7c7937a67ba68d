/* otlp_spans.c - finished spans, each once, as OTLP's Span messages, and what has come so far as
 * ExportTraceServiceRequest.
 *
 * The model keeps the newest spans only, so it tells of each as it comes, with its lock held: here
 * it is encoded at once, some hundred nanoseconds, and put down by process. Rejected: copying spans
 * to be encoded later, which takes more memory than their encoding and as much time.
 *
 * A span of an inference request says when it was and how it ended. What else is known (tokens,
 * model, time to first token) is worked out a moment later; so where that is told (requests), the
 * span is made then, and the plain one is left out. A request that came through the front has two
 * spans: the front's, which is also of requests that are no inference, and one below it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/pb.h"
#include "push/otlp.h"
#include "sonde/sonde.h"

enum { REQUEST_RESOURCE = 1, RESOURCE_RESOURCE = 1, RESOURCE_SCOPE = 2, SCOPE_SCOPE = 1,
       SCOPE_SPAN = 2 };
enum { SPAN_TRACE = 1, SPAN_ID = 2, SPAN_PARENT = 4, SPAN_NAME = 5, SPAN_KIND = 6, SPAN_START = 7,
       SPAN_END = 8, SPAN_ATTRIBUTE = 9, SPAN_EVENT = 11, SPAN_STATUS = 15 };
enum { EVENT_TIME = 1, EVENT_NAME = 2, STATUS_MESSAGE = 2, STATUS_CODE = 3, STATUS_ERROR = 2 };
enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };

#define BYTES_MAX ((size_t)32 << 20) /* that wait; more are dropped and counted */
#define BYTES_MANY ((size_t)1 << 20)

/* ---- Groups ---------------------------------------------------------------------------------- */

static uint64_t start_time_of(const struct push_spans *s, uint32_t pid)
{
    for (size_t i = s->model ? s->model->process_count : 0; i-- > 0;) {
        if (s->model->processes[i]->pid == pid) return s->model->processes[i]->start_time;
    }
    return 0;
}

/* Mostly that of the span before. Spans that others sent to the agent have a program, but no
 * pid. */
static struct push_span_group *push_otlp_spans_group_of(struct push_spans *s, uint32_t pid,
                                                        const char *program)
{
    sonde_assert_held(&s->lock);
    for (size_t i = s->group_count; i-- > 0;) {
        struct push_span_group *g = &s->groups[i];
        if (g->pid == pid && !strncmp(g->program, program, sizeof(g->program) - 1)) return g;
    }
    assert(s->group_count <= PUSH_GROUPS_MAX);
    if (s->group_count == PUSH_GROUPS_MAX) return NULL;
    if (SONDE_ARRAY_ROOM(s->groups, s->group_count, s->group_cap)) return NULL;
    struct push_span_group *const g = &s->groups[s->group_count];
    *g = (struct push_span_group){ .pid = pid, .start_time = pid ? start_time_of(s, pid) : 0 };
    snprintf(g->program, sizeof(g->program), "%s", program);
    sonde_buf_init(&g->resource, PUSH_BODY_MAX);
    sonde_buf_init(&g->spans, BYTES_MAX);
    push_otlp_resource(&g->resource, &s->scratch, s->origin,
                       &(struct push_otlp_who){ program, pid, g->start_time });
    if (g->resource.error) {
        sonde_buf_release(&g->resource);
        return NULL;
    }
    s->group_count++;
    return g;
}

/* The span that is in s->span, to its process. */
static void put_down(struct push_spans *s, uint64_t id, uint32_t pid, const char *program)
{
    sonde_assert_held(&s->lock);
    struct push_span_group *g =
        s->span.error || s->bytes >= BYTES_MAX ? NULL : push_otlp_spans_group_of(s, pid, program);
    if (!g) {
        s->dropped++;
        return;
    }
    const size_t before = g->spans.len;
    sonde_pb_message(&g->spans, SCOPE_SPAN, &s->span);
    if (g->spans.error) { /* as it was: the part that did not fit is cut off */
        g->spans.error = 0;
        g->spans.len = before;
        s->dropped++;
        return;
    }
    s->bytes += g->spans.len - before;
    g->count++;
    if (s->sent) sonde_buf_add(&s->ids, &id, sizeof(id));
}

/* An agent before this one had it. */
static int was_sent(const struct push_spans *s, uint64_t id, uint64_t end_ns)
{
    return s->sent && end_ns < s->since_ns && push_sent_has(s->sent, id);
}

/* ---- Spans ----------------------------------------------------------------------------------- */

/* The end of splitmix64, but never 0, which is not an id. Receivers know spans by it, and so does
 * the next agent: not one of hash.h, which may change. */
static uint64_t push_otlp_spans_id(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return (x ^ x >> 31) | 1;
}

struct ids { uint64_t trace_hi, trace_lo, id, parent; };

/* OTLP has no spans without ids: one of no trace is the only one of its own. */
static struct ids ids_of(uint64_t hi, uint64_t lo, uint64_t id, uint64_t parent, uint64_t start_ns,
                         uint32_t tid)
{
    struct ids ids = { hi, lo, id, parent };
    if (!ids.id) ids.id = push_otlp_spans_id(start_ns ^ (uint64_t)tid << 40);
    if (!(hi | lo)) {
        ids.trace_hi = push_otlp_spans_id(start_ns);
        ids.trace_lo = push_otlp_spans_id(ids.id);
    }
    return ids;
}

static void begin_span(struct push_spans *s, const struct ids *ids, const char *name, uint32_t kind,
                       uint64_t start_ns, uint64_t end_ns)
{
    sonde_assert_held(&s->lock);
    assert(ids->id && (ids->trace_hi | ids->trace_lo));
    struct sonde_buf *b = &s->span;
    sonde_buf_reset(b);
    push_otlp_id(b, SPAN_TRACE, (const uint64_t[]){ ids->trace_hi, ids->trace_lo }, 2);
    push_otlp_id(b, SPAN_ID, &ids->id, 1);
    if (ids->parent) push_otlp_id(b, SPAN_PARENT, &ids->parent, 1);
    sonde_pb_str(b, SPAN_NAME, name, strlen(name));
    sonde_pb_uint(b, SPAN_KIND, kind);
    sonde_pb_fixed64(b, SPAN_START, start_ns);
    sonde_pb_fixed64(b, SPAN_END, end_ns);
}

/* Success is left unset, as OpenTelemetry wants it of all but the application itself. */
static void push_otlp_spans_put_status(struct push_spans *s, uint32_t outcome, const char *error)
{
    if (outcome == SONDE_OK) return;
    const char *name = sonde_infer_outcome_name(outcome), *type = error && *error ? error : name;
    push_otlp_str(&s->span, SPAN_ATTRIBUTE, "error.type", type);
    sonde_buf_reset(&s->scratch.value);
    sonde_pb_str(&s->scratch.value, STATUS_MESSAGE, name, strlen(name));
    sonde_pb_uint(&s->scratch.value, STATUS_CODE, STATUS_ERROR);
    sonde_pb_message(&s->span, SPAN_STATUS, &s->scratch.value);
}

static void push_otlp_spans_put_attr(struct push_spans *s, const struct sonde_model_attr *a)
{
    switch (a->type) {
    case SONDE__ATTR_INT:
        push_otlp_int(&s->span, SPAN_ATTRIBUTE, &s->scratch, a->key, a->value.i);
        break;
    case SONDE__ATTR_DOUBLE:
        push_otlp_double(&s->span, SPAN_ATTRIBUTE, &s->scratch, a->key, a->value.d);
        break;
    default: push_otlp_str(&s->span, SPAN_ATTRIBUTE, a->key, a->value.str); break;
    }
}

static void push_otlp_spans_on(const struct sonde_model_span *span, void *arg)
{
    struct push_spans *s = arg;
    if (s->model && s->model->shared) sonde_assert_held_write(&s->model->lock);
    const int of_front = !span->tid && !strcmp(span->name, "front");
    if (s->requests && span->pid && !span->tid && !strcmp(span->name, "request")) return;
    const struct ids ids = ids_of(span->trace_hi, span->trace_lo, span->id, span->parent,
                                  span->start_ns, span->tid);
    if (was_sent(s, ids.id, span->start_ns + span->duration_ns)) return;
    sonde_lock(&s->lock);
    begin_span(s, &ids, span->name, of_front ? KIND_SERVER : KIND_INTERNAL, span->start_ns,
               span->start_ns + span->duration_ns);
    for (uint32_t i = 0; i < span->attr_count && i < SONDE_SPAN_ATTRS_MAX; i++) {
        push_otlp_spans_put_attr(s, &span->attrs[i]);
    }
    if (span->tid) push_otlp_int(&s->span, SPAN_ATTRIBUTE, &s->scratch, "thread.id", span->tid);
    push_otlp_spans_put_status(s, span->outcome, NULL);
    put_down(s, ids.id, span->pid, span->program ? span->program : "");
    sonde_unlock(&s->lock);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static const char *operation_of(const struct sonde_infer_request *r)
{
    if (strstr(r->route, "embed")) return "embeddings";
    return strstr(r->route, "chat") ? "chat" : "text_completion";
}

static void push_otlp_spans_put_text(struct push_spans *s, const char *key, const char *value)
{
    if (value && *value) push_otlp_str(&s->span, SPAN_ATTRIBUTE, key, value);
}

static void push_otlp_spans_put_count(struct push_spans *s, const char *key, uint64_t value)
{
    if (value) push_otlp_int(&s->span, SPAN_ATTRIBUTE, &s->scratch, key, (int64_t)value);
}

static void put_seconds(struct push_spans *s, const char *key, double value, int known)
{
    if (known) push_otlp_double(&s->span, SPAN_ATTRIBUTE, &s->scratch, key, value);
}

/* Names of the conventions for generative AI where they have one; the rest is ours. */
static void push_otlp_spans_put_figures(struct push_spans *s, const struct sonde_infer_request *r)
{
    push_otlp_spans_put_text(s, "gen_ai.operation.name", operation_of(r));
    push_otlp_spans_put_text(s, "gen_ai.request.model", r->model);
    push_otlp_spans_put_text(s, "gen_ai.response.id", r->own_id);
    push_otlp_spans_put_text(s, "sonde.route", r->route);
    push_otlp_spans_put_text(s, "sonde.backend", r->backend);
    push_otlp_spans_put_text(s, "sonde.source", sonde_infer_source_name(r->source));
    push_otlp_spans_put_count(s, "gen_ai.request.max_tokens", r->tokens_max);
    push_otlp_spans_put_count(s, "gen_ai.usage.input_tokens", r->tokens_in);
    push_otlp_spans_put_count(s, "gen_ai.usage.output_tokens", r->tokens_out);
    push_otlp_spans_put_count(s, "gen_ai.usage.cache_read.input_tokens", r->tokens_reused);
    put_seconds(s, "sonde.time_to_first_token_seconds", r->ttft_s, sonde_infer_has_ttft(r));
    put_seconds(s, "sonde.time_per_output_token_seconds", r->itl_s, r->itl_count > 0);
    put_seconds(s, "sonde.queue_seconds", sonde_infer_queue_s(r),
                r->phase_count[SONDE_PHASE_QUEUE] > 0);
    for (uint32_t i = 0; i < r->attr_count; i++) {
        push_otlp_spans_put_text(s, r->attrs[i].key, r->attrs[i].value);
    }
}

static void put_first_token(struct push_spans *s, const struct sonde_infer_request *r)
{
    static const char name[] = "first token";
    if (!sonde_infer_has_ttft(r) || !(r->ttft_s >= 0 && r->ttft_s < 1e9)) return;
    sonde_buf_reset(&s->scratch.value);
    sonde_pb_fixed64(&s->scratch.value, EVENT_TIME, r->arrived_ns + (uint64_t)(r->ttft_s * 1e9));
    sonde_pb_str(&s->scratch.value, EVENT_NAME, name, sizeof(name) - 1);
    sonde_pb_message(&s->span, SPAN_EVENT, &s->scratch.value);
}

void push_spans_request(struct push_spans *s, const struct sonde_infer_request *r)
{
    char name[300];
    snprintf(name, sizeof(name), "%s%s%.256s", operation_of(r), *r->model ? " " : "", r->model);
    const int front = !strcmp(sonde_infer_source_name(r->source), "front");
    const struct ids ids =
        ids_of(r->trace_hi, r->trace_lo, front ? push_otlp_spans_id(r->id) : r->id,
               front ? r->id : r->parent, r->arrived_ns, 0);
    const double total_s = r->total_s > 0 && r->total_s < 1e9 ? r->total_s : 0;
    const uint64_t end_ns = r->arrived_ns + (uint64_t)(total_s * 1e9 + 0.5);
    if (was_sent(s, ids.id, end_ns)) return;
    sonde_lock(&s->lock);
    begin_span(s, &ids, name, front ? KIND_INTERNAL : KIND_SERVER, r->arrived_ns, end_ns);
    push_otlp_spans_put_figures(s, r);
    put_first_token(s, r);
    push_otlp_spans_put_status(s, r->outcome, r->error);
    put_down(s, ids.id, r->pid, r->program ? r->program : "");
    sonde_unlock(&s->lock);
}

/* ---- Life ------------------------------------------------------------------------------------ */

int push_spans_init(struct push_spans *s, const struct push_origin *o, struct sonde_model *m,
                    int requests)
{
    *s = (struct push_spans){ .origin = o, .model = m, .requests = requests };
    sonde_lock_init(&s->lock, SONDE_RANK_PUSH_SPANS);
    push_otlp_scratch_init(&s->scratch, 1 << 20);
    sonde_buf_init(&s->span, 1 << 20);
    sonde_buf_init(&s->ids, BYTES_MAX);
    s->listener = (struct sonde_model_listener){ .on_span = push_otlp_spans_on, .arg = s };
    return 0;
}

static void groups_free(struct push_spans *s)
{
    for (size_t i = 0; i < s->group_count; i++) {
        sonde_buf_release(&s->groups[i].resource);
        sonde_buf_release(&s->groups[i].spans);
    }
    sonde__free(s->groups);
}

void push_spans_release(struct push_spans *s)
{
    groups_free(s);
    push_otlp_scratch_release(&s->scratch);
    sonde_buf_release(&s->span);
    sonde_buf_release(&s->ids);
    sonde_lock_destroy(&s->lock);
}

void push_spans_take(struct push_spans *s, struct push_spans *out)
{
    assert(out != s);
    push_spans_init(out, s->origin, NULL, 0);
    sonde_lock(&s->lock);
    out->groups = s->groups;
    out->group_count = s->group_count;
    out->group_cap = s->group_cap;
    out->ids = s->ids;
    sonde_buf_init(&s->ids, BYTES_MAX);
    s->groups = NULL;
    s->group_count = s->group_cap = s->bytes = 0;
    sonde_unlock(&s->lock);
}

int push_spans_many(struct push_spans *s)
{
    sonde_lock(&s->lock);
    const int many = s->bytes >= BYTES_MANY;
    sonde_unlock(&s->lock);
    return many;
}

/* ---- A request of them ----------------------------------------------------------------------- */

static void push_otlp_traces_put_group(const struct push_span_group *g, struct push_otlp_scratch *s,
                                       struct sonde_buf *scope, struct sonde_buf *resource,
                                       struct sonde_buf *out)
{
    sonde_buf_reset(scope);
    sonde_buf_reset(resource);
    push_otlp_scope(scope, SCOPE_SCOPE, s);
    sonde_buf_add(scope, g->spans.data, g->spans.len);
    sonde_pb_message(resource, RESOURCE_RESOURCE, &g->resource);
    sonde_pb_message(resource, RESOURCE_SCOPE, scope);
    sonde_pb_message(out, REQUEST_RESOURCE, resource);
}

/* A group is not divided: one of more than the usual size is a request by itself. */
int push_otlp_traces(struct push_dest *d, const struct push_spans *spans)
{
    struct push_otlp_scratch s;
    struct sonde_buf scope, resource, out;
    uint32_t count = 0;
    int rc = 0;
    push_otlp_scratch_init(&s, 1 << 20);
    sonde_buf_init(&scope, PUSH_BODY_MAX);
    sonde_buf_init(&resource, PUSH_BODY_MAX);
    sonde_buf_init(&out, PUSH_BODY_MAX);
    for (size_t i = 0; i < spans->group_count && !rc; i++) {
        const struct push_span_group *g = &spans->groups[i];
        if (!g->count) continue;
        push_otlp_traces_put_group(g, &s, &scope, &resource, &out);
        count += g->count;
        rc = out.error;
        if (rc || (i + 1 < spans->group_count && out.len < OTLP_RAW_MAX)) continue;
        push_emit(d, SONDE_PUSH_TRACES, "/v1/traces", count, &out);
        count = 0;
    }
    if (!rc && count) push_emit(d, SONDE_PUSH_TRACES, "/v1/traces", count, &out);
    push_otlp_scratch_release(&s);
    sonde_buf_release(&scope);
    sonde_buf_release(&resource);
    sonde_buf_release(&out);
    return rc;
}
