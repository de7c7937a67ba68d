/* read.h, "All of it": every series with its labels and figures, every span with its attributes,
 * against what was recorded; rings that were written over; while others write; in a forked child.
 * */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "sonde/read.h"
#include "unit/record/child.h"
#include "unit/record/readback.h"

static int is(struct sonde_read_text t, const char *text)
{
    return t.len == strlen(text) && !memcmp(t.text, text, t.len);
}

/* The series of this name whose first label has this value (NULL = it has none). */
static int walk_find(const char *name, const char *value, struct sonde_read_series *out)
{
    uint32_t cursor = 0;
    while (sonde_read_next(&cursor, out)) {
        if (is(out->name, name) && (value ? out->label_count && is(out->value[0], value)
                                          : !out->label_count)) {
            return 1;
        }
    }
    return 0;
}

CHILD_TEST(every_series_is_told_with_all_that_is_known_of_it)
{
    static const char *const labels[] = { "route", "code", NULL };
    static const char *const tags[] = { "zone", "a", NULL };
    const struct sonde_metric m = { .size = sizeof(m), .name = "t_total", .help = "Help.",
                                    .unit = "rows", .source = "test", .labels = labels,
                                    .tags = tags, .kind = SONDE_KIND_RATIO };
    struct sonde_family f;
    struct sonde_read_series s;
    struct sonde_read_hist h;
    NEED(!sonde_define(SONDE_COUNTER, &m, &f));
    sonde_counter_add(sonde_counter_bind(f, (const char *const[]){ "/", "200" }), 3);
    sonde_counter_add(sonde_counter_bind(f, (const char *const[]){ "/x", "" }), 4);
    sonde_gauge_set(sonde_gauge("t_now", "Now."), 1.5);
    sonde_hist_record(sonde_hist("t_seconds", "", 1e-9), 2000000000);

    NEED(walk_find("t_total", "/", &s));
    NEED(is(s.help, "Help.") && is(s.unit, "rows") && is(s.source, "test"));
    NEED(s.type == SONDE_COUNTER && s.kind == SONDE_KIND_RATIO && !s.overflow);
    NEED_EQ(s.label_count, 3);
    NEED(is(s.label[0], "route") && is(s.label[1], "code") && is(s.value[1], "200"));
    NEED(is(s.label[2], "zone") && is(s.value[2], "a"));
    NEED_EQ(sonde_read_counter(s.counter), 3);
    NEED(walk_find("t_total", "/x", &s) && is(s.value[1], ""));
    NEED_EQ(sonde_read_counter(s.counter), 4);
    NEED(walk_find("t_now", NULL, &s) && s.type == SONDE_GAUGE);
    NEED(sonde_read_gauge(s.gauge) == 1.5);
    NEED(walk_find("t_seconds", NULL, &s) && s.type == SONDE_HISTOGRAM && s.scale == 1e-9);
    sonde_read_hist(s.hist, &h);
    NEED(h.count == 1 && h.sum == 2);
}

CHILD_TEST(a_cursor_goes_on_where_it_was)
{
    struct sonde_read_series s;
    uint32_t cursor = 0;
    NEED(!sonde_read_next(&cursor, &s));
    sonde_counter("a_total", "");
    NEED(sonde_read_next(&cursor, &s) && is(s.name, "a_total"));
    NEED(!sonde_read_next(&cursor, &s));
    sonde_counter("b_total", "");
    NEED(sonde_read_next(&cursor, &s) && is(s.name, "b_total"));
    NEED(!sonde_read_next(&cursor, &s));
}

