/* Two servers compared: figures against what was put in, a difference that is there and one that
 * is not, errors, copies; with requests made here, so that all is known and the same each time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "agent/arms.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

static struct sonde_model *model;
static struct sonde_arms *arms;
static uint64_t seed, now_ns;

static double draw(void) /* in (0, 1) */
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static double draw_normal(void)
{
    return sqrt(-2 * log(draw())) * cos(6.283185307179586 * draw());
}

static void start_arms(enum sonde_front_ab_mode mode, const struct sonde_arms_settings *settings)
{
    struct sonde_front_options o = { .ab = { .mode = mode, .share_ppm = 100000 } };
    strcpy(o.upstream.authority, "one:1");
    strcpy(o.ab.upstream.authority, "two:2");
    strcpy(o.ab.upstream.prefix, "/v2");
    assert_int_equal(sonde_arms_create(settings, &o, model, &arms), 0);
}

static int setup_arms(void **state)
{
    (void)state;
    seed = 42;
    now_ns = 1000000000u;
    return sonde_model_create(NULL, &model);
}

static int teardown_arms(void **state)
{
    (void)state;
    sonde_arms_destroy(arms);
    arms = NULL;
    sonde_model_destroy(model);
    return 0;
}

/* A stream of `tokens` that begins after ttft_s, with itl_s between tokens. */
static struct sonde_front_request arms_request(enum sonde_front_arm arm, double ttft_s, double itl_s,
                                               uint64_t tokens)
{
    const uint64_t first = now_ns + (uint64_t)(ttft_s * 1e9);
    const uint64_t last = first + (uint64_t)(itl_s * 1e9 * (double)(tokens - 1));
    struct sonde_front_request r = {
        .arm = arm, .arrived_ns = now_ns - 5000000, .whole_ns = now_ns, .first_byte_ns = first,
        .first_token_ns = first, .last_token_ns = last, .chunks = tokens, .ended_ns = last };
    r.usage = (struct sonde_scan_usage){ -1, -1, -1, -1, -1, -1, -1 };
    return r;
}

static void arms_fail(enum sonde_front_arm arm, enum sonde_front_outcome outcome, const char *error)
{
    struct sonde_front_request r = { .arm = arm, .arrived_ns = now_ns, .ended_ns = now_ns + 1,
                                     .outcome = outcome };
    snprintf(r.error, sizeof(r.error), "%s", error);
    sonde_arms_ended(arms, &r);
}

static json_t *arms_answer(void)
{
    struct sonde_buf out;
    sonde_buf_init(&out, 1 << 20);
    sonde_arms_tick(arms, &(struct sonde_front_state){
        .copies_total = 90, .copies = 2, .dropped_total = { 1, 9, 0 } });
    sonde_arms_json(arms, &out);
    json_t *json = json_loadb(out.data, out.len, 0, NULL);
    if (!json) fail_msg("not JSON: %.*s", (int)out.len, out.data);
    sonde_buf_release(&out);
    return json;
}

/* A number, by a path such as "a.ttft_s.mean"; NaN = null. */
static double at(const json_t *o, const char *path)
{
    char key[64];
    while (*path) {
        const size_t n = strcspn(path, ".");
        memcpy(key, path, n);
        key[n] = 0;
        o = json_is_array(o) ? json_array_get(o, (size_t)(key[0] - '0')) : json_object_get(o, key);
        if (!o) fail_msg("no %s", path);
        path += n + (path[n] == '.');
    }
    return json_is_null(o) ? NAN : json_number_value(o);
}

static const char *text_at(const json_t *o, const char *key)
{
    return json_string_value(json_object_get(o, key));
}

static const char *arms_verdict_of(const json_t *answer, size_t measure)
{
    return text_at(json_array_get(json_object_get(answer, "differences"), measure), "verdict");
}

