/* process.c - see process.h. */
#include "bench/tune/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/visible.h"
#include "bench/tune/cpus.h"
#include "sonde/sonde.h"

#define LOOK_NS 10000000u

static void process_sleep(void)
{
    const struct timespec t = { .tv_nsec = LOOK_NS };
    nanosleep(&t, NULL);
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void *process_reader(void *arg)
{
    struct sonde_tune_process *p = arg;
    for (;;) {
        /* Somebody who left the group may hold the pipe open: what is there when the group has
         * ended is all. */
        const int ended = __atomic_load_n(&p->ended, __ATOMIC_ACQUIRE);
        struct pollfd fd = { .fd = p->out_fd, .events = POLLIN };
        const int ready = poll(&fd, 1, 50);
        if (ready == 0 && ended) return NULL;
        if (ready <= 0) continue;
        const size_t at = p->output_len % SONDE_TUNE_OUTPUT_KEPT;
        const ssize_t n = read(p->out_fd, p->output + at, SONDE_TUNE_OUTPUT_KEPT - at);
        if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (n <= 0) return NULL;
        p->output_len += (uint64_t)n;
    }
}

size_t sonde_tune_process_output(const struct sonde_tune_process *p, char *out, size_t size)
{
    size_t n = p->output_len < SONDE_TUNE_OUTPUT_KEPT ? (size_t)p->output_len
                                                      : SONDE_TUNE_OUTPUT_KEPT;
    if (n > size - 1) n = size - 1;
    for (size_t i = 0; i < n; i++) {
        out[i] = p->output[(p->output_len - n + i) % SONDE_TUNE_OUTPUT_KEPT];
    }
    out[n] = 0;
    return n;
}

void sonde_tune_process_last_words(const struct sonde_tune_process *p, char *out, size_t size)
{
    char text[2048];
    size_t n = p->output ? sonde_tune_process_output(p, text, sizeof(text)) : 0;
    while (n && strchr(" \r\n\t", text[n - 1])) n--;
    text[n] = 0;
    /* Two lines: the last one is often no more than "exiting". */
    size_t from = n;
    for (int lines = 0; from > 0 && lines < 2; from--) lines += text[from - 1] == '\n' && from < n;
    if (from && from < n) from++;
    for (size_t i = from; i < n; i++) {
        if (text[i] == '\n' || text[i] == '\r') text[i] = ';';
    }
    sonde_visible(text, n);
    snprintf(out, size, "%s", text + from);
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* In the child; does not return. Only what may be called after fork() in a program with threads. */
static void process_child(char *const *argv, const cpu_set_t *pinned, int out, int null, int status,
                          pid_t parent)
{
    sigset_t none;
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD };
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) signal(signals[i], SIG_DFL);
    int failed = getppid() != parent ? ESRCH : 0;
    if (!failed && pinned && sched_setaffinity(0, sizeof(*pinned), pinned)) failed = errno;
    if (!failed && (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)) failed = errno;
    if (!failed) {
        execvp(argv[0], argv);
        failed = errno;
    }
    while (write(status, &failed, sizeof(failed)) < 0 && errno == EINTR) continue;
    _exit(127);
}

static void process_close_fds(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (fds[i] >= 0) close(fds[i]);
    }
}

static int process_fork(struct sonde_tune_process *p, char *const *argv, const cpu_set_t *pinned,
                        struct sonde_err *err)
{
    int fds[5] = { -1, -1, -1, -1, -1 }; /* output r w, status r w, null */
    const pid_t parent = getpid();
    fds[4] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fds[4] < 0 || pipe2(fds, O_CLOEXEC) || pipe2(fds + 2, O_CLOEXEC) ||
        (p->pid = fork()) < 0) {
        const int e = errno;
        p->pid = 0;
        process_close_fds(fds, 5);
        return sonde_err_set(err, SONDE_EIO, "cannot start %s: %s", argv[0], strerror(e));
    }
    if (p->pid == 0) process_child(argv, pinned, fds[1], fds[4], fds[3], parent);
    setpgid(p->pid, p->pid); /* both sides: whoever is first */
    process_close_fds(fds + 3, 2);
    close(fds[1]);
    int failed = 0;
    const ssize_t n = sonde_file_read_full(fds[2], &failed, sizeof(failed));
    close(fds[2]);
    p->out_fd = fds[0];
    if (n != (ssize_t)sizeof(failed)) return 0;
    waitpid(p->pid, NULL, 0);
    p->pid = 0;
    close(p->out_fd);
    p->out_fd = -1;
    return sonde_err_set(err, SONDE_EINVAL, "cannot run %s: %s%s", argv[0], strerror(failed),
                         failed == EINVAL && pinned ? " (CPUs to pin to that are not there?)" : "");
}

