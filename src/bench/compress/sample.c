/* sample.c - numbers as models have them, and how they are stored: see sample.h. Text is in
 * sample_text.c.
 *
 * Every sample of numbers is a function of position (row, column) and of random numbers that are
 * drawn in order, a row of SAMPLE_WIDTH at a time. Rows are then stored as a type has them:
 *
 *   f32, f16, bf16   little endian, rounded to nearest even
 *   q8_0             blocks of 32: an f16 scale (largest / 127), then 32 signed bytes
 *   q4_0             blocks of 32: an f16 scale (extreme / -8), then 16 bytes, value i in the low
 *                    and i + 16 in the high half, as GGUF has them */
#include "bench/compress/sample.h"

#include <math.h>
#include <string.h>

#include "bench/compress/sample_text.h"
#include "bench/draw.h"

enum { SAMPLE_WIDTH = 1024, SAMPLE_HEAD = 128, SAMPLE_BLOCK = 32, SAMPLE_CLUSTERS = 64 };

const struct sonde_compress_sample sonde_compress_samples[] = {
#define SONDE__X(id, type, summary) { #id, summary, SONDE_SAMPLE_##type },
    SONDE_SAMPLES(SONDE__X)
#undef SONDE__X
    { NULL, NULL, SONDE_SAMPLE_NONE },
};

static const char *const sample_type_names[] = {
    "",
#define SONDE__X(id, name) name,
    SONDE_SAMPLE_TYPES(SONDE__X)
#undef SONDE__X
};

const struct sonde_compress_sample *sonde_compress_sample_find(const char *name)
{
    const struct sonde_compress_sample *s = sonde_compress_samples;
    while (s->name && strcmp(s->name, name) != 0) s++;
    return s->name ? s : NULL;
}

enum sonde_sample_type sonde_sample_type_find(const char *name)
{
    int i = 1;
    while (i < SONDE_SAMPLE_TYPE_COUNT && strcmp(sample_type_names[i], name) != 0) i++;
    return (enum sonde_sample_type)i;
}

const char *sonde_sample_type_name(enum sonde_sample_type type) { return sample_type_names[type]; }

/* ---- Types ----------------------------------------------------------------------------------- */

static uint32_t sample_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, 4);
    return bits;
}

static uint16_t sample_bf16(float v)
{
    const uint32_t bits = sample_bits(v);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

/* To nearest even; too large is infinite, what is below the smallest normal one is rounded as
 * subnormals are. */
static uint16_t sample_f16(float v)
{
    const uint32_t bits = sample_bits(v), sign = bits >> 16 & 0x8000u;
    const float size = fabsf(v);
    if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00u);
    if (size < 6.103515625e-05f) return (uint16_t)(sign | (uint32_t)lrintf(size * 16777216.0f));
    const uint32_t low = bits & 0x7fffffffu;
    return (uint16_t)(sign | (((low + 0xfffu + (low >> 13 & 1u)) >> 13) - (112u << 10)));
}

static float sample_f16_value(uint16_t h)
{
    const int exponent = h >> 10 & 31, mantissa = h & 1023;
    const float size = exponent ? ldexpf((float)(1024 + mantissa), exponent - 25)
                                : ldexpf((float)mantissa, -24);
    return h & 0x8000 ? -size : size;
}

static size_t sample_q8_0(const float *v, unsigned char *out)
{
    float most = 0;
    for (int i = 0; i < SAMPLE_BLOCK; i++) if (fabsf(v[i]) > most) most = fabsf(v[i]);
    const uint16_t scale = sample_f16(most / 127);
    const float d = sample_f16_value(scale);
    memcpy(out, &scale, 2);
    for (int i = 0; i < SAMPLE_BLOCK; i++) {
        const float q = d > 0 ? roundf(v[i] / d) : 0;
        out[2 + i] = (unsigned char)(signed char)(q > 127 ? 127 : q < -127 ? -127 : q);
    }
    return 2 + SAMPLE_BLOCK;
}

static unsigned sample_nibble(float v, float d)
{
    const float q = d < 0 || d > 0 ? v / d + 8.5f : 8;
    return q < 0 ? 0u : q > 15 ? 15u : (unsigned)q;
}

static size_t sample_q4_0(const float *v, unsigned char *out)
{
    float extreme = 0;
    for (int i = 0; i < SAMPLE_BLOCK; i++) if (fabsf(v[i]) > fabsf(extreme)) extreme = v[i];
    const uint16_t scale = sample_f16(extreme / -8);
    const float d = sample_f16_value(scale);
    memcpy(out, &scale, 2);
    for (int i = 0; i < SAMPLE_BLOCK / 2; i++) {
        out[2 + i] = (unsigned char)(sample_nibble(v[i], d) |
                                     sample_nibble(v[i + SAMPLE_BLOCK / 2], d) << 4);
    }
    return 2 + SAMPLE_BLOCK / 2;
}

