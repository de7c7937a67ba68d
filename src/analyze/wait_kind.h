/* wait_kind.h - what a thread waited for, from the stack it was switched out with.
 *
 * The innermost frame that is known decides: pthread_mutex_lock is a lock, fsync is I/O. Calls that
 * several things end in (futex, syscall) only count where nothing further out says more. A thread
 * that blocks in plain code, in no call of the system, has touched a page that was not there.
 *
 * Python's interpreter waits with a condition for its lock, the GIL, and for nothing else: its own
 * locks are semaphores. So a condition that the interpreter itself waits for is the GIL, also where
 * it is stripped and take_gil has no name. Its functions are not who waits: that is the function of
 * Python, where those are known.
 *
 * A read of a pipe or a socket looks like one of a file unless frames of the kernel were recorded
 * (`sonde record --kernel`): then those decide. */
#ifndef SONDE_ANALYZE_WAIT_KIND_H
#define SONDE_ANALYZE_WAIT_KIND_H

#include "profile/profile.h"

/* Names are in JSON: append only. */
#define SONDE_WAIT_KINDS(X)                                                                    \
    X(OTHER, "blocked", "blocked, for a reason that is not known")                             \
    X(LOCK, "lock", "waiting for a lock")                                                      \
    X(THREAD, "thread", "waiting for another thread")                                          \
    X(IO, "io", "reading or writing files and pipes")                                          \
    X(NETWORK, "network", "waiting for the network")                                           \
    X(SLEEP, "sleep", "sleeping")                                                              \
    X(PAGE_FAULT, "page_fault", "waiting for a page of memory")                                \
    X(PROCESS, "process", "waiting for another process to end")                                \
    X(GIL, "gil", "waiting for Python's interpreter lock (GIL)")

enum sonde_wait_kind {
#define SONDE__X(id, name, title) SONDE_WAIT_##id,
    SONDE_WAIT_KINDS(SONDE__X)
#undef SONDE__X
    SONDE_WAIT_KIND_COUNT
};

const char *sonde_wait_kind_name(enum sonde_wait_kind k);  /* "lock" */
const char *sonde_wait_kind_title(enum sonde_wait_kind k); /* "waiting for a lock" */

struct sonde_wait {
    enum sonde_wait_kind kind;
    uint32_t call;         /* function that waits: pthread_mutex_lock; 0 = none is known */
    uint32_t caller;       /* innermost function of the program itself; 0 = not known … */
    uint32_t caller_line;  /* … and the line it calls from; 0 = not known */
};

/* Of a stack of p; 0 = none. */
struct sonde_wait sonde_wait_of(const struct sonde_profile *p, uint32_t stack);

#endif
