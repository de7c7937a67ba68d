/* From records to figures: every time of a load that is known by construction, percentiles against
 * sorting, how often their intervals hold the truth, warm-ups, failures that are in no latency,
 * rates, objectives, Little's law; and the verdict, one row a reason. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "bench/http/measure.h"
#include "bench/http/verdict.h"
#include "sonde/sonde.h"
#include "unit/analyze/random.h"

#define MS 1000000ull
#define BEGIN (1000 * MS)
enum { COUNT = 600 };

static void near(const char *what, double got, double wanted, double within)
{
    if (fabs(got - wanted) <= within) return;
    fprintf(stderr, "%s: wanted %g, got %g\n", what, wanted, got);
    fail();
}

/* ---- Intervals ------------------------------------------------------------------------------- */

/* Latencies whose logarithms are alike from one to the next by r. True quantiles are those of
 * exp(normal). */
static void test_coverage(void **state)
{
    (void)state;
    enum { ROUNDS = 400, N = 1500 };
    static const struct { double likeness; int q; double z; } cases[] = {
        { 0, SONDE_LOAD_P50, 0 },   { 0, SONDE_LOAD_P90, 1.2815516 },
        { 0, SONDE_LOAD_P95, 1.6448536 }, { 0.5, SONDE_LOAD_P50, 0 },
        { 0.5, SONDE_LOAD_P90, 1.2815516 },
    };
    static struct sonde_observed v[N];
    random_state = 77;
    for (size_t k = 0; k < sizeof(cases) / sizeof(cases[0]); k++) {
        const double r = cases[k].likeness, truth = exp(cases[k].z);
        int held = 0, mean_held = 0;
        for (int round = 0; round < ROUNDS; round++) {
            struct sonde_load_metric m;
            double x = random_normal();
            for (size_t i = 0; i < N; i++) {
                x = r * x + sqrt(1 - r * r) * random_normal();
                v[i] = (struct sonde_observed){ exp(x), (uint32_t)(i * 30 / N) };
            }
            assert_int_equal(sonde_load_metric_of(v, N, 30, &m), 0);
            held += m.q[cases[k].q].low <= truth && truth <= m.q[cases[k].q].high;
            mean_held += m.mean_low <= exp(0.5) && exp(0.5) <= m.mean_high;
        }
        /* 95 % wanted; seeds are fixed, so this cannot flake. */
        if (held < 0.92 * ROUNDS || mean_held < 0.90 * ROUNDS) {
            fprintf(stderr, "likeness %g, quantile %d: held %d, mean %d of %d\n", r, cases[k].q, held,
                    mean_held, ROUNDS);
            fail();
        }
    }
}

static void test_few(void **state)
{
    (void)state;
    static const uint64_t least[] = { 6, 36, 72, 368, 3688 };
    struct sonde_observed v[400];
    struct sonde_load_metric m;
    for (int q = 0; q < SONDE_LOAD_QUANTILE_COUNT; q++) {
        const uint64_t got = sonde_load_quantile_least((enum sonde_load_quantile_id)q);
        assert_int_equal(got, least[q]);
    }
    for (size_t i = 0; i < 367; i++) v[i] = (struct sonde_observed){ 367 - (double)i, (uint32_t)i % 8 };
    assert_int_equal(sonde_load_metric_of(v, 367, 8, &m), 0);
    assert_true(m.q[SONDE_LOAD_P50].value == 184 && m.q[SONDE_LOAD_P90].value == 331);
    assert_true(isnan(m.q[SONDE_LOAD_P99].value) && isnan(m.q[SONDE_LOAD_P99_9].value));
    assert_true(m.min == 1 && m.max == 367);
    assert_int_equal(sonde_load_metric_of(v, 0, 1, &m), 0);
    assert_true(isnan(m.mean) && isnan(m.q[0].value) && m.count == 0);
    /* One part: values without intervals. */
    assert_int_equal(sonde_load_metric_of(v, 1, 1, &m), 0);
    assert_true(m.count == 1 && isnan(m.q[0].value));
}

