/* probe_process.c - what each running process of the model uses: CPU, memory, faults, switches,
 * files, I/O, and its threads.
 *
 * The folder /proc/PID is opened once and kept: when the process is gone and another one gets
 * its pid, files of the old folder say so instead of showing the new process. The start time is
 * checked when it is opened, against the one the model knows.
 *
 * Costs: one stat, one io, one cpu.stat of the cgroup and the folder of threads a tick; limits
 * every tenth tick; the proportional memory (smaps_rollup) walks the page tables of the process,
 * so it is read every tenth tick, and where that takes long once a minute or less often. */
#include <fcntl.h>
#include <linux/magic.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "collect/proc/probe.h"
#include "collect/proc/probe_series.h"
#include "collect/proc/process_cgroup.h"
#include "collect/proc/process_threads.h"
#include "collect/proc/procfs.h"

#define CGROUP_EARLY 3u           /* ticks in which the cgroup is looked for each time */
#define SLOW_EVERY 10u            /* ticks between readings of what changes slowly or costs */
#define PSS_LONG_NS 5000000u      /* a reading that takes longer is made once a minute, and for
                                     at most a thousandth of the time */
#define PSS_PAUSE_NS 60000000000u
#define PSS_SHARE 1000u
#define FDS_KEPT_MAX 384          /* files of threads kept open, of all processes */

enum process_series {
    CPU_USER, CPU_SYSTEM, FAULTS_MINOR, FAULTS_MAJOR, SWITCHES_VOLUNTARY, SWITCHES_INVOLUNTARY,
    IO_READ, IO_WRITE, STORAGE_READ, STORAGE_WRITE, RUN_DELAY, IO_DELAY,
    CGROUP_PERIODS, CGROUP_THROTTLED, CGROUP_THROTTLED_S, START_TIME,
    CPU_UTILIZATION, RESIDENT, PROPORTIONAL, VIRTUAL, SHARED, SWAP, THREADS, OPEN_FDS, MAX_FDS,
    ALLOWED_CPUS, CGROUP_QUOTA,
    SERIES
};
#define FIRST_OF_NOW CPU_UTILIZATION /* from here on a value says how things are now, so it goes
                                        away with the process; totals before it stay */

