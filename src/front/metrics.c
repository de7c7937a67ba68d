/* metrics.c - see metrics.h.
 *
 * Names of models and errors come from clients and upstreams, so there are limits to how many are
 * told apart; what comes after is counted as "other". */
#include "front/metrics.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "infer/tracker.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/strip.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

enum {
    ROWS = 64,          /* pairs of route and model */
    COUNTS = 256,       /* pairs of route and status */
    ERRORS = 32,        /* kinds of errors */
    TIMINGS = 4096,     /* times between two ticks; more: wait for the lock */
    SPANS = 512,        /* alike */
};

struct front_metrics_row {
    enum sonde_front_route route;
    char model[SONDE_JSON_TEXT_MAX + 1];
};

/* A counter that is ahead of its series. */
struct front_count {
    enum sonde_front_route route;
    char text[48];      /* status, error or direction */
    uint64_t value;
    struct sonde_model_series *series;
};

/* A time that is not in the model yet. */
enum { FORWARD, ANSWER, HISTOGRAMS };
struct front_timing { uint64_t ns; uint16_t what, route; };

struct front_span {
    uint64_t start_ns, duration_ns, trace_hi, trace_lo, id, parent;
    uint32_t outcome;
    unsigned status;
    enum sonde_front_route route;
    char model[SONDE_JSON_TEXT_MAX + 1];
};

static const struct sonde_model_family_spec histograms[HISTOGRAMS] = {
    [FORWARD] = { .name = "sonde_front_forward_seconds", .unit = "seconds",
                  .help = "From a request's arrival until the upstream had been given all of it.",
                  .type = SONDE_HISTOGRAM, .kind = SONDE_KIND_TIME, .scale = 1e-9 },
    [ANSWER] = { .name = "sonde_front_answer_seconds", .unit = "seconds",
                 .help = "From then until the head of the upstream's answer.",
                 .type = SONDE_HISTOGRAM, .kind = SONDE_KIND_TIME, .scale = 1e-9 },
};

static const struct sonde_model_family_spec requests_spec = {
    .name = "sonde_front_requests_total", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
    .help = "Requests passed on to the upstream that have ended, by the status that the client "
            "got." };

static const struct sonde_model_family_spec errors_spec = {
    .name = "sonde_front_errors_total", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
    .help = "Requests that an upstream or a client broke off, by how; what an upstream answers is "
            "no such error." };

static const struct sonde_model_family_spec bytes_spec = {
    .name = "sonde_front_bytes_total", .unit = "bytes", .type = SONDE_COUNTER,
    .kind = SONDE_KIND_THROUGHPUT,
    .help = "Bytes read from clients (in) and written to them (out), of requests passed on." };

/* Series without labels of requests. */
static const struct {
    struct sonde_model_family_spec spec;
    const char *label, *value;
    size_t offset;                   /* in struct sonde_front_state */
} state_series[] = {
#define GAUGE(name_, help_) \
    { .name = name_, .help = help_, .type = SONDE_GAUGE, .kind = SONDE_KIND_COUNTER }
#define TOTAL(name_, help_) \
    { .name = name_, .help = help_, .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER }
#define AT(field) offsetof(struct sonde_front_state, field)
    { GAUGE("sonde_front_in_flight", "Requests that have arrived and not ended."), NULL, NULL,
      AT(in_flight) },
    { GAUGE("sonde_front_connections", "Open connections of the front."), "side", "client",
      AT(clients) },
    { GAUGE("sonde_front_connections", "Open connections of the front."), "side", "upstream",
      AT(upstreams) },
    { TOTAL("sonde_front_connections_total", "Connections the front has had."), "side", "client",
      AT(accepted_total) },
    { TOTAL("sonde_front_connections_total", "Connections the front has had."), "side", "upstream",
      AT(connected_total) },
    { TOTAL("sonde_front_refused_total",
            "Requests the front refused: not HTTP, or not for this host."), NULL, NULL,
      AT(refused_total) },
#undef GAUGE
#undef TOTAL
#undef AT
};
enum { STATE_SERIES = SONDE_COUNT(state_series) };

enum { IN, OUT, DIRECTIONS };

