/* Reports and comparisons of small profiles whose figures can be worked out by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include <jansson.h>

#include "base/alloc.h"
#include "present/report/compare.h"
#include "present/report/profile.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

#define S 1000000000ull /* a second */

/* Two threads, ten seconds: worker is in span "request" from 2 s to 6 s, and twice in "a*b". */
static struct sonde_profile *sample_profile(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    const uint32_t main_thread = sonde_profile_thread(p, 7, 7, "main");
    const uint32_t worker = sonde_profile_thread(p, 7, 8, "worker");
    p->start_ns = 1700000000 * S;
    p->end_ns = p->start_ns + 10 * S;
    for (uint64_t i = 0; i < 10; i++) {
        const uint64_t now = p->start_ns + i * S;
        build_sample(p, "main;idle", S, main_thread, now);
        build_sample(p, i >= 2 && i < 6 ? "start;serve;work" : "start;serve;wait", S, worker, now);
    }
    p->samples[3].flags = SONDE_SAMPLE_TRUNCATED; /* of worker */
    const uint32_t request = sonde_profile_cstring(p, "request");
    const uint32_t glob = sonde_profile_cstring(p, "a*b");
    const struct sonde_profile_span spans[] = {
        { .start_ns = p->start_ns + 2 * S, .end_ns = p->start_ns + 6 * S, .thread = worker,
          .name = request },
        { .start_ns = p->start_ns, .end_ns = p->start_ns + S, .thread = worker, .name = glob },
        { .start_ns = p->start_ns + 8 * S, .end_ns = p->start_ns + 9 * S, .thread = worker,
          .name = glob, .outcome = SONDE_ERROR },
        { .start_ns = p->start_ns, .end_ns = p->start_ns + 9 * S, .thread = main_thread,
          .name = sonde_profile_cstring(p, "axb") },
    };
    for (size_t i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
        assert_int_equal(sonde_profile_add_span(p, &spans[i]), 0);
    }
    p->program = sonde_profile_cstring(p, "prog|ram");
    p->rate_hz = 1;
    p->achieved_hz = 0.999;
    p->lost_records = 2;
    return p;
}

static char *report(const struct sonde_profile *p, struct sonde_report_options o)
{
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 1 << 20);
    if (sonde_profile_report(p, &o, &b, &err) != 0) fail_msg("%s", err.text);
    return sonde_buf_take(&b);
}

static void has(const char *text, const char *what)
{
    if (!strstr(text, what)) fail_msg("no '%s' in:\n%s", what, text);
}

