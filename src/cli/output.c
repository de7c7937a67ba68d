/* output.c - what a command made, to the standard output or to a file that is replaced as a
 * whole. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"

int sonde_cli_write(const struct sonde_cli *cli, const char *path, const struct sonde_buf *b)
{
    struct sonde_err err = { "" };
    if (!path || strcmp(path, "-") == 0) {
        if (sonde_file_write_all(STDOUT_FILENO, b->data, b->len) == 0) return SONDE_EXIT_OK;
        return sonde_cli_fail(cli, "writing to the standard output failed: %s", strerror(errno));
    }
    if (sonde_file_replace(path, b->data, b->len, &err) == 0) return SONDE_EXIT_OK;
    return sonde_cli_fail(cli, "%s", err.text);
}

int sonde_cli_width(void)
{
    struct winsize w;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) != 0) return 0;
    return w.ws_col;
}

void sonde_cli_make_folders(const char *path)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        mkdir(part, 0700); /* what cannot be made is told when the file cannot be written */
    }
}
