/* model.c - families, series and processes of the agent's model.
 *
 * A series is one block of memory: the struct, its labels, their text and the rendered
 * label_text, so that a hundred thousand series are a hundred thousand allocations and not a
 * million. Families are kept sorted for exporters and found through a hash table; series are
 * found by a hash over family, process and labels. Adding a family moves the tail of the sorted
 * array, which is cheap since families are few and come early; a tree was rejected for that. */
#include "model/model.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/strip.h"
#include "model/private.h"

#define LABELS_MAX 64  /* of a series; far above what a segment or a probe can have */

static const struct sonde_model_limits defaults = { 1u << 20, 20000, 16384 };

int sonde_model_create(const struct sonde_model_limits *limits, struct sonde_model **out)
{
    struct sonde_model_limits l = limits ? *limits : defaults;
    if (!l.series_max) l.series_max = defaults.series_max;
    if (!l.history_series_max) l.history_series_max = defaults.history_series_max;
    if (!l.spans_max) l.spans_max = defaults.spans_max;

    struct sonde_model *m = sonde__calloc(1, sizeof(*m));
    if (!m) return SONDE_ENOMEM;
    m->series_max = l.series_max;
    m->history_series_max = l.history_series_max;
    m->spans_max = l.spans_max;
    m->interval_s = 1;
    m->spans = sonde__calloc(l.spans_max, sizeof(*m->spans));
    m->index = sonde__calloc(1, sizeof(*m->index));
    if (!m->spans || !m->index) goto fail;
    sonde_rwlock_init(&m->lock, SONDE_RANK_MODEL);
    *out = m;
    return 0;

fail:
    sonde__free(m->index);
    sonde__free(m->spans);
    sonde__free(m);
    return SONDE_ENOMEM;
}

static void family_free(struct sonde_model_family *f)
{
    sonde__free(f->name);
    sonde__free(f->help);
    sonde__free(f->unit);
    sonde__free(f->source);
    sonde__free(f->series);
    sonde__free(f->bounds_own);
    sonde__free(f);
}

static void process_free(struct sonde_model_process *p)
{
    sonde__free(p->program);
    sonde__free(p->path);
    sonde__free(p);
}

void sonde_model_destroy(struct sonde_model *m)
{
    if (!m) return;
    for (size_t i = 0; i < m->family_count; i++) {
        struct sonde_model_family *f = m->families[i];
        for (size_t k = 0; k < f->series_count; k++) sonde_model_series_free(m, f->series[k]);
        family_free(f);
    }
    for (size_t i = 0; i < m->process_count; i++) process_free(m->processes[i]);
    sonde_model_spans_free(m);
    sonde__free(m->families);
    sonde__free(m->processes);
    sonde__free(m->spans);
    sonde_model_strip_free(m);
    sonde_pointer_map_release(&m->index->series);
    sonde_pointer_map_release(&m->index->families);
    sonde_pointer_map_release(&m->index->texts);
    sonde__free(m->index);
    sonde_rwlock_destroy(&m->lock);
    sonde__free(m);
}

/* ---- Families ----------------------------------------------------------------------------- */

