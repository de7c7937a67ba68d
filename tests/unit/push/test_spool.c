/* Batches as files: what is written comes back, and nothing else is believed. Then the queue over a
 * disk that takes nothing. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "push/push.h"
#include "push/queue.h"
#include "sonde/sonde.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static char dir[64];
static int dir_fd;

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/sonde-spool-XXXXXX");
    if (!mkdtemp(dir)) return -1;
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir_fd < 0 ? -1 : 0;
}

static size_t entries(const char *suffix, int removing)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        if (e->d_name[0] == '.' || !strstr(e->d_name, suffix)) continue;
        n++;
        if (removing && unlinkat(dir_fd, e->d_name, 0)) unlinkat(dir_fd, e->d_name, AT_REMOVEDIR);
    }
    if (d) closedir(d);
    return n;
}

static int remove_dir(void **state)
{
    (void)state;
    entries("", 1);
    close(dir_fd);
    return rmdir(dir);
}

/* ---- Round trips ----------------------------------------------------------------------------- */

static void round_trips(void **state)
{
    (void)state;
    static char longest[PUSH_TARGET_MAX], large[1 << 20];
    memset(longest, 't', sizeof(longest) - 1);
    for (size_t i = 0; i < sizeof(large); i++) large[i] = (char)(i * 31);
    const struct push_batch cases[] = {
        { .seq = 1, .target = "", .body = "", .body_len = 0 },
        { .seq = 2, .target = "/v1/metrics", .body = "abc", .body_len = 3, .signal = 1,
          .items = 9 },
        { .seq = 0xabcdef, .target = "/x?y=z", .body = "a\0b\0", .body_len = 4, .signal = 4,
          .made_ms = 1234567890123ull },
        { .seq = UINT64_MAX - 1, .target = longest, .body = "x", .body_len = 1,
          .made_ms = UINT64_MAX, .signal = UINT32_MAX, .items = UINT32_MAX },
        { .seq = 7, .target = "/large", .body = large, .body_len = sizeof(large) },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const struct push_batch *w = &cases[i];
        struct push_batch *b = NULL;
        uint64_t size = 0, looked = 0, made_ms = 0;
        assert_int_equal(push_spool_write(dir_fd, w, &size), 0);
        assert_int_equal(size, 40 + strlen(w->target) + w->body_len);
        assert_int_equal(push_spool_look(dir_fd, w->seq, &made_ms, &looked), 0);
        assert_int_equal(looked, size);
        assert_true(made_ms == w->made_ms);
        assert_int_equal(push_spool_read(dir_fd, w->seq, &b), 0);
        assert_true(b->seq == w->seq && b->made_ms == w->made_ms && b->signal == w->signal &&
                    b->items == w->items);
        assert_string_equal(b->target, w->target);
        assert_int_equal(b->body_len, w->body_len);
        if (w->body_len) assert_memory_equal(b->body, w->body, w->body_len);
        push_batch_destroy(b);
        assert_int_equal(entries(".half", 0), 0);
    }
    push_spool_remove(dir_fd, 2);
    push_spool_remove(dir_fd, 2); /* twice is once */
    struct push_batch *b = NULL;
    uint64_t x;
    assert_int_equal(push_spool_read(dir_fd, 2, &b), SONDE_ENOENT);
    assert_int_equal(push_spool_look(dir_fd, 2, &x, &x), SONDE_ENOENT);
    assert_null(b);
    assert_int_equal(push_spool_write(-1, &cases[0], &x), SONDE_EIO);
}

/* A batch may be written again: the file is the new one. */
static void written_twice(void **state)
{
    (void)state;
    struct push_batch *b = NULL;
    uint64_t size;
    struct push_batch w = { .seq = 5, .target = "/a", .body = "first and long", .body_len = 14 };
    assert_int_equal(push_spool_write(dir_fd, &w, &size), 0);
    w.body = "2nd";
    w.body_len = 3;
    assert_int_equal(push_spool_write(dir_fd, &w, &size), 0);
    assert_int_equal(push_spool_read(dir_fd, 5, &b), 0);
    assert_int_equal(b->body_len, 3);
    assert_memory_equal(b->body, "2nd", 3);
    push_batch_destroy(b);
    assert_int_equal(entries("", 0), 1);
}

