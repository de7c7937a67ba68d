/* Parts of profiles added and folded: nothing of weights and counts may be lost or counted
 * twice. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "profile/compact.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

#define S 1000000000ull
#define START (1700000000ull * S)

static struct sonde_profile *new_profile(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    return p;
}

/* 100 samples of 1..100 ns, one a second, on two threads of two processes, three stacks. */
static struct sonde_profile *hundred(void)
{
    static const char *const stacks[] = { "main;a", "main;a;b", "main;c" };
    struct sonde_profile *p = new_profile();
    const uint32_t threads[] = { sonde_profile_thread(p, 10, 11, "one"),
                                 sonde_profile_thread(p, 20, 21, "two") };
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(build_sample(p, stacks[i % 3], i + 1, threads[i % 2], START + i * S), 0);
    }
    p->start_ns = START;
    p->end_ns = START + 100 * S;
    p->lost_records = 7;
    return p;
}

static uint64_t events(const struct sonde_profile *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) n += p->samples[i].count;
    return n;
}

static uint64_t weight(const struct sonde_profile *p)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) n += p->samples[i].weight;
    assert_int_equal(n, p->weights[SONDE_SAMPLE_CPU]);
    return n;
}

/* Cut anywhere, the pieces add up to the whole. */
static void test_parts_add_up(void **state)
{
    (void)state;
    struct sonde_profile *all = hundred();
    for (uint64_t cut = 0; cut <= 100; cut += 7) {
        struct sonde_profile *p = new_profile();
        const struct sonde_compact_part before = { .to_ns = START + cut * S };
        const struct sonde_compact_part after = { .from_ns = START + cut * S };
        assert_int_equal(sonde_compact_add(p, all, &before), 0);
        assert_int_equal(events(p), cut);
        assert_int_equal(sonde_compact_add(p, all, &after), 0);
        assert_int_equal(events(p), 100);
        assert_int_equal(weight(p), 5050);
        assert_int_equal(p->start_ns, START);
        assert_int_equal(p->end_ns, START + 100 * S);
        sonde_profile_destroy(p);
    }
    sonde_profile_destroy(all);
}

static void test_one_process(void **state)
{
    (void)state;
    struct sonde_profile *all = hundred(), *p = new_profile();
    assert_int_equal(sonde_compact_add(p, all, &(struct sonde_compact_part){ .pid = 10 }), 0);
    assert_int_equal(events(p), 50);
    assert_int_equal(weight(p), 2500); /* odd numbers to 99 */
    assert_int_equal(p->threads_count, 2);
    assert_int_equal(sonde_compact_add(p, all, &(struct sonde_compact_part){ .pid = 20 }), 0);
    assert_int_equal(weight(p), 5050);
    sonde_profile_destroy(p);
    p = new_profile();
    assert_int_equal(sonde_compact_add(p, all, &(struct sonde_compact_part){ .pid = 30 }), 0);
    assert_int_equal(p->samples_count, 0);
    assert_int_equal(p->stacks_count, 1); /* nothing that is not needed */
    assert_int_equal(p->locations_count, 1);
    sonde_profile_destroy(p);
    sonde_profile_destroy(all);
}

/* What was lost is told once, when all of it is added. */
static void test_lost(void **state)
{
    (void)state;
    struct sonde_profile *all = hundred(), *p = new_profile();
    assert_int_equal(sonde_compact_add(p, all, &(struct sonde_compact_part){ .to_ns = START + S }),
                     0);
    assert_int_equal(p->lost_records, 0);
    assert_int_equal(sonde_compact_add(p, all, &(struct sonde_compact_part){ 0 }), 0);
    assert_int_equal(p->lost_records, 7);
    sonde_profile_destroy(p);
    sonde_profile_destroy(all);
}

static void test_steps(void **state)
{
    (void)state;
    struct sonde_profile *p = hundred();
    assert_int_equal(sonde_compact_steps(p, 10 * S, SONDE_COMPACT_THREADS_KEEP), 0);
    assert_int_equal(events(p), 100);
    assert_int_equal(weight(p), 5050);
    assert_int_equal(p->samples_count, 10 * 6); /* steps × stacks × threads */
    for (uint32_t i = 0; i < p->samples_count; i++) {
        assert_int_equal(p->samples[i].time_ns % (10 * S), 0);
    }
    assert_int_equal(sonde_compact_steps(p, 100 * S, SONDE_COMPACT_THREADS_KEEP), 0);
    assert_int_equal(p->samples_count, 6);
    assert_int_equal(weight(p), 5050);
    assert_int_equal(sonde_compact_steps(p, 100 * S, SONDE_COMPACT_THREADS_KEEP), 0); /* again */
    assert_int_equal(p->samples_count, 6);
    assert_int_equal(events(p), 100);
    sonde_profile_destroy(p);
}

