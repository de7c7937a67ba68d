/* Requests of any time: what a heat map's cell counts is what a list with its bounds has, for every
 * metric and filter, out of the store and out of memory; and what a list has of both. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "serve/api/api.h"
#include "serve/api/requests.h"
#include "sonde/sonde.h"
#include "unit/infer/infer_play.h"
#include "unit/analyze/random.h"
#include "unit/store/sqlite/store_build.h"

static struct play g;
static struct sonde_api_past past;

/* ---- Making ---------------------------------------------------------------------------------- */

static double seconds_of(double scale) { return scale * exp(random_normal()); }

static void add_random(uint64_t id, double from_s, double length_s)
{
    static const char *const models[] = { "big", "tiny" }, *const routes[] = { "/a", "/b", "" };
    static const char *const programs[] = { "engine", "server" };
    const double end = random_uniform();
    struct sonde_infer_request r = {
        .id = id, .trace_hi = 1, .trace_lo = id, .pid = 40 + (uint32_t)(id % 3),
        .outcome = end < 0.1 ? SONDE_ERROR : end < 0.2 ? SONDE_CANCELLED : SONDE_OK,
        .program = programs[id % 2], .model = models[id / 2 % 2], .route = routes[id % 3],
        .backend = "", .error = "", .invalid = random_uniform() < 0.01 ? "ttft_s" : "",
        .flags = random_uniform() < 0.02 ? SONDE_INFER_INCOMPLETE : 0,
        .arrived_ns = (uint64_t)((from_s + length_s * random_uniform()) * 1e3) * 1000000,
        .tokens_in = 10, .tokens_out = (uint64_t)(random_uniform() * 20),
    };
    if (id % 4) r.arrived_ns += (uint64_t)(random_uniform() * 1e6); /* else at whole milliseconds */
    r.phase_count[SONDE_PHASE_QUEUE] = id % 5 != 0;
    r.phase_s[SONDE_PHASE_QUEUE] = id % 7 ? seconds_of(0.001) : 0;
    r.ttft_s = r.tokens_out ? seconds_of(0.05) : 0;
    r.total_s = r.ttft_s + seconds_of(0.5);
    if (r.tokens_out > 1) {
        r.itl_count = r.tokens_out - 1;
        r.itl_s = 0.01 * (double)(1 + id % 9); /* often at bounds */
    }
    r.tokens_per_s = (double)r.tokens_out / r.total_s;
    assert_int_equal(OPS->request_add(past.store, &r), 0);
}

static int setup(void **state)
{
    if (build_make_dir(state)) return -1;
    play_init(&g, NULL);
    past = (struct sonde_api_past){ .m = g.m, .tracker = g.tracker, .ops = OPS };
    return 0;
}

static int setup_store(void **state)
{
    if (setup(state)) return -1;
    past.store = open_at(build_path, (struct sonde_store_options){ .requests_per_s = 1000000 });
    return 0;
}

static int teardown(void **state)
{
    if (past.store) OPS->close(past.store);
    past.store = NULL;
    play_release(&g);
    return build_remove_dir(state) || sonde__alloc_live() != 0;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static json_t *parse(struct sonde_buf *b)
{
    json_error_t why;
    assert_int_equal(b->error, 0);
    json_t *root = json_loadb(b->data, b->len, 0, &why);
    if (!root) fail_msg("%s at %d of %s", why.text, why.position, b->data);
    sonde_buf_release(b);
    return root;
}

static json_t *list_of(const struct sonde_requests_query *q)
{
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 1 << 24);
    if (sonde_api_past_requests(&past, q, &b, &err)) fail_msg("%s", err.text);
    return parse(&b);
}

static json_t *map_of(const struct sonde_requests_query *q, uint32_t columns, uint32_t rows)
{
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 1 << 24);
    if (sonde_api_heatmap(&past, q, columns, rows, &b, &err)) fail_msg("%s", err.text);
    return parse(&b);
}

