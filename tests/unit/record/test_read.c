/* read.h: totals, percentiles and rates of what this process recorded, by several threads, against
 * data that is known; by name; while recording is off, after fork, and in the middle of writers. */
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "sonde/read.h"
#include "unit/record/child.h"
#include "unit/record/readback.h"

#define THREADS 4
#define PER_THREAD 25000u
#define ERROR_MAX 0.00543

static int near_to(double value, double exact) { return fabs(value - exact) <= ERROR_MAX * exact; }

static struct sonde_counter counter;
static struct sonde_hist hist;
static struct sonde_gauge gauge;

/* Thread k records k + 1, k + 1 + THREADS, …: together 1 … THREADS * PER_THREAD, once each. */
static void *record_share(void *arg)
{
    const uint64_t k = (uint64_t)(uintptr_t)arg;
    for (uint64_t i = 0; i < PER_THREAD; i++) {
        sonde_hist_record(hist, 1000 * (k + 1 + i * THREADS));
        sonde_counter_add(counter, 2);
        sonde_gauge_add(gauge, 0.5);
    }
    return NULL;
}

static void define_all(void)
{
    counter = sonde_counter("t_total", "");
    gauge = sonde_gauge("t_now", "");
    hist = sonde_hist("t_seconds", "", 1e-9);
}

static void record_all(void)
{
    pthread_t thread[THREADS];
    define_all();
    for (uintptr_t i = 0; i < THREADS; i++) {
        NEED(!pthread_create(&thread[i], NULL, record_share, (void *)i));
    }
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
}

CHILD_TEST(what_threads_recorded_is_added_up)
{
    const double n = THREADS * PER_THREAD;
    struct sonde_read_hist h;
    record_all();
    NEED_EQ(sonde_read_counter(counter), 2 * THREADS * PER_THREAD);
    NEED(sonde_read_gauge(gauge) == 0.5 * n);
    sonde_read_hist(hist, &h);
    NEED_EQ(h.count, THREADS * PER_THREAD);
    NEED(fabs(h.sum - n * (n + 1) / 2 * 1e-6) < 1e-6);
    NEED(fabs(h.mean - (n + 1) / 2 * 1e-6) < 1e-12);
    NEED(near_to(h.min, 1e-6) && near_to(h.max, n * 1e-6));
    NEED(near_to(h.p50, 0.50 * n * 1e-6) && near_to(h.p90, 0.90 * n * 1e-6));
    NEED(near_to(h.p95, 0.95 * n * 1e-6) && near_to(h.p99, 0.99 * n * 1e-6));
    for (int i = 1; i <= 1000; i++) {
        const double q = i / 1000.0;
        NEED(near_to(sonde_read_quantile(hist, q), ceil(q * n - 1e-9) * 1e-6));
    }
    NEED(isnan(sonde_read_quantile(hist, -0.1)) && isnan(sonde_read_quantile(hist, 1.1)) &&
         isnan(sonde_read_quantile(hist, NAN)));
}

CHILD_TEST(small_counts_and_zeros_are_exact)
{
    const struct sonde_hist sizes = sonde_hist("t_sizes", "", 1);
    for (uint64_t i = 0; i < 50; i++) sonde_hist_record(sizes, i);
    struct sonde_read_hist h;
    sonde_read_hist(sizes, &h);
    NEED_EQ(h.count, 50);
    NEED(h.sum == 1225 && h.min == 0 && h.max == 49 && h.p50 == 24 && h.p90 == 44);
    NEED(sonde_read_quantile(sizes, 0.04) == 1);
}

CHILD_TEST(of_nothing_there_is_nothing)
{
    struct sonde_read_hist h;
    const struct sonde_hist empty = sonde_hist("t_empty_seconds", "", 1e-9);
    static const struct sonde_hist zero;
    const struct sonde_hist beyond = { 8ull << 30, 1 };
    const struct sonde_hist all[] = { empty, zero, beyond };
    for (size_t i = 0; i < 3; i++) {
        sonde_read_hist(all[i], &h);
        NEED(h.count == 0 && h.sum == 0 && isnan(h.mean) && isnan(h.min) && isnan(h.p99));
        NEED(isnan(sonde_read_quantile(all[i], 0.5)));
    }
    NEED_EQ(sonde_read_counter((struct sonde_counter){ 0 }), 0);
    NEED_EQ(sonde_read_counter((struct sonde_counter){ 8ull << 30 }), 0);
    NEED(sonde_read_gauge((struct sonde_gauge){ 0 }) == 0);
    sonde_counter_add((struct sonde_counter){ 0 }, 5); /* the sink is not read */
    NEED_EQ(sonde_read_counter((struct sonde_counter){ 0 }), 0);
}

CHILD_TEST(a_rate_is_since_the_last_reading)
{
    struct sonde_read_rate last = { 0, 0 };
    NEED(isnan(sonde_read_rate(&last, 100)));
    NEED_EQ(last.total, 100);
    const uint64_t then = last.ticks;
    while (sonde_ticks() == then) continue;
    const double rate = sonde_read_rate(&last, 350);
    const double seconds = (double)sonde_ticks_ns(last.ticks - then) * 1e-9;
    NEED(fabs(rate * seconds - 250) < 1e-6);
    while (sonde_ticks() == last.ticks) continue;
    NEED(sonde_read_rate(&last, 350) == 0);
    NEED(isnan(sonde_read_rate(&last, 10))); /* went back */
    last.ticks = UINT64_MAX;
    NEED(isnan(sonde_read_rate(&last, 11)));
}

