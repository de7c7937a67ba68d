#include "base/file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/errno.h"
#include "sonde/sonde.h"

enum { READ_AT_ONCE = 1 << 16, READ_FIRST = 4096, TEMP_TRIES = 100 };

/* ---- Reading --------------------------------------------------------------------------------- */

/* Is this the end, of a file that fills the buffer to its last byte? */
static int read_end(int fd, struct sonde_buf *out)
{
    char c;
    const ssize_t n = sonde_file_read_full(fd, &c, 1);
    if (n == 1) out->error = SONDE_EFULL;
    return n < 0 ? (int)n : out->error;
}

int sonde_file_read_fd(int fd, struct sonde_buf *out)
{
    sonde_buf_add(out, "", 0); /* so that it ends in a NUL, whatever comes */
    for (size_t want = READ_FIRST; !out->error; want = READ_AT_ONCE) {
        const size_t left = out->max - out->len;
        if (!left) return read_end(fd, out);
        if (want > left) want = left;
        char *room = sonde_buf_reserve(out, want);
        if (!room) break;
        const ssize_t n = read(fd, room, want);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return sonde__from_errno(errno);
        if (n == 0) break;
        out->len += (size_t)n;
        out->data[out->len] = '\0';
    }
    return out->error;
}

static int read_open(int fd, const char *path, struct sonde_buf *out, struct sonde_err *err)
{
    const int rc = sonde_file_read_fd(fd, out);
    const int error = errno;
    close(fd);
    if (!rc) return 0;
    if (out->error == SONDE_EFULL) {
        return sonde_err_set(err, rc, "'%s' is larger than %zu bytes", path, out->max);
    }
    if (out->error) return sonde_err_set(err, rc, "no memory to read '%s'", path);
    return sonde_err_set(err, rc, "cannot read '%s': %s", path, strerror(error));
}

static int open_failed(const char *path, int error, struct sonde_err *err)
{
    return sonde_err_set(err, sonde__from_errno(error), "cannot read '%s': %s", path,
                         strerror(error));
}

int sonde_file_read(const char *path, struct sonde_buf *out, struct sonde_err *err)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    return fd < 0 ? open_failed(path, errno, err) : read_open(fd, path, out, err);
}

ssize_t sonde_file_read_full(int fd, void *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        const ssize_t n = read(fd, (char *)data + done, len - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return sonde__from_errno(errno);
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

ssize_t sonde_file_pread_full(int fd, void *data, size_t len, off_t at)
{
    size_t done = 0;
    while (done < len) {
        const ssize_t n = pread(fd, (char *)data + done, len - done, at + (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return sonde__from_errno(errno);
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

ssize_t sonde_file_read_small(int dir_fd, const char *path, char *out, size_t size)
{
    assert(size);
    out[0] = '\0';
    const int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) return sonde__from_errno(errno);
    const ssize_t n = sonde_file_read_full(fd, out, size - 1);
    const int error = errno;
    close(fd);
    errno = error;
    out[n > 0 ? n : 0] = '\0';
    return n;
}

/* ---- Writing --------------------------------------------------------------------------------- */

int sonde_file_write_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len) {
        const ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO;
        if (n <= 0) return sonde__from_errno(errno);
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int sonde_file_replace_at(int dir_fd, const char *name, const char *temp, const struct iovec *parts,
                          int part_count)
{
    assert(strcmp(name, temp) != 0 && !strchr(name, '/') && !strchr(temp, '/'));
    unlinkat(dir_fd, temp, 0);
    const int fd =
        openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) return sonde__from_errno(errno);
    int rc = 0;
    for (int i = 0; i < part_count && !rc; i++) {
        rc = sonde_file_write_all(fd, parts[i].iov_base, parts[i].iov_len);
    }
    int error = errno;
    if (close(fd) != 0 && !rc) rc = sonde__from_errno(error = errno);
    if (!rc && renameat(dir_fd, temp, dir_fd, name) != 0) rc = sonde__from_errno(error = errno);
    if (!rc) return 0;
    unlinkat(dir_fd, temp, 0);
    errno = error;
    return rc;
}

/* Not mkstemp(), whose file is the owner's alone: to give it the mode that others have, the umask
 * would have to be set for a moment, in all threads. */
static int file_create_beside(const char *real, char *temp, size_t temp_size)
{
    for (int i = 0; i < TEMP_TRIES; i++) {
        uint32_t random;
        if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
            random = (uint32_t)getpid() + (uint32_t)i;
        }
        snprintf(temp, temp_size, "%s.%08x", real, random);
        const int fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST) return fd;
    }
    return -1;
}

int sonde_file_temp_create(struct sonde_file_temp *t, const char *path, struct sonde_err *err)
{
    /* What a symbolic link points to is replaced, not the link. */
    char *real = realpath(path, NULL);
    struct sonde_file_temp new = { .fd = -1, .real = sonde__strdup(real ? real : path),
                                   .shown = sonde__strdup(path) };
    free(real); /* realpath's own allocation */
    const size_t size = new.real ? strlen(new.real) + sizeof(".01234567") : 0;
    new.path = new.real ? sonde__alloc(size) : NULL;
    int rc = 0;
    if (!new.path || !new.shown) {
        rc = sonde_err_set(err, SONDE_ENOMEM, "no memory to write '%s'", path);
    } else if ((new.fd = file_create_beside(new.real, new.path, size)) < 0) {
        const int error = errno;
        rc = sonde_err_set(err, sonde__from_errno(error), "cannot create a file beside '%s': %s",
                           path, strerror(error));
    }
    if (!rc) *t = new;
    else sonde_file_temp_release(&new);
    return rc;
}

static int write_failed(const char *path, int error, struct sonde_err *err)
{
    return sonde_err_set(err, sonde__from_errno(error),
                         "writing '%s' failed: %s; it is as it was before", path, strerror(error));
}

int sonde_file_temp_commit(struct sonde_file_temp *t, struct sonde_err *err)
{
    assert(t->fd >= 0); /* once */
    int failed = fsync(t->fd) != 0;
    int error = errno;
    if (close(t->fd) != 0 && !failed) {
        failed = 1;
        error = errno;
    }
    t->fd = -1;
    if (!failed && rename(t->path, t->real) != 0) {
        failed = 1;
        error = errno;
    }
    if (failed) {
        unlink(t->path);
        return write_failed(t->shown, error, err);
    }
    return 0;
}

void sonde_file_temp_release(struct sonde_file_temp *t)
{
    if (t->fd >= 0) {
        unlink(t->path);
        close(t->fd);
    }
    sonde__free(t->path);
    sonde__free(t->real);
    sonde__free(t->shown);
    *t = (struct sonde_file_temp){ .fd = -1 };
}

static int write_device(const char *path, const void *data, size_t len, struct sonde_err *err)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    int rc = fd < 0 ? sonde__from_errno(errno) : sonde_file_write_all(fd, data, len);
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && !rc) rc = sonde__from_errno(error = errno);
    return rc ? sonde_err_set(err, rc, "writing '%s' failed: %s", path, strerror(error)) : 0;
}

int sonde_file_replace(const char *path, const void *data, size_t len, struct sonde_err *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) return write_device(path, data, len, err);
    struct sonde_file_temp t;
    int rc = sonde_file_temp_create(&t, path, err);
    if (rc) return rc;
    rc = sonde_file_write_all(t.fd, data, len) ? write_failed(path, errno, err)
                                               : sonde_file_temp_commit(&t, err);
    sonde_file_temp_release(&t);
    return rc;
}
