/* run_heap.c - heap facts in a run file: a table for each of theirs, a row for each row, a column
 * for each field by its name. One list of fields serves writer and reader. A reader goes by names:
 * a column that it does not know is passed over, and one that an older file lacks reads as 0.
 *
 *   heap            one row: all that is said once
 *   heap_sites      id 1 … : the most in use first
 *   heap_points     id 1 … : the oldest first
 *   heap_threads, heap_pools
 *   heap_sizes, heap_lifetimes     id = class + 1, bounds for whoever looks, and how many
 *
 * A series is a blob, little-endian: first, per_point, pending (u32), pending_sum (f64), then its
 * values as runs of equal ones, {u8 how many, f32 value}: most sites hardly change. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/heap.h"
#include "profile/intern.h"
#include "sonde/sonde.h"
#include "store/run_private.h"
#include "store/run_reader.h"

enum type { INT, U32, U64, REAL, STACK, THREAD, STRING, VERDICT, SERIES };

struct field {
    const char *name;
    size_t at;
    enum type type;
};

enum { FIELDS_MAX = 64, SERIES_HEAD = 20, RUN_BYTES = 5 };
#define SERIES_BYTES (SERIES_HEAD + RUN_BYTES * SONDE_SERIES_POINTS)

#define F(strct, name, type) { #name, offsetof(struct strct, name), type }
#define AMOUNT(strct, name)                                                                    \
    { #name, offsetof(struct strct, name.value), REAL },                                       \
    { #name "_low", offsetof(struct strct, name.low), REAL },                                  \
    { #name "_high", offsetof(struct strct, name.high), REAL }

static const struct field fact_fields[] = {
    F(sonde_heap, full, INT), F(sonde_heap, mean, U64), F(sonde_heap, allocator, STRING),
    F(sonde_heap, mark_ns, U64), F(sonde_heap, mark_automatic, INT), F(sonde_heap, ended, INT),
    F(sonde_heap, tick_s, REAL), F(sonde_heap, tick0_ns, U64), F(sonde_heap, growth, SERIES),
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

static const struct field site_fields[] = {
    F(sonde_heap_site, stack, STACK), F(sonde_heap_site, verdict, VERDICT),
    AMOUNT(sonde_heap_site, live_bytes), AMOUNT(sonde_heap_site, live_count),
    AMOUNT(sonde_heap_site, alloc_bytes), AMOUNT(sonde_heap_site, alloc_count),
    F(sonde_heap_site, peak_bytes, REAL), F(sonde_heap_site, temp_bytes, REAL),
    F(sonde_heap_site, temp_count, REAL), F(sonde_heap_site, mapped_bytes, REAL),
    F(sonde_heap_site, lifetime_s, REAL), F(sonde_heap_site, mark_bytes, REAL),
    F(sonde_heap_site, mark_count, REAL), F(sonde_heap_site, grown_bytes, REAL),
    F(sonde_heap_site, slope, REAL), F(sonde_heap_site, slope_low, REAL),
    F(sonde_heap_site, slope_high, REAL), F(sonde_heap_site, lost_bytes, REAL),
    F(sonde_heap_site, lost_count, REAL), F(sonde_heap_site, growth, SERIES),
};

static const struct field point_fields[] = {
    F(sonde_heap_point, time_ns, U64), F(sonde_heap_point, live_bytes, U64),
    F(sonde_heap_point, live_count, U64), F(sonde_heap_point, alloc_bytes, U64),
    F(sonde_heap_point, alloc_count, U64), F(sonde_heap_point, rss_bytes, U64),
};

static const struct field thread_fields[] = {
    F(sonde_heap_thread, thread, THREAD), F(sonde_heap_thread, alloc_bytes, U64),
    F(sonde_heap_thread, alloc_count, U64),
};

static const struct field pool_fields[] = {
    F(sonde_heap_pool, name, STRING), F(sonde_heap_pool, mapped, U32),
    F(sonde_heap_pool, bytes, U64), F(sonde_heap_pool, rss_bytes, U64),
};

struct class { uint64_t low, high; double count; };

static const struct field class_fields[] = {
    F(class, low, U64), F(class, high, U64), F(class, count, REAL),
};

struct table {
    const char *name;
    const struct field *fields;
    size_t count, row_bytes;
};

#define TABLE(name, fields, row) { name, fields, sizeof(fields) / sizeof(fields[0]), sizeof(row) }

enum { FACTS, SITES, POINTS, THREADS, POOLS, SIZES, LIFETIMES, TABLES };

static const struct table tables[TABLES] = {
    [FACTS] = TABLE("heap", fact_fields, struct sonde_heap),
    [SITES] = TABLE("heap_sites", site_fields, struct sonde_heap_site),
    [POINTS] = TABLE("heap_points", point_fields, struct sonde_heap_point),
    [THREADS] = TABLE("heap_threads", thread_fields, struct sonde_heap_thread),
    [POOLS] = TABLE("heap_pools", pool_fields, struct sonde_heap_pool),
    [SIZES] = TABLE("heap_sizes", class_fields, struct class),
    [LIFETIMES] = TABLE("heap_lifetimes", class_fields, struct class),
};
_Static_assert(sizeof(fact_fields) / sizeof(fact_fields[0]) <= FIELDS_MAX, "FIELDS_MAX");
_Static_assert(sizeof(site_fields) / sizeof(site_fields[0]) <= FIELDS_MAX, "FIELDS_MAX");

/* ---- Series ---------------------------------------------------------------------------------- */