static void arms_near(double a, double b, const char *what)
{
    if (!(fabs(a - b) <= 1e-6 * fabs(b))) fail_msg("%s: %g, not %g", what, a, b);
}
#define NEAR(a, b) arms_near((a), (b), #a)

static void test_figures(void **state)
{
    (void)state;
    start_arms(SONDE_FRONT_SPLIT, &(struct sonde_arms_settings){ .block_s = 1, .block_values = 2 });
    double sum = 0;
    for (int i = 0; i < 100; i++) {
        struct sonde_front_request r = arms_request(SONDE_FRONT_A, 0.1 + 0.001 * i, 0.01, 11);
        sum += 0.1 + 0.001 * i;
        sonde_arms_ended(arms, &r);
        now_ns += 100000000u;
    }
    /* b: by what the server says it made, and one that does not stream. */
    struct sonde_front_request r = arms_request(SONDE_FRONT_B, 0.2, 0.01, 11);
    r.usage.completion_tokens = 21;
    sonde_arms_ended(arms, &r);
    r = arms_request(SONDE_FRONT_B, 0.4, 0.01, 1);
    r.chunks = r.first_token_ns = r.last_token_ns = 0;
    r.usage.completion_tokens = 8;
    sonde_arms_ended(arms, &r);
    json_t *j = arms_answer();
    NEAR(at(j, "a.requests"), 100);
    NEAR(at(j, "a.output_tokens"), 1100);
    NEAR(at(j, "a.ttft_s.mean"), sum / 100);
    NEAR(at(j, "a.itl_s.mean"), 0.01);
    NEAR(at(j, "a.e2e_s.mean"), sum / 100 + 0.1);
    /* Percentiles of 100, 101, … 199 ms, by buckets of a percent. */
    assert_true(fabs(at(j, "a.ttft_s.p50") - 0.15) < 0.002);
    assert_true(fabs(at(j, "a.ttft_s.p95") - 0.195) < 0.003);
    assert_true(fabs(at(j, "a.ttft_s.p50_low") - 0.14) < 0.003);
    assert_true(fabs(at(j, "a.ttft_s.p50_high") - 0.16) < 0.003);
    assert_true(isnan(at(j, "a.ttft_s.p99_high"))); /* of a hundred nobody knows */
    NEAR(at(j, "b.ttft_s.mean"), 0.3);
    NEAR(at(j, "b.itl_s.mean"), 0.005);
    NEAR(at(j, "b.itl_s.count"), 1);
    NEAR(at(j, "b.output_tokens"), 29);
    NEAR(at(j, "b.tokens_per_s.mean"), (21 / 0.3 + 8 / 0.4) / 2);
    NEAR(at(j, "share"), 0.1);
    assert_string_equal(text_at(j, "mode"), "split");
    assert_string_equal(text_at(j, "verdict"), "undecided");
    assert_string_equal(text_at(json_object_get(j, "b"), "url"), "http://two:2/v2");
    assert_true(json_is_null(json_object_get(j, "mirror")));
    json_decref(j);
}