/* Position of the first family whose name is not before name. */
static size_t family_position(const struct sonde_model *m, const char *name)
{
    size_t lo = 0, hi = m->family_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (strcmp(m->families[mid]->name, name) < 0) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static char *text_or_empty(const char *s) { return sonde__strdup(s ? s : ""); }

/* m->families and the index have room. */
static void family_link(struct sonde_model *m, struct sonde_model_family *f)
{
    assert(m->family_count < m->family_cap);
    const size_t at = family_position(m, f->name);
    memmove(&m->families[at + 1], &m->families[at],
            (m->family_count - at) * sizeof(m->families[0]));
    m->families[at] = f;
    m->family_count++;
    sonde_pointer_map_put(&m->index->families, sonde_hash_text(f->name), f);
}

static struct sonde_model_family *model_family_add(struct sonde_model *m,
                                                   const struct sonde_model_family_spec *spec)
{
    if (m->family_count >= m->series_max) {
        m->dropped_series++;
        return NULL;
    }
    if (SONDE_ARRAY_ROOM(m->families, m->family_count, m->family_cap) ||
        sonde_pointer_map_reserve(&m->index->families)) {
        return NULL;
    }
    struct sonde_model_family *f = sonde__calloc(1, sizeof(*f));
    if (!f) return NULL;
    f->name = sonde__strdup(spec->name);
    f->help = text_or_empty(spec->help);
    f->unit = text_or_empty(spec->unit);
    f->source = text_or_empty(spec->source);
    if (!f->name || !f->help || !f->unit || !f->source) {
        family_free(f);
        return NULL;
    }
    f->type = spec->type;
    f->kind = spec->kind;
    f->scale = spec->scale == 0 ? 1 : spec->scale;
    const double divisor = 1 / f->scale, whole = rint(divisor);
    f->bounds = spec->bounds;
    f->bound_count = spec->bounds ? spec->bound_count : 0;
    assert(f->bound_count <= SONDE_BOUNDS_MAX);
    f->divisor = whole >= 1 && fabs(divisor - whole) < 1e-9 * whole ? whole : 0;
    family_link(m, f);
    return f;
}

struct sonde_model_family *sonde_model_family_find(const struct sonde_model *m, const char *name)
{
    SONDE_MODEL_ASSERT_READ(m);
    const uint32_t hash = sonde_hash_text(name);
    uint32_t at = hash;
    struct sonde_model_family *f;
    while ((f = sonde_pointer_map_next(&m->index->families, hash, &at)) && strcmp(f->name, name)) {
        continue;
    }
    return f;
}

static void family_unlink(struct sonde_model *m, size_t at)
{
    assert(at < m->family_count);
    struct sonde_model_family *f = m->families[at];
    sonde_pointer_map_remove(&m->index->families, sonde_hash_text(f->name), f);
    m->family_count--;
    memmove(&m->families[at], &m->families[at + 1],
            (m->family_count - at) * sizeof(m->families[0]));
}

/* What came from elsewhere makes room for what is ours. */
static int family_rename(struct sonde_model *m, struct sonde_model_family *f)
{
    static const char prefix[] = "exported_";
    char *name = sonde__alloc(sizeof(prefix) + strlen(f->name));
    if (!name) return SONDE_ENOMEM;
    memcpy(name, prefix, sizeof(prefix));
    memcpy(name + sizeof(prefix) - 1, f->name, strlen(f->name) + 1);
    if (sonde_model_family_find(m, name)) {
        sonde__free(name);
        return SONDE_EEXIST;
    }
    family_unlink(m, family_position(m, f->name));
    sonde__free(f->name);
    f->name = name;
    f->stem += f->stem ? (uint32_t)sizeof(prefix) - 1 : 0;
    for (size_t i = 0; i < f->series_count; i++) f->series[i]->stored = 0;
    family_link(m, f);
    return 0;
}

struct sonde_model_family *sonde_model_family(struct sonde_model *m,
                                              const struct sonde_model_family_spec *spec)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    assert(spec->name);
    struct sonde_model_family *f = sonde_model_family_find(m, spec->name);
    if (!f) return model_family_add(m, spec);
    const double scale = spec->scale == 0 ? 1 : spec->scale;
    const int other = f->type != spec->type || f->scale < scale || f->scale > scale;
    if (f->foreign && (other || f->shown != SONDE_SHOWN_TYPE || spec->bounds)) {
        if (family_rename(m, f) == 0) return model_family_add(m, spec);
    } else if (!other) {
        f->foreign = 0;
        return f;
    }
    m->dropped_conflicts++;
    return NULL;
}

struct sonde_model_family *sonde_model_family_foreign(struct sonde_model *m,
                                                      const struct sonde_model_family_spec *spec,
                                                      enum sonde_shown shown, size_t stem)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    assert(spec->name && stem <= strlen(spec->name));
    struct sonde_model_family *f = sonde_model_family_find(m, spec->name);
    if (f) {
        const int same = f->type == spec->type && f->shown == shown && f->stem == stem &&
                         !f->bounds;
        return same ? f : NULL;
    }
    f = model_family_add(m, spec);
    if (!f) return NULL;
    f->foreign = 1;
    f->shown = (uint8_t)shown;
    f->stem = (uint32_t)stem;
    return f;
}

