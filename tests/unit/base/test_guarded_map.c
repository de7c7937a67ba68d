/* A file that shrinks under its mapping must not end the reader; other SIGBUS must. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/guarded_map.h"
#include "sonde/sonde.h"

enum { PAGES = 8, PAGE = 4096 };

static int file_new(void)
{
    int fd = memfd_create("guard", MFD_CLOEXEC);
    char page[PAGE];
    for (int i = 0; i < PAGES; i++) {
        memset(page, 'a' + i, sizeof(page));
        assert_int_equal(write(fd, page, sizeof(page)), PAGE);
    }
    return fd;
}

static void truncated_at_every_page(void **state)
{
    (void)state;
    for (int cut = 0; cut <= PAGES; cut++) {
        int fd = file_new();
        struct sonde_guarded_map g;
        assert_int_equal(sonde_guarded_map_open(fd, PAGES * PAGE, &g, NULL), 0);
        assert_int_equal(ftruncate(fd, cut * PAGE), 0);
        close(fd);
        for (int i = 0; i < PAGES; i++) {
            char c = *(volatile const char *)(g.base + i * PAGE + 17);
            assert_int_equal(c, i < cut ? 'a' + i : 0);
        }
        assert_int_equal(sonde_guarded_map_damaged(&g), cut < PAGES);
        sonde_guarded_map_close(&g);
        assert_null(g.base);
        sonde_guarded_map_close(&g);
    }
}

static void mappings_are_apart(void **state)
{
    (void)state;
    int a = file_new(), b = file_new();
    struct sonde_guarded_map ga, gb;
    assert_int_equal(sonde_guarded_map_open(a, PAGES * PAGE, &ga, NULL), 0);
    assert_int_equal(sonde_guarded_map_open(b, PAGES * PAGE, &gb, NULL), 0);
    assert_int_equal(ftruncate(a, 0), 0);
    assert_int_equal(*(volatile const char *)ga.base, 0);
    assert_int_equal(*(volatile const char *)gb.base, 'a');
    assert_true(sonde_guarded_map_damaged(&ga));
    assert_false(sonde_guarded_map_damaged(&gb));
    sonde_guarded_map_close(&ga);
    sonde_guarded_map_close(&gb);
    close(a);
    close(b);
}

static void slots_run_out_and_come_back(void **state)
{
    (void)state;
    static struct sonde_guarded_map g[SONDE_GUARDED_MAPS_MAX + 1];
    int fd = file_new();
    struct sonde_err err;
    for (int i = 0; i < SONDE_GUARDED_MAPS_MAX; i++) {
        assert_int_equal(sonde_guarded_map_open(fd, PAGE, &g[i], &err), 0);
    }
    assert_int_equal(sonde_guarded_map_open(fd, PAGE, &g[SONDE_GUARDED_MAPS_MAX], &err),
                     SONDE_EFULL);
    assert_non_null(strstr(err.text, "4096"));
    sonde_guarded_map_close(&g[77]);
    assert_int_equal(sonde_guarded_map_open(fd, PAGE, &g[77], &err), 0);
    for (int i = 0; i < SONDE_GUARDED_MAPS_MAX; i++) sonde_guarded_map_close(&g[i]);
    close(fd);
}

static void exit_7(int number)
{
    (void)number;
    _exit(7);
}

/* A SIGBUS of somebody else's mapping goes to the handler there was, or kills. */
static void child_foreign_fault(int with_handler)
{
    struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGBUS, with_handler ? exit_7 : SIG_DFL);
    int fd = file_new();
    struct sonde_guarded_map g;
    if (sonde_guarded_map_open(fd, PAGES * PAGE, &g, NULL) != 0) _exit(1);
    const char *foreign = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (ftruncate(fd, 0) != 0) _exit(2);
    char c = *(volatile const char *)foreign;
    _exit(c == 0 ? 3 : 4);
}

static void others_are_passed_on(void **state)
{
    (void)state;
    for (int with_handler = 0; with_handler <= 1; with_handler++) {
        pid_t pid = fork();
        if (pid == 0) child_foreign_fault(with_handler);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (with_handler) assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        else assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(others_are_passed_on), /* first: children install their own handler */
        cmocka_unit_test(truncated_at_every_page),
        cmocka_unit_test(mappings_are_apart),
        cmocka_unit_test(slots_run_out_and_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
