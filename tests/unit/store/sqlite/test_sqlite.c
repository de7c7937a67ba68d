/* The store: what is appended is found again, at once, packed, rolled up and after a restart. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <sqlite3.h>

#include "base/alloc.h"
#include "unit/store/sqlite/store_build.h"

/* Every tick, with the value the load gave it. */
static void check_raw(struct sonde_store *s, uint32_t ticks)
{
    const struct answer *a = &build_answer;
    must_ask(s, "g2", START_S, 0, 0);
    assert_int_equal(a->series, 1);
    assert_int_equal(a->count, ticks);
    for (uint32_t i = 0; i < ticks; i++) {
        assert_true(a->point[i].time_s == START_S + i);
        assert_true(a->point[i].last == 2000.0 + i && a->point[i].count == 1);
    }
    must_ask(s, "c1", START_S, 0, 0);
    assert_int_equal(a->count, ticks);
    for (uint32_t i = 0; i < ticks; i++) {
        assert_true(a->point[i].sum == 2 && a->point[i].last == 2.0 * (i + 1));
        assert_true(fabs(a->point[i].max - 2) < 1e-9);
    }
    must_ask(s, "h0", START_S, 0, 0);
    assert_int_equal(a->count, ticks);
    for (uint32_t i = 0; i < ticks; i++) {
        assert_true(a->point[i].count == i % 10 + 1 && a->point[i].sum == i % 10 + 1);
        assert_true(fabs(a->point[i].p50 - 1) < 0.01 && fabs(a->point[i].p99 - 1) < 0.01);
    }
}

static void test_append_and_ask(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 50 });
    struct load l = new_load(s, 3, 2, 1);
    add_ticks(&l, 30);
    flush(s);
    check_raw(s, 30); /* from memory */
    add_ticks(&l, 200);
    flush(s);
    check_raw(s, 230); /* from both */
    assert_string_equal(build_answer.labels, "index=\"0\",text=\"a\\\"b\"");

    /* Steps. */
    must_ask(s, "c0", START_S, START_S + 99.5, 10);
    assert_int_equal(build_answer.count, 10);
    assert_true(build_answer.point[3].sum == 10 && build_answer.point[3].count == 10);
    assert_true(fabs(build_answer.point[3].seconds - 10) < 0.1);
    assert_true(build_answer.all.sum == 100);
    must_ask(s, "g0", START_S + 50, START_S + 69.5, 10);
    assert_int_equal(build_answer.count, 2);
    assert_true(build_answer.point[1].min == 60 && build_answer.point[1].max == 69);
    assert_true(build_answer.point[1].sum == 10 * 64.5 && build_answer.point[1].last == 69);
    must_ask(s, "g0", START_S + 55, START_S + 69.5, 10); /* steps begin at multiples */
    assert_int_equal(build_answer.count, 2);
    assert_true(build_answer.point[0].time_s == START_S + 50 && build_answer.point[0].min == 50);

    /* Filters, and nothing where nothing is. */
    must_ask(s, "g*", START_S, 0, 60);
    assert_int_equal(build_answer.series, 3);
    must_ask(s, "none", START_S, 0, 60);
    assert_int_equal(build_answer.series, 0);
    must_ask(s, "g0", START_S - 1000, START_S - 1, 60);
    assert_int_equal(build_answer.series, 0);
    const struct sonde_filter label = { .label = { { "text", "a\"b" } }, .label_count = 1 };
    const struct sonde_store_query q = { .filters = &label, .filter_count = 1, .from_s = START_S,
                                         .step_s = 60, .series_max = 4 };
    const struct sonde_store_sink sink = { .series = answer_series, .arg = &build_answer };
    build_answer.series = 0;
    assert_int_equal(OPS->query(s, &q, &sink, NULL), 0);
    assert_int_equal(build_answer.series, 4);

    struct sonde_err err = { "" };
    struct sonde_store_query many = q;
    many.points_max = 5;
    many.step_s = 0;
    assert_int_equal(OPS->query(s, &many, &sink, &err), SONDE_EFULL);
    assert_non_null(strstr(err.text, "longer step"));
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_restart(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 50 });
    struct load l = new_load(s, 3, 2, 1);
    add_ticks(&l, 130);
    OPS->close(s);
    s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 50 });
    check_raw(s, 130);
    /* The same series goes on under its number: it is one, though two runs recorded it. */
    struct load more = new_load(s, 3, 2, 1);
    more.ticks = 130;
    add_ticks(&more, 40);
    flush(s);
    must_ask(s, "g2", START_S, 0, 0);
    assert_int_equal(build_answer.series, 1);
    assert_int_equal(build_answer.count, 170);
    OPS->close(s);

    s = open_at(build_path, (struct sonde_store_options){ .read_only = 1 });
    must_ask(s, "g2", START_S, 0, 0);
    assert_int_equal(build_answer.count, 170);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Series that come and go, and come again. */
