/* profiles.c - profiles of a store: run files (run.h), deflated, a row each. */
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

#define PROFILE_BYTES_MAX ((uint64_t)1 << 30)

/* What is kept of a profile: packed, which is done before any lock is taken. */
struct packed {
    unsigned char *data;
    uLongf len;
    size_t plain_len;
};

static int store_profiles_pack(const struct sonde_store_profile *p, const void *data, size_t len,
                               struct packed *out, struct sonde_err *err)
{
    if (!store_name_ok(p->name)) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.100s' is no name: up to %d letters, digits and "
                             ". _ -", p->name, STORE_NAME_MAX);
    }
    if (len > PROFILE_BYTES_MAX) return sonde_err_set(err, SONDE_EFULL, "a profile of over 1 GiB");
    out->plain_len = len;
    out->len = compressBound((uLong)len);
    out->data = sonde__alloc(out->len);
    if (out->data && compress2(out->data, &out->len, data, (uLong)len, Z_DEFAULT_COMPRESSION) ==
                     Z_OK) {
        return 0;
    }
    sonde__free(out->data);
    return sonde_err_set(err, SONDE_ENOMEM, "no memory to store a profile");
}

static int store_profiles_insert(struct sonde_store *s, const struct sonde_store_profile *p,
                                 const struct packed *packed, uint64_t *id, struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    int64_t run = s->run;
    /* Without a run of its own it goes to the last one. */
    int rc = run ? 0 : store_number(s, s->db, "SELECT max(id) FROM runs", 0, &run, err);
    if (!rc && sqlite3_prepare_v2(s->db, "INSERT INTO profiles(run, name, kind, program, start_ms,"
                                  " end_ms, samples, bytes, plain_bytes, data) VALUES(?1, ?2, ?3,"
                                  " ?4, ?5, ?6, ?7, ?8, ?9, ?10)", -1, &st, NULL) != SQLITE_OK) {
        rc = store_failed(s, s->db, err);
    }
    if (rc) return rc;
    sqlite3_bind_int64(st, 1, run);
    sqlite3_bind_text(st, 2, p->name, -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 3, p->kind ? p->kind : "", -1, SQLITE_STATIC);
    sqlite3_bind_text(st, 4, p->program ? p->program : "", -1, SQLITE_STATIC);
    sqlite3_bind_int64(st, 5, (sqlite3_int64)(p->start_s * 1e3));
    sqlite3_bind_int64(st, 6, (sqlite3_int64)(p->end_s * 1e3));
    sqlite3_bind_int64(st, 7, (sqlite3_int64)p->samples);
    sqlite3_bind_int64(st, 8, (sqlite3_int64)packed->len);
    sqlite3_bind_int64(st, 9, (sqlite3_int64)packed->plain_len);
    sqlite3_bind_blob64(st, 10, packed->data, packed->len, SQLITE_STATIC);
    rc = store_step(s, st, err);
    if (!rc && id) *id = (uint64_t)sqlite3_last_insert_rowid(s->db);
    sqlite3_finalize(st);
    return rc;
}

int store_profile_forget(struct sonde_store *s, int64_t id, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    int rc = store_do(s, "DELETE FROM heaps WHERE profile = ?1", id, 0, err);
    if (!rc) rc = store_do(s, "DELETE FROM profiles WHERE id = ?1", id, 0, err);
    return rc;
}

int store_profile_replace(struct sonde_store *s, const struct sonde_store_profile *p,
                          const void *data, size_t len, const uint64_t *ids, size_t id_count,
                          uint64_t *id, struct sonde_err *err)
{
    struct packed packed;
    uint64_t made = 0;
    int rc = store_profiles_pack(p, data, len, &packed, err);
    if (rc) return rc;
    sonde_lock(&s->db_lock);
    rc = store_writable(s, err);
    if (!rc) rc = store_run_sql(s, SQL_BEGIN, err);
    if (!rc) {
        rc = store_profiles_insert(s, p, &packed, &made, err);
        if (!rc) rc = store_facts_put(s, p, data, len, made, err);
        for (size_t i = 0; i < id_count && !rc; i++) {
            /* Numbers are used again: one that was deleted meanwhile may be somebody else's now. */
            rc = store_do(s, "DELETE FROM profiles WHERE id = ?1 AND id <> ?2 AND kind = (SELECT"
                          " kind FROM profiles WHERE id = ?2)", (int64_t)ids[i],
                          (int64_t)made, err);
            if (!rc && sqlite3_changes(s->db)) {
                rc = store_do(s, "DELETE FROM heaps WHERE profile = ?1", (int64_t)ids[i], 0, err);
            }
        }
        if (!rc) rc = store_run_sql(s, SQL_COMMIT, err);
        store_rollback(s);
    }
    sonde_unlock(&s->db_lock);
    sonde__free(packed.data);
    if (!rc && id) *id = made;
    return rc;
}

