/* Parts of profiles by time, and samples added up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "profile/thin.h"
#include "sonde/sonde.h"

#define T0 1700000000000000000ull

static struct sonde_profile *make(void)
{
    struct sonde_profile *p = NULL;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    return p;
}

static void add(struct sonde_profile *p, uint64_t time_ns, const char *at, uint32_t tid,
                enum sonde_sample_kind kind, uint64_t weight)
{
    const uint32_t location = sonde_profile_named_location(p, at, 1);
    const struct sonde_profile_sample s = {
        .time_ns = time_ns, .weight = weight, .stack = sonde_profile_stack(p, 0, location),
        .thread = sonde_profile_thread(p, 1, tid, "t"), .count = 1, .kind = (uint16_t)kind };
    assert_int_equal(sonde_profile_add_sample(p, &s), 0);
}

static void test_cut(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    add(p, T0 - 1, "a", 1, SONDE_SAMPLE_CPU, 10);
    add(p, T0, "b", 1, SONDE_SAMPLE_CPU, 20);
    add(p, T0 + 99, "c", 1, SONDE_SAMPLE_CPU, 30);
    add(p, T0 + 100, "d", 1, SONDE_SAMPLE_CPU, 40);
    add(p, T0 - 50, "e", 1, SONDE_SAMPLE_OFFCPU, 500); /* before, during and after */
    add(p, T0 - 50, "f", 1, SONDE_SAMPLE_OFFCPU, 50);  /* ends with it */
    add(p, 0, "g", 1, SONDE_SAMPLE_LIVE, 7);           /* of no time */
    sonde_profile_cut(p, T0, T0 + 100);
    assert_int_equal(p->samples_count, 4);
    assert_int_equal(p->weights[SONDE_SAMPLE_CPU], 50);
    assert_int_equal(p->weights[SONDE_SAMPLE_OFFCPU], 100);
    assert_int_equal(p->weights[SONDE_SAMPLE_LIVE], 7);
    assert_int_equal(p->samples[2].time_ns, T0);
    sonde_profile_cut(p, T0 + 50, 0);
    assert_int_equal(p->weights[SONDE_SAMPLE_CPU], 30);
    assert_int_equal(p->weights[SONDE_SAMPLE_OFFCPU], 50);
    sonde_profile_destroy(p);
}

/* Totals by stack, thread and slice are the same before and after. */
static void test_thin(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    for (uint64_t i = 0; i < 1000; i++) {
        add(p, T0 + i, i % 3 ? "a" : "b", 1 + (uint32_t)(i % 2), SONDE_SAMPLE_CPU, 10 + i % 5);
    }
    const uint64_t all = p->weights[SONDE_SAMPLE_CPU];
    sonde_profile_thin(p, 100);
    assert_int_equal(p->samples_count, 2 * 2 * 10);
    uint64_t weight = 0, count = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        weight += p->samples[i].weight;
        count += p->samples[i].count;
    }
    assert_int_equal(weight, all);
    assert_int_equal(p->weights[SONDE_SAMPLE_CPU], all);
    assert_int_equal(count, 1000);
    sonde_profile_thin(p, UINT64_MAX);
    assert_int_equal(p->samples_count, 4);
    sonde_profile_destroy(p);
    p = make(); /* counts that do not fit stay apart */
    add(p, T0, "a", 1, SONDE_SAMPLE_CPU, 1);
    add(p, T0, "a", 1, SONDE_SAMPLE_CPU, 1);
    p->samples[0].count = UINT32_MAX;
    sonde_profile_thin(p, UINT64_MAX);
    assert_int_equal(p->samples_count, 2);
    sonde_profile_destroy(p);
}

static void test_empty(void **state)
{
    (void)state;
    struct sonde_profile *p = make();
    sonde_profile_cut(p, 1, 2);
    sonde_profile_thin(p, 1);
    assert_int_equal(p->samples_count, 0);
    sonde_profile_destroy(p);
}

/* Totals of threads stay, times are those of samples, and what a function has is right on
 * average. */
static void test_halve(void **state)
{
    (void)state;
    enum { SAMPLES = 40000 };
    struct sonde_profile *p = make();
    uint64_t of_a = 0, of_thread[2] = { 0 };
    for (uint64_t i = 0; i < SAMPLES; i++) {
        const uint64_t weight = 1 + i * 7919 % 1000;
        const int a = i * 31 % 10 < 3;
        add(p, T0 + i, a ? "a" : "b", (uint32_t)(i % 2), SONDE_SAMPLE_CPU, weight);
        of_a += a ? weight : 0;
        of_thread[i % 2] += weight;
    }
    const uint64_t all = p->weights[SONDE_SAMPLE_CPU];
    const uint32_t stack_a = p->samples[0].stack;
    for (uint32_t rows = SAMPLES; rows > SAMPLES / 8; rows /= 2) {
        sonde_profile_halve(p);
        assert_int_equal(p->samples_count, rows / 2);
        uint64_t left_a = 0, left[2] = { 0 }, count = 0;
        for (uint32_t i = 0; i < p->samples_count; i++) {
            const struct sonde_profile_sample *s = &p->samples[i];
            const uint32_t tid = p->threads[s->thread].tid;
            assert_int_equal((s->time_ns - T0) % 2, tid);
            left[tid] += s->weight;
            count += s->count;
            if (s->stack == stack_a) left_a += s->weight;
        }
        assert_int_equal(count, SAMPLES);
        for (int t = 0; t < 2; t++) assert_int_equal(left[t], of_thread[t]);
        assert_in_range(left_a, of_a - all / 50, of_a + all / 50);
    }
    assert_int_equal(p->weights[SONDE_SAMPLE_CPU], all);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cut), cmocka_unit_test(test_thin),
                                        cmocka_unit_test(test_halve),
                                        cmocka_unit_test(test_empty) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
