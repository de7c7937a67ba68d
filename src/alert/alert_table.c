/* alert_table.c - see alert_table.h. */
#include "alert/alert_table.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "base/names.h"
#include "sonde/sonde.h"

#define RESOLVED_KEPT_S 86400.0
enum { RESOLVED_KEPT_MAX = 200 }; /* more: the oldest go */

static const char *const alert_states[] = { "pending", "firing", "resolved" };
static const char *const alert_sources[] = { "told", "rule", "slo" };
static const char *const alert_outcomes[] = { "none", "queued", "sent", "failed", "refused",
                                              "dropped" };

const char *alert_state_name(uint32_t state) { return SONDE_NAME_OF(alert_states, state); }
const char *alert_source_name(uint32_t source) { return SONDE_NAME_OF(alert_sources, source); }
const char *alert_outcome_name(uint32_t o) { return SONDE_NAME_OF(alert_outcomes, o); }

/* ---- Entries --------------------------------------------------------------------------------- */

static void alert_entry_destroy(struct alert_entry *e)
{
    if (!e) return;
    alert_subject_release(&e->what);
    sonde__free(e->key);
    sonde__free(e);
}

void alert_table_release(struct alert_table *t)
{
    for (size_t i = 0; i < t->count; i++) alert_entry_destroy(t->at[i]);
    sonde__free(t->at);
    t->at = NULL;
    t->count = t->cap = 0;
}

static void alert_table_remove(struct alert_table *t, size_t at)
{
    assert(at < t->count);
    alert_entry_destroy(t->at[at]);
    t->count--;
    memmove(&t->at[at], &t->at[at + 1], (t->count - at) * sizeof(t->at[0]));
    t->changed++;
}

/* A thousand at most, told once per second: a search from the start costs less than a map would in
 * code. */
struct alert_entry *alert_table_find(const struct alert_table *t, const char *key)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!strcmp(t->at[i]->key, key)) return t->at[i];
    }
    return NULL;
}

static int alert_table_add(struct alert_table *t, const char *key, struct alert_labels *labels,
                           struct alert_entry **out)
{
    if (t->count >= SONDE_ALERTS_MAX) {
        t->full++;
        return SONDE_EFULL;
    }
    struct alert_entry *e = sonde__calloc(1, sizeof(*e));
    char *copy = sonde__strdup(key);
    if (!e || !copy || SONDE_ARRAY_ROOM(t->at, t->count, t->cap) != 0) {
        sonde__free(e);
        sonde__free(copy);
        return SONDE_ENOMEM;
    }
    e->key = copy;
    e->what.hash = sonde_fnv64_text(SONDE_FNV64_SEED ^ t->salt, key);
    e->what.labels = *labels;
    *labels = (struct alert_labels){ 0 };
    t->at[t->count++] = e;
    *out = e;
    return 0;
}

/* ---- Being told ------------------------------------------------------------------------------ */

/* A condition that begins to hold. */
static void alert_entry_begin(struct alert_entry *e, double time_s)
{
    const int continues = e->state == ALERT_RESOLVED && e->told_firing && !e->told_resolved;
    if (continues) { /* receivers were never told that it was over: it is not, for them */
        e->state = ALERT_FIRING;
        e->resolved_s = 0;
        return;
    }
    e->state = ALERT_PENDING;
    e->started_s = time_s;
    e->fired_s = e->resolved_s = e->told_s = 0;
    e->told_firing = e->told_resolved = e->repeats = e->severity_told = 0;
}

static void alert_entry_fill(struct alert_entry *e, const struct sonde_alert_event *from)
{
    if (!e->severity_told) e->what.severity = (uint32_t)from->severity;
    e->what.value = from->value;
    if (from->summary) {
        alert_text_copy(e->what.summary, sizeof(e->what.summary), from->summary);
    }
    if (from->link) alert_text_copy(e->what.link, sizeof(e->what.link), from->link);
    e->for_s = from->for_s > 0 ? from->for_s : 0;
    e->keep_s = from->keep_s > 0 ? from->keep_s : 0;
}

void alert_entry_clear(struct alert_table *t, struct alert_entry *e, double now_s)
{
    if (!e->active) return;
    e->active = 0;
    e->since_s = now_s;
    t->changed++;
}

int alert_table_tell(struct alert_table *t, const struct sonde_alert_event *from,
                     enum alert_source source, uint64_t round, struct alert_entry **out)
{
    assert(alert_kind_ok(from->kind) && from->time_s > 0);
    char key[ALERT_KEY_MAX];
    struct alert_labels labels;
    if (out) *out = NULL;
    int rc = alert_labels_copy(&labels, from->labels, from->label_count);
    if (rc) return rc;
    alert_subject_key(from->kind, from->key, &labels, key);
    struct alert_entry *e = alert_table_find(t, key);
    if (!e && from->firing) {
        rc = alert_table_add(t, key, &labels, &e);
        if (!rc) {
            memcpy(e->what.kind, from->kind, strlen(from->kind) + 1);
            e->source = source;
        }
    }
    alert_labels_release(&labels);
    if (rc || !e) return rc;
    e->seen = round;
    /* The text of what is over is that of its end only if there was something to end. */
    if (from->firing || e->state == ALERT_FIRING) alert_entry_fill(e, from);
    if (from->firing && !e->active) {
        e->since_s = from->time_s;
        if (e->state != ALERT_FIRING) alert_entry_begin(e, from->time_s);
        e->active = 1;
        t->changed++;
    } else if (!from->firing) {
        alert_entry_clear(t, e, from->time_s);
    }
    if (out) *out = e;
    return 0;
}

