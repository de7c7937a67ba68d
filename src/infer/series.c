/* series.c - the series of inference: tables of families and of slots.
 *
 * A slot is one series of a group (process, model, route) or of a model: a family, perhaps a label
 * of its own, and perhaps a series with the name that vLLM's users know. Series are made with their
 * first value, so that an engine that tells little has few.
 *
 * Names: gen_ai_* are those of OpenTelemetry's semantic conventions as Prometheus writes them, with
 * their labels and the bucket bounds they advise; sonde_infer_* is the rest. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "infer/private.h"
#include "base/alloc.h"
#include "base/array.h"

/* ---- Families ------------------------------------------------------------------------------- */

static const double duration_bounds[] = { 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64,
                                          1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92 };
static const double ttft_bounds[] = { 0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,
                                      0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0 };
static const double tpot_bounds[] = { 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,
                                      0.3, 0.4, 0.5, 0.75, 1.0, 2.5 };
static const double usage_bounds[] = { 1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144,
                                       1048576, 4194304, 16777216, 67108864 };

enum infer_series_style { OTEL, PLAIN }; /* of labels */

enum family {
    F_NONE, /* what a row does not say is no family, and not the first of them */
    F_DURATION, F_TTFT, F_TPOT, F_USAGE, F_ITL, F_PHASE, F_REQUESTS, F_ERRORS, F_TOKENS, F_SLO,
    F_SLO_MISSED, F_RUNNING, F_WAITING, F_BATCH_REQUESTS, F_BATCH_TOKENS, F_COMPUTED, F_BUSY,
    F_RATE, F_HIT_RATIO, F_KV_RATIO, F_KV_CELLS, F_MEMORY, F_MEMORY_PEAK, F_LOAD, F_LOADS, F_INFO,
    F_INVALID, F_INVALID_REQUESTS, FAMILY_COUNT
};

#define HIST(n, h, u, k, s, b)                                                                 \
    { .name = n, .help = h, .unit = u, .source = "inference", .type = SONDE_HISTOGRAM,         \
      .kind = k, .scale = s, .bounds = b, .bound_count = SONDE_COUNT(b) }
#define PLAIN_HIST(n, h, u, k, s)                                                              \
    { .name = n, .help = h, .unit = u, .source = "inference", .type = SONDE_HISTOGRAM,         \
      .kind = k, .scale = s }
#define COUNT(n, h, u, s)                                                                      \
    { .name = n, .help = h, .unit = u, .source = "inference", .type = SONDE_COUNTER,           \
      .kind = SONDE_KIND_COUNTER, .scale = s }
#define GAUGE(n, h, u, k)                                                                      \
    { .name = n, .help = h, .unit = u, .source = "inference", .type = SONDE_GAUGE, .kind = k }

