/* event_read.c - spans and requests of a time, newest first: those that are still in memory,
 * then batch by batch from the disk. A batch that is written in between is known by its number. */
#include <string.h>
#include <zlib.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/event.h"
#include "store/sqlite/private.h"

enum { PLAIN_MAX = 16 << 20 }; /* bytes of a batch; what is written has 1 MiB at the most */

struct store_event_reading {
    struct sonde_store *s;
    int kind;
    const struct sonde_store_range *q;
    int64_t from_ms, to_ms;
    union store_event_row row;
    void *arg;
    struct sonde_store_counts *counts;
    struct sonde_event_room *room;
    struct sonde_buf plain[3];     /* in memory: open, out; the third: of a row */
    int64_t id[2];                 /* their numbers; 0 = none */
    size_t shown;
    int done;                      /* enough, or who asks has enough */
    struct sonde_err *err;
};

static int store_event_read_in_range(const struct store_event_reading *k, uint64_t time_ns)
{
    const int64_t ms = (int64_t)(time_ns / 1000000);
    return ms >= k->from_ms && ms <= k->to_ms;
}

static int store_event_read_show(struct store_event_reading *k, struct sonde_chunk_in record)
{
    int rc, enough = 0;
    if (k->kind == STORE_SPANS) {
        struct sonde_model_span span;
        rc = sonde_event_get_span(&record, k->room, &span);
        if (rc || !store_event_read_in_range(k, span.start_ns)) return rc;
        enough = k->row.span(&span, k->arg);
    } else {
        struct sonde_infer_request r;
        rc = sonde_event_get_request(&record, k->room, &r);
        if (rc || !store_event_read_in_range(k, r.arrived_ns)) return rc;
        enough = k->row.request(&r, k->arg);
    }
    k->done = enough || ++k->shown == k->q->limit;
    return 0;
}

static int store_event_read_damaged(struct store_event_reading *k, int rc, int64_t id)
{
    if (rc == SONDE_ENOMEM) return sonde_err_set(k->err, rc, "no memory to read the store");
    return sonde_err_set(k->err, rc, "store '%s' is damaged: table %s, row %lld cannot be read",
                         k->s->path, store_event_tables[k->kind], (long long)id);
}

/* All of a batch, from its end. */
static int show_batch(struct store_event_reading *k, const struct sonde_buf *plain, uint64_t kept,
                      int64_t id)
{
    const unsigned char *bytes = (const unsigned char *)plain->data;
    struct sonde_chunk_in in = { bytes, bytes + plain->len, 0 };
    if (!kept) return 0;
    if (kept > plain->len) return store_event_read_damaged(k, SONDE_EFORMAT, id);
    struct sonde_chunk_in *records = sonde__calloc(kept, sizeof(*records));
    if (!records) return store_event_read_damaged(k, SONDE_ENOMEM, id);
    uint64_t n = 0;
    while (n < kept && sonde_event_next(&in, &records[n])) n++;
    int rc = n == kept && in.at == in.end ? 0 : SONDE_EFORMAT;
    while (!rc && n > 0 && !k->done) rc = store_event_read_show(k, records[--n]);
    sonde__free(records);
    return rc ? store_event_read_damaged(k, rc, id) : 0;
}

static void note_counts(struct store_event_reading *k, uint64_t kept, uint64_t seen)
{
    if (!k->counts) return;
    k->counts->kept += kept;
    k->counts->seen += seen;
}

/* Copies: what is in memory goes on. */
static int show_memory(struct store_event_reading *k)
{
    const struct store_batch *const batches[2] = { &k->s->events[k->kind].open,
                                                   &k->s->events[k->kind].out };
    uint64_t kept[2] = { 0 }, seen[2] = { 0 };
    sonde_lock(&k->s->lock);
    for (int i = 0; i < 2; i++) {
        if (!batches[i]->seen) continue;
        k->id[i] = batches[i]->id;
        kept[i] = batches[i]->kept;
        seen[i] = batches[i]->seen;
        sonde_buf_add(&k->plain[i], batches[i]->data.data, batches[i]->data.len);
    }
    sonde_unlock(&k->s->lock);
    int rc = 0;
    for (int i = 0; i < 2 && !rc && !k->done; i++) {
        if (k->plain[i].error) return store_event_read_damaged(k, SONDE_ENOMEM, 0);
        note_counts(k, kept[i], seen[i]);
        rc = show_batch(k, &k->plain[i], kept[i], k->id[i]);
    }
    return rc;
}

