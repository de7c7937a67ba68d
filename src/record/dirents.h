/* dirents.h - the names in a directory, one after the other: raw getdents, since opendir
 * allocates. */
#ifndef SONDE_RECORD_DIRENTS_H
#define SONDE_RECORD_DIRENTS_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "record/call.h"

struct sonde__dirents {
    int fd;
    long at, end;
    char buffer[1024] __attribute__((aligned(8))); /* small: we may be on a handler's stack */
};

struct sonde__dirent {       /* as the kernel has it */
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

static inline void sonde__dirents_begin(struct sonde__dirents *s, int dirfd)
{
    s->at = s->end = 0;
    s->fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* The next name, or NULL: that was all. */
static inline const char *sonde__dirents_next(struct sonde__dirents *s)
{
    if (s->fd < 0) return NULL;
    if (s->at >= s->end) {
        s->at = 0;
        s->end = sonde__call(SYS_getdents64, s->fd, SONDE__WORD(s->buffer), sizeof(s->buffer), 0,
                             0);
        if (s->end <= 0) return NULL;
    }
    const struct sonde__dirent *d = (const struct sonde__dirent *)(void *)(s->buffer + s->at);
    s->at += d->reclen;
    return d->name;
}

static inline void sonde__dirents_end(struct sonde__dirents *s)
{
    if (s->fd >= 0) close(s->fd);
}

#endif
