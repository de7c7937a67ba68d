/* Baselines: what was saved comes back, runs can be added, a file that was cut or tampered with is
 * refused in words, and nothing is lost without memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/file.h"
#include "sonde/sonde.h"
#include "store/baseline/baseline.h"
#include "unit/profile/profile_build.h"

static char path[] = "/tmp/sonde-baseline-XXXXXX";

static struct sonde_profile *small_profile(uint64_t weight)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    p->host = sonde_profile_cstring(p, "box, Linux 6.1 x86_64, 2 CPUs");
    p->program = sonde_profile_cstring(p, "server");
    p->command = sonde_profile_cstring(p, "/bin/server \"quoted\" -p 80");
    p->start_ns = 1700000000000000000ull;
    p->end_ns = p->start_ns + 2000000000ull;
    sonde_profile_add_sample(p, &(struct sonde_profile_sample){
        .stack = build_stack(p, "main;handle"), .weight = weight, .count = 1,
        .time_ns = p->start_ns + 5 });
    return p;
}

static int baseline_put(struct sonde_baseline *b, uint64_t weight, size_t most,
                        struct sonde_err *err)
{
    struct sonde_profile *p = small_profile(weight);
    const struct sonde_baseline_add add = { .profile = p, .source = "a/one.run", .requests = weight,
                                            .from_s = 1700000000.5, .now_s = 1700000100 };
    const int rc = sonde_baseline_add_run(b, &add, most, err);
    sonde_profile_destroy(p);
    return rc;
}

static struct sonde_baseline *baseline_of(size_t runs)
{
    struct sonde_baseline *b;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_baseline_create(&b), 0);
    for (size_t i = 0; i < runs; i++) assert_int_equal(baseline_put(b, i + 1, 1 << 20, &err), 0);
    return b;
}

static void test_round_trip(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_baseline *b = baseline_of(2), *c = NULL;
    assert_int_equal(sonde_baseline_describe(b, "why \"so\"\n", "req*", &err), 0);
    assert_int_equal(sonde_baseline_save(b, path, &err), 0);
    sonde_baseline_destroy(b);
    assert_int_equal(sonde_baseline_load(path, &c, &err), 0);
    assert_int_equal(baseline_put(c, 3, 1 << 20, &err), 0); /* and one more */
    assert_int_equal(sonde_baseline_save(c, path, &err), 0);
    sonde_baseline_destroy(c);
    assert_int_equal(sonde_baseline_load(path, &c, &err), 0);
    assert_int_equal(c->count, 3);
    assert_string_equal(c->note, "why \"so\"\n");
    assert_string_equal(c->span, "req*");
    assert_true(c->created_s == 1700000100);
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_baseline_run *r = &c->runs[i];
        struct sonde_profile *p;
        assert_string_equal(r->source, "a/one.run");
        assert_string_equal(r->sonde, SONDE_VERSION);
        assert_string_equal(r->facts.text[SONDE_FACT_HOST], "box");
        assert_string_equal(r->facts.text[SONDE_FACT_ARGUMENTS], "\"quoted\" -p 80");
        assert_string_equal(r->facts.text[SONDE_FACT_MODEL], "");
        assert_int_equal(r->requests, i + 1);
        assert_true(r->start_s == 1700000000 && r->end_s == 1700000002);
        assert_true(r->from_s == 1700000000.5 && r->to_s == 0);
        assert_int_equal(sonde_baseline_profile(c, i, &p, &err), 0);
        assert_int_equal(p->samples_count, 1);
        assert_int_equal(p->samples[0].weight, i + 1);
        sonde_profile_destroy(p);
    }
    sonde_baseline_destroy(c);
}

static void test_full(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_baseline *b = baseline_of(1);
    assert_int_equal(baseline_put(b, 2, b->bytes + 10, &err), SONDE_EFULL);
    assert_non_null(strstr(err.text, "baseline.max_megabytes"));
    assert_int_equal(b->count, 1);
    sonde_baseline_destroy(b);
}

