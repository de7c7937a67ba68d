/* Rules: what is taken and refused, limits with their way back, and what they find in a model. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "alert/rule.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct alert_rule_defaults defaults = { 60, 30 };

static void parsed(void **state)
{
    (void)state;
    struct alert_rules r = { 0 };
    struct sonde_err err = { "" };
    assert_int_equal(alert_rules_parse(&r, "", &defaults, &err), 0);
    assert_int_equal(alert_rules_parse(&r, "[]", &defaults, &err), 0);
    const char text[] =
        "[{\"name\":\"memory\",\"series\":\"system_memory_usage_percent\",\"above\":90},"
        "{\"name\":\"p95\",\"series\":\"x_seconds\",\"labels\":{\"a\":\"b*\"},\"function\":\"p95\","
        "\"window_seconds\":30,\"above\":0.5,\"clear\":0.4,\"for_seconds\":5,\"keep_seconds\":0,"
        "\"severity\":\"critical\"},"
        "{\"name\":\"ratio\",\"series\":\"bad_*\",\"per\":{\"series\":\"all\",\"labels\":{\"c\":"
        "\"d\"}},\"by\":[\"process\"],\"below\":0.5,\"min_count\":100,\"severity\":\"low\"}]";
    if (alert_rules_parse(&r, text, &defaults, &err)) fail_msg("%s", err.text);
    assert_int_equal(r.count, 3);
    assert_true(r.at[0].for_s == 60 && r.at[0].keep_s == 30 && r.at[0].window_s == 60);
    assert_true(r.at[0].severity == SONDE_SEVERITY_WARNING && r.at[0].function == ALERT_LAST);
    assert_true(isnan(r.at[0].below) && isnan(r.at[0].clear));
    assert_true(r.at[1].function == ALERT_P95 && r.at[1].for_s == 5 && r.at[1].keep_s == 0);
    assert_int_equal(r.at[1].of.labels.count, 1);
    assert_true(r.at[2].function == ALERT_RATIO && r.at[2].of.glob && !r.at[2].per.glob);
    assert_true(r.at[2].severity == SONDE_SEVERITY_INFO && r.at[2].count_min == 100);
    assert_ptr_equal(alert_rules_find(&r, "p95"), &r.at[1]);
    alert_rules_release(&r);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void refused(void **state)
{
    (void)state;
    static const struct { const char *text, *says; } cases[] = {
        { "{}", "array" }, { "[", "array" }, { "[3]", "number 1: not an object" },
        { "[{\"series\":\"x\",\"above\":1}]", "\"name\" is missing" },
        { "[{\"name\":\"a b\",\"series\":\"x\",\"above\":1}]", "\"name\"" },
        { "[{\"name\":\"a\",\"above\":1}]", "(a): \"series\" is missing" },
        { "[{\"name\":\"a\",\"series\":\"x\"}]", "above" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":\"1\"}]", "\"above\" is not a number" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"below\":1}]", "not less" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"clear\":2}]", "wrong side" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"below\":1,\"clear\":0.5}]", "wrong side" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":2,\"below\":1,\"clear\":1}]", "one limit" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"function\":\"mean\"}]", "function" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"function\":\"ratio\"}]", "function" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"severity\":\"bad\"}]", "severity" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"limit\":1}]", "\"limit\" is unknown" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"by\":[\"p\"]}]", "need \"per\"" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"per\":\"y\"}]", "per" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"per\":{\"series\":\"y\",\"z\":1}}]", "z" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"labels\":{\"a\":1}}]", "labels" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1,\"for_seconds\":-1}]", "for_seconds" },
        { "[{\"name\":\"a\",\"series\":\"x\",\"above\":1},{\"name\":\"a\",\"series\":\"y\","
          "\"above\":1}]", "number 2 (a): there is a rule 'a' already" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct alert_rules r = { 0 };
        struct sonde_err err = { "" };
        if (alert_rules_parse(&r, cases[i].text, &defaults, &err) != SONDE_EINVAL) {
            fail_msg("taken: %s", cases[i].text);
        }
        if (!strstr(err.text, cases[i].says)) fail_msg("%s: %s", cases[i].text, err.text);
        alert_rules_release(&r);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void limits(void **state)
{
    (void)state;
    static const struct { double above, below, clear, v; int firing, holds; } cases[] = {
        { 90, NAN, NAN, 90, 0, 0 }, { 90, NAN, NAN, 90.1, 0, 1 }, { 90, NAN, NAN, 89, 1, 0 },
        { 90, NAN, 85, 87, 0, 0 },  { 90, NAN, 85, 87, 1, 1 },    { 90, NAN, 85, 85, 1, 0 },
        { NAN, 10, NAN, 9, 0, 1 },  { NAN, 10, NAN, 10, 0, 0 },   { NAN, 10, 12, 11, 1, 1 },
        { NAN, 10, 12, 12, 1, 0 },  { 90, 10, NAN, 50, 1, 0 },    { 90, 10, NAN, 5, 0, 1 },
        { 90, 10, NAN, 95, 0, 1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct alert_rule r = { .above = cases[i].above, .below = cases[i].below,
                                      .clear = cases[i].clear };
        if (alert_rule_holds(&r, cases[i].v, cases[i].firing) != cases[i].holds) {
            fail_msg("case %zu", i);
        }
    }
}

/* ---- Against a model ------------------------------------------------------------------------- */

