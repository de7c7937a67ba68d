/* life.h - whose a file in the directory of segments is, and whether anything can still write to
 * it.
 *
 * Nobody deletes what he cannot judge. A directory may be shared by containers: then pids are of
 * several pid namespaces, start times are shifted by time namespaces, and a process that /proc does
 * not show may be alive all the same. So a file is removed only if it is provably ours (name,
 * magic, size, owner) and provably dead:
 *
 *   - Nothing has it open or mapped for writing. That is asked of the file, not of the process: the
 *     kernel grants a lease for reading (F_SETLEASE) only while a file has no writer, and a shared
 *     mapping counts as one for as long as it lasts. It holds in every namespace, needs no
 *     descriptor that a program could close, ends with exec, exit and SIGKILL, and a child made
 *     by fork keeps it only while it has the mapping.
 *   - Where a file system has no leases, or cannot be trusted with them (network, overlay): its
 *     process is of this boot, pid and time namespace, and is not there any more.
 *
 * Rejected: flock on a descriptor that is kept. Programs close descriptors that they do not know,
 * and children inherit the lock with it. Both halves use this; syscalls only. */
#ifndef SONDE_SEGMENT_LIFE_H
#define SONDE_SEGMENT_LIFE_H

#include <stdint.h>

#include "segment/segment.h"

/* ---- Names ---------------------------------------------------------------------------------- */

#define SONDE__NAME_BYTES 64u

struct sonde__name { uint32_t pid; uint64_t start; uint32_t n; };

/* <pid>.<start>[.<n>], numbers without leading zeros: 0, or SONDE_EINVAL for any other name. */
int sonde__name_parse(const char *name, struct sonde__name *out);
void sonde__name_make(char out[SONDE__NAME_BYTES], const struct sonde__name *name);

/* A segment that is being made has the name .sonde-<16 hex digits>-<pid>.tmp. */
void sonde__temp_make(char out[SONDE__NAME_BYTES], uint64_t random, uint32_t pid);
int sonde__temp_parse(const char *name); /* 0, SONDE_EINVAL */

/* A file with a byte for each process that made no segment for lack of room (record/room.c), while
 * an agent was there; the agent removes it. */
#define SONDE__MISSED_NAME "agent.missed"

/* ---- Judging -------------------------------------------------------------------------------- */

struct sonde__here {         /* where this process is */
    uint8_t boot_id[16];     /* all zero = not known */
    uint64_t pid_ns, time_ns;/* inodes of /proc/self/ns/…; pid_ns 0 = not known, or /proc is of
                                another pid namespace: no process can be judged by its pid */
};
void sonde__here(struct sonde__here *out);

/* Can the process that made h be looked up by its pid and start time from here? */
int sonde__is_here(const struct sonde__header *h, const struct sonde__here *here);

/* Has anything fd's file open or mapped for writing? 1, 0, or -1: cannot be told here. fd is
 * open for reading only. */
int sonde__is_written(int fd);

enum sonde__life {
    SONDE__LIFE_NONE,        /* there is no such file any more */
    SONDE__LIFE_FOREIGN,     /* not a file of ours: leave it alone */
    SONDE__LIFE_UNKNOWN,     /* cannot be judged from here: leave it alone */
    SONDE__LIFE_ALIVE,
    SONDE__LIFE_DEAD,
};

/* What has become of the segment or temporary file dirfd/name? */
enum sonde__life sonde__life(int dirfd, const char *name, const struct sonde__here *here);

/* The same, and remove it if it is dead. The only way in which either half removes the file of
 * another process. */
enum sonde__life sonde__life_sweep(int dirfd, const char *name, const struct sonde__here *here);

#endif
