/* transfer.c - see transfer.h: the table in between, out of a store and into one. */
#include "store/transfer/transfer.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/names.h"
#include "base/varint.h"
#include "sonde/sonde.h"
#include "store/chunk_hist.h"

enum { GRIDS_MAX = 64, FLUSH_TICKS = 100 };

/* ---- The table ------------------------------------------------------------------------------- */

void sonde_transfer_series_release(struct sonde_transfer_series *s)
{
    const char *const texts[] = { s->spec.name, s->spec.help, s->spec.unit, s->spec.source,
                                  s->spec.labels, s->spec.program };
    for (size_t i = 0; i < SONDE_COUNT(texts); i++) {
        sonde__free((char *)(uintptr_t)texts[i]);
    }
    sonde__free(s->point);
    sonde__free(s->bucket);
    *s = (struct sonde_transfer_series){ 0 };
}

void sonde_transfer_release(struct sonde_transfer *x)
{
    for (size_t i = 0; i < x->count; i++) sonde_transfer_series_release(&x->at[i]);
    sonde__free(x->at);
    *x = (struct sonde_transfer){ 0 };
}

static int series_init(struct sonde_transfer_series *s, const struct sonde_store_series *spec)
{
    const char *const in[] = { spec->name, spec->help, spec->unit, spec->source, spec->labels,
                               spec->program };
    const char **const out[] = { &s->spec.name, &s->spec.help, &s->spec.unit, &s->spec.source,
                                 &s->spec.labels, &s->spec.program };
    *s = (struct sonde_transfer_series){ .spec = *spec };
    int rc = 0;
    for (size_t i = 0; i < SONDE_COUNT(in); i++) {
        *out[i] = sonde__strdup(in[i] ? in[i] : "");
        if (!*out[i]) rc = SONDE_ENOMEM;
    }
    if (rc) sonde_transfer_series_release(s);
    return rc;
}

struct sonde_transfer_series *sonde_transfer_add(struct sonde_transfer *x,
                                                 const struct sonde_store_series *spec)
{
    assert(x && spec && spec->name);
    if (SONDE_ARRAY_ROOM(x->at, x->count, x->cap)) return NULL;
    if (series_init(&x->at[x->count], spec) != 0) return NULL;
    return &x->at[x->count++];
}

int sonde_transfer_point(struct sonde_transfer_series *s, const struct sonde_transfer_point *p)
{
    struct sonde_transfer_point *at = SONDE_ARRAY_ADD(s->point, s->count, s->cap);
    if (!at) return SONDE_ENOMEM;
    *at = *p;
    return 0;
}

int sonde_transfer_bucket(struct sonde_transfer_series *s, uint16_t p, uint64_t n)
{
    struct sonde_transfer_bucket *at =
        SONDE_ARRAY_ADD(s->bucket, s->bucket_count, s->bucket_cap);
    if (!at) return SONDE_ENOMEM;
    *at = (struct sonde_transfer_bucket){ p, n };
    return 0;
}

int sonde_transfer_format(const char *name)
{
    static const char *const names[] = {
        [SONDE_TRANSFER_JSON] = "json", [SONDE_TRANSFER_CSV] = "csv",
        [SONDE_TRANSFER_OPENMETRICS] = "openmetrics", [SONDE_TRANSFER_PROMETHEUS] = "prometheus",
    };
    return SONDE_NAME_FIND(names, name);
}

int sonde_transfer_type(const char *name)
{
    for (int t = SONDE_COUNTER; t <= SONDE_HISTOGRAM; t++) {
        if (strcmp(name, sonde_type_name((enum sonde_type)t)) == 0) return t;
    }
    return -1;
}

int sonde_transfer_kind(const char *name)
{
    for (int k = SONDE_KIND_CUSTOM; k <= SONDE_KIND_PERCENTAGE; k++) {
        if (strcmp(name, sonde_kind_name((enum sonde_kind)k)) == 0) return k;
    }
    return -1;
}

double sonde_transfer_value(double raw, double scale)
{
    const double divisor = 1 / scale, whole = rint(divisor);
    return whole >= 1 && fabs(divisor - whole) < 1e-9 * whole ? raw / whole : raw * scale;
}

double sonde_transfer_double(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof(d));
    return d;
}

uint64_t sonde_transfer_bits(double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof(bits));
    return bits;
}

/* ---- Out of a store -------------------------------------------------------------------------- */

struct exporting {
    struct sonde_transfer_writer w;
    struct sonde_transfer_series series; /* at hand; spec.name NULL = none */
    uint64_t points;
    int error;
};

static int transfer_by_time(const void *a, const void *b)
{
    const struct sonde_transfer_point *x = a, *y = b;
    return SONDE_CMP(x->time_ms, y->time_ms);
}

