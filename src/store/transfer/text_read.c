/* text_read.c - OpenMetrics and Prometheus' text back into series.
 *
 * First every sample name with its labels is a series of numbers, found through a hash table, since
 * those of a histogram take turns. Then parts of histograms that have our bounds are put together
 * again; what has other bounds stays the counters that it is (collect/ingest/ingest.h says why).
 * Last it is found out of counters what whole numbers of what they count. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/cmp.h"
#include "base/hash.h"
#include "base/map.h"
#include "model/exposition.h"
#include "sonde/sonde.h"
#include "store/transfer/transfer.h"

struct plain {
    struct sonde_transfer_series s;  /* numbers in `value`, as bits */
    enum sonde_exposition_type type;
    size_t stem;                     /* bytes of its name that are the family's */
    char *base;                      /* labels without le; of _bucket only */
    double le;
    int used;                        /* part of a histogram that was put together */
};

struct transfer_text_reader {
    struct plain *at;
    uint32_t count, cap;
    struct sonde_map map;            /* of name and labels; row + 1 */
    struct sonde_buf key, base;
    int64_t now_ms;
    struct sonde_transfer *x;
    uint64_t rounded;
};

/* ---- Samples --------------------------------------------------------------------------------- */

static uint32_t transfer_text_read_hash_of(const char *name, const char *labels)
{
    return sonde_hash_end(sonde_hash_mix(sonde_hash_text(name), sonde_hash_text(labels)));
}

static void transfer_text_read_put_label(struct sonde_buf *out, const struct sonde_label *l)
{
    if (out->len) sonde_buf_putc(out, ',');
    sonde_buf_printf(out, "%s=\"", l->name);
    for (const char *v = l->value; *v; v++) {
        if (*v == '\\' || *v == '"' || *v == '\n') sonde_buf_putc(out, '\\');
        sonde_buf_putc(out, *v == '\n' ? 'n' : *v);
    }
    sonde_buf_putc(out, '"');
}

static struct plain *transfer_text_read_look_up(struct transfer_text_reader *r, uint32_t hash,
                                                const char *name, const char *labels)
{
    uint32_t at = hash, row;
    while ((row = sonde_map_next(&r->map, hash, &at))) {
        struct plain *p = &r->at[row - 1];
        if (!strcmp(p->s.spec.name, name) && !strcmp(p->s.spec.labels, labels)) return p;
    }
    return NULL;
}

static struct plain *transfer_text_read_add(struct transfer_text_reader *r,
                                            const struct sonde_exposition_sample *s, uint32_t hash)
{
    struct sonde_transfer one = { 0 };
    const struct sonde_store_series spec = { .name = s->name, .help = s->help, .unit = s->unit,
                                             .labels = r->key.len ? r->key.data : "", .scale = 1 };
    if (SONDE_ARRAY_ROOM(r->at, r->count, r->cap) || sonde_map_reserve(&r->map)) return NULL;
    if (!sonde_transfer_add(&one, &spec)) {
        sonde_transfer_release(&one);
        return NULL;
    }
    struct plain *p = &r->at[r->count++];
    *p = (struct plain){ .s = one.at[0], .type = s->type, .stem = strlen(s->family) };
    sonde__free(one.at);
    sonde_map_put(&r->map, hash, r->count);
    return p;
}

static struct plain *transfer_text_read_find(struct transfer_text_reader *r,
                                             const struct sonde_exposition_sample *s)
{
    const char *labels = r->key.len ? r->key.data : "";
    const uint32_t hash = transfer_text_read_hash_of(s->name, labels);
    struct plain *p = transfer_text_read_look_up(r, hash, s->name, labels);
    return p ? p : transfer_text_read_add(r, s, hash);
}

/* x_created of a counter x_total: where that began. */
static int is_created(const struct sonde_exposition_sample *s)
{
    return strcmp(s->name + strlen(s->family), "_created") == 0 &&
           (s->type == SONDE_EXPOSITION_COUNTER || s->type == SONDE_EXPOSITION_HISTOGRAM ||
            s->type == SONDE_EXPOSITION_SUMMARY);
}

