/* Mappings by name: of made-up files, and of a child that has named its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "collect/proc/smaps.h"
#include "sonde/sonde.h"

static int file_of(const char *text, size_t len)
{
    char path[] = "/tmp/sonde-test-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    assert_int_equal(write(fd, text, len), (ssize_t)len);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static int parse(const char *text, struct sonde_smaps *s)
{
    struct sonde_err err;
    const int fd = file_of(text, strlen(text));
    const int rc = sonde_smaps_parse(fd, s, &err);
    close(fd);
    return rc;
}

static const struct sonde_smaps_row *row(const struct sonde_smaps *s, const char *name)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (!strcmp(s->rows[i].name, name)) return &s->rows[i];
    }
    fail_msg("no row %s", name);
    return NULL;
}

static const char sample[] =
    "56088ced7000-56088ced9000 r--p 00000000 fe:00 247498                     /usr/bin/a b\n"
    "Size:                  8 kB\nRss:                   4 kB\nPss:                   2 kB\n"
    "VmFlags: rd mr mw me \n"
    "56088ced9000-56088cedf000 r-xp 00002000 fe:00 247498                     /usr/bin/a b\n"
    "Size:                 24 kB\nRss:                  24 kB\nPss:                   7 kB\n"
    "Swap:                  3 kB\nSwapPss:               9 kB\n"
    "7f0000000000-7f0000100000 rw-p 00000000 00:00 0 \n"
    "Size:               1024 kB\nRss:                 100 kB\nPss:                 100 kB\n"
    "7f0000200000-7f0000300000 rw-p 00000000 00:00 0                          [anon:weights]\n"
    "Size:               1024 kB\nRss:                1024 kB\nPss:                1024 kB\n"
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"
    "Size:                  4 kB\nRss:                   x kB\nPss:                   0 kB";

static void test_sums_by_name(void **state)
{
    struct sonde_smaps s;
    (void)state;
    assert_int_equal(parse(sample, &s), 0);
    assert_int_equal(s.count, 4);
    assert_string_equal(s.rows[0].name, "[anon:weights]");
    assert_string_equal(s.rows[3].name, "[vsyscall]");
    const struct sonde_smaps_row *r = row(&s, "/usr/bin/a b");
    assert_int_equal(r->bytes, 32 << 10);
    assert_int_equal(r->rss_bytes, 28 << 10);
    assert_int_equal(r->pss_bytes, 9 << 10);
    assert_int_equal(r->swap_bytes, 3 << 10);
    assert_int_equal(row(&s, "[anon]")->rss_bytes, 100 << 10);
    assert_int_equal(s.all.bytes, (32 + 1024 + 1024 + 4) << 10);
    assert_int_equal(s.all.rss_bytes, (28 + 100 + 1024) << 10);
    sonde_smaps_release(&s);
    sonde_smaps_release(&s);
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_odd_files(void **state)
{
    struct sonde_smaps s;
    (void)state;
    assert_int_equal(parse("", &s), 0);
    assert_int_equal(s.count, 0);
    assert_int_equal(parse("Rss: 12 kB\nnothing\n\n\n", &s), 0); /* figures of no mapping */
    assert_int_equal(s.count, 0);
    assert_int_equal(parse("ab", &s), 0);
    assert_int_equal(row(&s, "[anon]")->bytes, 0);
    sonde_smaps_release(&s);
    assert_int_equal(parse("0-1 r 0 0 0 \xff\xfe\nSize: 99999999999999999999 kB\n"
                           "Rss: 18446744073709551615 kB\n", &s), 0);
    assert_int_equal(s.rows[0].bytes, 0);
    assert_int_equal(s.rows[0].rss_bytes, 0);
    sonde_smaps_release(&s);

    char *line = malloc(100000); /* longer than any line */
    struct sonde_err err;
    memset(line, 'a', 100000);
    const int fd = file_of(line, 100000);
    assert_int_equal(sonde_smaps_parse(fd, &s, &err), SONDE_EFORMAT);
    close(fd);
    free(line);
    assert_int_equal(sonde__alloc_live(), 0);
}

