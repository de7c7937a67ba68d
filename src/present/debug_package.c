/* debug_package.c - every package has a list of its files, one a line. Reading all of them takes
 * some 20 ms; `dpkg -S` does the same. */
#include "present/debug_package.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/path.h"
#include "sonde/sonde.h"

#define LIST_MAX (4u << 20) /* of a package; larger ones are documentation */

/* Is one of the lines of the list this path? Systems whose /lib is a link to /usr/lib have files by
 * either name. */
static int list_has(const char *text, size_t len, const char *path)
{
    static const char usr[] = "/usr/";
    const char *other = !strncmp(path, usr, sizeof(usr) - 1) ? path + sizeof(usr) - 2 : path;
    const size_t path_len = strlen(path), other_len = strlen(other);
    for (const char *p = text, *end = text + len; p < end;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const size_t n = (size_t)((newline ? newline : end) - p);
        if ((n == path_len && !memcmp(p, path, n)) || (n == other_len && !memcmp(p, other, n))) {
            return 1;
        }
        p += n + 1;
    }
    return 0;
}

static int file_has(int dir, const char *name, const char *path, char *text)
{
    const int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    struct stat st;
    if (fd < 0) return 0;
    ssize_t n = 0;
    if (!fstat(fd, &st) && S_ISREG(st.st_mode)) n = sonde_file_read_full(fd, text, LIST_MAX);
    close(fd);
    return n > 0 && list_has(text, (size_t)n, path);
}

int sonde_debug_package(const char *dir, const char *path, char out[SONDE_DEBUG_PACKAGE_MAX])
{
    static const char tail[] = ".list";
    int rc = SONDE_ENOENT;
    if (path[0] != '/') return rc;
    DIR *d = opendir(dir ? dir : "/var/lib/dpkg/info");
    char *text = d ? sonde__alloc(LIST_MAX) : NULL;
    for (const struct dirent *e = NULL; rc && text && (e = readdir(d));) {
        const size_t len = strlen(e->d_name);
        if (len < sizeof(tail) || !sonde_has_suffix_len(e->d_name, len, tail)) continue;
        if (!file_has(dirfd(d), e->d_name, path, text)) continue;
        /* "libc6:amd64.list"; of libc6 the package has another name. */
        const int name = (int)strcspn(e->d_name, ":");
        const int plain = name < (int)len ? name : (int)(len - (sizeof(tail) - 1));
        snprintf(out, SONDE_DEBUG_PACKAGE_MAX, "%.*s%s", plain > 100 ? 100 : plain, e->d_name,
                 plain == 5 && !strncmp(e->d_name, "libc6", 5) ? "-dbg" : "-dbgsym");
        rc = 0;
    }
    sonde__free(text);
    if (d) closedir(d);
    return rc;
}
