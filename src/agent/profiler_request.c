/* profiler_request.c - see profiler_request.h: which requests there are, and the thread that takes
 * their profiles. How one is taken is in request_profile.c. */
#include "agent/profiler_request.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "infer/tracker.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/trace_id.h"
#include "infer/event.h"
#include "agent/profiler_private.h"
#include "sonde/sonde.h"

#define IDLE_NS 30000000000u     /* engines stay so long after the last request */
#define SETTLE_NS 3000000000u    /* for events and spans, where nobody says that they are known */
#define KEPT_BYTES_MAX ((size_t)64 << 20)

enum profiler_request_state { WANTED, RUNNING, ENDED, TAKING, DONE };

struct profiler_request {
    struct sonde_request_profile r;  /* first: what is handed out */
    enum profiler_request_state state;
    uint64_t sampled_ns;             /* unix time since when there is sampling, 1 = always; 0 = that
                                        has not been seen to */
    uint64_t due_ns;                 /* ENDED: CLOCK_MONOTONIC */
};

void profiler_requests_init(struct profiler_requests *q)
{
    sonde_cond_init(&q->wake);
    sonde_lock_init(&q->lock, SONDE_RANK_PROFILER_REQUESTS);
}

/* ---- Entries --------------------------------------------------------------------------------- */

/* refs counts the list and who looks at it. */
static void profiler_request_drop(struct profiler_request *e)
{
    assert(e->r.refs > 0);
    if (--e->r.refs > 0) return;
    sonde_profile_destroy(e->r.profile);
    sonde__free(e);
}

static void profiler_request_remove_at(struct profiler_requests *q, size_t i)
{
    sonde_assert_held(&q->lock);
    assert(i < q->count);
    struct profiler_request *e = q->list[i];
    if (e->state == DONE) {
        assert(q->done > 0);
        q->done--;
        if (e->r.profile) q->bytes -= e->r.profile->bytes;
    }
    memmove(&q->list[i], &q->list[i + 1], (--q->count - i) * sizeof(q->list[0]));
    profiler_request_drop(e);
}

static struct profiler_request *profiler_request_find(const struct profiler_requests *q,
                                                      uint64_t id)
{
    sonde_assert_held(&q->lock);
    for (size_t i = q->count; i-- > 0;) {
        if (q->list[i]->r.request.id == id) return q->list[i];
    }
    return NULL;
}

/* The oldest of those that are done go, until what is left is not too much. */
static void profiler_request_make_room(struct profiler_requests *q)
{
    sonde_assert_held(&q->lock);
    for (size_t i = 0; i < q->count;) {
        const int over = q->done > SONDE_REQUEST_PROFILES_MAX || q->bytes > KEPT_BYTES_MAX;
        if (!over) return;
        if (q->list[i]->state == DONE && q->done > 1) profiler_request_remove_at(q, i);
        else i++;
    }
}

/* ---- Who tells ------------------------------------------------------------------------------- */

static void *profiler_request_work(void *arg);

static int profiler_request_start_worker(struct sonde_profiler *p)
{
    sonde_assert_held(&p->requests.lock);
    struct sonde_worker *w = &p->requests.worker;
    return w->stopping ? SONDE_EFULL
                       : sonde_worker_start(w, "sonde-requests", profiler_request_work, p);
}

int sonde_profiler_request_begin(struct sonde_profiler *p, const struct sonde_profiler_request *r,
                                 char id[SONDE_REQUEST_PROFILE_ID])
{
    struct profiler_requests *q = &p->requests;
    if (p->o.no_cpu) return SONDE_EOFF;
    struct profiler_request *e = sonde__calloc(1, sizeof(*e));
    if (!e) return SONDE_ENOMEM;
    e->r.request = *r;
    e->r.refs = 1;
    sonde_lock(&q->lock);
    int rc = q->count - q->done < SONDE_REQUEST_PROFILES_MAX && !profiler_request_find(q, r->id)
                 ? 0
                 : SONDE_EFULL;
    if (!rc) rc = profiler_request_start_worker(p);
    if (!rc) {
        q->list[q->count++] = e;
        sonde_cond_broadcast(&q->wake);
    }
    sonde_unlock(&q->lock);
    if (rc) sonde__free(e);
    else snprintf(id, SONDE_REQUEST_PROFILE_ID, "%016" PRIx64, r->id);
    return rc;
}

int sonde_profiler_request_ready(struct sonde_profiler *p, uint64_t id)
{
    struct profiler_requests *q = &p->requests;
    sonde_lock(&q->lock);
    const struct profiler_request *e = profiler_request_find(q, id);
    const int ready = !e || e->state != WANTED;
    sonde_unlock(&q->lock);
    return ready;
}

