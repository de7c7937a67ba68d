/* Matrix products of every variant and type: right, and the same bits whatever is computed with
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "math/acts.h"
#include "variants.h"

static const enum weight_type types[] = { WEIGHT_F32,  WEIGHT_F16,   WEIGHT_Q8_0,
                                          WEIGHT_Q4_0, WEIGHT_TQ2_0, WEIGHT_I2_S };
enum { TYPES = 6, TOKENS = 17 };

/* Rows and columns in units of a block, which is why the last are few. */
static const struct { uint32_t rows, blocks; } shapes[] = {
    { 1, 1 }, { 5, 3 }, { 15, 2 }, { 16, 1 }, { 17, 5 }, { 33, 17 }, { 50, 9 }, { 96, 4 },
};

struct matrix {
    struct weight w;
    unsigned char *data;
    float *x;                    /* TOKENS × cols */
};

static void matrix_fill(struct matrix *m, enum weight_type type, uint32_t rows, uint32_t blocks)
{
    const struct weight_kind *kind = weight_kind(type);
    /* Floats have blocks of one number: odd counts that no vector fits. */
    const uint32_t cols = kind->block == 1 ? 23 * blocks : kind->block * blocks;
    const size_t row_bytes = weight_row_bytes(type, cols);
    m->w = (struct weight){ .type = type, .cols = cols, .rows = rows, .row_bytes = row_bytes,
                            .scale = type == WEIGHT_I2_S ? 0.37f : 1 };
    /* No more than a matrix has, so that a sanitizer sees who reads beyond; at an odd address. */
    m->data = malloc(rows * row_bytes + (type > WEIGHT_F16 ? 1 : 0));
    unsigned char *at = m->data + (type > WEIGHT_F16 ? 1 : 0);
    float *row = numbers_room(cols * sizeof(float));
    for (uint32_t r = 0; r < rows; r++) {
        numbers_fill(row, cols);
        weight_row_from_floats(type, row, cols, m->w.scale, at + r * row_bytes);
    }
    free(row);
    m->w.data = at;
    m->x = numbers_room(TOKENS * cols * sizeof(float));
    numbers_fill(m->x, (size_t)TOKENS * cols);
    memset(m->x + cols, 0, cols * sizeof(float)); /* one token of nothing */
}

static void matrix_free(struct matrix *m)
{
    free(m->data);
    free(m->x);
}

static void *matrix_acts(const struct kernel_ops *ops, const struct matrix *m)
{
    const size_t bytes = ops->acts_bytes(m->w.type, m->w.cols);
    char *acts = numbers_room(TOKENS * bytes);
    for (uint32_t t = 0; t < TOKENS; t++) {
        ops->acts_from_floats(m->w.type, m->x + t * m->w.cols, m->w.cols, acts + t * bytes);
    }
    return acts;
}

/* What the activations stand for. */
static double act_at(const struct weight *w, const void *row, uint32_t i)
{
    if (!acts_block(w->type, w->cols)) return (double)((const float *)row)[i];
    const struct acts a = acts_of(w->type, w->cols, row);
    if (w->type == WEIGHT_I2_S) return a.q[i] / (double)a.d[0];
    return a.q[i] * (double)a.d[i / a.block];
}

static void check_reference(const struct kernel_ops *ops, const struct matrix *m, const char *acts,
                            const float *out)
{
    const struct weight *w = &m->w;
    const size_t bytes = ops->acts_bytes(w->type, w->cols);
    float *row = numbers_room(w->cols * sizeof(float));
    for (uint32_t r = 0; r < w->rows; r++) {
        weight_row_to_floats(w, r, row);
        for (uint32_t t = 0; t < TOKENS; t++) {
            double sum = 0, all = 0;
            for (uint32_t i = 0; i < w->cols; i++) {
                const double v = (double)row[i] * act_at(w, acts + t * bytes, i);
                sum += v;
                all += fabs(v);
            }
            const double off = fabs((double)out[t * w->rows + r] - sum);
            if (off > 1e-6 * all) {
                fail_msg("%s %s %ux%u row %u token %u: off by %g of %g", ops->name,
                         weight_kind(w->type)->name, w->rows, w->cols, r, t, off, all);
            }
        }
    }
    free(row);
}

/* Some rows of some tokens, elsewhere in memory: the bits are those of the whole, and nothing else
 * is written. */
static void check_part(const struct kernel_ops *ops, const struct matrix *m, const char *acts,
                       const float *whole, uint32_t first, uint32_t count)
{
    const struct weight *w = &m->w;
    const size_t bytes = ops->acts_bytes(w->type, w->cols), stride = w->rows + 3;
    const uint32_t begin = number_next() % w->rows;
    const uint32_t end = begin + 1 + number_next() % (w->rows - begin);
    float *out = malloc(count * stride * sizeof(float));
    for (size_t i = 0; i < count * stride; i++) out[i] = -77;
    ops->matmul(w, begin, end, acts + first * bytes, count, out, stride);
    for (uint32_t t = 0; t < count; t++) {
        for (uint32_t r = 0; r < stride; r++) {
            const int inside = r >= begin && r < end;
            const float expected = inside ? whole[(first + t) * w->rows + r] : -77;
            if (memcmp(&out[t * stride + r], &expected, sizeof(expected)) != 0) {
                fail_msg("%s %s %ux%u rows %u to %u, %u tokens: row %u token %u is %a, not %a",
                         ops->name, weight_kind(w->type)->name, w->rows, w->cols, begin, end, count,
                         r, t, (double)out[t * stride + r], (double)expected);
            }
        }
    }
    free(out);
}

