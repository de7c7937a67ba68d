/* counters.c - see counters.h. */
#include "bench/cmd/counters.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"

static int counters_open_one(const struct sonde_counters *c, int which, int user_only)
{
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof(attr));
    attr.size = sizeof(attr);
    attr.type = c->events[which].type;
    attr.config = c->events[which].config;
    attr.disabled = 1;
    attr.inherit = 1;
    attr.enable_on_exec = 1;
    attr.exclude_kernel = user_only ? 1 : 0;
    attr.exclude_hv = 1;
    attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static void counters_explain(struct sonde_counters *c, int error)
{
    char level[16] = "";
    switch (error) {
    case ENOENT:
    case ENODEV:
    case EOPNOTSUPP:
        snprintf(c->why_not, sizeof(c->why_not), "this machine has no CPU counters that can be "
                 "used; virtual machines often hide them");
        return;
    case EACCES:
    case EPERM:
        if (sonde_file_read_small(AT_FDCWD, "/proc/sys/kernel/perf_event_paranoid", level,
                                  sizeof(level)) > 0) {
            level[strcspn(level, "\n")] = '\0';
        }
        snprintf(c->why_not, sizeof(c->why_not), "not permitted: kernel.perf_event_paranoid is "
                 "%s; 2 or less permits it, and so does CAP_PERFMON", *level ? level : "not known");
        return;
    case ENOSYS:
        snprintf(c->why_not, sizeof(c->why_not), "this kernel, or a sandbox, has no "
                 "perf_event_open(2)");
        return;
    default:
        snprintf(c->why_not, sizeof(c->why_not), "perf_event_open: %s", strerror(error));
    }
}

void sonde_counters_init(struct sonde_counters *c)
{
    memset(c, 0, sizeof(*c));
    c->events[SONDE_COUNTER_INSTRUCTIONS].type = PERF_TYPE_HARDWARE;
    c->events[SONDE_COUNTER_INSTRUCTIONS].config = PERF_COUNT_HW_INSTRUCTIONS;
    c->events[SONDE_COUNTER_CYCLES].type = PERF_TYPE_HARDWARE;
    c->events[SONDE_COUNTER_CYCLES].config = PERF_COUNT_HW_CPU_CYCLES;
    int fd = counters_open_one(c, SONDE_COUNTER_INSTRUCTIONS, 0);
    if (fd < 0 && (errno == EACCES || errno == EPERM)) {
        fd = counters_open_one(c, SONDE_COUNTER_INSTRUCTIONS, 1);
        c->user_only = fd >= 0;
    }
    if (fd < 0) {
        counters_explain(c, errno);
        return;
    }
    close(fd);
    c->available = 1;
}

void sonde_counters_open(const struct sonde_counters *c, int fds[SONDE_COUNTERS])
{
    for (int i = 0; i < SONDE_COUNTERS; i++) {
        fds[i] = c->available ? counters_open_one(c, i, c->user_only) : -1;
    }
}

void sonde_counters_read(int fds[SONDE_COUNTERS], double out[SONDE_COUNTERS])
{
    for (int i = 0; i < SONDE_COUNTERS; i++) {
        uint64_t v[3] = { 0, 0, 0 }; /* count, time enabled, time running */
        out[i] = NAN;
        if (fds[i] < 0) continue;
        if (read(fds[i], v, sizeof(v)) == (ssize_t)sizeof(v) && v[2]) {
            out[i] = v[1] > v[2] ? (double)v[0] * (double)v[1] / (double)v[2] : (double)v[0];
        }
        close(fds[i]);
        fds[i] = -1;
    }
}
