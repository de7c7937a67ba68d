#include "collect/proc/process_threads.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "collect/proc/probe_series.h"
#include "sonde/sonde.h"

enum { FILE_SCHEDSTAT, FILE_STAT, FILE_STATUS, FILES };
static const char *const file_name[FILES] = { "schedstat", "stat", "status" };

enum { GAUGE_STATE = SONDE_THREAD_COUNTS, GAUGE_CPU, SERIES };

#define SWAPS_PER_TICK 16 /* threads that may take another's place in a tick */

struct sonde_process_thread {
    uint32_t tid;
    int fd[FILES];            /* -1 = not kept open */
    uint64_t seen;            /* tick of the table it was last in the folder */
    uint64_t start_time;      /* clock ticks since boot: tells threads of one tid apart */
    uint64_t sched[3];        /* ns on a CPU, ns waiting for one, turns on a CPU */
    uint64_t io_delay;        /* clock ticks waiting for block I/O */
    uint64_t total[SONDE_THREAD_COUNTS];
    uint64_t fresh[SONDE_THREAD_COUNTS]; /* part of total that came in this tick */
    int known;                /* total is valid: it was read at least once */
    int born;                 /* came up after the process was first read */
    int listed;               /* has series */
    char state;
    uint32_t cpu;
    char name[64];
    struct sonde_model_series *series[SERIES];
};

const char *const sonde_thread_state_name[SONDE_THREAD_STATES] = {
    "running", "sleeping", "disk", "stopped", "ended", "idle",
};

static const struct sonde_model_family_spec spec_cpu = {
    .name = "sonde_thread_cpu_seconds_total",
    .help = "CPU time of the thread. tid=\"other\": of threads that have no series, meanwhile.",
    .unit = "seconds", .source = "process", .type = SONDE_COUNTER, .kind = SONDE_KIND_TIME,
    .scale = SONDE_PROBE_CLOCK_TICKS,
};
static const struct sonde_model_family_spec spec_switches = {
    .name = "sonde_thread_context_switches_total",
    .help = "Context switches of the thread: voluntary (it waited) or involuntary.",
    .source = "process", .type = SONDE_COUNTER, .kind = SONDE_KIND_COUNTER,
};
static const struct sonde_model_family_spec spec_state = {
    .name = "sonde_thread_state",
    .help = "State of the thread: 0 running, 1 sleeping, 2 waiting for a disk, 3 stopped, "
            "4 ended, 5 idle.",
    .source = "process", .type = SONDE_GAUGE, .kind = SONDE_KIND_CUSTOM,
};
static const struct sonde_model_family_spec spec_last_cpu = {
    .name = "sonde_thread_last_cpu",
    .help = "CPU that the thread ran on last.",
    .source = "process", .type = SONDE_GAUGE, .kind = SONDE_KIND_CUSTOM,
};

static const struct { const struct sonde_model_family_spec *spec; const char *label, *value; }
    counts[SONDE_THREAD_COUNTS] = {
        [SONDE_THREAD_USER] = { &spec_cpu, "mode", "user" },
        [SONDE_THREAD_SYSTEM] = { &spec_cpu, "mode", "system" },
        [SONDE_THREAD_VOLUNTARY] = { &spec_switches, "type", "voluntary" },
        [SONDE_THREAD_INVOLUNTARY] = { &spec_switches, "type", "involuntary" },
    };

static enum sonde_thread_state threads_state_of(char letter)
{
    switch (letter) {
    case 'R': return SONDE_THREAD_RUNNING;
    case 'D': return SONDE_THREAD_DISK;
    case 'T':
    case 't': return SONDE_THREAD_STOPPED;
    case 'Z':
    case 'X':
    case 'x': return SONDE_THREAD_ENDED;
    case 'I': return SONDE_THREAD_IDLE;
    default: return SONDE_THREAD_SLEEPING;
    }
}

