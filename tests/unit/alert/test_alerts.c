/* Alerts as a whole, without threads or with those of a command: settings that are refused, what is
 * told and listed, what the next agent finds in the state's file, order at a receiver that fails. */
#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "alert/alert_private.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char dir[64], path[128], out_path[128], command[512];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/sonde-alerts-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof(path), "%s/sub/state", dir);
    snprintf(out_path, sizeof(out_path), "%s/out", dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char text[256];
    snprintf(text, sizeof(text), "rm -rf '%s'", dir);
    return system(text);
}

static struct sonde_alerts *open_alerts(const struct sonde_alerts_options *o)
{
    struct sonde_alerts *a = NULL;
    struct sonde_err err = { "" };
    if (sonde_alerts_create(o, &a, &err)) fail_msg("%s", err.text);
    return a;
}

static json_t *list_of(struct sonde_alerts *a)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 16 << 20);
    sonde_alerts_json(a, &b);
    json_t *json = json_loadb(b.data, b.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(json);
    sonde_buf_release(&b);
    return json;
}

static int told(struct sonde_alerts *a, const char *kind, int firing)
{
    const struct sonde_label label = { "process", "p" };
    const struct sonde_alert_event e = { .kind = kind, .severity = SONDE_SEVERITY_CRITICAL,
                                         .labels = &label, .label_count = 1, .firing = firing,
                                         .summary = firing ? "it is so" : "it was so",
                                         .value = 4, .link = "/findings/1" };
    return sonde_alerts_tell(a, &e);
}

/* ---- Settings -------------------------------------------------------------------------------- */