static struct sonde_model *model;
static struct alert_table table;
static struct alert_rules rules;

static int setup(void **state)
{
    (void)state;
    return sonde_model_create(NULL, &model);
}

static int teardown(void **state)
{
    (void)state;
    alert_table_release(&table);
    alert_rules_release(&rules);
    sonde_model_destroy(model);
    return 0;
}

static struct sonde_model_series *make(const char *name, enum sonde_type type,
                                       struct sonde_model_process *p, const char *label,
                                       const char *value)
{
    const struct sonde_model_family_spec spec = { .name = name, .type = type };
    const struct sonde_label l = { label, value };
    return sonde_model_own_series(model, &spec, p, &l, label ? 1 : 0);
}

static void use(const char *text)
{
    struct sonde_err err = { "" };
    alert_rules_release(&rules);
    alert_table_release(&table);
    if (alert_rules_parse(&rules, text, &defaults, &err)) fail_msg("%s", err.text);
}

/* Whether an alert of that key is active, and its value. */
static int look(double now_s, const char *key, double *value)
{
    alert_rules_look(&rules, model, &table, 1, now_s);
    const struct alert_entry *e = alert_table_find(&table, key);
    if (value) *value = e ? e->what.value : NAN;
    return e && e->active;
}

static void gauges_and_counters(void **state)
{
    (void)state;
    struct sonde_model_process *p = sonde_model_process(model, 7, 1, "prog");
    struct sonde_model_series *g = make("level", SONDE_GAUGE, p, "tank", "a");
    struct sonde_model_series *c = make("events_total", SONDE_COUNTER, NULL, NULL, NULL);
    double v;
    for (int i = 1; i <= 20; i++) {
        g->gauge = i;
        c->counter += (uint64_t)(i > 10 ? 50 : 5);
        sonde_model_tick(model, 1000 + i);
    }
    use("[{\"name\":\"r\",\"series\":\"level\",\"above\":15}]");
    assert_true(look(1020, "r||pid=7|process=prog|tank=a", &v) && v == 20);
    assert_int_equal(rules.at[0].matched, 1);
    use("[{\"name\":\"r\",\"series\":\"level\",\"above\":15,\"function\":\"avg\"}]");
    assert_false(look(1020, "r||pid=7|process=prog|tank=a", NULL));
    assert_true(rules.at[0].value == 10.5);
    use("[{\"name\":\"r\",\"series\":\"level\",\"above\":15,\"labels\":{\"tank\":\"b*\"}}]");
    assert_false(look(1020, "r||pid=7|process=prog|tank=a", NULL));
    assert_int_equal(rules.at[0].matched, 0);
    use("[{\"name\":\"r\",\"series\":\"lev*\",\"above\":15}]");
    assert_true(look(1020, "r||pid=7|process=prog|series=level|tank=a", NULL));
    use("[{\"name\":\"r\",\"series\":\"level\",\"above\":0,\"function\":\"rate\"}]");
    look(1020, "r", NULL);
    assert_int_equal(rules.at[0].matched, 0); /* a gauge has no rate */
    use("[{\"name\":\"r\",\"series\":\"events_total\",\"above\":40,\"function\":\"rate\","
        "\"window_seconds\":5}]");
    assert_true(look(1020, "r|", &v) && fabs(v - 50) < 1e-9);
    use("[{\"name\":\"r\",\"series\":\"events_total\",\"above\":540,\"function\":\"increase\"}]");
    assert_true(look(1020, "r|", &v) && fabs(v - 550) < 1e-9);
    use("[{\"name\":\"r\",\"series\":\"no_such\",\"above\":0}]");
    assert_false(look(1020, "r|", NULL));
    /* A process that has ended has no level. */
    use("[{\"name\":\"r\",\"series\":\"level\",\"above\":15}]");
    p->state = SONDE_PROCESS_EXITED;
    assert_false(look(1020, "r||pid=7|process=prog|tank=a", NULL));
}

