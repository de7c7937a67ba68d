/* thread.h - threads of the agent: named, and without signals.
 *
 * Signals are for the thread that waits for them (main, or who has the terminal): all others have
 * them blocked from their first instruction on, so that none is interrupted, and a command that
 * ends by a signal does so in one place. Not blocked are those that the kernel raises for what the
 * thread itself did (SIGSEGV, SIGBUS …): blocked, they kill the process without asking a handler,
 * and one of SIGBUS is what keeps reading a truncated segment harmless. */
#ifndef SONDE_BASE_THREAD_H
#define SONDE_BASE_THREAD_H

#include <pthread.h>

#include "base/err.h"
#include "base/lock.h"

#define SONDE_THREAD_NAME_MAX 15 /* the kernel keeps as many */

struct sonde_thread {
    pthread_t id;
    int started; /* and not joined yet */
};

/* 0, or SONDE_ENOMEM with a sentence; *t is as it was then. name: what ps and top show, at most
 * SONDE_THREAD_NAME_MAX bytes, "sonde-" first. */
int sonde_thread_start(struct sonde_thread *t, const char *name, void *(*run)(void *), void *arg,
                       struct sonde_err *err);

/* Has returned when the thread has. Nothing if it was never started, or is joined already; so a
 * zeroed one may be joined. */
void sonde_thread_join(struct sonde_thread *t);

/* One that nobody waits for. */
int sonde_thread_start_detached(const char *name, void *(*run)(void *), void *arg,
                                struct sonde_err *err);

/* ---- Workers --------------------------------------------------------------------------------- */

/* A thread that is started when there first is something to do, and stopped once. Its owner also
 * has the lock of it, and a condition that it waits for. */
struct sonde_worker {
    int stopping;
    struct sonde_thread thread;
};

/* Under the owner's lock. 0, also if it runs already, or SONDE_ENOMEM. */
int sonde_worker_start(struct sonde_worker *w, const char *name, void *(*work)(void *), void *arg);

/* Sets stopping, and has returned when the thread has. May be called twice, without the lock. */
void sonde_worker_stop(struct sonde_worker *w, struct sonde_lock *lock, struct sonde_cond *wake);

#endif
