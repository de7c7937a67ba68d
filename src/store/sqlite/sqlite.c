/* sqlite.c - the embedded store: opening, closing, errors. See private.h for the file.
 *
 * WAL with synchronous=FULL: a commit is on the disk when it returns, and readers do not wait. One
 * agent writes a store: it holds a lock on FILE.lock. Checkpoints are made by hand, often and
 * small, so that none takes long. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/errno.h"
#include "base/log.h"
#include "base/strip.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum {
    VALUE_MAX = 256 << 20,   /* bytes of a text or blob: profiles are the largest */
    BUSY_MS = 5000,
    MEMORY_MAX = 32 << 20,
    SERIES_MAX = 100000,
    BLOCK_TICKS = 600,
};

static const char *const statements[SQL_COUNT] = {
    [SQL_BEGIN] = "BEGIN IMMEDIATE",
    [SQL_COMMIT] = "COMMIT",
    [SQL_ROLLBACK] = "ROLLBACK",
    [SQL_FIND_SERIES] = "SELECT id, 1 FROM main.series WHERE name = ?1 AND labels = ?2 AND type = "
                        "?3 AND scale = ?4 UNION ALL SELECT id, 0 FROM temp.unsaved WHERE name = ?1"
                        " AND labels = ?2 AND type = ?3 AND scale = ?4",
    [SQL_NUMBER_SERIES] = "INSERT INTO temp.unsaved VALUES(?1, ?2, ?3, ?4, ?5)",
    [SQL_FORGET_UNSAVED] = "DELETE FROM temp.unsaved",
    [SQL_ADD_SERIES] = "INSERT OR REPLACE INTO series(id, name, labels, type, scale, kind, unit,"
                       " source, program, pid, help, seen_ms) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7,"
                       " ?8, ?9, ?10, ?11, ?12)",
    [SQL_SEEN_SERIES] = "UPDATE series SET seen_ms = max(seen_ms, ?2) WHERE id = ?1",
    [SQL_ADD_HEAD] = "INSERT OR REPLACE INTO head VALUES(?1, ?2, ?3, ?4)",
    [SQL_DELETE_HEAD] = "DELETE FROM head WHERE id >= ?1 AND id < ?2",
    [SQL_ADD_CHUNK] = "INSERT OR REPLACE INTO chunks VALUES(?1, ?2)",
    [SQL_ADD_BLOCK] = "INSERT OR REPLACE INTO blocks VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [SQL_RUN_SEEN] = "UPDATE runs SET end_ms = max(end_ms, ?2), ticks = ticks + ?3 WHERE id = ?1",
    [SQL_ADD_GAP] = "INSERT INTO gaps VALUES(?1, ?2, ?3, ?4)",
    [SQL_ADD_SPANS] = "INSERT OR REPLACE INTO spans VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [SQL_ADD_REQUESTS] = "INSERT OR REPLACE INTO requests VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [SQL_RUN_EVENTS] = "UPDATE runs SET spans = spans + ?2, requests = requests + ?3 WHERE id = ?1",
};

int64_t store_now_ms(void) { return (int64_t)(sonde_clock_ns(CLOCK_REALTIME) / 1000000); }

double store_clock_s(void) { return sonde_clock_s(CLOCK_MONOTONIC); }

double store_cpu_s(void) { return sonde_clock_s(CLOCK_THREAD_CPUTIME_ID); }

/* ---- Errors ---------------------------------------------------------------------------------- */

int store_is_damaged(const struct sonde_store *s)
{
    return __atomic_load_n(&s->damaged, __ATOMIC_RELAXED);
}

int store_failed(struct sonde_store *s, sqlite3 *db, struct sonde_err *err)
{
    const int code = (db ? sqlite3_errcode(db) : SQLITE_NOMEM) & 0xff;
    const char *why = db ? sqlite3_errmsg(db) : "out of memory";
    if (store_is_damage(code)) {
        __atomic_store_n(&s->damaged, 1, __ATOMIC_RELAXED);
        return sonde_err_set(err, SONDE_EFORMAT, "store '%s' is damaged: %s", s->path, why);
    }
    if (code == SQLITE_NOMEM) return sonde_err_memory(err);
    if (code == SQLITE_FULL) {
        return sonde_err_set(err, SONDE_ENOSPC, "store '%s' cannot be written: no space left on "
                             "the device", s->path);
    }
    if (code == SQLITE_READONLY) {
        return sonde_err_set(err, SONDE_EACCES, "store '%s' cannot be written: it or its file "
                             "system is read-only", s->path);
    }
    const int code_of_ours = code == SQLITE_BUSY ? SONDE_EBUSY : SONDE_EIO;
    return sonde_err_set(err, code_of_ours, "store '%s': %s", s->path, why);
}

