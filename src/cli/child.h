/* child.h - start a command that notices nothing of us, pass signals on to it, and end as it
 * ended. For commands that run another one in front of the user's eyes. */
#ifndef SONDE_CLI_CHILD_H
#define SONDE_CLI_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "base/err.h"

struct sonde_child {
    pid_t pid;           /* 0 = ended and reaped */
    int go_fd;           /* we write one byte: exec now; closed: do not */
    int exec_fd;         /* the child writes the errno of a failed exec; closed by exec */
    sigset_t found_mask; /* as we found it when we were started */
};

/* Fork a child that waits. From here on the signals that are passed on are blocked in the
 * caller, also in threads it starts later; call it before starting any. dir: SONDE_DIR of the
 * child; NULL = leave the environment alone. */
int sonde_child_fork(struct sonde_child *c, char **argv, const char *dir, struct sonde_err *err);

/* Let the child exec its command. 0, or the errno that exec failed with: then it is gone. */
int sonde_child_exec(struct sonde_child *c);

/* End the waiting child without running the command. */
void sonde_child_cancel(struct sonde_child *c);

/* Until the child has ended, pass signals on; returns its status as of waitpid(2). */
int sonde_child_wait(struct sonde_child *c);

/* Stay for seconds or until SIGINT, SIGTERM, SIGHUP or SIGQUIT. For after the child's end. */
void sonde_child_linger(double seconds);

/* 127 or 126, as a shell would say it. */
int sonde_child_exec_status(int exec_errno);

/* The exit status to return for status; if the child died by a signal, so do we, without a core
 * file of our own. */
int sonde_child_end(int status);

#endif
