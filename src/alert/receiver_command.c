/* receiver_command.c - a program of the user's: the alert as JSON on its standard input, and in the
 * environment as SONDE_ALERT_…; status 0 says that it was taken.
 *
 * It is executed, never by a shell, in a process group of its own, and killed with all of it when
 * its time is over. The JSON is a file in memory rather than a pipe, so that a program that reads
 * none of it does not hold up the sender. What it prints first is what is shown when it fails. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alert/receiver.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "sonde/sonde.h"

enum { COMMAND_BODY_MAX = 1 << 16, COMMAND_ENV_MAX = 16, COMMAND_POLL_MS = 20,
       COMMAND_SHOWN = 120 };

extern char **environ;

/* ---- Environment ----------------------------------------------------------------------------- */

struct command_env {
    char **all;                  /* what is ours, then what we have ourselves */
    char *own[COMMAND_ENV_MAX];
    size_t own_count;
};

static void command_env_put(struct command_env *e, const char *name, const char *value)
{
    const size_t size = strlen(name) + strlen(value) + 2;
    char *text = e->own_count < COMMAND_ENV_MAX ? sonde__alloc(size) : NULL;
    if (!text) return;
    snprintf(text, size, "%s=%s", name, value);
    e->own[e->own_count++] = text;
}

static int command_env_make(struct command_env *e, const struct alert_notice *n,
                            const struct alert_origin *o)
{
    char text[40];
    size_t count = 0, kept = 0;
    command_env_put(e, "SONDE_ALERT_ID", n->id);
    command_env_put(e, "SONDE_ALERT_STATE", alert_notice_state(n));
    command_env_put(e, "SONDE_ALERT_KIND", n->what.kind);
    command_env_put(e, "SONDE_ALERT_SEVERITY",
                    sonde_severity_name((enum sonde_severity)n->what.severity));
    command_env_put(e, "SONDE_ALERT_SUMMARY", n->what.summary);
    snprintf(text, sizeof(text), "%.9g", n->what.value);
    command_env_put(e, "SONDE_ALERT_VALUE", isnan(n->what.value) ? "" : text);
    alert_time_text(n->started_s, text);
    command_env_put(e, "SONDE_ALERT_STARTED", text);
    command_env_put(e, "SONDE_ALERT_HOST", o->host);
    while (environ && environ[count]) count++;
    e->all = sonde__calloc(count + e->own_count + 1, sizeof(*e->all));
    if (!e->all) return SONDE_ENOMEM;
    for (size_t i = 0; i < e->own_count; i++) e->all[kept++] = e->own[i];
    for (size_t i = 0; i < count; i++) {
        /* Tokens of ours are not for others' programs. */
        const int secret = !strncmp(environ[i], "SONDE_", 6) && strstr(environ[i], "TOKEN");
        if (!secret && strncmp(environ[i], "SONDE_ALERT_", 12)) e->all[kept++] = environ[i];
    }
    return 0;
}

static void command_env_release(struct command_env *e)
{
    for (size_t i = 0; i < e->own_count; i++) sonde__free(e->own[i]);
    sonde__free(e->all);
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* A file in memory that holds the notice, read from its start. -1 = errno says why. */
static int command_input(const struct alert_notice *n, const struct alert_origin *o)
{
    struct sonde_buf body;
    sonde_buf_init(&body, COMMAND_BODY_MAX);
    alert_webhook_body(n, o, &body);
    sonde_buf_putc(&body, '\n');
    const int fd = body.error ? -1 : memfd_create("sonde-alert", MFD_CLOEXEC);
    if (fd >= 0 && (sonde_file_write_all(fd, body.data, body.len) != 0 ||
                    lseek(fd, 0, SEEK_SET) != 0)) {
        close(fd);
        sonde_buf_release(&body);
        return -1;
    }
    sonde_buf_release(&body);
    return fd;
}

/* Signals as programs expect them: ours are blocked in every thread. */
static int command_spawn(const struct alert_receiver *r, char **env, int in_fd, int out_fd,
                         pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&how);
    posix_spawn_file_actions_adddup2(&files, in_fd, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, out_fd, STDERR_FILENO);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                       POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &all);
    posix_spawnattr_setpgroup(&how, 0);
    const int rc = posix_spawn(pid, r->argv[0], &files, &how, r->argv, env);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    return rc;
}

/* ---- Waiting --------------------------------------------------------------------------------- */

struct command_output {
    char text[COMMAND_SHOWN + 1]; /* its first bytes; the rest is read and forgotten */
    size_t len;
    int fd;
};

