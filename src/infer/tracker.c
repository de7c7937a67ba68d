/* tracker.c - see inference.h: attaching to a model, names, the order of events, ticks. */
#include "infer/tracker.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "infer/private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/strip.h"

#define SLACK_NS 200000000u     /* an event may be known this much later than it happened */
#define END_AFTER_NS 2u
#define FUTURE_S 60.0           /* clocks differ by less */

/* ---- Names ---------------------------------------------------------------------------------- */

const char *infer_name(struct sonde_infer_tracker *x, const char *text)
{
    if (!text || !*text) return "";
    uint64_t h = 14695981039346656037ull;
    for (const char *c = text; *c; c++) h = (h ^ (unsigned char)*c) * 1099511628211ull;
    struct infer_name **slot = &x->names[(h >> 20) % (SONDE_COUNT(x->names))];
    for (const struct infer_name *n = *slot; n; n = n->chain) {
        if (!strcmp(n->text, text)) return n->text;
    }
    const size_t len = strlen(text);
    struct infer_name *n = NULL;
    if (x->name_count < INFER_NAMES_MAX) n = sonde__alloc(sizeof(*n) + len + 1);
    if (!n) return "(other)";
    memcpy(n->text, text, len + 1);
    n->chain = *slot;
    *slot = n;
    x->name_count++;
    return n->text;
}

static void names_free(struct sonde_infer_tracker *x)
{
    for (size_t i = 0; i < SONDE_COUNT(x->names); i++) {
        for (struct infer_name *n = x->names[i], *next; n; n = next) {
            next = n->chain;
            sonde__free(n);
        }
    }
}

static const char *const reasons[] = {
#define SONDE__X(name, text) #name,
    SONDE_INFER_REASONS(SONDE__X)
#undef SONDE__X
};

void infer_count(struct sonde_infer_tracker *x, enum sonde_infer_reason reason)
{
    x->invalid[reason]++;
    struct sonde_model_series **s = &x->invalid_series[reason];
    if (!*s) *s = infer_invalid_series(x, reasons[reason]);
    if (*s) (*s)->counter = x->invalid[reason];
}

uint64_t sonde_infer_invalid(const struct sonde_infer_tracker *x, enum sonde_infer_reason reason)
{
    return x->invalid[reason];
}

const char *sonde_infer_reason_name(enum sonde_infer_reason reason) { return reasons[reason]; }

const char *sonde_infer_reason_text(const char *name)
{
    static const char *const texts[] = {
#define SONDE__X(id, text) text,
        SONDE_INFER_REASONS(SONDE__X)
#undef SONDE__X
    };
    for (size_t i = 0; i < SONDE_INFER_REASON_COUNT; i++) {
        if (!strcmp(name, reasons[i])) return texts[i];
    }
    return "";
}

const struct sonde_infer_options *sonde_infer_options(const struct sonde_infer_tracker *x) { return &x->o; }

/* ---- Putting events in order ------------------------------------------------------------------ */

/* The earliest is worked out now. */
static void tracker_release_one(struct sonde_infer_tracker *x)
{
    struct infer_event e;
    sonde_timeq_take(&x->waiting, &e);
    infer_on_event(x, &e);
}

/* The end of a request comes after all else of its instant: an engine that reads the clock once tells
 * the last token and the end with the same ticks, and two conversions may round a nanosecond apart. */
void infer_wait(struct sonde_infer_tracker *x, const struct infer_event *e)
{
    const uint64_t key_ns = e->e.time_ns + (e->e.type == SONDE_INFER_END ? END_AFTER_NS : 0);
    while (sonde_timeq_put(&x->waiting, key_ns, e) != 0) {
        if (x->waiting.count == 0) { /* no memory at all */
            infer_count(x, SONDE_INFER_BAD_queue_full);
            return;
        }
        tracker_release_one(x);
    }
}

/* Models are often called by their file. */
static const char *model_name(struct sonde_infer_tracker *x, const char *name)
{
    char text[256];
    if (!name) return infer_name(x, name);
    snprintf(text, sizeof(text), "%s", name);
    sonde_strip_gguf(text); /* as the hooks do: one model has one name, whoever saw it */
    if (sonde_strip_on()) sonde_strip_path(text);
    return infer_name(x, text);
}

