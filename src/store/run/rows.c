/* rows.c - see rows.h. */
#include "store/run/rows.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "sonde/sonde.h"

/* ---- Writing --------------------------------------------------------------------------------- */

static const char *sql_type(const struct run_field *f)
{
    switch (f->type) {
    case RUN_REAL: return "REAL";
    case RUN_CHARS: return "TEXT";
    case RUN_OWN: return f->ops->sql_type;
    default: return "INTEGER";
    }
}

static int create_table(sqlite3 *db, const struct run_table *t)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    sonde_buf_printf(&b, "CREATE TABLE %s(id INTEGER PRIMARY KEY", t->name);
    for (size_t i = 0; i < t->count; i++) {
        sonde_buf_printf(&b, ", %s %s NOT NULL", t->fields[i].name, sql_type(&t->fields[i]));
    }
    sonde_buf_puts(&b, ")");
    const int rc = b.error ? SQLITE_NOMEM : sqlite3_exec(db, b.data, NULL, NULL, NULL);
    sonde_buf_release(&b);
    return rc;
}

static int prepare_insert(sqlite3 *db, const struct run_table *t, sqlite3_stmt **out)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    sonde_buf_printf(&b, "INSERT INTO %s VALUES(?1", t->name);
    for (size_t i = 0; i < t->count; i++) sonde_buf_printf(&b, ", ?%zu", i + 2);
    sonde_buf_puts(&b, ")");
    *out = NULL;
    const int rc = b.error ? SQLITE_NOMEM : sqlite3_prepare_v2(db, b.data, -1, out, NULL);
    sonde_buf_release(&b);
    return rc;
}

static int bind_field(const struct sonde_profile *p, sqlite3_stmt *s, int column,
                      const struct run_field *f, const char *row)
{
    const void *at = row + f->at;
    double real;
    switch (f->type) {
    case RUN_INT: return sqlite3_bind_int(s, column, *(const int *)at);
    case RUN_U64: return sqlite3_bind_int64(s, column, *(const sqlite3_int64 *)at);
    case RUN_REAL:
        memcpy(&real, at, sizeof(real));
        return sqlite3_bind_double(s, column, isfinite(real) ? real : 0);
    case RUN_TEXT:
        return sqlite3_bind_int64(s, column,
                                  sonde_profile_find_string(p, *(const char *const *)at));
    case RUN_CHARS: return sqlite3_bind_text(s, column, at, -1, SQLITE_STATIC);
    case RUN_OWN: return f->ops->bind(p, s, column, row, f->at);
    case RUN_U32:
    case RUN_STACK:
    case RUN_THREAD:
    case RUN_STRING: break;
    }
    return sqlite3_bind_int64(s, column, *(const uint32_t *)at);
}

int run_rows_write(sqlite3 *db, const struct sonde_profile *p, const struct run_table *t,
                   const void *rows, size_t count)
{
    assert(rows || !count);
    sqlite3_stmt *s;
    int rc = create_table(db, t);
    if (rc != SQLITE_OK) return rc;
    rc = prepare_insert(db, t, &s);
    for (size_t i = 0; rc == SQLITE_OK && i < count; i++) {
        const char *row = (const char *)rows + i * t->row_bytes;
        sqlite3_bind_int64(s, 1, (sqlite3_int64)i + 1);
        for (size_t k = 0; rc == SQLITE_OK && k < t->count; k++) {
            rc = bind_field(p, s, (int)k + 2, &t->fields[k], row);
        }
        if (rc != SQLITE_OK) break;
        rc = sqlite3_step(s) == SQLITE_DONE ? SQLITE_OK : sqlite3_errcode(db);
        sqlite3_reset(s);
    }
    sqlite3_finalize(s);
    return rc;
}

/* ---- Reading --------------------------------------------------------------------------------- */

struct run_rows_reading {
    const struct run_table *t;
    int column[RUN_FIELDS_MAX];   /* of each field; -1 = the file has none */
    char *row;
    int (*take)(struct run_reader *r, void *row, void *arg);
    void *arg;
};

