/* spawn.c - see spawn.h. */
#include "bench/cmd/spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/errno.h"
#include "base/file.h"
#include "sonde/sonde.h"

#define SPAWN_GRACE_S 1.0 /* between asking it to end and killing it */
#define SPAWN_RSS_SLACK_KB 512 /* kernels since 6.2 count pages by CPU, and so not exactly */

/* Written by a runner and its child, read once the runner has ended. */
struct spawn_slot {
    uint64_t begin_ns, end_ns;
    uint64_t waited_ns;           /* the child, for a CPU, */
    uint64_t late_ns;             /* and the runner, before it could see its end */
    struct rusage before, after;  /* of the child at its exec, and at its end */
    double counts[SONDE_COUNTERS];
    int has_waited;
    int exec_errno;               /* 0 = it was run */
    int fork_errno;
    int status;
    int done;
};

/* What ends us, and with us what we run. */
static const int spawn_ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

/* ---- The runner: a fork of what may have threads, so nothing here allocates ------------------ */

/* How long pid's first thread was ready without a CPU; also of one that has ended. 0 if the kernel
 * does not say. */
static int spawn_read_waited(pid_t pid, uint64_t *waited)
{
    char path[64], text[128];
    uint64_t ran;
    snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
    if (sonde_file_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0) return 0;
    return sscanf(text, "%" SCNu64 " %" SCNu64, &ran, waited) == 2;
}

/* In the child of vfork: it has the memory of the runner, and signal handlers of its own. */
static void spawn_exec(const struct sonde_spawn *s, const struct sonde_spawn_options *o,
                       struct spawn_slot *slot)
{
    for (size_t i = 0; i < SONDE_COUNT(spawn_ends); i++) {
        sigaction(spawn_ends[i], &s->found[i], NULL);
    }
    signal(SIGXFSZ, SIG_DFL); /* see sonde_child_ignore_xfsz */
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &s->found_mask, NULL);
    getrusage(RUSAGE_SELF, &slot->before);
    slot->begin_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    execv(o->path, o->argv);
    slot->exec_errno = errno;
    _exit(127);
}

static void spawn_runner(const struct sonde_spawn *s, const struct sonde_spawn_options *o,
                         struct spawn_slot *slot, int go_fd)
{
    int fds[SONDE_COUNTERS];
    char byte;
    uint64_t late_ns[2] = { 0, 0 };
    setpgid(0, 0);
    for (size_t i = 0; i < SONDE_COUNT(spawn_ends); i++) signal(spawn_ends[i], SIG_IGN);
    const int input = o->input ? open(o->input, O_RDONLY | O_CLOEXEC) : s->null_fd;
    if (input < 0 || dup2(input, STDIN_FILENO) < 0 ||
        (!o->show_output && (dup2(s->null_fd, STDOUT_FILENO) < 0 ||
                             dup2(s->null_fd, STDERR_FILENO) < 0))) {
        slot->exec_errno = errno;
        _exit(1);
    }
    sonde_counters_open(&s->counters, fds);
    if (go_fd >= 0) {
        while (read(go_fd, &byte, 1) < 0 && errno == EINTR) continue;
    }
    spawn_read_waited(getpid(), &late_ns[0]);
    const pid_t pid = vfork();
    if (pid == 0) spawn_exec(s, o, slot);
    if (pid < 0) {
        slot->fork_errno = errno;
        _exit(1);
    }
    siginfo_t info;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) continue;
    slot->end_ns = sonde_clock_ns(CLOCK_MONOTONIC);
    slot->has_waited = spawn_read_waited(pid, &slot->waited_ns);
    if (spawn_read_waited(getpid(), &late_ns[1])) slot->late_ns = late_ns[1] - late_ns[0];
    while (wait4(pid, &slot->status, 0, &slot->after) < 0 && errno == EINTR) continue;
    sonde_counters_read(fds, slot->counts);
    slot->done = 1;
    _exit(0);
}

/* ---- The machine meanwhile ------------------------------------------------------------------- */

