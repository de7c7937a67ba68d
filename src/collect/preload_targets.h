/* preload_targets.h - programs with libsonde_preload in them: how one is made to load it, and
 * finding the segments that it writes. The other half is src/preload/.
 *
 * The agent finds the segments of a program by the number of the session, which it made up and gave
 * the program in its environment: they are the first image's, those of images it was replaced by,
 * and of its children if they are recorded too. */
#ifndef SONDE_COLLECT_PRELOAD_TARGETS_H
#define SONDE_COLLECT_PRELOAD_TARGETS_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/err.h"
#include "base/lock.h"
#include "collect/aspace/aspace.h"
#include "collect/segment/read.h"
#include "segment/life.h"

/* ---- preload_library.c ------------------------------------------------------------------- */

#define SONDE_PRELOAD_ENV_MAX 6144u /* bytes of both variables */

/* Where libsonde_preload.so is: $SONDE_PRELOAD, beside the agent, or in ../lib…/sonde from there.
 * SONDE_EOFF with a sentence. */
int sonde_preload_library(char *out, size_t size, struct sonde_err *err);

/* LD_PRELOAD, with what this process was given itself behind it, and then variable ("NAME=value"),
 * each with its NUL. */
int sonde_preload_environment(const char *variable, char out[SONDE_PRELOAD_ENV_MAX],
                              size_t *size, struct sonde_err *err);

/* Why the library cannot be loaded by this program, in words that follow "it is"; NULL = it can. */
const char *sonde_preload_refused(const char *program);

/* ---- preload_targets.c ----------------------------------------------------------------------- */

/* A segment. Whoever reads them puts this first in a structure of his own. */
struct sonde_preload_target {
    struct sonde_segment_name id;
    char name[64];                    /* of the file */
    struct sonde_segment *segment;    /* NULL = not ours, or done with */
    int ours;                         /* set by the reader: it has what he is looking for */
    int gone;                         /* the process has ended, or replaced itself */
    int replaced;                     /* it has replaced itself */
    int other_root;                   /* it is in another mount namespace than we are */
    int seen;                         /* its file was there at the last scan */
    uint64_t pid_ns;                  /* of the process; 0 = not known */
    uint64_t scanned_ns;              /* when /proc/PID/maps was last looked at */
};

/* The readers there are in this process beside the collector, which removes files that all of them
 * have open: it owns this, and whoever starts a reader hands it on. */
struct sonde_preload_readers {
    struct sonde_lock lock;
    struct sonde_preload_targets *first;
};

void sonde_preload_readers_init(struct sonde_preload_readers *r);
void sonde_preload_readers_release(struct sonde_preload_readers *r); /* no reader may be left */
/* CLOCK_MONOTONIC before which a file must have been there for every reader to have it open;
 * UINT64_MAX = there is no reader. Any thread. */
uint64_t sonde_preload_readers_scanned_ns(struct sonde_preload_readers *r);

struct sonde_preload_targets {
    uint32_t pid;
    int children;                     /* also of other processes */
    uint64_t session;                 /* that we made up; 0 = whoever records that process */
    uint64_t only;                    /* segments of this session are ours; 0 = of any. The reader
                                         may set it when it knows that of the process */
    struct sonde__here here;
    size_t target_bytes;              /* of the reader's structures */
    char dir[256];
    int dirfd;
    int lock_fd;                      /* agent.lock, so that the program leaves its segment to us */
    struct sonde_preload_target **targets;
    uint32_t target_count, target_cap;
    struct sonde_preload_readers *readers; /* that it is one of; NULL = no collector has to know */
    struct sonde_preload_targets *next;    /* of them, under their lock, as the next */
    uint64_t scanned_ns;              /* CLOCK_MONOTONIC when the last scan began; 0 = none yet */
    uint64_t listed_ns;               /* the same of the last that went through all names */
    struct timespec changed;          /* time of the directory then; 0 = it may be that of more
                                         changes to come */
};

/* readers: outlives p; NULL = there is no collector. dir NULL or "" = the default one; made if need
 * be. new_session: with a number of its own. On failure too p is to be released. SONDE_EINVAL,
 * SONDE_EOFF, SONDE_EACCES with a sentence. */
int sonde_preload_init(struct sonde_preload_targets *p, struct sonde_preload_readers *readers,
                       const char *dir, uint32_t pid, int children, int new_session,
                       size_t target_bytes, struct sonde_err *err);
/* Also removes the segments that are ours and done with, if no other agent is there: programs leave
 * them to agents, and the last one takes them away. Frees the targets but not what the reader has
 * hung on them. */
void sonde_preload_release(struct sonde_preload_targets *p);

/* Why there is no segment of the program, as a sentence. */
void sonde_preload_absent(const struct sonde_preload_targets *p, char *out, size_t size);

/* Look for new segments: they are appended to targets, opened. Targets that are done with and whose
 * file has been removed are freed: what they counted must be elsewhere by then. */
void sonde_preload_scan(struct sonde_preload_targets *p);
/* Set t->gone and t->replaced, before a last look, so that nothing comes after that. */
void sonde_preload_look(struct sonde_preload_targets *p, struct sonde_preload_target *t);
/* Close its segment: done with. */
void sonde_preload_close(struct sonde_preload_target *t);

/* What the process said is mapped, into as. 0 or as sonde_aspace_map. */
int sonde_preload_map(const struct sonde_preload_target *t, struct sonde_aspace *as,
                      const struct sonde_mapping *m);
/* Code at these addresses that the process has not told us of (it has no file, or was told before
 * we came): what /proc/PID/maps has there now, looked at 5 times a second at most. Returns how many
 * mappings as has got. now_ns: CLOCK_MONOTONIC. */
uint32_t sonde_preload_find_code(struct sonde_preload_target *t, struct sonde_modules *modules,
                                 struct sonde_aspace *as, const uint64_t *ips, uint32_t count,
                                 uint64_t now_ns);

/* The name of a thread as it is now, as valid UTF-8; "" = it is gone. */
void sonde_preload_thread_name(uint32_t pid, uint32_t tid, char out[64]);

#endif