void sonde_profiler_request_end(struct sonde_profiler *p, uint64_t id, uint64_t ended_ns, int known)
{
    struct profiler_requests *q = &p->requests;
    sonde_lock(&q->lock);
    struct profiler_request *e = profiler_request_find(q, id);
    if (e && e->state < TAKING) {
        const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
        if (e->state != ENDED) {
            e->r.ended_ns = ended_ns;
            e->due_ns = now + SETTLE_NS;
        }
        if (known) e->due_ns = now;
        /* One that was over before anything was sampled has no more to wait for. */
        e->state = ENDED;
        sonde_cond_broadcast(&q->wake);
    }
    sonde_unlock(&q->lock);
}

void sonde_profiler_on_begin(struct sonde_profiler *p, const struct sonde_infer_request *r)
{
    if (!(r->flags & SONDE_INFER_PROFILE) || r->source == SONDE_INFER_FRONT) return;
    struct profiler_requests *q = &p->requests;
    sonde_lock(&q->lock);
    const int known = r->parent && profiler_request_find(q, r->parent) != NULL;
    sonde_unlock(&q->lock);
    char id[SONDE_REQUEST_PROFILE_ID];
    if (known) return;
    sonde_profiler_request_begin(p, &(struct sonde_profiler_request){
        .id = r->id, .trace_hi = r->trace_hi, .trace_lo = r->trace_lo, .source = r->source,
        .arrived_ns = r->arrived_ns }, id);
}

/* There are engines that know of no traces, and whose requests end by silence. */
static int has_traceless(const struct sonde_profiler *p)
{
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(p->o.collector);
    struct sonde_infer_model_view m;
    for (size_t i = 0; tracker && i < sonde_infer_model_count(tracker); i++) {
        sonde_infer_model_at(tracker, i, &m);
        if (m.facts.source == SONDE_INFER_HOOK || m.facts.source == SONDE_INFER_PROBE) return 1;
    }
    return 0;
}