struct spawn_machine { double busy_s, stolen_s; };

static struct spawn_machine spawn_machine_read(void)
{
    char text[256];
    uint64_t t[8];
    struct spawn_machine m = { NAN, NAN };
    const double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    if (sonde_file_read_small(AT_FDCWD, "/proc/stat", text, sizeof(text)) <= 0) return m;
    if (sscanf(text, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64
               " %" SCNu64 " %" SCNu64, &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6],
               &t[7]) != 8) {
        return m;
    }
    m.busy_s = (double)(t[0] + t[1] + t[2] + t[5] + t[6]) * tick_s;
    m.stolen_s = (double)t[7] * tick_s;
    return m;
}

/* ---- Starting and waiting -------------------------------------------------------------------- */

int sonde_spawn_init(struct sonde_spawn *s, uint32_t copies, struct sonde_err *err)
{
    assert(copies >= 1 && copies <= SONDE_SPAWN_COPIES_MAX);
    memset(s, 0, sizeof(*s));
    s->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (s->null_fd < 0) {
        return sonde_err_set(err, SONDE_EIO, "cannot open /dev/null: %s", strerror(errno));
    }
    s->slot_count = copies;
    void *slots = mmap(NULL, copies * sizeof(*s->slots), PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    s->slots = slots == MAP_FAILED ? NULL : slots;
    s->runners = sonde__calloc(copies, sizeof(*s->runners));
    if (!s->slots || !s->runners) {
        if (s->slots) munmap(s->slots, copies * sizeof(*s->slots));
        sonde__free(s->runners);
        close(s->null_fd);
        memset(s, 0, sizeof(*s));
        return sonde_err_memory(err);
    }
    sonde_counters_init(&s->counters);
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (size_t i = 0; i < SONDE_COUNT(spawn_ends); i++) {
        sigaddset(&watched, spawn_ends[i]);
        sigaction(spawn_ends[i], NULL, &s->found[i]);
    }
    pthread_sigmask(SIG_BLOCK, &watched, &s->found_mask);
    /* A parent that ignores SIGCHLD would make us unable to learn that a runner ended. */
    signal(SIGCHLD, SIG_DFL);
    return 0;
}

void sonde_spawn_release(struct sonde_spawn *s)
{
    if (!s->slots) return;
    munmap(s->slots, s->slot_count * sizeof(*s->slots));
    sonde__free(s->runners);
    close(s->null_fd);
    pthread_sigmask(SIG_SETMASK, &s->found_mask, NULL);
    memset(s, 0, sizeof(*s));
}

static void spawn_kill(const struct sonde_spawn *s, uint32_t count, int sig)
{
    for (uint32_t i = 0; i < count; i++) {
        if (s->runners[i]) kill(-s->runners[i], sig);
    }
}

/* How many runners are left. */
static uint32_t spawn_reap(struct sonde_spawn *s, uint32_t count)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        int status;
        if (!s->runners[i]) continue;
        const pid_t pid = waitpid(s->runners[i], &status, WNOHANG);
        if (pid == s->runners[i] || (pid < 0 && errno == ECHILD)) s->runners[i] = 0;
        else left++;
    }
    return left;
}

