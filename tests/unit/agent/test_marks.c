/* Marks: what may be posted, in memory and in a store: added, listed by time, deleted, bounded. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "agent/marks.h"
#include "sonde/sonde.h"

#define NOW_S 1794800000.0

static const struct {
    const char *body;
    int rc;
    double time_s, end_s;
    const char *why;
} bodies[] = {
    { "{\"text\":\"deploy 42\"}", 0, NOW_S, 0, "" },
    { "{\"text\":\"x\",\"time\":null,\"end\":null}", 0, NOW_S, 0, "" },
    { "{\"text\":\"load test\",\"time\":1794700000,\"end\":1794700060.5}", 0, 1794700000,
      1794700060.5, "" },
    { "{\"text\":\"\"}", SONDE_EINVAL, 0, 0, "\"text\"" },
    { "{\"text\":7}", SONDE_EINVAL, 0, 0, "\"text\"" },
    { "{\"time\":1}", SONDE_EINVAL, 0, 0, "\"text\"" },
    { "{\"text\":\"x\",\"time\":\"now\"}", SONDE_EINVAL, 0, 0, "\"time\"" },
    { "{\"text\":\"x\",\"time\":-1}", SONDE_EINVAL, 0, 0, "\"time\"" },
    { "{\"text\":\"x\",\"end\":1e300}", SONDE_EINVAL, 0, 0, "\"end\"" },
    { "{\"text\":\"x\",\"colour\":\"red\"}", SONDE_EINVAL, 0, 0, "\"colour\"" },
    { "[]", SONDE_EINVAL, 0, 0, "JSON object" },
    { "", SONDE_EINVAL, 0, 0, "JSON object" },
};

static void test_bodies(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        char text[SONDE_MARK_TEXT_MAX + 1];
        struct sonde_mark mark = { 0 };
        struct sonde_err err = { "" };
        const int rc = sonde_mark_parse(bodies[i].body, strlen(bodies[i].body), NOW_S, &mark,
                                        text, &err);
        if (rc != bodies[i].rc || !strstr(err.text, bodies[i].why)) {
            fail_msg("%s: %d, '%s'", bodies[i].body, rc, err.text);
        }
        if (rc) continue;
        assert_true(mark.time_s == bodies[i].time_s);
        assert_true(mark.end_s == bodies[i].end_s);
    }
}

/* ---- Both places ----------------------------------------------------------------------------- */

static int seen_put(const struct sonde_mark *mark, void *arg)
{
    char *seen = arg;
    const size_t len = strlen(seen);
    snprintf(seen + len, 200 - len, "%s%s@%.0f", len ? " " : "", mark->text, mark->time_s);
    return 0;
}

static void check_seen(struct sonde_marks *m, double from_s, double to_s, const char *wanted)
{
    char seen[200] = "";
    struct sonde_err err = { "" };
    const struct sonde_store_range range = { .from_s = from_s, .to_s = to_s };
    assert_int_equal(sonde_marks_each(m, &range, seen_put, seen, &err), 0);
    assert_string_equal(seen, wanted);
}

static void check_marks(struct sonde_marks *m)
{
    struct sonde_err err = { "" };
    uint64_t a = 0, b = 0;
    const struct sonde_mark first = { .time_s = 100, .text = "a" };
    const struct sonde_mark second = { .time_s = 200, .end_s = 210, .text = "b" };
    const struct sonde_mark none = { .time_s = 100, .text = "" };
    const struct sonde_mark backwards = { .time_s = 100, .end_s = 99, .text = "c" };
    assert_int_equal(sonde_marks_add(m, &first, &a, &err), 0);
    assert_int_equal(sonde_marks_add(m, &second, &b, &err), 0);
    assert_int_not_equal(a, b);
    assert_int_equal(sonde_marks_add(m, &none, &b, &err), SONDE_EINVAL);
    assert_int_equal(sonde_marks_add(m, &backwards, &b, &err), SONDE_EINVAL);
    check_seen(m, 0, 0, "b@200 a@100");
    check_seen(m, 150, 0, "b@200");
    check_seen(m, 0, 150, "a@100");
    check_seen(m, 205, 0, "b@200"); /* it began before, and lasts to 210 */
    check_seen(m, 205, 207, "b@200");
    check_seen(m, 210, 300, "b@200");
    check_seen(m, 211, 0, "");
    check_seen(m, 101, 199, "");
    assert_int_equal(sonde_marks_delete(m, a, &err), 0);
    assert_int_equal(sonde_marks_delete(m, a, &err), SONDE_ENOENT);
    check_seen(m, 0, 0, "b@200");
}

static void test_memory(void **state)
{
    (void)state;
    struct sonde_marks *m = NULL;
    struct sonde_err err = { "" };
    uint64_t id = 0;
    assert_int_equal(sonde_marks_create(NULL, NULL, &m), 0);
    check_marks(m);
    for (int i = 0; i < SONDE_MARKS_MAX; i++) {
        const struct sonde_mark more = { .time_s = 1000 + i, .text = "more" };
        assert_int_equal(sonde_marks_add(m, &more, &id, &err), 0);
    }
    check_seen(m, 0, 500, ""); /* the oldest went */
    sonde_marks_destroy(m);
    sonde_marks_destroy(NULL);
}

static void test_store(void **state)
{
    (void)state;
    char path[] = "/tmp/sonde-marks-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    struct sonde_store *store = NULL;
    struct sonde_marks *m = NULL;
    struct sonde_err err = { "" };
    uint64_t finding = 0;
    const struct sonde_store_options o = { .path = path };
    const struct sonde_store_finding f = { .time_s = 150, .kind = "leak", .text = "not a mark" };
    assert_int_equal(sonde_store_sqlite.open(&o, &store, &err), 0);
    assert_int_equal(sonde_store_sqlite.finding_put(store, &f, &finding, &err), 0);
    assert_int_equal(sonde_marks_create(&sonde_store_sqlite, store, &m), 0);
    check_marks(m);
    assert_int_equal(sonde_marks_delete(m, finding, &err), SONDE_ENOENT); /* only marks go */
    sonde_marks_destroy(m);
    sonde_store_sqlite.close(store);
    assert_int_equal(sonde_store_sqlite.open(&o, &store, &err), 0);
    assert_int_equal(sonde_marks_create(&sonde_store_sqlite, store, &m), 0);
    check_seen(m, 0, 0, "b@200"); /* still there */
    sonde_marks_destroy(m);
    sonde_store_sqlite.close(store);
    char extra[64];
    unlink(path);
    for (int i = 0; i < 2; i++) {
        snprintf(extra, sizeof(extra), "%s-%s", path, i ? "wal" : "shm");
        unlink(extra);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bodies), cmocka_unit_test(test_memory), cmocka_unit_test(test_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
