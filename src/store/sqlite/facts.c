/* facts.c - what a profile says of its run without being unpacked: the files it was in, by
 * build id, and the sums of its heap. Both are read from the run file (store/run/private.h), which
 * is a database itself, when it is put into the store. What is no run file says nothing. */
#include <string.h>

#include "sonde/sonde.h"
#include "store/run/private.h"
#include "store/sqlite/private.h"

enum { MODULES_MAX = 4096 };

/* The run file as a database; NULL = it is none. */
static sqlite3 *open_bytes(const void *data, size_t len)
{
    sqlite3 *db = NULL;
    if (len < sizeof(SONDE_RUN_MAGIC) || memcmp(data, SONDE_RUN_MAGIC, sizeof(SONDE_RUN_MAGIC))) {
        return NULL;
    }
    if (sqlite3_open_v2(":memory:", &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL) != SQLITE_OK ||
        sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL) != SQLITE_OK ||
        sqlite3_deserialize(db, "main", (unsigned char *)(uintptr_t)data, (sqlite3_int64)len,
                            (sqlite3_int64)len, SQLITE_DESERIALIZE_READONLY) != SQLITE_OK) {
        sqlite3_close_v2(db);
        return NULL;
    }
    return db;
}

static int store_facts_put_modules(struct sonde_store *s, sqlite3 *from, int64_t run,
                                   struct sonde_err *err)
{
    sqlite3_stmt *in = NULL, *out = NULL;
    int rc = 0;
    if (sqlite3_prepare_v2(from, "SELECT DISTINCT p.text, b.text FROM modules AS m JOIN "
                           "strings AS p ON p.id = m.path JOIN strings AS b ON b.id = m.build_id"
                           " WHERE b.text <> '' LIMIT ?1", -1, &in, NULL) != SQLITE_OK) {
        return 0;
    }
    sqlite3_bind_int(in, 1, MODULES_MAX);
    if (sqlite3_prepare_v2(s->db, "INSERT OR IGNORE INTO modules VALUES(?1, ?2, ?3)", -1, &out,
                           NULL) != SQLITE_OK) {
        rc = store_failed(s, s->db, err);
    }
    while (!rc && sqlite3_step(in) == SQLITE_ROW) {
        sqlite3_bind_int64(out, 1, run);
        sqlite3_bind_text(out, 2, store_text(in, 0), -1, SQLITE_TRANSIENT);
        sqlite3_bind_text(out, 3, store_text(in, 1), -1, SQLITE_TRANSIENT);
        rc = store_step(s, out, err);
    }
    sqlite3_finalize(in);
    sqlite3_finalize(out);
    return rc;
}

static int store_facts_put_heap(struct sonde_store *s, sqlite3 *from, int64_t run, uint64_t profile,
                                const struct sonde_store_profile *p, struct sonde_err *err)
{
    sqlite3_stmt *in = NULL, *out = NULL;
    if (sqlite3_prepare_v2(from, "SELECT full, live_bytes, live_count, alloc_bytes, alloc_count,"
                           " peak_bytes, rss_bytes, (SELECT total(lost_bytes) FROM heap_sites"
                           " WHERE lost_bytes > 0) FROM heap LIMIT 1", -1, &in,
                           NULL) != SQLITE_OK) {
        return 0;
    }
    int rc = 0;
    if (sqlite3_step(in) == SQLITE_ROW) {
        if (sqlite3_prepare_v2(s->db, "INSERT INTO heaps VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9,"
                               " ?10, ?11, ?12)", -1, &out, NULL) != SQLITE_OK) {
            rc = store_failed(s, s->db, err);
        } else {
            sqlite3_bind_int64(out, 1, (sqlite3_int64)profile);
            sqlite3_bind_int64(out, 2, run);
            sqlite3_bind_int64(out, 3, store_milliseconds(p->end_s));
            sqlite3_bind_text(out, 4, p->program ? p->program : "", -1, SQLITE_STATIC);
            for (int i = 0; i < 8; i++) sqlite3_bind_value(out, 5 + i, sqlite3_column_value(in, i));
            rc = store_step(s, out, err);
        }
    }
    sqlite3_finalize(in);
    sqlite3_finalize(out);
    return rc;
}