static void tracker_take(struct sonde_infer_tracker *x, struct sonde_model_process *p,
                         const struct sonde_infer_event *e)
{
    const double time_s = (double)e->time_ns * 1e-9;
    if (e->time_ns == 0 || e->begin_ns == 0 || time_s > x->now_s + FUTURE_S) {
        infer_count(x, SONDE_INFER_BAD_bad_time);
        return;
    }
    struct infer_event kept = { *e, p };
    kept.e.model = model_name(x, e->model);
    kept.e.route = infer_name(x, e->route);
    kept.e.name = infer_name(x, e->name);
    if (e->type == SONDE_INFER_ATTR) {
        kept.e.attr.key = infer_name(x, e->attr.key);
        if (sonde_strip_on() && e->attr.type == SONDE__ATTR_STR) {
            sonde_strip_paths(kept.e.attr.value.str);
        }
    }
    x->m->activity++;
    infer_wait(x, &kept);
}

/* ---- Events of other threads ------------------------------------------------------------------ */

void sonde_infer_post(struct sonde_infer_tracker *x, const struct sonde_infer_event *e)
{
    sonde_lock(&x->post_lock);
    if (x->posted_count == x->posted_cap && x->posted_cap < INFER_POSTED_MAX) {
        const size_t cap = x->posted_cap ? x->posted_cap * 2 : 256;
        struct sonde_infer_event *grown = sonde__realloc(x->posted, cap * sizeof(*grown));
        if (grown) {
            x->posted = grown;
            x->posted_cap = cap;
        }
    }
    if (x->posted_count < x->posted_cap) {
        struct sonde_infer_event *to = &x->posted[x->posted_count++];
        *to = *e;
        /* The caller's texts are gone when these are read. */
        to->model = sonde__strdup(e->model ? e->model : "");
        to->route = sonde__strdup(e->route ? e->route : "");
        to->name = sonde__strdup(e->name ? e->name : "");
        to->attr.key = e->attr.key ? sonde__strdup(e->attr.key) : NULL;
    } else {
        x->posted_dropped++;
    }
    sonde_unlock(&x->post_lock);
}

static void posted_release(struct sonde_infer_event *e)
{
    sonde__free((char *)(uintptr_t)e->model);
    sonde__free((char *)(uintptr_t)e->route);
    sonde__free((char *)(uintptr_t)e->name);
    sonde__free((char *)(uintptr_t)e->attr.key);
}

static struct sonde_model_process *tracker_process_of(const struct sonde_model *m, uint32_t pid)
{
    for (size_t i = m->process_count; pid && i-- > 0;) {
        if (m->processes[i]->pid == pid) return m->processes[i];
    }
    return NULL;
}

static void take_posted(struct sonde_infer_tracker *x)
{
    sonde_lock(&x->post_lock);
    struct sonde_infer_event *posted = x->posted;
    const size_t count = x->posted_count;
    const uint64_t dropped = x->posted_dropped;
    x->posted = NULL;
    x->posted_count = x->posted_cap = 0;
    x->posted_dropped = 0;
    sonde_unlock(&x->post_lock);
    for (uint64_t i = 0; i < dropped; i++) infer_count(x, SONDE_INFER_BAD_queue_full);
    for (size_t i = 0; i < count; i++) {
        /* A strdup may have failed; then it says less. */
        tracker_take(x, tracker_process_of(x->m, posted[i].pid), &posted[i]);
        posted_release(&posted[i]);
    }
    sonde__free(posted);
}

/* ---- What the collector calls ----------------------------------------------------------------- */

void sonde_infer_event(struct sonde_infer_tracker *x, struct sonde_model_process *p,
                       const struct sonde_infer_event *e)
{
    assert(x && e);
    tracker_take(x, p, e);
}

static void tracker_sink_event(void *arg, struct sonde_model_process *p,
                               const struct sonde_infer_event *e)
{
    sonde_infer_event(arg, p, e);
}

struct sonde_infer_sink sonde_infer_sink(struct sonde_infer_tracker *x)
{
    return (struct sonde_infer_sink){ x ? tracker_sink_event : NULL, x };
}

void sonde_infer_drained(struct sonde_infer_tracker *x, uint64_t since_ns)
{
    take_posted(x);
    if (x->waiting.count) x->m->activity++; /* what waits is saved, too */
    while (x->waiting.count && sonde_timeq_first(&x->waiting) + SLACK_NS <= since_ns) {
        tracker_release_one(x);
    }
}

static void release_all(struct sonde_infer_tracker *x)
{
    while (x->waiting.count) tracker_release_one(x);
}

void sonde_infer_tick(struct sonde_infer_tracker *x, double now_s)
{
    const double seconds = now_s - x->now_s;
    x->now_s = now_s;
    const double before_s = now_s - x->o.timeout_s;
    infer_age(x, before_s > 0 ? (uint64_t)(before_s * 1e9) : 0);
    infer_models_tick(x, seconds);
}

