/* reader.h - what the files that read a run file share. */
#ifndef SONDE_STORE_RUN_READER_H
#define SONDE_STORE_RUN_READER_H

#include <sqlite3.h>

#include "store/run/private.h"

/* The file's id -> the profile's. */
struct run_map {
    uint32_t *id;
    uint32_t count, cap; /* [0] is 0; the next row must have the id count */
};

struct run_reader {
    sqlite3 *db;
    struct sonde_profile *p;
    const char *name;   /* of the file */
    const char *table;  /* that is being read */
    uint64_t row;       /* of it, from 1 */
    struct sonde_err *err;
    struct run_map strings, modules, functions, locations, stacks, threads;
    uint32_t *depth;    /* of each stack, by the file's id */
    uint32_t depth_cap;
    struct sonde_profile_line *lines; /* of the location at hand */
    uint32_t lines_cap;
    struct sonde_profile_sample *chunk;
    struct run_rows_reading *rows; /* rows.c */
};

/* ---- value.c ----------------------------------------------------------------------------- */

/* SONDE_ENOMEM and SONDE_EFORMAT, with what is wrong with the row at hand. */
int run_no_memory(struct run_reader *r);
int run_bad(struct run_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

int run_database_failed(struct run_reader *r); /* what SQLite says */

/* Values of a row, checked; 0 or SONDE_EFORMAT. ref: of a row that was read before; 0 = none. real:
 * finite. text: interned. */
int run_get_number(struct run_reader *r, sqlite3_stmt *s, int column, uint64_t max, uint64_t *out);
int run_get_u32(struct run_reader *r, sqlite3_stmt *s, int column, uint32_t *out);
int run_get_u64(struct run_reader *r, sqlite3_stmt *s, int column, uint64_t *out);
int run_get_real(struct run_reader *r, sqlite3_stmt *s, int column, double *out);
int run_get_text(struct run_reader *r, sqlite3_stmt *s, int column, uint32_t *out);
int run_get_ref(struct run_reader *r, sqlite3_stmt *s, int column, const struct run_map *m,
                uint32_t *out);

int run_prepare(struct run_reader *r, const char *table, const char *sql, sqlite3_stmt **out);
/* row() for each row of a query. */
int run_each(struct run_reader *r, const char *table, const char *sql,
             int (*row)(struct run_reader *, sqlite3_stmt *));

/* ---- heap.c ------------------------------------------------------------------------------ */

/* Heap facts, if the file has them. After stacks, threads and strings. */
int run_heap_read(struct run_reader *r);
int run_gpu_read(struct run_reader *r);   /* gpu_rows.c */

/* ---- infer.c ----------------------------------------------------------------------------- */

/* Inference requests, if the file has them. After strings. */
int run_infer_read(struct run_reader *r);

/* ---- engine.c ---------------------------------------------------------------------------- */

/* Series of an engine's insides, if the file has them. After strings. */
int run_final_read(struct run_reader *r);

/* ---- track.c ----------------------------------------------------------------------------- */

/* Series over its time, if the file has them. After strings. */
int run_tracks_read(struct run_reader *r);

#endif
