/* private.h - what the files of the SQLite store share: sqlite.c (opening, errors),
 * look.c (opening to read only), schema.c, damage.c; slot.c and tick.c
 * (what is recorded, in memory), recent.c, writer.c (the thread), pack.c (rows to chunks),
 * recover.c, rollup.c, gc.c; query.c, series.c, read.c,
 * runs.c, profiles.c.
 *
 * The file:
 *
 *     runs      one life of an agent each
 *     series    what there is a name for
 *     head      ticks that are not packed yet, one row each (block.h): id = block << 16 | tick
 *     blocks    times of what is packed: tier 0 as recorded, 1-3 rolled up
 *     chunks    a series in a block: id = block << 24 | series, so that blocks are written one
 *               after the other, pages are full, and what is old goes page by page
 *     gaps      what could not be written
 *     profiles  run files (run.h), compressed
 *     spans     batches of them (event.h), of a second or so each, and how many there were
 *     requests  inference requests, alike
 *     findings  conclusions of the analysis
 *     modules   files that profiles of a run have code of, by build id
 *     heaps     sums of a heap profile
 *
 * A block that is being packed gets its number when that begins and its row in `blocks` with its
 * last chunk, in the same transaction that deletes its head. Chunks without it are of a crash in
 * between: they are deleted at the next start, and the block is packed again from its head.
 *
 * Rejected: a key of (series, block), which is what one would ask by. Each block then touches a
 * page of every series, pages are half empty, and retention frees no page for a long time. Asking
 * for a day of one series is 144 look-ups, less than a millisecond. */
#ifndef SONDE_STORE_SQLITE_PRIVATE_H
#define SONDE_STORE_SQLITE_PRIVATE_H

#include <sqlite3.h>

#include "base/lock.h"
#include "base/thread.h"
#include "store/block.h"
#include "store/store.h"

#define STORE_APPLICATION 0x534f4e53 /* "SONS" */
#define STORE_VERSION 2
#define STORE_SERIES_BITS 24
#define STORE_TICK_BITS 16
#define STORE_SERIES_MAX ((1u << STORE_SERIES_BITS) - 1)
#define STORE_CHUNK_BYTES_MAX (32 << 20)
#define STORE_STEP_S 0.005         /* a step ends after so long, of CPU time: on a full machine it
                                      would get nowhere by the clock */
#define STORE_NAME_MAX 100         /* bytes of a name */

enum { STORE_TIERS = 4 };
/* Milliseconds of a point, and of a block. */
extern const int64_t store_tier_ms[STORE_TIERS], store_tier_block_ms[STORE_TIERS];

enum store_sql {
    SQL_BEGIN, SQL_COMMIT, SQL_ROLLBACK, SQL_FIND_SERIES, SQL_NUMBER_SERIES,
    SQL_FORGET_UNSAVED, SQL_ADD_SERIES, SQL_SEEN_SERIES,
    SQL_ADD_HEAD, SQL_DELETE_HEAD, SQL_ADD_CHUNK, SQL_ADD_BLOCK, SQL_RUN_SEEN, SQL_ADD_GAP,
    SQL_ADD_SPANS, SQL_ADD_REQUESTS, SQL_RUN_EVENTS, SQL_COUNT,
};

/* A series that is recorded now. */
struct store_slot {
    struct sonde_store_series spec;  /* its texts are owned, in one piece at spec.name */
    uint64_t prev;                   /* counter: as of the last tick */
    uint64_t since;                  /* ticks that were appended before it was defined */
    uint32_t column;                 /* of the open block; UINT32_MAX = none yet */
    uint8_t used, found, saved, has_prev, seen, gone, tried;
};

struct store_pending {
    struct store_pending *next;
    size_t bytes;
    uint64_t number;                 /* of all that were appended, from 0 */
    struct sonde_store_tick tick;    /* values and data are behind it */
};

/* A row of `head` that is to be written. */
struct store_row {
    struct store_row *next;
    int64_t id, time_ms;
    uint32_t run;
    size_t len;
    char data[];
};

struct store_gap {
    struct store_gap *next;
    int64_t from_ms, to_ms;
    const char *reason;              /* static */
};

enum { STORE_SPANS, STORE_REQUESTS, STORE_EVENTS, STORE_TOOK = 256 };
extern const char *const store_event_tables[STORE_EVENTS];

