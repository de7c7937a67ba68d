/* lifetime END - a process that counts a little and ends as it is told:
 *   return, exit, _exit, abort, kill
 *   exec N      starts itself over N times without a fork, then returns
 *   exec-kill N the same, then kills itself
 *   fork        a child that records and exits normally, then returns
 *   wait        until its standard input is closed, then returns
 * Says its pid before it ends. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sonde/sonde.h"

static void start_over(char **argv)
{
    char left[16];
    const int n = atoi(argv[2]);
    if (n == 0) return;
    snprintf(left, sizeof(left), "%d", n - 1);
    execl("/proc/self/exe", argv[0], argv[1], left, (char *)NULL);
    perror("lifetime: exec");
    _exit(1);
}

int main(int argc, char **argv)
{
    const char *end = argc > 1 ? argv[1] : "return";
    sonde_counter_add(sonde_counter("lifetime_total", "x"), 1);
    if (argc > 2) {
        sonde_counter_add(sonde_counter("lifetime_left_total", "x"), (uint64_t)atoi(argv[2]));
    }
    if (!strncmp(end, "exec", 4) && argc > 2) start_over(argv);
    if (!strcmp(end, "fork")) {
        const pid_t pid = fork();
        sonde_counter_add(sonde_counter("lifetime_total", "x"), 1);
        if (pid == 0) exit(0);
        waitpid(pid, NULL, 0);
    }
    printf("%d\n", (int)getpid());
    fflush(stdout);
    if (!strcmp(end, "wait")) {
        while (getchar() != EOF) continue;
    }
    if (!strcmp(end, "exit")) exit(0);
    if (!strcmp(end, "_exit")) _exit(0);
    if (!strcmp(end, "abort")) abort();
    if (strstr(end, "kill")) raise(SIGKILL);
    return 0;
}
