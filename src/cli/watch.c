/* watch.c - see watch.h.
 *
 * Order matters. The command is forked first and waits (child.h). Then the collector, the engines
 * and the server are made ready; only then the command is executed, so nothing of it is missed. At
 * the end the engines stop first, then the last spans are drained, so that no sample is without
 * the span it was taken in. */
#include "cli/watch.h"

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

#include "analyze/engine.h"
#include "base/clock.h"
#include "cli/continuous.h"
#include "cli/watch_private.h"
#include "collect/discover.h"
#include "collect/preload_targets.h"
#include "collect/proc/tree.h"
#include "agent/profiler_request.h"
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
    const char *slash = strrchr(name, '/');
    const time_t now = time(NULL);
    struct tm tm;
    char when[32] = "";
    if (localtime_r(&now, &tm)) strftime(when, sizeof(when), "%Y%m%d-%H%M%S", &tm);
    snprintf(out, out_size, "sonde-%.100s-%s.run", slash && slash[1] ? slash + 1 : name, when);
}

/* Not only a summary. */
static int wants_profile(const struct watch *s) { return s->o->record || s->o->on_profile; }

/* ---- Starting --------------------------------------------------------------------------------- */

static void watch_on_begin(const struct sonde_infer_request *r, void *arg)
{
    const struct watch *s = arg;
    if (s->profiler) sonde_profiler_on_begin(s->profiler, r);
}

static void watch_on_done(const struct sonde_infer_request *r, void *arg)
{
    struct watch *s = arg;
    if (wants_profile(s)) sonde_recording_on_request(r, &s->recording);
    if (s->profiler) sonde_profiler_on_done(s->profiler, r);
    sonde_push_request(s->push, r);
    sonde_cli_store_request(&s->store, r);
}

/* As always; every request that ends is kept with the recording, and those that ask for it have a
 * profile of their own. */
static int watch_attach_infer(struct sonde_model *m, const void *arg)
{
    const struct watch *s = arg;
    struct sonde_infer_options o = sonde_cli_infer_options(s->cli);
    o.from_s = sonde_clock_s(CLOCK_REALTIME); /* rings hold what was before */
    o.on_begin = watch_on_begin;
    o.on_done = watch_on_done;
    o.on_done_arg = (void *)(uintptr_t)s;
    sonde_cli_store_attach(&s->store, m);
    return sonde_infer_attach(m, &o);
}

static int start_collector(struct watch *s)
{
    struct sonde_collector_options o = sonde_cli_collector_options(s->cli);
    o.agent = 1;
    o.pid = s->pid;
    if (wants_profile(s)) {
        o.on_span = sonde_recording_on_span;
        o.on_span_arg = &s->recording;
    }
    o.attach = watch_attach_infer;
    o.attach_arg = s;
    struct sonde_err err = { "" };
    const char *slash = strrchr(s->name, '/');
    const int status =
        s->o->store ? sonde_cli_store_open(s->cli, slash ? slash + 1 : s->name, &s->store, &o) : 0;
    if (status) return status;
    if (s->o->http) sonde_cli_store_recent(s->cli, &s->store, &o);
    if (sonde_collector_create(&o, &s->collector, &err) == 0) return SONDE_EXIT_OK;
    s->collector = NULL;
    if (sonde_cli_was_set(s->cli, "agent.dir")) return sonde_cli_usage(s->cli, "%s", err.text);
    watch_tell_failure(s, "nothing is collected", &err);
    return SONDE_EXIT_OK;
}

static int start_cpu(struct watch *s)
{
    if (s->o->cpu == SONDE_WATCH_NO) return SONDE_EXIT_OK;
    struct sonde_cpu_options o = s->o->cpu_options;
    struct sonde_err err = { "" };
    o.pid = s->pid;
    o.children = s->o->children;
    o.returns = s->returns;
    const int rc = s->o->argv ? sonde_cpu_start_on_exec(&o, &s->recording.cpu, &err)
                              : sonde_cpu_start(&o, &s->recording.cpu, &err);
    if (!rc) return SONDE_EXIT_OK;
    s->recording.cpu = NULL;
    if (s->o->cpu == SONDE_WATCH_MUST) {
        return rc == SONDE_EINVAL ? sonde_cli_usage(s->cli, "%s", err.text)
                                  : sonde_cli_fail(s->cli, "%s", err.text);
    }
    watch_tell_failure(s, "the CPU is not sampled", &err);
    return SONDE_EXIT_OK;
}

