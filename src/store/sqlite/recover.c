/* recover.c - after a crash: rows of head become blocks again, to be packed. */
#include "base/alloc.h"
#include "base/log.h"
#include "sonde/sonde.h"
#include "store/sqlite/private.h"

struct types {
    sqlite3_stmt *st;
};

static int store_recover_type_of(uint32_t series, void *arg)
{
    sqlite3_stmt *st = ((struct types *)arg)->st;
    sqlite3_bind_int64(st, 1, series);
    const int type = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int(st, 0) : -1;
    sqlite3_reset(st);
    return type >= SONDE_COUNTER && type <= SONDE_HISTOGRAM ? type : -1;
}

/* A row of head to the block it is of. SONDE_EFORMAT: what is behind it in its block is lost. */
static int recover_row(struct sonde_store *s, sqlite3_stmt *st, struct types *types,
                       struct block **last)
{
    const int64_t id = sqlite3_column_int64(st, 0);
    const uint32_t number = (uint32_t)(id >> STORE_TICK_BITS);
    if (!*last || (*last)->id != number) {
        struct block *b = NULL;
        if (block_create(number, (uint32_t)sqlite3_column_int64(st, 1), &b)) return SONDE_ENOMEM;
        if (*last) (*last)->next = b;
        else s->sealing = b;
        *last = b;
    }
    struct block *b = *last;
    if (b->damaged || (id & ((1 << STORE_TICK_BITS) - 1)) != b->ticks) b->damaged = 1;
    if (b->damaged) return 0;
    const void *data = sqlite3_column_blob(st, 3);
    const size_t len = (size_t)sqlite3_column_bytes(st, 3);
    const int rc = block_replay(b, sqlite3_column_int64(st, 2), data ? data : "", len,
                                store_recover_type_of, types);
    if (rc != SONDE_EFORMAT) return rc;
    b->damaged = 1;
    block_forget_tick(b);
    sonde_log(SONDE_LOG_WARN, "store '%s': a row of its table head is damaged: some minutes of "
              "what was recorded last are lost", s->path);
    return 0;
}

int store_recover(struct sonde_store *s, sqlite3 *db, struct sonde_err *err)
{
    sqlite3_stmt *st = NULL;
    struct types types = { NULL };
    struct block *last = NULL;
    int rc = 0, got = SQLITE_DONE;
    if (sqlite3_prepare_v2(db, "SELECT id, run, time_ms, data FROM head ORDER BY id", -1, &st,
                           NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "SELECT type FROM series WHERE id = ?1", -1, &types.st, NULL) !=
            SQLITE_OK) {
        rc = store_failed(s, db, err);
    }
    while (!rc && (got = sqlite3_step(st)) == SQLITE_ROW) {
        rc = recover_row(s, st, &types, &last);
        if (rc) sonde_err_set(err, rc, "store '%s': no memory to read what was recorded last",
                              s->path);
    }
    if (!rc && got != SQLITE_DONE) rc = store_failed(s, db, err);
    sqlite3_finalize(st);
    sqlite3_finalize(types.st);
    s->next_head = last ? last->id + 1 : s->next_head;
    /* A block of which not even the first row is good is none. */
    for (struct block **at = &s->sealing; *at;) {
        struct block *b = *at;
        if (b->ticks) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        block_destroy(b);
    }
    return rc;
}