static void family_remove(struct sonde_model *m, size_t at)
{
    struct sonde_model_family *f = m->families[at];
    family_unlink(m, at);
    family_free(f);
}

void sonde_model_family_tidy(struct sonde_model *m, struct sonde_model_family *f)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    if (f->foreign && f->series_count == 0) family_remove(m, family_position(m, f->name));
}

/* ---- Series ------------------------------------------------------------------------------- */

/* The labels as the series will carry them. */
struct model_label_set {
    struct sonde_label label[LABELS_MAX];
    size_t count;
    char pid[16];
};

static const char *label_renamed(const char *name)
{
    if (strcmp(name, "process") == 0) return "exported_process";
    if (strcmp(name, "pid") == 0) return "exported_pid";
    return name;
}

static int label_set_init(struct sonde_model *m, struct model_label_set *set,
                          const struct sonde_model_process *process,
                          const struct sonde_label *labels, size_t count)
{
    if (count > LABELS_MAX - 2) return SONDE_EINVAL;
    for (size_t i = 0; i < count; i++) {
        set->label[i] = labels[i];
        if (sonde_strip_on()) {
            set->label[i].value = sonde_model_strip(m, labels[i].name, labels[i].value);
            if (!set->label[i].value) return SONDE_ENOMEM;
        }
        if (process) set->label[i].name = label_renamed(labels[i].name);
    }
    set->count = count;
    if (process) {
        snprintf(set->pid, sizeof(set->pid), "%u", process->pid);
        set->label[set->count++] = (struct sonde_label){ "process", process->program };
        set->label[set->count++] = (struct sonde_label){ "pid", set->pid };
    }
    return 0;
}

static uint32_t label_set_hash(const struct model_label_set *set, const void *family,
                               const void *process)
{
    uint64_t h = sonde_hash_mix(sonde_hash_mix(0, (uintptr_t)family), (uintptr_t)process);
    for (size_t i = 0; i < set->count; i++) {
        h = sonde_hash_mix(h, sonde_hash_text(set->label[i].name));
        h = sonde_hash_mix(h, sonde_hash_text(set->label[i].value));
    }
    return sonde_hash_end(h);
}

static int label_set_equal(const struct model_label_set *set, const struct sonde_model_series *s)
{
    if (set->count != s->label_count) return 0;
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->label[i].name, s->labels[i].name) != 0) return 0;
        if (strcmp(set->label[i].value, s->labels[i].value) != 0) return 0;
    }
    return 1;
}

/* Bytes of value as it stands between quotes in Prometheus text, written to out unless NULL. */
static size_t model_escape(char *out, const char *value)
{
    size_t n = 0;
    for (; *value; value++) {
        char c = *value;
        int special = c == '\\' || c == '"' || c == '\n';
        if (out && special) out[n] = '\\';
        n += (size_t)special;
        if (out) out[n] = c == '\n' ? 'n' : c;
        n++;
    }
    return n;
}

static struct sonde_model_series *series_alloc(const struct model_label_set *set)
{
    size_t text = 1, strings = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct sonde_label *l = &set->label[i];
        strings += strlen(l->name) + 1 + strlen(l->value) + 1;
        text += strlen(l->name) + model_escape(NULL, l->value) + 4;  /* `="",` */
    }
    size_t head = sizeof(struct sonde_model_series);
    size_t table = set->count * sizeof(struct sonde_label);
    char *block = sonde__calloc(1, head + table + strings + text);
    if (!block) return NULL;
    struct sonde_model_series *s = (struct sonde_model_series *)(void *)block;
    s->labels = (struct sonde_label *)(void *)(block + head);
    s->label_count = set->count;
    char *at = block + head + table;
    char *render = at + strings;
    s->label_text = render;
    for (size_t i = 0; i < set->count; i++) {
        const struct sonde_label *l = &set->label[i];
        size_t name_len = strlen(l->name), value_len = strlen(l->value);
        s->labels[i].name = memcpy(at, l->name, name_len + 1);
        at += name_len + 1;
        s->labels[i].value = memcpy(at, l->value, value_len + 1);
        at += value_len + 1;
        if (i > 0) *render++ = ',';
        memcpy(render, l->name, name_len);
        render += name_len;
        *render++ = '=';
        *render++ = '"';
        render += model_escape(render, l->value);
        *render++ = '"';
    }
    s->label_text_len = (size_t)(render - s->label_text);
    return s;
}

