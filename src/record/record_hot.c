/* record_hot.c - the slow half of the hot calls: no lane yet, a shared lane, a histogram's first
 * value in an octave. May run in any thread, in signal handlers and inside malloc. */
#include <string.h>

#include "record/state.h"
#include "segment/never.h"

#include "base/hot_banned.h"

static void cell_add(uint64_t *cell, uint64_t n, int shared)
{
    if (shared) __atomic_fetch_add(cell, n, __ATOMIC_RELAXED);
    else sonde__cell_add(cell, n);
}

void sonde__counter_add_slow(uint64_t off, uint64_t n)
{
    SONDE_MUST(off % 8 == 0);
    int shared;
    char *cells = sonde__lane_get(&shared);
    if (cells) cell_add((uint64_t *)(void *)(cells + off), n, shared);
}

/* Gauges need no lane, only an open segment. */
static uint64_t *gauge_cell(uint64_t off)
{
    SONDE_MUST(off % 8 == 0);
    int shared;
    if (!sonde__lane_get(&shared)) return NULL;
    return (uint64_t *)(void *)(sonde__lane_cells(0) + off);
}

void sonde__gauge_set_slow(uint64_t off, double value)
{
    uint64_t *cell = gauge_cell(off), bits;
    memcpy(&bits, &value, sizeof(bits));
    if (cell) __atomic_store_n(cell, bits, __ATOMIC_RELAXED);
}

void sonde__gauge_add_slow(uint64_t off, double delta)
{
    uint64_t *cell = gauge_cell(off);
    if (cell) sonde__gauge_cell_add(cell, delta);
}

/* ---- Histograms ---------------------------------------------------------------------------- */

/* This lane's block of the histogram whose cell this is, made on first use; NULL = no memory. */
static struct sonde__hist *hist_block(char *cells, uint64_t off)
{
    SONDE_MUST(off >= 8 && off % 8 == 0);
    uint64_t *cell = (uint64_t *)(void *)(cells + off - 8);
    uint64_t at = __atomic_load_n(cell, __ATOMIC_ACQUIRE);
    if (!at) {
        const uint64_t mine = sonde__block_take(sizeof(struct sonde__hist));
        if (!mine) return NULL;
        const uint32_t series = (uint32_t)((off - 8) / 8);
        const uint32_t family = sonde__series_at(series)->family;
        ((struct sonde__hist *)(void *)sonde__at(mine))->scale = sonde__family_at(family)->scale;
        if (__atomic_compare_exchange_n(cell, &at, mine - SONDE__HIST_NONE, 0, __ATOMIC_RELEASE,
                                        __ATOMIC_ACQUIRE)) {
            at = mine - SONDE__HIST_NONE;
        }
    }
    return (struct sonde__hist *)(void *)sonde__at(SONDE__HIST_NONE + at);
}

static uint64_t *record_hist_octave(struct sonde__hist *b, uint64_t p)
{
    SONDE_MUST(p < SONDE__HIST_BUCKETS);
    uint32_t *slot = &b->octave[p >> 6];
    uint32_t at = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (!at) {
        const uint64_t mine = sonde__block_take(64 * sizeof(uint64_t));
        if (!mine) return NULL;
        if (__atomic_compare_exchange_n(slot, &at, (uint32_t)(mine / 64), 0, __ATOMIC_RELEASE,
                                        __ATOMIC_ACQUIRE)) {
            at = (uint32_t)(mine / 64);
        }
    }
    return (uint64_t *)(void *)sonde__at((uint64_t)at * 64);
}

void sonde__hist_record_slow(uint64_t off, uint64_t value)
{
    int shared;
    char *cells = sonde__lane_get(&shared);
    if (!cells || !off) return;
    struct sonde__hist *b = hist_block(cells, off);
    if (!b) return;

    const double v = (double)value * b->scale;
    uint64_t p = sonde__hist_bucket(v);
    uint64_t *cell;
    if (p < SONDE__HIST_BUCKETS || v > 1) {
        if (p >= SONDE__HIST_BUCKETS) {
            p = SONDE__HIST_BUCKETS - 1;
            sonde__drop(SONDE__DROP_range);
        }
        uint64_t *octave = record_hist_octave(b, p);
        if (!octave) return;
        cell = &octave[p & 63];
    } else {
        cell = &b->zero;
    }
    cell_add(cell, 1, shared);
    cell_add(&b->sum, value, shared);
    __atomic_store_n(&b->last, value, __ATOMIC_RELAXED);
}

