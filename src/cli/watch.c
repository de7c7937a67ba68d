/* watch.c - see watch.h.
 *
 * The command is forked first and waits (child.h). Then the agent is opened (agent/agent.h, which
 * has the order of its parts) and the server made ready; only then the command is executed, so
 * nothing of it is missed. What is here is what settings and flags mean for the agent, signals, the
 * child, and what is reported of it. */
#include "cli/watch.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/path.h"
#include "cli/agent_options.h"
#include "cli/watch_private.h"
#include "collect/discover.h"
#include "collect/preload_targets.h"
#include "collect/proc/tree.h"
#include "sonde/sonde.h"
#include "store/run/run.h"

enum { PORT_TRIES = 20 };
#define STOP_GRACE_S 10 /* to end in, for a command that is asked to */

double watch_clock_s(void)
{
    return sonde_clock_s(CLOCK_MONOTONIC);
}

void sonde_watch_file(char *out, size_t out_size, const char *name)
{
    const time_t now = time(NULL);
    struct tm tm;
    char when[32] = "";
    if (localtime_r(&now, &tm)) strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    snprintf(out, out_size, "sonde-%.100s-%s.run", sonde_path_base(name), when);
}

/* Not only a summary. */
static int wants_profile(const struct watch *s) { return s->o->record || s->o->on_profile; }

/* ---- Starting -------------------------------------------------------------------------------- */

/* What forbids a part that must be there ends the watch before it begins, as does a mistake of the
 * user's; anything else is reported, and the rest goes on. */
static int watch_on_missing(enum sonde_agent_part part, int rc, const struct sonde_err *err,
                            void *arg)
{
    struct watch *s = arg;
    const char *what = NULL;
    switch (part) {
    case SONDE_AGENT_COLLECTOR:
        if (sonde_cli_was_set(s->cli, "agent.dir")) {
            s->missing_status = sonde_cli_usage(s->cli, "%s", err->text);
            return 1;
        }
        what = "nothing is collected";
        break;
    case SONDE_AGENT_OTLP: what = "OTLP input is disabled"; break;
    case SONDE_AGENT_CPU:
        if (s->o->cpu != SONDE_WATCH_MUST) what = "the CPU is not sampled";
        break;
    case SONDE_AGENT_HEAP:
        if (s->o->heap == SONDE_WATCH_MUST) break;
        if (s->o->argv) {
            what = "the heap is not profiled";
            break;
        }
        /* A process that runs has it only if it was started so; its resident memory is seen. */
        s->from_outside = 1;
        sonde_rss_watch_start(&s->outside, s->pid, watch_clock_s());
        return 0;
    case SONDE_AGENT_GPU: what = "what it has GPUs do is not recorded"; break;
    case SONDE_AGENT_PROBES: what = "what llama.cpp does is not seen"; break;
    case SONDE_AGENT_CONTINUOUS:
        if (rc != SONDE_EOFF && rc != SONDE_EINVAL) what = "continuous profiling is disabled";
        break;
    case SONDE_AGENT_SCRAPE: what = "nothing is scraped"; break;
    case SONDE_AGENT_SENDING: what = "push is disabled"; break;
    case SONDE_AGENT_TELLING: what = "alerts are not sent"; break;
    case SONDE_AGENT_READING: what = "readings are taken at the end only"; break;
    case SONDE_AGENT_STORE:
    case SONDE_AGENT_TEMPORARY:
    case SONDE_AGENT_PUSH:
    case SONDE_AGENT_ALERTS:
    case SONDE_AGENT_MARKS:
    case SONDE_AGENT_REGRESSIONS:
    case SONDE_AGENT_SESSIONS:
    case SONDE_AGENT_FINDINGS: break;
    }
    if (what) watch_tell_failure(s, what, err);
    else s->missing_status = sonde_cli_agent_missing(s->cli, part, rc, err);
    return s->missing_status != SONDE_EXIT_OK;
}

/* Where profiles are captured besides the recording: for who asks, or all the time. */
static int watch_wants_profiler(const struct watch *s)
{
    return s->o->http || s->o->continuous || (s->o->store && s->cli->config.continuous_enabled);
}

