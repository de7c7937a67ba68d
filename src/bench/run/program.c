/* program.c - see program.h. */
#include "bench/run/program.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json_read.h"
#include "sonde/sonde.h"

extern char **environ;

/* Where the program finds its two descriptors. */
enum { PROGRAM_IN = 3, PROGRAM_OUT = 4, PROGRAM_ABOVE = 10 };
#define PROGRAM_END_S 2.0

int sonde_program_signals(sigset_t *found, struct sonde_err *err)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigaddset(&ends, SIGQUIT);
    pthread_sigmask(SIG_BLOCK, &ends, found);
    signal(SIGPIPE, SIG_IGN); /* a program that has ended is an error of write(2) */
    const int fd = signalfd(-1, &ends, SFD_CLOEXEC);
    if (fd < 0) sonde_err_set(err, SONDE_EIO, "signalfd: %s", strerror(errno));
    return fd;
}

/* ---- Start and end --------------------------------------------------------------------------- */

/* A pipe whose ends are not among the descriptors that the program has. */
static int program_pipe(int fds[2])
{
    int low[2];
    if (pipe2(low, O_CLOEXEC)) return -1;
    fds[0] = fcntl(low[0], F_DUPFD_CLOEXEC, PROGRAM_ABOVE);
    fds[1] = fcntl(low[1], F_DUPFD_CLOEXEC, PROGRAM_ABOVE);
    close(low[0]);
    close(low[1]);
    if (fds[0] >= 0 && fds[1] >= 0) return 0;
    if (fds[0] >= 0) close(fds[0]);
    if (fds[1] >= 0) close(fds[1]);
    return -1;
}

static int program_spawn(struct sonde_program *p, const int in[2], const int out[2],
                         const sigset_t *found, int show_output)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t defaults;
    char *argv[] = { (char *)(uintptr_t)p->path, (char[]){ "--serve" }, (char[]){ "3" },
                     (char[]){ "4" }, NULL };
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!show_output) {
        posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    }
    posix_spawn_file_actions_adddup2(&files, in[0], PROGRAM_IN);
    posix_spawn_file_actions_adddup2(&files, out[1], PROGRAM_OUT);
    posix_spawnattr_setsigmask(&attr, found);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                        POSIX_SPAWN_SETPGROUP);
    const int error = posix_spawn(&p->pid, p->path, &files, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attr);
    return error;
}

int sonde_program_start(struct sonde_program *p, const char *path, const sigset_t *found,
                        int signal_fd, double timeout_s, int show_output, struct sonde_err *err)
{
    int in[2], out[2];
    memset(p, 0, sizeof(*p));
    p->path = path;
    p->signal_fd = signal_fd;
    p->timeout_s = timeout_s;
    if (program_pipe(in)) {
        return sonde_err_set(err, SONDE_EIO, "cannot make a pipe: %s", strerror(errno));
    }
    if (program_pipe(out)) {
        close(in[0]);
        close(in[1]);
        return sonde_err_set(err, SONDE_EIO, "cannot make a pipe: %s", strerror(errno));
    }
    const int error = program_spawn(p, in, out, found, show_output);
    close(in[0]);
    close(out[1]);
    if (error) {
        close(in[1]);
        close(out[0]);
        p->pid = 0;
        return sonde_err_set(err, SONDE_EINVAL, "cannot run '%s': %s", path, strerror(error));
    }
    p->to_fd = in[1];
    p->from_fd = out[0];
    return 0;
}

/* 1, and its status, if it ends within seconds. */
static int program_reap(struct sonde_program *p, double seconds, int *status)
{
    const double until = sonde_clock_s(CLOCK_MONOTONIC) + seconds;
    for (;;) {
        const pid_t pid = waitpid(p->pid, status, WNOHANG);
        if (pid == p->pid || (pid < 0 && errno != EINTR)) {
            p->pid = 0;
            return 1;
        }
        if (sonde_clock_s(CLOCK_MONOTONIC) >= until) return 0;
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
}

void sonde_program_stop(struct sonde_program *p)
{
    int status;
    if (p->to_fd > 0) close(p->to_fd); /* nothing more to read: it ends */
    if (p->from_fd > 0) close(p->from_fd);
    p->to_fd = p->from_fd = 0;
    if (!p->pid || program_reap(p, p->broken ? 0 : PROGRAM_END_S, &status)) return;
    kill(-p->pid, SIGKILL);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) continue;
    p->pid = 0;
}

