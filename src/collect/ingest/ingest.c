/* ingest.c - see ingest.h.
 *
 * A source keeps an array of its series, each of which knows its place there, so that one is
 * forgotten in one step (the last takes its place). They are found through the model's own
 * table. */
#include "collect/ingest/ingest.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

enum { NAME_MAX_BYTES = 400, PREFIX = 9 /* of exported_ */ };

struct ingest_entry {
    struct sonde_model_series *series;
    uint64_t round;
    uint64_t start_ns, time_ns;
    double heard_s;
};

struct sonde_ingest {
    struct sonde_ingest *next;      /* of the model's list */
    struct sonde_model *model;
    struct sonde_label *labels;      /* owned, and their texts */
    size_t label_count;
    size_t series_max;
    double stale_s, created_s;
    struct ingest_entry *entry;
    size_t count, cap;
    uint64_t round;                  /* 0 = no round is under way */
    uint64_t rounds;
};

/* ---- Creating -------------------------------------------------------------------------------- */

static void ingest_release(struct sonde_ingest *f)
{
    for (size_t i = 0; i < f->label_count; i++) {
        sonde__free((char *)(uintptr_t)f->labels[i].name);
        sonde__free((char *)(uintptr_t)f->labels[i].value);
    }
    sonde__free(f->labels);
    sonde__free(f->entry);
    sonde__free(f);
}

int sonde_ingest_create(struct sonde_model *m, const struct sonde_ingest_options *o,
                        struct sonde_ingest **out)
{
    assert(m && o && out);
    struct sonde_ingest *f = sonde__calloc(1, sizeof(*f));
    if (!f) return SONDE_ENOMEM;
    f->model = m;
    f->series_max = o->series_max;
    f->stale_s = o->stale_s;
    f->created_s = sonde_clock_s(CLOCK_REALTIME);
    f->labels = sonde__calloc(o->label_count + 1, sizeof(*f->labels));
    for (size_t i = 0; f->labels && i < o->label_count; i++) {
        f->labels[i].name = sonde__strdup(o->labels[i].name);
        f->labels[i].value = sonde__strdup(o->labels[i].value);
        f->label_count++;
        if (f->labels[i].name && f->labels[i].value) continue;
        ingest_release(f);
        return SONDE_ENOMEM;
    }
    if (!f->labels) {
        ingest_release(f);
        return SONDE_ENOMEM;
    }
    sonde_wrlock(&m->lock);
    f->next = m->foreign;
    m->foreign = f;
    sonde_rwunlock(&m->lock);
    *out = f;
    return 0;
}

static void ingest_forget(struct sonde_ingest *f, size_t at)
{
    assert(at < f->count && f->entry[at].series->ingest_at == at);
    sonde_model_series_forget(f->model, f->entry[at].series);
    f->count--;
    if (at == f->count) return;
    f->entry[at] = f->entry[f->count];
    f->entry[at].series->ingest_at = (uint32_t)at;
}

void sonde_ingest_destroy(struct sonde_ingest *f)
{
    if (!f) return;
    struct sonde_model *m = f->model;
    sonde_wrlock(&m->lock);
    while (f->count > 0) ingest_forget(f, f->count - 1);
    struct sonde_ingest **link = &m->foreign;
    while (*link != f) link = &(*link)->next;
    *link = f->next;
    sonde_rwunlock(&m->lock);
    ingest_release(f);
}

/* ---- Names and labels ------------------------------------------------------------------------ */

int sonde_ingest_label_ok(const char *name)
{
    if (!*name || isdigit((unsigned char)*name)) return 0;
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name) && *name != '_') return 0;
    }
    return 1;
}

static int ingest_name_ok(const char *name)
{
    if (!*name || isdigit((unsigned char)*name) || strlen(name) > NAME_MAX_BYTES) return 0;
    for (; *name; name++) {
        if (!isalnum((unsigned char)*name) && *name != '_' && *name != ':') return 0;
    }
    return 1;
}

struct ingest_label_set {
    struct sonde_label label[SONDE_INGEST_LABELS_MAX];
    size_t count, bytes;
    char renamed[4 * 256];           /* exported_… */
    size_t renamed_len;
};

