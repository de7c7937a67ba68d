/* sessions.c - see sessions.h. */
#include "agent/sessions.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/thread.h"
#include "sonde/sonde.h"
#include "store/run/run.h"

enum { FINDINGS_EACH_MAX = 5 }; /* of a kind */
#define PROFILE_BYTES_MAX ((size_t)1 << 30)

struct session {
    struct sonde_session_ask ask;
    struct sonde_capture *capture;     /* NULL = it is being begun, or ended */
    uint64_t end_ns;                 /* CLOCK_MONOTONIC; 0 = when it is told to */
    int users;                       /* who look at it now */
};

struct sonde_sessions {
    struct sonde_profiler *profiler;
    const struct sonde_store_ops *ops;
    struct sonde_store *store;
    int memory;                      /* the store is ours, and of no file */
    struct sonde_lock lock;            /* of what follows */
    struct sonde_cond wake;             /* something has changed */
    struct session *list[SONDE_CAPTURES_MAX]; /* oldest first */
    size_t count;
    uint64_t last_id, newest_id;     /* of what was kept: without snapshots of memory, and of all */
    const struct sonde_finding_options *rules; /* NULL = what is kept is not looked at */
    struct sonde_worker worker;      /* ends sessions whose time is over */
};

/* ---- Keeping --------------------------------------------------------------------------------- */

/* What takes the most in a profile that is kept, into the store: /api/findings lists it. What does
 * not fit or cannot be written is logged. */
static void sessions_keep_findings(struct sonde_sessions *s, const char *name,
                                   const struct sonde_profile *p)
{
    struct sonde_findings *found;
    if (!s->rules || !s->ops->finding_put) return;
    struct sonde_finding_options o = *s->rules;
    o.limit = FINDINGS_EACH_MAX;
    if (sonde_findings_look(p, &o, &found) != 0) return;
    for (size_t i = 0; i < found->count; i++) {
        const struct sonde_finding *f = &found->rows[i];
        char text[512];
        snprintf(text, sizeof(text), "%s: %s", name, f->text);
        const struct sonde_store_finding row = {
            .time_s = (double)p->end_ns * 1e-9, .kind = f->kind,
            .subject = f->subject, .severity = f->severity,
            .value = !isnan(f->seconds) ? f->seconds : !isnan(f->bytes) ? f->bytes : f->share,
            .unit = !isnan(f->seconds) ? "seconds" : !isnan(f->bytes) ? "bytes" : "ratio",
            .text = text,
        };
        struct sonde_err err = { "" };
        uint64_t id;
        if (s->ops->finding_put(s->store, &row, &id, &err) != 0) {
            sonde_log(SONDE_LOG_WARN, "findings of '%s' are not kept: %s", name, err.text);
            break;
        }
    }
    sonde_findings_destroy(found);
}

int sonde_sessions_keep(struct sonde_sessions *s, const char *name, const char *kind,
                        const struct sonde_profile *p, uint64_t *id, struct sonde_err *err)
{
    const struct sonde_store_profile row = {
        .name = name, .kind = kind, .program = sonde_profile_str(p, p->program),
        .start_s = (double)p->start_ns * 1e-9, .end_s = (double)p->end_ns * 1e-9,
        .samples = p->samples_count,
    };
    struct sonde_buf data;
    sonde_buf_init(&data, PROFILE_BYTES_MAX);
    int rc = sonde_run_save_bytes(p, &data, err);
    if (!rc) rc = s->ops->profile_put(s->store, &row, data.data, data.len, id, err);
    sonde_buf_release(&data);
    if (rc) return rc;
    sessions_keep_findings(s, name, p);
    sonde_lock(&s->lock);
    if (strcmp(kind, "memory") != 0 || !s->last_id) s->last_id = *id;
    s->newest_id = *id;
    sonde_unlock(&s->lock);
    return 0;
}

struct sonde_store *sonde_sessions_store(struct sonde_sessions *s,
                                         const struct sonde_store_ops **ops, int *memory)
{
    *ops = s->ops;
    *memory = s->memory;
    return s->store;
}

