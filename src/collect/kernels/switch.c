/* switch.c - see switch.h. The file is written under another name and renamed: no process reads a
 * half of it. It holds the last order only; what it says ends by itself. */
#include "collect/kernels/switch.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "segment/kernels.h"
#include "sonde/sonde.h"

#define SWITCH_NEW SONDE__KERNEL_SWITCH ".new"

static int switch_failed(int error, struct sonde_err *err)
{
    return sonde_err_set(err, error == EACCES || error == EPERM ? SONDE_EACCES : SONDE_EIO,
                         "cannot write " SONDE__KERNEL_SWITCH " beside the segments: %s",
                         strerror(error));
}

static int switch_write(int dirfd, const char *line, struct sonde_err *err)
{
    const size_t len = strlen(line);
    unlinkat(dirfd, SWITCH_NEW, 0); /* of an agent that was killed over it */
    const int fd = openat(dirfd, SWITCH_NEW, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                          0600);
    if (fd < 0) return switch_failed(errno, err);
    const ssize_t n = write(fd, line, len);
    const int error = n < 0 ? errno : n != (ssize_t)len ? ENOSPC : 0;
    close(fd);
    if (!error && renameat(dirfd, SWITCH_NEW, dirfd, SONDE__KERNEL_SWITCH) == 0) return 0;
    const int why = error ? error : errno;
    unlinkat(dirfd, SWITCH_NEW, 0);
    return switch_failed(why, err);
}

int sonde_kernel_switch(const char *dir, uint32_t pid, int on, double seconds,
                        struct sonde_err *err)
{
    char path[256], line[96];
    if (dir && *dir) snprintf(path, sizeof(path), "%s", dir);
    else if (sonde__dir_default(path, sizeof(path))) {
        return sonde_err_set(err, SONDE_EINVAL, "the directory of segments has too long a name");
    }
    const uint64_t until = sonde_clock_ns(CLOCK_MONOTONIC) + (uint64_t)(seconds * 1e9);
    snprintf(line, sizeof(line), "%" PRIu32 " %s %" PRIu64 "\n", pid, on ? "on" : "off", until);
    const int dirfd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0) return switch_failed(errno, err);
    const int rc = switch_write(dirfd, line, err);
    close(dirfd);
    return rc;
}
