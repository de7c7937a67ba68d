/* Which series of a recording are targets, and what they are held against; the answer as text and
 * JSON. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analyze/correlate_tracks.h"
#include "base/alloc.h"
#include "present/report/correlate.h"
#include "profile/profile.h"
#include "sonde/sonde.h"
#include "unit/analyze/random.h"

enum { TICKS = 100 };

static void put(struct sonde_profile *p, const char *family, const char *labels, int gauge,
                double value)
{
    const struct sonde_track t = { .family = family, .labels = labels, .program = "shop",
                                   .pid = 7, .gauge = (uint32_t)gauge };
    assert_int_equal(sonde_tracks_put(p, &t, value), 0);
}

/* Requests of two routes; the queue is what they were two ticks ago; batches of a mean size that
 * goes with them; memory that knows nothing of it. */
static struct sonde_profile *create(void)
{
    struct sonde_profile *p;
    double before[3] = { 0 };
    random_state = 4;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (int i = 0; i < TICKS; i++) {
        const double a = 10 + random_normal(), b = 20 + random_normal();
        before[i % 3] = a + b;
        assert_int_equal(sonde_tracks_tick(p, 1000 + 2 * (i + 1), 2), 0);
        put(p, "shop_requests_total", "route=\"a\"", 0, a);
        put(p, "shop_requests_total", "route=\"b\"", 0, b);
        put(p, "shop_queue_depth", "", 1, i < 2 ? 30 : before[(i + 1) % 3]);
        put(p, "sonde_infer_batch_tokens_count", "", 0, 5);
        put(p, "sonde_infer_batch_tokens_sum", "", 0, 5 * (a + b) + random_normal());
        put(p, "sonde_process_resident_memory_bytes", "", 1, 1e6 + 1e3 * random_normal());
        put(p, "unrelated", "", 1, random_normal());
    }
    return p;
}

static const struct sonde_correlation *row_of(const struct sonde_correlate_answer *a,
                                              const char *name)
{
    for (size_t i = 0; i < a->found.count; i++) {
        if (!strcmp(a->others[a->found.rows[i].other].name, name)) return &a->found.rows[i];
    }
    fail_msg("no row of %s", name);
    return NULL;
}

