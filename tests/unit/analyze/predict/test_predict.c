/* Predictions held against an engine whose costs are known: coefficients come back, latencies at
 * other rates, slots and mixes are those that it then has, the knee is where it saturates, and what
 * cannot be known is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sonde/sonde.h"
#include "unit/analyze/predict/toy_engine.h"

static const struct toy base = {
    .rate = 3, .count = 400, .slots = 4, .batch = 128, .step_s = 2e-3, .prompt_s = 4e-4,
    .decode_s = 3e-4, .cell_s = 4e-7, .gap_s = 5e-5, .output_s = 8e-5, .intake_s = 2e-4,
    .noise = 0.08, .prompt_mean = 120, .output_mean = 30, .seed = 11,
};

static struct sonde_predict_model *fit(const struct toy *t, uint32_t slots, uint32_t batch)
{
    struct sonde_predict_model *m = NULL;
    struct sonde_err err = { "" };
    struct toy_run r = toy_run(t);
    r.o.slots = slots;
    r.o.batch_tokens = batch;
    if (sonde_predict_fit(&r.o, &m, &err)) fail_msg("%s", err.text);
    toy_release(&r);
    return m;
}

static struct sonde_predict_answer ask(const struct sonde_predict_model *m,
                                       const struct sonde_predict_ask *q)
{
    struct sonde_predict_answer a;
    struct sonde_predict_ask few = *q;
    struct sonde_err err = { "" };
    few.replicates = 40; /* enough for these tolerances */
    if (sonde_predict_run(m, &few, &a, &err)) fail_msg("%s", err.text);
    return a;
}

static void near(const char *what, double got, double want, double ratio)
{
    if (!(fabs(got / want - 1) <= ratio)) {
        fail_msg("%s is %g, not %g within %g %%", what, got, want, 100 * ratio);
    }
}

static double coefficient(const struct sonde_predict_facts *f, const char *name)
{
    for (uint32_t i = 0; i < f->coefficient_count; i++) {
        if (!strcmp(f->coefficients[i].name, name)) return f->coefficients[i].seconds;
    }
    fail_msg("no coefficient %s", name);
    return 0;
}

/* What one more of a kind costs where there are at: as one of its kind and as a token. */
static double one_more(const struct sonde_predict_facts *f, const char *kind, double at)
{
    const char *const names[] = { "token in the pass", kind };
    double sum = 0;
    for (int k = 0; k < 2; k++) {
        double last = 0;
        for (uint32_t i = 0; i < f->coefficient_count; i++) {
            const struct sonde_predict_coefficient *c = &f->coefficients[i];
            if (!strcmp(c->name, names[k]) && c->from < at) last = c->seconds;
        }
        sum += last;
    }
    return sum;
}

/* ---- The fit --------------------------------------------------------------------------------- */

static void test_coefficients(void **state)
{
    (void)state;
    struct toy t = base;
    t.rate = 5; /* requests wait */
    struct sonde_predict_model *m = fit(&t, 0, 0);
    const struct sonde_predict_facts *f = sonde_predict_facts(m);
    near("step", coefficient(f, "step"), base.step_s, 0.05);
    near("prompt", one_more(f, "prompt token", 20), base.prompt_s, 0.05);
    near("decode", one_more(f, "sequence that decodes", 2), base.decode_s, 0.1);
    near("cells", coefficient(f, "KV cell that a decoding sequence attends to"), base.cell_s, 0.15);
    near("gap", f->gap_s, base.gap_s, 0.05);
    near("output", f->gap_output_s, base.output_s, 0.05);
    near("intake", f->intake_s, base.intake_s, 0.05);
    near("rate", f->rate, 5, 0.2);
    near("burstiness", f->burstiness, 1, 0.25);
    assert_int_equal(f->slots, 4);            /* seen: requests waited for one */
    assert_int_equal(f->batch_tokens, 128);   /* seen: prompts were cut */
    assert_int_equal(f->share, SONDE_PREDICT_FIRST);
    assert_int_equal(f->cold_steps, 0);
    assert_int_equal(f->unknown_steps, 0);
    assert_false(f->closed_loop);
    assert_int_equal(f->decode_max, 4);
    sonde_predict_destroy(m);
}