/* In order, each time once; and where a counter does not go on from the point before. */
static void transfer_tidy(struct exporting *e)
{
    struct sonde_transfer_series *s = &e->series;
    /* A counter's increase has come along in sum_raw, which is of histograms. */
    int ordered = 1;
    for (size_t i = 1; i < s->count; i++) ordered &= s->point[i].time_ms > s->point[i - 1].time_ms;
    if (!ordered) {
        qsort(s->point, s->count, sizeof(*s->point), transfer_by_time);
        size_t kept = 0;
        for (size_t i = 0; i < s->count; i++) {
            if (kept && s->point[kept - 1].time_ms == s->point[i].time_ms) continue;
            s->point[kept++] = s->point[i];
        }
        s->count = kept;
    }
    for (size_t i = 0; s->spec.type == SONDE_COUNTER && i < s->count; i++) {
        struct sonde_transfer_point *p = &s->point[i];
        const uint64_t before = i ? s->point[i - 1].value : 0, increase = p->sum_raw;
        /* One that went down is told to begin again: who reads it cannot know whether there was a
         * tick without it in between. */
        if (i && p->value >= before && increase == p->value - before) p->start = SONDE_START_NONE;
        else p->start = increase == p->value && p->value ? SONDE_START_ZERO : SONDE_START_BASE;
    }
    for (size_t i = 0; s->spec.type == SONDE_COUNTER && i < s->count; i++) s->point[i].sum_raw = 0;
}

static void finish_series(struct exporting *e)
{
    if (!e->series.spec.name) return;
    transfer_tidy(e);
    if (!e->error) {
        switch (e->w.format) {
        case SONDE_TRANSFER_JSON: sonde_transfer_json_write(&e->w, &e->series); break;
        case SONDE_TRANSFER_CSV: sonde_transfer_csv_write(&e->w, &e->series); break;
        default: sonde_transfer_text_write(&e->w, &e->series); break;
        }
        e->points += e->series.count;
    }
    sonde_transfer_series_release(&e->series);
}

static int on_raw(const struct sonde_store_series *s, const struct sonde_store_raw *p, void *arg)
{
    struct exporting *e = arg;
    struct sonde_transfer_series *x = &e->series;
    if (!x->spec.name || x->spec.id != s->id) {
        finish_series(e);
        e->error = series_init(x, s);
    }
    if (e->error || e->w.out->error) return 1;
    const struct sonde_transfer_point point = {
        .time_ms = p->time_ms, .value = p->value, .zero = p->zero,
        .sum_raw = s->type == SONDE_COUNTER ? p->increase : p->sum_raw,
        .first = (uint32_t)x->bucket_count, .count = p->bucket_count,
    };
    for (uint32_t i = 0; i < p->bucket_count && !e->error; i++) {
        e->error = sonde_transfer_bucket(x, p->p[i], p->n[i]);
    }
    if (!e->error) e->error = sonde_transfer_point(x, &point);
    return e->error != 0;
}

int sonde_transfer_export(const struct sonde_store_ops *ops, struct sonde_store *s,
                          const struct sonde_store_query *q, enum sonde_transfer_format format,
                          struct sonde_buf *out, struct sonde_transfer_result *result,
                          struct sonde_err *err)
{
    struct exporting e = { .w = { .out = out, .format = format } };
    const struct sonde_store_sink sink = { .raw = on_raw, .arg = &e };
    struct sonde_store_query all = *q;
    if (!all.series_max) all.series_max = UINT32_MAX;
    if (format == SONDE_TRANSFER_JSON) {
        sonde_buf_puts(out, "{\"format\":\"sonde-series\",\"version\":1,\"series\":[");
    } else if (format == SONDE_TRANSFER_CSV) {
        sonde_buf_puts(out, "name,labels,type,kind,unit,source,program,pid,scale,help,time_ms,"
                            "value,start,zero,sum,buckets\r\n");
    }
    int rc = ops->query(s, &all, &sink, err);
    finish_series(&e);
    if (format == SONDE_TRANSFER_JSON) sonde_buf_puts(out, "\n]}\n");
    if (format == SONDE_TRANSFER_OPENMETRICS) sonde_buf_puts(out, "# EOF\n");
    sonde_buf_add(out, "", 0);
    sonde__free(e.w.name);
    if (e.error || out->error) {
        rc = e.error ? e.error : out->error;
        return sonde_err_set(err, rc, rc == SONDE_EFULL ? "that is too much for one file: ask for "
                                                          "a shorter time or fewer series"
                                                        : "no memory for what is exported");
    }
    *result = (struct sonde_transfer_result){ e.w.series, e.points, e.w.left_out };
    return rc;
}

