/* short_lived - threads or processes that each take a fraction of a millisecond of CPU time, one
 * after the other or some at a time.
 *
 *   short_lived (--threads | --forks) [--count N] [--us N] [--at-once N]
 *
 * Prints "cpu SECONDS", of itself and of its children, at the end. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long us = 300;

__attribute__((noinline)) static void work_shortly(void)
{
    struct timespec t;
    long ns = 0;
    while (ns < us * 1000) {
        for (volatile int i = 0; i < 2000; i++) { }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        ns = t.tv_sec * 1000000000l + t.tv_nsec;
    }
}

static void *thread(void *arg)
{
    work_shortly();
    return arg;
}

static double seconds_of(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

int main(int argc, char **argv)
{
    enum { AT_ONCE_MAX = 64 };
    int forks = 0, count = 6000, at_once = 1;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--forks")) forks = 1;
        else if (!strcmp(argv[i], "--threads")) forks = 0;
        else if (!strcmp(argv[i], "--count") && i + 1 < argc) count = atoi(argv[++i]);
        else if (!strcmp(argv[i], "--us") && i + 1 < argc) us = atol(argv[++i]);
        else if (!strcmp(argv[i], "--at-once") && i + 1 < argc) at_once = atoi(argv[++i]);
        else return 2;
    }
    if (at_once < 1 || at_once > AT_ONCE_MAX) return 2;
    for (int i = 0; i < count; i += at_once) {
        pthread_t threads[AT_ONCE_MAX];
        pid_t children[AT_ONCE_MAX];
        for (int k = 0; k < at_once; k++) {
            if (!forks && pthread_create(&threads[k], NULL, thread, NULL)) return 1;
            if (!forks) continue;
            children[k] = fork();
            if (children[k] < 0) return 1;
            if (!children[k]) {
                work_shortly();
                _exit(0);
            }
        }
        for (int k = 0; k < at_once; k++) {
            if (forks) waitpid(children[k], NULL, 0);
            else pthread_join(threads[k], NULL);
        }
    }
    printf("cpu %.3f\n", seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN));
    return 0;
}
