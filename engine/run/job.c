/* job.c - one request inside of the engine, from submit to its end. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/engine_private.h"

static double ticks_ms(uint64_t ticks) { return (double)sonde_ticks_ns(ticks) / 1e6; }

static uint64_t ticks_between(uint64_t from, uint64_t to)
{
    return from && to > from ? to - from : 0;
}

static struct job_profile *job_profile_create(uint32_t layers)
{
    const size_t ops = (size_t)(layers + 1) * FORWARD_OPS;
    struct job_profile *p = calloc(1, sizeof(*p) + 2 * ops * sizeof(p->ops[0]));
    if (!p) return NULL;
    p->out.layers = layers;
    p->out.op_ns = p->ops;
    p->out.op_calls = p->ops + ops;
    return p;
}

struct engine_job *engine_job_create(const struct engine *e, const struct engine_request *r)
{
    struct engine_job *j = calloc(1, sizeof(*j));
    if (!j) return NULL;
    j->r = *r;
    j->r.prompt = NULL;
    j->r.name = NULL;
    const uint32_t room = e->context - r->prompt_count;
    j->tokens_max = r->tokens_max && r->tokens_max < room ? r->tokens_max : room;
    j->prompt_count = j->count = r->prompt_count;
    j->tokens = malloc(((size_t)j->prompt_count + j->tokens_max) * sizeof(*j->tokens));
    if (r->profile) j->profile = job_profile_create(e->model->layers);
    if (!j->tokens || (r->profile && !j->profile)) {
        engine_job_destroy(j);
        return NULL;
    }
    memcpy(j->tokens, r->prompt, (size_t)r->prompt_count * sizeof(*j->tokens));
    if (r->name) snprintf(j->name, sizeof(j->name), "%s", r->name);
    return j;
}

void engine_job_destroy(struct engine_job *j)
{
    if (!j) return;
    free(j->tokens);
    free(j->profile);
    free(j);
}

void engine_job_event(struct engine *e, const struct engine_job *j, enum event_kind kind,
                      uint64_t begin, uint64_t at, uint64_t a, uint64_t b)
{
    if (!e->log) return;
    struct engine_event event = { .kind = kind, .begin = begin, .at = at, .a = a, .b = b };
    memcpy(event.request, j->name, sizeof(event.request));
    event_log_put(e->log, &event, 1);
}

static void job_timings(struct engine_job *j, uint64_t end, struct engine_timings *t)
{
    const uint64_t prompt_end = j->prompt_done ? j->prompt_done : end;
    *t = (struct engine_timings){
        .cache_n = j->reused,
        .prompt_n = j->taken ? j->prompt_count - j->reused : 0,
        .predicted_n = j->produced,
        .prompt_ms = ticks_ms(ticks_between(j->taken, prompt_end)),
        .predicted_ms = ticks_ms(ticks_between(j->prompt_done, j->last)),
        .queue_ms = ticks_ms(ticks_between(j->submitted, j->taken ? j->taken : end)),
        .total_ms = ticks_ms(ticks_between(j->submitted, end)),
    };
    if (!j->profile) return;
    struct job_profile *p = j->profile;
    p->out.prefill_ms = ticks_ms(p->prefill_ticks);
    p->out.decode_ms = ticks_ms(p->decode_ticks);
    p->out.passes_ms = ticks_ms(p->passes_ticks);
    p->out.sample_ms = ticks_ms(p->sample_ticks);
    p->out.detokenize_ms = ticks_ms(p->detokenize_ticks);
    t->profile = &p->out;
}

void engine_job_end(struct engine *e, struct engine_job *j, enum engine_finish finish,
                    const char *error, const char *why)
{
    static const struct { enum sonde_outcome outcome; const char *name; } ends[] = {
        [ENGINE_STOP] = { SONDE_OK, "ok" },
        [ENGINE_LENGTH] = { SONDE_OK, "ok" },
        [ENGINE_CANCELLED] = { SONDE_CANCELLED, "cancelled" },
        [ENGINE_FAILED] = { SONDE_ERROR, "error" },
    };
    struct engine_timings timings;
    const uint64_t at = sonde_ticks();
    sonde_request_end_at(&j->r.sonde, ends[finish].outcome, error, at);
    if (e->log) {
        struct engine_event event = { .kind = EVENT_END, .at = at, .a = j->produced,
                                      .text = ends[finish].name, .error = error };
        memcpy(event.request, j->name, sizeof(event.request));
        event_log_put(e->log, &event, 1);
    }
    job_timings(j, at, &timings);
    /* Counted first: who has been told of the end finds it in the counts. */
    pthread_mutex_lock(&e->lock);
    if (finish == ENGINE_CANCELLED) e->counts.cancelled++;
    else if (finish == ENGINE_FAILED) e->counts.failed++;
    else e->counts.done++;
    e->held = 0;
    pthread_mutex_unlock(&e->lock);
    j->r.on_end(j->r.context, finish, why, &timings);
    engine_job_destroy(j);
}
