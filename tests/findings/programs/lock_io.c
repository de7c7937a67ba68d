/* lock_io.c - request threads write an audit line under a mutex, and the line is synced to the disk
 * before the mutex is released: all of them wait for one disk write after the other. */
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "bench.h"

enum { THREADS_MAX = 12 };

static struct bench b;
static pthread_mutex_t audit_lock = PTHREAD_MUTEX_INITIALIZER;
static int audit_file;
static unsigned line_bytes, own_rounds;

BENCH_NOINLINE static uint64_t request_serve(uint64_t request)
{
    for (unsigned i = 0; i < own_rounds; i++) request = bench_random(&request);
    return request;
}

BENCH_NOINLINE static void audit_append(uint64_t what)
{
    char line[8192];
    memset(line, 'a' + (int)(what % 26), line_bytes);
    pthread_mutex_lock(&audit_lock); /* PLANTED: held during fdatasync */
    if (write(audit_file, line, line_bytes) < 0 || fdatasync(audit_file)) bench_fail("audit");
    pthread_mutex_unlock(&audit_lock);
}

static void *server(void *arg)
{
    uint64_t random = (uint64_t)(uintptr_t)arg;
    while (bench_running(&b)) audit_append(request_serve(bench_random(&random)));
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    char path[4096];
    bench_options(&b, argc, argv);
    snprintf(path, sizeof(path), "%s/audit.log", b.dir);
    audit_file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (audit_file < 0) bench_fail(path);
    const unsigned count = bench_between(&b.random, 6, THREADS_MAX);
    line_bytes = bench_between(&b.random, 200, 8000);
    own_rounds = bench_between(&b.random, 2000, 10000);
    for (unsigned i = 0; i < count; i++) {
        if (pthread_create(&threads[i], NULL, server, (void *)(uintptr_t)bench_random(&b.random))) {
            return 1;
        }
    }
    for (unsigned i = 0; i < count; i++) pthread_join(threads[i], NULL);
    return 0;
}
