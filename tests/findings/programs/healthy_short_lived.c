/* healthy_short_lived.c - starts short processes, as a shell script does. */
#include <spawn.h>
#include <sys/wait.h>

#include "bench.h"

extern char **environ;

int main(int argc, char **argv)
{
    struct bench b;
    bench_options(&b, argc, argv);
    const unsigned pause_us = bench_between(&b.random, 30000, 90000);
    while (bench_running(&b)) {
        char *const command[] = { "/bin/true", NULL };
        pid_t child;
        int status;
        if (posix_spawn(&child, command[0], NULL, NULL, command, environ)) bench_fail(command[0]);
        waitpid(child, &status, 0);
        bench_sleep_us(pause_us);
    }
    return 0;
}
