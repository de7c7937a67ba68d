/* private.h - the run file, and what its writer and reader share.
 *
 * An SQLite database with application_id "SOND" and user_version = the version below. Ids are
 * those of struct sonde_profile: rows 1, 2, 3 …, 0 = none, and a row refers only to rows of tables
 * before it (a stack also to earlier stacks), so one pass reads it. 64-bit numbers without a sign
 * (addresses, trace ids) are stored as SQLite's signed ones with the same bits.
 *
 *   meta       key, value           program, command, host, rate, … : see write.c
 *   strings    id, text
 *   modules    id, path, build_id, start, end, offset, flags
 *   functions  id, name, file, start_line, module
 *   locations  id, module, address
 *   lines      location, place, function, line      place 0 is the innermost
 *   stacks     id, parent, location
 *   threads    id, pid, tid, name
 *   spans      id, thread, name, start_ns, end_ns, trace_hi, trace_lo, span_id, parent_id, outcome
 *   parts      span, request, tokens_in, tokens_out   whose tokens a batch was about
 *   attrs      span, key, type, value     what the program said of a span; NULL is NaN
 *   samples    seq, kind, thread, count, first_ns, data   a chunk: see below
 *   heap, heap_…            facts of a heap profile, if it is one: see heap.c
 *   gpu, gpu_…              facts of GPUs, if one was used: see gpu_rows.c
 *   inference, inference_…  inference requests and models, if there were any: see infer.c
 *   track_ticks, tracks     series over the time of the recording: see track.c
 *
 * Samples are packed, up to SONDE_RUN_CHUNK of one kind and thread in a row, in the order they
 * were taken. data is zlib's deflate of five columns, one after the other, `count` varints each:
 * time (zigzag difference to the one before, the first to first_ns), stack, weight, count (zigzag
 * differences, the first to 0), flags. Columns rather than records: neighbours are alike, which is
 * what deflate lives on. That is 3 to 6 bytes a sample where a row of a table would be 30.
 *
 * A new version: raise SONDE_RUN_VERSION, add its reader to the table in read.c, keep the old
 * ones. A reader passes over tables and meta keys it does not know, so adding those needs none. */
#ifndef SONDE_STORE_RUN_PRIVATE_H
#define SONDE_STORE_RUN_PRIVATE_H

#include <sqlite3.h>

#include "base/buf.h"
#include "store/run/run.h"

#define SONDE_RUN_APPLICATION 0x534f4e44 /* "SOND", as file(1) and sqlite3 see it */
#define SONDE_RUN_VERSION 1
#define SONDE_RUN_MAGIC "SQLite format 3" /* with its NUL: 16 bytes */

enum {
    SONDE_RUN_CHUNK = 16384,
    SONDE_RUN_SAMPLE_MAX = 10 + 5 + 10 + 5 + 3, /* bytes of one sample before deflate */
};

/* ---- chunk.c ------------------------------------------------------------------------------ */

/* Append the packed form of count (1 … SONDE_RUN_CHUNK) samples to out, which keeps any error. */
void sonde_run_pack(const struct sonde_profile_sample *s, uint32_t count, struct sonde_buf *out);

/* The reverse: times, stacks, weights, counts and flags of exactly count samples; other fields are
 * left alone. SONDE_EFORMAT with what is wrong, SONDE_ENOMEM. */
int sonde_run_unpack(const void *data, size_t len, uint64_t first_ns, uint32_t count,
                     struct sonde_profile_sample *out, struct sonde_err *err);

/* ---- heap.c ------------------------------------------------------------------------------ */

/* Make the tables of p's heap facts, which it has, and fill them. SQLITE_OK, SQLITE_NOMEM, or an
 * error that db knows of. */
int sonde_run_heap_write(sqlite3 *db, const struct sonde_profile *p);

/* ---- gpu_rows.c -------------------------------------------------------------------------- */

/* The same for facts of GPUs. */
int sonde_run_gpu_write(sqlite3 *db, const struct sonde_profile *p);

/* ---- infer.c ----------------------------------------------------------------------------- */

/* The same for its inference requests. */
int sonde_run_infer_write(sqlite3 *db, const struct sonde_profile *p);

/* ---- engine.c ---------------------------------------------------------------------------- */

/* And for the series of an engine's insides. */
int sonde_run_final_write(sqlite3 *db, const struct sonde_profile *p);

/* ---- track.c ----------------------------------------------------------------------------- */

/* And for series over its time. */
int sonde_run_tracks_write(sqlite3 *db, const struct sonde_profile *p);

/* ---- read.c ------------------------------------------------------------------------------- */

/* path as a URI that says it does not change: SQLite takes options only that way. Free it; NULL =
 * no memory. */
char *sonde_run_uri(const char *path);

/* Fill the empty p from the database at path, or in memory if data is given. name: for errors. */
int sonde_run_read(const char *path, const char *data, size_t len, const char *name,
                   struct sonde_profile *p, struct sonde_err *err);

#endif
