/* acts_lanes.h - floats to what weights are multiplied with (acts.h), a vector at a time; the code
 * of acts_avx2.c and acts_avx512.c, which say before what a vector is and how one becomes bytes:
 *
 *   int32_t quantize(const float *x, uint32_t n, float by, int8_t *q)    Σ q; q = round(x · by)
 *
 * The same numbers as acts_portable.c has. Blocks are multiples of 32. */
#include <string.h>

#include "math/acts.h"

/* The largest magnitude; what is not a number is passed over. */
LANES_INLINE float magnitude_max(const float *x, uint32_t n)
{
    LANES_VEC most = lanes_set(0);
    for (uint32_t i = 0; i < n; i += LANES) {
        most = lanes_max(lanes_magnitude(lanes_load(x + i)), most);
    }
    return lanes_largest(most);
}

/* The first number of that magnitude. */
static float magnitude_find(const float *x, uint32_t n, float magnitude)
{
    for (uint32_t i = 0; i < n; i += LANES) {
        const uint32_t found = lanes_equal(lanes_magnitude(lanes_load(x + i)), magnitude);
        if (found) return x[i + (uint32_t)__builtin_ctz(found)];
    }
    return magnitude;
}

static void row_round_f16(const float *x, uint32_t cols, float *out)
{
    for (uint32_t i = 0; i < cols; i += LANES) {
        const uint32_t n = cols - i < LANES ? cols - i : LANES;
        lanes_store_first(out + i, lanes_round_f16(lanes_load_first(x + i, n)), n);
    }
}

static void blocks_32(const float *x, const struct acts *a)
{
    for (uint32_t b = 0; b < a->blocks; b++, x += 32) {
        const float most = magnitude_max(x, 32);
        a->d[b] = _cvtsh_ss(_cvtss_sh(most / 127.0f, _MM_FROUND_TO_NEAREST_INT));
        a->sum[b] = quantize(x, 32, most != 0 ? 127.0f / most : 0, a->q + 32 * b);
    }
}

static void blocks_256(const float *x, const struct acts *a)
{
    for (uint32_t b = 0; b < a->blocks; b++, x += 256) {
        const float most = magnitude_max(x, 256);
        const float by = most != 0 ? -127.0f / magnitude_find(x, 256, most) : 0;
        a->sum[b] = quantize(x, 256, by, a->q + 256 * b);
        a->d[b] = most != 0 ? 1 / by : 0;
    }
}

static void acts_from_floats(enum weight_type type, const float *x, uint32_t cols, void *out)
{
    if (type == WEIGHT_F32) {
        memcpy(out, x, (size_t)cols * sizeof(*x));
    } else if (type == WEIGHT_F16) {
        row_round_f16(x, cols, out);
    } else {
        const struct acts a = acts_of(type, cols, out);
        if (type == WEIGHT_TQ2_0) {
            blocks_256(x, &a);
        } else if (type == WEIGHT_I2_S) {
            const float most = magnitude_max(x, cols);
            a.d[0] = 127.0f / (most > 1e-5f ? most : 1e-5f);
            a.sum[0] = quantize(x, cols, a.d[0], a.q);
        } else {
            blocks_32(x, &a);
        }
    }
}
