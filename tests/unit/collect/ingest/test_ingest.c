/* Series of others in the model: names that are taken, labels, limits, ends, resets; and what is
 * scraped by settings that are good or bad. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "collect/ingest/ingest.h"
#include "collect/ingest/scrape.h"
#include "serve/export/export.h"
#include "sonde/sonde.h"

static struct sonde_model *model;
static struct sonde_ingest *source;

static int set_up(void **state)
{
    (void)state;
    const struct sonde_label labels[] = { { "job", "j" }, { "instance", "i" } };
    const struct sonde_ingest_options o = { .labels = labels, .label_count = 2, .series_max = 8 };
    assert_int_equal(sonde_model_create(NULL, &model), 0);
    assert_int_equal(sonde_ingest_create(model, &o, &source), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sonde_ingest_destroy(source);
    sonde_model_destroy(model);
    return 0;
}

static int put(const char *name, enum sonde_type type, const struct sonde_label *labels,
               size_t count, double value)
{
    const struct sonde_ingest_point p = { .name = name, .type = type, .labels = labels,
                                          .label_count = count, .value = value, .now_s = 1 };
    return sonde_ingest_put(source, &p);
}

static const struct sonde_model_series *only(const char *name)
{
    const struct sonde_model_family *f = sonde_model_family_find(model, name);
    assert_non_null(f);
    assert_int_equal(f->series_count, 1);
    return f->series[0];
}

static void expect(const char *format, const char *wanted)
{
    struct sonde_buf out;
    sonde_buf_init(&out, 1 << 20);
    sonde_export_find(format)->render(model, NULL, &out);
    assert_int_equal(out.error, 0);
    assert_string_equal(out.len ? out.data : "", wanted);
    sonde_buf_release(&out);
}

static void test_labels(void **state)
{
    (void)state;
    const struct sonde_label l[] = { { "z", "1" }, { "job", "theirs" }, { "none", "" },
                                     { "a", "\"\n" } };
    assert_int_equal(put("x", SONDE_GAUGE, l, 4, 5), 0);
    assert_string_equal(only("x")->label_text,
                        "a=\"\\\"\\n\",exported_job=\"theirs\",instance=\"i\",job=\"j\",z=\"1\"");
    /* The order that they come in does not matter. */
    const struct sonde_label other[] = { { "a", "\"\n" }, { "z", "1" }, { "job", "theirs" } };
    assert_int_equal(put("x", SONDE_GAUGE, other, 3, 6), 0);
    assert_true(only("x")->gauge == 6);

    const struct sonde_label renamed[] = { { "exported_job", "far" }, { "job", "near" } };
    assert_int_equal(put("y", SONDE_GAUGE, renamed, 2, 1), 0);
    assert_string_equal(only("y")->label_text, "exported_exported_job=\"near\","
                                               "exported_job=\"far\",instance=\"i\",job=\"j\"");

    const struct sonde_label twice[] = { { "a", "1" }, { "a", "2" } };
    assert_int_equal(put("x", SONDE_GAUGE, twice, 2, 1), SONDE_EINVAL);
    const struct sonde_label bad_name[] = { { "a-b", "1" } }, not_text[] = { { "a", "\xff" } };
    assert_int_equal(put("x", SONDE_GAUGE, bad_name, 1, 1), SONDE_EINVAL);
    assert_int_equal(put("x", SONDE_GAUGE, not_text, 1, 1), SONDE_EINVAL);
    assert_int_equal(put("1x", SONDE_GAUGE, NULL, 0, 1), SONDE_EINVAL);
}

/* Ours wins, whoever comes first. */
static void test_names(void **state)
{
    (void)state;
    const struct sonde_model_family_spec ours = { .name = "x", .type = SONDE_COUNTER,
                                                  .scale = 1e-9 };
    assert_int_equal(put("x", SONDE_GAUGE, NULL, 0, 5), 0);
    struct sonde_model_family *f = sonde_model_family(model, &ours);
    assert_non_null(f);
    assert_int_equal(f->type, SONDE_COUNTER);
    assert_non_null(sonde_model_series(model, f, NULL, NULL, 0));
    assert_true(only("exported_x")->gauge == 5);
    assert_int_equal(put("x", SONDE_GAUGE, NULL, 0, 6), 0);
    assert_true(only("exported_x")->gauge == 6);
    assert_int_equal(model->dropped_conflicts, 0);
    /* The same type is the same family, whatever the scale. */
    assert_int_equal(put("x", SONDE_COUNTER, NULL, 0, 2.5), 0);
    assert_int_equal(f->series_count, 2);
    assert_int_equal(model->series_count, 3);
}

static void test_not_theirs(void **state)
{
    (void)state;
    const struct sonde_model_family_spec ours = { .name = "x", .type = SONDE_GAUGE };
    const struct sonde_label l[] = { { "instance", "i" }, { "job", "j" } };
    struct sonde_model_series *s =
        sonde_model_series(model, sonde_model_family(model, &ours), NULL, l, 2);
    s->gauge = 1;
    assert_int_equal(put("x", SONDE_GAUGE, NULL, 0, 5), SONDE_EEXIST);
    assert_true(s->gauge == 1);
}