static void test_errors(void **state)
{
    (void)state;
    start_arms(SONDE_FRONT_MIRROR, &(struct sonde_arms_settings){ .block_s = 1, .block_values = 2 });
    arms_fail(SONDE_FRONT_A, SONDE_FRONT_ERROR, "http_503");
    arms_fail(SONDE_FRONT_A, SONDE_FRONT_ERROR, "http_503");
    arms_fail(SONDE_FRONT_A, SONDE_FRONT_UPSTREAM, "closed_early");
    arms_fail(SONDE_FRONT_A, SONDE_FRONT_CANCELLED, "client_closed");
    struct sonde_front_request r = arms_request(SONDE_FRONT_B, 0.1, 0.01, 5);
    strcpy(r.fell_back, "connect_refused"); /* a answered, well */
    sonde_arms_ended(arms, &r);
    arms_fail(SONDE_FRONT_B, SONDE_FRONT_ERROR, "\xff\"\n");
    /* Servers think up more kinds than are told apart. */
    for (int i = 0; i < 40; i++) {
        char error[16];
        snprintf(error, sizeof(error), "kind%d", i);
        arms_fail(SONDE_FRONT_B, SONDE_FRONT_ERROR, error);
    }
    json_t *j = arms_answer();
    NEAR(at(j, "a.failed"), 3);
    assert_true(at(j, "a.ok") < 0.5);
    NEAR(at(j, "a.cancelled"), 1);
    NEAR(at(j, "a.errors.http_503"), 2);
    NEAR(at(j, "a.errors.closed_early"), 1);
    NEAR(at(j, "a.error_ratio.mean"), 1);
    NEAR(at(j, "a.error_ratio.count"), 3);
    NEAR(at(j, "b.failed"), 42);
    NEAR(at(j, "b.fell_back"), 1);
    NEAR(at(j, "b.errors.connect_refused"), 1);
    NEAR(at(j, "b.errors.other"), 26);
    assert_true(at(j, "b.ttft_s.count") < 0.5);
    assert_true(isnan(at(j, "b.ttft_s.mean")));
    NEAR(at(j, "mirror.sent"), 90);
    NEAR(at(j, "mirror.dropped.busy"), 9);
    assert_int_equal(json_array_size(json_object_get(j, "warnings")), 2); /* dropped, fell back */
    json_decref(j);
}

/* Requests of one test: lognormal times, with load that changes and that both have; b gets a tenth
 * and is slower by `slower`. How many blocks until it was decided; 0 = it was not. */
static unsigned arms_run(double slower, unsigned requests, char verdict[16])
{
    const struct sonde_arms_settings s = { .block_s = 1, .block_values = 5, .detect = 0.03 };
    double load = 0;
    unsigned decided = 0;
    start_arms(SONDE_FRONT_SPLIT, &s);
    verdict[0] = 0;
    for (unsigned i = 0; i < requests; i++) {
        load = 0.99 * load + 0.02 * draw_normal();
        const int b = draw() < 0.1;
        const double noise = exp(0.2 * draw_normal() + load) * (b ? 1 + slower : 1);
        struct sonde_front_request r = arms_request(b ? SONDE_FRONT_B : SONDE_FRONT_A, 0.1 * noise,
                                                    0.01 * noise, 10);
        sonde_arms_ended(arms, &r);
        now_ns += 10000000u;
        if (i % 50 || decided) continue; /* looked at all the time */
        json_t *j = arms_answer();
        if (strcmp(text_at(j, "verdict"), "undecided") != 0 &&
            strcmp(text_at(j, "verdict"), "same") != 0) {
            decided = (unsigned)at(j, "differences.0.blocks");
            snprintf(verdict, 16, "%s", text_at(j, "verdict"));
        }
        json_decref(j);
    }
    sonde_arms_destroy(arms);
    arms = NULL;
    return decided;
}

/* Equal servers, looked at after every 50 requests: called different in at most 5 % of tests. The
 * draws are the same each time, and so is the number. */
static void test_equal(void **state)
{
    (void)state;
    unsigned alarms = 0;
    char verdict[16];
    for (int i = 0; i < 40; i++) alarms += arms_run(0, 5000, verdict) > 0;
    assert_true(alarms <= 2);
}

static void test_different(void **state)
{
    (void)state;
    char verdict[16];
    for (int i = 0; i < 10; i++) {
        assert_true(arms_run(0.2, 5000, verdict) > 0);
        assert_string_equal(verdict, "a_better");
    }
    assert_true(arms_run(-0.2, 5000, verdict) > 0);
    assert_string_equal(verdict, "b_better");
}

