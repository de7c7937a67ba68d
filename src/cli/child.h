/* child.h - start a command that notices nothing of us, pass signals on to it, and end as it
 * ended. For commands that run another one in front of the user's eyes. */
#ifndef SONDE_CLI_CHILD_H
#define SONDE_CLI_CHILD_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

enum { SONDE_CHILD_ENV_MAX = 8192 }; /* bytes; less than a pipe holds */

struct sonde_child {
    pid_t pid;           /* 0 = ended and reaped */
    int go_fd;           /* we write the environment's size and itself: exec now; closed: do not */
    int exec_fd;         /* the child writes the errno of a failed exec; closed by exec */
    sigset_t found_mask; /* as we found it when we were started */
    uint64_t cpu_ns;     /* once it has ended: CPU time of it, */
    uint64_t children_cpu_ns; /* and of the processes that it waited for */
    uint64_t switches;   /* how often they all gave up the CPU, or lost it */
    /* Called while it is waited for: returns when to be called again, CLOCK_MONOTONIC. NULL =
     * never. */
    double (*look)(void *arg, double now_s);
    void *look_arg;
};

/* First thing: files that grow past RLIMIT_FSIZE are an error, EFBIG, and do not end us. The child
 * has the signal as we found it. */
void sonde_child_ignore_xfsz(void);

/* Fork a child that waits. From here on the signals that are passed on are blocked in the
 * caller, also in threads it starts later; call it before starting any. dir: SONDE_DIR of the
 * child; NULL = leave the environment alone. */
int sonde_child_fork(struct sonde_child *c, char **argv, const char *dir, struct sonde_err *err);

/* Let the child exec its command. env: "NAME=value" strings that are set in its environment, each
 * with its NUL, env_size bytes in all. 0, or the errno that exec failed with: then it is gone. */
int sonde_child_exec(struct sonde_child *c, const char *env, size_t env_size);

/* End the waiting child without running the command. */
void sonde_child_cancel(struct sonde_child *c);

/* Until the child has ended, pass signals on: 1, and its status as of waitpid(2). 0 when seconds
 * have gone by before; 0 seconds: however long it takes. */
int sonde_child_wait(struct sonde_child *c, double seconds, int *status);

/* Ask it to end (SIGTERM), and wait; what does not end within seconds is killed. 1, and its
 * status. */
int sonde_child_stop(struct sonde_child *c, double seconds, int *status);

/* Stay for seconds or until SIGINT, SIGTERM, SIGHUP or SIGQUIT. For after the child's end. */
void sonde_child_linger(double seconds);

/* 127 or 126, as a shell would say it. */
int sonde_child_exec_status(int exec_errno);

/* The exit status to return for status; if the child died by a signal, so do we, without a core
 * file of our own. */
int sonde_child_end(int status);

#endif
