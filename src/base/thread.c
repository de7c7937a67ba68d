#include "base/thread.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

#include "base/array.h"
#include "sonde/sonde.h"

/* A new thread has the mask of the one that makes it. */
static int create_thread(pthread_t *id, const char *name, void *(*run)(void *), void *arg,
                         struct sonde_err *err)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };
    sigset_t most, before;
    assert(run && strlen(name) <= SONDE_THREAD_NAME_MAX);
    sigfillset(&most);
    for (size_t i = 0; i < SONDE_COUNT(own); i++) sigdelset(&most, own[i]);
    pthread_sigmask(SIG_BLOCK, &most, &before);
    const int failure = pthread_create(id, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failure) {
        return sonde_err_set(err, SONDE_ENOMEM, "cannot start the thread %s: %s", name,
                             strerror(failure));
    }
    pthread_setname_np(*id, name); /* also of one that has ended, as long as it can be joined */
    return 0;
}

int sonde_thread_start(struct sonde_thread *t, const char *name, void *(*run)(void *), void *arg,
                       struct sonde_err *err)
{
    assert(!t->started);
    pthread_t id;
    const int rc = create_thread(&id, name, run, arg, err);
    if (!rc) *t = (struct sonde_thread){ .id = id, .started = 1 };
    return rc;
}

void sonde_thread_join(struct sonde_thread *t)
{
    assert(!t->started || !pthread_equal(t->id, pthread_self()));
    if (t->started) pthread_join(t->id, NULL);
    t->started = 0;
}

int sonde_thread_start_detached(const char *name, void *(*run)(void *), void *arg,
                                struct sonde_err *err)
{
    pthread_t id;
    const int rc = create_thread(&id, name, run, arg, err);
    if (!rc) pthread_detach(id);
    return rc;
}

/* ---- Workers --------------------------------------------------------------------------------- */

int sonde_worker_start(struct sonde_worker *w, const char *name, void *(*work)(void *), void *arg)
{
    return w->thread.started ? 0 : sonde_thread_start(&w->thread, name, work, arg, NULL);
}

void sonde_worker_stop(struct sonde_worker *w, struct sonde_lock *lock, struct sonde_cond *wake)
{
    sonde_assert_not_held(lock); /* the thread may need it to end */
    sonde_lock(lock);
    struct sonde_thread thread = w->thread;
    w->stopping = 1;
    w->thread.started = 0;
    sonde_cond_broadcast(wake);
    sonde_unlock(lock);
    sonde_thread_join(&thread);
}
