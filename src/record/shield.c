/* shield.c - stretches of code that their own thread cannot be torn out of.
 *
 * Who holds one of our locks must come to its end: a signal handler that leaves by longjmp, or
 * pthread_cancel, would leave the lock held and half an entry behind it. So while a lock is held
 * signals wait, and cancellation is off (opening calls open, read and others that act on it).
 * Two system calls a definition; no path that records comes here once its thread has a lane.
 *
 * Signals that the thread itself brings about are let through: blocked they would kill the
 * process, and sandboxes answer system calls by SIGSYS. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "record/call.h"
#include "record/state.h"

#define BIT(signal) (1ull << ((signal) - 1))
#define SYNCHRONOUS                                                                            \
    (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGSYS))

/* The kernel's call: libc's leaves out the signal that pthread_cancel sends. */
static void shield_mask(int how, const uint64_t *set, uint64_t *old)
{
    sonde__call(SYS_rt_sigprocmask, how, SONDE__WORD(set), SONDE__WORD(old), sizeof(*set), 0);
}

void sonde__shield_up(struct sonde__shield *s)
{
    const uint64_t all = ~SYNCHRONOUS;
    s->signals = 0;
    shield_mask(SIG_BLOCK, &all, &s->signals);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &s->cancel);
}

void sonde__shield_down(const struct sonde__shield *s)
{
    const struct sonde__shield before = *s; /* s may be another's once signals are let in */
    pthread_setcancelstate(before.cancel, NULL);
    shield_mask(SIG_SETMASK, &before.signals, NULL);
}
