/* Files are removed only if they are segments of ours that nothing can write any more. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "segment/life.h"

#define BYTES 8192u

static char dir[64];
static int dirfd;
static struct sonde__here here;
static long file_system;    /* what fstatfs says; 0 = nothing: it fails */

int fstatfs(int fd, struct statfs *out)
{
    (void)fd;
    memset(out, 0, sizeof(*out));
    out->f_type = file_system;
    return file_system ? 0 : -1;
}

static int setup(void **state)
{
    (void)state;
    /* On a tmpfs, where leases hold. */
    snprintf(dir, sizeof(dir), "/dev/shm/test_life.XXXXXX");
    if (!mkdtemp(dir)) return -1;
    dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sonde__here(&here);
    file_system = TMPFS_MAGIC;
    return dirfd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[96];
    snprintf(command, sizeof(command), "rm -rf %s", dir);
    close(dirfd);
    return system(command);
}

static struct sonde__header header(uint32_t pid, uint64_t start)
{
    struct sonde__header h;
    memset(&h, 0, sizeof(h));
    h.magic = SONDE__MAGIC;
    h.abi = SONDE__ABI;
    h.file_bytes = BYTES;
    h.pid = pid;
    h.start_time = start;
    memcpy(h.boot_id, here.boot_id, sizeof(h.boot_id));
    h.pid_ns = here.pid_ns;
    h.time_ns = here.time_ns;
    h.check = sonde__header_check(&h);
    return h;
}

static void file_write(const char *name, const void *data, size_t len, off_t bytes)
{
    const int fd = openat(dirfd, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, len), len);
    assert_int_equal(ftruncate(fd, bytes), 0);
    close(fd);
}

