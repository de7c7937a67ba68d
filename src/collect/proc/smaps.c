#include "collect/proc/smaps.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "collect/proc/procfs.h"
#include "sonde/sonde.h"

#define READ_BYTES 65536u    /* at once; no line is longer */
#define PAUSE_MIN_NS 250000000u
#define PAUSE_NS 10000000000u
#define SHARE 1000u
#define SHARE_AT_LAST 100u

/* ---- Small files ----------------------------------------------------------------------------- */

static int read_keys(uint32_t pid, const char *file, struct sonde_procfs_key *keys, size_t count)
{
    struct sonde_procfs_buf b;
    char path[64];
    int rc = sonde_procfs_buf_init(&b);
    if (rc != 0) return rc;
    snprintf(path, sizeof(path), "/proc/%u/%s", pid, file);
    rc = sonde_procfs_read(&b, AT_FDCWD, path);
    if (rc == 0) sonde_procfs_keys(sonde_procfs_text(&b), keys, count);
    sonde_procfs_buf_release(&b);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        if (!keys[i].found) rc = SONDE_EFORMAT;
    }
    return rc;
}

int sonde_smaps_resident(uint32_t pid, uint64_t *rss_bytes, uint64_t *rss_peak_bytes)
{
    struct sonde_procfs_key keys[] = { { .key = "VmHWM:" }, { .key = "VmRSS:" } };
    const int rc = read_keys(pid, "status", keys, 2);
    if (rc != 0) return rc;
    *rss_peak_bytes = keys[0].value;
    *rss_bytes = keys[1].value;
    return 0;
}

/* ---- Mappings -------------------------------------------------------------------------------- */

/* The row of that name. NULL: no memory. */
static struct sonde_smaps_row *smaps_row_of(struct sonde_smaps *s, const char *name)
{
    for (uint32_t i = s->count; i-- > 0;) { /* a file's mappings follow each other */
        if (!strcmp(s->rows[i].name, name)) return &s->rows[i];
    }
    if (s->count >= SONDE_SMAPS_NAMES - 1 && strcmp(name, "[others]")) {
        return smaps_row_of(s, "[others]");
    }
    if (!s->rows) s->rows = sonde__calloc(SONDE_SMAPS_NAMES, sizeof(*s->rows));
    char *copy = s->rows ? sonde__strdup(name) : NULL;
    if (!copy) return NULL;
    s->rows[s->count].name = copy;
    return &s->rows[s->count++];
}

/* "7f0c…-7f0d… rw-p 00000000 00:00 0     [anon:weights]": five words, then the name. */
static struct sonde_smaps_row *head_line(struct sonde_smaps *s, struct sonde_procfs_text line)
{
    struct sonde_procfs_text word;
    char name[1024];
    for (int i = 0; i < 5; i++) {
        if (!sonde_procfs_word(&line, &word)) break;
    }
    while (line.p < line.end && *line.p == ' ') line.p++;
    if (line.p == line.end) return smaps_row_of(s, "[anon]");
    sonde_procfs_copy(line, name, sizeof(name));
    return smaps_row_of(s, name);
}

/* "Rss:       8 kB" */
static void figure_line(struct sonde_smaps *s, struct sonde_smaps_row *row,
                        struct sonde_procfs_text line)
{
    static const struct { const char *key; size_t at; } keys[] = {
        { "Size:", offsetof(struct sonde_smaps_row, bytes) },
        { "Rss:", offsetof(struct sonde_smaps_row, rss_bytes) },
        { "Pss:", offsetof(struct sonde_smaps_row, pss_bytes) },
        { "Swap:", offsetof(struct sonde_smaps_row, swap_bytes) },
    };
    struct sonde_procfs_text word;
    uint64_t kb;
    if (!sonde_procfs_word(&line, &word)) return;
    for (size_t i = 0; i < SONDE_COUNT(keys); i++) {
        if (!sonde_procfs_is(word, keys[i].key)) continue;
        if (!sonde_procfs_u64(&line, &kb) || kb > UINT64_MAX / 1024) return;
        *(uint64_t *)(void *)((char *)row + keys[i].at) += kb * 1024;
        *(uint64_t *)(void *)((char *)&s->all + keys[i].at) += kb * 1024;
        return;
    }
}

struct parser {
    struct sonde_smaps *out;
    struct sonde_smaps_row *row;  /* whose figures follow; NULL = none yet */
};