struct sonde_model_series *sonde_model_series(struct sonde_model *m,
                                              struct sonde_model_family *f,
                                              struct sonde_model_process *process,
                                              const struct sonde_label *labels, size_t count)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    assert(f && (labels || !count));
    struct sonde_pointer_map *index = &m->index->series;
    struct model_label_set set;
    if (label_set_init(m, &set, process, labels, count) != 0) {
        m->dropped_series++;
        return NULL;
    }
    const uint32_t hash = label_set_hash(&set, f, process);
    uint32_t at = hash;
    struct sonde_model_series *s;
    while ((s = sonde_pointer_map_next(index, hash, &at))) {
        if (s->family == f && s->process == process && label_set_equal(&set, s)) return s;
    }
    if (m->series_count >= m->series_max) {
        m->dropped_series++;
        return NULL;
    }
    if (SONDE_ARRAY_ROOM(f->series, f->series_count, f->series_cap) ||
        sonde_pointer_map_reserve(index)) {
        return NULL;
    }
    s = series_alloc(&set);
    if (!s) return NULL;
    s->created_s = sonde_clock_s(CLOCK_REALTIME);
    s->family = f;
    s->process = process;
    s->hash = hash;
    f->series[f->series_count++] = s;
    m->series_count++;
    if (process) process->series_count++;
    sonde_pointer_map_put(index, hash, s);
    return s;
}

struct sonde_model_series *sonde_model_own_series(struct sonde_model *m,
                                                  const struct sonde_model_family_spec *spec,
                                                  struct sonde_model_process *process,
                                                  const struct sonde_label *labels, size_t count)
{
    struct sonde_model_family *f = sonde_model_family(m, spec);
    struct sonde_model_series *s = f ? sonde_model_series(m, f, process, labels, count) : NULL;
    if (s) s->from_zero = 1;
    return s;
}

struct sonde_model_series *sonde_model_kept_series(struct sonde_model *m,
                                                   const struct sonde_model_family_spec *spec,
                                                   struct sonde_model_process *process,
                                                   const struct sonde_label *labels, size_t count)
{
    struct sonde_model_family *f = sonde_model_family(m, spec);
    struct sonde_model_series *s = f ? sonde_model_series(m, f, process, labels, count) : NULL;
    sonde_model_series_keep(s);
    return s;
}

void sonde_model_series_forget(struct sonde_model *m, struct sonde_model_series *s)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    struct sonde_model_family *f = s->family;
    size_t at = f->series_count;
    while (f->series[--at] != s) assert(at > 0);
    f->series_count--;
    memmove(&f->series[at], &f->series[at + 1], (f->series_count - at) * sizeof(f->series[0]));
    sonde_pointer_map_remove(&m->index->series, s->hash, s);
    if (s->process) s->process->series_count--;
    sonde_model_series_free(m, s);
    m->series_count--;
    sonde_model_family_tidy(m, f);
}

/* ---- Processes ---------------------------------------------------------------------------- */

const char *sonde_process_state_name(enum sonde_process_state s)
{
    switch (s) {
    case SONDE_PROCESS_RUNNING: return "running";
    case SONDE_PROCESS_EXITED: return "exited";
    case SONDE_PROCESS_KILLED: return "killed";
    }
    return "unknown";
}

struct sonde_model_process *sonde_model_process(struct sonde_model *m, uint32_t pid,
                                                uint64_t start_time, const char *program)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    if (sonde_strip_on()) program = sonde_model_strip(m, "process", program);
    if (!program) return NULL;
    for (size_t i = 0; i < m->process_count; i++) {
        struct sonde_model_process *p = m->processes[i];
        if (p->pid == pid && p->start_time == start_time && strcmp(p->program, program) == 0) {
            return p;
        }
    }
    if (SONDE_ARRAY_ROOM(m->processes, m->process_count, m->process_cap)) return NULL;
    struct sonde_model_process *p = sonde__calloc(1, sizeof(*p));
    if (!p) return NULL;
    p->program = sonde__strdup(program);
    if (!p->program) {
        sonde__free(p);
        return NULL;
    }
    p->serial = ++m->process_serial;
    p->pid = pid;
    p->start_time = start_time;
    m->processes[m->process_count++] = p;
    return p;
}

