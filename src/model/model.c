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
#include "base/clock.h"
#include "base/lock.h"
#include "base/strip.h"
#include "model/private.h"

#define LABELS_MAX 64  /* of a series; far above what a segment or a probe can have */

static const struct sonde_model_limits defaults = { 1u << 20, 20000, 16384 };

uint64_t sonde_model_hash(uint64_t seed, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++) seed = (seed ^ p[i]) * 1099511628211ull;
    return seed;
}

/* FNV's low bits are weak for short keys; tables use this many bits from the top. */
static size_t model_slot_of(uint64_t hash, size_t slots)
{
    return (size_t)((hash * 0x9e3779b97f4a7c15ull) >> 20) & (slots - 1);
}

int sonde_model_grow(void **array, size_t *cap, size_t count, size_t item_bytes)
{
    if (count < *cap) return 0;
    size_t next = *cap ? *cap * 2 : 8;
    void *p = sonde__realloc(*array, next * item_bytes);
    if (!p) return SONDE_ENOMEM;
    *array = p;
    *cap = next;
    return 0;
}

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
    m->index->series_slots = m->index->family_slots = m->index->intern_slots = 64;
    m->index->series = sonde__calloc(64, sizeof(m->index->series[0]));
    m->index->family = sonde__calloc(64, sizeof(m->index->family[0]));
    m->index->intern = sonde__calloc(64, sizeof(m->index->intern[0]));
    if (!m->index->series || !m->index->family || !m->index->intern) goto fail;
    sonde_rwlock_init(&m->lock, SONDE_RANK_MODEL);
    *out = m;
    return 0;

fail:
    if (m->index) {
        sonde__free(m->index->series);
        sonde__free(m->index->family);
        sonde__free(m->index->intern);
    }
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
    assert(!m->tracker); /* it has pointers to series: sonde_infer_detach comes first */
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
    sonde__free(m->index->series);
    sonde__free(m->index->family);
    sonde__free(m->index->intern);
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

static void family_rehash(struct sonde_model_index *x)
{
    size_t slots = x->family_slots * 2;
    struct sonde_model_family_entry **table = sonde__calloc(slots, sizeof(*table));
    if (!table) return;  /* longer chains, still right */
    for (size_t i = 0; i < x->family_slots; i++) {
        struct sonde_model_family_entry *e = x->family[i], *next;
        for (; e; e = next) {
            next = e->chain;
            size_t at = model_slot_of(e->hash, slots);
            e->chain = table[at];
            table[at] = e;
        }
    }
    sonde__free(x->family);
    x->family = table;
    x->family_slots = slots;
}

static char *text_or_empty(const char *s) { return sonde__strdup(s ? s : ""); }

/* m->families has room. */
static void family_link(struct sonde_model *m, struct sonde_model_family_entry *e, uint64_t hash)
{
    struct sonde_model_index *x = m->index;
    const size_t at = family_position(m, e->family.name);
    memmove(&m->families[at + 1], &m->families[at],
            (m->family_count - at) * sizeof(m->families[0]));
    m->families[at] = &e->family;
    m->family_count++;
    if (m->family_count > x->family_slots) family_rehash(x);
    e->hash = hash;
    e->chain = x->family[model_slot_of(hash, x->family_slots)];
    x->family[model_slot_of(hash, x->family_slots)] = e;
}

static struct sonde_model_family *model_family_add(struct sonde_model *m, uint64_t hash,
                                                   const struct sonde_model_family_spec *spec)
{
    if (m->family_count >= m->series_max) {
        m->dropped_series++;
        return NULL;
    }
    if (sonde_model_grow((void **)&m->families, &m->family_cap, m->family_count,
                         sizeof(m->families[0])) != 0) {
        return NULL;
    }
    struct sonde_model_family_entry *e = sonde__calloc(1, sizeof(*e));
    if (!e) return NULL;
    struct sonde_model_family *f = &e->family;
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
    family_link(m, e, hash);
    return f;
}

