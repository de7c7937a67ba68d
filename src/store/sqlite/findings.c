/* findings.c - what an analysis concluded, a row each. */
#include <math.h>
#include <string.h>

#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum { TEXT_MAX = 16 << 10, FINDINGS_MAX = 100000 };

static int store_findings_check(const struct sonde_store_finding *f, struct sonde_err *err)
{
    if (!f->kind || !f->kind[0] || !store_name_ok(f->kind)) {
        return sonde_err_set(err, SONDE_EINVAL, "a finding's kind '%.100s' is no name: up to %d "
                             "letters, digits and . _ -", f->kind ? f->kind : "", STORE_NAME_MAX);
    }
    if (strlen(f->subject ? f->subject : "") > TEXT_MAX ||
        strlen(f->text ? f->text : "") > TEXT_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "a finding's text of over %d bytes", TEXT_MAX);
    }
    if (!(f->time_s >= 0 && f->time_s < 1e12) || (unsigned)f->severity > SONDE_SEVERITY_CRITICAL) {
        return sonde_err_set(err, SONDE_EINVAL, "a finding's time or severity cannot be");
    }
    return 0;
}

int store_finding_put(struct sonde_store *s, const struct sonde_store_finding *f, uint64_t *id,
                      struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = store_findings_check(f, err);
    if (rc) return rc;
    sonde_lock(&s->db_lock);
    int64_t run = s->run;
    rc = store_writable(s, err);
    if (!rc && !run) rc = store_number(s, s->db, "SELECT max(id) FROM runs", 0, &run, err);
    if (!rc && sqlite3_prepare_v2(s->db, "INSERT INTO findings(run, time_ms, kind, subject,"
                                  " severity, value, unit, text) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7,"
                                  " ?8)", -1, &st, NULL) != SQLITE_OK) {
        rc = store_failed(s, s->db, err);
    }
    if (!rc) {
        sqlite3_bind_int64(st, 1, run);
        sqlite3_bind_int64(st, 2, store_milliseconds(f->time_s));
        sqlite3_bind_text(st, 3, f->kind, -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 4, f->subject ? f->subject : "", -1, SQLITE_STATIC);
        sqlite3_bind_int(st, 5, (int)f->severity);
        if (isfinite(f->value)) sqlite3_bind_double(st, 6, f->value);
        sqlite3_bind_text(st, 7, f->unit ? f->unit : "", -1, SQLITE_STATIC);
        sqlite3_bind_text(st, 8, f->text ? f->text : "", -1, SQLITE_STATIC);
        rc = store_step(s, st, err);
        if (!rc && id) *id = (uint64_t)sqlite3_last_insert_rowid(s->db);
    }
    sqlite3_finalize(st);
    sonde_unlock(&s->db_lock);
    return rc;
}

int store_finding_delete(struct sonde_store *s, uint64_t id, const char *kind,
                         struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    sonde_lock(&s->db_lock);
    int rc = store_writable(s, err);
    if (!rc && sqlite3_prepare_v2(s->db, "DELETE FROM findings WHERE id = ?1 AND kind = ?2", -1,
                                  &st, NULL) != SQLITE_OK) {
        rc = store_failed(s, s->db, err);
    }
    if (!rc) {
        sqlite3_bind_int64(st, 1, (sqlite3_int64)id);
        sqlite3_bind_text(st, 2, kind, -1, SQLITE_STATIC);
        rc = store_step(s, st, err);
        if (!rc && !sqlite3_changes(s->db)) {
            rc = sonde_err_set(err, SONDE_ENOENT, "there is no %.40s %llu", kind,
                               (unsigned long long)id);
        }
    }
    sqlite3_finalize(st);
    sonde_unlock(&s->db_lock);
    return rc;
}

int store_findings(struct sonde_store *s, const struct sonde_store_range *q,
                   int (*row)(const struct sonde_store_finding *f, void *arg), void *arg,
                   struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    int rc = 0, got = SQLITE_DONE, enough = 0;
    if (s->version < 2) return 0;
    sonde_lock(&s->read_lock);
    if (!s->read || sqlite3_prepare_v2(s->read, "SELECT id, run, time_ms, kind, subject, severity,"
                                       " value, unit, text FROM findings WHERE time_ms >= ?1 AND"
                                       " time_ms <= ?2 AND (?3 = 0 OR run = ?3)"
                                       " AND (?5 IS NULL OR kind = ?5)"
                                       " ORDER BY time_ms DESC, id DESC LIMIT ?4", -1, &st,
                                       NULL) != SQLITE_OK) {
        rc = store_failed(s, s->read, err);
    }
    if (!rc) {
        sqlite3_bind_int64(st, 1, store_milliseconds(q->from_s));
        sqlite3_bind_int64(st, 2, q->to_s > 0 ? store_milliseconds(q->to_s) : INT64_MAX);
        sqlite3_bind_int64(st, 3, q->run);
        sqlite3_bind_int64(st, 4, q->limit ? (sqlite3_int64)q->limit : FINDINGS_MAX);
        sqlite3_bind_text(st, 5, q->kind, -1, SQLITE_STATIC); /* NULL stays NULL */
    }
    while (!rc && !enough && (got = sqlite3_step(st)) == SQLITE_ROW) {
        const int severity = sqlite3_column_int(st, 5);
        const struct sonde_store_finding f = {
            .id = (uint64_t)sqlite3_column_int64(st, 0),
            .run = (uint32_t)sqlite3_column_int64(st, 1),
            .time_s = (double)sqlite3_column_int64(st, 2) * 1e-3,
            .kind = store_text(st, 3),
            .subject = store_text(st, 4),
            .severity = severity > 0 && severity <= SONDE_SEVERITY_CRITICAL
                            ? (enum sonde_severity)severity : SONDE_SEVERITY_INFO,
            .value = sqlite3_column_type(st, 6) == SQLITE_NULL ? NAN : sqlite3_column_double(st, 6),
            .unit = store_text(st, 7),
            .text = store_text(st, 8),
        };
        enough = row(&f, arg);
    }
    if (!rc && got != SQLITE_ROW && got != SQLITE_DONE) rc = store_failed(s, s->read, err);
    sqlite3_finalize(st);
    sonde_unlock(&s->read_lock);
    return rc;
}