static int ingest_by_name(const void *a, const void *b)
{
    const struct sonde_label *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static int ingest_is_ours(const struct sonde_ingest *f, const char *name)
{
    for (size_t i = 0; i < f->label_count; i++) {
        if (strcmp(f->labels[i].name, name) == 0) return 1;
    }
    return 0;
}

static int ingest_add_label(struct ingest_label_set *set, const struct sonde_label *l)
{
    set->bytes += strlen(l->name) + strlen(l->value);
    if (set->count == SONDE_INGEST_LABELS_MAX || set->bytes > SONDE_INGEST_TEXT_MAX) {
        return SONDE_EINVAL;
    }
    set->label[set->count++] = *l;
    return 0;
}

static int ingest_says(const struct sonde_ingest_point *p, const char *name)
{
    for (size_t i = 0; i < p->label_count; i++) {
        if (strcmp(p->labels[i].name, name) == 0) return 1;
    }
    return 0;
}

/* exported_ before its name, until nobody has that. */
static int rename_label(const struct sonde_ingest_point *p, struct ingest_label_set *set,
                        struct sonde_label *l)
{
    do {
        const size_t len = PREFIX + strlen(l->name) + 1;
        if (set->renamed_len + len > sizeof(set->renamed)) return SONDE_EINVAL;
        char *at = set->renamed + set->renamed_len;
        memcpy(at, "exported_", PREFIX);
        memcpy(at + PREFIX, l->name, len - PREFIX);
        l->name = at;
        set->renamed_len += len;
    } while (ingest_says(p, l->name));
    return 0;
}

static int ingest_make_labels(const struct sonde_ingest *f, const struct sonde_ingest_point *p,
                              struct ingest_label_set *set)
{
    set->count = set->bytes = set->renamed_len = 0;
    int rc = 0;
    for (size_t i = 0; i < p->label_count && !rc; i++) {
        struct sonde_label l = p->labels[i];
        if (!*l.value) continue;
        if (!sonde_ingest_label_ok(l.name) || !sonde__utf8_valid(l.value, strlen(l.value))) {
            return SONDE_EINVAL;
        }
        if (ingest_is_ours(f, l.name)) rc = rename_label(p, set, &l);
        if (!rc) rc = ingest_add_label(set, &l);
    }
    for (size_t i = 0; i < f->label_count && !rc; i++) rc = ingest_add_label(set, &f->labels[i]);
    if (rc) return rc;
    qsort(set->label, set->count, sizeof(set->label[0]), ingest_by_name);
    for (size_t i = 1; i < set->count; i++) {
        if (strcmp(set->label[i - 1].name, set->label[i].name) == 0) return SONDE_EINVAL;
    }
    return 0;
}

/* ---- Families -------------------------------------------------------------------------------- */

/* 1 if some part of the histogram or summary is something else's already. */
static int group_taken(const struct sonde_model *m, const char *stem, size_t len,
                       enum sonde_shown shown)
{
    static const char *const suffix[] = { "", "_bucket", "_sum", "_count" };
    char name[NAME_MAX_BYTES + PREFIX + sizeof("_bucket")];
    for (size_t i = 0; i < SONDE_COUNT(suffix); i++) {
        memcpy(name, stem, len);
        memcpy(name + len, suffix[i], strlen(suffix[i]) + 1);
        const struct sonde_model_family *f = sonde_model_family_find(m, name);
        if (f && (f->shown != shown || f->stem != len)) return 1;
    }
    return 0;
}

static struct sonde_model_family *ingest_family_of(struct sonde_model *m,
                                                   const struct sonde_ingest_point *p)
{
    char name[PREFIX + NAME_MAX_BYTES + 1];
    memcpy(name, "exported_", PREFIX);
    memcpy(name + PREFIX, p->name, strlen(p->name) + 1);
    struct sonde_model_family_spec spec = { .help = p->help, .unit = p->unit, .source = p->source,
                                            .type = p->type };
    /* Sums of histograms are also kept in whole steps of this, for the history. */
    if (p->type == SONDE_HISTOGRAM) {
        spec.scale = p->unit && strcmp(p->unit, "bytes") == 0 ? 1 : 1e-6;
        if (p->unit && strcmp(p->unit, "seconds") == 0) spec.scale = 1e-9;
    }
    for (size_t skip = PREFIX;; skip = 0) {
        const size_t stem = p->stem ? p->stem + PREFIX - skip : 0;
        spec.name = name + skip;
        if (!stem || !group_taken(m, spec.name, stem, p->shown)) {
            struct sonde_model_family *f = sonde_model_family_foreign(m, &spec, p->shown, stem);
            if (f) return f;
        }
        if (!skip) return NULL;
    }
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void put_hist(struct sonde_model_series *s, const struct sonde_ingest_point *p)
{
    struct sonde_hist_value *h = sonde_model_hist(s);
    if (!h) return;
    const struct sonde_ingest_hist *in = p->hist;
    if (!p->delta) {
        h->count = h->zero = 0;
        for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
            if (h->octave[o]) memset(h->octave[o], 0, 64 * sizeof(uint64_t));
        }
        s->gauge = 0;
    }
    for (size_t i = 0; i < in->bucket_count; i++) {
        sonde_hist_value_add(h, in->bucket[i].p, in->bucket[i].n);
    }
    h->zero += in->zero;
    h->count += in->zero;
    s->gauge += in->sum;
    const double raw = s->gauge / s->family->scale;
    h->sum_raw = raw >= 0 && raw < 0x1p63 ? (uint64_t)llround(raw) : 0;
}

static void ingest_put_value(struct ingest_entry *e, const struct sonde_ingest_point *p, int fresh)
{
    struct sonde_model_series *s = e->series;
    if (fresh) s->created_s = (double)p->start_ns * 1e-9;
    if (s->family->type == SONDE_GAUGE) {
        s->gauge = p->delta ? s->gauge + p->value : p->value;
        return;
    }
    s->real = 1;
    if (fresh) {
        const double start_s = (double)p->start_ns * 1e-9;
        /* What began when we were looking already is an increase from zero. */
        s->from_zero = p->delta || start_s >= s->foreign->created_s;
    } else if (p->start_ns && e->start_ns && p->start_ns != e->start_ns && !p->delta) {
        s->real_prev = 0;
        s->created_s = (double)p->start_ns * 1e-9;
    }
    if (p->type == SONDE_HISTOGRAM) put_hist(s, p);
    else s->gauge = p->delta ? s->gauge + p->value : p->value;
    e->start_ns = p->start_ns;
}

static struct ingest_entry *ingest_add_entry(struct sonde_ingest *f, struct sonde_model_series *s)
{
    if (SONDE_ARRAY_ROOM(f->entry, f->count, f->cap)) return NULL;
    s->foreign = f;
    s->ingest_at = (uint32_t)f->count;
    f->entry[f->count] = (struct ingest_entry){ .series = s };
    return &f->entry[f->count++];
}

int sonde_ingest_put(struct sonde_ingest *f, const struct sonde_ingest_point *p)
{
    assert(f && p && p->name);
    struct ingest_label_set set;
    if (!ingest_name_ok(p->name)) return SONDE_EINVAL;
    const int rc = ingest_make_labels(f, p, &set);
    if (rc) return rc;
    struct sonde_model *m = f->model;
    struct sonde_model_family *family = ingest_family_of(m, p);
    if (!family) return SONDE_EEXIST;
    const size_t before = m->series_count;
    struct sonde_model_series *s = sonde_model_series(m, family, NULL, set.label, set.count);
    if (!s) {
        sonde_model_family_tidy(m, family);
        return m->series_count >= m->series_max ? SONDE_EFULL : SONDE_ENOMEM;
    }
    const int fresh = m->series_count != before;
    if (fresh && f->count >= f->series_max) {
        sonde_model_series_forget(m, s);
        return SONDE_EFULL;
    }
    if (!fresh && s->foreign != f) return SONDE_EEXIST;
    struct ingest_entry *e = fresh ? ingest_add_entry(f, s) : &f->entry[s->ingest_at];
    if (!e) {
        sonde_model_series_forget(m, s);
        return SONDE_ENOMEM;
    }
    if (!fresh && f->round && e->round == f->round) return SONDE_EEXIST;
    if (p->time_ns && (p->time_ns < e->time_ns || (p->delta && p->time_ns == e->time_ns))) {
        return SONDE_EEXIST;
    }
    e->time_ns = p->time_ns;
    e->round = f->round;
    e->heard_s = p->now_s;
    ingest_put_value(e, p, fresh);
    return 0;
}

void sonde_ingest_drop(struct sonde_ingest *f, const struct sonde_ingest_point *p)
{
    struct ingest_label_set set;
    const struct sonde_model_family *family = sonde_model_family_find(f->model, p->name);
    if (!family || ingest_make_labels(f, p, &set) != 0) return;
    for (size_t i = 0; i < family->series_count; i++) {
        const struct sonde_model_series *s = family->series[i];
        if (s->foreign != f || s->label_count != set.count) continue;
        size_t same = 0;
        while (same < set.count && !strcmp(s->labels[same].name, set.label[same].name) &&
               !strcmp(s->labels[same].value, set.label[same].value)) {
            same++;
        }
        if (same < set.count) continue;
        ingest_forget(f, s->ingest_at);
        return;
    }
}

/* ---- Forgetting ------------------------------------------------------------------------------ */

void sonde_ingest_begin(struct sonde_ingest *f) { f->round = ++f->rounds; }

void sonde_ingest_end(struct sonde_ingest *f)
{
    assert(f->round); /* sonde_ingest_begin was called */
    for (size_t i = f->count; i-- > 0;) {
        if (f->entry[i].round != f->round) ingest_forget(f, i);
    }
    f->round = 0;
}

size_t sonde_ingest_count(const struct sonde_ingest *f) { return f->count; }

void sonde_ingest_tick(struct sonde_model *m, double now_s)
{
    if (m->shared) sonde_assert_held_write(&m->lock);
    for (struct sonde_ingest *f = m->foreign; f; f = f->next) {
        if (!(f->stale_s > 0)) continue;
        for (size_t i = f->count; i-- > 0;) {
            if (now_s - f->entry[i].heard_s > f->stale_s) ingest_forget(f, i);
        }
    }
}

static int ends_in(const char *name, const char *suffix)
{
    const size_t len = strlen(name), n = strlen(suffix);
    return len > n && strcmp(name + len - n, suffix) == 0;
}

int sonde_ingest_exposition(const struct sonde_exposition_sample *s,
                            struct sonde_ingest_point *point)
{
    const size_t stem = strlen(s->family);
    const int own = strcmp(s->name, s->family) == 0;
    *point = (struct sonde_ingest_point){ .name = s->name, .help = s->help, .unit = s->unit,
                                          .labels = s->labels, .label_count = s->label_count,
                                          .value = s->value, .type = SONDE_GAUGE };
    switch (s->type) {
    case SONDE_EXPOSITION_COUNTER: point->type = SONDE_COUNTER; break;
    case SONDE_EXPOSITION_HISTOGRAM:
        point->type = SONDE_COUNTER;
        point->shown = own ? SONDE_SHOWN_UNKNOWN : SONDE_SHOWN_HISTOGRAM;
        point->stem = own ? 0 : stem;
        break;
    case SONDE_EXPOSITION_SUMMARY:
        point->type = own ? SONDE_GAUGE : SONDE_COUNTER;
        point->shown = SONDE_SHOWN_SUMMARY;
        point->stem = stem;
        break;
    case SONDE_EXPOSITION_UNKNOWN:
    case SONDE_EXPOSITION_GAUGEHISTOGRAM: point->shown = SONDE_SHOWN_UNKNOWN; break;
    case SONDE_EXPOSITION_GAUGE:
    case SONDE_EXPOSITION_INFO:
    case SONDE_EXPOSITION_STATESET: break;
    }
    if (own && point->shown == SONDE_SHOWN_UNKNOWN) point->type = SONDE_GAUGE;
    return own || s->type == SONDE_EXPOSITION_UNKNOWN || !ends_in(s->name, "_created");
}