static int watch_open(struct watch *s)
{
    const struct sonde_cli_agent_wants wants = { .http = s->o->http, .keep = s->o->store,
                                                 .run_name = sonde_path_base(s->name),
                                                 .scrape = s->o->scrape };
    struct sonde_cli_agent a;
    struct sonde_err err = { "" };
    int status = sonde_cli_agent_options(s->cli, &wants, &a);
    struct sonde_agent_options *o = &a.options;
    o->collector.pid = s->pid;
    o->infer.from_s = sonde_clock_s(CLOCK_REALTIME); /* rings hold what was before */
    o->record = wants_profile(s);
    o->profile = watch_wants_profiler(s);
    o->profiler.rate_hz = s->o->cpu_options.rate_hz;
    o->profiler.depth_max = s->o->cpu_options.depth_max;
    o->profiler.dir = s->o->cpu_options.dir;
    o->missing = watch_on_missing;
    o->missing_arg = s;
    if (!status && sonde_agent_open(o, &s->agent, &err) != 0) {
        s->agent = NULL;
        status = s->missing_status ? s->missing_status : sonde_cli_fail(s->cli, "%s", err.text);
    }
    sonde_cli_agent_release(&a);
    return status;
}

static int watch_record(struct watch *s)
{
    const struct sonde_agent_recording o = {
        .pid = s->pid, .argv = s->o->argv, .children = s->o->children,
        .cpu = s->o->cpu != SONDE_WATCH_NO, .heap = s->o->heap != SONDE_WATCH_NO,
        .llama = s->o->llama, .leaks = s->o->leaks, .gpu = s->o->gpu,
        .gpu_off = !s->cli->config.gpu_track_kernels,
        .cpu_options = s->o->cpu_options, .heap_options = s->o->heap_options,
    };
    struct sonde_uprobe_status status = { 0 };
    struct sonde_err err = { "" };
    if (sonde_agent_record(s->agent, &o, &err) != 0) return s->missing_status;
    if (s->agent->recording->probes) sonde_uprobes_status(s->agent->recording->probes, &status);
    if (status.functions) {
        watch_tell(s, "llama.cpp is watched by probes at %u of its functions", status.functions);
    }
    return SONDE_EXIT_OK;
}

/* Continuous profiling can also be turned on later. */
static int watch_profile(struct watch *s)
{
    const struct sonde_recording *r = s->agent->recording;
    const int continuous = s->o->store || s->o->recent;
    struct sonde_continuous_options o = { 0 };
    struct sonde_err err = { "" };
    if (!watch_wants_profiler(s)) return SONDE_EXIT_OK;
    const int status = continuous ? sonde_cli_continuous(s->cli, s->o->continuous, &o) : 0;
    if (status) return status;
    if (!o.settings.enabled && s->o->recent && s->o->http && s->cli->config.continuous_recent) {
        sonde_cli_continuous_recent(&o, r->cpu ? s->o->cpu_options.rate_hz : 0,
                                    r->heap_reader != NULL);
        s->recent_only = 1;
    }
    return sonde_agent_profile(s->agent, continuous ? &o : NULL, &err) == 0 ? SONDE_EXIT_OK
                                                                            : s->missing_status;
}

/* A mistake of the user's ends everything before CMD starts; anything else is reported. */
static int start_server(struct watch *s)
{
    const struct sonde_cli *cli = s->cli;
    struct sonde_config_values defaults;
    struct sonde_err err = { "" };
    if (!s->o->http || !s->agent->collector) return SONDE_EXIT_OK;
    sonde_config_defaults(&defaults);
    const int chosen = sonde_cli_was_set(cli, "server.listen") ||
                       strcmp(cli->config.server_listen, defaults.server_listen) != 0;
    char token[SONDE_TOKEN_MAX + 1];
    struct sonde_server_options o = { .listen = cli->config.server_listen,
                                      .port_tries = chosen ? 0 : PORT_TRIES,
                                      .agent = s->agent };
    if (sonde_cli_server_options(cli, &o, token, &err) != 0) {
        return sonde_cli_usage(cli, "%s", err.text);
    }
    if (sonde_server_start(&o, &s->server, &err) == 0) return SONDE_EXIT_OK;
    if (chosen) return sonde_cli_usage(cli, "%s", err.text);
    watch_tell_failure(s, "HTTP is not served", &err);
    return SONDE_EXIT_OK;
}

static int start_all(struct watch *s)
{
    int status = watch_open(s);
    if (!status) status = watch_record(s);
    if (!status) status = watch_profile(s);
    if (!status) status = start_server(s);
    return status;
}

