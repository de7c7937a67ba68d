/* read_walk.c - see read.h, "All of it": the tables and span rings of this process's own segment,
 * one entry a call.
 *
 * Tables only grow and an entry is complete before it is counted, so walking them takes no lock.
 * Rings are written over meanwhile: "Span rings" in segment.h says how a reader finds out. */
#include "sonde/read.h"

#include <string.h>

#include "record/call.h"
#include "record/state.h"
#include "segment/never.h"

static int read_walk_open(void)
{
    if (sonde__ensure_open() == 0) return 1;
    return sonde__g.base && !sonde__silent() &&
           sonde__g.pid == (uint32_t)sonde__call(SYS_getpid, 0, 0, 0, 0, 0);
}

/* ---- Series -------------------------------------------------------------------------------- */

static struct sonde_read_text text_of(struct sonde__str s)
{
    return (struct sonde_read_text){ sonde__str_at(s), s.len };
}

/* The next of a packed string's parts. */
static struct sonde_read_text part_next(const char **packed)
{
    uint16_t len;
    memcpy(&len, *packed, sizeof(len));
    const struct sonde_read_text part = { *packed + sizeof(len), len };
    *packed += sizeof(len) + len;
    return part;
}

static void read_walk_labels(struct sonde_read_series *out, const struct sonde__family *f,
                          const struct sonde__series *s)
{
    const char *names = sonde__str_at(f->labels), *values = sonde__str_at(s->values);
    const char *tags = sonde__str_at(f->tags);
    const uint32_t labels = out->overflow ? 0 : f->label_count;
    SONDE_MUST(labels <= SONDE_LABELS_MAX && f->tag_count <= SONDE_LABELS_MAX / 2);
    for (uint32_t i = 0; i < labels; i++) {
        out->label[i] = part_next(&names);
        out->value[i] = part_next(&values);
    }
    for (uint32_t i = labels; i < labels + f->tag_count; i++) {
        out->label[i] = part_next(&tags);
        out->value[i] = part_next(&tags);
    }
    out->label_count = labels + f->tag_count;
}

int sonde_read_next(uint32_t *cursor, struct sonde_read_series *out)
{
    if (!read_walk_open()) return 0;
    const uint32_t id = *cursor ? *cursor : 1; /* 0 is the sink */
    if (id >= __atomic_load_n(&sonde__g.h->series_count, __ATOMIC_ACQUIRE)) return 0;
    const struct sonde__series *s = sonde__series_at(id);
    const struct sonde__family *f = sonde__family_at(s->family);
    memset(out, 0, sizeof(*out));
    out->name = text_of(f->name);
    out->help = text_of(f->help);
    out->unit = text_of(f->unit);
    out->source = text_of(f->source);
    out->type = f->type;
    out->kind = f->kind;
    out->scale = f->scale;
    out->overflow = s->flags & SONDE__SERIES_OVERFLOW;
    read_walk_labels(out, f, s);
    if (f->type == SONDE_COUNTER) out->counter.off = 8ull * id;
    else if (f->type == SONDE_GAUGE) out->gauge.off = 8ull * id;
    else out->hist = (struct sonde_hist){ 8ull * id + 8, f->scale };
    *cursor = id + 1;
    return 1;
}

/* ---- Records ------------------------------------------------------------------------------- */

/* 1 and the words of record index; 0: it was written over, or never finished. */
static int record_copy(const struct sonde__ring *ring, uint64_t index, uint64_t word[8])
{
    const uint64_t *from = (const uint64_t *)(const void *)&ring->rec[index % SONDE__RING_RECS];
    word[0] = __atomic_load_n(&from[0], __ATOMIC_ACQUIRE);
    for (int i = 1; i < 8; i++) word[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return word[0] >> 8 == index + 1 &&
           __atomic_load_n(&ring->reserve, __ATOMIC_RELAXED) <= index + SONDE__RING_RECS;
}

static struct sonde_read_text name_of(uint64_t id)
{
    const char *name = sonde__family_name((uint32_t)(id & 0xffffffu));
    return (struct sonde_read_text){ name, strlen(name) };
}

static void record_span(struct sonde_read_record *out, const uint64_t word[8])
{
    struct sonde__span_rec r;
    const struct sonde__header *h = sonde__g.h;
    memcpy(&r, word, sizeof(r));
    out->what = SONDE_READ_SPAN;
    out->span = r.id;
    out->name = name_of(r.name_tid);
    out->trace_hi = r.trace_hi;
    out->trace_lo = r.trace_lo;
    out->parent = r.parent;
    /* A span that a forked child ended may have begun before its segment. */
    out->start_ns = r.start >= h->tick0 ? h->real0_ns + sonde_ticks_ns(r.start - h->tick0)
                                        : h->real0_ns - sonde_ticks_ns(h->tick0 - r.start);
    out->duration_ns = sonde_ticks_ns(r.end - r.start);
    out->outcome = r.name_tid >> 24 & 0xffu;
    out->tid = (uint32_t)(r.name_tid >> 32);
}

static void record_attr(struct sonde_read_record *out, const uint64_t word[8])
{
    const size_t len = word[2] >> 32;
    out->what = SONDE_READ_ATTR;
    out->span = word[1];
    out->name = name_of(word[2]);
    out->type = (uint32_t)(word[2] >> 24 & 0xffu);
    if (out->type == SONDE__ATTR_INT) {
        memcpy(&out->number, &word[3], sizeof(out->number));
    } else if (out->type == SONDE__ATTR_DOUBLE) {
        memcpy(&out->real, &word[3], sizeof(out->real));
    } else {
        out->text_len = len < SONDE__ATTR_BYTES ? len : SONDE__ATTR_BYTES;
        memcpy(out->text, &word[3], out->text_len);
    }
}

static const struct sonde__ring *ring_of(uint32_t lane)
{
    const struct sonde__lane *l = sonde__lane_of(sonde__lane_cells(lane));
    const uint64_t at = __atomic_load_n(&l->ring, __ATOMIC_ACQUIRE);
    return at ? (const struct sonde__ring *)(void *)sonde__at(at) : NULL;
}

/* The next record of this ring that is a span or an attribute. */
static int ring_next(const struct sonde__ring *ring, struct sonde_read_cursor *c,
                     struct sonde_read_record *out)
{
    const uint64_t end = __atomic_load_n(&ring->reserve, __ATOMIC_ACQUIRE);
    uint64_t word[8];
    if (end > c->index + SONDE__RING_RECS) {
        c->lost += end - SONDE__RING_RECS - c->index;
        c->index = end - SONDE__RING_RECS;
    }
    while (c->index < end) {
        if (!record_copy(ring, c->index++, word)) {
            c->lost++;
            continue;
        }
        memset(out, 0, sizeof(*out));
        if ((word[0] & 0xff) == SONDE__REC_SPAN) record_span(out, word);
        else if ((word[0] & 0xff) == SONDE__REC_ATTR) record_attr(out, word);
        if (out->what) return 1;
    }
    return 0;
}

int sonde_read_record(struct sonde_read_cursor *cursor, struct sonde_read_record *out)
{
    if (!read_walk_open()) return 0;
    for (;;) {
        if (cursor->lane >= __atomic_load_n(&sonde__g.h->lane_count, __ATOMIC_ACQUIRE)) return 0;
        const struct sonde__ring *ring = ring_of(cursor->lane);
        if (ring && ring_next(ring, cursor, out)) return 1;
        cursor->lane++;
        cursor->index = 0;
    }
}
