/* matmul_float_avx2.c - products of F32 and F16 weights: 12 of 16 registers are sums. */
#include "math/kernel_variants.h"
#include "math/lanes_avx2.h"

enum { TILE_ROWS = 3, TILE_TOKENS = 4 };
#define TILE_COUNTS TILE_COUNT(1) TILE_COUNT(2) TILE_COUNT(3) TILE_COUNT(4)
#define TILE_TABLE TILE_NAMES(1), TILE_NAMES(2), TILE_NAMES(3), TILE_NAMES(4)

#include "math/matmul_float.h"

void matmul_float_avx2(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                       uint32_t count, float *out, size_t out_stride)
{
    matmul_float(w, begin, end, acts, count, out, out_stride);
}
