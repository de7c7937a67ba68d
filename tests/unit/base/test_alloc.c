#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/alloc.h"

static void test_count(void **state)
{
    (void)state;
    assert_int_equal(sonde__alloc_live(), 0);
    void *a = sonde__alloc(10);
    void *b = sonde__calloc(3, 5);
    void *c = sonde__realloc(NULL, 7);
    char *d = sonde__strdup("text");
    assert_int_equal(sonde__alloc_live(), 4);
    c = sonde__realloc(c, 70000);
    assert_non_null(c);
    assert_int_equal(sonde__alloc_live(), 4);
    assert_memory_equal(b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
    assert_string_equal(d, "text");
    sonde__free(a);
    sonde__free(b);
    sonde__free(c);
    sonde__free(d);
    sonde__free(NULL);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Nothing is a size too: NULL must mean that there is no memory. */
static void test_zero(void **state)
{
    (void)state;
    void *a = sonde__alloc(0), *b = sonde__calloc(0, 8), *c = sonde__realloc(NULL, 0);
    assert_true(a && b && c);
    c = sonde__realloc(c, 0);
    assert_non_null(c);
    sonde__free(a);
    sonde__free(b);
    sonde__free(c);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_strndup(void **state)
{
    (void)state;
    char *a = sonde__strndup("abcdef", 3), *b = sonde__strndup("ab", 100);
    char *c = sonde__strndup("no NUL" + 6, 0);
    assert_string_equal(a, "abc");
    assert_string_equal(b, "ab");
    assert_string_equal(c, "");
    sonde__free(a);
    sonde__free(b);
    sonde__free(c);
}

static void test_overflow(void **state)
{
    (void)state;
    /* Through a variable, or the compiler warns of what is meant. */
    volatile size_t huge = SIZE_MAX / 2 + 1;
    assert_null(sonde__calloc(huge, 2));
    assert_null(sonde__calloc(2, huge));
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_fail_nth(void **state)
{
    (void)state;
    sonde__alloc_fail_nth(1);
    assert_null(sonde__alloc(1));
    char *a = sonde__alloc(1); /* only that one */
    assert_non_null(a);
    *a = 'a';

    sonde__alloc_fail_nth(3);
    void *b = sonde__calloc(1, 1);
    void *c = sonde__strdup("x");
    assert_true(b && c);
    assert_null(sonde__realloc(a, 100));
    assert_int_equal(*a, 'a'); /* still valid */
    a = sonde__realloc(a, 100);
    assert_non_null(a);

    sonde__alloc_fail_nth(1);
    assert_null(sonde__strdup("x"));
    sonde__alloc_fail_nth(1);
    sonde__alloc_fail_nth(0);
    void *d = sonde__alloc(1);
    assert_non_null(d);

    sonde__free(a);
    sonde__free(b);
    sonde__free(c);
    sonde__free(d);
    assert_int_equal(sonde__alloc_live(), 0);
}

enum { THREADS = 4, ROUNDS = 20000 };

static _Atomic int failures;

static void *churn(void *arg)
{
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        void *p = sonde__alloc(16);
        if (!p) atomic_fetch_add(&failures, 1);
        sonde__free(p);
    }
    return NULL;
}

/* The count is exact and exactly one call fails, whichever thread makes it. */
static void test_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    sonde__alloc_fail_nth(ROUNDS);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, NULL), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&failures), 1);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),    cmocka_unit_test(test_zero),
        cmocka_unit_test(test_strndup),  cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_fail_nth), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
