/* kernel_avx512.c - the variant for CPUs with AVX-512 (F, BW, VL, DQ, VNNI). */
#include "math/acts.h"
#include "math/kernel_variants.h"
#include "math/lanes_avx512.h"

#include "math/kernel_lanes.h"

static int usable(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma");
}

static void kernel_avx512_multiply(const struct weight *w, uint32_t begin, uint32_t end,
                                   const void *acts, uint32_t count, float *out, size_t out_stride)
{
    if (w->type == WEIGHT_F32 || w->type == WEIGHT_F16) {
        matmul_float_avx512(w, begin, end, acts, count, out, out_stride);
    } else {
        matmul_int_avx512(w, begin, end, acts, count, out, out_stride);
    }
}

const struct kernel_ops kernel_avx512 = KERNEL_OPS(avx512, kernel_avx512_multiply);
