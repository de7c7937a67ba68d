/* value.c - figures of a segment's series: sums over lanes, as differences to last time.
 *
 * The model gets what was added since the last reading and not the sums themselves, so that two
 * images of one process (exec of the same program) add up in one series. Each word in the file
 * only grows, and so do sums over words, in whatever order they are read; a sum that fell means
 * damage. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collect/segment/private.h"

static int went_back(const struct sonde_segment *s, uint32_t id, struct sonde_err *err)
{
    return sonde_err_set(err, SONDE_EFORMAT, "damaged: series %" PRIu32 " (%s) went backwards", id,
                         s->family[s->series[id].family].name);
}

static const char *lane_cells(const struct sonde_segment *s, uint32_t lane)
{
    return s->map.base + sonde__lane_at(&s->h, lane) + SONDE__CELLS_OFF;
}

/* ---- Counters and gauges ------------------------------------------------------------------ */

/* Lanes outside, cells inside: the way they lie in memory. Cells of gauges and histograms are
 * summed too, for nothing; testing for them would cost more. */
static int counters_read(struct sonde_segment *s, const struct segment_counts *c, uint32_t count,
                         struct sonde_err *err)
{
    uint64_t *sum = s->sum;
    memset(sum, 0, count * sizeof(*sum));
    for (uint32_t lane = 0; lane < c->lanes; lane++) {
        const char *cells = lane_cells(s, lane);
        for (uint32_t i = 1; i < count; i++) sum[i] += segment_load(cells + 8ull * i);
    }
    for (uint32_t i = 1; i < count; i++) {
        struct segment_series *series = &s->series[i];
        if (series->type != SONDE_COUNTER || sum[i] == series->total) continue;
        if (sum[i] < series->total) return went_back(s, i, err);
        if (series->model) series->model->counter += sum[i] - series->total;
        series->total = sum[i];
    }
    return 0;
}

static void gauges_read(struct sonde_segment *s, uint32_t count)
{
    const char *cells = lane_cells(s, 0);
    for (uint32_t i = 1; i < count; i++) {
        if (s->series[i].type != SONDE_GAUGE || !s->series[i].model) continue;
        uint64_t bits = segment_load(cells + 8ull * i);
        memcpy(&s->series[i].model->gauge, &bits, sizeof(bits));
    }
}

/* ---- Histograms --------------------------------------------------------------------------- */

void segment_hist_free(struct segment_hist *h)
{
    if (!h) return;
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) sonde__free(h->octave[o]);
    sonde__free(h->block);
    sonde__free(h);
}

/* h's blocks by lane, at least lanes of them. */
static int hist_lanes(struct segment_series *series, uint32_t lanes)
{
    assert(lanes > 0);
    if (!series->hist) series->hist = sonde__calloc(1, sizeof(*series->hist));
    struct segment_hist *h = series->hist;
    if (!h) return SONDE_ENOMEM;
    if (h->lanes >= lanes) return 0;
    struct segment_block *block = sonde__realloc(h->block, lanes * sizeof(*block));
    if (!block) return SONDE_ENOMEM;
    memset(block + h->lanes, 0, (lanes - h->lanes) * sizeof(*block));
    h->block = block;
    h->lanes = lanes;
    return 0;
}

static const struct sonde__hist *segment_value_block_at(const struct sonde_segment *s, uint64_t off)
{
    return (const struct sonde__hist *)(const void *)(s->map.base + off);
}

/* Exemplars are kept by trace; a writer killed inside leaves an odd number and is passed over. */
static void exemplar_read(struct segment_series *series, struct segment_block *b,
                          const struct sonde__hist *from, double now_s)
{
    uint64_t seq = __atomic_load_n(&from->ex_seq, __ATOMIC_ACQUIRE);
    if (seq == b->ex_seq || seq & 1) return;
    uint64_t value = segment_load(&from->ex_value);
    struct sonde_exemplar e = {
        .value = (double)value * series->model->family->scale,
        .trace_hi = segment_load(&from->ex_trace_hi),
        .trace_lo = segment_load(&from->ex_trace_lo),
        .time_s = now_s,
    };
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (__atomic_load_n(&from->ex_seq, __ATOMIC_RELAXED) != seq) return;
    b->ex_seq = seq;
    if (e.trace_hi | e.trace_lo) sonde_model_exemplar(series->model, &e);
}

/* What a pass over the lanes found of one histogram. */
struct hist_sum {
    uint64_t zero, sum_raw, last_raw;
    uint8_t octave[SONDE__HIST_OCTAVES];  /* 1: its part of s->hist_sum is in use */
};

static int octaves_add(struct sonde_segment *s, struct segment_counts *c, uint32_t id,
                       const struct sonde__hist *from, struct hist_sum *sum,
                       struct sonde_err *err)
{
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        uint64_t off = (uint64_t)__atomic_load_n(&from->octave[o], __ATOMIC_ACQUIRE) * 64;
        if (off == 0) continue;
        if (!segment_in_blocks(s, c, off, 64 * sizeof(uint64_t))) {
            return sonde_err_set(err, SONDE_EFORMAT, "damaged: buckets of series %" PRIu32
                                 " lie outside the block area", id);
        }
        uint64_t *to = s->hist_sum + o * 64;
        if (!sum->octave[o]) memset(to, 0, 64 * sizeof(*to));
        sum->octave[o] = 1;
        for (uint32_t i = 0; i < 64; i++) to[i] += segment_load(s->map.base + off + 8 * i);
    }
    return 0;
}

