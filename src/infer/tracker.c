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
    while ((known = sonde_pointer_map_next(&names->map, hash, &at)) && strcmp(known, text)) {
        continue;
    }
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

const char *infer_name(struct sonde_infer_tracker *tracker, const char *text)
{
    if (!text || !*text) return "";
    const char *name = names_get(&tracker->names, text);
    return name ? name : "(other)";
}

static const char *const reasons[] = {
#define SONDE__X(name, text) #name,
    SONDE_INFER_REASONS(SONDE__X)
#undef SONDE__X
};

void infer_count(struct sonde_infer_tracker *tracker, enum sonde_infer_reason reason)
{
    assert(reason < SONDE_INFER_REASON_COUNT);
    tracker->invalid[reason]++;
    struct sonde_model_series **s = &tracker->invalid_series[reason];
    if (!*s) *s = infer_invalid_series(tracker, reasons[reason]);
    if (*s) (*s)->counter = tracker->invalid[reason];
}

uint64_t sonde_infer_invalid(const struct sonde_infer_tracker *tracker,
                             enum sonde_infer_reason reason)
{
    assert((size_t)reason < SONDE_COUNT(reasons));
    return tracker->invalid[reason];
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

const struct sonde_infer_options *sonde_infer_options(const struct sonde_infer_tracker *tracker)
{
    return &tracker->o;
}

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

/* ---- Putting events in order ----------------------------------------------------------------- */

/* The earliest is worked out now. */
static void tracker_release_one(struct sonde_infer_tracker *tracker)
{
    struct infer_event e;
    sonde_timeq_take(&tracker->waiting, &e);
    infer_on_event(tracker, &e);
}

/* The end of a request comes after all else of its instant: an engine that reads the clock once
 * tells the last token and the end with the same ticks, and two conversions may round a nanosecond
 * apart. */
void infer_wait(struct sonde_infer_tracker *tracker, const struct infer_event *e)
{
    const uint64_t key_ns = e->e.time_ns + (e->e.type == SONDE_INFER_END ? END_AFTER_NS : 0);
    while (sonde_timeq_put(&tracker->waiting, key_ns, e) != 0) {
        if (tracker->waiting.count == 0) { /* no memory at all */
            infer_count(tracker, SONDE_INFER_BAD_queue_full);
            return;
        }
        tracker_release_one(tracker);
    }
}

/* Models are often called by their file. */
static const char *model_name(struct sonde_infer_tracker *tracker, const char *name)
{
    char text[256];
    if (!name || !*name) return "";
    snprintf(text, sizeof(text), "%s", name);
    sonde_strip_gguf(text); /* as the hooks do: one model has one name, whoever saw it */
    if (sonde_strip_on()) sonde_strip_path(text);
    return infer_name(tracker, text);
}

static void tracker_take(struct sonde_infer_tracker *tracker, struct sonde_model_process *p,
                         const struct sonde_infer_event *e)
{
    const double time_s = (double)e->time_ns * 1e-9;
    if (e->time_ns == 0 || e->begin_ns == 0 || time_s > tracker->now_s + FUTURE_S) {
        infer_count(tracker, SONDE_INFER_BAD_bad_time);
        return;
    }
    struct infer_event kept = { *e, p };
    kept.e.model = model_name(tracker, e->model);
    const char **text = event_text(&kept.e);
    if (text) *text = infer_name(tracker, *text);
    if (e->type == SONDE_INFER_ATTR && e->attr.type == SONDE__ATTR_STR && sonde_strip_on()) {
        sonde_strip_paths(kept.e.attr.value.str);
    }
    tracker->m->activity++;
    infer_wait(tracker, &kept);
}

/* ---- Events of other threads ----------------------------------------------------------------- */

/* The caller's texts are gone when the event is read. Few are known, and most events have none:
 * what is posted often allocates nothing. */
static const char *posted_name(struct sonde_infer_tracker *tracker, const char *text)
{
    sonde_assert_held(&tracker->post_lock);
    if (!text || !*text) return "";
    const char *name = names_get(&tracker->posted_names, text);
    return name ? name : "(other)";
}

void sonde_infer_post(struct sonde_infer_tracker *tracker, const struct sonde_infer_event *e)
{
    assert(tracker && e);
    sonde_lock(&tracker->post_lock);
    if (SONDE_ARRAY_ROOM_MAX(tracker->posted, tracker->posted_count, tracker->posted_cap,
                             INFER_POSTED_MAX) == 0) {
        struct sonde_infer_event *to = &tracker->posted[tracker->posted_count++];
        *to = *e;
        to->model = posted_name(tracker, e->model);
        const char **text = event_text(to);
        if (text) *text = posted_name(tracker, *text);
    } else {
        tracker->posted_dropped++;
    }
    sonde_unlock(&tracker->post_lock);
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
static void take_posted(struct sonde_infer_tracker *tracker)
{
    sonde_lock(&tracker->post_lock);
    struct sonde_infer_event *posted = tracker->posted;
    const size_t count = tracker->posted_count, cap = tracker->posted_cap;
    const uint64_t dropped = tracker->posted_dropped;
    tracker->posted = tracker->spare;
    tracker->posted_cap = tracker->spare_cap;
    tracker->posted_count = 0;
    tracker->posted_dropped = 0;
    sonde_unlock(&tracker->post_lock);
    for (uint64_t i = 0; i < dropped; i++) infer_count(tracker, SONDE_INFER_BAD_queue_full);
    for (size_t i = 0; i < count; i++) {
        tracker_take(tracker, tracker_process_of(tracker->m, posted[i].pid), &posted[i]);
    }
    const int keep = cap <= INFER_POSTED_KEPT;
    tracker->spare = keep ? posted : NULL;
    tracker->spare_cap = keep ? cap : 0;
    if (!keep) sonde__free(posted);
}

/* ---- What the collector calls ---------------------------------------------------------------- */

void sonde_infer_event(struct sonde_infer_tracker *tracker, struct sonde_model_process *p,
                       const struct sonde_infer_event *e)
{
    assert(tracker && e);
    INFER_ASSERT_WRITE(tracker);
    tracker_take(tracker, p, e);
}

static void tracker_sink_event(void *arg, struct sonde_model_process *p,
                               const struct sonde_infer_event *e)
{
    sonde_infer_event(arg, p, e);
}

struct sonde_infer_sink sonde_infer_sink(struct sonde_infer_tracker *tracker)
{
    return (struct sonde_infer_sink){ tracker ? tracker_sink_event : NULL, tracker };
}

void sonde_infer_drained(struct sonde_infer_tracker *tracker, uint64_t since_ns)
{
    INFER_ASSERT_WRITE(tracker);
    take_posted(tracker);
    if (tracker->waiting.count) tracker->m->activity++; /* what waits is saved, too */
    while (tracker->waiting.count && sonde_timeq_first(&tracker->waiting) + SLACK_NS <= since_ns) {
        tracker_release_one(tracker);
    }
}

static void release_all(struct sonde_infer_tracker *tracker)
{
    while (tracker->waiting.count) tracker_release_one(tracker);
}

void sonde_infer_tick(struct sonde_infer_tracker *tracker, double now_s)
{
    INFER_ASSERT_WRITE(tracker);
    const double seconds = now_s - tracker->now_s;
    tracker->now_s = now_s;
    const double before_s = now_s - tracker->o.timeout_s;
    infer_age(tracker, before_s > 0 ? (uint64_t)(before_s * 1e9) : 0);
    infer_models_tick(tracker, seconds);
}

static void tracker_on_forget(struct sonde_model_process *p, void *arg)
{
    struct sonde_infer_tracker *tracker = arg;
    release_all(tracker);
    infer_drop(tracker, p);
    infer_series_forget(tracker, p);
}

void sonde_infer_destroy(struct sonde_infer_tracker *tracker)
{
    if (!tracker) return;
    sonde_model_unlisten(tracker->m, &tracker->listener);
    infer_drop(tracker, NULL);
    infer_done_release(tracker);
    for (size_t i = 0; i < tracker->group_count; i++) sonde__free(tracker->groups[i]);
    for (size_t i = 0; i < tracker->model_count; i++) sonde__free(tracker->models[i]);
    sonde__free(tracker->groups);
    sonde__free(tracker->models);
    sonde__free(tracker->posted);
    sonde__free(tracker->spare);
    sonde_timeq_release(&tracker->waiting);
    assert(!tracker->flights.used); /* infer_drop has ended them all */
    sonde_pointer_map_release(&tracker->flights);
    sonde__free(tracker->ended);
    names_release(&tracker->names);
    names_release(&tracker->posted_names);
    sonde_lock_destroy(&tracker->post_lock);
    sonde__free(tracker);
}

int sonde_infer_create(struct sonde_model *m, const struct sonde_infer_options *options,
                       struct sonde_infer_tracker **out)
{
    assert(m && options && out);
    struct sonde_infer_tracker *tracker = sonde__calloc(1, sizeof(*tracker));
    if (!tracker) return SONDE_ENOMEM;
    tracker->o = *options;
    if (tracker->o.from_s > 0) tracker->from_ns = (uint64_t)(tracker->o.from_s * 1e9);
    if (!tracker->o.done_max) tracker->o.done_max = 4096;
    if (!tracker->o.running_max) tracker->o.running_max = 4096;
    if (!(tracker->o.timeout_s > 0)) tracker->o.timeout_s = 600;
    tracker->m = m;
    sonde_timeq_init(&tracker->waiting, sizeof(struct infer_event), INFER_WAITING_MAX);
    tracker->now_s = tracker->started_s = sonde_clock_s(CLOCK_REALTIME);
    tracker->totals.since_s = tracker->started_s;
    sonde_lock_init(&tracker->post_lock, SONDE_RANK_INFER_POSTED);
    tracker->listener =
        (struct sonde_model_listener){ .on_forget = tracker_on_forget, .arg = tracker };
    sonde_model_listen(m, &tracker->listener);
    *out = tracker;
    return 0;
}

void sonde_infer_flush(struct sonde_infer_tracker *tracker)
{
    if (!tracker) return;
    const struct sonde_model *m = tracker->m;
    INFER_ASSERT_WRITE(tracker);
    take_posted(tracker);
    release_all(tracker);
    for (size_t i = 0; i < m->process_count; i++) {
        if (m->processes[i]->state != SONDE_PROCESS_RUNNING) infer_drop(tracker, m->processes[i]);
    }
}

/* ---- Totals ---------------------------------------------------------------------------------- */

void sonde_infer_totals(const struct sonde_infer_tracker *tracker, double now_s,
                        struct sonde_infer_totals *out)
{
    INFER_ASSERT_READ(tracker);
    *out = tracker->totals;
    const double wall_s = now_s - out->since_s;
    uint64_t requests = 0;
    for (size_t i = 0; i < SONDE_INFER_OUTCOMES; i++) requests += out->requests[i];
    out->uptime_s = wall_s > 0 ? wall_s : 0;
    out->tokens_per_s = wall_s > 0 ? (double)out->tokens_out / wall_s : 0;
    out->requests_per_s = wall_s > 0 ? (double)requests / wall_s : 0;
    out->hit_ratio =
        tracker->cache_asked ? (double)out->tokens_reused / (double)tracker->cache_asked : NAN;
}

void sonde_infer_reset(struct sonde_infer_tracker *tracker, double now_s)
{
    INFER_ASSERT_WRITE(tracker);
    const uint64_t memory = tracker->totals.memory_bytes;
    tracker->totals = (struct sonde_infer_totals){ .since_s = now_s, .memory_bytes = memory,
                                                   .memory_peak = memory };
    tracker->cache_asked = 0;
    tracker->reset_tick = tracker->m->tick;
    tracker->reset_done = tracker->done_next;
    infer_groups_reset(tracker);
    tracker->m->activity++;
}

uint64_t sonde_infer_reset_tick(const struct sonde_infer_tracker *tracker)
{
    return tracker->reset_tick;
}

size_t sonde_infer_reset_done(const struct sonde_infer_tracker *tracker)
{
    const size_t kept = sonde_infer_done_count(tracker);
    const uint64_t since = tracker->done_next - tracker->reset_done;
    return since < kept ? (size_t)since : kept;
}
