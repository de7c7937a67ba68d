/* infer_watch.c - runs a command and tells, as JSON, which inference requests the agent saw in it:
 *
 *   infer_watch OUT.json CMD [ARGUMENT]...
 *
 * The command finds libsonde_preload.so, or whatever else it is to be watched by, in the
 * environment that it is started in; its segments are in SONDE_DIR. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include "infer/tracker.h"
#include "collect/collector.h"

static uint64_t span_count[SONDE_PHASE_COUNT];
static uint64_t span_ns[SONDE_PHASE_COUNT];

static void on_span(const struct sonde_model_span *span, void *arg)
{
    (void)arg;
    for (uint32_t k = 1; k < SONDE_PHASE_COUNT; k++) {
        if (strcmp(span->name, sonde_phase_name(k)) || !span->tid) continue;
        span_count[k]++;
        span_ns[k] += span->duration_ns;
    }
}

static json_t *request_json(const struct sonde_infer_request *r)
{
    json_t *items = json_array(), *phases = json_object();
    for (uint32_t i = 0; i < r->item_count; i++) {
        const struct sonde_infer_item *t = &r->items[i];
        json_array_append_new(items, json_pack("{s:s, s:I, s:I, s:I, s:i, s:i}", "name", t->name,
                                               "start_ns", (json_int_t)t->start_ns, "end_ns",
                                               (json_int_t)t->end_ns, "tokens",
                                               (json_int_t)t->tokens, "count", (int)t->count,
                                               "batch", (int)t->batch));
    }
    for (uint32_t k = 1; k < SONDE_PHASE_COUNT; k++) {
        json_object_set_new(phases, sonde_phase_name(k), json_real(r->phase_s[k]));
    }
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:I, s:I, s:o, s:o}",
        "model", r->model, "outcome", sonde_infer_outcome_name(r->outcome), "invalid",
        r->invalid, "arrived_ns", (json_int_t)r->arrived_ns, "tokens_in", (json_int_t)r->tokens_in,
        "tokens_reused", (json_int_t)r->tokens_reused, "tokens_out", (json_int_t)r->tokens_out,
        "total_s", r->total_s, "ttft_s", r->ttft_s, "itl_s", r->itl_s, "itl_max_s",
        r->itl_max_s, "hit_ratio", r->hit_ratio, "itl_count", (json_int_t)r->itl_count, "batches",
        (json_int_t)r->batches, "phase_s", phases, "items", items);
}

static json_t *model_json(const struct sonde_infer_model *f)
{
    json_t *memory = json_object();
    for (uint32_t i = 0; i < f->memory_count; i++) {
        json_object_set_new(memory, f->memory[i].kind,
                            json_pack("{s:I, s:I}", "bytes", (json_int_t)f->memory[i].bytes, "peak",
                                      (json_int_t)f->memory[i].peak));
    }
    return json_pack("{s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o}", "model", f->model,
                     "load_s", f->load_s, "load_bytes", (json_int_t)f->load_bytes, "batches",
                     (json_int_t)f->batches, "batch_tokens", (json_int_t)f->batch_tokens,
                     "prefill_tokens", (json_int_t)f->phase_tokens[SONDE_PHASE_PREFILL],
                     "decode_tokens", (json_int_t)f->phase_tokens[SONDE_PHASE_DECODE], "prefill_s",
                     f->phase_s[SONDE_PHASE_PREFILL], "decode_s", f->phase_s[SONDE_PHASE_DECODE],
                     "memory", memory);
}

static json_t *series_json(const struct sonde_model *m, const char *family)
{
    json_t *out = json_object();
    for (size_t i = 0; i < m->family_count; i++) {
        if (strcmp(m->families[i]->name, family)) continue;
        for (size_t j = 0; j < m->families[i]->series_count; j++) {
            const struct sonde_model_series *s = m->families[i]->series[j];
            json_object_set_new(out, s->labels[0].value,
                                s->family->type == SONDE_GAUGE
                                    ? json_real(s->gauge) : json_integer((json_int_t)s->counter));
        }
    }
    return out;
}

static json_t *all_json(struct sonde_model *m, const struct sonde_infer_tracker *tracker)
{
    json_t *requests = json_array(), *models = json_array(), *invalid = json_object();
    json_t *spans = json_object(), *notes = json_array();
    for (size_t i = sonde_infer_done_count(tracker); i-- > 0;) {
        json_array_append_new(requests, request_json(sonde_infer_done(tracker, i)));
    }
    for (size_t i = 0; i < sonde_infer_model_count(tracker); i++) {
        struct sonde_infer_model_view v;
        sonde_infer_model_at(tracker, i, &v);
        json_array_append_new(models, model_json(&v.facts));
    }
#define SONDE__X(name, text)                                                                       \
    json_object_set_new(                                                                           \
        invalid, #name,                                                                            \
        json_integer((json_int_t)sonde_infer_invalid(tracker, SONDE_INFER_BAD_##name)));
    SONDE_INFER_REASONS(SONDE__X)
#undef SONDE__X
    for (uint32_t k = 1; k < SONDE_PHASE_COUNT; k++) {
        json_object_set_new(spans, sonde_phase_name(k),
                            json_pack("{s:I, s:f}", "count", (json_int_t)span_count[k], "s",
                                      (double)span_ns[k] * 1e-9));
    }
    uint64_t lost = 0;
    for (size_t i = 0; i < m->process_count; i++) {
        lost += m->processes[i]->spans_lost;
        if (m->processes[i]->llama_note[0]) {
            json_array_append_new(notes, json_string(m->processes[i]->llama_note));
        }
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:I, s:o, s:o}", "requests", requests, "models",
                     models, "invalid", invalid, "spans", spans, "notes", notes, "lost",
                     (json_int_t)lost, "calls", series_json(m, "sonde_llama_calls_total"), "check",
                     series_json(m, "sonde_llama_check_ratio"));
}

int main(int argc, char **argv)
{
    const struct sonde_infer_options infer = { .done_max = 65536 };
    struct sonde_collector_options o = { .interval_s = 0.25, .agent = 1, .infer = &infer,
                                         .on_span = on_span };
    struct sonde_collector *c;
    struct sonde_err err = { "" };
    int status = 0;
    if (argc < 3) return 2;
    if (sonde_collector_create(&o, &c, &err)) {
        fprintf(stderr, "infer_watch: %s\n", err.text);
        return 1;
    }
    if (sonde_collector_start(c, &err)) return 1;
    const char *preload = getenv("INFER_WATCH_PRELOAD");
    const pid_t pid = fork();
    if (pid == 0) {
        if (preload) setenv("LD_PRELOAD", preload, 1);
        execvp(argv[2], argv + 2);
        fprintf(stderr, "infer_watch: %s: %s\n", argv[2], strerror(errno));
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    sonde_collector_stop(c);
    sonde_collector_step(c);
    struct sonde_model *m = sonde_collector_model(c);
    sonde_wrlock(&m->lock);
    sonde_infer_flush(sonde_collector_tracker(c));
    json_t *all = all_json(m, sonde_collector_tracker(c));
    sonde_rwunlock(&m->lock);
    const int failed = !all || json_dump_file(all, argv[1], JSON_INDENT(1)) != 0;
    json_decref(all);
    sonde_collector_destroy(c);
    return failed ? 1 : WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}
