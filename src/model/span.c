/* span.c - the ring of recent spans, and the names that spans share. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/strip.h"
#include "model/private.h"
#include "profile/profile.h"

#define PARTS_MAX ((size_t)1 << 20) /* of all spans in the ring: 16 MB */

/* ---- Interned text ------------------------------------------------------------------------ */

/* A counted copy of text, or NULL when out of memory. */
static const char *model_span_intern(struct sonde_model_index *x, const char *text)
{
    const size_t len = strlen(text);
    const uint32_t hash = sonde_hash_bytes(text, len);
    uint32_t at = hash;
    struct sonde_model_intern *e;
    while ((e = sonde_pointer_map_next(&x->texts, hash, &at))) {
        if (e->len == len && memcmp(e->text, text, len) == 0) {
            e->refs++;
            return e->text;
        }
    }
    if (sonde_pointer_map_reserve(&x->texts)) return NULL;
    e = sonde__alloc(sizeof(*e) + len + 1);
    if (!e) return NULL;
    e->hash = hash;
    e->refs = 1;
    e->len = len;
    memcpy(e->text, text, len + 1);
    sonde_pointer_map_put(&x->texts, hash, e);
    return e->text;
}

static void intern_drop(struct sonde_model_index *x, const char *text)
{
    if (!text) return;
    struct sonde_model_intern *e =
        (struct sonde_model_intern *)(uintptr_t)(text - offsetof(struct sonde_model_intern, text));
    assert(e->refs > 0);
    if (--e->refs > 0) return;
    sonde_pointer_map_remove(&x->texts, e->hash, e);
    sonde__free(e);
}

/* ---- The ring ----------------------------------------------------------------------------- */

static void span_clear(struct sonde_model_index *x, struct sonde_model_span *s)
{
    intern_drop(x, s->name);
    intern_drop(x, s->program);
    for (uint32_t i = 0; i < s->attr_count; i++) intern_drop(x, s->attrs[i].key);
    sonde__free(s->attrs);
    if (s->parts) x->parts -= s->part_count;
    sonde__free(s->parts);
    *s = (struct sonde_model_span){ 0 };
}

void sonde_model_spans_free(struct sonde_model *m)
{
    for (size_t i = 0; i < m->spans_max && i < m->span_next; i++) {
        span_clear(m->index, &m->spans[i]);
    }
}

void sonde_model_spans_rename(struct sonde_model *m, uint32_t pid, const char *old, const char *now)
{
    for (size_t i = 0; i < m->spans_max && i < m->span_next; i++) {
        struct sonde_model_span *s = &m->spans[i];
        if (s->pid != pid || !s->program || strcmp(s->program, old) != 0) continue;
        const char *program = model_span_intern(m->index, now);
        if (!program) return;
        intern_drop(m->index, s->program);
        s->program = program;
    }
}

static void model_span_strip(struct sonde_model_attr *a)
{
    const enum sonde_strip_kind kind = sonde_strip_kind(a->key);
    if (a->type != SONDE__ATTR_STR) return;
    if (kind == SONDE_STRIP_GONE) strcpy(a->value.str, "-");
    else if (kind == SONDE_STRIP_PATHS) sonde_strip_paths(a->value.str);
}

static int span_fill(struct sonde_model_index *x, struct sonde_model_span *to,
                     const struct sonde_model_span *from)
{
    *to = *from;
    to->attrs = NULL;
    to->parts = NULL;
    to->attr_count = 0;
    to->program = NULL;
    to->name = model_span_intern(x, from->name);
    if (!to->name) return SONDE_ENOMEM;
    to->program = model_span_intern(x, from->program);
    if (!to->program) return SONDE_ENOMEM;
    if (from->part_count && x->parts + from->part_count <= PARTS_MAX) {
        to->parts = sonde__alloc(from->part_count * sizeof(*to->parts));
        if (!to->parts) return SONDE_ENOMEM;
        memcpy(to->parts, from->parts, from->part_count * sizeof(*to->parts));
        x->parts += from->part_count;
    }
    if (!to->parts) to->part_count = 0;
    uint32_t count = from->attr_count;
    if (count > SONDE_SPAN_ATTRS_MAX) count = SONDE_SPAN_ATTRS_MAX;
    if (count == 0) return 0;
    to->attrs = sonde__alloc(count * sizeof(*to->attrs));
    if (!to->attrs) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        to->attrs[i] = from->attrs[i];
        if (sonde_strip_on()) model_span_strip(&to->attrs[i]);
        to->attrs[i].key = model_span_intern(x, from->attrs[i].key);
        if (!to->attrs[i].key) return SONDE_ENOMEM;
        to->attr_count++;
    }
    return 0;
}

