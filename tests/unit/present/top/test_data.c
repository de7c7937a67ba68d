/* Reading the agent's JSON: right values from good answers, clear errors from others. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "present/top/data.h"
#include "present/top/spans.h"
#include "sonde/sonde.h"
#include "unit/present/top/top_sample.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

typedef int (*reader)(struct sonde_top_data *, const char *, size_t, struct sonde_err *);

static void load(struct sonde_top_data *d, reader read, const char *text)
{
    struct sonde_err err = { "" };
    const int rc = read(d, text, strlen(text), &err);
    if (rc) fail_msg("%d: %s", rc, err.text);
}

static void processes(void **state)
{
    (void)state;
    struct sonde_top_data d, next;
    struct sonde_top_memory memory = { 0 };
    sonde_top_data_init(&d);
    load(&d, sonde_top_read_processes, SAMPLE_PROCESSES);
    assert_int_equal(d.process_count, 2);
    const struct sonde_top_process *p = &d.processes[0];
    assert_int_equal(p->pid, 4242);
    assert_string_equal(p->program, "example_shop");
    assert_true(p->cpu_ratio == 0.873 && p->threads == 6 && p->drops == 3 && p->series == 31);
    assert_true(isnan(p->spans_per_s));
    assert_true(isnan(d.processes[1].cpu_ratio) && isnan(d.processes[1].series));

    assert_int_equal(sonde_top_data_rates(&d, &memory), 0);
    assert_true(isnan(p->spans_per_s)); /* one reading has no rate */

    sonde_top_data_init(&next);
    load(&next, sonde_top_read_processes,
         "{\"time\":1700000002.5,\"processes\":[{\"pid\":4242,\"program\":\"example_shop\","
         "\"spans_seen\":12500},{\"pid\":77,\"program\":\"other\",\"spans_seen\":9},"
         "{\"pid\":78,\"program\":\"new\",\"spans_seen\":9}]}");
    assert_int_equal(sonde_top_data_rates(&next, &memory), 0);
    sonde_top_memory_release(&memory);
    assert_true(next.processes[0].spans_per_s == 250);
    assert_true(isnan(next.processes[1].spans_per_s));
    assert_true(isnan(next.processes[2].spans_per_s));
    sonde_top_data_release(&next);
    sonde_top_data_release(&d);
}

static void host(void **state)
{
    (void)state;
    struct sonde_top_data d;
    sonde_top_data_init(&d);
    load(&d, sonde_top_read_host, SAMPLE_HOST);
    assert_true(fabs(d.host.cpu_ratio - 0.425) < 1e-12); /* not that of pid 9 */
    assert_int_equal(d.host.cpu_history_count, 3);
    assert_true(d.host.cpu_history[0] == 10 && d.host.cpu_history[2] == 42.5);
    assert_true(d.host.memory_total == 8589934592.0 && d.host.load15 == 1.5);
    assert_true(d.host.net_in == 2048 && d.host.net_out == 512 && isnan(d.host.uptime_s));
    assert_true(isnan(d.host.cost_ratio) && isnan(d.host.cost_low) && isnan(d.host.cost_high));
    load(&d, sonde_top_read_host,
         "{\"time\":1,\"series\":[{\"name\":\"sonde_cost_ratio\",\"value\":0.003},"
         "{\"name\":\"sonde_cost_low_ratio\",\"value\":-0.001},"
         "{\"name\":\"sonde_cost_high_ratio\",\"value\":0.005}]}");
    assert_true(d.host.cost_ratio == 0.003 && d.host.cost_low == -0.001);
    assert_true(d.host.cost_high == 0.005);
    sonde_top_data_release(&d);
}

static void series(void **state)
{
    (void)state;
    struct sonde_top_data d;
    sonde_top_data_init(&d);
    load(&d, sonde_top_read_series, SAMPLE_SERIES);
    assert_int_equal(d.series_count, 3);
    assert_int_equal(d.series_total, 1234);
    assert_string_equal(d.series[0].labels, "{route=\"/pay\"}");
    assert_string_equal(d.series[0].trend, "up");
    assert_int_equal(d.series[0].history_count, 5);
    assert_true(d.series[0].history[0] == 0 && d.series[0].history[4] == 8);
    assert_string_equal(d.series[1].labels, "");
    assert_true(isnan(d.series[2].avg) && isnan(d.series[2].history[0]));
    assert_string_equal(d.series[2].trend, "");
    sonde_top_data_release(&d);
}

static void spans(void **state)
{
    (void)state;
    struct sonde_top_data d;
    sonde_top_data_init(&d);
    load(&d, sonde_top_read_spans, SAMPLE_SPANS);
    load(&d, sonde_top_read_trace, SAMPLE_TRACE);
    assert_int_equal(d.span_count, 4);
    assert_string_equal(d.spans[1].attributes, "card=visa retries=2 score=0.5");
    assert_int_equal(d.name_count, 3);
    assert_string_equal(d.names[0].name, "request"); /* the most frequent */
    assert_int_equal(d.names[0].count, 2);
    assert_true(d.names[0].p50 == 0.010 && d.names[0].p99 == 0.020 && d.names[0].max == 0.020);
    assert_int_equal(d.names[0].errors, 0);
    assert_int_equal(d.names[1].errors, 1); /* charge */
    assert_int_equal(d.pair_count, 2);
    assert_string_equal(d.pairs[0].parent, "request");
    assert_int_equal(d.pairs[0].count, 1);

    struct sonde_top_node nodes[3];
    assert_int_equal(d.trace_count, 3);
    assert_int_equal(sonde_top_trace_tree(&d, nodes), 0);
    static const struct { const char *name; int depth; } tree[] = {
        { "request", 0 }, { "parse", 1 }, { "charge", 1 } };
    for (size_t i = 0; i < COUNT(tree); i++) {
        assert_string_equal(d.trace[nodes[i].span].name, tree[i].name);
        assert_int_equal(nodes[i].depth, tree[i].depth);
    }
    sonde_top_data_release(&d);
}