/* ---- Hostile files --------------------------------------------------------------------------- */

struct head { /* as in spool.c */
    char magic[8];
    uint32_t crc, signal;
    uint64_t made_ms;
    uint32_t items, target_len;
    uint64_t body_len;
};

static void file_put(const struct head *h, const char *rest, size_t len, off_t size)
{
    const int fd = openat(dir_fd, "0000000000000001.batch", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, h, sizeof(*h)), sizeof(*h));
    assert_int_equal(write(fd, rest, len), len);
    if (size >= 0) assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
}

static uint32_t sum_of(const struct head *h, const char *rest, size_t len)
{
    const uLong crc = crc32(0, (const Bytef *)h + 12, sizeof(*h) - 12);
    return (uint32_t)crc32(crc, (const Bytef *)rest, (uInt)len);
}

/* Sums are right in all of these, or do not matter: it is the lengths that are not. */
static void lengths_are_not_believed(void **state)
{
    (void)state;
    static const struct {
        const char *what, *rest;
        size_t rest_len;
        uint32_t target_len;
        uint64_t body_len;
        off_t size;    /* -1 = as it is */
        int rc;
    } cases[] = {
        { "right", "/tbody", 6, 2, 4, -1, 0 },
        { "nothing in it", "", 0, 0, 0, -1, 0 },
        { "no body", "/tbody", 6, 6, 0, -1, 0 },
        { "a byte too many", "/tbody+", 7, 2, 4, -1, SONDE_EFORMAT },
        { "a byte too few", "/tbod", 5, 2, 4, -1, SONDE_EFORMAT },
        { "a NUL in the target", "/\0body", 6, 2, 4, -1, SONDE_EFORMAT },
        { "lengths whose sum wraps", "/tbody", 6, 7, UINT64_MAX, -1, SONDE_EFORMAT },
        { "a body of all memory", "", 0, 0, UINT64_MAX - 40, -1, SONDE_EFORMAT },
        { "a target that is too long", "", 0, PUSH_TARGET_MAX, 0, 40 + PUSH_TARGET_MAX,
          SONDE_EFORMAT },
        { "a target of 4 GiB", "", 0, UINT32_MAX, 0, -1, SONDE_EFORMAT },
        { "a body that is too long", "", 0, 0, PUSH_BODY_MAX + 1, 40 + (off_t)PUSH_BODY_MAX + 1,
          SONDE_EFORMAT },
        { "a hole of the largest size", "", 0, 0, PUSH_BODY_MAX, 40 + (off_t)PUSH_BODY_MAX,
          SONDE_EFORMAT },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct head h = { .magic = "SONDEPB1", .target_len = cases[i].target_len,
                          .body_len = cases[i].body_len };
        struct push_batch *b = NULL;
        const int64_t live = sonde__alloc_live();
        h.crc = sum_of(&h, cases[i].rest, cases[i].rest_len);
        file_put(&h, cases[i].rest, cases[i].rest_len, cases[i].size);
        const int rc = push_spool_read(dir_fd, 1, &b);
        if (rc != cases[i].rc) fail_msg("%s: %d", cases[i].what, rc);
        push_batch_destroy(b);
        assert_int_equal(sonde__alloc_live(), live);
    }
}

static void not_a_file(void **state)
{
    (void)state;
    struct push_batch *b = NULL;
    uint64_t x;
    const struct push_batch w = { .seq = 9, .target = "/a", .body = "b", .body_len = 1 };
    assert_int_equal(push_spool_write(dir_fd, &w, &x), 0);
    assert_int_equal(mkdirat(dir_fd, "0000000000000001.batch", 0700), 0);
    assert_int_equal(mkfifoat(dir_fd, "0000000000000002.batch", 0600), 0);
    assert_int_equal(symlinkat("0000000000000009.batch", dir_fd, "0000000000000003.batch"), 0);
    assert_int_equal(symlinkat("/dev/zero", dir_fd, "0000000000000004.batch"), 0);
    for (uint64_t seq = 1; seq <= 4; seq++) {
        const int rc = push_spool_read(dir_fd, seq, &b);
        assert_true(rc == SONDE_EFORMAT || rc == SONDE_EACCES);
        assert_int_equal(push_spool_look(dir_fd, seq, &x, &x), rc);
        assert_null(b);
    }
}

