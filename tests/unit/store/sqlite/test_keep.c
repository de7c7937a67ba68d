/* What a store keeps and for how long; its runs and profiles. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/alloc.h"
#include "unit/store/sqlite/store_build.h"

static struct load load_from(struct sonde_store *s, double start_s)
{
    struct load l = new_load(s, 20, 20, 4);
    l.start_ms = (int64_t)start_s * 1000;
    return l;
}

/* Not faster than they are written. */
static void record(struct load *l, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        add_ticks(l, 1);
        if (i % 10 == 9) flush(l->s);
    }
    flush(l->s);
}

static int64_t file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* ---- Retention ------------------------------------------------------------------------------- */

/* A day at a tick a second under a limit that it would pass several times. */
static void test_day_under_limit(void **unused)
{
    (void)unused;
    enum { LIMIT = 512 << 10, DAY = 86400 };
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){
        .block_ticks = 300, .keep = { .bytes = LIMIT } });
    struct load l = new_load(s, 20, 10, 8);
    int64_t largest = 0;
    while (l.ticks < DAY) {
        add_ticks(&l, 30);
        flush(s);
        if (file_bytes(build_path) > largest) largest = file_bytes(build_path);
    }
    assert_true(largest > LIMIT / 2);
    /* A twentieth is left free for what comes between two deletions; of so little that is a page or
     * two, and here half a minute comes at a time. Without a limit it would be more than twice as
     * much. */
    if (largest > LIMIT + LIMIT / 2) fail_msg("%lld bytes", (long long)largest);
    /* The newest is there, the oldest is not, and nothing was dropped on the way. */
    must_ask(s, "g3", START_S, 0, 0);
    assert_true(build_answer.count > 100 && !build_answer.gaps);
    const struct sonde_store_point *last = &build_answer.point[build_answer.count - 1];
    assert_true(last->time_s == START_S + DAY - 1);
    assert_true(number("SELECT min(from_ms) FROM blocks WHERE tier = 0") > (int64_t)START_S * 1000);
    struct sonde_store_stats stats;
    OPS->stats(s, &stats);
    assert_int_equal(stats.ticks, DAY);
    assert_int_equal(stats.dropped_ticks, 0);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_age(void **unused)
{
    (void)unused;
    /* Some of three days ago, some of now. */
    const double now_s = (double)time(NULL);
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 60 });
    struct load l = load_from(s, now_s - 3 * 86400);
    record(&l, 1000);
    OPS->close(s);
    s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 60 });
    l = load_from(s, now_s - 1000);
    record(&l, 1000);
    struct sonde_err err = { "" };
    const struct sonde_store_retention nothing = { 0 }, day = { .age_s = 86400, .force = 1 };
    uint64_t freed = 0;
    assert_int_equal(OPS->gc(s, &nothing, &freed, &err), 0);
    assert_int_equal(number("SELECT count(*) FROM runs"), 2);
    assert_int_equal(OPS->gc(s, &day, &freed, &err), 0);
    assert_true(freed > 0);
    assert_int_equal(number("SELECT count(*) FROM runs"), 1);
    assert_int_equal(ask(s, "g3", now_s - 400000, 0, 0, &err), 0);
    assert_true(build_answer.count == 1000 && build_answer.point[0].time_s >= now_s - 1001);
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A clock that is 400 days ahead makes nothing go, until it has been so for a day. */
static void test_clock_ahead(void **unused)
{
    (void)unused;
    const double now_s = (double)time(NULL);
    const struct sonde_store_retention month = { .age_s = 30 * 86400 },
                                       raw = { .raw_s = 2 * 86400 };
    const struct sonde_store_retention force = { .age_s = 30 * 86400, .force = 1 };
    /* When the leap was, as days before now. Roll-ups are cut at midnight and noon, so whatever the
     * time is now, some of these lie on either side of a cut. */
    static const struct { double ago_days; int held; } rows[] = {
        { 0, 1 },   { 0.1, 1 }, { 0.3, 1 }, { 0.5, 1 }, { 0.7, 1 },
        { 0.9, 1 }, { 1.1, 0 }, { 1.3, 0 }, { 1.5, 0 }, { 1.8, 0 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sonde_store *s =
            open_at(build_path, (struct sonde_store_options){ .block_ticks = 60 });
        struct load l = load_from(s, now_s - 400 * 86400);
        record(&l, 300);
        OPS->close(s);
        s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 60 });
        /* A little, every two hours: it ran all the time. */
        for (double ago_s = rows[i].ago_days * 86400; ago_s > 0; ago_s -= 7200) {
            l = load_from(s, now_s - ago_s);
            record(&l, 70);
        }
        struct sonde_store_stats stats;
        struct sonde_err err = { "" };
        const int64_t old = (int64_t)(now_s - 300 * 86400) * 1000;
        char sql[96];
        snprintf(sql, sizeof(sql), "SELECT count(*) FROM blocks WHERE to_ms < %lld",
                 (long long)old);
        assert_true(number(sql) > 0);
        assert_int_equal(OPS->gc(s, &month, NULL, &err), 0);
        OPS->stats(s, &stats);
        assert_int_equal(OPS->gc(s, &raw, NULL, &err), 0);
        if ((number(sql) > 0) != rows[i].held ||
            (stats.clock_ahead_s > 390 * 86400.0) != rows[i].held) {
            fail_msg("a leap %.1f days ago: %lld old blocks, %.0f s ahead", rows[i].ago_days,
                     (long long)number(sql), stats.clock_ahead_s);
        }
        assert_int_equal(OPS->gc(s, &force, NULL, &err), 0);
        OPS->stats(s, &stats);
        assert_int_equal(number(sql), 0);
        assert_true(!(stats.clock_ahead_s > 0));
        OPS->close(s);
        assert_int_equal(build_remove_dir(NULL), 0);
        assert_int_equal(mkdir(build_dir, 0700), 0);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Much at once, in many steps. */
static void test_much(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .block_ticks = 10 });
    struct load l = load_from(s, START_S);
    record(&l, 3000);
    const int64_t chunks = number("SELECT count(*) FROM chunks");
    struct sonde_err err = { "" };
    const struct sonde_store_retention day = { .age_s = 86400, .force = 1 };
    assert_true(chunks > 10000);
    assert_int_equal(OPS->gc(s, &day, NULL, &err), 0);
    assert_true(number("SELECT count(*) FROM chunks") < 500);
    OPS->close(s);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

