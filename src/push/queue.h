/* queue.h - batches on their way to one destination: oldest first, bounded, and on disk if they
 * have to wait.
 *
 * The newest batch is in memory as long as it is the only one. As soon as there are others, or it
 * could not be sent, it is a file of its own in the destination's folder, named by its number:
 *
 *   0000000000000017.batch    magic · crc32 of what follows · signal · made_ms · items ·
 *                             length of the target and of the body · target · body
 *
 * It is written under another name first, so that a file is whole or not there; after a power cut
 * it may be neither, which its check sum shows. Damaged files are removed and counted. An agent
 * that is killed loses the batch that it was just sending, nothing else; the next one goes on with
 * the oldest. One agent at a time has a folder (a lock file); a second one keeps its batches in
 * memory, as one without a folder does.
 *
 * Rejected: one file as a ring, which has to be repaired after a crash, and SQLite, whose file does
 * not shrink when the collector is back. fsync: it would be one for each batch, all the time that a
 * collector is away, for the case of a power cut in just that time. */
#ifndef SONDE_PUSH_QUEUE_H
#define SONDE_PUSH_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PUSH_TARGET_MAX 2048
#define PUSH_BODY_MAX ((size_t)64 << 20)

struct push_batch {
    struct push_batch *next;
    uint64_t seq;               /* the queue's: of all its batches, in the order they were put */
    uint64_t made_ms;           /* unix time */
    uint32_t signal;            /* SONDE_PUSH_… */
    uint32_t items;             /* points, spans, samples in it */
    char *target;               /* path and query; owned */
    char *body;                 /* owned */
    size_t body_len;
};

/* NULL = out of memory. Takes body; copies target. */
struct push_batch *push_batch_create(uint32_t signal, const char *target, uint32_t items,
                                     char *body, size_t body_len);
void push_batch_destroy(struct push_batch *b); /* NULL is fine */

struct push_queue;

struct push_queue_stats {
    uint64_t batches, bytes;    /* now */
    uint64_t spooled;           /* written to files, ever */
    uint64_t found;             /* of another agent, at the start */
    uint64_t dropped_size, dropped_age, dropped_damaged, dropped_spool, dropped_memory;
    int on_disk;                /* it has a folder */
};

/* dir NULL: in memory. note is filled if there is a folder but it cannot be used: then it is in
 * memory too. SONDE_ENOMEM. */
int push_queue_open(const char *dir, uint64_t bytes_max, double age_s, struct push_queue **out,
                    struct sonde_err *note);
/* Batches in memory go to the folder, if there is one; returns how many are lost. NULL is fine. */
uint64_t push_queue_close(struct push_queue *q);

/* Takes b. */
void push_queue_put(struct push_queue *q, struct push_batch *b);

/* The oldest, out of its file if that is where it is; NULL = there is none. It stays in the queue
 * until it is done; only one at a time. */
const struct push_batch *push_queue_first(struct push_queue *q);
void push_queue_done(struct push_queue *q);  /* the first: sent, or never will be */
void push_queue_keep(struct push_queue *q);  /* the first: later */

int push_queue_empty(struct push_queue *q);
void push_queue_stats(struct push_queue *q, struct push_queue_stats *out);

/* ---- spool.c: a batch as a file -------------------------------------------------------------- */

/* 0 or SONDE_E…; nothing is left behind on failure. size: of the file. */
int push_spool_write(int dir_fd, const struct push_batch *b, uint64_t *size);
/* SONDE_EFORMAT: damaged; SONDE_ENOMEM: later it may go well; or of errno. */
int push_spool_read(int dir_fd, uint64_t seq, struct push_batch **out);
void push_spool_remove(int dir_fd, uint64_t seq);
/* Numbers of all files, ascending, to be freed; half-written ones are removed. */
int push_spool_list(int dir_fd, uint64_t **seqs, size_t *count);
/* When it was made and how large its file is, without the body. As reading. */
int push_spool_look(int dir_fd, uint64_t seq, uint64_t *made_ms, uint64_t *size);

#endif