static void tracker_on_forget(struct sonde_model_process *p, void *arg)
{
    struct sonde_infer_tracker *x = arg;
    release_all(x);
    infer_drop(x, p);
    infer_series_forget(x, p);
}

void sonde_infer_detach(struct sonde_model *m)
{
    struct sonde_infer_tracker *x = m->tracker;
    if (!x) return;
    m->tracker = NULL;
    sonde_model_unlisten(m, &x->listener);
    infer_drop(x, NULL);
    infer_done_release(x);
    for (size_t i = 0; i < x->group_count; i++) sonde__free(x->groups[i]);
    for (size_t i = 0; i < x->model_count; i++) sonde__free(x->models[i]);
    for (size_t i = 0; i < x->posted_count; i++) posted_release(&x->posted[i]);
    sonde__free(x->groups);
    sonde__free(x->models);
    sonde__free(x->posted);
    sonde_timeq_release(&x->waiting);
    sonde__free(x->slots);
    sonde__free(x->ended);
    names_free(x);
    sonde_lock_destroy(&x->post_lock);
    sonde__free(x);
}

struct sonde_infer_tracker *sonde_infer_of(const struct sonde_model *m)
{
    return m->tracker;
}

int sonde_infer_attach(struct sonde_model *m, const struct sonde_infer_options *options)
{
    assert(m && options && !m->tracker);
    struct sonde_infer_tracker *x = sonde__calloc(1, sizeof(*x));
    if (!x) return SONDE_ENOMEM;
    x->o = *options;
    if (x->o.from_s > 0) x->from_ns = (uint64_t)(x->o.from_s * 1e9);
    if (!x->o.done_max) x->o.done_max = 4096;
    if (!x->o.running_max) x->o.running_max = 4096;
    if (!(x->o.timeout_s > 0)) x->o.timeout_s = 600;
    x->m = m;
    sonde_timeq_init(&x->waiting, sizeof(struct infer_event), INFER_WAITING_MAX);
    x->now_s = x->started_s = sonde_clock_s(CLOCK_REALTIME);
    x->totals.since_s = x->started_s;
    for (x->slot_count = 64; x->slot_count < x->o.running_max;) x->slot_count *= 2;
    x->slots = sonde__calloc(x->slot_count, sizeof(*x->slots));
    if (!x->slots) {
        sonde__free(x);
        return SONDE_ENOMEM;
    }
    sonde_lock_init(&x->post_lock, SONDE_RANK_INFER_POSTED);
    x->listener = (struct sonde_model_listener){ .on_forget = tracker_on_forget, .arg = x };
    sonde_model_listen(m, &x->listener);
    m->tracker = x;
    return 0;
}

void sonde_infer_flush(struct sonde_model *m)
{
    struct sonde_infer_tracker *x = sonde_infer_of(m);
    if (!x) return;
    take_posted(x);
    release_all(x);
    for (size_t i = 0; i < m->process_count; i++) {
        if (m->processes[i]->state != SONDE_PROCESS_RUNNING) infer_drop(x, m->processes[i]);
    }
}

/* ---- Totals ----------------------------------------------------------------------------------- */

void sonde_infer_totals(const struct sonde_infer_tracker *x, double now_s, struct sonde_infer_totals *out)
{
    *out = x->totals;
    const double wall_s = now_s - out->since_s;
    uint64_t requests = 0;
    for (size_t i = 0; i < SONDE_INFER_OUTCOMES; i++) requests += out->requests[i];
    out->uptime_s = wall_s > 0 ? wall_s : 0;
    out->tokens_per_s = wall_s > 0 ? (double)out->tokens_out / wall_s : 0;
    out->requests_per_s = wall_s > 0 ? (double)requests / wall_s : 0;
    out->hit_ratio = x->cache_asked ? (double)out->tokens_reused / (double)x->cache_asked : NAN;
}

void sonde_infer_reset(struct sonde_infer_tracker *x, double now_s)
{
    const uint64_t memory = x->totals.memory_bytes;
    x->totals = (struct sonde_infer_totals){ .since_s = now_s, .memory_bytes = memory,
                                             .memory_peak = memory };
    x->cache_asked = 0;
    x->reset_tick = x->m->tick;
    x->reset_done = x->done_next;
    infer_groups_reset(x);
    x->m->activity++;
}

uint64_t sonde_infer_reset_tick(const struct sonde_infer_tracker *x) { return x->reset_tick; }

size_t sonde_infer_reset_done(const struct sonde_infer_tracker *x)
{
    const size_t kept = sonde_infer_done_count(x);
    const uint64_t since = x->done_next - x->reset_done;
    return since < kept ? (size_t)since : kept;
}