/* Tokens that cost more in large batches become a segment of their own. */
static void test_bend(void **state)
{
    (void)state;
    struct toy t = base;
    t.bend = 64;
    t.bend_s = 1e-3;
    t.noise = 0.03;
    struct sonde_predict_model *m = fit(&t, 4, 128);
    const struct sonde_predict_facts *f = sonde_predict_facts(m);
    const double above = one_more(f, "prompt token", 100);
    near("above the bend", above, t.prompt_s + t.bend_s, 0.15);
    sonde_predict_destroy(m);
}

static void test_even_share(void **state)
{
    (void)state;
    struct toy t = base;
    t.even = 1;
    struct sonde_predict_model *m = fit(&t, 0, 0);
    assert_int_equal(sonde_predict_facts(m)->share, SONDE_PREDICT_EVEN);
    sonde_predict_destroy(m);
}

/* A cold start is left out: neither coefficients nor figures learn it. */
static void test_cold(void **state)
{
    (void)state;
    struct toy t = base;
    t.slow_until_s = 12;
    t.slow = 3;
    struct sonde_predict_model *m = fit(&t, 4, 128);
    const struct sonde_predict_facts *f = sonde_predict_facts(m);
    assert_true(f->cold_steps > 0);
    assert_true(f->requests < t.count);
    near("step", coefficient(f, "step"), base.step_s, 0.08);
    const struct sonde_predict_ask q = { .rate = 3 };
    const struct sonde_predict_answer a = ask(m, &q);
    struct toy warm = base;
    warm.count = 10000;
    struct toy_run r = toy_run(&warm);
    near("p50 after a cold start", a.figures[SONDE_PREDICT_TTFT_P50].value,
         toy_quantile(r.ttft, warm.count, 0.5), 0.12);
    toy_release(&r);
    sonde_predict_destroy(m);
}

/* At so low a load nobody ever waits for a slot: how many there are is not known, nor guessed. */
static void test_unknown_slots(void **state)
{
    (void)state;
    struct toy t = base;
    t.rate = 0.2;
    t.count = 100;
    struct sonde_predict_model *m = fit(&t, 0, 0);
    assert_int_equal(sonde_predict_facts(m)->slots, 0);
    struct sonde_predict_ask q = { .rate = 0.3 };
    struct sonde_predict_answer a = ask(m, &q);
    assert_int_equal(a.verdict, SONDE_PREDICT_UNKNOWN);
    assert_non_null(strstr(a.why, "slots"));
    q.slots = 4;
    a = ask(m, &q);
    assert_false(sonde_predict_refused(&a));
    sonde_predict_destroy(m);
}

/* ---- Predictions ----------------------------------------------------------------------------- */

static uint32_t intervals, inside; /* of all that were checked */

/* A long run of the engine as it would be. */
static void check_against(const char *what, const struct sonde_predict_answer *a,
                          const struct toy *would)
{
    char text[128];
    struct toy t = *would;
    t.count = 12000;
    t.seed = 77;
    struct toy_run r = toy_run(&t);
    static const struct { enum sonde_predict_figure f; double q; int total; } rows[] = {
        { SONDE_PREDICT_TTFT_P50, 0.5, 0 }, { SONDE_PREDICT_TTFT_P90, 0.9, 0 },
        { SONDE_PREDICT_E2E_P50, 0.5, 1 }, { SONDE_PREDICT_E2E_P90, 0.9, 1 },
    };
    if (sonde_predict_refused(a)) fail_msg("%s: %s", what, a->why);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const double seen = toy_quantile(rows[i].total ? r.total : r.ttft, t.count, rows[i].q);
        const struct sonde_predict_value *v = &a->figures[rows[i].f];
        snprintf(text, sizeof(text), "%s: %s", what, sonde_predict_figure_name(rows[i].f));
        near(text, v->value, seen, 0.15);
        assert_true(v->low <= v->value && v->value <= v->high);
        intervals++;
        inside += seen >= v->low && seen <= v->high;
    }
    snprintf(text, sizeof(text), "%s: throughput", what);
    near(text, a->figures[SONDE_PREDICT_REQUESTS_PER_S].value, t.rate, 0.05);
    toy_release(&r);
}

