/* progress.c - see progress.h. A thread of its own: the work has no place in it from where to tell,
 * and a timer's signal would interrupt what it waits for. */
#include "cli/progress.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/visible.h"

#define TICK_NS 1000000000u
#define CLEAR "\r\033[K"

/* Under the lock. */
static void progress_print(const struct sonde_progress *p)
{
    const double passed_s = floor(sonde_clock_s(CLOCK_MONOTONIC) - p->since_s);
    char left[64] = "";
    /* What is left is not known before some of it is done. */
    if (p->share > 0.02 && p->share <= 1) {
        snprintf(left, sizeof(left), ", %.0f %%, %.0f s left", floor(100 * p->share),
                 ceil(passed_s * (1 - p->share) / p->share));
    }
    dprintf(STDERR_FILENO, "\rsonde: %s%s%s, %.0f s%s\033[K", p->text, p->state[0] ? ": " : "",
            p->state, passed_s, left);
}

static void *progress_thread(void *arg)
{
    struct sonde_progress *p = arg;
    uint64_t next_ns = sonde_clock_ns(CLOCK_MONOTONIC) + TICK_NS;
    int told = 0;
    sonde_lock(&p->lock);
    while (!p->ended) {
        const struct timespec next = sonde_clock_timespec(next_ns);
        if (sonde_cond_timedwait(&p->wake, &p->lock, &next) == 0) continue;
        if (p->ended) break;
        progress_print(p);
        told = 1;
        next_ns += TICK_NS;
    }
    sonde_unlock(&p->lock);
    if (told) dprintf(STDERR_FILENO, CLEAR);
    return NULL;
}

void sonde_progress_begin(struct sonde_progress *p, const struct sonde_cli *cli, const char *doing,
                          const char *what)
{
    memset(p, 0, sizeof(*p));
    if (cli->quiet || cli->verbose || !isatty(STDERR_FILENO)) return;
    /* Of a long path its end, which differs. */
    const size_t len = strlen(what);
    const char *shown = !strcmp(what, "-") ? "the standard input"
                                           : len > 50 ? what + len - 49 : what;
    snprintf(p->text, sizeof(p->text), "%s %s%s", doing,
             shown == what || len == 1 ? "" : "...", shown);
    sonde_visible(p->text, strlen(p->text));
    p->since_s = sonde_clock_s(CLOCK_MONOTONIC);
    sonde_lock_init(&p->lock, SONDE_RANK_PROGRESS);
    sonde_cond_init(&p->wake);
    /* If it cannot be started, nothing is said. */
    sonde_thread_start(&p->thread, "sonde-progress", progress_thread, p, NULL);
}

void sonde_progress_share(struct sonde_progress *p, double share, const char *state)
{
    if (!p->thread.started) return;
    sonde_lock(&p->lock);
    p->share = share;
    if (state) {
        snprintf(p->state, sizeof(p->state), "%s", state);
        sonde_visible(p->state, strlen(p->state));
    }
    sonde_unlock(&p->lock);
}

void sonde_progress_told(void *arg, double share, const char *state)
{
    sonde_progress_share(arg, share, state);
}

void sonde_progress_end(struct sonde_progress *p)
{
    if (!p->thread.started) return;
    sonde_lock(&p->lock);
    p->ended = 1;
    sonde_cond_signal(&p->wake);
    sonde_unlock(&p->lock);
    sonde_thread_join(&p->thread);
    sonde_cond_destroy(&p->wake);
    sonde_lock_destroy(&p->lock);
}