/* ---- Time passes ----------------------------------------------------------------------------- */

static void alert_entry_turn(struct alert_table *t, struct alert_entry *e, double now_s)
{
    /* A clock that was set back must not keep alerts waiting for as long. */
    if (e->since_s > now_s) e->since_s = now_s;
    if (e->state == ALERT_PENDING && e->active && now_s - e->since_s >= e->for_s) {
        e->state = ALERT_FIRING;
        e->fired_s = now_s;
        t->changed++;
    } else if (e->state == ALERT_FIRING && !e->active && now_s - e->since_s >= e->keep_s) {
        e->state = ALERT_RESOLVED;
        e->resolved_s = now_s;
        t->changed++;
    }
}

void alert_entry_advance(struct alert_table *t, struct alert_entry *e,
                         const struct alert_advance *how)
{
    alert_entry_turn(t, e, how->now_s);
    e->muted_by = 0;
    e->held = (uint32_t)how->held(e, how->arg);
    if (e->held || e->state == ALERT_PENDING) return;
    int firing = 0;
    if (e->state == ALERT_FIRING && !e->told_firing) {
        firing = 1;
    } else if (e->state == ALERT_FIRING && how->repeat_s > 0 &&
               how->now_s - e->told_s >= how->repeat_s) {
        firing = 1;
        e->repeats++;
    } else if (e->state != ALERT_RESOLVED || !e->told_firing || e->told_resolved) {
        return;
    }
    if (how->due(e, firing, how->arg) != 0) return;
    if (firing) e->told_firing = 1;
    else e->told_resolved = 1;
    e->told_s = how->now_s;
    e->severity_told = 1;
    t->changed++;
}

/* What is of no more use: never fired, or over for long. */
static int alert_entry_spent(const struct alert_entry *e, double now_s)
{
    if (e->active) return 0;
    if (e->state == ALERT_PENDING) return 1;
    return e->state == ALERT_RESOLVED && now_s - e->resolved_s > RESOLVED_KEPT_S;
}

static void alert_table_tidy(struct alert_table *t, double now_s)
{
    size_t resolved = 0;
    for (size_t i = t->count; i-- > 0;) {
        const struct alert_entry *e = t->at[i];
        const int over = e->state == ALERT_RESOLVED && !e->active;
        resolved += (size_t)over;
        if (alert_entry_spent(e, now_s) || (over && resolved > RESOLVED_KEPT_MAX)) {
            alert_table_remove(t, i);
        }
    }
}

void alert_table_advance(struct alert_table *t, const struct alert_advance *how)
{
    for (size_t i = 0; i < t->count; i++) alert_entry_advance(t, t->at[i], how);
    alert_table_tidy(t, how->now_s);
}

/* ---- Kept ------------------------------------------------------------------------------------ */

static void alert_entry_state(struct sonde_state *s, struct alert_entry *e, char *key)
{
    alert_subject_state(s, &e->what);
    sonde_state_text(s, key, ALERT_KEY_MAX);
    sonde_state_u32(s, &e->source);
    sonde_state_u32(s, &e->state);
    sonde_state_u32(s, &e->active);
    sonde_state_double(s, &e->since_s);
    sonde_state_double(s, &e->started_s);
    sonde_state_double(s, &e->fired_s);
    sonde_state_double(s, &e->resolved_s);
    sonde_state_double(s, &e->for_s);
    sonde_state_double(s, &e->keep_s);
    sonde_state_u32(s, &e->told_firing);
    sonde_state_u32(s, &e->told_resolved);
    sonde_state_u32(s, &e->repeats);
    sonde_state_double(s, &e->told_s);
    sonde_state_u32(s, &e->severity_told);
    if (e->source > ALERT_SLO || e->state > ALERT_RESOLVED || e->active > 1) s->bad = 1;
    if (!(e->since_s >= 0) || !(e->for_s >= 0) || !(e->keep_s >= 0)) s->bad = 1;
}

static void alert_table_load_one(struct sonde_state *s, struct alert_table *t)
{
    struct alert_entry read = { 0 }, *e = NULL;
    char key[ALERT_KEY_MAX];
    alert_entry_state(s, &read, key);
    if (!s->bad && !alert_table_find(t, key) &&
        alert_table_add(t, key, &read.what.labels, &e) == 0) {
        const struct alert_labels labels = e->what.labels;
        char *const own = e->key;
        *e = read;
        e->key = own;
        e->what.labels = labels;
    }
    alert_labels_release(&read.what.labels);
}

void alert_table_state(struct sonde_state *s, struct alert_table *t)
{
    uint64_t count = t->count;
    sonde_state_count(s, &count, SONDE_ALERTS_MAX);
    for (uint64_t i = 0; i < count && !s->bad; i++) {
        if (sonde_state_loading(s)) alert_table_load_one(s, t);
        else alert_entry_state(s, t->at[i], t->at[i]->key);
    }
}
