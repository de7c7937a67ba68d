/* watch_private.h - what the files of a watch share. */
#ifndef SONDE_CLI_WATCH_PRIVATE_H
#define SONDE_CLI_WATCH_PRIVATE_H

#include "agent/agent.h"
#include "agent/rss_watch.h"
#include "cli/child.h"
#include "cli/unseen.h"
#include "cli/watch.h"
#include "serve/http/server.h"

struct watch {
    struct sonde_cli *cli;
    const struct sonde_watch_options *o;
    struct sonde_child child;
    uint32_t pid;
    const char *name;                  /* of the program, for people */
    struct sonde_agent *agent;         /* NULL only before it is open, and after the end */
    int missing_status;                /* of a part that the agent cannot do without */
    int recent_only;                   /* profiles are kept in memory alone, and go with it */
    struct sonde_server *server;       /* NULL: none wanted, or it could not be started */
    struct sonde_rss_watch outside;      /* of a process that runs and has no heap profile */
    int from_outside;                  /* outside is looking */
    struct sonde_unseen unseen;        /* processes below it that the library cannot come into */
    char refused[320];                 /* why libsonde_preload is not in it; "" = it is */
    double started_s;                  /* CLOCK_MONOTONIC */
    double elapsed_s;                  /* from then to the end of the recording */
    int failed;                        /* something that was asked for could not be done */
    int profile_status;                /* what on_profile said */
    uint64_t cpu_ns;                   /* of a process that runs: used when we came */
};

double watch_clock_s(void);

/* ---- watch_tell.c --------------------------------------------------------------------------- */

/* For who wants to know: the log, and stderr if that is ours, a terminal, or -v was given. */
void watch_tell(const struct watch *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Something of ours does not work. */
void watch_tell_failure(const struct watch *s, const char *what, const struct sonde_err *err);

/* The same of something that was asked for: also with --quiet. */
void watch_tell_missing(const struct watch *s, const char *what, const struct sonde_err *err);

/* The recording is complete, and the command goes on. */
void watch_tell_waiting(const struct watch *s);

/* On a terminal: how far a recording of a process that runs is, in a line that is written over.
 * seconds: it will take; 0 = it is not known, less = it is over. */
int watch_has_progress(const struct watch *s);
void watch_tell_progress(const struct watch *s, double seconds);

/* How the command ended (status as of waitpid), or that it goes on, and what it recorded. */
void watch_tell_end(const struct watch *s, int ended, int status);

/* Once the command has ended: which of the processes that it started have not. */
void watch_tell_survivors(const struct watch *s);

/* What probes in llama.cpp missed. */
void watch_tell_probes(const struct watch *s);

/* What was seen of its memory from outside. */
void watch_tell_outside(struct watch *s);

/* Processes that had no room to record. */
void watch_tell_missed(struct watch *s);

/* What was sampled: counts, loss, completeness, the first functions. */
void watch_tell_profile(struct watch *s, const struct sonde_profile *p,
                        const char *file);

#endif
