/* kernel_variants.h - the variants of kernel.h, and what each has in files of its own: products (of
 * F32 and F16 weights, and of the others) and the conversion of activations, which is the same in
 * all. */
#ifndef ENGINE_MATH_KERNEL_VARIANTS_H
#define ENGINE_MATH_KERNEL_VARIANTS_H

#include "math/kernel.h"

extern const struct kernel_ops kernel_portable, kernel_avx2, kernel_avx512;

/* The table of a variant: its file has a static function for each that is named here. */
#define KERNEL_OPS(variant, product)                                                              \
    {                                                                                             \
        .name = #variant, .usable = usable, .acts_bytes = acts_row_bytes,                         \
        .acts_from_floats = acts_from_floats_##variant, .matmul = product,                        \
        .row_to_floats = weight_row_to_floats, .rms_norm = rms_norm, .add = add, .scale = scale,  \
        .silu_mul = silu_mul, .relu2_mul = relu2_mul, .f16_from_floats = f16_from_floats,         \
        .dot_f16 = dot_f16, .softmax = softmax, .add_f16 = add_f16, .scores_f16 = scores_f16,     \
        .weighted_sum_f16 = weighted_sum_f16,                                                     \
    }

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