int sonde_tune_process_start(struct sonde_tune_process *p, char *const *argv, const char *cpus,
                             struct sonde_err *err)
{
    cpu_set_t pinned;
    memset(p, 0, sizeof(*p));
    p->out_fd = -1;
    if (cpus[0] && sonde_tune_cpus_parse(cpus, &pinned)) {
        return sonde_err_set(err, SONDE_EINVAL, "pin=%s: this is not a list of CPUs, for example "
                             "0-3+8", cpus);
    }
    p->output = sonde__calloc(1, SONDE_TUNE_OUTPUT_KEPT);
    if (!p->output) return sonde_err_memory(err);
    int rc = process_fork(p, argv, cpus[0] ? &pinned : NULL, err);
    if (!rc) rc = sonde_thread_start(&p->reader, "sonde-tune", process_reader, p, err);
    if (rc) sonde_tune_process_release(p);
    return rc;
}

/* ---- Looking and ending ---------------------------------------------------------------------- */

int sonde_tune_process_ended(struct sonde_tune_process *p)
{
    if (!p->pid) return 1;
    pid_t got;
    do {
        got = wait4(p->pid, &p->status, WNOHANG, &p->used);
    } while (got < 0 && errno == EINTR);
    if (got == 0) return 0;
    kill(-p->pid, SIGKILL); /* what it left behind in its group */
    p->pid = 0;
    return 1;
}

void sonde_tune_process_stop(struct sonde_tune_process *p, double grace_s)
{
    if (p->pid) {
        const double until = sonde_clock_s(CLOCK_MONOTONIC) + grace_s;
        kill(-p->pid, SIGTERM);
        while (!sonde_tune_process_ended(p)) {
            if (sonde_clock_s(CLOCK_MONOTONIC) >= until) kill(-p->pid, SIGKILL);
            process_sleep();
        }
    }
    __atomic_store_n(&p->ended, 1, __ATOMIC_RELEASE);
    sonde_thread_join(&p->reader);
}

void sonde_tune_process_release(struct sonde_tune_process *p)
{
    if (p->pid || p->output) sonde_tune_process_stop(p, 0);
    if (p->output && p->out_fd >= 0) close(p->out_fd);
    sonde__free(p->output);
    memset(p, 0, sizeof(*p));
}

/* The group of a process, by /proc/PID/stat: behind its name, which may hold anything. */
static long process_group(const char *pid)
{
    char path[64], text[1024];
    long parent = 0, group = 0;
    char state;
    snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
    if (sonde_file_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0) return -1;
    const char *at = strrchr(text, ')');
    return at && sscanf(at + 1, " %c %ld %ld", &state, &parent, &group) == 3 ? group : -1;
}

/* "VmHWM:   123 kB" of a file of /proc, in bytes. */
static uint64_t process_kilobytes(const char *pid, const char *file, const char *name)
{
    char path[64], text[8192];
    snprintf(path, sizeof(path), "/proc/%.20s/%s", pid, file);
    if (sonde_file_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0) return 0;
    const char *at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) * 1024 : 0;
}

void sonde_tune_process_memory(const struct sonde_tune_process *p, uint64_t *rss, uint64_t *pss)
{
    *rss = *pss = 0;
    DIR *dir = p->pid ? opendir("/proc") : NULL;
    const struct dirent *e;
    while (dir && (e = readdir(dir))) {
        if (e->d_name[0] < '0' || e->d_name[0] > '9') continue;
        if (process_group(e->d_name) != (long)p->pid) continue;
        *rss += process_kilobytes(e->d_name, "status", "\nVmHWM:");
        *pss += process_kilobytes(e->d_name, "smaps_rollup", "\nPss:");
    }
    if (dir) closedir(dir);
}
