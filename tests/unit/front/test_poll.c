/* When the front looks for events instead of sleeping, and what that may cost at most. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "front/poll.h"

#define SECOND 1000000000u

/* Waits that all end after so long; sleeping adds the time to wake. How much time of ten seconds
 * was looked in all, and how often in vain. */
static uint64_t ten_seconds(struct front_poll *p, uint64_t wait_ns, uint64_t wake_ns,
                            uint32_t *in_vain)
{
    uint64_t now = 1, looked_all = 0;
    *in_vain = 0;
    while (now < 10ull * SECOND) {
        const uint32_t most = front_poll_time(p, FRONT_WAIT_ANSWER, now);
        uint64_t looked = most, waited = wait_ns + wake_ns;
        if (most >= wait_ns) looked = waited = wait_ns;
        *in_vain += most && looked != waited;
        front_poll_done(p, FRONT_WAIT_ANSWER, looked, waited, 1);
        now += waited + 10000;
        looked_all += looked;
    }
    return looked_all;
}

static void test_quick_answers(void **state)
{
    struct front_poll p;
    uint32_t in_vain;
    (void)state;
    front_poll_init(&p, FRONT_POLL_PERCENT);
    /* 15 us after they are waited for: nearly all of the waits are looked through. */
    const uint64_t looked = ten_seconds(&p, 15000, 45000, &in_vain);
    assert_true(looked > 5ull * SECOND);
    assert_int_equal(in_vain, 0);
    assert_true(p.credit_ns > 0);
}

static void test_slow_answers(void **state)
{
    struct front_poll p;
    uint32_t in_vain;
    (void)state;
    front_poll_init(&p, FRONT_POLL_PERCENT);
    /* A token in 10 ms: it never begins to. */
    assert_int_equal(ten_seconds(&p, 10000000, 45000, &in_vain), 0);
}

/* All that may be looked in so many seconds. */
static uint64_t costs_max(uint64_t seconds)
{
    return (seconds * SECOND + FRONT_POLL_OVER_NS) / 100 * FRONT_POLL_PERCENT;
}

/* Always just too late: that costs its share and no more. */
static void test_in_vain(void **state)
{
    struct front_poll p;
    uint32_t in_vain;
    (void)state;
    front_poll_init(&p, FRONT_POLL_PERCENT);
    const uint64_t looked = ten_seconds(&p, FRONT_POLL_NS + 1000, 45000, &in_vain);
    assert_true(in_vain > 10);
    assert_true(looked <= costs_max(10) + FRONT_POLL_NS);
    /* And soon it hardly tries. */
    assert_true(looked < 10ull * SECOND / 200);
}

/* What is found, but late, costs too. */
static void test_found_late(void **state)
{
    struct front_poll p;
    uint32_t in_vain;
    (void)state;
    front_poll_init(&p, FRONT_POLL_PERCENT);
    const uint64_t looked = ten_seconds(&p, FRONT_POLL_NS - 5000, 45000, &in_vain);
    assert_true(looked * (FRONT_POLL_NS - 5000 - FRONT_POLL_FREE_NS) / (FRONT_POLL_NS - 5000) <=
                costs_max(10) + FRONT_POLL_NS);
    assert_true(looked > 2ull * SECOND); /* what was saved up is for such a burst */
}

static void test_kinds_and_limits(void **state)
{
    struct front_poll p, off;
    front_poll_init(&p, FRONT_POLL_PERCENT);
    uint64_t now = SECOND;
    (void)state;
    front_poll_init(&off, 0);
    for (int i = 0; i < 20; i++, now += SECOND) {
        assert_int_equal(front_poll_time(&off, FRONT_WAIT_ANSWER, now), 0);
        front_poll_done(&off, FRONT_WAIT_ANSWER, 0, 50000, 1);
        const uint32_t most = front_poll_time(&p, FRONT_WAIT_ANSWER, now);
        assert_true(most == 0 || i >= 4);
        front_poll_done(&p, FRONT_WAIT_ANSWER, 0, 50000, 1);
    }
    assert_int_equal(front_poll_time(&p, FRONT_WAIT_ANSWER, now), FRONT_POLL_NS);
    /* Of which nothing is known. */
    assert_int_equal(front_poll_time(&p, FRONT_WAIT_REQUEST, now), 0);
    assert_true(p.credit_ns <= (int64_t)costs_max(0));
    /* A few long ones, or none at all, and it sleeps again. */
    for (int i = 0; i < 5; i++) front_poll_done(&p, FRONT_WAIT_ANSWER, 0, 5000000, i > 0);
    assert_int_equal(front_poll_time(&p, FRONT_WAIT_ANSWER, now), 0);
    for (int i = 0; i < 20; i++) front_poll_done(&p, FRONT_WAIT_ANSWER, 0, 50000, 1);
    assert_int_equal(front_poll_time(&p, FRONT_WAIT_ANSWER, now), FRONT_POLL_NS);
    front_poll_done(&p, FRONT_WAIT_ANSWER, FRONT_POLL_NS, 5000000, 1);
    assert_int_equal(front_poll_time(&p, FRONT_WAIT_ANSWER, now), 0);
    /* Whoever is woken first, as long as that takes here, is waited for. */
    front_poll_init(&p, FRONT_POLL_PERCENT);
    for (int i = 0; i < 4; i++) {
        front_poll_done(&p, FRONT_WAIT_REQUEST, 0, 100000 + 20000 + 100000, 1);
    }
    assert_int_equal(front_poll_time(&p, FRONT_WAIT_REQUEST, now), FRONT_POLL_NS);
    /* A clock that does not move, or goes back, earns nothing. */
    const int64_t credit = p.credit_ns;
    assert_int_equal(front_poll_time(&p, FRONT_WAIT_ANSWER, now - SECOND), 0);
    assert_int_equal(p.credit_ns, credit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quick_answers), cmocka_unit_test(test_slow_answers),
        cmocka_unit_test(test_in_vain),       cmocka_unit_test(test_found_late),
        cmocka_unit_test(test_kinds_and_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