/* A row as bytes; out has room for SAMPLE_WIDTH * 4. */
static size_t sample_store(const float *row, enum sonde_sample_type type, unsigned char *out)
{
    size_t at = 0;
    for (int i = 0; i < SAMPLE_WIDTH; i++) {
        uint16_t half;
        switch (type) {
        case SONDE_SAMPLE_F32: memcpy(out + at, &row[i], 4); at += 4; break;
        case SONDE_SAMPLE_F16:
        case SONDE_SAMPLE_BF16:
            half = type == SONDE_SAMPLE_F16 ? sample_f16(row[i]) : sample_bf16(row[i]);
            memcpy(out + at, &half, 2);
            at += 2;
            break;
        default:
            if (i % SAMPLE_BLOCK) break;
            at += type == SONDE_SAMPLE_Q8_0 ? sample_q8_0(row + i, out + at)
                                            : sample_q4_0(row + i, out + at);
        }
    }
    return at;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* What a sample keeps from row to row. */
struct sample_state {
    struct sonde_draw draw;
    uint64_t row;
    float scale[SAMPLE_WIDTH], mean[SAMPLE_WIDTH], last[SAMPLE_WIDTH];
    float centre[SAMPLE_CLUSTERS][SAMPLE_WIDTH];
};

static double sample_normal(struct sample_state *s) { return sonde_draw_normal(&s->draw); }

/* Channels differ in scale by a log-normal, and one in 64 is an outlier: far off and wide. */
static void sample_begin(struct sample_state *s)
{
    for (int i = 0; i < SAMPLE_WIDTH; i++) {
        const int outlier = sonde_draw_below(&s->draw, 64) == 0;
        s->scale[i] = (float)(exp(0.4 * sample_normal(s)) * (outlier ? 4 : 1));
        s->mean[i] = (float)(sample_normal(s) * (outlier ? 8 : 0.3));
        s->last[i] = (float)sample_normal(s);
    }
    for (int c = 0; c < SAMPLE_CLUSTERS; c++) {
        for (int i = 0; i < SAMPLE_WIDTH; i++) s->centre[c][i] = (float)sample_normal(s);
    }
}

/* Rows are keys and values in turn. Neighbouring tokens' keys are alike (r = 0.8), then turned by
 * their position, pair by pair, as rotary embeddings do; values are alike only a little. */
static void sample_row_kv(struct sample_state *s, float *row)
{
    const int keys = s->row % 2 == 0;
    const double r = keys ? 0.8 : 0.3, rest = sqrt(1 - r * r), position = (double)(s->row / 2);
    for (int i = 0; i < SAMPLE_WIDTH; i++) {
        s->last[i] = (float)(r * s->last[i] + rest * sample_normal(s));
        row[i] = s->last[i] * s->scale[i] + (keys ? s->mean[i] : 0);
    }
    for (int i = 0; keys && i < SAMPLE_WIDTH; i += 2) {
        const double angle = position * pow(10000, -(double)(i % SAMPLE_HEAD) / SAMPLE_HEAD);
        const float a = row[i], b = row[i + 1], c = (float)cos(angle), d = (float)sin(angle);
        row[i] = a * c - b * d;
        row[i + 1] = a * d + b * c;
    }
}

static void sample_row_weights(struct sample_state *s, float *row)
{
    const double scale = 0.02 * exp(0.3 * sample_normal(s));
    for (int i = 0; i < SAMPLE_WIDTH; i++) {
        const double far = sonde_draw_below(&s->draw, 1000) == 0 ? 6 : 1;
        row[i] = (float)(sample_normal(s) * scale * far);
    }
}

/* SiLU of a gate times a value: sharply peaked at 0 with heavy tails. */
static void sample_row_activations(struct sample_state *s, float *row)
{
    for (int i = 0; i < SAMPLE_WIDTH; i++) {
        const double gate = sample_normal(s) * s->scale[i] - 1, value = sample_normal(s);
        const double massive = fabsf(s->mean[i]) > 8 ? 50 : 1;
        row[i] = (float)(gate / (1 + exp(-gate)) * value * massive);
    }
}

static void sample_row_embeddings(struct sample_state *s, float *row)
{
    const float *centre = s->centre[sonde_draw_below(&s->draw, SAMPLE_CLUSTERS)];
    double squares = 0;
    for (int i = 0; i < SAMPLE_WIDTH; i++) {
        row[i] = (float)(centre[i] + 0.5 * sample_normal(s));
        squares += (double)row[i] * row[i];
    }
    for (int i = 0; i < SAMPLE_WIDTH; i++) row[i] = (float)(row[i] / sqrt(squares));
}

static void sample_numbers(const struct sonde_compress_sample *what, enum sonde_sample_type type,
                           uint64_t seed, char *out, size_t bytes)
{
    static _Thread_local struct sample_state s;
    unsigned char stored[SAMPLE_WIDTH * 4];
    float row[SAMPLE_WIDTH];
    s.draw.state = seed;
    s.row = 0;
    sample_begin(&s);
    for (size_t at = 0; at < bytes; s.row++) {
        switch (what->name[0]) {
        case 'k': sample_row_kv(&s, row); break;
        case 'w': sample_row_weights(&s, row); break;
        case 'a': sample_row_activations(&s, row); break;
        default: sample_row_embeddings(&s, row); break;
        }
        const size_t made = sample_store(row, type, stored), left = bytes - at;
        memcpy(out + at, stored, made < left ? made : left);
        at += made < left ? made : left;
    }
}

void sonde_compress_sample_make(const struct sonde_compress_sample *what,
                                enum sonde_sample_type type, uint64_t seed, char *out,
                                size_t bytes)
{
    if (what->type == SONDE_SAMPLE_NONE) {
        sonde_sample_text_make(what->name[0] == 'j', seed, out, bytes);
        return;
    }
    sample_numbers(what, type == SONDE_SAMPLE_NONE ? what->type : type, seed, out, bytes);
}
