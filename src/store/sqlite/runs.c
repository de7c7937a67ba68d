/* runs.c - runs of a store: listing, naming, deleting, merging, copying out. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum { TAGS_MAX_LEN = 1000 };

/* ---- Runs ------------------------------------------------------------------------------------ */

int store_live_run(struct sonde_store *s, uint32_t *out, struct sonde_err *err)
{
    int64_t last = 0;
    *out = s->thread.started ? s->run : 0;
    if (s->thread.started || s->lock_fd >= 0 || !store_is_locked(s)) return 0;
    const int rc = store_number(s, s->read ? s->read : s->db, "SELECT max(id) FROM runs", 0, &last,
                                err);
    *out = (uint32_t)last;
    return rc;
}

const char *store_text(sqlite3_stmt *st, int column)
{
    const char *text = (const char *)sqlite3_column_text(st, column);
    return text ? text : "";
}

int store_runs(struct sonde_store *s, void (*row)(const struct sonde_store_run *r, void *arg),
               void *arg, struct sonde_err *err)
{
    uint32_t live = 0;
    sqlite3_stmt *st = NULL;
    sonde_lock(&s->read_lock);
    int rc = s->read ? store_live_run(s, &live, err)
                     : sonde_err_set(err, SONDE_EIO, "store '%s' is being replaced", s->path);
#define RUN_COLUMNS                                                                              \
    "SELECT id, name, tags, host, version, config, start_ms,"                                     \
    " max(end_ms, coalesce((SELECT max(time_ms) FROM head WHERE run = r.id), 0)),"                \
    " ticks + (SELECT count(*) FROM head WHERE run = r.id),"                                      \
    " (SELECT count(*) FROM profiles WHERE run = r.id)"
    const char *sql = s->version < 2
                          ? RUN_COLUMNS ", 0, 0, 0 FROM runs AS r ORDER BY id DESC"
                          : RUN_COLUMNS ", spans, requests, (SELECT count(*) FROM findings WHERE"
                            " run = r.id) FROM runs AS r ORDER BY id DESC";
#undef RUN_COLUMNS
    if (!rc && sqlite3_prepare_v2(s->read, sql, -1, &st, NULL) != SQLITE_OK) {
        rc = store_failed(s, s->read, err);
    }
    int got = SQLITE_DONE;
    while (!rc && (got = sqlite3_step(st)) == SQLITE_ROW) {
        const struct sonde_store_run r = {
            .id = (uint32_t)sqlite3_column_int64(st, 0),
            .name = store_text(st, 1),
            .tags = store_text(st, 2),
            .host = store_text(st, 3),
            .version = store_text(st, 4),
            .config = store_text(st, 5),
            .start_s = (double)sqlite3_column_int64(st, 6) * 1e-3,
            .end_s = (double)sqlite3_column_int64(st, 7) * 1e-3,
            .ticks = (uint64_t)sqlite3_column_int64(st, 8),
            .profiles = (uint64_t)sqlite3_column_int64(st, 9),
            .spans = (uint64_t)sqlite3_column_int64(st, 10),
            .requests = (uint64_t)sqlite3_column_int64(st, 11),
            .findings = (uint64_t)sqlite3_column_int64(st, 12),
            .live = live && (uint32_t)sqlite3_column_int64(st, 0) == live,
        };
        row(&r, arg);
    }
    if (!rc && got != SQLITE_DONE) rc = store_failed(s, s->read, err);
    sqlite3_finalize(st);
    sonde_unlock(&s->read_lock);
    return rc;
}

int store_writable(struct sonde_store *s, struct sonde_err *err)
{
    return s->db ? 0 : sonde_err_set(err, SONDE_EACCES, "store '%s' is open for reading", s->path);
}

