/* Which token: exact where it is determined, by frequency where it is drawn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/sampler.h"

enum { DRAWS = 200000, VOCAB = 12, LARGE = 5000 };

static int32_t choose_once(const struct sampler_params *p, const float *logits, uint32_t vocab)
{
    struct sampler s;
    struct sampler_scratch *scratch = sampler_scratch_create(vocab);
    assert_non_null(scratch);
    sampler_init(&s, p);
    const int32_t token = sampler_choose(&s, scratch, logits, vocab);
    sampler_scratch_destroy(scratch);
    return token;
}

static void test_greedy(void **state)
{
    (void)state;
    const struct sampler_params p = { .temperature = 0, .top_p = 1 };
    static const struct { float logits[4]; int32_t token; } rows[] = {
        { { 1, 3, 2, 0 }, 1 },
        { { 5, 7, 7, 7 }, 1 },                      /* the lower of equals */
        { { NAN, -1, NAN, -2 }, 1 },
        { { NAN, NAN, NAN, NAN }, 0 },
        { { -INFINITY, -INFINITY, -INFINITY, -INFINITY }, 0 },
        { { 1, INFINITY, 2, INFINITY }, 1 },
        { { NAN, -INFINITY, -INFINITY, -1e30f }, 3 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(choose_once(&p, rows[i].logits, 4), rows[i].token);
        /* top_k 1 is the same at any temperature */
        const struct sampler_params one = { .temperature = 1.5f, .top_k = 1, .top_p = 1,
                                            .seed = i };
        assert_int_equal(choose_once(&one, rows[i].logits, 4), rows[i].token);
    }
}

/* Whatever comes in, a token of the vocabulary comes out. */
static void test_odd_values(void **state)
{
    (void)state;
    static const float values[] = { NAN, INFINITY, -INFINITY, 0, 1, -1, 3e38f, -3e38f, 1e-45f };
    static const float params[] = { NAN, -1, 0, 1e-9f, 0.5f, 1, 1e9f, INFINITY };
    struct sampler_scratch *scratch = sampler_scratch_create(3);
    for (size_t i = 0; i < 9 * 9 * 9; i++) {
        const float logits[3] = { values[i % 9], values[i / 9 % 9], values[i / 81] };
        for (size_t k = 0; k < 8 * 8 * 8; k++) {
            const struct sampler_params p = { .temperature = params[k % 8],
                                              .top_p = params[k / 8 % 8], .min_p = params[k / 64],
                                              .top_k = (uint32_t)(k % 5), .seed = k };
            struct sampler s;
            sampler_init(&s, &p);
            const int32_t token = sampler_choose(&s, scratch, logits, 3);
            assert_in_range(token, 0, 2);
        }
    }
    sampler_scratch_destroy(scratch);
}

/* What is drawn with which probability, computed plainly: sort, then filter, then temper. */
static void expected(const float *logits, const struct sampler_params *p, double *out)
{
    int order[VOCAB];
    double sum = 0, kept_sum = 0, total = 0;
    uint32_t kept = p->top_k && p->top_k < VOCAB ? p->top_k : VOCAB;
    for (int i = 0; i < VOCAB; i++) order[i] = i;
    for (int i = 0; i < VOCAB; i++) {
        for (int k = i + 1; k < VOCAB; k++) {
            if (logits[order[k]] > logits[order[i]]) {
                const int t = order[i];
                order[i] = order[k];
                order[k] = t;
            }
        }
    }
    const double most = (double)logits[order[0]];
    for (uint32_t i = 0; i < kept; i++) sum += exp((double)logits[order[i]] - most);
    for (uint32_t i = 0; i < kept; i++) {
        const double weight = exp((double)logits[order[i]] - most);
        if (i && weight < (double)p->min_p) kept = i;
        else if ((kept_sum += weight) >= (double)p->top_p * sum && p->top_p < 1) kept = i + 1;
    }
    memset(out, 0, VOCAB * sizeof(*out));
    for (uint32_t i = 0; i < kept; i++) {
        out[order[i]] = exp(((double)logits[order[i]] - most) / (double)p->temperature);
        total += out[order[i]];
    }
    for (int i = 0; i < VOCAB; i++) out[i] /= total;
}