static void test_threads(void **state)
{
    (void)state;
    struct sonde_profile *p = new_profile();
    for (uint32_t i = 0; i < 60; i++) { /* ten threads of three processes, of two names */
        const uint32_t t = sonde_profile_thread(p, 1 + i % 3, 100 + i % 30,
                                                i % 2 ? "odd" : "even");
        assert_int_equal(build_sample(p, "main", 5, t, START), 0);
    }
    assert_int_equal(sonde_compact_steps(p, S, SONDE_COMPACT_THREADS_NAME), 0);
    assert_int_equal(p->samples_count, 6);
    assert_int_equal(weight(p), 300);
    assert_int_equal(sonde_compact_steps(p, S, SONDE_COMPACT_THREADS_ALL), 0);
    assert_int_equal(p->samples_count, 2);
    assert_int_equal(weight(p), 300);
    for (uint32_t i = 0; i < 2; i++) {
        const struct sonde_profile_thread *t = &p->threads[p->samples[i].thread];
        assert_int_equal(t->pid, 0);
        assert_int_equal(t->tid, 0);
        assert_true(!strcmp(p->strings[t->name], "odd") || !strcmp(p->strings[t->name], "even"));
    }
    sonde_profile_destroy(p);
}

/* Counts that do not fit in a row are in two. */
static void test_large_counts(void **state)
{
    (void)state;
    struct sonde_profile *p = new_profile();
    const uint32_t stack = build_stack(p, "main");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sonde_profile_add_sample(p, &(struct sonde_profile_sample){
            .stack = stack, .count = UINT32_MAX, .weight = 1ull << 61, .time_ns = START }), 0);
    }
    assert_int_equal(sonde_compact_steps(p, S, SONDE_COMPACT_THREADS_KEEP), 0);
    assert_int_equal(p->samples_count, 3);
    assert_int_equal(events(p), 3ull * UINT32_MAX);
    sonde_profile_destroy(p);
}

/* The same code mapped elsewhere is the same stack, and still shows the same offset. */
static void test_rebase(void **state)
{
    (void)state;
    struct sonde_profile *all = new_profile();
    for (int i = 0; i < 2; i++) {
        struct sonde_profile *p = new_profile();
        const uint64_t start = 0x500000 + (uint64_t)i * 0x100000;
        const uint32_t module = sonde_profile_module(p, &(struct sonde_profile_module){
            .path = sonde_profile_cstring(p, "/bin/x"), .build_id = sonde_profile_cstring(p, "aa"),
            .open_path = sonde_profile_cstring(p, i ? "/proc/2/root/bin/x" : "/proc/1/root/bin/x"),
            .start = start, .end = start + 0x8000, .offset = 0x2000 });
        const uint32_t stack =
            sonde_profile_stack(p, 0, sonde_profile_location(p, module, start + 0x123));
        assert_int_equal(sonde_profile_add_sample(p, &(struct sonde_profile_sample){
            .stack = stack, .count = 1, .weight = 3, .time_ns = START }), 0);
        assert_int_equal(sonde_compact_add(all, p, &(struct sonde_compact_part){ .rebase = 1 }), 0);
        sonde_profile_destroy(p);
    }
    assert_int_equal(all->modules_count, 2);
    assert_int_equal(all->locations_count, 2);
    const struct sonde_profile_module *m = &all->modules[1];
    assert_int_equal(all->locations[1].address - m->start + m->offset, 0x2123);
    assert_int_equal(sonde_compact_steps(all, S, SONDE_COMPACT_THREADS_KEEP), 0);
    assert_int_equal(all->samples_count, 1);
    assert_int_equal(weight(all), 6);
    sonde_profile_destroy(all);
}

static void add_span(struct sonde_profile *p, const char *name, uint32_t thread, uint64_t from_s,
                     uint64_t to_s)
{
    assert_int_equal(sonde_profile_add_span(p, &(struct sonde_profile_span){
        .name = sonde_profile_cstring(p, name), .thread = thread, .id = from_s + 1,
        .start_ns = START + from_s * S, .end_ns = START + to_s * S }), 0);
}

static uint32_t inside(const struct sonde_profile *p, const char *span)
{
    struct sonde_profile_match *m;
    struct sonde_err err;
    const struct sonde_profile_filter f = { .kind = -1, .span = span };
    assert_int_equal(sonde_profile_match_create(p, &f, &m, &err), 0);
    const uint32_t n = sonde_profile_match_count(m);
    sonde_profile_match_destroy(m);
    return n;
}

/* A span that ends in a later part is found by samples of an earlier one, once they are
 * together. */
