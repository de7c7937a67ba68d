/* read.c - points of a series out of a block, on disk or in memory, of any tier: what is asked
 * for and what is rolled up both start from here. */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

/* ---- Rolled chunks --------------------------------------------------------------------------- */

void store_rolled_put(const struct store_rolled *r, enum sonde_type type, struct sonde_buf *out)
{
    sonde_chunk_put_varint(out, r->n);
    sonde_chunk_put(out, SONDE_CHUNK_INTEGERS, r->bucket, r->n);
    if (type == SONDE_HISTOGRAM) {
        sonde_chunk_put_hist(out, &r->hist);
        return;
    }
    for (int i = 0; i < ROLLED_VALUES; i++) {
        uint64_t bits[SONDE_CHUNK_MAX];
        memcpy(bits, r->value[i], r->n * sizeof(bits[0]));
        sonde_chunk_put(out, SONDE_CHUNK_DOUBLES, bits, r->n);
    }
}

static int get_rolled(const void *data, size_t len, enum sonde_type type, uint32_t buckets,
                      struct store_rolled *r)
{
    const unsigned char *bytes = data;
    struct sonde_chunk_in in = { bytes, bytes + len, 0 };
    const uint64_t n = sonde_chunk_get_varint(&in);
    if (in.bad || !n || n > buckets || n > SONDE_CHUNK_MAX) return SONDE_EFORMAT;
    r->n = (uint32_t)n;
    sonde_chunk_get(&in, SONDE_CHUNK_INTEGERS, r->bucket, r->n);
    for (uint32_t i = 0; i < r->n; i++) {
        if (r->bucket[i] >= buckets || (i && r->bucket[i] <= r->bucket[i - 1])) in.bad = 1;
    }
    int rc = 0;
    if (type == SONDE_HISTOGRAM) {
        sonde_hist_column_reset(&r->hist);
        rc = in.bad ? SONDE_EFORMAT : sonde_chunk_get_hist(&in, r->n, &r->hist);
    } else {
        for (int i = 0; i < ROLLED_VALUES; i++) {
            uint64_t bits[SONDE_CHUNK_MAX];
            sonde_chunk_get(&in, SONDE_CHUNK_DOUBLES, bits, r->n);
            memcpy(r->value[i], bits, r->n * sizeof(bits[0]));
        }
    }
    return rc ? rc : in.bad || in.at != in.end ? SONDE_EFORMAT : 0;
}

/* ---- Sources --------------------------------------------------------------------------------- */

struct store_source *store_sources_add(struct store_sources *all, const struct store_source *one)
{
    struct store_source *source = SONDE_ARRAY_ADD(all->at, all->count, all->cap);
    if (source) *source = *one;
    return source;
}

void store_sources_release(struct store_sources *all)
{
    for (size_t i = 0; i < all->count; i++) sonde__free(all->at[i].time_ms);
    sonde__free(all->at);
    *all = (struct store_sources){ 0 };
}

int store_sources_find(struct sonde_store *s, sqlite3 *db, uint32_t run, int tier, int64_t from_ms,
                       int64_t to_ms, struct store_sources *out, struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db, "SELECT id, run, tier, from_ms, to_ms, ticks, interval_ms FROM "
                           "blocks WHERE to_ms >= ?1 AND from_ms <= ?2 AND (?3 = 0 OR run = ?3)"
                           " AND (tier = ?4 OR ?4 < 0) ORDER BY run, from_ms, id", -1, &st,
                           NULL) != SQLITE_OK) {
        return store_failed(s, db, err);
    }
    sqlite3_bind_int64(st, 1, from_ms);
    sqlite3_bind_int64(st, 2, to_ms);
    sqlite3_bind_int64(st, 3, run);
    sqlite3_bind_int(st, 4, tier);
    int rc = 0, got;
    while (!rc && (got = sqlite3_step(st)) == SQLITE_ROW) {
        const struct store_source one = {
            .id = sqlite3_column_int64(st, 0),
            .run = (uint32_t)sqlite3_column_int64(st, 1),
            .tier = (uint32_t)sqlite3_column_int64(st, 2),
            .from_ms = sqlite3_column_int64(st, 3),
            .to_ms = sqlite3_column_int64(st, 4),
            .ticks = (uint32_t)sqlite3_column_int64(st, 5),
            .interval_ms = sqlite3_column_double(st, 6),
            .use_from_ms = from_ms,
            .use_to_ms = to_ms + 1,
        };
        if (one.tier >= STORE_TIERS || one.id < 0 || one.id >> (62 - STORE_SERIES_BITS) ||
            one.from_ms < 0 || one.from_ms > INT64_MAX / 4) {
            continue;
        }
        if (!store_sources_add(out, &one)) {
            rc = sonde_err_set(err, SONDE_ENOMEM, "no memory to read the store");
        }
    }
    if (!rc && got != SQLITE_DONE) rc = store_failed(s, db, err);
    sqlite3_finalize(st);
    return rc;
}