/* It closed its end: how it ended, for a sentence. */
static void program_ended(struct sonde_program *p, char *out, size_t size)
{
    int status = 0;
    snprintf(out, size, "closed the connection");
    if (!program_reap(p, PROGRAM_END_S, &status)) return;
    if (WIFSIGNALED(status)) {
        snprintf(out, size, "was ended by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(out, size, "ended with exit status %d", WEXITSTATUS(status));
    }
}

/* ---- Lines ----------------------------------------------------------------------------------- */

enum program_got { PROGRAM_LINE, PROGRAM_SIGNAL, PROGRAM_TIMEOUT, PROGRAM_ENDED, PROGRAM_LONG };

/* The next line, without its end; it is valid until the next. */
static enum program_got program_line(struct sonde_program *p, const char **line, size_t *len)
{
    const double until = sonde_clock_s(CLOCK_MONOTONIC) + p->timeout_s;
    memmove(p->line, p->line + p->used, p->len - p->used);
    p->len -= p->used;
    p->used = 0;
    for (;;) {
        const char *end = memchr(p->line, '\n', p->len);
        if (end) {
            *line = p->line;
            *len = (size_t)(end - p->line);
            p->used = *len + 1;
            return PROGRAM_LINE;
        }
        if (p->len == sizeof(p->line)) return PROGRAM_LONG;
        const double left = until - sonde_clock_s(CLOCK_MONOTONIC);
        if (left <= 0) return PROGRAM_TIMEOUT;
        struct pollfd fds[2] = { { .fd = p->from_fd, .events = POLLIN },
                                 { .fd = p->signal_fd, .events = POLLIN } };
        const int wait_ms = left < 1000 ? (int)ceil(left * 1e3) : 1000000;
        if (poll(fds, 2, wait_ms) < 0 && errno != EINTR) return PROGRAM_ENDED;
        if (fds[1].revents & POLLIN) return PROGRAM_SIGNAL;
        if (!fds[0].revents) continue;
        const ssize_t n = read(p->from_fd, p->line + p->len, sizeof(p->line) - p->len);
        if (n == 0 || (n < 0 && errno != EINTR)) return PROGRAM_ENDED;
        if (n > 0) p->len += (size_t)n;
    }
}

/* doing: for the sentence. */
static int program_ask(struct sonde_program *p, const char *doing, const char **line, size_t *len,
                       struct sonde_err *err)
{
    char how[96];
    const enum program_got got = program_line(p, line, len);
    p->broken |= got != PROGRAM_LINE;
    switch (got) {
    case PROGRAM_LINE: return 0;
    case PROGRAM_SIGNAL: return 1;
    case PROGRAM_TIMEOUT:
        return sonde_err_set(err, SONDE_EIO, "'%s' has not answered for %g s while %s; --timeout "
                             "gives it more", p->path, p->timeout_s, doing);
    case PROGRAM_LONG:
        return sonde_err_set(err, SONDE_EFORMAT, "'%s' answers a line of more than %u bytes while "
                             "%s", p->path, SONDE_PROGRAM_LINE_MAX, doing);
    case PROGRAM_ENDED: break;
    }
    program_ended(p, how, sizeof(how));
    return sonde_err_set(err, SONDE_EIO, "'%s' %s while %s", p->path, how, doing);
}

/* A string member into out; what is too long is no name of ours. */
static void program_json_text(struct sonde_json_reader *r, struct sonde_buf *b, char *out,
                              size_t size)
{
    struct sonde_json_text text;
    if (!sonde_json_string(r, b, &text)) return;
    if (text.len >= size) {
        sonde_json_fail(r, "a text is too long");
        return;
    }
    memcpy(out, text.s, text.len);
    out[text.len] = '\0';
}

int sonde_program_parse_case(const char *line, size_t len, struct sonde_program_case *out)
{
    struct sonde_json_reader r;
    struct sonde_json_text key;
    struct sonde_buf b;
    uint64_t threads = 0;
    memset(out, 0, sizeof(*out));
    sonde_buf_init(&b, SONDE_PROGRAM_LINE_MAX + 1);
    sonde_json_reader_init(&r, line, len);
    if (sonde_json_enter(&r, '{')) {
        while (sonde_json_member(&r, &key)) {
            if (sonde_json_text_is(key, "case")) {
                program_json_text(&r, &b, out->name, sizeof(out->name));
            } else if (sonde_json_text_is(key, "threads")) {
                sonde_json_number_u64(&r, &threads);
            } else {
                sonde_json_skip(&r);
            }
        }
    }
    const int good = !r.error && sonde_json_at_end(&r) && out->name[0] && threads >= 1 &&
                     threads <= 65536;
    sonde_buf_release(&b);
    if (!good) return SONDE_EFORMAT;
    out->threads = (uint32_t)threads;
    const char *at = strstr(out->name, "/threads:");
    snprintf(out->group, sizeof(out->group), "%.*s",
             (int)(at ? (size_t)(at - out->name) : strlen(out->name)), out->name);
    return 0;
}

int sonde_program_parse_sample(const char *line, size_t len, struct sonde_program_sample *out)
{
    struct sonde_program_sample s = { .iterations = 0 };
    const struct { const char *key; uint64_t *to; } members[] = {
        { "iterations", &s.iterations }, { "real_ns", &s.real_ns }, { "cpu_ns", &s.cpu_ns },
        { "bytes", &s.bytes }, { "items", &s.items },
    };
    struct sonde_json_reader r;
    struct sonde_json_text key;
    struct sonde_buf b;
    sonde_buf_init(&b, SONDE_PROGRAM_LINE_MAX + 1);
    sonde_json_reader_init(&r, line, len);
    if (sonde_json_enter(&r, '{')) {
        while (sonde_json_member(&r, &key)) {
            size_t i = 0;
            while (i < SONDE_COUNT(members) && !sonde_json_text_is(key, members[i].key)) i++;
            if (i < SONDE_COUNT(members)) sonde_json_number_u64(&r, members[i].to);
            else if (!sonde_json_text_is(key, "error")) sonde_json_skip(&r);
            else program_json_text(&r, &b, s.failed, sizeof(s.failed));
        }
    }
    const int good = !r.error && sonde_json_at_end(&r) && (s.iterations || s.failed[0]);
    sonde_buf_release(&b);
    if (!good) return SONDE_EFORMAT;
    *out = s;
    return 0;
}

/* ---- Questions ------------------------------------------------------------------------------- */

int sonde_program_list(struct sonde_program *p, struct sonde_program_case **cases, size_t *count,
                       struct sonde_err *err)
{
    size_t cap = 0;
    *cases = NULL;
    *count = 0;
    int rc = 0;
    /* If it has ended already, the answer says so. */
    if (sonde_file_write_all(p->to_fd, "list\n", 5)) rc = 0;
    for (;;) {
        const char *line;
        size_t len;
        struct sonde_program_case c;
        rc = program_ask(p, "listing its benchmarks", &line, &len, err);
        if (rc == 1) return rc;
        if (rc) break;
        if (len >= 11 && !memcmp(line, "{\"end\":true", 11)) return 0;
        if (sonde_program_parse_case(line, len, &c)) {
            rc = sonde_err_set(err, SONDE_EFORMAT, "'%s' answers what is not a benchmark", p->path);
            break;
        }
        if (SONDE_ARRAY_ROOM_MAX(*cases, *count, cap, SONDE_PROGRAM_CASES_MAX)) {
            p->broken = 1;
            return sonde_err_set(err, SONDE_EFULL, "'%s' has more than %u benchmarks", p->path,
                                 SONDE_PROGRAM_CASES_MAX);
        }
        c.index = (uint32_t)*count;
        (*cases)[(*count)++] = c;
    }
    char what[256];
    p->broken = 1;
    snprintf(what, sizeof(what), "%.250s", err ? err->text : "");
    return sonde_err_set(err, SONDE_EINVAL, "%s; is it a program with SONDE_BENCH_MAIN() of "
                         "sonde/bench.h?", what);
}

int sonde_program_run(struct sonde_program *p, const struct sonde_program_case *c,
                      uint64_t iterations, struct sonde_program_sample *out, struct sonde_err *err)
{
    char ask[64], doing[SONDE_PROGRAM_CASE_MAX + 32];
    const char *line;
    size_t len;
    const int n = snprintf(ask, sizeof(ask), "run %u %llu\n", c->index,
                           (unsigned long long)iterations);
    snprintf(doing, sizeof(doing), "running %s", c->name);
    sonde_file_write_all(p->to_fd, ask, (size_t)n);
    int rc = program_ask(p, doing, &line, &len, err);
    if (rc) return rc;
    if (sonde_program_parse_sample(line, len, out)) {
        p->broken = 1;
        return sonde_err_set(err, SONDE_EFORMAT, "%s: the program answers what is not a sample",
                             c->name);
    }
    if (!out->failed[0] && out->iterations != iterations) {
        p->broken = 1;
        return sonde_err_set(err, SONDE_EFORMAT, "%s: asked for %llu iterations, it made %llu",
                             c->name, (unsigned long long)iterations,
                             (unsigned long long)out->iterations);
    }
    return 0;
}
