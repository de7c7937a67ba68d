/* /proc/PID/maps of this very process, with a mapping in it that the test has made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/proc_maps.h"
#include "sonde/sonde.h"

struct looked {
    uint64_t wanted;
    struct sonde_mapping found;
    char path[128];
    int lines, stop; /* stop: what to return at the wanted one */
};

static int look(void *arg, const struct sonde_mapping *m)
{
    struct looked *l = arg;
    l->lines++;
    assert_true(m->end > m->start && m->path);
    if (m->start > l->wanted || m->end <= l->wanted) return 0;
    l->found = *m;
    snprintf(l->path, sizeof(l->path), "%s", m->path);
    return l->stop;
}

static void finds_a_mapping(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char dir[] = "/tmp/sonde-test-XXXXXX", path[64];
    struct stat st;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/a b\nc", dir);
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)(3 * page)), 0);
    assert_int_equal(fstat(fd, &st), 0);
    char *at = mmap(NULL, 2 * page, PROT_READ, MAP_PRIVATE, fd, (off_t)page);
    assert_true(at != MAP_FAILED);
    struct looked l = { .wanted = (uint64_t)(uintptr_t)at };
    assert_int_equal(sonde_proc_maps((uint32_t)getpid(), look, &l), 0);
    assert_int_equal(l.found.start, (uint64_t)(uintptr_t)at);
    assert_int_equal(l.found.end - l.found.start, 2 * page);
    assert_int_equal(l.found.offset, page);
    assert_int_equal(l.found.inode, st.st_ino);
    assert_int_equal(l.found.executable, 0);
    assert_string_equal(l.path, path);
    unlink(path);
    assert_int_equal(sonde_proc_maps((uint32_t)getpid(), look, &l), 0);
    assert_non_null(strstr(l.path, " (deleted)"));
    munmap(at, 2 * page);
    close(fd);
    rmdir(dir);
}

static void code_and_the_end(void **state)
{
    (void)state;
    struct looked l = { .wanted = (uint64_t)(uintptr_t)&sonde_proc_maps, .stop = 7 };
    assert_int_equal(sonde_proc_maps((uint32_t)getpid(), look, &l), 7); /* and no line after it */
    assert_int_equal(l.found.executable, 1);
    const int lines = l.lines;
    l.stop = l.lines = 0;
    assert_int_equal(sonde_proc_maps((uint32_t)getpid(), look, &l), 0);
    assert_true(l.lines > lines);
    assert_int_equal(sonde_proc_maps(UINT32_MAX, look, &l), SONDE_ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_a_mapping),
        cmocka_unit_test(code_and_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
