/* figures.c - see figures.h.
 *
 * Names of models come from clients, so there are at most ROWS pairs of route and model, and what
 * comes after is counted under the model "other". */
#include "front/figures.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "sonde/sonde.h"

enum {
    ROWS = 64,          /* pairs of route and model */
    ERRORS = 32,        /* kinds of errors */
    NOTES = 8192,       /* figures between two ticks; more: wait for the lock */
    OUTCOMES = SONDE_FRONT_UPSTREAM + 1,
};

/* Series of a row. */
enum {
    FIRST_TOKEN, INTER_TOKEN, PROMPT_TOKENS, COMPLETION_TOKENS, CACHED_TOKENS,
    REQUESTS,                           /* one for each outcome */
    REQUEST_SECONDS = REQUESTS + OUTCOMES,
    ROW_SERIES = REQUEST_SECONDS + OUTCOMES,
};

static const struct sonde_model_family_spec row_specs[] = {
    [FIRST_TOKEN] = { .name = "sonde_front_time_to_first_token_seconds", .unit = "seconds",
                      .help = "From a request's arrival to the first piece of text in its stream.",
                      .type = SONDE_HISTOGRAM, .kind = SONDE_KIND_TIME, .scale = 1e-9 },
    [INTER_TOKEN] = { .name = "sonde_front_inter_token_seconds", .unit = "seconds",
                      .help = "Between two pieces of text of one stream.",
                      .type = SONDE_HISTOGRAM, .kind = SONDE_KIND_TIME, .scale = 1e-9 },
    [PROMPT_TOKENS] = { .name = "sonde_front_prompt_tokens_total",
                        .help = "Tokens of prompts, as the upstream counted them.",
                        .type = SONDE_COUNTER, .kind = SONDE_KIND_THROUGHPUT },
    [COMPLETION_TOKENS] = { .name = "sonde_front_completion_tokens_total",
                            .help = "Tokens of answers, as the upstream counted them.",
                            .type = SONDE_COUNTER, .kind = SONDE_KIND_THROUGHPUT },
    [CACHED_TOKENS] = { .name = "sonde_front_cached_tokens_total",
                        .help = "Tokens of prompts that the upstream had computed before.",
                        .type = SONDE_COUNTER, .kind = SONDE_KIND_THROUGHPUT },
    [REQUESTS] = { .name = "sonde_front_requests_total",
                   .help = "Requests passed on to the upstream that have ended.",
                   .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER },
    [REQUEST_SECONDS] = { .name = "sonde_front_request_seconds", .unit = "seconds",
                          .help = "From a request's arrival to the last byte of its answer.",
                          .type = SONDE_HISTOGRAM, .kind = SONDE_KIND_TIME, .scale = 1e-9 },
};

struct row {
    enum sonde_front_route route;
    char model[SONDE_JSON_TEXT_MAX + 1];
    struct sonde_model_series *series[ROW_SERIES];
};

struct error_row {
    char type[48];
    struct sonde_model_series *series;
};

/* One figure that is not in the model yet. */
struct note {
    struct sonde_model_series **series;
    uint16_t row, what;              /* what: a series of the row; ROW_SERIES = an error's */
    uint64_t value;                  /* added to a counter; ns for a histogram */
    uint64_t trace_hi, trace_lo;     /* of the request; 0 = no exemplar is kept */
};

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
enum { STATE_SERIES = sizeof(state_series) / sizeof(state_series[0]) };

struct sonde_figures {
    struct sonde_model *model;
    struct row rows[ROWS + SONDE_FRONT_ROUTE_COUNT]; /* the last: models that do not fit */
    size_t row_count;
    struct error_row errors[ERRORS + 1]; /* the last: all that do not fit */
    size_t error_count;
    struct sonde_model_series *state[STATE_SERIES];
    struct note notes[NOTES];
    size_t note_count;
};

/* ---- Into the model (write lock held) ----------------------------------------------------- */

