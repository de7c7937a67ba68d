/* Sessions with names: which there are, and what may be done when. Nothing is sampled here:
 * tests/e2e/test_seed_api.sh does that. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/sessions.h"
#include "serve_profiler.h"
#include "sonde/sonde.h"

enum { WAIT_S = 60 };

static struct sonde_sessions *sessions;

static int setup(void **state)
{
    (void)state;
    if (profiler_make() != 0) return -1;
    return sonde_sessions_create(profiler, NULL, NULL, &sessions);
}

static int teardown(void **state)
{
    (void)state;
    sonde_sessions_destroy(sessions);
    profiler_end();
    return 0;
}

static int begin(const char *name, double duration_s, struct sonde_err *err)
{
    struct sonde_session_ask ask = { .cpu = 1, .memory = 1, .duration_s = duration_s };
    snprintf(ask.name, sizeof(ask.name), "%s", name);
    return sonde_sessions_begin(sessions, &ask, err);
}

static int end(const char *name, struct sonde_err *err)
{
    struct sonde_session_done done;
    const int rc = sonde_sessions_end(sessions, name, &done, err);
    if (!rc) sonde_profile_destroy(done.profile);
    return rc;
}

static void test_life(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_session_found f;
    struct sonde_session_row rows[4];
    assert_int_equal(end(NULL, &err), SONDE_EBUSY);
    assert_non_null(strstr(err.text, "no session runs"));
    assert_int_equal(end("x", &err), SONDE_ENOENT);
    assert_int_equal(sonde_sessions_find(sessions, NULL, &f, &err), SONDE_ENOENT);
    assert_int_equal(begin("x", 0, &err), 0);
    assert_int_equal(begin("x", 0, &err), SONDE_EEXIST);
    assert_int_equal(begin("y", 0, &err), 0);
    assert_int_equal(sonde_sessions_running(sessions, rows, 4), 2);
    assert_string_equal(rows[0].name, "y");
    assert_int_equal(sonde_sessions_find(sessions, NULL, &f, &err), 0);
    assert_non_null(strstr(f.label, "y, so far"));
    assert_int_equal(f.id, 0);
    sonde_profile_destroy(f.profile);
    assert_int_equal(end(NULL, &err), SONDE_EBUSY);
    assert_non_null(strstr(err.text, "x, y"));
    assert_int_equal(end("z", &err), SONDE_ENOENT);
    struct sonde_session_done done;
    assert_int_equal(sonde_sessions_end(sessions, "x", &done, &err), 0);
    assert_string_equal(done.name, "x");
    assert_true(done.id > 0 && done.profile->end_ns > done.profile->start_ns);
    assert_int_equal(done.note_count, 1);
    assert_non_null(strstr(done.notes[0], "--store"));
    sonde_profile_destroy(done.profile);
    assert_int_equal(sonde_sessions_last(sessions), done.id);
    assert_int_equal(end("x", &err), SONDE_EBUSY);
    assert_non_null(strstr(err.text, "has ended"));
    assert_int_equal(end(NULL, &err), 0); /* only y is left */
    assert_int_equal(begin("x", 0, &err), 0); /* the name is free again */
    assert_int_equal(end("x", &err), 0);
    assert_int_equal(sonde_sessions_find(sessions, "x", &f, &err), 0);
    assert_true(f.id > done.id); /* the newest of that name */
    sonde_profile_destroy(f.profile);
}

static void test_names(void **state)
{
    (void)state;
    struct sonde_session_ask ask = { .memory = 1 };
    struct sonde_err err = { "" };
    for (int i = 0; i < 3; i++) {
        *ask.name = '\0';
        assert_int_equal(sonde_sessions_begin(sessions, &ask, &err), 0);
        assert_int_equal(strncmp(ask.name, "session-", 8), 0);
        assert_int_equal(sonde_store_name_check(ask.name, &err), 0);
    }
}

/* One that ends by itself, and others that end with the agent. */
static void test_duration(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_session_row row;
    assert_int_equal(begin("short", 0.1, &err), 0);
    assert_int_equal(begin("long", 1000, &err), 0);
    for (int i = 0; !sonde_sessions_last(sessions) && i < WAIT_S * 100; i++) usleep(10000);
    assert_true(sonde_sessions_last(sessions) > 0);
    assert_int_equal(sonde_sessions_running(sessions, &row, 1), 1);
    assert_string_equal(row.name, "long");
    assert_int_equal(end("short", &err), SONDE_EBUSY);
}