static void histograms(void **state)
{
    (void)state;
    const struct sonde_model_family_spec spec = { .name = "took_seconds", .type = SONDE_HISTOGRAM,
                                                  .scale = 1e-9 };
    struct sonde_model_series *h = sonde_model_own_series(model, &spec, NULL, NULL, 0);
    double v;
    for (int i = 1; i <= 10; i++) {
        sonde_model_record(h, 100000000, 9);   /* 0.1 s */
        sonde_model_record(h, 2000000000, 1);  /* 2 s */
        sonde_model_tick(model, 1000 + i);
    }
    use("[{\"name\":\"r\",\"series\":\"took_seconds\",\"above\":1,\"function\":\"p95\"}]");
    assert_true(look(1010, "r|", &v) && fabs(v - 2) < 0.02);
    use("[{\"name\":\"r\",\"series\":\"took_seconds\",\"above\":1,\"function\":\"p50\"}]");
    assert_false(look(1010, "r|", &v));
    assert_true(fabs(rules.at[0].value - 0.1) < 0.001);
}

static void quotients(void **state)
{
    (void)state;
    struct sonde_model_series *bad = make("errors_total", SONDE_COUNTER, NULL, "model", "a");
    struct sonde_model_series *all_a = make("requests_total", SONDE_COUNTER, NULL, "model", "a");
    struct sonde_model_series *all_b = make("requests_total", SONDE_COUNTER, NULL, "model", "b");
    struct sonde_model_series *few = make("requests_total", SONDE_COUNTER, NULL, "model", "few");
    double v;
    for (int i = 1; i <= 10; i++) {
        bad->counter += 2;
        all_a->counter += 10;
        all_b->counter += 30;
        few->counter += 1;
        sonde_model_tick(model, 1000 + i);
    }
    const char by[] = "[{\"name\":\"r\",\"series\":\"errors_total\",\"per\":{\"series\":"
                      "\"requests_total\"},\"by\":[\"model\"],\"above\":0.1,\"min_count\":20}]";
    use(by);
    assert_true(look(1010, "r||model=a", &v) && fabs(v - 0.2) < 1e-12);
    assert_false(look(1010, "r||model=b", NULL)); /* no errors: 0, which is a value */
    assert_int_equal(rules.at[0].matched, 2);     /* few has too few */
    const char in_all[] = "[{\"name\":\"r\",\"series\":\"errors_total\",\"per\":{\"series\":"
                          "\"requests_total\"},\"above\":0.01}]";
    use(in_all);
    assert_true(look(1010, "r|", &v) && fabs(v - 20.0 / 410) < 1e-12);
    for (int i = 11; i <= 80; i++) sonde_model_tick(model, 1000 + i);
    assert_true(look(1080, "r|", NULL)); /* nothing in the window: no value, nothing told … */
    assert_int_equal(rules.at[0].matched, 0); /* … who looks on clears it (alerts.c) */
}

