/* rollup.c - long times in few points.
 *
 * Ten seconds, a minute and an hour become one point each: count, least, greatest, sum and last; of
 * a histogram, its buckets added up, so that percentiles of any time can be had. Blocks of a tier
 * cover an hour, six hours and a day, and are made of the tier below once that has gone past them,
 * some series a step. A crash in between costs the work only: a block counts when its last chunk is
 * written, and what it is made of is still there. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum { STEP_SERIES = 40 };

/* What the job works on. */
struct store_rollup {
    struct store_reader *reader;
    struct store_sources sources;
    double interval_ms;
    struct store_rolled out;
    uint64_t bucket_counts[SONDE__HIST_BUCKETS]; /* of the bucket of time at hand */
    uint64_t zero, sum_raw;
    int64_t from_ms, bucket_ms;
    enum sonde_type type;
    int error;
};

void store_rollup_release(struct sonde_store *s)
{
    struct store_rollup *roll = s->roll;
    s->roll = NULL;
    if (!roll) return;
    store_reader_destroy(roll->reader);
    store_sources_release(&roll->sources);
    sonde_hist_column_release(&roll->out.hist);
    sonde__free(roll);
}

/* ---- One series ------------------------------------------------------------------------------ */

/* The histogram of the bucket of time that is over. */
static void finish_hist(struct store_rollup *roll)
{
    struct store_rolled *out = &roll->out;
    if (roll->type != SONDE_HISTOGRAM || !out->n || roll->error) return;
    if (sonde_hist_column_open(&out->hist, roll->zero, roll->sum_raw)) roll->error = SONDE_ENOMEM;
    for (uint32_t p = 0; p < SONDE__HIST_BUCKETS && !roll->error; p++) {
        if (!roll->bucket_counts[p]) continue;
        if (sonde_hist_column_bucket(&out->hist, (uint16_t)p, roll->bucket_counts[p])) {
            roll->error = SONDE_ENOMEM;
        }
    }
    memset(roll->bucket_counts, 0, sizeof(roll->bucket_counts));
    roll->zero = roll->sum_raw = 0;
}

static void add_hist(struct store_rollup *roll, const struct store_in *p)
{
    const struct sonde_hist_column *h = p->hist;
    roll->zero += h->zero[p->entry];
    roll->sum_raw += h->sum_raw[p->entry];
    for (uint32_t b = p->entry ? h->end[p->entry - 1] : 0; b < h->end[p->entry]; b++) {
        roll->bucket_counts[h->p[b]] += h->count[b];
    }
}

static void add_numbers(struct store_rolled *out, uint32_t at, const struct store_in *p)
{
    out->value[ROLLED_COUNT][at] += p->count;
    if (isnan(p->sum)) return; /* a gauge may be set to it; it is no value */
    out->value[ROLLED_SUM][at] += p->sum;
    out->value[ROLLED_MIN][at] = fmin(out->value[ROLLED_MIN][at], p->min);
    out->value[ROLLED_MAX][at] = fmax(out->value[ROLLED_MAX][at], p->max);
    out->value[ROLLED_LAST][at] = p->last;
}

static void store_rollup_add_point(const struct store_in *p, void *arg)
{
    struct store_rollup *roll = arg;
    struct store_rolled *out = &roll->out;
    uint64_t bucket = (uint64_t)((p->time_ms - roll->from_ms) / roll->bucket_ms);
    /* Where the clock was set back, time goes on from where it was. */
    if (out->n && bucket < out->bucket[out->n - 1]) bucket = out->bucket[out->n - 1];
    if (!out->n || bucket != out->bucket[out->n - 1]) {
        finish_hist(roll);
        out->bucket[out->n] = bucket;
        out->value[ROLLED_COUNT][out->n] = out->value[ROLLED_SUM][out->n] = 0;
        out->value[ROLLED_MIN][out->n] = out->value[ROLLED_MAX][out->n] = NAN;
        out->value[ROLLED_LAST][out->n] = NAN;
        out->n++;
    }
    if (roll->type == SONDE_HISTOGRAM) add_hist(roll, p);
    else add_numbers(out, out->n - 1, p);
}

