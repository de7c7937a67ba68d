/* chunk_hist.h - what histograms counted, tick by tick, in few bytes.
 *
 * An entry is what was added in one tick, as varints: zeros, sum (zigzag), number of buckets, and
 * for each bucket how many it is behind the one before and its count. That is how ticks are kept
 * until their block is full. A chunk has the same as columns (chunk.h): zeros, sums, numbers of
 * buckets; then, over all entries, first buckets, gaps between buckets, counts, in pieces of at
 * most SONDE_CHUNK_MAX. Counts are small and gaps are too, so a bucket takes about a byte. */
#ifndef SONDE_STORE_CHUNK_HIST_H
#define SONDE_STORE_CHUNK_HIST_H

#include "model/model.h"
#include "store/chunk.h"

enum { SONDE_CHUNK_BUCKETS_MAX = 1 << 20 }; /* of all entries of a chunk */

/* Entries side by side. All zero is empty. */
struct sonde_hist_column {
    uint32_t n, cap;
    uint64_t *zero, *sum_raw;
    uint32_t *end;        /* of an entry's buckets; they begin where the ones before end */
    uint32_t buckets, buckets_cap;
    uint64_t *count;      /* of a bucket */
    uint16_t *p;
};

void sonde_hist_column_release(struct sonde_hist_column *c);
void sonde_hist_column_reset(struct sonde_hist_column *c); /* empty, keep the memory */

/* An entry as bytes; out keeps any error. */
void sonde_chunk_put_entry(struct sonde_buf *out, const struct sonde_hist_delta *d);
/* Pass over an entry. */
void sonde_chunk_skip_entry(struct sonde_chunk_in *in);

/* The next entry of in, to the end of c. 0, SONDE_EFORMAT, SONDE_ENOMEM. */
int sonde_hist_column_add(struct sonde_hist_column *c, struct sonde_chunk_in *in);

/* One more entry, empty; then buckets of it, ascending. 0 or SONDE_ENOMEM. */
int sonde_hist_column_open(struct sonde_hist_column *c, uint64_t zero, uint64_t sum_raw);
int sonde_hist_column_bucket(struct sonde_hist_column *c, uint16_t p, uint64_t count);

/* All entries as a chunk, and n entries of a chunk to an empty c. */
void sonde_chunk_put_hist(struct sonde_buf *out, const struct sonde_hist_column *c);
int sonde_chunk_get_hist(struct sonde_chunk_in *in, uint32_t n, struct sonde_hist_column *c);

#endif