static int note_created(struct transfer_text_reader *r, const struct sonde_exposition_sample *s)
{
    char name[600];
    const size_t len = strlen(s->family);
    if (s->type != SONDE_EXPOSITION_COUNTER || len + 7 > sizeof(name)) return 0;
    memcpy(name, s->family, len);
    memcpy(name + len, "_total", 7);
    struct sonde_exposition_sample total = *s;
    total.name = name;
    struct plain *p = transfer_text_read_find(r, &total);
    if (!p) return SONDE_ENOMEM;
    if (!p->s.count) return 0;
    struct sonde_transfer_point *last = &p->s.point[p->s.count - 1];
    if (llround(s->value * 1e3) == last->time_ms) last->start = SONDE_START_ZERO;
    return 0;
}

static int transfer_text_read_on_sample(const struct sonde_exposition_sample *s, void *arg)
{
    struct transfer_text_reader *r = arg;
    const int bucket = s->type == SONDE_EXPOSITION_HISTOGRAM &&
                       strcmp(s->name + strlen(s->family), "_bucket") == 0;
    const char *le = NULL;
    sonde_buf_reset(&r->key);
    sonde_buf_reset(&r->base);
    for (size_t i = 0; i < s->label_count; i++) {
        transfer_text_read_put_label(&r->key, &s->labels[i]);
        if (strcmp(s->labels[i].name, "le") == 0) le = s->labels[i].value;
        else transfer_text_read_put_label(&r->base, &s->labels[i]);
    }
    if (r->key.error || r->base.error) return SONDE_ENOMEM;
    if (is_created(s)) return note_created(r, s);
    struct plain *p = transfer_text_read_find(r, s);
    if (!p) return SONDE_ENOMEM;
    if (bucket && le && !p->base) {
        p->base = sonde__strdup(r->base.len ? r->base.data : "");
        if (!p->base) return SONDE_ENOMEM;
        if (sonde_exposition_number(le, le + strlen(le), &p->le)) p->le = NAN;
    }
    const struct sonde_transfer_point point = {
        .time_ms = s->has_time ? llround(s->time_s * 1e3) : r->now_ms,
        .value = sonde_transfer_bits(s->value),
        .start = p->s.count ? SONDE_START_NONE : SONDE_START_BASE,
    };
    return sonde_transfer_point(&p->s, &point);
}

/* ---- What counters count --------------------------------------------------------------------- */

static const double scales[] = { 1, 1e-2, 1e-3, 1e-6, 1e-9, 1e-12 };

/* The coarsest of which all values are whole numbers; 0 = none. */
static double scale_of(const struct sonde_transfer_series *s, int negative)
{
    for (size_t i = 0; i < SONDE_COUNT(scales); i++) {
        size_t k = 0;
        for (; k < s->count; k++) {
            const double v = sonde_transfer_double(s->point[k].value), raw = rint(v / scales[i]);
            if (!(raw >= (negative ? -0x1p53 : 0) && raw < (i ? 0x1p53 : 0x1p63))) break;
            const double back = sonde_transfer_value(raw, scales[i]);
            if (back < v || back > v) break;
        }
        if (k == s->count) return scales[i];
    }
    return 0;
}

static int take_counter(struct transfer_text_reader *r, struct plain *p)
{
    struct sonde_transfer_series *s = &p->s;
    double scale = scale_of(s, 0), most = 0;
    s->spec.type = SONDE_COUNTER;
    s->spec.kind = SONDE_KIND_COUNTER;
    for (size_t i = 0; i < s->count; i++) {
        const double v = sonde_transfer_double(s->point[i].value);
        if (!(v >= 0 && v < 0x1p63)) { /* it can be no counter's */
            s->spec.type = SONDE_GAUGE;
            for (size_t k = 0; k < s->count; k++) s->point[k].start = SONDE_START_NONE;
            return 0;
        }
        if (v > most) most = v;
    }
    if (!(scale > 0)) {
        scale = most < 9e6 ? 1e-9 : 1;
        r->rounded += s->count;
    }
    s->spec.scale = scale;
    for (size_t i = 0; i < s->count; i++) {
        s->point[i].value = (uint64_t)rint(sonde_transfer_double(s->point[i].value) / scale);
    }
    return 0;
}

/* ---- Histograms ------------------------------------------------------------------------------ */

/* Buckets of one histogram, in order of their bounds, and its sum and count. */
struct transfer_text_read_group {
    struct plain **bucket;
    size_t count;
    struct plain *sum, *total;
};

static int by_group(const void *a, const void *b)
{
    const struct plain *x = *(struct plain *const *)a, *y = *(struct plain *const *)b;
    int order = strcmp(x->s.spec.name, y->s.spec.name);
    if (!order) order = strcmp(x->base, y->base);
    return order ? order : SONDE_CMP(x->le, y->le);
}

