/* Which spans were sent: noted, found by the next agent, bounded, whatever is in the files. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "push/sent.h"
#include "sonde/sonde.h"

static char dir[64], path[128], old_path[128];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/sonde-sent-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    snprintf(path, sizeof(path), "%s/spans", dir);
    snprintf(old_path, sizeof(old_path), "%s/spans.old", dir);
    return 0;
}

static int remove_dir(void **state)
{
    (void)state;
    unlink(path);
    unlink(old_path);
    return rmdir(dir);
}

static struct push_sent *open_sent(void)
{
    struct push_sent *s = NULL;
    assert_int_equal(push_sent_open(dir, &s), 0);
    return s;
}

static void add(struct push_sent *s, uint64_t from, uint64_t to)
{
    for (uint64_t id = from; id < to; id++) {
        const uint64_t spread = id * 0x9e3779b97f4a7c15ull;
        push_sent_add(s, &spread, 1);
    }
}

static int has(const struct push_sent *s, uint64_t id)
{
    return push_sent_has(s, id * 0x9e3779b97f4a7c15ull);
}

static void test_next_agent(void **state)
{
    (void)state;
    struct push_sent *s = open_sent();
    add(s, 1, 1000);
    assert_false(has(s, 5)); /* its own are not asked for */
    push_sent_close(s);
    s = open_sent();
    for (uint64_t id = 1; id < 1000; id++) assert_true(has(s, id));
    assert_false(has(s, 1000));
    add(s, 1000, 1500);
    push_sent_close(s);
    s = open_sent();
    assert_true(has(s, 1) && has(s, 999) && has(s, 1000) && has(s, 1499));
    push_sent_close(s);
    assert_false(push_sent_has(NULL, 1));
}

static void test_bounded(void **state)
{
    (void)state;
    static uint64_t ids[PUSH_SENT_MAX];
    struct stat st;
    struct push_sent *s = open_sent();
    for (uint64_t round = 0; round < 4; round++) {
        for (size_t i = 0; i < PUSH_SENT_MAX; i++) ids[i] = round * PUSH_SENT_MAX + i + 1;
        push_sent_add(s, ids, PUSH_SENT_MAX - round);
    }
    push_sent_close(s);
    assert_int_equal(stat(path, &st), 0);
    assert_in_range(st.st_size, 1, PUSH_SENT_MAX * sizeof(*ids));
    assert_int_equal(stat(old_path, &st), 0);
    assert_int_equal(st.st_size, PUSH_SENT_MAX * sizeof(*ids));
    s = open_sent();
    assert_true(push_sent_has(s, 3 * PUSH_SENT_MAX + 1)); /* the newest are there */
    assert_false(push_sent_has(s, 1));
    push_sent_close(s);
}

/* Half an id at the end, as after a crash: what follows stands where it should. */
static void test_cut(void **state)
{
    (void)state;
    struct push_sent *s = open_sent();
    add(s, 1, 11);
    push_sent_close(s);
    assert_int_equal(truncate(path, 9 * 8 + 3), 0);
    s = open_sent();
    assert_true(has(s, 9));
    assert_false(has(s, 10));
    add(s, 20, 30);
    push_sent_close(s);
    s = open_sent();
    for (uint64_t id = 20; id < 30; id++) assert_true(has(s, id));
    push_sent_close(s);
}

static void test_failures(void **state)
{
    (void)state;
    struct push_sent *s = NULL;
    assert_int_equal(push_sent_open("/proc/nowhere", &s), SONDE_EIO);
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 10; nth++) {
        const int64_t live = sonde__alloc_live();
        sonde__alloc_fail_nth(nth);
        rc = push_sent_open(dir, &s);
        sonde__alloc_fail_nth(0);
        if (!rc) push_sent_close(s);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(rc, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = { TEST(test_next_agent), TEST(test_bounded), TEST(test_cut),
                                        TEST(test_failures) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