void store_rollback(struct sonde_store *s)
{
    sonde_assert_held(&s->db_lock);
    if (!sqlite3_get_autocommit(s->db)) sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

int store_exec(struct sonde_store *s, const char *sql, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0
                                                                    : store_failed(s, s->db, err);
}

sqlite3_stmt *store_sql(struct sonde_store *s, enum store_sql which)
{
    sonde_assert_held(&s->db_lock);
    assert(which < SQL_COUNT);
    if (!s->sql[which]) {
        sqlite3_prepare_v3(s->db, statements[which], -1, SQLITE_PREPARE_PERSISTENT,
                           &s->sql[which], NULL);
    }
    return s->sql[which];
}

int store_step(struct sonde_store *s, sqlite3_stmt *st, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    const int got = st ? sqlite3_step(st) : SQLITE_ERROR;
    const int rc = got == SQLITE_DONE || got == SQLITE_ROW ? 0 : store_failed(s, s->db, err);
    if (st) {
        sqlite3_reset(st);
        sqlite3_clear_bindings(st);
    }
    return rc;
}

int store_run_sql(struct sonde_store *s, enum store_sql which, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    return store_step(s, store_sql(s, which), err);
}

int store_number(struct sonde_store *s, sqlite3 *db, const char *sql, int64_t arg, int64_t *out,
                 struct sonde_err *err)
{
    if (db == s->db) sonde_assert_held(&s->db_lock);
    sqlite3_stmt *st = NULL;
    *out = 0;
    if (sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK) return store_failed(s, db, err);
    if (sqlite3_bind_parameter_count(st)) sqlite3_bind_int64(st, 1, arg);
    const int got = sqlite3_step(st);
    if (got == SQLITE_ROW) *out = sqlite3_column_int64(st, 0);
    const int rc = got == SQLITE_ROW || got == SQLITE_DONE ? 0 : store_failed(s, db, err);
    sqlite3_finalize(st);
    return rc;
}

/* ---- Connections ----------------------------------------------------------------------------- */

int store_connect(struct sonde_store *s, int flags, sqlite3 **out, struct sonde_err *err)
{
    sqlite3 *db = NULL;
    struct stat st;
    /* SQLite would wait for somebody to open the other end of a FIFO. */
    if (stat(s->path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        return sonde_err_set(err, SONDE_EINVAL, "store '%s' cannot be opened: it is not a file",
                             s->path);
    }
    if (sqlite3_open_v2(s->uri ? s->uri : s->path, &db, flags | SQLITE_OPEN_EXRESCODE, NULL) !=
        SQLITE_OK) {
        const int code = db ? sqlite3_errcode(db) & 0xff : SQLITE_NOMEM;
        const int system = db ? sqlite3_system_errno(db) : 0;
        sqlite3_close_v2(db);
        if (code == SQLITE_NOMEM) return sonde_err_memory(err);
        return sonde_err_set(err, system == EACCES || system == EROFS ? SONDE_EACCES
                                  : system == ENOENT ? SONDE_ENOENT
                                  : system == EISDIR ? SONDE_EINVAL : SONDE_EIO,
                             "store '%s' cannot be opened: %s", s->path,
                             system ? strerror(system) : "not a file, or no access");
    }
    /* A store may have been mailed: nothing in it is run as code. */
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_MAX);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_busy_timeout(db, BUSY_MS);
    *out = db;
    return 0;
}

void store_disconnect(struct sonde_store *s)
{
    store_rollup_release(s);
    for (size_t i = 0; i < SQL_COUNT; i++) {
        sqlite3_finalize(s->sql[i]);
        s->sql[i] = NULL;
    }
    sqlite3_close_v2(s->db);
    s->db = NULL;
}

/* ---- Setting up ------------------------------------------------------------------------------ */

int store_set_up(struct sonde_store *s, struct sonde_err *err)
{
    int rc = store_connect(s, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, &s->db, err);
    if (!rc) {
        rc = store_exec(s, "PRAGMA page_size=8192; PRAGMA auto_vacuum=INCREMENTAL;"
                        "PRAGMA cell_size_check=ON; PRAGMA mmap_size=0; PRAGMA cache_size=-2048;"
                        "PRAGMA temp_store=MEMORY", err);
    }
    if (!rc) rc = store_check_kind(s, s->db, &(int64_t){ 0 }, err);
    if (!rc) {
        rc = store_exec(s, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
                        "PRAGMA wal_autocheckpoint=0; PRAGMA journal_size_limit=4194304", err);
    }
    if (!rc && s->o.temporary) rc = store_exec(s, "PRAGMA synchronous=OFF", err);
    if (!rc) rc = store_migrate(s, err);
    if (!rc) s->version = STORE_VERSION;
    /* Numbers that were given to series while the disk could not be written. */
    if (!rc) {
        rc = store_exec(s, "CREATE TEMP TABLE unsaved(name, labels, type, scale, id,"
                        " PRIMARY KEY(name, labels, type, scale)) WITHOUT ROWID", err);
    }
    char what[256] = "";
    if (!rc && store_check_pages(s, 0, what, sizeof(what))) {
        __atomic_store_n(&s->damaged, 1, __ATOMIC_RELAXED);
        rc = sonde_err_set(err, SONDE_EFORMAT, "store '%s' is damaged: %s", s->path, what);
    }
    return rc;
}

int store_make_file(struct sonde_store *s, struct sonde_err *err)
{
    int rc = store_connect(s, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI, &s->db,
                           err);
    if (!rc) {
        rc = store_exec(s, "PRAGMA page_size=8192; PRAGMA auto_vacuum=INCREMENTAL;"
                        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF", err);
    }
    s->version = STORE_VERSION;
    return rc ? rc : store_migrate(s, err);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static int store_sqlite_take_lock(struct sonde_store *s, struct sonde_err *err)
{
    struct sonde_buf path;
    sonde_buf_init(&path, 1 << 16);
    sonde_buf_printf(&path, "%s.lock", s->path);
    if (path.error) return sonde_err_memory(err);
    int rc = 0;
    s->lock_fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (s->lock_fd < 0) {
        rc = sonde_err_set(err, sonde__from_errno(errno),
                           "store '%s' cannot be opened for writing: %s: %s", s->path, path.data,
                           strerror(errno));
    } else if (flock(s->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        char pid[32] = "";
        const ssize_t n = pread(s->lock_fd, pid, sizeof(pid) - 1, 0);
        pid[n > 0 ? n : 0] = '\0';
        close(s->lock_fd);
        s->lock_fd = -1;
        rc = sonde_err_set(err, SONDE_EBUSY, "store '%s' is written by another sonde (process %s): "
                           "end that one, or choose another file", s->path,
                           pid[0] ? pid : "unknown");
    } else {
        char pid[32];
        const int n = snprintf(pid, sizeof(pid), "%ld", (long)getpid());
        if (ftruncate(s->lock_fd, 0) != 0 || pwrite(s->lock_fd, pid, (size_t)n, 0) < 0) {
            /* A full disk: the lock holds all the same, only who has it is not told. */
        }
    }
    sonde_buf_release(&path);
    return rc;
}

int store_is_locked(struct sonde_store *s)
{
    struct sonde_buf path;
    sonde_buf_init(&path, 1 << 16);
    sonde_buf_printf(&path, "%s.lock", s->path);
    const int fd = path.error ? -1 : open(path.data, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    sonde_buf_release(&path);
    if (fd < 0) return 0;
    const int locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
    close(fd);
    return locked;
}

static int store_sqlite_add_run(struct sonde_store *s, uint32_t id, struct sonde_err *err)
{
    struct utsname u;
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, "INSERT INTO runs VALUES(?1, ?2, '', ?3, '" SONDE_VERSION
                           "', ?4, ?5, ?5, 0, 0, 0, 0)", -1, &st, NULL)) {
        return store_failed(s, s->db, err);
    }
    sqlite3_bind_int64(st, 1, id);
    sqlite3_bind_text(st, 2, s->o.run_name ? s->o.run_name : "", -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 3, !sonde_strip_on() && uname(&u) == 0 ? u.nodename : "", -1,
                      SQLITE_STATIC);
    sqlite3_bind_text(st, 4, s->o.config ? s->o.config : "", -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 5, store_now_ms());
    const int rc = store_step(s, st, err);
    sqlite3_finalize(st);
    return rc;
}

int store_begin_blocks(struct sonde_store *s, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int64_t block = 0;
    int rc = store_number(s, s->db, "SELECT max(id) FROM blocks", 0, &block, err);
    if (rc) return rc;
    s->next_block = (uint32_t)block + 1;
    s->roll_wanted = 1;
    /* What a crash left of a block that was not finished. */
    return store_do(s, "DELETE FROM chunks WHERE id >= ?1",
                    (int64_t)s->next_block << STORE_SERIES_BITS, 0, err);
}

int store_begin_run(struct sonde_store *s, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int64_t run = 0, series = 0;
    int rc = store_number(s, s->db, "SELECT max(id) FROM runs", 0, &run, err);
    if (!rc) rc = store_number(s, s->db, "SELECT max(id) FROM series", 0, &series, err);
    if (!rc) rc = store_events_begin(s, err);
    if (!rc) rc = store_begin_blocks(s, err);
    if (rc) return rc;
    assert(s->next_block);
    sonde_lock(&s->read_lock);
    s->run = (uint32_t)run + 1;
    sonde_unlock(&s->read_lock);
    if (s->next_series <= series) s->next_series = (uint32_t)series + 1;
    return store_sqlite_add_run(s, s->run, err);
}

int store_next_run(struct sonde_store *s, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int64_t last = 0;
    int rc = store_number(s, s->db, "SELECT max(id) FROM runs", 0, &last, err);
    if (!rc) rc = store_sqlite_add_run(s, (uint32_t)last + 1, err);
    if (rc) return rc;
    sonde_lock(&s->read_lock);
    sonde_lock(&s->lock);
    store_close_block(s);
    s->run = (uint32_t)last + 1;
    sonde_unlock(&s->lock);
    sonde_unlock(&s->read_lock);
    s->roll_wanted = 1; /* the one before has ended */
    return 0;
}

/* What no sonde has written (there is no lock beside it) and is no database is somebody's file, not
 * a damaged store: it must not be put aside. */
static int check_file(struct sonde_store *s, struct sonde_err *err)
{
    static const char magic[16] = "SQLite format 3"; /* with its end */
    char head[sizeof(magic)] = "";
    struct sonde_buf lock;
    sonde_buf_init(&lock, 1 << 16);
    sonde_buf_printf(&lock, "%s.lock", s->path);
    const int known = lock.error || access(lock.data, F_OK) == 0;
    sonde_buf_release(&lock);
    const int fd = known ? -1 : open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return 0; /* or what is wrong with it is told by who opens it */
    const ssize_t n = read(fd, head, sizeof(head));
    close(fd);
    if (n <= 0 || (n == sizeof(head) && memcmp(head, magic, sizeof(head)) == 0)) return 0;
    return sonde_err_set(err, SONDE_EINVAL,
                         "'%s' is not a store that sonde made: choose another file", s->path);
}

/* For writing: with a run of its own, or only to change what is there. */
static int open_for_writing(struct sonde_store *s, struct sonde_err *err)
{
    int rc = check_file(s, err);
    if (!rc) rc = store_sqlite_take_lock(s, err);
    if (rc == SONDE_EBUSY && s->o.maintain) rc = 0; /* SQLite's own locks do for that */
    if (rc) return rc;
    rc = store_set_up(s, err);
    if (rc == SONDE_EFORMAT && store_is_damaged(s) && !s->o.maintain && !s->o.temporary) {
        rc = store_start_over(s, err);
    }
    if (!rc && !s->read) rc = store_connect(s, SQLITE_OPEN_READONLY, &s->read, err);
    if (rc || s->o.maintain) return rc;
    rc = store_recover(s, s->db, err);
    if (!rc) rc = store_begin_run(s, err);
    if (rc && store_is_damaged(s) && !s->o.temporary) {
        rc = store_start_over(s, err);
        if (!rc) rc = store_begin_run(s, err);
    }
    if (!rc) store_known_load(s);
    return rc ? rc : store_writer_start(s, err);
}

static void store_sqlite_destroy(struct sonde_store *s)
{
    sqlite3_close_v2(s->read); /* first: the last to close removes the log, if it may write */
    store_disconnect(s);
    if (s->lock_fd >= 0) close(s->lock_fd);
    for (struct store_pending *p = s->pending, *next; p; p = next) {
        next = p->next;
        sonde__free(p);
    }
    for (struct store_row *r = s->rows, *next; r; r = next) {
        next = r->next;
        sonde__free(r);
    }
    for (struct store_gap *g = s->gaps, *next; g; g = next) {
        next = g->next;
        sonde__free(g);
    }
    for (struct block *b = s->sealing, *next; b; b = next) {
        next = b->next;
        block_destroy(b);
    }
    block_destroy(s->open);
    store_events_release(s);
    store_known_release(s);
    for (uint32_t i = 0; i < s->slot_count; i++) {
        sonde__free((void *)(uintptr_t)s->slots[i].spec.name);
    }
    sonde__free(s->slots);
    sonde__free((void *)(uintptr_t)s->o.run_name);
    sonde__free((void *)(uintptr_t)s->o.config);
    sonde__free(s->path);
    sonde__free(s->uri);
    sonde_lock_destroy(&s->db_lock);
    sonde_lock_destroy(&s->read_lock);
    sonde_lock_destroy(&s->lock);
    sonde_cond_destroy(&s->wake);
    sonde_cond_destroy(&s->done);
    sonde__free(s);
}

static int store_open(const struct sonde_store_options *o, struct sonde_store **out,
                      struct sonde_err *err)
{
    struct sonde_store *s = sonde__calloc(1, sizeof(*s));
    if (!s) return sonde_err_memory(err);
    s->lock_fd = -1;
    s->o = *o;
    s->o.run_name = o->run_name ? sonde__strdup(o->run_name) : NULL;
    s->o.config = o->config ? sonde__strdup(o->config) : NULL;
    s->path = sonde__strdup(o->path);
    if (!s->o.series_max) s->o.series_max = SERIES_MAX;
    if (!s->o.block_ticks || s->o.block_ticks > BLOCK_TICKS_MAX) s->o.block_ticks = BLOCK_TICKS;
    if (!s->o.memory_max) s->o.memory_max = MEMORY_MAX;
    s->pending_end = &s->pending;
    s->rows_end = &s->rows;
    store_events_init(s);
    sonde_lock_init(&s->db_lock, SONDE_RANK_STORE_DB);
    sonde_lock_init(&s->read_lock, SONDE_RANK_STORE_READ);
    sonde_lock_init(&s->lock, SONDE_RANK_STORE);
    sonde_cond_init(&s->wake);
    sonde_cond_init(&s->done);
    int rc = SONDE_ENOMEM;
    if (!s->path || (o->run_name && !s->o.run_name) || (o->config && !s->o.config)) {
        sonde_err_set(err, rc, "out of memory");
    } else {
        sonde_lock(&s->db_lock);
        rc = o->read_only ? store_look(s, err) : open_for_writing(s, err);
        sonde_unlock(&s->db_lock);
    }
    if (rc) {
        store_sqlite_destroy(s);
        return rc;
    }
    *out = s;
    return 0;
}

static void store_close(struct sonde_store *s)
{
    if (!s) return;
    store_writer_stop(s);
    if (s->db && s->lock_fd >= 0 && !s->o.temporary) {
        sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    store_sqlite_destroy(s);
}

static void store_stats(struct sonde_store *s, struct sonde_store_stats *out)
{
    sonde_lock(&s->lock);
    *out = s->stats;
    sonde_unlock(&s->lock);
}

const struct sonde_store_ops sonde_store_sqlite = {
    .name = "sqlite",
    .summary = "one file on this machine",
    .open = store_open,
    .close = store_close,
    .define = store_define,
    .append = store_append,
    .span_add = store_span_add,
    .request_add = store_request_add,
    .flush = store_flush,
    .query = store_query,
    .stats = store_stats,
    .spans = store_spans,
    .requests = store_requests,
    .finding_put = store_finding_put,
    .finding_delete = store_finding_delete,
    .findings = store_findings,
    .runs = store_runs,
    .run_set = store_run_set,
    .run_delete = store_run_delete,
    .run_merge = store_run_merge,
    .run_copy = store_run_copy,
    .modules = store_modules,
    .heaps = store_heaps,
    .profile_put = store_profile_put,
    .profile_replace = store_profile_replace,
    .profiles = store_profiles,
    .profile_get = store_profile_get,
    .profile_delete = store_profile_delete,
    .gc = store_gc,
};
