/* Minutes to hours to days, with a clock of its own: nothing is lost, nothing is there twice. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "base/alloc.h"
#include "store/history.h"
#include "unit/profile/profile_build.h"
#include "unit/store/sqlite/store_build.h"

#define S 1000000000ull
#define DAY_S 1763164800.0 /* the beginning of one */

static struct sonde_store *open_store(void)
{
    struct sonde_store *s = NULL;
    struct sonde_err err = { "" };
    const struct sonde_store_options o = { .path = build_path };
    if (OPS->open(&o, &s, &err) != 0) fail_msg("%s", err.text);
    return s;
}

/* Samples of a minute that begins then: ten of `weight` ns, six seconds apart, half in f, half in
 * one of the minute's own. */
static struct sonde_profile *minute_of(double start_s, const char *program, uint64_t weight)
{
    struct sonde_profile *p;
    char own[64];
    assert_int_equal(sonde_profile_create(0, &p), 0);
    snprintf(own, sizeof(own), "main;g%llu", (unsigned long long)(start_s / 60) % 7);
    const uint64_t start = (uint64_t)start_s * S;
    for (uint32_t i = 0; i < 10; i++) {
        const uint32_t thread = sonde_profile_thread(p, 100 + i % 2, 1000 + i, "worker");
        assert_int_equal(build_sample(p, i % 2 ? "main;f" : own, weight, thread, start + i * 6 * S),
                         0);
    }
    p->program = sonde_profile_cstring(p, program);
    p->start_ns = start;
    p->end_ns = start + 60 * S;
    p->rate_hz = 19;
    return p;
}

static void put_minute(struct sonde_history *h, double start_s, const char *program,
                       uint64_t weight)
{
    struct sonde_err err = { "" };
    struct sonde_profile *p = minute_of(start_s, program, weight);
    uint64_t id = 0;
    if (sonde_history_put(h, SONDE_HISTORY_MINUTE, p, &id, &err) != 0) fail_msg("%s", err.text);
    assert_true(id != 0);
    sonde_profile_destroy(p);
}

static void settle(struct sonde_history *h, double now_s)
{
    struct sonde_err err = { "" };
    int more = 1;
    for (int i = 0; i < 10000 && more > 0; i++) more = sonde_history_step(h, now_s, &err);
    if (more) fail_msg("%d: %s", more, err.text);
}

struct count { int tier[SONDE_HISTORY_TIERS]; uint64_t samples; size_t bytes; double first_s; };

static void count_part(const struct sonde_history_part *part, void *arg)
{
    struct count *c = arg;
    if (!c->first_s) c->first_s = part->start_s;
    c->tier[part->tier]++;
    c->samples += part->samples;
    c->bytes += part->bytes;
}

static struct count count_parts(struct sonde_store *s, struct sonde_history_query q)
{
    struct count c = { { 0 }, 0, 0, 0 };
    assert_int_equal(sonde_history_each(OPS, s, &q, count_part, &c, NULL), 0);
    return c;
}

static uint64_t weight_of(struct sonde_store *s, struct sonde_history_query q)
{
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    const int rc = sonde_history_merge(OPS, s, &q, &p, &err);
    if (rc == SONDE_ENOENT) return 0;
    if (rc) fail_msg("%s", err.text);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->samples_count; i++) sum += p->samples[i].weight;
    sonde_profile_destroy(p);
    return sum;
}

static const struct sonde_history_query everything = { 0 };

