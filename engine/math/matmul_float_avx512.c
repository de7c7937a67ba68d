/* matmul_float_avx512.c - products of F32 and F16 weights: 24 of 32 registers are sums, and a step
 * over 16 columns is 10 loads and 24 multiply-adds. */
#include "math/kernel_variants.h"
#include "math/lanes_avx512.h"

enum { TILE_ROWS = 4, TILE_TOKENS = 6 };
#define TILE_COUNTS                                                                               \
    TILE_COUNT(1) TILE_COUNT(2) TILE_COUNT(3) TILE_COUNT(4) TILE_COUNT(5) TILE_COUNT(6)
#define TILE_TABLE                                                                                \
    TILE_NAMES(1), TILE_NAMES(2), TILE_NAMES(3), TILE_NAMES(4), TILE_NAMES(5), TILE_NAMES(6)

#include "math/matmul_float.h"

void matmul_float_avx512(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                         uint32_t count, float *out, size_t out_stride)
{
    matmul_float(w, begin, end, acts, count, out, out_stride);
}
