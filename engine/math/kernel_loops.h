/* kernel_loops.h - operations that the compiler makes vectors of by itself: the same text in all
 * variants, compiled for each. */
#include <stdint.h>

static void add(float *x, const float *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] += y[i];
}

static void scale(float *x, float by, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) x[i] *= by;
}

static void relu2_mul(float *gate, const float *up, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const float v = gate[i] > 0 ? gate[i] : 0;
        gate[i] = v * v * up[i];
    }
}
