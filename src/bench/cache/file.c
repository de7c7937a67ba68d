/* file.c - reads of a file: see cache.h.
 *
 * A read is preadv2(RWF_NOWAIT) and, for what that did not give, pread(): the time is that of both,
 * which for a miss is some microsecond more than a plain read, and hits are counted exactly. A file
 * system that cannot do the former is read plainly, and hits are not known.
 *
 * Threads have parts of their own in sequential reads, and all of the file otherwise. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "bench/cache/cache.h"
#include "bench/cache/zipf.h"
#include "bench/draw.h"
#include "sonde/sonde.h"

enum { FILE_ALIGN = 4096, FILE_WARM_BYTES = 1 << 20 };
#define FILE_RESIDENT_MAX 0.01 /* of a file that is called cold */

struct file_reader {
    const struct sonde_cache_options *o;
    const struct sonde_cache_row *row;
    const struct sonde_zipf *zipf;
    int fd, ask;                 /* ask: whether it is cached */
    uint64_t blocks, from, to;   /* of the file; and of this thread's part, if sequential */
    uint64_t begin_ns, end_ns;
    struct sonde_draw draw;
    char *room, *buffer;         /* owned; and the first page's beginning in it, for O_DIRECT */
    /* What it found. */
    int error;                   /* errno */
    uint64_t reads, bytes, hits, misses, windows[SONDE_CACHE_WINDOWS];
    uint64_t last_ns;
    struct sonde_cache_latency latency;
};

/* 0 or an errno; EIO: it has become shorter. */
static int file_read_one(struct file_reader *f, uint64_t at)
{
    const size_t block = f->row->block;
    size_t got = 0;
    if (f->ask) {
        struct iovec v = { .iov_base = f->buffer, .iov_len = block };
        const ssize_t n = preadv2(f->fd, &v, 1, (off_t)at, RWF_NOWAIT);
        if (n > 0) got = (size_t)n;
        if (n < 0 && errno == EOPNOTSUPP) f->ask = 0;
        else if (got == block) f->hits++;
        else f->misses++;
    }
    while (got < block) {
        const ssize_t n = pread(f->fd, f->buffer + got, block - got, (off_t)(at + got));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) return EIO;
        got += (size_t)n;
    }
    return 0;
}

static uint64_t file_next(struct file_reader *f, uint64_t *sequential)
{
    if (f->row->pattern == SONDE_CACHE_SEQUENTIAL) return (*sequential)++;
    if (f->row->pattern == SONDE_CACHE_RANDOM) return sonde_draw_below(&f->draw, f->blocks);
    return sonde_zipf_place(f->zipf, sonde_zipf_draw(f->zipf, &f->draw));
}

static void *file_reader_run(void *arg)
{
    struct file_reader *f = arg;
    const uint64_t window_ns = (f->end_ns - f->begin_ns) / SONDE_CACHE_WINDOWS + 1;
    uint64_t sequential = f->from, now = sonde_clock_ns(CLOCK_MONOTONIC);
    /* One read at least, however late it begins. */
    while ((now < f->end_ns || !f->reads) && !f->error) {
        if (sequential == f->to) {
            if (f->row->state == SONDE_CACHE_COLD) break; /* once more, it would be warm */
            sequential = f->from;
        }
        const uint64_t at = file_next(f, &sequential) * f->row->block;
        const uint64_t before = sonde_clock_ns(CLOCK_MONOTONIC);
        f->error = file_read_one(f, at);
        now = sonde_clock_ns(CLOCK_MONOTONIC);
        if (f->error) break;
        sonde_cache_latency_add(&f->latency, now - before);
        f->reads++;
        f->bytes += f->row->block;
        const uint64_t window = (now - f->begin_ns) / window_ns;
        if (window < SONDE_CACHE_WINDOWS) f->windows[window] += f->row->block;
    }
    f->last_ns = now;
    return NULL;
}

/* ---- States ---------------------------------------------------------------------------------- */

static void file_warm(int fd, uint64_t bytes)
{
    char *buffer = sonde__alloc(FILE_WARM_BYTES);
    for (uint64_t at = 0; buffer && at < bytes; at += FILE_WARM_BYTES) {
        const uint64_t left = bytes - at;
        if (pread(fd, buffer, left < FILE_WARM_BYTES ? (size_t)left : FILE_WARM_BYTES,
                  (off_t)at) <= 0) {
            break;
        }
    }
    sonde__free(buffer);
}