static size_t series_pack(const struct sonde_series *s, unsigned char out[SERIES_BYTES])
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
static int series_unpack(const unsigned char *data, size_t len, struct sonde_series *out)
{
    struct sonde_series s = { 0 };
    if (len < SERIES_HEAD || (len - SERIES_HEAD) % RUN_BYTES) return -1;
    memcpy(&s.first, data, 4);
    memcpy(&s.per_point, data + 4, 4);
    memcpy(&s.pending, data + 8, 4);
    memcpy(&s.pending_sum, data + 12, 8);
    for (size_t n = SERIES_HEAD; n < len; n += RUN_BYTES) {
        float value;
        memcpy(&value, data + n + 1, 4);
        if (!data[n] || data[n] > SONDE_SERIES_POINTS - s.count || !isfinite(value)) return -1;
        for (int i = 0; i < data[n]; i++) s.value[s.count++] = value;
    }
    if (s.per_point & (s.per_point - 1) || !isfinite(s.pending_sum)) return -1;
    /* Ticks are counted in 32 bits. */
    if (s.pending && s.pending >= s.per_point) return -1;
    if ((uint64_t)s.per_point * (s.count + 1) + s.first > UINT32_MAX) return -1;
    *out = s;
    return 0;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int create_table(sqlite3 *db, const struct table *t)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    sonde_buf_printf(&b, "CREATE TABLE %s(id INTEGER PRIMARY KEY", t->name);
    for (size_t i = 0; i < t->count; i++) {
        const enum type type = t->fields[i].type;
        sonde_buf_printf(&b, ", %s %s NOT NULL", t->fields[i].name,
                         type == REAL ? "REAL" : type == VERDICT ? "TEXT"
                         : type == SERIES ? "BLOB" : "INTEGER");
    }
    sonde_buf_puts(&b, ")");
    const int rc = b.error ? SQLITE_NOMEM : sqlite3_exec(db, b.data, NULL, NULL, NULL);
    sonde_buf_release(&b);
    return rc;
}

static int prepare_insert(sqlite3 *db, const struct table *t, sqlite3_stmt **out)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    sonde_buf_printf(&b, "INSERT INTO %s VALUES(?1", t->name);
    for (size_t i = 0; i < t->count; i++) sonde_buf_printf(&b, ", ?%zu", i + 2);
    sonde_buf_puts(&b, ")");
    *out = NULL;
    const int rc = b.error ? SQLITE_NOMEM : sqlite3_prepare_v2(db, b.data, -1, out, NULL);
    sonde_buf_release(&b);
    return rc;
}