static void test_spans(void **state)
{
    (void)state;
    struct sonde_profile *first = new_profile(), *second = new_profile(), *all = new_profile();
    uint32_t t = sonde_profile_thread(first, 1, 1, "main");
    for (uint32_t i = 0; i < 10; i++) build_sample(first, "main", 1, t, START + i * S);
    add_span(first, "whole", t, 0, 4);
    add_span(first, "inner", t, 1, 3);
    add_span(first, "empty", t, 20, 21); /* no sample is in it */
    first->start_ns = START;
    first->end_ns = START + 10 * S;
    t = sonde_profile_thread(second, 1, 1, "main");
    for (uint32_t i = 10; i < 20; i++) build_sample(second, "main", 1, t, START + i * S);
    add_span(second, "long", t, 5, 15);
    second->start_ns = START + 10 * S;
    second->end_ns = START + 20 * S;
    assert_int_equal(sonde_compact_add(all, first, &(struct sonde_compact_part){
        .from_ns = START, .to_ns = START + 10 * S, .spans = 1 }), 0);
    assert_int_equal(all->spans_count, 2);
    assert_int_equal(inside(all, "whole"), 4);
    assert_int_equal(inside(all, "inner"), 2);
    assert_int_equal(sonde_compact_add(all, second, &(struct sonde_compact_part){
        .from_ns = START + 10 * S, .to_ns = START + 20 * S, .spans = 1 }), 0);
    assert_int_equal(all->spans_count, 3);
    assert_int_equal(inside(all, "long"), 10);
    sonde_profile_destroy(first);
    sonde_profile_destroy(second);
    sonde_profile_destroy(all);
}

static void add_child(struct sonde_profile *p, const char *name, uint32_t thread, uint64_t from_s,
                      uint64_t to_s, uint64_t id, uint64_t parent)
{
    add_span(p, name, thread, from_s, to_s);
    p->spans[p->spans_count - 1].id = id;
    p->spans[p->spans_count - 1].parent = parent;
}

static int has_span(const struct sonde_profile *p, const char *name)
{
    for (uint32_t i = 0; i < p->spans_count; i++) {
        if (!strcmp(sonde_profile_str(p, p->spans[i].name), name)) return 1;
    }
    return 0;
}

/* What a span with samples was begun for, and what others were in while a thread without spans was
 * sampled, says whose those samples are. */
static void test_spans_of_others(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t pid, others_max;
        const char *wanted[6], *unwanted[4];
    } cases[] = {
        { "without others", 0, 0, { "task", "phase", "outer" }, { "batch", "idle", "elsewhere" } },
        { "with others", 0, 99, { "task", "phase", "outer", "batch", "around batch" },
          { "idle", "elsewhere", "request" } },
        { "of another process", 2, 99, { "idle" }, { "task", "batch", "phase", "elsewhere" } },
    };
    struct sonde_profile *p = new_profile();
    const uint32_t main = sonde_profile_thread(p, 1, 10, "main");
    const uint32_t helper = sonde_profile_thread(p, 1, 11, "helper");
    const uint32_t pool = sonde_profile_thread(p, 1, 12, "pool");
    const uint32_t none = sonde_profile_thread(p, 1, 0, "requests");
    const uint32_t other = sonde_profile_thread(p, 2, 20, "other");
    p->start_ns = START;
    p->end_ns = START + 100 * S;
    build_sample(p, "task", 1, helper, START + 5 * S);
    build_sample(p, "multiply", 1, pool, START + 25 * S);
    build_sample(p, "else", 1, other, START + 45 * S);
    add_child(p, "outer", main, 1, 12, 1, 0);
    add_child(p, "phase", main, 2, 10, 2, 0);
    add_child(p, "task", helper, 4, 6, 3, 2);
    add_child(p, "request", none, 0, 90, 4, 0);
    add_child(p, "around batch", main, 19, 31, 5, 0);
    add_child(p, "batch", main, 20, 30, 6, 0);
    add_child(p, "idle", other, 44, 46, 7, 0);
    add_child(p, "elsewhere", main, 50, 60, 8, 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_profile *all = new_profile();
        const struct sonde_compact_part part = { .pid = cases[i].pid ? cases[i].pid : 1, .spans = 1,
                                                 .others_max = cases[i].others_max };
        assert_int_equal(sonde_compact_add(all, p, &part), 0);
        for (int k = 0; k < 6 && cases[i].wanted[k]; k++) {
            if (!has_span(all, cases[i].wanted[k])) {
                fail_msg("%s: no %s", cases[i].name, cases[i].wanted[k]);
            }
        }
        for (int k = 0; k < 4 && cases[i].unwanted[k]; k++) {
            if (has_span(all, cases[i].unwanted[k])) {
                fail_msg("%s: %s", cases[i].name, cases[i].unwanted[k]);
            }
        }
        sonde_profile_destroy(all);
    }
    sonde_profile_destroy(p);
}

/* Too little room is an error, never less of it without a word. */
static void test_no_room(void **state)
{
    (void)state;
    struct sonde_profile *all = hundred(), *p;
    assert_int_equal(sonde_profile_create(16384, &p), 0);
    int rc = 0;
    for (int i = 0; i < 1000 && !rc; i++) {
        rc = sonde_compact_add(p, all, &(struct sonde_compact_part){ 0 });
    }
    assert_int_equal(rc, SONDE_ENOMEM);
    sonde_profile_destroy(p);
    sonde_profile_destroy(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_add_up), cmocka_unit_test(test_one_process),
        cmocka_unit_test(test_lost),         cmocka_unit_test(test_steps),
        cmocka_unit_test(test_threads),      cmocka_unit_test(test_large_counts),
        cmocka_unit_test(test_rebase),       cmocka_unit_test(test_spans),
        cmocka_unit_test(test_spans_of_others),
        cmocka_unit_test(test_no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