/* Of a process that runs, only if it was started for it; what is resident is seen in any case. */
static int start_heap(struct watch *s)
{
    if (s->o->heap == SONDE_WATCH_NO) return SONDE_EXIT_OK;
    struct sonde_heap_reader_options o = s->o->heap_options;
    struct sonde_err err = { "" };
    o.pid = s->pid;
    o.children = s->o->children;
    s->recording.leaks = s->o->leaks;
    const int rc = s->o->argv ? sonde_heap_reader_start_on_exec(&o, &s->recording.heap_reader, &err)
                              : sonde_heap_reader_start(&o, &s->recording.heap_reader, &err);
    if (!rc) return SONDE_EXIT_OK;
    s->recording.heap_reader = NULL;
    if (s->o->heap == SONDE_WATCH_MUST) {
        return rc == SONDE_EINVAL ? sonde_cli_usage(s->cli, "%s", err.text)
                                  : sonde_cli_fail(s->cli, "%s", err.text);
    }
    if (s->o->argv) {
        watch_tell_failure(s, "the heap is not profiled", &err);
    } else {
        s->from_outside = 1;
        sonde_rss_watch_start(&s->outside, s->pid, watch_clock_s());
    }
    return SONDE_EXIT_OK;
}

/* Are probes needed: for a process that runs, and for a program that has llama.cpp built in, where
 * hooks see nothing? Before the CPU is sampled, which must know of what they do to stacks. */
static void prepare_probes(struct watch *s)
{
    if (!s->collector || !s->o->llama) return;
    if (s->o->argv) {
        if (!sonde_uprobes_program(s->o->argv[0], s->program, sizeof(s->program))) return;
        if (!sonde_uprobe_is_static(s->program)) return;
    }
    if (sonde_uprobe_returns_create(&s->returns) != 0) s->returns = NULL;
}

static void start_probes(struct watch *s)
{
    const char *program = s->o->argv ? s->program : NULL;
    struct sonde_uprobe_status status;
    struct sonde_err err = { "" };
    if (!s->returns) return;
    const int rc = sonde_uprobes_start(s->collector, s->pid, program, s->returns, &s->probes, &err);
    if (rc) {
        s->probes = NULL;
        /* Without probes it is not known whether there is anything to be missed. */
        if (rc != SONDE_EOFF || program) {
            watch_tell_failure(s, "what llama.cpp does is not seen", &err);
        }
        return;
    }
    sonde_uprobes_status(s->probes, &status);
    if (status.functions) {
        watch_tell(s, "llama.cpp is watched by probes at %u of its functions", status.functions);
    }
}

static void start_profiler(struct watch *s)
{
    const struct sonde_profiler_options o = { .collector = s->collector,
                                              .rate_hz = s->o->cpu_options.rate_hz,
                                              .depth_max = s->o->cpu_options.depth_max,
                                              .dir = s->o->cpu_options.dir,
                                              .no_cpu = !s->cli->config.cpu_enabled,
                                              .no_heap = !s->cli->config.memory_enabled };
    if (sonde_profiler_create(&o, &s->profiler) != 0) return;
    if (s->recording.cpu) sonde_profiler_use(s->profiler, s->recording.cpu);
    if (s->recording.heap_reader) sonde_profiler_use_heap_reader(s->profiler, s->recording.heap_reader, s->pid);
}

/* It can also be turned on later. */
static int watch_start_continuous(struct watch *s)
{
    struct sonde_err err = { "" };
    struct sonde_continuous_options o = { .collector = s->collector, .profiler = s->profiler,
                                          .store_ops = s->store.ops, .store = s->store.store };
    if (!s->o->store && !s->o->recent) return SONDE_EXIT_OK;
    const int status = sonde_cli_continuous(s->cli, s->o->continuous, &o);
    if (status) return status;
    if (!o.settings.enabled && s->o->recent && s->o->http && s->cli->config.continuous_recent) {
        sonde_cli_continuous_recent(&o, s->recording.cpu ? s->o->cpu_options.rate_hz : 0,
                                    s->recording.heap_reader != NULL);
        s->recent_only = 1;
    }
    const int rc = sonde_continuous_create(&o, &s->continuous, &err);
    if (!rc) return SONDE_EXIT_OK;
    s->continuous = NULL;
    if (rc == SONDE_EOFF || rc == SONDE_EINVAL) {
        return sonde_cli_usage(s->cli, "continuous profiling: %s", err.text);
    }
    watch_tell_failure(s, "profiles are not taken all the time", &err);
    return SONDE_EXIT_OK;
}

