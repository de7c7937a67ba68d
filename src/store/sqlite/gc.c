/* gc.c - what is too old, too many or too large goes, oldest first.
 *
 * A step deletes one thing: some chunks of one block, a profile, a run that has nothing left. It is
 * a transaction of its own, so points are never behind more than one of them. Pages that become
 * free are used again; the file only gets shorter by `sonde gc`, which has the time. */
#include <sys/stat.h>

#include "base/array.h"
#include "base/log.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum { STEP_CHUNKS = 100, VACUUM_PAGES = 64 };
#define SLACK 20 /* of the size limit, one part is left free: deleting comes after writing */
#define SERIES_MARGIN_MS (2 * 3600000ll)

int store_do(struct sonde_store *s, const char *sql, int64_t a, int64_t b, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK) {
        return store_failed(s, s->db, err);
    }
    const int params = sqlite3_bind_parameter_count(st);
    if (params > 0) sqlite3_bind_int64(st, 1, a);
    if (params > 1) sqlite3_bind_int64(st, 2, b);
    const int rc = store_step(s, st, err);
    sqlite3_finalize(st);
    return rc;
}

int store_delete_block(struct sonde_store *s, int64_t block, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    const int64_t from = block << STORE_SERIES_BITS, to = (block + 1) << STORE_SERIES_BITS;
    int rc = store_do(s, "DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE id >= ?1"
                      " AND id < ?2 LIMIT 100)", from, to, err);
    if (rc || sqlite3_changes(s->db) >= STEP_CHUNKS) return rc ? rc : 1;
    return store_do(s, "DELETE FROM blocks WHERE id = ?1", block, 0, err);
}

int store_delete_rows(struct sonde_store *s, const char *sql, int64_t arg, struct sonde_err *err)
{
    const int rc = store_do(s, sql, arg, 0, err);
    return rc ? rc : sqlite3_changes(s->db) > 0;
}

static int delete_block_step(struct sonde_store *s, int64_t block, struct sonde_err *err)
{
    const int rc = store_delete_block(s, block, err);
    return rc < 0 ? rc : 1;
}

/* What is not in blocks; 1 = a step was made. */
static int rows_by_age(struct sonde_store *s, int64_t before_ms, struct sonde_err *err)
{
    static const char *const old[] = {
        "DELETE FROM gaps WHERE to_ms < ?1",
        "DELETE FROM spans WHERE id IN (SELECT id FROM spans WHERE to_ms < ?1 LIMIT 100)",
        "DELETE FROM requests WHERE id IN (SELECT id FROM requests WHERE to_ms < ?1 LIMIT 100)",
        "DELETE FROM findings WHERE id IN (SELECT id FROM findings WHERE time_ms < ?1 LIMIT 100)",
        "DELETE FROM heaps WHERE profile IN (SELECT id FROM profiles WHERE end_ms < ?1)",
        "DELETE FROM profiles WHERE id IN (SELECT id FROM profiles WHERE end_ms < ?1 LIMIT 1)",
    };
    int rc = 0;
    for (size_t i = 0; i < SONDE_COUNT(old) && !rc; i++) {
        rc = store_delete_rows(s, old[i], before_ms, err);
    }
    return rc;
}

/* ---- A clock that is wrong ------------------------------------------------------------------- */

#define DAY_MS 86400000ll
#define HOUR_MS 3600000ll

/* A roll-up names the whole hour, six hours or day that it is cut to, whatever part of that it has
 * points of. So of blocks, raw ones and hours are asked; longer ones only where a limit of size has
 * left no others of that time. */
#define FINEST_BEFORE "(SELECT min(tier) FROM blocks WHERE from_ms < ?1)"
#define ASKED "tier <= max(1, coalesce(" FINEST_BEFORE ", 1))"
#define LONG_ACROSS                                                                              \
    "SELECT count(*) FROM blocks WHERE from_ms < ?1 AND to_ms >= ?1 AND tier > 1"                \
    " AND " FINEST_BEFORE " > 1"