/* Of 200,000 draws each count is within five standard deviations; the seed is fixed. */
static void test_distribution(void **state)
{
    (void)state;
    static const float logits[VOCAB] = { 1, 2.5f, -1, 0.3f, 2.2f, 0, -3, 1.9f, 2.5f, 0.7f,
                                         -0.4f, 1.1f };
    static const struct sampler_params rows[] = {
        { 1, 0, 1, 0, 1 },        { 0.7f, 0, 1, 0, 2 },     { 2.5f, 0, 1, 0, 3 },
        { 1, 5, 1, 0, 4 },        { 1, 0, 0.8f, 0, 5 },     { 1, 0, 1, 0.2f, 6 },
        { 0.8f, 7, 0.9f, 0.1f, 7 }, { 1.3f, 3, 0.5f, 0, 8 }, { 1, 0, 0, 0, 9 }, { 1, 0, 1, 1, 10 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sampler s;
        struct sampler_scratch *scratch = sampler_scratch_create(VOCAB);
        double probability[VOCAB];
        int counts[VOCAB] = { 0 };
        expected(logits, &rows[i], probability);
        sampler_init(&s, &rows[i]);
        for (int n = 0; n < DRAWS; n++) counts[sampler_choose(&s, scratch, logits, VOCAB)]++;
        for (int k = 0; k < VOCAB; k++) {
            const double mean = DRAWS * probability[k],
                         slack = 5 * sqrt(mean * (1 - probability[k]));
            if (fabs(counts[k] - mean) > slack + 1e-6) {
                fail_msg("row %zu, token %d: %d, not %.1f ± %.1f", i, k, counts[k], mean, slack);
            }
        }
        sampler_scratch_destroy(scratch);
    }
}

static void test_seed(void **state)
{
    (void)state;
    float *logits = malloc(LARGE * sizeof(*logits));
    struct sampler_scratch *scratch = sampler_scratch_create(LARGE);
    for (int i = 0; i < LARGE; i++) logits[i] = (float)((i * 7919) % 1009) * 0.01f;
    int different = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const struct sampler_params p = { 1, 200, 0.95f, 0.01f, seed };
        const struct sampler_params next = { 1, 200, 0.95f, 0.01f, seed + 1 };
        struct sampler a, b, c;
        sampler_init(&a, &p);
        sampler_init(&b, &p);
        sampler_init(&c, &next);
        for (int i = 0; i < 20; i++) {
            const int32_t token = sampler_choose(&a, scratch, logits, LARGE);
            assert_int_equal(token, sampler_choose(&b, scratch, logits, LARGE));
            different += token != sampler_choose(&c, scratch, logits, LARGE);
        }
    }
    assert_true(different > 300);
    free(logits);
    sampler_scratch_destroy(scratch);
}

/* The k best of many, against sorting them: only those are ever drawn, and all of them are. */
static void test_top_k(void **state)
{
    (void)state;
    enum { K = 40 };
    static float logits[LARGE];
    static int drawn[LARGE];
    struct sampler s;
    struct sampler_scratch *scratch = sampler_scratch_create(LARGE);
    /* All different. */
    for (int i = 0; i < LARGE; i++) logits[i] = (float)((i * 7919) % LARGE) * 1e-4f;
    sampler_init(&s, &(struct sampler_params){ 1, K, 1, 0, 5 });
    for (int i = 0; i < 2000; i++) drawn[sampler_choose(&s, scratch, logits, LARGE)] = 1;
    for (int i = 0; i < LARGE; i++) {
        int better = 0;
        for (int k = 0; k < LARGE; k++) better += logits[k] > logits[i];
        assert_int_equal(drawn[i], better < K);
    }
    sampler_scratch_destroy(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy),       cmocka_unit_test(test_odd_values),
        cmocka_unit_test(test_distribution), cmocka_unit_test(test_seed),
        cmocka_unit_test(test_top_k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
