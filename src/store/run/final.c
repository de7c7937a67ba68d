/* final.c - series as they stood at the end of a recording (profile/final.h) in a run file: one
 * table of structures, see rows.h.
 *
 *   engine_series   id 1 … : family, whose it is, its labels, and values. The first that were kept
 *                   are those of engines, and old files are to stay readable: hence its name
 *
 * The buckets of a histogram are a blob of varints, two for each that is not empty: how many
 * buckets it is behind the last one (of the first: its number), and how many values are in it. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "base/varint.h"
#include "profile/final.h"
#include "segment/segment.h"
#include "sonde/sonde.h"
#include "store/run/private.h"
#include "store/run/rows.h"

#define VALUE_MAX 1e18        /* sums stay far from any limit */
#define SECONDS_MAX 1e10

static int bind_buckets(const struct sonde_profile *p, sqlite3_stmt *s, int column, const void *row,
                        size_t at)
{
    const struct sonde_final_series *e = row;
    (void)p;
    (void)at;
    if (!e->bucket_count) return sqlite3_bind_zeroblob(s, column, 0);
    unsigned char *packed = sonde__alloc((size_t)e->bucket_count * 2 * SONDE_VARINT_MAX);
    unsigned char *end = packed;
    if (!packed) return SQLITE_NOMEM;
    for (uint32_t i = 0; i < e->bucket_count; i++) {
        end = sonde_varint_put(end, e->buckets[i].p - (i ? e->buckets[i - 1].p : 0));
        end = sonde_varint_put(end, e->buckets[i].n);
    }
    const int rc = sqlite3_bind_blob64(s, column, packed, (uint64_t)(end - packed),
                                       SQLITE_TRANSIENT);
    sonde__free(packed);
    return rc;
}

static int get_buckets(struct run_reader *r, sqlite3_stmt *s, int column, void *row, size_t at)
{
    struct sonde_final_series *e = row;
    (void)at;
    if (sqlite3_column_type(s, column) != SQLITE_BLOB) {
        return run_bad(r, "%s is not a blob", sqlite3_column_name(s, column));
    }
    const unsigned char *data = sqlite3_column_blob(s, column);
    const size_t len = (size_t)sqlite3_column_bytes(s, column);
    const unsigned char *end = data + len;
    if (!len) return 0;
    if (len > (size_t)SONDE__HIST_BUCKETS * 2 * SONDE_VARINT_MAX) {
        return run_bad(r, "too many buckets");
    }
    e->buckets = sonde__alloc((len / 2 + 1) * sizeof(*e->buckets)); /* two bytes each at least */
    if (!e->buckets) return run_no_memory(r);
    uint64_t place = 0, step, n;
    while (data < end) {
        const int bad = sonde_varint_get(&data, end, &step) || sonde_varint_get(&data, end, &n);
        if (bad || !n || n > INT64_MAX || (e->bucket_count && !step) ||
            step >= SONDE__HIST_BUCKETS || (place += step) >= SONDE__HIST_BUCKETS) {
            return run_bad(r, "bucket %u cannot be", e->bucket_count + 1);
        }
        e->buckets[e->bucket_count++] =
            (struct sonde_final_bucket){ .p = (uint32_t)place, .n = n };
    }
    return 0;
}

static const struct run_field_ops buckets_ops = { "BLOB", bind_buckets, get_buckets };

#define F(field, kind)                                                                         \
    { .name = #field, .at = offsetof(struct sonde_final_series, field), .type = RUN_##kind }
static const struct run_field series_fields[] = {
    F(family, TEXT), F(program, TEXT), F(pid, U32), F(subject, TEXT), F(detail, TEXT),
    F(extra, TEXT), F(value, REAL), F(peak, REAL), F(count, U64), F(zero, U64), F(seconds, REAL),
    { .name = "buckets", .at = offsetof(struct sonde_final_series, buckets), .type = RUN_OWN,
      .ops = &buckets_ops },
};
#undef F

static const struct run_table
    series_table = RUN_TABLE("engine_series", series_fields, struct sonde_final_series);

int sonde_run_final_write(sqlite3 *db, const struct sonde_profile *p)
{
    assert(p->final);
    return run_rows_write(db, p, &series_table, p->final->series, p->final->count);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Values are those that are counted, and so many that they add up. */
static int series_check(struct run_reader *r, const struct sonde_final_series *e)
{
    uint64_t sum = e->zero;
    if (!(e->value >= -VALUE_MAX && e->value <= VALUE_MAX)) {
        return run_bad(r, "value is %g", e->value);
    }
    if (!(e->peak >= -VALUE_MAX && e->peak <= VALUE_MAX)) return run_bad(r, "peak is %g", e->peak);
    if (!(e->seconds >= 0 && e->seconds <= SECONDS_MAX)) {
        return run_bad(r, "seconds is %g", e->seconds);
    }
    for (uint32_t i = 0; i < e->bucket_count; i++) {
        if (e->buckets[i].n > UINT64_MAX - sum) return run_bad(r, "too many values");
        sum += e->buckets[i].n;
    }
    return sum == e->count ? 0 : run_bad(r, "count is not that of its buckets");
}

static int series_take(struct run_reader *r, void *row, void *arg)
{
    struct sonde_final_series *e = row;
    (void)arg;
    int rc = series_check(r, e);
    if (!rc && sonde_final_add(r->p, e)) rc = run_no_memory(r);
    sonde__free(e->buckets);
    e->buckets = NULL;
    return rc;
}

int run_final_read(struct run_reader *r)
{
    struct sonde_final_series row = { .buckets = NULL };
    if (!run_has_table(r, series_table.name)) return 0;
    const int rc = run_rows_read(r, &series_table, &row, series_take, NULL);
    sonde__free(row.buckets); /* of a row that was not taken */
    return rc;
}