CHILD_TEST(what_did_not_fit_is_a_series_too)
{
    static const char *const labels[] = { "k", NULL };
    const struct sonde_metric m = { .size = sizeof(m), .name = "t_total", .labels = labels,
                                    .series_max = 1 };
    struct sonde_family f;
    struct sonde_read_series s;
    uint32_t cursor = 0;
    NEED(!sonde_define(SONDE_COUNTER, &m, &f));
    sonde_counter_add(sonde_counter_bind(f, (const char *const[]){ "1" }), 1);
    sonde_counter_add(sonde_counter_bind(f, (const char *const[]){ "2" }), 5);
    NEED(sonde_read_next(&cursor, &s) && !s.overflow && s.label_count == 1);
    NEED(sonde_read_next(&cursor, &s) && s.overflow && s.label_count == 0);
    NEED_EQ(sonde_read_counter(s.counter), 5);
    NEED(!sonde_read_next(&cursor, &s));
}

static uint64_t real_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

CHILD_TEST(spans_come_with_their_attributes)
{
    struct sonde_read_cursor c = { 0, 0, 0, 0 };
    struct sonde_read_record r;
    struct sonde_span outer, inner;
    sonde_open(NULL);
    const uint64_t before = real_ns();
    sonde_span_begin(&outer, sonde_name("outer"));
    const struct sonde_span outer_was = outer;
    sonde_span_begin(&inner, sonde_name("inner"));
    const uint64_t inner_id = inner.id;
    sonde_span_attr_int(&inner, sonde_name("n"), -7);
    sonde_span_attr_double(&inner, sonde_name("x"), 0.25);
    sonde_span_attr_str(&inner, sonde_name("s"), "text");
    sonde_span_end(&inner, SONDE_TIMEOUT);
    sonde_span_end(&outer, SONDE_OK);
    const uint64_t after = real_ns();

    NEED(sonde_read_record(&c, &r) && r.what == SONDE_READ_ATTR && r.span == inner_id);
    NEED(is(r.name, "n") && r.type == 1 && r.number == -7);
    NEED(sonde_read_record(&c, &r) && is(r.name, "x") && r.type == 2 && r.real == 0.25);
    NEED(sonde_read_record(&c, &r) && is(r.name, "s") && r.type == 3);
    NEED(r.text_len == 4 && !memcmp(r.text, "text", 4));
    NEED(sonde_read_record(&c, &r) && r.what == SONDE_READ_SPAN && is(r.name, "inner"));
    NEED(r.span == inner_id && r.parent == outer_was.id && r.outcome == SONDE_TIMEOUT);
    NEED(r.trace_hi == outer_was.trace_hi && r.trace_lo == outer_was.trace_lo);
    NEED_EQ(r.tid, sonde__tls.tid);
    NEED(sonde_read_record(&c, &r) && is(r.name, "outer") && r.parent == 0);
    /* The two clocks agree to a fraction of a millisecond over so short a time. */
    NEED(r.start_ns + 1000000 >= before && r.start_ns + r.duration_ns <= after + 1000000);
    NEED(!sonde_read_record(&c, &r));
    NEED_EQ(c.lost, 0);
}

CHILD_TEST(what_was_written_over_counts_as_lost)
{
    struct sonde_read_cursor c = { 0, 0, 0, 0 };
    struct sonde_read_record r;
    struct sonde_span s;
    const uint64_t all = SONDE__RING_RECS + 100;
    uint64_t seen = 0;
    sonde_open(NULL);
    const uint32_t name = sonde_name("s");
    for (uint64_t i = 0; i < all; i++) {
        sonde_span_begin(&s, name);
        sonde_span_end(&s, SONDE_OK);
    }
    while (sonde_read_record(&c, &r)) seen++;
    NEED_EQ(seen, SONDE__RING_RECS);
    NEED_EQ(seen + c.lost, all);
}

#define SPANS 200000u
static int done;

static void *write_spans(void *arg)
{
    const uint32_t name = sonde_name("w");
    struct sonde_span s;
    (void)arg;
    for (uint32_t i = 0; i < SPANS; i++) {
        sonde_span_begin(&s, name);
        sonde_span_end(&s, SONDE_OK);
    }
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    return NULL;
}

