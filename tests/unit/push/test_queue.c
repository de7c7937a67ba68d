/* The queue and its spool: order, bounds, what is left for the next agent, damaged files. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "push/push.h"
#include "push/queue.h"
#include "sonde/sonde.h"

#define DAY_S 86400.0

static char dir[64];

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/sonde-queue-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static void path_of(char out[512], const char *name) { snprintf(out, 512, "%s/%s", dir, name); }

static int remove_dir(void **state)
{
    (void)state;
    char path[512];
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        path_of(path, e->d_name);
        if (e->d_name[0] != '.') remove(path);
    }
    if (d) closedir(d);
    return rmdir(dir);
}

static size_t files(void)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) n += strstr(e->d_name, ".batch") != NULL;
    if (d) closedir(d);
    return n;
}

static struct push_queue *open_queue(const char *where, uint64_t bytes_max, double age_s)
{
    struct push_queue *q = NULL;
    struct sonde_err note = { "" };
    assert_int_equal(push_queue_open(where, bytes_max, age_s, &q, &note), 0);
    assert_string_equal(note.text, "");
    return q;
}

static void put(struct push_queue *q, unsigned number, size_t len)
{
    char target[32], *body = sonde__alloc(len + 1);
    snprintf(target, sizeof(target), "/v1/%u", number);
    memset(body, (int)('a' + number % 26), len);
    struct push_batch *b = push_batch_create(SONDE_PUSH_TRACES, target, number, body, len);
    assert_non_null(b);
    push_queue_put(q, b);
}

/* The first is this one, whole. */
static void expect(struct push_queue *q, unsigned number, size_t len)
{
    char target[32];
    const struct push_batch *b = push_queue_first(q);
    snprintf(target, sizeof(target), "/v1/%u", number);
    assert_non_null(b);
    assert_string_equal(b->target, target);
    assert_int_equal(b->items, number);
    assert_int_equal(b->signal, SONDE_PUSH_TRACES);
    assert_int_equal(b->body_len, len);
    for (size_t i = 0; i < len; i++) assert_int_equal(b->body[i], 'a' + number % 26);
}

static struct push_queue_stats stats_of(struct push_queue *q)
{
    struct push_queue_stats s;
    push_queue_stats(q, &s);
    return s;
}

static void test_order(void **state)
{
    (void)state;
    const char *const where[] = { NULL, dir };
    for (size_t w = 0; w < 2; w++) {
        struct push_queue *q = open_queue(where[w], 1 << 20, DAY_S);
        assert_null(push_queue_first(q));
        for (unsigned i = 1; i <= 20; i++) put(q, i, 100 + i);
        expect(q, 1, 101);
        push_queue_keep(q); /* not sent: it stays the first */
        for (unsigned i = 21; i <= 25; i++) put(q, i, 100 + i);
        assert_int_equal(files(), w ? 25 : 0);
        for (unsigned i = 1; i <= 25; i++) {
            expect(q, i, 100 + i);
            push_queue_done(q);
        }
        assert_true(push_queue_empty(q));
        assert_int_equal(stats_of(q).batches, 0);
        assert_int_equal(stats_of(q).bytes, 0);
        assert_int_equal(push_queue_close(q), 0);
    }
    assert_int_equal(files(), 0);
}

/* One that is sent at once never sees the disk. */
static void test_alone_in_memory(void **state)
{
    (void)state;
    struct push_queue *q = open_queue(dir, 1 << 20, DAY_S);
    for (unsigned i = 1; i < 10; i++) {
        put(q, i, 10);
        assert_int_equal(files(), 0);
        expect(q, i, 10);
        push_queue_done(q);
    }
    assert_int_equal(stats_of(q).spooled, 0);
    push_queue_close(q);
}

static void test_next_agent(void **state)
{
    (void)state;
    struct push_queue *q = open_queue(dir, 1 << 20, DAY_S);
    for (unsigned i = 1; i <= 5; i++) put(q, i, 50);
    expect(q, 1, 50);
    assert_int_equal(push_queue_close(q), 0); /* the one in memory goes to disk as well */
    assert_int_equal(files(), 5);
    q = open_queue(dir, 1 << 20, DAY_S);
    assert_int_equal(stats_of(q).found, 5);
    put(q, 6, 50);
    for (unsigned i = 1; i <= 6; i++) {
        expect(q, i, 50);
        push_queue_done(q);
    }
    push_queue_close(q);
}

static void test_memory_is_lost(void **state)
{
    (void)state;
    struct push_queue *q = open_queue(NULL, 1 << 20, DAY_S);
    for (unsigned i = 1; i <= 3; i++) put(q, i, 50);
    assert_int_equal(push_queue_close(q), 3);
}

static void test_bounded(void **state)
{
    (void)state;
    const char *const where[] = { NULL, dir };
    for (size_t w = 0; w < 2; w++) {
        struct push_queue *q = open_queue(where[w], 100000, DAY_S);
        put(q, 1, 9000);
        expect(q, 1, 9000); /* it is being sent: it is not taken away */
        for (unsigned i = 2; i <= 100; i++) {
            put(q, i, 9000);
            assert_in_range(stats_of(q).bytes, 1, 100000);
        }
        push_queue_done(q);
        const struct push_queue_stats s = stats_of(q);
        assert_int_equal(s.dropped_size + s.batches, 99);
        assert_in_range(s.batches, 5, 11);
        expect(q, (unsigned)(101 - s.batches), 9000);
        push_queue_done(q);
        push_queue_close(q);
        remove_dir(NULL);
        make_dir(NULL);
    }
}

