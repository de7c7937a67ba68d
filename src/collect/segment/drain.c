/* drain.c - records out of the lanes' rings; see "Span rings" in segment.h for the protocol. What
 * they mean is for span.c, infer.c and llama.c.
 *
 * A record that is reserved but not finished holds up its ring for a while, since its writer may
 * only be preempted: in a lane that several threads share that is common. After that, or when the
 * ring fills up meanwhile, it is passed over. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "collect/segment/private.h"

#define WAIT_NS 300000000u
#define RING_WINDOWS 4u /* each takes two of the mappings that the kernel allows */

/* ---- Rings -------------------------------------------------------------------------------- */

enum segment_drain_found { FOUND_RECORD, FOUND_OVERWRITTEN, FOUND_UNFINISHED };

static enum segment_drain_found segment_drain_copy(const struct sonde__ring *ring, uint64_t index,
                                                   struct sonde__span_rec *out)
{
    const struct sonde__span_rec *slot = &ring->rec[index % SONDE__RING_RECS];
    uint64_t seq = __atomic_load_n(&slot->seq_type, __ATOMIC_ACQUIRE);
    if (seq >> 8 > index + 1) return FOUND_OVERWRITTEN;
    if (seq >> 8 < index + 1) return FOUND_UNFINISHED;
    const uint64_t *from = (const uint64_t *)(const void *)slot;
    uint64_t words[8] = { seq };
    for (int i = 1; i < 8; i++) words[i] = segment_load(&from[i]);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&ring->reserve, __ATOMIC_RELAXED) > index + SONDE__RING_RECS) {
        return FOUND_OVERWRITTEN;
    }
    memcpy(out, words, sizeof(*out));
    return FOUND_RECORD;
}

static int is_llama(uint64_t type)
{
    return type >= SONDE__REC_LLAMA_CALL && type <= SONDE__REC_LLAMA_KNOWN;
}

static void llama_record(struct segment_drain *d, struct segment_ring *r,
                         const struct sonde__span_rec *rec)
{
    if (r->gap && segment_llama_gap(d, rec)) r->gap = 0;
    segment_llama_record(d, rec);
}

/* What calls mean depends on earlier ones, which another agent has read: so far as they are there,
 * they are read again (llama.h). */
static void ring_replay(struct segment_drain *d, struct segment_ring *r,
                        const struct sonde__ring *ring, uint64_t reserve)
{
    struct sonde__span_rec rec;
    uint64_t from = reserve > SONDE__RING_RECS ? reserve - SONDE__RING_RECS : 0;
    r->replayed = 1;
    if (!r->next) return;
    for (r->gap = from > 0; from < r->next; from++) {
        const enum segment_drain_found found = segment_drain_copy(ring, from, &rec);
        if (found == FOUND_OVERWRITTEN) r->gap = 1;
        if (found == FOUND_RECORD && is_llama(rec.seq_type & 0xff)) llama_record(d, r, &rec);
    }
}

static int ring_drain(struct segment_drain *d, struct segment_ring *r, int last,
                      struct sonde_err *err)
{
    const uint32_t first = r->first;
    const struct sonde__ring *ring =
        (const struct sonde__ring *)(const void *)(d->s->map.base + r->off);
    uint64_t reserve = __atomic_load_n(&ring->reserve, __ATOMIC_ACQUIRE);
    r->first = 0;
    if (reserve < r->next) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: a ring of spans went backwards");
    }
    if (d->s->llama_replay && !r->replayed) ring_replay(d, r, ring, reserve);
    const uint64_t waiting = reserve - r->next;
    const uint32_t full = waiting > SONDE__RING_RECS ? SONDE__RING_RECS : (uint32_t)waiting;
    if (full > d->s->ring_fullest) d->s->ring_fullest = full;
    if (waiting > SONDE__RING_RECS) {
        d->p->gap_ns = d->clock->unix_ns + d->clock->now_mono_ns;
        /* What a restarted agent did not see was its predecessor's, not lost. */
        if (!first) d->p->spans_lost += reserve - SONDE__RING_RECS - r->next;
        r->next = reserve - SONDE__RING_RECS;
        r->waits_ns = 0;
        r->gap = 1;
    }
    while (r->next < reserve) {
        struct sonde__span_rec rec;
        enum segment_drain_found found = segment_drain_copy(ring, r->next, &rec);
        if (found == FOUND_UNFINISHED && !last && reserve - r->next < SONDE__RING_RECS / 2) {
            if (!r->waits_ns) r->waits_ns = d->clock->now_mono_ns;
            if (d->clock->now_mono_ns - r->waits_ns < WAIT_NS) return 0;
        }
        if (found == FOUND_OVERWRITTEN) {
            d->p->spans_lost++;
            r->gap = 1;
        }
        if (found == FOUND_RECORD) {
            const uint64_t type = rec.seq_type & 0xff;
            if (type == SONDE__REC_SPAN) segment_span_record(d, &rec);
            else if (type == SONDE__REC_ATTR) segment_attr_record(d->s, &rec);
            else if (is_llama(type)) llama_record(d, r, &rec);
            else segment_infer_record(d, &rec);
        }
        r->waits_ns = 0;
        r->next++;
        d->m->activity++;
    }
    return 0;
}