static struct sonde_model_family_entry *family_find(const struct sonde_model *m, const char *name,
                                                    uint64_t *hash)
{
    *hash = sonde_model_hash(SONDE_MODEL_HASH_SEED, name, strlen(name));
    struct sonde_model_family_entry *e =
        m->index->family[model_slot_of(*hash, m->index->family_slots)];
    while (e && (e->hash != *hash || strcmp(e->family.name, name) != 0)) e = e->chain;
    return e;
}

struct sonde_model_family *sonde_model_family_find(const struct sonde_model *m, const char *name)
{
    uint64_t hash;
    struct sonde_model_family_entry *e = family_find(m, name, &hash);
    return e ? &e->family : NULL;
}

static void family_unlink(struct sonde_model *m, size_t at)
{
    struct sonde_model_family_entry *e = (struct sonde_model_family_entry *)m->families[at];
    struct sonde_model_family_entry **link =
        &m->index->family[model_slot_of(e->hash, m->index->family_slots)];
    while (*link != e) link = &(*link)->chain;
    *link = e->chain;
    m->family_count--;
    memmove(&m->families[at], &m->families[at + 1],
            (m->family_count - at) * sizeof(m->families[0]));
}

/* What came from elsewhere makes room for what is ours. */
static int family_rename(struct sonde_model *m, struct sonde_model_family *f)
{
    static const char prefix[] = "exported_";
    uint64_t hash;
    char *name = sonde__alloc(sizeof(prefix) + strlen(f->name));
    if (!name) return SONDE_ENOMEM;
    memcpy(name, prefix, sizeof(prefix));
    memcpy(name + sizeof(prefix) - 1, f->name, strlen(f->name) + 1);
    if (family_find(m, name, &hash)) {
        sonde__free(name);
        return SONDE_EEXIST;
    }
    family_unlink(m, family_position(m, f->name));
    sonde__free(f->name);
    f->name = name;
    f->stem += f->stem ? (uint32_t)sizeof(prefix) - 1 : 0;
    for (size_t i = 0; i < f->series_count; i++) f->series[i]->stored = 0;
    family_link(m, (struct sonde_model_family_entry *)f, hash);
    return 0;
}

struct sonde_model_family *sonde_model_family(struct sonde_model *m,
                                              const struct sonde_model_family_spec *spec)
{
    assert(spec->name);
    uint64_t hash;
    struct sonde_model_family_entry *e = family_find(m, spec->name, &hash);
    if (!e) return model_family_add(m, hash, spec);
    const double scale = spec->scale == 0 ? 1 : spec->scale;
    const int other = e->family.type != spec->type || e->family.scale < scale ||
                      e->family.scale > scale;
    if (e->family.foreign && (other || e->family.shown != SONDE_SHOWN_TYPE || spec->bounds)) {
        if (family_rename(m, &e->family) == 0) return model_family_add(m, hash, spec);
    } else if (!other) {
        e->family.foreign = 0;
        return &e->family;
    }
    m->dropped_conflicts++;
    return NULL;
}

