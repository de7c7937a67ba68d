/* room.c - see room.h.
 *
 * /dev/shm is the program's too, and in a container it has 64 MiB. A program that starts thousands
 * of others a second leaves a segment for each until the agent has read it; if they filled the
 * file system, the program's own writes would fail, or kill it. So all segments of a directory
 * together get a quarter of it, and none is made where little is left, whoever took it. A process
 * without a segment runs as it would without us.
 *
 * The first few are always tried: one program that records wants its segment wherever it fits.
 *
 * Rejected: an account in a file of its own. Processes are killed, and files removed, without
 * anybody who would take them off it; the file system knows. */
#include "record/room.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "record/call.h"
#include "record/dirents.h"
#include "segment/life.h"

#define SHARE 4u                    /* one part in so many is for segments … */
#define FEW 4u                      /* … but so many segments may be there */
#define LEFT_SHARE 8u               /* one part in so many stays free … */
#define LEFT_BYTES (64ull << 20)    /* … or this, if that is less */
#define SEGMENT_MOST (2ull << 20)   /* bytes that the segment of a process that is sampled takes */
#define SEGMENT_FIRST (256ull << 10) /* and at first */
#define MISSED_MAX (1 << 20)

/* What the segments in dirfd take, and those that are being made; no more than up to limit. */
static uint64_t segments_bytes(int dirfd, uint64_t limit)
{
    struct sonde__dirents s;
    struct sonde__name parsed;
    struct stat st;
    const char *name;
    uint64_t bytes = 0;
    sonde__dirents_begin(&s, dirfd);
    while (bytes <= limit && (name = sonde__dirents_next(&s))) {
        if (sonde__name_parse(name, &parsed) && sonde__temp_parse(name)) continue;
        if (!fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW)) bytes += (uint64_t)st.st_blocks * 512;
    }
    sonde__dirents_end(&s);
    return bytes;
}

int sonde__room_is_left(int dirfd, uint32_t segments)
{
    struct statvfs fs;
    if (segments < FEW || fstatvfs(dirfd, &fs) || !fs.f_blocks) return 1;
    const uint64_t all = (uint64_t)fs.f_blocks * fs.f_frsize;
    const uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (left < all / LEFT_SHARE && left < LEFT_BYTES) return 0;
    const uint64_t share = all / SHARE;
    if ((segments + 1) * SEGMENT_MOST <= share) return 1; /* as a rule; saves looking at them all */
    return segments_bytes(dirfd, share) + SEGMENT_FIRST <= share;
}

/* A byte for each: what is appended is whole, whoever else appends. */
void sonde__room_missed(int dirfd)
{
    struct rlimit fsize;
    struct stat st;
    const int how = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    const int fd = openat(dirfd, SONDE__MISSED_NAME, how, 0600);
    if (fd < 0) return;
    /* Passing RLIMIT_FSIZE would be a signal. */
    if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size < MISSED_MAX &&
        !getrlimit(RLIMIT_FSIZE, &fsize) && (rlim_t)st.st_size < fsize.rlim_cur) {
        sonde__call(SYS_write, fd, SONDE__WORD(""), 1, 0, 0);
    }
    close(fd);
}