static void command_output_read(struct command_output *out)
{
    char data[4096];
    for (int rounds = 0; rounds < 64; rounds++) {
        const ssize_t n = read(out->fd, data, sizeof(data));
        if (n <= 0) return;
        const size_t room = COMMAND_SHOWN - out->len;
        const size_t kept = (size_t)n < room ? (size_t)n : room;
        memcpy(out->text + out->len, data, kept);
        out->len += kept;
    }
}

/* 0 and its status, or ETIMEDOUT: it was killed. */
static int command_wait(pid_t pid, struct command_output *out, const struct alert_try *t,
                        int *status)
{
    const double end = sonde_clock_s(CLOCK_MONOTONIC) + t->timeout_s;
    for (;;) {
        struct pollfd p = { .fd = out->fd, .events = POLLIN };
        poll(&p, 1, COMMAND_POLL_MS);
        command_output_read(out);
        const pid_t got = waitpid(pid, status, WNOHANG);
        if (got == pid) break;
        if (got < 0 && errno != EINTR) return errno; /* somebody else reaped it */
        /* A program that has closed its output is waited for all the same. */
        if (p.revents & POLLHUP) usleep(COMMAND_POLL_MS * 1000);
        if (sonde_clock_s(CLOCK_MONOTONIC) < end && !(t->stop && t->stop(t->arg))) continue;
        kill(-pid, SIGKILL);
        kill(pid, SIGKILL);
        while (waitpid(pid, status, 0) < 0 && errno == EINTR) {
        }
        return ETIMEDOUT;
    }
    command_output_read(out);
    return 0;
}

static void command_describe(const struct alert_receiver *r, int rc, int status,
                             const struct command_output *out, struct alert_try *t)
{
    char said[COMMAND_SHOWN + 4] = "";
    const size_t line = strcspn(out->text, "\r\n");
    if (line) {
        snprintf(said, sizeof(said), ": %.*s", (int)(line < COMMAND_SHOWN - 4 ? line
                                                                   : COMMAND_SHOWN - 4), out->text);
        for (char *c = said; *c; c++) {
            if ((unsigned char)*c < ' ' || (unsigned char)*c > '~') *c = '?';
        }
    }
    if (rc == ETIMEDOUT) {
        snprintf(t->text, sizeof(t->text), "%s took longer than %g s and was killed%s",
                 r->argv[0], t->timeout_s, said);
    } else if (WIFSIGNALED(status)) {
        snprintf(t->text, sizeof(t->text), "%s was ended by signal %d%s", r->argv[0],
                 WTERMSIG(status), said);
    } else {
        snprintf(t->text, sizeof(t->text), "%s exited with %d%s", r->argv[0], WEXITSTATUS(status),
                 said);
    }
}

static enum alert_result command_run(const struct alert_receiver *r, char **env, int in_fd,
                                     struct alert_try *t)
{
    struct command_output out = { .len = 0 };
    int ends[2], status = 0;
    pid_t pid = 0;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        snprintf(t->text, sizeof(t->text), "%s", strerror(errno));
        return ALERT_RESULT_RETRY;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    out.fd = ends[0];
    int rc = command_spawn(r, env, in_fd, ends[1], &pid);
    close(ends[1]);
    if (rc) snprintf(t->text, sizeof(t->text), "cannot start %s: %s", r->argv[0], strerror(rc));
    if (!rc) {
        rc = command_wait(pid, &out, t, &status);
        command_describe(r, rc, status, &out, t);
    }
    close(ends[0]);
    return !rc && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? ALERT_RESULT_SENT
                                                                : ALERT_RESULT_RETRY;
}

static enum alert_result command_send(const struct alert_receiver *r, const struct alert_notice *n,
                                      const struct alert_origin *o, struct alert_try *t)
{
    struct command_env env = { .own_count = 0 };
    const int in_fd = command_input(n, o);
    enum alert_result result = ALERT_RESULT_RETRY;
    if (in_fd < 0 || command_env_make(&env, n, o) != 0) {
        snprintf(t->text, sizeof(t->text), "out of memory");
    } else {
        result = command_run(r, env.all, in_fd, t);
    }
    if (in_fd >= 0) close(in_fd);
    command_env_release(&env);
    return result;
}

extern const struct alert_receiver_ops alert_receiver_command;
const struct alert_receiver_ops alert_receiver_command = { .name = "command", .path = "",
                                                           .send = command_send };
