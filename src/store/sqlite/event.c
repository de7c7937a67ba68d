/* event.c - spans and requests on their way to the disk: which ones, and in batches.
 *
 * What is added goes to the open batch of its kind, as bytes (event.h). With the next points, or
 * after a second, the writer takes the batch, deflates it and writes it as one row, in the points'
 * transaction; it is kept until that is committed. A batch has a size; while nothing can be written
 * what comes on top is counted only.
 *
 * Not everything is kept where there is much: so many of a second are. Failed and slow ones come
 * first, and epochs of training, which are few and carry its curves; of the others whole traces,
 * chosen by their id, in a share that is such that the second before would have fitted. A batch
 * says how many there were and how many of them it has. Rejected: the first of each second, which
 * are not those that anybody asks for, and every n-th, which tears traces apart. */
#include <assert.h>
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/event.h"
#include "store/sqlite/private.h"

#define EPOCH_NAME "ml.epoch" /* as in record/ml_loop.c */

enum { BATCH_BYTES_MAX = 1 << 20, PER_SECOND = 100, SLOW_MIN = 20 };

const char *const store_event_tables[STORE_EVENTS] = { "spans", "requests" };

void store_events_init(struct sonde_store *s)
{
    for (int k = 0; k < STORE_EVENTS; k++) {
        sonde_buf_init(&s->events[k].open.data, BATCH_BYTES_MAX);
        sonde_buf_init(&s->events[k].out.data, BATCH_BYTES_MAX);
        s->events[k].share = 1;
    }
    s->events[STORE_SPANS].per_second = s->o.spans_per_s ? s->o.spans_per_s : PER_SECOND;
    s->events[STORE_REQUESTS].per_second = s->o.requests_per_s ? s->o.requests_per_s : PER_SECOND;
}

void store_events_release(struct sonde_store *s)
{
    for (int k = 0; k < STORE_EVENTS; k++) {
        sonde_buf_release(&s->events[k].open.data);
        sonde_buf_release(&s->events[k].out.data);
    }
}

int store_events_begin(struct sonde_store *s, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    static const char *const last[STORE_EVENTS] = { "SELECT max(id) FROM spans",
                                                    "SELECT max(id) FROM requests" };
    int rc = 0;
    for (int k = 0; k < STORE_EVENTS && !rc; k++) {
        int64_t id = 0;
        rc = store_number(s, s->db, last[k], 0, &id, err);
        sonde_lock(&s->lock);
        s->events[k].out.id = id + 1;
        s->events[k].open.id = id + 1 + (s->events[k].out.seen > 0);
        sonde_unlock(&s->lock);
    }
    return rc;
}

/* ---- Which ----------------------------------------------------------------------------------- */

static void turn_second(struct store_events *e, double now_s)
{
    if (now_s - e->second_s < 1 && now_s >= e->second_s) return;
    e->share = e->plain > e->per_second ? e->per_second / (double)e->plain : 1;
    e->second_s = now_s;
    e->plain = e->plain_kept = e->special_kept = 0;
}

/* The same for all of a trace, and evenly spread whoever made the ids. */
static double place_of(uint64_t hi, uint64_t lo)
{
    uint64_t h = hi * 0x9e3779b97f4a7c15ull ^ lo;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93ull;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93ull;
    return (double)(h >> 11) * 0x1p-53;
}

static int is_kept(struct store_events *e, int special, double place)
{
    turn_second(e, store_clock_s());
    if (e->open.data.len > BATCH_BYTES_MAX / 2) return 0; /* nothing is written */
    if (special && e->special_kept < e->per_second) {
        e->special_kept++;
        return 1;
    }
    e->plain++;
    if (e->plain_kept >= e->per_second || place >= e->share) return 0;
    e->plain_kept++;
    return 1;
}

