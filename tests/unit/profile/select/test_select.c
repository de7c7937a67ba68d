/* Selections: of a phase, of requests, of the slowest, with batches by tokens and with the threads
 * of a pool. Each case says what of which sample is left. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "profile/heap.h"
#include "profile/infer.h"
#include "profile/select/select.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"

enum { PID = 7, A = 1, B = 2, C = 3 };

static struct sonde_profile *p;

static uint32_t add_span(uint32_t thread, const char *name, uint64_t start, uint64_t end,
                         uint64_t id, uint64_t parent)
{
    const struct sonde_profile_span s = { .start_ns = start, .end_ns = end, .thread = thread,
                                          .id = id, .parent = parent,
                                          .name = sonde_profile_cstring(p, name) };
    assert_int_equal(sonde_profile_add_span(p, &s), 0);
    return p->spans_count - 1;
}

static void add_part(uint32_t span, uint64_t request, uint32_t in, uint32_t out)
{
    const struct sonde_profile_part part = { .request = request, .span = span, .tokens_in = in,
                                             .tokens_out = out };
    assert_int_equal(sonde_profile_add_part(p, &part), 0);
}

static void add_request(uint64_t id, const char *own_id, uint64_t trace, uint64_t arrived,
                        double total_s, uint32_t source, uint32_t pid)
{
    struct sonde_infer_request r = { .id = id, .trace_lo = trace, .pid = pid, .source = source,
                                     .arrived_ns = arrived, .total_s = total_s, .program = "",
                                     .model = "", .route = "", .backend = "", .error = "",
                                     .invalid = "" };
    snprintf(r.own_id, sizeof(r.own_id), "%s", own_id);
    assert_int_equal(sonde_infer_run_add(p, &r), 0);
}

/*  time  100      200            300        400       500      600
 *  E      encode A  batch A3 B1   batch A1 B3  sample B
 *                   (in it: a span, and a sampler for A)
 *  F                                           prefill C  (450 … 480)
 *  W      no spans */
static int set_up(void **state)
{
    (void)state;
    if (sonde_profile_create(0, &p)) return -1;
    const uint32_t e = sonde_profile_thread(p, PID, 10, "engine");
    const uint32_t f = sonde_profile_thread(p, PID, 11, "second");
    const uint32_t w = sonde_profile_thread(p, PID, 12, "pool");
    const uint32_t none = sonde_profile_thread(p, PID, 0, "requests");
    build_sample(p, "encode", 1000, e, 150);
    build_sample(p, "matmul", 1000, e, 230);
    build_sample(p, "forward", 1000, e, 250);
    build_sample(p, "inner", 1000, e, 290);
    build_sample(p, "mixed", 1000, e, 350);
    build_sample(p, "choose", 1000, e, 440);
    build_sample(p, "second", 1000, f, 460);
    build_sample(p, "idle", 1000, e, 550);
    build_sample(p, "pool-encode", 1000, w, 160);
    build_sample(p, "pool-batch", 1000, w, 260);
    build_sample(p, "pool-both", 1000, w, 470);
    build_sample(p, "pool-idle", 1000, w, 560);
    build_sample(p, "unknown", 1000, e, 0);

    add_span(none, "request", 50, 500, A, 0);
    add_span(none, "request", 60, 500, B, 0);
    add_span(none, "queue", 60, 200, 90, B);
    add_span(e, "encode", 100, 200, 40, A);
    const uint32_t batch = add_span(e, "prefill", 200, 300, 50, 0);
    add_part(batch, A, 30, 0);
    add_part(batch, B, 10, 0);
    add_span(e, "multiply", 220, 240, 51, 50);
    add_span(e, "sample", 280, 300, 52, A);
    const uint32_t mixed = add_span(e, "decode", 300, 400, 60, 0);
    add_part(mixed, A, 0, 2);
    add_part(mixed, B, 3, 3);
    add_span(e, "sample", 400, 500, 61, B);
    add_span(f, "prefill", 450, 480, 70, C);

    add_request(A, "job-1", 0xa, 50, 450e-9, 0, PID);
    add_request(B, "job-2", 0xb, 60, 440e-9, 0, PID);
    add_request(C, "job-10", 0xc, 440, 50e-9, 0, PID);
    add_request(9, "", 0xc, 430, 70e-9, 3, 0); /* the same, as a front saw it */
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sonde_profile_destroy(p);
    return (int)sonde__alloc_live();
}

