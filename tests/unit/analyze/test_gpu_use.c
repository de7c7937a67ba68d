/* For whom a GPU worked: by phase and request, through spans and batches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyze/gpu_use.h"
#include "base/alloc.h"
#include "sonde/sonde.h"

static uint32_t thread;

static void span_add(struct sonde_profile *p, const char *name, uint64_t start, uint64_t end,
                     uint64_t id, uint64_t parent)
{
    const struct sonde_profile_span s = {
        .start_ns = start, .end_ns = end, .id = id, .parent = parent, .thread = thread,
        .name = sonde_profile_string(p, name, strlen(name)) };
    assert_int_equal(sonde_profile_add_span(p, &s), 0);
}

static void command_add(struct sonde_profile *p, uint64_t at, uint64_t ns)
{
    const struct sonde_profile_sample s = {
        .time_ns = at, .weight = ns, .thread = thread, .count = 1, .kind = SONDE_SAMPLE_GPU,
        .stack = sonde_profile_stack(p, 0, sonde_profile_named_location(p, "kernel", 6)) };
    assert_int_equal(sonde_profile_add_sample(p, &s), 0);
}

static void request_add(struct sonde_profile *p, uint64_t id)
{
    const struct sonde_infer_request r = { .id = id, .pid = 7, .program = "", .model = "",
                                           .route = "", .backend = "", .error = "",
                                           .invalid = "" };
    assert_int_equal(sonde_infer_run_add(p, &r), 0);
}

static struct sonde_profile *profile_make(void)
{
    struct sonde_profile *p;
    assert_int_equal(sonde_profile_create(0, &p), 0);
    thread = sonde_profile_thread(p, 7, 7, "main");
    request_add(p, 100);
    request_add(p, 200);
    return p;
}

static int near(double a, double b) { return a > b - 1e-6 && a < b + 1e-6; }

static void by_phase(void **state)
{
    struct sonde_gpu_use u;
    (void)state;
    struct sonde_profile *p = profile_make();
    span_add(p, "prefill", 1000, 2000, 1, 100);
    span_add(p, "work", 1200, 1800, 2, 1); /* within it: the phase is further out */
    span_add(p, "decode", 2000, 3000, 3, 200);
    command_add(p, 1100, 10);
    command_add(p, 1300, 20);
    command_add(p, 2500, 40);
    command_add(p, 5000, 80);
    assert_int_equal(sonde_gpu_use_of(p, &u), 0);
    assert_true(near(u.ns, 150));
    assert_true(near(u.phase_ns[SONDE_PHASE_PREFILL], 30));
    assert_true(near(u.phase_ns[SONDE_PHASE_DECODE], 40));
    assert_true(near(u.no_phase_ns, 80) && near(u.no_request_ns, 80));
    assert_int_equal(u.request_count, 2);
    assert_int_equal(u.requests[0].index, 1);
    assert_true(near(u.requests[0].ns, 40) && near(u.requests[1].ns, 30));
    assert_true(near(u.requests[1].commands, 2));
    sonde_gpu_use_release(&u);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* 30 tokens of one's prompt, 10 of the other's answer. */
static void in_a_batch(void **state)
{
    struct sonde_gpu_use u;
    (void)state;
    struct sonde_profile *p = profile_make();
    span_add(p, "batch", 1000, 2000, 1, 0);
    const struct sonde_profile_part parts[] = {
        { .request = 100, .span = 0, .tokens_in = 30 },
        { .request = 200, .span = 0, .tokens_out = 10 },
    };
    for (int i = 0; i < 2; i++) assert_int_equal(sonde_profile_add_part(p, &parts[i]), 0);
    command_add(p, 1500, 400);
    assert_int_equal(sonde_gpu_use_of(p, &u), 0);
    assert_true(near(u.phase_ns[SONDE_PHASE_PREFILL], 300));
    assert_true(near(u.phase_ns[SONDE_PHASE_DECODE], 100));
    assert_int_equal(u.request_count, 2);
    assert_true(near(u.requests[0].ns, 300) && u.requests[0].index == 0);
    assert_true(near(u.no_phase_ns, 0) && near(u.no_request_ns, 0));
    sonde_gpu_use_release(&u);
    sonde_profile_destroy(p);
}

/* Spans whose parents are in a circle, and nothing at all. */
static void odd_ones(void **state)
{
    struct sonde_gpu_use u;
    (void)state;
    struct sonde_profile *p = profile_make();
    assert_int_equal(sonde_gpu_use_of(p, &u), 0);
    assert_int_equal(u.request_count, 0);
    span_add(p, "a", 1000, 2000, 1, 2);
    span_add(p, "b", 1000, 2000, 2, 1);
    command_add(p, 1500, 5);
    assert_int_equal(sonde_gpu_use_of(p, &u), 0);
    assert_true(near(u.no_phase_ns, 5) && near(u.no_request_ns, 5));
    sonde_gpu_use_release(&u);
    sonde_profile_destroy(p);
    assert_int_equal(sonde__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(by_phase), cmocka_unit_test(in_a_batch),
                                        cmocka_unit_test(odd_ones) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
