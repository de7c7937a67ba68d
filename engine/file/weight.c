/* weight.c - the reference conversions of weight.h: one number at a time, in the order and with the
 * roundings that ggml's quantize_row_*_ref have, so that a file quantized here is the same as one
 * quantized there. Blocks are read and written as bytes: they start at any address. */
#include "file/weight.h"

#include <math.h>
#include <string.h>
#include <strings.h>

enum { Q_BLOCK = 32, TQ2_BLOCK = 256, TQ2_HALF = 128, I2_BLOCK = 128, CODES = 32, I2_TAIL = 32 };

static const struct weight_kind kinds[] = {
    { WEIGHT_F32,   "F32",   1,         4,              0 },
    { WEIGHT_F16,   "F16",   1,         2,              1 },
    { WEIGHT_Q8_0,  "Q8_0",  Q_BLOCK,   2 + Q_BLOCK,    7 },
    { WEIGHT_Q4_0,  "Q4_0",  Q_BLOCK,   2 + Q_BLOCK / 2, 2 },
    { WEIGHT_TQ2_0, "TQ2_0", TQ2_BLOCK, TQ2_BLOCK / 4 + 2, 37 },
    { WEIGHT_I2_S,  "I2_S",  I2_BLOCK,  I2_BLOCK / 4,   40 }, /* of bitnet.cpp */
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

const struct weight_kind *weight_kind(uint32_t type)
{
    for (int i = 0; i < KINDS; i++) {
        if ((uint32_t)kinds[i].type == type) return &kinds[i];
    }
    return NULL;
}

const struct weight_kind *weight_kind_named(const char *name)
{
    for (int i = 0; i < KINDS; i++) {
        if (!strcasecmp(kinds[i].name, name)) return &kinds[i];
    }
    return NULL;
}

uint64_t weight_row_bytes(enum weight_type type, uint64_t cols)
{
    const struct weight_kind *k = weight_kind(type);
    return k ? cols / k->block * k->block_bytes : 0;
}

uint64_t weight_bytes(enum weight_type type, uint64_t cols, uint64_t rows)
{
    return rows * weight_row_bytes(type, cols) + (type == WEIGHT_I2_S ? I2_TAIL : 0);
}

/* ---- Half precision ------------------------------------------------------------------------ */

static uint32_t float_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

static float float_from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

float weight_f16_to_float(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = h >> 10 & 31,
                   mantissa = h & 0x3ff;
    if (exponent == 31) { /* infinity, or not a number: made a quiet one, as the instruction does */
        return float_from_bits(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
    }
    if (exponent) return float_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
    const float f = (float)mantissa * 0x1p-24f;
    return sign ? -f : f;
}

uint16_t weight_f16_from_float(float f)
{
    const uint32_t u = float_bits(f), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x47800000) return (uint16_t)(sign | 0x7c00); /* 65536 and more */
    if (magnitude < 0x38800000) {
        /* Below the smallest normal number: adding 2^-1 puts the last bit of a subnormal half where
         * the last bit of a float is, and the addition rounds to nearest even. */
        const float shifted = float_from_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (float_bits(shifted) - 0x3f000000));
    }
    /* May carry, up to infinity. */
    const uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | ((rounded - (112u << 23)) >> 13));
}

/* ---- From floats --------------------------------------------------------------------------- */

/* As a C conversion, but defined for numbers that do not fit: those of a block whose scale is so
 * small that its inverse is infinite. */
static int int_limited(float x, int low, int high)
{
    if (!(x > (float)low)) return low;
    return x < (float)high ? (int)x : high;
}

static float weight_inverse(float d)
{
    return d != 0 ? 1.0f / d : 0.0f;
}

static float weight_magnitude_max(const float *x, int n)
{
    float max = 0;
    for (int i = 0; i < n; i++) {
        if (fabsf(x[i]) > max) max = fabsf(x[i]);
    }
    return max;
}

static void half_put(unsigned char *to, float d)
{
    const uint16_t h = weight_f16_from_float(d);
    memcpy(to, &h, sizeof(h));
}

static void q8_0_block(const float *x, unsigned char *out)
{
    const float d = weight_magnitude_max(x, Q_BLOCK) / 127, by = weight_inverse(d);
    half_put(out, d);
    for (int i = 0; i < Q_BLOCK; i++) {
        out[2 + i] = (unsigned char)(int8_t)int_limited(roundf(x[i] * by), -128, 127);
    }
}

/* The number with the largest magnitude, whatever its sign, becomes −8: so it is exact. */
static void q4_0_block(const float *x, unsigned char *out)
{
    float extreme = 0;
    for (int i = 0; i < Q_BLOCK; i++) {
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
    }
    const float d = extreme / -8, by = weight_inverse(d);
    half_put(out, d);
    for (int i = 0; i < Q_BLOCK / 2; i++) {
        const int low = int_limited(x[i] * by + 8.5f, 0, 15);
        const int high = int_limited(x[i + Q_BLOCK / 2] * by + 8.5f, 0, 15);
        out[2 + i] = (unsigned char)(low | high << 4);
    }
}

