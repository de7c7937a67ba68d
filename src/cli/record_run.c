/* record_run.c - a command run once under `sonde record`, for those that need several runs of it.
 *
 * It is this program that is started, with the recording as a file in between, and not a watch in
 * this process: a watch ends as its command does, signals and all, and starts threads that a second
 * fork would have to do without. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/strip.h"
#include "cli/baseline.h"
#include "cli/heap.h"
#include "cli/watch.h"
#include "store/run/run.h"

enum { RECORD_RUN_OPTIONS = 20 };

struct record_run_args {
    char **argv;
    char duration[32], rate[32], heap[32];
};

static int record_run_args_make(const struct sonde_cli *cli, char **command, const char *file,
                                const struct sonde_cli_recording *how, struct record_run_args *a)
{
    size_t count = 0, n = 0;
    while (command[count]) count++;
    a->argv = sonde__calloc(count + RECORD_RUN_OPTIONS, sizeof(*a->argv));
    if (!a->argv) return -1;
    snprintf(a->duration, sizeof(a->duration), "%g", how->duration_s);
    snprintf(a->rate, sizeof(a->rate), "%g", how->rate_hz);
    snprintf(a->heap, sizeof(a->heap), "--heap%s%s", how->heap && *how->heap ? "=" : "",
             how->heap ? how->heap : "");
#define ADD(text) a->argv[n++] = (char *)(uintptr_t)(text)
    ADD("sonde");
    ADD("record");
    ADD("-q");
    ADD("-o");
    ADD(file);
    if (cli->config_path) {
        ADD("--config");
        ADD(cli->config_path);
    }
    if (how->duration_s > 0) {
        ADD("-d");
        ADD(a->duration);
        ADD("--stop");
    }
    if (how->rate_hz > 0) {
        ADD("-F");
        ADD(a->rate);
    }
    if (how->heap) ADD(a->heap);
    if (how->off_cpu) ADD("--off-cpu");
    if (sonde_strip_on()) ADD("--strip");
    ADD("--");
    for (size_t i = 0; i < count; i++) ADD(command[i]);
#undef ADD
    return 0;
}

/* The standard output is for the report: what the command says goes where progress goes. */
static int record_run_start(char **argv, pid_t *out)
{
    const pid_t pid = fork();
    if (pid < 0) return -1;
    if (pid == 0) {
        if (dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) execv("/proc/self/exe", argv);
        _exit(127);
    }
    *out = pid;
    return 0;
}

static int record_run_wait(const struct sonde_cli *cli, const char *command, int stopped, pid_t pid)
{
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) return sonde_cli_fail(cli, "waiting for %s: %s", command,
                                                  strerror(errno));
    }
    if (WIFSIGNALED(status) && !(stopped && WTERMSIG(status) == SIGTERM)) {
        return sonde_cli_fail(cli, "%s ended by signal %d: a run that fails is not compared",
                              command, WTERMSIG(status));
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) && !stopped) {
        return sonde_cli_fail(cli, "%s ended with exit status %d: a run that fails is not compared",
                              command, WEXITSTATUS(status));
    }
    return SONDE_EXIT_OK;
}

int sonde_cli_record_run(struct sonde_cli *cli, char **argv, const struct sonde_cli_recording *how,
                         struct sonde_profile **out)
{
    /* What is wrong is said before anything is run. */
    const struct sonde_cli_heap heap = { .mode = how->heap };
    struct sonde_watch_options unused = { 0 };
    int status = sonde_cli_heap(cli, &heap, SONDE_WATCH_NO, &unused);
    if (status) return status;
    const char *tmp = getenv("TMPDIR");
    char dir[512], file[600];
    struct record_run_args a;
    struct sonde_err err = { "" };
    pid_t pid = 0;
    if (snprintf(dir, sizeof(dir), "%s/sonde-run-XXXXXX", tmp && *tmp ? tmp : "/tmp") >=
            (int)sizeof(dir) || !mkdtemp(dir)) {
        return sonde_cli_fail(cli, "no folder for a recording in '%s': %s",
                              tmp && *tmp ? tmp : "/tmp", strerror(errno));
    }
    snprintf(file, sizeof(file), "%s/one.run", dir);
    if (record_run_args_make(cli, argv, file, how, &a)) {
        status = sonde_cli_fail(cli, "out of memory");
    } else {
        fflush(stdout);
        if (record_run_start(a.argv, &pid)) {
            status = sonde_cli_fail(cli, "cannot start `sonde record`: %s", strerror(errno));
        }
        if (!status) status = record_run_wait(cli, argv[0], how->duration_s > 0, pid);
        if (!status && sonde_run_load(file, out, &err)) {
            status = sonde_cli_fail(cli, "%s", err.text);
        }
        sonde__free(a.argv);
    }
    unlink(file);
    rmdir(dir);
    return status;
}