static void test_coming_and_going(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 50 });
    struct load l = new_load(s, 2, 1, 1);
    add_ticks(&l, 10);
    l.gauges = 1; /* g1 is gone; its slot is free when that tick was taken */
    l.slot[1] = l.slot[2];
    l.slot[2] = l.slot[3];
    add_ticks(&l, 10);
    flush(s);
    must_ask(s, "g1", START_S, 0, 0);
    assert_int_equal(build_answer.count, 10);
    must_ask(s, "c0", START_S, 0, 0);
    assert_int_equal(build_answer.count, 20);
    const uint32_t ticks = l.ticks;
    l = (struct load){ .s = s, .gauges = 2, .counters = 1, .histograms = 1, .ticks = ticks,
                       .start_ms = (int64_t)START_S * 1000 };
    assert_int_equal(load_define(&l), 0);
    add_ticks(&l, 10);
    flush(s);
    must_ask(s, "g1", START_S, 0, 0);
    assert_int_equal(build_answer.count, 20);
    assert_true(build_answer.point[10].time_s == START_S + 20);
    assert_true(build_answer.point[10].last == 1020);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Two series by one name at a time: the first is recorded, then the other. */
static void test_twins(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 50 });
    struct load l = new_load(s, 1, 0, 0), twin = new_load(s, 1, 0, 0);
    l.gauges = 2;
    l.slot[1] = twin.slot[0];
    add_ticks(&l, 10);
    flush(s);
    must_ask(s, "g0", START_S, 0, 0);
    assert_int_equal(build_answer.count, 10);
    assert_true(build_answer.point[9].last == 9);
    twin.ticks = 10;
    add_ticks(&twin, 10);
    flush(s);
    must_ask(s, "g0", START_S, 0, 0);
    assert_int_equal(build_answer.count, 19); /* that it was the other's turn shows a tick late */
    OPS->close(s);
}

/* The clock goes back: recording goes on. */
static void test_clock_set_back(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 50 });
    struct load l = new_load(s, 3, 2, 1);
    add_ticks(&l, 20);
    l.start_ms -= 3600000;
    add_ticks(&l, 20);
    flush(s);
    must_ask(s, "g0", START_S - 4000, 0, 0);
    assert_int_equal(build_answer.count, 40);
    OPS->close(s);
}

/* Steps of background work are done as ticks come in. */
static void wait_for(struct load *l, const char *sql, int64_t wanted)
{
    for (int i = 0; i < 3000 && number(sql) < wanted; i++) {
        add_ticks(l, 1);
        flush(l->s);
    }
    assert_true(number(sql) >= wanted);
}

