#include "collect/proc/procfs.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/errno.h"
#include "base/utf8.h"
#include "sonde/sonde.h"

/* Fits every file of a usual machine, so that growing is the exception. */
#define BUF_START (16u << 10)

int sonde_procfs_buf_init(struct sonde_procfs_buf *b)
{
    char *data = sonde__alloc(BUF_START);
    if (!data) return SONDE_ENOMEM;
    *b = (struct sonde_procfs_buf){ .data = data, .cap = BUF_START };
    b->data[0] = 0;
    return 0;
}

void sonde_procfs_buf_release(struct sonde_procfs_buf *b)
{
    sonde__free(b->data);
    *b = (struct sonde_procfs_buf){ 0 };
}

static int procfs_grow(struct sonde_procfs_buf *b)
{
    /* One byte over the maximum, to tell a file of that size from a larger one; one for NUL. */
    const size_t most = (size_t)SONDE_PROCFS_MAX + 2;
    if (b->cap >= most) return SONDE_EFULL;
    const size_t cap = b->cap * 2 < most ? b->cap * 2 : most;
    char *data = sonde__realloc(b->data, cap);
    if (!data) return SONDE_ENOMEM;
    b->data = data;
    b->cap = cap;
    return 0;
}

int sonde_procfs_read_fd(struct sonde_procfs_buf *b, int fd)
{
    assert(b->data && b->cap > 1); /* initialized */
    int rc = 0;
    b->len = 0;
    for (;;) {
        if (b->len + 1 >= b->cap) {
            rc = procfs_grow(b);
            if (rc) break;
        }
        const ssize_t n = pread(fd, b->data + b->len, b->cap - 1 - b->len, (off_t)b->len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) rc = sonde__from_errno(errno);
        if (n <= 0) break;
        b->len += (size_t)n;
    }
    if (!rc && b->len > SONDE_PROCFS_MAX) rc = SONDE_EFULL;
    if (rc) b->len = 0;
    b->data[b->len] = 0;
    return rc;
}

int sonde_procfs_read(struct sonde_procfs_buf *b, int dir_fd, const char *path)
{
    assert(b->data && b->cap);
    b->len = 0;
    b->data[0] = 0;
    /* O_NONBLOCK: a fifo under this name must not stop the agent. */
    const int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0) return sonde__from_errno(errno);
    const int rc = sonde_procfs_read_fd(b, fd);
    close(fd);
    return rc;
}

/* ---- Text -------------------------------------------------------------------------------- */

int sonde_procfs_line(struct sonde_procfs_text *t, struct sonde_procfs_text *line)
{
    assert(t->p <= t->end);
    if (t->p >= t->end) return 0;
    const char *nl = memchr(t->p, '\n', (size_t)(t->end - t->p));
    const char *end = nl ? nl : t->end;
    *line = (struct sonde_procfs_text){ t->p, end };
    t->p = nl ? nl + 1 : t->end;
    return 1;
}

static int procfs_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

int sonde_procfs_word(struct sonde_procfs_text *t, struct sonde_procfs_text *word)
{
    assert(t->p <= t->end);
    const char *p = t->p;
    while (p < t->end && procfs_is_blank(*p)) p++;
    const char *start = p;
    while (p < t->end && !procfs_is_blank(*p)) p++;
    t->p = p;
    if (p == start) return 0;
    *word = (struct sonde_procfs_text){ start, p };
    return 1;
}

static int procfs_digits(const char **p, const char *end, uint64_t *out)
{
    uint64_t v = 0;
    const char *q = *p;
    for (; q < end && *q >= '0' && *q <= '9'; q++) {
        if (__builtin_mul_overflow(v, 10u, &v)) return 0;
        if (__builtin_add_overflow(v, (uint64_t)(*q - '0'), &v)) return 0;
    }
    if (q == *p) return 0;
    *p = q;
    *out = v;
    return 1;
}

int sonde_procfs_u64(struct sonde_procfs_text *t, uint64_t *out)
{
    struct sonde_procfs_text w;
    uint64_t v;
    if (!sonde_procfs_word(t, &w) || !procfs_digits(&w.p, w.end, &v) || w.p != w.end) return 0;
    *out = v;
    return 1;
}

int sonde_procfs_u64s(struct sonde_procfs_text *t, uint64_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!sonde_procfs_u64(t, &out[i])) return 0;
    }
    return 1;
}

int sonde_procfs_double(struct sonde_procfs_text *t, double *out)
{
    struct sonde_procfs_text w;
    uint64_t whole, fraction = 0;
    double unit = 1;
    if (!sonde_procfs_word(t, &w) || !procfs_digits(&w.p, w.end, &whole)) return 0;
    if (w.p < w.end && *w.p == '.') {
        const char *start = ++w.p;
        if (!procfs_digits(&w.p, w.end, &fraction)) return 0;
        for (; start < w.p; start++) unit *= 10;
    }
    if (w.p != w.end) return 0;
    /* One division of whole numbers, so that 2.28 is the double that is written 2.28. */
    *out = ((double)whole * unit + (double)fraction) / unit;
    return 1;
}