static void tq2_0_block(const float *x, unsigned char *out)
{
    const float d = weight_magnitude_max(x, TQ2_BLOCK), by = weight_inverse(d);
    for (int half = 0; half < 2; half++, x += TQ2_HALF, out += CODES) {
        for (int i = 0; i < CODES; i++) {
            int codes = 0;
            for (int n = 0; n < 4; n++) {
                codes |= (int_limited(roundf(x[32 * n + i] * by), -1, 1) + 1) << 2 * n;
            }
            out[i] = (unsigned char)codes;
        }
    }
    half_put(out, d);
}

static void i2_s_block(const float *x, float by, unsigned char *out)
{
    memset(out, 0, CODES);
    for (int i = 0; i < I2_BLOCK; i++) {
        const int code = int_limited(rintf(x[i] * by), -1, 1) + 1;
        out[i % CODES] = (unsigned char)(out[i % CODES] | code << (6 - 2 * (i / CODES)));
    }
}

void weight_row_from_floats(enum weight_type type, const float *x, uint64_t n, float scale,
                            void *out)
{
    unsigned char *to = out;
    const struct weight_kind *k = weight_kind(type);
    for (uint64_t i = 0; i < n; i += k->block, to += k->block_bytes) {
        switch (type) {
        case WEIGHT_F32: memcpy(to, x + i, sizeof(*x)); break;
        case WEIGHT_F16: half_put(to, x[i]); break;
        case WEIGHT_Q8_0: q8_0_block(x + i, to); break;
        case WEIGHT_Q4_0: q4_0_block(x + i, to); break;
        case WEIGHT_TQ2_0: tq2_0_block(x + i, to); break;
        case WEIGHT_I2_S: i2_s_block(x + i, weight_inverse(scale), to); break;
        }
    }
}

/* Their magnitude, if all of them are 0 or that; else 0. */
static float weight_ternary_magnitude(const float *x, uint64_t n)
{
    float magnitude = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (x[i] == 0) continue;
        if (magnitude != 0 && fabsf(x[i]) != magnitude) return 0;
        magnitude = fabsf(x[i]);
    }
    return magnitude;
}

float weight_ternary_scale(const float *x, uint64_t n)
{
    const float magnitude = weight_ternary_magnitude(x, n);
    if (magnitude != 0) return magnitude;
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += fabs((double)x[i]);
    const double mean = n ? sum / (double)n : 0;
    return mean < 1e-5 ? 1e-5f : (float)mean; /* the least that BitNet b1.58 takes */
}

/* ---- To floats ----------------------------------------------------------------------------- */

static float half_get(const unsigned char *from)
{
    uint16_t h;
    memcpy(&h, from, sizeof(h));
    return weight_f16_to_float(h);
}

static void q8_0_floats(const unsigned char *in, float *out)
{
    const float d = half_get(in);
    for (int i = 0; i < Q_BLOCK; i++) out[i] = (float)(int8_t)in[2 + i] * d;
}

static void q4_0_floats(const unsigned char *in, float *out)
{
    const float d = half_get(in);
    for (int i = 0; i < Q_BLOCK / 2; i++) {
        out[i] = (float)((in[2 + i] & 15) - 8) * d;
        out[i + Q_BLOCK / 2] = (float)((in[2 + i] >> 4) - 8) * d;
    }
}

static void tq2_0_floats(const unsigned char *in, float *out)
{
    const float d = half_get(in + TQ2_BLOCK / 4);
    for (int half = 0; half < 2; half++, in += CODES, out += TQ2_HALF) {
        for (int i = 0; i < TQ2_HALF; i++) {
            out[i] = (float)((in[i % CODES] >> 2 * (i / CODES) & 3) - 1) * d;
        }
    }
}

static void i2_s_floats(const unsigned char *in, float scale, float *out)
{
    for (int i = 0; i < I2_BLOCK; i++) {
        out[i] = (float)((in[i % CODES] >> (6 - 2 * (i / CODES)) & 3) - 1) * scale;
    }
}

void weight_row_to_floats(const struct weight *w, uint32_t row, float *out)
{
    const struct weight_kind *k = weight_kind(w->type);
    const unsigned char *in = (const unsigned char *)w->data + row * w->row_bytes;
    for (uint64_t i = 0; i < w->cols; i += k->block, in += k->block_bytes) {
        switch (w->type) {
        case WEIGHT_F32: memcpy(out + i, in, sizeof(*out)); break;
        case WEIGHT_F16: out[i] = half_get(in); break;
        case WEIGHT_Q8_0: q8_0_floats(in, out + i); break;
        case WEIGHT_Q4_0: q4_0_floats(in, out + i); break;
        case WEIGHT_TQ2_0: tq2_0_floats(in, out + i); break;
        case WEIGHT_I2_S: i2_s_floats(in, w->scale, out + i); break;
        }
    }
}
