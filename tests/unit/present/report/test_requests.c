/* Inference requests for people and programs: which, in which order, JSON and back, bars, text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>

#include "base/alloc.h"
#include "present/report/requests.h"
#include "sonde/sonde.h"
#include "unit/profile/infer_build.h"

static struct sonde_profile *p;

static int setup(void **state)
{
    (void)state;
    if (sonde_profile_create(0, &p)) return -1;
    infer_build(p, 10);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sonde_profile_destroy(p);
    return sonde__alloc_live() != 0;
}

static const struct sonde_infer_request *request(size_t i) { return &p->infer->requests[i]; }

static size_t all(const struct sonde_infer_request **list)
{
    for (size_t i = 0; i < p->infer->request_count; i++) list[i] = request(i);
    return p->infer->request_count;
}

/* ---- Which ---------------------------------------------------------------------------------- */

static void test_select(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct sonde_requests_query q;
        size_t total, first;     /* own number of the first */
    } cases[] = {
        { "all", { .outcome = -1, .source = -1 }, 10, 9 },
        { "newest", { .sort = SONDE_REQUESTS_NEWEST, .outcome = -1, .source = -1 }, 10, 9 },
        { "ttft", { .sort = SONDE_REQUESTS_TTFT, .outcome = -1, .source = -1 }, 10, 9 },
        { "ok", { .outcome = SONDE_OK, .source = -1 }, 8, 9 },
        { "cancelled", { .outcome = SONDE_CANCELLED, .source = -1 }, 1, 1 },
        { "error", { .outcome = SONDE_ERROR, .source = -1 }, 1, 2 },
        { "lost", { .outcome = SONDE_INFER_LOST, .source = -1 }, 0, 0 },
        { "model", { .outcome = -1, .source = -1, .model = "t*" }, 5, 8 },
        { "route", { .outcome = -1, .source = -1, .route = "/v2/*" }, 0, 0 },
        { "source", { .outcome = -1, .source = 3 }, 0, 0 },
        { "api", { .outcome = -1, .source = 0 }, 10, 9 },
        { "process", { .outcome = -1, .source = -1, .pid = 41 }, 0, 0 },
        { "slow", { .outcome = -1, .source = -1, .min_s = 0.0609 }, 4, 9 }, /* 25 ms + 6 ms each */
        { "running", { .outcome = -1, .source = -1, .state = SONDE_REQUESTS_RUNNING }, 0, 0 },
        { "done", { .outcome = -1, .source = -1, .state = SONDE_REQUESTS_DONE }, 10, 9 },
        { "oldest", { .outcome = -1, .source = -1, .sort = SONDE_REQUESTS_OLDEST }, 10, 0 },
        { "program", { .outcome = -1, .source = -1, .process = "eng*" }, 10, 9 },
        { "another program", { .outcome = -1, .source = -1, .process = "server" }, 0, 0 },
        { "trace", { .outcome = -1, .source = -1, .trace_hi = 1, .trace_lo = 0x104 }, 1, 4 },
        { "from on", { .outcome = -1, .source = -1, .from_s = 1700000000.03 }, 7, 9 },
        { "before", { .outcome = -1, .source = -1, .to_s = 1700000000.03 }, 3, 2 },
        { "metric", { .outcome = -1, .source = -1, .metric = SONDE_METRIC_ITL }, 9, 9 },
        { "bounds", { .outcome = -1, .source = -1, .metric = SONDE_METRIC_QUEUE,
                      .metric_min = 0.003, .metric_max = 0.006 }, 3, 5 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct sonde_infer_request *list[16];
        size_t total;
        const size_t n = sonde_requests_select(&cases[i].q, list, all(list), &total);
        if (total != cases[i].total || n != total) fail_msg("%s: %zu", cases[i].name, total);
        if (n && list[0] != request(cases[i].first)) {
            fail_msg("%s: first is %s", cases[i].name, list[0]->own_id);
        }
    }
}

