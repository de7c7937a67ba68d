/* writer.c - the thread that writes.
 *
 * What was appended (tick.c) is written at once, one row a tick, in a transaction of its own:
 * from then on it is safe. Full blocks are packed (pack.c), rolled up (rollup.c) and
 * deleted (gc.c) in steps between that. What cannot be written is tried again every second. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum {
    CHECKPOINT_PAGES = 64,       /* of the log, before they are moved to the file */
    IDLE_STEPS = 8,              /* of packing, rolling up and deleting, for each tick */
    GC_EVERY = 10,               /* turns */
    CLOCK_BACK_MS = 60000,       /* set back by more: another run */
};

/* ---- Writing rows ---------------------------------------------------------------------------- */

static int save_rows(struct sonde_store *s, struct sonde_err *err)
{
    int rc = 0;
    /* Only this thread takes rows from the list. */
    for (const struct store_row *r = s->rows; r && !rc; r = r->next) {
        sqlite3_stmt *st = store_sql(s, SQL_ADD_HEAD);
        if (!st) return store_failed(s, s->db, err);
        sqlite3_bind_int64(st, 1, r->id);
        sqlite3_bind_int64(st, 2, r->run);
        sqlite3_bind_int64(st, 3, r->time_ms);
        sqlite3_bind_blob64(st, 4, r->data, r->len, SQLITE_STATIC);
        rc = store_step(s, st, err);
    }
    return rc;
}

static int save_gaps(struct sonde_store *s, struct store_gap **taken, struct sonde_err *err)
{
    sonde_lock(&s->lock);
    *taken = s->gaps;
    s->gaps = NULL;
    sonde_unlock(&s->lock);
    int rc = 0;
    for (const struct store_gap *g = *taken; g && !rc; g = g->next) {
        sqlite3_stmt *st = store_sql(s, SQL_ADD_GAP);
        if (!st) return store_failed(s, s->db, err);
        sqlite3_bind_int64(st, 1, s->run);
        sqlite3_bind_int64(st, 2, g->from_ms);
        sqlite3_bind_int64(st, 3, g->to_ms);
        sqlite3_bind_text(st, 4, g->reason, -1, SQLITE_STATIC);
        rc = store_step(s, st, err);
    }
    return rc;
}

/* Series, rows and gaps that are new, in one transaction. */
static int save_points(struct sonde_store *s, struct sonde_err *err)
{
    struct store_gap *gaps = NULL;
    int rc = store_run_sql(s, SQL_BEGIN, err);
    if (!rc) rc = store_slots_save(s, err);
    if (!rc) rc = store_run_sql(s, SQL_FORGET_UNSAVED, err);
    if (!rc) rc = save_rows(s, err);
    if (!rc) rc = save_gaps(s, &gaps, err);
    if (!rc) rc = store_events_save(s, err);
    if (!rc) rc = store_run_sql(s, SQL_COMMIT, err);
    if (rc) store_rollback(s);
    sonde_lock(&s->lock);
    if (!rc) {
        store_events_saved(s);
        store_drop_rows(s);
        for (uint32_t i = 0; i < s->slot_count; i++) {
            s->slots[i].saved |= s->slots[i].found;
            if (s->slots[i].gone) store_slot_free(s, &s->slots[i]);
        }
    } else if (gaps) {
        struct store_gap **end = &gaps;
        while (*end) end = &(*end)->next;
        *end = s->gaps;
        s->gaps = gaps;
        gaps = NULL;
    }
    sonde_unlock(&s->lock);
    for (struct store_gap *next; gaps; gaps = next) {
        next = gaps->next;
        sonde__free(gaps);
    }
    return rc;
}

/* ---- The thread ------------------------------------------------------------------------------ */

static void store_writer_tell_failure(struct sonde_store *s, const struct sonde_err *err)
{
    sonde_lock(&s->lock);
    const int first = !(s->stats.failing_since_s > 0);
    s->stats.failures++;
    if (first) s->stats.failing_since_s = (double)store_now_ms() * 1e-3;
    snprintf(s->stats.problem, sizeof(s->stats.problem), "%.*s",
             (int)sizeof(s->stats.problem) - 1, err->text);
    sonde_unlock(&s->lock);
    if (first) {
        sonde_log(SONDE_LOG_ERROR, "%s. What is recorded is kept in memory (up to %zu MiB) and "
                  "written when that is possible again", err->text, s->o.memory_max >> 20);
    }
}

static void tell_success(struct sonde_store *s)
{
    sonde_lock(&s->lock);
    const double since_s = s->stats.failing_since_s;
    const uint64_t dropped = s->stats.dropped_ticks;
    s->stats.failing_since_s = 0;
    s->stats.commits++;
    sonde_unlock(&s->lock);
    if (since_s > 0) {
        sonde_log(SONDE_LOG_WARN, "store '%s' is written again, after %.0f s; %llu ticks are lost "
                  "in all", s->path, (double)store_now_ms() * 1e-3 - since_s,
                  (unsigned long long)dropped);
    }
}

