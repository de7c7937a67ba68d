/* Products by a team: the bits of one thread for any number of threads, of room and of products. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "math/matmul.h"
#include "variants.h"

enum { COLS = 256, TOKENS = 13, PRODUCTS = 4 };

static const struct { enum weight_type type; uint32_t rows; } shapes[PRODUCTS] = {
    { WEIGHT_Q8_0, 700 }, { WEIGHT_F16, 65 }, { WEIGHT_Q4_0, 131 }, { WEIGHT_TQ2_0, 3 },
};

struct set {
    struct weight w[PRODUCTS];
    float *out[PRODUCTS];        /* TOKENS × rows */
};

static void set_fill(struct set *s)
{
    float row[COLS];
    for (int i = 0; i < PRODUCTS; i++) {
        const enum weight_type type = shapes[i].type;
        const size_t bytes = weight_row_bytes(type, COLS);
        unsigned char *data = malloc(bytes * shapes[i].rows);
        for (uint32_t r = 0; r < shapes[i].rows; r++) {
            numbers_fill(row, COLS);
            weight_row_from_floats(type, row, COLS, 1, data + r * bytes);
        }
        s->w[i] = (struct weight){ type, COLS, shapes[i].rows, bytes, data, 1 };
        s->out[i] = malloc(TOKENS * shapes[i].rows * sizeof(float));
    }
}

static void set_free(struct set *s)
{
    for (int i = 0; i < PRODUCTS; i++) {
        free((void *)(uintptr_t)s->w[i].data);
        free(s->out[i]);
    }
}

static void set_multiply(struct set *s, const struct kernel_ops *ops, uint32_t threads, size_t room,
                         const float *x, uint32_t count)
{
    struct team *team = NULL;
    struct matmul *m = NULL;
    struct fail why;
    void *acts = numbers_room(room);
    assert_int_equal(team_create(threads, &team, &why), 0);
    assert_int_equal(matmul_create(team, ops, acts, room, &m, &why), 0);
    struct matmul_product products[PRODUCTS];
    for (int i = 0; i < PRODUCTS; i++) {
        memset(s->out[i], 0x7f, TOKENS * s->w[i].rows * sizeof(float));
        products[i] = (struct matmul_product){ &s->w[i], s->out[i], s->w[i].rows };
    }
    matmul_run(m, x, COLS + 5, count, products, PRODUCTS);
    matmul_destroy(m);
    team_destroy(team);
    free(acts);
}

static void test_same(void **state)
{
    (void)state;
    float *x = malloc(TOKENS * (COLS + 5) * sizeof(float));
    numbers_fill(x, TOKENS * (COLS + 5));
    struct set one, other;
    numbers_state = 42;
    set_fill(&one);
    numbers_state = 42;
    set_fill(&other);
    EACH_VARIANT(ops) {
        set_multiply(&one, ops, 1, 64 * 1024, x, TOKENS);
        for (uint32_t threads = 1; threads <= 5; threads++) {
            for (size_t room = 1024; room <= 64 * 1024; room *= 4) { /* for a token, some, all */
                set_multiply(&other, ops, threads, room, x, TOKENS);
                for (int i = 0; i < PRODUCTS; i++) {
                    const size_t bytes = TOKENS * one.w[i].rows * sizeof(float);
                    assert_memory_equal(one.out[i], other.out[i], bytes);
                }
            }
        }
        /* And a token alone is what it is in a batch. */
        set_multiply(&other, ops, 3, 4096, x + 5 * (COLS + 5), 1);
        for (int i = 0; i < PRODUCTS; i++) {
            const uint32_t rows = one.w[i].rows;
            assert_memory_equal(one.out[i] + 5 * rows, other.out[i], rows * sizeof(float));
        }
    }
    set_free(&one);
    set_free(&other);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_same) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
