/* rows.h - tables of a run file that hold structures: a row for each, a column for each field
 * by its name. One list of fields serves writer and reader. A reader goes by names: a column that
 * it does not know is passed over, and one that an older file lacks reads as 0. */
#ifndef SONDE_STORE_RUN_ROWS_H
#define SONDE_STORE_RUN_ROWS_H

#include <stddef.h>

#include "base/array.h"
#include "store/run/reader.h"

enum run_field_type {
    RUN_INT, RUN_U32, RUN_U64, RUN_REAL,
    RUN_STACK, RUN_THREAD, RUN_STRING, /* ids of the profile's */
    RUN_TEXT,                          /* const char *, a string of the profile; stored as its id */
    RUN_CHARS,                         /* an array of `size` chars with a NUL */
    RUN_OWN,                           /* as ops say */
};

/* How a field of another kind is stored. row is the structure, column counts from 0. */
struct run_field_ops {
    const char *sql_type;
    /* SQLITE_OK, or SQLITE_NOMEM. */
    int (*bind)(const struct sonde_profile *p, sqlite3_stmt *s, int column, const void *row,
                size_t at);
    int (*get)(struct run_reader *r, sqlite3_stmt *s, int column, void *row, size_t at);
};

struct run_field {
    const char *name;
    size_t at, size;                   /* in the structure; size of CHARS */
    enum run_field_type type;
    const struct run_field_ops *ops;   /* RUN_OWN */
};

enum { RUN_FIELDS_MAX = 64 };

struct run_table {
    const char *name;
    const struct run_field *fields;
    size_t count, row_bytes;
};

#define RUN_TABLE(table, list, row)                                                            \
    { table, list, SONDE_COUNT(list), sizeof(row) }

/* Make the table and fill it; ids are 1, 2, 3 … SQLITE_OK, SQLITE_NOMEM, or an error that db knows
 * of. */
int run_rows_write(sqlite3 *db, const struct sonde_profile *p, const struct run_table *t,
                   const void *rows, size_t count);

/* take() for each row in the order of ids, with the structure filled in at row (row_bytes of the
 * caller's, zeroed before each). 0, or what failed; what ops allocated for the row at which it did
 * is the caller's, in row. */
int run_rows_read(struct run_reader *r, const struct run_table *t, void *row,
                  int (*take)(struct run_reader *r, void *row, void *arg), void *arg);

int run_has_table(struct run_reader *r, const char *name);

#endif
