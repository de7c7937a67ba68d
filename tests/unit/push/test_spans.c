/* Spans and requests as OTLP's Span messages, field by field; by which process they are put down;
 * what is left out because an agent before this one sent it, or because there is no room. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "infer/event.h"
#include "push/otlp.h"
#include "sonde/sonde.h"
#include "unit/push/pb_look.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static const struct push_origin origin = { .host = "box" };

/* The nth span of the nth group of what was put down. */
static struct pb_part span_of(const struct push_spans *s, size_t group, size_t nth)
{
    assert_true(group < s->group_count);
    const struct sonde_buf *b = &s->groups[group].spans;
    return pb_inner((struct pb_part){ (unsigned char *)b->data, b->len }, 2, nth);
}

static void expect_id(struct pb_part span, uint32_t field, uint64_t hi, uint64_t lo)
{
    const struct pb_part p = pb_inner(span, field, 0);
    const uint64_t words[2] = { __builtin_bswap64(hi), __builtin_bswap64(lo) };
    if (p.len == 16) assert_memory_equal(p.data, words, 16);
    else assert_int_equal(p.len, 8), assert_memory_equal(p.data, &words[1], 8);
}

static void tell(struct push_spans *s, const struct sonde_model_span *span)
{
    s->listener.on_span(span, s->listener.arg);
}

/* ---- Spans ----------------------------------------------------------------------------------- */

static void spans_field_by_field(void **state)
{
    (void)state;
    struct sonde_model_attr attrs[] = {
        { .key = "count", .type = SONDE__ATTR_INT, .value.i = -3 },
        { .key = "share", .type = SONDE__ATTR_DOUBLE, .value.d = 0.25 },
        { .key = "path", .type = SONDE__ATTR_STR, .value.str = "/x" },
    };
    const struct {
        struct sonde_model_span span;
        uint64_t kind;
        const char *attributes, *status; /* NULL = not set */
    } cases[] = {
        { { .name = "work", .program = "app", .pid = 7, .tid = 8, .start_ns = 1000,
            .duration_ns = 50, .trace_hi = 1, .trace_lo = 2, .id = 3, .parent = 4 },
          1, "thread.id=#8", NULL },
        { { .name = "work", .program = "app", .pid = 7, .tid = 8, .start_ns = 1000, .trace_lo = 2,
            .id = 3, .attr_count = 3, .attrs = attrs },
          1, "count=#-3 share=~0.25 path=/x thread.id=#8", NULL },
        { { .name = "work", .program = "app", .pid = 7, .start_ns = 1, .trace_hi = 1, .id = 3,
            .outcome = SONDE_ERROR },
          1, "error.type=error", "error" },
        { { .name = "work", .program = "app", .pid = 7, .start_ns = 1, .trace_hi = 1, .id = 3,
            .outcome = SONDE_TIMEOUT },
          1, "error.type=timeout", "timeout" },
        { { .name = "front", .program = "sonde", .start_ns = 1, .trace_hi = 1, .id = 3 }, 2, "",
          NULL },
        { { .name = "front", .program = "app", .tid = 5, .start_ns = 1, .trace_hi = 1, .id = 3 }, 1,
          "thread.id=#5", NULL }, /* somebody's own span of that name */
        { { .name = "", .program = NULL, .start_ns = 0, .trace_hi = UINT64_MAX,
            .trace_lo = UINT64_MAX, .id = UINT64_MAX, .parent = UINT64_MAX },
          1, "", NULL },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct push_spans s;
        char text[512];
        push_spans_init(&s, &origin, NULL, 0);
        tell(&s, &cases[i].span);
        assert_int_equal(s.group_count, 1);
        assert_int_equal(s.groups[0].count, 1);
        assert_int_equal(s.groups[0].pid, cases[i].span.pid);
        const struct pb_part span = span_of(&s, 0, 0);
        expect_id(span, 1, cases[i].span.trace_hi, cases[i].span.trace_lo);
        expect_id(span, 2, 0, cases[i].span.id);
        assert_int_equal(pb_count(span, 4), cases[i].span.parent != 0);
        if (cases[i].span.parent) expect_id(span, 4, 0, cases[i].span.parent);
        pb_expect_text(span, 5, cases[i].span.name);
        assert_int_equal(pb_value(span, 6), cases[i].kind);
        assert_int_equal(pb_value(span, 7), cases[i].span.start_ns);
        assert_int_equal(pb_value(span, 8), cases[i].span.start_ns + cases[i].span.duration_ns);
        pb_attributes(span, 9, text, sizeof(text));
        assert_string_equal(text, cases[i].attributes);
        assert_int_equal(pb_count(span, 15), cases[i].status != NULL);
        if (cases[i].status) {
            pb_expect_text(pb_inner(span, 15, 0), 2, cases[i].status);
            assert_int_equal(pb_value(pb_inner(span, 15, 0), 3), 2);
        }
        push_spans_release(&s);
    }
}