/* After those that count: intervals hold as often as they should, or nearly. */
static void test_coverage(void **state)
{
    (void)state;
    assert_true(intervals >= 20);
    if (inside * 10 < intervals * 8) fail_msg("%u of %u intervals hold", inside, intervals);
}

static void test_rates(void **state)
{
    (void)state;
    struct toy t = base;
    t.count = 600;
    struct sonde_predict_model *m = fit(&t, 4, 0);
    static const double times[] = { 1, 1.5, 2 };
    for (size_t i = 0; i < 3; i++) {
        char what[32];
        const struct sonde_predict_ask q = { .rate = times[i] * base.rate, .poisson = 1 };
        const struct sonde_predict_answer a = ask(m, &q);
        snprintf(what, sizeof(what), "%g times", times[i]);
        t.rate = times[i] * base.rate;
        check_against(what, &a, &t);
    }
    sonde_predict_destroy(m);
}

static void test_slots_and_mix(void **state)
{
    (void)state;
    struct toy t = base;
    t.count = 600;
    struct sonde_predict_model *m = fit(&t, 4, 0);
    struct sonde_predict_ask q = { .rate = 4, .slots = 2 };
    struct sonde_predict_answer a = ask(m, &q);
    t.rate = 4;
    t.slots = 2;
    check_against("two slots", &a, &t);
    q = (struct sonde_predict_ask){ .rate = 5, .slots = 8 };
    a = ask(m, &q);
    t.rate = 5;
    t.slots = 8;
    check_against("eight slots", &a, &t);
    q = (struct sonde_predict_ask){ .rate = 4, .output_ratio = 1.5 };
    a = ask(m, &q);
    t = base;
    t.rate = 4;
    t.output_mean *= 1.5;
    check_against("longer answers", &a, &t);
    near("tokens", a.tokens_out, 1.5 * sonde_predict_facts(m)->tokens_out, 0.05);
    q = (struct sonde_predict_ask){ .rate = 4, .batch_tokens = 64 };
    a = ask(m, &q);
    t = base;
    t.rate = 4;
    t.batch = 64;
    check_against("a smaller batch", &a, &t);
    sonde_predict_destroy(m);
}

/* As llama.cpp on CPUs: the second to fourth row of a pass cost four times what later ones do. Four
 * sequences were seen together at most; what eight cost only prompts say. */
static void test_rows(void **state)
{
    (void)state;
    struct toy t = base;
    t.prompt_s = t.decode_s = 0;
    t.row_s = 2.5e-3;
    t.rows_until = 4;
    t.row_late_s = 6e-4;
    t.prompt_mean = 60;
    t.rate = 3;
    t.count = 600;
    struct sonde_predict_model *m = fit(&t, 4, 0);
    near("few", one_more(sonde_predict_facts(m), "sequence that decodes", 3), t.row_s, 0.1);
    near("many", one_more(sonde_predict_facts(m), "sequence that decodes", 20), t.row_late_s, 0.1);
    const struct sonde_predict_ask q = { .rate = 7, .slots = 8 };
    const struct sonde_predict_answer a = ask(m, &q);
    t.rate = 7;
    t.slots = 8;
    check_against("rows", &a, &t);
    sonde_predict_destroy(m);
}

static void test_reuse(void **state)
{
    (void)state;
    struct toy t = base;
    t.reused = 50;
    t.count = 600;
    struct sonde_predict_model *m = fit(&t, 4, 0);
    const struct sonde_predict_ask q = { .rate = 5 };
    const struct sonde_predict_answer a = ask(m, &q);
    assert_true(sonde_predict_facts(m)->tokens_reused > 20);
    t.rate = 5;
    check_against("reused prompts", &a, &t);
    sonde_predict_destroy(m);
}

/* ---- The knee -------------------------------------------------------------------------------- */

