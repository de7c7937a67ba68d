/* call.h - system calls past libc.
 *
 * open, read and others of libc are cancellation points, and a thread that is cancelled in the
 * middle of ours would keep a lock; so some are made directly. Not by libc's syscall(): a program
 * that has libsonde.a in it would then refer to that name whether it uses it itself or not, and
 * that is how sandbox.c tells programs that may have given up system calls. */
#ifndef SONDE_RECORD_CALL_H
#define SONDE_RECORD_CALL_H

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>

#define SONDE__WORD(pointer) ((long)(intptr_t)(pointer))

/* The result, or -1 with errno set. */
static inline long sonde__call(long number, long a, long b, long c, long d, long e)
{
#if defined(__x86_64__)
    long rc;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    __asm__ volatile("syscall" : "=a"(rc)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory");
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long rc __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    __asm__ volatile("svc 0" : "+r"(rc) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4) : "memory");
#else
#error "system calls of this machine are not known"
#endif
    if (rc < 0 && rc >= -4095) {
        errno = (int)-rc;
        return -1;
    }
    return rc;
}

static inline uint32_t sonde__gettid(void)
{
    return (uint32_t)sonde__call(SYS_gettid, 0, 0, 0, 0, 0);
}

#endif
