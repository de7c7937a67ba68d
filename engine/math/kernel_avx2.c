/* kernel_avx2.c - the variant for CPUs with AVX2, FMA and F16C. */
#include <cpuid.h>

#include "math/acts.h"
#include "math/kernel_variants.h"
#include "math/lanes_avx2.h"

#include "math/kernel_lanes.h"

static int usable(void)
{
    unsigned a, b, c, d; /* clang does not know "f16c" */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

static void kernel_avx2_multiply(const struct weight *w, uint32_t begin, uint32_t end,
                                 const void *acts, uint32_t count, float *out, size_t out_stride)
{
    if (w->type == WEIGHT_F32 || w->type == WEIGHT_F16) {
        matmul_float_avx2(w, begin, end, acts, count, out, out_stride);
    } else {
        matmul_int_avx2(w, begin, end, acts, count, out, out_stride);
    }
}

const struct kernel_ops kernel_avx2 = KERNEL_OPS(avx2, kernel_avx2_multiply);
