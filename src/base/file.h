/* file.h - whole files: read with a cap, and replaced so that a reader sees the old or the new one.
 *
 * All of it goes on after a signal (EINTR), and asks no file for its size: those of /proc say 0,
 * and a pipe has none. Functions without a struct sonde_err leave errno as the failing call set
 * it. */
#ifndef SONDE_BASE_FILE_H
#define SONDE_BASE_FILE_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "base/err.h"

/* ---- Reading --------------------------------------------------------------------------------- */

/* All that is left to read, after what is in out, which is NUL-terminated then. 0; SONDE_EFULL when
 * there is more than out may hold; SONDE_ENOMEM; or of the error of read(). out->error is set too
 * where it is the buffer's. */
int sonde_file_read_fd(int fd, struct sonde_buf *out);

/* All of a file, or of a pipe or device for as long as that takes. With a sentence: "cannot read
 * 'PATH': …", "'PATH' is larger than … bytes". */
int sonde_file_read(const char *path, struct sonde_buf *out, struct sonde_err *err);

/* A small file, as those of /proc and /sys, without allocating: at most size - 1 bytes, and a NUL.
 * What is longer is cut. How many bytes, or a negative SONDE_E… with out[0] = 0. dir_fd: AT_FDCWD,
 * or the folder of a path that does not begin with a slash. Does not wait for a FIFO's writer. */
ssize_t sonde_file_read_small(int dir_fd, const char *path, char *out, size_t size);

/* len bytes, or fewer if it ends before; how many, or a negative SONDE_E…. */
ssize_t sonde_file_read_full(int fd, void *data, size_t len);
ssize_t sonde_file_pread_full(int fd, void *data, size_t len, off_t at);

/* ---- Writing --------------------------------------------------------------------------------- */

/* 0, or SONDE_EIO, SONDE_ENOSPC …: some of it may be written. */
int sonde_file_write_all(int fd, const void *data, size_t len);

/* path holds these bytes and is on the disk, or is as it was before. Through a symbolic link the
 * file behind it is replaced. A new one may be read by whom the umask lets. What is not a file (a
 * pipe, a terminal) cannot be replaced, and is written to. */
int sonde_file_replace(const char *path, const void *data, size_t len, struct sonde_err *err);

/* The same in a folder that is open, under a temporary name that is given, without waiting for the
 * disk, for the owner alone (0600), in pieces: for what is written often. No link is followed; what
 * is in the way under the temporary name is removed. */
int sonde_file_replace_at(int dir_fd, const char *name, const char *temp, const struct iovec *parts,
                          int part_count);

/* For who writes the file itself (SQLite does): a new, empty file beside the one that it is to
 * become.
 *
 *   struct sonde_file_temp t;
 *   int rc = sonde_file_temp_create(&t, path, err);
 *   if (rc) return rc;
 *   rc = fill(t.path);
 *   rc = rc ? rc : sonde_file_temp_commit(&t, err);
 *   sonde_file_temp_release(&t);                      removes it, unless it was committed */
struct sonde_file_temp {
    int fd;             /* open for writing, close-on-exec */
    char *path;         /* owned, as are the others */
    char *real;         /* what it will be: path with its links resolved */
    char *shown;        /* as the caller called it, for sentences */
};

int sonde_file_temp_create(struct sonde_file_temp *t, const char *path, struct sonde_err *err);
int sonde_file_temp_commit(struct sonde_file_temp *t, struct sonde_err *err); /* fsync and rename */
void sonde_file_temp_release(struct sonde_file_temp *t);

#endif