/* Three hours of two programs; every minute of another weight. */
static void test_minutes_to_hours(void **state)
{
    (void)state;
    struct sonde_store *s = open_store();
    struct sonde_history h = { .ops = OPS, .store = s };
    uint64_t sum = 0;
    for (int m = 0; m < 180; m += 4) {
        put_minute(&h, DAY_S + m * 60, "a", (uint64_t)m + 1);
        put_minute(&h, DAY_S + m * 60, "b", 1000);
        sum += 10 * ((uint64_t)m + 1) + 10000;
    }
    assert_int_equal(weight_of(s, everything), sum);
    settle(&h, DAY_S + 3 * 3600); /* the first hour ended two hours ago */
    struct count c = count_parts(s, everything);
    assert_int_equal(c.tier[SONDE_HISTORY_MINUTE], 60);
    assert_int_equal(c.tier[SONDE_HISTORY_HOUR], 2);
    assert_int_equal(c.samples, 900);
    assert_int_equal(weight_of(s, everything), sum);
    settle(&h, DAY_S + 5 * 3600);
    c = count_parts(s, everything);
    assert_int_equal(c.tier[SONDE_HISTORY_MINUTE], 0);
    assert_int_equal(c.tier[SONDE_HISTORY_HOUR], 6);
    assert_int_equal(c.samples, 900);
    assert_int_equal(weight_of(s, everything), sum);
    assert_int_equal(weight_of(s, (struct sonde_history_query){ .program = "b" }), 450000);
    assert_int_equal(h.merges, 6);
    OPS->close(s);
}

/* A range that begins and ends inside of an hour is exact to the five minutes that hours keep. */
static void test_ranges(void **state)
{
    (void)state;
    struct sonde_store *s = open_store();
    struct sonde_history h = { .ops = OPS, .store = s };
    for (int m = 0; m < 120; m++) put_minute(&h, DAY_S + m * 60, "a", 100);
    const struct sonde_history_query q = { .from_s = DAY_S + 600, .to_s = DAY_S + 1500 };
    const struct sonde_history_query exact = { .from_s = DAY_S + 66, .to_s = DAY_S + 72 };
    assert_int_equal(weight_of(s, q), 15 * 1000);
    assert_int_equal(weight_of(s, exact), 100); /* minutes: to the nanosecond */
    settle(&h, DAY_S + 86400);
    assert_int_equal(count_parts(s, everything).tier[SONDE_HISTORY_HOUR], 2);
    assert_int_equal(weight_of(s, q), 15 * 1000);
    assert_int_equal(weight_of(s, (struct sonde_history_query){ .from_s = DAY_S + 7200 }), 0);
    assert_int_equal(weight_of(s, (struct sonde_history_query){ .pid = 100 }), 60 * 1000);
    OPS->close(s);
}

/* Hours to days: four days of an hour's profile each, 24 a day. */
static void test_hours_to_days(void **state)
{
    (void)state;
    struct sonde_store *s = open_store();
    struct sonde_history h = { .ops = OPS, .store = s, .minutes_s = 3600, .hours_s = 86400 };
    uint64_t sum = 0;
    for (int hour = 0; hour < 96; hour += 2) {
        for (int m = 0; m < 60; m += 30) {
            put_minute(&h, DAY_S + hour * 3600 + m * 60, "a", (uint64_t)(hour * 60 + m) + 1);
            sum += 10 * ((uint64_t)(hour * 60 + m) + 1);
        }
        settle(&h, DAY_S + (hour + 2) * 3600); /* as it comes */
        if (hour % 24 == 0) assert_int_equal(weight_of(s, everything), sum);
    }
    struct count c = count_parts(s, everything);
    assert_int_equal(c.tier[SONDE_HISTORY_DAY], 3);
    assert_int_equal(c.tier[SONDE_HISTORY_HOUR], 12);
    assert_int_equal(c.tier[SONDE_HISTORY_MINUTE], 0);
    assert_int_equal(c.samples, 48 * 20);
    assert_int_equal(weight_of(s, everything), sum);
    uint64_t second = 0; /* a day's third hour is still known by the hour */
    for (int m = 0; m < 60; m += 30) second += 10 * ((uint64_t)(26 * 60 + m) + 1);
    const double from_s = DAY_S + 26 * 3600;
    assert_int_equal(weight_of(s, (struct sonde_history_query){ .from_s = from_s,
                                                                .to_s = from_s + 3600 }), second);
    OPS->close(s);
}