static uint64_t cpu_of(const struct sonde_process_thread *t)
{
    return t->total[SONDE_THREAD_USER] + t->total[SONDE_THREAD_SYSTEM];
}

/* ---- Reading one thread ------------------------------------------------------------------ */

static int threads_read_file(struct sonde_process_thread *t, const struct sonde_process_reader *r,
                             int task_fd, int which)
{
    if (t->fd[which] >= 0) return sonde_procfs_read_fd(r->buf, t->fd[which]);
    char path[32];
    snprintf(path, sizeof(path), "%u/%s", t->tid, file_name[which]);
    if (*r->fds_left <= 0) return sonde_procfs_read(r->buf, task_fd, path);
    const int fd = openat(task_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return SONDE_ENOENT;
    t->fd[which] = fd;
    --*r->fds_left;
    return sonde_procfs_read_fd(r->buf, fd);
}

static void close_files(struct sonde_process_thread *t, const struct sonde_process_reader *r)
{
    for (int i = 0; i < FILES; i++) {
        if (t->fd[i] < 0) continue;
        close(t->fd[i]);
        t->fd[i] = -1;
        ++*r->fds_left;
    }
}

static void threads_unlist(struct sonde_process_threads *all, struct sonde_process_thread *t,
                           const struct sonde_process_reader *r)
{
    if (!t->listed) return;
    for (int i = 0; i < SERIES; i++) sonde_probe_drop(r->model, &t->series[i]);
    t->listed = 0;
    all->listed--;
}

/* What the scheduler says about the thread since it was read last. Its three numbers cost a
 * tenth of the two large files. */
enum activity {
    RESTED,    /* has not run: nothing that is shown of it has changed */
    RAN_ON,    /* was not put on a CPU again: the same turn goes on, or came to its end */
    SCHEDULED, /* anything */
};

/* What a counter of one thread adds to that of all: the whole if it is another thread by now. */
static uint64_t threads_increase(uint64_t before, uint64_t now)
{
    return now >= before ? now - before : now;
}

static enum activity threads_activity(struct sonde_process_threads *all,
                                      struct sonde_process_thread *t,
                                      const struct sonde_process_reader *r, int task_fd)
{
    enum { RUN_NS, WAIT_NS, TURNS };
    uint64_t now[3], before[3];
    if (threads_read_file(t, r, task_fd, FILE_SCHEDSTAT) != 0) return SCHEDULED;
    struct sonde_procfs_text text = sonde_procfs_text(r->buf);
    if (!sonde_procfs_u64s(&text, now, 3)) return SCHEDULED;
    memcpy(before, t->sched, sizeof(before));
    memcpy(t->sched, now, sizeof(now));
    all->run_delay_ns += threads_increase(before[WAIT_NS], now[WAIT_NS]);
    all->scheduled |= now[TURNS] > 0;
    if (!t->known || now[TURNS] != before[TURNS]) return SCHEDULED;
    return t->state != 'R' && now[RUN_NS] == before[RUN_NS] ? RESTED : RAN_ON;
}

static void take_total(struct sonde_process_thread *t, enum sonde_thread_count i, uint64_t now)
{
    if (now <= t->total[i]) return;
    t->fresh[i] += now - t->total[i];
    t->total[i] = now;
}

/* CPUs that it may run on, from the mask "Cpus_allowed:\tff,ffffffff". */
static uint32_t threads_cpus_allowed(const struct sonde_procfs_buf *buf)
{
    static const char key[] = "\nCpus_allowed:";
    const char *at = memmem(buf->data, buf->len, key, sizeof(key) - 1);
    uint32_t count = 0;
    if (!at) return 0;
    const char *end = buf->data + buf->len;
    for (at += sizeof(key) - 1; at < end && *at != '\n'; at++) {
        static const char digits[] = "0123456789abcdef";
        const char *digit = *at ? strchr(digits, *at) : NULL;
        if (digit) count += (uint32_t)__builtin_popcount((unsigned)(digit - digits));
    }
    return count;
}

static void read_status(struct sonde_process_threads *all, struct sonde_process_thread *t,
                        const struct sonde_process_reader *r, int task_fd, int is_main)
{
    enum { FILE_RSS, SHMEM_RSS, SWAP, VOLUNTARY, INVOLUNTARY, KEYS };
    struct sonde_procfs_key k[KEYS] = {
        [FILE_RSS] = { "RssFile:", 0, 0 },
        [SHMEM_RSS] = { "RssShmem:", 0, 0 },
        [SWAP] = { "VmSwap:", 0, 0 },
        [VOLUNTARY] = { "voluntary_ctxt_switches:", 0, 0 },
        [INVOLUNTARY] = { "nonvoluntary_ctxt_switches:", 0, 0 },
    };
    if (threads_read_file(t, r, task_fd, FILE_STATUS) != 0) return;
    struct sonde_procfs_text text = sonde_procfs_text(r->buf);
    if (!is_main) { /* only the last two lines are wanted: skip the sixty before them */
        const char *at = memmem(text.p, r->buf->len, "\nvoluntary_ctxt", 15);
        if (at) text.p = at + 1;
    }
    sonde_procfs_keys(text, k, KEYS);
    if (k[VOLUNTARY].found) take_total(t, SONDE_THREAD_VOLUNTARY, k[VOLUNTARY].value);
    if (k[INVOLUNTARY].found) take_total(t, SONDE_THREAD_INVOLUNTARY, k[INVOLUNTARY].value);
    if (is_main) {
        all->cpus_allowed = threads_cpus_allowed(r->buf);
        all->memory.found = k[FILE_RSS].found && k[SHMEM_RSS].found && k[SWAP].found;
        all->memory.shared_bytes = k[FILE_RSS].value + k[SHMEM_RSS].value;
        all->memory.swap_bytes = k[SWAP].value;
    }
}

/* 0, or SONDE_ENOENT: it is gone. */
static int threads_read_thread(struct sonde_process_threads *all, struct sonde_process_thread *t,
                               const struct sonde_process_reader *r, int task_fd, int is_main)
{
    struct sonde_procfs_stat stat;
    /* The main thread's status holds the memory of the process, which others change too. */
    const enum activity did = threads_activity(all, t, r, task_fd);
    if (did == RESTED && !is_main) return 0;
    if (did != RESTED) {
        if (threads_read_file(t, r, task_fd, FILE_STAT) != 0 ||
            sonde_procfs_stat(sonde_procfs_text(r->buf), &stat) != 0) {
            return SONDE_ENOENT;
        }
        if (t->known && (t->start_time != stat.start_time || strcmp(t->name, stat.name) != 0)) {
            threads_unlist(all, t, r); /* series carry the name */
        }
        if (t->known && t->start_time != stat.start_time) { /* another thread by now */
            memset(t->total, 0, sizeof(t->total));
            t->born = 1;
        }
        all->io_delay += threads_increase(t->io_delay, stat.io_delay);
        t->io_delay = stat.io_delay;
        t->start_time = stat.start_time;
        t->state = stat.state;
        t->cpu = (uint32_t)stat.cpu;
        memcpy(t->name, stat.name, sizeof(t->name));
        take_total(t, SONDE_THREAD_USER, stat.user);
        take_total(t, SONDE_THREAD_SYSTEM, stat.system);
    }
    /* A thread that computes on and on has not switched: its last switch, if it is being made
     * just now, is seen with its next turn. */
    if (did != RAN_ON || t->state != 'R' || is_main) read_status(all, t, r, task_fd, is_main);
    t->known = 1;
    return 0;
}

/* ---- The table --------------------------------------------------------------------------- */

static struct sonde_process_thread *threads_find(struct sonde_process_threads *all, uint32_t tid)
{
    for (size_t tried = 0; tried < all->count; tried++) {
        const size_t i = (all->cursor + tried) % all->count;
        if (all->thread[i].tid != tid) continue;
        all->cursor = i + 1;
        return &all->thread[i];
    }
    return NULL;
}

static struct sonde_process_thread *threads_add(struct sonde_process_threads *all, uint32_t tid)
{
    if (all->count == all->cap) {
        /* By hand: there is one for each process, and most have one thread or two. */
        const size_t cap = all->cap ? all->cap * 2 : 2;
        struct sonde_process_thread *p = sonde__realloc(all->thread, cap * sizeof(*p));
        if (!p) return NULL;
        all->thread = p;
        all->cap = cap;
    }
    struct sonde_process_thread *t = &all->thread[all->count++];
    *t = (struct sonde_process_thread){ .tid = tid, .born = all->from_zero || all->tick > 1 };
    for (int i = 0; i < FILES; i++) t->fd[i] = -1;
    all->cursor = all->count;
    return t;
}

static void threads_walk(struct sonde_process_threads *all, const struct sonde_process_reader *r,
                         const struct sonde_model_process *process, int dir_fd)
{
    struct sonde_procfs_dir dir;
    uint32_t tid;
    size_t without = 0;                                   /* threads without series met */
    const size_t budget = SONDE_THREADS_READ - all->listed; /* of them to be read */
    if (sonde_procfs_dir_open(&dir, dir_fd, "task") != 0) return;
    while (sonde_procfs_dir_next(&dir, &tid)) {
        struct sonde_process_thread *t = threads_find(all, tid);
        const int is_main = tid == process->pid;
        if (!t) t = threads_add(all, tid);
        if (!t) continue;
        t->seen = all->tick;
        if (!t->listed) {
            const int due = without >= all->turn && without < all->turn + budget;
            without++;
            if (!due && !is_main) continue;
        }
        /* Gone since the folder was read, or never right: as if it were not there. */
        if (threads_read_thread(all, t, r, dir.fd, is_main) != 0) t->seen = 0;
    }
    sonde_procfs_dir_close(&dir);
    all->turn += budget;
    if (all->turn >= without) all->turn = 0;
}

static void threads_sweep(struct sonde_process_threads *all, const struct sonde_process_reader *r)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        struct sonde_process_thread *t = &all->thread[i];
        if (t->seen == all->tick) {
            if (kept != i) all->thread[kept] = *t;
            kept++;
            continue;
        }
        threads_unlist(all, t, r);
        close_files(t, r);
    }
    all->count = kept;
    all->cursor = 0;
}

