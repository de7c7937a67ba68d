/* spool.c - a batch as a file. Layout: queue.h. Files are ours, but anybody's disk may have damaged
 * them, and nothing in them is believed before the check sum is right. */
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

/* SONDE_ENOMEM: it may go well later, nothing is wrong with the file. */
static int push_spool_from_errno(int e)
{
    if (e == ENOENT) return SONDE_ENOENT;
    return e == ENOMEM || e == EMFILE || e == ENFILE ? SONDE_ENOMEM : SONDE_EIO;
}

static uint32_t push_spool_sum_of(const struct push_spool_header *h, const char *target, const char *body)
{
    uLong crc = crc32(0, (const Bytef *)h + CRC_FROM, sizeof(*h) - CRC_FROM);
    crc = crc32_z(crc, (const Bytef *)target, h->target_len);
    return (uint32_t)crc32_z(crc, (const Bytef *)body, (z_size_t)h->body_len);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int push_spool_write_all(int fd, const void *data, size_t len)
{
    const char *at = data;
    while (len) {
        const ssize_t n = write(fd, at, len);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return SONDE_EIO;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

int push_spool_write(int dir_fd, const struct push_batch *b, uint64_t *size)
{
    char name[NAME_SIZE], half[NAME_SIZE];
    push_spool_name_of(name, b->seq, ".batch");
    push_spool_name_of(half, b->seq, ".half");
    struct push_spool_header h = { .signal = b->signal, .made_ms = b->made_ms, .items = b->items,
                        .target_len = (uint32_t)strlen(b->target), .body_len = b->body_len };
    memcpy(h.magic, MAGIC, sizeof(h.magic));
    h.crc = push_spool_sum_of(&h, b->target, b->body);

    const int fd = openat(dir_fd, half, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return push_spool_from_errno(errno);
    int rc = push_spool_write_all(fd, &h, sizeof(h));
    if (!rc) rc = push_spool_write_all(fd, b->target, h.target_len);
    if (!rc) rc = push_spool_write_all(fd, b->body, b->body_len);
    if (close(fd) != 0 && !rc) rc = SONDE_EIO;
    if (!rc && renameat(dir_fd, half, dir_fd, name) != 0) rc = SONDE_EIO;
    if (rc) unlinkat(dir_fd, half, 0);
    else *size = sizeof(h) + h.target_len + h.body_len;
    return rc;
}

void push_spool_remove(int dir_fd, uint64_t seq)
{
    char name[NAME_SIZE];
    push_spool_name_of(name, seq, ".batch");
    unlinkat(dir_fd, name, 0);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int push_spool_read_all(int fd, void *data, size_t len)
{
    char *at = data;
    while (len) {
        const ssize_t n = read(fd, at, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return SONDE_EIO;
        if (n == 0) return SONDE_EFORMAT;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

/* Lengths that fit the file, at least. */
static int push_spool_read_header(int dir_fd, uint64_t seq, struct push_spool_header *h, int *out,
                                  uint64_t *size)
{
    char name[NAME_SIZE];
    struct stat st;
    push_spool_name_of(name, seq, ".batch");
    const int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return push_spool_from_errno(errno);
    int rc = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? push_spool_read_all(fd, h, sizeof(*h))
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
    rc = body ? push_spool_read_all(fd, target, h.target_len) : SONDE_ENOMEM;
    if (!rc) rc = push_spool_read_all(fd, body, (size_t)h.body_len);
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

/* The number, or 0: it is no file of ours. */
static uint64_t push_spool_seq_of(const char *name, const char *suffix)
{
    char again[NAME_SIZE];
    char *end;
    const uint64_t seq = strtoull(name, &end, 16);
    push_spool_name_of(again, seq, suffix);
    return strcmp(again, name) == 0 ? seq : 0;
}

static int push_spool_ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int push_spool_list(int dir_fd, uint64_t **seqs, size_t *count)
{
    const int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        const int rc = push_spool_from_errno(errno);
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
        if (n == cap) {
            cap = cap ? cap * 2 : 64;
            uint64_t *grown = sonde__realloc(list, cap * sizeof(*list));
            if (!grown) {
                rc = SONDE_ENOMEM;
                break;
            }
            list = grown;
        }
        list[n++] = seq;
    }
    closedir(dir);
    if (rc) {
        sonde__free(list);
        return rc;
    }
    if (n) qsort(list, n, sizeof(*list), push_spool_ascending);
    *seqs = list;
    *count = n;
    return 0;
}
