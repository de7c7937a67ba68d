/* Results compared: equal ones are not called different more often than the level says, planted
 * changes are found with the right sign and their interval, what differs between machines is
 * noted, limits. Seeds are fixed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "bench/versus.h"
#include "sonde/sonde.h"
#include "unit/analyze/random.h"

static struct sonde_bench_result *side_add(struct sonde_bench_saved *s, const char *kind)
{
    struct sonde_bench_result *r = SONDE_ARRAY_ADD(s->runs, s->count, s->cap);
    assert_non_null(r);
    sonde_bench_result_init(r, kind, "x");
    /* As on a quiet machine, whatever this one does now. */
    r->machine.load_before = 0;
    r->machine.stolen_ratio = 0;
    return r;
}

/* A figure of parts around a mean, with noise of 3 %. */
static void side_figure(struct sonde_bench_result *r, const char *name, int better, double mean,
                        size_t parts)
{
    double values[64];
    for (size_t i = 0; i < parts; i++) values[i] = mean * (1 + 0.03 * random_normal());
    struct sonde_bench_figure *f = sonde_bench_figure_add(r, name, "s", better);
    assert_int_equal(sonde_bench_figure_parts(f, values, parts), 0);
    sonde_bench_figure_mean(f);
}

static void compare_must(const struct sonde_bench_saved *a, const struct sonde_bench_saved *b,
                         struct sonde_bench_comparison *c)
{
    struct sonde_err err = { "" };
    if (sonde_bench_compare(a, b, c, &err)) fail_msg("%s", err.text);
}

static int has_note(const struct sonde_bench_comparison *c, const char *text)
{
    for (size_t i = 0; i < c->note_count; i++) {
        if (strstr(c->notes[i], text)) return 1;
    }
    return 0;
}

static void equal_and_planted(void **state)
{
    (void)state;
    random_state = 9;
    int alarms = 0, found = 0, held = 0;
    for (int i = 0; i < 400; i++) {
        struct sonde_bench_saved a = { 0 }, b = { 0 };
        struct sonde_bench_comparison c;
        struct sonde_bench_result *before = side_add(&a, "cmd"), *after = side_add(&b, "cmd");
        side_figure(before, "wall_s", -1, 1, 20);
        side_figure(after, "wall_s", -1, 1, 20);
        side_figure(before, "rate", 1, 10, 20);
        side_figure(after, "rate", 1, 10, 20);
        compare_must(&a, &b, &c);
        assert_int_equal(c.count, 2);
        alarms += c.changes[0].verdict != SONDE_BENCH_SAME ||
                  c.changes[1].verdict != SONDE_BENCH_SAME;
        sonde_bench_comparison_release(&c);
        side_figure(before, "slow", -1, 1, 20);
        side_figure(after, "slow", -1, 1.1, 20);
        compare_must(&a, &b, &c);
        found += c.changes[2].verdict == SONDE_BENCH_WORSE;
        held += c.changes[2].d.relative_low <= 0.1 && c.changes[2].d.relative_high >= 0.1;
        assert_true(c.changes[2].smallest > 0.01 && c.changes[2].smallest < 0.1);
        sonde_bench_comparison_release(&c);
        sonde_bench_saved_release(&a);
        sonde_bench_saved_release(&b);
    }
    printf("equal called different in %d, 10 %% found in %d, held in %d of 400\n", alarms, found,
           held);
    assert_true(alarms <= 20);
    assert_int_equal(found, 400);
    assert_true(held >= 380);
}

static void sets_of_runs(void **state)
{
    (void)state;
    random_state = 4;
    struct sonde_bench_saved a = { 0 }, b = { 0 };
    struct sonde_bench_comparison c;
    for (int i = 0; i < 6; i++) side_figure(side_add(&a, "http"), "e2e_s.p50", -1, 1, 1);
    for (int i = 0; i < 5; i++) side_figure(side_add(&b, "http"), "e2e_s.p50", -1, 0.7, 1);
    compare_must(&a, &b, &c);
    assert_true(c.runs[0] == 6 && c.runs[1] == 5);
    assert_int_equal(c.changes[0].verdict, SONDE_BENCH_BETTER);
    assert_true(!has_note(&c, "one run each"));
    sonde_bench_comparison_release(&c);
    /* One run beside several borrows their spread. */
    while (b.count > 1) sonde_bench_result_release(&b.runs[--b.count]);
    compare_must(&a, &b, &c);
    assert_int_equal(c.changes[0].verdict, SONDE_BENCH_BETTER);
    sonde_bench_comparison_release(&c);
    /* One each without parts or interval: it cannot be known. */
    while (a.count > 1) sonde_bench_result_release(&a.runs[--a.count]);
    compare_must(&a, &b, &c);
    assert_int_equal(c.changes[0].verdict, SONDE_BENCH_UNKNOWN);
    assert_true(has_note(&c, "one run each"));
    /* A limit that cannot be judged does not pass. */
    struct sonde_bench_limit l;
    struct sonde_err err = { "" };
    const struct sonde_bench_change *k = NULL;
    assert_int_equal(sonde_bench_limit_parse("e2e_s.*>5%", &l, &err), 0);
    assert_int_equal(sonde_bench_compare_limit(&l, &c, 0, &k, &err), 1);
    assert_int_equal(sonde_bench_compare_limit(&l, &c, 1, &k, &err), 0);
    sonde_bench_comparison_release(&c);
    /* By intervals that it was given. */
    a.runs[0].figures[0].low = 0.95;
    a.runs[0].figures[0].high = 1.05;
    a.runs[0].figures[0].value = 1;
    b.runs[0].figures[0].low = 0.65;
    b.runs[0].figures[0].high = 0.75;
    b.runs[0].figures[0].value = 0.7;
    compare_must(&a, &b, &c);
    assert_int_equal(c.changes[0].verdict, SONDE_BENCH_BETTER);
    sonde_bench_comparison_release(&c);
    sonde_bench_saved_release(&a);
    sonde_bench_saved_release(&b);
}