static int is_there(const char *name)
{
    return faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void names(void **state)
{
    (void)state;
    static const struct { const char *name; int ok; } cases[] = {
        { "12.345", 1 },       { "12.345.1", 1 }, { "3.11", 1 },        { "1.0", 1 },
        { "12", 0 },           { "12.", 0 },      { "12.345.", 0 },     { "12.345.0", 0 },
        { "0.1", 0 },          { "012.1", 0 },    { "1.02", 0 },        { "1.2.03", 0 },
        { "1.2.3.4", 0 },      { "todo.txt", 0 }, { "t2.345.tmp7", 0 }, { "", 0 },
        { "4294967296.1", 0 }, { "-1.2", 0 },     { "1.2 ", 0 },        { "1.2.4294967296", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde__name n;
        char again[SONDE__NAME_BYTES];
        if ((sonde__name_parse(cases[i].name, &n) == 0) != cases[i].ok) {
            fail_msg("%s", cases[i].name);
        }
        if (!cases[i].ok) continue;
        sonde__name_make(again, &n);
        assert_string_equal(again, cases[i].name);
    }
    char temp[SONDE__NAME_BYTES];
    sonde__temp_make(temp, 0xabcull, 42);
    assert_string_equal(temp, ".sonde-0000000000000abc-42.tmp");
    assert_int_equal(sonde__temp_parse(temp), 0);
    static const char *const not_temp[] = {
        "t2.345.tmp7", ".sonde-0000000000000abc-42", ".sonde-abc-42.tmp", ".sonde-.tmp", "x",
        ".sonde-0000000000000abc-042.tmp", ".sonde-0000000000000abc-42.tmp~",
        ".sonde-0000000000000abcd-42.tmp",
    };
    for (size_t i = 0; i < sizeof(not_temp) / sizeof(not_temp[0]); i++) {
        if (!sonde__temp_parse(not_temp[i])) fail_msg("%s", not_temp[i]);
    }
}

/* Whatever is not a segment, or not of the process that its name says, stays. */
static void foreign_files(void **state)
{
    (void)state;
    struct sonde__header h = header(3, 11);
    file_write("3.11", "notes", 5, 5);
    file_write("4.11", &h, sizeof(h), BYTES);         /* of another process than its name */
    file_write("todo.txt", &h, sizeof(h), BYTES);
    file_write("3.12", "", 0, 0);
    h = header(5, 1);
    file_write("5.1", &h, sizeof(h), BYTES + 1);      /* of another size */
    h = header(6, 1);
    file_write("6.1", &h, sizeof(h), BYTES);
    assert_int_equal(linkat(dirfd, "6.1", dirfd, "copy", 0), 0); /* has another name too */
    h.magic++;
    file_write("7.1", &h, sizeof(h), BYTES);
    assert_int_equal(symlinkat("5.1", dirfd, "8.1"), 0);
    assert_int_equal(mkfifoat(dirfd, "9.1", 0600), 0);
    assert_int_equal(mkdirat(dirfd, "10.1", 0700), 0);
    file_write(".sonde-0000000000000abc-42.tmp", "notes", 5, 5);
    static const char *const all[] = { "3.11", "4.11", "todo.txt", "3.12", "5.1", "6.1", "7.1",
                                       "8.1", "9.1", "10.1", ".sonde-0000000000000abc-42.tmp" };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (sonde__life_sweep(dirfd, all[i], &here) != SONDE__LIFE_FOREIGN) fail_msg("%s", all[i]);
        assert_true(is_there(all[i]));
    }
    assert_int_equal(sonde__life_sweep(dirfd, "11.1", &here), SONDE__LIFE_NONE);
}

static void others_files(void **state)
{
    (void)state;
    if (geteuid() != 0) skip();
    const struct sonde__header h = header(3, 11);
    file_write("3.11", &h, sizeof(h), BYTES);
    assert_int_equal(fchownat(dirfd, "3.11", 12345, 12345, 0), 0);
    assert_int_equal(sonde__life_sweep(dirfd, "3.11", &here), SONDE__LIFE_FOREIGN);
    assert_true(is_there("3.11"));
}

static void *map_file(const char *name)
{
    const int fd = openat(dirfd, name, O_RDWR | O_CLOEXEC);
    void *p = mmap(NULL, BYTES, PROT_NONE, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    close(fd);
    return p;
}

/* By the pid that it says no process is there. But it may be one of another namespace. */
static void mapped_is_alive(void **state)
{
    (void)state;
    struct sonde__header h = header(INT32_MAX, 1);
    static const char name[] = "2147483647.1";
    file_write(name, &h, sizeof(h), BYTES);
    void *p = map_file(name);
    assert_int_equal(sonde__life_sweep(dirfd, name, &here), SONDE__LIFE_ALIVE);
    const int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
    void *reader = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);
    munmap(p, BYTES);
    /* Who reads does not count. */
    assert_int_equal(sonde__life(dirfd, name, &here), SONDE__LIFE_DEAD);
    assert_true(is_there(name));
    assert_int_equal(sonde__life_sweep(dirfd, name, &here), SONDE__LIFE_DEAD);
    assert_false(is_there(name));
    munmap(reader, BYTES);
    close(fd);
}

/* A lock that is a descriptor would be lost by closing all, and kept by a child that executes. */
static void descriptors_do_not_matter(void **state)
{
    (void)state;
    struct sonde__header h = header(INT32_MAX, 1);
    static const char name[] = "2147483647.1";
    int ready[2];
    char byte;
    file_write(name, &h, sizeof(h), BYTES);
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        map_file(name);
        dup2(ready[1], 0);
        close_range(1, ~0u, 0);
        if (fork() == 0) execl("/bin/sleep", "sleep", "3", (char *)NULL);
        if (write(0, "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(sonde__life_sweep(dirfd, name, &here), SONDE__LIFE_ALIVE);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    for (int i = 0; i < 3000 && sonde__life(dirfd, name, &here) == SONDE__LIFE_ALIVE; i++) {
        usleep(10000); /* the child may not have come to its exec yet */
    }
    assert_int_equal(sonde__life_sweep(dirfd, name, &here), SONDE__LIFE_DEAD);
    close(ready[0]);
    close(ready[1]);
}

static void temporary_files(void **state)
{
    (void)state;
    const struct sonde__header h = header(3, 11);
    char name[SONDE__NAME_BYTES];
    sonde__temp_make(name, 7, 3);
    file_write(name, &h, 8, 8);
    void *p = map_file(name);
    assert_int_equal(sonde__life_sweep(dirfd, name, &here), SONDE__LIFE_ALIVE);
    munmap(p, BYTES);
    assert_int_equal(sonde__life_sweep(dirfd, name, &here), SONDE__LIFE_DEAD);
    file_write(name, "", 0, 0);
    assert_int_equal(sonde__life_sweep(dirfd, name, &here), SONDE__LIFE_DEAD);
    assert_false(is_there(name));
}

static void who_is_here(void **state)
{
    (void)state;
    struct sonde__header h = header((uint32_t)getpid(), sonde__start_time(0));
    assert_int_equal(sonde__start_time(0), sonde__start_time((uint32_t)getpid()));
    assert_true(here.pid_ns != 0);
    assert_true(sonde__is_here(&h, &here));
    h.pid_ns++;
    assert_false(sonde__is_here(&h, &here));
    h.pid_ns--;
    h.time_ns++;
    assert_false(sonde__is_here(&h, &here));
    h.time_ns--;
    h.boot_id[3]++;
    assert_false(sonde__is_here(&h, &here));
    struct sonde__here nowhere = here;
    nowhere.pid_ns = 0;
    h = header(1, 1);
    h.pid_ns = 0;
    assert_false(sonde__is_here(&h, &nowhere));
}

/* The longest and the largest there are, and one more. */
static void names_at_their_bounds(void **state)
{
    (void)state;
    static const struct { const char *name; int ok; } cases[] = {
        { "2147483647.18446744073709551614.4294967295", 1 },
        { "2147483648.1", 0 },
        { "1.18446744073709551615", 0 },
        { "1.18446744073709551616", 0 },
        { "1.99999999999999999999", 0 },
        { "1.100000000000000000000000000000000000000000000000000000000000000000000", 0 },
        { "99999999999999999999999999999999999999999999999999999999999999999999.1", 0 },
        { "1.1.99999999999999999999", 0 },
        { "+1.1", 0 }, { " 1.1", 0 }, { "1 .1", 0 }, { "1..1", 0 }, { ".1", 0 }, { "1.1\n", 0 },
        { "0x1.1", 0 }, { "1.1.-1", 0 }, { "1,1", 0 }, { "../1.1", 0 }, { "1.1/..", 0 },
        { "\xd9\xa1.1", 0 }, { "00.0", 0 }, { "0.0", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde__name n = { 7, 8, 9 };
        const int ok = sonde__name_parse(cases[i].name, &n) == 0;
        if (ok != cases[i].ok) fail_msg("%s", cases[i].name);
        if (!ok) assert_true(n.pid == 7 && n.start == 8 && n.n == 9); /* untouched */
        else assert_true(n.pid == INT32_MAX && n.start == UINT64_MAX - 1 && n.n == UINT32_MAX);
    }
    char name[SONDE__NAME_BYTES];
    const struct sonde__name largest = { UINT32_MAX, UINT64_MAX, UINT32_MAX };
    memset(name, 'z', sizeof(name));
    sonde__name_make(name, &largest);
    assert_string_equal(name, "4294967295.18446744073709551615.4294967295");
    sonde__temp_make(name, UINT64_MAX, UINT32_MAX);
    assert_string_equal(name, ".sonde-ffffffffffffffff-4294967295.tmp");
    static const char *const not_temp[] = {
        ".sonde-ffffffffffffffff-4294967295.tmp", ".sonde-ffffffffffffffff-0.tmp",
        ".sonde-FFFFFFFFFFFFFFFF-1.tmp", ".sonde-ffffffffffffffff-.tmp", ".sonde-ffffffffffffffff",
        ".sonde-fffffffffffffff--1.tmp", ".sonde-ffffffffffffffff-1.tmp/x", ".sonde-", "",
        ".sonde-ffffffffffffffff-1 .tmp", "sonde-ffffffffffffffff-1.tmp",
    };
    for (size_t i = 0; i < sizeof(not_temp) / sizeof(not_temp[0]); i++) {
        if (!sonde__temp_parse(not_temp[i])) fail_msg("%s", not_temp[i]);
    }
}

/* On file systems that are not known to count all writers the process is judged: of this boot and
 * these namespaces only, and only if the header is whole. */
static void judged_by_the_process(void **state)
{
    (void)state;
    static const char me_other_start[] = "other start", gone[] = "gone", alive[] = "alive";
    const uint32_t me = (uint32_t)getpid();
    const uint64_t start = sonde__start_time(0);
    static const long systems[] = { NFS_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, FUSE_SUPER_MAGIC, 0 };
    struct { const char *what; uint32_t pid; uint64_t start; int damage; enum sonde__life life; }
    const cases[] = {
        { alive, me, start, 0, SONDE__LIFE_ALIVE },
        { me_other_start, me, start + 1, 0, SONDE__LIFE_DEAD },
        { gone, INT32_MAX, 1, 0, SONDE__LIFE_DEAD },
        { "another version", INT32_MAX, 1, 1, SONDE__LIFE_UNKNOWN },
        { "a wrong sum", INT32_MAX, 1, 2, SONDE__LIFE_UNKNOWN },
        { "another pid namespace", INT32_MAX, 1, 3, SONDE__LIFE_UNKNOWN },
        { "another time namespace", INT32_MAX, 1, 4, SONDE__LIFE_UNKNOWN },
        { "another boot", INT32_MAX, 1, 5, SONDE__LIFE_UNKNOWN },
    };
    for (size_t f = 0; f < sizeof(systems) / sizeof(systems[0]); f++) {
        file_system = systems[f];
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct sonde__header h = header(cases[i].pid, cases[i].start);
            h.abi += cases[i].damage == 1;
            h.pid_ns += cases[i].damage == 3;
            h.time_ns += cases[i].damage == 4;
            h.boot_id[0] ^= cases[i].damage == 5;
            h.check = sonde__header_check(&h) + (cases[i].damage == 2);
            char name[SONDE__NAME_BYTES];
            sonde__name_make(name, &(struct sonde__name){ cases[i].pid, cases[i].start, 0 });
            file_write(name, &h, sizeof(h), BYTES);
            errno = EDOM;
            if (sonde__life(dirfd, name, &here) != cases[i].life) fail_msg("%s", cases[i].what);
            assert_true(is_there(name));
            assert_int_equal(sonde__life_sweep(dirfd, name, &here), cases[i].life);
            assert_int_equal(errno, EDOM); /* it runs in others' programs */
            assert_int_equal(is_there(name), cases[i].life != SONDE__LIFE_DEAD);
            if (is_there(name)) unlinkat(dirfd, name, 0);
        }
        const struct sonde__header h = header(3, 11);
        char temp[SONDE__NAME_BYTES]; /* which says nothing about its process */
        sonde__temp_make(temp, 1, INT32_MAX);
        file_write(temp, &h, sizeof(h), BYTES);
        assert_int_equal(sonde__life_sweep(dirfd, temp, &here), SONDE__LIFE_UNKNOWN);
        assert_true(is_there(temp));
    }
}

static void written_is_asked_of_the_file(void **state)
{
    (void)state;
    static const struct { long type; int trusted; } systems[] = {
        { TMPFS_MAGIC, 1 }, { RAMFS_MAGIC, 1 }, { EXT4_SUPER_MAGIC, 1 }, { 0x58465342, 1 },
        { BTRFS_SUPER_MAGIC, 1 }, { OVERLAYFS_SUPER_MAGIC, 0 }, { NFS_SUPER_MAGIC, 0 }, { 0, 0 },
    };
    file_write("f", "x", 1, 1);
    const int reader = openat(dirfd, "f", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < sizeof(systems) / sizeof(systems[0]); i++) {
        file_system = systems[i].type;
        assert_int_equal(sonde__is_written(reader), systems[i].trusted ? 0 : -1);
        const int writer = openat(dirfd, "f", O_WRONLY | O_CLOEXEC);
        assert_int_equal(sonde__is_written(reader), systems[i].trusted ? 1 : -1);
        close(writer);
        assert_int_equal(sonde__is_written(reader), systems[i].trusted ? 0 : -1); /* asked again */
    }
    close(reader);
    file_system = TMPFS_MAGIC;
    assert_int_equal(sonde__is_written(-1), -1);
}

/* A header cut off anywhere, and every byte of what a file is known by, changed. */
static void damaged_headers_are_foreign(void **state)
{
    (void)state;
    const struct sonde__header whole = header(INT32_MAX, 1);
    static const char name[] = "2147483647.1";
    for (size_t len = 0; len < sizeof(whole); len += 61) {
        file_write(name, &whole, len, (off_t)len);
        assert_int_equal(sonde__life_sweep(dirfd, name, &here), SONDE__LIFE_FOREIGN);
        assert_true(is_there(name));
    }
    static const size_t known_by[][2] = {
        { offsetof(struct sonde__header, magic), 8 },
        { offsetof(struct sonde__header, file_bytes), 8 },
        { offsetof(struct sonde__header, pid), 4 },
        { offsetof(struct sonde__header, start_time), 8 },
    };
    for (size_t k = 0; k < sizeof(known_by) / sizeof(known_by[0]); k++) {
        for (size_t i = 0; i < known_by[k][1]; i++) {
            struct sonde__header h = whole;
            ((unsigned char *)&h)[known_by[k][0] + i] ^= 0x81;
            file_write(name, &h, sizeof(h), BYTES);
            assert_int_equal(sonde__life_sweep(dirfd, name, &here), SONDE__LIFE_FOREIGN);
        }
    }
    file_write(name, &whole, sizeof(whole), BYTES);
    assert_int_equal(sonde__life_sweep(dirfd, name, &here), SONDE__LIFE_DEAD);
    assert_int_equal(sonde__life(-1, name, &here), SONDE__LIFE_FOREIGN); /* no directory at all */
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(names), T(foreign_files), T(others_files), T(mapped_is_alive),
        T(descriptors_do_not_matter), T(temporary_files), T(who_is_here),
        T(names_at_their_bounds), T(judged_by_the_process), T(written_is_asked_of_the_file),
        T(damaged_headers_are_foreign),
    };
    return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
