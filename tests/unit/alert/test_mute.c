/* Muting: hours of the week against every minute of it, times, globs on labels, what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "alert/mute.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define NOW 1700000000.0

/* Minutes of the week, from Sunday 00:00, that lie in it. */
static int minutes_in(const char *text)
{
    struct alert_hours h[ALERT_MUTE_HOURS_MAX];
    uint32_t count;
    struct sonde_err err = { "" };
    if (alert_hours_parse(text, h, &count, &err)) fail_msg("%s: %s", text, err.text);
    int n = 0;
    for (int m = 0; m < 7 * 1440; m++) {
        const struct tm tm = { .tm_wday = m / 1440, .tm_hour = m / 60 % 24, .tm_min = m % 60 };
        int in = 0;
        for (uint32_t i = 0; i < count; i++) in |= alert_hours_has(&h[i], &tm);
        n += in;
    }
    return n;
}

static int has(const char *text, int day, int hour, int minute)
{
    struct alert_hours h[ALERT_MUTE_HOURS_MAX];
    uint32_t count;
    const struct tm tm = { .tm_wday = day, .tm_hour = hour, .tm_min = minute };
    assert_int_equal(alert_hours_parse(text, h, &count, NULL), 0);
    for (uint32_t i = 0; i < count; i++) {
        if (alert_hours_has(&h[i], &tm)) return 1;
    }
    return 0;
}

static void hours(void **state)
{
    (void)state;
    assert_int_equal(minutes_in("Mon"), 1440);
    assert_int_equal(minutes_in("Mon-Sun"), 7 * 1440);
    assert_int_equal(minutes_in("Sat,Sun"), 2 * 1440);
    assert_int_equal(minutes_in("Fri-Mon"), 4 * 1440);
    assert_int_equal(minutes_in("Mon-Fri 09:00-17:30"), 5 * 510);
    assert_int_equal(minutes_in("Mon 22:00-06:00"), 480);
    assert_int_equal(minutes_in("Sat 22:00-06:00"), 480); /* into the next week */
    assert_int_equal(minutes_in("Mon 00:00-24:00"), 1440);
    assert_int_equal(minutes_in("Mon-Sun 22:00-06:00"), 7 * 480);
    assert_int_equal(minutes_in("mon,wed 1:00-2:00; Sat"), 120 + 1440);
    assert_true(has("Mon 22:00-06:00", 1, 22, 0) && has("Mon 22:00-06:00", 2, 5, 59));
    assert_false(has("Mon 22:00-06:00", 1, 21, 59) || has("Mon 22:00-06:00", 2, 6, 0) ||
                 has("Mon 22:00-06:00", 1, 3, 0));
    static const char *const bad[] = { "", "Mo", "Monday", "Mon-", "Mon 9-17", "Mon 09:00",
                                       "Mon 09:00-25:00", "Mon 09:00-10:60", "Mon 24:00-06:00",
                                       "Mon 09:00-10:00 x", "Mon;", "Mon;;Tue", "Mon,", ",Mon",
                                       "Mon;Mon;Mon;Mon;Mon;Mon;Mon;Mon;Mon" };
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct alert_hours h[ALERT_MUTE_HOURS_MAX];
        uint32_t count;
        struct sonde_err err = { "" };
        if (alert_hours_parse(bad[i], h, &count, &err) != SONDE_EINVAL) fail_msg("'%s'", bad[i]);
        assert_non_null(strstr(err.text, "weekly"));
    }
}

static struct alert_subject subject(struct sonde_label *labels, size_t count)
{
    struct alert_subject s = { .severity = SONDE_SEVERITY_WARNING, .labels = { labels, count } };
    strcpy(s.kind, "memory");
    return s;
}

static void globs(void **state)
{
    (void)state;
    struct sonde_label labels[] = { { "pid", "7" }, { "process", "llama-server" } };
    const struct alert_subject what = subject(labels, 2);
    static const struct { const char *body; int matches; } cases[] = {
        { "{}", 1 },
        { "{\"labels\":{}}", 1 },
        { "{\"labels\":{\"kind\":\"memory\"}}", 1 },
        { "{\"labels\":{\"kind\":\"mem*\",\"severity\":\"warning\"}}", 1 },
        { "{\"labels\":{\"kind\":\"mem*\",\"severity\":\"critical\"}}", 0 },
        { "{\"labels\":{\"process\":\"llama*\",\"pid\":\"7\"}}", 1 },
        { "{\"labels\":{\"process\":\"llama*\",\"pid\":\"8\"}}", 0 },
        { "{\"labels\":{\"absent\":\"\"}}", 1 },
        { "{\"labels\":{\"absent\":\"?*\"}}", 0 },
        { "{\"from\":1700000001}", 0 },
        { "{\"from\":1700000000}", 1 },
        { "{\"from\":1600000000,\"to\":1700000001}", 1 },
        { "{\"to\":1700000000}", 0 },
        { "{\"seconds\":1}", 1 },
        { "{\"weekly\":\"Tue 22:00-23:00\"}", 1 }, /* of the time below */
        { "{\"weekly\":\"Tue 22:00-23:00\",\"labels\":{\"kind\":\"cpu\"}}", 0 },
        { "{\"weekly\":\"Wed\"}", 0 },
        { "{\"comment\":\"why\",\"to\":null}", 1 },
    };
    const struct tm local = { .tm_wday = 2, .tm_hour = 22, .tm_min = 13 };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct alert_mutes m = { 0 };
        struct sonde_err err = { "" };
        uint64_t id = 0;
        const char *body = cases[i].body;
        if (alert_mutes_add(&m, body, strlen(body), NOW, &id, &err)) fail_msg("%s: %s", body, err.text);
        if (alert_mutes_match(&m, &what, NOW, &local) != (cases[i].matches ? id : 0)) {
            fail_msg("%s", body);
        }
        alert_mutes_release(&m);
    }
}