/* Of all that is kept, the newest from before ?1, and the oldest that is not. A block of points
 * that lies across is both its ends. */
#define NEWEST_BEFORE                                                                            \
    "SELECT max(coalesce((SELECT max(to_ms) FROM blocks WHERE to_ms < ?1 AND " ASKED "), 0),"    \
    " coalesce((SELECT max(from_ms) FROM blocks WHERE from_ms < ?1 AND to_ms >= ?1"              \
    " AND " ASKED "), 0),"                                                                       \
    " coalesce((SELECT max(time_ms) FROM head WHERE time_ms < ?1), 0),"                          \
    " coalesce((SELECT max(end_ms) FROM profiles WHERE end_ms < ?1), 0),"                        \
    " coalesce((SELECT max(to_ms) FROM spans WHERE to_ms < ?1), 0),"                             \
    " coalesce((SELECT max(to_ms) FROM requests WHERE to_ms < ?1), 0))"
#define NEVER "9223372036854775807"
#define OLDEST_SINCE                                                                             \
    "SELECT min(coalesce((SELECT min(from_ms) FROM blocks WHERE from_ms >= ?1 AND " ASKED "), "  \
    NEVER "), coalesce((SELECT min(to_ms) FROM blocks WHERE from_ms < ?1 AND to_ms >= ?1"        \
    " AND " ASKED "), " NEVER "),"                                                               \
    " coalesce((SELECT min(time_ms) FROM head WHERE time_ms >= ?1), " NEVER "),"                 \
    " coalesce((SELECT min(end_ms) FROM profiles WHERE end_ms >= ?1), " NEVER "),"               \
    " coalesce((SELECT min(to_ms) FROM spans WHERE to_ms >= ?1), " NEVER "),"                    \
    " coalesce((SELECT min(to_ms) FROM requests WHERE to_ms >= ?1), " NEVER "))"

/* A clock that is set to another year makes everything too old at once. So nothing goes for its age
 * while the clock is far beyond what had been recorded: not before there is a day (or as long as it
 * is to be kept, if that is shorter) without such a leap behind us. Nothing has to be remembered
 * for that: the leap is in what is stored. *ahead_ms: how far it is, 0 = not. */
static int clock_ahead(struct sonde_store *s, int64_t now_ms, uint64_t age_s, int64_t *ahead_ms,
                       struct sonde_err *err)
{
    const int64_t age_ms = age_s > (uint64_t)(DAY_MS / 1000) ? DAY_MS : (int64_t)age_s * 1000;
    const int64_t leap_ms = age_ms / 4 > HOUR_MS ? age_ms / 4 : HOUR_MS;
    int64_t across = 0, before = 0, after = 0;
    *ahead_ms = 0;
    int rc = store_number(s, s->db, LONG_ACROSS, now_ms - age_ms, &across, err);
    if (!rc) rc = store_number(s, s->db, NEWEST_BEFORE, now_ms - age_ms, &before, err);
    if (!rc) rc = store_number(s, s->db, OLDEST_SINCE, now_ms - age_ms, &after, err);
    if (rc || across || !before) return rc;
    if (after > now_ms) after = now_ms;
    if (after - before > leap_ms) *ahead_ms = after - before;
    return 0;
}

/* Told once. */
static void ahead_set(struct sonde_store *s, int64_t ahead_ms)
{
    sonde_lock(&s->lock);
    const int first = ahead_ms && !(s->stats.clock_ahead_s > 0);
    s->stats.clock_ahead_s = (double)ahead_ms * 1e-3;
    sonde_unlock(&s->lock);
    if (first) {
        sonde_log(SONDE_LOG_WARN, "the clock is %.1f days beyond what was recorded before in store "
                  "'%s': nothing is deleted for its age until it has been so for a day. If the "
                  "clock is right: sonde gc --force", (double)ahead_ms / (double)DAY_MS, s->path);
    }
}