/* There is such a run, and, if it is to be taken away, nobody writes it. */
static int check_run(struct sonde_store *s, uint32_t id, int not_live, struct sonde_err *err)
{
    int64_t there = 0;
    uint32_t live = 0;
    int rc = store_writable(s, err);
    if (!rc) {
        rc = store_number(s, s->db, "SELECT count(*) FROM runs WHERE id = ?1", id, &there, err);
    }
    if (!rc && !there) rc = sonde_err_set(err, SONDE_ENOENT, "there is no run %u", id);
    if (!rc && not_live) rc = store_live_run(s, &live, err);
    if (!rc && not_live && live == id) {
        rc = sonde_err_set(err, SONDE_EBUSY, "run %u is being recorded: end that sonde first", id);
    }
    return rc;
}

int store_name_ok(const char *name)
{
    const size_t len = strlen(name);
    return len <= STORE_NAME_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

static int set_text(struct sonde_store *s, const char *sql, uint32_t id, const char *text,
                    struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK) {
        return store_failed(s, s->db, err);
    }
    sqlite3_bind_int64(st, 1, id);
    sqlite3_bind_text(st, 2, text, -1, SQLITE_STATIC);
    const int rc = store_step(s, st, err);
    sqlite3_finalize(st);
    return rc;
}

int store_run_set(struct sonde_store *s, uint32_t id, const char *name, const char *tags,
                  struct sonde_err *err)
{
    if (name && !store_name_ok(name)) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.100s' is no name: up to %d letters, digits and "
                             ". _ -", name, STORE_NAME_MAX);
    }
    if (tags && strlen(tags) > TAGS_MAX_LEN) {
        return sonde_err_set(err, SONDE_EINVAL, "tags: more than %d bytes", TAGS_MAX_LEN);
    }
    sonde_lock(&s->db_lock);
    int rc = check_run(s, id, 0, err);
    if (!rc && name) rc = set_text(s, "UPDATE runs SET name = ?2 WHERE id = ?1", id, name, err);
    if (!rc && tags) rc = set_text(s, "UPDATE runs SET tags = ?2 WHERE id = ?1", id, tags, err);
    sonde_unlock(&s->db_lock);
    return rc;
}

/* One block's chunks, some at a time; then what has no blocks. 1 = there is more. */
static int delete_step(struct sonde_store *s, uint32_t id, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int64_t block = 0;
    int rc = store_number(s, s->db, "SELECT id FROM blocks WHERE run = ?1 LIMIT 1", id,
                          &block, err);
    if (rc) return rc;
    if (block) {
        rc = store_delete_block(s, block, err);
        return rc < 0 ? rc : 1;
    }
    static const char *const many[] = {
        "DELETE FROM spans WHERE id IN (SELECT id FROM spans WHERE run = ?1 LIMIT 100)",
        "DELETE FROM requests WHERE id IN (SELECT id FROM requests WHERE run = ?1 LIMIT 100)",
        "DELETE FROM profiles WHERE id IN (SELECT id FROM profiles WHERE run = ?1 LIMIT 1)",
    };
    for (size_t i = 0; i < SONDE_COUNT(many); i++) {
        rc = store_delete_rows(s, many[i], id, err);
        if (rc) return rc;
    }
    static const char *const rest[] = {
        "DELETE FROM head WHERE run = ?1",
        "DELETE FROM findings WHERE run = ?1",
        "DELETE FROM modules WHERE run = ?1",
        "DELETE FROM heaps WHERE run = ?1",
        "DELETE FROM gaps WHERE run = ?1",
        "DELETE FROM runs WHERE id = ?1",
    };
    for (size_t i = 0; i < SONDE_COUNT(rest) && !rc; i++) {
        rc = store_do(s, rest[i], id, 0, err);
    }
    return rc;
}

int store_run_delete(struct sonde_store *s, uint32_t id, struct sonde_err *err)
{
    sonde_lock(&s->db_lock);
    int rc = check_run(s, id, 1, err);
    sonde_unlock(&s->db_lock);
    for (int more = 1; !rc && more;) { /* a writer gets its turn between steps */
        sonde_lock(&s->db_lock);
        more = delete_step(s, id, err);
        sonde_unlock(&s->db_lock);
        if (more < 0) rc = more;
    }
    return rc;
}

