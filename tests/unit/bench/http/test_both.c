/* Both sides of a load joined: parts that are known by construction come out and add up, the front
 * and the engine are told apart, engines without trace ids are joined by time; and what a sweep and
 * a search decide. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "bench/http/both.h"
#include "bench/http/sweep.h"
#include "infer/event.h"
#include "sonde/inference.h"

#define MS 1000000ull
enum { COUNT = 40 };

static void near(const char *what, double got, double wanted)
{
    if (fabs(got - wanted) <= 2e-6) return;
    fprintf(stderr, "%s: wanted %g, got %g\n", what, wanted, got);
    fail();
}

static struct sonde_load_record records[COUNT];
static struct sonde_infer_request engine[COUNT], front[COUNT];
static struct sonde_infer_item items[COUNT][4];

/* Due, sent 1 ms later; 2 ms of network, 3 of the front, 4 waiting, 1 encoding, 10 of prefill, 2 of
 * decoding, 1 that nothing explains: 24 ms. */
static void make(struct sonde_load_bench *b)
{
    memset(b, 0, sizeof(*b));
    memset(engine, 0, sizeof(engine));
    memset(front, 0, sizeof(front));
    const uint64_t unix_ns = 1700000000000 * MS;
    for (uint64_t i = 0; i < COUNT; i++) {
        const uint64_t due = 5000 * MS + i * 50 * MS;
        records[i] = (struct sonde_load_record){
            .intended_ns = due, .sent_ns = due + MS, .first_ns = due + 24 * MS,
            .content_ns = due + 24 * MS, .last_ns = due + 30 * MS, .end_ns = due + 30 * MS,
            .trace = { 9, i + 1 }, .streamed = 1, .events = 3, .output_tokens = 3,
            .prompt_tokens = 8 };
        const uint64_t at = unix_ns + (due - 5000 * MS) + 6 * MS; /* after network and front */
        const struct { uint64_t from, to; uint32_t kind; } phases[] = {
            { 0, 4, SONDE_PHASE_QUEUE }, { 4, 5, SONDE_PHASE_ENCODE },
            { 5, 15, SONDE_PHASE_PREFILL }, { 16, 40, SONDE_PHASE_DECODE } };
        for (size_t k = 0; k < 4; k++) {
            items[i][k] = (struct sonde_infer_item){ .start_ns = at + phases[k].from * MS,
                                                     .end_ns = at + phases[k].to * MS,
                                                     .kind = phases[k].kind, .name = "x" };
        }
        engine[i] = (struct sonde_infer_request){
            .trace_hi = 9, .trace_lo = i + 1, .source = SONDE_INFER_API, .pid = 77, .arrived_ns = at,
            .ttft_s = 0.018, .tokens_out = 3, .items = items[i], .item_count = 4 };
        front[i] = (struct sonde_infer_request){
            .trace_hi = 9, .trace_lo = i + 1, .source = SONDE_INFER_FRONT, .arrived_ns = at - 3 * MS,
            .ttft_s = 0.021, .tokens_out = 3 };
    }
    b->load = (struct sonde_load_result){ .begin_ns = 5000 * MS, .end_ns = 8000 * MS,
                                          .records = records, .record_count = COUNT };
    b->measures.from_ns = 5000 * MS;
    b->measures.to_ns = 8000 * MS;
    b->begin_unix_s = 1700000000;
}

static double sum_of(const struct sonde_load_both *o)
{
    double sum = 0;
    for (int p = 0; p < SONDE_LOAD_PIECE_COUNT; p++) sum += o->mean_s[p];
    return sum;
}

static void test_by_trace(void **state)
{
    (void)state;
    struct sonde_load_bench b;
    struct sonde_load_both o;
    struct sonde_infer_request all[2 * COUNT];
    make(&b);
    for (size_t i = 0; i < COUNT; i++) { /* in no order */
        all[2 * i] = front[COUNT - 1 - i];
        all[2 * i + 1] = engine[(i * 7) % COUNT];
    }
    assert_int_equal(sonde_load_both_join(&b, all, 2 * COUNT, 0, &o), 0);
    assert_true(o.measured == COUNT && o.joined == COUNT && o.by_time == 0);
    assert_true(o.timelines == COUNT && o.has_front && o.pid == 77);
    near("client", o.mean_s[SONDE_LOAD_PIECE_CLIENT], 0.001);
    near("network", o.mean_s[SONDE_LOAD_PIECE_NETWORK], 0.002);
    near("front", o.mean_s[SONDE_LOAD_PIECE_FRONT], 0.003);
    near("queue", o.mean_s[SONDE_LOAD_PIECE_QUEUE], 0.004);
    near("encode", o.mean_s[SONDE_LOAD_PIECE_ENCODE], 0.001);
    near("prefill", o.mean_s[SONDE_LOAD_PIECE_PREFILL], 0.010);
    near("decode", o.mean_s[SONDE_LOAD_PIECE_DECODE], 0.002);
    near("residual", o.mean_s[SONDE_LOAD_PIECE_RESIDUAL], 0.001);
    near("all", sum_of(&o), o.ttft_mean_s);
}