static double number_of(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

static uint64_t listed(const struct sonde_requests_query *q)
{
    json_t *a = list_of(q);
    const uint64_t n = (uint64_t)number_of(a, "total");
    json_decref(a);
    return n;
}

static double edge_of(const json_t *map, json_int_t i)
{
    return json_number_value(json_array_get(json_object_get(map, "edges"), (size_t)i));
}

/* Asks for each cell as a page would: by the numbers that the answer has. */
static void check_map(const struct sonde_requests_query *q, uint32_t columns, uint32_t rows)
{
    json_t *map = map_of(q, columns, rows);
    const double from = number_of(map, "from"), step = number_of(map, "step_s");
    json_t *cell;
    size_t i;
    uint64_t counted = 0;
    json_array_foreach(json_object_get(map, "cells"), i, cell) {
        const json_int_t c = json_integer_value(json_array_get(cell, 0));
        const json_int_t r = json_integer_value(json_array_get(cell, 1));
        const json_int_t count = json_integer_value(json_array_get(cell, 2));
        struct sonde_requests_query one = *q;
        one.limit = 1;
        one.from_s = from + (double)c * step;
        one.to_s = from + (double)(c + 1) * step;
        one.metric_min = edge_of(map, r);
        one.metric_max = edge_of(map, r + 1);
        const uint64_t n = listed(&one);
        if (n != (uint64_t)count) {
            fail_msg("%s, cell %d %d: %d counted, %d listed", sonde_request_metric_name(q->metric),
                     (int)c, (int)r, (int)count, (int)n);
        }
        one.outcome = SONDE_ERROR;
        if (q->outcome < 0) {
            assert_int_equal(listed(&one), json_integer_value(json_array_get(cell, 3)));
        }
        counted += (uint64_t)count;
    }
    assert_true(counted > 0);
    assert_int_equal(counted, (uint64_t)number_of(map, "counted"));
    struct sonde_requests_query whole = *q;
    whole.from_s = from;
    whole.to_s = number_of(map, "to");
    assert_int_equal(listed(&whole), counted);
    json_decref(map);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void test_cells_of_store(void **state)
{
    (void)state;
    random_state = 7;
    for (uint64_t id = 1; id <= 500; id++) add_random(id, START_S, 600);
    for (int m = 1; m < SONDE_METRIC_COUNT; m++) {
        const struct sonde_requests_query all = {
            .outcome = -1, .source = -1, .metric = (enum sonde_request_metric)m,
            .from_s = START_S + 0.25, .to_s = START_S + 500 };
        struct sonde_requests_query some = all;
        check_map(&all, 12, 10);
        some.model = "t*";
        some.process = "engine";
        check_map(&some, 20, 40);
        some = all;
        some.route = "/a";
        some.outcome = SONDE_OK;
        check_map(&some, 1, 1);
        some = all;
        some.pid = 41;
        some.source = 0;
        check_map(&some, 300, 5);
    }
}

static void test_counts(void **state)
{
    (void)state;
    const struct sonde_requests_query q = { .outcome = -1, .source = -1,
                                            .metric = SONDE_METRIC_TTFT, .from_s = START_S,
                                            .to_s = START_S + 600 };
    json_t *map = map_of(&q, 0, 0);
    assert_int_equal(number_of(map, "rows"), 0);
    assert_int_equal(json_array_size(json_object_get(map, "edges")), 0);
    assert_int_equal(json_array_size(json_object_get(map, "cells")), 0);
    json_decref(map);
    random_state = 9;
    for (uint64_t id = 1; id <= 200; id++) add_random(id, START_S, 600);
    map = map_of(&q, 0, 0);
    assert_int_equal(number_of(map, "seen"), 200);
    assert_int_equal(number_of(map, "kept"), 200);
    assert_true(number_of(map, "counted") < 200); /* some have no first token */
    assert_string_equal(json_string_value(json_object_get(map, "unit")), "s");
    assert_true(json_is_false(json_object_get(map, "truncated")));
    json_decref(map);
}

/* All that there ever was: columns begin in 1970. */
static void test_ever(void **state)
{
    (void)state;
    const struct sonde_requests_query q = { .outcome = -1, .source = -1,
                                            .metric = SONDE_METRIC_TOTAL, .from_s = 1,
                                            .to_s = START_S + 600 };
    add_random(1, START_S, 600);
    json_t *map = map_of(&q, 10, 10);
    assert_true(number_of(map, "from") == 0);
    assert_true(number_of(map, "to") >= START_S + 600);
    json_decref(map);
}

/* Twenty, as the engine of play has them; the last one runs. */
static void play_twenty(void)
{
    for (uint64_t n = 1; n <= 20; n++) {
        const double at = (double)n * 100;
        play_request(&g, n, at);
        play_phase(&g, n, SONDE_PHASE_QUEUE, at, at + (double)n, 0);
        play_phase(&g, n, SONDE_PHASE_PREFILL, at + (double)n, at + 30, 75);
        for (int k = 0; k < 5; k++) play_tokens(&g, n, at + 30 + 2 * k, 1);
        if (n < 20) play_end(&g, n, at + 40 + (double)n, n % 6 ? SONDE_OK : SONDE_ERROR, "");
    }
    play_until(&g, 2070);
}

static void test_cells_of_memory(void **state)
{
    (void)state;
    play_twenty();
    for (int m = 1; m < SONDE_METRIC_COUNT; m++) {
        const struct sonde_requests_query q = {
            .outcome = -1, .source = -1, .metric = (enum sonde_request_metric)m,
            .from_s = (double)T0, .to_s = (double)T0 + 3 };
        check_map(&q, 10, 10);
        json_t *map = map_of(&q, 10, 10);
        assert_int_equal(number_of(map, "counted"), 19);
        json_decref(map);
    }
}

static const json_t *first_of(const json_t *list, const char *own_key, const char *value)
{
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(list, "requests"), i, r) {
        if (!strcmp(json_string_value(json_object_get(r, own_key)), value)) return r;
    }
    fail_msg("no %s %s", own_key, value);
    return NULL;
}

/* What has ended comes from the store, what runs from the model, nothing twice; and a timeline that
 * the store has not kept is the model's. */
static void test_both(void **state)
{
    (void)state;
    struct sonde_requests_query q = { .outcome = -1, .source = -1, .limit = 100,
                                      .from_s = (double)T0, .sort = SONDE_REQUESTS_OLDEST };
    play_twenty();
    for (uint64_t n = 1; n <= 18; n++) {
        struct sonde_infer_request r = *play_done(&g, n);
        r.items = NULL;
        r.item_count = 0;
        assert_int_equal(OPS->request_add(past.store, &r), 0);
    }
    json_t *list = list_of(&q);
    assert_int_equal(number_of(list, "total"), 19);
    assert_int_equal(json_array_size(json_object_get(list, "requests")), 19);
    assert_true(json_is_true(json_object_get(list, "stored")));
    const json_t *oldest = json_array_get(json_object_get(list, "requests"), 0);
    assert_string_equal(json_string_value(json_object_get(oldest, "id")), "0000000000000001");
    assert_true(json_array_size(json_object_get(oldest, "timeline")) > 2);
    assert_string_equal(json_string_value(json_object_get(first_of(list, "id", "0000000000000014"),
                                                          "state")), "running");
    json_decref(list);

    q.no_timeline = 1;
    q.state = SONDE_REQUESTS_DONE;
    list = list_of(&q);
    assert_int_equal(number_of(list, "total"), 18);
    oldest = json_array_get(json_object_get(list, "requests"), 0);
    assert_true(json_is_null(json_object_get(oldest, "timeline")));
    json_decref(list);

    /* One that ended after those that run were looked at. */
    q.state = SONDE_REQUESTS_ALL;
    struct sonde_infer_request ended = *play_done(&g, 3);
    ended.id = 20;
    ended.trace_lo = 20;
    assert_int_equal(OPS->request_add(past.store, &ended), 0);
    list = list_of(&q);
    assert_int_equal(number_of(list, "total"), 19);
    assert_string_equal(json_string_value(json_object_get(first_of(list, "id", "0000000000000014"),
                                                          "state")), "done");
    json_decref(list);
}

/* A list has the first in order, however many there are. */
static void test_sifted(void **state)
{
    (void)state;
    random_state = 3;
    for (uint64_t id = 1; id <= 5000; id++) {
        add_random(id, START_S, 600);
        if (id % 1000 == 0) flush(past.store);
    }
    for (int sort = 0; sort < SONDE_REQUESTS_SORT_COUNT; sort++) {
        struct sonde_requests_query q = { .outcome = -1, .source = -1, .limit = 5000,
                                          .from_s = START_S,
                                          .sort = (enum sonde_requests_sort)sort };
        json_t *all = list_of(&q);
        q.limit = 700;
        json_t *some = list_of(&q);
        assert_int_equal(number_of(all, "total"), 5000);
        assert_int_equal(number_of(some, "total"), 5000);
        const json_t *a = json_object_get(all, "requests"), *b = json_object_get(some, "requests");
        assert_int_equal(json_array_size(a), 5000);
        assert_int_equal(json_array_size(b), 700);
        for (size_t i = 0; i < 700; i++) {
            assert_true(json_equal(json_array_get(a, i), json_array_get(b, i)));
        }
        json_decref(all);
        json_decref(some);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_cells_of_store, setup_store, teardown),
        cmocka_unit_test_setup_teardown(test_counts, setup_store, teardown),
        cmocka_unit_test_setup_teardown(test_ever, setup_store, teardown),
        cmocka_unit_test_setup_teardown(test_cells_of_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_both, setup_store, teardown),
        cmocka_unit_test_setup_teardown(test_sifted, setup_store, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
