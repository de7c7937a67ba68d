/* span.c - records of spans and of their attributes, which drain.c finds, into the model.
 *
 * Attributes come before their span ends, so they wait here; the oldest are given up when too
 * many wait for spans that never end. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "collect/segment/private.h"

/* ---- Names -------------------------------------------------------------------------------- */

/* A name may have been defined after the tables were read. */
const struct segment_family *segment_name(struct segment_drain *d, uint32_t id)
{
    struct sonde_segment *s = d->s;
    if (id >= s->family_count && segment_tables_read(s, d->m, d->p, NULL) != 0) return NULL;
    if (id == 0 || id >= s->family_count || s->family[id].type != SONDE__TYPE_NAME) return NULL;
    return &s->family[id];
}

static const char *segment_span_outcome_name(uint32_t outcome)
{
    static const char *const names[] = { "ok", "error", "cancelled", "timeout" };
    return names[outcome];
}

/* ---- Attributes --------------------------------------------------------------------------- */

void segment_attr_keep(struct sonde_segment *s, uint64_t span, uint32_t key, uint32_t type,
                       uint32_t len, const void *bytes)
{
    assert(len <= SONDE__ATTR_BYTES);
    if (!s->attr) s->attr = sonde__calloc(SEGMENT_PENDING_ATTRS, sizeof(*s->attr));
    if (!s->attr || span == 0) return;
    struct segment_attr *a = &s->attr[s->attr_next++ % SEGMENT_PENDING_ATTRS];
    if (a->span == 0) s->attrs_pending++;
    *a = (struct segment_attr){ .span = span, .key = key, .type = type, .len = len };
    memcpy(a->bytes, bytes, len);
}

void segment_attr_record(struct sonde_segment *s, const struct sonde__span_rec *r)
{
    uint32_t len = (uint32_t)(r->end >> 32);
    if (len > SONDE__ATTR_BYTES) len = SONDE__ATTR_BYTES;
    segment_attr_keep(s, r->start, (uint32_t)(r->end & 0xffffff), (uint32_t)(r->end >> 24 & 0xff),
                      len, &r->trace_hi);
}

int segment_attr_value(struct sonde_model_attr *to, uint32_t type, const void *bytes, uint32_t len)
{
    int changed = 0;
    *to = (struct sonde_model_attr){ .type = type };
    switch (type) {
    case SONDE__ATTR_INT: memcpy(&to->value.i, bytes, sizeof(to->value.i)); return 1;
    case SONDE__ATTR_DOUBLE: memcpy(&to->value.d, bytes, sizeof(to->value.d)); return 1;
    case SONDE__ATTR_STR:
        sonde__utf8_copy(to->value.str, SONDE__ATTR_BYTES, bytes, len, &changed);
        return 1;
    default: return 0;
    }
}

static int attr_decode(struct segment_drain *d, const struct segment_attr *from,
                       struct sonde_model_attr *to)
{
    const struct segment_family *key = segment_name(d, from->key);
    if (!key || !segment_attr_value(to, from->type, from->bytes, from->len)) return 0;
    to->key = key->name;
    return 1;
}

/* Oldest first; the slots are free afterwards. */
static uint32_t attrs_take(struct segment_drain *d, uint64_t span,
                           struct sonde_model_attr out[SONDE_SPAN_ATTRS_MAX])
{
    struct sonde_segment *s = d->s;
    uint32_t count = 0;
    if (s->attrs_pending == 0) return 0;
    for (uint32_t i = 0; i < SEGMENT_PENDING_ATTRS && s->attrs_pending > 0; i++) {
        struct segment_attr *a = &s->attr[(s->attr_next + i) % SEGMENT_PENDING_ATTRS];
        if (a->span != span) continue;
        if (count < SONDE_SPAN_ATTRS_MAX && attr_decode(d, a, &out[count])) count++;
        a->span = 0;
        s->attrs_pending--;
    }
    return count;
}

/* ---- Spans -------------------------------------------------------------------------------- */

static struct sonde_model_series *duration_series(struct segment_drain *d, const char *name,
                                                  uint32_t outcome)
{
    static const struct sonde_model_family_spec spec = {
        .name = "sonde_span_duration_seconds",
        .help = "How long spans took, by name and outcome.",
        .unit = "seconds", .source = "sonde", .type = SONDE_HISTOGRAM,
        .kind = SONDE_KIND_TIME, .scale = 1e-9,
    };
    struct sonde_label labels[] = { { "span", name },
                                    { "outcome", segment_span_outcome_name(outcome) } };
    return sonde_model_kept_series(d->m, &spec, d->p, labels, 2);
}

static void duration_record(struct sonde_model_series *series, const struct sonde_model_span *span)
{
    double seconds = (double)span->duration_ns * 1e-9;
    sonde_model_record(series, span->duration_ns, 1);
    if (!(span->trace_hi | span->trace_lo)) return;
    struct sonde_exemplar e = {
        .value = seconds, .trace_hi = span->trace_hi, .trace_lo = span->trace_lo,
        .time_s = (double)span->start_ns * 1e-9 + seconds,
    };
    sonde_model_exemplar(series, &e);
}

void segment_span_deliver(struct segment_drain *d, struct sonde_model_span *span,
                          struct sonde_model_series **series)
{
    assert(span->name && series);
    struct sonde_model_attr attrs[SONDE_SPAN_ATTRS_MAX];
    span->program = d->p->program;
    span->pid = d->p->pid;
    span->attrs = attrs;
    span->attr_count = attrs_take(d, span->id, attrs);
    sonde_model_span(d->m, span);
    span->attrs = NULL;
    span->attr_count = 0;
    d->p->spans_seen++;
    if (!*series) *series = duration_series(d, span->name, span->outcome);
    if (*series) duration_record(*series, span);
}

void segment_span_record(struct segment_drain *d, const struct sonde__span_rec *r)
{
    int tsc = d->s->h.tsc != 0;
    uint32_t id = (uint32_t)(r->name_tid & 0xffffff);
    uint32_t outcome = (uint32_t)(r->name_tid >> 24 & 0xff);
    if (outcome > SONDE_TIMEOUT) outcome = SONDE_ERROR;
    const struct segment_family *name = segment_name(d, id);
    struct sonde_model_span span = {
        .name = name ? name->name : "(unnamed)", /* the table of names was full */
        .tid = (uint32_t)(r->name_tid >> 32),
        .start_ns = sonde_tick_unix_ns(d->clock, tsc, r->start),
        .duration_ns = sonde_tick_span_ns(d->clock, tsc, r->start, r->end),
        .trace_hi = r->trace_hi, .trace_lo = r->trace_lo, .id = r->id, .parent = r->parent,
        .outcome = outcome,
    };
    struct sonde_model_series *series = name ? name->duration[outcome] : NULL;
    segment_span_deliver(d, &span, &series);
    if (name) d->s->family[id].duration[outcome] = series; /* the table may have moved */
}
