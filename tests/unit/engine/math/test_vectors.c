/* What a forward pass needs beside products, in every variant: against doubles, for odd lengths,
 * and the same bits wherever a sequence is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "variants.h"

enum { N_MAX = 200 };

static const uint32_t lengths[] = { 1, 7, 8, 15, 16, 17, 64, 100, 199 };
enum { LENGTHS = 9 };

static void near(const char *name, const char *what, uint32_t n, double got, double expected,
                 double off)
{
    if (!(fabs(got - expected) <= off)) {
        fail_msg("%s %s of %u: %.9g, not %.9g", name, what, n, got, expected);
    }
}

/* One more than n, which stays as it is. */
static void guard_set(float *x, uint32_t n) { x[n] = -77; }
static void guard_check(const float *x, uint32_t n) { assert_true(x[n] == -77); }

static void test_norm(void **state)
{
    (void)state;
    EACH_VARIANT(ops) {
        for (int l = 0; l < LENGTHS; l++) {
            const uint32_t n = lengths[l];
            float x[N_MAX], gain[N_MAX], out[N_MAX];
            numbers_fill(x, n);
            numbers_fill(gain, n);
            guard_set(out, n);
            ops->rms_norm(x, gain, n, 1e-5f, out);
            guard_check(out, n);
            double sum = 0;
            for (uint32_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
            for (uint32_t i = 0; i < n; i++) {
                const double expected = (double)x[i] / sqrt(sum / n + 1e-5) * (double)gain[i];
                near(ops->name, "rms_norm", n, (double)out[i], expected, 1e-6 * fabs(expected));
            }
        }
    }
}

static void test_pairs(void **state)
{
    (void)state;
    EACH_VARIANT(ops) {
        for (int l = 0; l < LENGTHS; l++) {
            const uint32_t n = lengths[l];
            float x[N_MAX], y[N_MAX], a[N_MAX];
            numbers_fill(x, n);
            numbers_fill(y, n);
#define EACH_NUMBER(call, expected, relative)                                                     \
    memcpy(a, x, n * sizeof(*a));                                                                 \
    guard_set(a, n);                                                                              \
    ops->call;                                                                                    \
    guard_check(a, n);                                                                            \
    for (uint32_t i = 0; i < n; i++) {                                                            \
        const double e = (expected);                                                              \
        near(ops->name, #call, n, (double)a[i], e, (relative) * fabs(e) + 1e-37);                 \
    }
            EACH_NUMBER(add(a, y, n), (double)(x[i] + y[i]), 0)
            EACH_NUMBER(scale(a, 0.3f, n), (double)(x[i] * 0.3f), 0)
            EACH_NUMBER(silu_mul(a, y, n),
                        (double)x[i] / (1 + exp(-(double)x[i])) * (double)y[i], 1e-6)
            EACH_NUMBER(relu2_mul(a, y, n),
                        x[i] > 0 ? (double)x[i] * (double)x[i] * (double)y[i] : 0, 1e-6)
        }
    }
}

/* e^x by softmax of two numbers: x and 0 give e^x / (1 + e^x). And silu where e^−x is huge or
 * nothing. */
static void test_exp(void **state)
{
    (void)state;
    EACH_VARIANT(ops) {
        for (double at = -104; at <= 0; at += 0.0371) {
            float x[2] = { (float)at, 0 };
            const double e = exp((double)x[0]);
            ops->softmax(x, 2);
            near(ops->name, "softmax", 2, (double)x[0], e / (1 + e), 4e-7 * e + 2e-45);
            near(ops->name, "softmax", 2, (double)x[1], 1 / (1 + e), 4e-7);
        }
        float gate[5] = { -200, -88, 88, 200, 0 };
        const float up[5] = { 1, 1, 1, 1, 1 };
        ops->silu_mul(gate, up, 5);
        near(ops->name, "silu", 5, (double)gate[0], 0, 1e-37);
        near(ops->name, "silu", 5, (double)gate[1], -88 * exp(-88), 1e-42);
        near(ops->name, "silu", 5, (double)gate[2], 88, 0);
        near(ops->name, "silu", 5, (double)gate[3], 200, 0);
        near(ops->name, "silu", 5, (double)gate[4], 0, 0);
    }
}

static void test_softmax(void **state)
{
    (void)state;
    EACH_VARIANT(ops) {
        for (int l = 0; l < LENGTHS; l++) {
            const uint32_t n = lengths[l];
            float x[N_MAX], a[N_MAX];
            numbers_fill(x, n);
            if (n > 3) x[2] = -INFINITY; /* masked */
            memcpy(a, x, n * sizeof(*a));
            guard_set(a, n);
            ops->softmax(a, n);
            guard_check(a, n);
            double sum = 0, all = 0;
            for (uint32_t i = 0; i < n; i++) sum += exp((double)x[i]);
            for (uint32_t i = 0; i < n; i++) {
                const double expected = exp((double)x[i]) / sum;
                near(ops->name, "softmax", n, (double)a[i], expected, 3e-6 * expected);
                all += (double)a[i];
            }
            near(ops->name, "softmax's sum", n, all, 1, 1e-5);
        }
    }
}

static void test_f16(void **state)
{
    (void)state;
    static const float special[] = {
        0,         -0.0f,  1,     65504,  65519,         65520,          1e9f,           -1e9f,
        2.98e-8f,  3e-8f,  6e-5f, 1e-10f, 1.0009765625f, 1.00048828125f, 1.00146484375f, 6e-8f,
        -INFINITY, INFINITY,
    };
    enum { SPECIAL = sizeof(special) / sizeof(special[0]) };
    EACH_VARIANT(ops) {
        uint16_t h[N_MAX];
        float x[N_MAX];
        for (int l = 0; l < LENGTHS; l++) {
            const uint32_t n = lengths[l];
            numbers_fill(x, n);
            for (uint32_t i = 0; i < n && i < SPECIAL; i++) x[i] = special[i];
            h[n] = 0xabcd;
            ops->f16_from_floats(x, n, h);
            assert_int_equal(h[n], 0xabcd);
            for (uint32_t i = 0; i < n; i++) assert_int_equal(h[i], weight_f16_from_float(x[i]));
        }
    }
}

/* Heads of every size, positions up to two pages. */
static void attention_fill(uint16_t *h, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) h[i] = weight_f16_from_float(number_float());
}

static void check_attention(const struct kernel_ops *ops, uint32_t dim, uint32_t positions)
{
    uint16_t *q = malloc(dim * 2), *kv = malloc((size_t)positions * dim * 2);
    float *out = malloc(positions * sizeof(float)), *weights = malloc(positions * sizeof(float));
    float *acc = calloc(dim, sizeof(float)), *cut = calloc(dim, sizeof(float));
    double *expected = calloc(dim, sizeof(double)), *most = calloc(dim, sizeof(double));
    attention_fill(q, dim);
    attention_fill(kv, positions * dim);
    numbers_fill(weights, positions);
    ops->scores_f16(q, kv, positions, dim, 0.25f, out);
    for (uint32_t p = 0; p < positions; p++) {
        double sum = 0, all = 0;
        for (uint32_t i = 0; i < dim; i++) {
            const double v = (double)weight_f16_to_float(kv[p * dim + i]);
            sum += (double)weight_f16_to_float(q[i]) * v;
            all += fabs((double)weight_f16_to_float(q[i]) * v);
            expected[i] += (double)weights[p] * v;
            most[i] += fabs((double)weights[p] * v);
        }
        near(ops->name, "scores_f16", dim, (double)out[p], sum / 4, 1e-6 * all);
        const float alone = ops->dot_f16(q, kv + p * dim, dim) * 0.25f;
        assert_memory_equal(&alone, &out[p], sizeof(alone));
    }
    ops->weighted_sum_f16(kv, weights, positions, dim, acc);
    const uint32_t at = positions / 3;
    ops->weighted_sum_f16(kv, weights, at, dim, cut);
    for (uint32_t p = at; p < positions && p < at + 3; p++) {
        ops->add_f16(cut, kv + p * dim, weights[p], dim);
    }
    const uint32_t rest = at + 3 < positions ? at + 3 : positions;
    ops->weighted_sum_f16(kv + rest * dim, weights + rest, positions - rest, dim, cut);
    assert_memory_equal(acc, cut, dim * sizeof(float));
    for (uint32_t i = 0; i < dim; i++) {
        near(ops->name, "weighted_sum_f16", dim, (double)acc[i], expected[i], 2e-6 * most[i]);
    }
    free(q);
    free(kv);
    free(out);
    free(weights);
    free(acc);
    free(cut);
    free(expected);
    free(most);
}

static void test_attention(void **state)
{
    (void)state;
    static const uint32_t dims[] = { 8, 20, 32, 64, 80, 100, 128, 256 };
    EACH_VARIANT(ops) {
        for (int d = 0; d < 8; d++) {
            check_attention(ops, dims[d], 1);
            check_attention(ops, dims[d], 7);
            check_attention(ops, dims[d], 64);
            check_attention(ops, dims[d], 101);
        }
    }
}

static void test_row(void **state)
{
    (void)state;
    float x[256], a[256], b[256];
    numbers_fill(x, 256);
    static const enum weight_type types[] = { WEIGHT_F32,  WEIGHT_F16,   WEIGHT_Q8_0,
                                              WEIGHT_Q4_0, WEIGHT_TQ2_0, WEIGHT_I2_S };
    for (int i = 0; i < 6; i++) {
        unsigned char row[2048];
        weight_row_from_floats(types[i], x, 256, 0.5f, row);
        const struct weight w = { types[i], 256, 1, weight_row_bytes(types[i], 256), row, 0.5f };
        weight_row_to_floats(&w, 0, a);
        EACH_VARIANT(ops) {
            ops->row_to_floats(&w, 0, b);
            assert_memory_equal(a, b, sizeof(a));
        }
    }
}

static void test_choice(void **state)
{
    (void)state;
    unsetenv("SONDE_ENGINE_KERNEL");
    assert_non_null(kernel_choose());
    assert_true(kernel_choose()->usable());
    setenv("SONDE_ENGINE_KERNEL", "portable", 1);
    assert_string_equal(kernel_choose()->name, "portable");
    setenv("SONDE_ENGINE_KERNEL", "abacus", 1);
    assert_null(kernel_choose());
    assert_null(kernel_named("abacus"));
    unsetenv("SONDE_ENGINE_KERNEL");
    EACH_VARIANT(ops) assert_ptr_equal(kernel_named(ops->name), ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm),      cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_exp),       cmocka_unit_test(test_softmax),
        cmocka_unit_test(test_f16),       cmocka_unit_test(test_attention),
        cmocka_unit_test(test_row),       cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