int segment_rings_grow(struct sonde_segment *s, uint32_t lanes)
{
    if (lanes <= s->ring_count) return 0;
    struct segment_ring *ring = sonde__realloc(s->ring, lanes * sizeof(*ring));
    if (!ring) return SONDE_ENOMEM;
    memset(ring + s->ring_count, 0, (lanes - s->ring_count) * sizeof(*ring));
    s->ring = ring;
    s->ring_count = lanes;
    return 0;
}

int segment_rings_find(struct sonde_segment *s, struct sonde_err *err)
{
    struct segment_counts c;
    const uint64_t heap = __atomic_load_n(&s->live->block_used, __ATOMIC_ACQUIRE);
    int rc = segment_counts_load(s, &c, err);
    if (rc != 0 || segment_rings_grow(s, c.lanes) != 0) return rc;
    for (uint32_t lane = 0; lane < c.lanes; lane++) {
        struct segment_ring *r = &s->ring[lane];
        const struct sonde__lane *from = (const struct sonde__lane *)(const void *)(
            s->map.base + sonde__lane_at(&s->h, lane));
        const uint64_t off = __atomic_load_n(&from->ring, __ATOMIC_ACQUIRE);
        if (off == r->off) continue;
        if (r->off != 0 || !segment_in_blocks(s, &c, off, sizeof(struct sonde__ring))) {
            return sonde_err_set(err, SONDE_EFORMAT, "damaged: a ring of spans lies outside "
                                 "the block area or has moved");
        }
        r->off = off;
        r->first = !s->fresh && !s->spans_read;
        if (s->ring_windows++ < RING_WINDOWS) sonde_guarded_map_window(&s->map, off);
    }
    s->rings_blocks = heap;
    return 0;
}

/* Lanes are a megabyte apart, and looking at all of them ten times a second would keep a page of
 * each in memory, for every process. A ring is a block, so there is none that is new unless more
 * of the blocks has been handed out; one that was handed out before and linked since is found when
 * values are read (sonde_segment_read). */
static int rings_drain(struct segment_drain *d, int last, struct sonde_err *err)
{
    struct sonde_segment *s = d->s;
    int rc = 0;
    if (last || !s->spans_read ||
        __atomic_load_n(&s->live->block_used, __ATOMIC_ACQUIRE) != s->rings_blocks) {
        rc = segment_rings_find(s, err);
    }
    for (uint32_t lane = 0; rc == 0 && lane < s->ring_count; lane++) {
        if (s->ring[lane].off != 0) rc = ring_drain(d, &s->ring[lane], last, err);
    }
    if (rc == 0) s->spans_read = 1;
    return rc;
}

int sonde_segment_drain(struct sonde_segment *s, struct sonde_model *m,
                        struct sonde_model_process *p, const struct sonde_tick_clock *clock,
                        int last, struct sonde_err *err)
{
    assert(s && m && p && clock);
    if (m->shared) sonde_assert_held_write(&m->lock);
    struct segment_drain d = { s, m, p, clock };
    s->ring_fullest = 0;
    int rc = rings_drain(&d, last, err);
    segment_llama_drained(&d, last);
    if (rc == 0) rc = segment_gpu_drain(&d, last, err);
    return segment_verdict(s, rc, err);
}

uint32_t sonde_segment_fullest(const struct sonde_segment *s) { return s->ring_fullest; }
