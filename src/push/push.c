/* push.c - the feeder: looks at the model once an interval and makes batches; and the life of all
 * of it. See push.h. */
#include "push/push.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/names.h"
#include "base/strip.h"
#include "base/thread.h"
#include "push/otlp.h"
#include "sonde/sonde.h"

enum { PATH_SIZE = 4096 };
#define LOOK_S 0.5 /* own figures, and whether many spans have come */

struct sonde_push {
    struct push_origin origin;
    struct push_dest *dests;
    size_t dest_count;
    struct sonde_model *model;     /* NULL = profiles only */
    int requests, native;
    uint32_t signals;              /* that anybody takes */
    double interval_s, timeout_s;
    char *spool;
    uint64_t spool_bytes;
    double spool_age_s;
    struct push_spans spans;
    int listening;
    uint64_t last_tick;            /* of the model, that metrics were made of; the feeder's */

    struct sonde_lock lock;
    struct sonde_cond wake;
    int stopping;
    struct sonde_thread thread;    /* the feeder */
};

#define SONDE_PUSH(id) extern const struct sonde_push_ops sonde_push_##id;
#include "push/push_list.h"
#undef SONDE_PUSH

static const struct sonde_push_ops *const kinds[] = {
#define SONDE_PUSH(id) &sonde_push_##id,
#include "push/push_list.h"
#undef SONDE_PUSH
    NULL,
};

const char *sonde_push_kind(size_t i)
{
    assert(i < SONDE_COUNT(kinds));
    return kinds[i] ? kinds[i]->name : NULL;
}

int sonde_push_signals(const char *text, uint32_t *out, struct sonde_err *err)
{
    static const char *const names[] = { "metrics", "traces", "profiles", "logs" };
    uint32_t signals = 0;
    for (const char *p = text; *p;) {
        const size_t len = strcspn(p, ",");
        const int i = sonde_name_find_len(names, SONDE_COUNT(names), p, len);
        if (i < 0) {
            return sonde_err_set(err, SONDE_EINVAL,
                                 "push.signals: '%.*s' is none of metrics, traces, "
                                 "profiles, logs",
                                 (int)(len < 40 ? len : 40), p);
        }
        signals |= 1u << i;
        p += len + (p[len] == ',');
    }
    *out = signals;
    return 0;
}

double push_clock_s(void) { return sonde_clock_s(CLOCK_MONOTONIC); }
double push_unix_s(void) { return sonde_clock_s(CLOCK_REALTIME); }

const struct push_origin *push_origin(const struct push_dest *d) { return &d->push->origin; }
double push_timeout_s(const struct push_dest *d) { return d->push->timeout_s; }
int push_wants_native(const struct push_dest *d) { return d->push->native; }

/* ---- Batches --------------------------------------------------------------------------------- */

static void push_count_lost(struct push_dest *d, enum push_drop reason, uint64_t n)
{
    assert(reason < PUSH_DROPS);
    sonde_lock(&d->lock);
    d->counts.dropped[reason] += n;
    sonde_unlock(&d->lock);
}

void push_emit(struct push_dest *d, uint32_t signal, const char *target, uint32_t items,
               struct sonde_buf *raw)
{
    assert(!raw->error && raw->len <= PUSH_BODY_MAX && strlen(target) < PUSH_TARGET_MAX);
    if (d->thread.started) sonde_assert_held(&d->made_lock); /* before that there is one user */
    const size_t len = raw->len;
    char *body = sonde_buf_take(raw);
    struct push_batch *b = body ? push_batch_create(signal, target, items, body, len) : NULL;
    if (!b) {
        sonde__free(body);
        push_count_lost(d, PUSH_DROP_MEMORY, 1);
        return;
    }
    *d->made_end = b;
    d->made_end = &b->next;
}

static int push_pack(const struct push_dest *d, struct push_batch *b)
{
    if (!d->ops->pack) return 0;
    struct sonde_buf raw = { .data = b->body, .len = b->body_len }, out;
    sonde_buf_init(&out, PUSH_BODY_MAX);
    int rc = d->ops->pack(&raw, &out);
    const size_t len = out.len;
    char *body = rc ? NULL : sonde_buf_take(&out);
    if (!rc && !body) rc = SONDE_ENOMEM;
    if (rc) {
        sonde_buf_release(&out);
        return rc;
    }
    sonde__free(b->body);
    b->body = body;
    b->body_len = len;
    return 0;
}

