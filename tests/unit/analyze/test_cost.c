/* Costs of functions: one that gets slower is named, work that is moved is a shift, what went away
 * is gone; odd profiles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyze/cost.h"
#include "base/alloc.h"
#include "unit/analyze/cost_sim.h"

struct counts { int named, alarms, shifts, gone; };

static struct counts judge_day(enum cost_sim_kind kind, uint64_t seed)
{
    struct counts n = { 0 };
    struct cost_sim s;
    struct sonde_profile *p;
    struct sonde_cost *t;
    struct sonde_cost_change *c;
    size_t count;
    cost_sim_init(&s, seed);
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_cost_create(NULL, &t), 0);
    cost_sim_day(&s, kind, p);
    assert_int_equal(sonde_cost_add(t, p), 0);
    assert_int_equal(sonde_cost_judge(t, &c, &count), 0);
    for (size_t i = 0; i < count; i++) {
        const int target = !strcmp(c[i].function, "target");
        if (c[i].until_s > 0) n.gone += target;
        else if (c[i].kind == SONDE_COST_SHIFT) n.shifts++;
        else if (c[i].kind == SONDE_COST_REGRESSION && kind == COST_SIM_SLOWER && target) {
            n.named++;
            assert_true(c[i].relative_low < 0.2 && c[i].relative_high > 0.1);
            assert_true(c[i].before > 0.008 && c[i].before < 0.012 && c[i].after > c[i].before);
            assert_string_equal(c[i].caller, "group_0");
        } else if (c[i].kind == SONDE_COST_REGRESSION) {
            n.alarms++;
        }
    }
    sonde__free(c);
    sonde_cost_destroy(t);
    sonde_profile_destroy(p);
    return n;
}

static void test_slower_function_is_named(void **state)
{
    (void)state;
    int named = 0;
    for (uint64_t i = 0; i < 8; i++) {
        const struct counts n = judge_day(COST_SIM_SLOWER, 131 * i + 1);
        named += n.named;
        assert_int_equal(n.alarms, 0);
    }
    assert_true(named >= 6);
}

static void test_shifts_do_not_alarm(void **state)
{
    (void)state;
    static const enum cost_sim_kind kinds[] = { COST_SIM_INLINED, COST_SIM_SIBLING,
        COST_SIM_RENAMED, COST_SIM_SPLIT, COST_SIM_MERGED };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct counts n = judge_day(kinds[i], 131 + i);
        assert_int_equal(n.alarms, 0);
        assert_true(n.shifts >= 1);
    }
}

static void test_excursion_is_gone_again(void **state)
{
    (void)state;
    int gone = 0;
    for (uint64_t i = 0; i < 3; i++) {
        const struct counts n = judge_day(COST_SIM_EXCURSION, 131 * i + 7);
        gone += n.gone;
        assert_int_equal(n.alarms, 0);
    }
    assert_true(gone >= 2);
}

static void test_nothing_is_nothing(void **state)
{
    (void)state;
    struct sonde_cost *t;
    struct sonde_cost_change *c;
    struct sonde_profile *p;
    size_t count = 9;
    assert_int_equal(judge_day(COST_SIM_NOTHING, 5).alarms, 0);
    assert_int_equal(sonde_cost_create(&(struct sonde_cost_options){ .bins = 30 }, &t), 0);
    assert_int_equal(sonde_cost_judge(t, &c, &count), 0);
    assert_int_equal(count, 0);
    sonde__free(c);
    /* No time, no weight, other kinds: of no bin. Recursion counts once. */
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(build_sample(p, "main;f;f;f", 5, 0, 0), 0);
    assert_int_equal(build_sample(p, "main;f;f;f", 5, 0, 900000000000ull), 0);
    for (uint64_t i = 40; i < 80; i++) { /* older ones are gone */
        assert_int_equal(build_sample(p, "main;f;g", 5, 0, i * 900000000000ull), 0);
    }
    assert_int_equal(build_sample(p, "main;f", 5, 0, 900000000000ull), 0);
    assert_int_equal(sonde_cost_add(t, p), 0);
    assert_int_equal(sonde_cost_judge(t, &c, &count), 0);
    assert_int_equal(count, 0);
    sonde__free(c);
    sonde_profile_destroy(p);
    sonde_cost_destroy(t);
    sonde_cost_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slower_function_is_named),
        cmocka_unit_test(test_shifts_do_not_alarm),
        cmocka_unit_test(test_excursion_is_gone_again),
        cmocka_unit_test(test_nothing_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