static int roll_series(struct sonde_store *s, uint32_t series, struct sonde_err *err)
{
    struct store_rollup *roll = s->roll;
    int64_t type = 0;
    int rc = store_number(s, s->db, "SELECT type FROM series WHERE id = ?1", series, &type, err);
    if (rc || type < SONDE_COUNTER || type > SONDE_HISTOGRAM) return rc;
    roll->type = (enum sonde_type)type;
    roll->out.n = 0;
    sonde_hist_column_reset(&roll->out.hist);
    roll->reader->err = err;
    for (size_t i = 0; i < roll->sources.count && !rc; i++) {
        rc = store_each(roll->reader, &roll->sources.at[i], series, roll->type,
                        store_rollup_add_point, roll);
        /* One bad chunk must not stop the rest. */
        if (rc == SONDE_EFORMAT && !store_is_damaged(s)) rc = 0;
    }
    finish_hist(roll);
    if (rc || !roll->out.n) return rc;
    struct sonde_buf data;
    sonde_buf_init(&data, STORE_CHUNK_BYTES_MAX);
    store_rolled_put(&roll->out, roll->type, &data);
    sqlite3_stmt *st = store_sql(s, SQL_ADD_CHUNK);
    if (data.error || roll->error) {
        rc = sonde_err_memory(err);
        roll->error = 0;
    } else if (!st) {
        rc = store_failed(s, s->db, err);
    } else {
        sqlite3_bind_int64(st, 1, (sqlite3_int64)s->job.block << STORE_SERIES_BITS | series);
        sqlite3_bind_blob64(st, 2, data.data, data.len, SQLITE_STATIC);
        rc = store_step(s, st, err);
    }
    sonde_buf_release(&data);
    /* Everything comes through here once: so it is known which series are still in use. */
    if (!rc && s->job.tier == 1) {
        st = store_sql(s, SQL_SEEN_SERIES);
        if (!st) return store_failed(s, s->db, err);
        sqlite3_bind_int64(st, 1, series);
        sqlite3_bind_int64(st, 2, s->job.to_ms);
        rc = store_step(s, st, err);
    }
    return rc;
}

/* The next series that is in any of the sources; 0 = none. */
static int next_series(struct sonde_store *s, uint32_t after, uint32_t *out, struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = 0;
    *out = 0;
    if (sqlite3_prepare_v2(s->db, "SELECT id FROM chunks WHERE id > ?1 AND id < ?2 ORDER BY id"
                           " LIMIT 1", -1, &st, NULL) != SQLITE_OK) {
        return store_failed(s, s->db, err);
    }
    for (size_t i = 0; i < s->roll->sources.count && !rc; i++) {
        const int64_t block = s->roll->sources.at[i].id;
        sqlite3_bind_int64(st, 1, block << STORE_SERIES_BITS | after);
        sqlite3_bind_int64(st, 2, (block + 1) << STORE_SERIES_BITS);
        const int got = sqlite3_step(st);
        if (got == SQLITE_ROW) {
            const uint32_t series = (uint32_t)(sqlite3_column_int64(st, 0) & STORE_SERIES_MAX);
            if (!*out || series < *out) *out = series;
        } else if (got != SQLITE_DONE) {
            rc = store_failed(s, s->db, err);
        }
        sqlite3_reset(st);
    }
    sqlite3_finalize(st);
    return rc;
}

/* ---- What is to be done ---------------------------------------------------------------------- */

/* The next block of a tier that a run lacks and that can be made: s->job, or none. */
static int find_block(struct sonde_store *s, uint32_t run, uint32_t tier, int final,
                      struct sonde_err *err)
{
    const int64_t length = store_tier_block_ms[tier];
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db,
                           "WITH done(ms) AS (SELECT coalesce(max(to_ms) + 1, 0) FROM blocks"
                           " WHERE run = ?1 AND tier = ?2)"
                           " SELECT (SELECT ms FROM done), min(from_ms), max(to_ms) FROM blocks"
                           " WHERE run = ?1 AND tier = ?2 - 1 AND to_ms >= (SELECT ms FROM done)",
                           -1, &st, NULL) != SQLITE_OK) {
        return store_failed(s, s->db, err);
    }
    sqlite3_bind_int64(st, 1, run);
    sqlite3_bind_int64(st, 2, tier);
    const int got = sqlite3_step(st);
    int rc = got == SQLITE_ROW ? 0 : store_failed(s, s->db, err);
    if (!rc && sqlite3_column_type(st, 1) == SQLITE_INTEGER) {
        const int64_t done = sqlite3_column_int64(st, 0), first = sqlite3_column_int64(st, 1);
        const int64_t last = sqlite3_column_int64(st, 2);
        int64_t from = first / length * length;
        if (from < done) from = done;
        if (last >= from + length || (final && last >= from)) {
            s->job = (struct store_job){ .tier = tier, .run = run, .from_ms = from,
                                         .to_ms = from + length - 1 };
        }
    }
    sqlite3_finalize(st);
    return rc;
}

