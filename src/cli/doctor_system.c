/* doctor_system.c - checks of the kernel and the machine. Each tries the thing itself where it
 * can, since versions and settings do not tell what a container's rules forbid. */
#include <errno.h>
#include <linux/perf_event.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "cli/doctor.h"
#include "collect/cpu/cpu.h"
#include "collect/cpu/perf_python_bpf.h"
#include "collect/uprobe/event.h"
#include "present/units.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static int try_madvise(int advice)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return errno;
    const int error = madvise(p, page, advice) == 0 ? 0 : errno;
    munmap(p, page);
    return error;
}

void sonde_doctor_madvise(struct sonde_doctor *d)
{
    const int populate = try_madvise(MADV_POPULATE_WRITE);
    const int wipe = try_madvise(MADV_WIPEONFORK);
    if (populate) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "use Linux 5.14 or newer; until then segments grow by fallocate, which "
                         "is slower",
                         "MADV_POPULATE_WRITE does not work: %s", strerror(populate));
    }
    if (wipe) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "use Linux 4.14 or newer; children made by raw clone(2) may share their "
                         "parent's segment",
                         "MADV_WIPEONFORK does not work: %s", strerror(wipe));
    }
    if (!populate && !wipe) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                         "MADV_POPULATE_WRITE and MADV_WIPEONFORK work");
    }
}

/* ---- Clock -------------------------------------------------------------------------------- */

#if defined(__x86_64__)
struct instant { uint64_t tsc; int64_t ns; };

/* Both clocks at one instant: of several tries the one with the least time in between. */
static struct instant both_clocks(void)
{
    struct instant best = { 0, 0 };
    int64_t best_gap = INT64_MAX;
    for (int i = 0; i < 16; i++) {
        const int64_t before = (int64_t)sonde_clock_ns(CLOCK_MONOTONIC);
        const uint64_t tsc = __builtin_ia32_rdtsc();
        const int64_t after = (int64_t)sonde_clock_ns(CLOCK_MONOTONIC);
        if (after - before >= best_gap) continue;
        best_gap = after - before;
        best = (struct instant){ tsc, before + best_gap / 2 };
    }
    return best;
}

static double ticks_per_ns(struct instant a, struct instant b)
{
    return (double)(b.tsc - a.tsc) / (double)(b.ns - a.ns);
}

/* 1 if /proc/cpuinfo lists the flag for the first CPU. */
static int cpu_flag(const char *flag)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    if (!f) return 0;
    char *line = NULL;
    size_t size = 0;
    int found = 0;
    while (getline(&line, &size, f) > 0) {
        if (strncmp(line, "flags", 5) != 0) continue;
        const size_t len = strlen(flag);
        for (const char *p = strstr(line, flag); p; p = strstr(p + 1, flag)) {
            if (p[-1] == ' ' && (p[len] == ' ' || p[len] == '\n')) found = 1;
        }
        break;
    }
    free(line);
    fclose(f);
    return found;
}

void sonde_doctor_clock(struct sonde_doctor *d)
{
    char source[64] = "unknown";
    sonde_doctor_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
                      sizeof(source));
    const int invariant = cpu_flag("constant_tsc") && cpu_flag("nonstop_tsc");
    const struct timespec half = { .tv_nsec = 25000000 };
    const struct instant a = both_clocks();
    nanosleep(&half, NULL);
    const struct instant b = both_clocks();
    nanosleep(&half, NULL);
    const struct instant c = both_clocks();
    const double ppm = fabs(ticks_per_ns(b, c) / ticks_per_ns(a, b) - 1) * 1e6;
    const double ghz = ticks_per_ns(a, c);

    if (invariant && ppm < 500) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                         "invariant TSC at %.4f GHz, steady to %.1f ppm against CLOCK_MONOTONIC; "
                         "kernel's clock source: %s", ghz, ppm, source);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "spans and timers use clock_gettime instead: some 15 ns more each",
                         "the TSC is not %s (%.4f GHz, %.1f ppm off in 50 ms); kernel's clock "
                         "source: %s", invariant ? "steady" : "invariant", ghz, ppm, source);
    }
}
#else
void sonde_doctor_clock(struct sonde_doctor *d)
{
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "clock_gettime");
}
#endif

/* ---- perf, ptrace ------------------------------------------------------------------------- */

static int try_perf(uint32_t type, uint64_t config)
{
    struct perf_event_attr attr = { .type = type, .size = sizeof(attr), .config = config,
                                    .sample_period = 1000000, .disabled = 1,
                                    .exclude_kernel = 1, .exclude_hv = 1 };
    const long fd = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) return errno;
    close((int)fd);
    return 0;
}

