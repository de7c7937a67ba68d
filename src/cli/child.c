/* child.c - a command run in front of the user as if we were not there.
 *
 * The child is forked first thing, before threads, sockets and changed signal dispositions, and
 * waits on a pipe until the agent is ready. So whatever it inherits is what we inherited, by
 * construction rather than by undoing; but for SIGXFSZ, which files that we write before that may
 * bring (`ulimit -f`), and SIGCHLD. Both stay in one process group: the terminal treats them
 * as one job.
 *
 * Signals. What the kernel sends for the terminal (Ctrl-C, Ctrl-\, Ctrl-Z, a resized window)
 * goes to the whole foreground group, so the child has it already: si_code is SI_KERNEL and it
 * is not passed on. What a process sends to us alone is. Hangup is the exception: the kernel
 * sends it to the session's leader alone, so if that is us we pass it on.
 *
 * Stopping. When the child stops for job control (SIGTSTP, SIGTTIN, SIGTTOU) we stop as well so
 * that the shell gets the terminal back; a child that ignores Ctrl-Z keeps us running too. A
 * child stopped by SIGSTOP is being looked at by somebody: we keep serving. */
#include "cli/child.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "collect/proc/tree.h"
#include "sonde/sonde.h"

static const int passed_on[] = { SIGTERM, SIGHUP,  SIGINT,  SIGQUIT, SIGUSR1, SIGUSR2,
                                 SIGWINCH, SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU };

static void watched_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGCHLD);
    for (size_t i = 0; i < SONDE_COUNT(passed_on); i++) {
        sigaddset(set, passed_on[i]);
    }
}

static int close_fd(int *fd)
{
    const int rc = *fd >= 0 ? close(*fd) : 0;
    *fd = -1;
    return rc;
}

/* In the child: what sonde_child_exec sent. 0, or an errno. */
static int take_environment(char *env, size_t size)
{
    for (char *at = env, *end = env + size; at < end; at += strlen(at) + 1) {
        char *equals = strchr(at, '=');
        if (!equals) return EINVAL;
        *equals = '\0';
        if (setenv(at, equals + 1, 1) != 0) return errno;
        at += strlen(at) + 1;
    }
    return 0;
}

static struct sigaction found_xfsz;
static int ignores_xfsz;

void sonde_child_ignore_xfsz(void)
{
    const struct sigaction ignore = { .sa_handler = SIG_IGN };
    ignores_xfsz = sigaction(SIGXFSZ, &ignore, &found_xfsz) == 0;
}

/* In the child; does not return. */
static void child_main(const struct sonde_child *c, const struct sigaction *found_chld,
                       int go_read, int exec_write, char **argv, const char *dir)
{
    sigaction(SIGCHLD, found_chld, NULL);
    if (ignores_xfsz) sigaction(SIGXFSZ, &found_xfsz, NULL);
    sigprocmask(SIG_SETMASK, &c->found_mask, NULL);
    size_t size = 0;
    char env[SONDE_CHILD_ENV_MAX];
    if (sonde_file_read_full(go_read, &size, sizeof(size)) != (ssize_t)sizeof(size) ||
        size > sizeof(env) || sonde_file_read_full(go_read, env, size) != (ssize_t)size) {
        _exit(0);
    }
    int error = take_environment(env, size);
    if (!error && dir && setenv("SONDE_DIR", dir, 1) != 0) error = errno;
    if (!error) {
        execvp(argv[0], argv);
        error = errno;
    }
    /* Whole or not at all: an int is less than PIPE_BUF. */
    while (write(exec_write, &error, sizeof(error)) < 0 && errno == EINTR) continue;
    _exit(127);
}

