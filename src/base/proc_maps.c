#include "base/proc_maps.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/errno.h"
#include "sonde/sonde.h"

#define BUF 16384u /* a line is at most PATH_MAX escaped fourfold, and longer ones are skipped */

static int proc_maps_hex(const char **p, char end, uint64_t *out)
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

static int proc_maps_decimal(const char **p, uint64_t *out)
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
static void proc_maps_unescape(char *s)
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
static int proc_maps_parse(char *text, struct sonde_mapping *m)
{
    const char *p = text;
    uint64_t major, minor;
    if (proc_maps_hex(&p, '-', &m->start) || proc_maps_hex(&p, ' ', &m->end) ||
        m->end <= m->start) {
        return -1;
    }
    if (strnlen(p, 5) < 5 || p[4] != ' ') return -1;
    m->executable = p[2] == 'x';
    p += 5;
    if (proc_maps_hex(&p, ' ', &m->offset) || proc_maps_hex(&p, ':', &major) ||
        proc_maps_hex(&p, ' ', &minor)) {
        return -1;
    }
    m->dev = makedev((unsigned)major, (unsigned)minor);
    if (proc_maps_decimal(&p, &m->inode)) return -1;
    while (*p == ' ') p++;
    char *path = text + (p - text);
    proc_maps_unescape(path);
    m->path = path;
    return 0;
}

struct proc_maps_lines {
    int (*line)(void *arg, const struct sonde_mapping *m);
    void *arg;
    char *buf;
    size_t len;
    int skip; /* the rest of a line that is too long */
};

/* Gives out the whole lines there are, and keeps what follows them. */
static int proc_maps_give(struct proc_maps_lines *l)
{
    size_t at = 0;
    char *nl;
    int rc = 0;
    while (!rc && (nl = memchr(l->buf + at, '\n', l->len - at))) {
        struct sonde_mapping m;
        *nl = 0;
        if (!l->skip && !proc_maps_parse(l->buf + at, &m)) rc = l->line(l->arg, &m);
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

int sonde_proc_maps(uint32_t pid, int (*line)(void *arg, const struct sonde_mapping *m),
                    void *arg)
{
    assert(line);
    char path[64];
    struct proc_maps_lines l = { .line = line, .arg = arg };
    int rc = 0;
    snprintf(path, sizeof(path), "/proc/%u/maps", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return sonde__from_errno(errno);
    l.buf = sonde__alloc(BUF);
    if (!l.buf) rc = SONDE_ENOMEM;
    while (!rc) {
        const ssize_t n = read(fd, l.buf + l.len, BUF - l.len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) rc = sonde__from_errno(errno);
        if (n <= 0) break;
        l.len += (size_t)n;
        rc = proc_maps_give(&l);
    }
    sonde__free(l.buf);
    close(fd);
    return rc;
}