/* OTLP has no spans without ids: one of no trace is the only one of its own, always the same. */
static void ids_are_made_up(void **state)
{
    (void)state;
    struct push_spans s;
    static const unsigned char none[16];
    const struct sonde_model_span spans[] = {
        { .name = "a", .program = "p", .pid = 1, .tid = 1, .start_ns = 1000 },
        { .name = "a", .program = "p", .pid = 1, .tid = 1, .start_ns = 1000 }, /* the same again */
        { .name = "a", .program = "p", .pid = 1, .tid = 2, .start_ns = 1000 },
        { .name = "a", .program = "p", .pid = 1, .tid = 1, .start_ns = 1001 },
        { .name = "a", .program = "p", .pid = 1, .tid = 1, .start_ns = 1000, .id = 9 },
        { .name = "a", .program = "p", .pid = 1, .start_ns = 0 },
    };
    push_spans_init(&s, &origin, NULL, 0);
    for (size_t i = 0; i < COUNT(spans); i++) tell(&s, &spans[i]);
    for (size_t i = 0; i < COUNT(spans); i++) {
        const struct pb_part span = span_of(&s, 0, i);
        const struct pb_part trace = pb_inner(span, 1, 0), id = pb_inner(span, 2, 0);
        assert_int_equal(trace.len, 16);
        assert_int_equal(id.len, 8);
        assert_memory_not_equal(trace.data, none, 16);
        assert_memory_not_equal(id.data, none, 8);
        for (size_t j = 0; j < i; j++) {
            const struct pb_part other = pb_inner(span_of(&s, 0, j), 2, 0);
            assert_int_equal(memcmp(other.data, id.data, 8) == 0, i == 1 && j == 0);
        }
    }
    push_spans_release(&s);
}