int sonde_child_fork(struct sonde_child *c, char **argv, const char *dir, struct sonde_err *err)
{
    assert(argv && argv[0]);
    int go[2], status[2];
    if (pipe2(go, O_CLOEXEC) != 0) {
        return sonde_err_set(err, SONDE_EIO, "cannot make a pipe: %s", strerror(errno));
    }
    if (pipe2(status, O_CLOEXEC) != 0) {
        const int e = errno;
        close(go[0]);
        close(go[1]);
        return sonde_err_set(err, SONDE_EIO, "cannot make a pipe: %s", strerror(e));
    }
    *c = (struct sonde_child){ .go_fd = go[1], .exec_fd = status[0] };

    sigset_t watched;
    watched_signals(&watched);
    sigprocmask(SIG_BLOCK, &watched, &c->found_mask);
    /* A parent that ignores SIGCHLD would make us unable to learn how the command ended. */
    struct sigaction found_chld, dfl = { .sa_handler = SIG_DFL };
    sigaction(SIGCHLD, &dfl, &found_chld);

    c->pid = fork();
    const int fork_errno = errno;
    if (c->pid == 0) {
        close(go[1]);
        close(status[0]);
        child_main(c, &found_chld, go[0], status[1], argv, dir);
    }
    close(go[0]);
    close(status[1]);
    if (c->pid > 0) {
        /* Clients that hang up, and a closed stderr, must not end us. The child is past this. */
        signal(SIGPIPE, SIG_IGN);
        return 0;
    }
    c->pid = 0;
    close_fd(&c->go_fd);
    close_fd(&c->exec_fd);
    sigprocmask(SIG_SETMASK, &c->found_mask, NULL);
    return sonde_err_set(err, SONDE_EIO, "cannot start a process: %s%s", strerror(fork_errno),
                         fork_errno == EAGAIN ? " (see `ulimit -u`)" : "");
}

static int child_reap(struct sonde_child *c)
{
    int status = 0;
    pid_t pid;
    do {
        pid = waitpid(c->pid, &status, 0);
    } while (pid < 0 && errno == EINTR);
    c->pid = 0;
    return status;
}

int sonde_child_exec(struct sonde_child *c, const char *env, size_t env_size)
{
    assert(env_size <= SONDE_CHILD_ENV_MAX);
    char go[sizeof(env_size) + SONDE_CHILD_ENV_MAX];
    memcpy(go, &env_size, sizeof(env_size));
    if (env_size) memcpy(go + sizeof(env_size), env, env_size);
    /* A pipe takes this much at once. If it fails the child is gone (killed while it waited);
     * waiting for it tells how. */
    while (write(c->go_fd, go, sizeof(env_size) + env_size) < 0 && errno == EINTR) continue;
    close_fd(&c->go_fd);
    int error = 0;
    const ssize_t n = sonde_file_read_full(c->exec_fd, &error, sizeof(error));
    close_fd(&c->exec_fd);
    if (n != (ssize_t)sizeof(error)) return 0;
    child_reap(c);
    return error;
}

void sonde_child_cancel(struct sonde_child *c)
{
    close_fd(&c->go_fd);
    close_fd(&c->exec_fd);
    if (c->pid) child_reap(c);
}

static void child_pass_on(const struct sonde_child *c, const siginfo_t *info)
{
    const int sig = info->si_signo;
    const int leader_hangup = sig == SIGHUP && getsid(0) == getpid();
    if (info->si_code == SI_KERNEL && sig != SIGCONT && !leader_hangup) return;
    if (c->pid) kill(c->pid, sig);
}

