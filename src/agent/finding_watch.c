/* finding_watch.c - see finding_watch.h.
 *
 * A finding is known by kind and subject. It begins when a look has it that the last two had not,
 * and is over when two looks in a row have it no more: one look may miss what is still there. */
#include "agent/finding_watch.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/recent_profile.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "sonde/sonde.h"

enum { KNOWN_MAX = 256, MISSES_MAX = 2 };
#define INTERVAL_S 30
#define WINDOW_S 60
#define FIRST_S 10 /* after the start: whoever opens the dashboard then need not wait */

struct watched_finding {
    const char *kind;            /* static */
    char *subject;               /* owned */
    char *text;                  /* owned: of the last look that had it */
    const char *title;           /* static */
    enum sonde_severity severity;
    uint64_t since_ns;
    int missed;                  /* looks in a row that had it no more */
    int told;
};

struct sonde_finding_watch {
    struct sonde_finding_watch_options o; /* complete */
    struct sonde_lock lock;      /* of what follows */
    struct sonde_cond wake;
    struct sonde_worker worker;
    struct sonde_findings *last; /* NULL = there was no look yet */
    double last_s;
    struct watched_finding known[KNOWN_MAX]; /* its thread's own */
    size_t known_count;
};

int sonde_finding_watch_create(const struct sonde_finding_watch_options *o,
                               struct sonde_finding_watch **out)
{
    struct sonde_finding_watch *w = sonde__calloc(1, sizeof(*w));
    if (!w) return SONDE_ENOMEM;
    w->o = *o;
    if (!(w->o.interval_s > 0)) w->o.interval_s = INTERVAL_S;
    if (!(w->o.window_s > 0)) w->o.window_s = WINDOW_S;
    sonde_lock_init(&w->lock, SONDE_RANK_FINDING_WATCH);
    sonde_cond_init(&w->wake);
    *out = w;
    return 0;
}

/* ---- From look to look ----------------------------------------------------------------------- */

static struct watched_finding *watched_find(struct sonde_finding_watch *w,
                                            const struct sonde_finding *f)
{
    for (size_t i = 0; i < w->known_count; i++) {
        if (w->known[i].kind == f->kind && !strcmp(w->known[i].subject, f->subject)) {
            return &w->known[i];
        }
    }
    return NULL;
}

static struct watched_finding *watched_add(struct sonde_finding_watch *w,
                                           const struct sonde_finding *f)
{
    if (w->known_count == KNOWN_MAX) return NULL;
    struct watched_finding *k = &w->known[w->known_count];
    *k = (struct watched_finding){ .kind = f->kind, .title = f->title,
                                   .subject = sonde__strdup(f->subject),
                                   .text = sonde__strdup(f->text), .since_ns = f->since_ns };
    if (k->subject && k->text) {
        w->known_count++;
        return k;
    }
    sonde__free(k->subject);
    sonde__free(k->text);
    return NULL;
}

static void watched_keep(const struct sonde_finding_watch *w, const struct sonde_finding *f)
{
    const struct sonde_agent *a = w->o.agent;
    struct sonde_store *store = a->store ? a->store : a->temporary;
    const int time = !isnan(f->seconds), bytes = !isnan(f->bytes);
    const struct sonde_store_finding row = {
        .time_s = (double)f->since_ns * 1e-9, .kind = f->kind, .subject = f->subject,
        .severity = f->severity, .value = time ? f->seconds : bytes ? f->bytes : f->share,
        .unit = time ? "seconds" : bytes ? "bytes" : "ratio", .text = f->text,
    };
    struct sonde_err err = { "" };
    uint64_t id;
    if (store && a->store_ops->finding_put(store, &row, &id, &err) != 0) {
        sonde_log(SONDE_LOG_WARN, "a finding is not kept: %s", err.text);
    }
}

static void watched_tell(const struct sonde_finding_watch *w, const struct sonde_finding *f,
                         int over)
{
    if (w->o.on_change) w->o.on_change(f, over, w->o.on_change_arg);
}

/* Causes alone begin and end; what they explain comes and goes with them. Where the time goes
 * (info) is no event. */
