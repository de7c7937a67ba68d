/* What the front's figures put into the model. */
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "infer/tracker.h"
#include "base/alloc.h"
#include "front/metrics.h"
#include "sonde/sonde.h"

static struct sonde_model *model;
static struct sonde_infer_tracker *tracker;
static struct sonde_front_metrics *figures;
static struct sonde_front_observer observer;

static int setup(void **state)
{
    (void)state;
    const struct sonde_model_limits limits = { 0 };
    const struct sonde_infer_options none = { 0 };
    if (sonde_model_create(&limits, &model) != 0) return -1;
    if (sonde_infer_create(model, &none, &tracker) != 0) return -1;
    if (sonde_front_metrics_create(model, tracker, &figures) != 0) return -1;
    observer = sonde_front_metrics_observer(figures);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sonde_front_metrics_destroy(figures);
    sonde_infer_destroy(tracker);
    sonde_model_destroy(model);
    return 0;
}

/* All that was told is worked out. */
static const struct sonde_infer_request *last_done(void)
{
    sonde_wrlock(&model->lock);
    sonde_infer_flush(tracker);
    sonde_rwunlock(&model->lock);
    return sonde_infer_done(tracker, 0);
}

static const struct sonde_model_series *find(const char *name, const char *labels)
{
    for (size_t i = 0; i < model->family_count; i++) {
        if (strcmp(model->families[i]->name, name) != 0) continue;
        for (size_t k = 0; k < model->families[i]->series_count; k++) {
            const struct sonde_model_series *s = model->families[i]->series[k];
            if (strcmp(s->label_text, labels) == 0) return s;
        }
    }
    return NULL;
}

static const struct sonde_model_series *must_find(const char *name, const char *labels)
{
    const struct sonde_model_series *s = find(name, labels);
    if (!s) fail_msg("no series %s{%s}", name, labels);
    return s;
}

static struct sonde_front_request request(const char *name)
{
    struct sonde_front_request r = { .route = SONDE_FRONT_CHAT, .method = "POST",
                                     .arrived_ns = 1000, .arrived_unix_ns = 1700000000000000000u,
                                     .trace_hi = 1, .trace_lo = 2, .parent = 5, .max_tokens = 9,
                                     .usage = { -1, -1, -1, -1, -1, -1, -1 } };
    static uint64_t span = 100;
    r.span = span++;
    snprintf(r.model, sizeof(r.model), "%s", name);
    return r;
}

static void tell(struct sonde_front_request *r, enum sonde_front_event event)
{
    observer.event(observer.arg, event, r);
}

static void token(struct sonde_front_request *r, uint64_t ns, unsigned pieces)
{
    r->last_token_ns = ns;
    if (!r->first_token_ns) r->first_token_ns = ns;
    r->pieces = pieces;
    r->chunks += pieces;
    tell(r, SONDE_FRONT_TOKEN);
}

static void end(struct sonde_front_request *r, uint64_t ns, enum sonde_front_outcome outcome,
                const char *error)
{
    r->ended_ns = ns;
    r->outcome = outcome;
    snprintf(r->error, sizeof(r->error), "%s", error);
    tell(r, SONDE_FRONT_ENDED);
}

#define US(us) (1000u + (us) * 1000u)

static const char chat[] = "model=\"m\\\"1\",route=\"chat\",source=\"front\"";