static const struct family_row {
    enum infer_series_style style;
    struct sonde_model_family_spec spec;
} families[FAMILY_COUNT] = {
    [F_DURATION] = { OTEL, HIST("gen_ai_server_request_duration_seconds",
        "From a request's arrival to its end.", "seconds", SONDE_KIND_TIME, 1e-9,
        duration_bounds) },
    [F_TTFT] = { OTEL, HIST("gen_ai_server_time_to_first_token_seconds",
        "From a request's arrival to its first token.", "seconds", SONDE_KIND_TIME, 1e-9,
        ttft_bounds) },
    [F_TPOT] = { OTEL, HIST("gen_ai_server_time_per_output_token_seconds",
        "Mean time between the tokens of a request, after the first.", "seconds",
        SONDE_KIND_TIME, 1e-9, tpot_bounds) },
    [F_USAGE] = { OTEL, HIST("gen_ai_client_token_usage",
        "Tokens of a request: of its prompt, and of its output.", NULL, SONDE_KIND_THROUGHPUT, 1,
        usage_bounds) },
    [F_ITL] = { PLAIN, HIST("sonde_infer_inter_token_seconds",
        "Time between one token of a request and the next.", "seconds", SONDE_KIND_TIME, 1e-9,
        tpot_bounds) },
    [F_PHASE] = { PLAIN, PLAIN_HIST("sonde_infer_phase_seconds",
        "Time a request spent in a phase, in all; batches divided by tokens.", "seconds",
        SONDE_KIND_TIME, 1e-9) },
    [F_REQUESTS] = { PLAIN, COUNT("sonde_infer_requests_total",
        "Requests that ended, by outcome.", NULL, 1) },
    [F_ERRORS] = { PLAIN, COUNT("sonde_infer_errors_total",
        "Requests that failed, by type of error.", NULL, 1) },
    [F_TOKENS] = { PLAIN, COUNT("sonde_infer_tokens_total",
        "Tokens of prompts (input), of those reused from a cache, and generated (output).", NULL,
        1) },
    [F_SLO] = { PLAIN, COUNT("sonde_infer_slo_requests_total",
        "Requests that met all objectives of the settings, or missed one.", NULL, 1) },
    [F_SLO_MISSED] = { PLAIN, COUNT("sonde_infer_slo_missed_total",
        "Requests that missed an objective, by which.", NULL, 1) },
    [F_RUNNING] = { PLAIN, GAUGE("sonde_infer_requests_running",
        "Requests that are being served.", NULL, SONDE_KIND_CUSTOM) },
    [F_WAITING] = { PLAIN, GAUGE("sonde_infer_requests_waiting",
        "Requests that wait to be served.", NULL, SONDE_KIND_CUSTOM) },
    [F_BATCH_REQUESTS] = { PLAIN, PLAIN_HIST("sonde_infer_batch_requests",
        "Requests served by one forward pass.", NULL, SONDE_KIND_CUSTOM, 1) },
    [F_BATCH_TOKENS] = { PLAIN, PLAIN_HIST("sonde_infer_batch_tokens",
        "Tokens computed by one forward pass.", NULL, SONDE_KIND_CUSTOM, 1) },
    [F_COMPUTED] = { PLAIN, COUNT("sonde_infer_computed_tokens_total",
        "Tokens computed by forward passes.", NULL, 1) },
    [F_BUSY] = { PLAIN, COUNT("sonde_infer_compute_seconds_total",
        "Time of forward passes, each counted once however many requests it served.", "seconds",
        1e-9) },
    [F_RATE] = { PLAIN, GAUGE("sonde_infer_tokens_per_second",
        "Tokens a second of the machine in all: computed for prompts (prefill) and outputs "
        "(decode), and given out (output).", NULL, SONDE_KIND_THROUGHPUT) },
    [F_HIT_RATIO] = { PLAIN, GAUGE("sonde_infer_prefix_hit_ratio",
        "Share of all tokens of prompts that were reused from a cache.", "ratio",
        SONDE_KIND_RATIO) },
    [F_KV_RATIO] = { PLAIN, GAUGE("sonde_infer_kv_used_ratio", "Share of KV cells in use.",
        "ratio", SONDE_KIND_RATIO) },
    [F_KV_CELLS] = { PLAIN, GAUGE("sonde_infer_kv_cells", "KV cells in use, and in all.", NULL,
        SONDE_KIND_MEMORY) },
    [F_MEMORY] = { PLAIN, GAUGE("sonde_infer_memory_bytes",
        "Memory in use for a model, by purpose.", "bytes", SONDE_KIND_MEMORY) },
    [F_MEMORY_PEAK] = { PLAIN, GAUGE("sonde_infer_memory_peak_bytes",
        "Most memory that was in use for a model.", "bytes", SONDE_KIND_MEMORY) },
    [F_LOAD] = { PLAIN, GAUGE("sonde_infer_model_load_seconds",
        "How long it took to load the model, last time.", "seconds", SONDE_KIND_TIME) },
    [F_LOADS] = { PLAIN, COUNT("sonde_infer_model_loads_total", "Models loaded, by outcome.",
        NULL, 1) },
    [F_INFO] = { PLAIN, GAUGE("sonde_infer_model_info", "What a model runs on.", NULL,
        SONDE_KIND_CUSTOM) },
    [F_INVALID] = { PLAIN, COUNT("sonde_infer_invalid_events_total",
        "Inference events that were not used, or not as they were, by reason.", NULL, 1) },
    [F_INVALID_REQUESTS] = { PLAIN, COUNT("sonde_infer_invalid_requests_total",
        "Requests whose figures cannot be, by field; they are part of no statistics.", NULL, 1) },
};

