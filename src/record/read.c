/* read.c - see read.h: this process's own segment, added up over its lanes.
 *
 * Cells only grow, and are populated in all lanes before anybody has a handle to them (define.c,
 * lane.c), so a reader needs no lock. Of a histogram the octaves are added up first, 96 words; a
 * percentile then looks into one octave again. Rejected: adding up all buckets, 48 KB, which is
 * more than some threads have left of their stack. */
#include "sonde/read.h"

#include <string.h>

#include "record/call.h"
#include "record/state.h"
#include "segment/never.h"

#define NOT_KNOWN __builtin_nan("")

/* 1 if this process has a segment, whether or not it records to it just now. */
static int record_read_readable(void)
{
    if (sonde__ensure_open() == 0) return 1;
    return sonde__g.base && !sonde__silent() &&
           sonde__g.pid == (uint32_t)sonde__call(SYS_getpid, 0, 0, 0, 0, 0);
}

static uint32_t lane_count(void)
{
    return __atomic_load_n(&sonde__g.h->lane_count, __ATOMIC_ACQUIRE);
}

/* The cell at this offset is there in every lane. */
static int cell_exists(uint64_t off)
{
    return off && off / 8 < __atomic_load_n(&sonde__g.h->series_count, __ATOMIC_ACQUIRE);
}

static uint64_t cell_load(uint32_t lane, uint64_t off)
{
    return __atomic_load_n((uint64_t *)(void *)(sonde__lane_cells(lane) + off), __ATOMIC_ACQUIRE);
}

uint64_t sonde_read_counter(struct sonde_counter c)
{
    uint64_t total = 0;
    if (!record_read_readable() || !cell_exists(c.off)) return 0;
    for (uint32_t i = 0, n = lane_count(); i < n; i++) total += cell_load(i, c.off);
    return total;
}