/* What was made is compressed and handed to the sender; without the model's lock, which others wait
 * for. */
static void push_dispatch(struct push_dest *d)
{
    sonde_assert_held(&d->made_lock);
    if (d->push->model) sonde_assert_not_held(&d->push->model->lock);
    struct push_batch *b = d->made;
    const int any = b != NULL;
    d->made = NULL;
    d->made_end = &d->made;
    while (b) {
        struct push_batch *const next = b->next;
        b->next = NULL;
        if (push_pack(d, b) == 0) {
            push_queue_put(d->queue, b);
        } else {
            push_batch_destroy(b);
            push_count_lost(d, PUSH_DROP_MEMORY, 1);
        }
        b = next;
    }
    if (!any) return;
    sonde_lock(&d->lock);
    sonde_cond_signal(&d->wake);
    sonde_unlock(&d->lock);
}

/* ---- The feeder ------------------------------------------------------------------------------ */

/* All destinations get the same tick. */
static void feed_metrics(struct sonde_push *p)
{
    for (size_t i = 0; i < p->dest_count; i++) sonde_lock_ascending(&p->dests[i].made_lock);
    sonde_rdlock(&p->model->lock);
    const int news = p->model->tick != p->last_tick;
    p->last_tick = p->model->tick;
    for (size_t i = 0; news && i < p->dest_count; i++) {
        struct push_dest *d = &p->dests[i];
        if (!d->ops->metrics || !(d->signals & SONDE_PUSH_METRICS)) continue;
        if (d->ops->metrics(d, p->model) != 0) push_count_lost(d, PUSH_DROP_MEMORY, 1);
    }
    sonde_rwunlock(&p->model->lock);
    for (size_t i = 0; i < p->dest_count; i++) {
        push_dispatch(&p->dests[i]);
        sonde_unlock(&p->dests[i].made_lock);
    }
}

static void feed_traces(struct sonde_push *p)
{
    sonde_assert_none_held();
    struct push_spans taken;
    push_spans_take(&p->spans, &taken);
    for (size_t i = 0; i < p->dest_count && taken.group_count; i++) {
        struct push_dest *d = &p->dests[i];
        if (!d->ops->traces || !(d->signals & SONDE_PUSH_TRACES)) continue;
        sonde_lock(&d->made_lock);
        if (d->ops->traces(d, &taken) != 0) push_count_lost(d, PUSH_DROP_MEMORY, 1);
        push_dispatch(d);
        push_sent_add(d->sent, (const uint64_t *)(const void *)taken.ids.data,
                      taken.ids.len / sizeof(uint64_t));
        sonde_unlock(&d->made_lock);
    }
    push_spans_release(&taken);
}

static void update_series(struct sonde_push *p)
{
    sonde_wrlock(&p->model->lock);
    for (size_t i = 0; i < p->dest_count; i++) push_series_update(&p->dests[i], p->model);
    sonde_rwunlock(&p->model->lock);
}

/* Until then, or until the end. 1 = the end. */
static int sleep_until(struct sonde_push *p, double when_s)
{
    const struct timespec until = sonde_clock_timespec_s(when_s);
    int rc = 0;
    sonde_lock(&p->lock);
    while (!p->stopping && rc != ETIMEDOUT) rc = sonde_cond_timedwait(&p->wake, &p->lock, &until);
    const int stopping = p->stopping;
    sonde_unlock(&p->lock);
    return stopping;
}

static void *push_feeder(void *arg)
{
    struct sonde_push *p = arg;
    const double look_s = p->interval_s < LOOK_S ? p->interval_s : LOOK_S;
    double due_s = push_clock_s() + p->interval_s;
    int stopping = 0;
    while (!stopping) {
        stopping = sleep_until(p, push_clock_s() + look_s);
        update_series(p);
        const double now = push_clock_s();
        const int due = stopping || now >= due_s;
        if (due || push_spans_many(&p->spans)) feed_traces(p);
        if (!due) continue;
        feed_metrics(p);
        while (due_s <= now) due_s += p->interval_s;
    }
    return NULL;
}

/* ---- Profiles and requests ------------------------------------------------------------------- */