static const char *name_of(uint32_t stack)
{
    const struct sonde_profile_location *l = &p->locations[p->stacks[stack].location];
    return sonde_profile_str(p, p->functions[p->lines[l->line].function].name);
}

/* "a=1000 b=250" */
static void describe(char *out, size_t size)
{
    size_t len = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < p->samples_count; i++) {
        len += (size_t)snprintf(out + len, size - len, "%s%s=%llu", len ? " " : "",
                                name_of(p->samples[i].stack),
                                (unsigned long long)p->samples[i].weight);
    }
}

static const struct sonde_select_trace traces[] = { { 0, 0xa }, { 0, 0xc } };

/* By request, as set_up adds them: A, B, C, and C as a front saw it. */
static const unsigned char only_a[] = { 1, 0, 0, 0 }, a_and_b[] = { 1, 1, 0, 0 },
                           all_of_them[] = { 1, 1, 1, 1 }, c_by_its_front[] = { 0, 0, 0, 1 };

static const struct {
    const char *name;
    struct sonde_select select;
    const char *left;
} cases[] = {
    { "a phase, without what is nested in it; of a mixed batch its tokens", { .phase = "prefill" },
      "matmul=1000 forward=1000 mixed=375 second=1000" },
    { "the rest of the mixed batch", { .phase = "decode" }, "mixed=625" },
    { "phases of no batch", { .phase = "sample" }, "inner=1000 choose=1000" },
    { "a request: by tokens of batches", { .request = "job-1" },
      "encode=1000 matmul=750 forward=750 inner=1000 mixed=250" },
    { "another", { .request = "job-2" }, "matmul=250 forward=250 mixed=750 choose=1000" },
    { "by request id", { .request = "0000000000000002" },
      "matmul=250 forward=250 mixed=750 choose=1000" },
    { "by trace id", { .request = "0000000000000000000000000000000C" }, "second=1000" },
    { "by trace id as a UUID", { .request = "00000000-0000-0000-0000-00000000000C" },
      "second=1000" },
    { "whole before beginnings", { .request = "job-1", .phase = "encode" }, "encode=1000" },
    { "a beginning that is enough", { .request = "job-10" }, "second=1000" },
    { "phase of a request", { .phase = "prefill", .request = "job-2" },
      "matmul=250 forward=250 mixed=375" },
    { "the slowest", { .slowest = 1 }, "encode=1000 matmul=750 forward=750 inner=1000 mixed=250" },
    { "a share of all is at least one", { .slowest_share = 0.01 },
      "encode=1000 matmul=750 forward=750 inner=1000 mixed=250" },
    { "twins count once", { .slowest_share = 0.6 },
      "encode=1000 matmul=1000 forward=1000 inner=1000 mixed=1000 choose=1000" },
    { "more than there are", { .slowest = 50 },
      "encode=1000 matmul=1000 forward=1000 inner=1000 mixed=1000 choose=1000 second=1000" },
    { "traces", { .traces = traces, .trace_count = 2 },
      "encode=1000 matmul=750 forward=750 inner=1000 mixed=250 second=1000" },
    { "given ones", { .given = only_a },
      "encode=1000 matmul=750 forward=750 inner=1000 mixed=250" },
    { "given ones come with their twins", { .given = c_by_its_front }, "second=1000" },
    { "the others", { .given = only_a, .rest = 1 },
      "matmul=250 forward=250 mixed=750 choose=1000 second=1000" },
    { "the others of those that count", { .given = only_a, .among = a_and_b, .rest = 1 },
      "matmul=250 forward=250 mixed=750 choose=1000" },
    { "the others than one", { .request = "job-1", .among = a_and_b, .rest = 1 },
      "matmul=250 forward=250 mixed=750 choose=1000" },
    { "the others than the slowest", { .slowest = 1, .rest = 1 },
      "matmul=250 forward=250 mixed=750 choose=1000 second=1000" },
    { "the slowest of those that count", { .slowest = 1, .among = c_by_its_front }, "second=1000" },
    { "all that count", { .among = a_and_b },
      "encode=1000 matmul=1000 forward=1000 inner=1000 mixed=1000 choose=1000" },
    { "a phase of those that count", { .among = only_a, .phase = "prefill" },
      "matmul=750 forward=750" },
    { "with the pool: while just this ran", { .phase = "encode", .workers = 1 },
      "encode=1000 pool-encode=1000" },
    { "with the pool: as much as of the batch", { .request = "job-2", .workers = 1 },
      "matmul=250 forward=250 mixed=750 choose=1000 pool-batch=250" },
    { "with the pool: not while others ran", { .request = "job-10", .workers = 1 },
      "second=1000" },
};