static struct sonde_model_series *make(struct sonde_model *m,
                                       const struct sonde_model_family_spec *spec,
                                       const struct sonde_label *labels, size_t count)
{
    struct sonde_model_family_spec ours = *spec;
    ours.source = "sonde";
    struct sonde_model_family *f = sonde_model_family(m, &ours);
    struct sonde_model_series *s = f ? sonde_model_series(m, f, NULL, labels, count) : NULL;
    if (s) s->from_zero = 1;
    return s;
}

static struct sonde_model_series *make_of_row(struct sonde_model *m, const struct row *row,
                                              unsigned what)
{
    const unsigned first = what >= REQUEST_SECONDS ? REQUEST_SECONDS : REQUESTS;
    struct sonde_label labels[3] = { { "route", sonde_front_route_name(row->route) },
                                     { "model", row->model } };
    if (what < REQUESTS) return make(m, &row_specs[what], labels, 2);
    labels[2] = (struct sonde_label){
        "outcome", sonde_front_outcome_name((enum sonde_front_outcome)(what - first)) };
    return make(m, &row_specs[first], labels, 3);
}

static struct sonde_model_series *make_of_error(struct sonde_model *m, const char *type)
{
    static const struct sonde_model_family_spec spec = {
        .name = "sonde_front_errors_total", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
        .help = "Requests that ended other than well, by what went wrong." };
    const struct sonde_label label = { "error", type };
    return make(m, &spec, &label, 1);
}

static void record(struct sonde_model_series *s, const struct note *n, double now_s)
{
    if (s->family->type == SONDE_COUNTER) {
        s->counter += n->value;
        return;
    }
    struct sonde_hist_value *h = sonde_model_hist(s);
    if (!h) return;
    const double value = (double)n->value * s->family->scale;
    const uint64_t p = sonde__hist_bucket(value);
    if (p >= SONDE__HIST_BUCKETS) {
        h->zero++;
        h->count++;
    } else if (sonde_hist_value_add(h, (uint32_t)p, 1) != 0) {
        return;
    }
    h->sum_raw += n->value;
    h->last_raw = n->value;
    if (n->trace_hi | n->trace_lo) {
        sonde_model_exemplar(s, &(struct sonde_exemplar){ .value = value, .time_s = now_s,
                                                          .trace_hi = n->trace_hi,
                                                          .trace_lo = n->trace_lo });
    }
}

static void apply(struct sonde_figures *g)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const double now_s = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    for (size_t i = 0; i < g->note_count; i++) {
        const struct note *n = &g->notes[i];
        if (!*n->series) {
            *n->series = n->what == ROW_SERIES
                             ? make_of_error(g->model, g->errors[n->row].type)
                             : make_of_row(g->model, &g->rows[n->row], n->what);
        }
        if (*n->series) record(*n->series, n, now_s);
    }
    g->note_count = 0;
}

static void apply_state(struct sonde_figures *g, const struct sonde_front_state *state)
{
    for (size_t i = 0; i < STATE_SERIES; i++) {
        const struct sonde_label label = { state_series[i].label, state_series[i].value };
        if (!g->state[i]) {
            g->state[i] = make(g->model, &state_series[i].spec, &label, label.name ? 1 : 0);
        }
        struct sonde_model_series *s = g->state[i];
        uint64_t value;
        memcpy(&value, (const char *)state + state_series[i].offset, sizeof(value));
        if (s && s->family->type == SONDE_GAUGE) s->gauge = (double)value;
        else if (s) s->counter = value;
    }
}

static void on_tick(void *arg, const struct sonde_front_state *state)
{
    struct sonde_figures *g = arg;
    /* Readers are in: the next tick is soon enough, unless there are too many notes. */
    if (pthread_rwlock_trywrlock(&g->model->lock) != 0) {
        if (g->note_count < NOTES / 2 && state->in_flight) return;
        pthread_rwlock_wrlock(&g->model->lock);
    }
    apply(g);
    apply_state(g, state);
    pthread_rwlock_unlock(&g->model->lock);
}

/* ---- Noting ------------------------------------------------------------------------------- */