/* More names than there is room for, in a file of several reads. */
static void test_many_names(void **state)
{
    enum { NAMES = 3000 };
    struct sonde_smaps s;
    char *text = malloc(NAMES * 200);
    size_t n = 0;
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        n += (size_t)sprintf(text + n, "%x000-%x000 rw-p 00000000 00:00 0    /lib/%d\nSize: 4 kB\n"
                             "Rss: %d kB\n", i, i + 1, i, i % 7);
    }
    assert_int_equal(parse(text, &s), 0);
    assert_int_equal(s.count, SONDE_SMAPS_NAMES);
    assert_int_equal(s.all.bytes, (uint64_t)NAMES * 4096);
    assert_int_equal(row(&s, "[others]")->bytes, (NAMES - SONDE_SMAPS_NAMES + 1) * 4096u);
    sonde_smaps_release(&s);
    free(text);
}

static void test_without_memory(void **state)
{
    (void)state;
    int rc = SONDE_ENOMEM;
    for (uint64_t nth = 1; rc && nth < 50; nth++) {
        struct sonde_smaps s;
        sonde__alloc_fail_nth(nth);
        rc = parse(sample, &s);
        sonde__alloc_fail_nth(0);
        assert_true(rc == 0 || rc == SONDE_ENOMEM);
        if (rc) assert_int_equal(s.count, 0);
        sonde_smaps_release(&s);
        assert_int_equal(sonde__alloc_live(), 0);
    }
    assert_int_equal(rc, 0);
}

/* ---- A real one ------------------------------------------------------------------------------ */

#define BLOCK ((size_t)8 << 20)

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

static void child(int out)
{
    char *block = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) _exit(1);
    memset(block, 1, BLOCK);
    const char named = prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, block, BLOCK, "weights") == 0;
    if (write(out, &named, 1) != 1) _exit(1);
    pause();
    _exit(0);
}

static void test_of_a_process(void **state)
{
    int out[2];
    char named;
    struct sonde_smaps s;
    struct sonde_err err;
    uint64_t rss = 0, peak = 0;
    (void)state;
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        child(out[1]);
    }
    assert_int_equal(read(out[0], &named, 1), 1);
    assert_int_equal(sonde_smaps_resident((uint32_t)pid, &rss, &peak), 0);
    assert_true(rss >= BLOCK && peak >= rss);
    const int rc = sonde_smaps_read((uint32_t)pid, &s, &err);
    if (rc == 0) {
        assert_true(s.count > 2 && s.all.rss_bytes >= BLOCK && s.all.pss_bytes >= BLOCK);
        if (named) assert_int_equal(row(&s, "[anon:weights]")->rss_bytes, BLOCK);
        sonde_smaps_release(&s);
    } else {
        assert_int_equal(rc, SONDE_ENOENT); /* kernels can be built without it */
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(out[0]);
    close(out[1]);
    assert_int_equal(sonde_smaps_resident((uint32_t)pid, &rss, &peak), SONDE_ENOENT);
    assert_int_equal(sonde_smaps_read((uint32_t)pid, &s, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "smaps"));
    assert_int_equal(sonde__alloc_live(), 0);
}

static void test_pace(void **state)
{
    struct sonde_smaps_pace p = { 0 };
    const uint64_t second = 1000000000u;
    uint64_t now = 77 * second, looks = 0;
    (void)state;
    assert_true(sonde_smaps_is_due(&p, now));
    for (; now < (77 + 60) * second; now += second / 100) { /* a minute, cheap */
        if (!sonde_smaps_is_due(&p, now)) continue;
        sonde_smaps_done(&p, now, now + 1000);
        looks++;
    }
    assert_in_range(looks, 8, 14);
    sonde_smaps_done(&p, now, now + second); /* dear */
    assert_false(sonde_smaps_is_due(&p, now + 999 * second));
    assert_true(sonde_smaps_is_due(&p, now + 1001 * second));
    assert_false(sonde_smaps_is_due_at_last(&p, now + 100 * second));
    assert_true(sonde_smaps_is_due_at_last(&p, now + 101 * second));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_by_name),   cmocka_unit_test(test_odd_files),
        cmocka_unit_test(test_many_names),     cmocka_unit_test(test_without_memory),
        cmocka_unit_test(test_of_a_process),   cmocka_unit_test(test_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
