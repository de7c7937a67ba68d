/* spool.c - a batch as a file. Layout: queue.h. Files are ours, but anybody's disk may have damaged
 * them, and nothing in them is believed before the check sum is right. */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/errno.h"
#include "base/file.h"
#include "push/queue.h"
#include "sonde/sonde.h"

#define MAGIC "SONDEPB1"

struct push_spool_header {
    char magic[8];
    uint32_t crc;        /* of all after it: the rest of the header, target, body */
    uint32_t signal;
    uint64_t made_ms;
    uint32_t items;
    uint32_t target_len;
    uint64_t body_len;
};
_Static_assert(sizeof(struct push_spool_header) == 40, "a spool file's header");

enum { CRC_FROM = 12, NAME_SIZE = 32 };

static void push_spool_name_of(char out[NAME_SIZE], uint64_t seq, const char *suffix)
{
    snprintf(out, NAME_SIZE, "%016" PRIx64 "%s", seq, suffix);
}

static uint32_t push_spool_sum_of(const struct push_spool_header *h, const char *target,
                                  const char *body)
{
    uLong crc = crc32(0, (const Bytef *)h + CRC_FROM, sizeof(*h) - CRC_FROM);
    crc = crc32_z(crc, (const Bytef *)target, h->target_len);
    return (uint32_t)crc32_z(crc, (const Bytef *)body, (z_size_t)h->body_len);
}

/* ---- Writing --------------------------------------------------------------------------------- */

int push_spool_write(int dir_fd, const struct push_batch *b, uint64_t *size)
{
    char name[NAME_SIZE], half[NAME_SIZE];
    push_spool_name_of(name, b->seq, ".batch");
    push_spool_name_of(half, b->seq, ".half");
    assert(b->body_len <= PUSH_BODY_MAX && strlen(b->target) < PUSH_TARGET_MAX);
    struct push_spool_header h = { .signal = b->signal, .made_ms = b->made_ms, .items = b->items,
                                   .target_len = (uint32_t)strlen(b->target),
                                   .body_len = b->body_len };
    memcpy(h.magic, MAGIC, sizeof(h.magic));
    h.crc = push_spool_sum_of(&h, b->target, b->body);

    const struct iovec parts[] = { { &h, sizeof(h) }, { b->target, h.target_len },
                                   { b->body, b->body_len } };
    const int rc = sonde_file_replace_at(dir_fd, name, half, parts, (int)SONDE_COUNT(parts));
    if (!rc) *size = sizeof(h) + h.target_len + h.body_len;
    return rc;
}

void push_spool_remove(int dir_fd, uint64_t seq)
{
    char name[NAME_SIZE];
    assert(seq);
    push_spool_name_of(name, seq, ".batch");
    unlinkat(dir_fd, name, 0);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* len bytes; SONDE_EFORMAT if it ends before. */
static int push_spool_read_exact(int fd, void *data, size_t len)
{
    const ssize_t n = sonde_file_read_full(fd, data, len);
    return n < 0 ? SONDE_EIO : (size_t)n < len ? SONDE_EFORMAT : 0;
}

/* Lengths that fit the file, at least. */
static int push_spool_read_header(int dir_fd, uint64_t seq, struct push_spool_header *h, int *out,
                                  uint64_t *size)
{
    char name[NAME_SIZE];
    struct stat st;
    push_spool_name_of(name, seq, ".batch");
    const int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return sonde__from_errno(errno);
    int rc = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? push_spool_read_exact(fd, h, sizeof(*h))
                                                        : SONDE_EFORMAT;
    if (!rc && (memcmp(h->magic, MAGIC, sizeof(h->magic)) != 0 ||
                h->target_len >= PUSH_TARGET_MAX || h->body_len > PUSH_BODY_MAX ||
                (uint64_t)st.st_size != sizeof(*h) + h->target_len + h->body_len)) {
        rc = SONDE_EFORMAT;
    }
    if (rc) {
        close(fd);
        return rc;
    }
    *out = fd;
    *size = (uint64_t)st.st_size;
    return 0;
}

int push_spool_look(int dir_fd, uint64_t seq, uint64_t *made_ms, uint64_t *size)
{
    struct push_spool_header h;
    int fd;
    const int rc = push_spool_read_header(dir_fd, seq, &h, &fd, size);
    if (rc) return rc;
    close(fd);
    *made_ms = h.made_ms;
    return 0;
}

int push_spool_read(int dir_fd, uint64_t seq, struct push_batch **out)
{
    struct push_spool_header h;
    int fd;
    uint64_t size;
    int rc = push_spool_read_header(dir_fd, seq, &h, &fd, &size);
    if (rc) return rc;
    char target[PUSH_TARGET_MAX], *body = sonde__alloc((size_t)h.body_len + 1);
    rc = body ? push_spool_read_exact(fd, target, h.target_len) : SONDE_ENOMEM;
    if (!rc) rc = push_spool_read_exact(fd, body, (size_t)h.body_len);
    close(fd);
    target[rc ? 0 : h.target_len] = '\0';
    if (!rc && (push_spool_sum_of(&h, target, body) != h.crc || strlen(target) != h.target_len)) {
        rc = SONDE_EFORMAT;
    }
    struct push_batch *b = rc ? NULL : push_batch_create(h.signal, target, h.items, body,
                                                         (size_t)h.body_len);
    if (!b) {
        sonde__free(body);
        return rc ? rc : SONDE_ENOMEM;
    }
    b->seq = seq;
    b->made_ms = h.made_ms;
    *out = b;
    return 0;
}

/* ---- Listing --------------------------------------------------------------------------------- */

/* The number, or 0: it is not a file of ours. */
static uint64_t push_spool_seq_of(const char *name, const char *suffix)
{
    char again[NAME_SIZE];
    char *end;
    const uint64_t seq = strtoull(name, &end, 16);
    push_spool_name_of(again, seq, suffix);
    return strcmp(again, name) == 0 ? seq : 0;
}

int push_spool_list(int dir_fd, uint64_t **seqs, size_t *count)
{
    const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        const int rc = sonde__from_errno(errno);
        if (fd >= 0) close(fd);
        return rc;
    }
    uint64_t *list = NULL;
    size_t n = 0, cap = 0;
    int rc = 0;
    for (struct dirent *e; !rc && (e = readdir(dir)) != NULL;) {
        if (push_spool_seq_of(e->d_name, ".half")) unlinkat(dir_fd, e->d_name, 0);
        const uint64_t seq = push_spool_seq_of(e->d_name, ".batch");
        if (!seq) continue;
        uint64_t *at = SONDE_ARRAY_ADD(list, n, cap);
        if (at) *at = seq;
        else rc = SONDE_ENOMEM;
    }
    closedir(dir);
    if (rc) {
        sonde__free(list);
        return rc;
    }
    if (n) qsort(list, n, sizeof(*list), sonde_cmp_u64);
    *seqs = list;
    *count = n;
    return 0;
}