/* ---- Slots ---------------------------------------------------------------------------------- */

struct slot_row {
    enum family family;        /* F_NONE: the alias only */
    const char *label, *value; /* NULL = none */
    const char *alias[INFER_ALIASES]; /* the first ones; of several slots with the same one, it is
                                  the sum */
    enum family like;          /* with F_NONE: what its aliases are … */
    const char *help;          /* … and what they mean; NULL = as what they are like */
};

static const struct slot_row group_slots[SONDE_INFER_GROUP_SLOT_COUNT] = {
    [SONDE_INFER_G_DURATION] = { .family = F_DURATION, NULL, NULL,
                                 { "vllm:e2e_request_latency_seconds",
                                   "request_duration_seconds" } },
    [SONDE_INFER_G_TTFT] = { .family = F_TTFT, NULL, NULL, { "vllm:time_to_first_token_seconds" } },
    [SONDE_INFER_G_TPOT] = { .family = F_TPOT, NULL, NULL,
                             { "vllm:request_time_per_output_token_seconds" } },
    [SONDE_INFER_G_ITL] = { .family = F_ITL, NULL, NULL, { "vllm:inter_token_latency_seconds" } },
    [SONDE_INFER_G_USAGE_IN] = { .family = F_USAGE, "gen_ai_token_type", "input" },
    [SONDE_INFER_G_USAGE_OUT] = { .family = F_USAGE, "gen_ai_token_type", "output" },
    [SONDE_INFER_G_PHASE_QUEUE] = { .family = F_PHASE, "phase", "queue",
                                    { "vllm:request_queue_time_seconds" } },
    [SONDE_INFER_G_PHASE_ENCODE] = { .family = F_PHASE, "phase", "encode" },
    [SONDE_INFER_G_PHASE_PREFILL] = { .family = F_PHASE, "phase", "prefill",
                                      { "vllm:request_prefill_time_seconds" } },
    [SONDE_INFER_G_PHASE_DECODE] = { .family = F_PHASE, "phase", "decode",
                                     { "vllm:request_decode_time_seconds" } },
    [SONDE_INFER_G_PHASE_SAMPLE] = { .family = F_PHASE, "phase", "sample" },
    [SONDE_INFER_G_PHASE_DETOKENIZE] = { .family = F_PHASE, "phase", "detokenize" },
    [SONDE_INFER_G_OK] = { .family = F_REQUESTS, "outcome", "ok", { "requests_total" } },
    [SONDE_INFER_G_ERROR] = { .family = F_REQUESTS, "outcome", "error", { "requests_total" } },
    [SONDE_INFER_G_CANCELLED] = { .family = F_REQUESTS, "outcome", "cancelled",
                                  { "requests_total" } },
    [SONDE_INFER_G_TIMEOUT] = { .family = F_REQUESTS, "outcome", "timeout", { "requests_total" } },
    [SONDE_INFER_G_LOST] = { .family = F_REQUESTS, "outcome", "lost", { "requests_total" } },
    [SONDE_INFER_G_TOKENS_IN] = { .family = F_TOKENS, "type", "input",
                                  { "vllm:prompt_tokens_total" } },
    [SONDE_INFER_G_TOKENS_REUSED] = { .family = F_TOKENS, "type", "reused",
                                      { "llamacpp:prompt_tokens_cached_total" } },
    [SONDE_INFER_G_TOKENS_OUT] = { .family = F_TOKENS, "type", "output",
                                   { "vllm:generation_tokens_total" } },
    [SONDE_INFER_G_PREFIX_QUERIES] = { .family = F_NONE, NULL, NULL,
                                       { "vllm:prefix_cache_queries_total" }, F_TOKENS },
    [SONDE_INFER_G_PREFIX_HITS] = { .family = F_NONE, NULL, NULL,
                                    { "vllm:prefix_cache_hits_total" }, F_TOKENS },
    [SONDE_INFER_G_SLO_MET] = { .family = F_SLO, "result", "met" },
    [SONDE_INFER_G_SLO_MISSED] = { .family = F_SLO, "result", "missed" },
    [SONDE_INFER_G_SLO_TTFT] = { .family = F_SLO_MISSED, "objective", "ttft" },
    [SONDE_INFER_G_SLO_ITL] = { .family = F_SLO_MISSED, "objective", "itl" },
    [SONDE_INFER_G_SLO_TOTAL] = { .family = F_SLO_MISSED, "objective", "total" },
};