void sonde_sessions_set_findings(struct sonde_sessions *s,
                                 const struct sonde_finding_options *rules)
{
    s->rules = rules;
}

uint64_t sonde_sessions_newest(struct sonde_sessions *s)
{
    sonde_lock(&s->lock);
    const uint64_t id = s->newest_id;
    sonde_unlock(&s->lock);
    return id;
}

uint64_t sonde_sessions_last(struct sonde_sessions *s)
{
    sonde_lock(&s->lock);
    const uint64_t id = s->last_id;
    sonde_unlock(&s->lock);
    return id;
}

/* ---- The list -------------------------------------------------------------------------------- */

static struct session *sessions_find(const struct sonde_sessions *s, const char *name)
{
    sonde_assert_held(&s->lock);
    for (size_t i = 0; i < s->count; i++) {
        if (!strcmp(s->list[i]->ask.name, name)) return s->list[i];
    }
    return NULL;
}

static void sessions_take_out(struct sonde_sessions *s, const struct session *x)
{
    sonde_assert_held(&s->lock);
    size_t i = 0;
    while (i < s->count && s->list[i] != x) i++;
    assert(i < s->count); /* whoever takes it out has found it there */
    memmove(&s->list[i], &s->list[i + 1], (--s->count - i) * sizeof(s->list[0]));
}

/* "a, b" of those that run. */
static void sessions_list_names(const struct sonde_sessions *s, char *out, size_t size)
{
    sonde_assert_held(&s->lock);
    size_t len = 0;
    *out = '\0';
    for (size_t i = 0; i < s->count && len + SONDE_SESSION_NAME_BYTES + 2 < size; i++) {
        len += (size_t)snprintf(out + len, size - len, "%s%s", i ? ", " : "", s->list[i]->ask.name);
    }
}

/* The one that text says, with a user more; NULL = the newest. It cannot end before let_go. */
static struct session *sessions_look_at(struct sonde_sessions *s, const char *text)
{
    struct session *x = NULL;
    sonde_lock(&s->lock);
    if (text) x = sessions_find(s, text);
    else if (s->count) x = s->list[s->count - 1];
    if (x && !x->capture) x = NULL;
    if (x) x->users++;
    sonde_unlock(&s->lock);
    return x;
}