static struct plain *transfer_text_read_part(struct transfer_text_reader *r,
                                             const struct plain *bucket, const char *suffix)
{
    char name[600];
    if (bucket->stem + strlen(suffix) + 1 > sizeof(name)) return NULL;
    memcpy(name, bucket->s.spec.name, bucket->stem);
    memcpy(name + bucket->stem, suffix, strlen(suffix) + 1);
    return transfer_text_read_look_up(r, transfer_text_read_hash_of(name, bucket->base), name,
                                      bucket->base);
}

static int same_times(const struct plain *a, const struct plain *b)
{
    if (a->s.count != b->s.count) return 0;
    for (size_t i = 0; i < a->s.count; i++) {
        if (a->s.point[i].time_ms != b->s.point[i].time_ms) return 0;
    }
    return 1;
}

static double transfer_text_read_at(const struct plain *p, size_t i)
{
    return sonde_transfer_double(p->s.point[i].value);
}

/* The bucket that has this bound; -1: none of ours has. 0 is -2. */
static int transfer_text_read_bucket_of(double le)
{
    if (le >= 0 && le <= 0) return -2;
    const uint64_t p = le > 0 ? sonde__hist_bucket(le) : SONDE__HIST_BUCKETS;
    if (p >= SONDE__HIST_BUCKETS) return -1;
    const double upper = sonde__hist_upper((uint32_t)p);
    return upper < le || upper > le ? -1 : (int)p;
}

/* 1 if it is one of ours: bounds, times, totals that never go back. */
static int transfer_text_read_is_ours(const struct transfer_text_read_group *g)
{
    if (!g->sum || !g->total || !same_times(g->sum, g->total) || !(scale_of(&g->sum->s, 1) > 0)) {
        return 0;
    }
    if (!isinf(g->bucket[g->count - 1]->le)) return 0;
    for (size_t b = 0; b < g->count; b++) {
        const struct plain *p = g->bucket[b];
        if (!same_times(p, g->total) ||
            (b + 1 < g->count && transfer_text_read_bucket_of(p->le) == -1)) {
            return 0;
        }
        for (size_t i = 0; i < p->s.count; i++) {
            const double below = b ? transfer_text_read_at(g->bucket[b - 1], i) : 0,
                         v = transfer_text_read_at(p, i);
            const double was = i ? transfer_text_read_at(p, i - 1) : 0,
                         below_was = i && b ? transfer_text_read_at(g->bucket[b - 1], i - 1) : 0;
            if (!(v >= below && v < 0x1p53) || v > floor(v) || !(v - below >= was - below_was)) {
                return 0;
            }
        }
    }
    for (size_t i = 0; i < g->total->s.count; i++) {
        if (transfer_text_read_at(g->total, i) <
                transfer_text_read_at(g->bucket[g->count - 1], i) ||
            transfer_text_read_at(g->total, i) >
                transfer_text_read_at(g->bucket[g->count - 1], i)) {
            return 0;
        }
    }
    return 1;
}

static int fold_tick(const struct transfer_text_read_group *g, size_t i, double scale,
                     struct sonde_transfer_series *out)
{
    struct sonde_transfer_point p = { .time_ms = g->total->s.point[i].time_ms,
                                      .first = (uint32_t)out->bucket_count };
    const double sum = rint(transfer_text_read_at(g->sum, i) / scale),
                 was = i ? rint(transfer_text_read_at(g->sum, i - 1) / scale) : 0;
    p.sum_raw = (uint64_t)((int64_t)sum - (int64_t)was);
    for (size_t b = 0; b + 1 < g->count; b++) {
        const double below = b ? transfer_text_read_at(g->bucket[b - 1], i) : 0;
        const double old = i ? transfer_text_read_at(g->bucket[b], i - 1) -
                                   (b ? transfer_text_read_at(g->bucket[b - 1], i - 1) : 0)
                             : 0;
        const uint64_t n = (uint64_t)(transfer_text_read_at(g->bucket[b], i) - below - old);
        const int which = transfer_text_read_bucket_of(g->bucket[b]->le);
        if (which == -2) p.zero = n;
        if (which < 0 || !n) continue;
        if (sonde_transfer_bucket(out, (uint16_t)which, n)) return SONDE_ENOMEM;
        p.count++;
    }
    return sonde_transfer_point(out, &p);
}

