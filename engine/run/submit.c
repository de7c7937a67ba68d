/* submit.c - what other threads ask of the engine: take a request, cancel one, stop. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "run/engine_private.h"

/* Seeds that requests do not give. In deterministic mode the same one for all: what a request is
 * answered must not depend on when it came, nor on what came before. With a seed and without that
 * mode they follow from it by the request's number; with neither they are random. */
static uint64_t job_seed(const struct engine *e, uint64_t id)
{
    if (e->o.deterministic) return e->o.seed;
    if (e->o.seed_set) return e->o.seed + id * 0x9e3779b97f4a7c15u;
    uint64_t seed = id;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed)) seed ^= sonde_ticks();
    return seed;
}

static int prompt_check(const struct engine *e, const struct engine_request *r, struct fail *why)
{
    if (!r->prompt_count) return fail_set(why, "the prompt is empty");
    if (r->prompt_count >= e->context) {
        return fail_set(why, "the prompt has %u tokens, and with the answer there is room for %u",
                        r->prompt_count, e->context);
    }
    for (uint32_t i = 0; i < r->prompt_count; i++) {
        if (r->prompt[i] >= 0 && (uint32_t)r->prompt[i] < e->model->vocab) continue;
        return fail_set(why, "token %d of the prompt is not of the vocabulary, which has %u",
                        r->prompt[i], e->model->vocab);
    }
    return 0;
}

enum engine_refusal engine_submit(struct engine *e, const struct engine_request *r, uint64_t *id,
                                  struct fail *why)
{
    if (prompt_check(e, r, why)) return ENGINE_REFUSED_TOO_LONG;
    struct engine_job *j = engine_job_create(e, r);
    if (!j) {
        fail_set(why, "out of memory");
        return ENGINE_REFUSED_MEMORY;
    }
    enum engine_refusal refusal = ENGINE_REFUSED_NOT;
    pthread_mutex_lock(&e->lock);
    if (e->stopping) {
        refusal = ENGINE_REFUSED_STOPPING;
        fail_set(why, "the server is stopping");
    } else if (e->waiting >= e->o.queue_max) {
        refusal = ENGINE_REFUSED_FULL;
        fail_set(why, "%u requests wait already, and no more may", e->waiting);
    } else {
        *id = j->id = ++e->ids;
        if (!r->name) snprintf(j->name, sizeof(j->name), "request-%" PRIu64, j->id);
        if (!r->seed_set) j->r.sampler.seed = job_seed(e, j->id);
        sampler_init(&j->sampler, &j->r.sampler);
        j->submitted = j->waits_since = sonde_ticks();
        if (e->last) e->last->next = j;
        else e->first = j;
        e->last = j;
        e->waiting++;
        sonde_model_waiting(e->name, e->waiting);
        pthread_cond_signal(&e->work);
        j = NULL;
    }
    pthread_mutex_unlock(&e->lock);
    engine_job_destroy(j);
    return refusal;
}

void engine_cancel(struct engine *e, uint64_t id)
{
    pthread_mutex_lock(&e->lock);
    for (struct engine_job *j = e->first; j; j = j->next) {
        if (j->id == id) __atomic_store_n(&j->cancel, 1, __ATOMIC_RELAXED);
    }
    for (uint32_t i = 0; i < e->running_count; i++) {
        struct engine_job *j = e->running[i];
        if (j->id == id) __atomic_store_n(&j->cancel, 1, __ATOMIC_RELAXED);
    }
    pthread_cond_signal(&e->work);
    pthread_mutex_unlock(&e->lock);
}

static int engine_is_idle(const struct engine *e)
{
    return !e->waiting && !e->running_count && !e->ending_jobs;
}

void engine_drain(struct engine *e, double seconds_max)
{
    struct timespec until;
    if (!(seconds_max > 0)) seconds_max = 0;
    if (seconds_max > 1e6) seconds_max = 1e6;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds_max;
    until.tv_nsec += (long)((seconds_max - (double)(time_t)seconds_max) * 1e9);
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;

    pthread_mutex_lock(&e->lock);
    e->stopping = 1;
    while (!engine_is_idle(e)) {
        if (pthread_cond_timedwait(&e->idle, &e->lock, &until) == ETIMEDOUT) break;
    }
    __atomic_store_n(&e->cancel_all, 1, __ATOMIC_RELAXED);
    pthread_cond_signal(&e->work);
    while (!engine_is_idle(e)) pthread_cond_wait(&e->idle, &e->lock);
    pthread_mutex_unlock(&e->lock);
}

void engine_counts(struct engine *e, struct engine_counts *out)
{
    pthread_mutex_lock(&e->lock);
    *out = e->counts;
    out->running = e->running_count;
    out->waiting = e->waiting;
    pthread_mutex_unlock(&e->lock);
}
