/* matmul_portable.c - matrix products in plain C: a row times a vector, one after the other.
 *
 * Floats are added up in 8 sums (the compiler makes vectors of them), integers exactly by block. */
#include <string.h>

#include "math/acts.h"
#include "math/kernel_variants.h"

enum { LANES = 8 };

static float matmul_portable_lanes_sum(const float s[LANES])
{
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

static float dot_f32(const void *row, const float *x, uint32_t n)
{
    const float *w = row;
    float s[LANES] = { 0 };
    uint32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (uint32_t j = 0; j < LANES; j++) s[j] += w[i + j] * x[i + j];
    }
    for (uint32_t j = 0; i + j < n; j++) s[j] += w[i + j] * x[i + j];
    return matmul_portable_lanes_sum(s);
}

static float matmul_portable_dot_f16(const void *row, const float *x, uint32_t n)
{
    const uint16_t *w = row;
    float s[LANES] = { 0 };
    for (uint32_t i = 0; i < n; i++) s[i % LANES] += weight_f16_to_float(w[i]) * x[i];
    return matmul_portable_lanes_sum(s);
}

static float block_scale(const unsigned char *at)
{
    uint16_t h;
    memcpy(&h, at, sizeof(h));
    return weight_f16_to_float(h);
}

static float dot_q8_0(const void *row, const struct acts *a)
{
    const unsigned char *w = row;
    float sum = 0;
    for (uint32_t b = 0; b < a->blocks; b++, w += 34) {
        const int8_t *q = a->q + 32 * b;
        int32_t dot = 0;
        for (int i = 0; i < 32; i++) dot += (int8_t)w[2 + i] * q[i];
        sum += block_scale(w) * a->d[b] * (float)dot;
    }
    return sum;
}

static float dot_q4_0(const void *row, const struct acts *a)
{
    const unsigned char *w = row;
    float sum = 0;
    for (uint32_t b = 0; b < a->blocks; b++, w += 18) {
        const int8_t *q = a->q + 32 * b;
        int32_t dot = 0;
        for (int i = 0; i < 16; i++) dot += (w[2 + i] & 15) * q[i] + (w[2 + i] >> 4) * q[16 + i];
        sum += block_scale(w) * a->d[b] * (float)(dot - 8 * a->sum[b]);
    }
    return sum;
}

static float dot_tq2_0(const void *row, const struct acts *a)
{
    const unsigned char *w = row;
    float sum = 0;
    for (uint32_t b = 0; b < a->blocks; b++, w += 66) {
        int32_t dot = 0;
        for (int part = 0; part < 8; part++) {
            const unsigned char *codes = w + part / 4 * 32;
            const int8_t *q = a->q + 256 * b + 32 * part;
            for (int i = 0; i < 32; i++) dot += (codes[i] >> 2 * (part % 4) & 3) * q[i];
        }
        sum += block_scale(w + 64) * a->d[b] * (float)(dot - a->sum[b]);
    }
    return sum;
}

static float dot_i2_s(const void *row, const struct acts *a, float scale)
{
    const unsigned char *w = row;
    int32_t dot = 0;
    for (uint32_t at = 0; at < a->block; at += 32) {
        const unsigned char *codes = w + at / 128 * 32;
        const uint32_t shift = 6 - at % 128 / 16;
        for (uint32_t i = 0; i < 32; i++) dot += (codes[i] >> shift & 3) * a->q[at + i];
    }
    return (float)(dot - a->sum[0]) / a->d[0] * scale;
}

static float dot_quantized(const struct weight *w, const void *row, const void *acts)
{
    const struct acts a = acts_of(w->type, w->cols, acts);
    switch (w->type) {
    case WEIGHT_Q8_0: return dot_q8_0(row, &a);
    case WEIGHT_Q4_0: return dot_q4_0(row, &a);
    case WEIGHT_TQ2_0: return dot_tq2_0(row, &a);
    default: return dot_i2_s(row, &a, w->scale);
    }
}

void matmul_portable(const struct weight *w, uint32_t begin, uint32_t end, const void *acts,
                     uint32_t count, float *out, size_t out_stride)
{
    const size_t acts_bytes = acts_row_bytes(w->type, w->cols);
    for (uint32_t r = begin; r < end; r++) {
        const void *row = (const char *)w->data + r * w->row_bytes;
        for (uint32_t t = 0; t < count; t++) {
            const void *x = (const char *)acts + t * acts_bytes;
            float *at = &out[t * out_stride + r];
            if (w->type == WEIGHT_F32) *at = dot_f32(row, x, w->cols);
            else if (w->type == WEIGHT_F16) *at = matmul_portable_dot_f16(row, x, w->cols);
            else *at = dot_quantized(w, row, x);
        }
    }
}