static void test_rounds(void **state)
{
    (void)state;
    sonde_ingest_begin(source);
    assert_int_equal(put("a", SONDE_GAUGE, NULL, 0, 1), 0);
    assert_int_equal(put("b", SONDE_GAUGE, NULL, 0, 1), 0);
    assert_int_equal(put("b", SONDE_GAUGE, NULL, 0, 2), SONDE_EEXIST);
    sonde_ingest_end(source);
    assert_int_equal(sonde_ingest_count(source), 2);
    assert_true(only("b")->gauge == 1);
    sonde_ingest_begin(source);
    assert_int_equal(put("b", SONDE_GAUGE, NULL, 0, 3), 0);
    sonde_ingest_end(source);
    assert_null(sonde_model_family_find(model, "a"));
    assert_true(only("b")->gauge == 3);
}

static void test_limit(void **state)
{
    (void)state;
    char value[16];
    size_t good = 0, full = 0;
    for (int i = 0; i < 100; i++) {
        snprintf(value, sizeof(value), "%d", i);
        const struct sonde_label l[] = { { "n", value } };
        const int rc = put(i % 2 ? "a" : "b", SONDE_COUNTER, l, 1, i);
        good += rc == 0;
        full += rc == SONDE_EFULL;
    }
    assert_int_equal(good, 8);
    assert_int_equal(full, 92);
    assert_int_equal(put("c", SONDE_GAUGE, NULL, 0, 1), SONDE_EFULL);
    assert_null(sonde_model_family_find(model, "c"));
    assert_int_equal(model->series_count, 8);
}

static double last_increase(const struct sonde_model_series *s)
{
    assert_true(s->history_count > 0);
    return s->history[(model->tick - 1) % SONDE_HISTORY];
}

static void test_counts(void **state)
{
    (void)state;
    static const double values[] = { 100.5, 101, 101, 0.25, NAN, 3 };
    static const double increases[] = { -1, 0.5, 0, 0.25, 0, 0 };
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        assert_int_equal(put("x_total", SONDE_COUNTER, NULL, 0, values[i]), 0);
        sonde_model_tick(model, 10 + (double)i);
        if (i == 0) assert_int_equal(only("x_total")->history_count, 0);
        else if (!isnan(values[i - 1])) assert_true(last_increase(only("x_total")) == increases[i]);
    }
}

static void test_histogram_shown(void **state)
{
    (void)state;
    static const struct { const char *name, *le; double value; } part[] = {
        { "h_bucket", "1", 2 }, { "h_bucket", "+Inf", 3 }, { "h_sum", NULL, 4.5 },
        { "h_count", NULL, 3 },
    };
    for (size_t i = 0; i < 4; i++) {
        const struct sonde_label l[] = { { "le", part[i].le } };
        const struct sonde_ingest_point p = {
            .name = part[i].name, .help = "H.", .type = SONDE_COUNTER,
            .shown = SONDE_SHOWN_HISTOGRAM, .stem = 1, .labels = l,
            .label_count = part[i].le ? 1 : 0, .value = part[i].value, .now_s = 1 };
        assert_int_equal(sonde_ingest_put(source, &p), 0);
    }
    expect("prometheus", "# HELP h H.\n# TYPE h histogram\n"
                         "h_bucket{instance=\"i\",job=\"j\",le=\"1\"} 2\n"
                         "h_bucket{instance=\"i\",job=\"j\",le=\"+Inf\"} 3\n"
                         "h_sum{instance=\"i\",job=\"j\"} 4.5\n"
                         "h_count{instance=\"i\",job=\"j\"} 3\n");
    /* One of ours of that name comes later. */
    const struct sonde_model_family_spec ours = { .name = "h", .type = SONDE_HISTOGRAM };
    struct sonde_model_family *f = sonde_model_family(model, &ours);
    assert_non_null(sonde_model_series(model, f, NULL, NULL, 0));
    struct sonde_buf out;
    sonde_buf_init(&out, 1 << 20);
    sonde_export_find("openmetrics")->render(model, NULL, &out);
    assert_non_null(strstr(out.data, "# TYPE h histogram\n"));
    assert_non_null(strstr(out.data, "# TYPE exported_h histogram\n"));
    assert_non_null(strstr(out.data, "\nexported_h_bucket{instance=\"i\",job=\"j\",le=\"1\"} 2\n"));
    assert_null(strstr(out.data, "\nh_bucket{instance"));
    sonde_buf_release(&out);
}

static void test_own_only(void **state)
{
    (void)state;
    const struct sonde_filter own = { .own = 1 };
    const struct sonde_model_family_spec ours = { .name = "x", .type = SONDE_GAUGE };
    assert_non_null(sonde_model_series(model, sonde_model_family(model, &ours), NULL, NULL, 0));
    assert_int_equal(put("x", SONDE_GAUGE, NULL, 0, 1), 0);
    assert_int_equal(put("y", SONDE_GAUGE, NULL, 0, 1), 0);
    struct sonde_buf out;
    sonde_buf_init(&out, 1 << 20);
    sonde_export_find("prometheus")->render(model, &own, &out);
    assert_string_equal(out.data, "# HELP x X.\n# TYPE x gauge\nx 0\n");
    sonde_buf_release(&out);
}