static int find_job(struct sonde_store *s, struct sonde_err *err)
{
    int rc = 0;
    for (uint32_t tier = 1; tier < STORE_TIERS && !rc && !s->job.tier; tier++) {
        rc = find_block(s, s->run, tier, 0, err);
    }
    while (!rc && !s->job.tier) { /* runs that ended: to their end */
        int64_t run = 0;
        rc = store_number(s, s->db, "SELECT id FROM runs WHERE rolled = 0 AND id <> ?1 LIMIT 1",
                          s->run, &run, err);
        if (rc || !run) break;
        for (uint32_t tier = 1; tier < STORE_TIERS && !rc && !s->job.tier; tier++) {
            rc = find_block(s, (uint32_t)run, tier, 1, err);
        }
        if (!rc && !s->job.tier) {
            int64_t unused;
            rc = store_number(s, s->db, "UPDATE runs SET rolled = 1 WHERE id = ?1", run, &unused,
                              err);
        }
    }
    return rc;
}

static int begin_job(struct sonde_store *s, struct sonde_err *err)
{
    struct store_rollup *roll = sonde__calloc(1, sizeof(*roll));
    if (!roll) return sonde_err_memory(err);
    s->roll = roll;
    roll->from_ms = s->job.from_ms;
    roll->bucket_ms = store_tier_ms[s->job.tier];
    int rc = store_reader_create(s, s->db, err, &roll->reader);
    if (!rc) {
        rc = store_sources_find(s, s->db, s->job.run, (int)s->job.tier - 1, s->job.from_ms,
                                s->job.to_ms, &roll->sources, err);
    }
    /* A block of one tick does not know how long that was, and others by what they have. */
    double weights = 0;
    for (size_t i = 0; i < roll->sources.count; i++) {
        const struct store_source *b = &roll->sources.at[i];
        const double weight = b->ticks > 1 ? b->ticks - 1 : 1e-6;
        roll->interval_ms += b->interval_ms * weight;
        weights += weight;
    }
    if (weights > 0) roll->interval_ms /= weights;
    if (rc) {
        store_rollup_release(s);
        s->job = (struct store_job){ 0 };
    } else {
        s->job.block = s->next_block++;
    }
    return rc;
}

static int finish_job(struct sonde_store *s, struct sonde_err *err)
{
    sqlite3_stmt *st = store_sql(s, SQL_ADD_BLOCK);
    if (!st) return store_failed(s, s->db, err);
    sqlite3_bind_int64(st, 1, s->job.block);
    sqlite3_bind_int64(st, 2, s->job.run);
    sqlite3_bind_int64(st, 3, s->job.tier);
    sqlite3_bind_int64(st, 4, s->job.from_ms);
    sqlite3_bind_int64(st, 5, s->job.to_ms);
    sqlite3_bind_int64(st, 6, store_tier_block_ms[s->job.tier] / store_tier_ms[s->job.tier]);
    sqlite3_bind_double(st, 7, s->roll->interval_ms);
    sqlite3_bind_zeroblob(st, 8, 0);
    return store_step(s, st, err);
}

static int work_on_job(struct sonde_store *s, struct sonde_err *err)
{
    const double began_s = store_cpu_s();
    uint32_t at = s->job.next, series = 0;
    int rc = store_run_sql(s, SQL_BEGIN, err), whole = 0;
    for (int n = 0; !rc && n < STEP_SERIES; n++) {
        if (n && store_cpu_s() - began_s > STORE_STEP_S) break;
        rc = next_series(s, at, &series, err);
        if (rc) break;
        whole = !series;
        if (whole) break;
        rc = roll_series(s, series, err);
        at = series;
    }
    if (!rc && whole) rc = finish_job(s, err);
    if (!rc) rc = store_run_sql(s, SQL_COMMIT, err);
    if (rc) {
        store_rollback(s);
        return rc;
    }
    s->job.next = at;
    if (!whole) return 1;
    store_rollup_release(s);
    s->job = (struct store_job){ 0 };
    return 1;
}

int store_rollup_step(struct sonde_store *s, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int rc = 0;
    if (!s->job.tier) {
        if (!s->roll_wanted || s->job.block) return 0;
        rc = find_job(s, err);
        if (rc) return rc;
        if (!s->job.tier) {
            s->roll_wanted = 0;
            return 0;
        }
    }
    if (!s->job.block) rc = begin_job(s, err);
    return rc ? rc : work_on_job(s, err);
}