static int count_pages(void *arg, sqlite3 *db, const char *name, int pages)
{
    (void)db;
    (void)name;
    ((struct sonde_store *)arg)->wal_pages = pages;
    return SQLITE_OK;
}

/* Everything in memory moves to the new file, and is of its run. */
static int move_to_new_file(struct sonde_store *s, struct sonde_err *err)
{
    s->moving = 1;
    int rc = store_start_over(s, err);
    if (!rc) rc = store_begin_run(s, err);
    if (rc) return rc;
    s->moving = 0;
    sqlite3_wal_hook(s->db, count_pages, s);
    sonde_lock(&s->lock);
    for (uint32_t i = 0; i < s->slot_count; i++) s->slots[i].saved = 0;
    store_close_block(s); /* the old file had its rows */
    store_drop_rows(s);
    for (struct block *b = s->sealing; b; b = b->next) b->run = s->run;
    sonde_unlock(&s->lock);
    return 0;
}

/* Rolling up and asking go by a run's time, which only goes on: of hours that are recorded a second
 * time after a clock was set back the first would hide the others. So these are another run. */
static int follow_clock(struct sonde_store *s, int64_t time_ms, struct sonde_err *err)
{
    const int64_t back_ms = s->last_ms ? s->last_ms - time_ms : 0;
    if (back_ms > CLOCK_BACK_MS) {
        const int rc = store_next_run(s, err);
        if (rc) return rc;
        sonde_log(SONDE_LOG_WARN,
                  "the clock was set back by %.0f s: store '%s' goes on with run %u",
                  (double)back_ms * 1e-3, s->path, s->run);
    }
    s->last_ms = time_ms;
    return 0;
}

/* The ticks that are there, once all their series have a number. The lock is given up after each:
 * whoever appends waits for one of them at the most. */
static int take_pending(struct sonde_store *s, uint64_t *count, struct sonde_err *err)
{
    uint64_t waiting = 0;
    sonde_lock(&s->lock);
    for (const struct store_pending *p = s->pending; p; p = p->next) waiting++;
    sonde_unlock(&s->lock);
    int rc = store_slots_find(s, err);
    for (; !rc && waiting > 0; waiting--) {
        sonde_lock(&s->lock);
        struct store_pending *p = s->pending; /* only this thread takes it away */
        sonde_unlock(&s->lock);
        rc = follow_clock(s, p->tick.time_ms, err);
        if (rc) break;
        sonde_lock(&s->lock);
        assert(p == s->pending && s->pending_bytes >= p->bytes);
        s->pending = p->next;
        if (!s->pending) s->pending_end = &s->pending;
        s->pending_bytes -= p->bytes;
        store_take_tick(s, p);
        sonde_unlock(&s->lock);
        sonde__free(p);
        ++*count;
    }
    return rc;
}

/* How long something took: by the clock, and of this thread's time on a CPU, which other load on
 * the machine does not change. */
struct store_writer_watch { double wall_s, cpu_s; };

static struct store_writer_watch watch_start(void)
{
    return (struct store_writer_watch){ store_clock_s(), store_cpu_s() };
}

static void note_longest(struct sonde_store *s, const struct store_writer_watch *began,
                         double *wall_s_max, double *cpu_s_max)
{
    const struct store_writer_watch now = watch_start();
    sonde_lock(&s->lock);
    if (now.wall_s - began->wall_s > *wall_s_max) *wall_s_max = now.wall_s - began->wall_s;
    if (now.cpu_s - began->cpu_s > *cpu_s_max) *cpu_s_max = now.cpu_s - began->cpu_s;
    sonde_unlock(&s->lock);
}

/* The log is moved to the file before it is long, so that it never takes long. */
static void store_writer_checkpoint(struct sonde_store *s)
{
    sonde_assert_held(&s->db_lock);
    if (s->wal_pages < CHECKPOINT_PAGES) return;
    const struct store_writer_watch began = watch_start();
    sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    s->wal_pages = 0;
    note_longest(s, &began, &s->stats.checkpoint_s_max, &s->stats.step_cpu_s_max);
}

/* One thing: packing first, then rolling up, then deleting; 1 = there is more. What has begun is
 * finished first: blocks are written one after the other. */
static int idle_step(struct sonde_store *s, struct sonde_err *err)
{
    const struct store_writer_watch began = watch_start();
    int rc = s->job.tier ? 0 : store_pack_step(s, err);
    if (!rc) rc = store_rollup_step(s, err);
    if (!rc && (s->gc_more || ++s->gc_turn % GC_EVERY == 0)) {
        rc = store_gc_step(s, &s->o.keep, err);
        s->gc_more = rc > 0;
    }
    note_longest(s, &began, &s->stats.step_s_max, &s->stats.step_cpu_s_max);
    return rc;
}

/* What steps change is there already in another form, and a step that a power cut undoes is made
 * again: they do not wait for the disk. Points do, and with a point everything before it is
 * safe. */