/* What is missing is reported and does not matter. */
static void start_collecting(struct watch *s)
{
    struct sonde_err err = { "" };
    sonde_agent_start(s->agent, &err);
}

/* ---- Ending ---------------------------------------------------------------------------------- */

/* The disk is full, or the folder is gone: what was recorded cannot be recorded again. */
static void write_elsewhere(struct watch *s, const struct sonde_profile *p)
{
    char path[4096];
    struct sonde_err err = { "" };
    const char *dir = getenv("TMPDIR");
    snprintf(path, sizeof(path), "%s/%u-%s", dir && *dir ? dir : "/tmp", s->pid,
             sonde_path_base(s->o->record));
    if (sonde_run_save(path, p, &err) == 0) {
        watch_tell_profile(s, p, path);
        return;
    }
    watch_tell_failure(s, "the recording is lost", &err);
}

/* With the readings, if there is a store for them. */
static void store_profile(struct watch *s, const struct sonde_profile *p)
{
    struct sonde_err err = { "" };
    struct sonde_store *store = s->agent->store;
    if (!s->o->record || !store) return;
    if (sonde_cli_store_profile(store, s->o->record, p, sonde_path_base(s->name), &err) != 0) {
        watch_tell_failure(s, "the profile is not in the store", &err);
    }
}

static void write_run(struct watch *s, const struct sonde_profile *p)
{
    struct sonde_err err = { "" };
    sonde_push_profile(s->agent->push, p);
    if (!s->o->record || sonde_run_save(s->o->record, p, &err) == 0) {
        watch_tell_profile(s, p, s->o->record);
        store_profile(s, p);
        return;
    }
    s->failed = 1;
    sonde_cli_fail(s->cli, "%s", err.text);
    write_elsewhere(s, p);
}

/* Samples and spans become a profile, and that a file. */
static void finish_recording(struct watch *s)
{
    struct sonde_recording *r = s->agent->recording;
    if (!r->samples && !r->heap && !wants_profile(s)) return;
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    if (sonde_recording_finish(r, &p, &err) != 0) {
        s->failed = wants_profile(s);
        watch_tell_failure(s, "the recording is lost", &err);
        return;
    }
    sonde_own_cost_annotate(p, s->agent->own_cost);
    if (s->o->on_profile) {
        s->profile_status = s->o->on_profile(p, s->o->on_profile_arg);
    } else {
        write_run(s, p);
        sonde_profile_destroy(p);
    }
}

static void end_recording(struct watch *s, int ended, int status)
{
    struct sonde_recording *r = s->agent->recording;
    const int profiled = r->heap_reader != NULL;
    s->elapsed_s = watch_clock_s() - s->started_s;
    sonde_agent_stop(s->agent, s->recent_only && !(s->o->keep_s > 0));
    if (profiled && !r->heap && s->o->heap == SONDE_WATCH_MUST) {
        struct sonde_err err;
        s->failed = !s->o->argv; /* a command's exit status is its own */
        sonde_err_set(&err, SONDE_EOFF, "%s", s->refused[0] ? s->refused : r->heap_note);
        watch_tell_missing(s, "the heap was not profiled", &err);
        r->heap_note[0] = '\0';
    }
    watch_tell_end(s, ended, status);
    watch_tell_probes(s);
    watch_tell_outside(s);
    finish_recording(s);
    watch_tell_missed(s);
}

static void stop_all(struct watch *s)
{
    sonde_rss_watch_release(&s->outside);
    if (s->agent) sonde_agent_stop(s->agent, 0);
    sonde_server_stop(s->server);
    sonde_agent_close(s->agent);
    s->agent = NULL;
}

/* ---- A command ------------------------------------------------------------------------------- */

static int exec_failed(struct watch *s, int error)
{
    const char *why = strerror(error);
    if (error == ENOENT) {
        why = strchr(s->name, '/') ? "no such file, or the interpreter it names is missing"
                                   : "command not found";
    }
    stop_all(s);
    sonde_cli_fail(s->cli, "%s: %s", s->name, why);
    return sonde_child_exec_status(error);
}

static void keep_serving(struct watch *s)
{
    if (s->o->keep_s <= 0 || !s->server) return;
    watch_tell(s, "serving %s for %g s more; Ctrl-C ends it", sonde_server_url(s->server),
               s->o->keep_s);
    start_collecting(s);
    sonde_child_linger(s->o->keep_s);
}