int sonde_push_profile(struct sonde_push *p, const struct sonde_profile *profile)
{
    int first = 0;
    for (size_t i = 0; p && i < p->dest_count; i++) {
        struct push_dest *d = &p->dests[i];
        struct sonde_err err = { "" };
        if (!d->ops->profile || !(d->signals & SONDE_PUSH_PROFILES)) continue;
        sonde_lock(&d->made_lock);
        const int rc = d->ops->profile(d, profile, &err);
        push_dispatch(d);
        sonde_unlock(&d->made_lock);
        if (rc == 0 || rc == SONDE_ENOENT) continue; /* ENOENT: there is nothing in it */
        push_count_lost(d, PUSH_DROP_MEMORY, 1);
        sonde_log(SONDE_LOG_WARN, "push: a profile is not sent to %s: %s", d->ops->name, err.text);
        if (!first) first = rc;
    }
    return first;
}

void sonde_push_log(struct sonde_push *p, const struct sonde_push_log *log)
{
    for (size_t i = 0; p && i < p->dest_count; i++) {
        struct push_dest *d = &p->dests[i];
        if (!d->ops->log || !(d->signals & SONDE_PUSH_LOGS)) continue;
        sonde_lock(&d->made_lock);
        const int rc = d->ops->log(d, log);
        push_dispatch(d);
        sonde_unlock(&d->made_lock);
        if (rc) push_count_lost(d, PUSH_DROP_MEMORY, 1);
    }
}

void sonde_push_request(struct sonde_push *p, const struct sonde_infer_request *r)
{
    if (p && p->model && p->model->shared) sonde_assert_held_write(&p->model->lock);
    if (r->flags & SONDE_INFER_WENT_ON) return; /* it has been sent */
    if (p && p->listening) push_spans_request(&p->spans, r);
}

/* ---- Life ------------------------------------------------------------------------------------ */

/* In the names of folders that agents before this one made: never another hash. */
static uint64_t push_hash_of(const char *s) { return sonde_fnv64_text(SONDE_FNV64_SEED, s); }

/* p->spool and what it is in, as far as missing. */
static void make_folders(const char *path)
{
    char part[PATH_SIZE];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        mkdir(part, 0700);
    }
    mkdir(path, 0700);
}

static int open_queue(struct push_dest *d, struct sonde_err *err)
{
    const struct sonde_push *p = d->push;
    char dir[PATH_SIZE + 64];
    struct sonde_err note = { "" };
    if (p->spool) {
        make_folders(p->spool);
        snprintf(dir, sizeof(dir), "%s/%s-%08x", p->spool, d->ops->name,
                 (uint32_t)push_hash_of(d->url));
    }
    if (push_queue_open(p->spool ? dir : NULL, p->spool_bytes, p->spool_age_s, &d->queue, &note) !=
        0) {
        return sonde_err_memory(err);
    }
    struct push_queue_stats stats;
    push_queue_stats(d->queue, &stats);
    if (stats.on_disk && d->ops->traces && push_sent_open(dir, &d->sent) != 0) d->sent = NULL;
    if (note.text[0]) {
        sonde_log(SONDE_LOG_WARN, "push: %s; what cannot be sent to %s waits in memory", note.text,
                  d->ops->name);
    }
    return 0;
}

static int open_dest(struct sonde_push *p, struct push_dest *d, const struct sonde_push_target *t,
                     uint32_t signals, struct sonde_err *err)
{
    d->push = p;
    d->made_end = &d->made;
    sonde_lock_init(&d->made_lock, SONDE_RANK_PUSH_MADE);
    sonde_lock_init(&d->lock, SONDE_RANK_PUSH_DEST);
    sonde_cond_init(&d->wake);
    for (size_t i = 0; kinds[i]; i++) {
        if (!strcmp(kinds[i]->name, t->kind)) d->ops = kinds[i];
    }
    if (!d->ops) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.40s' is no kind of destination", t->kind);
    }
    d->signals = signals;
    d->random = push_hash_of(t->url) ^ (uint64_t)getpid() << 32 ^ (uint64_t)(push_unix_s() * 1e6);
    if (!d->random) d->random = 1;
    int rc = push_url_check(t->url, d->ops->path, d->url, err);
    if (!rc) rc = push_headers_parse(d->ops->name, d->ops->headers, t->headers, &d->headers, err);
    if (!rc && d->ops->open && d->ops->open(d) != 0) {
        rc = sonde_err_memory(err);
    }
    return rc;
}

