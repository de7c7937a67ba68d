/* Classic BPF as seccomp runs it: what a filter says about a call. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cmocka.h>

#include "preload/sandbox_filter.c" /* part of no library that tests are linked with */

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(v) BPF_STMT(BPF_RET | BPF_K, (v))
#define COUNT(a) ((unsigned)(sizeof(a) / sizeof((a)[0])))
#define KILL SECCOMP_RET_KILL_PROCESS
#define ALLOW SECCOMP_RET_ALLOW

static unsigned run(const struct sock_filter *code, unsigned len, int nr, uint64_t arg0)
{
    struct seccomp_data data = { .nr = nr, .arch = AUDIT_ARCH_X86_64 };
    data.args[0] = arg0;
    return sonde__filter_run(code, len, &data);
}

static void lists(void **state)
{
    (void)state;
    const struct sock_filter list[] = {
        LOAD(arch), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0), RETURN(KILL),
        LOAD(nr),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 400, 0, 1), RETURN(SECCOMP_RET_ERRNO | ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 1, 0), RETURN(KILL),
        LOAD(args[0]), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_GET_NAME, 0, 1), RETURN(ALLOW),
        RETURN(SECCOMP_RET_TRAP),
    };
    assert_int_equal(run(list, COUNT(list), SYS_read, 0), KILL);
    assert_int_equal(run(list, COUNT(list), 401, 0), SECCOMP_RET_ERRNO | ENOSYS);
    assert_int_equal(run(list, COUNT(list), SYS_prctl, PR_GET_NAME), ALLOW);
    assert_int_equal(run(list, COUNT(list), SYS_prctl, PR_SET_NAME), SECCOMP_RET_TRAP);
}

static void instructions(void **state)
{
    (void)state;
    static const struct { const char *what; struct sock_filter code; uint32_t a; } cases[] = {
        { "add", BPF_STMT(BPF_ALU | BPF_ADD | BPF_K, 3), 13 },
        { "subtract", BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 11), UINT32_MAX },
        { "multiply", BPF_STMT(BPF_ALU | BPF_MUL | BPF_X, 0), 40 },
        { "divide", BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), 2 },
        { "and", BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 2), 2 },
        { "or", BPF_STMT(BPF_ALU | BPF_OR | BPF_K, 5), 15 },
        { "exclusive or", BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 10), 0 },
        { "left", BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 2), 40 },
        { "right", BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, 1), 5 },
        { "negate", BPF_STMT(BPF_ALU | BPF_NEG, 0), (uint32_t)-10 },
        { "from memory", BPF_STMT(BPF_LD | BPF_MEM, 7), 10 },
        { "never written", BPF_STMT(BPF_LD | BPF_MEM, 8), 0 },
        { "length", BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), sizeof(struct seccomp_data) },
        { "x to a", BPF_STMT(BPF_MISC | BPF_TXA, 0), 4 },
        { "divided by zero", BPF_STMT(BPF_ALU | BPF_DIV | BPF_K, 0), KILL },
        { "behind the call", BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), KILL },
        { "not aligned", BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 2), KILL },
        { "no such memory", BPF_STMT(BPF_LD | BPF_MEM, 16), KILL },
        { "beyond the end", BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX), KILL },
        { "a packet's", BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0), KILL },
    };
    for (unsigned i = 0; i < COUNT(cases); i++) {
        const struct sock_filter code[] = { /* a = 10, x = 4, memory[7] = 10 */
            BPF_STMT(BPF_LD | BPF_IMM, 10), BPF_STMT(BPF_ST, 7), BPF_STMT(BPF_LDX | BPF_IMM, 4),
            cases[i].code, BPF_STMT(BPF_RET | BPF_A, 0),
        };
        const unsigned got = run(code, COUNT(code), 0, 0);
        if (got != cases[i].a) fail_msg("%s: %u instead of %u", cases[i].what, got, cases[i].a);
    }
    const struct sock_filter none[] = { BPF_STMT(BPF_LD | BPF_IMM, 10) };
    assert_int_equal(run(none, 1, 0, 0), KILL);
    assert_int_equal(run(none, 0, 0, 0), KILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(lists), cmocka_unit_test(instructions) };
    return cmocka_run_group_tests_name("sandbox", tests, NULL, NULL);
}
