/* Regressions: a store with days of series is scanned, and what changed is found with what else
 * changed then; what an earlier life reported is not reported again; ratios of two series. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "agent/regressions.h"
#include "unit/analyze/change_sim.h"
#include "unit/store/sqlite/store_build.h"

enum { DAYS = 3, STEP_AT = 2 * 1440 + 500 };

static const char *const names[] = { "sonde_process_resident_memory_bytes",
                                     "sonde_infer_tokens_per_second", "my_latency" };

static void write_days(struct sonde_store *s, double latency_step)
{
    struct sim_random r = { .state = 42 };
    uint32_t slots[5];
    uint64_t cpu = 0, tokens = 0;
    struct sonde_store_series spec = { .labels = "", .help = "", .unit = "seconds",
                                       .source = "test", .program = "server", .pid = 7,
                                       .type = SONDE_GAUGE, .scale = 1, .from_zero = 1 };
    for (int i = 0; i < 3; i++) {
        spec.name = names[i];
        spec.kind = i == 2 ? SONDE_KIND_TIME : SONDE_KIND_CUSTOM;
        assert_int_equal(OPS->define(s, &spec, &slots[i]), 0);
    }
    spec.type = SONDE_COUNTER;
    spec.kind = SONDE_KIND_COUNTER;
    spec.name = "sonde_process_cpu_seconds_total";
    spec.scale = 0.01;
    assert_int_equal(OPS->define(s, &spec, &slots[3]), 0);
    spec.name = "sonde_infer_tokens_total";
    spec.labels = "type=\"output\"";
    spec.scale = 1;
    assert_int_equal(OPS->define(s, &spec, &slots[4]), 0);
    for (int t = 0; t < DAYS * 1440; t++) {
        struct sonde_store_value v[5];
        const double after = t >= STEP_AT ? 1 : 0;
        cpu += (uint64_t)(6000 * (1 + 0.3 * after) * (1 + 0.01 * sim_normal(&r)));
        tokens += (uint64_t)(9000 * (1 + 0.01 * sim_normal(&r)));
        for (int i = 0; i < 5; i++) v[i] = (struct sonde_store_value){ .slot = slots[i] };
        v[0].value = build_bits(1e9 * (1 + 0.002 * sim_normal(&r)));
        v[1].value = build_bits(150 * (1 - 0.2 * after) * (1 + 0.02 * sim_normal(&r)));
        v[2].value = build_bits(0.2 * (1 + latency_step * after) * (1 + 0.02 * sim_normal(&r)));
        v[3].value = cpu;
        v[4].value = tokens;
        const struct sonde_store_tick tick = { .time_ms = (int64_t)START_S * 1000 + t * 60000,
                                               .count = 5, .values = v };
        assert_int_equal(OPS->append(s, &tick), 0);
    }
    struct sonde_err err;
    assert_int_equal(OPS->flush(s, &err), 0);
}

static void put_finding(struct sonde_store *s, const char *kind, const char *subject,
                        double time_s, const char *text)
{
    struct sonde_err err;
    uint64_t id;
    const struct sonde_store_finding f = { .time_s = time_s, .kind = kind, .subject = subject,
                                           .value = NAN, .text = text };
    assert_int_equal(OPS->finding_put(s, &f, &id, &err), 0);
}

struct heard { int count, worse; char subjects[8][128]; };

static void on_regression(const struct sonde_regression *g, void *arg)
{
    struct heard *h = arg;
    h->worse += g->verdict == SONDE_REGRESSION_WORSE;
    if (h->count < 8) snprintf(h->subjects[h->count], 128, "%.127s", g->subject);
    h->count++;
}

struct seen { int latency, ratio, load, facts; };

static int see_row(const struct sonde_regression *g, void *arg)
{
    struct seen *n = arg;
    const double at_s = START_S + 60.0 * STEP_AT;
    assert_true(g->change.time_low_s <= at_s && g->change.time_high_s >= at_s);
    assert_string_equal(g->program, "server");
    if (!strcmp(g->subject, "my_latency")) {
        n->latency++;
        assert_int_equal(g->verdict, SONDE_REGRESSION_WORSE);
        assert_int_equal(g->severity, SONDE_SEVERITY_WARNING);
        assert_true(g->change.relative_low < 0.1 && g->change.relative_high > 0.1);
        assert_non_null(strstr(g->text, "rose by"));
        n->facts = (int)g->fact_count;
    } else if (!strcmp(g->subject, "cpu_seconds_per_output_token")) {
        n->ratio++;
        assert_int_equal(g->verdict, SONDE_REGRESSION_WORSE);
        assert_true(g->change.relative_low < 0.3 && g->change.relative_high > 0.3);
    } else {
        n->load++;
        assert_string_equal(g->subject, "sonde_infer_tokens_per_second");
        assert_int_equal(g->verdict, SONDE_REGRESSION_CHANGED);
        assert_int_equal(g->severity, SONDE_SEVERITY_INFO);
    }
    return 0;
}

static int count_row(const struct sonde_store_finding *f, void *arg)
{
    assert_non_null(strstr(f->text, "from"));
    ++*(int *)arg;
    return 0;
}

static void scan_store(struct sonde_store *s, struct heard *h, struct seen *n)
{
    struct sonde_regressions *r;
    struct sonde_err err = { "" };
    struct sonde_buf b;
    const struct sonde_regressions_options o = { .ops = OPS, .store = s, .series = "none|my_*",
        .on_regression = on_regression, .on_regression_arg = h };
    assert_int_equal(sonde_regressions_create(&o, &r, &err), 0);
    assert_int_equal(sonde_regressions_scan(r, 0, 0, &err), 0);
    sonde_regressions_each(r, see_row, n);
    sonde_buf_init(&b, 1 << 20);
    sonde_regressions_json(r, 0, 0, &b);
    assert_int_equal(b.error, 0);
    assert_non_null(strstr(b.data, "\"what_changed\":[{\"time\":"));
    assert_non_null(strstr(b.data, "\"state\":\"open\""));
    sonde_buf_release(&b);
    sonde_regressions_destroy(r);
}

static void test_scan(void **state)
{
    (void)state;
    struct sonde_store *s;
    struct sonde_err err = { "" };
    struct heard h = { 0 };
    struct seen n = { 0 };
    int stored = 0;
    const struct sonde_store_options o = { .path = build_path };
    assert_int_equal(OPS->open(&o, &s, &err), 0);
    write_days(s, 0.1);
    const double at_s = START_S + 60.0 * STEP_AT;
    put_finding(s, "mark", "", at_s - 60, "deploy 42");
    put_finding(s, "change", "server", at_s - 30, "build_id: 0a0b -> 0c0d");
    put_finding(s, "change", "server", at_s - 30, "model: first seen");   /* no change */
    put_finding(s, "change", "another", at_s - 30, "build_id: 1 -> 2");   /* not this one */
    put_finding(s, "change", "server", at_s - 86400, "build_id: 1 -> 2"); /* long ago */
    scan_store(s, &h, &n);
    assert_int_equal(n.latency, 1);
    assert_int_equal(n.ratio, 1);
    assert_int_equal(n.load, 1);
    assert_int_equal(n.facts, 2);
    assert_int_equal(h.count, 3);
    assert_int_equal(h.worse, 2);
    const struct sonde_store_range q = { .kind = SONDE_REGRESSION_KIND };
    assert_int_equal(OPS->findings(s, &q, count_row, &stored, &err), 0);
    assert_int_equal(stored, 3);
    /* Once more, as the next life of the agent would: it knows, and tells nobody. */
    h = (struct heard){ 0 };
    n = (struct seen){ 0 };
    scan_store(s, &h, &n);
    assert_int_equal(n.latency, 1);
    assert_int_equal(h.count, 0);
    OPS->close(s);
}

static void test_thread_stops(void **state)
{
    (void)state;
    struct sonde_store *s;
    struct sonde_regressions *r;
    struct sonde_err err = { "" };
    const struct sonde_store_options o = { .path = build_path };
    assert_int_equal(OPS->open(&o, &s, &err), 0);
    const struct sonde_regressions_options ro = { .ops = OPS, .store = s };
    assert_int_equal(sonde_regressions_create(&ro, &r, &err), 0);
    assert_int_equal(sonde_regressions_start(r, &err), 0);
    sonde_regressions_stop(r);
    sonde_regressions_stop(r);
    sonde_regressions_destroy(r);
    sonde_regressions_destroy(NULL);
    OPS->close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = { TEST(test_scan), TEST(test_thread_stops) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