static int file_leave(struct sonde_cache_row *row, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int file_leave(struct sonde_cache_row *row, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(row->why, sizeof(row->why), format, args);
    va_end(args);
    return -1;
}

/* The file is in the row's state, and fd the one to read by; -1: that cannot be had. */
static int file_prepare(int fd, const struct sonde_cache_target *t, struct sonde_cache_row *row,
                        int *direct)
{
    *direct = -1;
    if (t->in_memory && row->state != SONDE_CACHE_WARM) {
        return file_leave(row, "it is on %s, which is memory: there is no disk to read it from. "
                          "Use a file on a disk", t->what);
    }
    if (t->bytes < row->block) {
        return file_leave(row, "the file is smaller than a block");
    }
    if (row->state == SONDE_CACHE_WARM) {
        file_warm(fd, t->bytes);
        row->resident_before = sonde_cache_pages_resident(fd, t->bytes);
        return 0;
    }
    row->resident_before = sonde_cache_pages_drop(fd, t->bytes);
    if (row->state == SONDE_CACHE_COLD) {
        if (row->resident_before > FILE_RESIDENT_MAX) {
            return file_leave(row, "%.1f %% of it cannot be dropped from the page cache: another "
                              "process has it mapped or locked", 100 * row->resident_before);
        }
        return 0;
    }
    char path[64];
    if (row->block % 512) return file_leave(row, "O_DIRECT needs blocks of a multiple of 512");
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    *direct = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
    if (*direct < 0) return file_leave(row, "O_DIRECT on %s: %s", t->what, strerror(errno));
    return 0;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void file_row_merge(struct sonde_cache_row *row, const struct file_reader *readers,
                           uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t last_ns = begin_ns, windows[SONDE_CACHE_WINDOWS] = { 0 };
    for (uint32_t i = 0; i < row->threads; i++) {
        const struct file_reader *f = &readers[i];
        row->reads += f->reads;
        row->bytes += f->bytes;
        row->hits += f->ask ? f->hits : 0;
        row->misses += f->ask ? f->misses : 0;
        sonde_cache_latency_merge(&row->latency, &f->latency);
        for (size_t w = 0; w < SONDE_CACHE_WINDOWS; w++) windows[w] += f->windows[w];
        if (f->last_ns > last_ns) last_ns = f->last_ns;
        if (f->error && !row->why[0]) {
            file_leave(row, "reading failed: %s", f->error == EIO ? "the disk, or the file has "
                       "become shorter" : strerror(f->error));
        }
    }
    row->seconds = (double)(last_ns - begin_ns) * 1e-9;
    row->measured = !row->why[0] && row->reads && row->seconds > 0;
    /* A run that ended early has no whole fifths. */
    if (last_ns + 1000000 < end_ns) return;
    const double window_s = (double)(end_ns - begin_ns) * 1e-9 / SONDE_CACHE_WINDOWS;
    for (size_t w = 0; w < SONDE_CACHE_WINDOWS; w++) row->rates[w] = (double)windows[w] / window_s;
    row->rate_count = SONDE_CACHE_WINDOWS;
}

static int file_row_read(int fd, const struct sonde_cache_options *o,
                         const struct sonde_cache_target *t, struct sonde_cache_row *row)
{
    const uint32_t n = row->threads;
    struct file_reader *readers = sonde__calloc(n, sizeof(*readers));
    struct sonde_thread *threads = sonde__calloc(n, sizeof(*threads));
    struct sonde_zipf zipf;
    const uint64_t blocks = t->bytes / row->block;
    int rc = readers && threads ? 0 : SONDE_ENOMEM;
    sonde_zipf_init(&zipf, blocks, o->exponent);
    for (uint32_t i = 0; !rc && i < n; i++) {
        readers[i] = (struct file_reader){ .o = o, .row = row, .zipf = &zipf, .fd = fd,
            .ask = row->state != SONDE_CACHE_DIRECT, .blocks = blocks, .from = blocks * i / n,
            .to = blocks * (i + 1) / n, .draw = { .state = sonde_hash_u64(o->seed + i) } };
        char *room = readers[i].room = sonde__alloc(row->block + FILE_ALIGN);
        if (!room) {
            rc = SONDE_ENOMEM;
            break;
        }
        memset(room, 1, row->block + FILE_ALIGN);
        readers[i].buffer = room + (-(uintptr_t)room & (FILE_ALIGN - 1));
    }
    const uint64_t begin_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    const uint64_t end_ns = begin_ns + sonde_clock_ns_of(o->duration_s);
    for (uint32_t i = 0; !rc && i < n; i++) {
        readers[i].begin_ns = begin_ns;
        readers[i].end_ns = end_ns;
        if (i) {
            rc = sonde_thread_start(&threads[i], "sonde-read", file_reader_run, &readers[i], NULL);
        }
    }
    if (!rc) file_reader_run(&readers[0]);
    for (uint32_t i = 1; threads && i < n; i++) sonde_thread_join(&threads[i]);
    if (!rc) file_row_merge(row, readers, begin_ns, end_ns);
    for (uint32_t i = 0; readers && i < n; i++) sonde__free(readers[i].room);
    sonde__free(readers);
    sonde__free(threads);
    return rc;
}

int sonde_cache_file_run(int fd, const char *path, const struct sonde_cache_options *o,
                         struct sonde_cache_row *rows, size_t count,
                         struct sonde_cache_target *t, struct sonde_err *err)
{
    const off_t all = lseek(fd, 0, SEEK_END);
    *t = (struct sonde_cache_target){ .bytes_all = all > 0 ? (uint64_t)all : 0 };
    t->bytes = t->bytes_all < o->bytes_max ? t->bytes_all : o->bytes_max;
    t->in_memory = sonde_cache_pages_system(fd, t->what, sizeof(t->what));
    if (!t->bytes) return sonde_err_set(err, SONDE_EINVAL, "'%s' is empty: nothing to read", path);
    for (size_t i = 0; i < count; i++) {
        struct sonde_cache_row *row = &rows[i];
        char state[64];
        int direct = -1, rc = 0;
        snprintf(state, sizeof(state), "%s, %s", sonde_cache_state_name(row->state),
                 sonde_cache_pattern_name(row->pattern));
        if (o->tell) o->tell(o->arg, (double)i / (double)count, state);
        row->resident_before = NAN;
        if (!file_prepare(fd, t, row, &direct)) {
            rc = file_row_read(direct >= 0 ? direct : fd, o, t, row);
        }
        if (direct >= 0) close(direct);
        if (rc) return sonde_err_memory(err);
    }
    return 0;
}