static void put_down_by_process(void **state)
{
    (void)state;
    struct sonde_model *m;
    struct push_spans s, taken;
    char text[512];
    static const struct { uint32_t pid; const char *program; size_t group; } cases[] = {
        { 1, "a", 0 }, { 2, "b", 1 }, { 1, "a", 0 }, { 1, "other", 2 }, { 0, "sent", 3 },
        { 0, "sent", 3 }, { 0, NULL, 4 }, { 2, "b", 1 },
    };
    assert_int_equal(sonde_model_create(NULL, &m), 0);
    sonde_model_process(m, 1, 111, "a");
    sonde_model_process(m, 1, 222, "a"); /* the pid was used again: the newest counts */
    push_spans_init(&s, &origin, m, 0);
    for (size_t i = 0; i < COUNT(cases); i++) {
        tell(&s, &(struct sonde_model_span){ .name = "x", .program = cases[i].program,
                                             .pid = cases[i].pid, .id = i + 1, .trace_lo = 1 });
    }
    assert_int_equal(s.group_count, 5);
    push_spans_take(&s, &taken);
    assert_int_equal(s.group_count, 0);
    assert_int_equal(s.bytes, 0);
    static const uint32_t counts[] = { 2, 2, 1, 2, 1 };
    for (size_t i = 0; i < 5; i++) assert_int_equal(taken.groups[i].count, counts[i]);
    assert_int_equal(taken.groups[0].start_time, 222);
    const struct sonde_buf *r = &taken.groups[0].resource;
    pb_attributes((struct pb_part){ (unsigned char *)r->data, r->len }, 1, text, sizeof(text));
    assert_non_null(strstr(text, "service.name=a service.instance.id=box:1:222 "));
    push_spans_release(&taken);
    push_spans_release(&s);
    sonde_model_destroy(m);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void requests_field_by_field(void **state)
{
    (void)state;
    struct sonde_infer_attr attrs[] = { { .key = "user.tier", .value = "gold" } };
    struct sonde_infer_request full = {
        .id = 10, .trace_hi = 1, .trace_lo = 2, .parent = 9, .pid = 7, .program = "app",
        .model = "m7", .route = "/v1/chat/completions", .backend = "cpu", .error = "",
        .own_id = "r-1", .arrived_ns = 1000000000, .tokens_max = 100, .tokens_in = 20,
        .tokens_reused = 5, .tokens_out = 30, .total_s = 2, .ttft_s = 0.5, .itl_count = 29,
        .itl_s = 0.05, .attr_count = 1, .attrs = attrs,
    };
    full.phase_count[SONDE_PHASE_QUEUE] = 1;
    full.phase_s[SONDE_PHASE_QUEUE] = 0.125;
    const struct sonde_infer_request plain = { .id = 11, .trace_lo = 2, .program = "app",
                                               .model = "", .route = "", .backend = "",
                                               .error = "", .arrived_ns = 5 };
    struct sonde_infer_request failed = plain, embedded = plain, cut = full, strange = full;
    failed.outcome = SONDE_ERROR;
    failed.error = "out_of_memory";
    embedded.route = "/v1/embeddings";
    embedded.model = "e";
    cut.flags = SONDE_INFER_INCOMPLETE; /* it began before what is known: no time to first token */
    cut.ttft_s = 0;
    strange.total_s = NAN; /* not to be turned into a whole number */
    strange.ttft_s = -1;
    struct sonde_infer_request fronted = plain;
    fronted.source = SONDE_INFER_FRONT;
    const struct {
        const struct sonde_infer_request *r;
        const char *name, *attributes;
        uint64_t kind, end_ns, first_ns; /* first_ns 0 = no such event */
    } cases[] = {
        { &full, "chat m7",
          "gen_ai.operation.name=chat gen_ai.request.model=m7 gen_ai.response.id=r-1 "
          "sonde.route=/v1/chat/completions sonde.backend=cpu sonde.source=api "
          "gen_ai.request.max_tokens=#100 gen_ai.usage.input_tokens=#20 "
          "gen_ai.usage.output_tokens=#30 gen_ai.usage.cache_read.input_tokens=#5 "
          "sonde.time_to_first_token_seconds=~0.5 sonde.time_per_output_token_seconds=~0.05 "
          "sonde.queue_seconds=~0.125 user.tier=gold",
          2, 3000000000, 1500000000 },
        { &plain, "text_completion", "gen_ai.operation.name=text_completion sonde.source=api", 2, 5,
          0 },
        { &failed, "text_completion",
          "gen_ai.operation.name=text_completion sonde.source=api error.type=out_of_memory", 2,
          5, 0 },
        { &embedded, "embeddings e",
          "gen_ai.operation.name=embeddings gen_ai.request.model=e sonde.route=/v1/embeddings "
          "sonde.source=api", 2, 5, 0 },
        { &fronted, "text_completion", "gen_ai.operation.name=text_completion sonde.source=front",
          1, 5, 0 },
        { &cut, "chat m7", NULL, 2, 3000000000, 0 },
        { &strange, "chat m7", NULL, 2, 1000000000, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct push_spans s;
        char text[1024];
        push_spans_init(&s, &origin, NULL, 1);
        push_spans_request(&s, cases[i].r);
        const struct pb_part span = span_of(&s, 0, 0);
        pb_expect_text(span, 5, cases[i].name);
        assert_int_equal(pb_value(span, 6), cases[i].kind);
        assert_int_equal(pb_value(span, 7), cases[i].r->arrived_ns);
        assert_int_equal(pb_value(span, 8), cases[i].end_ns);
        pb_attributes(span, 9, text, sizeof(text));
        if (cases[i].attributes) assert_string_equal(text, cases[i].attributes);
        if (pb_count(span, 11) != (cases[i].first_ns != 0)) fail_msg("case %zu: first token", i);
        if (cases[i].first_ns) {
            pb_expect_text(pb_inner(span, 11, 0), 2, "first token");
            assert_int_equal(pb_value(pb_inner(span, 11, 0), 1), cases[i].first_ns);
        }
        push_spans_release(&s);
    }
    /* The front's own span is above the one of its request. */
    struct push_spans s;
    push_spans_init(&s, &origin, NULL, 1);
    push_spans_request(&s, &fronted);
    push_spans_request(&s, &full);
    expect_id(span_of(&s, 0, 0), 4, 0, fronted.id);
    expect_id(span_of(&s, 1, 0), 4, 0, full.parent);
    expect_id(span_of(&s, 1, 0), 2, 0, full.id);
    push_spans_release(&s);
}

/* Where requests are told by themselves their plain spans are left out, and no others. */
static void plain_spans_of_requests(void **state)
{
    (void)state;
    static const struct { struct sonde_model_span span; size_t without, with; } cases[] = {
        { { .name = "request", .program = "app", .pid = 7, .id = 1 }, 1, 0 },
        { { .name = "request", .program = "app", .pid = 7, .tid = 8, .id = 1 }, 1, 1 },
        { { .name = "request", .program = "app", .id = 1 }, 1, 1 }, /* sent by others */
        { { .name = "requests", .program = "app", .pid = 7, .id = 1 }, 1, 1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        for (int requests = 0; requests < 2; requests++) {
            struct push_spans s;
            push_spans_init(&s, &origin, NULL, requests);
            tell(&s, &cases[i].span);
            assert_int_equal(s.group_count, requests ? cases[i].with : cases[i].without);
            push_spans_release(&s);
        }
    }
}

/* ---- What was sent before -------------------------------------------------------------------- */

static void sent_before(void **state)
{
    (void)state;
    char dir[] = "/tmp/sonde-spans-XXXXXX", path[64];
    struct push_sent *sent = NULL;
    struct push_spans s, taken;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(push_sent_open(dir, &sent), 0);
    push_sent_add(sent, (const uint64_t[]){ 5, 6 }, 2);
    push_sent_close(sent);
    assert_int_equal(push_sent_open(dir, &sent), 0);
    push_spans_init(&s, &origin, NULL, 0);
    s.sent = sent;
    s.since_ns = 1000;
    static const struct { uint64_t id, start, duration; int taken; } cases[] = {
        { 5, 900, 50, 0 },   /* ended before this agent began, and is noted */
        { 7, 900, 50, 1 },   /* not noted */
        { 6, 900, 100, 1 },  /* ended since: it cannot be the one that was sent */
        { 5, 2000, 1, 1 },
        { 6, 0, 999, 0 },
    };
    size_t expected = 0;
    for (size_t i = 0; i < COUNT(cases); i++) {
        tell(&s, &(struct sonde_model_span){ .name = "x", .program = "p", .id = cases[i].id,
                                             .trace_lo = 1, .start_ns = cases[i].start,
                                             .duration_ns = cases[i].duration });
        expected += (size_t)cases[i].taken;
        assert_int_equal(s.group_count ? s.groups[0].count : 0, expected);
    }
    push_spans_take(&s, &taken); /* what is taken brings its ids, to be noted */
    assert_int_equal(taken.ids.len, expected * 8);
    assert_int_equal(((const uint64_t *)(const void *)taken.ids.data)[0], 7);
    push_spans_release(&taken);
    push_spans_release(&s);
    push_sent_close(sent);
    snprintf(path, sizeof(path), "%s/spans", dir);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
}

/* ---- Bounds and failures --------------------------------------------------------------------- */

static void groups_are_bounded(void **state)
{
    (void)state;
    struct push_spans s;
    push_spans_init(&s, &origin, NULL, 0);
    for (uint32_t i = 0; i < PUSH_GROUPS_MAX + 10; i++) {
        tell(&s, &(struct sonde_model_span){ .name = "x", .program = "p", .pid = i + 1, .id = 1 });
    }
    assert_int_equal(s.group_count, PUSH_GROUPS_MAX);
    assert_int_equal(s.dropped, 10);
    tell(&s, &(struct sonde_model_span){ .name = "x", .program = "p", .pid = 1, .id = 2 });
    assert_int_equal(s.groups[0].count, 2); /* those that are known go on */
    push_spans_release(&s);
}

static void bytes_are_bounded(void **state)
{
    (void)state;
    static char name[60001];
    struct push_spans s;
    size_t told = 0;
    memset(name, 'n', sizeof(name) - 1);
    push_spans_init(&s, &origin, NULL, 0);
    assert_false(push_spans_many(&s));
    for (; !s.dropped && told < 2000; told++) {
        tell(&s, &(struct sonde_model_span){ .name = name, .program = "p", .id = told + 1 });
        assert_int_equal(push_spans_many(&s), s.bytes >= 1 << 20);
    }
    assert_int_equal(s.dropped, 1);
    assert_int_equal(s.groups[0].count, told - 1);
    assert_in_range(s.bytes, 30 << 20, (32 << 20) + 61000);
    /* What is there is whole. */
    const struct sonde_buf *b = &s.groups[0].spans;
    assert_int_equal(pb_count((struct pb_part){ (unsigned char *)b->data, b->len }, 2), told - 1);
    push_spans_release(&s);
}

static void no_memory(void **state)
{
    (void)state;
    const struct sonde_model_span span = { .name = "x", .program = "p", .tid = 2, .id = 3 };
    int done = 0;
    for (uint64_t nth = 1; !done && nth < 100; nth++) {
        struct push_spans s;
        const int64_t live = sonde__alloc_live();
        push_spans_init(&s, &origin, NULL, 0);
        sonde__alloc_fail_nth(nth);
        tell(&s, &span);
        sonde__alloc_fail_nth(0);
        done = !s.dropped;
        assert_int_equal(s.group_count ? s.groups[0].count + s.dropped : s.dropped, 1);
        tell(&s, &span); /* the next one finds all in order */
        assert_int_equal(s.groups[0].count, done ? 2 : 1);
        pb_expect_text(span_of(&s, 0, 0), 5, "x");
        push_spans_release(&s);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_true(done);
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(spans_field_by_field), T(ids_are_made_up), T(put_down_by_process),
        T(requests_field_by_field), T(plain_spans_of_requests), T(sent_before),
        T(groups_are_bounded), T(bytes_are_bounded), T(no_memory),
    };
    return cmocka_run_group_tests_name("spans", tests, NULL, NULL);
}
