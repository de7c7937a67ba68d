/* tracker.c - see tracker.h: attaching to a model, names, the order of events, ticks. */
#include "infer/tracker.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "infer/private.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/strip.h"

#define SLACK_NS 200000000u     /* an event may be known this much later than it happened */
#define END_AFTER_NS 2u
#define FUTURE_S 60.0           /* clocks differ by less */

/* ---- Names ---------------------------------------------------------------------------------- */

/* A text that stays, of one of the two tables; NULL: there are too many, or no memory. */
static const char *names_get(struct infer_names *names, const char *text)
{
    const size_t len = strlen(text);
    const uint32_t hash = sonde_hash_bytes(text, len);
    uint32_t at = hash;
    const char *known;
    while ((known = sonde_pointer_map_next(&names->map, hash, &at)) && strcmp(known, text)) continue;
    if (known) return known;
    if (names->map.used >= INFER_NAMES_MAX || sonde_pointer_map_reserve(&names->map)) return NULL;
    char *copy = sonde__alloc(len + 1);
    if (!copy) return NULL;
    memcpy(copy, text, len + 1);
    sonde_pointer_map_put(&names->map, hash, copy);
    return copy;
}

static void names_release(struct infer_names *names)
{
    char *text;
    for (uint32_t at = 0; (text = sonde_pointer_map_each(&names->map, &at));) sonde__free(text);
    sonde_pointer_map_release(&names->map);
}

const char *infer_name(struct sonde_infer_tracker *x, const char *text)
{
    if (!text || !*text) return "";
    const char *name = names_get(&x->names, text);
    return name ? name : "(other)";
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

/* The text of an event besides its model's name, which every event may have. */
static const char **event_text(struct sonde_infer_event *e)
{
    switch (e->type) {
    case SONDE_INFER_REQUEST: return &e->request.route;
    case SONDE_INFER_PHASE: return &e->phase.name;
    case SONDE_INFER_ATTR: return &e->attr.key;
    default: return NULL;
    }
}

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
    if (!name || !*name) return "";
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
    const char **text = event_text(&kept.e);
    if (text) *text = infer_name(x, *text);
    if (e->type == SONDE_INFER_ATTR && e->attr.type == SONDE__ATTR_STR && sonde_strip_on()) {
        sonde_strip_paths(kept.e.attr.value.str);
    }
    x->m->activity++;
    infer_wait(x, &kept);
}

/* ---- Events of other threads ------------------------------------------------------------------ */

/* The caller's texts are gone when the event is read. Few are known, and most events have none: what
 * is posted often allocates nothing. */
static const char *posted_name(struct sonde_infer_tracker *x, const char *text)
{
    sonde_assert_held(&x->post_lock);
    if (!text || !*text) return "";
    const char *name = names_get(&x->posted_names, text);
    return name ? name : "(other)";
}

void sonde_infer_post(struct sonde_infer_tracker *x, const struct sonde_infer_event *e)
{
    assert(x && e);
    sonde_lock(&x->post_lock);
    if (SONDE_ARRAY_ROOM_MAX(x->posted, x->posted_count, x->posted_cap, INFER_POSTED_MAX) == 0) {
        struct sonde_infer_event *to = &x->posted[x->posted_count++];
        *to = *e;
        to->model = posted_name(x, e->model);
        const char **text = event_text(to);
        if (text) *text = posted_name(x, *text);
    } else {
        x->posted_dropped++;
    }
    sonde_unlock(&x->post_lock);
}

static struct sonde_model_process *tracker_process_of(const struct sonde_model *m, uint32_t pid)
{
    for (size_t i = m->process_count; pid && i-- > 0;) {
        if (m->processes[i]->pid == pid) return m->processes[i];
    }
    return NULL;
}

/* Two arrays take turns, so that those who post find room that was there before; after a burst they
 * are given back. */
static void take_posted(struct sonde_infer_tracker *x)
{
    sonde_lock(&x->post_lock);
    struct sonde_infer_event *posted = x->posted;
    const size_t count = x->posted_count, cap = x->posted_cap;
    const uint64_t dropped = x->posted_dropped;
    x->posted = x->spare;
    x->posted_cap = x->spare_cap;
    x->posted_count = 0;
    x->posted_dropped = 0;
    sonde_unlock(&x->post_lock);
    for (uint64_t i = 0; i < dropped; i++) infer_count(x, SONDE_INFER_BAD_queue_full);
    for (size_t i = 0; i < count; i++) {
        tracker_take(x, tracker_process_of(x->m, posted[i].pid), &posted[i]);
    }
    const int keep = cap <= INFER_POSTED_KEPT;
    x->spare = keep ? posted : NULL;
    x->spare_cap = keep ? cap : 0;
    if (!keep) sonde__free(posted);
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
    sonde__free(x->groups);
    sonde__free(x->models);
    sonde__free(x->posted);
    sonde__free(x->spare);
    sonde_timeq_release(&x->waiting);
    sonde__free(x->slots);
    sonde__free(x->ended);
    names_release(&x->names);
    names_release(&x->posted_names);
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