static void shipped(void **state)
{
    (void)state;
    const struct sonde_alert_shipped limits_of = { 90, 90, 90, 0.05, 0.5 };
    const struct sonde_alert_shipped some = { 0, 80, 0, 0, 0 };
    struct sonde_err err = { "" };
    if (alert_rules_ship(&rules, &limits_of, &defaults, &err)) fail_msg("%s", err.text);
    assert_int_equal(rules.count, 6);
    static const char *const names[] = { "cpu", "memory", "disk", "error_rate",
                                         "operation_error_rate", "cache_hit_rate" };
    for (size_t i = 0; i < COUNT(names); i++) {
        assert_string_equal(rules.at[i].name, names[i]);
        assert_int_equal(rules.at[i].shipped, 1);
    }
    /* A rule of the user's with such a name is an error that says so. */
    assert_int_equal(alert_rules_parse(&rules, "[{\"name\":\"cpu\",\"series\":\"x\",\"above\":1}]",
                                       &defaults, &err), SONDE_EINVAL);
    alert_rules_release(&rules);
    assert_int_equal(alert_rules_ship(&rules, &some, &defaults, &err), 0);
    assert_int_equal(rules.count, 1);
    assert_true(rules.at[0].above == 80 && fabs(rules.at[0].clear - 76) < 1e-9);
    alert_rules_release(&rules);
    /* The cache's, on what sonde_cache_access() counts. */
    assert_int_equal(alert_rules_ship(&rules, &limits_of, &defaults, &err), 0);
    const struct sonde_model_family_spec spec = { .name = "sonde_cache_accesses_total",
                                                  .type = SONDE_COUNTER };
    const struct sonde_label hit[] = { { "tier", "memory" }, { "result", "hit" } };
    const struct sonde_label miss[] = { { "tier", "memory" }, { "result", "miss" } };
    struct sonde_model_series *h = sonde_model_own_series(model, &spec, NULL, hit, 2);
    struct sonde_model_series *m = sonde_model_own_series(model, &spec, NULL, miss, 2);
    for (int i = 1; i <= 10; i++) {
        h->counter += 10;
        m->counter += 30;
        sonde_model_tick(model, 1000 + i);
    }
    double v;
    assert_true(look(1010, "cache_hit_rate||tier=memory", &v) && fabs(v - 0.25) < 1e-12);
}

static void no_memory(void **state)
{
    (void)state;
    const char text[] = "[{\"name\":\"r\",\"series\":\"errors_total\",\"labels\":{\"a\":\"b\"},\"per\":"
                        "{\"series\":\"all\",\"labels\":{\"c\":\"d\"}},\"by\":[\"e\"],\"above\":1}]";
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 100; nth++) {
        struct alert_rules r = { 0 };
        struct sonde_err err = { "" };
        const int64_t before = sonde__alloc_live();
        sonde__alloc_fail_nth(nth);
        rc = alert_rules_parse(&r, text, &defaults, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        alert_rules_release(&r);
        assert_int_equal(sonde__alloc_live(), before);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parsed),
        cmocka_unit_test(refused),
        cmocka_unit_test(limits),
        cmocka_unit_test_setup_teardown(gauges_and_counters, setup, teardown),
        cmocka_unit_test_setup_teardown(histograms, setup, teardown),
        cmocka_unit_test_setup_teardown(quotients, setup, teardown),
        cmocka_unit_test_setup_teardown(shipped, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