/* The minute that is being filled is one part, however often it is written. */
static void test_replace(void **state)
{
    (void)state;
    struct sonde_store *s = open_store();
    struct sonde_history h = { .ops = OPS, .store = s };
    struct sonde_err err = { "" };
    uint64_t id = 0, last = 0;
    for (uint64_t i = 1; i <= 6; i++) {
        struct sonde_profile *p = minute_of(DAY_S, "a", i);
        assert_int_equal(sonde_history_put(&h, SONDE_HISTORY_MINUTE, p, &id, &err), 0);
        sonde_profile_destroy(p);
        last = 10 * i;
    }
    assert_int_equal(count_parts(s, everything).tier[SONDE_HISTORY_MINUTE], 1);
    assert_int_equal(weight_of(s, everything), last);
    /* Deleted by somebody: it comes again. Its number in use by something else: that stays. */
    assert_int_equal(OPS->profile_delete(s, id, &err), 0);
    const struct sonde_store_profile session = { .name = "baseline", .kind = "cpu", .program = "" };
    uint64_t other = 0;
    assert_int_equal(OPS->profile_put(s, &session, "x", 1, &other, &err), 0);
    struct sonde_profile *p = minute_of(DAY_S, "a", 7);
    uint64_t again = other;
    assert_int_equal(sonde_history_put(&h, SONDE_HISTORY_MINUTE, p, &again, &err), 0);
    sonde_profile_destroy(p);
    struct sonde_buf data;
    sonde_buf_init(&data, 100);
    assert_int_equal(OPS->profile_get(s, other, &data, &err), 0);
    assert_int_equal(data.len, 1);
    sonde_buf_release(&data);
    assert_int_equal(weight_of(s, everything), 70);
    assert_int_equal(OPS->profile_delete(s, again, &err), 0); /* and its number is the next one's */
    p = minute_of(DAY_S, "a", 8);
    assert_int_equal(sonde_history_put(&h, SONDE_HISTORY_MINUTE, p, &again, &err), 0);
    sonde_profile_destroy(p);
    assert_int_equal(weight_of(s, everything), 80);
    OPS->close(s);
}

static void count_named(const struct sonde_store_profile *p, void *arg)
{
    *(int *)arg += !strcmp(p->kind, "cpu");
}

/* Its own limit holds, oldest first, and profiles that have a name are not counted nor deleted. */
static void test_bounded(void **state)
{
    (void)state;
    struct sonde_store *s = NULL;
    struct sonde_err err = { "" };
    const struct sonde_store_options o = { .path = build_path, .keep.profiles = 5 };
    assert_int_equal(OPS->open(&o, &s, &err), 0);
    struct sonde_history h = { .ops = OPS, .store = s, .bytes_max = 20000 };
    const struct sonde_store_profile session = { .name = "baseline", .kind = "cpu", .program = "" };
    for (int i = 0; i < 5; i++) {
        assert_int_equal(OPS->profile_put(s, &session, "x", 1, NULL, &err), 0);
    }
    for (int m = 0; m < 60; m++) {
        put_minute(&h, DAY_S + m * 60, "a", 10);
        settle(&h, DAY_S + m * 60);
        assert_true(count_parts(s, everything).bytes <= 20000);
    }
    assert_int_equal(OPS->gc(s, &(struct sonde_store_retention){ .profiles = 5 }, NULL, &err), 0);
    const struct count c = count_parts(s, everything);
    assert_true(c.tier[SONDE_HISTORY_MINUTE] > 2);
    assert_true(c.first_s > DAY_S);
    int named = 0;
    assert_int_equal(OPS->profiles(s, NULL, count_named, &named, &err), 0);
    assert_int_equal(named, 5);
    assert_true(h.deleted > 0);
    OPS->close(s);
}

/* A part that cannot be read does not keep the others back. */
static void test_damaged(void **state)
{
    (void)state;
    struct sonde_store *s = open_store();
    struct sonde_history h = { .ops = OPS, .store = s };
    struct sonde_err err = { "" };
    for (int m = 0; m < 60; m += 10) put_minute(&h, DAY_S + m * 60, "a", 1);
    const struct sonde_store_profile bad = { .name = "continuous-minute", .kind = "continuous",
                                             .program = "a", .start_s = DAY_S + 30,
                                             .end_s = DAY_S + 60 };
    assert_int_equal(OPS->profile_put(s, &bad, "\1garbage", 8, NULL, &err), 0);
    settle(&h, DAY_S + 86400);
    const struct count c = count_parts(s, everything);
    assert_int_equal(c.tier[SONDE_HISTORY_MINUTE], 0);
    assert_int_equal(c.tier[SONDE_HISTORY_HOUR], 1);
    assert_int_equal(weight_of(s, everything), 60);
    OPS->close(s);
}