/* Slower than nineteen of twenty that came before it. */
static int is_slow(struct store_events *e, double seconds)
{
    uint32_t faster = 0;
    for (uint32_t i = 0; i < e->took_count; i++) faster += e->took_s[i] < seconds;
    const int slow = e->took_count < SLOW_MIN || faster * 20 >= e->took_count * 19;
    e->took_s[e->took_next] = seconds;
    e->took_next = (e->took_next + 1) % STORE_TOOK;
    if (e->took_count < STORE_TOOK) e->took_count++;
    return slow;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* What was put to the open batch counts, or did not fit. */
static int close_record(struct sonde_store *s, struct store_events *e, size_t len_before,
                        uint64_t time_ns)
{
    sonde_assert_held(&s->lock);
    struct store_batch *b = &e->open;
    const int error = b->data.error;
    if (error) {
        b->data.len = len_before;
        b->data.error = 0;
        s->stats.dropped_events++;
        return error;
    }
    const int64_t time_ms = (int64_t)(time_ns / 1000000);
    if (!b->kept || time_ms < b->from_ms) b->from_ms = time_ms;
    if (!b->kept || time_ms > b->to_ms) b->to_ms = time_ms;
    b->kept++;
    return 0;
}

static void note_seen(struct sonde_store *s, struct store_batch *b, uint64_t time_ns)
{
    sonde_assert_held(&s->lock);
    const int64_t time_ms = (int64_t)(time_ns / 1000000);
    if (!b->seen) b->from_ms = b->to_ms = time_ms;
    b->seen++;
    s->events_added++;
}

int store_span_add(struct sonde_store *s, const struct sonde_model_span *span)
{
    struct store_events *e = &s->events[STORE_SPANS];
    int rc = 0;
    if (!s->thread.started) return SONDE_EINVAL;
    if (store_is_off(s)) return SONDE_EOFF;
    if (store_is_known(&e->known, span->pid, span->id, span->start_ns)) return 0;
    sonde_lock(&s->lock);
    note_seen(s, &e->open, span->start_ns);
    const int traced = span->trace_hi || span->trace_lo;
    const int special = span->outcome != SONDE_OK || !strcmp(span->name, EPOCH_NAME);
    const double place = traced ? place_of(span->trace_hi, span->trace_lo) : place_of(0, span->id);
    if (is_kept(e, special, place)) {
        const size_t len = e->open.data.len;
        sonde_event_put_span(&e->open.data, span);
        rc = close_record(s, e, len, span->start_ns);
    } else {
        s->stats.spans_left_out++;
    }
    sonde_unlock(&s->lock);
    return rc;
}

int store_request_add(struct sonde_store *s, const struct sonde_infer_request *r)
{
    struct store_events *e = &s->events[STORE_REQUESTS];
    int rc = 0;
    if (!s->thread.started) return SONDE_EINVAL;
    if (store_is_off(s)) return SONDE_EOFF;
    if (store_is_known(&e->known, r->pid, r->id, r->arrived_ns)) return 0;
    sonde_lock(&s->lock);
    note_seen(s, &e->open, r->arrived_ns);
    const int special = (r->outcome != SONDE_OK) | ((r->flags & SONDE_INFER_SLO_MISSED) != 0) |
                        is_slow(e, r->total_s);
    if (is_kept(e, special, place_of(r->trace_hi ^ r->pid, r->trace_lo ^ r->id))) {
        const size_t len = e->open.data.len;
        sonde_event_put_request(&e->open.data, r, special);
        rc = close_record(s, e, len, r->arrived_ns);
    } else {
        s->stats.requests_left_out++;
    }
    sonde_unlock(&s->lock);
    return rc;
}

/* ---- Writing --------------------------------------------------------------------------------- */

int store_events_wait(const struct sonde_store *s)
{
    sonde_assert_held(&s->lock);
    int waiting = 0;
    for (int k = 0; k < STORE_EVENTS; k++) {
        waiting |= s->events[k].open.seen || s->events[k].out.seen;
    }
    return waiting;
}

/* The open batch is the next to be written, unless the last one still is. */
static void take_batch(struct sonde_store *s, struct store_events *e)
{
    sonde_lock(&s->lock);
    if (!e->out.seen && e->open.seen) {
        const struct store_batch taken = e->open;
        assert(taken.kept <= taken.seen && taken.id >= e->out.id);
        e->open = e->out; /* its memory is used again */
        e->out = taken;
        sonde_buf_reset(&e->open.data);
        e->open.kept = e->open.seen = 0;
        e->open.id = taken.id + 1;
        e->taken_at = s->events_added;
    }
    sonde_unlock(&s->lock);
}

static int insert_batch(struct sonde_store *s, enum store_sql which, const struct store_batch *b,
                        struct sonde_err *err)
{
    uLongf len = compressBound((uLong)b->data.len);
    unsigned char *packed = sonde__alloc(len);
    if (!packed || compress2(packed, &len, (const Bytef *)(b->data.len ? b->data.data : ""),
                             (uLong)b->data.len, Z_DEFAULT_COMPRESSION) != Z_OK) {
        sonde__free(packed);
        return sonde_err_memory(err);
    }
    sqlite3_stmt *st = store_sql(s, which);
    int rc = st ? 0 : store_failed(s, s->db, err);
    if (!rc) {
        sqlite3_bind_int64(st, 1, b->id);
        sqlite3_bind_int64(st, 2, s->run);
        sqlite3_bind_int64(st, 3, b->from_ms);
        sqlite3_bind_int64(st, 4, b->to_ms);
        sqlite3_bind_int64(st, 5, (sqlite3_int64)b->kept);
        sqlite3_bind_int64(st, 6, (sqlite3_int64)b->seen);
        sqlite3_bind_int64(st, 7, (sqlite3_int64)b->data.len);
        sqlite3_bind_blob64(st, 8, packed, len, SQLITE_STATIC);
        rc = store_step(s, st, err);
    }
    sonde__free(packed);
    return rc;
}

int store_events_save(struct sonde_store *s, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    static const enum store_sql add[STORE_EVENTS] = { SQL_ADD_SPANS, SQL_ADD_REQUESTS };
    int rc = 0;
    uint64_t kept[STORE_EVENTS] = { 0 };
    for (int k = 0; k < STORE_EVENTS && !rc; k++) {
        take_batch(s, &s->events[k]);
        const struct store_batch *b = &s->events[k].out; /* only this thread changes it */
        kept[k] = b->kept;
        if (b->seen) rc = insert_batch(s, add[k], b, err);
    }
    if (rc || (!kept[STORE_SPANS] && !kept[STORE_REQUESTS])) return rc;
    sqlite3_stmt *st = store_sql(s, SQL_RUN_EVENTS);
    if (!st) return store_failed(s, s->db, err);
    sqlite3_bind_int64(st, 1, s->run);
    sqlite3_bind_int64(st, 2, (sqlite3_int64)kept[STORE_SPANS]);
    sqlite3_bind_int64(st, 3, (sqlite3_int64)kept[STORE_REQUESTS]);
    return store_step(s, st, err);
}

void store_events_saved(struct sonde_store *s)
{
    sonde_assert_held(&s->lock);
    uint64_t written = UINT64_MAX;
    for (int k = 0; k < STORE_EVENTS; k++) {
        struct store_events *e = &s->events[k];
        sonde_buf_reset(&e->out.data);
        e->out.kept = e->out.seen = 0;
        /* What came after a batch was taken is in the next one. */
        const uint64_t up_to = e->open.seen ? e->taken_at : s->events_added;
        if (up_to < written) written = up_to;
    }
    if (written > s->events_written) s->events_written = written;
    assert(s->events_written <= s->events_added);
}