static int get_chars(struct run_reader *r, sqlite3_stmt *s, int column, char *out, size_t size)
{
    const char *text = sqlite3_column_type(s, column) == SQLITE_TEXT
                           ? (const char *)sqlite3_column_text(s, column) : NULL;
    const size_t len = text ? strlen(text) : 0;
    if (!text || len >= size) {
        return run_bad(r, "%s is not a text of at most %zu bytes", sqlite3_column_name(s, column),
                       size - 1);
    }
    memcpy(out, text, len + 1);
    return 0;
}

static int run_rows_get_field(struct run_reader *r, sqlite3_stmt *s, int column,
                              const struct run_field *f, char *row)
{
    void *at = row + f->at;
    uint64_t number = 0;
    uint32_t id = 0;
    int rc = 0;
    switch (f->type) {
    case RUN_INT:
        rc = run_get_number(r, s, column, INT32_MAX, &number);
        *(int *)at = (int)number;
        return rc;
    case RUN_U32: return run_get_u32(r, s, column, at);
    case RUN_U64: return run_get_u64(r, s, column, at);
    case RUN_REAL: return run_get_real(r, s, column, at);
    case RUN_STACK: return run_get_ref(r, s, column, &r->stacks, at);
    case RUN_THREAD: return run_get_ref(r, s, column, &r->threads, at);
    case RUN_STRING: return run_get_ref(r, s, column, &r->strings, at);
    case RUN_TEXT:
        rc = run_get_ref(r, s, column, &r->strings, &id);
        *(const char **)at = sonde_profile_str(r->p, id);
        return rc;
    case RUN_CHARS: return get_chars(r, s, column, at, f->size);
    case RUN_OWN: return f->ops->get(r, s, column, row, f->at);
    }
    return SONDE_EFORMAT;
}

static void find_columns(struct run_rows_reading *g, sqlite3_stmt *s)
{
    for (size_t i = 0; i < g->t->count; i++) {
        g->column[i] = -1;
        for (int c = 0; c < sqlite3_column_count(s); c++) {
            if (!strcmp(sqlite3_column_name(s, c), g->t->fields[i].name)) g->column[i] = c;
        }
    }
}

static int run_row_read(struct run_reader *r, sqlite3_stmt *s)
{
    struct run_rows_reading *g = r->rows;
    if (r->row == 1) find_columns(g, s);
    memset(g->row, 0, g->t->row_bytes);
    for (size_t i = 0; i < g->t->count; i++) {
        const struct run_field *f = &g->t->fields[i];
        if (f->type == RUN_TEXT) *(const char **)(void *)(g->row + f->at) = "";
    }
    for (size_t i = 0; i < g->t->count; i++) {
        if (g->column[i] < 0) continue;
        const int rc = run_rows_get_field(r, s, g->column[i], &g->t->fields[i], g->row);
        if (rc) return rc;
    }
    return g->take(r, g->row, g->arg);
}

int run_rows_read(struct run_reader *r, const struct run_table *t, void *row,
                  int (*take)(struct run_reader *r, void *row, void *arg), void *arg)
{
    char sql[64];
    struct run_rows_reading g = { .t = t, .row = row, .take = take, .arg = arg };
    assert(t->count <= RUN_FIELDS_MAX);
    r->rows = &g;
    snprintf(sql, sizeof(sql), "SELECT * FROM %s ORDER BY id", t->name);
    const int rc = run_each(r, t->name, sql, run_row_read);
    r->rows = NULL;
    return rc;
}

int run_has_table(struct run_reader *r, const char *name)
{
    sqlite3_stmt *s;
    if (sqlite3_prepare_v2(r->db, "SELECT 1 FROM sqlite_master WHERE type='table' AND name=?1", -1,
                           &s, NULL) != SQLITE_OK) {
        return 0;
    }
    sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    const int found = sqlite3_step(s) == SQLITE_ROW;
    sqlite3_finalize(s);
    return found;
}
