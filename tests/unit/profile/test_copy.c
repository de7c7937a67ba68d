/* Parts of profiles copied to others: what is wanted with all it needs, and nothing else. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "profile/copy.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

static struct sonde_profile *copy_source(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const uint32_t one = sonde_profile_thread(p, 10, 11, "one");
    const uint32_t two = sonde_profile_thread(p, 10, 12, "two");
    const struct sonde_profile_module row = {
        .path = sonde_profile_cstring(p, "/bin/x"), .build_id = sonde_profile_cstring(p, "abcd"),
        .open_path = sonde_profile_cstring(p, "/proc/10/root/bin/x"),
        .start = 0x10000, .end = 0x20000, .offset = 0x1000, .flags = SONDE_MODULE_STRIPPED };
    const uint32_t module = sonde_profile_module(p, &row);
    const uint32_t at = sonde_profile_location(p, module, 0x10042);
    const uint32_t stack = sonde_profile_stack(p, build_stack(p, "main"), at);
    assert_int_equal(build_sample(p, "main;unwanted", 5, one, 100), 0);
    assert_int_equal(sonde_profile_add_sample(p, &(struct sonde_profile_sample){
        .stack = stack, .thread = two, .time_ns = 200, .weight = 7, .count = 1 }), 0);
    for (uint32_t i = 0; i < 2; i++) {
        const struct sonde_profile_span span = { .start_ns = 50 + i * 100, .end_ns = 150 + i * 100,
                                                 .id = i + 1, .thread = i ? two : one,
                                                 .name = sonde_profile_cstring(p, i ? "second"
                                                                                    : "first") };
        assert_int_equal(sonde_profile_add_span(p, &span), 0);
        const struct sonde_profile_part part = { .request = 70 + i, .span = i, .tokens_out = 1 };
        assert_int_equal(sonde_profile_add_part(p, &part), 0);
        const struct sonde_profile_attr attr = {
            .span = i, .key = sonde_profile_cstring(p, i ? "loss" : "unwanted key"),
            .type = SONDE_PROFILE_ATTR_DOUBLE, .value.d = 0.5 + i };
        assert_int_equal(sonde_profile_add_attr(p, &attr), 0);
    }
    p->start_ns = 50;
    p->end_ns = 250;
    p->achieved_hz = 100;
    p->program = sonde_profile_cstring(p, "x");
    return p;
}

/* Asked for row number *arg. */
static int copy_only(void *arg, uint32_t i) { return i == *(const uint32_t *)arg; }

static void test_only_what_is_needed(void **state)
{
    (void)state;
    struct sonde_profile *from = copy_source(), *to;
    struct sonde_profile_copy c;
    uint32_t second = 1;
    assert_int_equal(sonde_profile_create(0, &to), 0);
    assert_int_equal(sonde_profile_copy_init(&c, to, from), 0);
    assert_int_equal(sonde_profile_copy_samples(&c, copy_only, &second), 0);
    assert_int_equal(sonde_profile_copy_spans(&c, copy_only, &second, 1), 0);
    assert_int_equal(sonde_profile_copy_facts(&c, 150, 250), 0);
    sonde_profile_copy_release(&c);
    assert_int_equal(to->samples_count, 1);
    assert_int_equal(to->weights[SONDE_SAMPLE_CPU], 7);
    assert_int_equal(to->stacks_count, 3);       /* none, main, its callee */
    assert_int_equal(to->threads_count, 2);
    assert_int_equal(sonde_profile_find_string(to, "unwanted"), 0);
    assert_int_equal(sonde_profile_find_string(to, "first"), 0);
    assert_int_equal(to->modules_count, 2);
    assert_int_equal(to->modules[1].start, 0x10000);
    assert_int_equal(to->modules[1].flags, SONDE_MODULE_STRIPPED);
    assert_string_equal(sonde_profile_str(to, to->modules[1].open_path), "/proc/10/root/bin/x");
    assert_int_equal(to->spans_count, 1);
    assert_int_equal(to->parts_count, 1);
    assert_int_equal(to->parts[0].span, 0);
    assert_int_equal(to->parts[0].request, 71);
    uint32_t attrs;
    const struct sonde_profile_attr *attr = sonde_profile_attrs_of(to, 0, &attrs);
    assert_int_equal(to->attrs_count, 1);
    assert_int_equal(attrs, 1);
    assert_string_equal(sonde_profile_str(to, attr->key), "loss");
    assert_true(attr->value.d == 1.5);
    assert_int_equal(sonde_profile_find_string(to, "unwanted key"), 0);
    sonde_profile_attrs_of(to, 1, &attrs);
    assert_int_equal(attrs, 0);
    assert_string_equal(sonde_profile_str(to, to->program), "x");
    assert_int_equal(to->start_ns, 150);
    assert_int_equal(to->end_ns, 250);
    sonde_profile_destroy(to);
    sonde_profile_destroy(from);
}

