/* queue.c - see queue.h. */
#include "push/queue.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "sonde/sonde.h"

enum { OVERHEAD = 256 }; /* of a batch in memory, or of a file on disk, beside its body */
static const uint64_t memory_max = 16u << 20; /* without a folder */

struct push_queue_entry {
    struct push_queue_entry *next;
    uint64_t seq, made_ms, bytes;
    struct push_batch *batch;   /* NULL: only its file is there */
    int on_disk;
};

struct push_queue {
    struct sonde_lock lock;       /* all of it; also held while a file is written or read */
    int dir_fd, lock_fd;        /* -1 = in memory */
    uint64_t bytes_max, age_ms, next_seq;
    struct push_queue_entry *first, **end;
    int busy;                   /* the first is being sent: it is not dropped */
    struct push_queue_stats stats;
};

/* ---- Batches --------------------------------------------------------------------------------- */

static uint64_t unix_ms(void) { return sonde_clock_ns(CLOCK_REALTIME) / 1000000; }

struct push_batch *push_batch_create(uint32_t signal, const char *target, uint32_t items,
                                     char *body, size_t body_len)
{
    assert(target && (body || !body_len));
    struct push_batch *b = sonde__calloc(1, sizeof(*b));
    char *copy = sonde__strdup(target);
    if (!b || !copy) {
        sonde__free(b);
        sonde__free(copy);
        return NULL;
    }
    *b = (struct push_batch){ .signal = signal, .target = copy, .items = items, .body = body,
                              .body_len = body_len, .made_ms = unix_ms() };
    return b;
}

void push_batch_destroy(struct push_batch *b)
{
    if (!b) return;
    sonde__free(b->target);
    sonde__free(b->body);
    sonde__free(b);
}

/* ---- Entries --------------------------------------------------------------------------------- */

static struct push_queue_entry *push_queue_append(struct push_queue *q, uint64_t seq,
                                                  uint64_t made_ms, uint64_t bytes)
{
    sonde_assert_held(&q->lock);
    assert(seq && !*q->end);
    struct push_queue_entry *e = sonde__calloc(1, sizeof(*e));
    if (!e) return NULL;
    e->seq = seq;
    e->made_ms = made_ms;
    e->bytes = bytes;
    *q->end = e;
    q->end = &e->next;
    q->stats.batches++;
    q->stats.bytes += bytes;
    return e;
}

/* e, which follows what *link is of, is gone. */
static void push_queue_forget(struct push_queue *q, struct push_queue_entry **link)
{
    sonde_assert_held(&q->lock);
    struct push_queue_entry *e = *link;
    assert(!q->busy || e != q->first); /* nobody else frees what is being sent */
    assert(q->stats.batches && q->stats.bytes >= e->bytes);
    *link = e->next;
    if (!e->next) q->end = link;
    q->stats.batches--;
    q->stats.bytes -= e->bytes;
    if (e->on_disk) push_spool_remove(q->dir_fd, e->seq);
    push_batch_destroy(e->batch);
    sonde__free(e);
}

/* Of those that may be dropped the oldest. */
static struct push_queue_entry **push_queue_oldest(struct push_queue *q)
{
    struct push_queue_entry **link = &q->first;
    if (q->busy && *link) link = &(*link)->next;
    return link;
}

static void push_queue_make_room(struct push_queue *q)
{
    while (q->stats.bytes > q->bytes_max && *push_queue_oldest(q)) {
        push_queue_forget(q, push_queue_oldest(q));
        q->stats.dropped_size++;
    }
}

static void drop_old(struct push_queue *q)
{
    const uint64_t now = unix_ms();
    while (*push_queue_oldest(q) && (*push_queue_oldest(q))->made_ms + q->age_ms < now) {
        push_queue_forget(q, push_queue_oldest(q));
        q->stats.dropped_age++;
    }
}

/* The batch of e to its file. If that cannot be written it stays in memory as long as there is
 * little of it: a disk that is full for a moment loses nothing. */