static void limits(void **state)
{
    (void)state;
    random_state = 6;
    struct sonde_bench_saved a = { 0 }, b = { 0 };
    struct sonde_bench_comparison c;
    struct sonde_err err = { "" };
    struct sonde_bench_result *before = side_add(&a, "cmd"), *after = side_add(&b, "cmd");
    side_figure(before, "wall_s", -1, 1, 30);
    side_figure(after, "wall_s", -1, 1.2, 30);
    side_figure(before, "same_s", -1, 1, 30);
    side_figure(after, "same_s", -1, 1, 30);
    compare_must(&a, &b, &c);
    static const struct { const char *limit; int rc; } cases[] = {
        { "wall_s>5%", 1 }, { "wall_s>30%", 0 }, { "wall_s<5%", 0 }, { "*_s>5%", 1 },
        { "same_s>0%", 0 }, { "wall_s>1100ms", 1 }, { "wall_s>2s", 0 },
        { "wall_s>2", SONDE_EINVAL }, { "none>2%", SONDE_ENOENT },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        struct sonde_bench_limit l;
        const struct sonde_bench_change *k = NULL;
        assert_int_equal(sonde_bench_limit_parse(cases[i].limit, &l, &err), 0);
        assert_int_equal(sonde_bench_compare_limit(&l, &c, 0, &k, &err), cases[i].rc);
        if (cases[i].rc == 1) assert_string_equal(k->name, "wall_s");
    }
    sonde_bench_comparison_release(&c);
    sonde_bench_saved_release(&a);
    sonde_bench_saved_release(&b);
}

static void what_differs(void **state)
{
    (void)state;
    random_state = 2;
    struct sonde_bench_saved a = { 0 }, b = { 0 };
    struct sonde_bench_comparison c;
    struct sonde_err err = { "" };
    struct sonde_bench_result *before = side_add(&a, "cmd"), *after = side_add(&b, "cmd");
    side_figure(before, "wall_s", -1, 1, 10);
    side_figure(after, "wall_s", -1, 1, 10);
    sonde_bench_figure_add(after, "only", "", 0);
    compare_must(&a, &b, &c);
    assert_int_equal(c.left_out, 1);
    assert_int_equal(c.note_count, 1); /* one run each */
    sonde_bench_comparison_release(&c);
    snprintf(before->machine.cpu, sizeof(before->machine.cpu), "old");
    snprintf(after->machine.cpu, sizeof(after->machine.cpu), "new");
    before->machine.cpus = 2;
    after->machine.cpus = 4;
    before->machine.memory_bytes = (uint64_t)4 << 30;
    after->machine.memory_bytes = (uint64_t)8 << 30;
    snprintf(after->sonde, sizeof(after->sonde), "99");
    after->machine.stolen_ratio = 0.3;
    sonde_bench_result_doubt(after, "client");
    compare_must(&a, &b, &c);
    static const char *const notes[] = { "'old' before, 'new' after", "2 before, 4 after",
                                         "4.0 GiB before, 8.0", "another sonde", "30.0 %",
                                         "not valid: client" };
    for (size_t i = 0; i < SONDE_COUNT(notes); i++) assert_true(has_note(&c, notes[i]));
    sonde_bench_comparison_release(&c);
    sonde_bench_saved_release(&b);
    side_add(&b, "http");
    assert_int_equal(sonde_bench_compare(&a, &b, &c, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "`cmd` and of `http`"));
    sonde_bench_saved_release(&b);
    side_figure(side_add(&b, "cmd"), "other", -1, 1, 10);
    assert_int_equal(sonde_bench_compare(&a, &b, &c, &err), SONDE_EINVAL);
    sonde_bench_saved_release(&a);
    sonde_bench_saved_release(&b);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void names_of_commands(void **state)
{
    (void)state;
    random_state = 3;
    struct sonde_bench_saved a = { 0 }, b = { 0 };
    struct sonde_bench_comparison c;
    struct sonde_bench_result *before = side_add(&a, "cmd"), *after = side_add(&b, "cmd");
    side_figure(before, "./old 1.5.wall_s", -1, 1, 10);
    side_figure(before, "./old 1.5.user_s", -1, 1, 10);
    side_figure(after, "./new.wall_s", -1, 1, 10);
    side_figure(after, "./new.user_s", -1, 1, 10);
    sonde_bench_compare_align(&a, &b);
    compare_must(&a, &b, &c);
    assert_int_equal(c.count, 2);
    assert_string_equal(c.changes[0].name, "wall_s");
    sonde_bench_comparison_release(&c);
    /* What is in common stays as it is. */
    sonde_bench_compare_align(&a, &b);
    assert_string_equal(a.runs[0].figures[1].name, "user_s");
    sonde_bench_saved_release(&a);
    sonde_bench_saved_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_and_planted), cmocka_unit_test(sets_of_runs),
        cmocka_unit_test(limits),            cmocka_unit_test(what_differs),
        cmocka_unit_test(names_of_commands),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