CHILD_TEST(records_are_whole_beside_a_writer)
{
    pthread_t writer;
    sonde_open(NULL);
    NEED(!pthread_create(&writer, NULL, write_spans, NULL));
    uint64_t seen = 0;
    do {
        struct sonde_read_cursor c = { 0, 0, 0, 0 };
        struct sonde_read_record r;
        while (sonde_read_record(&c, &r)) {
            NEED(r.what == SONDE_READ_SPAN && is(r.name, "w") && r.parent == 0);
            NEED(r.trace_hi && r.trace_lo && r.span && r.outcome == SONDE_OK);
            seen++;
        }
    } while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE));
    pthread_join(writer, NULL);
    NEED(seen > 0);
}

CHILD_TEST(nothing_is_told_while_nothing_is_recorded)
{
    struct sonde_read_cursor c = { 0, 0, 0, 0 };
    struct sonde_read_record r;
    struct sonde_read_series s;
    uint32_t cursor = 0;
    sonde_enable(0);
    sonde_counter_add(sonde_counter("t_total", ""), 1);
    NEED(!sonde_read_next(&cursor, &s) && !sonde_read_record(&c, &r));
    sonde_enable(1);
    sonde_counter_add(sonde_counter("t_total", ""), 1);
    sonde_enable(0);
    NEED(sonde_read_next(&cursor, &s) && sonde_read_counter(s.counter) == 1);
}

CHILD_TEST(a_scope_ends_with_its_outcome)
{
    struct sonde_read_cursor c = { 0, 0, 0, 0 };
    struct sonde_read_record r;
    struct sonde_resource resource;
    struct sonde_throughput throughput;
    const uint64_t items = 3;
    sonde_resource_begin(&resource, "r");
    sonde_resource_end_as(&resource, SONDE_ERROR);
    sonde_throughput_begin(&throughput, "t", &items);
    sonde_throughput_end_as(&throughput, SONDE_CANCELLED);
    NEED(sonde_read_record(&c, &r) && is(r.name, "r") && r.outcome == SONDE_ERROR);
    NEED(sonde_read_record(&c, &r) && is(r.name, "t") && r.outcome == SONDE_CANCELLED);
}

CHILD_TEST(a_forked_child_sees_its_own)
{
    struct sonde_read_cursor c = { 0, 0, 0, 0 };
    struct sonde_read_record r;
    struct sonde_read_series s;
    struct sonde_span span;
    int status = -1;
    sonde_counter_add(sonde_counter("t_total", ""), 7);
    sonde_span_begin(&span, sonde_name("parent"));
    sonde_span_end(&span, SONDE_OK);
    if (fork() == 0) {
        NEED(walk_find("t_total", NULL, &s));
        NEED_EQ(sonde_read_counter(s.counter), 0);
        sonde_span_begin(&span, sonde_name("child"));
        sonde_span_end(&span, SONDE_OK);
        NEED(sonde_read_record(&c, &r) && is(r.name, "child"));
        NEED(!sonde_read_record(&c, &r));
        _exit(0);
    }
    wait(&status);
    NEED_EQ(status, 0);
    NEED(sonde_read_record(&c, &r) && is(r.name, "parent"));
    NEED(!sonde_read_record(&c, &r));
}

int main(void)
{
    readback_private_dir();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_series_is_told_with_all_that_is_known_of_it),
        cmocka_unit_test(a_cursor_goes_on_where_it_was),
        cmocka_unit_test(what_did_not_fit_is_a_series_too),
        cmocka_unit_test(spans_come_with_their_attributes),
        cmocka_unit_test(what_was_written_over_counts_as_lost),
        cmocka_unit_test(records_are_whole_beside_a_writer),
        cmocka_unit_test(nothing_is_told_while_nothing_is_recorded),
        cmocka_unit_test(a_scope_ends_with_its_outcome),
        cmocka_unit_test(a_forked_child_sees_its_own),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    readback_remove_dir();
    return failed;
}