static int transfer_text_read_fold(struct transfer_text_reader *r,
                                   const struct transfer_text_read_group *g)
{
    const struct plain *first = g->bucket[0];
    const double scale = scale_of(&g->sum->s, 1);
    char *name = sonde__strndup(first->s.spec.name, first->stem);
    if (!name) return SONDE_ENOMEM;
    const struct sonde_store_series spec = { .name = name, .help = first->s.spec.help,
                                             .unit = first->s.spec.unit, .labels = first->base,
                                             .type = SONDE_HISTOGRAM, .scale = scale };
    struct sonde_transfer_series *out = sonde_transfer_add(r->x, &spec);
    sonde__free(name);
    int rc = out ? 0 : SONDE_ENOMEM;
    for (size_t i = 0; i < g->total->s.count && !rc; i++) rc = fold_tick(g, i, scale, out);
    for (size_t b = 0; b < g->count; b++) g->bucket[b]->used = 1;
    g->sum->used = g->total->used = 1;
    return rc;
}

static int transfer_text_read_fold_all(struct transfer_text_reader *r)
{
    struct plain **bucket = sonde__calloc(r->count + 1, sizeof(*bucket));
    size_t n = 0;
    int rc = bucket ? 0 : SONDE_ENOMEM;
    for (size_t i = 0; i < r->count && !rc; i++) {
        if (r->at[i].base) bucket[n++] = &r->at[i];
    }
    if (!rc && n) qsort(bucket, n, sizeof(*bucket), by_group);
    for (size_t i = 0; i < n && !rc;) {
        struct transfer_text_read_group g = { .bucket = bucket + i };
        while (i + g.count < n &&
               !strcmp(bucket[i + g.count]->s.spec.name, bucket[i]->s.spec.name) &&
               !strcmp(bucket[i + g.count]->base, bucket[i]->base)) {
            g.count++;
        }
        g.sum = transfer_text_read_part(r, bucket[i], "_sum");
        g.total = transfer_text_read_part(r, bucket[i], "_count");
        if (transfer_text_read_is_ours(&g)) rc = transfer_text_read_fold(r, &g);
        i += g.count;
    }
    sonde__free(bucket);
    return rc;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static int take_plain(struct transfer_text_reader *r, struct plain *p)
{
    const int own = p->stem == strlen(p->s.spec.name);
    int counter = p->type == SONDE_EXPOSITION_COUNTER;
    if (p->used || !p->s.count) return 0;
    if (p->type == SONDE_EXPOSITION_HISTOGRAM || p->type == SONDE_EXPOSITION_SUMMARY) {
        counter = !own;
    }
    p->s.spec.type = SONDE_GAUGE;
    if (counter) {
        const int rc = take_counter(r, p);
        if (rc) return rc;
    } else {
        for (size_t i = 0; i < p->s.count; i++) p->s.point[i].start = SONDE_START_NONE;
    }
    struct sonde_transfer_series *s = sonde_transfer_add(r->x, &p->s.spec);
    if (!s) return SONDE_ENOMEM;
    s->point = p->s.point; /* taken over */
    s->count = p->s.count;
    s->cap = p->s.cap;
    p->s.point = NULL;
    p->s.count = p->s.cap = 0;
    return 0;
}

int sonde_transfer_text_read(const char *text, size_t len, int openmetrics,
                             struct sonde_transfer *x, uint64_t *rounded, struct sonde_err *err)
{
    struct transfer_text_reader r = { .x = x, .now_ms = (int64_t)(sonde_clock_ns(CLOCK_REALTIME) /
                                                                  1000000) };
    const struct sonde_exposition_sink sink = { transfer_text_read_on_sample, &r };
    sonde_buf_init(&r.key, 1 << 20);
    sonde_buf_init(&r.base, 1 << 20);
    int rc = sonde_exposition_read(text, len, openmetrics, &sink, err);
    if (!rc && r.count) rc = transfer_text_read_fold_all(&r);
    for (size_t i = 0; i < r.count && !rc; i++) rc = take_plain(&r, &r.at[i]);
    for (size_t i = 0; i < r.count; i++) {
        sonde_transfer_series_release(&r.at[i].s);
        sonde__free(r.at[i].base);
    }
    sonde__free(r.at);
    sonde_map_release(&r.map);
    sonde_buf_release(&r.key);
    sonde_buf_release(&r.base);
    *rounded = r.rounded;
    return rc == SONDE_ENOMEM ? sonde_err_set(err, rc, "no memory for what is imported") : rc;
}