static const struct slot_row model_slots[INFER_MODEL_SLOT_COUNT] = {
    [INFER_M_RUNNING] = { .family = F_RUNNING, NULL, NULL,
                          { "vllm:num_requests_running", "llamacpp:requests_processing",
                            "active_requests" } },
    [INFER_M_WAITING] = { .family = F_WAITING, NULL, NULL,
                          { "vllm:num_requests_waiting", "llamacpp:requests_deferred" } },
    [INFER_M_BATCH_REQUESTS] = { .family = F_BATCH_REQUESTS, NULL, NULL },
    [INFER_M_BATCH_TOKENS] = { .family = F_BATCH_TOKENS, NULL, NULL,
                               { "vllm:iteration_tokens_total" } },
    [INFER_M_PREFILL_TOKENS] = { .family = F_COMPUTED, "phase", "prefill" },
    [INFER_M_DECODE_TOKENS] = { .family = F_COMPUTED, "phase", "decode" },
    [INFER_M_PREFILL_SECONDS] = { .family = F_BUSY, "phase", "prefill",
                                  { "llamacpp:prompt_seconds_total" } },
    [INFER_M_DECODE_SECONDS] = { .family = F_BUSY, "phase", "decode" },
    [INFER_M_PREFILL_RATE] = { .family = F_RATE, "type", "prefill" },
    [INFER_M_DECODE_RATE] = { .family = F_RATE, "type", "decode" },
    [INFER_M_OUTPUT_RATE] = { .family = F_RATE, "type", "output", { "tokens_per_second" } },
    [INFER_M_HIT_RATIO] = { .family = F_HIT_RATIO, NULL, NULL },
    [INFER_M_KV_RATIO] = { .family = F_KV_RATIO, NULL, NULL,
                           { "vllm:kv_cache_usage_perc", "llamacpp:kv_cache_usage_ratio" } },
    [INFER_M_KV_USED] = { .family = F_KV_CELLS, "state", "used" },
    [INFER_M_KV_TOTAL] = { .family = F_KV_CELLS, "state", "all" },
    [INFER_M_MEMORY_PEAK] = { .family = F_MEMORY_PEAK, NULL, NULL },
    [INFER_M_LOAD_SECONDS] = { .family = F_LOAD, NULL, NULL },
    [INFER_M_LOAD_OK] = { .family = F_LOADS, "outcome", "ok" },
    [INFER_M_LOAD_FAILED] = { .family = F_LOADS, "outcome", "error" },
    [INFER_M_MEMORY] = { .family = F_NONE, NULL, NULL, { "memory_usage_bytes" }, F_MEMORY_PEAK,
                         "Memory in use for a model." },
    [INFER_M_PROMPT_TOKENS] = { .family = F_NONE, NULL, NULL, { "llamacpp:prompt_tokens_total" },
                                F_TOKENS, "Tokens of prompts that were computed, without those "
                                "reused from a cache." },
    [INFER_M_PROMPT_AVERAGE] = { .family = F_NONE, NULL, NULL,
                                 { "llamacpp:prompt_tokens_seconds" }, F_RATE,
                                 "prompt_tokens_total by prompt_seconds_total." },
    [INFER_M_PREDICTED_TOKENS] = { .family = F_NONE, NULL, NULL,
                                   { "llamacpp:tokens_predicted_total" }, F_TOKENS,
                                   "Tokens generated." },
    [INFER_M_PREDICTED_SECONDS] = { .family = F_NONE, NULL, NULL,
                                    { "llamacpp:tokens_predicted_seconds_total" }, F_BUSY,
                                    "From the first token of a request to its last, in all." },
    [INFER_M_PREDICTED_AVERAGE] = { .family = F_NONE, NULL, NULL,
                                    { "llamacpp:predicted_tokens_seconds" }, F_RATE,
                                    "tokens_predicted_total by tokens_predicted_seconds_total." },
    [INFER_M_PASSES] = { .family = F_NONE, NULL, NULL, { "llamacpp:n_decode_total" }, F_COMPUTED,
                         "Forward passes." },
    [INFER_M_PASS_REQUESTS] = { .family = F_NONE, NULL, NULL,
                                { "llamacpp:n_busy_slots_per_decode" }, F_RUNNING,
                                "Mean number of requests served by a forward pass." },
};