/* Until all runners have ended. */
static enum sonde_spawn_end spawn_wait(struct sonde_spawn *s, uint32_t count, double timeout_s)
{
    enum sonde_spawn_end end = SONDE_SPAWN_DONE;
    double until = timeout_s > 0 ? sonde_clock_s(CLOCK_MONOTONIC) + timeout_s : INFINITY;
    sigset_t watched;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    for (size_t i = 0; i < SONDE_COUNT(spawn_ends); i++) sigaddset(&watched, spawn_ends[i]);
    while (spawn_reap(s, count)) {
        const double left = until - sonde_clock_s(CLOCK_MONOTONIC);
        const struct timespec t = sonde_clock_timespec_s(left < 0 ? 0 : left < 3600 ? left : 3600);
        siginfo_t info;
        const int sig = sigtimedwait(&watched, &info, &t);
        const int late = sonde_clock_s(CLOCK_MONOTONIC) >= until;
        if (sig > 0 && sig != SIGCHLD) {
            s->interrupted = sig;
            end = SONDE_SPAWN_INTERRUPTED;
        } else if (sig == SIGCHLD || !late) {
            continue;
        } else if (end == SONDE_SPAWN_DONE) {
            end = SONDE_SPAWN_TIMEOUT;
        } else {
            spawn_kill(s, count, SIGKILL);
            until = INFINITY;
            continue;
        }
        /* One that is stopped would never learn of it. */
        spawn_kill(s, count, SIGTERM);
        spawn_kill(s, count, SIGCONT);
        until = sonde_clock_s(CLOCK_MONOTONIC) + SPAWN_GRACE_S;
    }
    return end;
}

static double spawn_timeval_s(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

static uint64_t spawn_more(long after, long before)
{
    return after > before ? (uint64_t)(after - before) : 0;
}

static void spawn_add(struct sonde_spawn_use *u, const struct spawn_slot *slot)
{
    const struct rusage *a = &slot->after, *b = &slot->before;
    const double user = fmax(spawn_timeval_s(a->ru_utime) - spawn_timeval_s(b->ru_utime), 0);
    const double system = fmax(spawn_timeval_s(a->ru_stime) - spawn_timeval_s(b->ru_stime), 0);
    const double wall = (double)(slot->end_ns - slot->begin_ns) * 1e-9;
    const double waited = slot->has_waited ? (double)slot->waited_ns * 1e-9 : NAN;
    /* The runner also waits for a CPU while the child has one, which delays nothing: no more of it
     * counts than the time in which the child neither ran nor waited. */
    const double idle = fmax(wall - user - system - waited, 0);
    u->user_s += user;
    u->system_s += system;
    u->waited_s += waited + fmin((double)slot->late_ns * 1e-9, idle);
    u->faults_major += spawn_more(a->ru_majflt, b->ru_majflt);
    u->faults_minor += spawn_more(a->ru_minflt, b->ru_minflt);
    u->switches_voluntary += spawn_more(a->ru_nvcsw, b->ru_nvcsw);
    u->switches_involuntary += spawn_more(a->ru_nivcsw, b->ru_nivcsw);
    u->read_bytes += 512 * spawn_more(a->ru_inblock, b->ru_inblock);
    if ((uint64_t)a->ru_maxrss * 1024 > u->rss_bytes) {
        u->rss_bytes = (uint64_t)a->ru_maxrss * 1024;
        u->rss_floor = a->ru_maxrss <= b->ru_maxrss + SPAWN_RSS_SLACK_KB;
    }
    for (int i = 0; i < SONDE_COUNTERS; i++) u->counts[i] += slot->counts[i];
    if (slot->status && !u->status) u->status = slot->status;
}

/* SONDE_EIO: a runner was killed, or could not make a process. */
static int spawn_sum(const struct sonde_spawn *s, const struct sonde_spawn_options *o,
                     struct sonde_spawn_use *out, struct sonde_err *err)
{
    struct sonde_spawn_use u = { 0 };
    uint64_t begin_ns = UINT64_MAX, end_ns = 0;
    for (uint32_t i = 0; i < o->copies; i++) {
        const struct spawn_slot *slot = &s->slots[i];
        if (slot->exec_errno) {
            const int bad_input = !slot->begin_ns;
            return sonde_err_set(err, SONDE_EINVAL, "cannot %s '%s': %s",
                                 bad_input ? "open" : "run",
                                 bad_input && o->input ? o->input : o->path,
                                 strerror(slot->exec_errno));
        }
        if (!slot->done) {
            return sonde_err_set(err, SONDE_EIO, "'%s' could not be waited for: %s", o->path,
                                 slot->fork_errno ? strerror(slot->fork_errno)
                                                  : "its runner was killed");
        }
        spawn_add(&u, slot);
        if (slot->begin_ns < begin_ns) begin_ns = slot->begin_ns;
        if (slot->end_ns > end_ns) end_ns = slot->end_ns;
    }
    u.wall_s = (double)(end_ns - begin_ns) * 1e-9;
    *out = u;
    return 0;
}

/* All runners; what was started before a failure is ended again. */
static int spawn_start(struct sonde_spawn *s, const struct sonde_spawn_options *o,
                       struct sonde_err *err)
{
    int go[2] = { -1, -1 };
    /* Copies begin together: when the last one is ready the pipe is closed. */
    if (o->copies > 1 && pipe2(go, O_CLOEXEC)) {
        return sonde_err_set(err, SONDE_EIO, "cannot make a pipe: %s", strerror(errno));
    }
    for (uint32_t i = 0; i < o->copies; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            if (go[1] >= 0) close(go[1]);
            spawn_runner(s, o, &s->slots[i], go[0]);
        }
        if (pid < 0) {
            const int error = errno;
            spawn_kill(s, i, SIGKILL);
            if (go[0] >= 0) close(go[0]);
            if (go[1] >= 0) close(go[1]);
            spawn_wait(s, i, 0);
            return sonde_err_set(err, SONDE_EIO, "cannot start a process: %s%s", strerror(error),
                                 error == EAGAIN ? " (see `ulimit -u`)" : "");
        }
        setpgid(pid, pid); /* whoever is first; so that the group can be ended at once */
        s->runners[i] = pid;
    }
    if (go[0] >= 0) close(go[0]);
    if (go[1] >= 0) close(go[1]);
    return 0;
}