int sonde_transfer_read(const char *text, size_t len, enum sonde_transfer_format format,
                        struct sonde_transfer *x, struct sonde_transfer_result *result,
                        struct sonde_err *err)
{
    int rc;
    *result = (struct sonde_transfer_result){ 0 };
    if (format == SONDE_TRANSFER_JSON) rc = sonde_transfer_json_read(text, len, x, err);
    else if (format == SONDE_TRANSFER_CSV) rc = sonde_transfer_csv_read(text, len, x, err);
    else rc = sonde_transfer_text_read(text, len, format == SONDE_TRANSFER_OPENMETRICS, x,
                                       &result->left_out, err);
    for (size_t i = 0; i < x->count && !rc; i++) {
        const struct sonde_transfer_series *s = &x->at[i];
        for (size_t k = 1; k < s->count && !rc; k++) {
            if (s->point[k].time_ms > s->point[k - 1].time_ms) continue;
            rc = sonde_err_set(err, SONDE_EFORMAT, "%.100s{%.100s}: times must ascend, and %lld "
                               "comes after %lld", s->spec.name, s->spec.labels,
                               (long long)s->point[k].time_ms, (long long)s->point[k - 1].time_ms);
        }
        result->points += s->count;
    }
    result->series = x->count;
    return rc;
}

/* ---- Into a store ---------------------------------------------------------------------------- */

/* Times that belong together. A store has a row of ticks and every series at each of them, from one
 * on to another; series of other times, as files of others may have them, are another run. */
struct grid {
    int64_t *time_ms;
    size_t count, cap;
};

static size_t transfer_lower_bound(const struct grid *g, int64_t time_ms)
{
    size_t lo = 0, hi = g->count;
    assert(!hi || g->time_ms[0] <= g->time_ms[hi - 1]);
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (g->time_ms[mid] < time_ms) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* 1 if all its times within the grid's are the grid's, and few of those are missing. */
static int transfer_fits(const struct grid *g, const struct sonde_transfer_series *s)
{
    if (!g->count || !s->count) return 1;
    size_t at = transfer_lower_bound(g, s->point[0].time_ms), gaps = 0;
    for (size_t i = 0; i < s->count; i++) {
        const int64_t t = s->point[i].time_ms;
        if (t < g->time_ms[0] || t > g->time_ms[g->count - 1]) continue;
        const size_t before = at;
        while (at < g->count && g->time_ms[at] < t) at++;
        if (at == g->count || g->time_ms[at] != t) return 0;
        gaps += i > 0 && at > before;
        at++;
    }
    return gaps <= 1 + s->count / 8;
}

static int transfer_join(struct grid *g, const struct sonde_transfer_series *s)
{
    const size_t had = g->count;
    for (size_t i = 0; i < s->count; i++) {
        const int64_t t = s->point[i].time_ms;
        if (had && t >= g->time_ms[0] && t <= g->time_ms[had - 1]) continue;
        int64_t *at = SONDE_ARRAY_ADD(g->time_ms, g->count, g->cap);
        if (!at) return SONDE_ENOMEM;
        *at = t;
    }
    if (g->count != had) qsort(g->time_ms, g->count, sizeof(*g->time_ms), sonde_cmp_i64);
    return 0;
}

/* The longest has most of the times that there are. */
static int longest_first(const void *a, const void *b)
{
    const struct sonde_transfer_series *x = *(const struct sonde_transfer_series *const *)a,
                                       *y = *(const struct sonde_transfer_series *const *)b;
    if (x->count != y->count) return SONDE_CMP(y->count, x->count);
    return SONDE_CMP(x, y);
}

struct importing {
    const struct sonde_store_ops *ops;
    struct sonde_store *store;
    const struct sonde_transfer *x;
    const uint8_t *grid_of;
    size_t *next;                    /* of each series: its next point */
    uint32_t *slot;                  /* + 1; 0 = none */
    struct sonde_store_value *values;
    struct sonde_buf data;
    size_t waiting;                  /* ticks that may not be written yet */
};

/* As sonde_chunk_put_entry, whose counts are of a tick and so have 32 bits. */
static void put_entry(struct importing *m, const struct sonde_transfer_series *s,
                      const struct sonde_transfer_point *p)
{
    const struct sonde_transfer_bucket *b = s->bucket + p->first;
    sonde_chunk_put_varint(&m->data, p->zero);
    sonde_chunk_put_varint(&m->data, sonde_zigzag(p->sum_raw));
    sonde_chunk_put_varint(&m->data, p->count);
    uint32_t next = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        sonde_chunk_put_varint(&m->data, b[i].p - next);
        sonde_chunk_put_varint(&m->data, b[i].n);
        next = b[i].p + 1u;
    }
}