static void to_disk(struct push_queue *q, struct push_queue_entry **link)
{
    sonde_assert_held(&q->lock);
    struct push_queue_entry *e = *link;
    assert(e->batch || e->on_disk);
    if (q->dir_fd < 0 || e->on_disk) return;
    uint64_t size = 0;
    if (push_spool_write(q->dir_fd, e->batch, &size) != 0) {
        if (q->stats.bytes <= memory_max) return;
        push_queue_forget(q, link);
        q->stats.dropped_spool++;
        return;
    }
    e->on_disk = 1;
    q->stats.spooled++;
    q->stats.bytes += size + OVERHEAD - e->bytes;
    e->bytes = size + OVERHEAD;
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static int push_queue_open_dir(struct push_queue *q, const char *dir, struct sonde_err *note)
{
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        return sonde_err_set(note, SONDE_EIO, "%s: %s", dir, strerror(errno));
    }
    q->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (q->dir_fd < 0) return sonde_err_set(note, SONDE_EIO, "%s: %s", dir, strerror(errno));
    q->lock_fd = openat(q->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (q->lock_fd < 0) return sonde_err_set(note, SONDE_EIO, "%s/lock: %s", dir, strerror(errno));
    if (flock(q->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        return sonde_err_set(note, SONDE_EIO, "%s is in use by another agent", dir);
    }
    return 0;
}

static void close_dir(struct push_queue *q)
{
    if (q->dir_fd >= 0) close(q->dir_fd);
    if (q->lock_fd >= 0) close(q->lock_fd);
    q->dir_fd = q->lock_fd = -1;
}

/* What an agent before this one left. */
static int push_queue_take_over(struct push_queue *q)
{
    uint64_t *seqs = NULL;
    size_t count = 0;
    int rc = push_spool_list(q->dir_fd, &seqs, &count);
    for (size_t i = 0; !rc && i < count; i++) {
        uint64_t made_ms, size;
        q->next_seq = seqs[i] + 1;
        const int looked = push_spool_look(q->dir_fd, seqs[i], &made_ms, &size);
        if (looked == SONDE_EFORMAT) {
            push_spool_remove(q->dir_fd, seqs[i]);
            q->stats.dropped_damaged++;
        }
        if (looked) continue;
        struct push_queue_entry *e = push_queue_append(q, seqs[i], made_ms, size + OVERHEAD);
        if (!e) rc = SONDE_ENOMEM;
        else e->on_disk = 1;
    }
    sonde__free(seqs);
    q->stats.found = q->stats.batches;
    return rc;
}

int push_queue_open(const char *dir, uint64_t bytes_max, double age_s, struct push_queue **out,
                    struct sonde_err *note)
{
    struct push_queue *q = sonde__calloc(1, sizeof(*q));
    if (!q) return SONDE_ENOMEM;
    sonde_lock_init(&q->lock, SONDE_RANK_PUSH_QUEUE);
    q->dir_fd = q->lock_fd = -1;
    q->end = &q->first;
    q->next_seq = 1;
    q->bytes_max = bytes_max;
    q->age_ms = (uint64_t)(age_s * 1e3);
    if (dir && push_queue_open_dir(q, dir, note) != 0) close_dir(q);
    q->stats.on_disk = q->dir_fd >= 0;
    if (q->dir_fd < 0 && q->bytes_max > memory_max) q->bytes_max = memory_max;
    sonde_lock(&q->lock); /* nobody else knows it yet; the functions above want it */
    const int rc = q->stats.on_disk ? push_queue_take_over(q) : 0;
    if (!rc) push_queue_make_room(q);
    sonde_unlock(&q->lock);
    if (rc) {
        push_queue_close(q);
        return rc;
    }
    *out = q;
    return 0;
}

uint64_t push_queue_close(struct push_queue *q)
{
    uint64_t lost = 0;
    if (!q) return 0;
    sonde_lock(&q->lock);
    q->busy = 0;
    for (struct push_queue_entry **link = &q->first; *link;) {
        struct push_queue_entry *const e = *link;
        to_disk(q, link);
        if (*link != e) {
            lost++;
            continue;
        }
        if (!e->on_disk) lost++;
        e->on_disk = 0; /* the file stays */
        push_queue_forget(q, link);
    }
    assert(!q->first && !q->stats.batches);
    sonde_unlock(&q->lock);
    close_dir(q);
    sonde_lock_destroy(&q->lock);
    sonde__free(q);
    return lost;
}

/* ---- Using it -------------------------------------------------------------------------------- */

void push_queue_put(struct push_queue *q, struct push_batch *b)
{
    assert(b && !b->next);
    sonde_lock(&q->lock);
    b->seq = q->next_seq++;
    const int alone = !q->first;
    struct push_queue_entry **const link = q->end;
    struct push_queue_entry *e = push_queue_append(q, b->seq, b->made_ms, b->body_len + OVERHEAD);
    if (!e) {
        q->stats.dropped_memory++;
        push_batch_destroy(b);
    } else {
        e->batch = b;
        if (!alone) {
            to_disk(q, link);
            if (*link == e && e->on_disk) {
                push_batch_destroy(e->batch);
                e->batch = NULL;
            }
        }
        push_queue_make_room(q);
    }
    sonde_unlock(&q->lock);
}

const struct push_batch *push_queue_first(struct push_queue *q)
{
    sonde_lock(&q->lock);
    assert(!q->busy);
    drop_old(q);
    while (q->first && !q->first->batch) {
        const int rc = push_spool_read(q->dir_fd, q->first->seq, &q->first->batch);
        if (!rc) break;
        if (rc == SONDE_ENOMEM) break;
        push_queue_forget(q, &q->first);
        q->stats.dropped_damaged++;
    }
    const struct push_batch *b = q->first ? q->first->batch : NULL;
    q->busy = b != NULL;
    sonde_unlock(&q->lock);
    return b;
}

void push_queue_done(struct push_queue *q)
{
    sonde_lock(&q->lock);
    assert(q->busy);
    q->busy = 0;
    push_queue_forget(q, &q->first);
    sonde_unlock(&q->lock);
}

void push_queue_keep(struct push_queue *q)
{
    sonde_lock(&q->lock);
    assert(q->busy);
    q->busy = 0;
    struct push_queue_entry *const e = q->first;
    to_disk(q, &q->first);
    if (q->first == e && e->on_disk) {
        push_batch_destroy(e->batch);
        e->batch = NULL;
    }
    push_queue_make_room(q);
    sonde_unlock(&q->lock);
}

int push_queue_empty(struct push_queue *q)
{
    sonde_lock(&q->lock);
    const int empty = !q->first;
    sonde_unlock(&q->lock);
    return empty;
}

void push_queue_stats(struct push_queue *q, struct push_queue_stats *out)
{
    sonde_lock(&q->lock);
    *out = q->stats;
    sonde_unlock(&q->lock);
}
