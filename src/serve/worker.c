/* worker.c - see worker.h. */
#include "serve/worker.h"

#include "sonde/sonde.h"

int sonde_worker_start(struct sonde_worker *w, const char *name, void *(*work)(void *), void *arg)
{
    if (w->started) return 0;
    if (pthread_create(&w->thread, NULL, work, arg) != 0) return SONDE_ENOMEM;
    pthread_setname_np(w->thread, name);
    w->started = 1;
    return 0;
}

void sonde_worker_stop(struct sonde_worker *w, pthread_mutex_t *lock, pthread_cond_t *wake)
{
    pthread_mutex_lock(lock);
    const int started = w->started;
    w->stopping = 1;
    w->started = 0;
    pthread_cond_broadcast(wake);
    pthread_mutex_unlock(lock);
    if (started) pthread_join(w->thread, NULL);
}