/* id, kept, seen, plain_bytes, data */
static int show_row(struct store_event_reading *k, sqlite3_stmt *st)
{
    const int64_t id = sqlite3_column_int64(st, 0);
    if (id == k->id[0] || id == k->id[1]) return 0; /* it was in memory a moment ago */
    const uint64_t kept = (uint64_t)sqlite3_column_int64(st, 1);
    const uint64_t len = (uint64_t)sqlite3_column_int64(st, 3);
    const void *packed = sqlite3_column_blob(st, 4);
    struct sonde_buf *plain = &k->plain[2];
    sonde_buf_reset(plain);
    uLongf plain_len = len;
    if (!packed || len > PLAIN_MAX) return store_event_read_damaged(k, SONDE_EFORMAT, id);
    char *room = sonde_buf_reserve(plain, len + 1);
    if (!room) return store_event_read_damaged(k, SONDE_ENOMEM, id);
    if (uncompress((Bytef *)room, &plain_len, packed, (uLong)sqlite3_column_bytes(st, 4)) != Z_OK ||
        plain_len != len) {
        return store_event_read_damaged(k, SONDE_EFORMAT, id);
    }
    plain->len = len;
    note_counts(k, kept, (uint64_t)sqlite3_column_int64(st, 2));
    return show_batch(k, plain, kept, id);
}

static int show_disk(struct store_event_reading *k)
{
    static const char *const sql[STORE_EVENTS] = {
        "SELECT id, kept, seen, plain_bytes, data FROM spans WHERE to_ms >= ?1 AND from_ms <= ?2"
        " AND (?3 = 0 OR run = ?3) ORDER BY id DESC",
        "SELECT id, kept, seen, plain_bytes, data FROM requests WHERE to_ms >= ?1 AND from_ms <= ?2"
        " AND (?3 = 0 OR run = ?3) ORDER BY id DESC",
    };
    struct sonde_store *s = k->s;
    sqlite3_stmt *st = NULL;
    if (s->version < 2) return 0; /* of a file that may not be changed */
    if (sqlite3_prepare_v2(s->read, sql[k->kind], -1, &st, NULL) != SQLITE_OK) {
        return store_failed(s, s->read, k->err);
    }
    sqlite3_bind_int64(st, 1, k->from_ms);
    sqlite3_bind_int64(st, 2, k->to_ms);
    sqlite3_bind_int64(st, 3, k->q->run);
    int rc = 0, got = SQLITE_DONE;
    while (!rc && !k->done && (got = sqlite3_step(st)) == SQLITE_ROW) rc = show_row(k, st);
    if (!rc && got != SQLITE_ROW && got != SQLITE_DONE) rc = store_failed(s, s->read, k->err);
    sqlite3_finalize(st);
    return rc;
}

static int store_event_read_events(struct store_event_reading *k)
{
    k->from_ms = store_milliseconds(k->q->from_s);
    k->to_ms = k->q->to_s > 0 ? store_milliseconds(k->q->to_s) : INT64_MAX;
    k->room = sonde__calloc(1, sizeof(*k->room));
    if (!k->room) return sonde_err_set(k->err, SONDE_ENOMEM, "no memory to read the store");
    for (int i = 0; i < 3; i++) sonde_buf_init(&k->plain[i], PLAIN_MAX + 2);
    sonde_lock(&k->s->read_lock);
    int rc = k->s->read ? 0 : sonde_err_set(k->err, SONDE_EIO, "store '%s' is being replaced",
                                            k->s->path);
    if (!rc && (!k->q->run || k->q->run == k->s->run)) rc = show_memory(k);
    if (!rc && !k->done) rc = show_disk(k);
    sonde_unlock(&k->s->read_lock);
    for (int i = 0; i < 3; i++) sonde_buf_release(&k->plain[i]);
    sonde_event_room_release(k->room);
    sonde__free(k->room);
    return rc;
}

int store_spans(struct sonde_store *s, const struct sonde_store_range *q,
                int (*row)(const struct sonde_model_span *span, void *arg), void *arg,
                struct sonde_store_counts *counts, struct sonde_err *err)
{
    struct store_event_reading k = { .s = s, .kind = STORE_SPANS, .q = q, .row.span = row,
                                     .arg = arg, .counts = counts, .err = err };
    return store_event_read_events(&k);
}

int store_requests(struct sonde_store *s, const struct sonde_store_range *q,
                   int (*row)(const struct sonde_infer_request *r, void *arg), void *arg,
                   struct sonde_store_counts *counts, struct sonde_err *err)
{
    struct store_event_reading k = { .s = s, .kind = STORE_REQUESTS, .q = q, .row.request = row,
                                     .arg = arg, .counts = counts, .err = err };
    return store_event_read_events(&k);
}