/* ---- Labels --------------------------------------------------------------------------------- */

/* OpenTelemetry's word for what a route does. */
static const char *infer_series_operation(const char *route)
{
    if (strstr(route, "chat") || strstr(route, "responses") || strstr(route, "messages")) {
        return "chat";
    }
    return strstr(route, "embed") ? "embeddings" : "text_completion";
}

struct whose { struct sonde_model_process *process; uint32_t source; const char *model, *route; };

enum { LABELS = 8 };

static void infer_series_label(struct sonde_label *l, size_t *n, const char *name,
                               const char *value)
{
    if (value && value[0]) l[(*n)++] = (struct sonde_label){ name, value };
}

static size_t infer_series_labels_of(const struct whose *w, enum infer_series_style style,
                                     struct sonde_label l[LABELS])
{
    size_t n = 0;
    if (style == OTEL) {
        infer_series_label(l, &n, "gen_ai_operation_name", infer_series_operation(w->route));
        infer_series_label(l, &n, "gen_ai_provider_name", w->process ? w->process->program : NULL);
        infer_series_label(l, &n, "gen_ai_request_model", w->model);
        infer_series_label(l, &n, "http_route", w->route);
    } else {
        infer_series_label(l, &n, "model", w->model);
        infer_series_label(l, &n, "route", w->route);
    }
    infer_series_label(l, &n, "source", sonde_infer_source_name(w->source));
    return n;
}

static struct sonde_model_series *infer_series_get(struct sonde_infer_tracker *tracker,
                                                   const struct whose *w, enum family f,
                                                   const char *name, const char *value)
{
    const struct family_row *row = &families[f];
    struct sonde_label l[LABELS];
    size_t n = infer_series_labels_of(w, row->style, l);
    infer_series_label(l, &n, name, value);
    return sonde_model_kept_series(tracker->m, &row->spec, w->process, l, n);
}

/* With the type, unit and buckets of what it stands for. */
static struct sonde_model_series *alias_series(struct sonde_infer_tracker *tracker,
                                               const struct whose *w, const struct slot_row *row,
                                               const char *name)
{
    const enum family like = row->family != F_NONE ? row->family : row->like;
    assert(like != F_NONE);
    struct sonde_model_family_spec spec = families[like].spec;
    char help[160];
    snprintf(help, sizeof(help), "Under the name that others give it: %s",
             row->help ? row->help : spec.help);
    spec.name = name;
    spec.help = help;
    spec.unit = NULL;
    struct sonde_label l[LABELS];
    size_t n = 0;
    infer_series_label(l, &n, "model_name", w->model);
    return sonde_model_kept_series(tracker->m, &spec, w->process, l, n);
}

