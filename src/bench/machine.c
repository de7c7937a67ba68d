/* machine.c - on what a benchmark ran, as far as the kernel tells: what a reader needs to know
 * whether two results may be compared, and what else took CPU time meanwhile. */
#include "bench/result.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/file.h"
#include "base/strip.h"
#include "bench/machine.h"

/* The value of the first line of /proc/cpuinfo that begins with name. */
static void machine_cpuinfo(const char *info, const char *name, char *out, size_t size)
{
    const char *line = strstr(info, name), *value = line ? strchr(line, ':') : NULL;
    out[0] = '\0';
    if (!value) return;
    value += strspn(value, ": \t");
    snprintf(out, size, "%.*s", (int)strcspn(value, "\n"), value);
}

static int machine_ticks(uint64_t out[2])
{
    char text[512];
    uint64_t t[8];
    if (sonde_file_read_small(AT_FDCWD, "/proc/stat", text, sizeof(text)) <= 0) return -1;
    if (sscanf(text, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
               &t[7]) != 8) {
        return -1;
    }
    out[0] = t[7];
    out[1] = 0;
    for (size_t i = 0; i < 8; i++) out[1] += t[i];
    return 0;
}

void bench_machine_begin(struct sonde_bench_machine *m)
{
    char info[4096];
    struct utsname u;
    cpu_set_t set;
    memset(m, 0, sizeof(*m));
    if (sonde_file_read_small(AT_FDCWD, "/proc/cpuinfo", info, sizeof(info)) > 0) {
        machine_cpuinfo(info, "model name", m->cpu, sizeof(m->cpu));
        m->virtual = strstr(info, " hypervisor") != NULL;
    }
    m->cpus = sched_getaffinity(0, sizeof(set), &set) ? 0 : (uint32_t)CPU_COUNT(&set);
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) m->memory_bytes = (uint64_t)pages * (uint64_t)page;
    if (uname(&u) == 0) {
        snprintf(m->kernel, sizeof(m->kernel), "%.40s %.50s", u.sysname, u.release);
        if (!sonde_strip_on()) snprintf(m->host, sizeof(m->host), "%s", u.nodename);
    }
    if (sonde_file_read_small(AT_FDCWD, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
                              m->governor, sizeof(m->governor)) > 0) {
        m->governor[strcspn(m->governor, "\n")] = '\0';
    }
    if (getloadavg(&m->load_before, 1) != 1) m->load_before = NAN;
    m->stolen_ratio = NAN;
    machine_ticks(m->stolen_ticks);
}

void bench_machine_end(struct sonde_bench_machine *m)
{
    uint64_t now[2];
    if (!m->stolen_ticks[1] || machine_ticks(now) || now[1] <= m->stolen_ticks[1]) return;
    const uint64_t all = now[1] - m->stolen_ticks[1];
    /* Kernels have been seen to take a tick back. */
    const uint64_t taken = now[0] > m->stolen_ticks[0] ? now[0] - m->stolen_ticks[0] : 0;
    m->stolen_ratio = (double)taken / (double)all;
}