static int add_tick(struct importing *m, int64_t time_ms, uint8_t grid, struct sonde_err *err)
{
    struct sonde_store_tick t = { .time_ms = time_ms, .values = m->values };
    sonde_buf_reset(&m->data);
    for (size_t i = 0; i < m->x->count; i++) {
        const struct sonde_transfer_series *s = &m->x->at[i];
        if (m->grid_of[i] != grid || m->next[i] == s->count) continue;
        const struct sonde_transfer_point *p = &s->point[m->next[i]];
        if (p->time_ms != time_ms) {
            m->slot[i] = 0; /* a tick without it: it is another from then on */
            continue;
        }
        if (!m->slot[i] || p->start != SONDE_START_NONE) {
            struct sonde_store_series spec = s->spec;
            spec.from_zero = p->start == SONDE_START_ZERO;
            /* A slot is gone with a tick that is without it, also with one that waits. */
            int rc = m->waiting ? m->ops->flush(m->store, err) : 0;
            if (rc) return rc;
            m->waiting = 0;
            rc = m->ops->define(m->store, &spec, &m->slot[i]);
            if (rc) {
                return sonde_err_set(err, rc, "cannot keep so many series: %s", sonde_strerror(rc));
            }
            m->slot[i]++;
        }
        m->next[i]++;
        struct sonde_store_value *v = &m->values[t.count++];
        *v = (struct sonde_store_value){ .slot = m->slot[i] - 1, .value = p->value };
        if (s->spec.type != SONDE_HISTOGRAM) continue;
        v->value = m->data.len;
        put_entry(m, s, p);
        v->bytes = (uint32_t)(m->data.len - v->value);
    }
    if (m->data.error) return sonde_err_set(err, m->data.error, "no memory for a tick");
    t.data = m->data.data;
    int rc = m->ops->append(m->store, &t);
    if (rc == SONDE_EFULL) {
        rc = m->ops->flush(m->store, err);
        if (!rc) rc = m->ops->append(m->store, &t);
    }
    m->waiting++;
    return rc ? sonde_err_set(err, rc, "a tick could not be stored: %s", sonde_strerror(rc)) : 0;
}

static int import_grid(struct importing *m, const struct grid *g, uint8_t grid, const char *path,
                       const char *name, struct sonde_err *err)
{
    const struct sonde_store_options o = { .path = path, .run_name = name,
                                           .series_max = UINT32_MAX >> 9 };
    int rc = m->ops->open(&o, &m->store, err);
    if (rc) return rc;
    memset(m->slot, 0, (m->x->count + 1) * sizeof(*m->slot));
    for (size_t i = 0; i < g->count && !rc; i++) {
        rc = add_tick(m, g->time_ms[i], grid, err);
        if (!rc && i % FLUSH_TICKS == FLUSH_TICKS - 1) rc = m->ops->flush(m->store, err);
    }
    if (!rc) rc = m->ops->flush(m->store, err);
    m->ops->close(m->store);
    return rc;
}

int sonde_transfer_import(const struct sonde_store_ops *ops, const char *path, const char *name,
                          const struct sonde_transfer *x, struct sonde_err *err)
{
    struct grid grids[GRIDS_MAX] = { { 0 } };
    uint8_t *grid_of = sonde__calloc(x->count + 1, 1);
    struct importing m = { .ops = ops, .x = x, .grid_of = grid_of };
    m.next = sonde__calloc(x->count + 1, sizeof(*m.next));
    m.slot = sonde__calloc(x->count + 1, sizeof(*m.slot));
    m.values = sonde__calloc(x->count + 1, sizeof(*m.values));
    sonde_buf_init(&m.data, (size_t)64 << 20);
    int rc = grid_of && m.next && m.slot && m.values ? 0 : SONDE_ENOMEM;
    uint8_t used = 0;
    const struct sonde_transfer_series **order = sonde__calloc(x->count + 1, sizeof(*order));
    if (!order) rc = SONDE_ENOMEM;
    for (size_t i = 0; i < x->count && !rc; i++) order[i] = &x->at[i];
    if (!rc && x->count) qsort(order, x->count, sizeof(*order), longest_first);
    for (size_t i = 0; i < x->count && !rc; i++) {
        uint8_t g = 0;
        while (g + 1 < GRIDS_MAX && !transfer_fits(&grids[g], order[i])) g++;
        grid_of[order[i] - x->at] = g;
        if (g >= used) used = (uint8_t)(g + 1);
        rc = transfer_join(&grids[g], order[i]);
    }
    sonde__free(order);
    if (rc) sonde_err_set(err, rc, "no memory to import");
    for (uint8_t g = 0; g < used && !rc; g++) rc = import_grid(&m, &grids[g], g, path, name, err);
    for (size_t g = 0; g < GRIDS_MAX; g++) sonde__free(grids[g].time_ms);
    sonde__free(grid_of);
    sonde__free(m.next);
    sonde__free(m.slot);
    sonde__free(m.values);
    sonde_buf_release(&m.data);
    return rc;
}