void sonde_model_listen(struct sonde_model *m, struct sonde_model_listener *l)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    l->next = m->listeners;
    m->listeners = l;
}

void sonde_model_unlisten(struct sonde_model *m, const struct sonde_model_listener *l)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    struct sonde_model_listener **link = &m->listeners;
    while (*link && *link != l) link = &(*link)->next;
    if (*link) *link = l->next;
}

void sonde_model_span(struct sonde_model *m, const struct sonde_model_span *span)
{
    SONDE_MODEL_ASSERT_WRITE(m);
    assert(span->name && span->program);
    m->activity++;
    if (m->on_span) m->on_span(span, m->on_span_arg);
    for (struct sonde_model_listener *l = m->listeners; l; l = l->next) {
        if (l->on_span) l->on_span(span, l->arg);
    }
    struct sonde_model_span copy;
    if (span_fill(m->index, &copy, span) != 0) {
        span_clear(m->index, &copy);
        m->dropped_spans++;
        return;
    }
    struct sonde_model_span *slot = &m->spans[m->span_next % m->spans_max];
    if (m->span_next >= m->spans_max) span_clear(m->index, slot);
    *slot = copy;
    m->span_next++;
}

/* ---- Into a profile ------------------------------------------------------------------------ */

static int span_attr_add_to(const struct sonde_model_attr *a, struct sonde_profile *p)
{
    struct sonde_profile_attr attr = {
        .span = p->spans_count - 1, .key = sonde_profile_cstring(p, a->key), .type = a->type };
    if (!attr.key && a->key[0]) return SONDE_ENOMEM;
    if (a->type == SONDE__ATTR_DOUBLE) {
        attr.value.d = a->value.d;
    } else if (a->type == SONDE__ATTR_INT) {
        attr.value.i = a->value.i;
    } else {
        attr.text = sonde_profile_cstring(p, a->value.str);
        if (!attr.text && a->value.str[0]) return SONDE_ENOMEM;
    }
    return sonde_profile_add_attr(p, &attr);
}

_Static_assert(SONDE_PROFILE_ATTR_INT == SONDE__ATTR_INT &&
               SONDE_PROFILE_ATTR_DOUBLE == SONDE__ATTR_DOUBLE &&
               SONDE_PROFILE_ATTR_TEXT == SONDE__ATTR_STR, "one numbering");

int sonde_model_span_add_to(const struct sonde_model_span *span, struct sonde_profile *p)
{
    const struct sonde_profile_span s = {
        .start_ns = span->start_ns,
        .end_ns = span->start_ns + span->duration_ns,
        .trace_hi = span->trace_hi,
        .trace_lo = span->trace_lo,
        .id = span->id,
        .parent = span->parent,
        /* A request is of no thread, nor is a wait in a queue. */
        .thread = sonde_profile_thread(p, span->pid, span->tid, span->tid ? NULL : "requests"),
        .name = sonde_profile_cstring(p, span->name),
        .outcome = span->outcome,
    };
    if (!s.thread || (!s.name && span->name[0]) || sonde_profile_add_span(p, &s)) {
        return SONDE_ENOMEM;
    }
    for (uint32_t i = 0; i < span->part_count; i++) {
        const struct sonde_profile_part part = {
            .request = span->parts[i].request, .span = p->spans_count - 1,
            .tokens_in = span->parts[i].tokens_in, .tokens_out = span->parts[i].tokens_out };
        if (sonde_profile_add_part(p, &part)) return SONDE_ENOMEM;
    }
    for (uint32_t i = 0; i < span->attr_count; i++) {
        if (span_attr_add_to(&span->attrs[i], p)) return SONDE_ENOMEM;
    }
    return 0;
}