static void infer_series_fill(struct sonde_infer_tracker *tracker, struct infer_series *s,
                              const struct whose *w, const struct slot_row *row)
{
    if (!s->main && row->family != F_NONE) {
        s->main = infer_series_get(tracker, w, row->family, row->label, row->value);
    }
    for (uint32_t i = 0; i < INFER_ALIASES && row->alias[i] && tracker->o.aliases; i++) {
        if (!s->alias[i]) s->alias[i] = alias_series(tracker, w, row, row->alias[i]);
    }
}

static struct infer_series *group_slot(struct sonde_infer_tracker *tracker, struct infer_group *g,
                                       enum sonde_infer_group_slot slot)
{
    if (!g) return NULL;
    struct infer_series *s = &g->slot[slot];
    if (!s->main || (tracker->o.aliases && !s->alias[0])) {
        infer_series_fill(tracker, s, &(struct whose){ g->process, g->source, g->model, g->route },
                          &group_slots[slot]);
    }
    return s;
}

static struct infer_series *infer_series_model_slot(struct sonde_infer_tracker *tracker,
                                                    struct infer_model *m,
                                                    enum infer_model_slot slot)
{
    if (!m) return NULL;
    struct infer_series *s = &m->slot[slot];
    if (!s->main || (tracker->o.aliases && !s->alias[0])) {
        infer_series_fill(tracker, s,
                          &(struct whose){ m->process, m->facts.source, m->facts.model, "" },
                          &model_slots[slot]);
    }
    return s;
}

/* ---- Recording ------------------------------------------------------------------------------ */

static void infer_series_add(struct infer_series *s, uint64_t n)
{
    if (s && s->main) s->main->counter += n;
    for (uint32_t i = 0; s && i < INFER_ALIASES && s->alias[i]; i++) s->alias[i]->counter += n;
}

static void infer_series_record(struct infer_series *s, uint64_t raw, uint64_t n)
{
    if (s && s->main) sonde_model_record(s->main, raw, n);
    for (uint32_t i = 0; s && i < INFER_ALIASES && s->alias[i]; i++) {
        sonde_model_record(s->alias[i], raw, n);
    }
}

void infer_add(struct sonde_infer_tracker *tracker, struct infer_group *g,
               enum sonde_infer_group_slot s, uint64_t n)
{
    if (!tracker->muted) infer_series_add(group_slot(tracker, g, s), n);
}

void infer_record(struct sonde_infer_tracker *tracker, struct infer_group *g,
                  enum sonde_infer_group_slot s, uint64_t raw, uint64_t n)
{
    if (!tracker->muted) infer_series_record(group_slot(tracker, g, s), raw, n);
}

void infer_model_add(struct sonde_infer_tracker *tracker, struct infer_model *m,
                     enum infer_model_slot s, uint64_t n)
{
    infer_series_add(infer_series_model_slot(tracker, m, s), n);
}

void infer_model_record(struct sonde_infer_tracker *tracker, struct infer_model *m,
                        enum infer_model_slot s, uint64_t raw)
{
    infer_series_record(infer_series_model_slot(tracker, m, s), raw, 1);
}

void infer_model_set(struct sonde_infer_tracker *tracker, struct infer_model *m,
                     enum infer_model_slot slot, double value)
{
    const struct infer_series *s = infer_series_model_slot(tracker, m, slot);
    if (s && s->main) s->main->gauge = value;
    for (uint32_t i = 0; s && i < INFER_ALIASES && s->alias[i]; i++) s->alias[i]->gauge = value;
}

void infer_exemplar(struct infer_group *g, enum sonde_infer_group_slot s, uint64_t raw,
                    const struct sonde_infer_request *r, uint64_t time_ns)
{
    assert((size_t)s < SONDE_INFER_GROUP_SLOT_COUNT);
    if (!g || !g->slot[s].main || !(r->trace_hi | r->trace_lo)) return;
    const struct sonde_exemplar e = {
        .value = sonde_family_value(g->slot[s].main->family, raw), .trace_hi = r->trace_hi,
        .trace_lo = r->trace_lo, .time_s = (double)time_ns * 1e-9,
    };
    sonde_model_exemplar(g->slot[s].main, &e);
}