/* Out of memory for a bucket: it is not marked as seen, so the next pass tries again. */
static int hist_apply(struct sonde_segment *s, uint32_t id, const struct hist_sum *sum,
                      struct sonde_err *err)
{
    struct segment_series *series = &s->series[id];
    struct segment_hist *h = series->hist;
    struct sonde_hist_value *to = sonde_model_hist(series->model);
    if (!to) return 0;
    if (sum->zero < h->zero) return went_back(s, id, err);
    for (uint32_t o = 0; o < SONDE__HIST_OCTAVES; o++) {
        if (!sum->octave[o]) {
            if (h->octave[o]) return went_back(s, id, err);
            continue;
        }
        if (!h->octave[o]) h->octave[o] = sonde__calloc(64, sizeof(uint64_t));
        if (!h->octave[o]) return 0;
        for (uint32_t i = 0; i < 64; i++) {
            uint64_t now = s->hist_sum[o * 64 + i], before = h->octave[o][i];
            if (now == before) continue;
            if (now < before) return went_back(s, id, err);
            if (sonde_hist_value_add(to, o * 64 + i, now - before) != 0) return 0;
            h->octave[o][i] = now;
        }
    }
    to->zero += sum->zero - h->zero;
    to->count += sum->zero - h->zero;
    to->sum_raw += sum->sum_raw - h->sum_raw;
    to->last_raw = sum->last_raw;
    h->zero = sum->zero;
    h->sum_raw = sum->sum_raw;
    return 0;
}

/* Find this pass's blocks of one histogram. *changed: some lane recorded since last time; told
 * by sum and zero, because each record changes one of them. */
static int blocks_look(struct sonde_segment *s, struct segment_counts *c, uint32_t id,
                       double now_s, int *changed, uint64_t *last_raw, struct sonde_err *err)
{
    struct segment_series *series = &s->series[id];
    *changed = 0;
    for (uint32_t lane = 0; lane < c->lanes; lane++) {
        const void *cell = lane_cells(s, lane) + 8ull * id;
        uint64_t off = __atomic_load_n((const uint64_t *)cell, __ATOMIC_ACQUIRE);
        if (off != 0) off += SONDE__HIST_NONE;
        uint64_t known = series->hist && lane < series->hist->lanes
                             ? series->hist->block[lane].off : 0;
        if (off == 0 && known == 0) continue;
        if (off != known) {
            if (known != 0 || !segment_in_blocks(s, c, off, sizeof(struct sonde__hist))) {
                return sonde_err_set(err, SONDE_EFORMAT, "damaged: histogram of series %" PRIu32
                                     " lies outside the block area or has moved", id);
            }
            if (hist_lanes(series, c->lanes) != 0) return 0; /* the next pass tries again */
            series->hist->block[lane].off = off;
        }
        struct segment_block *b = &series->hist->block[lane];
        const struct sonde__hist *from = segment_value_block_at(s, off);
        uint64_t sum = segment_load(&from->sum), zero = segment_load(&from->zero);
        if (sum != b->sum || zero != b->zero || known == 0) {
            b->sum = sum;
            b->zero = zero;
            *last_raw = segment_load(&from->last);
            *changed = 1;
        }
        exemplar_read(series, b, from, now_s);
    }
    return 0;
}

static int segment_value_hist_read(struct sonde_segment *s, struct segment_counts *c, uint32_t id,
                                   int all, double now_s, struct sonde_err *err)
{
    struct segment_series *series = &s->series[id];
    struct hist_sum sum = { 0 };
    int changed;
    if (series->model->hist) sum.last_raw = series->model->hist->last_raw;
    int rc = blocks_look(s, c, id, now_s, &changed, &sum.last_raw, err);
    if (rc != 0 || !series->hist || !(changed || all)) return rc;
    if (!s->hist_sum) s->hist_sum = sonde__alloc(SONDE__HIST_BUCKETS * sizeof(uint64_t));
    if (!s->hist_sum) return 0;
    for (uint32_t lane = 0; lane < series->hist->lanes; lane++) {
        uint64_t off = series->hist->block[lane].off;
        if (off == 0) continue;
        const struct sonde__hist *from = segment_value_block_at(s, off);
        rc = octaves_add(s, c, id, from, &sum, err);
        if (rc != 0) return rc;
        sum.zero += segment_load(&from->zero);
        sum.sum_raw += segment_load(&from->sum);
    }
    return hist_apply(s, id, &sum, err);
}

/* ---- All ---------------------------------------------------------------------------------- */

int segment_values_read(struct sonde_segment *s, int last, struct sonde_err *err)
{
    struct segment_counts c;
    int rc = segment_counts_load(s, &c, err);
    if (rc != 0 || c.lanes == 0) return rc;
    uint32_t count = s->series_count < c.cells ? s->series_count : c.cells;
    double now_s = sonde_clock_s(CLOCK_REALTIME);
    rc = counters_read(s, &c, count, err);
    if (rc != 0) return rc;
    /* Gauges may be anything, so zeros under a file cut short would not be noticed. */
    if (sonde_guarded_map_damaged(&s->map)) return SONDE_EFORMAT;
    gauges_read(s, count);
    for (uint32_t i = 1; rc == 0 && i < count; i++) {
        if (s->series[i].type != SONDE_HISTOGRAM || !s->series[i].model) continue;
        rc = segment_value_hist_read(s, &c, i, last, now_s, err);
    }
    /* 48 KB, and an agent may have a thousand segments open. */
    sonde__free(s->hist_sum);
    s->hist_sum = NULL;
    return rc;
}