/* A mistake of the user's ends everything before CMD starts; anything else is told. */
static int start_server(struct watch *s)
{
    const struct sonde_cli *cli = s->cli;
    const int continuous = s->o->continuous || (s->o->store && cli->config.continuous_enabled);
    if (!s->collector || (!s->o->http && !continuous)) return SONDE_EXIT_OK;
    start_profiler(s);
    const int status = watch_start_continuous(s);
    if (status || !s->o->http) return status;

    struct sonde_config_values defaults;
    sonde_config_defaults(&defaults);
    const int chosen = sonde_cli_was_set(cli, "server.listen") ||
                       strcmp(cli->config.server_listen, defaults.server_listen) != 0;
    char token[SONDE_TOKEN_MAX + 1];
    struct sonde_server_options o = {
        .listen = cli->config.server_listen,
        .port_tries = chosen ? 0 : PORT_TRIES,
        .agent = &s->agent,
    };
    struct sonde_err err = { "" };
    if (s->o->scrape && sonde_cli_foreign_listen(cli, &s->foreign, s->collector, &err) != 0) {
        watch_tell_failure(s, "OTLP is not taken", &err);
    }
    s->agent = (struct sonde_agent){ .collector = s->collector, .profiler = s->profiler,
                                     .store_ops = s->store.ops, .store = s->store.store,
                                     .temporary = s->store.recent, .continuous = s->continuous,
                                     .otlp = s->foreign.otlp };
    if (sonde_cli_agent_open(cli, &s->agent, &err) != 0) {
        return sonde_cli_fail(cli, "%s", err.text);
    }
    if (sonde_cli_server_options(cli, &o, token, &err) != 0) {
        return sonde_cli_usage(cli, "%s", err.text);
    }
    if (sonde_server_start(&o, &s->server, &err) == 0) return SONDE_EXIT_OK;
    if (chosen) return sonde_cli_usage(cli, "%s", err.text);
    watch_tell_failure(s, "HTTP is not served", &err);
    return SONDE_EXIT_OK;
}

/* A mistake of the user's ends everything before CMD starts; anything else is told. */
static int start_push(struct watch *s)
{
    struct sonde_err err = { "" };
    if (!s->o->store || !s->collector) return SONDE_EXIT_OK;
    const int status =
        sonde_cli_push_open(s->cli, sonde_collector_model(s->collector), 1, &s->push);
    if (status) return status;
    if (s->push && sonde_push_start(s->push, &err) != 0) {
        watch_tell_failure(s, "nothing is sent on", &err);
    }
    return SONDE_EXIT_OK;
}

static int start_all(struct watch *s)
{
    if (wants_profile(s) && sonde_recording_keep_spans(&s->recording) != 0) {
        return sonde_cli_fail(s->cli, "out of memory");
    }
    int status = s->o->scrape ? sonde_cli_foreign_open(s->cli, s->o->scrape, &s->foreign) : 0;
    if (!status) status = start_collector(s);
    if (!status) prepare_probes(s);
    if (!status) status = start_cpu(s);
    if (!status) status = start_heap(s);
    if (!status) status = start_server(s);
    if (!status) status = start_push(s);
    if (!status) start_probes(s);
    return status;
}

static void start_collecting(struct watch *s)
{
    struct sonde_err err = { "" };
    if (s->collector && sonde_cli_foreign_start(&s->foreign, s->collector, &err) != 0) {
        watch_tell_failure(s, "nothing is scraped", &err);
    }
    if (s->collector && sonde_collector_start(s->collector, &err) != 0) {
        watch_tell_failure(s, "readings are taken at the end only", &err);
    }
}

/* ---- Ending ----------------------------------------------------------------------------------- */

/* The disk is full, or the folder is gone: what was recorded cannot be recorded again. */
static void write_elsewhere(struct watch *s, const struct sonde_profile *p)
{
    char path[4096];
    struct sonde_err err = { "" };
    const char *dir = getenv("TMPDIR");
    const char *slash = strrchr(s->o->record, '/');
    snprintf(path, sizeof(path), "%s/%u-%s", dir && *dir ? dir : "/tmp", s->pid,
             slash ? slash + 1 : s->o->record);
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
    const char *slash = strrchr(s->name, '/');
    if (!s->o->record || !s->store.store) return;
    if (sonde_cli_store_profile(s->store.store, s->o->record, p, slash ? slash + 1 : s->name,
                                &err) != 0) {
        watch_tell_failure(s, "the profile is not in the store", &err);
    }
}

static void write_run(struct watch *s, const struct sonde_profile *p)
{
    struct sonde_err err = { "" };
    sonde_push_profile(s->push, p);
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
    if (!s->recording.samples && !s->recording.heap && !wants_profile(s)) return;
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    if (sonde_recording_finish(&s->recording, &p, &err) != 0) {
        s->failed = wants_profile(s);
        watch_tell_failure(s, "the recording is lost", &err);
    } else if (s->o->on_profile) {
        s->profile_status = s->o->on_profile(p, s->o->on_profile_arg);
    } else {
        write_run(s, p);
        sonde_profile_destroy(p);
    }
}

