/* heap.c - heap facts in a run file: tables of structures, see rows.h.
 *
 *   heap            one row: all that is said once
 *   heap_sites      id 1 … : the most in use first
 *   heap_points     id 1 … : the oldest first
 *   heap_threads, heap_pools
 *   heap_sizes, heap_lifetimes     id = class + 1, bounds for whoever looks, and how many
 *
 * A series is a blob, little-endian: first, per_point, pending (u32), pending_sum (f64), then its
 * values as runs of equal ones, {u8 how many, f32 value}: most sites hardly change. */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/intern.h"
#include "profile/heap.h"
#include "sonde/sonde.h"
#include "store/run/private.h"
#include "store/run/rows.h"

enum { SERIES_HEAD = 20, RUN_BYTES = 5 };
#define SERIES_BYTES (SERIES_HEAD + RUN_BYTES * SONDE_CURVE_POINTS)

static const struct run_field_ops verdict_ops, series_ops;

#define F(strct, field, kind)                                                                  \
    { .name = #field, .at = offsetof(struct strct, field), .type = RUN_##kind }
#define OWN(strct, field, how)                                                                 \
    { .name = #field, .at = offsetof(struct strct, field), .type = RUN_OWN, .ops = &how }
#define PART(strct, field, part, suffix)                                                       \
    { .name = #field suffix, .at = offsetof(struct strct, field.part), .type = RUN_REAL }
#define AMOUNT(strct, field)                                                                   \
    PART(strct, field, value, ""), PART(strct, field, low, "_low"),                            \
        PART(strct, field, high, "_high")

static const struct run_field fact_fields[] = {
    F(sonde_heap, full, INT), F(sonde_heap, mean, U64), F(sonde_heap, allocator, STRING),
    F(sonde_heap, mark_ns, U64), F(sonde_heap, mark_automatic, INT), F(sonde_heap, ended, INT),
    F(sonde_heap, tick_s, REAL), F(sonde_heap, tick0_ns, U64), OWN(sonde_heap, growth, series_ops),
    AMOUNT(sonde_heap, live_bytes), AMOUNT(sonde_heap, live_count),
    AMOUNT(sonde_heap, alloc_bytes), AMOUNT(sonde_heap, alloc_count),
    F(sonde_heap, peak_bytes, U64), F(sonde_heap, peak_ns, U64), F(sonde_heap, rss_bytes, U64),
    F(sonde_heap, rss_peak_bytes, U64), F(sonde_heap, pss_bytes, U64), F(sonde_heap, arenas, U64),
    F(sonde_heap, arena_system, U64), F(sonde_heap, arena_used, U64),
    F(sonde_heap, arena_free, U64), F(sonde_heap, arena_mapped, U64),
    F(sonde_heap, arena_trim, U64), F(sonde_heap, arena_known, INT),
    F(sonde_heap, lost_events, U64), F(sonde_heap, reentrant, U64), F(sonde_heap, refused, U64),
    F(sonde_heap, truncated, U64), F(sonde_heap, unmatched, U64), F(sonde_heap, failed, U64),
    F(sonde_heap, scanned, INT),
};

static const struct run_field site_fields[] = {
    F(sonde_heap_site, stack, STACK), OWN(sonde_heap_site, verdict, verdict_ops),
    AMOUNT(sonde_heap_site, live_bytes), AMOUNT(sonde_heap_site, live_count),
    AMOUNT(sonde_heap_site, alloc_bytes), AMOUNT(sonde_heap_site, alloc_count),
    F(sonde_heap_site, peak_bytes, REAL), F(sonde_heap_site, temp_bytes, REAL),
    F(sonde_heap_site, temp_count, REAL), F(sonde_heap_site, mapped_bytes, REAL),
    F(sonde_heap_site, lifetime_s, REAL), F(sonde_heap_site, mark_bytes, REAL),
    F(sonde_heap_site, mark_count, REAL), F(sonde_heap_site, grown_bytes, REAL),
    F(sonde_heap_site, slope, REAL), F(sonde_heap_site, slope_low, REAL),
    F(sonde_heap_site, slope_high, REAL), F(sonde_heap_site, lost_bytes, REAL),
    F(sonde_heap_site, lost_count, REAL), OWN(sonde_heap_site, growth, series_ops),
};

static const struct run_field point_fields[] = {
    F(sonde_heap_point, time_ns, U64), F(sonde_heap_point, live_bytes, U64),
    F(sonde_heap_point, live_count, U64), F(sonde_heap_point, alloc_bytes, U64),
    F(sonde_heap_point, alloc_count, U64), F(sonde_heap_point, rss_bytes, U64),
};

static const struct run_field thread_fields[] = {
    F(sonde_heap_thread, thread, THREAD), F(sonde_heap_thread, alloc_bytes, U64),
    F(sonde_heap_thread, alloc_count, U64),
};

static const struct run_field pool_fields[] = {
    F(sonde_heap_pool, name, STRING), F(sonde_heap_pool, mapped, U32),
    F(sonde_heap_pool, bytes, U64), F(sonde_heap_pool, rss_bytes, U64),
};

struct class { uint64_t low, high; double count; };

static const struct run_field class_fields[] = {
    F(class, low, U64), F(class, high, U64), F(class, count, REAL),
};

enum { FACTS, SITES, POINTS, THREADS, POOLS, SIZES, LIFETIMES, TABLES };

static const struct run_table tables[TABLES] = {
    [FACTS] = RUN_TABLE("heap", fact_fields, struct sonde_heap),
    [SITES] = RUN_TABLE("heap_sites", site_fields, struct sonde_heap_site),
    [POINTS] = RUN_TABLE("heap_points", point_fields, struct sonde_heap_point),
    [THREADS] = RUN_TABLE("heap_threads", thread_fields, struct sonde_heap_thread),
    [POOLS] = RUN_TABLE("heap_pools", pool_fields, struct sonde_heap_pool),
    [SIZES] = RUN_TABLE("heap_sizes", class_fields, struct class),
    [LIFETIMES] = RUN_TABLE("heap_lifetimes", class_fields, struct class),
};
_Static_assert(SONDE_COUNT(fact_fields) <= RUN_FIELDS_MAX, "RUN_FIELDS_MAX");
_Static_assert(SONDE_COUNT(site_fields) <= RUN_FIELDS_MAX, "RUN_FIELDS_MAX");

/* ---- Series ---------------------------------------------------------------------------------- */

static size_t series_pack(const struct sonde_curve *s, unsigned char out[SERIES_BYTES])
{
    const double pending_sum = isfinite(s->pending_sum) ? s->pending_sum : 0;
    size_t n = SERIES_HEAD;
    memcpy(out, &s->first, 4);
    memcpy(out + 4, &s->per_point, 4);
    memcpy(out + 8, &s->pending, 4);
    memcpy(out + 12, &pending_sum, 8);
    for (uint32_t i = 0; i < s->count;) {
        uint32_t end = i + 1;
        while (end < s->count && s->value[end] == s->value[i]) end++;
        const float value = isfinite(s->value[i]) ? s->value[i] : 0;
        out[n] = (unsigned char)(end - i);
        memcpy(out + n + 1, &value, 4);
        n += RUN_BYTES;
        i = end;
    }
    return n;
}

/* 0, or -1: that is no series. */
static int series_unpack(const unsigned char *data, size_t len, struct sonde_curve *out)
{
    struct sonde_curve s = { 0 };
    if (len < SERIES_HEAD || (len - SERIES_HEAD) % RUN_BYTES) return -1;
    memcpy(&s.first, data, 4);
    memcpy(&s.per_point, data + 4, 4);
    memcpy(&s.pending, data + 8, 4);
    memcpy(&s.pending_sum, data + 12, 8);
    for (size_t n = SERIES_HEAD; n < len; n += RUN_BYTES) {
        float value;
        memcpy(&value, data + n + 1, 4);
        if (!data[n] || data[n] > SONDE_CURVE_POINTS - s.count || !isfinite(value)) return -1;
        for (int i = 0; i < data[n]; i++) s.value[s.count++] = value;
    }
    if (s.per_point & (s.per_point - 1) || !isfinite(s.pending_sum)) return -1;
    /* Ticks are counted in 32 bits. */
    if (s.pending && s.pending >= s.per_point) return -1;
    if ((uint64_t)s.per_point * (s.count + 1) + s.first > UINT32_MAX) return -1;
    *out = s;
    return 0;
}

static int bind_series(const struct sonde_profile *p, sqlite3_stmt *s, int column, const void *row,
                       size_t at)
{
    (void)p;
    unsigned char packed[SERIES_BYTES];
    const struct sonde_curve *series = (const void *)((const char *)row + at);
    return sqlite3_bind_blob(s, column, packed, (int)series_pack(series, packed),
                             SQLITE_TRANSIENT);
}

static int get_series(struct run_reader *r, sqlite3_stmt *s, int column, void *row, size_t at)
{
    const void *data = sqlite3_column_blob(s, column);
    const size_t len = (size_t)sqlite3_column_bytes(s, column);
    if (sqlite3_column_type(s, column) == SQLITE_BLOB && data &&
        !series_unpack(data, len, (void *)((char *)row + at))) {
        return 0;
    }
    return run_bad(r, "%s is not a series", sqlite3_column_name(s, column));
}

static const struct run_field_ops series_ops = { "BLOB", bind_series, get_series };

/* ---- Verdicts -------------------------------------------------------------------------------- */

static int bind_verdict(const struct sonde_profile *p, sqlite3_stmt *s, int column,
                        const void *row, size_t at)
{
    (void)p;
    const enum sonde_heap_verdict *v = (const void *)((const char *)row + at);
    return sqlite3_bind_text(s, column, sonde_heap_verdict_name(*v), -1, SQLITE_STATIC);
}

static int get_verdict(struct run_reader *r, sqlite3_stmt *s, int column, void *row, size_t at)
{
    const char *name = (const char *)sqlite3_column_text(s, column);
    const int verdict = name ? sonde_heap_verdict_find(name) : -1;
    if (verdict < 0) return run_bad(r, "there is no verdict '%.40s'", name ? name : "");
    *(uint32_t *)(void *)((char *)row + at) = (uint32_t)verdict;
    return 0;
}

static const struct run_field_ops verdict_ops = { "TEXT", bind_verdict, get_verdict };

/* ---- Writing --------------------------------------------------------------------------------- */

int sonde_run_heap_write(sqlite3 *db, const struct sonde_profile *p)
{
    assert(p->heap);
    const struct sonde_heap *h = p->heap;
    struct class sizes[SONDE_HEAP_SIZES], lifetimes[SONDE_HEAP_LIFETIMES];
    for (uint32_t i = 0; i < SONDE_HEAP_SIZES; i++) {
        sonde_heap_size_bounds(i, &sizes[i].low, &sizes[i].high);
        if (sizes[i].high > INT64_MAX) sizes[i].high = INT64_MAX;
        sizes[i].count = h->size_class[i];
    }
    for (uint32_t i = 0; i < SONDE_HEAP_LIFETIMES; i++) { /* microseconds */
        const uint64_t high = i + 1 < SONDE_HEAP_LIFETIMES ? 1ull << i : INT64_MAX;
        lifetimes[i] = (struct class){ i ? 1ull << (i - 1) : 0, high, h->lifetime[i] };
    }
    const struct { const void *rows; uint32_t count; } parts[TABLES] = {
        [FACTS] = { h, 1 },
        [SITES] = { h->sites, h->site_count },
        [POINTS] = { h->points, h->point_count },
        [THREADS] = { h->threads, h->thread_count },
        [POOLS] = { h->pools, h->pool_count },
        [SIZES] = { sizes, SONDE_HEAP_SIZES },
        [LIFETIMES] = { lifetimes, SONDE_HEAP_LIFETIMES },
    };
    int rc = SQLITE_OK;
    for (int i = 0; rc == SQLITE_OK && i < TABLES; i++) {
        rc = run_rows_write(db, p, &tables[i], parts[i].rows, parts[i].count);
    }
    return rc;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct run_heap_rows {
    const struct run_table *t;
    void *data;               /* owned until they are given to the facts */
    uint32_t count, cap;
};

static int keep_row(struct run_reader *r, void *row, void *arg)
{
    struct run_heap_rows *g = arg;
    const struct sonde_budget b = { &r->p->bytes, r->p->bytes_max };
    /* What a row is of. */
    const struct run_field *first = &g->t->fields[0];
    if ((first->type == RUN_STACK || first->type == RUN_THREAD || first->type == RUN_STRING) &&
        !*(const uint32_t *)(const void *)((const char *)row + first->at)) {
        return run_bad(r, "it is of no %s", first->name);
    }
    void *data = sonde_table_grow(g->data, g->count, &g->cap, g->t->row_bytes, &b);
    if (!data) return run_no_memory(r);
    g->data = data;
    memcpy((char *)data + g->count++ * g->t->row_bytes, row, g->t->row_bytes);
    return 0;
}

/* The rows of a table, as many as it has; the caller's. */
static int run_heap_read_rows(struct run_reader *r, int table, void **rows, uint32_t *count)
{
    struct run_heap_rows g = { .t = &tables[table] };
    const size_t before = r->p->bytes;
    void *row = sonde__calloc(1, g.t->row_bytes);
    *rows = NULL;
    *count = 0;
    if (!row) return run_no_memory(r);
    const int rc = run_rows_read(r, g.t, row, keep_row, &g);
    sonde__free(row);
    r->p->bytes = before; /* counted again when the profile takes them */
    *rows = g.data;
    *count = g.count;
    if (rc || g.count) return rc;
    sonde__free(g.data);
    *rows = NULL;
    return 0;
}

static int read_classes(struct run_reader *r, int table, double *out, uint32_t max)
{
    void *rows;
    uint32_t count;
    int rc = run_heap_read_rows(r, table, &rows, &count);
    const struct class *c = rows;
    if (!rc && count > max) rc = run_bad(r, "there are more than %u classes", max);
    for (uint32_t i = 0; !rc && i < count; i++) out[i] = c[i].count;
    sonde__free(rows);
    return rc;
}

static int read_facts(struct run_reader *r, struct sonde_heap *h)
{
    void *rows;
    uint32_t count;
    int rc = run_heap_read_rows(r, FACTS, &rows, &count);
    if (!rc && count != 1) rc = run_bad(r, "there are %u rows of facts", count);
    if (!rc) memcpy(h, rows, sizeof(*h));
    sonde__free(rows);
    return rc;
}

int run_heap_read(struct run_reader *r)
{
    if (!run_has_table(r, tables[FACTS].name)) return 0;
    struct sonde_heap *h = sonde__calloc(1, sizeof(*h));
    if (!h) return run_no_memory(r);
    int rc = read_facts(r, h);
    if (!rc) rc = run_heap_read_rows(r, SITES, (void **)&h->sites, &h->site_count);
    if (!rc) rc = run_heap_read_rows(r, POINTS, (void **)&h->points, &h->point_count);
    if (!rc) rc = run_heap_read_rows(r, THREADS, (void **)&h->threads, &h->thread_count);
    if (!rc) rc = run_heap_read_rows(r, POOLS, (void **)&h->pools, &h->pool_count);
    if (!rc) rc = read_classes(r, SIZES, h->size_class, SONDE_HEAP_SIZES);
    if (!rc) rc = read_classes(r, LIFETIMES, h->lifetime, SONDE_HEAP_LIFETIMES);
    if (!rc && sonde_profile_take_heap(r->p, h)) rc = run_no_memory(r);
    if (rc) sonde_heap_destroy(h);
    return rc;
}
