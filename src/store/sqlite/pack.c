/* pack.c - a full block becomes chunks, some columns a step, and its rows are deleted with the
 * last of them. */
#include <assert.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

enum { SEAL_COLUMNS = 100 }; /* a step */

static int save_chunk(struct sonde_store *s, const struct block_column *c, struct sonde_buf *data,
                      struct sonde_err *err)
{
    sonde_buf_reset(data);
    block_put_column(c, data);
    if (data->error) return sonde_err_memory(err);
    sqlite3_stmt *st = store_sql(s, SQL_ADD_CHUNK);
    if (!st) return store_failed(s, s->db, err);
    sqlite3_bind_int64(st, 1, (sqlite3_int64)s->job.block << STORE_SERIES_BITS | c->series);
    sqlite3_bind_blob64(st, 2, data->data, data->len, SQLITE_STATIC);
    return store_step(s, st, err);
}

/* All columns are chunks: the block counts, its rows do not any more. */
static int finish_block(struct sonde_store *s, const struct block *b, struct sonde_buf *data,
                        struct sonde_err *err)
{
    sonde_buf_reset(data);
    block_put_times(b, data);
    if (data->error) return sonde_err_memory(err);
    const int64_t from = b->time_ms[0], to = b->time_ms[b->ticks - 1];
    sqlite3_stmt *st = store_sql(s, SQL_ADD_BLOCK);
    if (!st) return store_failed(s, s->db, err);
    sqlite3_bind_int64(st, 1, s->job.block);
    sqlite3_bind_int64(st, 2, b->run);
    sqlite3_bind_int(st, 3, 0);
    sqlite3_bind_int64(st, 4, from);
    sqlite3_bind_int64(st, 5, to);
    sqlite3_bind_int64(st, 6, b->ticks);
    sqlite3_bind_double(st, 7, block_interval_ms(b));
    sqlite3_bind_blob64(st, 8, data->data, data->len, SQLITE_STATIC);
    int rc = store_step(s, st, err);
    if (!rc && (st = store_sql(s, SQL_DELETE_HEAD))) {
        sqlite3_bind_int64(st, 1, (sqlite3_int64)b->id << STORE_TICK_BITS);
        sqlite3_bind_int64(st, 2, (sqlite3_int64)(b->id + 1) << STORE_TICK_BITS);
        rc = store_step(s, st, err);
    }
    if (!rc && (st = store_sql(s, SQL_RUN_SEEN))) {
        sqlite3_bind_int64(st, 1, b->run);
        sqlite3_bind_int64(st, 2, to);
        sqlite3_bind_int64(st, 3, b->ticks);
        rc = store_step(s, st, err);
    }
    if (!rc) s->roll_wanted = 1;
    return rc ? rc : st ? 0 : store_failed(s, s->db, err);
}

int store_pack_step(struct sonde_store *s, struct sonde_err *err)
{
    sonde_assert_held(&s->db_lock);
    assert(!s->job.tier); /* one job at a time */
    struct block *b = s->sealing; /* only this thread changes the list */
    if (!b) return 0;
    if (!s->job.block) s->job = (struct store_job){ .block = s->next_block++ };
    const double began_s = store_cpu_s();
    struct sonde_buf data;
    sonde_buf_init(&data, STORE_CHUNK_BYTES_MAX);
    uint32_t next = s->job.next;
    int rc = store_run_sql(s, SQL_BEGIN, err);
    for (uint32_t n = 0; !rc && next < b->count && n < SEAL_COLUMNS; n++, next++) {
        if (n && store_cpu_s() - began_s > STORE_STEP_S) break;
        if (b->column[next].count) rc = save_chunk(s, &b->column[next], &data, err);
    }
    const int whole = next == b->count;
    if (!rc && whole) rc = finish_block(s, b, &data, err);
    if (!rc) rc = store_run_sql(s, SQL_COMMIT, err);
    if (rc) store_rollback(s);
    sonde_buf_release(&data);
    if (rc) return rc;
    s->job.next = next;
    if (!whole) return 1;
    s->job = (struct store_job){ 0 };
    sonde_lock(&s->lock);
    assert(s->sealing == b);
    s->sealing = b->next;
    store_block_put(b);
    sonde_unlock(&s->lock);
    return 1;
}