/* Mappings begin with an address, figures with a name in capitals. */
static int line_take(struct parser *p, struct sonde_procfs_text line)
{
    if (line.p == line.end) return 0;
    if ((*line.p >= '0' && *line.p <= '9') || (*line.p >= 'a' && *line.p <= 'f')) {
        p->row = head_line(p->out, line);
        return p->row ? 0 : SONDE_ENOMEM;
    }
    if (p->row) figure_line(p->out, p->row, line);
    return 0;
}

static int by_rss(const void *a, const void *b)
{
    const struct sonde_smaps_row *x = a, *y = b;
    if (x->rss_bytes != y->rss_bytes) return SONDE_CMP(y->rss_bytes, x->rss_bytes);
    if (x->bytes != y->bytes) return SONDE_CMP(y->bytes, x->bytes);
    return strcmp(x->name, y->name);
}

/* Line by line as it comes: of a process with many mappings it is tens of megabytes. */
static int parse_lines(int fd, struct parser *p, char *buf)
{
    size_t len = 0;
    for (;;) {
        const ssize_t n = read(fd, buf + len, READ_BYTES - len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == ESRCH) return SONDE_ENOENT;
        if (n < 0) return errno == EACCES ? SONDE_EACCES : SONDE_EIO;
        len += (size_t)n;
        char *at = buf, *end;
        while ((end = memchr(at, '\n', len - (size_t)(at - buf))) != NULL) {
            const int rc = line_take(p, (struct sonde_procfs_text){ at, end });
            if (rc != 0) return rc;
            at = end + 1;
        }
        len -= (size_t)(at - buf);
        memmove(buf, at, len);
        if (n == 0) return line_take(p, (struct sonde_procfs_text){ buf, buf + len });
        if (len == READ_BYTES) return SONDE_EFORMAT;
    }
}

int sonde_smaps_parse(int fd, struct sonde_smaps *out, struct sonde_err *err)
{
    assert(out);
    *out = (struct sonde_smaps){ 0 };
    struct parser p = { .out = out };
    char *buf = sonde__alloc(READ_BYTES);
    const int rc = buf ? parse_lines(fd, &p, buf) : SONDE_ENOMEM;
    sonde__free(buf);
    if (rc != 0) {
        sonde_smaps_release(out);
        return sonde_err_set(err, rc, "cannot read the mappings of the process: %s",
                             sonde_strerror(rc));
    }
    if (out->count) qsort(out->rows, out->count, sizeof(*out->rows), by_rss);
    return 0;
}

int sonde_smaps_read(uint32_t pid, struct sonde_smaps *out, struct sonde_err *err)
{
    char path[64];
    *out = (struct sonde_smaps){ 0 };
    snprintf(path, sizeof(path), "/proc/%u/smaps", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        const int failure = errno;
        const int rc = failure == ENOENT ? SONDE_ENOENT
                       : failure == EACCES || failure == EPERM ? SONDE_EACCES : SONDE_EIO;
        return sonde_err_set(err, rc, "cannot open %s: %s", path, strerror(failure));
    }
    const int rc = sonde_smaps_parse(fd, out, err);
    close(fd);
    return rc;
}

void sonde_smaps_release(struct sonde_smaps *s)
{
    for (uint32_t i = 0; i < s->count; i++) sonde__free(s->rows[i].name);
    sonde__free(s->rows);
    *s = (struct sonde_smaps){ 0 };
}

/* ---- Pace ------------------------------------------------------------------------------------ */

int sonde_smaps_is_due(const struct sonde_smaps_pace *p, uint64_t now_ns)
{
    return now_ns >= p->next_ns;
}

int sonde_smaps_is_due_at_last(const struct sonde_smaps_pace *p, uint64_t now_ns)
{
    return now_ns > p->last_ns && now_ns - p->last_ns >= SHARE_AT_LAST * p->took_ns;
}

void sonde_smaps_done(struct sonde_smaps_pace *p, uint64_t start_ns, uint64_t end_ns)
{
    assert(end_ns >= start_ns);
    if (!p->first_ns) p->first_ns = start_ns;
    uint64_t pause = end_ns - p->first_ns; /* so each time it is twice as long as before */
    if (pause < PAUSE_MIN_NS) pause = PAUSE_MIN_NS;
    if (pause > PAUSE_NS) pause = PAUSE_NS;
    if (pause < SHARE * (end_ns - start_ns)) pause = SHARE * (end_ns - start_ns);
    p->next_ns = end_ns + pause;
    p->last_ns = end_ns;
    p->took_ns = end_ns - start_ns;
}
