/* requests_json.c - a request as JSON, and back: see requests.h. What is read may be anything, so
 * every figure is checked for what it can be, and what a bar or a table would stumble over is left
 * out. */
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/json.h"
#include "present/report/requests.h"
#include "sonde/sonde.h"

#define SECONDS_MAX 1e9
#define UNIX_MAX_S 9e9 /* fits in nanoseconds */

/* ---- Writing --------------------------------------------------------------------------------- */

/* NULL for what is not known. */
static const char *requests_json_known(const char *text) { return *text ? text : NULL; }

static void requests_json_put_count(struct sonde_buf *out, const char *key, uint64_t n)
{
    if (n) sonde_json_u64(out, key, n);
    else sonde_json_str(out, key, NULL);
}

static void requests_json_put_phases(struct sonde_buf *out, const struct sonde_infer_request *r)
{
    sonde_json_key_open(out, "phases", '{');
    for (uint32_t k = 0; k < SONDE_PHASE_COUNT; k++) {
        if (!r->phase_count[k]) continue;
        sonde_json_key_open(out, sonde_phase_title(k), '{');
        sonde_json_num(out, "seconds", r->phase_s[k]);
        sonde_json_u64(out, "count", r->phase_count[k]);
        if (k == SONDE_PHASE_QUEUE) {
            sonde_json_bool(out, "derived", (r->flags & SONDE_INFER_QUEUE_DERIVED) != 0);
        }
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
}

static void put_gaps(struct sonde_buf *out, const struct sonde_infer_request *r)
{
    if (!r->itl_count) {
        sonde_json_str(out, "itl", NULL);
        return;
    }
    sonde_json_key_open(out, "itl", '{');
    sonde_json_u64(out, "count", r->itl_count);
    sonde_json_num(out, "mean_s", r->itl_s);
    sonde_json_num(out, "min_s", r->itl_min_s);
    sonde_json_num(out, "p50_s", r->itl_p50_s);
    sonde_json_num(out, "p95_s", r->itl_p95_s);
    sonde_json_num(out, "p99_s", r->itl_p99_s);
    sonde_json_num(out, "max_s", r->itl_max_s);
    sonde_json_close(out, '}');
}

static void requests_json_put_timeline(struct sonde_buf *out, const struct sonde_infer_request *r)
{
    if (!r->item_count) {
        sonde_json_str(out, "timeline", NULL);
        return;
    }
    sonde_json_key_open(out, "timeline", '[');
    for (uint32_t i = 0; i < r->item_count; i++) {
        const struct sonde_infer_item *item = &r->items[i];
        const uint64_t start_ns =
            item->start_ns > r->arrived_ns ? item->start_ns - r->arrived_ns : 0;
        sonde_json_open(out, '{');
        sonde_json_str(out, "name", item->name);
        sonde_json_ns(out, "start_s", start_ns);
        sonde_json_ns(out, "end_s", start_ns + (item->end_ns - item->start_ns));
        if (item->kind != SONDE_PHASE_NONE) sonde_json_ns(out, "busy_s", item->busy_ns);
        sonde_json_u64(out, "tokens", item->tokens);
        if (item->count > 1) sonde_json_u64(out, "count", item->count);
        if (item->batch) sonde_json_u64(out, "batch", item->batch);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

static void requests_json_put_who(struct sonde_buf *out, const struct sonde_infer_request *r)
{
    const int running = (r->flags & SONDE_INFER_RUNNING) != 0;
    sonde_json_id(out, "id", &r->id, 1);
    sonde_json_str(out, "own_id", requests_json_known(r->own_id));
    sonde_json_str(out, "state", running ? "running" : "done");
    sonde_json_str(out, "outcome", running ? NULL : sonde_infer_outcome_name(r->outcome));
    sonde_json_str(out, "error", requests_json_known(r->error));
    sonde_json_str(out, "invalid", requests_json_known(r->invalid));
    if (r->flags & SONDE_INFER_INCOMPLETE) sonde_json_bool(out, "incomplete", 1);
    sonde_json_str(out, "source", sonde_infer_source_name(r->source));
    requests_json_put_count(out, "pid", r->pid);
    sonde_json_str(out, "program", requests_json_known(r->program));
    sonde_json_str(out, "model", requests_json_known(r->model));
    sonde_json_str(out, "route", requests_json_known(r->route));
    sonde_json_str(out, "backend", requests_json_known(r->backend));
    if (r->trace_hi || r->trace_lo) {
        sonde_json_id(out, "trace_id", (const uint64_t[]){ r->trace_hi, r->trace_lo }, 2);
    } else {
        sonde_json_str(out, "trace_id", NULL);
    }
    sonde_json_ns(out, "arrived", r->arrived_ns);
}

void sonde_request_json(struct sonde_buf *out, const struct sonde_infer_request *r)
{
    sonde_json_open(out, '{');
    requests_json_put_who(out, r);
    sonde_json_num(out, "total_s", r->total_s);
    sonde_json_num(out, "ttft_s", sonde_infer_has_ttft(r) ? r->ttft_s : NAN);
    requests_json_put_count(out, "tokens_max", r->tokens_max);
    sonde_json_u64(out, "tokens_in", r->tokens_in);
    sonde_json_u64(out, "tokens_reused", r->tokens_reused);
    if (r->prefix_known) sonde_json_u64(out, "tokens_shared", r->tokens_shared);
    sonde_json_u64(out, "tokens_out", r->tokens_out);
    sonde_json_num(out, "tokens_per_s", r->tokens_per_s);
    sonde_json_num(out, "hit_ratio", r->tokens_in ? r->hit_ratio : NAN);
    sonde_json_num(out, "efficiency", r->efficiency);
    requests_json_put_count(out, "memory_bytes", r->memory_bytes);
    sonde_json_u64(out, "batches", r->batches);
    sonde_json_str(out, "slo", r->flags & SONDE_INFER_SLO_MET      ? "met"
                               : r->flags & SONDE_INFER_SLO_MISSED ? "missed" : NULL);
    sonde_json_bool(out, "profile", (r->flags & SONDE_INFER_PROFILE) != 0);
    requests_json_put_phases(out, r);
    put_gaps(out, r);
    sonde_json_key_open(out, "attributes", '{');
    for (uint32_t i = 0; i < r->attr_count; i++) {
        sonde_json_str(out, r->attrs[i].key, r->attrs[i].value);
    }
    sonde_json_close(out, '}');
    requests_json_put_timeline(out, r);
    sonde_json_close(out, '}');
}

void sonde_infer_memory_json(struct sonde_buf *out, const struct sonde_infer_model *m)
{
    sonde_json_key_open(out, "memory", '{');
    for (uint32_t i = 0; i < m->memory_count; i++) {
        sonde_json_key_open(out, m->memory[i].kind, '{');
        sonde_json_u64(out, "bytes", m->memory[i].bytes);
        sonde_json_u64(out, "peak", m->memory[i].peak);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
}

static double requests_json_mean(uint64_t sum, uint64_t count)
{
    return count ? (double)sum / (double)count : NAN;
}

void sonde_infer_model_json(struct sonde_buf *out, const struct sonde_infer_model *m)
{
    if (m->kv_total) {
        sonde_json_key_open(out, "kv", '{');
        sonde_json_u64(out, "used", m->kv_used);
        sonde_json_u64(out, "total", m->kv_total);
        sonde_json_u64(out, "peak", m->kv_peak);
        sonde_json_close(out, '}');
    } else {
        sonde_json_str(out, "kv", NULL);
    }
    sonde_infer_memory_json(out, m);
    sonde_json_u64(out, "memory_peak_bytes", m->memory_peak);
    sonde_json_num(out, "load_s", m->load_s > 0 ? m->load_s : NAN);
    sonde_json_u64(out, "batches", m->batches);
    sonde_json_num(out, "batch_requests_mean", requests_json_mean(m->batch_requests, m->batches));
    sonde_json_num(out, "batch_tokens_mean", requests_json_mean(m->batch_tokens, m->batches));
}

/* ---- Reading --------------------------------------------------------------------------------- */

static const char *requests_json_text_of(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static double real_of(const json_t *o, const char *key, double max)
{
    const json_t *v = json_object_get(o, key);
    const double d = json_is_number(v) ? json_number_value(v) : 0;
    return d >= 0 && d <= max ? d : 0;
}

static uint64_t requests_json_count_of(const json_t *o, const char *key)
{
    const json_int_t v = json_integer_value(json_object_get(o, key));
    return v > 0 ? (uint64_t)v : 0;
}

static uint32_t u32_of(const json_t *o, const char *key)
{
    const uint64_t v = requests_json_count_of(o, key);
    return v <= UINT32_MAX ? (uint32_t)v : 0;
}

static uint64_t requests_json_ns_of(double seconds) { return (uint64_t)llround(seconds * 1e9); }

static void read_phases(const json_t *o, struct sonde_infer_request *r)
{
    for (uint32_t k = 0; k < SONDE_PHASE_COUNT; k++) {
        const json_t *phase = json_object_get(o, sonde_phase_title(k));
        r->phase_s[k] = real_of(phase, "seconds", SECONDS_MAX);
        r->phase_count[k] = requests_json_count_of(phase, "count");
    }
    if (json_is_true(json_object_get(json_object_get(o, "queue"), "derived"))) {
        r->flags |= SONDE_INFER_QUEUE_DERIVED;
    }
}

static void read_gaps(const json_t *o, struct sonde_infer_request *r)
{
    r->itl_count = requests_json_count_of(o, "count");
    r->itl_s = real_of(o, "mean_s", SECONDS_MAX);
    r->itl_min_s = real_of(o, "min_s", SECONDS_MAX);
    r->itl_p50_s = real_of(o, "p50_s", SECONDS_MAX);
    r->itl_p95_s = real_of(o, "p95_s", SECONDS_MAX);
    r->itl_p99_s = real_of(o, "p99_s", SECONDS_MAX);
    r->itl_max_s = real_of(o, "max_s", SECONDS_MAX);
}

static uint32_t requests_json_kind_of(const char *name)
{
    for (uint32_t k = 1; k < SONDE_PHASE_COUNT; k++) {
        if (!strcmp(name, sonde_phase_title(k))) return k;
    }
    return SONDE_PHASE_NAMED;
}

static int read_timeline(const json_t *array, struct sonde_infer_request *r)
{
    const size_t n = json_array_size(array);
    if (!n) return 0;
    r->items = sonde__calloc(n < SONDE_INFER_ITEMS_MAX ? n : SONDE_INFER_ITEMS_MAX,
                             sizeof(*r->items));
    if (!r->items) return SONDE_ENOMEM;
    for (size_t i = 0; i < n && r->item_count < SONDE_INFER_ITEMS_MAX; i++) {
        const json_t *o = json_array_get(array, i);
        const double start_s = real_of(o, "start_s", SECONDS_MAX);
        const double end_s = real_of(o, "end_s", SECONDS_MAX);
        const uint32_t count = u32_of(o, "count");
        const int phase = json_object_get(o, "busy_s") != NULL;
        r->items[r->item_count++] = (struct sonde_infer_item){
            .start_ns = r->arrived_ns + requests_json_ns_of(start_s),
            .end_ns = r->arrived_ns + requests_json_ns_of(end_s > start_s ? end_s : start_s),
            .busy_ns = requests_json_ns_of(real_of(o, "busy_s", SECONDS_MAX)),
            .tokens = requests_json_count_of(o, "tokens"),
            .name = requests_json_text_of(o, "name"),
            .kind =
                phase ? requests_json_kind_of(requests_json_text_of(o, "name")) : SONDE_PHASE_NONE,
            .count = count ? count : 1,
            .batch = u32_of(o, "batch")
        };
    }
    return 0;
}

static int read_attributes(const json_t *o, struct sonde_infer_request *r)
{
    const char *key;
    json_t *value;
    if (!json_object_size(o)) return 0;
    r->attrs = sonde__calloc(SONDE_INFER_ATTRS_MAX, sizeof(*r->attrs));
    if (!r->attrs) return SONDE_ENOMEM;
    json_object_foreach((json_t *)(uintptr_t)o, key, value) {
        if (r->attr_count == SONDE_INFER_ATTRS_MAX || !json_is_string(value)) continue;
        struct sonde_infer_attr *a = &r->attrs[r->attr_count++];
        a->key = key;
        snprintf(a->value, sizeof(a->value), "%s", json_string_value(value));
    }
    return 0;
}

static void read_who(const json_t *o, struct sonde_infer_request *r)
{
    const int outcome = sonde_infer_outcome_find(requests_json_text_of(o, "outcome"));
    const int source = sonde_infer_source_find(requests_json_text_of(o, "source"));
    const char *id = requests_json_text_of(o, "id"), *trace = requests_json_text_of(o, "trace_id"),
               *slo = requests_json_text_of(o, "slo");
    *r = (struct sonde_infer_request){
        .pid = u32_of(o, "pid"), .source = source < 0 ? 0 : (uint32_t)source,
        .outcome = outcome < 0 ? SONDE_OK : (uint32_t)outcome,
        .program = requests_json_text_of(o, "program"), .model = requests_json_text_of(o, "model"),
        .route = requests_json_text_of(o, "route"), .backend = requests_json_text_of(o, "backend"),
        .error = requests_json_text_of(o, "error"), .invalid = requests_json_text_of(o, "invalid"),
        .arrived_ns = requests_json_ns_of(real_of(o, "arrived", UNIX_MAX_S)),
    };
    if (strlen(id) == 16) sscanf(id, "%16" SCNx64, &r->id);
    if (strlen(trace) == 32) {
        sscanf(trace, "%16" SCNx64 "%16" SCNx64, &r->trace_hi, &r->trace_lo);
    }
    snprintf(r->own_id, sizeof(r->own_id), "%s", requests_json_text_of(o, "own_id"));
    if (!strcmp(requests_json_text_of(o, "state"), "running")) r->flags |= SONDE_INFER_RUNNING;
    if (json_is_true(json_object_get(o, "incomplete"))) r->flags |= SONDE_INFER_INCOMPLETE;
    if (json_is_true(json_object_get(o, "profile"))) r->flags |= SONDE_INFER_PROFILE;
    if (!strcmp(slo, "met")) r->flags |= SONDE_INFER_SLO_MET;
    if (!strcmp(slo, "missed")) r->flags |= SONDE_INFER_SLO_MISSED;
}

static int read_request(const json_t *o, struct sonde_infer_request *r)
{
    read_who(o, r);
    r->total_s = real_of(o, "total_s", SECONDS_MAX);
    r->ttft_s = real_of(o, "ttft_s", SECONDS_MAX);
    r->tokens_max = requests_json_count_of(o, "tokens_max");
    r->tokens_in = requests_json_count_of(o, "tokens_in");
    r->tokens_reused = requests_json_count_of(o, "tokens_reused");
    r->tokens_out = requests_json_count_of(o, "tokens_out");
    r->tokens_per_s = real_of(o, "tokens_per_s", 1e18);
    r->hit_ratio = real_of(o, "hit_ratio", 1);
    r->efficiency = real_of(o, "efficiency", 1e18);
    r->memory_bytes = requests_json_count_of(o, "memory_bytes");
    r->batches = requests_json_count_of(o, "batches");
    read_phases(json_object_get(o, "phases"), r);
    read_gaps(json_object_get(o, "itl"), r);
    const int rc = read_timeline(json_object_get(o, "timeline"), r);
    return rc ? rc : read_attributes(json_object_get(o, "attributes"), r);
}

static int read_list(const json_t *array, struct sonde_requests *out)
{
    const size_t n = json_array_size(array);
    out->list = sonde__calloc(n + 1, sizeof(*out->list));
    if (!out->list) return SONDE_ENOMEM;
    for (size_t i = 0; i < n && i < SONDE_REQUESTS_MAX; i++) {
        const int rc = read_request(json_array_get(array, i), &out->list[out->count++]);
        if (rc) return rc;
    }
    return 0;
}

int sonde_requests_read(const char *text, size_t len, struct sonde_requests *out,
                        struct sonde_err *err)
{
    json_error_t why;
    struct sonde_requests r = { .json = json_loadb(text, len, 0, &why) };
    if (!r.json) {
        return sonde_err_set(err, SONDE_EFORMAT,
                             "the answer about requests is not JSON: %s (line %d)", why.text,
                             why.line);
    }
    const json_t *array = json_object_get(r.json, "requests");
    json_t *alone = NULL;
    if (!array && json_is_string(json_object_get(r.json, "id"))) {
        alone = json_pack("[O]", r.json);
        array = alone;
    }
    if (!json_is_array(array)) {
        json_decref(r.json);
        return sonde_err_set(err, SONDE_EFORMAT,
                             "the answer has no list \"requests\": is that a sonde agent?");
    }
    const int rc = read_list(array, &r);
    json_decref(alone);
    r.time_s = real_of(r.json, "time", UNIX_MAX_S);
    r.total = (size_t)requests_json_count_of(r.json, "total");
    if (r.total < r.count) r.total = r.count;
    if (rc) {
        sonde_requests_release(&r);
        return sonde_err_set(err, rc, "out of memory");
    }
    *out = r;
    return 0;
}

void sonde_requests_release(struct sonde_requests *r)
{
    for (size_t i = 0; i < r->count; i++) sonde_infer_request_release(&r->list[i]);
    sonde__free(r->list);
    json_decref(r->json);
    *r = (struct sonde_requests){ 0 };
}
