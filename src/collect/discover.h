/* discover.h - which segments there are, and which of their processes live. */
#ifndef SONDE_COLLECT_DISCOVER_H
#define SONDE_COLLECT_DISCOVER_H

#include <stdint.h>

#include "base/err.h"
#include "collect/segment/read.h"
#include "segment/life.h"

/* Open the directory of segments. It must belong to this user, also if that is root, and not be
 * writable by others, who could otherwise put files there. SONDE_ENOENT: it is not there
 * (nobody has recorded yet); SONDE_EACCES: not to be trusted, err says why. */
int sonde_discover_open(const char *dir, int *fd, struct sonde_err *err);

/* Call found for each name that is one of a segment; others are none of our business. */
typedef void sonde_discover_fn(const char *name, const struct sonde_segment_name *id, void *arg);
int sonde_discover_scan(int dirfd, sonde_discover_fn *found, void *arg, struct sonde_err *err);

struct sonde_proc_stat {
    uint64_t start;       /* clock ticks since boot */
    uint32_t ppid, threads;
    char comm[64];        /* valid UTF-8 */
};

/* From /proc/PID/stat. SONDE_ENOENT: no such process, or it is dead and only not reaped yet. */
int sonde_proc_stat(uint32_t pid, struct sonde_proc_stat *out);

/* Is pid the process root or one of its descendants? */
int sonde_proc_descends(uint32_t pid, uint32_t root);

/* Does the process of a segment live? Asked by its pid if it is of the namespaces that we are in,
 * else by whether anything can still write to dirfd/name (segment/life.h). segment NULL: it could
 * not be read, and the pid is all there is. st is filled in if it was asked by its pid. */
int sonde_discover_alive(int dirfd, const char *name, const struct sonde_segment_name *id,
                         const struct sonde_segment *segment, const struct sonde__here *here,
                         struct sonde_proc_stat *st);

/* The mark that an agent is there: a shared lock on dir/agent.lock, which holds the pid of the
 * agent that came last. A program that ends and finds the lock taken leaves its segment to the
 * agent. Returns the descriptor that holds it, or SONDE_E…. */
int sonde_discover_lock(int dirfd, struct sonde_err *err);

#endif