/* A little of what a run lacks in roll-ups; 1 = there is more. */
static int roll_step(struct sonde_store *s, uint32_t id, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int64_t rolled = 0;
    int rc = store_number(s, s->db, "SELECT rolled FROM runs WHERE id = ?1", id, &rolled, err);
    if (rc || rolled) return rc;
    if (!s->thread.started && s->lock_fd < 0) {
        return sonde_err_set(err, SONDE_EBUSY, "run %u is not rolled up yet: the sonde that writes "
                             "this store is about to; try again in a minute", id);
    }
    if (!s->thread.started && !s->next_block) {
        rc = store_recover(s, s->db, err);
        if (!rc) rc = store_begin_blocks(s, err);
    }
    s->roll_wanted = 1;
    if (!rc && !s->job.tier) rc = store_pack_step(s, err);
    if (!rc) rc = store_rollup_step(s, err); /* once all is packed */
    return rc < 0 ? rc : 1;
}

/* Roll-ups end where their run ends. In a run that is longer they would be taken for all there is
 * of that time, and points of the other run that are not rolled up would be found no more. */
static int roll_up(struct sonde_store *s, uint32_t id, struct sonde_err *err)
{
    int more;
    do { /* a writer gets its turn between steps */
        sonde_lock(&s->db_lock);
        more = check_run(s, id, 1, err);
        if (!more) more = roll_step(s, id, err);
        sonde_unlock(&s->db_lock);
    } while (more > 0);
    return more;
}

int store_run_merge(struct sonde_store *s, uint32_t to, uint32_t from, struct sonde_err *err)
{
    static const char *const moves[] = {
        "UPDATE blocks SET run = ?1 WHERE run = ?2",
        "UPDATE head SET run = ?1 WHERE run = ?2",
        "UPDATE gaps SET run = ?1 WHERE run = ?2",
        "UPDATE profiles SET run = ?1 WHERE run = ?2",
        "UPDATE spans SET run = ?1 WHERE run = ?2",
        "UPDATE requests SET run = ?1 WHERE run = ?2",
        "UPDATE findings SET run = ?1 WHERE run = ?2",
        "UPDATE OR IGNORE modules SET run = ?1 WHERE run = ?2",
        "DELETE FROM modules WHERE run = ?2 AND ?1 <> ?2",
        "UPDATE heaps SET run = ?1 WHERE run = ?2",
        "UPDATE runs SET rolled = 0, start_ms = min(start_ms, (SELECT start_ms FROM runs WHERE"
        " id = ?2)), end_ms = max(end_ms, (SELECT end_ms FROM runs WHERE id = ?2)),"
        " ticks = ticks + (SELECT ticks FROM runs WHERE id = ?2),"
        " spans = spans + (SELECT spans FROM runs WHERE id = ?2),"
        " requests = requests + (SELECT requests FROM runs WHERE id = ?2) WHERE id = ?1",
        "DELETE FROM runs WHERE id = ?2 AND ?1 <> ?2",
    };
    if (to == from) return sonde_err_set(err, SONDE_EINVAL, "run %u is one already", to);
    int rc = roll_up(s, to, err);
    if (!rc) rc = roll_up(s, from, err);
    if (rc) return rc;
    sonde_lock(&s->db_lock);
    rc = check_run(s, to, 1, err);
    if (!rc) rc = check_run(s, from, 1, err);
    if (!rc) rc = store_run_sql(s, SQL_BEGIN, err);
    if (!rc) {
        for (size_t i = 0; i < SONDE_COUNT(moves) && !rc; i++) {
            rc = store_do(s, moves[i], to, from, err);
        }
        if (!rc) rc = store_run_sql(s, SQL_COMMIT, err);
        store_rollback(s);
    }
    sonde_unlock(&s->db_lock);
    return rc;
}

/* ---- Copying out ----------------------------------------------------------------------------- */

static int attach_source(struct sonde_store *copy, const struct sonde_store *s,
                         struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(copy->db, "ATTACH ?1 AS src", -1, &st, NULL) != SQLITE_OK) {
        return store_failed(copy, copy->db, err);
    }
    sqlite3_bind_text(st, 1, s->uri ? s->uri : s->path, -1, SQLITE_STATIC);
    const int rc = store_step(copy, st, err);
    sqlite3_finalize(st);
    return rc;
}