void sonde_doctor_perf(struct sonde_doctor *d)
{
    char level[32] = "unknown";
    sonde_doctor_read("/proc/sys/kernel/perf_event_paranoid", level, sizeof(level));
    const int software = try_perf(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
    const int hardware = try_perf(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
    if (software) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "the CPU is sampled best through it: sysctl kernel.perf_event_paranoid=2, "
                         "or in a container allow perf_event_open (--cap-add PERFMON)",
                         "perf_event_open is refused: %s (perf_event_paranoid %s)",
                         strerror(software), level);
        return;
    }
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                     "perf_event_open works (perf_event_paranoid %s; hardware counters: %s)",
                     level, hardware ? "no" : "yes");
}

void sonde_doctor_cpu(struct sonde_doctor *d)
{
    struct sonde_err note = { "" };
    const int rc = sonde_cpu_check(&note);
    sonde_doctor_add(d, rc ? SONDE_DOCTOR_WARN : SONDE_DOCTOR_OK, NULL, "%s", note.text);
}

void sonde_doctor_python(struct sonde_doctor *d)
{
    struct sonde_err err = { "" };
    if (sonde_python_bpf_check(&err)) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "start Python under sonde, which needs no privilege: sonde record -- "
                         "python3 …",
                         "CPU samples of a Python program that is attached to have native frames "
                         "only: %s", err.text);
        return;
    }
    sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "functions of Python are in CPU samples of "
                     "processes that are attached to: BPF programs are permitted");
}

void sonde_doctor_uprobes(struct sonde_doctor *d)
{
    struct sonde_err note = { "" };
    const int rc = sonde_uprobe_check(&note);
    sonde_doctor_add(d, rc ? SONDE_DOCTOR_WARN : SONDE_DOCTOR_OK, NULL, "%s", note.text);
}

void sonde_doctor_ptrace(struct sonde_doctor *d)
{
    char scope[32];
    if (!sonde_doctor_read("/proc/sys/kernel/yama/ptrace_scope", scope, sizeof(scope))) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                         "not restricted by Yama: running processes can be attached to");
        return;
    }
    const int level = atoi(scope);
    if (level <= 1 || geteuid() == 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                         "ptrace_scope %d%s: running processes can be attached to", level,
                         level == 1 && geteuid() != 0 ? " (own children only)" : "");
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "to attach to running processes: sysctl "
                         "kernel.yama.ptrace_scope=1, or start the program with `sonde run`",
                         "ptrace_scope %d: other processes cannot be attached to", level);
    }
}

/* ---- Room --------------------------------------------------------------------------------- */

void sonde_doctor_shm(struct sonde_doctor *d)
{
    struct statvfs fs;
    if (statvfs("/dev/shm", &fs) != 0) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "mount a tmpfs on /dev/shm, or set SONDE_DIR to a directory on a tmpfs",
                         "/dev/shm: %s", strerror(errno));
        return;
    }
    const double total = (double)fs.f_blocks * (double)fs.f_frsize;
    const double left = (double)fs.f_bavail * (double)fs.f_frsize;
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    sonde_value_format(a, left, SONDE_UNIT_BYTES, d->ascii);
    sonde_value_format(b, total, SONDE_UNIT_BYTES, d->ascii);
    /* Docker gives 64 MB unless told otherwise. */
    if (total > 0 && left < 16.0 * (1 << 20)) {
        sonde_doctor_add(d, SONDE_DOCTOR_WARN,
                         "make room, or in a container give it more (--shm-size 1g)",
                         "/dev/shm has %s left of %s", a, b);
    } else {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL, "/dev/shm has %s left of %s", a, b);
    }
}

static int check_limit(struct sonde_doctor *d, int resource, char letter, const char *name,
                       double least)
{
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)resource, &limit) != 0) return 0;
    if (limit.rlim_cur == RLIM_INFINITY || (double)limit.rlim_cur >= least) return 0;
    char value[SONDE_VALUE_BYTES], advice[160];
    sonde_value_format(value, (double)limit.rlim_cur, SONDE_UNIT_BYTES, d->ascii);
    snprintf(advice, sizeof(advice),
             "ulimit -%c unlimited; below it programs get a small segment, with room for fewer "
             "series and histograms", letter);
    sonde_doctor_add(d, SONDE_DOCTOR_WARN, advice, "%s is %s", name, value);
    return 1;
}

void sonde_doctor_limits(struct sonde_doctor *d)
{
    /* A segment is a sparse file of 1.2 GB (more with hundreds of CPUs), mapped whole. */
    const double enough = 4.0 * (1u << 30);
    int bad = check_limit(d, RLIMIT_FSIZE, 'f', "RLIMIT_FSIZE", enough);
    bad += check_limit(d, RLIMIT_AS, 'v', "RLIMIT_AS", enough);
    if (!bad) {
        sonde_doctor_add(d, SONDE_DOCTOR_OK, NULL,
                         "file size and address space are enough for segments");
    }
}
