/* run.c - whatever holds a profile, by its first bytes: a run file, or a format of another tool. */
#include "store/run.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "profile/format.h"
#include "sonde/sonde.h"
#include "store/run_private.h"

enum { READ_AT_ONCE = 1 << 20 };

#define INPUT_MAX ((size_t)4 << 30)    /* of a file in another format */
#define PROFILE_MAX ((size_t)4 << 30)  /* of memory for what it holds */

static int is_run(const char *data, size_t len)
{
    return len >= sizeof(SONDE_RUN_MAGIC) &&
           !memcmp(data, SONDE_RUN_MAGIC, sizeof(SONDE_RUN_MAGIC));
}

static int import(const char *data, size_t len, const char *name, struct sonde_profile *p,
                  struct sonde_err *err)
{
    if (!len) return sonde_err_set(err, SONDE_EFORMAT, "'%s' is empty", name);
    for (size_t i = 0; sonde_formats[i]; i++) {
        const struct sonde_format_ops *f = sonde_formats[i];
        if (!f->read || !f->probe(data, len)) continue;
        struct sonde_err why = { "" };
        const int rc = f->read(data, len, p, &why);
        if (rc) return sonde_err_set(err, rc, "'%s', read as %s: %s", name, f->name, why.text);
        if (!p->engine) p->engine = sonde_profile_cstring(p, "import");
        return 0;
    }
    char known[256] = "a run file";
    for (size_t i = 0, n = strlen(known); sonde_formats[i]; i++) {
        if (!sonde_formats[i]->read) continue;
        n += (size_t)snprintf(known + n, sizeof(known) - n, ", %s", sonde_formats[i]->name);
        if (n >= sizeof(known)) break;
    }
    return sonde_err_set(err, SONDE_EFORMAT, "'%s' is no profile that can be read: not %s", name,
                         known);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static int read_failed(const char *name, int error, struct sonde_err *err)
{
    const int code = error == ENOENT ? SONDE_ENOENT : error == EACCES ? SONDE_EACCES : SONDE_EIO;
    return sonde_err_set(err, code, "cannot read '%s': %s", name, strerror(error));
}

/* Append up to `most` bytes; *end is set when there are no more. */
static int read_some(int fd, size_t most, const char *name, struct sonde_buf *b, int *end,
                     struct sonde_err *err)
{
    for (size_t done = 0; done < most && !*end;) {
        const size_t want = most - done < READ_AT_ONCE ? most - done : READ_AT_ONCE;
        char *room = sonde_buf_reserve(b, want);
        if (!room) {
            if (b->error == SONDE_ENOMEM) {
                return sonde_err_set(err, SONDE_ENOMEM, "no memory to read '%s'", name);
            }
            return sonde_err_set(err, SONDE_EFORMAT, "'%s' is larger than %zu MiB", name,
                                 INPUT_MAX >> 20);
        }
        const ssize_t n = read(fd, room, want);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return read_failed(name, errno, err);
        b->len += (size_t)n;
        done += (size_t)n;
        *end = n == 0;
    }
    return 0;
}

static int load_fd(int fd, const char *path, const char *name, struct sonde_profile *p,
                   struct sonde_err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0) return read_failed(name, errno, err);
    const int regular = S_ISREG(st.st_mode);
    struct sonde_buf b;
    int end = 0;
    sonde_buf_init(&b, INPUT_MAX);
    int rc = read_some(fd, sizeof(SONDE_RUN_MAGIC), name, &b, &end, err);
    if (!rc && path && regular && is_run(b.data, b.len)) {
        rc = sonde_run_read(path, NULL, 0, name, p, err);
    } else if (!rc) {
        /* One reservation for all of a file: growing would copy it several times over. */
        if (regular && st.st_size > 0 && (uint64_t)st.st_size < INPUT_MAX) {
            sonde_buf_reserve(&b, (size_t)st.st_size + READ_AT_ONCE);
            b.error = 0;
        }
        rc = read_some(fd, SIZE_MAX, name, &b, &end, err);
        if (!rc && is_run(b.data, b.len)) rc = sonde_run_read(NULL, b.data, b.len, name, p, err);
        else if (!rc) rc = import(b.data, b.len, name, p, err);
    }
    sonde_buf_release(&b);
    return rc;
}

int sonde_run_load(const char *path, struct sonde_profile **out, struct sonde_err *err)
{
    assert(path && out);
    const int standard = !strcmp(path, "-");
    const char *name = standard ? "standard input" : path;
    const int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) return read_failed(name, errno, err);
    struct sonde_profile *p = NULL;
    int rc = sonde_profile_create(PROFILE_MAX, &p);
    if (rc) sonde_err_set(err, rc, "no memory to read '%s'", name);
    else rc = load_fd(fd, standard ? NULL : path, name, p, err);
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
    rc = is_run(data, len) ? sonde_run_read(NULL, data, len, name, p, err)
                           : import(data, len, name, p, err);
    if (rc) {
        sonde_profile_destroy(p);
        return rc;
    }
    *out = p;
    return 0;
}