static void sessions_let_go(struct sonde_sessions *s, struct session *x)
{
    sonde_lock(&s->lock);
    assert(x->users > 0);
    x->users--;
    sonde_cond_broadcast(&s->wake);
    sonde_unlock(&s->lock);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static void sessions_note(struct sonde_session_done *d, const char *format, ...)
{
    va_list args;
    if (d->note_count == SONDE_SESSION_NOTES) return;
    va_start(args, format);
    vsnprintf(d->notes[d->note_count++], sizeof(d->notes[0]), format, args);
    va_end(args);
}

static void tell_limits(const struct sonde_capture_status *t, struct sonde_session_done *d)
{
    if (*t->note) sessions_note(d, "%.250s", t->note);
    if (t->slice_s > 0) {
        sessions_note(
            d,
            "the session was long: samples are added up by stack in slices of %.0f s, so those "
            "of single spans are not known",
            t->slice_s);
    }
    if (t->dropped_samples) {
        sessions_note(d, "%llu samples were dropped: there were too many different stacks",
                      (unsigned long long)t->dropped_samples);
    }
    if (t->dropped_spans || t->dropped_requests) {
        sessions_note(
            d, "%llu spans and %llu requests were dropped: only the first 64 MiB of them are kept",
            (unsigned long long)t->dropped_spans, (unsigned long long)t->dropped_requests);
    }
}

/* x is out of the list, and gone after this. */
static int sessions_finish(struct sonde_sessions *s, struct session *x,
                           struct sonde_session_done *out, struct sonde_err *err)
{
    struct sonde_capture_status status;
    struct sonde_err why = { "" };
    *out = (struct sonde_session_done){ 0 };
    snprintf(out->name, sizeof(out->name), "%s", x->ask.name);
    sonde_profiler_capture_status(s->profiler, x->capture, &status);
    tell_limits(&status, out);
    const int rc = sonde_profiler_end(s->profiler, x->capture, &out->profile, err);
    sonde__free(x);
    if (rc) return rc;
    if (sonde_sessions_keep(s, out->name, "session", out->profile, &out->id, &why) != 0) {
        sessions_note(out, "it could not be kept: %.200s", why.text);
    } else if (s->memory) {
        sessions_note(
            out,
            "it is kept until this agent ends: start sonde with --store FILE to keep sessions "
            "for longer, or fetch it from /admin/profiles/%llu?format=run",
            (unsigned long long)out->id);
    }
    return 0;
}

/* Out of the list, once nobody looks at it. Its capture is the caller's from now on. */
static void sessions_claim(struct sonde_sessions *s, struct session *x)
{
    sonde_assert_held(&s->lock);
    struct sonde_capture *capture = x->capture;
    x->capture = NULL;
    while (x->users) sonde_cond_wait(&s->wake, &s->lock);
    x->capture = capture;
    sessions_take_out(s, x);
}

/* 0 and which one is meant. */
static int sessions_which(struct sonde_sessions *s, const char *name, struct session **out,
                          struct sonde_err *err)
{
    sonde_assert_held(&s->lock);
    char names[256];
    *out = NULL;
    if (name) {
        *out = sessions_find(s, name);
        if (*out && (*out)->capture) return 0;
        return *out ? sonde_err_set(err, SONDE_EBUSY, "session \"%s\" is being started or stopped",
                                    name)
                    : SONDE_ENOENT;
    }
    sessions_list_names(s, names, sizeof(names));
    if (s->count > 1) {
        return sonde_err_set(err, SONDE_EBUSY, "%zu sessions run (%s): say which is to be stopped, "
                             "{\"name\": \"%s\"}", s->count, names, s->list[0]->ask.name);
    }
    if (!s->count || !s->list[0]->capture) {
        return sonde_err_set(err, SONDE_EBUSY, "no session runs: start one with POST "
                             "/admin/profile/start");
    }
    *out = s->list[0];
    return 0;
}

int sonde_sessions_end(struct sonde_sessions *s, const char *name, struct sonde_session_done *out,
                       struct sonde_err *err)
{
    struct sonde_store_found kept;
    struct session *x;
    sonde_lock(&s->lock);
    const int rc = sessions_which(s, name, &x, err);
    if (!rc) sessions_claim(s, x);
    sonde_unlock(&s->lock);
    if (!rc) return sessions_finish(s, x, out, err);
    if (rc != SONDE_ENOENT) return rc;
    if (sonde_store_profile_find(s->ops, s->store, name, &kept, NULL) == 0) {
        return sonde_err_set(err, SONDE_EBUSY, "session \"%s\" has ended: it is at /admin/profiles/"
                             "%llu", name, (unsigned long long)kept.id);
    }
    return sonde_err_set(err, SONDE_ENOENT, "no session \"%.80s\" runs", name);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* The first whose time is over; until: when that is for another. */
static struct session *sessions_overdue(const struct sonde_sessions *s, uint64_t *until)
{
    sonde_assert_held(&s->lock);
    const uint64_t now = sonde_clock_ns(CLOCK_MONOTONIC);
    for (size_t i = 0; i < s->count; i++) {
        struct session *x = s->list[i];
        if (!x->end_ns || !x->capture) continue;
        if (x->end_ns <= now) return x;
        if (x->end_ns < *until) *until = x->end_ns;
    }
    return NULL;
}

static void end_by_itself(struct sonde_sessions *s, struct session *x)
{
    struct sonde_session_done done;
    struct sonde_err err = { "" };
    char name[SONDE_SESSION_NAME_BYTES];
    snprintf(name, sizeof(name), "%s", x->ask.name);
    if (sessions_finish(s, x, &done, &err) != 0) {
        sonde_log(SONDE_LOG_WARN, "session %s is lost: %s", name, err.text);
        return;
    }
    if (!done.id) {
        sonde_log(SONDE_LOG_WARN, "session %s: %s", name, done.notes[done.note_count - 1]);
    }
    sonde_profile_destroy(done.profile);
}

static void *sessions_work(void *arg)
{
    struct sonde_sessions *s = arg;
    sonde_lock(&s->lock);
    while (!s->worker.stopping) {
        uint64_t until = UINT64_MAX;
        struct session *x = sessions_overdue(s, &until);
        if (x) {
            sessions_claim(s, x);
            sonde_unlock(&s->lock);
            end_by_itself(s, x);
            sonde_lock(&s->lock);
        } else if (until == UINT64_MAX) {
            sonde_cond_wait(&s->wake, &s->lock);
        } else {
            const struct timespec t = sonde_clock_timespec(until);
            sonde_cond_timedwait(&s->wake, &s->lock, &t);
        }
    }
    sonde_unlock(&s->lock);
    return NULL;
}

static int sessions_start_thread(struct sonde_sessions *s, struct sonde_err *err)
{
    sonde_assert_held(&s->lock);
    if (sonde_worker_start(&s->worker, "sonde-sessions", sessions_work, s) == 0) return 0;
    return sonde_err_set(err, SONDE_ENOMEM, "cannot start a thread to end the session with");
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static void make_name(const struct sonde_sessions *s, char out[SONDE_SESSION_NAME_BYTES])
{
    sonde_assert_held(&s->lock);
    const time_t now = time(NULL);
    struct tm tm;
    char when[32] = "";
    if (gmtime_r(&now, &tm)) strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    snprintf(out, SONDE_SESSION_NAME_BYTES, "session-%s", when);
    for (int i = 2; sessions_find(s, out); i++) {
        snprintf(out, SONDE_SESSION_NAME_BYTES, "session-%s.%d", when, i);
    }
}

/* A place in the list, so that nobody else takes the name meanwhile. */
static int sessions_reserve(struct sonde_sessions *s, struct sonde_session_ask *ask,
                            struct session *x, struct sonde_err *err)
{
    int rc = 0;
    sonde_lock(&s->lock);
    if (!*ask->name) make_name(s, ask->name);
    if (s->worker.stopping) {
        rc = sonde_err_set(err, SONDE_EOFF, "the agent ends");
    } else if (sessions_find(s, ask->name)) {
        rc = sonde_err_set(err, SONDE_EEXIST, "session \"%s\" runs already: stop it, or give this "
                           "one another name", ask->name);
    } else if (s->count == SONDE_CAPTURES_MAX) {
        rc = sonde_err_set(err, SONDE_EBUSY, "%d sessions run, which is the limit: stop one",
                           SONDE_CAPTURES_MAX);
    } else if (ask->duration_s > 0) {
        rc = sessions_start_thread(s, err);
    }
    if (!rc) {
        x->ask = *ask;
        s->list[s->count++] = x;
    }
    sonde_unlock(&s->lock);
    return rc;
}

int sonde_sessions_begin(struct sonde_sessions *s, struct sonde_session_ask *ask,
                         struct sonde_err *err)
{
    struct session *x = sonde__calloc(1, sizeof(*x));
    struct sonde_capture *capture = NULL;
    if (!x) return sonde_err_set(err, SONDE_ENOMEM, "no memory for a session");
    if (!sonde_profiler_has_cpu(s->profiler)) ask->cpu = 0;
    int rc = sessions_reserve(s, ask, x, err);
    if (rc) {
        sonde__free(x);
        return rc;
    }
    const struct sonde_capture_options o = { .rate_hz = ask->rate_hz, .no_cpu = !ask->cpu,
                                             .memory = ask->memory, .wait = 1 };
    rc = sonde_profiler_begin(s->profiler, &o, &capture, err);
    sonde_lock(&s->lock);
    if (rc) {
        sessions_take_out(s, x);
        sonde__free(x);
    } else {
        x->capture = capture;
        if (ask->duration_s > 0) {
            x->end_ns = sonde_clock_ns(CLOCK_MONOTONIC) + (uint64_t)(ask->duration_s * 1e9);
        }
    }
    sonde_cond_broadcast(&s->wake);
    sonde_unlock(&s->lock);
    return rc;
}

/* ---- Looking --------------------------------------------------------------------------------- */

static int sessions_load(struct sonde_sessions *s, const char *text,
                         struct sonde_session_found *out, struct sonde_err *err)
{
    struct sonde_store_found row;
    struct sonde_buf data;
    int rc = sonde_store_profile_find(s->ops, s->store, text, &row, err);
    if (rc) return rc;
    sonde_buf_init(&data, PROFILE_BYTES_MAX);
    rc = s->ops->profile_get(s->store, row.id, &data, err);
    if (!rc) rc = sonde_run_load_bytes(data.data, data.len, row.name, &out->profile, err);
    sonde_buf_release(&data);
    out->id = row.id;
    snprintf(out->label, sizeof(out->label), "%.100s", row.name);
    return rc;
}

int sonde_sessions_find(struct sonde_sessions *s, const char *text,
                        struct sonde_session_found *out, struct sonde_err *err)
{
    char id[24];
    *out = (struct sonde_session_found){ 0 };
    struct session *x = sessions_look_at(s, text);
    if (x) {
        snprintf(out->label, sizeof(out->label), "%.64s, so far", x->ask.name);
        const int rc = sonde_profiler_peek(s->profiler, x->capture, &out->profile, err);
        sessions_let_go(s, x);
        return rc;
    }
    if (!text) {
        const uint64_t last = sonde_sessions_last(s);
        if (!last) return sonde_err_set(err, SONDE_ENOENT, "no session runs, and none has ended");
        snprintf(id, sizeof(id), "%llu", (unsigned long long)last);
        text = id;
    }
    return sessions_load(s, text, out, err);
}

size_t sonde_sessions_running(struct sonde_sessions *s, struct sonde_session_row *out, size_t max)
{
    size_t n = 0;
    sonde_lock(&s->lock);
    for (size_t i = s->count; i-- > 0 && n < max;) {
        struct session *x = s->list[i];
        if (!x->capture) continue;
        struct sonde_session_row *row = &out[n++];
        *row = (struct sonde_session_row){ .duration_s = x->ask.duration_s, .cpu = x->ask.cpu,
                                           .memory = x->ask.memory };
        snprintf(row->name, sizeof(row->name), "%s", x->ask.name);
        sonde_profiler_capture_status(s->profiler, x->capture, &row->status);
    }
    sonde_unlock(&s->lock);
    return n;
}

/* ---- From begin to end ----------------------------------------------------------------------- */

int sonde_sessions_create(struct sonde_profiler *profiler, const struct sonde_store_ops *ops,
                          struct sonde_store *store, struct sonde_sessions **out)
{
    assert(profiler && out && (!store || ops));
    struct sonde_sessions *s = sonde__calloc(1, sizeof(*s));
    if (!s) return SONDE_ENOMEM;
    s->profiler = profiler;
    s->ops = store ? ops : &sonde_store_memory;
    s->store = store;
    s->memory = !store;
    const struct sonde_store_options few = { 0 };
    const int rc = store ? 0 : s->ops->open(&few, &s->store, NULL);
    if (rc) {
        sonde__free(s);
        return rc;
    }
    sonde_cond_init(&s->wake);
    sonde_lock_init(&s->lock, SONDE_RANK_SESSIONS);
    *out = s;
    return 0;
}

/* What nobody could look at any more is not put together. */
static void end_all(struct sonde_sessions *s)
{
    while (s->count) {
        struct session *x = s->list[s->count - 1];
        sonde_lock(&s->lock);
        sessions_take_out(s, x);
        sonde_unlock(&s->lock);
        if (!s->memory) {
            end_by_itself(s, x);
            continue;
        }
        sonde_profiler_end(s->profiler, x->capture, NULL, NULL);
        sonde__free(x);
    }
}

void sonde_sessions_destroy(struct sonde_sessions *s)
{
    if (!s) return;
    sonde_worker_stop(&s->worker, &s->lock, &s->wake);
    end_all(s); /* no request is under way any more */
    if (s->memory) s->ops->close(s->store);
    sonde_cond_destroy(&s->wake);
    sonde_lock_destroy(&s->lock);
    sonde__free(s);
}