static void listing(void **state)
{
    (void)state;
    enum { N = 300 };
    uint64_t *seqs = NULL, x;
    size_t count = 9;
    assert_int_equal(push_spool_list(dir_fd, &seqs, &count), 0);
    assert_int_equal(count, 0);
    for (uint64_t i = 0; i < N; i++) { /* in no order */
        const struct push_batch w = { .seq = (i * 7919) % 100003 + 1, .target = "", .body = "" };
        assert_int_equal(push_spool_write(dir_fd, &w, &x), 0);
    }
    static const char *const others[] = {
        "000000000000001.batch", "00000000000000001.batch", "000000000000000A.batch",
        "0x00000000000001.batch", "+000000000000001.batch", " 000000000000001.batch", "lock",
        "0000000000000001.batch.half", "0000000000000000.batch", "0000000000000000.half",
    };
    for (size_t i = 0; i < COUNT(others); i++) {
        close(openat(dir_fd, others[i], O_WRONLY | O_CREAT, 0600));
    }
    close(openat(dir_fd, "00000000000000ff.half", O_WRONLY | O_CREAT, 0600));
    assert_int_equal(push_spool_list(dir_fd, &seqs, &count), 0);
    assert_int_equal(count, N);
    for (size_t i = 1; i < count; i++) assert_true(seqs[i - 1] < seqs[i]);
    sonde__free(seqs);
    assert_int_not_equal(faccessat(dir_fd, "00000000000000ff.half", F_OK, 0), 0);
    for (size_t i = 0; i < COUNT(others); i++) { /* others' files are left alone */
        assert_int_equal(faccessat(dir_fd, others[i], F_OK, 0), 0);
    }
    for (uint64_t nth = 1; nth < 4; nth++) { /* 64, 128, 256, 512 */
        const int64_t live = sonde__alloc_live();
        sonde__alloc_fail_nth(nth);
        assert_int_equal(push_spool_list(dir_fd, &seqs, &count), SONDE_ENOMEM);
        sonde__alloc_fail_nth(0);
        assert_int_equal(sonde__alloc_live(), live);
    }
    assert_int_equal(push_spool_list(-1, &seqs, &count), SONDE_EIO);
}

/* ---- A disk that takes nothing --------------------------------------------------------------- */

static struct rlimit file_limit;

static void disk_full(rlim_t bytes)
{
    getrlimit(RLIMIT_FSIZE, &file_limit);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){ .rlim_cur = bytes, .rlim_max = file_limit.rlim_max });
}

static void disk_empty(void) { setrlimit(RLIMIT_FSIZE, &file_limit); }

/* Wherever the disk ends, nothing is left of the file. */
static void no_room_for_a_file(void **state)
{
    (void)state;
    const struct push_batch w = { .seq = 1, .target = "/target", .body = "0123456789",
                                  .body_len = 10 };
    for (rlim_t room = 0; room <= 57; room++) {
        uint64_t size = 77;
        disk_full(room);
        const int rc = push_spool_write(dir_fd, &w, &size);
        disk_empty();
        assert_int_equal(rc, room < 57 ? SONDE_ENOSPC : 0);
        assert_int_equal(size, room < 57 ? 77 : 57);
        assert_int_equal(entries("", 0), room < 57 ? 0 : 1);
    }
}

static void put(struct push_queue *q, uint32_t number, size_t len)
{
    char *body = sonde__calloc(1, len + 1);
    struct push_batch *b = push_batch_create(SONDE_PUSH_METRICS, "/", number, body, len);
    assert_non_null(b);
    push_queue_put(q, b);
}

static struct push_queue_stats stats_of(struct push_queue *q)
{
    struct push_queue_stats s;
    push_queue_stats(q, &s);
    return s;
}

/* What cannot be written stays in memory, in its order, and what comes when there is room again
 * goes to disk behind it. */