static void test_order_and_limit(void **state)
{
    (void)state;
    const struct sonde_infer_request *list[16];
    const struct sonde_requests_query q = { .outcome = -1, .source = -1, .limit = 3,
                                            .sort = SONDE_REQUESTS_ITL };
    size_t total;
    assert_int_equal(sonde_requests_select(&q, list, all(list), &total), 3);
    assert_int_equal(total, 10);
    /* All have the same, but for the first, which has none: the newest first, and that last. */
    assert_ptr_equal(list[0], request(9));
    assert_ptr_equal(list[2], request(7));
    assert_ptr_equal(list[9], request(0));
}

static void test_names(void **state)
{
    (void)state;
    char name[SONDE_REQUEST_NAME];
    struct sonde_infer_request r = infer_build_request(3);
    assert_true(sonde_request_is(&r, "job-3"));
    assert_true(sonde_request_is(&r, "0000000000001003"));
    assert_false(sonde_request_is(&r, "1003"));
    r.trace_hi = 0x4bf92f3577b34da6;
    r.trace_lo = 0xa3ce929d0e0e4736;
    assert_true(sonde_request_is(&r, "4bf92f3577b34da6a3ce929d0e0e4736"));
    assert_true(sonde_request_is(&r, "4BF92F35-77b3-4da6-a3ce-929d0e0e4736"));
    assert_false(sonde_request_is(&r, "4bf92f35-77b3-4da6-a3ce-929d0e0e4737"));
    assert_false(sonde_request_is(&r, ""));
    assert_string_equal(sonde_request_name(&r, name), "job-3");
    r.own_id[0] = 0;
    assert_false(sonde_request_is(&r, ""));
    assert_string_equal(sonde_request_name(&r, name), "0000000000001003");
    for (int i = 0; sonde_requests_sorts[i]; i++) {
        assert_int_equal(sonde_requests_sort_find(sonde_requests_sorts[i]), i);
    }
    assert_int_equal(sonde_requests_sort_find("fastest"), -1);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void same(const struct sonde_infer_request *a, const struct sonde_infer_request *b)
{
    assert_string_equal(a->own_id, b->own_id);
    assert_string_equal(a->model, b->model);
    assert_string_equal(a->error, b->error);
    assert_int_equal(a->id, b->id);
    assert_int_equal(a->trace_lo, b->trace_lo);
    assert_int_equal(a->outcome, b->outcome);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(a->tokens_in, b->tokens_in);
    assert_int_equal(a->tokens_out, b->tokens_out);
    assert_int_equal(a->memory_bytes, b->memory_bytes);
    assert_int_equal(a->itl_count, b->itl_count);
    assert_true(a->total_s == b->total_s && a->ttft_s == b->ttft_s && a->itl_p99_s == b->itl_p99_s);
    for (int k = 0; k < SONDE_PHASE_COUNT; k++) {
        assert_true(a->phase_s[k] == b->phase_s[k] && a->phase_count[k] == b->phase_count[k]);
    }
    assert_int_equal(a->attr_count, b->attr_count);
    for (uint32_t i = 0; i < a->attr_count; i++) {
        assert_string_equal(a->attrs[i].value, b->attrs[i].value);
    }
    assert_int_equal(a->item_count, b->item_count);
    for (uint32_t i = 0; i < a->item_count; i++) {
        const struct sonde_infer_item *x = &a->items[i], *y = &b->items[i];
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->start_ns - a->arrived_ns, y->start_ns - b->arrived_ns);
        assert_int_equal(x->end_ns - x->start_ns, y->end_ns - y->start_ns);
        assert_int_equal(x->busy_ns, y->busy_ns);
        assert_int_equal(x->tokens, y->tokens);
        assert_int_equal(x->batch, y->batch);
    }
}

static void test_json_and_back(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    sonde_buf_puts(&b, "{\"time\":1700000001.5,\"total\":70,\"requests\":[");
    for (size_t i = 0; i < 10; i++) sonde_request_json(&b, request(i));
    sonde_buf_puts(&b, "]}");
    struct sonde_requests r;
    struct sonde_err err = { "" };
    if (sonde_requests_read(b.data, b.len, &r, &err)) fail_msg("%s", err.text);
    assert_int_equal(r.count, 10);
    assert_int_equal(r.total, 70);
    assert_true(r.time_s == 1700000001.5);
    for (size_t i = 0; i < 10; i++) same(request(i), &r.list[i]);
    sonde_requests_release(&r);
    sonde_buf_release(&b);

    /* One alone. */
    sonde_request_json(&b, request(4));
    assert_int_equal(sonde_requests_read(b.data, b.len, &r, &err), 0);
    assert_int_equal(r.count, 1);
    same(request(4), &r.list[0]);
    sonde_requests_release(&r);
    sonde_buf_release(&b);
}