static void test_cases(void **state)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_err err = { "" };
        char left[512];
        if (sonde_profile_select(p, &cases[i].select, NULL, &err)) {
            fail_msg("%s: %s", cases[i].name, err.text);
        }
        describe(left, sizeof(left));
        if (strcmp(left, cases[i].left) != 0) {
            fail_msg("%s:\n  wanted %s\n  got    %s", cases[i].name, cases[i].left, left);
        }
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
    }
}

static void test_what_is_told(void **state)
{
    (void)state;
    struct sonde_selected found;
    struct sonde_err err;
    assert_int_equal(sonde_profile_select(p, &(struct sonde_select){ .request = "job-10" }, &found,
                                          &err), 0);
    assert_int_equal(found.requests, 2);
    assert_int_equal(found.requests_all, 4);
    assert_int_equal(found.own[SONDE_SAMPLE_CPU], 1000);
    assert_int_equal(found.workers[SONDE_SAMPLE_CPU], 0);
    assert_int_equal(found.ambiguous[SONDE_SAMPLE_CPU], 1000);
    assert_int_equal(found.untimed[SONDE_SAMPLE_CPU], 1000);
    assert_int_equal(p->weights[SONDE_SAMPLE_CPU], 1000);
    assert_int_equal(p->infer->request_count, 2);
    assert_string_equal(p->infer->requests[0].own_id, "job-10");
}

/* Spans of others go, with their parts; the request's own stay. */
static void test_spans(void **state)
{
    (void)state;
    assert_int_equal(sonde_profile_select(p, &(struct sonde_select){ .request = "job-2" }, NULL,
                                          NULL), 0);
    const char *const left[] = { "request", "queue", "prefill", "multiply", "decode", "sample" };
    assert_int_equal(p->spans_count, sizeof(left) / sizeof(left[0]));
    for (uint32_t i = 0; i < p->spans_count; i++) {
        assert_string_equal(sonde_profile_str(p, p->spans[i].name), left[i]);
    }
    assert_int_equal(p->parts_count, 4);
    assert_int_equal(p->parts[0].span, 2);
    assert_int_equal(p->parts[3].span, 4);
}

/* Parts of all requests add up to the whole, to the nanosecond and the sample. */
static void test_parts_add_up(void **state)
{
    uint64_t weight = 0, count = 0;
    for (int k = 0; k < 2; k++) {
        const uint32_t e = sonde_profile_thread(p, PID, 10, NULL);
        p->samples_count = 0;
        for (uint64_t i = 0; i < 97; i++) build_sample(p, "forward", 333, e, 241 + i % 30);
        assert_int_equal(sonde_profile_select(p, &(struct sonde_select){
            .request = k ? "job-1" : "job-2" }, NULL, NULL), 0);
        for (uint32_t i = 0; i < p->samples_count; i++) {
            weight += p->samples[i].weight;
            count += p->samples[i].count;
        }
        assert_int_equal(tear_down(state), 0);
        assert_int_equal(set_up(state), 0);
    }
    assert_in_range(weight, 97 * 333 - 1, 97 * 333 + 1);
    assert_in_range(count, 96, 98);
}

