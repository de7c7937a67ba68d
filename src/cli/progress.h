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
    char text[128];          /* what is done, made visible */
};

/* doing: "reading"; what: a file or address; "-" is the standard input. Nothing else may be written
 * to the terminal until the end. */
void sonde_progress_begin(struct sonde_progress *p, const struct sonde_cli *cli, const char *doing,
                          const char *what);
void sonde_progress_end(struct sonde_progress *p);

#endif