struct listed {
    size_t count;
    uint32_t id[8];
    char name[8][32], tags[8][64], config[64];
    uint64_t ticks[8], profiles[8];
    int live[8];
};

static void list_run(const struct sonde_store_run *r, void *arg)
{
    struct listed *l = arg;
    if (l->count == 8) return;
    l->id[l->count] = r->id;
    snprintf(l->name[l->count], 32, "%s", r->name);
    snprintf(l->tags[l->count], 64, "%s", r->tags);
    snprintf(l->config, sizeof(l->config), "%s", r->config);
    l->ticks[l->count] = r->ticks;
    l->profiles[l->count] = r->profiles;
    l->live[l->count++] = r->live;
}

static struct listed runs_of(struct sonde_store *s)
{
    struct listed l = { 0 };
    struct sonde_err err = { "" };
    if (OPS->runs(s, list_run, &l, &err) != 0) fail_msg("%s", err.text);
    return l;
}

static void test_runs(void **unused)
{
    (void)unused;
    struct sonde_store *s;
    for (int i = 0; i < 3; i++) {
        s = open_at(build_path, (struct sonde_store_options){ .run_name = i ? NULL : "first",
                                                              .config = "{\"a\":1}" });
        struct load l = load_from(s, START_S + 1000 * i);
        record(&l, 50);
        OPS->close(s);
    }
    s = open_at(build_path, (struct sonde_store_options){ 0 });
    struct load live = load_from(s, START_S + 5000);
    record(&live, 5);
    struct listed l = runs_of(s);
    assert_int_equal(l.count, 4);
    assert_true(l.id[0] == 4 && l.live[0] && !l.live[1] && l.ticks[0] == 5 && l.ticks[3] == 50);
    assert_string_equal(l.name[3], "first");
    assert_string_equal(l.config, "{\"a\":1}");

    struct sonde_err err = { "" };
    assert_int_equal(OPS->run_set(s, 2, "second.v2_a-b", NULL, &err), 0);
    assert_int_equal(OPS->run_set(s, 2, NULL, "any text", &err), 0);
    assert_int_equal(OPS->run_set(s, 2, "../x", NULL, &err), SONDE_EINVAL);
    assert_int_equal(OPS->run_set(s, 9, "nine", NULL, &err), SONDE_ENOENT);
    assert_int_equal(OPS->run_delete(s, 4, &err), SONDE_EBUSY);
    assert_int_equal(OPS->run_merge(s, 1, 4, &err), SONDE_EBUSY);
    assert_int_equal(OPS->run_merge(s, 1, 1, &err), SONDE_EINVAL);
    l = runs_of(s);
    assert_string_equal(l.name[2], "second.v2_a-b");
    assert_string_equal(l.tags[2], "any text");

    /* Out as one file, before it is deleted here. */
    char copy_path[160];
    snprintf(copy_path, sizeof(copy_path), "%s/copy", build_dir);
    assert_int_equal(OPS->run_copy(s, 2, copy_path, &err), 0);
    assert_int_equal(OPS->run_copy(s, 2, copy_path, &err), SONDE_EEXIST);
    assert_int_equal(OPS->run_copy(s, 9, "/nonexistent/x", &err), SONDE_ENOENT);
    assert_int_equal(OPS->run_delete(s, 2, &err), 0);
    assert_int_equal(ask(s, "g3", START_S, 0, 0, &err), 0);
    assert_int_equal(build_answer.count, 105);
    assert_int_equal(OPS->run_merge(s, 1, 3, &err), 0);
    l = runs_of(s);
    assert_true(l.count == 2 && l.id[1] == 1 && l.ticks[1] == 100);
    OPS->close(s);

    s = open_at(copy_path, (struct sonde_store_options){ .read_only = 1 });
    l = runs_of(s);
    assert_true(l.count == 1 && l.id[0] == 2 && l.ticks[0] == 50);
    assert_int_equal(ask(s, "c7", START_S, 0, 0, &err), 0);
    assert_int_equal(build_answer.count, 50);
    assert_int_equal(number_in(copy_path, "SELECT count(*) FROM series"), 44);
    OPS->close(s);
    /* One file: no log or lock beside it. */
    char beside[192];
    snprintf(beside, sizeof(beside), "%s-wal", copy_path);
    assert_int_equal(access(beside, F_OK), -1);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A file that somebody made anew, which cannot get shorter, with one page free. */
static void test_gc_ends(void **unused)
{
    (void)unused;
    OPS->close(open_at(build_path, (struct sonde_store_options){ 0 }));
    sqlite3 *db;
    assert_int_equal(sqlite3_open(build_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "PRAGMA journal_mode=DELETE; PRAGMA auto_vacuum=NONE; VACUUM;"
                                  "CREATE TABLE t(a); DROP TABLE t", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
    assert_int_equal(number("PRAGMA freelist_count"), 1);
    assert_int_equal(number("PRAGMA auto_vacuum"), 0);
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ .maintain = 1 });
    struct sonde_err err = { "" };
    uint64_t freed = 1;
    assert_int_equal(OPS->gc(s, NULL, &freed, &err), 0);
    assert_int_equal(freed, 0);
    OPS->close(s);
}

/* Runs of one hour that become one, the first of them rolled up already: nothing is hidden by that,
 * whatever the step. */
static void test_merge_is_whole(void **unused)
{
    (void)unused;
    struct sonde_err err = { "" };
    struct sonde_store *s;
    for (int i = 0; i < 2; i++) {
        s = open_at(build_path, (struct sonde_store_options){ 0 });
        struct load l = load_from(s, START_S + 400 * i);
        record(&l, 300);
        for (int k = 0; i && k < 1000 && !number("SELECT rolled FROM runs WHERE id = 1"); k++) {
            record(&l, 1);
        }
        OPS->close(s);
    }
    assert_int_equal(number("SELECT rolled FROM runs WHERE id = 1"), 1);
    assert_int_equal(number("SELECT rolled FROM runs WHERE id = 2"), 0);
    s = open_at(build_path, (struct sonde_store_options){ .maintain = 1 });
    assert_int_equal(ask(s, "c7", START_S, 0, 60, &err), 0);
    const struct sonde_store_point all = build_answer.all;
    const size_t count = build_answer.count;
    assert_true(all.count >= 600);
    assert_int_equal(OPS->run_merge(s, 1, 2, &err), 0);
    assert_int_equal(ask(s, "c7", START_S, 0, 60, &err), 0);
    assert_true(build_answer.all.sum == all.sum && build_answer.all.count == all.count);
    assert_int_equal(build_answer.count, count);
    assert_int_equal(OPS->run_merge(s, 1, 2, &err), SONDE_ENOENT);
    OPS->close(s);
    /* What another sonde is about to roll up is left to it. */
    char lock_path[160];
    snprintf(lock_path, sizeof(lock_path), "%s.lock", build_path);
    const int lock_fd = open(lock_path, O_RDWR);
    assert_true(lock_fd >= 0 && flock(lock_fd, LOCK_EX | LOCK_NB) == 0);
    sqlite3 *db;
    assert_int_equal(sqlite3_open(build_path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "INSERT INTO runs VALUES(2, '', '', '', '', '', 0, 0, 0, 0, "
                                  "0, 0),(3, '', '', '', '', '', 0, 0, 0, 0, 0, 0)", NULL, NULL,
                                  NULL), SQLITE_OK);
    sqlite3_close(db);
    s = open_at(build_path, (struct sonde_store_options){ .maintain = 1 });
    assert_int_equal(OPS->run_merge(s, 1, 2, &err), SONDE_EBUSY);
    assert_non_null(strstr(err.text, "not rolled up yet"));
    OPS->close(s);
    close(lock_fd);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

static void newest_profile(const struct sonde_store_profile *p, void *arg)
{
    struct sonde_store_profile *to = arg;
    if (to->id) return;
    *to = *p;
    to->name = to->kind = to->program = NULL; /* borrowed */
}

static void test_profiles(void **unused)
{
    (void)unused;
    struct sonde_store *s = open_at(build_path, (struct sonde_store_options){ 0 });
    struct sonde_err err = { "" };
    char data[10000];
    for (size_t i = 0; i < sizeof(data); i++) data[i] = (char)(i * i % 251);
    uint64_t id = 0, first = 0;
    for (int i = 0; i < 5; i++) {
        const struct sonde_store_profile p = { .name = i % 2 ? "odd" : "even", .kind = "cpu",
                                               .program = "server", .start_s = START_S + i,
                                               .end_s = START_S + i + 1,
                                               .samples = 100 + (uint64_t)i };
        data[0] = (char)i;
        assert_int_equal(OPS->profile_put(s, &p, data, sizeof(data), &id, &err), 0);
        if (!i) first = id;
    }
    const struct sonde_store_profile bad = { .name = "a b" };
    assert_int_equal(OPS->profile_put(s, &bad, data, 1, &id, &err), SONDE_EINVAL);

    struct sonde_store_profile found = { 0 };
    assert_int_equal(OPS->profiles(s, "odd", newest_profile, &found, &err), 0);
    assert_true(found.samples == 103 && found.run == 1 && found.start_s == START_S + 3);
    assert_true(found.bytes > 0 && found.bytes < sizeof(data));
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    assert_int_equal(OPS->profile_get(s, found.id, &b, &err), 0);
    data[0] = 3;
    assert_int_equal(b.len, sizeof(data));
    assert_memory_equal(b.data, data, sizeof(data));
    assert_int_equal(OPS->profile_delete(s, found.id, &err), 0);
    assert_int_equal(OPS->profile_delete(s, found.id, &err), SONDE_ENOENT);
    assert_int_equal(OPS->profile_get(s, found.id, &b, &err), SONDE_ENOENT);
    sonde_buf_release(&b);

    /* One for several, or nothing at all. */
    const struct sonde_store_profile hour = { .name = "hour", .kind = "cpu" };
    const uint64_t parts[] = { first, first + 1, 999 };
    uint64_t replacement = 0;
    assert_int_equal(OPS->profile_replace(s, &bad, data, 1, parts, 3, &id, &err), SONDE_EINVAL);
    assert_int_equal(number("SELECT count(*) FROM profiles"), 4);
    assert_int_equal(OPS->profile_replace(s, &hour, data, 1, parts, 3, &replacement, &err), 0);
    assert_int_equal(number("SELECT count(*) FROM profiles"), 3);
    assert_int_equal(OPS->profile_delete(s, first, &err), SONDE_ENOENT);
    assert_int_equal(number("SELECT id FROM profiles WHERE name = 'hour'"),
                     (int64_t)replacement);

    const struct sonde_store_retention two = { .profiles = 2 };
    assert_int_equal(OPS->gc(s, &two, NULL, &err), 0);
    assert_int_equal(number("SELECT count(*) FROM profiles"), 2);
    assert_int_equal(OPS->profile_delete(s, first + 2, &err), SONDE_ENOENT); /* the oldest went */
    OPS->close(s);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_day_under_limit), TEST(test_age),      TEST(test_much),
        TEST(test_runs), TEST(test_merge_is_whole), TEST(test_gc_ends), TEST(test_clock_ahead),
        TEST(test_profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