/* ---- A load that is known -------------------------------------------------------------------- */

struct load {
    struct sonde_load_result r;
    struct sonde_load_record records[COUNT];
};

/* One request each 10 ms: sent 0.1 ms late, first token 5 ms after, then one each ms. Latencies
 * vary by request so that nothing is constant. */
static void load_make(struct load *l)
{
    memset(l, 0, sizeof(*l));
    random_state = 3;
    for (size_t i = 0; i < COUNT; i++) {
        struct sonde_load_record *c = &l->records[i];
        const uint64_t jitter = (uint64_t)(random_uniform() * 1e6);
        *c = (struct sonde_load_record){
            .intended_ns = BEGIN + i * 10 * MS, .request = (uint32_t)i, .status = 200,
            .streamed = 1, .events = 11, .output_tokens = 11, .prompt_tokens = 20,
            .cached_tokens = 5, .reasoning_tokens = SONDE_LOAD_UNKNOWN, .trace = { 7, i + 1 } };
        c->sent_ns = c->intended_ns + MS / 10;
        c->head_ns = c->sent_ns + MS;
        c->first_ns = c->content_ns = c->sent_ns + 5 * MS + jitter;
        c->last_ns = c->first_ns + 10 * MS;
        c->end_ns = c->last_ns + MS / 2;
    }
    l->r.begin_ns = BEGIN;
    l->r.end_ns = l->records[COUNT - 1].end_ns;
    l->r.records = l->records;
    l->r.record_count = COUNT;
    l->r.client = (struct sonde_load_client){ .cpu_ns = MS, .wall_ns = 6000 * MS };
}

static struct sonde_load_arrival plan_make(double rate)
{
    struct sonde_load_arrival a = { 0 };
    assert_int_equal(sonde_load_arrival_stage(&a, rate, rate, INFINITY), 0);
    return a;
}

static struct sonde_load_measures measured(struct load *l, const struct sonde_load_slo *slo)
{
    struct sonde_load_arrival plan = plan_make(100);
    struct sonde_load_measure_options o = { .open = 1, .arrival = &plan, .warmup_s = -1,
                                            .planned_s = 6 };
    struct sonde_load_measures m;
    if (slo) o.slo = *slo;
    assert_int_equal(sonde_load_measure(&l->r, &o, &m), 0);
    sonde_load_arrival_release(&plan);
    return m;
}

static double value_of(const struct sonde_load_measures *m, enum sonde_load_metric_id id, int q)
{
    return m->metrics[id].q[q].value;
}

static void test_known(void **state)
{
    (void)state;
    static struct load l;
    load_make(&l);
    const struct sonde_load_measures m = measured(&l, NULL);
    near("ttft", value_of(&m, SONDE_LOAD_METRIC_TTFT, SONDE_LOAD_P50), 5.5e-3, 0.1e-3);
    near("from schedule", value_of(&m, SONDE_LOAD_METRIC_TTFT_SCHEDULE, SONDE_LOAD_P50), 5.6e-3,
         0.1e-3);
    near("tpot", value_of(&m, SONDE_LOAD_METRIC_TPOT, SONDE_LOAD_P99), 1e-3, 1e-9);
    near("e2e", value_of(&m, SONDE_LOAD_METRIC_E2E, SONDE_LOAD_P50), 16e-3, 0.1e-3);
    near("scheduled e2e", m.metrics[SONDE_LOAD_METRIC_E2E_SCHEDULE].mean -
         m.metrics[SONDE_LOAD_METRIC_E2E].mean, 0.1e-3, 1e-9);
    near("rate", m.rates[SONDE_LOAD_RATE_REQUESTS].value, 100, 1);
    near("output", m.rates[SONDE_LOAD_RATE_OUTPUT].value, 1100, 11);
    near("all tokens", m.rates[SONDE_LOAD_RATE_TOTAL].value, 3100, 31);
    assert_true(isnan(m.rates[SONDE_LOAD_RATE_GOODPUT].value));
    near("little", m.little / m.in_flight, 1, 0.02);
    near("under way", m.in_flight, 1.6, 0.02);
    near("delay", m.send_delay_p99_s, 0.1e-3, 1e-9);
    near("cached", m.cached_ratio, 0.25, 1e-9);
    near("planned", m.planned_rate, 100, 1e-6);
    assert_int_equal(m.token_basis, SONDE_LOAD_TOKENS_USAGE);
    assert_true(m.itl_of_gaps && m.sent == COUNT && m.outcomes[SONDE_LOAD_OK] == COUNT);
}