/* The child stopped for job control: so do we, until somebody continues us. */
static void stop_too(int sig)
{
    if (sig != SIGTSTP && sig != SIGTTIN && sig != SIGTTOU) return;
    sigset_t one, old;
    sigemptyset(&one);
    sigaddset(&one, sig);
    kill(getpid(), sig);
    pthread_sigmask(SIG_UNBLOCK, &one, &old); /* stops here */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* What its children used can be asked for until it is reaped; the kernel then says what all of them
 * did, and more exactly. */
static void look_at_children(struct sonde_child *c)
{
    siginfo_t info = { 0 };
    uint64_t own;
    if (c->pid && waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == c->pid) {
        sonde_proc_cpu_ns((uint32_t)c->pid, &own, &c->children_cpu_ns);
    }
}

static uint64_t timeval_ns(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_usec * 1000u;
}

/* 1 if the child has ended. Others we reap may be orphans given to us as process 1. */
static int child_changed(struct sonde_child *c, int *status)
{
    look_at_children(c);
    for (;;) {
        int s;
        struct rusage used;
        const pid_t pid = wait4(-1, &s, WNOHANG | WUNTRACED, &used);
        if (pid < 0 && errno == EINTR) continue;
        if (pid <= 0) return 0;
        if (pid != c->pid) continue;
        if (WIFSTOPPED(s)) {
            stop_too(WSTOPSIG(s));
            continue;
        }
        const uint64_t all = timeval_ns(used.ru_utime) + timeval_ns(used.ru_stime);
        c->cpu_ns = all > c->children_cpu_ns ? all - c->children_cpu_ns : 0;
        c->switches = (uint64_t)used.ru_nvcsw + (uint64_t)used.ru_nivcsw;
        c->pid = 0;
        *status = s;
        return 1;
    }
}

int sonde_child_wait(struct sonde_child *c, double seconds, int *status)
{
    sigset_t watched;
    watched_signals(&watched);
    const double until = seconds > 0 ? sonde_clock_s(CLOCK_MONOTONIC) + seconds : INFINITY;
    /* It may have ended or stopped before we came here; its SIGCHLD is pending then. */
    for (;;) {
        siginfo_t info;
        int got;
        const double now = sonde_clock_s(CLOCK_MONOTONIC);
        const double look = c->look ? c->look(c->look_arg, now) : INFINITY;
        const double left = (look < until ? look : until) - now;
        if (left < INFINITY) {
            const struct timespec t = sonde_clock_timespec_s(left > 0 ? left : 0);
            got = sigtimedwait(&watched, &info, &t);
            if (got < 0 && errno == EAGAIN && sonde_clock_s(CLOCK_MONOTONIC) >= until) return 0;
        } else {
            got = sigwaitinfo(&watched, &info);
        }
        if (got < 0) continue; /* EINTR: stopped and continued; EAGAIN: time to look */
        if (info.si_signo != SIGCHLD) child_pass_on(c, &info);
        else if (child_changed(c, status)) return 1;
    }
}

int sonde_child_stop(struct sonde_child *c, double seconds, int *status)
{
    kill(c->pid, SIGTERM);
    kill(c->pid, SIGCONT); /* one that is stopped would never learn of it */
    if (sonde_child_wait(c, seconds, status)) return 1;
    kill(c->pid, SIGKILL);
    return sonde_child_wait(c, 0, status);
}

void sonde_child_linger(double seconds)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGQUIT);
    /* Ctrl-Z is the user's again. */
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stops, NULL);

    const double until = sonde_clock_s(CLOCK_MONOTONIC) + seconds;
    for (;;) {
        const double left = until - sonde_clock_s(CLOCK_MONOTONIC);
        if (left <= 0) return;
        const struct timespec t = sonde_clock_timespec_s(left);
        if (sigtimedwait(&ends, NULL, &t) >= 0) return;
    }
}

int sonde_child_exec_status(int exec_errno)
{
    return exec_errno == ENOENT || exec_errno == ENOTDIR ? 127 : 126;
}

int sonde_child_end(int status)
{
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    const int sig = WTERMSIG(status);

    /* The command has written its core file if it was to; ours would overwrite it. */
    const struct rlimit none = { 0, 0 };
    setrlimit(RLIMIT_CORE, &none);
    signal(sig, SIG_DFL);
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, sig);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    raise(sig);
    return 128 + sig; /* process 1 of a container cannot kill itself */
}
