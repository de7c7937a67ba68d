/* value.c - values of a run file's rows, checked for type and range, and what is said of those
 * that are not as they must be. */
#include <assert.h>
#include <math.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "sonde/sonde.h"
#include "store/run/reader.h"

/* ---- Errors ---------------------------------------------------------------------------------- */

int run_no_memory(struct run_reader *r)
{
    return sonde_err_set(r->err, SONDE_ENOMEM, "'%s': it does not fit into memory (%zu MiB are "
                         "allowed)", r->name, r->p->bytes_max >> 20);
}

int run_bad(struct run_reader *r, const char *format, ...)
{
    assert(r->table); /* run_prepare() was before */
    char what[256];
    va_list ap;
    va_start(ap, format);
    vsnprintf(what, sizeof(what), format, ap);
    va_end(ap);
    return sonde_err_set(r->err, SONDE_EFORMAT, "'%s' is damaged: table %s, row %llu: %s",
                         r->name, r->table, (unsigned long long)r->row, what);
}

int run_database_failed(struct run_reader *r)
{
    const int code = sqlite3_errcode(r->db);
    if (code == SQLITE_NOMEM) return run_no_memory(r);
    return sonde_err_set(r->err, SONDE_EFORMAT, "'%s' is damaged: %s%s%s", r->name,
                         r->table ? r->table : "", r->table ? ": " : "", sqlite3_errmsg(r->db));
}

/* ---- Values ---------------------------------------------------------------------------------- */

int run_get_number(struct run_reader *r, sqlite3_stmt *s, int column, uint64_t max, uint64_t *out)
{
    if (sqlite3_column_type(s, column) != SQLITE_INTEGER) {
        return run_bad(r, "%s is not a number", sqlite3_column_name(s, column));
    }
    *out = (uint64_t)sqlite3_column_int64(s, column);
    if (*out <= max) return 0;
    return run_bad(r, "%s is %lld", sqlite3_column_name(s, column), (long long)*out);
}

int run_get_u32(struct run_reader *r, sqlite3_stmt *s, int column, uint32_t *out)
{
    uint64_t v = 0;
    const int rc = run_get_number(r, s, column, UINT32_MAX, &v);
    *out = (uint32_t)v;
    return rc;
}

int run_get_u64(struct run_reader *r, sqlite3_stmt *s, int column, uint64_t *out)
{
    return run_get_number(r, s, column, UINT64_MAX, out);
}

int run_get_real(struct run_reader *r, sqlite3_stmt *s, int column, double *out)
{
    const int type = sqlite3_column_type(s, column);
    *out = sqlite3_column_double(s, column);
    if ((type == SQLITE_FLOAT || type == SQLITE_INTEGER) && isfinite(*out)) return 0;
    return run_bad(r, "%s is not a number", sqlite3_column_name(s, column));
}

int run_get_ref(struct run_reader *r, sqlite3_stmt *s, int column, const struct run_map *m,
                uint32_t *out)
{
    uint64_t v = 0;
    const int rc = run_get_number(r, s, column, UINT32_MAX, &v);
    if (rc) return rc;
    if (v >= (m->count ? m->count : 1)) {
        return run_bad(r, "%s is %llu, and there is no such row", sqlite3_column_name(s, column),
                       (unsigned long long)v);
    }
    *out = v ? m->id[v] : 0;
    return 0;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

int run_prepare(struct run_reader *r, const char *table, const char *sql, sqlite3_stmt **out)
{
    r->table = table;
    r->row = 0;
    if (sqlite3_prepare_v2(r->db, sql, -1, out, NULL) == SQLITE_OK) return 0;
    return run_database_failed(r);
}

int run_each(struct run_reader *r, const char *table, const char *sql,
             int (*row)(struct run_reader *, sqlite3_stmt *))
{
    sqlite3_stmt *s;
    int rc = run_prepare(r, table, sql, &s);
    while (!rc) {
        const int got = sqlite3_step(s);
        if (got == SQLITE_DONE) break;
        r->row++;
        rc = got == SQLITE_ROW ? row(r, s) : run_database_failed(r);
    }
    sqlite3_finalize(s);
    return rc;
}

int run_get_text(struct run_reader *r, sqlite3_stmt *s, int column, uint32_t *out)
{
    if (sqlite3_column_type(s, column) != SQLITE_TEXT) {
        return run_bad(r, "%s is not a text", sqlite3_column_name(s, column));
    }
    const char *text = (const char *)sqlite3_column_text(s, column);
    if (!text) return run_no_memory(r);
    const size_t len = strnlen(text, (size_t)sqlite3_column_bytes(s, column));
    *out = sonde_profile_string(r->p, text, len);
    return len && !*out ? run_no_memory(r) : 0;
}