static void test_without_parts_and_rebased(void **state)
{
    (void)state;
    struct sonde_profile *from = copy_source(), *to;
    struct sonde_profile_copy c;
    assert_int_equal(sonde_profile_create(0, &to), 0);
    assert_int_equal(sonde_profile_copy_init(&c, to, from), 0);
    c.rebase = 1;
    assert_int_equal(sonde_profile_copy_samples(&c, NULL, NULL), 0);
    assert_int_equal(sonde_profile_copy_spans(&c, NULL, NULL, 0), 0);
    sonde_profile_copy_release(&c);
    assert_int_equal(to->spans_count, 2);
    assert_int_equal(to->parts_count, 0);
    assert_int_equal(to->attrs_count, 2);
    assert_int_equal(to->modules[1].start, 0x1000); /* its offset in the file */
    assert_int_equal(to->modules[1].end, 0x11000);
    assert_int_equal(to->modules[1].open_path, 0);  /* of one process */
    const uint32_t at = to->stacks[to->samples[1].stack].location;
    assert_int_equal(to->locations[at].address, 0x1042);
    sonde_profile_destroy(to);
    sonde_profile_destroy(from);
}

/* A view holds all rows, also parts, and stays as it was while the profile goes on. */
static void test_view(void **state)
{
    (void)state;
    struct sonde_profile *from = copy_source(), *to, view;
    assert_int_equal(sonde_profile_view_init(&view, from), 0);
    assert_int_equal(build_sample(from, "main;later", 9, 1, 300), 0);
    from->spans[0].id = 99;
    assert_int_equal(view.samples_count, 2);
    assert_int_equal(view.parts_count, 2);
    assert_int_equal(view.spans[0].id, 1);
    assert_int_equal(sonde_profile_create(0, &to), 0);
    assert_int_equal(sonde_profile_merge(to, &view), 0);
    assert_int_equal(to->samples_count, 2);
    assert_int_equal(to->parts_count, 2);
    assert_int_equal(sonde_profile_find_string(to, "later"), 0);
    sonde_profile_view_release(&view);
    sonde_profile_destroy(to);
    sonde_profile_destroy(from);
}

/* Room for less and less: it fails, and says so. */
static void test_little_room(void **state)
{
    (void)state;
    struct sonde_profile *from = copy_source();
    int failed = 0, done = 0;
    for (size_t bytes = 6000; bytes < 40000; bytes += 500) {
        struct sonde_profile *to;
        struct sonde_profile_copy c;
        if (sonde_profile_create(bytes, &to)) continue;
        int rc = sonde_profile_copy_init(&c, to, from);
        if (!rc) rc = sonde_profile_copy_samples(&c, NULL, NULL);
        if (!rc) rc = sonde_profile_copy_spans(&c, NULL, NULL, 1);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        if (!rc) assert_int_equal(to->samples_count, 2);
        failed += rc != 0;
        done += rc == 0;
        sonde_profile_copy_release(&c);
        sonde_profile_destroy(to);
    }
    assert_true(failed && done);
    sonde_profile_destroy(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_what_is_needed),
        cmocka_unit_test(test_without_parts_and_rebased),
        cmocka_unit_test(test_view),
        cmocka_unit_test(test_little_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