static void test_rollup(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
    struct load l = new_load(s, 3, 2, 1);
    for (int i = 0; i < 270; i++) { /* seven and a half hours */
        add_ticks(&l, 100);
        flush(s);
    }
    wait_for(&l, "SELECT count(*) FROM blocks WHERE tier = 1", 7);
    wait_for(&l, "SELECT count(*) FROM blocks WHERE tier = 2", 1);
    const uint32_t ticks = l.ticks;
    struct sonde_err err = { "" };
    const struct answer *a = &build_answer;
    for (int rolled = 0; rolled < 2; rolled++) {
        /* Ten minutes at a time, of full ten seconds; the last may be cut. */
        must_ask(s, "c1", START_S, START_S + ticks, 600);
        const size_t count = (ticks + 599) / 600;
        assert_int_equal(a->count, count);
        double sum = 0;
        for (size_t i = 0; i + 1 < count; i++) {
            assert_true(a->point[i].sum == 1200 && a->point[i].count == 600);
            assert_true(a->point[i].time_s == START_S + 600.0 * (double)i);
            assert_true(a->point[i].last == 1200.0 * (double)(i + 1));
            sum += a->point[i].sum;
        }
        assert_true(a->all.sum == 2.0 * ticks && sum < a->all.sum);
        must_ask(s, "g1", START_S, START_S + ticks, 600);
        for (size_t i = 0; i + 1 < count; i++) {
            assert_true(a->point[i].min == 1000 + 600.0 * (double)i);
            assert_true(a->point[i].max == a->point[i].min + 599);
            assert_true(a->point[i].sum == 600 * (a->point[i].min + 299.5));
        }
        must_ask(s, "h0", START_S, START_S + ticks, 600);
        for (size_t i = 0; i + 1 < count; i++) {
            assert_true(a->point[i].count == 3300 && a->point[i].sum == 3300);
            assert_true(fabs(a->point[i].p95 - 1) < 0.01);
        }
        /* Once more after the raw points of the first hours are gone. */
        const struct sonde_store_retention keep = { .raw_s = 1, .force = 1 };
        assert_int_equal(OPS->gc(s, &keep, NULL, &err), 0);
    }
    assert_true(number("SELECT count(*) FROM blocks WHERE tier = 0") < 12);
    OPS->close(s);
    /* What is left of the run is rolled up when another is recorded. */
    s = open_at(build_path, (struct sonde_store_options){ 0 });
    l = new_load(s, 1, 0, 0);
    l.start_ms += 40000000;
    wait_for(&l, "SELECT count(*) FROM runs WHERE rolled = 1", 1);
    must_ask(s, "c1", START_S, START_S + ticks, 3600);
    assert_true(a->all.sum == 2.0 * ticks);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Hours that are recorded twice, since the clock was set back, are there twice in long steps
 * too. */
static void test_hours_again(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
    struct load l = new_load(s, 1, 1, 0);
    for (int i = 0; i < 96; i++) { /* 160 minutes */
        add_ticks(&l, 100);
        flush(s);
    }
    wait_for(&l, "SELECT count(*) FROM blocks WHERE tier = 1", 2);
    l.start_ms -= (int64_t)l.ticks * 1000; /* the same time once more */
    for (int i = 0; i < 72; i++) { /* 120 minutes */
        add_ticks(&l, 100);
        flush(s);
    }
    must_ask(s, "g0", START_S, 0, 0);
    assert_int_equal(build_answer.count, l.ticks);
    must_ask(s, "g0", START_S, 0, 600);
    assert_true(build_answer.all.count == l.ticks);
    must_ask(s, "c0", START_S, 0, 600);
    assert_true(build_answer.all.sum == l.ticks);
    assert_int_equal(number("SELECT count(*) FROM runs"), 2);
    wait_for(&l, "SELECT count(*) FROM runs WHERE rolled = 1", 1);
    must_ask(s, "c0", START_S, 0, 600);
    assert_true(build_answer.all.sum == l.ticks);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* The machine sleeps for an hour: that changes no rate but that of the tick after it. */
static void test_late_tick(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
    struct load l = new_load(s, 0, 2, 0);
    add_ticks(&l, 300);
    l.start_ms += 3600000;
    add_ticks(&l, 200);
    OPS->close(s);
    s = open_at(build_path, (struct sonde_store_options){ 0 });
    l = new_load(s, 1, 0, 0);
    l.start_ms += 40000000;
    for (int rolled = 0; rolled < 2; rolled++) {
        must_ask(s, "c1", START_S, START_S + 300, 10);
        assert_int_equal(build_answer.count, 30);
        for (size_t i = 0; i < 30; i++) {
            assert_true(build_answer.point[i].sum == 20);
            assert_true(fabs(build_answer.point[i].seconds - 10) < 0.1);
            assert_true(fabs(build_answer.point[i].max - 2) < 0.1);
        }
        wait_for(&l, "SELECT count(*) FROM runs WHERE rolled = 1", 1);
    }
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* An answer about a time that is over stays what it is while more is recorded and when that is
 * packed: with ticks that are a little late, and one that is very late. */
static void test_past_stays(void **unused)
{
    (void)unused;
    static const int late_ms[] = { 0, 3600000, 13, -9, 4, 0, 7, -15, 2, -1 };
    static struct sonde_store_point before[10], all;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
    struct load l = new_load(s, 0, 1, 0);
    const double end_s = START_S + 3600 + 9;
    for (int i = 0; i < 1400; i++) {
        l.start_ms += i < 10 ? late_ms[i] : i % 5 - 2;
        add_ticks(&l, 1);
        if (i != 10 && i != 11 && i != 300 && i < 1399) continue;
        if (i == 1399) wait_for(&l, "SELECT count(*) FROM blocks WHERE tier = 0", 2);
        flush(s);
        must_ask(s, "c0", START_S, end_s, 1);
        assert_in_range(build_answer.count, 9, 10);
        /* The late one is no measure. */
        assert_true(fabs(build_answer.point[0].seconds - 1.013) < 1e-9);
        if (i > 10) {
            assert_memory_equal(build_answer.point, before, sizeof(before[0]) * build_answer.count);
            assert_memory_equal(&build_answer.all, &all, sizeof(all));
        }
        memcpy(before, build_answer.point, sizeof(before[0]) * build_answer.count);
        all = build_answer.all;
    }
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_refused(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 }), *second = NULL;
    struct sonde_err err = { "" };
    const struct sonde_store_options o = { .path = build_path };
    assert_int_equal(OPS->open(&o, &second, &err), SONDE_EBUSY);
    assert_non_null(strstr(err.text, "written by another sonde (process "));
    OPS->close(s);
    assert_int_equal(OPS->open(&o, &second, &err), 0);
    OPS->close(second);

    sqlite3 *db;
    assert_int_equal(sqlite3_open(build_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA user_version = 99", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(OPS->open(&o, &second, &err), SONDE_EVERSION);
    assert_non_null(strstr(err.text, "newer sonde"));

    unlink(build_path);
    assert_int_equal(sqlite3_open(build_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "CREATE TABLE theirs(a)", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(OPS->open(&o, &second, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "not a store"));
    assert_int_equal(number("SELECT count(*) FROM sqlite_schema"), 1); /* it is as it was */

    char theirs[160], lock[192];
    snprintf(theirs, sizeof(theirs), "%s/notes", build_dir);
    snprintf(lock, sizeof(lock), "%s.lock", theirs);
    FILE *f = fopen(theirs, "w");
    assert_non_null(f);
    assert_true(fputs("what is to be done today\n", f) >= 0 && fclose(f) == 0);
    const struct sonde_store_options notes = { .path = theirs };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(OPS->open(&notes, &second, &err), SONDE_EINVAL);
        assert_non_null(strstr(err.text, "not a store"));
    }
    assert_int_equal(access(theirs, F_OK), 0);
    assert_int_equal(access(lock, F_OK), -1);

    const struct sonde_store_options nowhere = { .path = "/nonexistent/a.store" };
    assert_int_equal(OPS->open(&nowhere, &second, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/a.store"));
    const struct sonde_store_options missing = { .path = "/nonexistent", .read_only = 1 };
    assert_int_equal(OPS->open(&missing, &second, &err), SONDE_ENOENT);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_too_many_series(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .series_max = 4 });
    struct load l = { .s = s, .gauges = 5 };
    assert_int_equal(load_define(&l), SONDE_EFULL);
    struct sonde_store_stats stats;
    OPS->stats(s, &stats);
    assert_int_equal(stats.dropped_series, 1);
    OPS->close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_append_and_ask), TEST(test_restart),
        TEST(test_coming_and_going), TEST(test_twins), TEST(test_clock_set_back), TEST(test_rollup),
        TEST(test_hours_again), TEST(test_late_tick), TEST(test_past_stays),
        TEST(test_refused),        TEST(test_too_many_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
