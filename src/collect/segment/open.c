/* open.c - opening a segment: who may, and whether the header makes sense. */
#include "collect/segment/read.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/utf8.h"
#include "collect/segment/private.h"
#include "segment/life.h"

/* Far above what a writer makes; they keep sums of products within 64 bits. */
#define FILE_BYTES_MAX (1ull << 40)
#define FAMILY_MAX (1u << 20)
#define SERIES_MAX (1u << 22)
#define LANE_MAX (1u << 16)

int sonde_segment_name_parse(const char *name, struct sonde_segment_name *out)
{
    struct sonde__name parsed;
    if (sonde__name_parse(name, &parsed) != 0) return SONDE_EINVAL;
    *out = (struct sonde_segment_name){ parsed.pid, parsed.start, parsed.n };
    return 0;
}

/* ---- The file ----------------------------------------------------------------------------- */

static int file_open(int dirfd, const char *name, int *out, struct stat *st, struct sonde_err *err)
{
    int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int failure = errno;
        if (failure == ENOENT) return sonde_err_set(err, SONDE_ENOENT, "it is gone");
        if (failure == ELOOP) {
            return sonde_err_set(err, SONDE_EACCES, "a symbolic link, not a segment");
        }
        return sonde_err_set(err, SONDE_EACCES, "cannot open it: %s", strerror(failure));
    }
    int rc = 0;
    uid_t me = geteuid();
    if (fstat(fd, st) != 0) {
        rc = sonde_err_set(err, SONDE_EIO, "cannot look at it: %s", strerror(errno));
    } else if (!S_ISREG(st->st_mode)) {
        rc = sonde_err_set(err, SONDE_EACCES, "not a regular file");
    } else if (st->st_uid != me) {
        rc = sonde_err_set(err, SONDE_EACCES, "owned by user %u, not by this one (%u)",
                           (unsigned)st->st_uid, (unsigned)me);
    } else if (st->st_size < (off_t)SONDE__PAGE) {
        rc = sonde_err_set(err, SONDE_EFORMAT, "too short for a header: %jd bytes",
                           (intmax_t)st->st_size);
    } else if ((uint64_t)st->st_size > FILE_BYTES_MAX) {
        rc = sonde_err_set(err, SONDE_EFORMAT, "too large for a segment: %jd bytes",
                           (intmax_t)st->st_size);
    }
    if (rc != 0) close(fd);
    else *out = fd;
    return rc;
}

/* ---- The header --------------------------------------------------------------------------- */

static int identity_check(const struct sonde__header *h, const struct sonde_segment_name *name,
                          struct sonde_err *err)
{
    uint8_t boot[16];
    static const uint8_t unknown[16];
    if (h->magic != SONDE__MAGIC) {
        return sonde_err_set(err, SONDE_EFORMAT, "not a segment: it does not start with the mark "
                             "of one");
    }
    if (h->abi != SONDE__ABI) {
        return sonde_err_set(err, SONDE_EVERSION, "written by %s version of the format, %" PRIu32
                             "; this agent reads %u", h->abi > SONDE__ABI ? "a newer" : "another",
                             h->abi, SONDE__ABI);
    }
    if (h->check != sonde__header_check(h)) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: the check sum of its header is wrong");
    }
    sonde__boot_id(boot);
    if (memcmp(boot, unknown, 16) != 0 && memcmp(boot, h->boot_id, 16) != 0) {
        return sonde_err_set(err, SONDE_ESTALE, "left over from another boot of this machine");
    }
    if (h->pid != name->pid || h->start_time != name->start) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: it says it is of process %" PRIu32
                             " started at %" PRIu64 ", unlike its name", h->pid, h->start_time);
    }
    const char *end = memchr(h->program, '\0', sizeof(h->program));
    if (!end || !sonde__utf8_valid(h->program, (size_t)(end - h->program))) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: the program's name is not text");
    }
#if !defined(__x86_64__)
    if (h->tsc) return sonde_err_set(err, SONDE_EFORMAT, "damaged: there is no TSC here");
#endif
    return 0;
}