static void throughput_is_the_target(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    struct sonde_correlate_answer a;
    assert_int_equal(sonde_correlate_tracks(p->tracks, &(struct sonde_correlate_query){ 0 }, &a,
                                            NULL), 0);
    assert_int_equal(a.target_count, 1);
    assert_string_equal(a.targets[0].name, "shop_requests_total");
    assert_string_equal(a.targets[0].labels, "");
    assert_true(fabs(a.targets[0].values[5] - p->tracks->rows[0].values[5] -
                     p->tracks->rows[1].values[5]) < 1e-5);
    assert_int_equal(a.other_count, 3);
    assert_true(a.from_s == 1000 && a.to_s == 1200 && a.step_s == 2);
    const struct sonde_correlation *queue = row_of(&a, "shop_queue_depth");
    assert_int_equal(queue->verdict, SONDE_CORRELATE_CORRELATED);
    assert_int_equal(queue->lag, -2); /* requests come first */
    const struct sonde_correlation *batch = row_of(&a, "sonde_infer_batch_tokens_sum");
    assert_string_equal(a.others[batch->other].figure, "mean");
    assert_true(fabs(a.others[batch->other].values[9] - a.targets[0].values[9]) < 2);
    assert_int_equal(batch->lag, 0);
    assert_int_equal(row_of(&a, "sonde_process_resident_memory_bytes")->verdict,
                     SONDE_CORRELATE_NONE);
    sonde_correlate_answer_release(&a);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void others_can_be_named(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    struct sonde_correlate_answer a;
    struct sonde_correlate_query q = { .target = "*{route=\"?\"}", .with = "unrel*|nothing",
                                       .from_s = 1050, .to_s = 1150, .lag_s = 6, .limit = 1 };
    assert_int_equal(sonde_correlate_tracks(p->tracks, &q, &a, NULL), 0);
    assert_int_equal(a.target_count, 2); /* each of both routes */
    assert_string_equal(a.targets[1].labels, "route=\"b\"");
    assert_int_equal(a.other_count, 1);
    assert_int_equal(a.found.count, 1);
    assert_int_equal(a.found.pairs, 2);
    assert_int_equal(a.found.lag_max, 3);
    assert_int_equal(a.found.points, 51);
    sonde_correlate_answer_release(&a);
    struct sonde_buf names;
    sonde_buf_init(&names, 4096);
    q.target = "a_count|b{x=\"y\"}";
    sonde_correlate_names(&q, &names);
    assert_string_equal(names.data, "a_count|a|b|unrel*|nothing");
    sonde_buf_release(&names);
    sonde_profile_destroy(p);
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    static const struct { struct sonde_correlate_query q; const char *says; } rows[] = {
        { { .target = "none" }, "matches the target 'none'" },
        { { .with = "none" }, "none matches 'none'" },
        { { .from_s = 5000 }, "no series were recorded in that time" },
    };
    struct sonde_profile *p = create();
    struct sonde_correlate_answer a;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sonde_err err = { "" };
        assert_int_equal(sonde_correlate_tracks(p->tracks, &rows[i].q, &a, &err), SONDE_ENOENT);
        if (!strstr(err.text, rows[i].says)) fail_msg("%s", err.text);
    }
    assert_int_equal(sonde_correlate_tracks(NULL, &rows[0].q, &a, NULL), SONDE_ENOENT);
    sonde_profile_destroy(p);
    assert_int_equal(sonde_profile_create(0, &p), 0);
    assert_int_equal(sonde_tracks_tick(p, 1, 1), 0);
    put(p, "a_gauge", "", 1, 1);
    struct sonde_err err = { "" };
    assert_int_equal(sonde_correlate_tracks(p->tracks, &(struct sonde_correlate_query){ 0 }, &a,
                                            &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "name the series to explain"));
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Of many targets those that change most. */
static void targets_are_bounded(void **state)
{
    (void)state;
    struct sonde_profile *p;
    struct sonde_correlate_answer a;
    random_state = 6;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(sonde_tracks_tick(p, i + 1, 1), 0);
        for (int k = 0; k < 12; k++) {
            char name[16];
            snprintf(name, sizeof(name), "g%d", k);
            put(p, name, "", 1, 100 + k * random_normal());
        }
        put(p, "other", "", 1, random_normal());
    }
    const struct sonde_correlate_query q = { .target = "g*", .with = "*" };
    assert_int_equal(sonde_correlate_tracks(p->tracks, &q, &a, NULL), 0);
    assert_int_equal(a.target_count, SONDE_CORRELATE_TARGETS_MAX);
    assert_int_equal(a.targets_left_out, 4);
    assert_string_equal(a.targets[0].name, "g11");
    sonde_correlate_answer_release(&a);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void text_and_json(void **state)
{
    (void)state;
    struct sonde_profile *p = create();
    struct sonde_correlate_answer a;
    struct sonde_buf out;
    assert_int_equal(sonde_correlate_tracks(p->tracks, &(struct sonde_correlate_query){ 0 }, &a,
                                            NULL), 0);
    sonde_buf_init(&out, 1 << 20);
    sonde_correlate_write(&a, &(struct sonde_correlate_style){ .ascii = 1 }, &out);
    assert_non_null(strstr(out.data, "100 points of 2 s from 1970-01-01 00:16:40 UTC on, lags up "
                                     "to 20 s either way\n"));
    assert_non_null(strstr(out.data, "\nshop_requests_total of shop 7, per second\n"));
    assert_non_null(strstr(out.data, "shop_queue_depth of shop 7"));
    assert_non_null(strstr(out.data, "-4 s"));
    assert_non_null(strstr(out.data, "mean of sonde_infer_batch_tokens_sum"));
    assert_null(strstr(out.data, "resident_memory"));
    assert_non_null(strstr(out.data, "3 pairs looked at: 2 correlated, 0 in levels only, 1 not "
                                     "shown to be, 0 not known.\n"));
    sonde_buf_reset(&out);
    sonde_correlate_write(&a, &(struct sonde_correlate_style){ .ascii = 1, .all = 1 }, &out);
    assert_non_null(strstr(out.data, "resident_memory"));
    sonde_buf_reset(&out);
    sonde_correlate_write(&a, &(struct sonde_correlate_style){ .json = 1 }, &out);
    json_t *j = json_loads(out.data, 0, NULL);
    assert_non_null(j);
    assert_int_equal(json_integer_value(json_object_get(j, "correlated")), 2);
    assert_int_equal(json_integer_value(json_object_get(j, "not_shown")), 1);
    json_t *row = json_array_get(json_object_get(j, "correlations"), 2);
    assert_string_equal(json_string_value(json_object_get(row, "verdict")), "not_shown");
    assert_true(json_is_null(json_object_get(row, "reason")));
    assert_true(json_is_number(json_object_get(json_object_get(row, "level"), "spearman_low")));
    json_decref(j);
    sonde_buf_release(&out);
    sonde_correlate_answer_release(&a);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(throughput_is_the_target), cmocka_unit_test(others_can_be_named),
        cmocka_unit_test(what_is_missing_is_said),  cmocka_unit_test(targets_are_bounded),
        cmocka_unit_test(text_and_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
