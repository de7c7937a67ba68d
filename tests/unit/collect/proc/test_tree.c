/* A process with all that descend from it, and what they used. */
#include <stdarg.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "collect/proc/tree.h"
#include "sonde/sonde.h"

static int has(const uint32_t *tree, uint32_t count, pid_t pid)
{
    for (uint32_t i = 0; i < count; i++) {
        if (tree[i] == (uint32_t)pid) return 1;
    }
    return 0;
}

static void test_tree(void **state)
{
    (void)state;
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            for (;;) pause();
        }
        if (write(ready[1], &grandchild, sizeof(grandchild)) < 0) _exit(1);
        for (;;) pause();
    }
    pid_t grandchild = 0;
    uint32_t *tree = NULL, count = 0;
    assert_int_equal(read(ready[0], &grandchild, sizeof(grandchild)), sizeof(grandchild));
    assert_int_equal(sonde_proc_tree((uint32_t)getpid(), &tree, &count), 0);
    assert_int_equal(tree[0], getpid());
    assert_true(has(tree, count, child) && has(tree, count, grandchild));
    assert_false(has(tree, count, getppid()));
    sonde__free(tree);
    assert_int_equal(sonde_proc_tree((uint32_t)grandchild, &tree, &count), 0);
    assert_int_equal(count, 1);
    sonde__free(tree);
    kill(grandchild, SIGKILL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(ready[0]);
    close(ready[1]);
}

/* Also of a process that has ended, until it is waited for. */
static void test_cpu(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        while (sonde_clock_s(CLOCK_PROCESS_CPUTIME_ID) < 0.1) {}
        _exit(0);
    }
    siginfo_t info;
    uint64_t own = 0, children = 1, before = 0;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(sonde_proc_cpu_ns((uint32_t)child, &own, &children), 0);
    assert_in_range(own, 50000000u, 2000000000u);
    assert_int_equal(children, 0);
    assert_int_equal(sonde_proc_cpu_ns((uint32_t)getpid(), &own, &before), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(sonde_proc_cpu_ns((uint32_t)getpid(), &own, &children), 0);
    assert_true(children >= before + 50000000u);
    assert_int_equal(sonde_proc_cpu_ns((uint32_t)child, &own, NULL), SONDE_ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_tree), cmocka_unit_test(test_cpu) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