/* Regions come in this order and do not overlap. */
static int layout_check(const struct sonde__header *h, struct sonde_err *err)
{
    if (h->family_max == 0 || h->family_max > FAMILY_MAX || h->series_max == 0 ||
        h->series_max > SERIES_MAX || h->lane_max == 0 || h->lane_max > LANE_MAX ||
        h->lanes_shared >= h->lane_max || h->file_bytes > FILE_BYTES_MAX ||
        h->string_max > FILE_BYTES_MAX || h->block_max > FILE_BYTES_MAX ||
        h->lane_stride > FILE_BYTES_MAX ||
        h->lane_stride < SONDE__CELLS_OFF + 8ull * h->series_max || h->lane_stride % 64 != 0) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: its header has impossible limits");
    }
    /* Strings first: the product of lanes is the only one that could pass 64 bits. */
    if (h->lane_stride > FILE_BYTES_MAX / h->lane_max) {
        return sonde_err_set(err, SONDE_EFORMAT, "damaged: its lanes are larger than any file");
    }
    const struct { const char *what; uint64_t off, bytes; } region[] = {
        { "table of families", h->family_off, h->family_max * sizeof(struct sonde__family) },
        { "table of series", h->series_off, h->series_max * sizeof(struct sonde__series) },
        { "string area", h->string_off, h->string_max },
        { "lanes", h->lane_off, h->lane_max * h->lane_stride },
        { "block area", h->block_off, h->block_max },
    };
    uint64_t end = SONDE__PAGE;
    for (size_t i = 0; i < SONDE_COUNT(region); i++) {
        if (region[i].off < end || region[i].off % 64 != 0) {
            return sonde_err_set(err, SONDE_EFORMAT, "damaged: its %s overlaps what is before",
                                 region[i].what);
        }
        if (region[i].off > h->file_bytes || region[i].bytes > h->file_bytes - region[i].off) {
            return sonde_err_set(err, SONDE_EFORMAT, "damaged: its %s reaches past the end of "
                                 "the file", region[i].what);
        }
        end = region[i].off + region[i].bytes;
    }
    return 0;
}

static int segment_read_header(int fd, const struct stat *st, const struct sonde_segment_name *name,
                               struct sonde__header *h, struct sonde_err *err)
{
    ssize_t n = pread(fd, h, sizeof(*h), 0);
    if (n != (ssize_t)sizeof(*h)) {
        return sonde_err_set(err, SONDE_EIO, "cannot read its header: %s",
                             n < 0 ? strerror(errno) : "it ends too early");
    }
    int rc = identity_check(h, name, err);
    if (rc == 0) rc = layout_check(h, err);
    if (rc != 0) return rc;
    if ((uint64_t)st->st_size < h->file_bytes) {
        return sonde_err_set(err, SONDE_EFORMAT, "cut short: %jd of %" PRIu64 " bytes are left",
                             (intmax_t)st->st_size, h->file_bytes);
    }
    return 0;
}

int sonde_segment_open(int dirfd, const char *name, int fresh, struct sonde_segment **out,
                       struct sonde_err *err)
{
    assert(name && out);
    struct sonde_segment_name parsed;
    struct stat st;
    int fd = -1;
    if (sonde_segment_name_parse(name, &parsed) != 0) {
        return sonde_err_set(err, SONDE_EINVAL, "not the name of a segment");
    }
    int rc = file_open(dirfd, name, &fd, &st, err);
    if (rc != 0) return rc;
    struct sonde_segment *s = sonde__calloc(1, sizeof(*s));
    if (!s) {
        close(fd);
        return sonde_err_set(err, SONDE_ENOMEM, "no memory to read it");
    }
    s->fresh = fresh;
    rc = segment_read_header(fd, &st, &parsed, &s->h, err);
    if (rc == 0) rc = sonde_guarded_map_open(fd, (size_t)s->h.file_bytes, &s->map, err);
    close(fd);
    if (rc != 0) {
        sonde__free(s);
        return rc;
    }
    sonde_guarded_map_window(&s->map, 0);
    s->live = (const struct sonde__header *)(const void *)s->map.base;
    s->family_count = s->series_count = 1; /* 0 is "none" and the sink */
    *out = s;
    return 0;
}

void sonde_segment_close(struct sonde_segment *s)
{
    if (!s) return;
    segment_tables_free(s);
    sonde__free(s->sum);
    sonde__free(s->hist_sum);
    sonde__free(s->ring);
    sonde__free(s->attr);
    sonde__free(s->part);
    sonde__free(s->told);
    segment_llama_free(s);
    segment_gpu_free(s);
    sonde__free(s->sampler.ring.words);
    sonde__free(s->kernels.ring.words);
    sonde__free(s->heap.ring.words);
    sonde_guarded_map_close(&s->map);
    sonde__free(s);
}

const struct sonde__header *sonde_segment_header(const struct sonde_segment *s) { return &s->h; }

void sonde_segment_program(const struct sonde_segment *s, char out[64])
{
    memcpy(out, s->h.program, sizeof(s->h.program));
    if (__atomic_load_n(&s->live->named, __ATOMIC_ACQUIRE) != SONDE__NAMED) return;
    char name[sizeof(s->live->name)];
    memcpy(name, s->live->name, sizeof(name)); /* looked at as it was, whoever writes */
    const char *end = memchr(name, '\0', sizeof(name));
    if (!end || end == name || !sonde__utf8_valid(name, (size_t)(end - name))) return;
    memcpy(out, name, sizeof(name));
}

int sonde_segment_closed(const struct sonde_segment *s)
{
    return __atomic_load_n(&s->live->closed, __ATOMIC_ACQUIRE) != 0;
}

void sonde_segment_forget(struct sonde_segment *s) { sonde_guarded_map_forget(&s->map); }