static void a_full_disk_for_a_while(void **state)
{
    (void)state;
    struct push_queue *q = NULL;
    struct sonde_err note = { "" };
    assert_int_equal(push_queue_open(dir, 1 << 20, 1e6, &q, &note), 0);
    put(q, 1, 100);
    disk_full(0);
    for (uint32_t i = 2; i <= 5; i++) put(q, i, 100);
    assert_int_equal(stats_of(q).batches, 5);
    assert_int_equal(stats_of(q).spooled, 0);
    assert_int_equal(push_queue_first(q)->items, 1);
    push_queue_keep(q); /* nor can that one */
    disk_empty();
    put(q, 6, 100);
    assert_int_equal(stats_of(q).spooled, 1);
    for (uint32_t i = 1; i <= 6; i++) {
        assert_int_equal(push_queue_first(q)->items, i);
        push_queue_done(q);
    }
    assert_int_equal(stats_of(q).dropped_spool, 0);
    assert_int_equal(stats_of(q).bytes, 0);
    assert_int_equal(push_queue_close(q), 0);
}

/* More than may stay in memory is dropped and counted; what is left at the end is lost. */
static void a_full_disk_for_good(void **state)
{
    (void)state;
    struct push_queue *q = NULL;
    struct sonde_err note = { "" };
    assert_int_equal(push_queue_open(dir, 1u << 30, 1e6, &q, &note), 0);
    disk_full(0);
    for (uint32_t i = 1; i <= 20; i++) put(q, i, 1 << 20);
    struct push_queue_stats s = stats_of(q);
    assert_int_equal(s.batches + s.dropped_spool, 20);
    assert_in_range(s.bytes, 1, 16 << 20);
    assert_in_range(s.batches, 14, 16);
    assert_int_equal(push_queue_first(q)->items, 1); /* the newest are the ones that did not fit */
    push_queue_keep(q);
    const uint64_t left = stats_of(q).batches;
    assert_int_equal(push_queue_close(q), left);
    disk_empty();
    assert_int_equal(entries(".batch", 0), 0);
}

/* Without a folder the memory's own bound counts, whatever the spool may have. */
static void memory_is_bounded(void **state)
{
    (void)state;
    struct push_queue *q = NULL;
    assert_int_equal(push_queue_open(NULL, 1u << 30, 1e6, &q, NULL), 0);
    for (uint32_t i = 1; i <= 40; i++) put(q, i, 1 << 20);
    const struct push_queue_stats s = stats_of(q);
    assert_in_range(s.bytes, 1, 16 << 20);
    assert_int_equal(s.batches + s.dropped_size, 40);
    assert_int_equal(push_queue_first(q)->items, 41 - (uint32_t)s.batches); /* oldest dropped */
    push_queue_done(q);
    push_queue_close(q);
}

/* A file that is taken away, or put in another's place, while the queue has it. */
static void files_change_underneath(void **state)
{
    (void)state;
    struct push_queue *q = NULL;
    struct sonde_err note = { "" };
    assert_int_equal(push_queue_open(dir, 1 << 20, 1e6, &q, &note), 0);
    for (uint32_t i = 1; i <= 4; i++) put(q, i, 50);
    assert_int_equal(push_queue_first(q)->items, 1);
    push_queue_done(q);
    assert_int_equal(unlinkat(dir_fd, "0000000000000002.batch", 0), 0);
    const int fd = openat(dir_fd, "0000000000000003.batch", O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "garbage", 7), 7);
    close(fd);
    assert_int_equal(push_queue_first(q)->items, 4);
    push_queue_done(q);
    assert_null(push_queue_first(q));
    assert_int_equal(stats_of(q).dropped_damaged, 2);
    assert_int_equal(push_queue_close(q), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, make_dir, remove_dir)
    const struct CMUnitTest tests[] = {
        T(round_trips), T(written_twice), T(lengths_are_not_believed), T(not_a_file), T(listing),
        T(no_room_for_a_file), T(a_full_disk_for_a_while), T(a_full_disk_for_good),
        T(memory_is_bounded), T(files_change_underneath),
    };
    return cmocka_run_group_tests_name("spool", tests, NULL, NULL);
}