struct sonde_front_metrics {
    struct sonde_model *model;
    struct sonde_infer_tracker *tracker; /* the model's; NULL = none */
    /* The last ones of these three are for what does not fit. */
    struct front_metrics_row rows[ROWS + SONDE_FRONT_ROUTE_COUNT];
    size_t row_count;
    struct front_count counts[COUNTS + SONDE_FRONT_ROUTE_COUNT];
    size_t count_count;
    struct front_count errors[ERRORS + 1];
    size_t error_count;
    struct front_count bytes[DIRECTIONS];
    struct sonde_model_series *state[STATE_SERIES];
    struct sonde_model_series *times[HISTOGRAMS][SONDE_FRONT_ROUTE_COUNT];
    struct front_timing timings[TIMINGS];
    size_t timing_count;
    struct front_span spans[SPANS];
    size_t span_count;
};

/* ---- Into the model ----------------------------------------------------------------------- */

static struct sonde_model_series *front_metrics_make(struct sonde_model *m,
                                                     const struct sonde_model_family_spec *spec,
                                                     const struct sonde_label *labels, size_t count)
{
    struct sonde_model_family_spec ours = *spec;
    ours.source = "sonde";
    return sonde_model_own_series(m, &ours, NULL, labels, count);
}

static void apply_times(struct sonde_front_metrics *metrics)
{
    for (size_t i = 0; i < metrics->timing_count; i++) {
        const struct front_timing *n = &metrics->timings[i];
        struct sonde_model_series **s = &metrics->times[n->what][n->route];
        const struct sonde_label label = {
            "route", sonde_front_route_name((enum sonde_front_route)n->route) };
        if (!*s) *s = front_metrics_make(metrics->model, &histograms[n->what], &label, 1);
        if (*s) sonde_model_record(*s, n->ns, 1);
    }
    metrics->timing_count = 0;
}

static void apply_count(struct sonde_front_metrics *metrics, struct front_count *c,
                        const struct sonde_model_family_spec *spec,
                        const struct sonde_label *labels, size_t count)
{
    if (!c->value) return;
    if (!c->series) c->series = front_metrics_make(metrics->model, spec, labels, count);
    if (c->series) c->series->counter = c->value;
}

static void apply_counts(struct sonde_front_metrics *metrics)
{
    sonde_assert_held_write(&metrics->model->lock);
    for (size_t i = 0; i < COUNTS + SONDE_FRONT_ROUTE_COUNT; i++) {
        struct front_count *c = &metrics->counts[i];
        apply_count(metrics, c, &requests_spec, (const struct sonde_label[]){
            { "route", sonde_front_route_name(c->route) }, { "status", c->text } }, 2);
    }
    for (size_t i = 0; i < ERRORS + 1; i++) {
        const struct sonde_label label = { "error", metrics->errors[i].text };
        apply_count(metrics, &metrics->errors[i], &errors_spec, &label, 1);
    }
    for (size_t i = 0; i < DIRECTIONS; i++) {
        const struct sonde_label label = { "direction", i == IN ? "in" : "out" };
        apply_count(metrics, &metrics->bytes[i], &bytes_spec, &label, 1);
    }
}

static void apply_spans(struct sonde_front_metrics *metrics)
{
    for (size_t i = 0; i < metrics->span_count; i++) {
        const struct front_span *n = &metrics->spans[i];
        struct sonde_model_attr attrs[3] = {
            { .key = "route", .type = SONDE__ATTR_STR },
            { .key = "status", .type = SONDE__ATTR_INT, .value.i = n->status },
            { .key = "model", .type = SONDE__ATTR_STR },
        };
        snprintf(attrs[0].value.str, sizeof(attrs[0].value.str), "%s",
                 sonde_front_route_name(n->route));
        int changed = 0;
        sonde__utf8_copy(attrs[2].value.str, SONDE__ATTR_BYTES, n->model, strlen(n->model),
                         &changed);
        sonde_model_span(metrics->model, &(struct sonde_model_span){
            .name = "front", .program = "sonde", .start_ns = n->start_ns,
            .duration_ns = n->duration_ns, .trace_hi = n->trace_hi, .trace_lo = n->trace_lo,
            .id = n->id, .parent = n->parent, .outcome = n->outcome,
            .attr_count = n->model[0] ? 3 : 2, .attrs = attrs });
    }
    metrics->span_count = 0;
}

