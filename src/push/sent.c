/* sent.c - see sent.h. */
#include "push/sent.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "base/file.h"
#include "sonde/sonde.h"

static const char file_name[] = "spans", old_name[] = "spans.old";

struct push_sent {
    int dir_fd, fd;        /* fd: of the file that is written to; -1 = it cannot be */
    size_t written;        /* ids in it */
    uint64_t *ids;         /* of agents before, ascending */
    size_t count;
};

/* Its ids, after those that are there; half an id at its end is nobody's. */
static size_t push_sent_load(int dir_fd, const char *name, uint64_t *ids)
{
    const int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return 0;
    const ssize_t len = sonde_file_read_full(fd, ids, PUSH_SENT_MAX * sizeof(*ids));
    close(fd);
    return len > 0 ? (size_t)len / sizeof(*ids) : 0;
}

static void start_file(struct push_sent *s)
{
    s->fd =
        openat(s->dir_fd, file_name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
}

int push_sent_open(const char *dir, struct push_sent **out)
{
    struct push_sent *s = sonde__calloc(1, sizeof(*s));
    if (!s) return SONDE_ENOMEM;
    s->fd = -1;
    s->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    s->ids = sonde__alloc(2 * PUSH_SENT_MAX * sizeof(*s->ids));
    if (s->dir_fd < 0 || !s->ids) {
        const int rc = s->ids ? SONDE_EIO : SONDE_ENOMEM;
        push_sent_close(s);
        return rc;
    }
    s->count = push_sent_load(s->dir_fd, old_name, s->ids);
    s->written = push_sent_load(s->dir_fd, file_name, s->ids + s->count);
    s->count += s->written;
    qsort(s->ids, s->count, sizeof(*s->ids), sonde_cmp_u64);
    /* Most of it is not needed: a new agent finds some thousand, or none. */
    uint64_t *fits = sonde__realloc(s->ids, (s->count + 1) * sizeof(*s->ids));
    if (fits) s->ids = fits;
    start_file(s);
    if (s->fd >= 0 && ftruncate(s->fd, (off_t)(s->written * sizeof(*s->ids))) != 0) {
        close(s->fd); /* ids would not stand where they are looked for */
        s->fd = -1;
    }
    *out = s;
    return 0;
}

void push_sent_close(struct push_sent *s)
{
    if (!s) return;
    if (s->fd >= 0) close(s->fd);
    if (s->dir_fd >= 0) close(s->dir_fd);
    sonde__free(s->ids);
    sonde__free(s);
}

int push_sent_has(const struct push_sent *s, uint64_t id)
{
    assert(!s || !s->count || s->ids[0] <= s->ids[s->count - 1]);
    return s && s->count && bsearch(&id, s->ids, s->count, sizeof(id), sonde_cmp_u64) != NULL;
}

/* A write that fails is no reason to stop: those spans may be sent twice. */
void push_sent_add(struct push_sent *s, const uint64_t *ids, size_t count)
{
    while (s && count && s->fd >= 0) {
        assert(s->written <= PUSH_SENT_MAX);
        const size_t room = PUSH_SENT_MAX - s->written, n = count < room ? count : room;
        if (!n) {
            close(s->fd);
            renameat(s->dir_fd, file_name, s->dir_fd, old_name);
            s->written = 0;
            start_file(s);
            continue;
        }
        const ssize_t done = write(s->fd, ids, n * sizeof(*ids));
        if (done < 0 && errno == EINTR) continue;
        if (done < (ssize_t)(n * sizeof(*ids))) {
            if (ftruncate(s->fd, (off_t)(s->written * sizeof(*ids))) != 0) {
                close(s->fd);
                s->fd = -1;
            }
            return;
        }
        s->written += n;
        ids += n;
        count -= n;
    }
}