/* A span whose request is known by its trace only, at the time of that request. */
static void test_by_trace(void **state)
{
    (void)state;
    const uint32_t t = sonde_profile_thread(p, 8, 80, "other process");
    for (uint64_t at = 100; at <= 700; at += 600) {
        const struct sonde_profile_span s = { .start_ns = at, .end_ns = at + 50, .thread = t,
                                              .trace_lo = 0xa, .id = at, .parent = 12345,
                                              .name = sonde_profile_cstring(p, "handle") };
        assert_int_equal(sonde_profile_add_span(p, &s), 0);
        build_sample(p, at == 100 ? "then" : "later", 1000, t, at + 10);
    }
    char left[512];
    assert_int_equal(sonde_profile_select(p, &(struct sonde_select){ .request = "job-1" }, NULL,
                                          NULL), 0);
    describe(left, sizeof(left));
    assert_non_null(strstr(left, "then=1000"));
    assert_null(strstr(left, "later"));
}

/* Parents in a circle end the search. */
static void test_circle(void **state)
{
    (void)state;
    const uint32_t t = sonde_profile_thread(p, PID, 90, "circle");
    add_span(t, "a", 100, 200, 1001, 1002);
    add_span(t, "b", 110, 190, 1002, 1001);
    build_sample(p, "circle", 1000, t, 150);
    char left[512];
    assert_int_equal(sonde_profile_select(p, &(struct sonde_select){ .phase = "encode" }, NULL,
                                          NULL), 0);
    describe(left, sizeof(left));
    assert_string_equal(left, "encode=1000");
}

static const struct {
    struct sonde_select select;
    int code;
    const char *text;
} wrong[] = {
    { { .phase = "prefil" }, SONDE_ENOENT, "no phase is named 'prefil'; did you mean 'prefill'?" },
    { { .phase = "zzz" }, SONDE_ENOENT, "there are: queue, encode, prefill, sample, decode" },
    { { .phase = "queue" }, SONDE_ENOENT, "no sample was taken inside the phase 'queue'" },
    { { .request = "jobb-1" }, SONDE_ENOENT, "no request has the id 'jobb-1'; near it: job-1" },
    { { .request = "4711x" }, SONDE_ENOENT, "none of 4 requests has the id '4711x'" },
    { { .request = "" }, SONDE_ENOENT, "has the id ''" },
    { { .request = "job" }, SONDE_EINVAL, "the ids of 3 requests begin with 'job': job-1, job-2" },
    { { .request = "job-1", .slowest = 1 }, SONDE_EINVAL, "not both" },
    { { .given = only_a, .slowest = 1 }, SONDE_EINVAL, "not both" },
    { { .given = all_of_them, .rest = 1 }, SONDE_ENOENT, "there are no other requests" },
    { { .given = only_a, .among = c_by_its_front }, SONDE_ENOENT, "no request is as asked for" },
    { { .traces = &(struct sonde_select_trace){ 5, 5 }, .trace_count = 1 }, SONDE_ENOENT,
      "no request is of that trace" },
};

static void test_wrong(void **state)
{
    (void)state;
    const uint32_t samples = p->samples_count, spans = p->spans_count;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct sonde_err err = { "" };
        assert_int_equal(sonde_profile_select(p, &wrong[i].select, NULL, &err), wrong[i].code);
        if (!strstr(err.text, wrong[i].text)) {
            fail_msg("wanted '%s', got '%s'", wrong[i].text, err.text);
        }
        assert_int_equal(p->samples_count, samples);
        assert_int_equal(p->spans_count, spans);
    }
}

static void test_ids_that_repeat(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    add_request(77, "job-2", 0xe, 900, 1e-9, 0, PID);
    assert_int_equal(sonde_profile_select(p, &(struct sonde_select){ .request = "job-2" }, NULL,
                                          &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "2 requests have the id 'job-2'"));
    assert_non_null(strstr(err.text, "0000000000000002, 000000000000004d"));
}

static void test_nothing_known(void **state)
{
    (void)state;
    struct sonde_profile *empty;
    struct sonde_err err = { "" };
    assert_int_equal(sonde_profile_create(0, &empty), 0);
    assert_int_equal(sonde_profile_select(empty, &(struct sonde_select){ .slowest = 1 }, NULL,
                                          &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "no inference requests are known"));
    struct sonde_selected found;
    assert_int_equal(sonde_profile_select(empty, &(struct sonde_select){ .phase = "prefill" },
                                          &found, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "no phases are known"));
    assert_int_equal(found.hint, SONDE_SELECT_HINT_SPANS);
    sonde_profile_destroy(empty);
}