/* Spans that claim each other as parents, in every combination of four: each comes once. */
static void damaged_trees(void **state)
{
    (void)state;
    for (int code = 0; code < 5 * 5 * 5 * 5; code++) {
        static const char *const ids[] = { "a", "b", "c", "d", "x" };
        struct sonde_top_span trace[4];
        struct sonde_top_node nodes[4];
        int seen[4] = { 0 };
        int rest = code;
        for (int i = 0; i < 4; i++, rest /= 5) {
            trace[i] = (struct sonde_top_span){ .span_id = ids[i], .parent_id = ids[rest % 5] };
        }
        const struct sonde_top_data d = { .trace = trace, .trace_count = 4 };
        assert_int_equal(sonde_top_trace_tree(&d, nodes), 0);
        for (int i = 0; i < 4; i++) {
            assert_true(nodes[i].span < 4);
            assert_int_equal(seen[nodes[i].span]++, 0);
        }
    }
}

static void bad_answers(void **state)
{
    (void)state;
    static const reader readers[] = { sonde_top_read_processes, sonde_top_read_host,
                                      sonde_top_read_series, sonde_top_read_spans,
                                      sonde_top_read_trace, sonde_top_read_infer,
                                      sonde_top_read_requests };
    static const char *const refused[] = { "", "<html>", "[]", "{}", "null", "{\"series\":",
                                           "{\"series\":3,\"spans\":{},\"processes\":null}" };
    static const char *const odd[] = {
        "{\"processes\":[1,null,[],\"x\"],\"series\":[1,null,[],\"x\"],\"spans\":[1,null,[]],"
        "\"groups\":[1,null,[]],\"models\":[7,null],\"requests\":[1,null,[]]}",
        "{\"time\":\"x\",\"processes\":[{\"pid\":-5,\"program\":7,\"drops\":[],\"threads\":{}}],"
        "\"series\":[{\"labels\":[1],\"history\":{\"a\":1},\"value\":\"x\"}],"
        "\"spans\":[{\"start\":\"x\",\"duration_s\":-1,\"attributes\":[[]],\"pid\":1e300}],"
        "\"groups\":[{\"phases\":[],\"requests\":7,\"ttft\":\"x\"}],\"models\":{},"
        "\"invalid_events\":3,\"requests\":[{\"timeline\":{},\"phases\":1}]}",
        "{\"processes\":[{\"pid\":99999999999}],\"series\":[{\"history\":[1,[],[1],[1,[]]],"
        "\"labels\":{\"a\":1,\"b\":null}}],\"total\":-4,"
        "\"spans\":[{\"attributes\":{\"a\":[],\"b\":null,\"c\":true}}],"
        "\"groups\":[],\"models\":[{\"memory\":[],\"kv\":[]}],\"requests\":[]}",
    };
    for (size_t r = 0; r < COUNT(readers); r++) {
        for (size_t i = 0; i < COUNT(refused); i++) {
            struct sonde_top_data d;
            struct sonde_err err = { "" };
            sonde_top_data_init(&d);
            assert_int_equal(readers[r](&d, refused[i], strlen(refused[i]), &err), SONDE_EFORMAT);
            assert_true(strlen(err.text) > 20);
            sonde_top_data_release(&d);
        }
        for (size_t i = 0; i < COUNT(odd); i++) {
            struct sonde_top_data d;
            sonde_top_data_init(&d);
            load(&d, readers[r], odd[i]);
            sonde_top_data_release(&d);
        }
    }
}

static void out_of_memory(void **state)
{
    (void)state;
    const int64_t before = sonde__alloc_live();
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 500; nth++) {
        struct sonde_top_data d;
        struct sonde_err err;
        sonde_top_data_init(&d);
        sonde__alloc_fail_nth(nth);
        rc = sonde_top_read_series(&d, SAMPLE_SERIES, strlen(SAMPLE_SERIES), &err);
        if (!rc) rc = sonde_top_read_spans(&d, SAMPLE_SPANS, strlen(SAMPLE_SPANS), &err);
        if (!rc) rc = sonde_top_read_host(&d, SAMPLE_HOST, strlen(SAMPLE_HOST), &err);
        if (!rc) {
            rc = sonde_top_read_infer(&d, SAMPLE_INFERENCE, strlen(SAMPLE_INFERENCE), &err);
        }
        if (!rc) {
            rc = sonde_top_read_requests(&d, SAMPLE_REQUESTS, strlen(SAMPLE_REQUESTS), &err);
        }
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        sonde_top_data_release(&d);
        assert_int_equal(sonde__alloc_live(), before);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes),   cmocka_unit_test(host),
        cmocka_unit_test(series),      cmocka_unit_test(spans),
        cmocka_unit_test(damaged_trees), cmocka_unit_test(bad_answers),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