/* A stream: what comes out is what an engine would tell about itself. */
static void test_stream(void **state)
{
    (void)state;
    struct sonde_front_state now = { .in_flight = 3, .clients = 4, .upstreams = 5,
                                     .accepted_total = 6, .connected_total = 7,
                                     .refused_total = 8 };
    struct sonde_front_request r = request("m\"1");
    tell(&r, SONDE_FRONT_ARRIVED);
    r.sent_ns = US(200);
    tell(&r, SONDE_FRONT_SENT);
    r.headers_ns = US(500);
    r.status = 200;
    r.bytes_in = 70;
    r.bytes_out = 900;
    tell(&r, SONDE_FRONT_HEADERS);
    tell(&r, SONDE_FRONT_BYTE);
    token(&r, US(1000), 1);
    token(&r, US(1010), 2);
    token(&r, US(1010), 1); /* what was left of what was read then */
    r.usage.prompt_tokens = 10;
    r.usage.completion_tokens = 21;
    r.usage.cached_tokens = 4;
    end(&r, US(2000), SONDE_FRONT_OK, "");
    observer.tick(observer.arg, &now);
    const struct sonde_infer_request *d = last_done();
    assert_non_null(d);
    assert_int_equal(d->id, r.span);
    assert_int_equal(d->source, SONDE_INFER_FRONT);
    assert_int_equal(d->outcome, SONDE_OK);
    assert_string_equal(d->invalid, "");
    assert_int_equal(d->trace_lo, 2);
    assert_int_equal(d->tokens_max, 9);
    assert_int_equal(d->tokens_in, 10);
    assert_int_equal(d->tokens_reused, 4);
    assert_int_equal(d->tokens_out, 21);
    assert_int_equal(d->itl_count, 20);
    assert_true(d->ttft_s > 0.00099 && d->ttft_s < 0.00101);
    assert_true(d->total_s > 0.00199 && d->total_s < 0.00201);
    assert_true(d->itl_s > 0.49e-6 && d->itl_s < 0.51e-6);

    static const char otel[] = "gen_ai_operation_name=\"chat\",gen_ai_request_model=\"m\\\"1\","
                               "http_route=\"chat\",source=\"front\"";
    const struct sonde_model_series *s =
        must_find("gen_ai_server_time_to_first_token_seconds", otel);
    assert_int_equal(s->hist->count, 1);
    assert_int_equal(s->hist->sum_raw, 1000000);
    assert_int_equal(s->exemplar[0].trace_lo, 2);
    s = must_find("sonde_infer_inter_token_seconds", chat);
    assert_int_equal(s->hist->count, 3);
    assert_int_equal(s->hist->sum_raw, 10000);
    s = must_find("gen_ai_server_request_duration_seconds", otel);
    assert_int_equal(s->hist->sum_raw, 2000000);
    char labels[160];
    snprintf(labels, sizeof(labels), "%s,type=\"output\"", chat);
    assert_int_equal(must_find("sonde_infer_tokens_total", labels)->counter, 21);
    snprintf(labels, sizeof(labels), "%s,type=\"input\"", chat);
    assert_int_equal(must_find("sonde_infer_tokens_total", labels)->counter, 10);

    s = must_find("sonde_front_requests_total", "route=\"chat\",status=\"200\"");
    assert_int_equal(s->counter, 1);
    assert_int_equal(s->from_zero, 1);
    assert_int_equal(must_find("sonde_front_forward_seconds", "route=\"chat\"")->hist->sum_raw,
                     200000);
    assert_int_equal(must_find("sonde_front_answer_seconds", "route=\"chat\"")->hist->sum_raw,
                     300000);
    assert_int_equal(must_find("sonde_front_bytes_total", "direction=\"in\"")->counter, 70);
    assert_int_equal(must_find("sonde_front_bytes_total", "direction=\"out\"")->counter, 900);
    assert_true(must_find("sonde_front_in_flight", "")->gauge > 2.5);
    assert_int_equal(must_find("sonde_front_connections_total", "side=\"upstream\"")->counter, 7);
    assert_int_equal(must_find("sonde_front_refused_total", "")->counter, 8);

    assert_int_equal(model->span_next, 1);
    const struct sonde_model_span *span = &model->spans[0];
    assert_string_equal(span->name, "front");
    assert_int_equal(span->id, r.span);
    assert_int_equal(span->parent, 5);
    assert_int_equal(span->trace_lo, 2);
    assert_int_equal(span->duration_ns, 1999000 + 1000);
}

