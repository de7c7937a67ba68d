/* The calls of sonde.h do what they say, seen through the segment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "unit/record/readback.h"

static struct readback_hist hist;

static void counters_add_up(void **state)
{
    (void)state;
    struct sonde_counter a = sonde_counter("test_a_total", "A."), b;
    sonde_counter_add(a, 3);
    sonde_counter_add(a, UINT32_MAX);
    assert_int_equal(readback_counter(a), 3ull + UINT32_MAX);
    b = sonde_counter("test_a_total", "Another help does not make another series.");
    assert_int_equal(a.off, b.off);
    sonde_fn_counter_add(b.off, 1);
    assert_int_equal(readback_counter(a), 4ull + UINT32_MAX);
}

static void gauges_set_and_add(void **state)
{
    (void)state;
    struct sonde_gauge g = sonde_gauge("test_gauge", "G.");
    sonde_gauge_set(g, 2.5);
    sonde_gauge_add(g, -4);
    assert_true(readback_gauge(g) == -1.5);
    sonde_fn_gauge_set(g.off, 1e300);
    sonde_fn_gauge_add(g.off, 1);
    assert_true(readback_gauge(g) == 1e300);
}

static void histograms_keep_count_and_sum(void **state)
{
    (void)state;
    struct sonde_hist h = sonde_hist("test_seconds", "H.", 1e-9);
    uint64_t sum = 0, n = 0;
    for (uint64_t v = 1; v < 1ull << 40; v = v * 5 / 3 + 1, n++) {
        sonde_hist_record(h, v);
        sum += v;
    }
    sonde_hist_record(h, 0);
    readback_hist(h, &hist);
    assert_int_equal(hist.count, n + 1);
    assert_int_equal(hist.zero, 1);
    assert_int_equal(hist.sum, sum);
}

/* Each recorded value lies in (upper(p - 1), upper(p)], for several units. */
static void histogram_bounds_hold(void **state)
{
    (void)state;
    static const double scales[] = { 1, 1e-9, 1e-6, 0.001, 8, 1.0 / 3 };
    for (size_t s = 0; s < sizeof(scales) / sizeof(scales[0]); s++) {
        for (uint64_t v = 1; v < 1ull << 50; v = v * 9 / 8 + 1) {
            const double x = (double)v * scales[s];
            const uint64_t p = sonde__hist_bucket(x);
            assert_true(p > 0 && p < SONDE__HIST_BUCKETS);
            assert_true(x <= sonde__hist_upper((uint32_t)p) * (1 + 1e-15));
            assert_true(x > sonde__hist_upper((uint32_t)p - 1) * (1 - 1e-15));
        }
    }
    /* Powers of two are their bucket's upper bound: (lower, upper]. */
    for (int e = -39; e < 56; e++) {
        const double x = e < 0 ? 1.0 / (double)(1ull << -e) : (double)(1ull << e);
        assert_int_equal(sonde__hist_bucket(x), (e + 40) * 64);
        assert_true(sonde__hist_upper((uint32_t)(e + 40) * 64) == x);
    }
    assert_true(sonde__hist_bucket(0) >= SONDE__HIST_BUCKETS);
    assert_true(sonde__hist_bucket(-1) >= SONDE__HIST_BUCKETS);
    assert_true(sonde__hist_bucket(1e30) >= SONDE__HIST_BUCKETS);
}

static void out_of_range_is_counted(void **state)
{
    (void)state;
    struct sonde_hist h = sonde_hist("test_huge", "H.", 1e6);
    const uint64_t before = sonde__g.h->drops[SONDE__DROP_range];
    sonde_hist_record(h, UINT64_MAX);
    sonde_hist_record(h, 1ull << 63);
    readback_hist(h, &hist);
    assert_int_equal(hist.count, 2);
    assert_int_equal(hist.bucket[SONDE__HIST_BUCKETS - 1], 2);
    assert_int_equal(sonde__g.h->drops[SONDE__DROP_range], before + 2);
}

static void undefined_handles_are_harmless(void **state)
{
    (void)state;
    sonde_counter_add((struct sonde_counter){ 0 }, 77);
    sonde_gauge_set((struct sonde_gauge){ 0 }, 7);
    sonde_gauge_add((struct sonde_gauge){ 0 }, 7);
    sonde_hist_record((struct sonde_hist){ 0, 0 }, 7);
    sonde_hist_record_traced((struct sonde_hist){ 0, 0 }, 7);
    assert_non_null(sonde__tls.lane);
    assert_int_equal(sonde__lane_of(sonde__tls.lane)->owner_tid, sonde__tls.tid);
}