static int set_durable(struct sonde_store *s, int durable, struct sonde_err *err)
{
    if (s->o.temporary) return 0;
    return store_exec(s, durable ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=NORMAL", err);
}

/* Over the limit of size something is deleted whatever else there is to do. */
static int store_writer_make_room(struct sonde_store *s, struct sonde_err *err)
{
    const struct store_writer_watch began = watch_start();
    int rc = store_is_over(s, &s->o.keep, err);
    if (rc > 0) rc = store_gc_step(s, &s->o.keep, err);
    note_longest(s, &began, &s->stats.step_s_max, &s->stats.step_cpu_s_max);
    return rc;
}

/* As many steps as there is time for, until there is something to be written, but some in any case:
 * what is not packed takes more room than what is. 1 = there is more. */
static int idle_steps(struct sonde_store *s, struct sonde_err *err)
{
    int more = 1;
    int rc = set_durable(s, 0, err);
    if (!rc) {
        const int made = store_writer_make_room(s, err);
        if (made < 0) more = made;
    }
    for (int i = 0; i < IDLE_STEPS && !rc && more > 0; i++) {
        more = idle_step(s, err);
        sonde_lock(&s->lock);
        const int waiting = s->pending != NULL;
        sonde_unlock(&s->lock);
        if (waiting && i > 0) break;
    }
    if (more < 0) rc = more;
    const int back = set_durable(s, 1, rc ? NULL : err);
    return rc ? rc : back ? back : more;
}

/* One round; 1 = there is more to do at once. */
static int store_writer_work(struct sonde_store *s)
{
    struct sonde_err err = { "" };
    uint64_t taken = 0;
    sonde_lock(&s->db_lock);
    int rc = 0;
    if (s->o.temporary && store_is_damaged(s)) {
        rc = sonde_err_set(&err, SONDE_EFORMAT, "store '%s' is damaged", s->path);
    } else if (store_is_damaged(s) || s->moving) {
        rc = move_to_new_file(s, &err);
    }
    if (!rc) rc = take_pending(s, &taken, &err);
    const struct store_writer_watch began = watch_start();
    sonde_lock(&s->lock);
    const int wanted = s->rows || s->gaps || store_events_wait(s);
    sonde_unlock(&s->lock);
    if (!rc && wanted) {
        rc = save_points(s, &err);
        note_longest(s, &began, &s->stats.commit_s_max, &s->stats.step_cpu_s_max);
    }
    if (!rc) tell_success(s);
    sonde_lock(&s->lock);
    if (!rc && s->rows_lost) store_close_block(s); /* safe again as soon as it is packed */
    if (!rc) s->written += taken + s->unsaved;
    s->unsaved = rc ? s->unsaved + taken : 0;
    assert(s->written + s->unsaved <= s->appended);
    s->tries++;
    sonde_cond_broadcast(&s->done);
    sonde_unlock(&s->lock);
    int more = 0;
    if (!rc) more = idle_steps(s, &err);
    if (more < 0) rc = more;
    if (!rc) store_writer_checkpoint(s);
    if (rc && s->o.temporary) store_give_up(s, &err);
    sonde_unlock(&s->db_lock);
    if (rc && !s->o.temporary) store_writer_tell_failure(s, &err);
    return !rc && more > 0;
}

static void *store_writer_run(void *arg)
{
    struct sonde_store *s = arg;
    int more = 0;
    for (;;) {
        sonde_lock(&s->lock);
        const struct timespec until =
            sonde_clock_timespec(sonde_clock_ns(CLOCK_MONOTONIC) + 1000000000u);
        while (!more && !s->pending && !s->stopping && !s->hurry) {
            if (sonde_cond_timedwait(&s->wake, &s->lock, &until) != 0) break;
        }
        s->hurry = 0;
        const int stopping = s->stopping;
        sonde_unlock(&s->lock);
        if (stopping || store_is_off(s)) return NULL;
        more = store_writer_work(s);
    }
}

int store_writer_start(struct sonde_store *s, struct sonde_err *err)
{
    sqlite3_wal_hook(s->db, count_pages, s);
    return sonde_thread_start(&s->thread, "sonde-store", store_writer_run, s, err);
}

void store_writer_stop(struct sonde_store *s)
{
    if (!s->thread.started) return;
    sonde_lock(&s->lock);
    s->stopping = 1;
    sonde_cond_signal(&s->wake);
    sonde_unlock(&s->lock);
    sonde_thread_join(&s->thread);
    if (s->o.temporary) return;
    /* What is left; if it cannot be written now, its rows are there already. */
    struct sonde_err err = { "" };
    store_writer_work(s);
    sonde_lock(&s->db_lock);
    sonde_lock(&s->lock);
    store_close_block(s);
    sonde_unlock(&s->lock);
    int rc = 0;
    while (s->job.tier && rc >= 0) rc = store_rollup_step(s, &err);
    /* A roll-up that failed is still the job, with its block and how far it is: packing must not go
     * on from there. The rows are packed at the next start. */
    if (rc >= 0) {
        do rc = store_pack_step(s, &err);
        while (rc > 0);
    }
    if (rc < 0) store_writer_tell_failure(s, &err);
    sonde_unlock(&s->db_lock);
}