/* Nothing more is to be expected of its requests. */
static void watch_end_infer(struct watch *s)
{
    struct sonde_model *m = sonde_collector_model(s->collector);
    sonde_wrlock(&m->lock);
    sonde_infer_flush(m);
    if (s->recording.spans && sonde_infer_of(m)) {
        sonde_infer_complete_run(sonde_infer_of(m), s->recording.spans);
    }
    if (s->recording.spans) sonde_engine_complete_run(m, s->recording.spans);
    sonde_rwunlock(&m->lock);
}

static void end_recording(struct watch *s, int ended, int status)
{
    s->elapsed_s = watch_clock_s() - s->started_s;
    if (s->recent_only && !(s->o->keep_s > 0)) sonde_continuous_abandon(s->continuous);
    else sonde_continuous_stop(s->continuous);
    if (s->profiler) {
        sonde_profiler_use(s->profiler, NULL);
        sonde_profiler_use_heap_reader(s->profiler, NULL, 0);
    }
    const int profiled = s->recording.heap_reader != NULL;
    sonde_recording_stop(&s->recording);
    if (profiled && !s->recording.heap && s->o->heap == SONDE_WATCH_MUST) {
        struct sonde_err err;
        s->failed = !s->o->argv; /* a command's exit status is its own */
        sonde_err_set(&err, SONDE_EOFF, "%s",
                      s->refused[0] ? s->refused : s->recording.heap_note);
        watch_tell_missing(s, "the heap was not profiled", &err);
        s->recording.heap_note[0] = '\0';
    }
    sonde_uprobes_stop(s->probes, &s->probed);
    s->probes = NULL;
    /* What the process recorded after the last tick is still in its segment. */
    if (s->collector) {
        sonde_collector_stop(s->collector);
        sonde_collector_step(s->collector);
        watch_end_infer(s);
    }
    watch_tell_end(s, ended, status);
    watch_tell_probes(s);
    watch_tell_outside(s);
    finish_recording(s);
}

static void stop_all(struct watch *s)
{
    sonde_rss_watch_release(&s->outside);
    sonde_continuous_stop(s->continuous); /* it uses the engines */
    sonde_recording_cancel(&s->recording);
    sonde_uprobes_stop(s->probes, NULL);
    if (s->collector) sonde_collector_stop(s->collector); /* it tells the profiler of requests */
    sonde_cli_push_close(s->cli, &s->push);
    sonde_server_stop(s->server);
    sonde_agent_close_sessions(&s->agent);
    sonde_continuous_destroy(s->continuous);
    sonde_profiler_destroy(s->profiler);
    s->profiler = NULL;
    sonde_cli_foreign_close(&s->foreign);
    sonde_collector_destroy(s->collector);
    sonde_cli_store_close(&s->store);
    sonde_uprobe_returns_destroy(s->returns);
}

/* ---- A command -------------------------------------------------------------------------------- */

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
    size_t cpu_size = 0, heap_size = 0, llama_size = llama_environment(s, llama);
    const char *cpu = s->recording.cpu ? sonde_cpu_environment(s->recording.cpu, &cpu_size) : NULL;
    const char *heap_reader = s->recording.heap_reader ? sonde_heap_reader_environment(s->recording.heap_reader, &heap_size) : NULL;
    if (cpu_size + heap_size > SONDE_CHILD_ENV_MAX) heap_size = 0; /* paths of some kilobytes */
    if (cpu_size) memcpy(out, cpu, cpu_size);
    if (heap_size) memcpy(out + cpu_size, heap_reader, heap_size);
    if (cpu_size + heap_size + llama_size > SONDE_CHILD_ENV_MAX) llama_size = 0;
    memcpy(out + cpu_size + heap_size, llama, llama_size);
    return cpu_size + heap_size + llama_size;
}

static double look_below(void *arg, double now_s) { return sonde_unseen_look(arg, now_s); }

/* Nothing is wanted from inside of children, or nothing comes from them anyway: not worth a word. */
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
    /* Not before: until then the process is a copy of us, by name too. */
    if (s->collector) sonde_collector_watch(s->collector, s->pid);
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

/* ---- A process that runs ---------------------------------------------------------------------- */

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
        if (s->collector) sonde_collector_watch(s->collector, s->pid);
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
    struct watch s = { .cli = cli, .o = options };
    struct sonde_err err = { "" };
    if (options->record && sonde_run_check(options->record, &err) != 0) {
        return sonde_cli_usage(cli, "--output: %s", err.text);
    }
    return options->argv ? watch_launch(&s) : watch_attach(&s);
}