/* ---- Reading --------------------------------------------------------------------------------- */

int store_reader_create(struct sonde_store *s, sqlite3 *db, struct sonde_err *err,
                        struct store_reader **out)
{
    struct store_reader *r = sonde__calloc(1, sizeof(*r));
    if (!r) return sonde_err_set(err, SONDE_ENOMEM, "no memory to read the store");
    r->s = s;
    r->db = db;
    r->err = err;
    if (sqlite3_prepare_v2(db, "SELECT data FROM chunks WHERE id = ?1", -1, &r->chunk, NULL) ||
        sqlite3_prepare_v2(db, "SELECT times FROM blocks WHERE id = ?1", -1, &r->times, NULL)) {
        const int rc = store_failed(s, db, err);
        store_reader_destroy(r);
        return rc;
    }
    *out = r;
    return 0;
}

void store_reader_destroy(struct store_reader *r)
{
    if (!r) return;
    sqlite3_finalize(r->chunk);
    sqlite3_finalize(r->times);
    sonde_hist_column_release(&r->hist);
    sonde_hist_column_release(&r->rolled.hist);
    sonde__free(r);
}

static int store_read_bad(struct store_reader *r, const char *table, int64_t id)
{
    return sonde_err_set(r->err, SONDE_EFORMAT, "store '%s' is damaged: table %s, row %lld cannot "
                         "be read; copy out the runs that can be, and begin a new file",
                         r->s->path, table,
                         (long long)id);
}

static int load_times(struct store_reader *r, struct store_source *source)
{
    if (source->time_ms) return 0;
    if (!source->ticks || source->ticks > BLOCK_TICKS_MAX) {
        return store_read_bad(r, "blocks", source->id);
    }
    int64_t *times = sonde__calloc(source->ticks, sizeof(*times));
    if (!times) return sonde_err_set(r->err, SONDE_ENOMEM, "no memory to read the store");
    sqlite3_bind_int64(r->times, 1, source->id);
    int rc = 0;
    if (sqlite3_step(r->times) != SQLITE_ROW) {
        rc = store_failed(r->s, r->db, r->err);
    } else {
        const void *data = sqlite3_column_blob(r->times, 0);
        const size_t len = (size_t)sqlite3_column_bytes(r->times, 0);
        if (block_get_times(data ? data : "", len, source->ticks, times)) {
            rc = store_read_bad(r, "blocks", source->id);
        }
    }
    sqlite3_reset(r->times);
    if (rc) sonde__free(times);
    else source->time_ms = times;
    return rc;
}

static double number_of(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof(d));
    return d;
}

struct store_read_column {
    const struct block_chunk *c;
    const uint64_t *v;
    const struct sonde_hist_column *hist;
    const int64_t *time_ms;
};

/* How long the first tick of a block was: as long as the next one that was neither late nor
 * hurried. Not as long as ticks are as a rule, since each tick that is added to an open block
 * changes that a little, and an answer about a time that is over must not change with it. */
static double first_tick_ms(const struct store_source *source, const int64_t *time_ms)
{
    for (uint32_t i = 1; i < source->ticks; i++) {
        const double length_ms = (double)time_ms[i] - (double)time_ms[i - 1];
        if (length_ms > source->interval_ms / 2 && length_ms < source->interval_ms * 1.5) {
            return length_ms;
        }
    }
    return source->interval_ms;
}

/* Ticks of a column that are of interest. */
static void each_tick(const struct store_source *source, const struct store_read_column *k,
                      enum sonde_type type, void (*point)(const struct store_in *p, void *arg),
                      void *arg)
{
    for (uint32_t i = 0; i < k->c->count; i++) {
        const uint32_t tick = k->c->first + i;
        const int64_t time_ms = k->time_ms[tick];
        if (time_ms < source->use_from_ms) continue;
        if (time_ms >= source->use_to_ms) break;
        const double length_ms = tick ? (double)time_ms - (double)k->time_ms[tick - 1]
                                      : first_tick_ms(source, k->time_ms);
        struct store_in p = { .time_ms = time_ms, .seconds = length_ms * 1e-3, .count = 1,
                              .is_tick = 1 };
        if (type == SONDE_HISTOGRAM) {
            p.hist = k->hist;
            p.entry = i;
        } else if (type == SONDE_COUNTER) {
            const uint64_t now = k->v[i], before = i ? k->v[i - 1] : 0;
            const uint64_t increase = !i ? k->c->increase : now >= before ? now - before : now;
            p.sum = p.min = p.max = (double)increase;
            p.last = (double)now;
            p.raw = now;
            p.increase = increase;
        } else {
            p.sum = p.min = p.max = p.last = number_of(k->v[i]);
            p.raw = k->v[i];
        }
        point(&p, arg);
    }
}

