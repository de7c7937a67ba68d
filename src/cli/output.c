/* output.c - what a command made, to the standard output or to a file that is replaced as a
 * whole. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"

static int write_all(int fd, const char *data, size_t len)
{
    while (len) {
        const ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

/* A reader of path sees the old file or the new one, never a part. */
static int replace_file(const struct sonde_cli *cli, const char *path, const struct sonde_buf *b)
{
    char temp[4096];
    const int n = snprintf(temp, sizeof(temp), "%s.XXXXXX", path);
    if (n < 0 || (size_t)n >= sizeof(temp)) {
        return sonde_cli_usage(cli, "--output: '%s' is too long", path);
    }
    const int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0) {
        return sonde_cli_fail(cli, "cannot create a file beside '%s': %s", path, strerror(errno));
    }
    const mode_t mask = umask(0);
    umask(mask);
    int bad = write_all(fd, b->data, b->len) || fchmod(fd, 0666 & ~mask) || fsync(fd);
    int error = errno;
    if (close(fd) != 0 && !bad) {
        bad = 1;
        error = errno;
    }
    if (!bad && rename(temp, path) != 0) {
        bad = 1;
        error = errno;
    }
    if (!bad) return SONDE_EXIT_OK;
    unlink(temp);
    return sonde_cli_fail(cli, "writing '%s' failed: %s; it is as it was before", path,
                          strerror(error));
}

int sonde_cli_write(const struct sonde_cli *cli, const char *path, const struct sonde_buf *b)
{
    if (!path || strcmp(path, "-") == 0) {
        if (write_all(STDOUT_FILENO, b->data, b->len) == 0) return SONDE_EXIT_OK;
        return sonde_cli_fail(cli, "writing to the standard output failed: %s", strerror(errno));
    }
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        /* A device or pipe cannot be replaced. */
        const int fd = open(path, O_WRONLY | O_CLOEXEC);
        const int bad = fd < 0 || write_all(fd, b->data, b->len) != 0;
        const int error = errno;
        if (fd >= 0) close(fd);
        if (!bad) return SONDE_EXIT_OK;
        return sonde_cli_fail(cli, "writing '%s' failed: %s", path, strerror(error));
    }
    /* Replace what a symbolic link points to, not the link. */
    char *real = realpath(path, NULL);
    const int status = replace_file(cli, real ? real : path, b);
    free(real); /* realpath's own allocation */
    return status;
}

int sonde_cli_width(void)
{
    struct winsize w;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0) return 0;
    return w.ws_col;
}
