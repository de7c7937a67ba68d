/* Exactness under threads: two that hammer, thousands that come and go, thousands at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/record/readback.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SCALE 50
#else
#define SCALE 1
#endif

static struct sonde_counter counter;
static struct sonde_hist hist;
static struct readback_hist seen;
static pthread_attr_t small_stack;

static void *hammer(void *arg)
{
    const uint64_t n = *(const uint64_t *)arg;
    for (uint64_t i = 0; i < n; i++) sonde_counter_add(counter, 1);
    return NULL;
}

static void two_threads_are_exact(void **state)
{
    (void)state;
    uint64_t n = 50000000 / SCALE;
    pthread_t t[2];
    counter = sonde_counter("hammer_total", "x");
    for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, hammer, &n), 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    assert_int_equal(readback_counter(counter), 2 * n);
}

/* What a short-lived thread does: 3 counts, 2 values, 1 span. */
static void *brief(void *arg)
{
    SONDE_SCOPE("brief");
    sonde_counter_add(counter, 3);
    sonde_hist_record(hist, 1000);
    sonde_hist_record(hist, (uint64_t)(uintptr_t)arg + 1);
    return NULL;
}

static uint64_t spans_ever(void)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < sonde__g.h->lane_count; i++) {
        const struct sonde__lane *l = sonde__lane_of(sonde__lane_cells(i));
        if (l->ring) n += ((struct sonde__ring *)(void *)sonde__at(l->ring))->reserve;
    }
    return n;
}

static void short_lived_threads_lose_nothing(void **state)
{
    (void)state;
    const uint64_t n = 10000 / SCALE;
    counter = sonde_counter("brief_total", "x");
    hist = sonde_hist("brief_seconds", "x", 1e-9);
    const uint64_t spans = spans_ever();
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        pthread_t t;
        assert_int_equal(pthread_create(&t, &small_stack, brief, (void *)(uintptr_t)i), 0);
        pthread_join(t, NULL);
        sum += 1000 + i + 1;
    }
    assert_int_equal(readback_counter(counter), 3 * n);
    readback_hist(hist, &seen);
    assert_int_equal(seen.count, 2 * n);
    assert_int_equal(seen.sum, sum);
    assert_int_equal(spans_ever() - spans, n);
    assert_true(sonde__g.h->lane_count <= sonde__g.h->lane_max);
    assert_true(sonde__g.h->populated_bytes < 32u << 20);
    assert_int_equal(sonde__g.h->drops[SONDE__DROP_memory], 0);
}

static pthread_barrier_t all_here;

static void *crowd(void *arg)
{
    brief(arg);
    pthread_barrier_wait(&all_here);
    return brief(arg);
}

static void thousands_at_once_lose_nothing(void **state)
{
    (void)state;
    const uint64_t n = 5000 / SCALE;
    pthread_t *t = calloc(n, sizeof(*t));
    counter = sonde_counter("crowd_total", "x");
    hist = sonde_hist("crowd_seconds", "x", 1e-9);
    const uint64_t spans = spans_ever();
    uint64_t started = 0, sum = 0;
    pthread_barrier_init(&all_here, NULL, (unsigned)n + 1);
    for (uint64_t i = 0; i < n; i++) {
        assert_int_equal(pthread_create(&t[i], &small_stack, crowd, (void *)(uintptr_t)i), 0);
        started++;
        sum += 2 * (1000 + i + 1);
    }
    pthread_barrier_wait(&all_here);
    for (uint64_t i = 0; i < started; i++) pthread_join(t[i], NULL);
    free(t);
    assert_int_equal(readback_counter(counter), 6 * n);
    readback_hist(hist, &seen);
    assert_int_equal(seen.count, 4 * n);
    assert_int_equal(seen.sum, sum);
    assert_int_equal(spans_ever() - spans, 2 * n);
    assert_true(sonde__g.h->populated_bytes < 64u << 20);
}

/* Threads that define and bind the same things at once get the same handles. */
static struct sonde_counter bound[8][200];

static void *definer(void *arg)
{
    const size_t me = (size_t)(uintptr_t)arg;
    const struct sonde_metric m = { .size = sizeof(m),
                                    .name = "race_total",
                                    .labels = (const char *const[]){ "k", NULL } };
    for (int i = 0; i < 200; i++) {
        char value[16] = { (char)('a' + i % 26), (char)('a' + i / 26), 0 };
        struct sonde_family f;
        sonde_define(SONDE_COUNTER, &m, &f);
        bound[me][i] = sonde_counter_bind(f, (const char *const[]){ value });
        sonde_counter_add(bound[me][i], 1);
        sonde_name(value);
    }
    return NULL;
}

static void definers_agree(void **state)
{
    (void)state;
    pthread_t t[8];
    for (uintptr_t i = 0; i < 8; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, definer, (void *)i), 0);
    }
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 200; i++) {
        for (int j = 1; j < 8; j++) assert_int_equal(bound[j][i].off, bound[0][i].off);
        assert_int_equal(readback_counter(bound[0][i]), 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_threads_are_exact),
        cmocka_unit_test(short_lived_threads_lose_nothing),
        cmocka_unit_test(thousands_at_once_lose_nothing),
        cmocka_unit_test(definers_agree),
    };
    readback_private_dir();
    pthread_attr_init(&small_stack);
    pthread_attr_setstacksize(&small_stack, 64 << 10);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
