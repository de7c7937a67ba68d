/* kernel_variants.h - the variants of kernel.h, and the products that each has in a file of its own. */
#ifndef ENGINE_MATH_KERNEL_VARIANTS_H
#define ENGINE_MATH_KERNEL_VARIANTS_H

#include "math/kernel.h"

extern const struct kernel_ops kernel_portable, kernel_avx2, kernel_avx512;

void matmul_portable(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                     uint32_t count, float *out, size_t out_stride);

/* F32 and F16; the others. */
void matmul_float_avx512(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                         uint32_t count, float *out, size_t out_stride);
void matmul_int_avx512(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                       uint32_t count, float *out, size_t out_stride);

/* Conversion of activations (acts.h), which is the same in all of them. */
void acts_from_floats_portable(enum weight_type type, const float *x, uint32_t cols, void *acts);
void acts_from_floats_avx512(enum weight_type type, const float *x, uint32_t cols, void *acts);

#endif