static void test_text(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_profile();
    char *text = report(p, (struct sonde_report_options){ .filter.kind = -1, .ascii = 1 });
    has(text, "CPU time of prog|ram\n");
    has(text, "samples    20, 20.0 s\n");
    has(text, "rate       1 Hz asked for, 0.999 Hz reached");
    has(text, "complete   95.00 % of the stacks");
    has(text, "lost       2 records by the kernel or the ring, 0 samples");
    has(text, "10.0 s  50.0 %  10.0 s  50.0 %  idle\n");
    has(text, "   0 s   0.0 %  10.0 s  50.0 %  serve\n");
    has(text, "  50.0 %    0.0 %  main\n  50.0 %   50.0 %    idle\n");
    has(text, "worker    8    7       10  10.0 s  50.0 %    90.0 %\n");
    has(text, "request      1       0  4.00 s  4.00 s  4.00 s   4.00 s  20.0 %\n");
    has(text, "a*b          2       1  2.00 s  1.00 s  1.00 s   2.00 s  10.0 %\n");
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void test_filtered(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_profile();
    const struct sonde_report_options o = { .filter = { .kind = -1, .span = "request" },
                                            .ascii = 1 };
    char *text = report(p, o);
    has(text, "samples    4, 4.00 s\n");
    has(text, "4.00 s  100.0 %  4.00 s  100.0 %  work\n");
    assert_null(strstr(text, "wait"));
    /* Other spans weigh nothing of what is left. */
    has(text, "a*b          2       1  2.00 s  1.00 s  1.00 s      0 s    0.0 %\n");
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void test_markdown(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_profile();
    char *text = report(p, (struct sonde_report_options){
        .filter.kind = -1, .style = SONDE_REPORT_MARKDOWN, .ascii = 1, .limit = 1 });
    has(text, "# CPU time of prog\\|ram\n");
    has(text, "\n## Functions\n\n| SELF | % | TOTAL | % | FUNCTION | WHERE |\n|---:|");
    has(text, "| 10.0 s | 50.0 % | 10.0 s | 50.0 % | idle |");
    has(text, "## Threads, the first 1 of 2");
    has(text, "## Spans, the first 1 of 3 names");
    sonde__free(text);
    sonde_profile_destroy(p);
}

static double number(json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

static void test_json(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_profile();
    char *text = report(p, (struct sonde_report_options){ .filter.kind = -1,
                                                          .style = SONDE_REPORT_JSON });
    json_t *r = json_loads(text, 0, NULL);
    assert_non_null(r);
    assert_true(number(r, "weight") == 20 * S && number(r, "samples") == 20);
    assert_true(number(r, "complete") == 0.95 && number(r, "lost_records") == 2);
    json_t *first = json_array_get(json_object_get(r, "functions"), 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "idle");
    assert_true(number(first, "self_share") == 0.5);
    /* Every node but the root has a parent before it. */
    json_t *tree = json_object_get(r, "tree");
    assert_int_equal(json_array_size(tree), 11); /* four of them below "[truncated]" */
    for (size_t i = 1; i < json_array_size(tree); i++) {
        assert_true(number(json_array_get(tree, i), "parent") < (double)i);
    }
    json_decref(r);
    sonde__free(text);
    sonde_profile_destroy(p);
}

static void test_nothing(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_profile();
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 1 << 20);
    const struct sonde_report_options none = { .filter = { .kind = SONDE_SAMPLE_LIVE } };
    assert_int_equal(sonde_profile_report(p, &none, &b, &err), SONDE_ENOENT);
    const struct sonde_report_options backwards = {
        .filter = { .kind = -1, .from_ns = 5, .to_ns = 4 } };
    assert_int_equal(sonde_profile_report(p, &backwards, &b, &err), SONDE_EINVAL);
    assert_int_equal(b.len, 0);
    sonde_buf_release(&b);
    sonde_profile_destroy(p);
}

/* A recursion of any depth is a line; names cannot move the cursor. */
static void test_recursion(void **state)
{
    (void)state;
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    uint32_t stack = build_stack(p, "main");
    const uint32_t f = sonde_profile_named_location(p, "f\033[2J", 5);
    for (int i = 0; i < 5000; i++) stack = sonde_profile_stack(p, stack, f);
    sonde_profile_add_sample(p, &(struct sonde_profile_sample){ .stack = stack, .weight = S,
                                                                .count = 1 });
    char *text = report(p, (struct sonde_report_options){ .filter.kind = -1, .ascii = 1 });
    has(text, ", 5000 deep\n");
    assert_null(strchr(text, '\033'));
    assert_true(strlen(text) < 2000);
    sonde__free(text);
    sonde_profile_destroy(p);
}

static struct sonde_profile *profile_of(const char *const *folded, const uint64_t *weights,
                                        size_t count, enum sonde_sample_kind kind)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (size_t i = 0; i < count; i++) {
        const struct sonde_profile_sample sample = { .stack = build_stack(p, folded[i]),
                                                     .weight = weights[i], .count = 1,
                                                     .kind = (uint16_t)kind };
        assert_int_equal(sonde_profile_add_sample(p, &sample), 0);
    }
    return p;
}

/* The report of a comparison, and the profiles are gone; free with sonde__free. */
static char *diff_of(struct sonde_profile *before, struct sonde_profile *after)
{
    const struct sonde_compare_run a = { .profile = before, .filter.kind = -1 };
    const struct sonde_compare_run b = { .profile = after, .filter.kind = -1 };
    const struct sonde_compare_view v = { .before = "a", .after = "b", .ascii = 1 };
    const struct sonde_compare_options o = { .kind = -1 };
    struct sonde_comparison *c;
    struct sonde_buf out;
    struct sonde_err err = { "" };
    sonde_buf_init(&out, 1 << 20);
    assert_int_equal(sonde_compare(&a, 1, &b, 1, &o, &c, &err), 0);
    sonde_profile_destroy(before);
    sonde_profile_destroy(after);
    assert_int_equal(sonde_compare_report(c, &v, &out, &err), 0);
    sonde_comparison_destroy(c);
    return sonde_buf_take(&out);
}

static void test_diff(void **state)
{
    (void)state;
    char *text = diff_of(profile_of((const char *const[]){ "m;a", "m;b" },
                                    (const uint64_t[]){ 30 * S, 10 * S }, 2, SONDE_SAMPLE_CPU),
                         profile_of((const char *const[]){ "m;a", "m;c" },
                                    (const uint64_t[]){ 30 * S, 30 * S }, 2, SONDE_SAMPLE_CPU));
    has(text, "CPU time: 40.0 s before, 1.00 min after\n");
    /* c is new, a and b lost the same share; then by name. */
    const char *c = strstr(text, "+50.00"), *a = strstr(text, "-25.00"), *m = strstr(text, " m\n");
    assert_true(c && a && m && c < a && a < m);
    has(text, "75.00  50.00  -25.00           75.00   50.00  -25.00       30.0 s  30.0 s  a\n");
    sonde__free(text);
}

/* Of memory, bytes are compared, not shares: the kind of samples says so. */
static void test_diff_of_memory(void **state)
{
    (void)state;
    char *text = diff_of(profile_of((const char *const[]){ "m;a", "m;b" },
                                    (const uint64_t[]){ 4096, 1024 }, 2, SONDE_SAMPLE_LIVE),
                         profile_of((const char *const[]){ "m;a", "m;b" },
                                    (const uint64_t[]){ 8192, 1000 }, 2, SONDE_SAMPLE_LIVE));
    has(text, "memory in use: 5.00 KiB before, 8.98 KiB after, +3.98 KiB\n");
    has(text, "   4.00 KiB  8.00 KiB  +4.00 KiB      4.00 KiB  8.00 KiB  +4.00 KiB  a\n");
    has(text, "   1.00 KiB    1000 B      -24 B      1.00 KiB    1000 B      -24 B  b\n");
    sonde__free(text);
}

/* A function that calls itself counts once a stack, with no matter how it was called; a side
 * without samples has no table. */
static void test_diff_of_recursion(void **state)
{
    (void)state;
    char *text = diff_of(profile_of((const char *const[]){ "m;a;a;a", "m;b;a" },
                                    (const uint64_t[]){ 2 * S, 2 * S }, 2, SONDE_SAMPLE_CPU),
                         profile_of((const char *const[]){ "m;a;b" }, (const uint64_t[]){ 4 * S },
                                    1, SONDE_SAMPLE_CPU));
    has(text, "100.00    0.00  -100.00          100.00  100.00   +0.00       4.00 s     0 s  a\n");
    sonde__free(text);
    text = diff_of(profile_of(NULL, NULL, 0, SONDE_SAMPLE_CPU),
                   profile_of((const char *const[]){ "m" }, (const uint64_t[]){ S }, 1,
                              SONDE_SAMPLE_CPU));
    assert_null(strstr(text, "FUNCTION"));
    sonde__free(text);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_profile *p = sample_profile();
    const int64_t live = sonde__alloc_live();
    const struct sonde_report_options o = { .filter.kind = -1, .ascii = 1 };
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 10000; nth++) {
        struct sonde_buf b;
        struct sonde_err err;
        sonde_buf_init(&b, 1 << 20);
        sonde__alloc_fail_nth(nth);
        rc = sonde_profile_report(p, &o, &b, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        sonde_buf_release(&b);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
    sonde_profile_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),      cmocka_unit_test(test_filtered),
        cmocka_unit_test(test_markdown),  cmocka_unit_test(test_json),
        cmocka_unit_test(test_nothing),   cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_diff),      cmocka_unit_test(test_diff_of_memory),
        cmocka_unit_test(test_diff_of_recursion),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