static void test_stale(void **state)
{
    (void)state;
    struct sonde_ingest *f;
    const struct sonde_ingest_options o = { .series_max = 8, .stale_s = 60 };
    assert_int_equal(sonde_ingest_create(model, &o, &f), 0);
    struct sonde_ingest_point p = { .name = "a", .type = SONDE_COUNTER, .value = 2, .delta = 1,
                                    .now_s = 1000 };
    assert_int_equal(sonde_ingest_put(f, &p), 0);
    assert_int_equal(sonde_ingest_put(f, &p), 0);
    assert_true(only("a")->gauge == 4);
    sonde_model_tick(model, 1000);
    assert_true(last_increase(only("a")) == 4);
    sonde_ingest_tick(model, 1060);
    assert_int_equal(sonde_ingest_count(f), 1);
    sonde_ingest_tick(model, 1061);
    assert_int_equal(sonde_ingest_count(f), 0);
    assert_int_equal(model->family_count, 0);
    sonde_ingest_destroy(f);
}

static void test_no_memory(void **state)
{
    (void)state;
    const struct sonde_label l[] = { { "job", "theirs" } };
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 100; nth++) {
        sonde__alloc_fail_nth(nth);
        rc = put("x", SONDE_COUNTER, l, 1, 1);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM || rc == SONDE_EEXIST);
        if (rc) assert_int_equal(model->family_count, 0);
    }
    assert_int_equal(rc, 0);
}

/* ---- What is to be scraped ------------------------------------------------------------------- */

static const struct { const char *json, *reason; } bad_targets[] = {
    { "", "not a JSON array" },
    { "{}", "not a JSON array" },
    { "[1]", "target 1 to scrape is neither a URL nor an object" },
    { "[{\"job\":\"x\"}]", "with the key url" },
    { "[\"ftp://a\"]", "is not a URL such as" },
    { "[\"a b\"]", "is not a URL such as" },
    { "[\"http://a\",\"http://a:80/metrics\"]", "give it another \"job\"" },
    { "[{\"url\":\"http://a\",\"intervall\":1}]", "unknown key \"intervall\"" },
    { "[{\"url\":\"http://a\",\"interval_seconds\":0}]", "interval_seconds must be" },
    { "[{\"url\":\"http://a\",\"job\":\"\"}]", "job must be a text" },
    { "[{\"url\":\"http://a\",\"labels\":[]}]", "labels must be an object" },
    { "[{\"url\":\"http://a\",\"labels\":{\"a-b\":\"c\"}}]", "\"a-b\" cannot be a label" },
    { "[{\"url\":\"http://a\",\"labels\":{\"job\":\"c\"}}]", "\"job\" cannot be a label" },
    { "[{\"url\":\"http://a\",\"labels\":{\"a\":1}}]", "a must be a text" },
};

static void test_targets(void **state)
{
    (void)state;
    const struct sonde_scrape_options o = { .interval_s = 15, .timeout_s = 10 };
    struct sonde_scrape_targets t = { 0 };
    struct sonde_err err = { "" };
    assert_int_equal(
        sonde_scrape_targets_parse(&t, "[\"http://127.0.0.1:9100\",{\"url\":\"https://x/y?z=1\","
                                       "\"job\":\"b\",\"labels\":{\"a\":\"c\"},"
                                       "\"interval_seconds\":2,\"bearer_token_file\":\"/f\"}]", &o,
                                   &err), 0);
    assert_int_equal(t.count, 2);
    assert_string_equal(t.at[0].url, "http://127.0.0.1:9100/metrics");
    assert_string_equal(t.at[0].instance, "127.0.0.1:9100");
    assert_string_equal(t.at[0].job, "scrape");
    assert_string_equal(t.at[1].url, "https://x/y?z=1");
    assert_string_equal(t.at[1].instance, "x:443");
    assert_true(t.at[1].interval_s == 2 && t.at[1].timeout_s == 2);
    assert_string_equal(t.at[1].label[0].value, "c");
    sonde_scrape_targets_release(&t);
    for (size_t i = 0; i < sizeof(bad_targets) / sizeof(bad_targets[0]); i++) {
        print_message("%s\n", bad_targets[i].json);
        assert_int_equal(sonde_scrape_targets_parse(&t, bad_targets[i].json, &o, &err),
                         SONDE_EINVAL);
        if (!strstr(err.text, bad_targets[i].reason)) fail_msg("%s", err.text);
        sonde_scrape_targets_release(&t);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_labels), TEST(test_names), TEST(test_not_theirs), TEST(test_rounds),
        TEST(test_limit), TEST(test_counts), TEST(test_histogram_shown), TEST(test_own_only),
        TEST(test_stale), TEST(test_no_memory), cmocka_unit_test(test_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