static void refused(void **state)
{
    (void)state;
    static const struct { const char *body, *says; } cases[] = {
        { "", "JSON" }, { "[]", "object" }, { "{\"until\":1}", "until" }, { "{\"to\":\"x\"}", "to" },
        { "{\"to\":-1}", "to" }, { "{\"seconds\":0}", "seconds" }, { "{\"labels\":[]}", "labels" },
        { "{\"labels\":{\"a\":1}}", "labels" }, { "{\"weekly\":3}", "weekly" },
        { "{\"weekly\":\"never\"}", "weekly" }, { "{\"from\":5,\"to\":5}", "after" },
        { "{\"to\":1800000000,\"seconds\":5}", "same" }, { "{\"to\":1,\"to\":2}", "JSON" },
        { "{\"labels\":{\"a\":\"\",\"b\":\"\",\"c\":\"\",\"d\":\"\",\"e\":\"\",\"f\":\"\","
          "\"g\":\"\",\"h\":\"\",\"i\":\"\"}}", "more than" },
    };
    struct alert_mutes m = { 0 };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_err err = { "" };
        if (alert_mutes_add(&m, cases[i].body, strlen(cases[i].body), NOW, NULL, &err) !=
            SONDE_EINVAL) {
            fail_msg("taken: %s", cases[i].body);
        }
        if (!strstr(err.text, cases[i].says)) fail_msg("%s: %s", cases[i].body, err.text);
    }
    assert_int_equal(m.count, 0);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void list(void **state)
{
    (void)state;
    struct alert_mutes m = { 0 }, again = { 0 };
    struct sonde_err err = { "" };
    uint64_t id = 0, other = 0;
    assert_int_equal(alert_mutes_parse(&m, "[{\"weekly\":\"Sun\"},{\"comment\":\"b\"}]", NOW, &err), 0);
    assert_int_equal(alert_mutes_add(&m, "{\"seconds\":10}", 14, NOW, &id, &err), 0);
    static const char saturdays[] = "{\"weekly\":\"Sat\",\"labels\":{\"kind\":\"x\"}}";
    assert_int_equal(alert_mutes_add(&m, saturdays, strlen(saturdays), NOW, &other, &err), 0);
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 16);
    struct sonde_state s = { .to = &b };
    alert_mutes_state(&s, &m);
    s = (struct sonde_state){ .from = (const unsigned char *)b.data, .len = b.len };
    alert_mutes_parse(&again, "[{\"comment\":\"c\"}]", NOW, &err);
    alert_mutes_state(&s, &again);
    assert_int_equal(s.bad, 0);
    assert_int_equal(again.count, 3); /* those of the settings are as the settings are */
    assert_int_equal(again.at[2].id, other);
    assert_string_equal(again.at[2].weekly, "Sat");
    assert_int_equal(again.at[2].labels.count, 1);
    assert_int_equal(alert_mutes_remove(&again, again.at[0].id, &err), SONDE_EACCES);
    assert_int_equal(alert_mutes_remove(&again, 999, &err), SONDE_ENOENT);
    assert_int_equal(alert_mutes_tidy(&again, NOW + 9), 0);
    assert_int_equal(alert_mutes_tidy(&again, NOW + 10), 1);
    assert_int_equal(again.count, 2);
    uint64_t next = 0;
    assert_int_equal(alert_mutes_add(&again, "{}", 2, NOW, &next, &err), 0);
    assert_true(next > other); /* a number is not used again */
    assert_int_equal(alert_mutes_remove(&again, other, &err), 0);
    alert_mutes_release(&again);
    alert_mutes_release(&m);
    sonde_buf_release(&b);
    assert_int_equal(alert_mutes_parse(&m, "[{\"a\":1}]", NOW, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "number 1"));
    alert_mutes_release(&m);
    for (int i = 0; i <= ALERT_MUTES_MAX; i++) {
        assert_int_equal(alert_mutes_add(&m, "{}", 2, NOW, NULL, &err),
                         i < ALERT_MUTES_MAX ? 0 : SONDE_EFULL);
    }
    alert_mutes_release(&m);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hours), cmocka_unit_test(globs), cmocka_unit_test(refused),
        cmocka_unit_test(list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
