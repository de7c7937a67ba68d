/* remote_write.h - the parts of remote write that are tested by themselves. */
#ifndef SONDE_PUSH_REMOTE_WRITE_H
#define SONDE_PUSH_REMOTE_WRITE_H

#include "base/map.h"
#include "push/push_private.h"

/* Time series that were sent the last time, by their labels' bytes: one that is not there any more
 * is told to have ended. Up to RW_TRACKED_MAX; the rest end without a word, after five minutes. */
enum { RW_TRACKED_MAX = 1 << 18 };

struct rw_tracked {
    char *labels;              /* Label fields of a TimeSeries; owned */
    uint32_t len, hash;
    uint32_t round;            /* when it was seen last */
};

struct rw_table {
    struct rw_tracked *rows;
    uint32_t count, cap;
    struct sonde_map map;      /* row + 1 */
    uint32_t round;
};

/* labels are there in this round. What does not fit is not tracked. */
void rw_table_mark(struct rw_table *t, const char *labels, size_t len);
/* Calls gone for each that was not marked in this round, and forgets it; the next round begins. */
void rw_table_sweep(struct rw_table *t, void (*gone)(const char *labels, size_t len, void *arg),
                    void *arg);
void rw_table_release(struct rw_table *t);

/* Bytes of a prompb.Histogram of h's native buckets. leaf: scratch. */
void rw_native(struct sonde_buf *out, struct sonde_buf *leaf, const struct sonde_model_series *s,
               int64_t time_ms);

#endif
