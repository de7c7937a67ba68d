/* Which series a request is about, and what is shown of one as JSON. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "serve/api/filters.h"
#include "serve/export/json.h"
#include "unit/serve/serve_model.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct sonde_response answer;

static int make(void **state)
{
    (void)state;
    memset(&answer, 0, sizeof(answer));
    sonde_buf_init(&answer.body, 1 << 16);
    return 0;
}

static int release(void **state)
{
    (void)state;
    sonde_buf_release(&answer.body);
    return 0;
}

/* ---- Filters --------------------------------------------------------------------------------- */

static struct sonde_http_request asking(const struct sonde_param *params, size_t count)
{
    struct sonde_http_request r = { .param_count = count };
    memcpy(r.params, params, count * sizeof(*params));
    return r;
}

static void filters(void **state)
{
    (void)state;
    static struct sonde_filters f;
    const struct sonde_param all[] = { { "name", "a*" }, { "type", "counter" }, { "name", "b" },
                                       { "source", "s" }, { "label", "k:v:w" }, { "process", "p" },
                                       { "label", "empty:" }, { "pid", "4294967295" },
                                       { "window", "60" } };
    struct sonde_http_request r = asking(all, COUNT(all));
    assert_int_equal(sonde_http_filters(&r, &answer, &f), 1);
    assert_int_equal(f.count, 2);
    assert_string_equal(f.filter[0].name, "a*");
    assert_string_equal(f.filter[1].name, "b");
    assert_null(f.filter[1].type); /* the first has everything */
    assert_string_equal(f.filter[0].type, "counter");
    assert_string_equal(f.filter[0].source, "s");
    assert_string_equal(f.filter[0].process, "p");
    assert_true(f.filter[0].pid == UINT32_MAX);
    assert_int_equal(f.filter[0].label_count, 2);
    assert_string_equal(f.filter[0].label[0].name, "k");
    assert_string_equal(f.filter[0].label[0].value, "v:w");
    assert_string_equal(f.filter[0].label[1].value, "");
    r = asking(all, 0);
    assert_int_equal(sonde_http_filters(&r, &answer, &f), 1);
    assert_int_equal(f.count, 1); /* one that lets all through */
    assert_null(f.filter[0].name);
    assert_int_equal(f.filter[0].pid, 0);
}

static void filters_refused(void **state)
{
    (void)state;
    static struct sonde_filters f;
    static char long_label[SONDE_NAME_MAX + 10];
    struct sonde_param params[SONDE_FILTER_NAMES_MAX + 1];
    for (size_t i = 0; i < COUNT(params); i++) params[i] = (struct sonde_param){ "name", "x" };
    struct sonde_http_request r = asking(params, SONDE_FILTER_NAMES_MAX);
    assert_int_equal(sonde_http_filters(&r, &answer, &f), 1);
    assert_int_equal(f.count, SONDE_FILTER_NAMES_MAX);
    r = asking(params, SONDE_FILTER_NAMES_MAX + 1);
    assert_int_equal(sonde_http_filters(&r, &answer, &f), 0);
    assert_non_null(strstr(answer.body.data, "parameter name: more than 16"));
    for (size_t i = 0; i < 5; i++) params[i] = (struct sonde_param){ "label", "a:b" };
    r = asking(params, 4);
    assert_int_equal(sonde_http_filters(&r, &answer, &f), 1);
    r = asking(params, 5);
    assert_int_equal(sonde_http_filters(&r, &answer, &f), 0);
    assert_non_null(strstr(answer.body.data, "parameter label: more than 4"));
    static const struct { const char *name, *value; } bad[] = {
        { "label", "" }, { "label", "a" }, { "label", ":b" }, { "pid", "0" }, { "pid", "x" },
        { "pid", "4294967296" }, { "pid", "" },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        const struct sonde_param one = { bad[i].name, bad[i].value };
        r = asking(&one, 1);
        answer.status = 0;
        if (sonde_http_filters(&r, &answer, &f)) fail_msg("%s=%s", bad[i].name, bad[i].value);
        assert_int_equal(answer.status, 400);
    }
    for (size_t len = SONDE_NAME_MAX - 1; len < SONDE_NAME_MAX + 3; len++) {
        memset(long_label, 'l', len);
        memcpy(long_label + len, ":x", 3);
        const struct sonde_param one = { "label", long_label };
        r = asking(&one, 1);
        assert_int_equal(sonde_http_filters(&r, &answer, &f), len <= SONDE_NAME_MAX);
    }
}

/* ---- Series as JSON -------------------------------------------------------------------------- */

static void series_as_json(void **state)
{
    (void)state;
    struct sonde_model *m;
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    struct sonde_model_series *c = series1(m, family(m, SONDE_COUNTER, "c_total", "", "", 1), "a",
                                           "x\"y");
    struct sonde_model_series *t = series1(m, family(m, SONDE_COUNTER, "t_total", "", "", 1e-3),
                                           NULL, NULL);
    struct sonde_model_series *g = series1(m, family(m, SONDE_GAUGE, "g", "", "", 1), NULL, NULL);
    struct sonde_model_series *h = series1(m, family(m, SONDE_HISTOGRAM, "h", "", "", 1), NULL,
                                           NULL);
    c->counter = UINT64_MAX; /* whole: not by way of a double */
    t->counter = 1500;
    const struct { const struct sonde_model_series *s; double gauge; const char *text; } cases[] = {
        { c, 0, "{\"labels\":{\"a\":\"x\\\"y\"},\"value\":18446744073709551615}" },
        { t, 0, "{\"labels\":{},\"value\":1.5}" },
        { g, -0.25, "{\"labels\":{},\"value\":-0.25}" },
        { g, NAN, "{\"labels\":{},\"value\":null}" },
        { g, INFINITY, "{\"labels\":{},\"value\":null}" },
        { h, 0, "{\"labels\":{},\"value\":0}" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        g->gauge = cases[i].gauge;
        sonde_buf_reset(&answer.body);
        sonde_json_open(&answer.body, '{');
        sonde_export_json_labels(&answer.body, cases[i].s);
        sonde_export_json_value(&answer.body, cases[i].s);
        sonde_json_close(&answer.body, '}');
        assert_string_equal(answer.body.data, cases[i].text);
    }
    sonde_buf_reset(&answer.body);
    sonde_json_open(&answer.body, '{');
    /* Nothing is known yet: still JSON, with all keys. */
    sonde_export_json_stats(&answer.body, m, g, 60);
    sonde_json_close(&answer.body, '}');
    json_t *o = json_loadb(answer.body.data, answer.body.len, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(o);
    static const char *const keys[] = { "count", "total", "avg", "min", "max", "stddev", "last",
                                        "median", "p50", "p90", "p95", "p99", "rate", "trend",
                                        "trend_per_s" };
    for (size_t i = 0; i < COUNT(keys); i++) assert_non_null(json_object_get(o, keys[i]));
    assert_int_equal(json_object_size(o), COUNT(keys));
    json_decref(o);
    sonde_model_destroy(m);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make, release)
    const struct CMUnitTest tests[] = { T(filters), T(filters_refused), T(series_as_json) };
    return cmocka_run_group_tests_name("filters", tests, NULL, NULL);
}
