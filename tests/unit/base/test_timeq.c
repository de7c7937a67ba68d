#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/timeq.h"
#include "sonde/sonde.h"

enum { MAX = 1000, ROUNDS = 2000 };

struct item { uint64_t time_ns, number; char rest[24]; };

/* A queue that does the same in the plain way: looks for the least each time. */
static struct item plain[MAX];
static size_t plain_count;

static struct item plain_take(void)
{
    size_t least = 0;
    for (size_t i = 1; i < plain_count; i++) {
        const struct item *a = &plain[i], *b = &plain[least];
        if (a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->number < b->number) least = i;
    }
    const struct item found = plain[least];
    plain[least] = plain[--plain_count];
    return found;
}

static void check_take(struct sonde_timeq *q)
{
    struct item it;
    const uint64_t first = sonde_timeq_first(q);
    sonde_timeq_take(q, &it);
    const struct item expected = plain_take();
    assert_int_equal(first, expected.time_ns);
    assert_memory_equal(&it, &expected, sizeof(it));
    assert_int_equal(q->count, plain_count);
}

static void like_a_plain_one(void **state)
{
    (void)state;
    struct sonde_timeq q;
    sonde_timeq_init(&q, sizeof(struct item), MAX);
    srand(1);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        /* Bursts in and out, so that it fills up and runs empty; few times, so that many are the
         * same. */
        for (int n = rand() % 200; n > 0; n--) {
            struct item it = { (uint64_t)(rand() % 50), i * 1000 + 200 - (uint64_t)n, "" };
            memset(it.rest, n, sizeof(it.rest));
            const int rc = sonde_timeq_put(&q, it.time_ns, &it);
            assert_int_equal(rc, plain_count == MAX ? SONDE_EFULL : 0);
            if (!rc) plain[plain_count++] = it;
        }
        for (int n = rand() % 200; n > 0 && q.count; n--) check_take(&q);
    }
    while (q.count) check_take(&q);
    assert_int_equal(plain_count, 0);
    sonde_timeq_release(&q);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* Without memory nothing changes, and what is taken makes room. */
static void without_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth <= 3; nth++) {
        struct sonde_timeq q;
        struct item it = { 0, 0, "" };
        sonde_timeq_init(&q, sizeof(it), MAX);
        while (q.count < 256) {
            it.time_ns = q.count;
            assert_int_equal(sonde_timeq_put(&q, it.time_ns, &it), 0);
        }
        sonde__alloc_fail_nth(nth);
        assert_int_equal(sonde_timeq_put(&q, 500, &it), SONDE_ENOMEM);
        sonde__alloc_fail_nth(0);
        assert_int_equal(q.count, 256);
        sonde_timeq_take(&q, &it);
        assert_int_equal(it.time_ns, 0);
        assert_int_equal(sonde_timeq_put(&q, 500, &it), 0);
        assert_int_equal(sonde_timeq_put(&q, 501, &it), 0);
        assert_int_equal(sonde_timeq_first(&q), 1);
        sonde_timeq_release(&q);
        assert_int_equal(sonde__alloc_live(), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_a_plain_one),
        cmocka_unit_test(without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
