/* read.c - one reading of a segment: tables, then values. All counts of the mutable header are
 * checked here, before anything is found by them. */
#include "collect/segment/read.h"

#include <assert.h>
#include <inttypes.h>

#include "collect/segment/private.h"

int segment_verdict(const struct sonde_segment *s, int rc, struct sonde_err *err)
{
    if (!sonde_guarded_map_damaged(&s->map)) return rc;
    return sonde_err_set(err, SONDE_EFORMAT, "cut short while it was being read");
}

/* ---- Counts ------------------------------------------------------------------------------- */

static int counts_error(struct sonde_err *err, const char *what, uint64_t count, uint64_t max)
{
    return sonde_err_set(err, SONDE_EFORMAT, "damaged: it counts %" PRIu64 " %s where %" PRIu64
                         " are possible", count, what, max);
}

/* Counts first, then how much is populated: each only grows, so what is counted is there. */
int segment_counts_load(const struct sonde_segment *s, struct segment_counts *out,
                        struct sonde_err *err)
{
    const struct sonde__header *h = &s->h, *live = s->live;
    out->families = __atomic_load_n(&live->family_count, __ATOMIC_ACQUIRE);
    out->series = __atomic_load_n(&live->series_count, __ATOMIC_ACQUIRE);
    out->lanes = __atomic_load_n(&live->lane_count, __ATOMIC_ACQUIRE);
    out->strings = __atomic_load_n(&live->string_used, __ATOMIC_ACQUIRE);
    out->cells = __atomic_load_n(&live->cells_ready, __ATOMIC_ACQUIRE);
    uint64_t blocks = __atomic_load_n(&live->block_ready, __ATOMIC_ACQUIRE);
    uint64_t family_max = __atomic_load_n(&live->family_ready, __ATOMIC_RELAXED) /
                          sizeof(struct sonde__family);
    uint64_t series_max = __atomic_load_n(&live->series_ready, __ATOMIC_RELAXED) /
                          sizeof(struct sonde__series);
    uint64_t string_max = __atomic_load_n(&live->string_ready, __ATOMIC_RELAXED);
    if (family_max > h->family_max) family_max = h->family_max;
    if (series_max > h->series_max) series_max = h->series_max;
    if (string_max > h->string_max) string_max = h->string_max;

    if (out->families < s->family_count || out->series < s->series_count) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: definitions have disappeared");
    }
    if (out->families > family_max) return counts_error(err, "families", out->families, family_max);
    if (out->series > series_max) return counts_error(err, "series", out->series, series_max);
    if (out->strings > string_max) return counts_error(err, "bytes of text", out->strings,
                                                       string_max);
    if (out->lanes > h->lane_max) return counts_error(err, "lanes", out->lanes, h->lane_max);
    if (out->cells > (h->lane_stride - SONDE__CELLS_OFF) / 8) {
        return counts_error(err, "cells", out->cells, (h->lane_stride - SONDE__CELLS_OFF) / 8);
    }
    if (blocks > h->block_max) return counts_error(err, "bytes of blocks", blocks, h->block_max);
    out->block_end = h->block_off + blocks;
    return 0;
}

int segment_in_blocks(const struct sonde_segment *s, struct segment_counts *c, uint64_t off,
                      uint64_t bytes)
{
    if (off < s->h.block_off || off % 64 != 0) return 0;
    for (int again = 0; again < 2; again++) {
        if (off <= c->block_end && bytes <= c->block_end - off) return 1;
        uint64_t blocks = __atomic_load_n(&s->live->block_ready, __ATOMIC_ACQUIRE);
        if (blocks > s->h.block_max) return 0;
        c->block_end = s->h.block_off + blocks;
    }
    return 0;
}

/* ---- Reading ------------------------------------------------------------------------------ */

int sonde_segment_read(struct sonde_segment *s, struct sonde_model *m,
                       struct sonde_model_process *p, int last, struct sonde_err *err)
{
    assert(s && m && p);
    if (m->shared) sonde_assert_held_write(&m->lock);
    int rc = segment_tables_read(s, m, p, err);
    if (rc == 0) rc = segment_values_read(s, last, err);
    if (rc == 0) {
        segment_self_read(s, m, p);
        rc = segment_heap_read(s, m, p, err);
    }
    if (rc == 0) rc = segment_rings_find(s, err);
    return segment_verdict(s, rc, err);
}