/* Spans or requests that become a row. */
struct store_batch {
    int64_t id;                      /* of the row */
    int64_t from_ms, to_ms;
    uint64_t kept, seen;
    struct sonde_buf data;           /* of those that are kept: event.h */
};

/* What earlier runs have of them: event_known.c. */
struct store_known {
    uint64_t *keys;                  /* ascending */
    size_t count;
    int64_t since_ms;                /* what began later cannot be among them */
    int64_t oldest_ms;               /* of the keys; what began before it is there too */
};

/* Of one kind. */
struct store_events {
    struct store_known known;      /* does not change */
    struct store_batch open, out;  /* out: being written; seen 0 = none is. Changed by the writer */
    uint64_t taken_at;             /* events_added when out was taken */
    uint32_t per_second;
    double second_s, share;        /* began; of plain ones that are kept in it */
    uint64_t plain, plain_kept, special_kept; /* in it */
    double took_s[STORE_TOOK];     /* of the last requests */
    uint32_t took_count, took_next;
};

union store_event_row {
    int (*span)(const struct sonde_model_span *span, void *arg);
    int (*request)(const struct sonde_infer_request *r, void *arg);
};

/* Columns of a block on the way to chunks, or a time that is being rolled up. */
struct store_job {
    uint32_t block;                  /* its number; 0 = no job */
    uint32_t tier;                   /* 0 = packing s->sealing */
    uint32_t next;                   /* column, or series */
    uint32_t run;
    int64_t from_ms, to_ms;
};

struct sonde_store {
    struct sonde_store_options o; /* texts are owned */
    char *path;
    char *uri;                    /* instead of path, where nothing can be written; NULL = none */
    int lock_fd;                  /* -1 = read only */
    int version;                  /* of the file: less than ours if it is only read */
    uint32_t run;                 /* changed under db_lock and read_lock */

    /* The writer's connection, used under db_lock: functions that need it, or lock, assert that. */
    struct sonde_lock db_lock;
    sqlite3 *db;
    sqlite3_stmt *sql[SQL_COUNT];
    struct store_job job;
    int64_t last_ms;              /* of the last tick that was taken; 0 = none */
    uint32_t next_series, next_block;
    int damaged;                  /* atomic: something was found wrong, begin a new file */
    int off;                      /* atomic: a temporary one was given up; changed with all locks */
    int moving;                   /* which was begun with, and is not done */
    uint64_t gc_turn;
    int gc_more;
    uint32_t gc_series;           /* looked at up to here, of names that nothing is left of */
    int roll_wanted;              /* there are new blocks */
    struct store_rollup *roll;    /* rollup.c: of the job */
    int wal_pages;                /* of the log, since the last checkpoint */

    /* For asking. */
    struct sonde_lock read_lock;
    sqlite3 *read;

    /* Everything below; never held while something is written or read. */
    struct sonde_lock lock;
    struct sonde_cond wake, done;
    struct sonde_thread thread;   /* the writer */
    int stopping;
    int hurry;                    /* somebody waits for what is written */
    struct store_pending *pending, **pending_end;
    size_t pending_bytes;
    uint64_t appended, written;   /* ticks, for flush */
    uint64_t unsaved;             /* taken, but not written yet */
    uint64_t tries;               /* to write */
    struct store_slot *slots;
    uint32_t slot_count, slot_cap, slots_used;
    uint32_t slot_free;           /* none before it is */
    struct block *open;           /* NULL = the next tick begins one */
    struct block *sealing;        /* oldest first: full, to become chunks */
    uint32_t next_head;
    struct store_row *rows, **rows_end;
    size_t rows_bytes;
    int rows_lost;                /* the open block cannot be built again from rows */
    struct store_gap *gaps;
    struct store_events events[STORE_EVENTS];
    uint64_t events_added, events_written; /* for flush */
    struct sonde_store_stats stats;
};

/* ---- sqlite.c ------------------------------------------------------------------------------ */

int64_t store_now_ms(void);
double store_clock_s(void);
double store_cpu_s(void); /* of this thread: for durations */

/* What SQLite says of db, as an error; notes damage. */
int store_is_damaged(const struct sonde_store *s);
int store_failed(struct sonde_store *s, sqlite3 *db, struct sonde_err *err);
int store_exec(struct sonde_store *s, const char *sql, struct sonde_err *err);
sqlite3_stmt *store_sql(struct sonde_store *s, enum store_sql which); /* NULL = failed */
int store_step(struct sonde_store *s, sqlite3_stmt *st, struct sonde_err *err); /* and reset */
int store_run_sql(struct sonde_store *s, enum store_sql which, struct sonde_err *err);
/* A number from db; 0 if there is none. */
int store_number(struct sonde_store *s, sqlite3 *db, const char *sql, int64_t arg, int64_t *out,
                 struct sonde_err *err);
