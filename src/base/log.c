/* log.c - one write(2) per line, so that lines of several threads and processes never mix. */
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/errno.h"
#include "base/lock.h"
#include "base/utf8.h"
#include "base/visible.h"
#include "sonde/sonde.h"

enum { LINE_MAX_BYTES = 2048 };

static const char *const level_names[] = { "error", "warn", "info", "debug" };

static _Atomic int log_level = SONDE_LOG_WARN;
/* Guards fd between sonde_log_open and writers: a line must not go to a reused descriptor. */
static struct sonde_lock lock = SONDE_LOCK_INITIALIZER(SONDE_RANK_LOG);
static int log_fd = STDERR_FILENO;

int sonde_log_open(enum sonde_log_level level, const char *path)
{
    int fd = STDERR_FILENO;
    if (path) {
        /* A FIFO that nobody reads is an error, ENXIO, rather than a wait for its reader. */
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
        if (fd < 0) return sonde__from_errno(errno);
        fcntl(fd, F_SETFL, O_APPEND);
    }
    sonde_lock(&lock);
    const int old = log_fd;
    log_fd = fd;
    sonde_unlock(&lock);
    if (old != STDERR_FILENO) close(old);
    atomic_store(&log_level, (int)level);
    return 0;
}

/* "2026-01-23T01:45:00.123Z warn  " */
static size_t log_prefix(char *line, size_t max, enum sonde_log_level level)
{
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    const size_t n = strftime(line, max, "%Y-%m-%dT%H:%M:%S", &tm);
    return n + (size_t)snprintf(line + n, max - n, ".%03ldZ %-5s ", now.tv_nsec / 1000000,
                                level_names[level]);
}

void sonde_log(enum sonde_log_level level, const char *format, ...)
{
    assert((size_t)level < SONDE_COUNT(level_names));
    if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed)) return;
    const int saved = errno;

    char raw[LINE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(raw, sizeof(raw), format, args);
    va_end(args);

    /* What is logged may quote another process: no control characters, so that one event is one
     * line and cannot move a terminal's cursor, and no broken UTF-8. */
    char line[64 + LINE_MAX_BYTES + 1];
    size_t len = log_prefix(line, 64, level);
    if (n >= 0) {
        const size_t raw_len = sonde_visible(raw, strlen(raw));
        for (size_t i = 0; i < raw_len; i++) {
            if (raw[i] == '\n') raw[i] = ' ';
        }
        int changed = 0;
        len += sonde__utf8_copy(line + len, sizeof(line) - 1 - len, raw, raw_len, &changed);
    }
    line[len++] = '\n';

    sonde_lock(&lock);
    /* Nobody could be told about a failure to write the log. */
    ssize_t ignored;
    do {
        ignored = write(log_fd, line, len);
    } while (ignored < 0 && errno == EINTR);
    sonde_unlock(&lock);
    errno = saved;
}