/* Pieces may be more than tokens: totals follow what the server says, and never go back. */
static void test_fewer_tokens(void **state)
{
    (void)state;
    static const char out[] = "model=\"m\",route=\"chat\",source=\"front\",type=\"output\"";
    struct sonde_front_request r = request("m");
    for (unsigned i = 1; i <= 10; i++) token(&r, US(i * 100), 1);
    r.usage.completion_tokens = 4;
    end(&r, US(2000), SONDE_FRONT_OK, "");
    const struct sonde_infer_request *d = last_done();
    assert_int_equal(d->tokens_out, 4);
    assert_int_equal(d->itl_count, 3);
    assert_string_equal(d->invalid, "");
    assert_int_equal(must_find("sonde_infer_tokens_total", out)->counter, 10);
    r = request("m");
    for (unsigned i = 1; i <= 5; i++) token(&r, US(i * 100), 1);
    r.usage.completion_tokens = 5;
    end(&r, US(2000), SONDE_FRONT_OK, "");
    last_done();
    assert_int_equal(must_find("sonde_infer_tokens_total", out)->counter, 10);
    r = request("m");
    for (unsigned i = 1; i <= 3; i++) token(&r, US(i * 100), 1);
    end(&r, US(2000), SONDE_FRONT_OK, "");
    assert_int_equal(last_done()->tokens_out, 3); /* nobody says better */
    assert_int_equal(must_find("sonde_infer_tokens_total", out)->counter, 4 + 5 + 3);
    struct sonde_infer_totals t;
    sonde_infer_totals(tracker, 0, &t);
    assert_int_equal(t.tokens_out, 12);
    /* One token in two pieces has no time between tokens. */
    r = request("m");
    token(&r, US(100), 1);
    token(&r, US(200), 1);
    r.usage.completion_tokens = 1;
    end(&r, US(2000), SONDE_FRONT_OK, "");
    assert_int_equal(last_done()->itl_count, 0);
    assert_string_equal(last_done()->invalid, "");
}

/* An answer in one piece, a model that the request did not name. */
static void test_whole_answer(void **state)
{
    (void)state;
    struct sonde_front_request r = request("");
    tell(&r, SONDE_FRONT_ARRIVED);
    tell(&r, SONDE_FRONT_SENT);
    r.status = 200;
    tell(&r, SONDE_FRONT_HEADERS);
    r.first_byte_ns = US(700);
    tell(&r, SONDE_FRONT_BYTE);
    strcpy(r.model, "from-answer");
    r.usage.prompt_tokens = 3;
    r.usage.completion_tokens = 8;
    end(&r, US(800), SONDE_FRONT_OK, "");
    const struct sonde_infer_request *d = last_done();
    assert_string_equal(d->model, "from-answer");
    assert_int_equal(d->tokens_out, 8);
    assert_int_equal(d->tokens_in, 3);
    assert_int_equal(d->itl_count, 0);
    assert_true(d->ttft_s > 0.00069 && d->ttft_s < 0.00071);
}

static void test_failures(void **state)
{
    (void)state;
    const struct sonde_front_state now = { 0 };
    static const struct { enum sonde_front_outcome outcome; const char *error; unsigned status;
                          uint32_t told; } cases[] = {
        { SONDE_FRONT_UPSTREAM, "connect_refused", 502, SONDE_ERROR },
        { SONDE_FRONT_ERROR, "http_429", 429, SONDE_ERROR },
        { SONDE_FRONT_CANCELLED, "client_closed", 0, SONDE_CANCELLED },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_front_request r = request("f");
        r.status = cases[i].status;
        end(&r, US(10), cases[i].outcome, cases[i].error);
        const struct sonde_infer_request *d = last_done();
        assert_int_equal(d->outcome, cases[i].told);
        assert_string_equal(d->error, cases[i].error);
    }
    observer.tick(observer.arg, &now);
    assert_int_equal(must_find("sonde_front_errors_total", "error=\"connect_refused\"")->counter,
                     1);
    assert_int_equal(must_find("sonde_front_errors_total", "error=\"client_closed\"")->counter, 1);
    assert_null(find("sonde_front_errors_total", "error=\"http_429\""));
    must_find("sonde_front_requests_total", "route=\"chat\",status=\"429\"");
    must_find("sonde_front_requests_total", "route=\"chat\",status=\"none\"");
    must_find("sonde_infer_errors_total",
              "model=\"f\",route=\"chat\",source=\"front\",type=\"connect_refused\"");
}