static void close_dest(struct push_dest *d)
{
    const uint64_t lost = push_queue_close(d->queue);
    if (lost) {
        sonde_log(SONDE_LOG_WARN, "push: %llu batches for %s %s were not sent and are lost",
                  (unsigned long long)lost, d->ops->name, d->url);
    }
    push_sent_close(d->sent);
    if (d->ops && d->ops->close) d->ops->close(d);
    push_headers_free(d->headers);
    d->headers = NULL;
    while (d->made) {
        struct push_batch *const b = d->made;
        d->made = b->next;
        push_batch_destroy(b);
    }
    sonde_cond_destroy(&d->wake);
    sonde_lock_destroy(&d->lock);
    sonde_lock_destroy(&d->made_lock);
}

static int push_init(struct sonde_push *p, const struct sonde_push_options *o,
                     struct sonde_err *err)
{
    sonde_lock_init(&p->lock, SONDE_RANK_PUSH);
    sonde_cond_init(&p->wake);
    if (sonde_strip_on() ||
        gethostname(p->origin.host, sizeof(p->origin.host) - 1) != 0 || !p->origin.host[0]) {
        snprintf(p->origin.host, sizeof(p->origin.host), "localhost");
    }
    p->model = o->model;
    p->requests = o->requests;
    p->native = o->native_histograms;
    p->interval_s = o->interval_s > 0 ? o->interval_s : 10;
    p->timeout_s = o->timeout_s > 0 ? o->timeout_s : 10;
    p->spool_bytes = o->spool_bytes;
    p->spool_age_s = o->spool_age_s;
    push_spans_init(&p->spans, &p->origin, o->model, o->requests);
    p->spans.since_ns = (uint64_t)(push_unix_s() * 1e9);
    p->dests = sonde__calloc(o->target_count + 1, sizeof(*p->dests));
    p->spool = o->spool ? sonde__strdup(o->spool) : NULL;
    if (!p->dests || (o->spool && !p->spool)) {
        return sonde_err_memory(err);
    }
    int rc = push_labels(&p->origin, o->labels, err);
    for (size_t i = 0; i < o->target_count && !rc; i++) {
        p->dest_count = i + 1;
        rc = open_dest(p, &p->dests[i], &o->targets[i], o->signals, err);
        if (!rc)
            p->signals |= p->dests[i].ops->traces ? o->signals : o->signals & ~SONDE_PUSH_TRACES;
    }
    return rc;
}

int sonde_push_create(const struct sonde_push_options *o, struct sonde_push **out,
                      struct sonde_err *err)
{
    struct sonde_push *p = sonde__calloc(1, sizeof(*p));
    if (!p) return sonde_err_memory(err);
    int rc = push_init(p, o, err);
    for (size_t i = 0; i < p->dest_count && !rc; i++) {
        rc = open_queue(&p->dests[i], err);
        if (p->dests[i].sent) p->spans.sent = p->dests[i].sent;
    }
    if (rc) {
        sonde_push_destroy(p);
        return rc;
    }
    *out = p;
    return 0;
}

static void listen_to_spans(struct sonde_push *p, int on)
{
    if (!p->model || p->listening == on || !(p->signals & SONDE_PUSH_TRACES)) return;
    sonde_wrlock(&p->model->lock);
    if (on) sonde_model_listen(p->model, &p->spans.listener);
    else sonde_model_unlisten(p->model, &p->spans.listener);
    p->listening = on;
    sonde_rwunlock(&p->model->lock);
}

int sonde_push_start(struct sonde_push *p, struct sonde_err *err)
{
    assert(!p->thread.started && !p->stopping);
    int rc = 0;
    listen_to_spans(p, 1);
    for (size_t i = 0; i < p->dest_count && !rc; i++) rc = push_sender_start(&p->dests[i], err);
    if (rc || !p->model) return rc;
    return sonde_thread_start(&p->thread, "sonde-push", push_feeder, p, err);
}

static void stop_feeder(struct sonde_push *p)
{
    if (!p->thread.started) return;
    sonde_lock(&p->lock);
    p->stopping = 1;
    sonde_cond_broadcast(&p->wake);
    sonde_unlock(&p->lock);
    sonde_thread_join(&p->thread);
}

