/* chunk_hist.c - see chunk_hist.h. */
#include "store/chunk_hist.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/varint.h"
#include "sonde/sonde.h"

/* ---- Columns in memory ----------------------------------------------------------------------- */

void sonde_hist_column_release(struct sonde_hist_column *c)
{
    sonde__free(c->zero);
    sonde__free(c->sum_raw);
    sonde__free(c->end);
    sonde__free(c->count);
    sonde__free(c->p);
    *c = (struct sonde_hist_column){ 0 };
}

void sonde_hist_column_reset(struct sonde_hist_column *c)
{
    c->n = 0;
    c->buckets = 0;
}

int sonde_hist_column_open(struct sonde_hist_column *c, uint64_t zero, uint64_t sum_raw)
{
    assert(c->n <= c->cap);
    if (c->n == c->cap) { /* three arrays of one cap: they grow alike */
        uint32_t zero_cap = c->cap, sum_cap = c->cap, end_cap = c->cap;
        if (SONDE_ARRAY_ROOM(c->zero, c->n, zero_cap) ||
            SONDE_ARRAY_ROOM(c->sum_raw, c->n, sum_cap) ||
            SONDE_ARRAY_ROOM(c->end, c->n, end_cap)) {
            return SONDE_ENOMEM;
        }
        c->cap = end_cap;
    }
    c->zero[c->n] = zero;
    c->sum_raw[c->n] = sum_raw;
    c->end[c->n++] = c->buckets;
    return 0;
}

int sonde_hist_column_bucket(struct sonde_hist_column *c, uint16_t p, uint64_t count)
{
    assert(c->n);
    if (c->buckets == c->buckets_cap) {
        uint32_t count_cap = c->buckets_cap, p_cap = c->buckets_cap;
        if (SONDE_ARRAY_ROOM(c->count, c->buckets, count_cap) ||
            SONDE_ARRAY_ROOM(c->p, c->buckets, p_cap)) {
            return SONDE_ENOMEM;
        }
        c->buckets_cap = p_cap;
    }
    c->count[c->buckets] = count;
    c->p[c->buckets++] = p;
    c->end[c->n - 1] = c->buckets;
    return 0;
}

/* ---- Entries --------------------------------------------------------------------------------- */

void sonde_chunk_put_entry(struct sonde_buf *out, const struct sonde_hist_delta *d)
{
    sonde_chunk_put_varint(out, d->zero);
    sonde_chunk_put_varint(out, sonde_zigzag(d->sum_raw));
    sonde_chunk_put_varint(out, d->bucket_count);
    uint32_t next = 0;
    for (uint32_t i = 0; i < d->bucket_count; i++) {
        assert(d->bucket[i].p >= next); /* ascending */
        sonde_chunk_put_varint(out, d->bucket[i].p - next);
        sonde_chunk_put_varint(out, d->bucket[i].n);
        next = d->bucket[i].p + 1u;
    }
}

void sonde_chunk_skip_entry(struct sonde_chunk_in *in)
{
    sonde_chunk_get_varint(in);
    sonde_chunk_get_varint(in);
    const uint64_t n = sonde_chunk_get_varint(in);
    if (n > SONDE__HIST_BUCKETS) in->bad = 1;
    for (uint64_t i = 0; i < n && !in->bad; i++) {
        sonde_chunk_get_varint(in);
        sonde_chunk_get_varint(in);
    }
}

int sonde_hist_column_add(struct sonde_hist_column *c, struct sonde_chunk_in *in)
{
    const uint64_t zero = sonde_chunk_get_varint(in);
    const uint64_t sum = sonde_unzigzag(sonde_chunk_get_varint(in));
    const uint64_t n = sonde_chunk_get_varint(in);
    if (in->bad || n > SONDE__HIST_BUCKETS || c->buckets + n > SONDE_CHUNK_BUCKETS_MAX) {
        return SONDE_EFORMAT;
    }
    if (sonde_hist_column_open(c, zero, sum)) return SONDE_ENOMEM;
    uint64_t next = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t gap = sonde_chunk_get_varint(in), count = sonde_chunk_get_varint(in);
        if (in->bad || gap >= SONDE__HIST_BUCKETS - next) return SONDE_EFORMAT;
        if (sonde_hist_column_bucket(c, (uint16_t)(next + gap), count)) return SONDE_ENOMEM;
        next += gap + 1;
        if (next == SONDE__HIST_BUCKETS && i + 1 < n) return SONDE_EFORMAT;
    }
    return 0;
}

/* ---- Chunks ---------------------------------------------------------------------------------- */

