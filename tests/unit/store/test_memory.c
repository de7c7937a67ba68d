/* Profiles that are kept in memory, and what they are called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "sonde/sonde.h"
#include "store/store.h"

static const struct sonde_store_ops *const ops = &sonde_store_memory;

static struct sonde_store *make(uint64_t profiles, uint64_t bytes)
{
    struct sonde_store *s = NULL;
    const struct sonde_store_options o = { .keep = { .profiles = profiles, .bytes = bytes } };
    assert_int_equal(ops->open(&o, &s, NULL), 0);
    return s;
}

static uint64_t put(struct sonde_store *s, const char *name, double start_s)
{
    char data[100];
    uint64_t id = 0;
    struct sonde_err err = { "" };
    const struct sonde_store_profile p = { .name = name, .kind = "session", .program = "x",
                                           .start_s = start_s, .end_s = start_s + 1,
                                           .samples = 5 };
    const int len = snprintf(data, sizeof(data), "data of %s at %f", name, start_s);
    if (ops->profile_put(s, &p, data, (size_t)len, &id, &err)) fail_msg("%s", err.text);
    return id;
}

static void count(const struct sonde_store_profile *p, void *arg)
{
    (void)p;
    ++*(size_t *)arg;
}

static size_t number(struct sonde_store *s, const char *name)
{
    size_t n = 0;
    assert_int_equal(ops->profiles(s, name, count, &n, NULL), 0);
    return n;
}

static void test_life(void **state)
{
    (void)state;
    struct sonde_store *s = make(0, 0);
    struct sonde_store_found f;
    struct sonde_buf out;
    struct sonde_err err = { "" };
    const uint64_t a = put(s, "a", 1700000000), b = put(s, "b", 1700000100);
    const uint64_t again = put(s, "a", 1700000200);
    assert_int_equal(number(s, NULL), 3);
    assert_int_equal(number(s, "a"), 2);
    assert_int_equal(sonde_store_profile_find(ops, s, "a", &f, &err), 0);
    assert_int_equal(f.id, again);
    char id[24];
    snprintf(id, sizeof(id), "%llu", (unsigned long long)a);
    assert_int_equal(sonde_store_profile_find(ops, s, id, &f, &err), 0);
    assert_true(f.id == a && f.start_s == 1700000000 && f.samples == 5);
    assert_string_equal(f.kind, "session");
    assert_int_equal(sonde_store_profile_find(ops, s, "prof_20231114_221500", &f, &err), 0);
    assert_int_equal(f.id, b);
    assert_int_equal(sonde_store_profile_find(ops, s, "c", &f, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "\"c\""));
    assert_int_equal(sonde_store_profile_find(ops, s, "", &f, &err), SONDE_ENOENT);
    assert_int_equal(sonde_store_profile_find(ops, s, "99999999999999999999999", &f, &err),
                     SONDE_ENOENT);
    sonde_buf_init(&out, 1000);
    assert_int_equal(ops->profile_get(s, a, &out, &err), 0);
    assert_memory_equal(out.data, "data of a at 1700000000", 23);
    sonde_buf_release(&out);
    assert_int_equal(ops->profile_delete(s, a, &err), 0);
    assert_int_equal(ops->profile_delete(s, a, &err), SONDE_ENOENT);
    assert_int_equal(ops->profile_get(s, a, &out, &err), SONDE_ENOENT);
    const struct sonde_store_profile p = { .name = "both", .kind = "", .program = "" };
    uint64_t made = 0;
    const uint64_t old[] = { b, again, 12345 };
    assert_int_equal(ops->profile_replace(s, &p, "x", 1, old, 3, &made, &err), 0);
    assert_int_equal(number(s, NULL), 1);
    assert_true(made > again);
    ops->close(s);
    ops->close(NULL);
}

static void test_bounds(void **state)
{
    (void)state;
    struct sonde_store *s = make(3, 0);
    struct sonde_store_found f;
    for (int i = 0; i < 10; i++) put(s, i % 2 ? "odd" : "even", 1700000000 + i);
    assert_int_equal(number(s, NULL), 3);
    assert_int_equal(sonde_store_profile_find(ops, s, "7", &f, NULL), SONDE_ENOENT);
    assert_int_equal(sonde_store_profile_find(ops, s, "8", &f, NULL), 0);
    ops->close(s);
    s = make(0, 2000);
    for (int i = 0; i < 200; i++) put(s, "x", 1700000000 + i);
    assert_true(number(s, NULL) < 100 && number(s, NULL) > 10);
    char noise[4000];
    uint32_t seed = 1;
    for (size_t i = 0; i < sizeof(noise); i++) {
        seed = seed * 1664525u + 1013904223u;
        noise[i] = (char)(seed >> 24);
    }
    const struct sonde_store_profile p = { .name = "large", .kind = "", .program = "" };
    struct sonde_err err = { "" };
    assert_int_equal(ops->profile_put(s, &p, noise, sizeof(noise), NULL, &err), SONDE_EFULL);
    assert_non_null(strstr(err.text, "a store on disk"));
    ops->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_names(void **state)
{
    (void)state;
    static const struct { const char *name; int rc; } cases[] = {
        { "baseline", 0 }, { "a", 0 }, { "A.b_c-9", 0 }, { "1a", 0 }, { "..a", 0 },
        { "", SONDE_EINVAL }, { "1", SONDE_EINVAL }, { "17..18", SONDE_EINVAL },
        { "-_.", SONDE_EINVAL }, { "a b", SONDE_EINVAL }, { "a/b", SONDE_EINVAL },
        { "../x", SONDE_EINVAL }, { "\xc3\xa4x", SONDE_EINVAL },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0 },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", SONDE_EINVAL },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_err err = { "" };
        assert_int_equal(sonde_store_name_check(cases[i].name, &err), cases[i].rc);
        assert_true(!cases[i].rc || err.text[0]);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    struct sonde_store *s = make(0, 0);
    const struct sonde_store_profile p = { .name = "x", .kind = "", .program = "" };
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 50; nth++) {
        sonde__alloc_fail_nth(nth);
        rc = ops->profile_put(s, &p, "abc", 3, NULL, NULL);
        sonde__alloc_fail_nth(0);
        assert_int_equal(number(s, NULL), rc == 0);
    }
    assert_int_equal(rc, 0);
    ops->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_life), cmocka_unit_test(test_bounds),
                                        cmocka_unit_test(test_names),
                                        cmocka_unit_test(test_no_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