/* Numbers of blocks that are written from now on; nobody else writes. */
int store_begin_blocks(struct sonde_store *s, struct sonde_err *err);
int store_begin_run(struct sonde_store *s, struct sonde_err *err);
/* What is recorded from now on is of another run. */
int store_next_run(struct sonde_store *s, struct sonde_err *err);
/* 1 if another process has the lock. */
int store_is_locked(struct sonde_store *s);
/* A new store without a run at s->path, which nobody else sees: s is all zero but for that. */
int store_make_file(struct sonde_store *s, struct sonde_err *err);
int store_connect(struct sonde_store *s, int flags, sqlite3 **out, struct sonde_err *err);
void store_disconnect(struct sonde_store *s);
int store_set_up(struct sonde_store *s, struct sonde_err *err);
void store_rollback(struct sonde_store *s); /* if there is a transaction */

/* ---- look.c -------------------------------------------------------------------------------- */

/* Open s for reading only. */
int store_look(struct sonde_store *s, struct sonde_err *err);

/* ---- schema.c ------------------------------------------------------------------------------ */

/* That db is a store, or empty, and of a version that is known. */
int store_check_kind(struct sonde_store *s, sqlite3 *db, int64_t *version, struct sonde_err *err);
/* The tables of this version, made or brought up to it. */
int store_migrate(struct sonde_store *s, struct sonde_err *err);

/* ---- damage.c ------------------------------------------------------------------------------ */

int store_is_damage(int code);
/* Whether pages are damaged, and what SQLite says of it. Large files are looked at if wanted
 * only. */
int store_check_pages(struct sonde_store *s, int whatever_size, char *what, size_t what_size);
/* Put the damaged file aside and begin a new one; what failed is made up for by calling it
 * again. */
int store_start_over(struct sonde_store *s, struct sonde_err *err);

/* ---- slot.c -------------------------------------------------------------------------------- */

int store_define(struct sonde_store *s, const struct sonde_store_series *spec, uint32_t *slot);
void store_slot_free(struct sonde_store *s, struct store_slot *slot);
/* Numbers for those that have none; rows for those that are new. */
int store_slots_find(struct sonde_store *s, struct sonde_err *err);
int store_slots_save(struct sonde_store *s, struct sonde_err *err);

/* ---- recent.c ------------------------------------------------------------------------------ */

int store_is_off(const struct sonde_store *s);
/* Nothing more is kept, and the room on the disk is given back. */
void store_give_up(struct sonde_store *s, const struct sonde_err *why);

/* ---- tick.c -------------------------------------------------------------------------------- */

int store_append(struct sonde_store *s, const struct sonde_store_tick *t);
int store_flush(struct sonde_store *s, struct sonde_err *err);
/* The rest under lock. */
void store_block_put(struct block *b);
void store_take_tick(struct sonde_store *s, const struct store_pending *p);
void store_close_block(struct sonde_store *s);
void store_drop_rows(struct sonde_store *s);

/* ---- event.c ------------------------------------------------------------------------------- */

void store_events_init(struct sonde_store *s);
void store_events_release(struct sonde_store *s);
/* Numbers of the next batches, in a new run. */
int store_events_begin(struct sonde_store *s, struct sonde_err *err);
int store_span_add(struct sonde_store *s, const struct sonde_model_span *span);
int store_request_add(struct sonde_store *s, const struct sonde_infer_request *r);
int store_events_wait(const struct sonde_store *s); /* there are any to be written */
/* In a transaction. saved: it was committed. */
int store_events_save(struct sonde_store *s, struct sonde_err *err);
void store_events_saved(struct sonde_store *s);

/* ---- event_known.c ------------------------------------------------------------------------- */

void store_known_load(struct sonde_store *s); /* when it is opened, before the writer is started */
void store_known_release(struct sonde_store *s);
int store_is_known(const struct store_known *k, uint32_t pid, uint64_t id, uint64_t time_ns);

/* ---- event_read.c -------------------------------------------------------------------------- */

int store_spans(struct sonde_store *s, const struct sonde_store_range *q,
                int (*row)(const struct sonde_model_span *span, void *arg), void *arg,
                struct sonde_store_counts *counts, struct sonde_err *err);