static void test_knee(void **state)
{
    (void)state;
    static const uint32_t slots[] = { 2, 4, 6 };
    struct toy t = base;
    t.count = 600;
    struct sonde_predict_model *m = fit(&t, 4, 0);
    for (size_t i = 0; i < 3; i++) {
        struct sonde_predict_ask q = { .slots = slots[i], .knee_only = 1 };
        struct sonde_predict_answer a = ask(m, &q);
        t.slots = slots[i];
        t.rate = 0;
        t.count = 8000;
        struct toy_run r = toy_run(&t);
        near("knee", a.knee.value, r.middle_rate, 0.06);
        assert_true(a.knee.low < a.knee.value && a.knee.value < a.knee.high);
        q.knee_only = 0;
        q.rate = 1.2 * r.middle_rate;
        a = ask(m, &q);
        assert_int_equal(a.verdict, SONDE_PREDICT_BEYOND_KNEE);
        assert_true(isnan(a.figures[SONDE_PREDICT_TTFT_P50].value) != 0);
        assert_non_null(strstr(a.why, "more than it can hold"));
        toy_release(&r);
    }
    sonde_predict_destroy(m);
}

/* ---- What is refused ------------------------------------------------------------------------- */

static void test_unseen(void **state)
{
    (void)state;
    struct sonde_predict_model *m = fit(&base, 4, 0);
    struct sonde_predict_ask q = { .rate = 0.3, .prompt_ratio = 6 };
    struct sonde_predict_answer a = ask(m, &q);
    assert_int_equal(a.verdict, SONDE_PREDICT_UNSEEN);
    assert_non_null(strstr(a.why, "context"));
    assert_true(isnan(a.figures[SONDE_PREDICT_E2E_P50].value) != 0);
    /* Somewhat outside: answered, and said. */
    q = (struct sonde_predict_ask){ .rate = 1, .prompt_ratio = 1.5 };
    a = ask(m, &q);
    assert_int_equal(a.verdict, SONDE_PREDICT_STRETCHED);
    assert_non_null(strstr(a.why, "extrapolated"));
    assert_true(a.figures[SONDE_PREDICT_E2E_P50].value > 0);
    /* The knee of 32 slots would need 32 sequences: four were seen. */
    q = (struct sonde_predict_ask){ .slots = 32, .knee_only = 1 };
    a = ask(m, &q);
    assert_int_equal(a.verdict, SONDE_PREDICT_UNSEEN);
    assert_true(isnan(a.knee.value) != 0);
    assert_non_null(strstr(a.why, "decode together"));
    sonde_predict_destroy(m);
}

static void test_kv(void **state)
{
    (void)state;
    struct sonde_predict_model *m = NULL;
    struct sonde_err err = { "" };
    struct toy_run r = toy_run(&base);
    r.o.slots = 4;
    r.o.kv_cells = 700;
    assert_int_equal(sonde_predict_fit(&r.o, &m, &err), 0);
    const struct sonde_predict_ask q = { .rate = 5 };
    const struct sonde_predict_answer a = ask(m, &q);
    assert_int_equal(a.verdict, SONDE_PREDICT_UNSEEN);
    assert_non_null(strstr(a.why, "KV cache"));
    toy_release(&r);
    sonde_predict_destroy(m);
}

/* Latencies that steps do not explain: the model does not describe that engine. */
static void test_unexplained(void **state)
{
    (void)state;
    struct sonde_predict_model *m = NULL;
    struct sonde_err err = { "" };
    struct toy_run r = toy_run(&base);
    r.o.slots = 4;
    for (uint32_t i = 0; i < r.o.request_count; i++) {
        r.requests[i].ttft_s += 0.5;
        r.requests[i].total_s += 0.5;
    }
    assert_int_equal(sonde_predict_fit(&r.o, &m, &err), 0);
    const struct sonde_predict_ask q = { .rate = 3 };
    const struct sonde_predict_answer a = ask(m, &q);
    assert_int_equal(a.verdict, SONDE_PREDICT_UNEXPLAINED);
    assert_true(sonde_predict_refused(&a));
    toy_release(&r);
    sonde_predict_destroy(m);
}