/* 1: there is something, but it stays. */
static int age_is_held(struct sonde_store *s, const struct sonde_store_retention *keep,
                       int64_t now_ms, uint64_t age_s, struct sonde_err *err)
{
    int64_t ahead_ms = 0;
    const int rc = keep->force ? 0 : clock_ahead(s, now_ms, age_s, &ahead_ms, err);
    if (rc) return rc;
    ahead_set(s, ahead_ms);
    return ahead_ms != 0;
}

/* 1 = something is older than before_ms. */
static int any_older(struct sonde_store *s, int64_t before_ms, struct sonde_err *err)
{
    int64_t found = 0;
    const int rc = store_number(s, s->db,
        "SELECT EXISTS (SELECT 1 FROM blocks WHERE to_ms < ?1)"
        " OR EXISTS (SELECT 1 FROM gaps WHERE to_ms < ?1)"
        " OR EXISTS (SELECT 1 FROM spans WHERE to_ms < ?1)"
        " OR EXISTS (SELECT 1 FROM requests WHERE to_ms < ?1)"
        " OR EXISTS (SELECT 1 FROM findings WHERE time_ms < ?1)"
        " OR EXISTS (SELECT 1 FROM profiles WHERE end_ms < ?1)", before_ms, &found, err);
    return rc ? rc : found != 0;
}

/* 1 = a step was made, 0 = nothing is too old, or it stays. */
static int by_age(struct sonde_store *s, const struct sonde_store_retention *keep,
                  struct sonde_err *err)
{
    const int64_t now_ms = store_now_ms();
    int64_t block = 0;
    int rc = 0;
    if (keep->age_s) {
        const int64_t before = now_ms - (int64_t)keep->age_s * 1000;
        rc = any_older(s, before, err);
        if (rc > 0) rc = age_is_held(s, keep, now_ms, keep->age_s, err);
        if (rc) return rc < 0 ? rc : 0;
        rc = store_number(s, s->db, "SELECT id FROM blocks WHERE to_ms < ?1 LIMIT 1", before,
                          &block, err);
        if (!rc && block) return delete_block_step(s, block, err);
        if (!rc) rc = rows_by_age(s, before, err);
        if (rc) return rc;
    }
    if (!rc && keep->raw_s) {
        /* Only what is rolled up. */
        rc = store_number(s, s->db,
                          "SELECT b.id FROM blocks AS b WHERE b.tier = 0 AND b.to_ms < ?1 AND"
                          " b.to_ms <= (SELECT max(r.to_ms) FROM blocks AS r WHERE r.tier = 1 AND"
                          " r.run = b.run) LIMIT 1",
                          now_ms - (int64_t)keep->raw_s * 1000, &block, err);
        if (!rc && block) rc = age_is_held(s, keep, now_ms, keep->raw_s, err);
        if (rc) return rc < 0 ? rc : 0;
        if (block) return delete_block_step(s, block, err);
    }
    if (!rc) ahead_set(s, 0);
    return rc;
}

static int store_gc_by_count(struct sonde_store *s, const struct sonde_store_retention *keep,
                             struct sonde_err *err)
{
    int64_t count = 0;
    if (!keep->profiles) return 0;
    /* What is taken all the time has a limit of its own (history.h). */
    int rc = store_number(s, s->db, "SELECT count(*) FROM profiles WHERE kind NOT GLOB"
                          " 'continuous*'", 0, &count, err);
    if (rc || (uint64_t)count <= keep->profiles) return rc;
    rc = store_number(s, s->db, "SELECT min(id) FROM profiles WHERE kind NOT GLOB 'continuous*'", 0,
                      &count, err);
    if (!rc) rc = store_profile_forget(s, count, err);
    return rc ? rc : 1;
}

static int used_bytes(struct sonde_store *s, int64_t *out, struct sonde_err *err)
{
    int64_t pages = 0, unused = 0, size = 0;
    int rc = store_number(s, s->db, "PRAGMA page_count", 0, &pages, err);
    if (!rc) rc = store_number(s, s->db, "PRAGMA freelist_count", 0, &unused, err);
    if (!rc) rc = store_number(s, s->db, "PRAGMA page_size", 0, &size, err);
    *out = (pages - unused) * size;
    return rc;
}

