/* signals.c - counts signals: prints "ready", then "<name>" for each SIGINT, SIGTERM, SIGHUP,
 * SIGUSR1, SIGUSR2, SIGQUIT, SIGWINCH and SIGCONT as it comes; ends after SIGUSR2, or when
 * nothing came for 10 seconds. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int main(void)
{
    static const int sigs[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGQUIT, SIGWINCH,
                                SIGCONT };
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(sigs) / sizeof(sigs[0]); i++) sigaddset(&set, sigs[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    printf("ready\n");
    fflush(stdout);
    for (;;) {
        const struct timespec t = { .tv_sec = 10 };
        const int sig = sigtimedwait(&set, NULL, &t);
        if (sig < 0) return 1;
        printf("%s\n", sigabbrev_np(sig));
        fflush(stdout);
        if (sig == SIGUSR2) return 0;
    }
}