static const char *const two_labels[] = { "method", "code", NULL };

static struct sonde_family family(const char *name, uint32_t series_max)
{
    const struct sonde_metric m = {
        .size = sizeof(m), .name = name, .labels = two_labels, .series_max = series_max
    };
    struct sonde_family f;
    assert_int_equal(sonde_define(SONDE_COUNTER, &m, &f), 0);
    return f;
}

static void labels_find_their_series(void **state)
{
    (void)state;
    const struct sonde_family f = family("test_requests_total", 0);
    struct sonde_counter c[40][25];
    char a[16], b[16];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 40; i++) {
            for (int j = 0; j < 25; j++) {
                snprintf(a, sizeof(a), "%.*s", i % 13, "abcdefghijklm");
                snprintf(b, sizeof(b), "%d-%d", i, j);
                const struct sonde_counter found =
                    sonde_counter_bind(f, (const char *const[]){ a, b });
                if (round == 0) c[i][j] = found;
                assert_int_equal(found.off, c[i][j].off);
                sonde_counter_add(found, (uint64_t)(i + 1));
            }
        }
    }
    for (int i = 0; i < 40; i++) {
        for (int j = 0; j < 25; j++) assert_int_equal(readback_counter(c[i][j]), 2 * (i + 1));
    }
    /* NULL values are empty ones; the same place of a value in another label is another series. */
    const struct sonde_counter none = sonde_counter_bind(f, NULL);
    assert_int_equal(none.off, sonde_counter_bind(f, (const char *const[]){ "", NULL }).off);
    assert_int_not_equal(sonde_counter_bind(f, (const char *const[]){ "x", "" }).off,
                         sonde_counter_bind(f, (const char *const[]){ "", "x" }).off);
}

static void overflow_is_counted(void **state)
{
    (void)state;
    const struct sonde_family f = family("test_capped_total", 10);
    char value[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(value, sizeof(value), "user-%d", i);
        sonde_counter_add(sonde_counter_bind(f, (const char *const[]){ "GET", value }), 1);
    }
    const struct sonde__family *fam = sonde__family_at(f.id);
    assert_int_equal(fam->series_count, 10);
    assert_int_equal(fam->overflowed, 990);
    assert_int_equal(readback_counter((struct sonde_counter){ 8ull * fam->overflow_series }), 990);
}

static void odd_label_values_are_repaired(void **state)
{
    (void)state;
    static char huge[10241];
    memset(huge, 'x', sizeof(huge) - 1);
    static const char *const odd[] = { "a\"b\\c\nd", "\xff\xfe", "\xc3", huge, "\xe2\x82\xac" };
    const struct sonde_family f = family("test_odd_total", 0);
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        const char *const values[] = { odd[i], "1" };
        const struct sonde_counter a = sonde_counter_bind(f, values);
        assert_int_not_equal(a.off, 0);
        assert_int_equal(a.off, sonde_counter_bind(f, values).off); /* found again */
        const struct sonde__series *s = sonde__series_at((uint32_t)(a.off / 8));
        assert_true(s->values.len <= 2 + SONDE_LABEL_VALUE_MAX + 2 + 1);
    }
    assert_true(sonde__g.h->drops[SONDE__DROP_label_cut] >= 3);
}