int store_requests(struct sonde_store *s, const struct sonde_store_range *q,
                   int (*row)(const struct sonde_infer_request *r, void *arg), void *arg,
                   struct sonde_store_counts *counts, struct sonde_err *err);

/* ---- findings.c ---------------------------------------------------------------------------- */

int store_finding_put(struct sonde_store *s, const struct sonde_store_finding *f, uint64_t *id,
                      struct sonde_err *err);
int store_finding_delete(struct sonde_store *s, uint64_t id, const char *kind,
                         struct sonde_err *err);
int store_findings(struct sonde_store *s, const struct sonde_store_range *q,
                   int (*row)(const struct sonde_store_finding *f, void *arg), void *arg,
                   struct sonde_err *err);

/* ---- facts.c ------------------------------------------------------------------------------- */

/* Of a profile that was inserted just now. In its transaction. */
int store_facts_put(struct sonde_store *s, const struct sonde_store_profile *p, const void *data,
                    size_t len, uint64_t profile, struct sonde_err *err);
int store_modules(struct sonde_store *s, uint32_t run,
                  void (*row)(const char *path, const char *build_id, void *arg), void *arg,
                  struct sonde_err *err);
int store_heaps(struct sonde_store *s, uint32_t run,
                void (*row)(const struct sonde_store_heap *h, void *arg), void *arg,
                struct sonde_err *err);

/* ---- pack.c -------------------------------------------------------------------------------- */

/* Some columns of the oldest full block; 1 = there is more to do. */
int store_pack_step(struct sonde_store *s, struct sonde_err *err);

/* ---- recover.c ----------------------------------------------------------------------------- */

int store_recover(struct sonde_store *s, sqlite3 *db, struct sonde_err *err);

/* ---- writer.c ------------------------------------------------------------------------------ */

int store_writer_start(struct sonde_store *s, struct sonde_err *err);
void store_writer_stop(struct sonde_store *s);

/* ---- read.c -------------------------------------------------------------------------------- */

/* A chunk of a tier above 0: n points, one for each bucket of the block that has any. */
enum { ROLLED_COUNT, ROLLED_MIN, ROLLED_MAX, ROLLED_SUM, ROLLED_LAST, ROLLED_VALUES };
struct store_rolled {
    uint32_t n;
    uint64_t bucket[SONDE_CHUNK_MAX];
    double value[ROLLED_VALUES][SONDE_CHUNK_MAX];
    struct sonde_hist_column hist;   /* histograms: instead of values */
};
void store_rolled_put(const struct store_rolled *r, enum sonde_type type, struct sonde_buf *out);

/* A block that is read, on disk or in memory. */
struct store_source {
    int64_t id, from_ms, to_ms;
    uint32_t run, tier, ticks;
    double interval_ms;              /* of a tick, as a rule */
    int64_t *time_ms;                /* tier 0: read when first needed */
    struct block *block;             /* in memory; NULL = on disk */
    int64_t use_from_ms, use_to_ms;  /* points from … up to, not with, are of interest */
};

struct store_sources {
    struct store_source *at;
    size_t count, cap;
};

/* A point in raw units. Counter: sum, min, max of increases. */
struct store_in {
    int64_t time_ms;
    double seconds, count, min, max, sum, last;
    int is_tick;                     /* not rolled up: */
    uint64_t raw, increase;          /* of counters and gauges, as in struct sonde_store_raw */
    const struct sonde_hist_column *hist; /* histograms: entry `entry` of it */
    uint32_t entry;
};

/* What reading needs; 100 KB, so not on the stack. */
struct store_reader {
    struct sonde_store *s;
    sqlite3 *db;
    sqlite3_stmt *chunk, *times;
    uint64_t v[SONDE_CHUNK_MAX];
    int64_t time_ms[SONDE_CHUNK_MAX];
    struct sonde_hist_column hist;
    struct store_rolled rolled;
    struct sonde_err *err;
};
int store_reader_create(struct sonde_store *s, sqlite3 *db, struct sonde_err *err,
                        struct store_reader **out);
void store_reader_destroy(struct store_reader *r); /* NULL is fine */

struct store_source *store_sources_add(struct store_sources *all, const struct store_source *one);
void store_sources_release(struct store_sources *all);
/* Blocks of run (0 = all) and tier (-1 = all) with anything between from and to. */
int store_sources_find(struct sonde_store *s, sqlite3 *db, uint32_t run, int tier, int64_t from_ms,
                       int64_t to_ms, struct store_sources *out, struct sonde_err *err);
