/* by_model.c - what is not of one request: batches, memory, caches, loading, and what the
 * machine does in all, by process and model. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "infer/private.h"

/* A batch does not say whose model it ran: its parts, which came just before, do. Without them it
 * is the process's, if it has one only. */
static struct infer_model *model_of(struct sonde_infer_tracker *tracker,
                                    const struct infer_event *in)
{
    const struct sonde_infer_event *e = &in->e;
    if (e->model[0]) return infer_model_find(tracker, in->process, e->source, e->model);
    if (e->type == SONDE_INFER_BATCH && tracker->part_model &&
        tracker->part_begin_ns == e->begin_ns && tracker->part_time_ns == e->time_ns) {
        return tracker->part_model;
    }
    struct infer_model *only = NULL;
    for (size_t i = 0; i < tracker->model_count; i++) {
        struct infer_model *m = tracker->models[i];
        if (m->process != in->process || m->facts.source != e->source) continue;
        if (only) return infer_model_find(tracker, in->process, e->source, "");
        only = m;
    }
    return only ? only : infer_model_find(tracker, in->process, e->source, "");
}

void infer_computed(struct sonde_infer_tracker *tracker, struct infer_model *m, uint32_t kind,
                    uint64_t tokens, uint64_t ns)
{
    assert(kind < SONDE_PHASE_COUNT);
    if (!m || tracker->muted) return;
    const int prefill = kind == SONDE_PHASE_PREFILL;
    m->facts.phase_tokens[kind] += tokens;
    m->facts.phase_s[kind] += (double)ns * 1e-9;
    infer_model_add(tracker, m, prefill ? INFER_M_PREFILL_TOKENS : INFER_M_DECODE_TOKENS, tokens);
    infer_model_add(tracker, m, prefill ? INFER_M_PREFILL_SECONDS : INFER_M_DECODE_SECONDS, ns);
    if (prefill) infer_model_add(tracker, m, INFER_M_PROMPT_TOKENS, tokens);
}

void infer_on_batch(struct sonde_infer_tracker *tracker, const struct infer_event *in)
{
    const struct sonde_infer_event *e = &in->e;
    assert(e->type == SONDE_INFER_BATCH);
    const uint64_t prompt = e->batch.prompt, output = e->batch.output;
    if (e->begin_ns > e->time_ns) {
        infer_count(tracker, SONDE_INFER_BAD_negative);
        return;
    }
    if (prompt > INFER_TOKENS_MAX || output > INFER_TOKENS_MAX) {
        infer_count(tracker, SONDE_INFER_BAD_bad_value);
        return;
    }
    const uint64_t ns = e->time_ns - e->begin_ns, tokens = prompt + output;
    struct infer_model *m = model_of(tracker, in);
    if (!m || !tokens) return;
    m->facts.batches++;
    m->facts.batch_requests += e->batch.requests;
    m->facts.batch_tokens += tokens;
    infer_model_record(tracker, m, INFER_M_BATCH_REQUESTS, e->batch.requests);
    infer_model_record(tracker, m, INFER_M_BATCH_TOKENS, tokens);
    infer_model_add(tracker, m, INFER_M_PASSES, 1);
    const uint64_t prefill_ns = (uint64_t)((double)ns * (double)prompt / (double)tokens + 0.5);
    if (prompt) infer_computed(tracker, m, SONDE_PHASE_PREFILL, prompt, prefill_ns);
    if (output) infer_computed(tracker, m, SONDE_PHASE_DECODE, output, ns - prefill_ns);
}

void infer_on_phase(struct sonde_infer_tracker *tracker, const struct infer_event *in)
{
    const struct sonde_infer_event *e = &in->e;
    assert(e->type == SONDE_INFER_PHASE && e->id == 0);
    if (e->begin_ns > e->time_ns) {
        infer_count(tracker, SONDE_INFER_BAD_negative);
        return;
    }
    if (e->phase.tokens > INFER_TOKENS_MAX) {
        infer_count(tracker, SONDE_INFER_BAD_bad_value);
        return;
    }
    struct infer_model *m = model_of(tracker, in);
    if (e->phase.kind == SONDE_PHASE_PREFILL || e->phase.kind == SONDE_PHASE_DECODE) {
        infer_computed(tracker, m, e->phase.kind, e->phase.tokens, e->time_ns - e->begin_ns);
    }
}

/* ---- Memory --------------------------------------------------------------------------------- */