static void test_names(void **state)
{
    (void)state;
    static const struct { const char *name; int ok; } cases[] = {
        { "main", 1 }, { "v1.2_x-y", 1 }, { "_", 1 }, { "", 0 }, { ".hidden", 0 }, { "..", 0 },
        { "-rf", 0 }, { "a/b", 0 }, { "a b", 0 }, { "ü", 0 }, { "a\n", 0 },
    };
    struct sonde_err err;
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        const int rc = sonde_baseline_name_check(cases[i].name, &err);
        if ((rc == 0) != cases[i].ok) fail_msg("'%s'", cases[i].name);
    }
    char name[SONDE_BASELINE_NAME_MAX + 2];
    memset(name, 'a', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_int_equal(sonde_baseline_name_check(name, &err), SONDE_EINVAL);
}

/* Whatever is in it: refused with a reason, or a baseline of which each run is one or refused. */
static int baseline_try(const char *data, size_t len)
{
    struct sonde_baseline *b = NULL;
    struct sonde_err err = { "" };
    char *copy = malloc(len ? len : 1); /* exactly as long, for sanitizers */
    memcpy(copy, data, len);
    const int rc = sonde_baseline_load_bytes(copy, len, "x", &b, &err);
    free(copy);
    if (rc) {
        assert_non_null(strstr(err.text, "x"));
        assert_null(b);
        return rc;
    }
    for (size_t i = 0; i < b->count; i++) {
        struct sonde_profile *p = NULL;
        if (!sonde_baseline_profile(b, i, &p, &err)) sonde_profile_destroy(p);
    }
    sonde_baseline_destroy(b);
    return 0;
}

static void test_damaged(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_baseline *b = baseline_of(2);
    struct sonde_buf file;
    sonde_buf_init(&file, 1 << 24);
    assert_int_equal(sonde_baseline_save(b, path, &err), 0);
    sonde_baseline_destroy(b);
    assert_int_equal(sonde_file_read(path, &file, &err), 0);
    assert_int_equal(baseline_try(file.data, file.len), 0);
    for (size_t cut = 0; cut < file.len; cut += cut < 1200 ? 3 : 997) {
        assert_int_equal(baseline_try(file.data, cut), SONDE_EFORMAT);
    }
    uint32_t seed = 1;
    for (int i = 0; i < 800; i++) {
        seed = seed * 1664525u + 1013904223u;
        const size_t at = (seed >> 8) % (i % 4 ? 1200 : file.len);
        const char was = file.data[at];
        file.data[at] = (char)(seed >> 24);
        baseline_try(file.data, file.len);
        file.data[at] = was;
    }
    static const struct { const char *text; int rc; } cases[] = {
        { "", SONDE_EFORMAT },
        { "hello\n", SONDE_EFORMAT },
        { "sonde-baseline 9 2\n{}", SONDE_EVERSION },
        { "sonde-baseline 0 2\n{}", SONDE_EFORMAT },
        { "sonde-baseline 1 2\n{}", SONDE_EFORMAT },
        { "sonde-baseline 1 99\n{}", SONDE_EFORMAT },
        { "sonde-baseline 1 -2\n{}", SONDE_EFORMAT },
        { "sonde-baseline 1 21\n{\"runs\":[{\"bytes\":9}]}", SONDE_EFORMAT },
        { "sonde-baseline 1 22\n{\"runs\":[{\"bytes\":-1}]}", SONDE_EFORMAT },
        { "sonde-baseline 1 24\n{\"runs\":[{\"start_s\":-1}]}", SONDE_EFORMAT },
        { "sonde-baseline 1 17\n{\"runs\":[{}]} {}x", SONDE_EFORMAT },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        const int rc = baseline_try(cases[i].text, strlen(cases[i].text));
        if (rc != cases[i].rc) fail_msg("%s: %d", cases[i].text, rc);
    }
    sonde_buf_release(&file);
}

static void test_missing(void **state)
{
    (void)state;
    struct sonde_baseline *b;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_baseline_load("/nowhere/x.baseline", &b, &err), SONDE_ENOENT);
    b = baseline_of(1);
    assert_int_not_equal(sonde_baseline_save(b, "/nowhere/x.baseline", &err), 0);
    sonde_baseline_destroy(b);
}

static int baseline_setup(void **state)
{
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int baseline_teardown(void **state)
{
    (void)state;
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_full),
        cmocka_unit_test(test_names),      cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, baseline_setup, baseline_teardown);
}