static uint32_t chunk_hist_piece_of(uint32_t left)
{
    return left < SONDE_CHUNK_MAX ? left : SONDE_CHUNK_MAX;
}

static void put_pieces(struct sonde_buf *out, const uint64_t *v, uint32_t n)
{
    for (uint32_t at = 0; at < n; at += SONDE_CHUNK_MAX) {
        sonde_chunk_put(out, SONDE_CHUNK_INTEGERS, v + at, chunk_hist_piece_of(n - at));
    }
}

static void get_pieces(struct sonde_chunk_in *in, uint64_t *v, uint32_t n)
{
    for (uint32_t at = 0; at < n && !in->bad; at += SONDE_CHUNK_MAX) {
        sonde_chunk_get(in, SONDE_CHUNK_INTEGERS, v + at, chunk_hist_piece_of(n - at));
    }
}

void sonde_chunk_put_hist(struct sonde_buf *out, const struct sonde_hist_column *c)
{
    uint64_t *scratch = sonde__calloc((size_t)c->n + c->buckets + 1, sizeof(*scratch));
    if (!scratch) {
        out->error = SONDE_ENOMEM;
        return;
    }
    put_pieces(out, c->zero, c->n);
    put_pieces(out, c->sum_raw, c->n);
    uint32_t before = 0, firsts = 0, gaps = 0;
    for (uint32_t i = 0; i < c->n; before = c->end[i++]) scratch[i] = c->end[i] - before;
    put_pieces(out, scratch, c->n);
    before = 0;
    for (uint32_t i = 0; i < c->n; before = c->end[i++]) {
        if (c->end[i] > before) scratch[firsts++] = c->p[before];
    }
    put_pieces(out, scratch, firsts);
    before = 0;
    for (uint32_t i = 0; i < c->n; before = c->end[i++]) {
        for (uint32_t b = before + 1; b < c->end[i]; b++) {
            scratch[gaps++] = (uint64_t)(c->p[b] - c->p[b - 1] - 1);
        }
    }
    put_pieces(out, scratch, gaps);
    put_pieces(out, c->count, c->buckets);
    sonde__free(scratch);
}

/* Buckets of n entries, whose sizes are in sizes, from first buckets and gaps. */
static int chunk_hist_place(struct sonde_hist_column *c, uint32_t n, const uint64_t *sizes,
                            const uint64_t *first, const uint64_t *gap)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t p = 0;
        for (uint64_t b = 0; b < sizes[i]; b++) {
            const uint64_t step = b ? *gap++ : *first++;
            if (step >= SONDE__HIST_BUCKETS) return SONDE_EFORMAT;
            p = b ? p + 1 + step : step;
            if (p >= SONDE__HIST_BUCKETS) return SONDE_EFORMAT;
            if (sonde_hist_column_bucket(c, (uint16_t)p, 0)) return SONDE_ENOMEM;
        }
        c->end[i] = c->buckets;
        if (i + 1 < n) c->n++;
    }
    return 0;
}

int sonde_chunk_get_hist(struct sonde_chunk_in *in, uint32_t n, struct sonde_hist_column *c)
{
    uint64_t total = 0, used = 0;
    if (!n) return 0;
    for (uint32_t i = 0; i < n; i++) {
        if (sonde_hist_column_open(c, 0, 0)) return SONDE_ENOMEM;
    }
    uint64_t *sizes = sonde__calloc(n, sizeof(*sizes));
    if (!sizes) return SONDE_ENOMEM;
    get_pieces(in, c->zero, n);
    get_pieces(in, c->sum_raw, n);
    get_pieces(in, sizes, n);
    for (uint32_t i = 0; i < n && total <= SONDE_CHUNK_BUCKETS_MAX; i++) {
        if (sizes[i] > SONDE__HIST_BUCKETS) in->bad = 1;
        total += sizes[i];
        used += sizes[i] > 0;
    }
    if (in->bad || total > SONDE_CHUNK_BUCKETS_MAX) {
        sonde__free(sizes);
        return SONDE_EFORMAT;
    }
    int rc = SONDE_ENOMEM;
    uint64_t *places = sonde__calloc(total + 1, sizeof(*places));
    if (places) {
        get_pieces(in, places, (uint32_t)used);
        get_pieces(in, places + used, (uint32_t)(total - used));
        c->n = 1; /* place goes through them */
        rc = in->bad ? SONDE_EFORMAT : chunk_hist_place(c, n, sizes, places, places + used);
        if (!rc) get_pieces(in, c->count, c->buckets);
        if (!rc && in->bad) rc = SONDE_EFORMAT;
    }
    sonde__free(places);
    sonde__free(sizes);
    return rc;
}