static struct sonde_infer_memory *memory_kind(struct sonde_infer_tracker *tracker,
                                              struct infer_model *m, const char *text)
{
    struct sonde_infer_model *f = &m->facts;
    const char *kind = infer_name(tracker, text[0] ? text : "other");
    for (uint32_t i = 0; i < f->memory_count; i++) {
        if (f->memory[i].kind == kind) return &f->memory[i];
    }
    if (f->memory_count == SONDE_INFER_MEMORY_KINDS) return NULL;
    f->memory[f->memory_count] = (struct sonde_infer_memory){ .kind = kind };
    return &f->memory[f->memory_count++];
}

/* What the process had freed before it ended may come to be known after that. */
static void set_memory(struct sonde_infer_tracker *tracker, struct infer_model *m)
{
    uint64_t now = 0;
    for (uint32_t i = 0; !m->ended && i < m->facts.memory_count; i++) {
        now += m->facts.memory[i].bytes;
    }
    tracker->totals.memory_bytes += now - m->memory_now;
    m->memory_now = now;
}

static void on_memory(struct sonde_infer_tracker *tracker, struct infer_model *m,
                      const struct sonde_infer_event *e)
{
    struct sonde_infer_memory *k = memory_kind(tracker, m, e->memory.kind);
    if (!k || e->memory.bytes > 1ull << 56) {
        infer_count(tracker, k ? SONDE_INFER_BAD_bad_value : SONDE_INFER_BAD_queue_full);
        return;
    }
    k->bytes = e->memory.bytes;
    if (k->bytes > k->peak) k->peak = k->bytes;
    set_memory(tracker, m);
    if (m->memory_now > m->facts.memory_peak) m->facts.memory_peak = m->memory_now;
    if (tracker->totals.memory_bytes > tracker->totals.memory_peak) {
        tracker->totals.memory_peak = tracker->totals.memory_bytes;
    }
    struct sonde_model_series **s = &m->memory[k - m->facts.memory];
    if (!*s) *s = infer_memory_series(tracker, m, k->kind);
    if (*s) (*s)->gauge = (double)k->bytes;
    infer_model_set(tracker, m, INFER_M_MEMORY_PEAK, (double)m->facts.memory_peak);
    infer_model_set(tracker, m, INFER_M_MEMORY, (double)m->memory_now);
}

/* ---- Others --------------------------------------------------------------------------------- */

static void on_load(struct sonde_infer_tracker *tracker, struct infer_model *m,
                    const struct sonde_infer_event *e)
{
    if (e->begin_ns > e->time_ns) {
        infer_count(tracker, SONDE_INFER_BAD_negative);
        return;
    }
    const int ok = e->load.outcome == SONDE_OK;
    infer_model_add(tracker, m, ok ? INFER_M_LOAD_OK : INFER_M_LOAD_FAILED, 1);
    if (!ok) return;
    m->facts.load_s = (double)(e->time_ns - e->begin_ns) * 1e-9;
    m->facts.loaded_ns = e->time_ns;
    m->facts.load_bytes = e->load.bytes;
    infer_model_set(tracker, m, INFER_M_LOAD_SECONDS, m->facts.load_s);
}

static void on_kv(struct sonde_infer_tracker *tracker, struct infer_model *m,
                  const struct sonde_infer_event *e)
{
    const uint64_t used = e->kv.used, total = e->kv.total;
    if (used > total || total == 0) {
        infer_count(tracker, SONDE_INFER_BAD_bad_value);
        return;
    }
    m->facts.kv_used = used;
    m->facts.kv_total = total;
    if (used > m->facts.kv_peak) m->facts.kv_peak = used;
    infer_model_set(tracker, m, INFER_M_KV_USED, (double)used);
    infer_model_set(tracker, m, INFER_M_KV_TOTAL, (double)total);
    infer_model_set(tracker, m, INFER_M_KV_RATIO, (double)used / (double)total);
}

static void on_backend(struct sonde_infer_tracker *tracker, struct infer_model *m,
                       const struct sonde_infer_event *e)
{
    m->facts.backend = infer_name(tracker, e->backend.name);
    if (m->info) m->info->gauge = 0; /* what it ran on before */
    m->info = infer_info_series(tracker, m, m->facts.backend);
    if (m->info) m->info->gauge = 1;
}

void infer_on_model(struct sonde_infer_tracker *tracker, const struct infer_event *in)
{
    const struct sonde_infer_event *e = &in->e;
    struct infer_model *m = model_of(tracker, in);
    if (!m) return;
    switch (e->type) {
    case SONDE_INFER_LOAD: on_load(tracker, m, e); break;
    case SONDE_INFER_MEMORY: on_memory(tracker, m, e); break;
    case SONDE_INFER_BACKEND: on_backend(tracker, m, e); break;
    case SONDE_INFER_KV: on_kv(tracker, m, e); break;
    default:
        assert(e->type == SONDE_INFER_WAITING);
        m->told_waiting = e->waiting.requests;
        m->waiting_told = 1;
        break;
    }
}