static void test_json_nulls(void **state)
{
    (void)state;
    struct sonde_buf b;
    struct sonde_infer_request r = { .program = "", .model = "", .route = "", .backend = "",
                                     .error = "", .invalid = "", .flags = SONDE_INFER_RUNNING };
    sonde_buf_init(&b, 1 << 20);
    sonde_request_json(&b, &r);
    json_t *o = json_loadb(b.data, b.len, 0, NULL);
    assert_non_null(o);
    static const char *const nulls[] = { "own_id", "outcome", "error", "pid", "model", "trace_id",
                                         "ttft_s", "hit_ratio", "memory_bytes", "slo", "itl",
                                         "timeline" };
    for (size_t i = 0; i < sizeof(nulls) / sizeof(nulls[0]); i++) {
        if (!json_is_null(json_object_get(o, nulls[i]))) fail_msg("%s", nulls[i]);
    }
    assert_string_equal(json_string_value(json_object_get(o, "state")), "running");
    json_decref(o);
    sonde_buf_release(&b);
}

/* What comes over the network may be anything. */
static void test_json_hostile(void **state)
{
    (void)state;
    static const struct { const char *text; int rc; } cases[] = {
        { "", SONDE_EFORMAT },
        { "[]", SONDE_EFORMAT },
        { "{\"requests\":7}", SONDE_EFORMAT },
        { "{\"requests\":[]}", 0 },
        { "{\"requests\":[1,null,[],{}]}", 0 },
        { "{\"requests\":[{\"total_s\":-1,\"ttft_s\":1e300,\"arrived\":1e300,\"tokens_out\":-5,"
          "\"outcome\":\"fine\",\"source\":9,\"own_id\":\"0123456789012345678901234567890123456789"
          "0123456789\",\"phases\":[],\"itl\":\"x\",\"attributes\":{\"a\":1},\"timeline\":[{},7,"
          "{\"start_s\":5,\"end_s\":1,\"busy_s\":-1,\"count\":-3}]}]}", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_requests r = { 0 };
        struct sonde_err err = { "" };
        assert_int_equal(sonde_requests_read(cases[i].text, strlen(cases[i].text), &r, &err),
                         cases[i].rc);
        if (cases[i].rc) {
            assert_true(err.text[0]);
            continue;
        }
        struct sonde_buf b;
        sonde_buf_init(&b, 1 << 20);
        const struct sonde_requests_style style = { .width = 80 };
        for (size_t k = 0; k < r.count; k++) {
            const struct sonde_infer_request *one = &r.list[k];
            assert_true(one->total_s >= 0 && isfinite(one->ttft_s));
            for (uint32_t n = 0; n < one->item_count; n++) {
                assert_true(one->items[n].end_ns >= one->items[n].start_ns);
            }
            assert_int_equal(sonde_requests_text(&one, 1, SONDE_REQUESTS_SLOWEST, &style, &b), 0);
            assert_int_equal(sonde_request_text(one, &style, &b), 0);
        }
        sonde_buf_release(&b);
        sonde_requests_release(&r);
    }
}

/* ---- Bars and text --------------------------------------------------------------------------- */

static void bar_text(const struct sonde_infer_request *r, double scale_s, int cells, char *out)
{
    unsigned char bar[128];
    sonde_request_bar(r, scale_s, bar, cells);
    out[0] = 0;
    for (int i = 0; i < cells; i++) strcat(out, sonde_bar_glyph((enum sonde_bar)bar[i], 1));
}

static void test_bar(void **state)
{
    (void)state;
    char text[128];
    /* Request 5: waits 5 ms, prefill 20, a token, four times 5 ms and a token; ends 5 ms later. */
    bar_text(request(5), request(5)->total_s, 11, text);
    assert_string_equal(text, ".####++++++");
    /* A cell a millisecond. */
    bar_text(request(5), request(5)->total_s, 55, text);
    assert_string_equal(text, ".....####################+----+----+----+----+----+....");
    /* To a longer scale it is shorter. */
    bar_text(request(5), 2 * request(5)->total_s, 22, text);
    assert_string_equal(text, ".####++++++           ");
    /* Without a timeline: what figures tell. Request 7: 7 ms, first token at 27, in all 67. */
    assert_int_equal(request(7)->item_count, 0);
    bar_text(request(7), 0.067, 67, text);
    assert_memory_equal(text, ".......~~~~~~~~~~~~~~~~~~~~----", 31);
    bar_text(request(7), 0, 4, text);
    assert_string_equal(text, "    ");
    bar_text(request(7), 1000, 4, text);
    assert_string_equal(text + 1, "   ");
    assert_true(text[0] != ' ');
}

static void test_list(void **state)
{
    (void)state;
    const struct sonde_infer_request *list[16];
    const struct sonde_requests_query q = { .outcome = -1, .source = -1 };
    const size_t n = sonde_requests_select(&q, list, all(list), NULL);
    for (int width = 40; width <= 200; width += 40) {
        struct sonde_buf b;
        sonde_buf_init(&b, 1 << 20);
        const struct sonde_requests_style style = { .width = width };
        assert_int_equal(sonde_requests_text(list, n, q.sort, &style, &b), 0);
        size_t lines = 0;
        for (const char *line = b.data, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
            char one[4096];
            snprintf(one, sizeof(one), "%.*s", (int)(end - line), line);
            assert_true(sonde_text_cells(one, 0) <= width);
        }
        assert_int_equal(lines, n + 3); /* titles, a gap, the legend */
        assert_non_null(strstr(b.data, "job-9"));
        assert_non_null(strstr(b.data, "TOTAL"));
        assert_null(strchr(b.data, '\033'));
        if (width >= 80) assert_non_null(strstr(b.data, "cancelled"));
        if (width >= 80) assert_non_null(strstr(b.data, "████"));
        sonde_buf_release(&b);
    }
}

static void test_colour_and_ascii(void **state)
{
    (void)state;
    const struct sonde_infer_request *list[] = { request(5), request(2) };
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    const struct sonde_requests_style style = { .width = 80, .ascii = 1, .colour = 1 };
    assert_int_equal(sonde_requests_text(list, 2, SONDE_REQUESTS_SLOWEST, &style, &b), 0);
    assert_non_null(strstr(b.data, "\033[0;36m###"));
    assert_non_null(strstr(b.data, "\033[0;31merror"));
    for (size_t i = 0; i < b.len; i++) assert_true((unsigned char)b.data[i] < 0x80);
    /* Every line ends as it began. */
    for (const char *line = b.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *last = NULL;
        for (const char *c = line; c < end; c++) {
            if (*c == '\033') last = c;
        }
        if (last) assert_memory_equal(last, "\033[0m", 4);
    }
    sonde_buf_release(&b);
}

static void test_details(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    const struct sonde_requests_style style = { .width = 80 };
    assert_int_equal(sonde_request_text(request(2), &style, &b), 0);
    static const char *const says[] = {
        "job-2\n", "error: context_full", "tiny on cpu, route /v1/chat, objectives missed",
        "42 engine, by api", "0000000000001002", "temperature=0.7 user=a \"b\"", "37.0 ms",
        "22.0 ms", "100 tokens, 25 of them reused (25.0 %)", "3 tokens of at most 64",
        "mean 5.00 ms", "3 forward passes", "3.00 MiB", "prefill      20.0 ms    54.1       1",
        "queue ", "█",
    };
    for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
        if (!strstr(b.data, says[i])) fail_msg("no '%s' in:\n%s", says[i], b.data);
    }
    sonde_buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_select),        cmocka_unit_test(test_order_and_limit),
        cmocka_unit_test(test_names),         cmocka_unit_test(test_json_and_back),
        cmocka_unit_test(test_json_nulls),    cmocka_unit_test(test_json_hostile),
        cmocka_unit_test(test_bar),           cmocka_unit_test(test_list),
        cmocka_unit_test(test_colour_and_ascii), cmocka_unit_test(test_details),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