/* ---- Who has series ---------------------------------------------------------------------- */

static struct sonde_process_thread *busiest_without(struct sonde_process_threads *all)
{
    struct sonde_process_thread *best = NULL;
    for (size_t i = 0; i < all->count; i++) {
        struct sonde_process_thread *t = &all->thread[i];
        if (t->known && !t->listed && (!best || cpu_of(t) > cpu_of(best))) best = t;
    }
    return best;
}

static struct sonde_process_thread *laziest_listed(struct sonde_process_threads *all)
{
    struct sonde_process_thread *worst = NULL;
    for (size_t i = 0; i < all->count; i++) {
        struct sonde_process_thread *t = &all->thread[i];
        if (t->listed && (!worst || cpu_of(t) < cpu_of(worst))) worst = t;
    }
    return worst;
}

static void threads_choose(struct sonde_process_threads *all, const struct sonde_process_reader *r)
{
    if (all->count <= SONDE_THREADS_LISTED) { /* the usual case: all of them */
        for (size_t i = 0; i < all->count; i++) {
            struct sonde_process_thread *t = &all->thread[i];
            if (t->listed || !t->known) continue;
            t->listed = 1;
            all->listed++;
        }
        return;
    }
    const uint64_t second = (uint64_t)sysconf(_SC_CLK_TCK);
    for (int swaps = 0; swaps < SWAPS_PER_TICK;) {
        struct sonde_process_thread *best = busiest_without(all);
        if (!best) return;
        if (all->listed >= SONDE_THREADS_LISTED) {
            struct sonde_process_thread *worst = laziest_listed(all);
            if (cpu_of(best) < 2 * cpu_of(worst) + second) return;
            threads_unlist(all, worst, r);
            swaps++;
        }
        best->listed = 1;
        all->listed++;
    }
}