double sonde_read_gauge(struct sonde_gauge g)
{
    double value = 0;
    if (!record_read_readable() || !cell_exists(g.off)) return 0;
    const uint64_t bits = cell_load(0, g.off);
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* ---- Histograms ---------------------------------------------------------------------------- */

struct octaves {                /* of a histogram, over all lanes */
    struct sonde_hist h;
    uint64_t n[SONDE__HIST_OCTAVES];
    uint64_t count, zero, sum;
};

/* A lane's part of it; NULL = none. */
static const struct sonde__hist *block_of(uint32_t lane, struct sonde_hist h)
{
    const uint64_t at = cell_load(lane, h.off - 8);
    return at ? (const struct sonde__hist *)(void *)sonde__at(at + SONDE__HIST_NONE) : NULL;
}

static const uint64_t *buckets_of(const struct sonde__hist *b, uint32_t octave)
{
    const uint64_t at = __atomic_load_n(&b->octave[octave], __ATOMIC_ACQUIRE);
    return at ? (const uint64_t *)(void *)sonde__at(at * 64) : NULL;
}

static void octaves_read(struct octaves *o, struct sonde_hist h)
{
    memset(o, 0, sizeof(*o));
    o->h = h;
    if (!record_read_readable() || h.off < 16 || !cell_exists(h.off - 8)) return;
    for (uint32_t i = 0, lanes = lane_count(); i < lanes; i++) {
        const struct sonde__hist *b = block_of(i, h);
        if (!b) continue;
        /* The sum before the buckets: what it is of is then in them (sonde_inline.h). */
        o->sum += __atomic_load_n(&b->sum, __ATOMIC_ACQUIRE);
        o->zero += __atomic_load_n(&b->zero, __ATOMIC_RELAXED);
        for (uint32_t k = 0; k < SONDE__HIST_OCTAVES; k++) {
            const uint64_t *cells = buckets_of(b, k);
            for (uint32_t j = 0; cells && j < 64; j++) {
                o->n[k] += __atomic_load_n(&cells[j], __ATOMIC_RELAXED);
            }
        }
    }
    o->count = o->zero;
    for (uint32_t k = 0; k < SONDE__HIST_OCTAVES; k++) o->count += o->n[k];
}

/* The bucket of this octave that holds the value of a rank, 1 = its smallest. */
static double rank_in(const struct octaves *o, uint32_t octave, uint64_t rank)
{
    SONDE_MUST(octave < SONDE__HIST_OCTAVES);
    uint64_t seen = 0;
    uint32_t j = 0;
    for (; j < 63; j++) {
        for (uint32_t i = 0, lanes = lane_count(); i < lanes; i++) {
            const struct sonde__hist *b = block_of(i, o->h);
            const uint64_t *cells = b ? buckets_of(b, octave) : NULL;
            if (cells) seen += __atomic_load_n(&cells[j], __ATOMIC_RELAXED);
        }
        if (seen >= rank) break;
    }
    return sonde__hist_middle(octave * 64 + j, o->h.scale);
}

static double record_read_rank_value(const struct octaves *o, uint64_t rank)
{
    if (rank <= o->zero) return 0;
    rank -= o->zero;
    for (uint32_t k = 0; k < SONDE__HIST_OCTAVES; k++) {
        if (rank <= o->n[k]) return rank_in(o, k, rank);
        rank -= o->n[k];
    }
    return NOT_KNOWN;
}

/* The rank is q times the count, rounded up, as the agent has it. */
static double record_read_quantile(const struct octaves *o, double q)
{
    if (!o->count || !(q >= 0 && q <= 1)) return NOT_KNOWN;
    const double exact = q * (double)o->count;
    uint64_t rank = exact < (double)o->count ? (uint64_t)exact : o->count;
    if ((double)rank < exact) rank++;
    return record_read_rank_value(o, rank ? rank : 1);
}

void sonde_read_hist(struct sonde_hist h, struct sonde_read_hist *out)
{
    struct octaves o;
    octaves_read(&o, h);
    out->count = o.count;
    out->sum = (double)o.sum * h.scale;
    out->mean = o.count ? out->sum / (double)o.count : NOT_KNOWN;
    out->min = record_read_quantile(&o, 0);
    out->max = record_read_quantile(&o, 1);
    out->p50 = record_read_quantile(&o, 0.5);
    out->p90 = record_read_quantile(&o, 0.9);
    out->p95 = record_read_quantile(&o, 0.95);
    out->p99 = record_read_quantile(&o, 0.99);
}

double sonde_read_quantile(struct sonde_hist h, double q)
{
    struct octaves o;
    octaves_read(&o, h);
    return record_read_quantile(&o, q);
}

/* ---- Rates --------------------------------------------------------------------------------- */

double sonde_read_rate(struct sonde_read_rate *last, uint64_t total)
{
    const struct sonde_read_rate before = *last;
    const uint64_t now = sonde_ticks();
    *last = (struct sonde_read_rate){ total, now };
    if (!before.ticks || now <= before.ticks || total < before.total) return NOT_KNOWN;
    const uint64_t ns = sonde_ticks_ns(now - before.ticks);
    return ns ? (double)(total - before.total) * 1e9 / (double)ns : NOT_KNOWN;
}

/* ---- By name ------------------------------------------------------------------------------- */

static int record_read_find(enum sonde_type type, const char *name, const char *const *values,
                            uint32_t *id)
{
    *id = 0;
    if (!name) return SONDE_ENOENT;
    return record_read_readable() ? sonde__series_find(type, name, values, id) : SONDE_EOFF;
}

int sonde_counter_find(const char *name, const char *const *values, struct sonde_counter *out)
{
    uint32_t id;
    const int rc = record_read_find(SONDE_COUNTER, name, values, &id);
    *out = (struct sonde_counter){ 8ull * id };
    return rc;
}

int sonde_gauge_find(const char *name, const char *const *values, struct sonde_gauge *out)
{
    uint32_t id;
    const int rc = record_read_find(SONDE_GAUGE, name, values, &id);
    *out = (struct sonde_gauge){ 8ull * id };
    return rc;
}

int sonde_hist_find(const char *name, const char *const *values, struct sonde_hist *out)
{
    uint32_t id;
    const int rc = record_read_find(SONDE_HISTOGRAM, name, values, &id);
    *out = (struct sonde_hist){ 0, 0 };
    if (!rc) {
        const struct sonde__family *f = sonde__family_at(sonde__series_at(id)->family);
        *out = (struct sonde_hist){ 8ull * id + 8, f->scale };
    }
    return rc;
}
