/* sandbox.c - see sandbox.h. */
#include "preload/sandbox.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "preload/heap/heap.h"
#include "preload/timer/timer.h"
#include "preload/walk/python_walk.h"
#include "preload/walk/walk.h"
#include "record/state.h"
#include "segment/calls.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#define FILTER_MAX 4096u     /* instructions: BPF_MAXINSNS */

static const struct { int number; uint64_t arg[4]; } calls[] = {
#define SONDE__X(name, ...) { SYS_##name, { __VA_ARGS__ } },
    SONDE__CALLS(SONDE__X)
#undef SONDE__X
};

/* Would the filter end the process, or the thread, for a call of ours? Reads no more than it says
 * it has. */
static int sandbox_kills(const struct sock_fprog *filter)
{
#ifdef ARCH
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct seccomp_data data;
        memset(&data, 0, sizeof(data));
        data.nr = calls[i].number;
        data.arch = ARCH;
        memcpy(data.args, calls[i].arg, sizeof(calls[i].arg));
        switch (sonde__filter_run(filter->filter, filter->len, &data) & SECCOMP_RET_ACTION_FULL) {
        case SECCOMP_RET_ALLOW: case SECCOMP_RET_LOG: case SECCOMP_RET_ERRNO: break;
        default: return 1; /* a signal, or somebody who has to answer and may not */
        }
    }
#else
    (void)filter;
#endif
    return 0;
}

static int is_readable(const void *p, uint64_t bytes)
{
    const uint64_t first = (uint64_t)(uintptr_t)p, last = first + bytes - 1;
    if (!p || last < first) return 0;
    for (uint64_t page = first & ~4095ull; page <= last; page += 4096) {
        if (!sonde__readable(page)) return 0;
    }
    return 1;
}

/* What needs calls ends while they are still allowed. Blocks that are known go on being forgotten
 * when they are freed; that needs none. */
static void fall_silent(void)
{
    sonde__timer_stop(SONDE__SAMPLER_SANDBOXED);
    sonde__heap_stop();
    __atomic_store_n(&sonde__heap_gate.closed, 1, __ATOMIC_RELAXED);
    sonde__silence();
}

/* The thread is left with read, write, exit and rt_sigreturn, and on x86 the kernel takes the
 * time-stamp counter from it too: reading any clock is a SIGSEGV. So not even what it frees is
 * looked at. */
static void strict_enter(void)
{
    sonde__heap_sandboxed();
    if (!sonde__g.silent) fall_silent();
    sonde__heap_thread_off();
}

static void filter_enter(const struct sock_fprog *filter)
{
    struct sock_fprog f;
    sonde__heap_sandboxed(); /* to begin takes more calls than are looked for here */
    if (!sonde__g.silent && is_readable(filter, sizeof(f))) {
        memcpy(&f, filter, sizeof(f));
        if (f.len && f.len <= FILTER_MAX && is_readable(f.filter, f.len * sizeof(*f.filter)) &&
            sandbox_kills(&f)) {
            fall_silent();
        }
    }
}

void sonde__sandbox_look(unsigned long mode, const void *filter)
{
    const int saved = errno;
    sonde__python_filtered();
    if (mode == SECCOMP_MODE_STRICT) strict_enter();
    if (mode == SECCOMP_MODE_FILTER) filter_enter(filter);
    errno = saved;
}

/* ---- Interposed: syscall --------------------------------------------------------------------- */

#define HIDDEN __attribute__((visibility("hidden"), used))

typedef long syscall_fn(long number, long a, long b, long c, long d, long e, long f);
HIDDEN syscall_fn *sonde__syscall_next; /* NULL before the constructor: the dynamic linker may be in
                                           the middle of something */

void sonde__sandbox_resolve(void)
{
    void *f = dlsym(RTLD_NEXT, "syscall");
    memcpy(&sonde__syscall_next, &f, sizeof(f));
    sonde__g.filters_seen = 1;
}

HIDDEN void sonde__syscall_look(long number, long a, long b, long c)
{
    const void *filter = (const void *)(uintptr_t)c;
    if (number == SYS_prctl && (int)a == PR_SET_SECCOMP) {
        sonde__sandbox_look((unsigned long)b, filter);
    } else if (number == SYS_seccomp && (unsigned)a == SECCOMP_SET_MODE_STRICT) {
        sonde__sandbox_look(SECCOMP_MODE_STRICT, NULL);
    } else if (number == SYS_seccomp && (unsigned)a == SECCOMP_SET_MODE_FILTER) {
        sonde__sandbox_look(SECCOMP_MODE_FILTER, filter);
    }
}

HIDDEN long sonde__syscall_failed(long rc)
{
    errno = (int)-rc;
    return -1;
}

/* There is no other function for seccomp(2). It ends in a jump, so that nobody finds a frame of
 * ours, and touches nothing of its caller's: the last argument is on the stack, if there is one,
 * and else something of the caller's is there, which a compiler would copy to itself. */
#if defined(__x86_64__)
_Static_assert(SYS_seccomp == 317 && SYS_prctl == 157, "as below");
__asm__(".text\n"
        ".globl syscall\n"
        ".type syscall, @function\n"
        "syscall:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    cmp $317, %rdi\n"
        "    je 2f\n"
        "    cmp $157, %rdi\n"
        "    je 2f\n"
        "1:  mov sonde__syscall_next(%rip), %rax\n"
        "    test %rax, %rax\n"
        "    je 3f\n"
        "    jmp *%rax\n"
        "2:  sub $56, %rsp\n"
        "    .cfi_adjust_cfa_offset 56\n"
        "    mov %rdi, (%rsp)\n"
        "    mov %rsi, 8(%rsp)\n"
        "    mov %rdx, 16(%rsp)\n"
        "    mov %rcx, 24(%rsp)\n"
        "    mov %r8, 32(%rsp)\n"
        "    mov %r9, 40(%rsp)\n"
        "    call sonde__syscall_look\n"
        "    mov (%rsp), %rdi\n"
        "    mov 8(%rsp), %rsi\n"
        "    mov 16(%rsp), %rdx\n"
        "    mov 24(%rsp), %rcx\n"
        "    mov 32(%rsp), %r8\n"
        "    mov 40(%rsp), %r9\n"
        "    add $56, %rsp\n"
        "    .cfi_adjust_cfa_offset -56\n"
        "    jmp 1b\n"
        "3:  mov %rdi, %rax\n" /* as libc's */
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %rcx, %rdx\n"
        "    mov %r8, %r10\n"
        "    mov %r9, %r8\n"
        "    mov 8(%rsp), %r9\n"
        "    syscall\n"
        "    cmp $-4095, %rax\n"
        "    jae 4f\n"
        "    ret\n"
        "4:  mov %rax, %rdi\n"
        "    jmp sonde__syscall_failed\n"
        "    .cfi_endproc\n"
        ".size syscall, . - syscall\n");
#elif defined(__aarch64__)
__attribute__((visibility("default"))) long sonde__syscall(long number, long a, long b, long c,
                                                           long d, long e, long f)
    __asm__("syscall");

long sonde__syscall(long number, long a, long b, long c, long d, long e, long f)
{
    if (number == SYS_seccomp || number == SYS_prctl) sonde__syscall_look(number, a, b, c);
    if (sonde__syscall_next) return sonde__syscall_next(number, a, b, c, d, e, f);
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0 < 0 && x0 >= -4095 ? sonde__syscall_failed(x0) : x0;
}
#endif