int sonde_procfs_is(struct sonde_procfs_text word, const char *s)
{
    const size_t len = strlen(s);
    return (size_t)(word.end - word.p) == len && memcmp(word.p, s, len) == 0;
}

size_t sonde_procfs_copy(struct sonde_procfs_text word, char *out, size_t out_size)
{
    assert(out && out_size > 0);
    int changed = 0;
    const size_t n =
        sonde__utf8_copy(out, out_size - 1, word.p, (size_t)(word.end - word.p), &changed);
    out[n] = 0;
    return n;
}

void sonde_procfs_keys(struct sonde_procfs_text text, struct sonde_procfs_key *keys,
                       size_t count)
{
    struct sonde_procfs_text line, word;
    size_t at = 0; /* keys are asked for in the file's order: try the one that is due first */
    for (size_t i = 0; i < count; i++) keys[i].found = 0;
    while (sonde_procfs_line(&text, &line)) {
        if (!sonde_procfs_word(&line, &word)) continue;
        for (size_t tried = 0; tried < count; tried++) {
            struct sonde_procfs_key *k = &keys[(at + tried) % count];
            if (!sonde_procfs_is(word, k->key)) continue;
            at = (at + tried + 1) % count;
            k->found = sonde_procfs_u64(&line, &k->value);
            if (sonde_procfs_word(&line, &word) && sonde_procfs_is(word, "kB") &&
                __builtin_mul_overflow(k->value, 1024u, &k->value)) {
                k->found = 0;
            }
            break;
        }
    }
}

/* ---- /proc/PID/stat ---------------------------------------------------------------------- */

int sonde_procfs_stat(struct sonde_procfs_text text, struct sonde_procfs_stat *out)
{
    /* Numbers of fields in proc(5), counted from 1; 4 is the first after the state. */
    enum { FIRST = 4, MINFLT = 10, MAJFLT = 12, UTIME = 14, STIME = 15, THREADS = 20, START = 22,
           VSIZE = 23, RSS = 24, PROCESSOR = 39, IO_DELAY = 42, LAST = IO_DELAY };
    if (text.p >= text.end) return SONDE_EFORMAT;
    const size_t len = (size_t)(text.end - text.p);
    const char *open = memchr(text.p, '(', len);
    const char *close = memrchr(text.p, ')', len);
    if (!open || !close || close < open) return SONDE_EFORMAT;

    struct sonde_procfs_text rest = { close + 1, text.end }, word;
    if (!sonde_procfs_word(&rest, &word) || word.end - word.p != 1) return SONDE_EFORMAT;
    const char state = *word.p;

    uint64_t field[LAST + 1] = { 0 };
    for (int i = FIRST; i <= LAST; i++) {
        if (!sonde_procfs_word(&rest, &word)) {
            if (i > PROCESSOR) break; /* not of every kernel */
            return SONDE_EFORMAT;
        }
        const char *p = word.p;
        const int signed_field = *p == '-'; /* tpgid, nice, …: not wanted here */
        if (signed_field) p++;
        if (!procfs_digits(&p, word.end, &field[i]) || p != word.end) return SONDE_EFORMAT;
        if (signed_field) field[i] = 0;
    }
    *out = (struct sonde_procfs_stat){
        .state = state,
        .faults_minor = field[MINFLT],
        .faults_major = field[MAJFLT],
        .user = field[UTIME],
        .system = field[STIME],
        .threads = field[THREADS],
        .start_time = field[START],
        .virtual_bytes = field[VSIZE],
        .resident_pages = field[RSS],
        .cpu = field[PROCESSOR],
        .io_delay = field[IO_DELAY],
    };
    sonde_procfs_copy((struct sonde_procfs_text){ open + 1, close }, out->name,
                      sizeof(out->name));
    return 0;
}

/* ---- Folders ----------------------------------------------------------------------------- */

int sonde_procfs_dir_open(struct sonde_procfs_dir *d, int dir_fd, const char *path)
{
    d->pos = d->len = 0;
    d->fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return d->fd < 0 ? sonde__from_errno(errno) : 0;
}

int sonde_procfs_dir_next(struct sonde_procfs_dir *d, uint32_t *number)
{
    assert(d->fd >= 0 && d->pos <= d->len);
    for (;;) {
        if (d->pos >= d->len) {
            /* getdents64 and not readdir: the latter allocates a buffer for every open. */
            const ssize_t n = getdents64(d->fd, d->buf, sizeof(d->buf));
            if (n <= 0) return 0;
            d->pos = 0;
            d->len = (size_t)n;
        }
        const struct dirent64 *e = (const struct dirent64 *)(const void *)(d->buf + d->pos);
        d->pos += e->d_reclen;
        uint64_t v;
        const char *p = e->d_name, *end = p + strlen(p);
        if (procfs_digits(&p, end, &v) && p == end && v <= UINT32_MAX) {
            *number = (uint32_t)v;
            return 1;
        }
    }
}

void sonde_procfs_dir_close(struct sonde_procfs_dir *d)
{
    if (d->fd >= 0) close(d->fd);
    d->fd = -1;
}
