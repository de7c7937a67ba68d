/* chunk.h - columns of numbers in few bytes, without loss: what stored series are made of.
 *
 * A column of n numbers (n is kept elsewhere) is one byte that says how, then what that needs, then
 * a stream of bits, padded to a byte:
 *
 *     kind (bits 0-2)       integers   the numbers as they are
 *                           decimals   a byte e: they are integers / 10^e
 *                           xor        each double against the one before (Gorilla), or constant
 *     transform (bits 3-4)  level      difference to the median
 *                           delta      difference to the one before, less the median of those
 *                           delta2     difference of differences
 *                           constant   all alike: nothing follows but the number
 *
 * Integers: the first number and the median, as far as the transform has them, and what all
 * residuals can be divided by, as varints; then residuals in groups of 32, zigzagged and Rice
 * coded: k low bits as they are, the rest in unary. A group begins with a bit that says "k as
 * before", or with a new k; one k says that all 32 are 0.
 *
 * The writer tries all transforms and takes the smallest. Dividing is what makes memory in pages
 * and CPU time in scheduler ticks small; decimals what makes milliseconds and percentages small.
 * Gorilla's XOR alone takes 2 to 7 bytes for those. Rejected: a general compressor, which at 600
 * numbers has not learnt anything yet. */
#ifndef SONDE_STORE_CHUNK_H
#define SONDE_STORE_CHUNK_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum { SONDE_CHUNK_MAX = 2048 }; /* numbers of a column */

enum sonde_chunk_type {
    SONDE_CHUNK_INTEGERS, /* uint64_t; differences wrap, so any will do */
    SONDE_CHUNK_DOUBLES,  /* the bits of doubles, NaN and -0 included */
};

/* ---- Writing: out keeps any error ------------------------------------------------------------ */

void sonde_chunk_put_varint(struct sonde_buf *out, uint64_t v);
void sonde_chunk_put(struct sonde_buf *out, enum sonde_chunk_type type, const uint64_t *v,
                     uint32_t n);

/* ---- Reading: nothing is believed ------------------------------------------------------------ */

struct sonde_chunk_in {
    const unsigned char *at, *end;
    int bad; /* set once something could not be; everything read after that is 0 */
};

uint64_t sonde_chunk_get_varint(struct sonde_chunk_in *in);
/* Exactly n numbers to out. */
void sonde_chunk_get(struct sonde_chunk_in *in, enum sonde_chunk_type type, uint64_t *out,
                     uint32_t n);

#endif