CHILD_TEST(series_are_found_by_name_and_labels)
{
    const char *const labels[] = { "model", "kind", NULL };
    const struct sonde_metric m = { .size = sizeof(m), .name = "t_labelled_total",
                                    .labels = labels };
    struct sonde_family f;
    struct sonde_counter c, found = { 77 };
    struct sonde_gauge g;
    struct sonde_hist h;
    NEED_EQ(sonde_counter_find("t_labelled_total", NULL, &found), SONDE_ENOENT);
    NEED_EQ(found.off, 0);
    NEED(!sonde_define(SONDE_COUNTER, &m, &f));
    const char *const values[] = { "llama", "prompt" };
    NEED_EQ(sonde_counter_find("t_labelled_total", values, &found), SONDE_ENOENT); /* none bound */
    c = sonde_counter_bind(f, values);
    sonde_counter_add(c, 3);
    NEED_EQ(sonde_counter_find("t_labelled_total", values, &found), 0);
    NEED_EQ(found.off, c.off);
    NEED_EQ(sonde_read_counter(found), 3);
    NEED_EQ(sonde_counter_find("t_labelled_total", NULL, &found), SONDE_ENOENT);
    NEED_EQ(sonde_gauge_find("t_labelled_total", values, &g), SONDE_EEXIST);
    NEED_EQ(sonde_counter_find(NULL, NULL, &found), SONDE_ENOENT);
    const char *const bad[] = { "\xff\xfe", "prompt" }; /* is made valid, as at the bind */
    c = sonde_counter_bind(f, bad);
    NEED_EQ(sonde_counter_find("t_labelled_total", bad, &found), 0);
    NEED_EQ(found.off, c.off);

    define_all();
    sonde_gauge_set(gauge, 2.5);
    sonde_hist_record(hist, 1000);
    NEED(!sonde_gauge_find("t_now", NULL, &g) && sonde_read_gauge(g) == 2.5);
    NEED(!sonde_hist_find("t_seconds", NULL, &h) && h.off == hist.off && h.scale == hist.scale);
    NEED_EQ(sonde_name("t_span") != 0, 1); /* a name that is no metric */
    NEED_EQ(sonde_counter_find("t_span", NULL, &found), SONDE_ENOENT);
}

CHILD_TEST(figures_stay_while_recording_is_off)
{
    struct sonde_counter found;
    define_all();
    sonde_counter_add(counter, 7);
    sonde_enable(0);
    sonde_counter_add(counter, 1);
    NEED_EQ(sonde_read_counter(counter), 7);
    NEED(!sonde_counter_find("t_total", NULL, &found));
    if (fork() == 0) { /* nothing of this process is recorded: not its parent's figures */
        NEED_EQ(sonde_read_counter(counter), 0);
        NEED_EQ(sonde_counter_find("t_total", NULL, &found), SONDE_EOFF);
        _exit(0);
    }
    int status;
    wait(&status);
    NEED_EQ(status, 0);
    sonde_enable(1);
    sonde_counter_add(counter, 1);
    NEED_EQ(sonde_read_counter(counter), 8);
}

CHILD_TEST(a_process_that_never_recorded)
{
    struct sonde_counter found;
    setenv("SONDE_ENABLED", "0", 1);
    NEED_EQ(sonde_read_counter((struct sonde_counter){ 8 }), 0);
    NEED_EQ(sonde_counter_find("t_total", NULL, &found), SONDE_EOFF);
}

CHILD_TEST(a_forked_child_begins_anew)
{
    int status;
    define_all();
    sonde_counter_add(counter, 7);
    if (fork() == 0) {
        struct sonde_read_hist h;
        NEED_EQ(sonde_read_counter(counter), 0);
        sonde_counter_add(counter, 1);
        sonde_hist_record(hist, 5);
        NEED_EQ(sonde_read_counter(counter), 1);
        sonde_read_hist(hist, &h);
        NEED_EQ(h.count, 1);
        _exit(0);
    }
    wait(&status);
    NEED_EQ(status, 0);
    NEED_EQ(sonde_read_counter(counter), 7);
}

static int done;

static void *read_all_the_time(void *arg)
{
    uint64_t counted = 0, values = 0;
    (void)arg;
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
        struct sonde_read_hist h;
        const uint64_t total = sonde_read_counter(counter);
        NEED(total >= counted);
        counted = total;
        sonde_read_hist(hist, &h);
        NEED(h.count >= values);
        values = h.count;
        NEED(h.count == 0 || (h.p50 > 0 && h.p50 <= h.p90 * 1.02 && h.p99 <= h.max * 1.02));
    }
    return NULL;
}

CHILD_TEST(readings_beside_writers_never_go_back)
{
    pthread_t reader;
    define_all();
    NEED(!pthread_create(&reader, NULL, read_all_the_time, NULL));
    record_all();
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    pthread_join(reader, NULL);
    NEED_EQ(sonde_read_counter(counter), 2 * THREADS * PER_THREAD);
}

int main(void)
{
    readback_private_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_threads_recorded_is_added_up),
        cmocka_unit_test(small_counts_and_zeros_are_exact),
        cmocka_unit_test(of_nothing_there_is_nothing),
        cmocka_unit_test(a_rate_is_since_the_last_reading),
        cmocka_unit_test(series_are_found_by_name_and_labels),
        cmocka_unit_test(figures_stay_while_recording_is_off),
        cmocka_unit_test(a_process_that_never_recorded),
        cmocka_unit_test(a_forked_child_begins_anew),
        cmocka_unit_test(readings_beside_writers_never_go_back),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