/* Failures of every class, with absurd times, change no latency; of the others nothing is lost. */
static void test_failures(void **state)
{
    (void)state;
    static struct load l;
    load_make(&l);
    size_t bad = 0;
    for (size_t i = 100; i < COUNT; i += 5) {
        struct sonde_load_record *c = &l.records[i];
        c->outcome = (uint8_t)(1 + bad % (SONDE_LOAD_OUTCOME_COUNT - 1));
        c->status = c->outcome == SONDE_LOAD_STATUS ? 503 : 200;
        c->end_ns = c->intended_ns + 4000 * MS;
        c->first_ns = c->outcome == SONDE_LOAD_CONNECT ? 0 : c->sent_ns + 3000 * MS;
        bad++;
    }
    l.r.end_ns += 4000 * MS;
    const struct sonde_load_measures m = measured(&l, NULL);
    uint64_t all = 0;
    for (size_t i = 0; i < SONDE_LOAD_OUTCOME_COUNT; i++) all += m.outcomes[i];
    assert_int_equal(all, COUNT);
    assert_int_equal(m.outcomes[SONDE_LOAD_OK], COUNT - bad);
    assert_int_equal(m.statuses[5], m.outcomes[SONDE_LOAD_STATUS]);
    assert_true(m.metrics[SONDE_LOAD_METRIC_E2E].max < 0.02);
    assert_true(m.metrics[SONDE_LOAD_METRIC_TTFT].max < 0.01);
    assert_true(m.metrics[SONDE_LOAD_METRIC_TTFT].min > 0);
}

static void test_warmup(void **state)
{
    (void)state;
    static struct load l;
    load_make(&l);
    for (size_t i = 0; i < 100; i++) l.records[i].end_ns += 500 * MS;
    const struct sonde_load_measures m = measured(&l, NULL);
    assert_true(m.warmup_found && m.steady);
    /* A second until latencies are right, and half of one more until completions are. */
    assert_true(m.warmup_s >= 1 && m.warmup_s <= 2);
    assert_true(m.metrics[SONDE_LOAD_METRIC_E2E].max < 0.1);
    /* Given: taken as it is. */
    struct sonde_load_measures g;
    const struct sonde_load_measure_options by_time = { .open = 1, .warmup_s = 2 };
    const struct sonde_load_measure_options by_count = { .open = 1, .warmup_s = -1,
                                                         .warmup_requests = 300 };
    assert_int_equal(sonde_load_measure(&l.r, &by_time, &g), 0);
    assert_true(!g.warmup_found && g.warmup_s == 2 && g.measured == 400);
    assert_int_equal(sonde_load_measure(&l.r, &by_count, &g), 0);
    assert_true(!g.warmup_found && g.measured == 300);
}

