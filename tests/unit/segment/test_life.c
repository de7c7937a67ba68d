/* Files are removed only if they are segments of ours that nothing can write any more. */
#include <fcntl.h>
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "segment/life.h"

#define BYTES 8192u

static char dir[64];
static int dirfd;
static struct sonde__here here;

static int setup(void **state)
{
    (void)state;
    /* On a tmpfs, where leases hold. */
    snprintf(dir, sizeof(dir), "/dev/shm/test_life.XXXXXX");
    if (!mkdtemp(dir)) return -1;
    dirfd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    sonde__here(&here);
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

static int is_there(const char *name) { return faccessat(dirfd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0; }

static void names(void **state)
{
    (void)state;
    static const struct { const char *name; int ok; } cases[] = {
        { "12.345", 1 },       { "12.345.1", 1 },    { "3.11", 1 },          { "1.0", 1 },
        { "12", 0 },           { "12.", 0 },         { "12.345.", 0 },       { "12.345.0", 0 },
        { "0.1", 0 },          { "012.1", 0 },       { "1.02", 0 },          { "1.2.03", 0 },
        { "1.2.3.4", 0 },      { "todo.txt", 0 },    { "t2.345.tmp7", 0 },   { "", 0 },
        { "4294967296.1", 0 }, { "-1.2", 0 },        { "1.2 ", 0 },          { "1.2.4294967296", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sonde__name n;
        char again[SONDE__NAME_BYTES];
        if ((sonde__name_parse(cases[i].name, &n) == 0) != cases[i].ok) fail_msg("%s", cases[i].name);
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
    static const char *const all[] = { "3.11", "4.11", "todo.txt", "3.12", "5.1", "6.1", "7.1", "8.1",
                                       "9.1", "10.1", ".sonde-0000000000000abc-42.tmp" };
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
    assert_int_equal(sonde__life(dirfd, name, &here), SONDE__LIFE_DEAD); /* who reads does not count */
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

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(names), T(foreign_files), T(others_files), T(mapped_is_alive),
        T(descriptors_do_not_matter), T(temporary_files), T(who_is_here),
    };
    return cmocka_run_group_tests_name("life", tests, NULL, NULL);
}