int store_is_over(struct sonde_store *s, const struct sonde_store_retention *keep,
                  struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int64_t used = 0;
    if (!keep->bytes) return 0;
    const int rc = used_bytes(s, &used, err);
    return rc ? rc : used >= (int64_t)(keep->bytes - keep->bytes / SLACK);
}

/* What may go for its size, and when its oldest is from. */
enum { OLD_BLOCK, OLD_PROFILE, OLD_SPANS, OLD_REQUESTS, OLD_KINDS };

/* The oldest goes first, whatever it is; of blocks the finest, since the others say the same of its
 * time in fewer bytes. */
static int store_gc_by_size(struct sonde_store *s, const struct sonde_store_retention *keep,
                            struct sonde_err *err)
{
    static const char *const oldest[OLD_KINDS] = {
        "SELECT id FROM blocks ORDER BY tier, to_ms LIMIT 1",
        "SELECT id FROM profiles ORDER BY end_ms, id LIMIT 1",
        "SELECT id FROM spans ORDER BY to_ms LIMIT 1",
        "SELECT id FROM requests ORDER BY to_ms LIMIT 1",
    };
    static const char *const when[OLD_KINDS] = {
        "SELECT to_ms FROM blocks WHERE id = ?1", "SELECT end_ms FROM profiles WHERE id = ?1",
        "SELECT to_ms FROM spans WHERE id = ?1", "SELECT to_ms FROM requests WHERE id = ?1",
    };
    int64_t id[OLD_KINDS] = { 0 }, time_ms[OLD_KINDS] = { 0 };
    int first = -1;
    int rc = store_is_over(s, keep, err);
    if (rc <= 0) return rc;
    rc = 0;
    for (int i = 0; i < OLD_KINDS && !rc; i++) {
        rc = store_number(s, s->db, oldest[i], 0, &id[i], err);
        if (!rc) rc = store_number(s, s->db, when[i], id[i], &time_ms[i], err);
        if (id[i] && (first < 0 || time_ms[i] <= time_ms[first])) first = i;
    }
    if (rc || first < 0) return rc;
    if (first == OLD_BLOCK) return delete_block_step(s, id[first], err);
    if (first == OLD_PROFILE) {
        rc = store_profile_forget(s, id[first], err);
        return rc ? rc : 1;
    }
    return store_delete_rows(s, first == OLD_SPANS
                                    ? "DELETE FROM spans WHERE id IN (SELECT id FROM spans"
                                      " ORDER BY to_ms LIMIT 100)"
                                    : "DELETE FROM requests WHERE id IN (SELECT id FROM requests"
                                      " ORDER BY to_ms LIMIT 100)", 0, err);
}

/* Names, some at a time in the order of their numbers; those of nothing that is left go. 1 = some
 * went; gc_series is 0 when all were looked at. */
static int store_gc_names(struct sonde_store *s, int64_t before_ms, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, "SELECT id, seen_ms FROM series WHERE id > ?1 ORDER BY id"
                           " LIMIT 500", -1, &st, NULL) != SQLITE_OK) {
        return store_failed(s, s->db, err);
    }
    sqlite3_bind_int64(st, 1, s->gc_series);
    int64_t dead[STEP_CHUNKS];
    size_t count = 0;
    int got = SQLITE_DONE, gone = 0;
    const uint32_t after = s->gc_series;
    while (count < STEP_CHUNKS && (got = sqlite3_step(st)) == SQLITE_ROW) {
        s->gc_series = (uint32_t)sqlite3_column_int64(st, 0);
        if (sqlite3_column_int64(st, 1) < before_ms) dead[count++] = s->gc_series;
    }
    int rc = got == SQLITE_ROW || got == SQLITE_DONE ? 0 : store_failed(s, s->db, err);
    sqlite3_finalize(st);
    if (s->gc_series == after) s->gc_series = 0; /* from the start, another time */
    for (size_t i = 0; i < count && !rc; i++) {
        int in_use = 0;
        sonde_lock(&s->lock);
        for (uint32_t k = 0; k < s->slot_count && !in_use; k++) {
            in_use = s->slots[k].used && s->slots[k].spec.id == dead[i];
        }
        sonde_unlock(&s->lock);
        if (in_use) continue;
        rc = store_do(s, "DELETE FROM series WHERE id = ?1", dead[i], 0, err);
        gone = 1;
    }
    return rc ? rc : gone;
}