/* What is no inference is none. */
static void test_other(void **state)
{
    (void)state;
    const struct sonde_front_state now = { 0 };
    struct sonde_front_request r = request("");
    r.route = SONDE_FRONT_OTHER;
    r.status = 200;
    end(&r, US(10), SONDE_FRONT_OK, "");
    assert_null(last_done());
    observer.tick(observer.arg, &now);
    must_find("sonde_front_requests_total", "route=\"other\",status=\"200\"");
    assert_int_equal(model->span_next, 0);
}

static pthread_barrier_t turn;

/* Has the read lock between the first turn and the second. */
static void *read_model(void *arg)
{
    sonde_rdlock(&model->lock);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    sonde_rwunlock(&model->lock);
    return arg;
}

/* While others read the model nothing waits and nothing is lost. */
static void test_busy_model(void **state)
{
    (void)state;
    pthread_t reader;
    struct sonde_front_state now = { .in_flight = 1 };
    struct sonde_front_request r = request("m");
    r.sent_ns = US(1);
    pthread_barrier_init(&turn, NULL, 2);
    assert_int_equal(pthread_create(&reader, NULL, read_model, NULL), 0);
    pthread_barrier_wait(&turn);
    for (unsigned i = 1; i <= 1000; i++) {
        tell(&r, SONDE_FRONT_SENT);
        token(&r, US(i), 1);
    }
    observer.tick(observer.arg, &now);
    assert_null(find("sonde_front_forward_seconds", "route=\"chat\""));
    pthread_barrier_wait(&turn);
    pthread_join(reader, NULL);
    pthread_barrier_destroy(&turn);
    for (unsigned i = 1001; i <= 20000; i++) { /* more than there is room for */
        tell(&r, SONDE_FRONT_SENT);
        token(&r, US(i), 1);
    }
    observer.tick(observer.arg, &now);
    assert_int_equal(must_find("sonde_front_forward_seconds", "route=\"chat\"")->hist->count,
                     20000);
    end(&r, US(30000), SONDE_FRONT_OK, "");
    assert_int_equal(last_done()->tokens_out, 20000);
}

/* Names come from clients: there is a limit to them. */
static void test_many_models(void **state)
{
    (void)state;
    const struct sonde_front_state now = { 0 };
    for (unsigned i = 0; i < 1000; i++) {
        char text[32];
        snprintf(text, sizeof(text), "m%u", i);
        struct sonde_front_request r = request(text);
        r.status = i;
        end(&r, US(10), SONDE_FRONT_UPSTREAM, text);
    }
    last_done();
    observer.tick(observer.arg, &now);
    assert_int_equal(must_find("sonde_infer_requests_total",
                               "model=\"other\",route=\"chat\",source=\"front\",outcome=\"error\"")
                         ->counter, 936);
    assert_int_equal(must_find("sonde_front_errors_total", "error=\"other\"")->counter, 968);
    assert_int_equal(must_find("sonde_front_requests_total", "route=\"chat\",status=\"other\"")
                         ->counter, 744);
}

static void test_no_memory(void **state)
{
    (void)state;
    const struct sonde_front_state now = { 0 };
    for (uint64_t nth = 1; nth < 60; nth++) {
        char text[32];
        snprintf(text, sizeof(text), "m%llu", (unsigned long long)nth);
        struct sonde_front_request r = request(text);
        sonde__alloc_fail_nth(nth);
        token(&r, US(5), 1);
        end(&r, US(9), SONDE_FRONT_OK, "");
        last_done();
        observer.tick(observer.arg, &now);
        sonde__alloc_fail_nth(0);
    }
    sonde__alloc_fail_nth(1);
    struct sonde_front_metrics *none = NULL;
    assert_int_equal(sonde_front_metrics_create(model, tracker, &none), SONDE_ENOMEM);
    assert_null(none);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_stream), TEST(test_fewer_tokens), TEST(test_whole_answer), TEST(test_failures),
        TEST(test_other), TEST(test_busy_model), TEST(test_many_models), TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
