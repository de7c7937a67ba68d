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
#include "collect/uprobe_returns.h"
#include "sonde/sonde.h"

static void test_find(void **state)
{
    (void)state;
    struct sonde_uprobe_return out[SONDE_UPROBE_RETURNS_MAX];
    struct sonde_uprobe_returns *r;
    assert_int_equal(sonde_uprobe_returns_create(&r), 0);
    assert_int_equal(sonde_uprobe_returns_find(r, 1, 0, UINT64_MAX, 100, out), 0);
    sonde_uprobe_returns_put(r, 1, 1000, 0xa, 10);
    sonde_uprobe_returns_put(r, 1, 900, 0xb, 11);
    sonde_uprobe_returns_put(r, 2, 1000, 0xc, 12);
    sonde_uprobe_returns_put(r, 1, 1000, 0xd, 13); /* the same place again, later */
    sonde_uprobe_returns_put(r, 0, 1000, 0xe, 13); /* of no thread */

    /* As things were at a time. */
    assert_int_equal(sonde_uprobe_returns_find(r, 1, 0, 5000, 12, out), 2);
    assert_int_equal(out[0].address, 0xb);
    assert_int_equal(out[1].address, 0xa);
    assert_int_equal(sonde_uprobe_returns_find(r, 1, 0, 5000, 13, out), 2);
    assert_int_equal(out[0].address, 0xd);
    assert_int_equal(sonde_uprobe_returns_find(r, 1, 0, 5000, 9, out), 0);
    /* Only what lies in the stack that was copied. */
    assert_int_equal(sonde_uprobe_returns_find(r, 1, 901, 1000, 20, out), 0);
    assert_int_equal(sonde_uprobe_returns_find(r, 1, 900, 901, 20, out), 1);
    assert_int_equal(sonde_uprobe_returns_find(r, 2, 0, 5000, 20, out), 1);
    assert_int_equal(sonde_uprobe_returns_find(r, 3, 0, 5000, 20, out), 0);
    assert_int_equal(sonde_uprobe_returns_find(r, 0, 0, 5000, 20, out), 0);
    sonde_uprobe_returns_destroy(r);
    sonde_uprobe_returns_destroy(NULL);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_bounds(void **state)
{
    (void)state;
    struct sonde_uprobe_return out[SONDE_UPROBE_RETURNS_MAX];
    struct sonde_uprobe_returns *r;
    assert_int_equal(sonde_uprobe_returns_create(&r), 0);
    for (uint64_t i = 1; i <= 10000; i++) sonde_uprobe_returns_put(r, 1, i * 8, i, i);
    assert_int_equal(sonde_uprobe_returns_find(r, 1, 0, UINT64_MAX, UINT64_MAX, out),
                     SONDE_UPROBE_RETURNS_MAX);
    assert_int_equal(out[0].address, 10000);
    for (uint32_t tid = 2; tid < 2000; tid++) sonde_uprobe_returns_put(r, tid, 8, tid, 10000 + tid);
    assert_int_equal(sonde_uprobe_returns_find(r, 1999, 0, 100, UINT64_MAX, out), 1);
    assert_int_equal(sonde_uprobe_returns_find(r, 1, 0, 100, UINT64_MAX, out), 0); /* forgotten */
    sonde_uprobe_returns_destroy(r);

    sonde__alloc_fail_nth(1);
    assert_int_equal(sonde_uprobe_returns_create(&r), SONDE_ENOMEM);
    assert_int_equal(sonde_uprobe_returns_create(&r), 0);
    sonde__alloc_fail_nth(1);
    sonde_uprobe_returns_put(r, 1, 8, 8, 8);
    sonde__alloc_fail_nth(0);
    assert_int_equal(sonde_uprobe_returns_find(r, 1, 0, 100, 100, out), 0);
    sonde_uprobe_returns_destroy(r);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void *answer(void *arg)
{
    struct sonde_uprobe_returns *r = arg;
    struct pollfd p = { .fd = sonde_uprobe_returns_fd(r), .events = POLLIN };
    uint64_t asked;
    if (poll(&p, 1, 60000) != 1 || read(p.fd, &asked, sizeof(asked)) != sizeof(asked)) return arg;
    sonde_uprobe_returns_put(r, 1, 8, 0xf, 50);
    sonde_uprobe_returns_seen(r, 100);
    return NULL;
}

static void test_wait(void **state)
{
    (void)state;
    struct sonde_uprobe_returns *r;
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
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