/* Hooks that do nothing until a function of llama.cpp is called: if they cannot come in, that is
 * worth a word (sonde doctor) only for programs that would. */
static size_t llama_environment(const struct watch *s, char out[SONDE_PRELOAD_ENV_MAX])
{
    char variable[64];
    size_t size = 0;
    snprintf(variable, sizeof(variable), "SONDE_LLAMA=children=%d", s->o->children != 0);
    if (!s->o->llama || sonde_preload_environment(variable, out, &size, NULL) != 0) return 0;
    return size;
}

/* What engines that work in the process need; where several set a variable, it is to the same. */
static size_t child_environment(struct watch *s, char out[SONDE_CHILD_ENV_MAX])
{
    char llama[SONDE_PRELOAD_ENV_MAX], program[4096];
    const char *why = sonde_uprobes_program(s->name, program, sizeof(program))
                          ? sonde_preload_refused(program) : NULL;
    if (why) {
        snprintf(s->refused, sizeof(s->refused), "%s is %s", s->name, why);
        watch_tell(s, "%s: nothing is recorded from inside it (heap, calls of llama.cpp, CPU by "
                   "the timer engine)", s->refused);
        return 0;
    }
    size_t cpu_size = 0, heap_size = 0, gpu_size = 0, llama_size = llama_environment(s, llama);
    const struct sonde_recording *r = s->agent->recording;
    const char *cpu = r->cpu ? sonde_cpu_environment(r->cpu, &cpu_size) : NULL;
    const char *heap_reader =
        r->heap_reader ? sonde_heap_reader_environment(r->heap_reader, &heap_size) : NULL;
    if (cpu_size + heap_size > SONDE_CHILD_ENV_MAX) heap_size = 0; /* paths of some kilobytes */
    if (cpu_size) memcpy(out, cpu, cpu_size);
    if (heap_size) memcpy(out + cpu_size, heap_reader, heap_size);
    if (cpu_size + heap_size + llama_size > SONDE_CHILD_ENV_MAX) llama_size = 0;
    memcpy(out + cpu_size + heap_size, llama, llama_size);
    const size_t used = cpu_size + heap_size + llama_size;
    const char *gpu =
        r->gpu_reader ? sonde_kernel_reader_environment(r->gpu_reader, &gpu_size) : NULL;
    if (used + gpu_size > SONDE_CHILD_ENV_MAX) gpu_size = 0;
    if (gpu_size) memcpy(out + used, gpu, gpu_size);
    return used + gpu_size;
}

static double look_below(void *arg, double now_s) { return sonde_unseen_look(arg, now_s); }

/* Nothing is wanted from inside of children, or nothing comes from them anyway: not worth a
 * word. */
static void watch_below(struct watch *s)
{
    if (!s->o->children || s->refused[0]) return;
    sonde_unseen_start(&s->unseen, s->pid, watch_clock_s());
    s->child.look = look_below;
    s->child.look_arg = &s->unseen;
}

static int watch_run_child(struct watch *s)
{
    char env[SONDE_CHILD_ENV_MAX];
    s->started_s = watch_clock_s();
    const int error = sonde_child_exec(&s->child, env, child_environment(s, env));
    if (error) return exec_failed(s, error);
    start_collecting(s);
    if (s->server) {
        watch_tell(s, "%s shows process %u (%s)", sonde_server_url(s->server), s->pid, s->name);
    }
    int status = 0;
    int stopped = 0;
    watch_below(s);
    if (sonde_child_wait(&s->child, s->o->duration_s, &status)) {
        end_recording(s, 1, status);
        watch_tell_survivors(s);
        keep_serving(s);
    } else {
        s->child.look = NULL;
        end_recording(s, 0, 0);
        stopped = s->o->stop;
        watch_tell_waiting(s);
        if (stopped) sonde_child_stop(&s->child, STOP_GRACE_S, &status);
        else sonde_child_wait(&s->child, 0, &status);
        if (stopped) watch_tell_survivors(s);
    }
    stop_all(s);
    const int ours = s->failed ? SONDE_EXIT_FAIL : s->profile_status;
    /* By the signal that it was asked to end with: as it should be. */
    if (stopped && WIFSIGNALED(status) &&
        (WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGKILL)) {
        return ours;
    }
    const int result = sonde_child_end(status);
    return result ? result : ours;
}

