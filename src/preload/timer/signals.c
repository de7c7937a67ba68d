/* signals.c - the signal is ours until the program wants it.
 *
 * Seen from the program the signal has its default action and is never there: asking for its
 * action says so, waiting for it does not find it, and if somebody else sends it, it ends the
 * program. Installing a handler for it, or ignoring it, takes it away from us for good. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/preload.h"
#include "preload/sandbox.h"
#include "preload/timer/timer.h"

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

#define STACK_NEED 3072u  /* of an alternate signal stack, beside what the kernel puts there */

static const int candidates[] = { SIGSTKFLT, SIGPROF };
static const int synchronous[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

/* ---- Ours ----------------------------------------------------------------------------------- */

int sonde__signal_install(void)
{
    struct sigaction ours, found;
    memset(&ours, 0, sizeof(ours));
    ours.sa_sigaction = sonde__timer_handler;
    ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
    /* All, also the one of pthread_cancel, which sigfillset leaves out: it could tear the thread
     * out of the handler. But for those that the thread itself brings about: sandboxes answer
     * system calls by SIGSYS. */
    memset(&ours.sa_mask, 0xff, sizeof(ours.sa_mask));
    for (size_t i = 0; i < sizeof(synchronous) / sizeof(synchronous[0]); i++) {
        sigdelset(&ours.sa_mask, synchronous[i]);
    }
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]); i++) {
        const int number = candidates[i];
        if (SONDE__REAL(sigaction)(number, NULL, &found)) continue;
        const int again = found.sa_flags & SA_SIGINFO && found.sa_sigaction == sonde__timer_handler;
        if (!again && found.sa_handler != SIG_DFL) continue;
        if (SONDE__REAL(sigaction)(number, &ours, NULL)) continue;
        sonde__timer.signal = number;
        return 0;
    }
    return -1;
}

int sonde__signal_block(int block)
{
    uint64_t set = 1ull << (sonde__timer.signal - 1), old = 0;
    const int saved = errno;
    syscall(SYS_rt_sigprocmask, block ? SIG_BLOCK : SIG_UNBLOCK, &set, &old, sizeof(set));
    errno = saved;
    return (old & set) != 0;
}

static void set_simple(int number, void (*handler)(int))
{
    struct sigaction simple_action;
    memset(&simple_action, 0, sizeof(simple_action));
    simple_action.sa_handler = handler;
    SONDE__REAL(sigaction)(number, &simple_action, NULL);
}

void sonde__signal_release(void) { set_simple(sonde__timer.signal, SIG_DFL); }

void sonde__signal_foreign(int number)
{
    set_simple(number, SIG_DFL);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number); /* blocked until we return */
}

static int signal_is_ours(int number)
{
    return number == sonde__timer.signal && number != 0 && sonde__timer_running();
}

/* Timers first, so that nothing new comes; then what is pending in any thread is dropped by
 * ignoring the signal for a moment. Nobody can miss it: until now it ended the program. */
static void give_way(int number)
{
    const int saved = errno;
    sonde__timer_stop(SONDE__SAMPLER_GAVE_WAY);
    set_simple(number, SIG_IGN);
    set_simple(number, SIG_DFL);
    errno = saved;
}

/* ---- Interposed: actions -------------------------------------------------------------------- */

#define EXPORT __attribute__((visibility("default")))

static int signal_action(int number, const struct sigaction *set, struct sigaction *old)
{
    if (!signal_is_ours(number)) return SONDE__REAL(sigaction)(number, set, old);
    if (set && (set->sa_flags & SA_SIGINFO || set->sa_handler != SIG_DFL)) {
        give_way(number);
        return SONDE__REAL(sigaction)(number, set, old);
    }
    if (old) memset(old, 0, sizeof(*old)); /* SIG_DFL */
    return 0;
}

EXPORT int sigaction(int number, const struct sigaction *set, struct sigaction *old)
{
    return signal_action(number, set, old);
}

int __sigaction(int number, const struct sigaction *set, struct sigaction *old);
EXPORT int __sigaction(int number, const struct sigaction *set, struct sigaction *old)
{
    return signal_action(number, set, old);
}

typedef void handler_fn(int);
typedef handler_fn *signal_fn(int, handler_fn *);

static handler_fn *signal_simple(signal_fn *real, int number, handler_fn *handler)
{
    if (signal_is_ours(number)) {
        if (handler == SIG_DFL) return SIG_DFL;
        if (handler != SIG_ERR) give_way(number);
    }
    return real(number, handler);
}

