/* run.c - whatever holds a profile, by its first bytes: a run file, or a format of another tool. */
#include "store/run/run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/errno.h"
#include "base/file.h"
#include "base/guarded_map.h"
#include "profile/format.h"
#include "sonde/sonde.h"
#include "store/run/private.h"

#define INPUT_MAX ((size_t)4 << 30)    /* of what is read from a pipe */
#define PROFILE_MAX ((size_t)4 << 30)  /* of memory for what it holds */

static int is_run(const char *data, size_t len)
{
    return len >= sizeof(SONDE_RUN_MAGIC) &&
           !memcmp(data, SONDE_RUN_MAGIC, sizeof(SONDE_RUN_MAGIC));
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int read_failed(const char *name, int error, struct sonde_err *err)
{
    return sonde_err_set(err, sonde__from_errno(error), "cannot read '%s': %s", name,
                         strerror(error));
}

static int load_bytes(const char *data, size_t len, const char *name, struct sonde_import *how,
                      struct sonde_profile *p, struct sonde_err *err)
{
    return is_run(data, len) ? sonde_run_read(NULL, data, len, name, p, err)
                             : sonde_format_read(data, len, name, how, p, err);
}

/* A pipe, or what cannot be mapped. */
static int load_stream(int fd, const char *name, struct sonde_import *how, struct sonde_profile *p,
                       struct sonde_err *err)
{
    struct sonde_buf b;
    sonde_buf_init(&b, INPUT_MAX);
    int rc = sonde_file_read_fd(fd, &b);
    if (rc == SONDE_EFULL) {
        rc = sonde_err_set(err, SONDE_EFORMAT, "'%s' is larger than %zu MiB", name,
                           INPUT_MAX >> 20);
    } else if (rc == SONDE_ENOMEM) {
        sonde_err_set(err, rc, "no memory to read '%s'", name);
    } else if (rc) {
        rc = read_failed(name, errno, err);
    }
    if (!rc) rc = load_bytes(b.data ? b.data : "", b.len, name, how, p, err);
    sonde_buf_release(&b);
    return rc;
}

/* Mapped rather than read, which for 100 MB costs more than all the rest; under a guard, since
 * somebody may cut the file meanwhile. */
static int load_mapped(const struct sonde_guarded_map *g,
                       size_t len, const char *path, const char *name,
                       struct sonde_import *how, struct sonde_profile *p, struct sonde_err *err)
{
    if (is_run(g->base, len)) return sonde_run_read(path, NULL, 0, name, p, err);
    const int rc = sonde_format_read(g->base, len, name, how, p, err);
    if (!sonde_guarded_map_damaged(g)) return rc;
    return sonde_err_set(err, SONDE_EIO, "'%s' became shorter while it was read", name);
}

static int load_fd(int fd, const char *path, const char *name, struct sonde_import *how,
                   struct sonde_profile *p, struct sonde_err *err)
{
    struct stat st;
    struct sonde_guarded_map g = { 0 };
    if (fstat(fd, &st) != 0) return read_failed(name, errno, err);
    if (!path || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
        sonde_guarded_map_open(fd, (size_t)st.st_size, &g, NULL) != 0) {
        return load_stream(fd, name, how, p, err);
    }
    const int rc = load_mapped(&g, (size_t)st.st_size, path, name, how, p, err);
    sonde_guarded_map_close(&g);
    return rc;
}

int sonde_run_load(const char *path, struct sonde_profile **out, struct sonde_err *err)
{
    return sonde_run_import(path, NULL, out, err);
}

/* /dev/zero, /dev/full, /dev/random …: what is in memory devices has no end, but for /dev/null. */
static int is_endless(int fd)
{
    enum { MEMORY_DEVICES = 1, THE_NULL = 3 };
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && major(st.st_rdev) == MEMORY_DEVICES &&
           minor(st.st_rdev) != THE_NULL;
}

int sonde_run_import(const char *path, struct sonde_import *how, struct sonde_profile **out,
                     struct sonde_err *err)
{
    assert(path && out);
    const int standard = !strcmp(path, "-");
    const char *name = standard ? "standard input" : path;
    const int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return read_failed(name, errno, err);
    struct sonde_profile *p = NULL;
    int rc = is_endless(fd) ? SONDE_EINVAL : sonde_profile_create(PROFILE_MAX, &p);
    if (rc == SONDE_EINVAL) sonde_err_set(err, rc, "'%s' is a device that never ends", name);
    else if (rc) sonde_err_set(err, rc, "no memory to read '%s'", name);
    else rc = load_fd(fd, standard ? NULL : path, name, how, p, err);
    if (!standard) close(fd);
    if (rc) {
        sonde_profile_destroy(p);
        return rc;
    }
    *out = p;
    return 0;
}

int sonde_run_load_bytes(const char *data, size_t len, const char *name,
                         struct sonde_profile **out, struct sonde_err *err)
{
    assert(data && name && out);
    struct sonde_profile *p;
    int rc = sonde_profile_create(PROFILE_MAX, &p);
    if (rc) return sonde_err_set(err, rc, "no memory to read '%s'", name);
    rc = load_bytes(data, len, name, NULL, p, err);
    if (rc) {
        sonde_profile_destroy(p);
        return rc;
    }
    *out = p;
    return 0;
}