static void apply_state(struct sonde_front_metrics *metrics, const struct sonde_front_state *state)
{
    sonde_assert_held_write(&metrics->model->lock);
    for (size_t i = 0; i < STATE_SERIES; i++) {
        const struct sonde_label label = { state_series[i].label, state_series[i].value };
        if (!metrics->state[i]) {
            metrics->state[i] = front_metrics_make(metrics->model, &state_series[i].spec, &label,
                                                   label.name ? 1 : 0);
        }
        struct sonde_model_series *s = metrics->state[i];
        uint64_t value;
        memcpy(&value, (const char *)state + state_series[i].offset, sizeof(value));
        if (s && s->family->type == SONDE_GAUGE) s->gauge = (double)value;
        else if (s) s->counter = value;
    }
}

static void apply_pending(struct sonde_front_metrics *metrics)
{
    sonde_assert_held_write(&metrics->model->lock);
    apply_times(metrics);
    apply_spans(metrics);
}

static void front_metrics_on_tick(void *arg, const struct sonde_front_state *state)
{
    struct sonde_front_metrics *metrics = arg;
    /* Readers are in: the next tick is soon enough, unless too many times and spans wait. */
    if (sonde_trywrlock(&metrics->model->lock) != 0) {
        if (metrics->timing_count < TIMINGS / 2 && metrics->span_count < SPANS / 2 &&
            state->in_flight) {
            return;
        }
        sonde_wrlock(&metrics->model->lock);
    }
    apply_pending(metrics);
    apply_counts(metrics);
    apply_state(metrics, state);
    sonde_rwunlock(&metrics->model->lock);
}

/* ---- Until the lock is free ------------------------------------------------------------- */

static struct front_metrics_row *find_row(struct sonde_front_metrics *metrics,
                                          enum sonde_front_route route, const char *name)
{
    char model[SONDE_JSON_TEXT_MAX + 1];
    snprintf(model, sizeof(model), "%s", *name ? name : "unknown");
    sonde_strip_gguf(model); /* as hooks in the server call it */
    for (size_t i = 0; i < metrics->row_count; i++) {
        if (metrics->rows[i].route == route && strcmp(metrics->rows[i].model, model) == 0) {
            return &metrics->rows[i];
        }
    }
    if (metrics->row_count < ROWS) {
        struct front_metrics_row *row = &metrics->rows[metrics->row_count++];
        row->route = route;
        memcpy(row->model, model, strlen(model) + 1);
        return row;
    }
    struct front_metrics_row *others = &metrics->rows[ROWS + (size_t)route];
    others->route = route;
    strcpy(others->model, "other");
    return others;
}

/* One of `max` counts, *count of which are taken; the one behind them when there are no more. */
static struct front_count *find_count(struct front_count *counts, size_t *count, size_t max,
                                      struct front_count *rest, enum sonde_front_route route,
                                      const char *text)
{
    for (size_t i = 0; i < *count; i++) {
        if (counts[i].route == route && strcmp(counts[i].text, text) == 0) return &counts[i];
    }
    struct front_count *c = *count < max ? &counts[(*count)++] : rest;
    c->route = route;
    snprintf(c->text, sizeof(c->text), "%s", c == rest ? "other" : text);
    return c;
}

/* Room for one more time and one more span. */
static void front_metrics_make_room(struct sonde_front_metrics *metrics)
{
    sonde_assert_not_held(&metrics->model->lock);
    if (metrics->timing_count < TIMINGS && metrics->span_count < SPANS) return;
    sonde_wrlock(&metrics->model->lock);
    apply_pending(metrics);
    sonde_rwunlock(&metrics->model->lock);
    assert(metrics->timing_count < TIMINGS && metrics->span_count < SPANS);
}

