/* running.c - the engine's thread: who is taken in, who leaves, and a pass for those who are there.
 *
 * First come, first served: a request whose prompt does not fit into the KV cache now waits, and
 * with it all behind it, since a stream of small ones would keep it out for ever. A running
 * request for whose next token there is no memory sends the youngest one back to the head of the
 * queue; none is taken in then until another has ended, or both would drive each other out in
 * turn. What it had computed may still be there when it comes back. The oldest is never sent
 * back, so one always goes on. */
#include <string.h>

#include "run/engine_private.h"

/* ---- Lists: all with the lock held ---------------------------------------------------------- */

static struct engine_job *waiting_take(struct engine *e, struct engine_job *before)
{
    struct engine_job *j = before ? before->next : e->first;
    if (before) before->next = j->next;
    else e->first = j->next;
    if (e->last == j) e->last = before;
    j->next = NULL;
    e->waiting--;
    sonde_model_waiting(e->name, e->waiting);
    return j;
}

static void running_remove(struct engine *e, const struct engine_job *j)
{
    uint32_t i = 0;
    while (e->running[i] != j) i++;
    e->running_count--;
    memmove(e->running + i, e->running + i + 1,
            (e->running_count - i) * sizeof(e->running[0]));
}

/* ---- Leaving -------------------------------------------------------------------------------- */

/* j is in no list any more and counted in ending_jobs. */
static void ending_finish(struct engine *e, struct engine_job *j, enum engine_finish finish,
                          const char *error, const char *why)
{
    engine_job_end(e, j, finish, error, why);
    pthread_mutex_lock(&e->lock);
    e->ending_jobs--;
    if (!e->waiting && !e->running_count && !e->ending_jobs) pthread_cond_broadcast(&e->idle);
    pthread_mutex_unlock(&e->lock);
}

void engine_running_end(struct engine *e, struct engine_job *j, enum engine_finish finish,
                        const char *error, const char *why)
{
    kv_slot_release(e->kv, j->slot);
    pthread_mutex_lock(&e->lock);
    running_remove(e, j);
    e->ending_jobs++;
    pthread_mutex_unlock(&e->lock);
    ending_finish(e, j, finish, error, why);
}

void engine_running_put_back(struct engine *e)
{
    pthread_mutex_lock(&e->lock);
    struct engine_job *j = e->running[e->running_count - 1];
    e->running_count--;
    kv_slot_release(e->kv, j->slot);
    j->computed = 0;
    j->chunk = 0;
    j->waits_since = sonde_ticks();
    if (j->profile) j->profile->out.preempted++;
    j->next = e->first;
    e->first = j;
    if (!e->last) e->last = j;
    e->waiting++;
    e->held = 1;
    sonde_model_waiting(e->name, e->waiting);
    pthread_mutex_unlock(&e->lock);
}

/* Of those that wait, whoever was cancelled. */
static void waiting_sweep(struct engine *e)
{
    for (;;) {
        struct engine_job *before = NULL, *j;
        pthread_mutex_lock(&e->lock);
        for (j = e->first; j && !j->cancel && !e->cancel_all; j = j->next) before = j;
        if (j) {
            j = waiting_take(e, before);
            e->ending_jobs++;
        }
        pthread_mutex_unlock(&e->lock);
        if (!j) return;
        ending_finish(e, j, ENGINE_CANCELLED, NULL, "cancelled");
    }
}

static void running_sweep(struct engine *e)
{
    for (uint32_t i = e->running_count; i-- > 0;) {
        struct engine_job *j = e->running[i];
        if (__atomic_load_n(&j->cancel, __ATOMIC_RELAXED) ||
            __atomic_load_n(&e->cancel_all, __ATOMIC_RELAXED)) {
            engine_running_end(e, j, ENGINE_CANCELLED, NULL, "cancelled");
        }
    }
}

/* ---- Taking in ------------------------------------------------------------------------------ */

/* Its slot, and room for all that is known of it. -1: not now. */
static int engine_running_slot_take(struct engine *e, struct engine_job *j)
{
    uint32_t reused = 0;
    const int32_t slot = kv_slot_take(e->kv, j->tokens, j->count, &reused);
    if (slot < 0) return -1;
    if (kv_slot_reserve(e->kv, (uint32_t)slot, j->count)) {
        kv_slot_release(e->kv, (uint32_t)slot);
        return -1;
    }
    j->slot = (uint32_t)slot;
    j->computed = reused;
    return 0;
}

static void job_taken(struct engine *e, struct engine_job *j)
{
    const uint64_t now = sonde_ticks();
    sonde_phase_record(&j->r.sonde, SONDE_PHASE_QUEUE, j->waits_since, now, 0);
    engine_job_event(e, j, EVENT_QUEUE, j->waits_since, now, 0, 0);
    if (j->told) return;
    j->told = 1;
    j->taken = now;
    j->reused = j->computed;
    sonde_request_prompt(&j->r.sonde, j->prompt_count, j->reused);
    sonde_request_prefix(&j->r.sonde, j->tokens, j->prompt_count);
    engine_job_event(e, j, EVENT_PROMPT, 0, now, j->prompt_count, j->reused);
    pthread_mutex_lock(&e->lock);
    e->counts.tokens_in += j->prompt_count;
    pthread_mutex_unlock(&e->lock);
}

static void waiting_take_in(struct engine *e)
{
    while (e->running_count < e->o.slots) {
        pthread_mutex_lock(&e->lock);
        struct engine_job *j = e->first; /* only this thread takes from the queue */
        const int held = e->held && e->running_count;
        pthread_mutex_unlock(&e->lock);
        if (!j || held) return;
        const int fits = engine_running_slot_take(e, j) == 0;
        if (!fits && e->running_count) return;
        pthread_mutex_lock(&e->lock);
        waiting_take(e, NULL);
        if (fits) e->running[e->running_count++] = j;
        else e->ending_jobs++;
        pthread_mutex_unlock(&e->lock);
        if (fits) job_taken(e, j);
        else
            ending_finish(e, j, ENGINE_FAILED, "kv_full",
                          "the KV cache is too small for its prompt");
    }
}

void *engine_thread(void *arg)
{
    struct engine *e = arg;
    pthread_setname_np(pthread_self(), "engine");
    for (;;) {
        pthread_mutex_lock(&e->lock);
        while (!e->first && !e->running_count && !e->ending) pthread_cond_wait(&e->work, &e->lock);
        const int ending = e->ending && !e->first && !e->running_count;
        pthread_mutex_unlock(&e->lock);
        if (ending) return NULL;
        waiting_sweep(e);
        running_sweep(e);
        waiting_take_in(e);
        if (e->running_count) engine_pass_run(e);
        engine_resources_tell(e, sonde_ticks());
    }
}
