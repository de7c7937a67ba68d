/* What the front's figures put into the model. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "front/figures.h"
#include "sonde/sonde.h"

static struct sonde_model *model;
static struct sonde_figures *figures;
static struct sonde_front_observer observer;

static int setup(void **state)
{
    (void)state;
    const struct sonde_model_limits limits = { 0 };
    if (sonde_model_create(&limits, &model) != 0) return -1;
    if (sonde_figures_create(model, &figures) != 0) return -1;
    observer = sonde_figures_observer(figures);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sonde_figures_destroy(figures);
    sonde_model_destroy(model);
    return 0;
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
    struct sonde_front_request r = { .route = SONDE_FRONT_CHAT, .arrived_ns = 1000, .trace_hi = 1,
                                     .trace_lo = 2, .usage = { -1, -1, -1, -1, -1, -1, -1 } };
    snprintf(r.model, sizeof(r.model), "%s", name);
    return r;
}

static void token(struct sonde_front_request *r, uint64_t ns)
{
    r->previous_token_ns = r->last_token_ns;
    r->last_token_ns = ns;
    if (!r->first_token_ns) r->first_token_ns = ns;
    observer.event(observer.arg, SONDE_FRONT_TOKEN, r);
}

static void end(struct sonde_front_request *r, uint64_t ns, enum sonde_front_outcome outcome,
                const char *error)
{
    r->ended_ns = ns;
    r->outcome = outcome;
    snprintf(r->error, sizeof(r->error), "%s", error);
    observer.event(observer.arg, SONDE_FRONT_ENDED, r);
}

static void test_figures(void **state)
{
    (void)state;
    struct sonde_front_state now = { .in_flight = 3, .clients = 4, .upstreams = 5,
                                     .accepted_total = 6, .connected_total = 7,
                                     .refused_total = 8 };
    struct sonde_front_request r = request("m\"1");
    token(&r, 1001000);
    token(&r, 1003000);
    token(&r, 1003000); /* in one piece with the one before */
    r.usage.prompt_tokens = 10;
    r.usage.completion_tokens = 20;
    r.usage.cached_tokens = 0;
    end(&r, 2001000, SONDE_FRONT_OK, "");
    r = request("");
    end(&r, 3000, SONDE_FRONT_UPSTREAM, "connect_refused");
    assert_null(find("sonde_front_requests_total", "route=\"chat\",model=\"m\\\"1\",outcome=\"ok\""));
    observer.tick(observer.arg, &now);

    static const char chat[] = "route=\"chat\",model=\"m\\\"1\"";
    const struct sonde_model_series *s =
        must_find("sonde_front_time_to_first_token_seconds", chat);
    assert_int_equal(s->hist->count, 1);
    assert_int_equal(s->hist->sum_raw, 1000000);
    assert_int_equal(s->exemplar_count, 1);
    assert_int_equal(s->exemplar[0].trace_lo, 2);
    s = must_find("sonde_front_inter_token_seconds", chat);
    assert_int_equal(s->hist->count, 2);
    assert_int_equal(s->hist->zero, 1);
    assert_int_equal(s->hist->sum_raw, 2000);
    assert_int_equal(must_find("sonde_front_prompt_tokens_total", chat)->counter, 10);
    assert_int_equal(must_find("sonde_front_completion_tokens_total", chat)->counter, 20);
    assert_null(find("sonde_front_cached_tokens_total", chat));
    s = must_find("sonde_front_request_seconds",
                  "route=\"chat\",model=\"m\\\"1\",outcome=\"ok\"");
    assert_int_equal(s->hist->sum_raw, 2000000);
    s = must_find("sonde_front_requests_total",
                  "route=\"chat\",model=\"unknown\",outcome=\"upstream_failure\"");
    assert_int_equal(s->counter, 1);
    assert_int_equal(s->from_zero, 1);
    s = must_find("sonde_front_errors_total", "error=\"connect_refused\"");
    assert_int_equal(s->counter, 1);
    assert_true(must_find("sonde_front_in_flight", "")->gauge > 2.5);
    assert_int_equal(must_find("sonde_front_connections_total", "side=\"upstream\"")->counter, 7);
    assert_int_equal(must_find("sonde_front_refused_total", "")->counter, 8);
}

/* While others read the model nothing waits and nothing is lost. */
static void test_busy_model(void **state)
{
    (void)state;
    struct sonde_front_state now = { .in_flight = 1 };
    struct sonde_front_request r = request("m");
    pthread_rwlock_rdlock(&model->lock);
    for (uint64_t i = 1; i <= 1000; i++) token(&r, i * 1000);
    observer.tick(observer.arg, &now);
    assert_null(find("sonde_front_inter_token_seconds", "route=\"chat\",model=\"m\""));
    pthread_rwlock_unlock(&model->lock);
    for (uint64_t i = 1001; i <= 20000; i++) token(&r, i * 1000); /* more than are noted */
    observer.tick(observer.arg, &now);
    assert_int_equal(
        must_find("sonde_front_inter_token_seconds", "route=\"chat\",model=\"m\"")->hist->count,
        19999);
}

/* Names come from clients: there is a limit to them. */
static void test_many_models(void **state)
{
    (void)state;
    const struct sonde_front_state now = { 0 };
    for (int i = 0; i < 1000; i++) {
        char text[32];
        snprintf(text, sizeof(text), "m%d", i);
        struct sonde_front_request r = request(text);
        end(&r, 2000, SONDE_FRONT_ERROR, text);
    }
    observer.tick(observer.arg, &now);
    assert_int_equal(must_find("sonde_front_requests_total",
                               "route=\"chat\",model=\"other\",outcome=\"error\"")->counter, 936);
    assert_int_equal(must_find("sonde_front_errors_total", "error=\"other\"")->counter, 968);
    assert_true(model->series_count < 250);
}

static void test_no_memory(void **state)
{
    (void)state;
    const struct sonde_front_state now = { 0 };
    for (uint64_t nth = 1; nth < 40; nth++) {
        char text[32];
        snprintf(text, sizeof(text), "m%llu", (unsigned long long)nth);
        struct sonde_front_request r = request(text);
        sonde__alloc_fail_nth(nth);
        token(&r, 5000);
        end(&r, 9000, SONDE_FRONT_OK, "");
        observer.tick(observer.arg, &now);
        sonde__alloc_fail_nth(0);
    }
    sonde__alloc_fail_nth(1);
    struct sonde_figures *none = NULL;
    assert_int_equal(sonde_figures_create(model, &none), SONDE_ENOMEM);
    assert_null(none);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = { TEST(test_figures), TEST(test_busy_model),
                                        TEST(test_many_models), TEST(test_no_memory) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
