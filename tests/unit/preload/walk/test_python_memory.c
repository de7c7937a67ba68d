/* Copying memory of our own that may not be there, several places at once: all of them or none. By
 * the kernel's call, and asked for page by page, with the same results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "preload/walk/python_memory.c" /* part of no library that tests are linked with */

#define EACH 64u
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

int sonde__readable(uint64_t addr)
{
    return syscall(SYS_rt_sigprocmask, -1, addr, NULL, sizeof(uint64_t)) != 0 && errno == EINVAL;
}

struct place {
    const char *name;
    char *at;
    int there;
};

/* A page that is there between ones that are not. */
static char *page_alone(int unmapped)
{
    char *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    memset(p, 'x', 3 * PAGE);
    for (size_t i = 0; i < 3; i += 2) {
        char *beside = p + i * PAGE;
        assert_int_equal(unmapped ? munmap(beside, PAGE) : mprotect(beside, PAGE, PROT_NONE), 0);
    }
    return p + PAGE;
}

/* Of a file whose end was cut off: reading it is a SIGBUS. */
static char *page_beyond_file(void)
{
    const int fd = memfd_create("sonde-test", 0);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, PAGE), 0);
    char *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    assert_true(p != MAP_FAILED);
    assert_int_equal(ftruncate(fd, 0), 0);
    close(fd);
    return p;
}

static void check_place(const struct place *p, char *good)
{
    char wanted[EACH], one[EACH];
    memset(wanted, 'x', sizeof(wanted));
    for (uint32_t at = 0; at < 5; at++) { /* among four that are there */
        struct iovec from[5];
        char to[5 * EACH];
        memset(to, 0, sizeof(to));
        for (uint32_t i = 0; i < 5; i++) from[i] = (struct iovec){ good + i * 256, EACH };
        from[at].iov_base = p->at;
        const int all = sonde__python_copy_all(from, 5, to);
        if (all != (p->there ? 0 : -1)) fail_msg("%s at %u: %d", p->name, at, all);
        for (uint32_t i = 0; !all && i < 5; i++) assert_memory_equal(to + i * EACH, wanted, EACH);
    }
    const int rc = sonde__python_copy((uint64_t)(uintptr_t)p->at, one, EACH);
    assert_int_equal(rc, p->there ? 0 : -1);
}

static void places(void **state)
{
    (void)state;
    char *unmapped = page_alone(1), *forbidden = page_alone(0), *cut = page_beyond_file();
    const struct place all[] = {
        { "its last bytes", unmapped + PAGE - EACH, 1 },
        { "its first bytes", unmapped, 1 },
        { "across its end", unmapped + PAGE - EACH / 2, 0 },
        { "across its start", unmapped - EACH / 2, 0 },
        { "not mapped", unmapped + PAGE, 0 },
        { "not to be read", forbidden + PAGE, 0 },
        { "across what can be read", forbidden + PAGE - 8, 0 },
        { "beyond the end of its file", cut, 0 },
        { "nothing", NULL, 0 },
        { "the first page", (char *)(uintptr_t)64, 0 },
        { "the kernel's", (char *)(uintptr_t)0xffffffff81000000ull, 0 },
        { "no address at all", (char *)(uintptr_t)0x7079000000400000ull, 0 },
    };
    for (int asked = 0; asked < 2; asked++) {
        python_filter = 0;
        sonde__python_start();
        /* A sandbox around the tests has it page by page both times. */
        if (asked) sonde__python_filtered();
        for (size_t i = 0; i < COUNT(all); i++) check_place(&all[i], unmapped);
    }
}

/* A child's memory is its own, and so is what it copies. */
static void forked(void **state)
{
    (void)state;
    char *page = page_alone(1), seen[EACH];
    sonde__python_start();
    const pid_t child = fork();
    if (!child) {
        sonde__python_start();
        memset(page, 'y', PAGE);
        _exit(sonde__python_copy((uint64_t)(uintptr_t)page, seen, EACH) || seen[0] != 'y');
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(sonde__python_copy((uint64_t)(uintptr_t)page, seen, EACH), 0);
    assert_int_equal(seen[0], 'x');
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(places), cmocka_unit_test(forked) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