/* A seqlock whose writers give way to each other: an exemplar is a sample, not a count. */
void sonde__hist_exemplar(uint64_t off, uint64_t value)
{
    int shared;
    char *cells = sonde__lane_get(&shared);
    if (!cells || !off) return;
    const uint64_t at =
        __atomic_load_n((uint64_t *)(void *)(cells + off - 8), __ATOMIC_ACQUIRE);
    if (!at) return;
    struct sonde__hist *b = (struct sonde__hist *)(void *)sonde__at(SONDE__HIST_NONE + at);
    uint64_t seq = __atomic_load_n(&b->ex_seq, __ATOMIC_RELAXED);
    if (seq & 1 || !__atomic_compare_exchange_n(&b->ex_seq, &seq, seq + 1, 0, __ATOMIC_ACQ_REL,
                                                __ATOMIC_RELAXED)) {
        return;
    }
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&b->ex_value, value, __ATOMIC_RELAXED);
    __atomic_store_n(&b->ex_trace_hi, sonde__tls.trace_hi, __ATOMIC_RELAXED);
    __atomic_store_n(&b->ex_trace_lo, sonde__tls.trace_lo, __ATOMIC_RELAXED);
    __atomic_store_n(&b->ex_seq, seq + 2, __ATOMIC_RELEASE);
}

/* ---- Spans --------------------------------------------------------------------------------- */

/* 1 if a span can be recorded. A lane of one's own gets its ring, and the fast path with it. */
int sonde__span_begin_slow(void)
{
    int shared;
    char *cells = sonde__lane_get(&shared);
    if (cells && !shared && !sonde__tls.ring) sonde__tls.ring = sonde__lane_ring(cells);
    return cells != NULL;
}

/* Any number of writers: the record is reserved by a locked add. */
void sonde__ring_put(const struct sonde__span_rec *r, uint64_t type)
{
    SONDE_MUST(type && type <= 0xff); /* the rest of the word is the number */
    int shared;
    char *cells = sonde__lane_get(&shared);
    if (!cells) return;
    struct sonde__ring *ring = sonde__lane_ring(cells);
    if (!ring) return;
    const uint64_t index = __atomic_fetch_add(&ring->reserve, 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    uint64_t *to = (uint64_t *)(void *)&ring->rec[index % SONDE__RING_RECS];
    const uint64_t *from = (const uint64_t *)(const void *)r;
    for (int i = 1; i < 8; i++) __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
    __atomic_store_n(&to[0], (index + 1) << 8 | type, __ATOMIC_RELEASE);
}

void sonde__span_end_slow(const struct sonde_span *s, uint64_t end, uint32_t outcome)
{
    if (SONDE__GATE() == SONDE__GATE_OFF) return;
    sonde__thread_setup(); /* forked inside the span: this thread has another tid now */
    const struct sonde__span_rec r = {
        .start = s->start,
        .end = end,
        .trace_hi = s->trace_hi,
        .trace_lo = s->trace_lo,
        .id = s->id,
        .parent = s->parent,
        .name_tid = (uint64_t)sonde__tls.tid << 32 | (uint64_t)outcome << 24 |
                    (s->name & 0xffffffu),
    };
    sonde__ring_put(&r, SONDE__REC_SPAN);
}

static void span_attr(const struct sonde_span *s, uint32_t key, uint32_t type, const void *value,
                      size_t len)
{
    SONDE_MUST(type && type <= 0xff);
    if (!s->flags || SONDE__GATE() == SONDE__GATE_OFF) return;
    if (len > SONDE__ATTR_BYTES) len = SONDE__ATTR_BYTES;
    uint64_t words[8] = { 0, s->id,
                          (uint64_t)len << 32 | (uint64_t)type << 24 | (key & 0xffffffu) };
    memcpy(&words[3], value, len);
    struct sonde__span_rec r;
    memcpy(&r, words, sizeof(r));
    sonde__ring_put(&r, SONDE__REC_ATTR);
}

void sonde_span_attr_int(struct sonde_span *s, uint32_t key, int64_t value)
{
    span_attr(s, key, SONDE__ATTR_INT, &value, sizeof(value));
}

void sonde_span_attr_double(struct sonde_span *s, uint32_t key, double value)
{
    span_attr(s, key, SONDE__ATTR_DOUBLE, &value, sizeof(value));
}

void sonde_span_attr_str(struct sonde_span *s, uint32_t key, const char *value)
{
    if (value) span_attr(s, key, SONDE__ATTR_STR, value, strnlen(value, SONDE__ATTR_BYTES));
}

/* ---- For languages that cannot inline ------------------------------------------------------ */

void sonde_fn_counter_add(uint64_t off, uint64_t n)
{
    sonde_counter_add((struct sonde_counter){ off }, n);
}

void sonde_fn_gauge_set(uint64_t off, double value)
{
    sonde_gauge_set((struct sonde_gauge){ off }, value);
}

void sonde_fn_gauge_add(uint64_t off, double delta)
{
    sonde_gauge_add((struct sonde_gauge){ off }, delta);
}

void sonde_fn_hist_record(uint64_t off, double scale, uint64_t value)
{
    sonde_hist_record((struct sonde_hist){ off, scale }, value);
}

void sonde_fn_span_begin(struct sonde_span *s, uint32_t name) { sonde_span_begin(s, name); }

void sonde_fn_span_end(struct sonde_span *s, int outcome)
{
    sonde_span_end(s, (enum sonde_outcome)outcome);
}

uint64_t sonde_fn_ticks(void) { return sonde_ticks(); }
uint64_t sonde_fn_ticks_ns(uint64_t ticks) { return sonde_ticks_ns(ticks); }