static void bad_definitions_are_refused(void **state)
{
    (void)state;
    static const char *const none[] = { NULL };
    static const char *const reserved[] = { "pid", NULL };
    static const char *const twice[] = { "a", "a", NULL };
    static const char *const nine[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", NULL };
    static const char *const half[] = { "tag", NULL };
    const struct { const char *why; struct sonde_metric m; int rc; } cases[] = {
        { "no name", { .labels = none }, SONDE_EINVAL },
        { "empty name", { .name = "" }, SONDE_EINVAL },
        { "digit first", { .name = "9a" }, SONDE_EINVAL },
        { "colon", { .name = "a:b" }, SONDE_EINVAL },
        { "reserved label", { .name = "test_x", .labels = reserved }, SONDE_EINVAL },
        { "label twice", { .name = "test_x", .labels = twice }, SONDE_EINVAL },
        { "nine labels", { .name = "test_x", .labels = nine }, SONDE_EINVAL },
        { "tag without value", { .name = "test_x", .tags = half }, SONDE_EINVAL },
        { "negative scale", { .name = "test_x", .scale = -1 }, SONDE_EINVAL },
        { "kind", { .name = "test_x", .kind = 99 }, SONDE_EINVAL },
        { "other type", { .name = "test_gauge" }, SONDE_EEXIST },
        { "other labels", { .name = "test_a_total", .labels = two_labels }, SONDE_EEXIST },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_metric m = cases[i].m;
        struct sonde_family f = { 42 };
        m.size = sizeof(m);
        if (sonde_define(SONDE_COUNTER, &m, &f) != cases[i].rc) fail_msg("%s", cases[i].why);
        assert_int_equal(f.id, 0);
        sonde_counter_add(sonde_counter_bind(f, NULL), 1); /* the sink */
    }
    assert_int_equal(sonde_counter("1bad", "x").off, 0);
    assert_int_equal(sonde_hist("1bad", "x", 1).off, 0);
}

static void options_may_be_older_or_newer(void **state)
{
    (void)state;
    struct { struct sonde_metric m; char tail[16]; } newer;
    struct sonde_family f;
    memset(&newer, 0, sizeof(newer));
    newer.m.size = sizeof(newer);
    newer.m.name = "test_newer_total";
    assert_int_equal(sonde_define(SONDE_COUNTER, &newer.m, &f), 0);
    newer.tail[15] = 1;
    assert_int_equal(sonde_define(SONDE_COUNTER, &newer.m, &f), SONDE_EINVAL);
    newer.m.size = offsetof(struct sonde_metric, help);
    newer.m.name = "test_older_total";
    assert_int_equal(sonde_define(SONDE_COUNTER, &newer.m, &f), 0);
    newer.m.size = 3;
    assert_int_equal(sonde_define(SONDE_COUNTER, &newer.m, &f), SONDE_EINVAL);
    assert_int_equal(sonde_define(SONDE_COUNTER, NULL, &f), SONDE_EINVAL);
}

static void spans_nest(void **state)
{
    (void)state;
    {
        SONDE_SCOPE("outer");
        const struct sonde_trace outer = sonde_trace_current();
        assert_true(outer.hi | outer.lo);
        {
            struct sonde_span s;
            sonde_span_begin(&s, sonde_name("inner"));
            sonde_span_attr_int(&s, sonde_name("tokens"), -5);
            sonde_span_attr_str(&s, sonde_name("model"),
                                "a model with a name of more than forty bytes");
            sonde_span_end(&s, SONDE_TIMEOUT);
        }
        const struct sonde__span_rec *r = readback_span(0);
        assert_int_equal(r->seq_type & 255, SONDE__REC_SPAN);
        assert_int_equal(r->parent, outer.span);
        assert_int_equal(r->trace_hi, outer.hi);
        assert_int_equal(r->trace_lo, outer.lo);
        assert_int_equal(r->name_tid >> 32, sonde__tls.tid);
        assert_int_equal(r->name_tid >> 24 & 255, SONDE_TIMEOUT);
        assert_string_equal(sonde__family_name(r->name_tid & 0xffffff), "inner");
        assert_true(r->end >= r->start);
        const uint64_t *attr = (const uint64_t *)(const void *)readback_span(1);
        assert_int_equal(attr[0] & 255, SONDE__REC_ATTR);
        assert_int_equal(attr[1], r->id);
        assert_int_equal(attr[2] >> 32, SONDE__ATTR_BYTES);
    }
    const struct sonde__span_rec *r = readback_span(0);
    assert_string_equal(sonde__family_name(r->name_tid & 0xffffff), "outer");
    assert_int_equal(r->parent, 0);
    const struct sonde_trace after = sonde_trace_current();
    assert_int_equal(after.hi | after.lo | after.span, 0);
}

/* From a language that cannot see the enum anything may come. */
static void outcome_is_none(void **state)
{
    (void)state;
    static const int outcomes[] = { 4, 255, 256, 70000, -1, INT32_MIN };
    for (size_t i = 0; i < sizeof(outcomes) / sizeof(outcomes[0]); i++) {
        struct sonde_span s;
        sonde_fn_span_begin(&s, sonde_name("outcome"));
        sonde_fn_span_end(&s, outcomes[i]);
        const struct sonde__span_rec *r = readback_span(0);
        assert_int_equal(r->name_tid >> 32, sonde__tls.tid);
        assert_int_equal(r->name_tid >> 24 & 255, SONDE_ERROR);
        assert_string_equal(sonde__family_name(r->name_tid & 0xffffff), "outcome");
    }
}

static void ring_wraps(void **state)
{
    (void)state;
    const uint32_t name = sonde_name("wrap");
    const uint64_t before = sonde__tls.ring->reserve;
    for (uint32_t i = 0; i < 3 * SONDE__RING_RECS; i++) {
        struct sonde_span s;
        sonde_span_begin(&s, name);
        sonde_span_end(&s, SONDE_OK);
    }
    assert_int_equal(sonde__tls.ring->reserve, before + 3 * SONDE__RING_RECS);
    const uint64_t index = sonde__tls.ring->reserve - 1;
    assert_int_equal(sonde__tls.ring->rec[index % SONDE__RING_RECS].seq_type >> 8, index + 1);
}

static void operations_record_latency_and_errors(void **state)
{
    (void)state;
    struct sonde_op op;
    sonde_op_begin(&op, "load");
    const struct sonde_trace t = sonde_trace_current();
    sonde_op_end(&op, SONDE_OK, NULL);
    sonde_op_begin(&op, "load");
    sonde_op_end(&op, SONDE_ERROR, "ENOENT");
    sonde_bandwidth_in("disk", 100);
    sonde_bandwidth_out("net", 7);
    sonde_cache_access(NULL, 1);
    sonde_cache_access("l2", 0);

    const struct sonde_metric d = { .size = sizeof(d),
                                    .name = "sonde_operation_duration_seconds",
                                    .labels = (const char *const[]){ "operation", "outcome", NULL },
                                    .scale = 1e-9 };
    const struct sonde_metric e = { .size = sizeof(e),
                                    .name = "sonde_operation_errors_total",
                                    .labels = (const char *const[]){ "operation", "type", NULL } };
    struct sonde_family f;
    assert_int_equal(sonde_define(SONDE_HISTOGRAM, &d, &f), 0);
    const struct sonde_hist h = sonde_hist_bind(f, (const char *const[]){ "load", "ok" });
    readback_hist(h, &hist);
    assert_int_equal(hist.count, 1);
    uint64_t at;
    memcpy(&at, sonde__tls.lane + h.off - 8, sizeof(at));
    const struct sonde__hist *b =
        (const struct sonde__hist *)(void *)sonde__at(at + SONDE__HIST_NONE);
    assert_int_equal(b->ex_seq, 2);
    assert_int_equal(b->ex_trace_hi, t.hi);
    assert_int_equal(b->ex_value, b->sum);
    assert_int_equal(sonde_define(SONDE_COUNTER, &e, &f), 0);
    assert_int_equal(
        readback_counter(sonde_counter_bind(f, (const char *const[]){ "load", "ENOENT" })), 1);
}

static void pools_are_gauges(void **state)
{
    (void)state;
    static const char *const labels[] = { "pool", NULL };
    const struct sonde_metric m = { .size = sizeof(m), .name = "sonde_memory_pool_bytes",
                                    .labels = labels };
    struct sonde_family f;
    const struct sonde_pool kv = sonde_pool("kv"), unnamed = sonde_pool(NULL);
    assert_int_equal(kv.off, sonde_pool("kv").off);
    assert_true(kv.off != unnamed.off);
    sonde_pool_add(kv, 1000);
    sonde_pool_add(kv, -400);
    sonde_pool_set(unnamed, 1ull << 40);
    assert_int_equal(sonde_define(SONDE_GAUGE, &m, &f), 0);
    const struct sonde_gauge g = sonde_gauge_bind(f, (const char *const[]){ "kv" });
    assert_true(readback_gauge(g) == 600);
    sonde_fn_gauge_add(kv.off, 1);
    assert_true(readback_gauge(g) == 601);
    assert_true(readback_gauge(sonde_gauge_bind(f, (const char *const[]){ "default" })) ==
                1099511627776.0);
    /* A pool that nobody defined is the sink. */
    sonde_pool_add((struct sonde_pool){ 0 }, 1);
}

static uint64_t rows;

static void busy(void)
{
    SONDE_RESOURCE_SCOPE("busy");
    SONDE_THROUGHPUT_SCOPE("rows", rows);
    volatile char *p = calloc(1, 1 << 22);
    for (size_t i = 0; i < 1 << 22; i += 4096) p[i] = 1;
    rows += 1000;
    free((void *)(uintptr_t)p);
}

static void scopes_measure(void **state)
{
    (void)state;
    busy();
    const struct sonde_metric faults = {
        .size = sizeof(faults), .name = "sonde_resource_page_faults_total",
        .labels = (const char *const[]){ "scope", "kind", NULL }
    };
    const struct sonde_metric items = { .size = sizeof(items),
                                        .name = "sonde_throughput_items_total",
                                        .labels = (const char *const[]){ "scope", NULL } };
    struct sonde_family f;
    assert_int_equal(sonde_define(SONDE_COUNTER, &faults, &f), 0);
    assert_true(
        readback_counter(sonde_counter_bind(f, (const char *const[]){ "busy", "minor" })) > 0);
    assert_int_equal(sonde_define(SONDE_COUNTER, &items, &f), 0);
    assert_int_equal(readback_counter(sonde_counter_bind(f, (const char *const[]){ "rows" })),
                     1000);
}

static void traceparent_reads_and_writes(void **state)
{
    (void)state;
    static const struct { const char *text; int rc; } cases[] = {
        { "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", 0 },
        { "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", 0 },
        { "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-may-come", 0 },
        { "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", SONDE_EINVAL },
        { "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", SONDE_EINVAL },
        { "00-00000000000000000000000000000000-b7ad6b7169203331-01", SONDE_EINVAL },
        { "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", SONDE_EINVAL },
        { "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", SONDE_EINVAL },
        { "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01", SONDE_EINVAL },
        { "", SONDE_EINVAL },
        { NULL, SONDE_EINVAL },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_trace t = { 1, 2, 3 };
        char again[SONDE_TRACEPARENT_SIZE];
        assert_int_equal(sonde_traceparent_parse(cases[i].text, &t), cases[i].rc);
        if (cases[i].rc) {
            assert_int_equal(t.span, 3);
            continue;
        }
        sonde_traceparent_format(t, again);
        assert_memory_equal(again + 2, cases[i].text + 2, 51);
    }
    char fresh[SONDE_TRACEPARENT_SIZE];
    struct sonde_trace t;
    sonde_traceparent_format((struct sonde_trace){ 0, 0, 0 }, fresh);
    assert_int_equal(sonde_traceparent_parse(fresh, &t), 0);
}

static void context_is_handed_on(void **state)
{
    (void)state;
    const struct sonde_trace mine = { 11, 22, 33 };
    const struct sonde_trace before = sonde_trace_set(mine);
    {
        SONDE_SCOPE("handed");
    }
    assert_int_equal(readback_span(0)->trace_hi, 11);
    assert_int_equal(readback_span(0)->parent, 33);
    assert_int_equal(sonde_trace_set(before).span, 33);
}

static void off_records_nothing(void **state)
{
    (void)state;
    const struct sonde_counter c = sonde_counter("test_off_total", "x");
    const uint64_t spans = sonde__tls.ring->reserve;
    sonde_counter_add(c, 1);
    sonde_enable(0);
    assert_false(sonde_is_enabled());
    assert_int_equal(sonde_open(NULL), SONDE_EOFF);
    sonde_counter_add(c, 1);
    {
        SONDE_SCOPE("off");
        SONDE_RESOURCE_SCOPE("off");
    }
    sonde_cache_access("off", 1);
    assert_true(sonde_ticks() != 0);
    sonde_enable(1);
    assert_true(sonde_is_enabled());
    sonde_counter_add(c, 1);
    assert_int_equal(readback_counter(c), 2);
    assert_int_equal(sonde__tls.ring->reserve, spans);
}

static void ticks_are_nanoseconds(void **state)
{
    (void)state;
    const uint64_t t0 = sonde_ticks(), m0 = sonde__mono_ns();
    while (sonde__mono_ns() - m0 < 50000000) continue;
    const uint64_t m1 = sonde__mono_ns(), t1 = sonde_ticks();
    const double ratio = (double)sonde_ticks_ns(t1 - t0) / (double)(m1 - m0);
    assert_true(ratio > 0.99); /* t spans m, so only the lower bound is sharp */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_add_up),
        cmocka_unit_test(gauges_set_and_add),
        cmocka_unit_test(histograms_keep_count_and_sum),
        cmocka_unit_test(histogram_bounds_hold),
        cmocka_unit_test(out_of_range_is_counted),
        cmocka_unit_test(undefined_handles_are_harmless),
        cmocka_unit_test(labels_find_their_series),
        cmocka_unit_test(overflow_is_counted),
        cmocka_unit_test(odd_label_values_are_repaired),
        cmocka_unit_test(bad_definitions_are_refused),
        cmocka_unit_test(options_may_be_older_or_newer),
        cmocka_unit_test(spans_nest),
        cmocka_unit_test(outcome_is_none),
        cmocka_unit_test(ring_wraps),
        cmocka_unit_test(operations_record_latency_and_errors),
        cmocka_unit_test(pools_are_gauges),
        cmocka_unit_test(scopes_measure),
        cmocka_unit_test(traceparent_reads_and_writes),
        cmocka_unit_test(context_is_handed_on),
        cmocka_unit_test(off_records_nothing),
        cmocka_unit_test(ticks_are_nanoseconds),
    };
    readback_private_dir();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
