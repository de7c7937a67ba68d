/* state.c - how far a segment's rings have been read, and what waits for a record that has not
 * come yet, as bytes for the next agent and back (state.h). Offsets are not part of it: where rings
 * are is read from the segment, and checked, as ever. */
#include "base/alloc.h"
#include "base/state.h"
#include "collect/segment/private.h"

static void rings_io(struct sonde_segment *s, struct sonde_state *st)
{
    uint64_t count = s->ring_count;
    sonde_state_count(st, &count, s->h.lane_max);
    if (sonde_state_loading(st) && segment_rings_grow(s, (uint32_t)count) != 0) st->bad = 1;
    for (uint64_t i = 0; i < count && !st->bad; i++) sonde_state_u64(st, &s->ring[i].next);
}

static void segment_state_attr_io(struct segment_attr *a, struct sonde_state *st)
{
    sonde_state_u64(st, &a->span);
    sonde_state_u32(st, &a->key);
    sonde_state_u32(st, &a->type);
    sonde_state_u32(st, &a->len);
    if (a->len > SONDE__ATTR_BYTES) st->bad = 1;
    else sonde_state_bytes(st, a->bytes, a->len);
}

static void segment_state_attrs_io(struct sonde_segment *s, struct sonde_state *st)
{
    uint64_t count = s->attrs_pending;
    sonde_state_count(st, &count, SEGMENT_PENDING_ATTRS);
    for (uint64_t i = 0; sonde_state_loading(st) && i < count && !st->bad; i++) {
        struct segment_attr a = { 0 };
        segment_state_attr_io(&a, st);
        if (!st->bad) segment_attr_keep(s, a.span, a.key, a.type, a.len, a.bytes);
    }
    for (uint32_t i = 0; !sonde_state_loading(st) && count && i < SEGMENT_PENDING_ATTRS; i++) {
        struct segment_attr *a = &s->attr[(s->attr_next + i) % SEGMENT_PENDING_ATTRS];
        if (a->span) segment_state_attr_io(a, st);
    }
}

static void part_io(struct segment_part *p, struct sonde_state *st)
{
    sonde_state_u64(st, &p->batch);
    sonde_state_u64(st, &p->request);
    sonde_state_u64(st, &p->tokens);
}

static void parts_io(struct sonde_segment *s, struct sonde_state *st)
{
    uint64_t count = s->parts_pending;
    sonde_state_count(st, &count, SEGMENT_PENDING_PARTS);
    for (uint64_t i = 0; sonde_state_loading(st) && i < count && !st->bad; i++) {
        struct segment_part p = { 0 };
        part_io(&p, st);
        if (!st->bad) segment_part_keep(s, &p);
    }
    for (uint32_t i = 0; !sonde_state_loading(st) && count && i < SEGMENT_PENDING_PARTS; i++) {
        struct segment_part *p = &s->part[(s->part_next + i) % SEGMENT_PENDING_PARTS];
        if (p->batch) part_io(p, st);
    }
}

void sonde_segment_state(struct sonde_segment *s, struct sonde_state *st)
{
    rings_io(s, st);
    segment_state_attrs_io(s, st);
    parts_io(s, st);
    sonde_state_u64(st, &s->llama_told);
    sonde_state_u64(st, &s->llama_told_ns);
    if (!sonde_state_loading(st)) return;
    s->spans_read = 1;
    s->llama_replay = s->llama_told != 0;
}