#define SIMPLE(name)                                                                           \
    handler_fn *name(int number, handler_fn *handler);                                         \
    EXPORT handler_fn *name(int number, handler_fn *handler)                                   \
    {                                                                                          \
        return signal_simple((signal_fn *)sonde__real(SONDE__REAL_##name), number, handler);   \
    }

SIMPLE(signal)
SIMPLE(ssignal)
SIMPLE(bsd_signal)
SIMPLE(sysv_signal)
SIMPLE(__sysv_signal)
SIMPLE(sigset)

int sigignore(int number);
EXPORT int sigignore(int number)
{
    if (signal_is_ours(number)) give_way(number);
    return ((int (*)(int))sonde__real(SONDE__REAL_sigignore))(number);
}

/* ---- Interposed: waiting -------------------------------------------------------------------- */

/* A thread that waits for all signals must not be told of ours. */
static const sigset_t *without_ours(const sigset_t *set, sigset_t *copy)
{
    if (!set || !signal_is_ours(sonde__timer.signal)) return set;
    *copy = *set;
    sigdelset(copy, sonde__timer.signal);
    return copy;
}

EXPORT int sigwait(const sigset_t *set, int *number)
{
    sigset_t copy;
    return SONDE__REAL(sigwait)(without_ours(set, &copy), number);
}

EXPORT int sigwaitinfo(const sigset_t *set, siginfo_t *info)
{
    sigset_t copy;
    return SONDE__REAL(sigwaitinfo)(without_ours(set, &copy), info);
}

EXPORT int sigtimedwait(const sigset_t *set, siginfo_t *info, const struct timespec *timeout)
{
    sigset_t copy;
    return SONDE__REAL(sigtimedwait)(without_ours(set, &copy), info, timeout);
}

EXPORT int signalfd(int fd, const sigset_t *set, int flags)
{
    sigset_t copy;
    return SONDE__REAL(signalfd)(fd, without_ours(set, &copy), flags);
}

/* What waits for these, too, is not there. */
EXPORT int sigpending(sigset_t *set)
{
    const int rc = SONDE__REAL(sigpending)(set);
    if (!rc && signal_is_ours(sonde__timer.signal)) sigdelset(set, sonde__timer.signal);
    return rc;
}

/* ---- Interposed: waiting with another mask --------------------------------------------------- */

/* A program that blocks all signals while it computes, and lets them in where it waits, would find
 * that it was interrupted whenever ours had become due before: these calls are not begun again. So
 * ours stays out. One that is due comes now. */
static const sigset_t *with_ours(const sigset_t *set, sigset_t *copy)
{
    const int saved = errno;
    uint64_t pending = 0;
    if (!set || !signal_is_ours(sonde__timer.signal)) return set;
    syscall(SYS_rt_sigpending, &pending, sizeof(pending));
    if (pending >> (sonde__timer.signal - 1) & 1 && sonde__signal_block(0)) sonde__signal_block(1);
    errno = saved;
    *copy = *set;
    sigaddset(copy, sonde__timer.signal);
    return copy;
}

EXPORT int sigsuspend(const sigset_t *mask)
{
    sigset_t copy;
    return SONDE__REAL(sigsuspend)(with_ours(mask, &copy));
}

EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    sigset_t copy;
    return SONDE__REAL(ppoll)(fds, count, timeout, with_ours(mask, &copy));
}

EXPORT int pselect(int count, fd_set *in, fd_set *out, fd_set *except,
                   const struct timespec *timeout, const sigset_t *mask)
{
    sigset_t copy;
    return SONDE__REAL(pselect)(count, in, out, except, timeout, with_ours(mask, &copy));
}

EXPORT int epoll_pwait(int fd, struct epoll_event *events, int count, int timeout,
                       const sigset_t *mask)
{
    sigset_t copy;
    return SONDE__REAL(epoll_pwait)(fd, events, count, timeout, with_ours(mask, &copy));
}

EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int count,
                        const struct timespec *timeout, const sigset_t *mask)
{
    sigset_t copy;
    return SONDE__REAL(epoll_pwait2)(fd, events, count, timeout, with_ours(mask, &copy));
}

/* ---- Interposed: stacks --------------------------------------------------------------------- */

static int too_small(const stack_t *s)
{
    const uint64_t kernel = getauxval(AT_MINSIGSTKSZ);
    return !(s->ss_flags & SS_DISABLE) && s->ss_size < (kernel ? kernel : 2048) + STACK_NEED;
}

int sonde__stack_fits(void)
{
    stack_t now;
    return SONDE__REAL(sigaltstack)(NULL, &now) || !too_small(&now);
}

/* What is blocked and pending would still come, on that stack. */
static void drop_pending(void)
{
    const uint64_t set = 1ull << (sonde__timer.signal - 1);
    const struct timespec now = { 0, 0 };
    syscall(SYS_rt_sigtimedwait, &set, NULL, &now, sizeof(set));
}

EXPORT int sigaltstack(const stack_t *set, stack_t *old)
{
    struct sonde__thread *t = sonde__thread_self;
    const int saved = errno;
    const int small = set && t && sonde__timer_running() && too_small(set);
    if (small && !t->small_stack) {
        sonde__thread_disarm(t);
        drop_pending();
        errno = saved;
    }
    const int rc = SONDE__REAL(sigaltstack)(set, old);
    if (!t || !set || !sonde__timer_running()) return rc;
    const int fits_now = rc ? !t->small_stack : !small;
    if (fits_now && !__atomic_load_n(&t->armed, __ATOMIC_RELAXED)) {
        sonde__thread_arm(t);
    } else if (!fits_now && !t->small_stack) {
        __atomic_fetch_add(&sonde__timer.area->threads_skipped, 1, __ATOMIC_RELAXED);
    }
    t->small_stack = !fits_now;
    if (!rc) errno = saved;
    return rc;
}

/* ---- Interposed: sandboxes ------------------------------------------------------------------- */

EXPORT int prctl(int option, ...)
{
    unsigned long arg[4];
    va_list ap;
    va_start(ap, option);
    for (int i = 0; i < 4; i++) arg[i] = va_arg(ap, unsigned long); /* not given: not looked at */
    va_end(ap);
    if (option == PR_SET_SECCOMP) sonde__sandbox_look(arg[0], (const void *)(uintptr_t)arg[1]);
    return SONDE__REAL(prctl)(option, arg[0], arg[1], arg[2], arg[3]);
}