/* Runs and names of which nothing is left. */
static int store_gc_leftovers(struct sonde_store *s, struct sonde_err *err)
{
    uint32_t live = 0;
    int rc = store_live_run(s, &live, err);
    if (rc) return rc;
    rc = store_do(s, "DELETE FROM runs WHERE id IN (SELECT id FROM runs AS r WHERE id <> ?1"
                  " AND NOT EXISTS (SELECT 1 FROM blocks WHERE run = r.id)"
                  " AND NOT EXISTS (SELECT 1 FROM profiles WHERE run = r.id)"
                  " AND NOT EXISTS (SELECT 1 FROM spans WHERE run = r.id)"
                  " AND NOT EXISTS (SELECT 1 FROM requests WHERE run = r.id)"
                  " AND NOT EXISTS (SELECT 1 FROM findings WHERE run = r.id)"
                  " AND NOT EXISTS (SELECT 1 FROM head WHERE run = r.id) LIMIT 10)", live, 0, err);
    if (rc || sqlite3_changes(s->db)) return rc ? rc : 1;
    rc = store_do(s, "DELETE FROM modules WHERE run NOT IN (SELECT id FROM runs)", 0, 0, err);
    if (rc) return rc;
    int64_t oldest = 0;
    rc = store_number(s, s->db, "SELECT coalesce((SELECT min(from_ms) FROM blocks), 0)", 0, &oldest,
                      err);
    /* An agent knows its series by number: only it may take a number away. */
    if (rc || !oldest || (live && !s->thread.started)) {
        s->gc_series = 0;
        return rc;
    }
    return store_gc_names(s, oldest - SERIES_MARGIN_MS, err);
}

int store_gc_step(struct sonde_store *s, const struct sonde_store_retention *keep,
                  struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int rc = store_run_sql(s, SQL_BEGIN, err);
    int more = rc;
    if (!rc) more = by_age(s, keep, err);
    if (!more) more = store_gc_by_count(s, keep, err);
    if (!more) more = store_gc_by_size(s, keep, err);
    if (!more) more = store_gc_leftovers(s, err);
    if (!rc && more >= 0) rc = store_run_sql(s, SQL_COMMIT, err);
    store_rollback(s);
    return rc ? rc : more;
}

static uint64_t file_bytes(const struct sonde_store *s)
{
    struct stat st;
    return stat(s->path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

int store_gc(struct sonde_store *s, const struct sonde_store_retention *keep, uint64_t *freed,
             struct sonde_err *err)
{
    if (!s->db) return sonde_err_set(err, SONDE_EACCES, "store '%s' is open for reading", s->path);
    const uint64_t before = file_bytes(s);
    int more = 1, names_left = 1;
    while (more > 0 || (!more && names_left)) { /* the writer gets its turn between steps */
        sonde_lock(&s->db_lock);
        more = store_gc_step(s, keep ? keep : &s->o.keep, err);
        names_left = s->gc_series != 0;
        sonde_unlock(&s->db_lock);
    }
    int64_t unused = INT64_MAX;
    int rc = more;
    while (!rc && unused > 0) {
        sonde_lock(&s->db_lock);
        const int64_t last = unused;
        rc = store_exec(s, "PRAGMA incremental_vacuum(64)", err);
        if (!rc) rc = store_number(s, s->db, "PRAGMA freelist_count", 0, &unused, err);
        sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
        sonde_unlock(&s->db_lock);
        if (unused >= last) break; /* a reader holds on to it, or the file cannot get shorter */
    }
    const uint64_t after = file_bytes(s);
    if (freed) *freed = before > after ? before - after : 0;
    return rc;
}
