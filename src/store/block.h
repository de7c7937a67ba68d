/* block.h - some minutes of all series, in memory, on the way to the store.
 *
 * A block is a row of ticks and, for each series, a column: the values from one tick on, without a
 * hole, to the last tick or until the series is gone. All columns share the ticks' times, so times
 * cost next to nothing: a tick of a thousand series is stored once.
 *
 * Two forms leave it. After each tick a *row*, small, which is on disk a moment later: with all
 * rows a block can be built again (block_replay). When the block is full each column becomes a
 * *chunk* (chunk.h), and the rows are deleted.
 *
 * A row: number of columns that ended, and which; number of new columns, and for each its series
 * and, if a counter, the increase at its first value; then for each column that goes on, in order,
 * the value: a counter's difference, a gauge's bits XORed with those before and turned round (so
 * that few digits are few bytes), a histogram's entry. */
#ifndef SONDE_STORE_BLOCK_H
#define SONDE_STORE_BLOCK_H

#include "base/map.h"
#include "store/chunk_hist.h"
#include "store/store.h"

enum { BLOCK_TICKS_MAX = SONDE_CHUNK_MAX };

struct block_column {
    uint32_t series;           /* the store's id */
    uint32_t first, count;     /* ticks */
    uint32_t cap;
    uint8_t type;              /* enum sonde_type */
    uint8_t ended;
    uint64_t increase;         /* counter: at its first value */
    uint64_t *v;               /* totals, or bits; NULL for histograms */
    struct sonde_buf entries;  /* histograms */
    uint32_t last;             /* where the last entry begins */
};

struct block {
    struct block *next;        /* for who keeps a list */
    uint32_t id, run;          /* the store's: of its rows; the run it belongs to */
    uint32_t ticks;
    int64_t *time_ms;          /* BLOCK_TICKS_MAX of them, ascending */
    struct block_column *column;
    uint32_t count, cap;
    struct sonde_map index;    /* series to column + 1 */
    size_t bytes;              /* of memory, about */
    uint32_t refs;             /* 1 when created */
    int damaged;               /* rows were: what came later is not in it */
};

int block_create(uint32_t id, uint32_t run, struct block **out);
void block_destroy(struct block *b); /* NULL is fine */

/* A tick is begun; then block_value for each series; then block_close_tick, which appends the
 * tick's row to out. Of a new series `at` is UINT32_MAX and gets its column's number. Failing for
 * lack of memory leaves a hole: the block must not be added to any more. */
void block_open_tick(struct block *b, int64_t time_ms);
struct block_value {
    uint32_t *at;
    uint32_t series;
    uint8_t type;
    uint64_t value, increase;
    const char *entry;
    size_t entry_len;
};
int block_add(struct block *b, const struct block_value *v);
/* The column of a series, NULL if it has none. */
const struct block_column *block_find(const struct block *b, uint32_t series);
/* 1 if the column of this number is over: a value more needs another block. */
int block_over(const struct block *b, uint32_t at);
void block_close_tick(struct block *b, struct sonde_buf *out);

/* A row that block_close_tick made. type_of: -1 = no such series. SONDE_EFORMAT, SONDE_ENOMEM. */
int block_replay(struct block *b, int64_t time_ms, const void *row, size_t len,
                 int (*type_of)(uint32_t series, void *arg), void *arg);

/* The last tick never was. */
void block_forget_tick(struct block *b);

/* From one tick to the next, as a rule: a tick that is late, since the machine slept, the clock was
 * set forward or ticks were lost, does not count. */
double block_interval_ms(const struct block *b);

/* What is kept of a block, and of a column of it. out keeps any error. */
void block_put_times(const struct block *b, struct sonde_buf *out);
void block_put_column(const struct block_column *c, struct sonde_buf *out);

/* The reverse, of what may be damaged. v: room for ticks values, or hist. */
struct block_chunk {
    uint32_t first, count;
    uint64_t increase;
};
int block_get_times(const void *data, size_t len, uint32_t ticks, int64_t *time_ms);
int block_get_column(const void *data, size_t len, enum sonde_type type, uint32_t ticks,
                     struct block_chunk *c, uint64_t *v, struct sonde_hist_column *hist);
/* The same of a column in memory: v is not copied but borrowed. */
int block_view_column(const struct block_column *c, struct block_chunk *out, const uint64_t **v,
                      struct sonde_hist_column *hist);

#endif