/* ---- Into the model ---------------------------------------------------------------------- */

static void show_counts(const struct sonde_process_reader *r, struct sonde_model_process *process,
                        const char *tid, const char *name, const uint64_t *total,
                        struct sonde_model_series **series, int from_zero)
{
    for (int i = 0; i < SONDE_THREAD_COUNTS; i++) {
        const int fresh = !series[i];
        const struct sonde_label labels[] = {
            { "tid", tid }, { "name", name }, { counts[i].label, counts[i].value }
        };
        sonde_probe_counter(r->model, counts[i].spec, process, labels, 3, &series[i], total[i]);
        if (fresh && series[i]) series[i]->from_zero = (uint32_t)from_zero;
    }
}

static void threads_show(struct sonde_process_threads *all, const struct sonde_process_reader *r,
                         struct sonde_model_process *process)
{
    memset(all->states, 0, sizeof(all->states));
    for (size_t i = 0; i < all->count; i++) {
        struct sonde_process_thread *t = &all->thread[i];
        if (!t->known) continue;
        const enum sonde_thread_state state = threads_state_of(t->state);
        all->states[state]++;
        all->switches[0] += t->fresh[SONDE_THREAD_VOLUNTARY];
        all->switches[1] += t->fresh[SONDE_THREAD_INVOLUNTARY];
        if (t->listed) {
            char tid[16];
            snprintf(tid, sizeof(tid), "%u", t->tid);
            /* A thread that is new counts from 0; one that was in "other" must not count
             * again what it used there. */
            show_counts(r, process, tid, t->name, t->total, t->series, t->born);
            const struct sonde_label labels[] = { { "tid", tid }, { "name", t->name } };
            sonde_probe_gauge(r->model, &spec_state, process, labels, 2, &t->series[GAUGE_STATE],
                              (double)state);
            sonde_probe_gauge(r->model, &spec_last_cpu, process, labels, 2,
                              &t->series[GAUGE_CPU], (double)t->cpu);
        } else {
            for (int k = 0; k < SONDE_THREAD_COUNTS; k++) all->other[k] += t->fresh[k];
        }
        t->born = 0;
        memset(t->fresh, 0, sizeof(t->fresh));
    }
    if (all->count > all->listed || all->other_series[0]) {
        show_counts(r, process, "other", "other", all->other, all->other_series, 0);
    }
}

void sonde_process_threads_read(struct sonde_process_threads *t,
                                const struct sonde_process_reader *r,
                                struct sonde_model_process *process, int dir_fd)
{
    assert(t && r && process && dir_fd >= 0);
    t->tick++;
    t->memory.found = 0;
    threads_walk(t, r, process, dir_fd);
    threads_sweep(t, r);
    threads_choose(t, r);
    threads_show(t, r, process);
}

void sonde_process_threads_drop(struct sonde_process_threads *t,
                                const struct sonde_process_reader *r)
{
    for (size_t i = 0; i < t->count; i++) threads_unlist(t, &t->thread[i], r);
    for (int i = 0; i < SONDE_THREAD_COUNTS; i++) sonde_probe_drop(r->model, &t->other_series[i]);
    sonde_process_threads_release(t, r);
}

void sonde_process_threads_release(struct sonde_process_threads *t,
                                   const struct sonde_process_reader *r)
{
    for (size_t i = 0; i < t->count; i++) close_files(&t->thread[i], r);
    sonde__free(t->thread);
    t->thread = NULL;
    t->count = t->cap = t->cursor = t->listed = 0;
}