#define ROW(id, n, h, u, t, k, s, l, v)                                                        \
    [id] = { { .name = "sonde_process_" n, .help = h, .unit = u, .source = "process",          \
               .type = SONDE_##t, .kind = SONDE_KIND_##k, .scale = s }, { l, v } },
#define BYTES(id, n, h) ROW(id, n "_bytes", h, "bytes", GAUGE, MEMORY, 1, NULL, NULL)
#define NUMBER(id, n, h) ROW(id, n, h, NULL, GAUGE, CUSTOM, 1, NULL, NULL)
#define CPU_HELP "CPU time of the process, threads that have ended included."
#define FAULTS_HELP "Page faults: minor (the page was in memory) or major (read from a disk)."
#define SWITCHES_HELP "Context switches of threads, each up to the last time it was seen."
#define IO_HELP "Bytes that went through system calls, from and to files, pipes and sockets."
#define STORAGE_HELP "Bytes that were read from or are written to storage for the process."

static const struct { struct sonde_model_family_spec spec; struct sonde_label label; }
    table[SERIES] = {
        ROW(CPU_USER, "cpu_seconds_total", CPU_HELP, "seconds", COUNTER, TIME,
            SONDE_PROBE_CLOCK_TICKS, "mode", "user")
        ROW(CPU_SYSTEM, "cpu_seconds_total", CPU_HELP, "seconds", COUNTER, TIME,
            SONDE_PROBE_CLOCK_TICKS, "mode", "system")
        ROW(FAULTS_MINOR, "page_faults_total", FAULTS_HELP, NULL, COUNTER, COUNTER, 1, "type",
            "minor")
        ROW(FAULTS_MAJOR, "page_faults_total", FAULTS_HELP, NULL, COUNTER, COUNTER, 1, "type",
            "major")
        ROW(SWITCHES_VOLUNTARY, "context_switches_total", SWITCHES_HELP, NULL, COUNTER, COUNTER,
            1, "type", "voluntary")
        ROW(SWITCHES_INVOLUNTARY, "context_switches_total", SWITCHES_HELP, NULL, COUNTER, COUNTER,
            1, "type", "involuntary")
        ROW(IO_READ, "io_bytes_total", IO_HELP, "bytes", COUNTER, THROUGHPUT, 1, "direction",
            "read")
        ROW(IO_WRITE, "io_bytes_total", IO_HELP, "bytes", COUNTER, THROUGHPUT, 1, "direction",
            "write")
        ROW(STORAGE_READ, "storage_bytes_total", STORAGE_HELP, "bytes", COUNTER, THROUGHPUT, 1,
            "direction", "read")
        ROW(STORAGE_WRITE, "storage_bytes_total", STORAGE_HELP, "bytes", COUNTER, THROUGHPUT, 1,
            "direction", "write")
        ROW(RUN_DELAY, "run_delay_seconds_total",
            "Time in which threads could have run but no CPU was given to them, each up to the "
            "last time it was seen.", "seconds", COUNTER, TIME, 1e-9, NULL, NULL)
        ROW(IO_DELAY, "io_delay_seconds_total",
            "Time in which threads waited for block I/O; only where the kernel accounts for "
            "delays (kernel.task_delayacct).", "seconds", COUNTER, TIME, SONDE_PROBE_CLOCK_TICKS,
            NULL, NULL)
        ROW(CGROUP_PERIODS, "cgroup_periods_total",
            "Periods of the CPU quota that the cgroup of the process ran in.", NULL, COUNTER,
            COUNTER, 1, NULL, NULL)
        ROW(CGROUP_THROTTLED, "cgroup_throttled_periods_total",
            "Periods in which the cgroup of the process used up its CPU quota.", NULL, COUNTER,
            COUNTER, 1, NULL, NULL)
        ROW(CGROUP_THROTTLED_S, "cgroup_throttled_seconds_total",
            "Time in which the cgroup of the process was stopped since its CPU quota was used up, "
            "of all CPUs.", "seconds", COUNTER, TIME, 1e-9, NULL, NULL)
        ROW(START_TIME, "start_time_seconds", "When the process was started, in unix time.",
            "seconds", GAUGE, TIME, 1, NULL, NULL)
        ROW(CPU_UTILIZATION, "cpu_utilization_ratio",
            "CPU time per time in the last interval; 1 = one CPU all the time.", "ratio", GAUGE,
            RATIO, 1, NULL, NULL)
        BYTES(RESIDENT, "resident_memory", "Memory of the process that is in RAM.")
        BYTES(PROPORTIONAL, "proportional_memory",
              "The same with pages that n processes share counted as 1/n (PSS); read rarely.")
        BYTES(VIRTUAL, "virtual_memory", "Size of the address space.")
        BYTES(SHARED, "shared_memory", "Resident memory that is backed by files or shared.")
        BYTES(SWAP, "swap_memory", "Memory of the process that is swapped out.")
        NUMBER(THREADS, "threads", "Threads of the process.")
        NUMBER(OPEN_FDS, "open_fds", "Files, sockets and the like that are open.")
        NUMBER(MAX_FDS, "max_fds", "How many may be open at once.")
        NUMBER(ALLOWED_CPUS, "allowed_cpus", "CPUs that the process may run on.")
        NUMBER(CGROUP_QUOTA, "cgroup_quota_cpus",
               "CPU time per time that the cgroup of the process may use; of nested the least.")
    };
#undef ROW
#undef BYTES
#undef NUMBER

static const struct sonde_model_family_spec spec_states = {
    .name = "sonde_process_thread_states",
    .help = "Threads of the process by state.",
    .source = "process", .type = SONDE_GAUGE, .kind = SONDE_KIND_CUSTOM,
};

struct probe_process_entry {
    struct sonde_model_process *process; /* good while the model still has serial */
    uint64_t serial;
    uint64_t seen;        /* tick of the probe */
    uint64_t ticks;       /* it was read in */
    int dir_fd;           /* /proc/PID; -1 = gone, or never found */
    int from_zero;        /* the process was started after the last tick */
    uint64_t cpu_ticks, cpu_at_ns; /* user + system, and when they were read */
    uint64_t pss_next_ns; /* not before */
    struct sonde_process_cgroup cgroup;
    struct sonde_process_threads threads;
    struct sonde_model_series *series[SERIES];
    struct sonde_model_series *states[SONDE_THREAD_STATES];
};

struct process_probe {
    struct sonde_procfs_buf buf;
    int proc_fd;
    int is_procfs;        /* and not a copy of one */
    char sys_root[256];
    int fds_left;
    uint64_t tick;
    double boot_s;        /* unix time of boot; 0 = not known */
    double before_s;      /* unix time of the tick before; 0 = none */
    double hz;            /* clock ticks a second */
    uint64_t page_bytes;
    struct probe_process_entry **entry; /* owned */
    size_t count, cap;
};

static struct sonde_process_reader probe_process_reader(struct process_probe *p,
                                                        struct sonde_model *m)
{
    return (struct sonde_process_reader){ .model = m, .buf = &p->buf, .fds_left = &p->fds_left };
}

static size_t probe_process_labels_of(enum process_series i)
{
    return table[i].label.name ? 1 : 0;
}

static void probe_process_counter(struct probe_process_entry *e, struct sonde_model *m,
                                  enum process_series i, uint64_t value)
{
    const int fresh = !e->series[i];
    sonde_probe_counter(m, &table[i].spec, e->process, &table[i].label, probe_process_labels_of(i),
                        &e->series[i], value);
    if (fresh && e->series[i]) e->series[i]->from_zero = (uint32_t)e->from_zero;
}

static void probe_process_gauge(struct probe_process_entry *e, struct sonde_model *m,
                                enum process_series i, double value)
{
    sonde_probe_gauge(m, &table[i].spec, e->process, &table[i].label, probe_process_labels_of(i),
                      &e->series[i], value);
}

/* ---- Entries ----------------------------------------------------------------------------- */

static void entry_free(struct process_probe *p, struct probe_process_entry *e)
{
    const struct sonde_process_reader r = probe_process_reader(p, NULL);
    sonde_process_threads_release(&e->threads, &r);
    sonde_process_cgroup_release(&e->cgroup);
    if (e->dir_fd >= 0) close(e->dir_fd);
    sonde__free(e);
}

/* The process has ended: what it was up to is over, what it used in all stays. */
static void probe_process_entry_end(struct process_probe *p, struct sonde_model *m,
                                    struct probe_process_entry *e)
{
    const struct sonde_process_reader r = probe_process_reader(p, m);
    if (e->dir_fd < 0) return;
    close(e->dir_fd);
    e->dir_fd = -1;
    sonde_process_cgroup_release(&e->cgroup);
    sonde_process_threads_drop(&e->threads, &r);
    for (size_t i = FIRST_OF_NOW; i < SERIES; i++) sonde_probe_drop(m, &e->series[i]);
    for (size_t i = 0; i < SONDE_THREAD_STATES; i++) sonde_probe_drop(m, &e->states[i]);
    e->process->threads = 0;
}

static struct probe_process_entry *probe_process_entry_find(
    const struct process_probe *p, const struct sonde_model_process *process, size_t hint)
{
    for (size_t tried = 0; tried < p->count; tried++) {
        struct probe_process_entry *e = p->entry[(hint + tried) % p->count];
        if (e->serial == process->serial) return e;
    }
    return NULL;
}

/* /proc/PID if it still is that process, else -1. */
static int open_process(struct process_probe *p, const struct sonde_model_process *process)
{
    char name[16];
    struct sonde_procfs_stat stat;
    snprintf(name, sizeof(name), "%u", process->pid);
    const int fd = openat(p->proc_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    if (sonde_procfs_read(&p->buf, fd, "stat") == 0 &&
        sonde_procfs_stat(sonde_procfs_text(&p->buf), &stat) == 0 &&
        stat.start_time == process->start_time) {
        return fd;
    }
    close(fd);
    return -1;
}

static struct probe_process_entry *entry_add(struct process_probe *p,
                                             struct sonde_model_process *process)
{
    if (SONDE_ARRAY_ROOM(p->entry, p->count, p->cap)) return NULL;
    struct probe_process_entry *e = sonde__calloc(1, sizeof(*e));
    if (!e) return NULL;
    e->process = process;
    e->serial = process->serial;
    e->dir_fd = open_process(p, process);
    sonde_process_cgroup_init(&e->cgroup);
    const double started_s = p->boot_s + (double)process->start_time / p->hz;
    if (p->boot_s > 0 && !process->elsewhere) process->started_s = started_s;
    e->from_zero = p->boot_s > 0 && p->before_s > 0 && started_s >= p->before_s;
    e->threads.from_zero = e->from_zero;
    p->entry[p->count++] = e;
    return e;
}

/* Drop the entries of processes that the model has forgotten, series and all. */
static void entries_sweep(struct process_probe *p)
{
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (p->entry[i]->seen == p->tick) p->entry[kept++] = p->entry[i];
        else entry_free(p, p->entry[i]);
    }
    p->count = kept;
}

/* ---- Reading one process ----------------------------------------------------------------- */

static void read_io(struct process_probe *p, struct probe_process_entry *e, struct sonde_model *m)
{
    static const struct { const char *key; enum process_series series; } want[] = {
        { "rchar:", IO_READ },
        { "wchar:", IO_WRITE },
        { "read_bytes:", STORAGE_READ },
        { "write_bytes:", STORAGE_WRITE },
    };
    enum { WANT = SONDE_COUNT(want) };
    struct sonde_procfs_key keys[WANT];
    for (size_t i = 0; i < WANT; i++) keys[i] = (struct sonde_procfs_key){ want[i].key, 0, 0 };
    if (sonde_procfs_read(&p->buf, e->dir_fd, "io") == 0) {
        sonde_procfs_keys(sonde_procfs_text(&p->buf), keys, WANT);
    }
    for (size_t i = 0; i < WANT; i++) {
        if (keys[i].found) probe_process_counter(e, m, want[i].series, keys[i].value);
        else sonde_probe_drop(m, &e->series[want[i].series]);
    }
}

/* Since Linux 6.2 the size of the folder is the number of files; before, it is 0. */
static int count_fds(const struct process_probe *p, const struct probe_process_entry *e,
                     uint64_t *out)
{
    struct stat st;
    struct sonde_procfs_dir dir;
    uint32_t fd;
    if (p->is_procfs && fstatat(e->dir_fd, "fd", &st, 0) == 0 && st.st_size > 0) {
        *out = (uint64_t)st.st_size;
        return 1;
    }
    if (sonde_procfs_dir_open(&dir, e->dir_fd, "fd") != 0) return 0;
    for (*out = 0; sonde_procfs_dir_next(&dir, &fd);) ++*out;
    sonde_procfs_dir_close(&dir);
    return 1;
}

static void read_limits(struct process_probe *p, struct probe_process_entry *e,
                        struct sonde_model *m)
{
    static const char key[] = "\nMax open files";
    uint64_t soft;
    if (sonde_procfs_read(&p->buf, e->dir_fd, "limits") != 0) return;
    const char *at = memmem(p->buf.data, p->buf.len, key, sizeof(key) - 1);
    if (!at) return;
    struct sonde_procfs_text text = { at + sizeof(key) - 1, p->buf.data + p->buf.len };
    if (sonde_procfs_u64(&text, &soft)) probe_process_gauge(e, m, MAX_FDS, (double)soft);
    else sonde_probe_drop(m, &e->series[MAX_FDS]); /* unlimited */
}

static void read_pss(struct process_probe *p, struct probe_process_entry *e, struct sonde_model *m)
{
    struct sonde_procfs_key pss = { "Pss:", 0, 0 };
    const uint64_t start = sonde_clock_ns(CLOCK_MONOTONIC);
    if (start < e->pss_next_ns) return;
    const int rc = sonde_procfs_read(&p->buf, e->dir_fd, "smaps_rollup");
    const uint64_t end = sonde_clock_ns(CLOCK_MONOTONIC), took = end - start;
    if (took > PSS_LONG_NS) {
        const uint64_t share = took * PSS_SHARE;
        e->pss_next_ns = end + (share > PSS_PAUSE_NS ? share : PSS_PAUSE_NS);
    }
    if (rc == 0) sonde_procfs_keys(sonde_procfs_text(&p->buf), &pss, 1);
    if (pss.found) probe_process_gauge(e, m, PROPORTIONAL, (double)pss.value);
    else sonde_probe_drop(m, &e->series[PROPORTIONAL]);
}

static void show_stat(struct process_probe *p, struct probe_process_entry *e, struct sonde_model *m,
                      const struct sonde_procfs_stat *s, uint64_t now_ns)
{
    const uint64_t cpu = s->user + s->system;
    probe_process_counter(e, m, CPU_USER, s->user);
    probe_process_counter(e, m, CPU_SYSTEM, s->system);
    probe_process_counter(e, m, FAULTS_MINOR, s->faults_minor);
    probe_process_counter(e, m, FAULTS_MAJOR, s->faults_major);
    if (e->cpu_at_ns && now_ns > e->cpu_at_ns && cpu >= e->cpu_ticks) {
        const double s_passed = (double)(now_ns - e->cpu_at_ns) * 1e-9;
        probe_process_gauge(e, m, CPU_UTILIZATION, (double)(cpu - e->cpu_ticks) / p->hz / s_passed);
    }
    e->cpu_ticks = cpu;
    e->cpu_at_ns = now_ns;
    if (s->virtual_bytes) { /* one that has ended has none left, which is not what it used */
        probe_process_gauge(e, m, RESIDENT, (double)s->resident_pages * (double)p->page_bytes);
        probe_process_gauge(e, m, VIRTUAL, (double)s->virtual_bytes);
    }
    probe_process_gauge(e, m, THREADS, (double)s->threads);
    e->process->threads = (uint32_t)s->threads;
    if (p->boot_s > 0) {
        probe_process_gauge(e, m, START_TIME, p->boot_s + (double)s->start_time / p->hz);
    }
}

static void show_threads(struct probe_process_entry *e, struct sonde_model *m)
{
    const struct sonde_process_threads *t = &e->threads;
    probe_process_counter(e, m, SWITCHES_VOLUNTARY, t->switches[0]);
    probe_process_counter(e, m, SWITCHES_INVOLUNTARY, t->switches[1]);
    if (t->scheduled) probe_process_counter(e, m, RUN_DELAY, t->run_delay_ns);
    /* 0 says nothing: most kernels do not account for it. */
    if (t->io_delay) probe_process_counter(e, m, IO_DELAY, t->io_delay);
    if (t->cpus_allowed) probe_process_gauge(e, m, ALLOWED_CPUS, (double)t->cpus_allowed);
    if (t->memory.found) {
        probe_process_gauge(e, m, SHARED, (double)t->memory.shared_bytes);
        probe_process_gauge(e, m, SWAP, (double)t->memory.swap_bytes);
    } else {
        sonde_probe_drop(m, &e->series[SHARED]);
        sonde_probe_drop(m, &e->series[SWAP]);
    }
    for (size_t i = 0; i < SONDE_THREAD_STATES; i++) {
        const struct sonde_label label = { "state", sonde_thread_state_name[i] };
        if (!t->states[i] && !e->states[i]) continue; /* most are never seen */
        sonde_probe_gauge(m, &spec_states, e->process, &label, 1, &e->states[i],
                          (double)t->states[i]);
    }
}

static void show_cgroup(struct process_probe *p, struct probe_process_entry *e,
                        struct sonde_model *m)
{
    struct sonde_process_cgroup *c = &e->cgroup;
    static const enum process_series counts[] = { CGROUP_PERIODS, CGROUP_THROTTLED,
                                                  CGROUP_THROTTLED_S };
    /* Whoever starts a process moves it, in its first moments. */
    if (e->ticks < CGROUP_EARLY || e->ticks % SLOW_EVERY == 0) {
        sonde_process_cgroup_find(c, &p->buf, e->dir_fd, p->sys_root);
        for (size_t i = 0; c->moved && i < SONDE_COUNT(counts); i++) {
            sonde_probe_drop(m, &e->series[counts[i]]);
        }
    }
    sonde_process_cgroup_read(c, &p->buf);
    if (c->quota_cpus > 0) probe_process_gauge(e, m, CGROUP_QUOTA, c->quota_cpus);
    else sonde_probe_drop(m, &e->series[CGROUP_QUOTA]);
    const uint64_t now[] = { c->periods, c->throttled, c->throttled_ns };
    for (size_t i = 0; c->counts_known && i < SONDE_COUNT(counts); i++) {
        /* Not from zero, however new the process is: the cgroup was there before it. */
        sonde_probe_counter(m, &table[counts[i]].spec, e->process, NULL, 0,
                            &e->series[counts[i]], now[i]);
    }
}

static void probe_process_entry_read(struct process_probe *p, struct probe_process_entry *e,
                                     struct sonde_model *m)
{
    const struct sonde_process_reader r = probe_process_reader(p, m);
    struct sonde_procfs_stat stat;
    uint64_t fds;
    if (e->dir_fd < 0) return;
    const int rc = sonde_procfs_read(&p->buf, e->dir_fd, "stat");
    if (rc == SONDE_ENOENT) {
        probe_process_entry_end(p, m, e);
        return;
    }
    if (rc || sonde_procfs_stat(sonde_procfs_text(&p->buf), &stat) != 0) return;
    show_stat(p, e, m, &stat, sonde_clock_ns(CLOCK_MONOTONIC));
    sonde_process_threads_read(&e->threads, &r, e->process, e->dir_fd);
    show_threads(e, m);
    read_io(p, e, m);
    show_cgroup(p, e, m);
    if (count_fds(p, e, &fds)) probe_process_gauge(e, m, OPEN_FDS, (double)fds);
    else sonde_probe_drop(m, &e->series[OPEN_FDS]);
    if (e->ticks % SLOW_EVERY == 0) {
        read_limits(p, e, m);
        read_pss(p, e, m);
    }
    e->ticks++;
    e->from_zero = 0; /* series made from now on do not begin with the process */
}

/* ---- The probe --------------------------------------------------------------------------- */

static void process_read(void *state, const struct sonde_probe_env *env)
{
    struct process_probe *p = state;
    struct sonde_model *m = env->model;
    if (m->shared) sonde_assert_held_write(&m->lock);
    p->tick++;
    for (size_t i = 0; i < m->process_count; i++) {
        struct sonde_model_process *process = m->processes[i];
        struct probe_process_entry *e = probe_process_entry_find(p, process, i);
        if (process->state != SONDE_PROCESS_RUNNING || process->elsewhere) {
            if (e) probe_process_entry_end(p, m, e);
        } else {
            if (!e) e = entry_add(p, process);
            if (e) probe_process_entry_read(p, e, m);
        }
        if (e) e->seen = p->tick;
    }
    entries_sweep(p);
    p->before_s = env->now_s;
}

static void process_close(void *state)
{
    struct process_probe *p = state;
    if (!p) return;
    for (size_t i = 0; i < p->count; i++) entry_free(p, p->entry[i]);
    sonde__free(p->entry);
    sonde_procfs_buf_release(&p->buf);
    if (p->proc_fd >= 0) close(p->proc_fd);
    sonde__free(p);
}

static double boot_time(struct process_probe *p)
{
    uint64_t s;
    if (sonde_procfs_read(&p->buf, p->proc_fd, "stat") != 0) return 0;
    const char *at = memmem(p->buf.data, p->buf.len, "\nbtime ", 7);
    if (!at) return 0;
    struct sonde_procfs_text text = { at + 7, p->buf.data + p->buf.len };
    if (!sonde_procfs_u64(&text, &s)) return 0;
    /* The kernel tells it in whole seconds, which is much of the life of a short program. The
     * clocks know better, unless they are those of another time namespace. */
    const double exact = sonde_clock_s(CLOCK_REALTIME) - sonde_clock_s(CLOCK_BOOTTIME);
    return p->is_procfs && fabs(exact - (double)s) < 2 ? exact : (double)s;
}

static int process_open(const struct sonde_probe_env *env, void **state, struct sonde_err *err)
{
    struct process_probe *p = sonde__calloc(1, sizeof(*p));
    if (!p) return sonde_err_set(err, SONDE_ENOMEM, "process: out of memory");
    const int rc = sonde_probe_open_proc("process", env->proc_root, &p->proc_fd, &p->buf, err);
    if (rc) {
        process_close(p);
        return rc;
    }
    struct statfs fs;
    struct rlimit limit;
    p->is_procfs = fstatfs(p->proc_fd, &fs) == 0 && fs.f_type == PROC_SUPER_MAGIC;
    p->fds_left = FDS_KEPT_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 4 < FDS_KEPT_MAX) {
        p->fds_left = (int)(limit.rlim_cur / 4);
    }
    const long hz = sysconf(_SC_CLK_TCK), page = sysconf(_SC_PAGESIZE);
    p->hz = hz > 0 ? (double)hz : 100;
    p->page_bytes = page > 0 ? (uint64_t)page : 4096;
    p->boot_s = boot_time(p);
    snprintf(p->sys_root, sizeof(p->sys_root), "%s", env->sys_root ? env->sys_root : "/sys");
    *state = p;
    return 0;
}

static int process_check(const struct sonde_probe_env *env, struct sonde_err *note)
{
    void *state;
    const int rc = process_open(env, &state, note);
    if (rc) return rc;
    struct process_probe *p = state;
    const int own = sonde_procfs_read(&p->buf, p->proc_fd, "self/stat");
    const int own_io = sonde_procfs_read(&p->buf, p->proc_fd, "self/io");
    const int own_pss = sonde_procfs_read(&p->buf, p->proc_fd, "self/smaps_rollup");
    const int other = sonde_procfs_read(&p->buf, p->proc_fd, "1/stat");
    const int other_io = sonde_procfs_read(&p->buf, p->proc_fd, "1/io");
    process_close(p);
    if (own) {
        return sonde_err_set(note, own, "%.200s/self/stat cannot be read: mount a full procfs at "
                             "%.200s", env->proc_root, env->proc_root);
    }
    const char *lacks = own_io && own_pss ? "I/O and proportional memory are"
                        : own_io          ? "I/O is"
                        : own_pss         ? "proportional memory is"
                                          : NULL;
    if (lacks) {
        return sonde_err_set(note, 0, "CPU, memory and threads of processes can be read; %s not "
                             "given by this kernel or sandbox", lacks);
    }
    if (other) {
        return sonde_err_set(note, 0, "everything of your own processes can be read; those of "
                             "other users are hidden (hidepid): run sonde as root, or remount "
                             "%.100s with gid= of a group you are in", env->proc_root);
    }
    if (other_io && geteuid() == 0) {
        return sonde_err_set(note, 0, "CPU, memory, files and threads of every process can be "
                             "read; I/O and proportional memory not of processes with "
                             "capabilities that this one lacks (pid 1 is one)");
    }
    if (other_io) {
        return sonde_err_set(note, 0, "everything of your own processes can be read; of other "
                             "users' all but I/O and proportional memory (before Linux 6.2 also "
                             "open files): run sonde as that user, as root or with "
                             "CAP_SYS_PTRACE for those");
    }
    return sonde_err_set(note, 0, "CPU, memory, I/O, files and threads of every process can be "
                         "read");
}

const struct sonde_probe_ops sonde_probe_process = {
    .name = "process",
    .summary = "CPU, memory, faults, context switches, files, I/O and threads of processes",
    .open = process_open,
    .read = process_read,
    .check = process_check,
    .close = process_close,
};