/* What else could be asked for is a fact; the flag or parameter for it is the caller's to name. */
static void test_hints(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_selected found;
    add_span(sonde_profile_thread(p, PID, 13, "third"), "embed", 550, 570, 80, A);
    const struct sonde_select embed = { .phase = "embed" };
    assert_int_equal(sonde_profile_select(p, &embed, &found, &err), SONDE_ENOENT);
    assert_int_equal(found.hint, SONDE_SELECT_HINT_WORKERS);
    assert_non_null(strstr(err.text, "only threads without a span of their own were sampled"));
    assert_null(strstr(err.text, "--"));
    const struct sonde_select wrong_name = { .phase = "prefil" };
    assert_int_equal(sonde_profile_select(p, &wrong_name, &found, &err), SONDE_ENOENT);
    assert_int_equal(found.hint, SONDE_SELECT_HINT_NONE);
}

/* Requests without a trace have no twins to look for: among fifty thousand that took a minute. */
static void test_many_without_trace(void **state)
{
    (void)state;
    enum { MANY = 50000, SECONDS_MAX = 5 };
    struct sonde_selected found;
    for (unsigned i = 0; i < MANY; i++) add_request(0x1000 + i, "", 0, 100, 1e-7, 0, PID);
    const clock_t began = clock();
    assert_int_equal(sonde_profile_select(p, &(struct sonde_select){ .slowest_share = 1 }, &found,
                                          NULL), 0);
    assert_true(found.requests >= MANY);
    assert_true((clock() - began) / CLOCKS_PER_SEC < SECONDS_MAX);
}

/* Facts of a heap are of all. */
static void test_heap(void **state)
{
    (void)state;
    struct sonde_heap *h = sonde__calloc(1, sizeof(*h));
    assert_non_null(h);
    assert_int_equal(sonde_profile_take_heap(p, h), 0);
    const size_t bytes = p->bytes;
    assert_int_equal(sonde_profile_select(p, &(struct sonde_select){ .phase = "encode" }, NULL,
                                          NULL), 0);
    assert_null(p->heap);
    assert_true(p->bytes < bytes);
}

static void test_slowest_text(void **state)
{
    (void)state;
    static const struct { const char *text; uint64_t count; double share; } texts[] = {
        { "5", 5, 0 },    { "1%", 0, 0.01 }, { "100%", 0, 1 }, { "0.5%", 0, 0.005 },
        { "", 0, 0 },     { "0", 0, 0 },     { "-1", 0, 0 },   { "1.5", 0, 0 },
        { "101%", 0, 0 }, { "0%", 0, 0 },    { "1 %", 0, 0 },  { "nan%", 0, 0 },
        { "many", 0, 0 }, { "5%%", 0, 0 },   { "1e30", 0, 0 },
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct sonde_select s = { 0 };
        const int good = texts[i].count || texts[i].share > 0;
        assert_int_equal(sonde_select_slowest(texts[i].text, &s, NULL), good ? 0 : SONDE_EINVAL);
        assert_int_equal(s.slowest, texts[i].count);
        assert_true(s.slowest_share == texts[i].share);
        assert_int_equal(sonde_select_asks(&s), good);
    }
}

static void test_every_allocation_may_fail(void **state)
{
    (void)state;
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 100; nth++) {
        struct sonde_err err = { "" };
        sonde__alloc_fail_nth(nth);
        rc = sonde_profile_select(p, &(struct sonde_select){ .slowest = 1, .phase = "prefill" },
                                  NULL, &err);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        if (rc) assert_int_equal(p->samples_count, 13);
    }
    assert_int_equal(rc, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cases),              TEST(test_what_is_told),
        TEST(test_spans),              TEST(test_parts_add_up),
        TEST(test_by_trace),           TEST(test_circle),
        TEST(test_wrong),              TEST(test_ids_that_repeat),
        TEST(test_nothing_known),      TEST(test_hints),
        TEST(test_heap),               TEST(test_slowest_text),
        TEST(test_many_without_trace), TEST(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
