/* Return addresses from those who read probes to those who unwind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "base/alloc.h"
#include "collect/uprobe/returns.h"
#include "sonde/sonde.h"

#define HIDDEN 0xffff0000u /* what stands there instead */

static struct sonde_uprobe_returns *r;

static void put(uint32_t tid, uint64_t place, uint64_t address, uint64_t time_ns)
{
    const struct sonde_uprobe_return call = { place, address, address + 0x1000, time_ns };
    sonde_uprobe_returns_put(r, tid, &call);
}

/* The address that was at place; 0 = not known. */
static uint64_t find_of(uint32_t tid, uint64_t place, uint64_t function, uint64_t time_ns)
{
    struct sonde_uprobe_return out;
    return sonde_uprobe_returns_find(r, tid, place, HIDDEN, function, time_ns, &out) ? 0
                                                                                     : out.address;
}
static uint64_t find(uint32_t tid, uint64_t place, uint64_t time_ns)
{
    return find_of(tid, place, 0, time_ns);
}

static void test_find(void **state)
{
    (void)state;
    assert_int_equal(sonde_uprobe_returns_create(&r), 0);
    assert_int_equal(find(1, 1000, 100), 0);
    put(1, 1000, 0xa, 10);
    put(1, 904, 0xb, 11);
    put(2, 1000, 0xc, 12);
    put(1, 1000, 0xd, 13); /* the same place again, later */
    put(0, 1000, 0xe, 13); /* of no thread */

    /* As things were at a time. */
    assert_int_equal(find(1, 904, 12), 0xb);
    assert_int_equal(find(1, 1000, 12), 0xa);
    assert_int_equal(find(1, 1000, 13), 0xd);
    assert_int_equal(find(1, 1000, 9), 0);
    assert_int_equal(find(1, 912, 20), 0);
    assert_int_equal(find(2, 1000, 20), 0xc);
    assert_int_equal(find(3, 1000, 20), 0);
    assert_int_equal(find(0, 1000, 20), 0);

    /* A function that was jumped to by a probed one: what that one returns to. */
    put(1, 1000, HIDDEN, 14);
    assert_int_equal(find(1, 1000, 15), 0xd);

    /* Nothing is known of before: the first call of that function since then, but of no other. */
    assert_int_equal(find_of(1, 1000, 0x1000 + 0xd, 5), 0xd);
    assert_int_equal(find_of(1, 1000, 0x1000 + 0xa - 4, 5), 0xa); /* behind endbr64 */
    assert_int_equal(find_of(1, 1000, 0x5000, 5), 0);
    sonde_uprobe_returns_destroy(r);
    sonde_uprobe_returns_destroy(NULL);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* A call that goes on while the thread makes any number of others. */
static void test_long_calls(void **state)
{
    (void)state;
    assert_int_equal(sonde_uprobe_returns_create(&r), 0);
    put(1, 1000, 0xa, 1);
    for (uint64_t i = 2; i < 100000; i++) put(1, 512 + i % 8 * 8, i, i);
    assert_int_equal(find(1, 1000, 1000000), 0xa);
    assert_int_equal(find(1, 512, 100000), 99992);
    /* A while ago. */
    assert_int_equal(find(1, 512, 98000), 98000);
    assert_int_equal(find(1, 512, 98007), 98000);
    /* Too long ago. */
    assert_int_equal(find(1, 512, 50000), 0);
    sonde_uprobe_returns_destroy(r);
}

static void test_bounds(void **state)
{
    (void)state;
    assert_int_equal(sonde_uprobe_returns_create(&r), 0);
    for (uint64_t i = 1; i <= 10000; i++) put(1, i * 8, i, i);
    assert_int_equal(find(1, 80000, UINT64_MAX), 10000);
    for (uint32_t tid = 2; tid < 2000; tid++) put(tid, 8, tid, 10000 + tid);
    assert_int_equal(find(1999, 8, UINT64_MAX), 1999);
    assert_int_equal(find(1, 80000, UINT64_MAX), 0); /* forgotten */
    sonde_uprobe_returns_destroy(r);

    sonde__alloc_fail_nth(1);
    assert_int_equal(sonde_uprobe_returns_create(&r), SONDE_ENOMEM);
    assert_int_equal(sonde_uprobe_returns_create(&r), 0);
    sonde__alloc_fail_nth(1);
    put(1, 8, 8, 8);
    sonde__alloc_fail_nth(0);
    assert_int_equal(find(1, 8, 100), 0);
    sonde_uprobe_returns_destroy(r);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void *answer(void *arg)
{
    struct pollfd p = { .fd = sonde_uprobe_returns_fd(r), .events = POLLIN };
    uint64_t asked;
    if (poll(&p, 1, 60000) != 1 || read(p.fd, &asked, sizeof(asked)) != sizeof(asked)) return arg;
    put(1, 8, 0xf, 50);
    sonde_uprobe_returns_seen(r, 100);
    return NULL;
}

static void test_wait(void **state)
{
    (void)state;
    pthread_t thread;
    void *failed;
    assert_int_equal(sonde_uprobe_returns_create(&r), 0);
    sonde_uprobe_returns_wait(r, 1000); /* nobody reads probes */
    sonde_uprobe_returns_seen(r, 10);
    sonde_uprobe_returns_wait(r, 10);
    sonde_uprobe_returns_wait(r, 100);  /* nobody answers: it ends all the same */
    assert_int_equal(pthread_create(&thread, NULL, answer, r), 0);
    sonde_uprobe_returns_wait(r, 100);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    sonde_uprobe_returns_wait(r, 100);
    sonde_uprobe_returns_seen(r, UINT64_MAX);
    sonde_uprobe_returns_wait(r, UINT64_MAX);
    sonde_uprobe_returns_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_long_calls),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