static void bind_field(sqlite3_stmt *s, int column, const struct field *f, const char *row)
{
    unsigned char packed[SERIES_BYTES];
    const void *at = row + f->at;
    double real;
    switch (f->type) {
    case INT: sqlite3_bind_int(s, column, *(const int *)at); return;
    case U64: sqlite3_bind_int64(s, column, *(const sqlite3_int64 *)at); return;
    case REAL:
        memcpy(&real, at, sizeof(real));
        sqlite3_bind_double(s, column, isfinite(real) ? real : 0);
        return;
    case VERDICT:
        sqlite3_bind_text(s, column,
                          sonde_heap_verdict_name(*(const enum sonde_heap_verdict *)at), -1,
                          SQLITE_STATIC);
        return;
    case SERIES:
        sqlite3_bind_blob(s, column, packed, (int)series_pack(at, packed), SQLITE_TRANSIENT);
        return;
    case U32:
    case STACK:
    case THREAD:
    case STRING: break;
    }
    sqlite3_bind_int64(s, column, *(const uint32_t *)at);
}

static int write_rows(sqlite3 *db, const struct table *t, const void *rows, uint32_t count)
{
    sqlite3_stmt *s;
    int rc = create_table(db, t);
    if (rc != SQLITE_OK) return rc;
    rc = prepare_insert(db, t, &s);
    for (uint32_t i = 0; rc == SQLITE_OK && i < count; i++) {
        const char *row = (const char *)rows + i * t->row_bytes;
        sqlite3_bind_int64(s, 1, (sqlite3_int64)i + 1);
        for (size_t k = 0; k < t->count; k++) bind_field(s, (int)k + 2, &t->fields[k], row);
        rc = sqlite3_step(s) == SQLITE_DONE ? SQLITE_OK : sqlite3_errcode(db);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return rc;
}

int sonde_run_heap_write(sqlite3 *db, const struct sonde_heap *h)
{
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
        rc = write_rows(db, &tables[i], parts[i].rows, parts[i].count);
    }
    return rc;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct run_heap_reading {
    const struct table *t;
    int column[FIELDS_MAX];   /* of each field; -1 = the file has none */
    void *rows;               /* owned until they are given to the facts */
    uint32_t count, cap;
    size_t *used;             /* of the profile's memory */
};

static int get_verdict(struct run_reader *r, sqlite3_stmt *s, int column, uint32_t *out)
{
    const char *name = (const char *)sqlite3_column_text(s, column);
    const int verdict = name ? sonde_heap_verdict_find(name) : -1;
    if (verdict < 0) return run_bad(r, "there is no verdict '%.40s'", name ? name : "");
    *out = (uint32_t)verdict;
    return 0;
}

static int get_series(struct run_reader *r, sqlite3_stmt *s, int column, struct sonde_series *out)
{
    const void *data = sqlite3_column_blob(s, column);
    const size_t len = (size_t)sqlite3_column_bytes(s, column);
    if (sqlite3_column_type(s, column) == SQLITE_BLOB && data && !series_unpack(data, len, out)) {
        return 0;
    }
    return run_bad(r, "%s is not a series", sqlite3_column_name(s, column));
}

static int get_field(struct run_reader *r, sqlite3_stmt *s, int column, const struct field *f,
                     char *row)
{
    void *at = row + f->at;
    uint64_t number = 0;
    int rc;
    switch (f->type) {
    case INT:
        rc = run_get_number(r, s, column, INT32_MAX, &number);
        *(int *)at = (int)number;
        return rc;
    case U32: return run_get_u32(r, s, column, at);
    case U64: return run_get_u64(r, s, column, at);
    case REAL: return run_get_real(r, s, column, at);
    case STACK: return run_get_ref(r, s, column, &r->stacks, at);
    case THREAD: return run_get_ref(r, s, column, &r->threads, at);
    case STRING: return run_get_ref(r, s, column, &r->strings, at);
    case VERDICT: return get_verdict(r, s, column, at);
    case SERIES: return get_series(r, s, column, at);
    }
    return SONDE_EFORMAT;
}

static void find_columns(struct run_heap_reading *g, sqlite3_stmt *s)
{
    for (size_t i = 0; i < g->t->count; i++) {
        g->column[i] = -1;
        for (int c = 0; c < sqlite3_column_count(s); c++) {
            if (!strcmp(sqlite3_column_name(s, c), g->t->fields[i].name)) g->column[i] = c;
        }
    }
}

static int read_row(struct run_reader *r, sqlite3_stmt *s)
{
    struct run_heap_reading *g = r->heap;
    const struct sonde_budget b = { g->used, r->p->bytes_max };
    if (r->row == 1) find_columns(g, s);
    void *rows = sonde_table_grow(g->rows, g->count, &g->cap, g->t->row_bytes, &b);
    if (!rows) return run_no_memory(r);
    g->rows = rows;
    char *row = (char *)rows + g->count * g->t->row_bytes;
    memset(row, 0, g->t->row_bytes);
    for (size_t i = 0; i < g->t->count; i++) {
        const int rc = g->column[i] >= 0 ? get_field(r, s, g->column[i], &g->t->fields[i], row) : 0;
        if (rc) return rc;
    }
    /* What a row is of. */
    const enum type first = g->t->fields[0].type;
    const uint32_t id = first == STACK || first == THREAD || first == STRING
                            ? *(const uint32_t *)(const void *)(row + g->t->fields[0].at) : 1;
    if (!id) return run_bad(r, "it is of no %s", g->t->fields[0].name);
    g->count++;
    return 0;
}

/* The rows of a table, as many as it has; the caller's. */
static int read_rows(struct run_reader *r, int table, void **rows, uint32_t *count)
{
    char sql[64];
    struct run_heap_reading g = { .t = &tables[table], .used = &r->p->bytes };
    const size_t before = r->p->bytes;
    r->heap = &g;
    snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY id", g.t->name);
    const int rc = run_each(r, g.t->name, sql, read_row);
    r->heap = NULL;
    r->p->bytes = before; /* counted again when the profile takes them */
    *rows = g.rows;
    *count = g.count;
    if (rc || g.count) return rc;
    sonde__free(g.rows);
    *rows = NULL;
    return 0;
}

static int read_classes(struct run_reader *r, int table, double *out, uint32_t max)
{
    void *rows;
    uint32_t count;
    int rc = read_rows(r, table, &rows, &count);
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
    int rc = read_rows(r, FACTS, &rows, &count);
    if (!rc && count != 1) rc = run_bad(r, "there are %u rows of facts", count);
    if (!rc) memcpy(h, rows, sizeof(*h));
    sonde__free(rows);
    return rc;
}

static int has_heap(struct run_reader *r)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(r->db, "SELECT 1 FROM sqlite_master WHERE type='table' AND name='heap'",
                           -1, &s, NULL) != SQLITE_OK) {
        return 0;
    }
    const int found = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    return found;
}

int run_heap_read(struct run_reader *r)
{
    if (!has_heap(r)) return 0;
    struct sonde_heap *h = sonde__calloc(1, sizeof(*h));
    if (!h) return run_no_memory(r);
    int rc = read_facts(r, h);
    if (!rc) rc = read_rows(r, SITES, (void **)&h->sites, &h->site_count);
    if (!rc) rc = read_rows(r, POINTS, (void **)&h->points, &h->point_count);
    if (!rc) rc = read_rows(r, THREADS, (void **)&h->threads, &h->thread_count);
    if (!rc) rc = read_rows(r, POOLS, (void **)&h->pools, &h->pool_count);
    if (!rc) rc = read_classes(r, SIZES, h->size_class, SONDE_HEAP_SIZES);
    if (!rc) rc = read_classes(r, LIFETIMES, h->lifetime, SONDE_HEAP_LIFETIMES);
    if (!rc && sonde_profile_take_heap(r->p, h)) rc = run_no_memory(r);
    if (rc) sonde_heap_destroy(h);
    return rc;
}