int store_profile_put(struct sonde_store *s, const struct sonde_store_profile *p,
                      const void *data, size_t len, uint64_t *id, struct sonde_err *err)
{
    return store_profile_replace(s, p, data, len, NULL, 0, id, err);
}

int store_profiles(struct sonde_store *s, const char *name,
                   void (*row)(const struct sonde_store_profile *p, void *arg), void *arg,
                   struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    sonde_lock(&s->read_lock);
    int rc = 0, got = SQLITE_DONE;
    if (!s->read || sqlite3_prepare_v2(s->read, "SELECT id, run, name, kind, program, start_ms,"
                                       " end_ms, samples, bytes FROM profiles WHERE ?1 IS NULL OR"
                                       " name = ?1 ORDER BY id DESC", -1, &st, NULL) != SQLITE_OK) {
        rc = store_failed(s, s->read, err);
    }
    if (!rc && name) sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    while (!rc && (got = sqlite3_step(st)) == SQLITE_ROW) {
        const struct sonde_store_profile p = {
            .id = (uint64_t)sqlite3_column_int64(st, 0),
            .run = (uint32_t)sqlite3_column_int64(st, 1),
            .name = store_text(st, 2),
            .kind = store_text(st, 3),
            .program = store_text(st, 4),
            .start_s = (double)sqlite3_column_int64(st, 5) * 1e-3,
            .end_s = (double)sqlite3_column_int64(st, 6) * 1e-3,
            .samples = (uint64_t)sqlite3_column_int64(st, 7),
            .bytes = (size_t)sqlite3_column_int64(st, 8),
        };
        row(&p, arg);
    }
    if (!rc && got != SQLITE_DONE) rc = store_failed(s, s->read, err);
    sqlite3_finalize(st);
    sonde_unlock(&s->read_lock);
    return rc;
}

int store_profile_get(struct sonde_store *s, uint64_t id, struct sonde_buf *out,
                      struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    sonde_lock(&s->read_lock);
    int rc = 0;
    if (!s->read || sqlite3_prepare_v2(s->read, "SELECT plain_bytes, data FROM profiles WHERE"
                                       " id = ?1", -1, &st, NULL) != SQLITE_OK) {
        rc = store_failed(s, s->read, err);
    }
    if (!rc) {
        sqlite3_bind_int64(st, 1, (sqlite3_int64)id);
        const int got = sqlite3_step(st);
        const uint64_t len = got == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(st, 0) : 0;
        const void *packed = got == SQLITE_ROW ? sqlite3_column_blob(st, 1) : NULL;
        uLongf plain = len;
        char *room = NULL;
        if (got == SQLITE_DONE) {
            rc = sonde_err_set(err, SONDE_ENOENT, "there is no profile %llu",
                               (unsigned long long)id);
        } else if (got != SQLITE_ROW) {
            rc = store_failed(s, s->read, err);
        } else if (!packed || len > PROFILE_BYTES_MAX) {
            rc = sonde_err_set(err,
                               SONDE_EFORMAT, "store '%s' is damaged: table profiles, row %llu",
                               s->path, (unsigned long long)id);
        } else if (!(room = sonde_buf_reserve(out, len))) {
            rc = sonde_err_set(err, SONDE_ENOMEM, "no memory to read a profile");
        } else if (uncompress((Bytef *)room, &plain, packed,
                              (uLong)sqlite3_column_bytes(st, 1)) != Z_OK || plain != len) {
            rc = sonde_err_set(err, SONDE_EFORMAT, "store '%s' is damaged: profile %llu cannot be "
                               "unpacked", s->path, (unsigned long long)id);
        } else {
            out->len += len;
        }
    }
    sqlite3_finalize(st);
    sonde_unlock(&s->read_lock);
    return rc;
}

int store_profile_delete(struct sonde_store *s, uint64_t id, struct sonde_err *err)
{
    sonde_lock(&s->db_lock);
    int rc = store_writable(s, err);
    if (!rc) rc = store_profile_forget(s, (int64_t)id, err);
    if (!rc && !sqlite3_changes(s->db)) {
        rc = sonde_err_set(err, SONDE_ENOENT, "there is no profile %llu", (unsigned long long)id);
    }
    sonde_unlock(&s->db_lock);
    return rc;
}