void infer_error(struct sonde_infer_tracker *tracker, struct infer_group *g, uint64_t duration_ns,
                 uint32_t outcome, const char *type)
{
    if (!g) return;
    const struct whose w = { g->process, g->source, g->model, g->route };
    struct sonde_model_series *s = infer_series_get(tracker, &w, F_DURATION, "error_type", type);
    if (s) sonde_model_record(s, duration_ns, 1);
    s = outcome != SONDE_CANCELLED ? infer_series_get(tracker, &w, F_ERRORS, "type", type) : NULL;
    if (s) s->counter++;
}

static struct whose of_model(const struct infer_model *m)
{
    return (struct whose){ m->process, m->facts.source, m->facts.model, "" };
}

struct sonde_model_series *infer_memory_series(struct sonde_infer_tracker *tracker,
                                               struct infer_model *m, const char *kind)
{
    const struct whose w = of_model(m);
    return infer_series_get(tracker, &w, F_MEMORY, "kind", kind);
}

struct sonde_model_series *infer_info_series(struct sonde_infer_tracker *tracker,
                                             struct infer_model *m, const char *backend)
{
    const struct whose w = of_model(m);
    return infer_series_get(tracker, &w, F_INFO, "backend", backend);
}

/* About the agent itself: of no process. */
static struct sonde_model_series *own_series(struct sonde_infer_tracker *tracker, enum family f,
                                             const char *name, const char *value)
{
    const struct sonde_label l = { name, value };
    return sonde_model_kept_series(tracker->m, &families[f].spec, NULL, &l, 1);
}

struct sonde_model_series *infer_invalid_series(struct sonde_infer_tracker *tracker,
                                                const char *reason)
{
    return own_series(tracker, F_INVALID, "reason", reason);
}

struct sonde_model_series *infer_invalid_request_series(struct sonde_infer_tracker *tracker,
                                                        const char *field)
{
    return own_series(tracker, F_INVALID_REQUESTS, "field", field);
}

/* ---- Groups and models ----------------------------------------------------------------------- */

struct infer_group *infer_group_find(struct sonde_infer_tracker *tracker,
                                     struct sonde_model_process *p, uint32_t source,
                                     const char *model, const char *route)
{
    for (size_t i = 0; i < tracker->group_count; i++) {
        struct infer_group *g = tracker->groups[i];
        if (g->process == p && g->source == source && g->model == model && g->route == route) {
            return g;
        }
    }
    /* Routes with ids in them: what does not fit is one route. */
    const char *other = infer_name(tracker, "(other)");
    if (tracker->group_count >= INFER_GROUPS_MAX / 2 && route != other) {
        return infer_group_find(tracker, p, source, model, other);
    }
    if (tracker->group_count >= INFER_GROUPS_MAX) return NULL;
    if (!tracker->groups) {
        tracker->groups = sonde__calloc(INFER_GROUPS_MAX, sizeof(tracker->groups[0]));
    }
    struct infer_group *g = tracker->groups ? sonde__calloc(1, sizeof(*g)) : NULL;
    if (!g) return NULL;
    *g = (struct infer_group){ .process = p, .source = source, .model = model, .route = route };
    return tracker->groups[tracker->group_count++] = g;
}

