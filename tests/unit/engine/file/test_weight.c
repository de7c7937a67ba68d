#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "file/weight.h"

enum { COUNT = 16384 };

/* Blocks of many sizes, ties, zeros, and some that are zero as a whole. */
static void vector_fill(float *x, size_t n)
{
    uint64_t state = 7;
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const int32_t r = (int32_t)(state >> 40) - (1 << 23);
        float by = 1.0f / (float)(1 << (10 + i / 256 % 14));
        if (i / 256 % 5 == 4) by = 0;
        x[i] = (float)(i / 256 % 3 == 2 ? r >> 18 : r >> 6) * by;
    }
}

static uint64_t bytes_hash(const void *data, size_t bytes)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

/* What ggml's quantize and dequantize make of the vector is known by hashes, which were taken from
 * the real library once. */
static void test_as_ggml(void **state)
{
    (void)state;
    static const struct { enum weight_type type; uint64_t bytes, hash, floats_hash; } cases[] = {
        { WEIGHT_F32, COUNT * 4, 0x856dc637b0899012, 0x856dc637b0899012 },
        { WEIGHT_F16, 32768, 0x4e2c4741891a1240, 0xb194c75228d1ca03 },
        { WEIGHT_Q8_0, 17408, 0x566bc0d950019875, 0xcee5f86d46eeb59f },
        { WEIGHT_Q4_0, 9216, 0x50286cdac59a47b7, 0xd5126eedbdf4535b },
        { WEIGHT_TQ2_0, 4224, 0x26f9249502659585, 0xb40b158f69019110 },
    };
    static float x[COUNT], y[COUNT];
    static unsigned char out[COUNT * 4 + 1];
    vector_fill(x, COUNT);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const enum weight_type type = cases[i].type;
        assert_int_equal(weight_row_bytes(type, COUNT), cases[i].bytes);
        assert_int_equal(weight_bytes(type, 256, COUNT / 256), cases[i].bytes);
        /* At an address that nothing is aligned to. */
        weight_row_from_floats(type, x, COUNT, 0, out + 1);
        assert_int_equal(bytes_hash(out + 1, cases[i].bytes), cases[i].hash);
        const struct weight w = { .type = type, .cols = 256, .rows = COUNT / 256, .data = out + 1,
                                  .row_bytes = weight_row_bytes(type, 256), .scale = 1 };
        for (uint32_t row = 0; row < w.rows; row++) weight_row_to_floats(&w, row, y + row * 256);
        assert_int_equal(bytes_hash(y, sizeof(y)), cases[i].floats_hash);
    }
}

static void test_f16(void **state)
{
    (void)state;
    static const struct { float f; uint16_t h; } cases[] = {
        { 0, 0 }, { -0.0f, 0x8000 }, { 1, 0x3c00 }, { -2, 0xc000 }, { 65504, 0x7bff },
        { 65519.996f, 0x7bff }, { 65520, 0x7c00 }, { 1e30f, 0x7c00 }, { -INFINITY, 0xfc00 },
        { 0x1p-14f, 0x0400 }, { 0x1p-24f, 1 }, { 0x1p-25f, 0 }, { 0x1.000002p-25f, 1 },
        { 0x1.8p-24f, 2 }, { 1 + 0x1p-11f, 0x3c00 }, { 1 + 0x3p-11f, 0x3c02 }, { 1e-45f, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(weight_f16_from_float(cases[i].f), cases[i].h);
    }
    assert_true(isnan(weight_f16_to_float(weight_f16_from_float(NAN))));
    for (uint32_t h = 0; h < 65536; h++) { /* every half is a float */
        const float f = weight_f16_to_float((uint16_t)h);
        if (!isnan(f)) assert_int_equal(weight_f16_from_float(f), h);
    }
}

static void test_ternary(void **state)
{
    (void)state;
    float x[256], y[256];
    unsigned char codes[64];
    for (int i = 0; i < 256; i++) x[i] = (float)(i * 7 % 3 - 1) * 0.25f;
    assert_true(weight_ternary_scale(x, 256) == 0.25f); /* ternary already: it stays */
    weight_row_from_floats(WEIGHT_I2_S, x, 256, 0.25f, codes);
    for (int i = 0; i < 256; i++) { /* as the header has it */
        const int block = i / 128, j = i % 128;
        assert_int_equal(codes[32 * block + j % 32] >> (6 - 2 * (j / 32)) & 3, i * 7 % 3);
    }
    const struct weight w = { .type = WEIGHT_I2_S, .cols = 256, .rows = 1, .row_bytes = 64,
                              .data = codes, .scale = 0.25f };
    weight_row_to_floats(&w, 0, y);
    assert_memory_equal(x, y, sizeof(x));

    const float mixed[4] = { 1, -3, 0.5f, -0.5f }, zeros[4] = { 0 };
    assert_true(weight_ternary_scale(mixed, 4) == 1.25f);
    assert_true(weight_ternary_scale(zeros, 4) == 1e-5f);
    assert_true(weight_ternary_scale(NULL, 0) == 1e-5f);
    assert_int_equal(weight_bytes(WEIGHT_I2_S, 256, 3), 3 * 64 + 32);
}

/* Scales so small that their inverse is infinite, and numbers that are none: something comes out,
 * and no conversion is undefined. */
static void test_extremes(void **state)
{
    (void)state;
    static const float values[] = { 1e-45f, -1e-45f, 3e38f, -3e38f, INFINITY, -INFINITY, NAN };
    static const enum weight_type types[] = { WEIGHT_Q8_0, WEIGHT_Q4_0, WEIGHT_TQ2_0, WEIGHT_I2_S };
    float x[256];
    unsigned char out[512];
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        for (int k = 0; k < 256; k++) x[k] = k % 3 ? values[i] : 0;
        for (size_t t = 0; t < 4; t++) weight_row_from_floats(types[t], x, 256, 1e-45f, out);
    }
}

static void test_kinds(void **state)
{
    (void)state;
    assert_ptr_equal(weight_kind_named("q8_0"), weight_kind(WEIGHT_Q8_0));
    assert_string_equal(weight_kind(36)->name, "I2_S");
    assert_null(weight_kind(3));
    assert_null(weight_kind(UINT32_MAX));
    assert_null(weight_kind_named("Q8"));
    assert_null(weight_kind_named(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_ggml), cmocka_unit_test(test_f16),
        cmocka_unit_test(test_ternary), cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