/* point() for each of a series in a source, in order, within its use_…. */
int store_each(struct store_reader *r, struct store_source *source, uint32_t series,
               enum sonde_type type, void (*point)(const struct store_in *p, void *arg), void *arg);

/* ---- rollup.c ------------------------------------------------------------------------------ */

/* A little of what is to be rolled up; 1 = there is more, 0 = nothing left. */
int store_rollup_step(struct sonde_store *s, struct sonde_err *err);
void store_rollup_release(struct sonde_store *s);

/* ---- gc.c ---------------------------------------------------------------------------------- */

/* A little of what is to be deleted; 1 = there is more. */
int store_gc_step(struct sonde_store *s, const struct sonde_store_retention *keep,
                  struct sonde_err *err);
/* 1 if it is as large as it may be, less a little. */
int store_is_over(struct sonde_store *s, const struct sonde_store_retention *keep,
                  struct sonde_err *err);
int store_gc(struct sonde_store *s, const struct sonde_store_retention *keep, uint64_t *freed,
             struct sonde_err *err);
/* Some chunks of a block, or the block when none are left; 1 = there is more. */
int store_delete_block(struct sonde_store *s, int64_t block, struct sonde_err *err);
/* A statement with up to two numbers. */
int store_do(struct sonde_store *s, const char *sql, int64_t a, int64_t b, struct sonde_err *err);

/* Some rows of a table that a run has; 1 = there may be more. */
int store_delete_rows(struct sonde_store *s, const char *sql, int64_t arg, struct sonde_err *err);

/* ---- series.c ------------------------------------------------------------------------------ */

/* Series of a row of SELECT id, name, help, unit, source, labels, program, pid, type, kind,
 * scale. */
int store_series_row(sqlite3_stmt *st, struct sonde_store_series *out);
#define STORE_SERIES_COLUMNS                                                                     \
    "id, name, help, unit, source, labels, program, pid, type, kind, scale"
/* 1 if all of the query's filters take it. */
int store_series_passes(const struct sonde_store_series *in, const struct sonde_store_query *q);

/* ---- query.c ------------------------------------------------------------------------------- */

int64_t store_milliseconds(double s);
int store_query(struct sonde_store *s, const struct sonde_store_query *q,
                const struct sonde_store_sink *sink, struct sonde_err *err);

/* ---- runs.c -------------------------------------------------------------------------------- */

int store_runs(struct sonde_store *s, void (*row)(const struct sonde_store_run *r, void *arg),
               void *arg, struct sonde_err *err);
/* The run that an agent writes now; 0 = none does. */
int store_live_run(struct sonde_store *s, uint32_t *out, struct sonde_err *err);
int store_run_set(struct sonde_store *s, uint32_t id, const char *name, const char *tags,
                  struct sonde_err *err);
int store_run_delete(struct sonde_store *s, uint32_t id, struct sonde_err *err);
int store_run_merge(struct sonde_store *s, uint32_t to, uint32_t from, struct sonde_err *err);
int store_run_copy(struct sonde_store *s, uint32_t id, const char *path, struct sonde_err *err);
const char *store_text(sqlite3_stmt *st, int column); /* never NULL */
int store_name_ok(const char *name);
int store_writable(struct sonde_store *s, struct sonde_err *err); /* SONDE_EACCES: it is not */

/* ---- profiles.c ---------------------------------------------------------------------------- */

int store_profile_put(struct sonde_store *s, const struct sonde_store_profile *p,
                      const void *data, size_t len, uint64_t *id, struct sonde_err *err);
int store_profile_replace(struct sonde_store *s, const struct sonde_store_profile *p,
                          const void *data, size_t len, const uint64_t *ids, size_t id_count,
                          uint64_t *id, struct sonde_err *err);
/* One of them, with what was noted of it; sqlite3_changes says if there was one. */
int store_profile_forget(struct sonde_store *s, int64_t id, struct sonde_err *err);
int store_profiles(struct sonde_store *s, const char *name,
                   void (*row)(const struct sonde_store_profile *p, void *arg), void *arg,
                   struct sonde_err *err);
int store_profile_get(struct sonde_store *s, uint64_t id, struct sonde_buf *out,
                      struct sonde_err *err);
int store_profile_delete(struct sonde_store *s, uint64_t id, struct sonde_err *err);

#endif