/* The directory CMD shall record to, NULL = the default. Absolute: CMD may change its own. */
static const char *child_dir(const struct sonde_cli *cli, char *out, size_t out_size)
{
    const char *dir = cli->config.agent_dir;
    char cwd[4096];
    if (!dir[0]) return NULL;
    if (dir[0] == '/' || !getcwd(cwd, sizeof(cwd))) return dir;
    snprintf(out, out_size, "%s/%s", cwd, dir);
    return out;
}

static int watch_launch(struct watch *s)
{
    struct sonde_err err = { "" };
    char dir[4096 + sizeof(s->cli->config.agent_dir)];
    s->name = s->o->argv[0];
    if (sonde_child_fork(&s->child, s->o->argv, child_dir(s->cli, dir, sizeof(dir)), &err) != 0) {
        return sonde_cli_fail(s->cli, "%s", err.text);
    }
    s->pid = (uint32_t)s->child.pid;
    const int status = start_all(s);
    if (status == SONDE_EXIT_OK) return watch_run_child(s);
    sonde_child_cancel(&s->child);
    stop_all(s);
    return status;
}

/* ---- A process that runs --------------------------------------------------------------------- */

/* 1 when it has ended, 0 when the time is up or somebody wants us to stop. */
static int wait_for_process(struct watch *s, int pidfd, int signals, double seconds)
{
    const double until = watch_clock_s() + seconds;
    const int tick_ms = (int)(SONDE_OUTSIDE_TICK_S * 1e3);
    const int progress = watch_has_progress(s);
    for (;;) {
        if (progress) watch_tell_progress(s, seconds);
        if (s->from_outside) sonde_rss_watch_look(&s->outside, watch_clock_s());
        struct pollfd fds[2] = { { .fd = pidfd, .events = POLLIN },
                                 { .fd = signals, .events = POLLIN } };
        int wait_ms = -1;
        if (seconds > 0) {
            const double left = until - watch_clock_s();
            if (left <= 0) return 0;
            wait_ms = left < 1e6 ? (int)(left * 1e3) + 1 : 1000000000;
        }
        if ((s->from_outside || progress) && (wait_ms < 0 || wait_ms > tick_ms)) wait_ms = tick_ms;
        if (poll(fds, 2, wait_ms) < 0 && errno != EINTR) return 0;
        if (fds[1].revents) return 0;
        if (fds[0].revents) return 1;
    }
}

static int watch_attach(struct watch *s)
{
    struct sonde_proc_stat stat;
    s->pid = s->o->pid;
    const int pidfd = pidfd_open((pid_t)s->pid, 0);
    if (pidfd < 0 || sonde_proc_stat(s->pid, &stat) != 0) {
        if (pidfd >= 0) close(pidfd);
        return sonde_cli_fail(s->cli, "there is no process %u", s->pid);
    }
    char name[64];
    snprintf(name, sizeof(name), "%s", stat.comm);
    s->name = name;

    /* Blocked before threads are started, which inherit it. */
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    sigprocmask(SIG_BLOCK, &ends, NULL);
    signal(SIGPIPE, SIG_IGN);
    const int signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);

    s->started_s = watch_clock_s();
    if (sonde_proc_cpu_ns(s->pid, &s->cpu_ns, NULL) != 0) s->cpu_ns = 0;
    const int status = signals < 0 ? sonde_cli_fail(s->cli, "%s", strerror(errno)) : start_all(s);
    if (status == SONDE_EXIT_OK) {
        start_collecting(s);
        if (s->server) {
            watch_tell(s, "%s shows process %u (%s)", sonde_server_url(s->server), s->pid,
                       s->name);
        }
        const int ended = wait_for_process(s, pidfd, signals, s->o->duration_s);
        if (watch_has_progress(s)) watch_tell_progress(s, -1);
        end_recording(s, ended, 0);
    }
    stop_all(s);
    close(pidfd);
    if (signals >= 0) close(signals);
    return status ? status : s->failed ? SONDE_EXIT_FAIL : s->profile_status;
}

int sonde_watch_run(struct sonde_cli *cli, const struct sonde_watch_options *options)
{
    assert(options->argv || options->pid); /* a command, or a process that runs */
    struct watch s = { .cli = cli, .o = options };
    struct sonde_err err = { "" };
    if (options->record && sonde_run_check(options->record, &err) != 0) {
        return sonde_cli_usage(cli, "--output: %s", err.text);
    }
    return options->argv ? watch_launch(&s) : watch_attach(&s);
}