static void test_limit(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    char name[16];
    for (int i = 0; i < SONDE_CAPTURES_MAX; i++) {
        snprintf(name, sizeof(name), "s%d", i);
        assert_int_equal(begin(name, 0, &err), 0);
    }
    assert_int_equal(begin("more", 0, &err), SONDE_EBUSY);
    assert_int_equal(end("s3", &err), 0);
    assert_int_equal(begin("more", 0, &err), 0);
}

static void test_range(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_session_range r;
    char text[64];
    assert_true(sonde_sessions_is_range("1700000000..1700000100.5"));
    assert_false(sonde_sessions_is_range("baseline") || sonde_sessions_is_range("a..b") ||
                 sonde_sessions_is_range("12") || sonde_sessions_is_range("1..") ||
                 sonde_sessions_is_range("..1") || sonde_sessions_is_range("1..2..3"));
    assert_int_equal(sonde_sessions_range(sessions, "2..1", &r, &err), SONDE_EINVAL);
    assert_int_equal(sonde_sessions_range(sessions, "1..2", &r, &err), SONDE_ENOENT);
    assert_int_equal(begin("x", 0, &err), 0);
    struct sonde_session_done done;
    assert_int_equal(sonde_sessions_end(sessions, NULL, &done, &err), 0);
    const double at = (double)done.profile->start_ns * 1e-9;
    sonde_profile_destroy(done.profile);
    snprintf(text, sizeof(text), "%.3f..%.3f", at - 10, at + 100);
    assert_int_equal(sonde_sessions_range(sessions, text, &r, &err), 0);
    assert_true(r.from_ns < r.to_ns);
    sonde_profile_destroy(r.found.profile);
}

static void test_body(void **state)
{
    (void)state;
    static const struct { const char *body; int start, rc; const char *says; } cases[] = {
        { "", 1, 0, NULL }, { " \n", 0, 0, NULL }, { "{}", 1, 0, NULL },
        { "{\"name\":\"baseline\"}", 1, 0, NULL }, { "{\"name\":\"baseline\"}", 0, 0, NULL },
        { "{\"name\":\"a\",\"rate_hz\":99,\"cpu\":true,\"memory\":false,\"duration_seconds\":5}", 1,
          0, NULL },
        { "{\"name\":\"a\",\"rate_hz\":99}", 0, SONDE_EINVAL, "rate_hz" },
        { "{\"nam\":\"a\"}", 1, SONDE_EINVAL, "\"nam\"" },
        { "{\"name\":\"a b\"}", 1, SONDE_EINVAL, "a b" },
        { "{\"name\":\"12\"}", 1, SONDE_EINVAL, "12" },
        { "{\"name\":7}", 1, SONDE_EINVAL, "name" },
        { "{\"rate_hz\":0}", 1, SONDE_EINVAL, "rate_hz" },
        { "{\"rate_hz\":\"99\"}", 1, SONDE_EINVAL, "rate_hz" },
        { "{\"duration_seconds\":-1}", 1, SONDE_EINVAL, "duration_seconds" },
        { "{\"cpu\":1}", 1, SONDE_EINVAL, "cpu" },
        { "{\"cpu\":false,\"memory\":false}", 1, SONDE_EINVAL, "nothing" },
        { "{\"name\":\"a\",\"name\":\"b\"}", 1, SONDE_EINVAL, "JSON" },
        { "name=baseline", 1, SONDE_EINVAL, "JSON" }, { "[]", 1, SONDE_EINVAL, "object" },
        { "{\"name\":\"a\"", 1, SONDE_EINVAL, "JSON" }, { "{} x", 1, SONDE_EINVAL, "JSON" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_session_ask ask;
        struct sonde_err err = { "" };
        const int rc = sonde_session_body(cases[i].body, strlen(cases[i].body), cases[i].start,
                                          &ask, &err);
        if (rc != cases[i].rc) fail_msg("%s: %d %s", cases[i].body, rc, err.text);
        if (rc && !strstr(err.text, cases[i].says)) fail_msg("%s: %s", cases[i].body, err.text);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = { TEST(test_life),  TEST(test_names), TEST(test_duration),
                                        TEST(test_limit), TEST(test_range), TEST(test_body) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
