/* worker.h - a thread that is started when there first is something to do, and stopped once. Who
 * has it also has the lock of all here, and a condition that its thread waits for. */
#ifndef SONDE_SERVE_WORKER_H
#define SONDE_SERVE_WORKER_H

#include <pthread.h>

struct sonde_worker {
    int started, stopping;
    pthread_t thread;
};

/* Lock held. 0, also if it runs already, or SONDE_ENOMEM. name: of the thread, 15 characters. */
int sonde_worker_start(struct sonde_worker *w, const char *name, void *(*work)(void *), void *arg);

/* Sets stopping, and has returned when the thread has. May be called twice. */
void sonde_worker_stop(struct sonde_worker *w, pthread_mutex_t *lock, pthread_cond_t *wake);

#endif