struct infer_model *infer_model_find(struct sonde_infer_tracker *tracker,
                                     struct sonde_model_process *p, uint32_t source,
                                     const char *model)
{
    for (size_t i = 0; i < tracker->model_count; i++) {
        struct infer_model *m = tracker->models[i];
        if (m->process == p && m->facts.source == source && m->facts.model == model) return m;
    }
    if (tracker->model_count >= INFER_MODELS_MAX) return NULL;
    if (!tracker->models) {
        tracker->models = sonde__calloc(INFER_MODELS_MAX, sizeof(tracker->models[0]));
    }
    struct infer_model *m = tracker->models ? sonde__calloc(1, sizeof(*m)) : NULL;
    if (!m) return NULL;
    m->process = p;
    m->facts = (struct sonde_infer_model){
        .pid = p ? p->pid : 0, .source = source, .model = model, .backend = "",
        .program = p ? infer_name(tracker, p->program) : "",
    };
    return tracker->models[tracker->model_count++] = m;
}

/* Masks have room. */
_Static_assert(SONDE_INFER_GROUP_SLOT_COUNT <= 64 && INFER_MODEL_SLOT_COUNT <= 64,
               "bits of a mask");

static uint64_t mask_of(const struct infer_series *slot, size_t count)
{
    uint64_t mask = 0;
    for (size_t i = 0; i < count; i++) mask |= (uint64_t)(slot[i].main || slot[i].alias[0]) << i;
    return mask;
}

uint64_t infer_group_mask(const struct infer_group *g)
{
    return mask_of(g->slot, SONDE_INFER_GROUP_SLOT_COUNT);
}

uint64_t infer_model_mask(const struct infer_model *m)
{
    return mask_of(m->slot, INFER_MODEL_SLOT_COUNT);
}

void infer_group_fill(struct sonde_infer_tracker *tracker, struct infer_group *g, uint64_t mask)
{
    for (uint32_t i = 0; i < SONDE_INFER_GROUP_SLOT_COUNT; i++) {
        if (mask >> i & 1) group_slot(tracker, g, (enum sonde_infer_group_slot)i);
    }
}

void infer_model_fill(struct sonde_infer_tracker *tracker, struct infer_model *m, uint64_t mask)
{
    for (uint32_t i = 0; i < INFER_MODEL_SLOT_COUNT; i++) {
        if (mask >> i & 1) infer_series_model_slot(tracker, m, (enum infer_model_slot)i);
    }
}

void infer_groups_reset(struct sonde_infer_tracker *tracker)
{
    for (size_t i = 0; i < tracker->group_count; i++) {
        struct infer_group *g = tracker->groups[i];
        for (size_t k = 0; k < SONDE_INFER_GROUP_SLOT_COUNT; k++) {
            struct sonde_model_series *s = g->slot[k].main;
            if (!s) continue;
            g->base[k] = s->counter;
            sonde_model_series_continue(tracker->m, s);
        }
    }
}

void infer_series_forget(struct sonde_infer_tracker *tracker, const struct sonde_model_process *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < tracker->group_count; i++) {
        if (tracker->groups[i]->process == p) sonde__free(tracker->groups[i]);
        else tracker->groups[kept++] = tracker->groups[i];
    }
    tracker->group_count = kept;
    kept = 0;
    for (size_t i = 0; i < tracker->model_count; i++) {
        struct infer_model *m = tracker->models[i];
        if (m->process == p) {
            if (tracker->part_model == m) tracker->part_model = NULL;
            tracker->totals.memory_bytes -= m->memory_now;
            sonde__free(m);
        } else {
            tracker->models[kept++] = m;
        }
    }
    tracker->model_count = kept;
}

size_t sonde_infer_group_count(const struct sonde_infer_tracker *tracker)
{
    return tracker->group_count;
}

void sonde_infer_group(const struct sonde_infer_tracker *tracker, size_t i,
                       struct sonde_infer_group_view *out)
{
    INFER_ASSERT_READ(tracker);
    assert(i < tracker->group_count);
    const struct infer_group *g = tracker->groups[i];
    *out = (struct sonde_infer_group_view){ .process = g->process, .source = g->source,
                                            .model = g->model, .route = g->route };
    for (size_t s = 0; s < SONDE_INFER_GROUP_SLOT_COUNT; s++) {
        out->series[s] = g->slot[s].main;
        if (g->slot[s].main) out->counted[s] = g->slot[s].main->counter - g->base[s];
    }
}