/* Many equal ones: it is said that there is no difference. */
static void test_same(void **state)
{
    (void)state;
    const struct sonde_arms_settings s = { .block_s = 1, .block_values = 5, .detect = 0.05 };
    start_arms(SONDE_FRONT_MIRROR, &s);
    for (int i = 0; i < 40000; i++) {
        const double noise = 1 + 0.05 * draw_normal();
        struct sonde_front_request r = arms_request(i % 2 ? SONDE_FRONT_A : SONDE_FRONT_B,
                                                    0.1 * noise, 0.01 * noise, 10);
        sonde_arms_ended(arms, &r);
        now_ns += 10000000u;
    }
    json_t *j = arms_answer();
    assert_string_equal(arms_verdict_of(j, SONDE_ARM_TTFT), "same");
    assert_string_equal(text_at(j, "verdict"), "same"); /* though none failed at all */
    assert_true(at(j, "differences.0.relative_high") < 0.05);
    json_decref(j);
}

static void test_series(void **state)
{
    (void)state;
    start_arms(SONDE_FRONT_MIRROR, &(struct sonde_arms_settings){ .block_s = 1 });
    for (int i = 0; i < 2000; i++) { /* more than wait between two ticks */
        struct sonde_front_request r =
            arms_request(i % 2 ? SONDE_FRONT_A : SONDE_FRONT_B, 0.1, 0.01, 10);
        sonde_arms_ended(arms, &r);
    }
    arms_fail(SONDE_FRONT_B, SONDE_FRONT_UPSTREAM, "timeout");
    json_decref(arms_answer());
    static const struct { const char *name, *labels; double value; } cases[] = {
        { "sonde_front_arm_requests_total", "arm=\"a\",outcome=\"ok\"", 1000 },
        { "sonde_front_arm_requests_total", "arm=\"b\",outcome=\"error\"", 1 },
        { "sonde_front_arm_errors_total", "arm=\"b\",error=\"timeout\"", 1 },
        { "sonde_front_arm_output_tokens_total", "arm=\"b\"", 10000 },
        { "sonde_front_mirrored_total", "", 90 },
        { "sonde_front_mirror_dropped_total", "reason=\"busy\"", 9 },
        { "sonde_front_arm_time_to_first_token_seconds", "arm=\"b\"", 1000 },
        { "sonde_front_arm_time_per_output_token_seconds", "arm=\"a\"", 1000 },
    };
    sonde_rdlock(&model->lock);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct sonde_model_family *f = sonde_model_family_find(model, cases[i].name);
        double value = -1;
        for (size_t n = 0; f && n < f->series_count; n++) {
            const struct sonde_model_series *s = f->series[n];
            if (strcmp(s->label_text, cases[i].labels) != 0) continue;
            value = s->hist ? (double)s->hist->count : (double)s->counter;
        }
        if (value != cases[i].value) fail_msg("%s{%s} %g", cases[i].name, cases[i].labels, value);
    }
    sonde_rwunlock(&model->lock);
}

/* Whatever allocation fails: figures may be missing, nothing else happens. */
static void test_arms_no_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 40; nth++) {
        struct sonde_front_options o = { .ab = { .mode = SONDE_FRONT_SPLIT, .share_ppm = 1 } };
        struct sonde_arms *some = NULL;
        sonde__alloc_fail_nth(nth);
        const int rc =
            sonde_arms_create(&(struct sonde_arms_settings){ .block_s = 1 }, &o, model, &some);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        if (!rc) {
            struct sonde_front_request r = arms_request(SONDE_FRONT_B, 0.1, 0.01, 10);
            struct sonde_buf out;
            sonde_arms_ended(some, &r);
            sonde_arms_tick(some, &(struct sonde_front_state){ 0 });
            sonde_buf_init(&out, 1 << 20);
            sonde_arms_json(some, &out);
            sonde_buf_release(&out);
        }
        sonde__alloc_fail_nth(0);
        sonde_arms_destroy(some);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_arms, teardown_arms)
    const struct CMUnitTest tests[] = {
        TEST(test_figures), TEST(test_errors), TEST(test_equal),          TEST(test_different),
        TEST(test_same),    TEST(test_series), TEST(test_arms_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