static void front_metrics_add_timing(struct sonde_front_metrics *metrics, unsigned what,
                                     enum sonde_front_route route, uint64_t from_ns, uint64_t to_ns)
{
    assert(what < HISTOGRAMS && (size_t)route < SONDE_FRONT_ROUTE_COUNT);
    front_metrics_make_room(metrics);
    metrics->timings[metrics->timing_count++] =
        (struct front_timing){ to_ns > from_ns ? to_ns - from_ns : 0, (uint16_t)what,
                               (uint16_t)route };
}

static uint32_t front_metrics_outcome_of(enum sonde_front_outcome outcome)
{
    switch (outcome) {
    case SONDE_FRONT_OK: return SONDE_OK;
    case SONDE_FRONT_CANCELLED: return SONDE_CANCELLED;
    default: return SONDE_ERROR;
    }
}

static void front_metrics_add_span(struct sonde_front_metrics *metrics,
                                   const struct sonde_front_request *r)
{
    front_metrics_make_room(metrics);
    struct front_span *s = &metrics->spans[metrics->span_count++];
    *s = (struct front_span){
        .start_ns = r->arrived_unix_ns, .duration_ns = r->ended_ns - r->arrived_ns,
        .trace_hi = r->trace_hi, .trace_lo = r->trace_lo, .id = r->span, .parent = r->parent,
        .outcome = front_metrics_outcome_of(r->outcome), .status = r->status, .route = r->route };
    memcpy(s->model, r->model, sizeof(s->model));
    sonde_strip_gguf(s->model);
}

/* ---- Inference events --------------------------------------------------------------------- */

static uint64_t unix_of(const struct sonde_front_request *r, uint64_t ns)
{
    return r->arrived_unix_ns + (ns > r->arrived_ns ? ns - r->arrived_ns : 0);
}

/* id is the span that the upstream gets as parent. */
static struct sonde_infer_event event_at(const struct sonde_front_request *r, uint16_t type,
                                         uint64_t ns)
{
    const uint64_t time_ns = unix_of(r, ns);
    return (struct sonde_infer_event){ .type = type, .source = SONDE_INFER_FRONT, .id = r->span,
                                       .begin_ns = time_ns, .time_ns = time_ns };
}

/* That it has arrived is told when its model is known: in the request's body, else in the answer
 * (must: it will not be known any better). */
static void front_metrics_post_request(struct sonde_front_metrics *metrics,
                                       struct sonde_front_request *r, int must)
{
    if (r->user || (!r->model[0] && !must)) return;
    const struct front_metrics_row *row = r->user = find_row(metrics, r->route, r->model);
    struct sonde_infer_event e = event_at(r, SONDE_INFER_REQUEST, r->arrived_ns);
    e.model = row->model;
    e.request.route = sonde_front_route_name(row->route);
    e.request.trace_hi = r->trace_hi;
    e.request.trace_lo = r->trace_lo;
    e.request.parent = r->parent;
    e.request.profile = r->profile != 0;
    if (r->max_tokens > 0 && r->max_tokens <= UINT32_MAX) {
        e.request.tokens_max = (uint32_t)r->max_tokens;
    }
    sonde_infer_post(metrics->tracker, &e);
}

static void front_metrics_post_tokens(struct sonde_front_metrics *metrics,
                                      struct sonde_front_request *r, uint64_t ns, uint64_t tokens)
{
    struct sonde_infer_event e = event_at(r, SONDE_INFER_TOKENS, ns);
    e.tokens.count = tokens;
    e.tokens.seq = r->chunks; /* several may have been read at one time */
    sonde_infer_post(metrics->tracker, &e);
}

static uint64_t front_metrics_usage_of(int64_t tokens)
{
    return tokens < 0 ? SONDE_INFER_UNSAID : (uint64_t)tokens;
}

