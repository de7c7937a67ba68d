/* child.c - fork, limits, a pipe. The copy has all that the caller has in memory, so the
 * work needs no message to begin; and all that libdw allocates goes back with it.
 *
 * fork() in a process with threads: the copy has one thread, and may use malloc (glibc takes its
 * locks around fork) but no lock of ours, so no log. */
#include "profile/symbol/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "sonde/sonde.h"

/* Bytes of private memory this process has (the sixth number of statm, in pages). Relative to it,
 * since a sanitizer's shadow counts too. */
static rlim_t data_now(void)
{
    unsigned long long pages = 0;
    char text[128];
    sonde_file_read_small(AT_FDCWD, "/proc/self/statm", text, sizeof(text));
    if (sscanf(text, "%*u %*u %*u %*u %*u %llu", &pages) != 1) pages = 0;
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void symbol_child_lower(enum __rlimit_resource what, rlim_t to)
{
    struct rlimit r;
    if (getrlimit(what, &r) != 0) return;
    if (r.rlim_cur > to) r.rlim_cur = to;
    setrlimit(what, &r);
}

void sonde_symbol_child_cpu_limit(unsigned seconds)
{
    struct rusage used;
    struct rlimit r;
    if (getrusage(RUSAGE_SELF, &used) != 0 || getrlimit(RLIMIT_CPU, &r) != 0) return;
    r.rlim_cur = (rlim_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + seconds;
    if (r.rlim_cur > r.rlim_max) r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_CPU, &r);
}

static _Noreturn void be_child(const struct sonde_symbol_child_limits *limits, pid_t parent,
                               void (*work)(void *, int), void *arg, int fd)
{
    sigset_t xcpu;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    /* All signals are blocked, so no handler of the agent runs here; a crash still kills. */
    signal(SIGXCPU, SIG_DFL);
    sigemptyset(&xcpu);
    sigaddset(&xcpu, SIGXCPU);
    sigprocmask(SIG_UNBLOCK, &xcpu, NULL);
    /* Sockets and locks of the agent are not ours to hold. */
    if (fd != 3) dup2(fd, 3);
    close_range(4, ~0u, 0);
    symbol_child_lower(RLIMIT_CORE, 0);
    symbol_child_lower(RLIMIT_DATA, data_now() + limits->data_bytes);
    work(arg, 3);
    _exit(0);
}

/* Everything until the end of the pipe. Not 0 = the child must be killed. */
static int read_pipe(const struct sonde_symbol_child_limits *limits, int fd,
                     int (*take)(void *, const void *, size_t), void *arg, int *rc)
{
    char buf[1u << 16];
    for (;;) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        const int ready = poll(&p, 1, limits->silence_ms);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) return 1;
        const ssize_t n = read(fd, buf, sizeof(buf));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0;
        *rc = take(arg, buf, (size_t)n);
        if (*rc) return 1;
    }
}

int sonde_symbol_child_run(const struct sonde_symbol_child_limits *limits,
                           void (*work)(void *arg, int fd),
                           int (*take)(void *arg, const void *data, size_t len), void *arg)
{
    sigset_t all, before;
    int ends[2], rc = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) return SONDE_EIO;
    const pid_t self = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const pid_t pid = fork();
    if (pid == 0) be_child(limits, self, work, arg, ends[1]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return SONDE_EIO;
    }
    /* Whoever waits for any child may reap it before we do, and its pid may be another's then. */
    const int child = pidfd_open(pid, 0);
    if (read_pipe(limits, ends[0], take, arg, &rc)) pidfd_send_signal(child, SIGKILL, NULL, 0);
    close(ends[0]);
    if (child >= 0) close(child);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return rc;
}