/* ---- Ticks ---------------------------------------------------------------------------------- */

static double per_second(uint64_t now, uint64_t *last, double seconds)
{
    const double rate = seconds > 0 ? (double)(now - *last) / seconds : 0;
    *last = now;
    return rate;
}

/* llama.cpp's averages, of its own totals: since they began, and by the time that was spent on
 * it. */
static void set_average(struct sonde_infer_tracker *tracker, struct infer_model *m,
                        enum infer_model_slot to, enum infer_model_slot tokens,
                        enum infer_model_slot time)
{
    const struct sonde_model_series *n = m->slot[tokens].alias[0], *ns = m->slot[time].alias[0];
    if (!n || !ns || !ns->counter) return;
    infer_model_set(tracker, m, to, (double)n->counter / ((double)ns->counter * 1e-9));
}

static void set_averages(struct sonde_infer_tracker *tracker, struct infer_model *m)
{
    set_average(tracker, m, INFER_M_PROMPT_AVERAGE, INFER_M_PROMPT_TOKENS, INFER_M_PREFILL_SECONDS);
    set_average(tracker, m, INFER_M_PREDICTED_AVERAGE, INFER_M_PREDICTED_TOKENS,
                INFER_M_PREDICTED_SECONDS);
    const struct sonde_model_series *s = m->slot[INFER_M_BATCH_REQUESTS].main;
    if (!s || !s->hist || !s->hist->count) return;
    infer_model_set(tracker, m, INFER_M_PASS_REQUESTS,
                    (double)s->hist->sum_raw / (double)s->hist->count);
}

void infer_models_tick(struct sonde_infer_tracker *tracker, double seconds)
{
    for (size_t i = 0; i < tracker->model_count; i++) {
        tracker->models[i]->running = tracker->models[i]->waiting = 0;
    }
    for (const struct infer_flight *f = tracker->oldest; f; f = f->after) {
        if (!f->model) continue;
        /* The front cannot see whether an upstream computes, or makes it wait. */
        const int runs = f->work_ns || f->first_token_ns || f->r.source == SONDE_INFER_FRONT;
        if (runs) f->model->running++;
        else f->model->waiting++;
    }
    for (size_t i = 0; i < tracker->model_count; i++) {
        struct infer_model *m = tracker->models[i];
        /* Of its last requests the ends may not be known yet: they had it. */
        m->ended = m->process && m->process->state != SONDE_PROCESS_RUNNING && !m->running &&
                   !m->waiting;
        if (m->ended) {
            set_memory(tracker, m);
            m->told_waiting = 0;
        }
        if (m->waiting_told) m->waiting = m->told_waiting;
        const uint64_t prefill = m->facts.phase_tokens[SONDE_PHASE_PREFILL];
        const uint64_t decode = m->facts.phase_tokens[SONDE_PHASE_DECODE];
        m->prefill_per_s = per_second(prefill, &m->last_prefill, seconds);
        m->decode_per_s = per_second(decode, &m->last_decode, seconds);
        m->output_per_s = per_second(m->tokens_out, &m->last_output, seconds);
        infer_model_set(tracker, m, INFER_M_RUNNING, (double)m->running);
        infer_model_set(tracker, m, INFER_M_WAITING, (double)m->waiting);
        if (prefill) infer_model_set(tracker, m, INFER_M_PREFILL_RATE, m->prefill_per_s);
        if (decode) infer_model_set(tracker, m, INFER_M_DECODE_RATE, m->decode_per_s);
        infer_model_set(tracker, m, INFER_M_OUTPUT_RATE, m->output_per_s);
        if (m->tokens_in) {
            infer_model_set(tracker, m, INFER_M_HIT_RATIO,
                            (double)m->tokens_reused / (double)m->tokens_in);
        }
        set_averages(tracker, m);
    }
}

size_t sonde_infer_model_count(const struct sonde_infer_tracker *tracker)
{
    INFER_ASSERT_READ(tracker);
    return tracker->model_count;
}

void sonde_infer_model_at(const struct sonde_infer_tracker *tracker, size_t i,
                          struct sonde_infer_model_view *out)
{
    INFER_ASSERT_READ(tracker);
    assert(i < tracker->model_count);
    const struct infer_model *m = tracker->models[i];
    *out = (struct sonde_infer_model_view){
        .process = m->process, .facts = m->facts, .running = m->running, .waiting = m->waiting,
        .prefill_per_s = m->prefill_per_s, .decode_per_s = m->decode_per_s,
        .output_per_s = m->output_per_s,
        .hit_ratio = m->tokens_in ? (double)m->tokens_reused / (double)m->tokens_in : NAN,
    };
}
