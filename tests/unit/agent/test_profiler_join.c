/* Which request of a hooked engine is the one that the front passed on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "infer/event.h"
#include "agent/profiler_private.h"

#define T0 1700000000000000000ull
#define MS 1000000ull

static struct sonde_infer_request request(uint64_t id, uint32_t source, uint64_t from_ms,
                                          uint64_t to_ms, uint64_t in, uint64_t out)
{
    return (struct sonde_infer_request){
        .id = id, .source = source, .trace_hi = id, .trace_lo = 1, .program = "", .model = "",
        .route = "", .backend = "", .error = "", .invalid = "", .arrived_ns = T0 + from_ms * MS,
        .total_s = (double)(to_ms - from_ms) * 1e-3, .tokens_in = in, .tokens_out = out };
}

enum { FRONT = 1 };
static const struct sonde_request_profile asked = {
    .request = { .id = FRONT, .trace_hi = FRONT, .trace_lo = 1, .source = SONDE_INFER_FRONT,
                 .arrived_ns = T0 + 100 * MS },
    .ended_ns = T0 + 500 * MS,
};

/* all[0] is the front's. */
static struct profiler_joined join(const struct sonde_infer_request *all, size_t count)
{
    const struct sonde_infer_request *list[8];
    struct profiler_joined out;
    for (size_t i = 0; i < count; i++) list[i] = &all[i];
    profiler_join(list, count, &asked, &out);
    return out;
}

static void the_only_one(void **state)
{
    (void)state;
    struct sonde_infer_request all[] = {
        request(FRONT, SONDE_INFER_FRONT, 100, 500, 0, 0),
        request(2, SONDE_INFER_HOOK, 50, 490, 20, 30),   /* began before */
        request(3, SONDE_INFER_HOOK, 110, 900, 20, 30),  /* went on after */
        request(4, SONDE_INFER_HOOK, 103, 498, 20, 30),
        request(5, SONDE_INFER_API, 103, 498, 20, 30),   /* it would have had the trace */
    };
    struct profiler_joined j = join(all, 5);
    assert_ptr_equal(j.request, &all[3]);
    assert_int_equal(j.others, 0);
    /* One whose silence is not yet an end. */
    all[3].flags |= SONDE_INFER_RUNNING;
    all[3].total_s = 5;
    j = join(all, 5);
    assert_ptr_equal(j.request, &all[3]);
    assert_null(join(all, 3).request);
}

static void by_tokens(void **state)
{
    (void)state;
    const struct sonde_infer_request all[] = {
        request(FRONT, SONDE_INFER_FRONT, 100, 500, 20, 30),
        request(2, SONDE_INFER_HOOK, 101, 499, 20, 31),
        request(3, SONDE_INFER_PROBE, 130, 450, 20, 30),
        request(4, SONDE_INFER_HOOK, 101, 499, 21, 30),
    };
    const struct profiler_joined j = join(all, 4);
    assert_ptr_equal(j.request, &all[2]);
    assert_int_equal(j.others, 0);
    assert_null(join(all, 2).request);
}

static void ambiguous(void **state)
{
    (void)state;
    const struct sonde_infer_request all[] = {
        request(FRONT, SONDE_INFER_FRONT, 100, 500, 20, 30),
        request(2, SONDE_INFER_HOOK, 104, 490, 20, 30),
        request(3, SONDE_INFER_HOOK, 102, 498, 20, 30),
        request(4, SONDE_INFER_HOOK, 200, 300, 20, 30), /* far from it */
    };
    const struct profiler_joined j = join(all, 4);
    assert_ptr_equal(j.request, &all[2]);
    assert_int_equal(j.others, 1);
}

/* An engine that takes traceparent says itself which is which. */
static void by_trace(void **state)
{
    (void)state;
    struct sonde_infer_request all[] = {
        request(FRONT, SONDE_INFER_FRONT, 100, 500, 20, 30),
        request(2, SONDE_INFER_HOOK, 104, 490, 20, 30),
        request(3, SONDE_INFER_API, 102, 498, 20, 30),
    };
    all[2].trace_hi = FRONT;
    assert_null(join(all, 3).request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_only_one), cmocka_unit_test(by_tokens), cmocka_unit_test(ambiguous),
        cmocka_unit_test(by_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
