/* Whom a request shared its batches with, and what it waited for, on timelines made by hand. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "analyze/shared.h"

#define MS 1000000ull
#define NS(ms) (1000000000000ull + (ms) * MS)

static struct sonde_infer_item item(uint32_t kind,
                                    const char *name, uint64_t start_ms, uint64_t end_ms,
                                    uint64_t busy_ms, uint32_t batch, uint64_t tokens)
{
    return (struct sonde_infer_item){ NS(start_ms), NS(end_ms), busy_ms * MS, tokens, name, kind, 1,
                                      batch };
}

static struct sonde_infer_request request(uint64_t id, uint64_t arrived_ms, uint64_t end_ms,
                                          struct sonde_infer_item *items, uint32_t count)
{
    return (struct sonde_infer_request){
        .id = id, .pid = 7, .arrived_ns = NS(arrived_ms), .program = "", .model = "m", .route = "",
        .total_s = (double)(end_ms - arrived_ms) * 1e-3, .items = items, .item_count = count,
    };
}

/* A runs from 0 to 40; B arrives at 5, waits until 20, and then decodes twice with A. */
static void test_two(void **state)
{
    (void)state;
    struct sonde_infer_item a[] = {
        item(SONDE_PHASE_PREFILL, "prefill", 0, 10, 10, 1, 64),
        item(SONDE_PHASE_DECODE, "decode", 10, 20, 10, 1, 1),
        item(SONDE_PHASE_DECODE, "decode", 20, 30, 2, 2, 1),
        item(SONDE_PHASE_DECODE, "decode", 30, 40, 5, 2, 1),
    };
    struct sonde_infer_item b[] = {
        item(SONDE_PHASE_QUEUE, "queue", 5, 20, 15, 0, 0),
        item(SONDE_PHASE_PREFILL, "prefill", 20, 30, 8, 2, 9),
        item(SONDE_PHASE_DECODE, "decode", 30, 40, 5, 2, 1),
        item(SONDE_PHASE_NONE, "tokens", 40, 40, 0, 0, 1),
    };
    const struct sonde_infer_request ra = request(1, 0, 40, a, 4), rb = request(2, 5, 40, b, 4);
    const struct sonde_infer_request *all[] = { &ra, &rb };
    struct sonde_shared s;

    assert_int_equal(sonde_shared_find(&rb, all, 2, &s), 0);
    assert_int_equal(s.request_count, 1);
    assert_ptr_equal(s.requests[0].request, &ra);
    assert_int_equal(s.requests[0].batches, 2);
    assert_int_equal(s.requests[0].tokens, 2);
    assert_float_equal(s.requests[0].seconds, 0.020, 1e-9);
    assert_int_equal(s.batches, 2);
    assert_float_equal(s.wait_s, 0.015, 1e-9);
    assert_int_equal(s.wait_count, 2); /* half of A's prefill, then its decode */
    assert_string_equal(s.waits[0].phase, "decode");
    assert_float_equal(s.waits[0].seconds, 0.010, 1e-9);
    assert_string_equal(s.waits[1].phase, "prefill");
    assert_float_equal(s.waits[1].seconds, 0.005, 1e-9);
    assert_int_equal(s.others_unknown, 0);
    sonde_shared_release(&s);

    assert_int_equal(sonde_shared_find(&ra, all, 2, &s), 0);
    assert_int_equal(s.requests[0].batches, 2);
    assert_int_equal(s.requests[0].tokens, 10);
    assert_int_equal(s.wait_count, 0);
    assert_int_equal(s.batches, 4);
    sonde_shared_release(&s);
}

/* What cannot be known is said: no timeline, steps that were joined. Other processes do not
 * count. */
static void test_unknown(void **state)
{
    (void)state;
    struct sonde_infer_item one[] = { item(SONDE_PHASE_DECODE, "decode", 10, 20, 10, 2, 1) };
    struct sonde_infer_item many[] = { item(SONDE_PHASE_DECODE, "decode", 10, 20, 10, 2, 9) };
    many[0].count = 9;
    const struct sonde_infer_request r = request(1, 0, 20, one, 1),
                                     bare = request(2, 0, 30, NULL, 0);
    const struct sonde_infer_request joined = request(3, 0, 20, many, 1);
    struct sonde_infer_request elsewhere = request(4, 0, 20, one, 1);
    elsewhere.pid = 8;
    const struct sonde_infer_request later = request(5, 50, 60, one, 1);
    const struct sonde_infer_request *all[] = { &bare, &joined, &elsewhere, &later, &r };
    struct sonde_shared s;
    assert_int_equal(sonde_shared_find(&r, all, 5, &s), 0);
    assert_int_equal(s.request_count, 0);
    assert_int_equal(s.others_unknown, 1);
    assert_false(s.joined);
    sonde_shared_release(&s);
    assert_int_equal(sonde_shared_find(&joined, all, 5, &s), 0);
    assert_true(s.joined);
    sonde_shared_release(&s);
    assert_int_equal(sonde_shared_find(&bare, all, 5, &s), 0);
    assert_true(s.no_timeline);
    sonde_shared_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_two),
                                        cmocka_unit_test(test_unknown) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