static void test_bad_input(void **state)
{
    (void)state;
    struct sonde_predict_model *m = NULL;
    struct sonde_err err = { "" };
    struct toy_run r = toy_run(&base);
    struct sonde_predict_observed o = r.o;
    o.request_count = 10;
    assert_int_equal(sonde_predict_fit(&o, &m, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "too few"));
    o = r.o;
    r.parts[3].request = r.o.request_count;
    assert_int_equal(sonde_predict_fit(&o, &m, &err), SONDE_EINVAL);
    r.parts[3].request = UINT32_MAX;  /* one that is not known: left out */
    assert_int_equal(sonde_predict_fit(&o, &m, &err), 0);
    assert_int_equal(sonde_predict_facts(m)->unknown_steps, 1);
    sonde_predict_destroy(m);
    m = NULL;
    const double arrived = r.requests[5].arrived_s;
    r.requests[5].arrived_s = NAN;
    assert_int_equal(sonde_predict_fit(&o, &m, &err), SONDE_EINVAL);
    r.requests[5].arrived_s = arrived;
    r.steps[7].part_count = UINT32_MAX;
    assert_int_equal(sonde_predict_fit(&o, &m, &err), SONDE_EINVAL);
    r.steps[7].part_count = 0;
    for (uint32_t i = 0; i < r.o.part_count; i++) r.parts[i].request = UINT32_MAX;
    assert_int_equal(sonde_predict_fit(&o, &m, &err), SONDE_EINVAL);
    for (uint32_t i = 0; i < r.o.part_count; i++) {
        r.parts[i].request = 0;
        if (r.parts[i].output) r.parts[i].output = 4;
    }
    assert_int_equal(sonde_predict_fit(&o, &m, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "speculative"));
    assert_null(m);
    toy_release(&r);
    m = fit(&base, 4, 0);
    static const struct sonde_predict_ask bad[] = {
        { .rate = -1 }, { .rate = NAN }, { .rate = 1e9 }, { .prompt_ratio = -1 },
        { .speed = -1 }, { .speed = NAN }, { .speed = 1e-3 }, { .speed = 101 },
        { .output_ratio = 1e6 }, { .slots = 1u << 20 },
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sonde_predict_answer a;
        assert_int_equal(sonde_predict_run(m, &bad[i], &a, &err), SONDE_EINVAL);
    }
    sonde_predict_destroy(m);
    sonde_predict_destroy(NULL);
}

/* A closed loop is seen to be one, is replayed as one, and says what other slots would hold. */
static void test_closed_loop(void **state)
{
    (void)state;
    struct toy t = base;
    t.rate = 0;
    t.at_a_time = 4;
    t.think_s = 2e-3;
    struct sonde_predict_model *m = fit(&t, 4, 128);
    const struct sonde_predict_facts *f = sonde_predict_facts(m);
    assert_true(f->closed_loop);
    assert_int_equal(f->concurrency, 4);
    near("think", f->think_s + 1, t.think_s + 1, 2e-3); /* a difference of sums: to some ms */
    struct sonde_predict_value seen[SONDE_PREDICT_FIGURE_COUNT], has[SONDE_PREDICT_FIGURE_COUNT];
    sonde_predict_measured(m, seen);
    sonde_predict_replayed(m, has);
    near("throughput", has[SONDE_PREDICT_REQUESTS_PER_S].value,
         seen[SONDE_PREDICT_REQUESTS_PER_S].value, 0.05);
    near("total time", has[SONDE_PREDICT_E2E_P50].value, seen[SONDE_PREDICT_E2E_P50].value, 0.1);
    for (uint32_t slots = 1; slots <= 4; slots *= 2) {
        const struct sonde_predict_ask q = { .knee_only = 1, .slots = slots };
        struct toy full = base;
        full.rate = 0;
        full.slots = slots;
        struct toy_run r = toy_run(&full);
        near("what slots hold", ask(m, &q).knee.value, r.middle_rate, 0.1);
        toy_release(&r);
    }
    sonde_predict_destroy(m);
}

