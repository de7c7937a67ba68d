/* child.h - each case in a process of its own: libsonde opens once a process, and what is tested
 * here is how. The parent must never record. */
#ifndef SONDE_TESTS_CHILD_H
#define SONDE_TESTS_CHILD_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* assert_* of cmocka longjmps into the parent's test; a child says where and goes. */
#define NEED(x)                                                                                \
    do {                                                                                       \
        if (!(x)) {                                                                            \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);                            \
            _exit(1);                                                                          \
        }                                                                                      \
    } while (0)

#define NEED_EQ(a, b)                                                                          \
    do {                                                                                       \
        const unsigned long long need_a = (unsigned long long)(a);                             \
        const unsigned long long need_b = (unsigned long long)(b);                             \
        if (need_a != need_b) {                                                                \
            fprintf(stderr, "%s:%d: %s is %llu, not %s = %llu\n", __FILE__, __LINE__, #a,      \
                    need_a, #b, need_b);                                                       \
            _exit(1);                                                                          \
        }                                                                                      \
    } while (0)

#define CHILD_SKIPPED 77 /* exit code: the machine does not allow this case */

/* The wait status of fn run in a child. The alarm is for a child that hangs: it must not hang
 * the test with it. */
static inline int child_status(void (*fn)(void))
{
    int status = -1;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        static const int crashes[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS };
        for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++) {
            signal(crashes[i], SIG_DFL); /* cmocka's handlers would exit instead */
        }
        alarm(120);
        fn();
        _exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    return status;
}

#define CHILD_TEST(name)                                                                       \
    static void name##_in_child(void);                                                         \
    static void name(void **state)                                                             \
    {                                                                                          \
        (void)state;                                                                           \
        const int status = child_status(name##_in_child);                                      \
        if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIPPED) skip();                 \
        assert_int_equal(status, 0);                                                           \
    }                                                                                          \
    static void name##_in_child(void)

#endif