static void check_shape(const struct kernel_ops *ops, enum weight_type type, uint32_t rows,
                        uint32_t blocks)
{
    struct matrix m;
    matrix_fill(&m, type, rows, blocks);
    void *acts = matrix_acts(ops, &m);
    float *whole = malloc((size_t)TOKENS * rows * sizeof(float));
    ops->matmul(&m.w, 0, rows, acts, TOKENS, whole, rows);
    check_reference(ops, &m, acts, whole);
    for (uint32_t t = 0; t < TOKENS; t++) check_part(ops, &m, acts, whole, t, 1);
    for (uint32_t count = 2; count <= TOKENS; count++) {
        check_part(ops, &m, acts, whole, number_next() % (TOKENS - count + 1), count);
    }
    free(whole);
    free(acts);
    matrix_free(&m);
}

static void test_products(void **state)
{
    (void)state;
    EACH_VARIANT(ops) {
        for (int i = 0; i < TYPES; i++) {
            for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
                check_shape(ops, types[i], shapes[s].rows, shapes[s].blocks);
            }
        }
    }
}

/* Extremes: codes that are not weights of a model, but may be in a file; the largest sums. */
static void test_extremes(void **state)
{
    (void)state;
    EACH_VARIANT(ops) {
        for (int i = 2; i < TYPES; i++) {
            struct matrix m;
            matrix_fill(&m, types[i], 20, 6);
            const size_t bytes = m.w.rows * m.w.row_bytes;
            unsigned char *data = (unsigned char *)(uintptr_t)m.w.data;
            memset(data, types[i] == WEIGHT_Q8_0 ? 0x80 : 0xff, bytes);
            const uint32_t block = weight_kind(types[i])->block_bytes;
            const uint16_t one = 0x3c00;
            for (size_t at = 0; types[i] != WEIGHT_I2_S && at < bytes; at += block) {
                memcpy(data + at + (types[i] == WEIGHT_TQ2_0 ? 64 : 0), &one, sizeof(one));
            }
            for (uint32_t c = 0; c < TOKENS * m.w.cols; c++) m.x[c] = c / m.w.cols % 2 ? -1 : 1;
            void *acts = matrix_acts(ops, &m);
            float out[TOKENS * 20], one_out[20];
            ops->matmul(&m.w, 0, 20, acts, TOKENS, out, 20);
            check_reference(ops, &m, acts, out);
            ops->matmul(&m.w, 0, 20, acts, 1, one_out, 20);
            assert_memory_equal(out, one_out, sizeof(one_out));
            free(acts);
            matrix_free(&m);
        }
    }
}

/* Conversion of activations is the same in all variants, and rounds as ggml's x86 code does. */
static void test_activations(void **state)
{
    (void)state;
    enum { COLS = 512 };
    float x[COLS];
    for (int round = 0; round < 200; round++) {
        numbers_fill(x, COLS);
        if (round % 5 == 1) memset(x + 32 * (round % 8), 0, 256);
        if (round % 7 == 1) x[17] = -(x[200] = 33); /* of equal magnitudes the first counts */
        if (round % 11 == 1) {
            for (int i = 0; i < COLS; i++) x[i] = (float)(i % 255 - 127) * 0.5f; /* ties */
        }
        if (round == 199) memset(x, 0, sizeof(x));
        for (int i = 0; i < TYPES; i++) {
            unsigned char expected[8 * COLS] = { 0 };
            _Alignas(64) unsigned char got[8 * COLS] = { 0 };
            kernel_named("portable")->acts_from_floats(types[i], x, COLS, expected);
            EACH_VARIANT(ops) {
                const size_t bytes = ops->acts_bytes(types[i], COLS);
                assert_true(bytes <= sizeof(got) && bytes % 64 == 0);
                ops->acts_from_floats(types[i], x, COLS, got);
                assert_memory_equal(got, expected, bytes);
            }
        }
    }
}

static void test_activation_values(void **state)
{
    (void)state;
    float x[32] = { 0 };
    _Alignas(64) unsigned char row[256];
    x[0] = -127;
    x[1] = 0.5f; /* ties to even */
    x[2] = 1.5f;
    x[3] = -2.5f;
    x[4] = 100.6f;
    EACH_VARIANT(ops) {
        memset(row, 0, sizeof(row));
        ops->acts_from_floats(WEIGHT_Q4_0, x, 32, row);
        const struct acts a = acts_of(WEIGHT_Q4_0, 32, row);
        const int8_t expected[6] = { -127, 0, 2, -2, 101, 0 };
        assert_memory_equal(a.q, expected, sizeof(expected));
        assert_true(a.d[0] == 1);
        assert_int_equal(a.sum[0], -26);
    }
}

/* Broken models compute what is not a number: no crash, and nothing undefined. */
static void test_not_a_number(void **state)
{
    (void)state;
    EACH_VARIANT(ops) {
        for (int i = 0; i < TYPES; i++) {
            struct matrix m;
            matrix_fill(&m, types[i], 18, 4);
            for (uint32_t c = 0; c < m.w.cols; c++) m.x[c] = c % 3 ? NAN : c % 2 ? INFINITY : 1;
            void *acts = matrix_acts(ops, &m);
            float out[TOKENS * 18];
            ops->matmul(&m.w, 0, 18, acts, TOKENS, out, 18);
            free(acts);
            matrix_free(&m);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),          cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_activations),       cmocka_unit_test(test_activation_values),
        cmocka_unit_test(test_not_a_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