static void watched_see(struct sonde_finding_watch *w, struct sonde_finding *f)
{
    struct watched_finding *k = watched_find(w, f);
    if (!k) k = watched_add(w, f);
    if (!k) return;
    k->missed = 0;
    k->severity = f->severity;
    f->since_ns = k->since_ns;
    f->until_ns = 0;
    char *text = sonde__strdup(f->text);
    if (text) {
        sonde__free(k->text);
        k->text = text;
    }
    if (k->told || f->severity == SONDE_SEVERITY_INFO) return;
    k->told = 1;
    watched_keep(w, f);
    watched_tell(w, f, 0);
}

static void watched_over(struct sonde_finding_watch *w, size_t at, uint64_t now_ns)
{
    struct watched_finding k = w->known[at];
    const struct sonde_finding f = {
        .kind = k.kind, .title = k.title, .severity = k.severity, .subject = k.subject,
        .text = k.text, .file = (char *)(uintptr_t)"", .advice = (char *)(uintptr_t)"",
        .gain_of = "", .share = NAN, .seconds = NAN, .bytes = NAN, .count = NAN, .avg_s = NAN,
        .gain = NAN, .since_ns = k.since_ns, .until_ns = now_ns,
    };
    w->known[at] = w->known[--w->known_count];
    if (k.told) watched_tell(w, &f, 1);
    sonde__free(k.subject);
    sonde__free(k.text);
}

static void finding_watch_look(struct sonde_finding_watch *w)
{
    const struct sonde_recent_profile_options o = { .window_s = w->o.window_s };
    struct sonde_profile *p;
    struct sonde_findings *found = NULL, *before;
    struct sonde_err err = { "" };
    if (sonde_recent_profile(w->o.agent, &o, &p, &err) != 0) return;
    const int rc = sonde_findings_look(p, &w->o.rules, &found);
    const uint64_t now_ns = p->end_ns;
    sonde_profile_destroy(p);
    if (rc) return;
    for (size_t i = 0; i < w->known_count; i++) w->known[i].missed++;
    for (size_t i = 0; i < found->causes; i++) watched_see(w, &found->rows[i]);
    for (size_t i = w->known_count; i--;) {
        if (w->known[i].missed >= MISSES_MAX) watched_over(w, i, now_ns);
    }
    sonde_lock(&w->lock);
    before = w->last;
    w->last = found;
    w->last_s = (double)now_ns * 1e-9;
    sonde_unlock(&w->lock);
    sonde_findings_destroy(before);
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void *finding_watch_run(void *arg)
{
    struct sonde_finding_watch *w = arg;
    double pause_s = fmin(w->o.interval_s, FIRST_S);
    sonde_lock(&w->lock);
    while (!w->worker.stopping) {
        const struct timespec until =
            sonde_clock_timespec_s(sonde_clock_s(CLOCK_MONOTONIC) + pause_s);
        pause_s = w->o.interval_s;
        while (!w->worker.stopping &&
               sonde_cond_timedwait(&w->wake, &w->lock, &until) != ETIMEDOUT) {
        }
        if (w->worker.stopping) break;
        sonde_unlock(&w->lock);
        finding_watch_look(w);
        sonde_lock(&w->lock);
    }
    sonde_unlock(&w->lock);
    return NULL;
}

int sonde_finding_watch_start(struct sonde_finding_watch *w, struct sonde_err *err)
{
    sonde_lock(&w->lock);
    const int rc = sonde_worker_start(&w->worker, "sonde-findings", finding_watch_run, w);
    sonde_unlock(&w->lock);
    return rc ? sonde_err_memory(err) : 0;
}

void sonde_finding_watch_stop(struct sonde_finding_watch *w)
{
    if (w) sonde_worker_stop(&w->worker, &w->lock, &w->wake);
}

void sonde_finding_watch_destroy(struct sonde_finding_watch *w)
{
    if (!w) return;
    sonde_finding_watch_stop(w);
    sonde_findings_destroy(w->last);
    for (size_t i = 0; i < w->known_count; i++) {
        sonde__free(w->known[i].subject);
        sonde__free(w->known[i].text);
    }
    sonde_lock_destroy(&w->lock);
    sonde_cond_destroy(&w->wake);
    sonde__free(w);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

void sonde_finding_watch_last(struct sonde_finding_watch *w,
                              void (*use)(const struct sonde_findings *f, double time_s, void *arg),
                              void *arg)
{
    sonde_lock(&w->lock);
    use(w->last, w->last_s, arg);
    sonde_unlock(&w->lock);
}
