/* The tables: one row for what is equal, memory that ends where it was told to, merging. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

static struct sonde_profile *create(size_t bytes_max)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(bytes_max, &p), 0);
    return p;
}

static void test_row_zero_is_none(void **state)
{
    (void)state;
    struct sonde_profile *p = create(0);
    assert_int_equal(p->strings_count, 1);
    assert_string_equal(sonde_profile_str(p, 0), "");
    assert_int_equal(sonde_profile_cstring(p, ""), 0);
    assert_int_equal(p->modules_count, 1);
    assert_int_equal(p->functions_count, 1);
    assert_int_equal(p->locations_count, 1);
    assert_int_equal(p->stacks_count, 1);
    assert_int_equal(p->threads_count, 1);
    assert_int_equal(p->samples_count, 0);
    assert_int_equal(sonde_profile_stack(p, 0, 0), 0);
    sonde_profile_destroy(p);
}

static void test_kinds(void **state)
{
    (void)state;
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        assert_int_equal(sonde_sample_kind_find(sonde_sample_kind_name((enum sonde_sample_kind)k)),
                         k);
    }
    assert_int_equal(sonde_sample_kind_find("nothing"), -1);
    assert_string_equal(sonde_sample_kind_unit(SONDE_SAMPLE_OFFCPU), "nanoseconds");
}

static void test_equal_rows_are_one(void **state)
{
    (void)state;
    struct sonde_profile *p = create(0);
    const uint32_t path = sonde_profile_cstring(p, "/bin/a");
    assert_int_equal(sonde_profile_cstring(p, "/bin/a"), path);
    assert_int_equal(sonde_profile_string(p, "/bin/a\0tail", 11), path);

    struct sonde_profile_module m = { .path = path, .start = 0x1000, .end = 0x9000, .offset = 7 };
    const uint32_t module = sonde_profile_module(p, &m);
    assert_int_equal(sonde_profile_module(p, &m), module);
    m.flags = SONDE_MODULE_STRIPPED; /* what was found out later makes it no other one */
    assert_int_equal(sonde_profile_module(p, &m), module);
    m.start = 0x2000;
    assert_int_not_equal(sonde_profile_module(p, &m), module);

    struct sonde_profile_function f = { .name = path, .start_line = 3, .module = module };
    const uint32_t function = sonde_profile_function(p, &f);
    assert_int_equal(sonde_profile_function(p, &f), function);
    f.start_line = 4;
    assert_int_not_equal(sonde_profile_function(p, &f), function);

    const uint32_t location = sonde_profile_location(p, module, 0x1234);
    assert_int_equal(sonde_profile_location(p, module, 0x1234), location);
    assert_int_not_equal(sonde_profile_location(p, 0, 0x1234), location);
    const uint32_t stack = sonde_profile_stack(p, 0, location);
    assert_int_equal(sonde_profile_stack(p, 0, location), stack);
    assert_int_not_equal(sonde_profile_stack(p, stack, location), stack);
    sonde_profile_destroy(p);
}

static void test_threads_keep_their_last_name(void **state)
{
    (void)state;
    struct sonde_profile *p = create(0);
    const uint32_t t = sonde_profile_thread(p, 10, 11, "python3");
    assert_int_equal(sonde_profile_thread(p, 10, 11, "worker"), t);
    assert_int_equal(sonde_profile_thread(p, 10, 11, NULL), t);
    assert_string_equal(sonde_profile_str(p, p->threads[t].name), "worker");
    assert_int_not_equal(sonde_profile_thread(p, 12, 11, "worker"), t);
    const uint32_t a = sonde_profile_thread(p, 0, 0, "a"), b = sonde_profile_thread(p, 0, 0, "b");
    assert_int_not_equal(a, b);
    assert_int_equal(sonde_profile_thread(p, 0, 0, "a"), a);
    sonde_profile_destroy(p);
}

static void test_lines(void **state)
{
    (void)state;
    struct sonde_profile *p = create(0);
    struct sonde_profile_line lines[3];
    for (uint32_t i = 0; i < 3; i++) {
        char name[2] = { (char)('a' + i), '\0' };
        const struct sonde_profile_function f = { .name = sonde_profile_cstring(p, name) };
        lines[i] = (struct sonde_profile_line){ sonde_profile_function(p, &f), i + 1 };
    }
    const uint32_t l = sonde_profile_location(p, 0, 0x10);
    assert_int_equal(sonde_profile_set_lines(p, l, lines, 1), 0);
    assert_int_equal(sonde_profile_set_lines(p, l, lines, 3), 0);
    assert_int_equal(p->locations[l].line_count, 3);
    assert_int_equal(p->lines[p->locations[l].line + 2].line, 3);

    assert_int_equal(sonde_profile_lines_location(p, 0, 0x10, lines, 3), l);
    const uint32_t other = sonde_profile_lines_location(p, 0, 0x10, lines, 2);
    assert_int_not_equal(other, l);
    assert_int_equal(sonde_profile_lines_location(p, 0, 0x10, lines, 2), other);
    const uint32_t nowhere = sonde_profile_lines_location(p, 0, 0, lines, 2);
    assert_int_not_equal(nowhere, other);
    assert_int_equal(sonde_profile_lines_location(p, 0, 0, lines, 2), nowhere);

    const uint32_t named = sonde_profile_named_location(p, "a", 1);
    assert_int_equal(sonde_profile_named_location(p, "a", 1), named);
    assert_int_equal(p->locations[named].line_count, 1);
    sonde_profile_destroy(p);
}