/* Said to be one: the requests of an open load are no proof to the contrary. */
static void test_closed_loop_said(void **state)
{
    (void)state;
    struct toy_run r = toy_run(&base);
    struct sonde_predict_model *m;
    r.o.slots = 4;
    r.o.concurrency = 3;
    assert_int_equal(sonde_predict_fit(&r.o, &m, NULL), 0);
    assert_int_equal(sonde_predict_facts(m)->concurrency, 3);
    sonde_predict_destroy(m);
    toy_release(&r);
}

/* The very requests and arrivals of another recording: chance is out of it, so it is near. */
static void test_load(void **state)
{
    (void)state;
    struct toy busy = base;
    busy.rate = 5;
    busy.seed = 77;
    struct sonde_predict_model *m = fit(&base, 4, 128), *load = fit(&busy, 4, 128);
    const struct sonde_predict_ask q = { .load = load };
    const struct sonde_predict_answer a = ask(m, &q);
    struct sonde_predict_value seen[SONDE_PREDICT_FIGURE_COUNT];
    sonde_predict_measured(load, seen);
    assert_int_equal(a.requests, busy.count);
    for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
        const char *name = sonde_predict_figure_name((enum sonde_predict_figure)f);
        /* A P99 of 400 is four requests. */
        near(name, a.figures[f].value, seen[f].value, strstr(name, "p99") ? 0.25 : 0.1);
    }
    near("requests in a second", a.figures[SONDE_PREDICT_REQUESTS_PER_S].value,
         seen[SONDE_PREDICT_REQUESTS_PER_S].value, 0.01);
    sonde_predict_destroy(m);
    sonde_predict_destroy(load);
}

/* Twice as fast at twice the rate is the same in half the time. */
static void test_speed(void **state)
{
    (void)state;
    struct sonde_predict_model *m = fit(&base, 4, 128);
    const struct sonde_predict_ask as_is = { .rate = 3, .poisson = 1 };
    const struct sonde_predict_ask fast = { .rate = 6, .poisson = 1, .speed = 2 };
    const struct sonde_predict_answer a = ask(m, &as_is), b = ask(m, &fast);
    near("knee", b.knee.value, 2 * a.knee.value, 1e-6);
    for (int f = 0; f < SONDE_PREDICT_FIGURE_COUNT; f++) {
        const int rate = f == SONDE_PREDICT_REQUESTS_PER_S || f == SONDE_PREDICT_TOKENS_PER_S;
        /* A bucket of the simulation's histograms is 0.6 % wide. */
        near(sonde_predict_figure_name((enum sonde_predict_figure)f), b.figures[f].value,
             a.figures[f].value * (rate ? 2 : 0.5), rate ? 1e-6 : 0.007);
    }
    sonde_predict_destroy(m);
}

/* The same question, the same answer; another seed, nearly. */
static void test_repeats(void **state)
{
    (void)state;
    struct sonde_predict_model *m = fit(&base, 4, 0);
    struct sonde_predict_ask q = { .rate = 5 };
    const struct sonde_predict_answer a = ask(m, &q), b = ask(m, &q);
    assert_memory_equal(a.figures, b.figures, sizeof(a.figures));
    q.seed = 5;
    const struct sonde_predict_answer c = ask(m, &q);
    near("another seed", c.figures[SONDE_PREDICT_TTFT_P90].value,
         a.figures[SONDE_PREDICT_TTFT_P90].value, 0.08);
    sonde_predict_destroy(m);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_coefficients), cmocka_unit_test(test_bend),
        cmocka_unit_test(test_even_share),   cmocka_unit_test(test_cold),
        cmocka_unit_test(test_unknown_slots), cmocka_unit_test(test_rates),
        cmocka_unit_test(test_slots_and_mix), cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_coverage),     cmocka_unit_test(test_knee),
        cmocka_unit_test(test_unseen),
        cmocka_unit_test(test_kv),           cmocka_unit_test(test_unexplained),
        cmocka_unit_test(test_bad_input),    cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_speed),
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_closed_loop),  cmocka_unit_test(test_closed_loop_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