struct sonde_model_family *sonde_model_family_foreign(struct sonde_model *m,
                                                      const struct sonde_model_family_spec *spec,
                                                      enum sonde_shown shown, size_t stem)
{
    uint64_t hash;
    struct sonde_model_family_entry *e = family_find(m, spec->name, &hash);
    if (e) {
        const int same = e->family.type == spec->type && e->family.shown == shown &&
                         e->family.stem == stem && !e->family.bounds;
        return same ? &e->family : NULL;
    }
    struct sonde_model_family *f = model_family_add(m, hash, spec);
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

static uint64_t label_set_hash(const struct model_label_set *set, const void *family,
                               const void *process)
{
    uint64_t h = sonde_model_hash(SONDE_MODEL_HASH_SEED, &family, sizeof(family));
    h = sonde_model_hash(h, &process, sizeof(process));
    for (size_t i = 0; i < set->count; i++) {
        h = sonde_model_hash(h, set->label[i].name, strlen(set->label[i].name) + 1);
        h = sonde_model_hash(h, set->label[i].value, strlen(set->label[i].value) + 1);
    }
    return h;
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

static void series_rehash(struct sonde_model_index *x)
{
    size_t slots = x->series_slots * 2;
    struct sonde_model_series **table = sonde__calloc(slots, sizeof(*table));
    if (!table) return;
    for (size_t i = 0; i < x->series_slots; i++) {
        struct sonde_model_series *s = x->series[i], *next;
        for (; s; s = next) {
            next = s->chain;
            size_t at = model_slot_of(s->hash, slots);
            s->chain = table[at];
            table[at] = s;
        }
    }
    sonde__free(x->series);
    x->series = table;
    x->series_slots = slots;
}

struct sonde_model_series *sonde_model_series(struct sonde_model *m,
                                              struct sonde_model_family *f,
                                              struct sonde_model_process *process,
                                              const struct sonde_label *labels, size_t count)
{
    struct sonde_model_index *x = m->index;
    struct model_label_set set;
    if (label_set_init(m, &set, process, labels, count) != 0) {
        m->dropped_series++;
        return NULL;
    }
    uint64_t hash = label_set_hash(&set, f, process);
    struct sonde_model_series *s = x->series[model_slot_of(hash, x->series_slots)];
    for (; s; s = s->chain) {
        if (s->hash == hash && s->family == f && s->process == process &&
            label_set_equal(&set, s)) {
            return s;
        }
    }
    if (m->series_count >= m->series_max) {
        m->dropped_series++;
        return NULL;
    }
    if (sonde_model_grow((void **)&f->series, &f->series_cap, f->series_count,
                         sizeof(f->series[0])) != 0) {
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
    if (m->series_count > x->series_slots) series_rehash(x);
    s->chain = x->series[model_slot_of(hash, x->series_slots)];
    x->series[model_slot_of(hash, x->series_slots)] = s;
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

static void series_unlink(struct sonde_model_index *x, struct sonde_model_series *s)
{
    struct sonde_model_series **link = &x->series[model_slot_of(s->hash, x->series_slots)];
    while (*link != s) link = &(*link)->chain;
    *link = s->chain;
}

void sonde_model_series_forget(struct sonde_model *m, struct sonde_model_series *s)
{
    struct sonde_model_family *f = s->family;
    size_t at = f->series_count;
    while (f->series[--at] != s) assert(at > 0);
    f->series_count--;
    memmove(&f->series[at], &f->series[at + 1], (f->series_count - at) * sizeof(f->series[0]));
    series_unlink(m->index, s);
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
    if (sonde_strip_on()) program = sonde_model_strip(m, "process", program);
    if (!program) return NULL;
    for (size_t i = 0; i < m->process_count; i++) {
        struct sonde_model_process *p = m->processes[i];
        if (p->pid == pid && p->start_time == start_time && strcmp(p->program, program) == 0) {
            return p;
        }
    }
    if (sonde_model_grow((void **)&m->processes, &m->process_cap, m->process_count,
                         sizeof(m->processes[0])) != 0) {
        return NULL;
    }
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
    series_unlink(x, s);
    s->hash = to->hash;
    s->chain = x->series[model_slot_of(s->hash, x->series_slots)];
    x->series[model_slot_of(s->hash, x->series_slots)] = s;
    s->labels = to->labels;
    s->label_text = to->label_text;
    s->label_text_len = to->label_text_len;
    s->stored = 0;
    sonde__free(s->renamed);
    s->renamed = to;
}

/* The next series of p, in the order of families; NULL = that was all. */
static struct sonde_model_series *process_series(const struct sonde_model *m,
                                                 const struct sonde_model_process *p, size_t *family,
                                                 size_t *at)
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
    struct sonde_model_series *s, *first = NULL, **last = &first;
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
        else last = &(*last)->chain;
    }
    family = at = 0;
    while (first) {
        struct sonde_model_series *to = first;
        first = first->chain;
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
            series_unlink(m->index, s);
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