/* Two tokens in each event: by chunk and by token are told apart. No usage: events are counted. */
static void test_tokens(void **state)
{
    (void)state;
    static struct load l;
    load_make(&l);
    for (size_t i = 0; i < COUNT; i++) l.records[i].output_tokens = 21;
    struct sonde_load_measures m = measured(&l, NULL);
    assert_false(m.itl_of_gaps);
    near("per chunk", m.tokens_per_chunk, 21.0 / 11, 1e-9);
    near("by token", value_of(&m, SONDE_LOAD_METRIC_ITL, SONDE_LOAD_P50), 0.5e-3, 1e-9);
    assert_true(m.metrics[SONDE_LOAD_METRIC_ITL].count >= 20 * (COUNT - 100));
    for (size_t i = 0; i < COUNT; i++) l.records[i].output_tokens = SONDE_LOAD_UNKNOWN;
    m = measured(&l, NULL);
    assert_int_equal(m.token_basis, SONDE_LOAD_TOKENS_EVENTS);
    near("counted", m.output_tokens_mean, 11, 1e-9);
    for (size_t i = 0; i < COUNT; i++) l.records[i].streamed = 0;
    m = measured(&l, NULL);
    assert_int_equal(m.token_basis, SONDE_LOAD_TOKENS_NONE);
    assert_true(isnan(m.rates[SONDE_LOAD_RATE_OUTPUT].value));
    assert_int_equal(m.metrics[SONDE_LOAD_METRIC_TTFT].count, 0);
}

static void test_slo(void **state)
{
    (void)state;
    static struct load l;
    struct sonde_load_slo slo;
    struct sonde_err err;
    load_make(&l);
    for (size_t i = 0; i < COUNT; i += 4) l.records[i].first_ns += 4 * MS; /* TTFT over 9 ms */
    assert_int_equal(sonde_load_slo_parse("ttft<8ms,itl<=50ms,e2e<5s", &slo, &err), 0);
    const struct sonde_load_measures m = measured(&l, &slo);
    near("good", m.good_ratio, 0.75, 0.01);
    near("goodput", m.rates[SONDE_LOAD_RATE_GOODPUT].value, 75, 1.5);
    assert_true(m.good_low < 0.75 && m.good_high > 0.75 && m.good_low > 0.6);
    static const char *const bad[] = { "", "ttft", "ttft<", "ttft<500", "ttfb<5ms", "ttft>5ms",
                                       "ttft<0ms", "ttft<5ms,,", "ttft<5ms;e2e<1s" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(sonde_load_slo_parse(bad[i], &slo, &err), SONDE_EINVAL);
    }
}

/* Nothing at all, and everything at once. */
static void test_ends(void **state)
{
    (void)state;
    static struct load l;
    struct sonde_load_measures m;
    const struct sonde_load_measure_options o = { .warmup_s = -1 };
    load_make(&l);
    l.r.record_count = 0;
    l.r.end_ns = BEGIN;
    assert_int_equal(sonde_load_measure(&l.r, &o, &m), 0);
    assert_true(m.measured == 0 && isnan(m.metrics[SONDE_LOAD_METRIC_E2E].mean));
    load_make(&l);
    l.r.record_count = 20;
    for (size_t i = 0; i < 20; i++) {
        l.records[i].intended_ns = l.records[i].sent_ns = BEGIN;
        l.records[i].end_ns = BEGIN + 100 * MS;
    }
    l.r.end_ns = BEGIN + 100 * MS;
    assert_int_equal(sonde_load_measure(&l.r, &o, &m), 0);
    assert_true(m.at_once && m.measured == 20);
    near("at once", m.rates[SONDE_LOAD_RATE_REQUESTS].value, 200, 1e-6);
}

/* ---- The verdict ----------------------------------------------------------------------------- */

enum plant { FINE, CPU, LATE, READ_LATE, STARVED, RATE, UNSENT, FAILED, ALL_FAILED, BEHIND, FEW,
             STOLEN, QUEUED };