static size_t find_row(struct sonde_figures *g, enum sonde_front_route route, const char *model)
{
    if (!*model) model = "unknown";
    for (size_t i = 0; i < g->row_count; i++) {
        if (g->rows[i].route == route && strcmp(g->rows[i].model, model) == 0) return i;
    }
    if (g->row_count < ROWS) {
        struct row *row = &g->rows[g->row_count];
        row->route = route;
        memcpy(row->model, model, strlen(model) + 1);
        return g->row_count++;
    }
    struct row *others = &g->rows[ROWS + (size_t)route];
    others->route = route;
    strcpy(others->model, "other");
    return ROWS + (size_t)route;
}

static size_t find_error(struct sonde_figures *g, const char *type)
{
    for (size_t i = 0; i < g->error_count; i++) {
        if (strcmp(g->errors[i].type, type) == 0) return i;
    }
    if (g->error_count == ERRORS) {
        strcpy(g->errors[ERRORS].type, "other");
        return ERRORS;
    }
    memcpy(g->errors[g->error_count].type, type, strlen(type) + 1);
    return g->error_count++;
}

static struct note *new_note(struct sonde_figures *g)
{
    if (g->note_count == NOTES) {
        pthread_rwlock_wrlock(&g->model->lock);
        apply(g);
        pthread_rwlock_unlock(&g->model->lock);
    }
    return &g->notes[g->note_count++];
}

static void note(struct sonde_figures *g, size_t row, unsigned what, uint64_t value,
                 const struct sonde_front_request *traced)
{
    *new_note(g) = (struct note){ &g->rows[row].series[what], (uint16_t)row, (uint16_t)what, value,
                                  traced ? traced->trace_hi : 0, traced ? traced->trace_lo : 0 };
}

static void note_tokens(struct sonde_figures *g, size_t row, unsigned what, int64_t tokens)
{
    if (tokens > 0) note(g, row, what, (uint64_t)tokens, NULL);
}

/* The row of a request whose model is known; found once a stream. */
static size_t row_of(struct sonde_figures *g, struct sonde_front_request *r)
{
    if (!r->user) r->user = &g->rows[find_row(g, r->route, r->model)];
    return (size_t)((struct row *)r->user - g->rows);
}

static void on_token(struct sonde_figures *g, struct sonde_front_request *r)
{
    const size_t row = row_of(g, r);
    if (r->previous_token_ns) {
        note(g, row, INTER_TOKEN, r->last_token_ns - r->previous_token_ns, NULL);
    } else {
        note(g, row, FIRST_TOKEN, r->first_token_ns - r->arrived_ns, r);
    }
}

static void on_end(struct sonde_figures *g, struct sonde_front_request *r)
{
    const size_t row = row_of(g, r);
    note(g, row, REQUESTS + r->outcome, 1, NULL);
    note(g, row, REQUEST_SECONDS + r->outcome, r->ended_ns - r->arrived_ns, r);
    note_tokens(g, row, PROMPT_TOKENS, r->usage.prompt_tokens);
    note_tokens(g, row, COMPLETION_TOKENS, r->usage.completion_tokens);
    note_tokens(g, row, CACHED_TOKENS, r->usage.cached_tokens);
    if (r->outcome != SONDE_FRONT_OK) {
        const size_t error = find_error(g, r->error);
        *new_note(g) = (struct note){ &g->errors[error].series, (uint16_t)error, ROW_SERIES, 1,
                                      0, 0 };
    }
}

static void on_event(void *arg, enum sonde_front_event event, struct sonde_front_request *r)
{
    if (event == SONDE_FRONT_TOKEN) on_token(arg, r);
    else if (event == SONDE_FRONT_ENDED) on_end(arg, r);
}

/* ---- The whole ---------------------------------------------------------------------------- */

int sonde_figures_create(struct sonde_model *m, struct sonde_figures **out)
{
    struct sonde_figures *g = sonde__calloc(1, sizeof(*g));
    if (!g) return SONDE_ENOMEM;
    g->model = m;
    /* So that rates are known from the first scrape on. */
    const struct sonde_front_state nothing = { 0 };
    on_tick(g, &nothing);
    *out = g;
    return 0;
}

void sonde_figures_destroy(struct sonde_figures *g) { sonde__free(g); }

struct sonde_front_observer sonde_figures_observer(struct sonde_figures *g)
{
    return (struct sonde_front_observer){ .event = on_event, .tick = on_tick, .arg = g };
}