static void front_metrics_post_end(struct sonde_front_metrics *metrics,
                                   struct sonde_front_request *r)
{
    /* An answer in one piece: all its tokens come out with it. */
    if (!r->chunks && r->usage.completion_tokens > 0 && r->first_byte_ns) {
        front_metrics_post_tokens(metrics, r, r->first_byte_ns,
                                  (uint64_t)r->usage.completion_tokens);
    }
    struct sonde_infer_event e = event_at(r, SONDE_INFER_USAGE, r->ended_ns);
    e.usage.prompt = front_metrics_usage_of(r->usage.prompt_tokens);
    e.usage.reused = front_metrics_usage_of(r->usage.cached_tokens);
    e.usage.output = front_metrics_usage_of(r->usage.completion_tokens);
    if (e.usage.prompt != SONDE_INFER_UNSAID || e.usage.output != SONDE_INFER_UNSAID) {
        sonde_infer_post(metrics->tracker, &e);
    }
    e = event_at(r, SONDE_INFER_END, r->ended_ns);
    e.end.outcome = front_metrics_outcome_of(r->outcome);
    snprintf(e.end.error, sizeof(e.end.error), "%.*s", SONDE_INFER_TEXT - 1, r->error);
    sonde_infer_post(metrics->tracker, &e);
}

static void front_metrics_post(struct sonde_front_metrics *metrics, enum sonde_front_event event,
                               struct sonde_front_request *r)
{
    if (!metrics->tracker || r->route == SONDE_FRONT_OTHER) return;
    if (event == SONDE_FRONT_ARRIVED || event == SONDE_FRONT_BYTE) return;
    front_metrics_post_request(metrics, r,
                               event == SONDE_FRONT_TOKEN || event == SONDE_FRONT_ENDED);
    if (event == SONDE_FRONT_TOKEN) {
        front_metrics_post_tokens(metrics, r, r->last_token_ns, r->pieces);
    }
    if (event == SONDE_FRONT_ENDED) front_metrics_post_end(metrics, r);
}

/* ---- The whole ---------------------------------------------------------------------------- */

static void front_metrics_on_end(struct sonde_front_metrics *metrics,
                                 const struct sonde_front_request *r)
{
    char status[16] = "none"; /* it went away before there was one */
    if (r->status) snprintf(status, sizeof(status), "%u", r->status);
    struct front_count *c =
        find_count(metrics->counts, &metrics->count_count, COUNTS,
                   &metrics->counts[COUNTS + (size_t)r->route], r->route, status);
    c->value++;
    if (r->outcome == SONDE_FRONT_UPSTREAM || r->outcome == SONDE_FRONT_CANCELLED) {
        c = find_count(metrics->errors, &metrics->error_count, ERRORS, &metrics->errors[ERRORS],
                       SONDE_FRONT_OTHER, r->error);
        c->value++;
    }
    metrics->bytes[IN].value += r->bytes_in;
    metrics->bytes[OUT].value += r->bytes_out;
    /* Health checks would push out all spans that somebody may look for. */
    if (r->route != SONDE_FRONT_OTHER) front_metrics_add_span(metrics, r);
}

static void front_metrics_on_event(void *arg, enum sonde_front_event event,
                                   struct sonde_front_request *r)
{
    struct sonde_front_metrics *metrics = arg;
    front_metrics_post(metrics, event, r);
    if (event == SONDE_FRONT_SENT) {
        front_metrics_add_timing(metrics, FORWARD, r->route, r->arrived_ns, r->sent_ns);
    }
    if (event == SONDE_FRONT_HEADERS && r->sent_ns) {
        front_metrics_add_timing(metrics, ANSWER, r->route, r->sent_ns, r->headers_ns);
    }
    if (event == SONDE_FRONT_ENDED) front_metrics_on_end(metrics, r);
}

int sonde_front_metrics_create(struct sonde_model *m, struct sonde_infer_tracker *tracker,
                               struct sonde_front_metrics **out)
{
    struct sonde_front_metrics *metrics = sonde__calloc(1, sizeof(*metrics));
    if (!metrics) return SONDE_ENOMEM;
    metrics->model = m;
    metrics->tracker = tracker;
    /* So that rates are known from the first scrape on. */
    const struct sonde_front_state nothing = { 0 };
    front_metrics_on_tick(metrics, &nothing);
    *out = metrics;
    return 0;
}

void sonde_front_metrics_destroy(struct sonde_front_metrics *metrics) { sonde__free(metrics); }

struct sonde_front_observer sonde_front_metrics_observer(struct sonde_front_metrics *metrics)
{
    return (struct sonde_front_observer){ .event = front_metrics_on_event,
                                          .tick = front_metrics_on_tick,
                                          .arg = metrics };
}