int sonde_spawn_run(struct sonde_spawn *s, const struct sonde_spawn_options *o,
                    enum sonde_spawn_end *end, struct sonde_spawn_use *out, struct sonde_err *err)
{
    assert(o->copies >= 1 && o->copies <= s->slot_count);
    memset(s->slots, 0, o->copies * sizeof(*s->slots));
    const struct spawn_machine before = spawn_machine_read();
    int rc = spawn_start(s, o, err);
    if (rc) return rc;
    *end = spawn_wait(s, o->copies, o->timeout_s);
    if (*end != SONDE_SPAWN_DONE) return 0;
    struct sonde_spawn_use u;
    rc = spawn_sum(s, o, &u, err);
    if (rc) return rc;
    const struct spawn_machine after = spawn_machine_read();
    u.stolen_s = after.stolen_s - before.stolen_s;
    u.others_s = fmax(after.busy_s - before.busy_s - u.user_s - u.system_s, 0);
    *out = u;
    return 0;
}

/* ---- Finding programs ------------------------------------------------------------------------ */

static int spawn_is_program(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

int sonde_spawn_find(const char *name, char **out, struct sonde_err *err)
{
    const char *path = getenv("PATH");
    char try[4096];
    if (strchr(name, '/')) {
        struct stat st;
        const int there = stat(name, &st) == 0;
        if (!there || !spawn_is_program(name)) {
            return sonde_err_set(err, SONDE_EINVAL, "cannot run '%s': %s", name,
                                 !there ? strerror(errno) : "it is not a program, or not yours to "
                                                            "run");
        }
        *out = sonde__strdup(name);
        return *out ? 0 : sonde_err_memory(err);
    }
    for (path = path && *path ? path : "/usr/bin:/bin"; *name; path++) {
        const size_t len = strcspn(path, ":");
        const int n = len ? snprintf(try, sizeof(try), "%.*s/%s", (int)len, path, name)
                          : snprintf(try, sizeof(try), "./%s", name);
        if (n > 0 && (size_t)n < sizeof(try) && spawn_is_program(try)) {
            *out = sonde__strdup(try);
            return *out ? 0 : sonde_err_memory(err);
        }
        path += len;
        if (!*path) break;
    }
    return sonde_err_set(err, SONDE_EINVAL, "there is no program '%s' in PATH", name);
}
