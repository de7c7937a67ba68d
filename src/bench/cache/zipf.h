/* zipf.h - ranks by Zipf's law: rank k of n with a probability in proportion to 1 / k^s, as what
 * is asked for again and again is. By rejection-inversion (Hoermann and Derflinger 1996): no
 * table, so n may be large; 1.1 tries for a rank at most. */
#ifndef SONDE_BENCH_CACHE_ZIPF_H
#define SONDE_BENCH_CACHE_ZIPF_H

#include <stdint.h>

#include "bench/draw.h"

struct sonde_zipf {
    uint64_t n;
    double s;                    /* exponent, > 0 */
    double h_first, h_last, cut; /* private */
};

void sonde_zipf_init(struct sonde_zipf *z, uint64_t n, double s); /* n >= 1 */
uint64_t sonde_zipf_draw(const struct sonde_zipf *z, struct sonde_draw *d); /* 1 … n */

/* A place for every rank, 0 … n - 1, each once, far apart: popular blocks are not neighbours. */
uint64_t sonde_zipf_place(const struct sonde_zipf *z, uint64_t rank);

#endif
