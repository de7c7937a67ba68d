/* kernel_variants.h - the variants of kernel.h, and what each has in files of its own: products (of
 * F32 and F16 weights, and of the others) and the conversion of activations, which is the same in
 * all. */
#ifndef ENGINE_MATH_KERNEL_VARIANTS_H
#define ENGINE_MATH_KERNEL_VARIANTS_H

#include "math/kernel.h"

extern const struct kernel_ops kernel_portable, kernel_avx2, kernel_avx512;

#define KERNEL_MATMUL(name)                                                                       \
    void name(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,             \
              uint32_t count, float *out, size_t out_stride)
KERNEL_MATMUL(matmul_portable);
KERNEL_MATMUL(matmul_float_avx2);
KERNEL_MATMUL(matmul_int_avx2);
KERNEL_MATMUL(matmul_float_avx512);
KERNEL_MATMUL(matmul_int_avx512);
#undef KERNEL_MATMUL

void acts_from_floats_portable(enum weight_type type, const float *x, uint32_t cols, void *acts);
void acts_from_floats_avx2(enum weight_type type, const float *x, uint32_t cols, void *acts);
void acts_from_floats_avx512(enum weight_type type, const float *x, uint32_t cols, void *acts);

#endif
