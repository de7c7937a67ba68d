/* A thread that is started once, however often it is asked for, and gone when it was stopped. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "serve/worker.h"

static struct {
    struct sonde_worker worker;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int runs, ended;
} job = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

static void *work(void *arg)
{
    assert_ptr_equal(arg, &job);
    pthread_mutex_lock(&job.lock);
    job.runs++;
    while (!job.worker.stopping) pthread_cond_wait(&job.wake, &job.lock);
    job.ended++;
    pthread_mutex_unlock(&job.lock);
    return NULL;
}

static void workers(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) { /* the second and third find it running */
        pthread_mutex_lock(&job.lock);
        assert_int_equal(sonde_worker_start(&job.worker, "test worker", work, &job), 0);
        pthread_mutex_unlock(&job.lock);
    }
    sonde_worker_stop(&job.worker, &job.lock, &job.wake);
    assert_int_equal(job.runs, 1);
    assert_int_equal(job.ended, 1); /* when it has returned the thread has */
    sonde_worker_stop(&job.worker, &job.lock, &job.wake);
    memset(&job.worker, 0, sizeof(job.worker));
    sonde_worker_stop(&job.worker, &job.lock, &job.wake); /* never started */
    assert_int_equal(job.worker.stopping, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(workers) };
    return cmocka_run_group_tests_name("worker", tests, NULL, NULL);
}
