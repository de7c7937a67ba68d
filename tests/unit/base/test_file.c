#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/errno.h"
#include "base/file.h"
#include "base/thread.h"
#include "sonde/sonde.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/sonde-file-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int files_in_dir(void)
{
    int count = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) count += e->d_name[0] != '.';
    if (d) closedir(d);
    return count;
}

static int teardown(void **state)
{
    (void)state;
    char path[512];
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        unlink(path);
    }
    if (d) closedir(d);
    return rmdir(dir);
}

static const char *in_dir(const char *name)
{
    static char path[4][512];
    static unsigned turn;
    char *out = path[turn++ % 4];
    snprintf(out, sizeof(path[0]), "%s/%s", dir, name);
    return out;
}

static void make(const char *path, size_t len)
{
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    for (size_t i = 0; i < len; i++) fputc('a' + (int)(i % 26), f);
    assert_int_equal(fclose(f), 0);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void errors(void **state)
{
    (void)state;
    static const struct { int error, code; } cases[] = {
        { 0, 0 },
        { ENOENT, SONDE_ENOENT },  { ESRCH, SONDE_ENOENT },   { ENOTDIR, SONDE_ENOENT },
        { EACCES, SONDE_EACCES },  { EPERM, SONDE_EACCES },   { EROFS, SONDE_EACCES },
        { ELOOP, SONDE_EACCES },   { ENOSPC, SONDE_ENOSPC },  { EDQUOT, SONDE_ENOSPC },
        { EFBIG, SONDE_ENOSPC },   { ENOMEM, SONDE_ENOMEM },  { EMFILE, SONDE_ENOMEM },
        { ENFILE, SONDE_ENOMEM },  { EINVAL, SONDE_EINVAL },  { EISDIR, SONDE_EINVAL },
        { EEXIST, SONDE_EEXIST },  { EBUSY, SONDE_EBUSY },    { EIO, SONDE_EIO },
        { ENAMETOOLONG, SONDE_EINVAL }, { EPIPE, SONDE_EIO }, { 12345, SONDE_EIO },
    };
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        errno = 77;
        assert_int_equal(sonde__from_errno(cases[i].error), cases[i].code);
        assert_int_equal(errno, 77);
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_with_a_cap(void **state)
{
    (void)state;
    static const struct { size_t bytes, max; int rc; } cases[] = {
        { 0, 0, 0 },           { 0, 100, 0 },                   { 1, 0, SONDE_EFULL },
        { 1, 1, 0 },           { 100, 100, 0 },                 { 101, 100, SONDE_EFULL },
        { 4096, 4096, 0 },     { 4097, 4096, SONDE_EFULL },     { 70000, 70000, 0 },
        { 70000, 1 << 20, 0 }, { 300000, 299999, SONDE_EFULL }, { 300000, 300000, 0 },
        { 100, 65536, 0 },
    };
    const char *path = in_dir("capped");
    for (size_t i = 0; i < SONDE_COUNT(cases); i++) {
        struct sonde_buf b;
        struct sonde_err err = { "" };
        make(path, cases[i].bytes);
        sonde_buf_init(&b, cases[i].max);
        const int rc = sonde_file_read(path, &b, &err);
        if (rc != cases[i].rc) fail_msg("case %zu: %d, %s", i, rc, err.text);
        assert_int_equal(err.text[0] != 0, rc != 0);
        if (rc) assert_non_null(strstr(err.text, "is larger than"));
        if (!rc) {
            assert_int_equal(b.len, cases[i].bytes);
            assert_int_equal(strlen(b.data), b.len);
            for (size_t k = 0; k < b.len; k++) assert_int_equal(b.data[k], 'a' + (int)(k % 26));
        }
        sonde_buf_release(&b);
    }
    assert_int_equal(sonde__alloc_live(), 0);
}

static void read_what_has_no_size(void **state)
{
    (void)state;
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    sonde_buf_puts(&b, "before:");
    assert_int_equal(sonde_file_read("/proc/self/status", &b, NULL), 0);
    assert_memory_equal(b.data, "before:Name:", 12);
    sonde_buf_release(&b);

    char small[32], whole[4096];
    assert_true(sonde_file_read_small(AT_FDCWD, "/proc/self/status", whole, sizeof(whole)) > 100);
    assert_int_equal(sonde_file_read_small(AT_FDCWD, "/proc/self/status", small, sizeof(small)),
                     31);
    assert_int_equal(strlen(small), 31);
    assert_memory_equal(small, whole, 31);
    const int proc = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(proc >= 0);
    assert_true(sonde_file_read_small(proc, "comm", small, sizeof(small)) > 0);
    close(proc);
}

static void read_failures(void **state)
{
    (void)state;
    const char *fifo = in_dir("fifo");
    char small[16] = "old";
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 100);
    assert_int_equal(sonde_file_read(in_dir("none"), &b, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "none"));
    assert_non_null(strstr(err.text, strerror(ENOENT)));
    assert_int_equal(sonde_file_read(dir, &b, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, strerror(EISDIR)));
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_int_equal(sonde_file_read_small(AT_FDCWD, fifo, small, sizeof(small)), 0);
    assert_string_equal(small, "");
    strcpy(small, "old");
    errno = 0;
    assert_int_equal(sonde_file_read_small(AT_FDCWD, in_dir("none"), small, sizeof(small)),
                     SONDE_ENOENT);
    assert_int_equal(errno, ENOENT);
    assert_string_equal(small, "");
    assert_int_equal(sonde_file_read_fd(-1, &b), SONDE_EIO);
    assert_int_equal(b.error, 0);
    sonde_buf_release(&b);
}

/* ---- Signals in between ---------------------------------------------------------------------- */

static void on_signal(int number) { (void)number; }

struct slow_writer { int fd; pthread_t reader; };

/* Ten pieces, and a signal to the reader before each. */
static void *write_slowly(void *arg)
{
    const struct slow_writer *w = arg;
    for (int i = 0; i < 10; i++) {
        pthread_kill(w->reader, SIGUSR1);
        if (write(w->fd, "0123456789", 10) != 10) return arg;
    }
    close(w->fd);
    return NULL;
}

static void read_goes_on_after_signals(void **state)
{
    (void)state;
    struct sigaction old, action = { .sa_handler = on_signal }; /* without SA_RESTART */
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    for (int full = 0; full < 2; full++) {
        int ends[2];
        struct sonde_thread t = { 0 };
        struct sonde_buf b;
        char data[200];
        assert_int_equal(pipe(ends), 0);
        struct slow_writer w = { ends[1], pthread_self() };
        assert_int_equal(sonde_thread_start(&t, "slow-writer", write_slowly, &w, NULL), 0);
        sonde_buf_init(&b, 1000);
        if (full) {
            assert_int_equal(sonde_file_read_full(ends[0], data, 55), 55);
            assert_int_equal(sonde_file_read_full(ends[0], data, sizeof(data)), 45);
            assert_int_equal(sonde_file_read_full(ends[0], data, sizeof(data)), 0);
        } else {
            assert_int_equal(sonde_file_read_fd(ends[0], &b), 0);
            assert_int_equal(b.len, 100);
        }
        sonde_thread_join(&t);
        sonde_buf_release(&b);
        close(ends[0]);
    }
    sigaction(SIGUSR1, &old, NULL);
}

static void positioned(void **state)
{
    (void)state;
    char data[32];
    make(in_dir("positioned"), 100);
    const int fd = open(in_dir("positioned"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(sonde_file_pread_full(fd, data, 20, 26), 20);
    assert_memory_equal(data, "abcdef", 6);
    assert_int_equal(sonde_file_pread_full(fd, data, 20, 90), 10);
    assert_int_equal(sonde_file_pread_full(fd, data, 20, 1000), 0);
    assert_int_equal(sonde_file_pread_full(fd, data, 20, -1), SONDE_EINVAL);
    close(fd);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static void expect(const char *path, const char *text)
{
    struct sonde_buf b;
    sonde_buf_init(&b, 1 << 20);
    assert_int_equal(sonde_file_read(path, &b, NULL), 0);
    assert_string_equal(b.data, text);
    sonde_buf_release(&b);
}

static void replaced(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct stat st;
    const char *path = in_dir("file"), *link = in_dir("link");
    const mode_t mask = umask(027);
    assert_int_equal(sonde_file_replace(path, "one", 3, &err), 0);
    umask(mask);
    expect(path, "one");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(sonde_file_replace(link, "two", 3, &err), 0);
    expect(path, "two");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(sonde_file_replace(path, "", 0, &err), 0);
    expect(path, "");
    assert_int_equal(sonde_file_replace("/dev/null", "x", 1, &err), 0);
    assert_int_equal(sonde_file_replace("/dev/full", "x", 1, &err), SONDE_ENOSPC);
    assert_int_equal(sonde_file_replace(in_dir("none/file"), "x", 1, &err), SONDE_ENOENT);
    assert_non_null(strstr(err.text, "none/file"));
    assert_int_equal(files_in_dir(), 2);
}

/* A file must not grow beyond 100 bytes: as a full disk. */
static void replaced_or_as_before(void **state)
{
    (void)state;
    struct rlimit usual, tight;
    struct sonde_err err = { "" };
    static char large[1000];
    const char *path = in_dir("file");
    const int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct iovec parts[] = { { large, 50 }, { large, sizeof(large) } };
    assert_int_equal(sonde_file_replace(path, "before", 6, &err), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
    tight = usual;
    tight.rlim_cur = 100;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    const int rc = sonde_file_replace(path, large, sizeof(large), &err);
    const int rc_at = sonde_file_replace_at(dir_fd, "file", "file.new", parts, 2);
    const int error = errno;
    setrlimit(RLIMIT_FSIZE, &usual);
    assert_int_equal(rc, SONDE_ENOSPC);
    assert_int_equal(rc_at, SONDE_ENOSPC);
    assert_int_equal(error, EFBIG);
    assert_non_null(strstr(err.text, "as it was before"));
    expect(path, "before");
    assert_int_equal(files_in_dir(), 1);
    close(dir_fd);
}

static void replaced_in_a_folder(void **state)
{
    (void)state;
    const int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct iovec parts[] = { { "one ", 4 }, { "", 0 }, { "two", 3 } };
    struct stat st;
    make(in_dir("victim"), 10);
    /* In the way: must not be followed. */
    assert_int_equal(symlink("victim", in_dir("part.new")), 0);
    assert_int_equal(sonde_file_replace_at(dir_fd, "part", "part.new", parts, 3), 0);
    expect(in_dir("part"), "one two");
    expect(in_dir("victim"), "abcdefghij");
    assert_int_equal(stat(in_dir("part"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(files_in_dir(), 2);
    assert_int_equal(sonde_file_replace_at(-1, "part", "part.new", parts, 3), SONDE_EIO);
    close(dir_fd);
}

static void temporary(void **state)
{
    (void)state;
    struct sonde_file_temp t;
    struct stat st;
    assert_int_equal(sonde_file_temp_create(&t, in_dir("made"), NULL), 0);
    assert_int_equal(stat(t.path, &st), 0);
    assert_int_equal(sonde_file_write_all(t.fd, "text", 4), 0);
    sonde_file_temp_release(&t); /* not committed */
    assert_int_equal(files_in_dir(), 0);
    assert_int_equal(sonde_file_temp_create(&t, in_dir("made"), NULL), 0);
    assert_int_equal(sonde_file_write_all(t.fd, "text", 4), 0);
    assert_int_equal(sonde_file_temp_commit(&t, NULL), 0);
    sonde_file_temp_release(&t);
    expect(in_dir("made"), "text");
    assert_int_equal(files_in_dir(), 1);
}

static void no_memory(void **state)
{
    (void)state;
    const char *path = in_dir("file");
    make(path, 200000);
    for (int writing = 0; writing < 2; writing++) {
        int rc = SONDE_ENOMEM;
        for (uint64_t nth = 1; rc && nth < 100; nth++) {
            struct sonde_buf b;
            struct sonde_err err = { "" };
            sonde_buf_init(&b, 1 << 20);
            sonde__alloc_fail_nth(nth);
            rc = writing ? sonde_file_replace(path, "new", 3, &err)
                         : sonde_file_read(path, &b, &err);
            sonde__alloc_fail_nth(0);
            assert_true(rc == 0 || rc == SONDE_ENOMEM);
            if (rc) assert_non_null(strstr(err.text, "no memory"));
            sonde_buf_release(&b);
            assert_int_equal(sonde__alloc_live(), 0);
            assert_int_equal(files_in_dir(), 1);
        }
        assert_int_equal(rc, 0);
    }
    expect(path, "new");
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors),           IN_DIR(read_with_a_cap),
        cmocka_unit_test(read_what_has_no_size), IN_DIR(read_failures),
        cmocka_unit_test(read_goes_on_after_signals), IN_DIR(positioned),
        IN_DIR(replaced),                   IN_DIR(replaced_or_as_before),
        IN_DIR(replaced_in_a_folder),       IN_DIR(temporary),
        IN_DIR(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
