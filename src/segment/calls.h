/* calls.h - system calls that libsonde_preload makes once a program runs: by the sampler's handler,
 * inside malloc, as threads come and go, and at the end. With arguments, as a seccomp filter may
 * look at them. Also change docs/sandbox.md. */
#ifndef SONDE_SEGMENT_CALLS_H
#define SONDE_SEGMENT_CALLS_H

/* Needs <sys/mman.h> and <sys/prctl.h> where the arguments are used. */
#define SONDE__CALLS(X)                                                                          \
    X(rt_sigprocmask, ~0ull, 0, 0, 8)                                                            \
    X(rt_sigreturn, 0)                                                                           \
    X(rt_sigtimedwait, 0)                                                                        \
    X(getpid, 0)                                                                                 \
    X(gettid, 0)                                                                                 \
    X(prctl, PR_GET_NAME)                                                                        \
    X(clock_gettime, 3)                                                                          \
    X(timer_create, 3)                                                                           \
    X(timer_settime, 0)                                                                          \
    X(timer_delete, 0)                                                                           \
    X(mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)        \
    X(munmap, 0)                                                                                 \
    X(mprotect, 0, 4096, PROT_READ | PROT_WRITE)                                                 \
    X(madvise, 0, 4096, 18)                                                                      \
    X(tgkill, 0)                                                                                 \
    X(sched_yield, 0)                                                                            \
    X(openat, 0)                                                                                 \
    X(read, 0)                                                                                   \
    X(close, 0)                                                                                  \
    X(newfstatat, 0)                                                                             \
    X(flock, 0)                                                                                  \
    X(unlinkat, 0)

#endif
