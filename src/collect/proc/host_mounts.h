/* host_mounts.h - the local file systems of the machine, each once.
 *
 * statvfs on a network mount whose server is gone waits for ever, so a mount is only looked at
 * when its type is known to be local and nothing that is not lies over its path. The table is
 * read again only when the kernel says that mounts have changed. */
#ifndef SONDE_COLLECT_PROC_HOST_MOUNTS_H
#define SONDE_COLLECT_PROC_HOST_MOUNTS_H

#include <stddef.h>
#include <stdint.h>

#include "collect/proc/procfs.h"

#define SONDE_HOST_MOUNTS_MAX 64u

struct sonde_host_mount {
    char device[128], type[32], path[256]; /* valid UTF-8, unescaped */
};

struct sonde_host_mounts {
    struct sonde_host_mount *mount; /* owned; SONDE_HOST_MOUNTS_MAX of them; NULL before use */
    size_t count;
    int fd;                         /* mountinfo, kept open to be told of changes; -1 */
    int watched;                    /* fd tells of changes (a procfs file) */
};

struct sonde_host_usage {
    double size_bytes, free_bytes, avail_bytes;
};

void sonde_host_mounts_init(struct sonde_host_mounts *h);
void sonde_host_mounts_release(struct sonde_host_mounts *h);

/* Bring the table up to date; buf is overwritten. Where mountinfo cannot be read it is empty. */
void sonde_host_mounts_refresh(struct sonde_host_mounts *h, struct sonde_procfs_buf *buf,
                               int proc_fd);

/* 0, or SONDE_EIO: cannot be asked, or has no size. */
int sonde_host_mount_usage(const struct sonde_host_mount *mount, struct sonde_host_usage *out);

#endif