static void refused(void **state)
{
    (void)state;
    const struct { struct sonde_alerts_options o; const char *says; } cases[] = {
        { { .webhook = "ftp://x" }, "alerts.webhook: 'ftp://x' is not a URL" },
        { { .webhook = "http://a:b@host/" }, "no user and password" },
        { { .webhook = "http://host/", .webhook_headers = "/no/such" }, "/no/such" },
        { { .webhook = "http://host/", .webhook_form = "pager" }, "'pager' is not one of" },
        { { .webhook = "http://host/", .token = "a\nb" }, "one line" },
        { { .command = "{}" }, "alerts.command is not a JSON array" },
        { { .command = "[\"page\"]" }, "full path" },
        { { .command = "[\"/bin/true\", 3]" }, "not a text" },
        { { .receivers = "[{}]" }, "alerts.receivers, number 1: \"kind\" is missing" },
        { { .receivers = "[{\"kind\":\"slack\"}]" }, "\"url\" is missing" },
        { { .receivers = "[{\"kind\":\"slack\",\"port\":1}]" }, "\"port\" is unknown" },
        { { .receivers = "[{\"kind\":\"slack\",\"url_file\":\"/no/such\"}]" }, "/no/such" },
        { { .receivers = "[{\"kind\":\"log\",\"name\":\"a\"},{\"kind\":\"log\",\"name\":\"a\"}]" },
          "number 2: there is a receiver 'a' already" },
        { { .rules = "[1]" }, "alerts.rules" },
        { { .mutes = "[1]" }, "alerts.mute" },
        { { .slo_target = 1 }, "slo_target" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_alerts *a = NULL;
        struct sonde_err err = { "" };
        assert_int_equal(sonde_alerts_create(&cases[i].o, &a, &err), SONDE_EINVAL);
        assert_null(a);
        if (!strstr(err.text, cases[i].says)) fail_msg("case %zu: %s", i, err.text);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A URL may be a secret: no error shows more than its host. */
static void secrets(void **state)
{
    (void)state;
    struct sonde_alerts *a = NULL;
    struct sonde_err err = { "" };
    const struct sonde_alerts_options bad = { .webhook = "http://[host/T0/secret" };
    assert_int_equal(sonde_alerts_create(&bad, &a, &err), SONDE_EINVAL);
    assert_null(strstr(err.text, "secret"));
    const struct sonde_alerts_options good = { .webhook = "https://host:8443/T0/secret?k=secret" };
    a = open_alerts(&good);
    json_t *list = list_of(a);
    const json_t *r = json_array_get(json_object_get(list, "receivers"), 0);
    assert_string_equal(json_string_value(json_object_get(r, "to")), "https://host:8443");
    json_decref(list);
    sonde_alerts_destroy(a);
}

/* ---- Telling and listing --------------------------------------------------------------------- */

static void listed(void **state)
{
    (void)state;
    const struct sonde_alerts_options o = { .log = 1, .severity_min = SONDE_SEVERITY_INFO };
    struct sonde_alerts *a = open_alerts(&o);
    assert_int_equal(told(NULL, "x", 1), 0);
    assert_int_equal(told(a, "no kind", 1), SONDE_EINVAL);
    assert_int_equal(told(a, "never", 0), 0); /* over before it began: nothing */
    assert_int_equal(told(a, "leak", 1), 0);
    assert_int_equal(told(a, "leak", 1), 0);
    assert_int_equal(told(a, "slow", 1), 0);
    assert_int_equal(told(a, "slow", 0), 0);
    json_t *list = list_of(a);
    const json_t *alerts = json_object_get(list, "alerts");
    assert_int_equal(json_array_size(alerts), 2);
    const json_t *first = json_array_get(alerts, 0), *second = json_array_get(alerts, 1);
    assert_string_equal(json_string_value(json_object_get(first, "kind")), "leak");
    assert_string_equal(json_string_value(json_object_get(first, "state")), "firing");
    assert_string_equal(json_string_value(json_object_get(first, "link")), "/findings/1");
    assert_string_equal(json_string_value(json_object_get(second, "state")), "resolved");
    assert_string_equal(json_string_value(json_object_get(second, "summary")), "it was so");
    const json_t *r = json_array_get(json_object_get(list, "receivers"), 0);
    assert_int_equal(json_integer_value(json_object_get(r, "queued")), 3);
    json_decref(list);
    assert_int_equal(sonde_alerts_firing(a, SONDE_SEVERITY_CRITICAL), 1);
    struct sonde_err err = { "" };
    uint64_t id = 0;
    assert_int_equal(sonde_alerts_mute(a, "{\"labels\":{\"kind\":\"leak\"}}", 26, &id, &err), 0);
    assert_int_equal(sonde_alerts_firing(a, SONDE_SEVERITY_INFO), 0);
    assert_int_equal(sonde_alerts_unmute(a, id, &err), 0);
    assert_int_equal(sonde_alerts_unmute(a, id, &err), SONDE_ENOENT);
    assert_int_equal(sonde_alerts_firing(a, SONDE_SEVERITY_INFO), 1);
    sonde_alerts_destroy(a);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void queue_is_bounded(void **state)
{
    (void)state;
    /* A receiver that is never started takes nothing; mutes off, each turn is one notification. */
    const struct sonde_alerts_options o = { .webhook = "http://127.0.0.1:9/" };
    struct sonde_alerts *a = open_alerts(&o);
    for (int i = 0; i < ALERT_QUEUE_MAX + 50; i++) told(a, "k", i % 2 == 0);
    json_t *list = list_of(a);
    const json_t *r = json_array_get(json_object_get(list, "receivers"), 0);
    assert_int_equal(json_integer_value(json_object_get(r, "queued")), ALERT_QUEUE_MAX);
    assert_int_equal(json_integer_value(json_object_get(r, "dropped")), 50);
    json_decref(list);
    sonde_alerts_destroy(a);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* ---- The state's file ------------------------------------------------------------------------ */

static void kept(void **state)
{
    (void)state;
    const struct sonde_alerts_options o = { .webhook = "http://127.0.0.1:9/", .state = path };
    const double now = sonde_clock_s(CLOCK_REALTIME);
    struct sonde_alerts *a = open_alerts(&o);
    struct sonde_err err = { "" };
    told(a, "leak", 1);
    sonde_alerts_step(a, now);
    assert_int_equal(sonde_alerts_mute(a, "{\"labels\":{\"kind\":\"z\"}}", 23, NULL, &err), 0);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    /* A second agent has no use of it, and goes on in memory. */
    struct sonde_alerts *second = open_alerts(&o);
    assert_null(second->state);
    sonde_alerts_destroy(second);
    const char *id = a->first->notice.id;
    char before[64];
    snprintf(before, sizeof(before), "%s", id);
    sonde_alerts_destroy(a); /* as if killed: nothing more is written */

    a = open_alerts(&o);
    assert_int_equal(a->table.count, 1);
    assert_int_equal(a->queued, 1);
    assert_string_equal(a->first->notice.id, before);
    assert_int_equal(a->mutes.count, 1);
    told(a, "leak", 1); /* it is known, and told: nothing new */
    assert_int_equal(a->queued, 1);
    told(a, "leak", 0);
    assert_int_equal(a->queued, 2);
    assert_non_null(strstr(a->first->next->notice.id, "-resolved"));
    assert_memory_equal(a->first->next->notice.id, before, 24); /* of the same episode */
    sonde_alerts_step(a, now);
    sonde_alerts_destroy(a);

    /* Another receiver instead: what was for the old one is gone, the alert is not. */
    const struct sonde_alerts_options other = { .log = 1, .state = path };
    a = open_alerts(&other);
    assert_int_equal(a->queued, 0);
    assert_int_equal(a->table.count, 1);
    sonde_alerts_destroy(a);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void damaged(void **state)
{
    (void)state;
    const struct sonde_alerts_options o = { .webhook = "http://127.0.0.1:9/", .state = path };
    struct sonde_alerts *a = open_alerts(&o);
    told(a, "leak", 1);
    sonde_alerts_step(a, sonde_clock_s(CLOCK_REALTIME));
    sonde_alerts_destroy(a);
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 1 << 20);
    assert_int_equal(sonde_file_read(path, &b, &err), 0);
    for (size_t i = 0; i < b.len; i += 5) {
        b.data[i] ^= 0x41;
        assert_int_equal(sonde_file_replace(path, b.data, b.len, &err), 0);
        b.data[i] ^= 0x41;
        a = open_alerts(&o); /* the check sum says so: it begins anew */
        assert_int_equal(a->table.count, 0);
        assert_int_equal(a->queued, 0);
        sonde_alerts_destroy(a);
    }
    sonde_buf_release(&b);
}

/* ---- With threads ---------------------------------------------------------------------------- */

/* Up to a minute. */
static int lines_in(const char *file, int wanted)
{
    int n = 0;
    for (int tries = 0; tries < 6000; tries++) {
        struct sonde_buf b;
        sonde_buf_init(&b, 1 << 20);
        n = 0;
        if (sonde_file_read(file, &b, NULL) == 0) {
            for (size_t i = 0; i < b.len; i++) n += b.data[i] == '\n';
        }
        sonde_buf_release(&b);
        if (n >= wanted) break;
        usleep(10000);
    }
    return n;
}

/* Fails twice, then takes them: in order, each once, and the try that failed is known. */
static void command_that_fails(void **state)
{
    (void)state;
    snprintf(command, sizeof(command),
             "[\"/bin/sh\",\"-c\",\"n=$(cat %s/n 2>/dev/null || echo 0); echo $((n+1)) >%s/n; "
             "if [ $n -lt 2 ]; then echo not yet >&2; exit 3; fi; "
             "echo $SONDE_ALERT_STATE $SONDE_ALERT_KIND >>%s\"]", dir, dir, out_path);
    const struct sonde_alerts_options o = { .command = command, .state = path, .interval_s = 0.05 };
    struct sonde_alerts *a = open_alerts(&o);
    struct sonde_err err = { "" };
    assert_int_equal(sonde_alerts_start(a, &err), 0);
    told(a, "one", 1);
    told(a, "two", 1);
    told(a, "one", 0);
    assert_int_equal(lines_in(out_path, 3), 3);
    sonde_alerts_stop(a, 10);
    struct sonde_buf b;
    sonde_buf_init(&b, 4096);
    sonde_file_read(out_path, &b, NULL);
    assert_string_equal(b.data, "firing one\nfiring two\nresolved one\n");
    sonde_buf_release(&b);
    assert_int_equal(a->queued, 0);
    assert_int_equal(a->sender[0].counts.outcome[ALERT_FAILED], 2);
    assert_int_equal(a->sender[0].counts.outcome[ALERT_SENT], 3);
    assert_non_null(strstr(a->sender[0].counts.last_error, "exited with 3: not yet"));
    sonde_alerts_destroy(a);
    a = open_alerts(&o); /* what was taken is not in the file any more */
    assert_int_equal(a->queued, 0);
    sonde_alerts_destroy(a);
}

static void command_that_hangs(void **state)
{
    (void)state;
    const struct sonde_alerts_options o = { .command = "[\"/bin/sh\",\"-c\",\"sleep 1000 & wait\"]",
                                            .timeout_s = 0.3 };
    struct sonde_alerts *a = open_alerts(&o);
    struct sonde_alerts_tried tried[2];
    const double start = sonde_clock_s(CLOCK_MONOTONIC);
    assert_int_equal(sonde_alerts_test(a, tried, 2), 1);
    assert_int_equal(tried[0].ok, 0);
    assert_non_null(strstr(tried[0].text, "longer than 0.3 s and was killed"));
    assert_true(sonde_clock_s(CLOCK_MONOTONIC) - start < 60);
    sonde_alerts_destroy(a);
    /* Output without end, input unread, a program that is not there. */
    const struct sonde_alerts_options loud = { .command = "[\"/usr/bin/yes\"]", .timeout_s = 0.3 };
    a = open_alerts(&loud);
    sonde_alerts_test(a, tried, 2);
    assert_non_null(strstr(tried[0].text, "killed")); /* and what it said, if it got that far */
    sonde_alerts_destroy(a);
    const struct sonde_alerts_options none = { .command = "[\"/no/such\"]" };
    a = open_alerts(&none);
    sonde_alerts_test(a, tried, 2);
    /* Under valgrind a spawned child exists before it is known that it cannot be executed. */
    assert_true(strstr(tried[0].text, "cannot start /no/such") || strstr(tried[0].text, "127"));
    sonde_alerts_reach(a, tried, 2);
    assert_int_equal(tried[0].ok, 0);
    sonde_alerts_destroy(a);
}

/* Stopping does not wait for a receiver that hangs; what was not taken is kept. */
static void stop_in_time(void **state)
{
    (void)state;
    const struct sonde_alerts_options o = { .command = "[\"/bin/sleep\",\"1000\"]", .timeout_s = 500,
                                            .state = path, .interval_s = 0.05 };
    struct sonde_alerts *a = open_alerts(&o);
    struct sonde_err err = { "" };
    assert_int_equal(sonde_alerts_start(a, &err), 0);
    told(a, "one", 1);
    usleep(100000);
    const double start = sonde_clock_s(CLOCK_MONOTONIC);
    sonde_alerts_stop(a, 0.2);
    assert_true(sonde_clock_s(CLOCK_MONOTONIC) - start < 60);
    sonde_alerts_destroy(a);
    a = open_alerts(&o);
    assert_int_equal(a->queued, 1);
    sonde_alerts_destroy(a);
}

/* ---- The model ------------------------------------------------------------------------------- */

static void model_and_restart(void **state)
{
    (void)state;
    struct sonde_model *m;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    const struct sonde_model_family_spec spec = { .name = "level", .type = SONDE_GAUGE };
    struct sonde_model_series *s = sonde_model_own_series(m, &spec, NULL, NULL, 0);
    const struct sonde_alerts_options o = {
        .webhook = "http://127.0.0.1:9/", .state = path, .model = m,
        .rules = "[{\"name\":\"high\",\"series\":\"level\",\"above\":10,\"for_seconds\":2,"
                 "\"keep_seconds\":0}]",
    };
    struct sonde_alerts *a = open_alerts(&o);
    double now = sonde_clock_s(CLOCK_REALTIME);
    s->gauge = 20;
    for (int i = 0; i < 4; i++, now += 1) {
        sonde_model_tick(m, now);
        sonde_alerts_step(a, now);
    }
    assert_int_equal(sonde_alerts_firing(a, SONDE_SEVERITY_INFO), 1);
    assert_int_equal(a->queued, 1);
    sonde_alerts_destroy(a);
    sonde_model_destroy(m);

    /* The next agent does not have the series yet: the alert stays for a minute, then it ends. */
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_alerts_options next = o;
    next.model = m;
    a = open_alerts(&next);
    sonde_model_tick(m, now);
    sonde_alerts_step(a, now);
    assert_int_equal(sonde_alerts_firing(a, SONDE_SEVERITY_INFO), 1);
    now += 120;
    sonde_model_tick(m, now);
    sonde_alerts_step(a, now);
    assert_int_equal(sonde_alerts_firing(a, SONDE_SEVERITY_INFO), 0);
    assert_int_equal(a->queued, 2);
    sonde_alerts_destroy(a);

    /* A rule that is no longer there ends at once. */
    unlink(path);
    a = open_alerts(&o);
    a->model = NULL;
    struct alert_entry *e;
    const struct sonde_alert_event event = { .kind = "old", .severity = SONDE_SEVERITY_INFO,
                                             .summary = "x", .firing = 1, .time_s = now };
    assert_int_equal(alert_table_tell(&a->table, &event, ALERT_RULE, 0, &e), 0);
    sonde_alerts_step(a, now);
    a->model = m;
    sonde_model_tick(m, now + 1);
    sonde_alerts_step(a, now + 1);
    assert_int_equal(e->state, ALERT_RESOLVED);
    sonde_alerts_destroy(a);
    sonde_model_destroy(m);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void no_memory(void **state)
{
    (void)state;
    const struct sonde_alerts_options o = {
        .webhook = "http://127.0.0.1:9/", .state = path, .log = 1, .command = "[\"/bin/true\"]",
        .rules = "[{\"name\":\"a\",\"series\":\"b\",\"above\":1}]",
        .mutes = "[{\"labels\":{\"a\":\"b\"}}]",
    };
    struct sonde_alerts *a = open_alerts(&o);
    told(a, "leak", 1);
    sonde_alerts_step(a, sonde_clock_s(CLOCK_REALTIME));
    sonde_alerts_destroy(a);
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 300; nth++) {
        struct sonde_err err = { "" };
        a = NULL;
        sonde__alloc_fail_nth(nth);
        rc = sonde_alerts_create(&o, &a, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        assert_true((a != NULL) == (rc == 0));
        sonde_alerts_destroy(a);
        assert_int_equal(sonde__alloc_live(), 0);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),        cmocka_unit_test(secrets),
        cmocka_unit_test(listed),         cmocka_unit_test(queue_is_bounded),
        WITH_FOLDER(kept),                WITH_FOLDER(damaged),
        WITH_FOLDER(command_that_fails),  cmocka_unit_test(command_that_hangs),
        WITH_FOLDER(stop_in_time),        WITH_FOLDER(model_and_restart),
        WITH_FOLDER(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
