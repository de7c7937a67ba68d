/* A store that is gone with its agent: it can be asked like any other, leaves nothing behind
 * however the agent ends, and is given up where the disk cannot be written. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "unit/store/sqlite/store_build.h"

/* ---- A disk that fails ----------------------------------------------------------------------- */

static int write_error; /* atomic: errno of every write; 0 = they work */

static ssize_t our_pwrite(int fd, const void *data, size_t n, off_t at)
{
    const int error = __atomic_load_n(&write_error, __ATOMIC_RELAXED);
    if (!error) return pwrite(fd, data, n, at);
    errno = error;
    return -1;
}

static void disk_fails(int error) { __atomic_store_n(&write_error, error, __ATOMIC_RELAXED); }

/* ---- What is left ---------------------------------------------------------------------------- */

static int entries(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static struct sonde_store *open_recent(void)
{
    struct sonde_store *s = NULL;
    struct sonde_err err = { "" };
    const struct sonde_store_options o = { .path = build_dir, .block_ticks = 60 };
    if (sonde_store_recent_open(&o, &s, &err) != 0) fail_msg("%s", err.text);
    return s;
}

static int teardown(void **state)
{
    disk_fails(0);
    return build_remove_dir(state) || sonde__alloc_live() != 0;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void test_asked(void **state)
{
    (void)state;
    struct sonde_store *s = open_recent();
    assert_int_equal(entries(build_dir), 0);
    struct load l = new_load(s, 3, 2, 2);
    add_ticks(&l, 200); /* some of it is packed */
    flush(s);
    must_ask(s, "c1", START_S, START_S + 1000, 10);
    assert_int_equal(build_answer.series, 1);
    assert_int_equal(build_answer.count, 20);
    for (size_t i = 0; i < 20; i++) assert_true(build_answer.point[i].sum == 20);
    must_ask(s, "g*", START_S, START_S + 1000, 60);
    assert_int_equal(build_answer.series, 3);
    assert_int_equal(entries(build_dir), 0);
    OPS->close(s);
    assert_int_equal(entries(build_dir), 0);
}

/* Whoever kills it needs no cleaning up. */
static void test_killed(void **state)
{
    (void)state;
    int ready[2];
    char c;
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (!child) {
        struct sonde_store *s = open_recent();
        struct load l = new_load(s, 1, 0, 0);
        add_ticks(&l, 10);
        flush(s);
        if (write(ready[1], "x", 1) == 1) pause();
        _exit(1);
    }
    assert_true(child > 0);
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    assert_int_equal(entries(build_dir), 0);
    kill(child, SIGKILL);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(entries(build_dir), 0);
}

static void make_folder(const char *name, int seconds_old, int lock, int *lock_fd)
{
    char path[256], file[300];
    snprintf(path, sizeof(path), "%s/%s", build_dir, name);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(file, sizeof(file), "%s/recent.store", path);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    if (lock) {
        snprintf(file, sizeof(file), "%s/recent.store.lock", path);
        *lock_fd = open(file, O_CREAT | O_RDWR, 0600);
        assert_int_equal(flock(*lock_fd, LOCK_EX | LOCK_NB), 0);
    }
    const struct timespec at = { .tv_sec = time(NULL) - seconds_old };
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[]){ at, at }, 0), 0);
}

static int exists(const char *name)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", build_dir, name);
    return access(path, F_OK) == 0;
}

static void remove_folder(const char *name)
{
    static const char *const files[] = { "/recent.store", "/recent.store.lock", "" };
    for (size_t i = 0; i < 3; i++) {
        char path[300];
        snprintf(path, sizeof(path), "%s/%s%s", build_dir, name, files[i]);
        remove(path);
    }
}

/* What one left that was killed while it made its own goes; what somebody has, or may be making, or
 * is not ours, stays. */
static void test_swept(void **state)
{
    (void)state;
    int held = -1, dead = -1;
    make_folder("sonde-recent-gone", 1000, 1, &dead);
    close(dead);
    make_folder("sonde-recent-old", 1000, 0, NULL);
    make_folder("sonde-recent-held", 1000, 1, &held);
    make_folder("sonde-recent-new", 0, 0, NULL);
    make_folder("somebodys", 1000, 0, NULL);
    OPS->close(open_recent());
    assert_false(exists("sonde-recent-gone"));
    assert_false(exists("sonde-recent-old"));
    assert_true(exists("sonde-recent-held/recent.store"));
    assert_true(exists("sonde-recent-new/recent.store"));
    assert_true(exists("somebodys/recent.store"));
    close(held);
    remove_folder("sonde-recent-held");
    remove_folder("sonde-recent-new");
    remove_folder("somebodys");
}

static void test_given_up(void **state)
{
    (void)state;
    static const int errors[] = { ENOSPC, EROFS, EIO };
    for (size_t i = 0; i < 3; i++) {
        struct sonde_store *s = open_recent();
        struct sonde_store_stats stats;
        struct sonde_err err = { "" };
        struct load l = new_load(s, 3, 0, 1);
        add_ticks(&l, 70);
        flush(s);
        disk_fails(errors[i]);
        add_ticks(&l, 1);
        assert_int_not_equal(OPS->flush(s, &err), 0);
        OPS->stats(s, &stats);
        assert_true(stats.off);
        assert_true(stats.failing_since_s > 0);
        assert_true(stats.problem[0]);
        disk_fails(0); /* too late */
        assert_int_equal(load_tick(&l), SONDE_EOFF);
        assert_int_not_equal(ask(s, "g*", START_S, START_S + 100, 0, &err), 0);
        const struct sonde_store_finding f = { .kind = "x", .time_s = START_S };
        assert_int_not_equal(OPS->finding_put(s, &f, NULL, &err), 0);
        const struct sonde_model_span span = { .name = "n", .program = "p" };
        assert_int_equal(OPS->span_add(s, &span), SONDE_EOFF);
        OPS->close(s);
    }
}

static void test_not_opened(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_store *s = NULL;
    char path[256];
    snprintf(path, sizeof(path), "%s/none", build_dir);
    const struct sonde_store_options o = { .path = path };
    assert_int_not_equal(sonde_store_recent_open(&o, &s, &err), 0);
    assert_non_null(strstr(err.text, "/none"));
    assert_null(s);
    const struct sonde_store_options full = { .path = build_dir };
    disk_fails(ENOSPC);
    assert_int_not_equal(sonde_store_recent_open(&full, &s, &err), 0);
    assert_null(s);
    assert_int_equal(entries(build_dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_asked, build_make_dir, teardown),
        cmocka_unit_test_setup_teardown(test_killed, build_make_dir, teardown),
        cmocka_unit_test_setup_teardown(test_swept, build_make_dir, teardown),
        cmocka_unit_test_setup_teardown(test_given_up, build_make_dir, teardown),
        cmocka_unit_test_setup_teardown(test_not_opened, build_make_dir, teardown),
    };
    sqlite3_initialize();
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    vfs->xSetSystemCall(vfs, "pwrite", (sqlite3_syscall_ptr)our_pwrite);
    vfs->xSetSystemCall(vfs, "pwrite64", (sqlite3_syscall_ptr)our_pwrite);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
