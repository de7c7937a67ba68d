#include "collect/perf/limits.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "sonde/sonde.h"

long sonde_perf_sysctl(const char *name, long other)
{
    char path[128], text[32], *end;
    snprintf(path, sizeof(path), "/proc/sys/kernel/%s", name);
    if (sonde_file_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0) return other;
    errno = 0;
    const long value = strtol(text, &end, 10);
    return end == text || errno ? other : value;
}

/* ---- CPUs ------------------------------------------------------------------------------------ */

static int cpu_number(const char **p, const char *end, uint32_t *out)
{
    uint32_t v = 0;
    const char *s = *p;
    for (; s < end && *s >= '0' && *s <= '9' && v < SONDE_PERF_CPUS_MAX; s++) {
        v = v * 10 + (uint32_t)(*s - '0');
    }
    if (s == *p || v >= SONDE_PERF_CPUS_MAX) return -1;
    *p = s;
    *out = v;
    return 0;
}

uint32_t sonde_perf_cpu_list(const char *text, size_t len, int *cpus, uint32_t max)
{
    uint32_t n = 0;
    const char *p = text, *end = text + len;
    while (p < end && *p != '\n') {
        uint32_t first, last;
        if (cpu_number(&p, end, &first)) return 0;
        last = first;
        if (p < end && *p == '-') {
            p++;
            if (cpu_number(&p, end, &last) || last < first) return 0;
        }
        for (uint32_t c = first; c <= last && n < max; c++) cpus[n++] = (int)c;
        if (p < end && *p == ',') {
            p++;
        } else if (p < end && *p != '\n') {
            return 0;
        }
    }
    return n;
}

uint32_t sonde_perf_cpus(int *cpus, uint32_t max)
{
    assert(cpus && max > 0);
    char text[4096];
    const ssize_t len =
        sonde_file_read_small(AT_FDCWD, "/sys/devices/system/cpu/online", text, sizeof(text));
    uint32_t n = len > 0 ? sonde_perf_cpu_list(text, (size_t)len, cpus, max) : 0;
    if (n) return n;
    const long online = sysconf(_SC_NPROCESSORS_CONF);
    for (n = 0; n < max && (n == 0 || (long)n < online); n++) cpus[n] = (int)n;
    return n;
}

/* ---- Files and errors ------------------------------------------------------------------------ */

int sonde_perf_more_files(void)
{
    struct rlimit l;
    if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= l.rlim_max) return 0;
    l.rlim_cur = l.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &l) == 0;
}

static int explain_forbidden(uint32_t pid, struct sonde_err *err)
{
    const long paranoid = sonde_perf_sysctl("perf_event_paranoid", -2);
    if (paranoid > 2) {
        return sonde_err_set(err, SONDE_EACCES,
                             "perf events are forbidden: kernel.perf_event_paranoid is %ld; set it "
                             "to 2 (sysctl kernel.perf_event_paranoid=2), give the agent "
                             "CAP_PERFMON, or use the timer engine", paranoid);
    }
    return sonde_err_set(err, SONDE_EACCES,
                         "perf events of process %u are forbidden: it belongs to another user, has "
                         "raised privileges, or a container's seccomp profile blocks "
                         "perf_event_open; run as its owner or as root, or use the timer engine",
                         pid);
}

int sonde_perf_explain(int error, uint32_t pid, struct sonde_err *err)
{
    struct rlimit l = { 0 };
    switch (error) {
    case EACCES:
    case EPERM: return explain_forbidden(pid, err);
    case ENOSYS:
        return sonde_err_set(err, SONDE_EACCES, "this kernel has no perf events, or seccomp hides "
                             "them; use the timer engine");
    case ESRCH: return sonde_err_set(err, SONDE_ENOENT, "no process %u", pid);
    case EMFILE:
    case ENFILE:
        getrlimit(RLIMIT_NOFILE, &l);
        return sonde_err_set(err, SONDE_EFULL,
                             "process %u needs more than %llu open files, some for each of its "
                             "threads and CPU; raise the limit (ulimit -n)", pid,
                             (unsigned long long)l.rlim_cur);
    case ENOMEM: return sonde_err_set(err, SONDE_ENOMEM, "no memory for perf events");
    default:
        return sonde_err_set(err, SONDE_EIO, "cannot open a perf event on process %u: %s", pid,
                             strerror(error));
    }
}