static void plant_do(enum plant p, struct load *l, double *rate, struct sonde_bench_result *r)
{
    struct sonde_load_client *c = &l->r.client;
    if (p == CPU) c->cpu_ns = c->wall_ns * 95 / 100;
    if (p == READ_LATE) c->ready_delay_p99_ns = 5 * MS;
    if (p == QUEUED) c->queued_ns = c->wall_ns / 4;
    if (p == STARVED) c->starved = 100;
    if (p == RATE) *rate = 140;
    if (p == UNSENT) l->r.unsent = 200;
    if (p == FEW) l->r.record_count = 25;
    if (p == STOLEN) r->machine.stolen_ratio = 0.3;
    for (size_t i = 0; i < COUNT; i++) {
        struct sonde_load_record *k = &l->records[i];
        if (p == LATE && i % 20 == 0) k->sent_ns += 4 * MS;
        if ((p == FAILED && i % 5 == 0) || p == ALL_FAILED) k->outcome = SONDE_LOAD_RESET;
        if (p == BEHIND) {
            k->first_ns += i * 8 * MS;
            k->last_ns += i * 8 * MS;
            k->end_ns += i * 8 * MS;
        }
    }
    if (p == BEHIND) l->r.end_ns = l->records[COUNT - 1].end_ns;
}

static void test_verdict(void **state)
{
    (void)state;
    static const struct { enum plant plant; const char *reason; } cases[] = {
        { FINE, NULL }, { CPU, "the client was the limit: its busiest thread" },
        { LATE, "the client was the limit: 1 % of requests were sent" },
        { READ_LATE, "the client was the limit: answers waited" },
        { STARVED, "waited for a free connection" },
        { RATE, "the schedule was not kept" }, { UNSENT, "due and never sent" },
        { FAILED, "failed, most by: reset" }, { ALL_FAILED, "all 600 requests failed" },
        { BEHIND, "the server fell behind" }, { FEW, "too few independent samples" },
        { STOLEN, "the host took 30.0 %" }, { QUEUED, "other programs had the CPU for 25 %" },
    };
    static struct load l;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde_bench_result r;
        struct sonde_load_remarks remarks = { .count = 0 };
        struct sonde_load_measures m;
        double rate = 100;
        load_make(&l);
        sonde_bench_result_init(&r, "http", NULL);
        snprintf(r.machine.governor, sizeof(r.machine.governor), "performance");
        r.machine.stolen_ratio = 0;
        plant_do(cases[i].plant, &l, &rate, &r);
        struct sonde_load_arrival plan = plan_make(rate);
        const struct sonde_load_measure_options o = { .open = 1, .arrival = &plan, .warmup_s = 0 };
        assert_int_equal(sonde_load_measure(&l.r, &o, &m), 0);
        assert_int_equal(sonde_load_judge(&m, &l.r, 1, &r, &remarks), 0);
        int found = !cases[i].reason && !r.reason_count;
        for (size_t k = 0; k < r.reason_count && cases[i].reason; k++) {
            found |= strstr(r.reasons[k], cases[i].reason) != NULL;
        }
        if (!found) {
            fprintf(stderr, "case %zu: wanted '%s', got %zu reasons, first '%s'\n", i,
                    cases[i].reason ? cases[i].reason : "valid", r.reason_count,
                    r.reason_count ? r.reasons[0] : "");
            fail();
        }
        sonde_load_arrival_release(&plan);
        sonde_bench_result_release(&r);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_memory(void **state)
{
    (void)state;
    static struct load l;
    load_make(&l);
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 100; nth++) {
        const struct sonde_load_measure_options o = { .warmup_s = -1 };
        struct sonde_load_measures m;
        for (size_t i = 0; i < COUNT; i++) l.records[i].output_tokens = 21;
        sonde__alloc_fail_nth(nth);
        rc = sonde_load_measure(&l.r, &o, &m);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        assert_int_equal(sonde__alloc_live(), 0);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coverage), cmocka_unit_test(test_few),
        cmocka_unit_test(test_known),    cmocka_unit_test(test_failures),
        cmocka_unit_test(test_warmup),   cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_slo),      cmocka_unit_test(test_ends),
        cmocka_unit_test(test_verdict),  cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