static void each_bucket(const struct store_source *source, const struct store_rolled *r,
                        enum sonde_type type, void (*point)(const struct store_in *p, void *arg),
                        void *arg)
{
    const int64_t length_ms = store_tier_ms[source->tier];
    for (uint32_t i = 0; i < r->n; i++) {
        struct store_in p = { .time_ms = source->from_ms + (int64_t)r->bucket[i] * length_ms };
        if (p.time_ms < source->use_from_ms) continue;
        if (p.time_ms >= source->use_to_ms) break;
        if (type == SONDE_HISTOGRAM) {
            p.hist = &r->hist;
            p.entry = i;
            p.count = 1;
            p.seconds = (double)length_ms * 1e-3;
        } else {
            p.count = r->value[ROLLED_COUNT][i];
            p.min = r->value[ROLLED_MIN][i];
            p.max = r->value[ROLLED_MAX][i];
            p.sum = r->value[ROLLED_SUM][i];
            p.last = r->value[ROLLED_LAST][i];
            p.seconds = p.count * source->interval_ms * 1e-3;
        }
        point(&p, arg);
    }
}

/* A column that is still in memory, as it was when the block was noted. */
static int each_in_memory(struct store_reader *r, struct store_source *source, uint32_t series,
                          enum sonde_type type,
                          void (*point)(const struct store_in *p, void *arg), void *arg)
{
    struct block_chunk c = { 0 };
    const uint64_t *v = NULL;
    int rc = 0;
    sonde_lock(&r->s->lock);
    const struct block *b = source->block;
    const struct block_column *column = block_find(b, series);
    if (column && column->count && column->type == type) {
        rc = block_view_column(column, &c, &v, &r->hist);
        if (c.first >= source->ticks) c.count = 0;
        else if (c.first + c.count > source->ticks) c.count = source->ticks - c.first;
        if (!rc && v) memcpy(r->v, v, c.count * sizeof(*v));
        memcpy(r->time_ms, b->time_ms, source->ticks * sizeof(*b->time_ms));
    }
    sonde_unlock(&r->s->lock);
    if (rc) return sonde_err_set(r->err, rc, "no memory to read the store");
    const struct store_read_column k = { &c, r->v, &r->hist, r->time_ms };
    each_tick(source, &k, type, point, arg);
    return 0;
}

int store_each(struct store_reader *r, struct store_source *source, uint32_t series,
               enum sonde_type type, void (*point)(const struct store_in *p, void *arg), void *arg)
{
    if (source->block) return each_in_memory(r, source, series, type, point, arg);
    const int64_t id = source->id << STORE_SERIES_BITS | series;
    sqlite3_bind_int64(r->chunk, 1, id);
    const int got = sqlite3_step(r->chunk);
    int rc = got == SQLITE_ROW || got == SQLITE_DONE ? 0 : store_failed(r->s, r->db, r->err);
    if (got == SQLITE_ROW) {
        const void *data = sqlite3_column_blob(r->chunk, 0);
        const size_t len = (size_t)sqlite3_column_bytes(r->chunk, 0);
        struct block_chunk c;
        if (!data) data = "";
        if (!source->tier) {
            rc = load_times(r, source);
            if (!rc) {
                rc = block_get_column(data, len, type, source->ticks, &c, r->v, &r->hist);
                const struct store_read_column k = { &c, r->v, &r->hist, source->time_ms };
                if (!rc) each_tick(source, &k, type, point, arg);
                else rc = store_read_bad(r, "chunks", id);
            }
        } else {
            const uint32_t buckets = (uint32_t)(store_tier_block_ms[source->tier] /
                                                store_tier_ms[source->tier]);
            rc = get_rolled(data, len, type, buckets, &r->rolled);
            if (!rc) each_bucket(source, &r->rolled, type, point, arg);
            else rc = store_read_bad(r, "chunks", id);
        }
    }
    sqlite3_reset(r->chunk);
    return rc;
}