void sonde_profiler_on_done(struct sonde_profiler *p, const struct sonde_infer_request *r)
{
    assert(p && r);
    captures_on_request(p, r);
    if (!(r->flags & SONDE_INFER_PROFILE) || r->flags & SONDE_INFER_WENT_ON) return;
    sonde_profiler_request_end(p, r->id, r->arrived_ns + (uint64_t)(r->total_s * 1e9),
                               r->source != SONDE_INFER_FRONT || !has_traceless(p));
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Those that were there before sampling was seen to. */
static void profiler_request_sampled(struct profiler_requests *q, size_t asked, uint64_t since_ns)
{
    for (size_t i = 0; i < q->count && asked; i++) {
        struct profiler_request *e = q->list[i];
        if (e->sampled_ns || e->state == DONE || e->state == TAKING) continue;
        asked--;
        e->sampled_ns = since_ns;
        if (e->state == WANTED) e->state = RUNNING;
    }
}

/* How many wait for it: those, and the ones that ended meanwhile. */
static size_t profiler_request_unsampled(const struct profiler_requests *q)
{
    size_t n = 0;
    for (size_t i = 0; i < q->count; i++) {
        n += q->list[i]->state < TAKING && !q->list[i]->sampled_ns;
    }
    return n;
}

static struct profiler_request *next_due(const struct profiler_requests *q, uint64_t now,
                                         uint64_t *until)
{
    for (size_t i = 0; i < q->count; i++) {
        struct profiler_request *e = q->list[i];
        if (e->state != ENDED) continue;
        if (e->due_ns <= now) return e;
        if (e->due_ns < *until) *until = e->due_ns;
    }
    return NULL;
}

static void profiler_request_keep(struct profiler_requests *q, struct profiler_request *e)
{
    e->state = DONE;
    q->done++;
    if (e->r.profile) q->bytes += e->r.profile->bytes;
    profiler_request_make_room(q);
}

/* One thing that is to be done, or a wait. */
static void profiler_request_step(struct sonde_profiler *p)
{
    struct profiler_requests *q = &p->requests;
    const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
    uint64_t until = now + IDLE_NS;
    const size_t waiting = profiler_request_unsampled(q);
    struct profiler_request *e = waiting ? NULL : next_due(q, now, &until);
    if (waiting) {
        sonde_unlock(&q->lock);
        const uint64_t since_ns = request_engines_start(p);
        sonde_lock(&q->lock);
        profiler_request_sampled(q, waiting, since_ns);
    } else if (e) {
        e->state = TAKING;
        e->r.refs++;
        sonde_unlock(&q->lock);
        request_profile_build(p, &e->r, e->sampled_ns);
        sonde_lock(&q->lock);
        profiler_request_keep(q, e);
        profiler_request_drop(e);
        q->idle_ns = sonde_clock_ns(CLOCK_MONOTONIC) + IDLE_NS;
    } else if (q->count == q->done && q->engine_count && now >= q->idle_ns) {
        sonde_unlock(&q->lock);
        request_engines_stop(p);
        sonde_lock(&q->lock);
    } else {
        if (q->count == q->done && q->engine_count && q->idle_ns < until) until = q->idle_ns;
        const struct timespec t = sonde_clock_timespec(until);
        sonde_cond_timedwait(&q->wake, &q->lock, &t);
    }
}

static void *profiler_request_work(void *arg)
{
    struct sonde_profiler *p = arg;
    struct profiler_requests *q = &p->requests;
    sonde_lock(&q->lock);
    while (!q->worker.stopping) profiler_request_step(p);
    sonde_unlock(&q->lock);
    return NULL;
}

void profiler_requests_stop(struct sonde_profiler *p)
{
    struct profiler_requests *q = &p->requests;
    sonde_worker_stop(&q->worker, &q->lock, &q->wake);
}

void profiler_requests_release(struct sonde_profiler *p)
{
    struct profiler_requests *q = &p->requests;
    profiler_requests_stop(p);
    request_engines_stop(p);
    sonde_lock(&q->lock);
    while (q->count) profiler_request_remove_at(q, q->count - 1);
    sonde_unlock(&q->lock);
    sonde_symbolizer_destroy(q->symbolizer);
    sonde_cond_destroy(&q->wake);
    sonde_lock_destroy(&q->lock);
}

/* ---- Looking --------------------------------------------------------------------------------- */

static int not_done(const struct profiler_request *e, struct sonde_err *err)
{
    return sonde_err_set(err, SONDE_EBUSY, e->state < ENDED
                             ? "request %016" PRIx64 " has not ended yet: ask again when it has"
                             : "the profile of request %016" PRIx64 " is being put together: ask "
                               "again in a second", e->r.request.id);
}

static int profiler_request_is_asked(const struct profiler_request *e, size_t digits, uint64_t hi,
                                     uint64_t lo)
{
    const struct sonde_profiler_request *r = &e->r.request;
    return digits == 16 ? r->id == lo : r->trace_hi == hi && r->trace_lo == lo;
}

/* 0 or SONDE_EINVAL. */
static int profiler_request_parse(const char *text, size_t *digits, uint64_t *hi, uint64_t *lo,
                                  struct sonde_err *err)
{
    *digits = 32;
    if (sonde_trace_id_parse(text, hi, lo)) return 0;
    *digits = strlen(text);
    if (*digits != 16 || strspn(text, "0123456789abcdefABCDEF") != *digits) {
        return sonde_err_set(err, SONDE_EINVAL, "\"%.100s\" is not the id of a profile: 16 "
                             "hexadecimal digits, or those of a trace: 32, or a UUID", text);
    }
    *lo = strtoull(text, NULL, 16);
    return 0;
}

int sonde_profiler_request_get(struct sonde_profiler *p, const char *text,
                               struct sonde_request_profile **out, struct sonde_err *err)
{
    struct profiler_requests *q = &p->requests;
    size_t digits = 0;
    uint64_t hi = 0, lo = 0;
    if (text && profiler_request_parse(text, &digits, &hi, &lo, err)) return SONDE_EINVAL;
    struct profiler_request *found = NULL, *under_way = NULL;
    sonde_lock(&q->lock);
    for (size_t i = q->count; i-- > 0 && !found;) {
        struct profiler_request *e = q->list[i];
        if (text && !profiler_request_is_asked(e, digits, hi, lo)) continue;
        if (e->state == DONE && e->r.profile) found = e;
        else if (!under_way) under_way = e;
    }
    int rc = 0;
    if (found) {
        found->r.refs++;
        *out = &found->r;
    } else if (under_way && under_way->state == DONE) {
        rc = sonde_err_set(err, SONDE_ENOMEM, "there was no memory for the profile");
    } else if (under_way) {
        rc = not_done(under_way, err);
    } else if (text) {
        rc = sonde_err_set(err, SONDE_ENOENT, "there is no profile of request %s: it was not asked "
                           "for, or is no longer among the last %d", text,
                           SONDE_REQUEST_PROFILES_MAX);
    } else {
        rc = sonde_err_set(err, SONDE_ENOENT, "no profile of a request has been asked for: send "
                           "one with X-Profile: true through the front (sonde serve --upstream), "
                           "or set .profile in sonde_request_info");
    }
    sonde_unlock(&q->lock);
    return rc;
}

void sonde_profiler_request_put(struct sonde_profiler *p, struct sonde_request_profile *r)
{
    sonde_lock(&p->requests.lock);
    profiler_request_drop((struct profiler_request *)r);
    sonde_unlock(&p->requests.lock);
}

size_t sonde_profiler_request_list(struct sonde_profiler *p, struct sonde_request_profile_row *out,
                                   size_t max)
{
    struct profiler_requests *q = &p->requests;
    size_t n = 0;
    sonde_lock(&q->lock);
    for (size_t i = q->count; i-- > 0 && n < max; n++) {
        const struct profiler_request *e = q->list[i];
        out[n] = (struct sonde_request_profile_row){ e->r.request, e->r.ended_ns,
                                                     e->state == DONE };
    }
    sonde_unlock(&q->lock);
    return n;
}