/* Labels of s as they are with another name of its process; they end with process and pid. */
static struct sonde_model_series *series_renamed(const struct sonde_model_series *s,
                                                 const char *program)
{
    struct model_label_set set;
    set.count = s->label_count;
    memcpy(set.label, s->labels, set.count * sizeof(set.label[0]));
    set.label[set.count - 2].value = program;
    struct sonde_model_series *out = series_alloc(&set);
    if (out) out->hash = label_set_hash(&set, s->family, s->process);
    return out;
}

/* Others have pointers to s, so it stays where it is. */
static void series_rename(struct sonde_model_index *x, struct sonde_model_series *s,
                          struct sonde_model_series *to)
{
    sonde_pointer_map_remove(&x->series, s->hash, s); /* which leaves room for it */
    s->hash = to->hash;
    sonde_pointer_map_put(&x->series, s->hash, s);
    s->labels = to->labels;
    s->label_text = to->label_text;
    s->label_text_len = to->label_text_len;
    s->stored = 0;
    sonde__free(s->renamed);
    s->renamed = to;
}

/* The next series of p, in the order of families; NULL = that was all. */
static struct sonde_model_series *process_series(
    const struct sonde_model *m, const struct sonde_model_process *p, size_t *family, size_t *at)
{
    for (; *family < m->family_count; ++*family, *at = 0) {
        const struct sonde_model_family *f = m->families[*family];
        while (*at < f->series_count) {
            struct sonde_model_series *s = f->series[(*at)++];
            if (s->process == p) return s;
        }
    }
    return NULL;
}

int sonde_model_process_rename(struct sonde_model *m, struct sonde_model_process *p,
                               const char *program)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    struct sonde_model_series *s, *first = NULL, **last = &first; /* chained by `renamed` */
    size_t family = 0, at = 0;
    if (sonde_strip_on()) program = sonde_model_strip(m, "process", program);
    char *name = program ? sonde__strdup(program) : NULL;
    if (!name) return SONDE_ENOMEM;
    int rc = 0;
    for (size_t i = 0; i < m->process_count; i++) {
        const struct sonde_model_process *o = m->processes[i];
        if (o != p && o->pid == p->pid && strcmp(o->program, name) == 0) rc = SONDE_EEXIST;
    }
    /* All of them, or none. */
    while (rc == 0 && (s = process_series(m, p, &family, &at))) {
        *last = series_renamed(s, name);
        if (!*last) rc = SONDE_ENOMEM;
        else last = &(*last)->renamed;
    }
    family = at = 0;
    while (first) {
        struct sonde_model_series *to = first;
        first = first->renamed;
        to->renamed = NULL;
        if (rc == 0) series_rename(m->index, process_series(m, p, &family, &at), to);
        else sonde__free(to);
    }
    if (rc == 0) {
        sonde_model_spans_rename(m, p->pid, p->program, name);
        sonde__free(p->program);
        p->program = name;
    } else {
        sonde__free(name);
    }
    return rc;
}

void sonde_model_process_forget(struct sonde_model *m, struct sonde_model_process *p)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    for (struct sonde_model_listener *l = m->listeners, *next; l; l = next) {
        next = l->next;
        if (l->on_forget) l->on_forget(p, l->arg);
    }
    for (size_t i = m->family_count; i-- > 0;) {
        struct sonde_model_family *f = m->families[i];
        size_t kept = 0, count = f->series_count;
        for (size_t k = 0; k < count; k++) {
            struct sonde_model_series *s = f->series[k];
            if (s->process != p) {
                f->series[kept++] = s;
                continue;
            }
            sonde_pointer_map_remove(&m->index->series, s->hash, s);
            sonde_model_series_free(m, s);
            m->series_count--;
        }
        f->series_count = kept;
        if (kept == 0 && count > 0) family_remove(m, i);
    }
    for (size_t i = 0; i < m->process_count; i++) {
        if (m->processes[i] != p) continue;
        m->process_count--;
        memmove(&m->processes[i], &m->processes[i + 1],
                (m->process_count - i) * sizeof(m->processes[0]));
        break;
    }
    process_free(p);
}