void sonde_push_stop(struct sonde_push *p, double flush_s)
{
    if (!p) return;
    stop_feeder(p);
    listen_to_spans(p, 0);
    const double at = push_clock_s() + flush_s;
    for (size_t i = 0; i < p->dest_count; i++) {
        if (p->dests[i].thread.started) push_sender_stop(&p->dests[i], at);
    }
    for (size_t i = 0; i < p->dest_count; i++) push_sender_join(&p->dests[i]);
}

void sonde_push_destroy(struct sonde_push *p)
{
    if (!p) return;
    sonde_push_stop(p, 0);
    for (size_t i = 0; i < p->dest_count; i++) close_dest(&p->dests[i]);
    push_spans_release(&p->spans);
    sonde__free(p->dests);
    sonde__free(p->spool);
    sonde__free(p->origin.label_text);
    sonde_cond_destroy(&p->wake);
    sonde_lock_destroy(&p->lock);
    sonde__free(p);
}

int sonde_push_encode(struct sonde_push *p, struct sonde_model *m,
                      void (*each)(const char *kind, const char *body, size_t len, void *arg),
                      void *arg)
{
    if (m->shared) sonde_assert_held(&m->lock);
    assert(!p->thread.started);
    int rc = 0;
    for (size_t i = 0; i < p->dest_count && !rc; i++) {
        struct push_dest *d = &p->dests[i];
        if (d->ops->metrics) rc = d->ops->metrics(d, m);
        while (d->made) {
            struct push_batch *const b = d->made;
            d->made = b->next;
            if (!rc) each(d->ops->name, b->body, b->body_len, arg);
            push_batch_destroy(b);
        }
        d->made_end = &d->made;
    }
    return rc;
}

/* ---- Once ------------------------------------------------------------------------------------ */

static int post_made(struct push_dest *d, struct sonde_err *err)
{
    struct push_answer answer = { 0 };
    void *curl = push_http_open();
    int rc = curl ? 0 : sonde_err_memory(err);
    sonde_buf_init(&answer.body, 1 << 16);
    for (struct push_batch *b = d->made; b && !rc; b = b->next) {
        char why[160] = "";
        rc = push_pack(d, b);
        if (rc) {
            sonde_err_set(err, rc, "%s", sonde_strerror(rc));
        } else if (push_http_post(curl, d, b, push_timeout_s(d), NULL, NULL, &answer) != 0 ||
                   answer.status < 200 || answer.status >= 300) {
            rc = sonde_err_set(err, SONDE_EIO, "%s%s: %s", d->url, b->target, answer.text);
        } else if (d->ops->rejected &&
                   d->ops->rejected(answer.body.data, answer.body.len, why, sizeof(why))) {
            rc = sonde_err_set(err, SONDE_EIO, "%s does not take it: %s", d->url, why);
        }
    }
    sonde_buf_release(&answer.body);
    push_http_close(curl);
    return rc;
}

int sonde_push_once(const struct sonde_push_target *target, const char *labels, double timeout_s,
                    const struct sonde_profile *profile, struct sonde_err *err)
{
    struct sonde_push *p = sonde__calloc(1, sizeof(*p));
    if (!p) return sonde_err_memory(err);
    const struct sonde_push_options o = { .targets = target, .target_count = 1, .labels = labels,
                                          .signals = SONDE_PUSH_PROFILES, .timeout_s = timeout_s };
    int rc = push_init(p, &o, err);
    struct push_dest *d = p->dests;
    if (!rc && !d->ops->profile) {
        rc = sonde_err_set(err, SONDE_EINVAL, "%s takes no profiles", d->ops->name);
    }
    if (!rc) rc = d->ops->profile(d, profile, err);
    if (!rc) rc = post_made(d, err);
    sonde_push_destroy(p);
    return rc;
}

int sonde_push_reach(const struct sonde_push_target *target, const char *labels, double timeout_s,
                     struct sonde_err *err)
{
    struct sonde_push *p = sonde__calloc(1, sizeof(*p));
    if (!p) return sonde_err_memory(err);
    const struct sonde_push_options o = { .targets = target, .target_count = 1, .labels = labels,
                                          .timeout_s = timeout_s };
    int rc = push_init(p, &o, err);
    if (!rc) rc = push_http_reach(p->dests[0].url, timeout_s, err);
    sonde_push_destroy(p);
    return rc;
}