static void test_too_old(void **state)
{
    (void)state;
    struct push_queue *q = open_queue(dir, 1 << 20, DAY_S);
    for (unsigned i = 1; i <= 4; i++) put(q, i, 50);
    push_queue_close(q);
    usleep(20000);
    q = open_queue(dir, 1 << 20, 0.001);
    assert_null(push_queue_first(q));
    assert_int_equal(stats_of(q).dropped_age, 4);
    assert_int_equal(files(), 0);
    push_queue_close(q);
}

/* Every single byte of a file, changed; and every length it may be cut to. */
static void test_damaged(void **state)
{
    (void)state;
    char path[512], whole[512];
    struct push_queue *q = open_queue(dir, 1 << 20, DAY_S);
    put(q, 1, 60);
    push_queue_close(q);
    path_of(path, "0000000000000001.batch");
    int fd = open(path, O_RDONLY);
    const ssize_t len = read(fd, whole, sizeof(whole));
    close(fd);
    assert_in_range(len, 100, 200);
    for (ssize_t i = 0; i < 2 * len; i++) {
        char bytes[512];
        memcpy(bytes, whole, (size_t)len);
        if (i < len) bytes[i] = (char)(bytes[i] ^ 0x41);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        const size_t n = (size_t)(i < len ? len : i - len);
        assert_int_equal(write(fd, bytes, n), n);
        close(fd);
        q = open_queue(dir, 1 << 20, DAY_S);
        assert_null(push_queue_first(q));
        /* A time that is wrong may look like one long ago. */
        const struct push_queue_stats stats = stats_of(q);
        assert_int_equal(stats.dropped_damaged + stats.dropped_age, 1);
        assert_int_equal(files(), 0);
        push_queue_close(q);
    }
}

static void test_not_ours(void **state)
{
    (void)state;
    char path[512];
    static const char *const names[] = { "1.batch", "000000000000000z.batch", "README",
                                         "0000000000000000.batch", "0000000000000001.BATCH" };
    for (size_t i = 0; i < 5; i++) {
        path_of(path, names[i]);
        close(open(path, O_WRONLY | O_CREAT, 0600));
    }
    struct push_queue *q = open_queue(dir, 1 << 20, DAY_S);
    assert_true(push_queue_empty(q));
    push_queue_close(q);
    for (size_t i = 0; i < 5; i++) {
        path_of(path, names[i]);
        assert_int_equal(access(path, F_OK), 0);
    }
}

static void test_two_agents(void **state)
{
    (void)state;
    struct push_queue *first = open_queue(dir, 1 << 20, DAY_S), *second = NULL;
    struct sonde_err note = { "" };
    assert_int_equal(push_queue_open(dir, 1 << 20, DAY_S, &second, &note), 0);
    assert_non_null(strstr(note.text, "another agent"));
    put(second, 1, 50);
    put(second, 2, 50);
    assert_int_equal(files(), 0);
    assert_false(stats_of(second).on_disk);
    assert_int_equal(push_queue_close(second), 2);
    push_queue_close(first);
}

static void test_no_folder(void **state)
{
    (void)state;
    struct push_queue *q = NULL;
    struct sonde_err note = { "" };
    assert_int_equal(push_queue_open("/proc/nowhere/x", 1 << 20, DAY_S, &q, &note), 0);
    assert_non_null(strstr(note.text, "/proc/nowhere/x"));
    put(q, 1, 10);
    expect(q, 1, 10);
    push_queue_done(q);
    push_queue_close(q);
}

static void test_no_memory(void **state)
{
    (void)state;
    struct push_queue *q = open_queue(dir, 1 << 20, DAY_S);
    for (unsigned i = 1; i <= 3; i++) put(q, i, 50);
    push_queue_close(q);
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 100; nth++) {
        const int64_t live = sonde__alloc_live();
        sonde__alloc_fail_nth(nth);
        rc = push_queue_open(dir, 1 << 20, DAY_S, &q, NULL);
        if (!rc && !push_queue_first(q)) rc = SONDE_ENOMEM, push_queue_close(q);
        else if (!rc) push_queue_close(q);
        sonde__alloc_fail_nth(0);
        assert_int_equal(sonde__alloc_live(), live);
        assert_int_equal(files(), 3); /* nothing of it is lost for that */
    }
    assert_int_equal(rc, 0);
}

/* What cannot be read for want of a descriptor is not damaged: it is sent later. */
static void test_no_descriptors(void **state)
{
    (void)state;
    struct push_queue *q = open_queue(dir, 1 << 20, DAY_S);
    put(q, 1, 100);
    put(q, 2, 100);
    expect(q, 1, 100);
    push_queue_done(q);
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){ .rlim_cur = 0, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_null(push_queue_first(q));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(stats_of(q).dropped_damaged, 0);
    expect(q, 2, 100);
    push_queue_done(q);
    assert_int_equal(push_queue_close(q), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        TEST(test_order),   TEST(test_alone_in_memory), TEST(test_next_agent),
        TEST(test_memory_is_lost), TEST(test_bounded),  TEST(test_too_old),
        TEST(test_damaged), TEST(test_not_ours),        TEST(test_two_agents),
        TEST(test_no_folder), TEST(test_no_memory),  TEST(test_no_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