/* version: of the file that is copied from, which may be one that cannot be changed. */
static int store_runs_copy_rows(struct sonde_store *copy, uint32_t id, int version,
                                struct sonde_err *err)
{
    static const char *const copies[] = {
        "INSERT INTO main.runs(id, name, tags, host, version, config, start_ms, end_ms, ticks,"
        " rolled) SELECT id, name, tags, host, version, config, start_ms, end_ms, ticks, rolled"
        " FROM src.runs WHERE id = ?1",
        "INSERT INTO main.head SELECT * FROM src.head WHERE run = ?1",
        "INSERT INTO main.gaps SELECT * FROM src.gaps WHERE run = ?1",
        "INSERT INTO main.profiles SELECT * FROM src.profiles WHERE run = ?1",
        ("INSERT INTO main.chunks SELECT c.id, c.data FROM src.blocks AS b JOIN src.chunks AS c"
         " ON c.id >= b.id << 24 AND c.id < (b.id + 1) << 24 WHERE b.run = ?1 ORDER BY c.id"),
        "INSERT INTO main.blocks SELECT * FROM src.blocks WHERE run = ?1",
        /* A row of head does not say which series it has; without one, chunks do. */
        ("INSERT INTO main.series SELECT * FROM src.series WHERE EXISTS (SELECT 1 FROM main.head)"
         " OR id IN (SELECT id & 0xffffff FROM main.chunks)"),
    };
    static const char *const since_2[] = {
        ("UPDATE main.runs SET (spans, requests) = (SELECT spans, requests FROM src.runs AS r"
         " WHERE r.id = ?1)"),
        "INSERT INTO main.spans SELECT * FROM src.spans WHERE run = ?1",
        "INSERT INTO main.requests SELECT * FROM src.requests WHERE run = ?1",
        "INSERT INTO main.findings SELECT * FROM src.findings WHERE run = ?1",
        "INSERT INTO main.modules SELECT * FROM src.modules WHERE run = ?1",
        "INSERT INTO main.heaps SELECT * FROM src.heaps WHERE run = ?1",
    };
    int rc = store_exec(copy, "BEGIN", err);
    for (size_t i = 0; i < SONDE_COUNT(copies) && !rc; i++) {
        rc = store_do(copy, copies[i], id, 0, err);
    }
    for (size_t i = 0; i < SONDE_COUNT(since_2) && !rc && version >= 2; i++) {
        rc = store_do(copy, since_2[i], id, 0, err);
    }
    return rc ? rc : store_exec(copy, "COMMIT", err);
}

int store_run_copy(struct sonde_store *s, uint32_t id, const char *path, struct sonde_err *err)
{
    int64_t there = 0;
    sonde_lock(&s->read_lock);
    int rc = store_number(s, s->read, "SELECT count(*) FROM runs WHERE id = ?1", id, &there, err);
    sonde_unlock(&s->read_lock);
    if (rc) return rc;
    if (!there) return sonde_err_set(err, SONDE_ENOENT, "there is no run %u", id);
    if (access(path, F_OK) == 0) {
        return sonde_err_set(err, SONDE_EEXIST, "'%s' is there already: choose another name", path);
    }
    struct sonde_file_temp temp;
    rc = sonde_file_temp_create(&temp, path, err);
    if (rc) return rc;
    struct sonde_store copy = { .path = temp.path, .lock_fd = -1 };
    sonde_lock_init(&copy.db_lock, SONDE_RANK_STORE_DB); /* nobody else's; what writes wants it */
    sonde_lock(&copy.db_lock);
    rc = store_make_file(&copy, err);
    if (!rc) rc = attach_source(&copy, s, err);
    if (!rc) rc = store_runs_copy_rows(&copy, id, s->version, err);
    store_disconnect(&copy);
    sonde_unlock(&copy.db_lock);
    sonde_lock_destroy(&copy.db_lock);
    if (!rc) rc = sonde_file_temp_commit(&temp, err);
    sonde_file_temp_release(&temp);
    return rc;
}