int store_facts_put(struct sonde_store *s, const struct sonde_store_profile *p, const void *data,
                    size_t len, uint64_t profile, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int64_t run = 0;
    sqlite3 *from = open_bytes(data, len);
    if (!from) return 0;
    int rc = store_number(s, s->db, "SELECT run FROM profiles WHERE id = ?1", (int64_t)profile,
                          &run, err);
    if (!rc) rc = store_facts_put_modules(s, from, run, err);
    if (!rc) rc = store_facts_put_heap(s, from, run, profile, p, err);
    sqlite3_close_v2(from);
    return rc;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* row() for each row of a query with the run's number. */
static int store_facts_each_row(struct sonde_store *s, const char *sql, uint32_t run,
                                void (*row)(sqlite3_stmt *st, void *arg), void *arg,
                                struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = 0, got = SQLITE_DONE;
    if (s->version < 2) return 0;
    sonde_lock(&s->read_lock);
    if (!s->read || sqlite3_prepare_v2(s->read, sql, -1, &st, NULL) != SQLITE_OK) {
        rc = store_failed(s, s->read, err);
    }
    if (!rc) sqlite3_bind_int64(st, 1, run);
    while (!rc && (got = sqlite3_step(st)) == SQLITE_ROW) row(st, arg);
    if (!rc && got != SQLITE_DONE) rc = store_failed(s, s->read, err);
    sqlite3_finalize(st);
    sonde_unlock(&s->read_lock);
    return rc;
}

struct modules_to { void (*row)(const char *path, const char *build_id, void *arg); void *arg; };

static void show_module(sqlite3_stmt *st, void *arg)
{
    const struct modules_to *to = arg;
    to->row(store_text(st, 0), store_text(st, 1), to->arg);
}

int store_modules(struct sonde_store *s, uint32_t run,
                  void (*row)(const char *path, const char *build_id, void *arg), void *arg,
                  struct sonde_err *err)
{
    struct modules_to to = { row, arg };
    return store_facts_each_row(s,
                                "SELECT path, build_id FROM modules WHERE run = ?1 ORDER BY path",
                                run, show_module, &to, err);
}

struct heaps_to { void (*row)(const struct sonde_store_heap *h, void *arg); void *arg; };

static void show_heap(sqlite3_stmt *st, void *arg)
{
    const struct heaps_to *to = arg;
    const struct sonde_store_heap h = {
        .profile = (uint64_t)sqlite3_column_int64(st, 0),
        .time_s = (double)sqlite3_column_int64(st, 1) * 1e-3,
        .program = store_text(st, 2),
        .exact = sqlite3_column_int(st, 3) != 0,
        .live_bytes = sqlite3_column_double(st, 4),
        .live_count = sqlite3_column_double(st, 5),
        .alloc_bytes = sqlite3_column_double(st, 6),
        .alloc_count = sqlite3_column_double(st, 7),
        .peak_bytes = sqlite3_column_double(st, 8),
        .rss_bytes = sqlite3_column_double(st, 9),
        .lost_bytes = sqlite3_column_double(st, 10),
    };
    to->row(&h, to->arg);
}

int store_heaps(struct sonde_store *s, uint32_t run,
                void (*row)(const struct sonde_store_heap *h, void *arg), void *arg,
                struct sonde_err *err)
{
    struct heaps_to to = { row, arg };
    return store_facts_each_row(
        s,
        "SELECT profile, time_ms, program, exact, live_bytes, live_count,"
        " alloc_bytes, alloc_count, peak_bytes, rss_bytes, lost_bytes FROM heaps"
        " WHERE run = ?1 ORDER BY profile DESC",
        run, show_heap, &to, err);
}
