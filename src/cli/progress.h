/* progress.h - work that may take longer than a second says what it is and for how long it has been
 * at it: on a terminal, on one line that is gone when the work is done. Nothing is written to a
 * file or pipe, with -q, or with -v, whose log is on the same terminal. */
#ifndef SONDE_CLI_PROGRESS_H
#define SONDE_CLI_PROGRESS_H

#include "base/lock.h"
#include "base/thread.h"
#include "cli/cli.h"

struct sonde_progress {
    struct sonde_thread thread; /* started = there is one */
    struct sonde_lock lock;
    struct sonde_cond wake;
    int ended;               /* under lock */
    double since_s;
    double share;            /* under lock: done so far, 0 … 1; 0 = not known */
    char state[96];          /* under lock: what it is at, behind the text; "" = nothing */
    char text[128];          /* what is done, made visible */
};

/* doing: "reading"; what: a file or address; "-" is the standard input. Nothing else may be written
 * to the terminal until the end. */
void sonde_progress_begin(struct sonde_progress *p, const struct sonde_cli *cli, const char *doing,
                          const char *what);
/* How much is done: the time that is left is shown with it. share: 0 … 1, 0 = not known. state:
 * "run 7 of 30", NULL = as it was. Quick: may be called for every step. */
void sonde_progress_share(struct sonde_progress *p, double share, const char *state);
/* The same, as what runs for long calls it: arg is a struct sonde_progress. */
void sonde_progress_told(void *arg, double share, const char *state);
void sonde_progress_end(struct sonde_progress *p);

#endif