/* How heaps stood is not added up: the last of an hour stays, then of a day. */
static void test_heaps(void **state)
{
    (void)state;
    struct sonde_store *s = open_store();
    struct sonde_history h = { .ops = OPS, .store = s };
    struct sonde_err err = { "" };
    for (int m = 0; m < 48 * 60; m += 30) {
        struct sonde_profile *p = minute_of(DAY_S + m * 60, "a", (uint64_t)m);
        uint64_t id = 0;
        assert_int_equal(sonde_history_put(&h, SONDE_HISTORY_HEAP, p, &id, &err), 0);
        sonde_profile_destroy(p);
    }
    const struct sonde_history_query q = { .heap = 1 };
    assert_int_equal(count_parts(s, q).tier[SONDE_HISTORY_HEAP], 48 * 2);
    settle(&h, DAY_S + 3 * 86400);
    assert_int_equal(count_parts(s, q).tier[SONDE_HISTORY_HEAP], 1 + 24);
    assert_int_equal(count_parts(s, everything).tier[SONDE_HISTORY_HEAP], 0);
    assert_int_equal(weight_of(s, q), 10 * (47 * 60 + 30));
    assert_int_equal(weight_of(s, (struct sonde_history_query){ .heap = 1, .to_s = DAY_S + 86400 }),
                     10 * (23 * 60 + 30));
    OPS->close(s);
}

/* Killed at any time while it merges: the sum is always the same. */
static void test_killed(void **state)
{
    (void)state;
    struct sonde_store *s = open_store();
    struct sonde_history h = { .ops = OPS, .store = s };
    uint64_t sum = 0;
    for (int m = 0; m < 6 * 60; m += 6) {
        put_minute(&h, DAY_S + m * 60, "a", (uint64_t)m + 1);
        sum += 10 * ((uint64_t)m + 1);
    }
    OPS->close(s);
    for (int round = 0; round < 8; round++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(60);
            h.store = open_store();
            for (;;) sonde_history_step(&h, DAY_S + (4 + round) * 3600, NULL);
        }
        nanosleep(&(struct timespec){ .tv_nsec = round * 25000000 }, NULL);
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        s = open_store();
        assert_int_equal(weight_of(s, everything), sum);
        assert_int_equal(count_parts(s, everything).samples, 600);
        OPS->close(s);
    }
    h.store = s = open_store();
    settle(&h, DAY_S + 86400);
    assert_int_equal(weight_of(s, everything), sum);
    assert_int_equal(count_parts(s, everything).tier[SONDE_HISTORY_HOUR], 6);
    assert_int_equal(count_parts(s, everything).tier[SONDE_HISTORY_MINUTE], 0);
    OPS->close(s);
}

static void test_nothing(void **state)
{
    (void)state;
    struct sonde_store *s = open_store();
    struct sonde_history h = { .ops = OPS, .store = s };
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_history_merge(OPS, s, &everything, &p, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "not on"));
    assert_int_equal(sonde_history_step(&h, DAY_S, &err), 0);
    put_minute(&h, DAY_S, "a", 1);
    const struct sonde_history_query later = { .from_s = DAY_S + 3600, .program = "zzz" };
    assert_int_equal(sonde_history_merge(OPS, s, &later, &p, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "zzz"));
    assert_non_null(strstr(err.text, "1763164800"));
    assert_true(sonde_store_is_file(build_path));
    assert_false(sonde_store_is_file("/bin/sh"));
    assert_false(sonde_store_is_file("/nonexistent"));
    OPS->close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, build_make_dir, build_remove_dir)
        TEST(test_minutes_to_hours), TEST(test_ranges),  TEST(test_hours_to_days),
        TEST(test_replace),          TEST(test_bounded), TEST(test_damaged),
        TEST(test_heaps),            TEST(test_killed),  TEST(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