/* Without a front and without timelines: phases as they were added up. */
static void test_plain(void **state)
{
    (void)state;
    struct sonde_load_bench b;
    struct sonde_load_both o;
    make(&b);
    for (size_t i = 0; i < COUNT; i++) {
        engine[i].items = NULL;
        engine[i].phase_s[SONDE_PHASE_QUEUE] = 0.004;
        engine[i].phase_s[SONDE_PHASE_PREFILL] = 0.010;
    }
    assert_int_equal(sonde_load_both_join(&b, engine, COUNT / 2, 1, &o), 0);
    assert_true(o.joined == COUNT / 2 && !o.has_front && o.timelines == 0 && o.by_time == 0);
    near("network", o.mean_s[SONDE_LOAD_PIECE_NETWORK], 0.005);
    near("residual", o.mean_s[SONDE_LOAD_PIECE_RESIDUAL], 0.004);
    near("all", sum_of(&o), o.ttft_mean_s);
    assert_int_equal(sonde_load_both_join(&b, NULL, 0, 1, &o), 0);
    assert_true(o.joined == 0 && o.measured == COUNT);
}

static void test_by_time(void **state)
{
    (void)state;
    struct sonde_load_bench b;
    struct sonde_load_both o;
    make(&b);
    for (size_t i = 0; i < COUNT; i++) {
        engine[i].trace_hi = engine[i].trace_lo = 1000 + i; /* of its own */
        engine[i].source = SONDE_INFER_HOOK;
    }
    assert_int_equal(sonde_load_both_join(&b, engine, COUNT, 0, &o), 0);
    assert_int_equal(o.joined, 0); /* clocks that differ: not known */
    assert_int_equal(sonde_load_both_join(&b, engine, COUNT, 1, &o), 0);
    assert_true(o.joined == COUNT && o.by_time == COUNT);
    near("prefill", o.mean_s[SONDE_LOAD_PIECE_PREFILL], 0.010);
    for (size_t i = 0; i < COUNT; i++) engine[i].tokens_out = 99; /* another's */
    assert_int_equal(sonde_load_both_join(&b, engine, COUNT, 1, &o), 0);
    assert_int_equal(o.joined, 0);
}

static void test_memory(void **state)
{
    (void)state;
    struct sonde_load_bench b;
    struct sonde_load_both o;
    int rc = -1;
    make(&b);
    for (uint64_t nth = 1; rc && nth < 20; nth++) {
        sonde__alloc_fail_nth(nth);
        rc = sonde_load_both_join(&b, engine, COUNT, 1, &o);
        sonde__alloc_fail_nth(0);
        assert_int_equal(sonde__alloc_live(), 0);
    }
    assert_int_equal(rc, 0);
}

/* ---- Sweeps ---------------------------------------------------------------------------------- */

static void test_sweep(void **state)
{
    (void)state;
    /* Throughput of a server that does 100 a second at most, 10 ms each alone. */
    static const double rates[] = { 90, 97, 99, 99.5 };
    struct sonde_load_sweep s = { .open = 0 };
    for (size_t i = 0; i < 4; i++) {
        s.points[s.count++] = (struct sonde_load_point){
            .load = 1 << i, .requests_per_s = rates[i], .e2e_mean_s = (1 << i) / rates[i],
            .valid = 1 };
        assert_int_equal(sonde_load_sweep_saturated(&s), i >= 2);
    }
    sonde_load_sweep_knee(&s);
    assert_int_equal(s.knee, 0);
    struct sonde_load_sweep o = { .open = 1 };
    for (size_t i = 0; i < 4; i++) {
        o.points[o.count++] = (struct sonde_load_point){ .load = 10 << i, .requests_per_s = 10,
                                                         .behind = i == 3 };
        assert_int_equal(sonde_load_sweep_saturated(&o), i == 3);
    }
    sonde_load_sweep_knee(&o);
    assert_int_equal(o.knee, 2);
}

/* A server that passes below 37/s: found from below and from above, to 5 %. */
static void test_find(void **state)
{
    (void)state;
    static const double firsts[] = { 0.5, 1, 30, 64, 5000 };
    for (size_t i = 0; i < sizeof(firsts) / sizeof(firsts[0]); i++) {
        struct sonde_load_find f;
        sonde_load_find_begin(&f, firsts[i]);
        while (f.next > 0) {
            sonde_load_find_told(&f, f.next < 37 ? SONDE_LOAD_PASSED : SONDE_LOAD_FAILED);
        }
        assert_true(f.passed < 37 && f.failed >= 37 && f.failed / f.passed <= 1.05);
        assert_true(f.steps <= 16);
    }
    struct sonde_load_find f;
    sonde_load_find_begin(&f, 1);
    while (f.next > 0) sonde_load_find_told(&f, SONDE_LOAD_FAILED);
    assert_true(!(f.passed > 0));
    const struct sonde_load_point good = { .good_ratio = 1, .good_low = 0.96, .good_high = 1 };
    const struct sonde_load_point open = { .good_ratio = 0.96, .good_low = 0.9, .good_high = 1 };
    const struct sonde_load_point bad = { .good_ratio = 0.8, .good_low = 0.7, .good_high = 0.9 };
    const struct sonde_load_point late = { .good_ratio = 1, .good_low = 0.99, .behind = 1 };
    assert_int_equal(sonde_load_find_judge(&good, 0.95), SONDE_LOAD_PASSED);
    assert_int_equal(sonde_load_find_judge(&open, 0.95), SONDE_LOAD_UNDECIDED);
    assert_int_equal(sonde_load_find_judge(&bad, 0.95), SONDE_LOAD_FAILED);
    assert_int_equal(sonde_load_find_judge(&late, 0.95), SONDE_LOAD_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_trace), cmocka_unit_test(test_plain),
        cmocka_unit_test(test_by_time),  cmocka_unit_test(test_memory),
        cmocka_unit_test(test_sweep),    cmocka_unit_test(test_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