static void test_memory_is_capped(void **state)
{
    (void)state;
    struct sonde_profile *p = create(1 << 20);
    char name[64];
    uint64_t kept = 0, refused = 0;
    for (int i = 0; i < 40000; i++) {
        snprintf(name, sizeof(name), "main;function_number_%d", i);
        if (build_sample(p, name, 5, 0, 0)) refused++;
        else kept++;
        assert_true(p->bytes <= p->bytes_max);
    }
    assert_true(kept > 1000);
    assert_true(refused > 1000);
    assert_int_equal(p->samples_count, kept);
    assert_int_equal(p->dropped_samples, refused);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Sums of weights fit 64 bits, of each kind. */
static void test_weights_add_up(void **state)
{
    (void)state;
    struct sonde_profile *p = create(0), *q = create(0);
    assert_int_equal(build_sample(p, "a", UINT64_MAX - 5, 0, 0), 0);
    assert_int_equal(build_sample(p, "a", 6, 0, 0), SONDE_EFORMAT);
    assert_int_equal(p->dropped_samples, 1);
    assert_int_equal(build_sample(p, "b", 5, 0, 0), 0);
    assert_int_equal(p->samples_count, 2);
    const struct sonde_profile_sample other = { .stack = p->samples[0].stack, .weight = 9,
                                                .kind = SONDE_SAMPLE_OFFCPU };
    assert_int_equal(sonde_profile_add_sample(p, &other), 0);
    assert_int_equal(build_sample(q, "a", 1, 0, 0), 0);
    assert_int_equal(sonde_profile_merge(q, p), SONDE_EFORMAT);
    sonde_profile_destroy(p);
    sonde_profile_destroy(q);
}

static void fill_for_merge(struct sonde_profile *p, uint64_t base)
{
    const uint32_t t = sonde_profile_thread(p, 1, 2, "worker");
    const struct sonde_profile_module m = { .path = sonde_profile_cstring(p, "/lib/x.so"),
                                            .start = 4096, .end = 8192 };
    const uint32_t module = sonde_profile_module(p, &m);
    const uint32_t location = sonde_profile_location(p, module, 5000);
    build_sample(p, "main;f", 1, t, base + 1);
    const uint32_t stack = sonde_profile_stack(p, build_stack(p, "main;f"), location);
    sonde_profile_add_sample(p, &(struct sonde_profile_sample){ .stack = stack, .weight = 2,
                                                                .thread = t, .count = 1 });
    sonde_profile_add_span(p, &(struct sonde_profile_span){
                                  .start_ns = base, .end_ns = base + 10, .thread = t,
                                  .name = sonde_profile_cstring(p, "prefill") });
    sonde_profile_add_part(p, &(struct sonde_profile_part){ .request = base, .tokens_in = 1 });
    p->start_ns = base;
    p->end_ns = base + 100;
    p->lost_records = 3;
    p->program = sonde_profile_cstring(p, "prog");
}

static void test_merge(void **state)
{
    (void)state;
    struct sonde_profile *a = create(0), *b = create(0);
    sonde_profile_cstring(b, "shifts the ids of b");
    sonde_profile_named_location(b, "other", 5);
    fill_for_merge(a, 1000);
    fill_for_merge(b, 5000);
    const uint32_t stacks = a->stacks_count, modules = a->modules_count;
    assert_int_equal(sonde_profile_merge(a, b), 0);
    assert_int_equal(a->stacks_count, stacks);
    assert_int_equal(a->modules_count, modules);
    assert_int_equal(a->samples_count, 4);
    assert_int_equal(a->samples[2].stack, a->samples[0].stack);
    assert_int_equal(a->samples[3].stack, a->samples[1].stack);
    assert_int_equal(a->samples[2].time_ns, 5001);
    assert_int_equal(a->spans_count, 2);
    assert_string_equal(sonde_profile_str(a, a->spans[1].name), "prefill");
    assert_int_equal(a->parts_count, 2);
    assert_int_equal(a->parts[1].span, 1);
    assert_int_equal(a->parts[1].request, 5000);
    assert_int_equal(a->start_ns, 1000);
    assert_int_equal(a->end_ns, 5100);
    assert_int_equal(a->lost_records, 6);
    sonde_profile_destroy(a);
    sonde_profile_destroy(b);
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    struct sonde_profile *from = create(0);
    fill_for_merge(from, 1000);
    const int64_t live = sonde__alloc_live();
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 200; nth++) {
        struct sonde_profile *p = NULL;
        sonde__alloc_fail_nth(nth);
        rc = sonde_profile_create(0, &p);
        if (!rc) rc = sonde_profile_merge(p, from);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        sonde_profile_destroy(p);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
    sonde_profile_destroy(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_zero_is_none),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_equal_rows_are_one),
        cmocka_unit_test(test_threads_keep_their_last_name),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_memory_is_capped),
        cmocka_unit_test(test_weights_add_up),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
