/* maps.c - /proc/PID/maps, a line at a time: it has no bound that could be read whole; and the files
 * that a process has code of. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "collect/aspace/private.h"
#include "sonde/sonde.h"

#define BUF 16384u /* a line is at most PATH_MAX escaped fourfold, and longer ones are skipped */

static int aspace_maps_hex(const char **p, char end, uint64_t *out)
{
    const char *s = *p;
    uint64_t v = 0;
    for (; *s && *s != end; s++) {
        const char c = *s;
        uint64_t digit;
        if (c >= '0' && c <= '9') {
            digit = (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            digit = (uint64_t)(c - 'a' + 10);
        } else {
            return -1;
        }
        if (v >> 60) return -1;
        v = v << 4 | digit;
    }
    if (*s != end || s == *p) return -1;
    *p = s + 1;
    *out = v;
    return 0;
}

static int aspace_maps_decimal(const char **p, uint64_t *out)
{
    const char *s = *p;
    uint64_t v = 0;
    for (; *s >= '0' && *s <= '9'; s++) {
        if (__builtin_mul_overflow(v, 10u, &v)) return -1;
        if (__builtin_add_overflow(v, (uint64_t)(*s - '0'), &v)) return -1;
    }
    if (s == *p) return -1;
    *p = s;
    *out = v;
    return 0;
}

/* The kernel writes a newline in a name as \012. */
static void aspace_maps_unescape(char *s)
{
    char *to = s;
    while (*s) {
        const int newline = !strncmp(s, "\\012", 4);
        *to++ = newline ? '\n' : *s;
        s += newline ? 4 : 1;
    }
    *to = 0;
}

/* start-end perms offset major:minor inode   path */
static int aspace_maps_parse(char *text, struct sonde_aspace_event *e)
{
    const char *p = text;
    uint64_t end, major, minor;
    if (aspace_maps_hex(&p, '-', &e->start) || aspace_maps_hex(&p, ' ', &end) || end <= e->start) {
        return -1;
    }
    e->len = end - e->start;
    if (strnlen(p, 5) < 5 || p[4] != ' ') return -1;
    e->executable = p[2] == 'x';
    p += 5;
    if (aspace_maps_hex(&p, ' ', &e->offset) || aspace_maps_hex(&p, ':', &major) ||
        aspace_maps_hex(&p, ' ', &minor)) {
        return -1;
    }
    e->dev = makedev((unsigned)major, (unsigned)minor);
    if (aspace_maps_decimal(&p, &e->inode)) return -1;
    while (*p == ' ') p++;
    char *path = text + (p - text);
    aspace_maps_unescape(path);
    e->path = path;
    return 0;
}

struct lines {
    int (*line)(void *arg, const struct sonde_aspace_event *e);
    void *arg;
    char *buf;
    size_t len;
    int skip; /* the rest of a line that is too long */
};

/* Gives out the whole lines there are, and keeps what follows them. */
static int give_lines(struct lines *l)
{
    size_t at = 0;
    char *nl;
    int rc = 0;
    while (!rc && (nl = memchr(l->buf + at, '\n', l->len - at))) {
        struct sonde_aspace_event e;
        *nl = 0;
        if (!l->skip && !aspace_maps_parse(l->buf + at, &e)) rc = l->line(l->arg, &e);
        l->skip = 0;
        at = (size_t)(nl - l->buf) + 1;
    }
    if (!at && l->len == BUF) {
        l->skip = 1;
        at = BUF;
    }
    memmove(l->buf, l->buf + at, l->len - at);
    l->len -= at;
    return rc;
}

int sonde_aspace_maps(uint32_t pid,
                      int (*line)(void *arg, const struct sonde_aspace_event *e), void *arg)
{
    char path[64];
    struct lines l = { .line = line, .arg = arg };
    int rc = 0;
    snprintf(path, sizeof(path), "/proc/%u/maps", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT || errno == ESRCH ? SONDE_ENOENT
               : errno == EACCES || errno == EPERM ? SONDE_EACCES : SONDE_EIO;
    }
    l.buf = sonde__alloc(BUF);
    if (!l.buf) rc = SONDE_ENOMEM;
    while (!rc) {
        const ssize_t n = read(fd, l.buf + l.len, BUF - l.len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) rc = errno == ESRCH ? SONDE_ENOENT : SONDE_EIO;
        if (n <= 0) break;
        l.len += (size_t)n;
        rc = give_lines(&l);
    }
    sonde__free(l.buf);
    close(fd);
    return rc;
}

/* ---- Files ----------------------------------------------------------------------------------- */

struct aspace_look {
    uint32_t pid;
    int (*want)(void *arg, const struct sonde_aspace_file *f);
    void (*file)(void *arg, const struct sonde_aspace_file *f, int fd);
    void *arg;
};

static int aspace_look_at(void *arg, const struct sonde_aspace_event *e)
{
    const struct aspace_look *l = arg;
    const struct sonde_aspace_file f = { e->dev, e->inode, e->path };
    if (!e->executable || !e->inode || e->path[0] != '/' || !l->want(l->arg, &f)) return 0;
    const size_t size = strlen(e->path) + 1;
    struct sonde_mapping *m = sonde__calloc(1, sizeof(*m) + size);
    if (!m) return SONDE_ENOMEM;
    m->start = e->start;
    m->end = e->start + e->len;
    m->offset = e->offset;
    m->dev = e->dev;
    m->inode = e->inode;
    memcpy(m->path, e->path, size);
    struct sonde_module_bytes bytes = { .fd = -1 };
    int fd = -1;
    if (!sonde_module_bytes_open(m, l->pid, &bytes)) {
        fd = bytes.fd;
        if (bytes.memory) { /* no file can be had any more */
            close(fd);
            fd = -1;
        }
    }
    sonde__free(m);
    l->file(l->arg, &f, fd);
    return 0;
}

int sonde_aspace_files(uint32_t pid, int (*want)(void *arg, const struct sonde_aspace_file *f),
                       void (*file)(void *arg, const struct sonde_aspace_file *f, int fd),
                       void *arg)
{
    struct aspace_look l = { pid, want, file, arg };
    return sonde_aspace_maps(pid, aspace_look_at, &l);
}
