/* trial.c - see trial.h. */
#include "bench/tune/trial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench/http/workload.h"
#include "bench/tune/process.h"
#include "bench/tune/trial_private.h"
#include "sonde/sonde.h"

#define GRACE_S 5.0             /* for a server to end by itself */
#define HELP_S 20.0             /* for a program to print its help */
#define LOOK_NS 20000000u
#define READY_BODY_MAX ((size_t)64 << 10)
#define PROBE_S 120.0

struct objective_row { const char *name, *unit; int less, command; };
static const struct objective_row objective_rows[] = {
#define SONDE__X(id, name, unit, less, command) { name, unit, less, command },
    SONDE_TUNE_OBJECTIVES(SONDE__X)
#undef SONDE__X
};

int sonde_tune_objective_find(const char *name)
{
    for (int i = 0; i < SONDE_TUNE_OBJECTIVE_COUNT; i++) {
        if (!strcmp(objective_rows[i].name, name)) return i;
    }
    return -1;
}

const char *sonde_tune_objective_name(enum sonde_tune_objective o)
{
    return objective_rows[o].name;
}

const char *sonde_tune_objective_unit(enum sonde_tune_objective o)
{
    return objective_rows[o].unit;
}

int sonde_tune_objective_less(enum sonde_tune_objective o)
{
    return objective_rows[o].less;
}

int sonde_tune_objective_of_command(enum sonde_tune_objective o)
{
    return objective_rows[o].command;
}

static void trial_sleep(void)
{
    const struct timespec t = { .tv_nsec = LOOK_NS };
    nanosleep(&t, NULL);
}

static int trial_stopped(const struct sonde_tune_plan *p)
{
    return p->stopped && p->stopped(p->arg);
}

/* "exit status 1", "killed by signal 11 (Segmentation fault)" */
static const char *trial_end_words(int status, char out[64])
{
    if (WIFSIGNALED(status)) {
        snprintf(out, 64, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(out, 64, "exit status %d", WEXITSTATUS(status));
    }
    return out;
}

/* ---- A server -------------------------------------------------------------------------------- */

/* One that nobody listens on now. 0 = none could be had. */
static uint16_t trial_free_port(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(a);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return 0;
    const int ok = !bind(fd, (struct sockaddr *)&a, sizeof(a)) &&
                   !getsockname(fd, (struct sockaddr *)&a, &len);
    close(fd);
    return ok ? ntohs(a.sin_port) : 0;
}

/* 0: it answers, or has no such path; SONDE_EBUSY: stopped; SONDE_EIO: it has ended or takes too
 * long, and reason says so. */
static int trial_wait_ready(const struct sonde_tune_plan *p, struct sonde_tune_process *server,
                            uint16_t port, struct sonde_tune_figures *out)
{
    char url[SONDE_LOAD_URL_MAX], words[64];
    const double begin_s = sonde_clock_s(CLOCK_MONOTONIC);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", port, p->ready_path);
    for (;;) {
        struct sonde_buf body;
        struct sonde_err ignored;
        long status = 0;
        if (trial_stopped(p)) return SONDE_EBUSY;
        if (sonde_tune_process_ended(server)) {
            sonde_tune_process_stop(server, 0);
            const int n = snprintf(out->reason, sizeof(out->reason), "did not start: %s: ",
                                   trial_end_words(server->status, words));
            sonde_tune_process_last_words(server, out->reason + n, sizeof(out->reason) - (size_t)n);
            return SONDE_EIO;
        }
        sonde_buf_init(&body, READY_BODY_MAX);
        sonde_load_ask_http(url, NULL, NULL, NULL, READY_BODY_MAX, 2, &body, &status, &ignored);
        sonde_buf_release(&body);
        out->ready_s = sonde_clock_s(CLOCK_MONOTONIC) - begin_s;
        if (status && status != 503) return 0;
        if (out->ready_s > p->start_s) {
            snprintf(out->reason, sizeof(out->reason), "not ready after %.0f s (GET %s: %s)",
                     p->start_s, p->ready_path, status ? "status 503" : "no answer");
            return SONDE_EIO;
        }
        trial_sleep();
    }
}

/* What is asked is found out once: all trials are of the same program and model. */
static int trial_target(struct sonde_tune_trials *t, uint16_t port, struct sonde_err *err)
{
    char url[64];
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", port);
    if (!t->target_known) {
        const struct sonde_load_probe_options o = {
            .url = url, .api = t->plan->api, .model = t->plan->model, .stream = 1,
            .ignore_eos = 1, .calibrate = 1, .timeout_s = PROBE_S };
        const int rc = sonde_load_probe(&o, &t->target, err);
        if (rc) return rc;
        t->target_known = 1;
    }
    const int n = snprintf(t->target.url, sizeof(t->target.url), "%s%s", url,
                           sonde_load_api_path(t->target.api, 1));
    return n < (int)sizeof(t->target.url) ? 0 : SONDE_EINVAL;
}

static int trial_progress(void *arg, uint64_t elapsed_ns, uint64_t sent, uint64_t done,
                          uint64_t failed)
{
    enum { FAILED_MIN = 20 };
    (void)elapsed_ns, (void)sent;
    /* A server that refuses everything is asked no more than that. */
    return trial_stopped(arg) || (failed >= FAILED_MIN && failed == done);
}

static int trial_load(struct sonde_tune_trials *t, struct sonde_load_result *out,
                      struct sonde_err *err)
{
    const struct sonde_tune_plan *p = t->plan;
    const struct sonde_load_target *target = &t->target;
    struct sonde_load_workload *w;
    const struct sonde_load_workload_options wo = {
        .api = target->api, .model = target->model[0] ? target->model : NULL, .stream = 1,
        .ignore_eos = target->ignore_eos, .plain = target->plain, .prompt = p->prompt,
        .output = p->output, .calibration = target->calibration, .seed = p->seed };
    int rc = sonde_load_workload_create(&wo, &w, err);
    if (rc) return rc;
    rc = sonde_load_workload_prepare(w, 4 * (uint64_t)p->concurrency);
    if (rc) sonde_err_memory(err);
    const struct sonde_load_options o = {
        .url = target->url, .source = sonde_load_workload_source(w),
        .connections_max = p->concurrency, .threads = 1, .seed = p->seed,
        .duration_ns = sonde_clock_ns_of(p->warmup_s + p->block_s),
        .progress = trial_progress, .progress_arg = (void *)(uintptr_t)p };
    if (!rc) rc = sonde_load_run(&o, out, err);
    sonde_load_workload_destroy(w);
    return rc;
}

/* From a server that is ready to figures. */
static int trial_measure(struct sonde_tune_trials *t, const struct sonde_tune_process *server,
                         uint16_t port, struct sonde_tune_figures *out)
{
    struct sonde_load_result load;
    struct sonde_err err = { "" };
    memset(&load, 0, sizeof(load));
    int rc = trial_target(t, port, &err);
    if (!rc) rc = trial_load(t, &load, &err);
    sonde_tune_process_memory(server, &out->rss_bytes, &out->pss_bytes);
    if (rc == SONDE_ENOMEM) return rc;
    if (rc) {
        snprintf(out->reason, sizeof(out->reason), "no load: %.280s", err.text);
        return SONDE_EIO;
    }
    rc = trial_stopped(t->plan) ? SONDE_EBUSY : trial_figures(t->plan, &load, out);
    sonde_load_result_release(&load);
    return rc;
}

/* The command at a point behind what starts it; to be freed, its words are not. NULL = no
 * memory. */
static char **trial_behind(char *const *under, char *const *argv)
{
    size_t before = 0, count = 0;
    while (under && under[before]) before++;
    while (argv[count]) count++;
    char **all = sonde__calloc(before + count + 1, sizeof(*all));
    if (!all) return NULL;
    if (before) memcpy(all, under, before * sizeof(*all));
    memcpy(all + before, argv, count * sizeof(*all));
    return all;
}

static int trial_server(struct sonde_tune_trials *t, uint32_t point,
                        struct sonde_tune_figures *out, struct sonde_err *err)
{
    char cpus[SONDE_TUNE_NAME_MAX + 1], words[64];
    struct sonde_tune_process server;
    const uint16_t port = t->plan->port ? t->plan->port : trial_free_port();
    if (!port) return sonde_err_set(err, SONDE_EIO, "no free port on 127.0.0.1: %s",
                                    strerror(errno));
    char **argv = sonde_tune_argv(t->knobs, t->command, point, port, cpus);
    char **all = argv ? trial_behind(t->under, argv) : NULL;
    int rc = all ? sonde_tune_process_start(&server, all, cpus, err) : sonde_err_memory(err);
    sonde__free(all);
    sonde_tune_argv_free(argv);
    if (rc) return rc;
    rc = trial_wait_ready(t->plan, &server, port, out);
    if (!rc) {
        rc = trial_measure(t, &server, port, out);
        if (rc != SONDE_EBUSY && sonde_tune_process_ended(&server)) {
            const int n = snprintf(out->reason, sizeof(out->reason), "ended under load: %s: ",
                                   trial_end_words(server.status, words));
            sonde_tune_process_stop(&server, 0);
            sonde_tune_process_last_words(&server, out->reason + n, sizeof(out->reason) -
                                          (size_t)n);
            out->value = NAN;
            rc = SONDE_EIO;
        }
    }
    sonde_tune_process_stop(&server, GRACE_S);
    sonde_tune_process_release(&server);
    return rc;
}

/* ---- A command ------------------------------------------------------------------------------- */

/* The last number that the pattern finds in what the command printed. */
static int trial_metric(const struct sonde_tune_plan *p, const struct sonde_tune_process *c,
                        double *out)
{
    char *text = sonde__alloc(SONDE_TUNE_OUTPUT_KEPT + 1);
    regmatch_t found[2];
    if (!text) return SONDE_ENOMEM;
    sonde_tune_process_output(c, text, SONDE_TUNE_OUTPUT_KEPT + 1);
    const char *at = text;
    *out = NAN;
    while (*at && !regexec(p->metric, at, 2, found, at == text ? 0 : REG_NOTBOL)) {
        if (found[1].rm_so >= 0) *out = strtod(at + found[1].rm_so, NULL);
        at += found[0].rm_eo > 0 ? found[0].rm_eo : 1;
    }
    sonde__free(text);
    return 0;
}

static int trial_command(struct sonde_tune_trials *t, uint32_t point,
                         struct sonde_tune_figures *out, struct sonde_err *err)
{
    const struct sonde_tune_plan *p = t->plan;
    char cpus[SONDE_TUNE_NAME_MAX + 1], words[64];
    struct sonde_tune_process c;
    char **argv = sonde_tune_argv(t->knobs, t->command, point, 0, cpus);
    if (!argv) return sonde_err_memory(err);
    const double begin_s = sonde_clock_s(CLOCK_MONOTONIC);
    int rc = sonde_tune_process_start(&c, argv, cpus, err);
    sonde_tune_argv_free(argv);
    if (rc) return rc;
    while (!rc && !sonde_tune_process_ended(&c)) {
        const double passed_s = sonde_clock_s(CLOCK_MONOTONIC) - begin_s;
        const struct timespec nap = { .tv_nsec = passed_s < 0.1 ? 200000 : 2000000 };
        if (trial_stopped(p)) rc = SONDE_EBUSY;
        else if (passed_s > p->start_s) rc = SONDE_EIO;
        else nanosleep(&nap, NULL);
    }
    out->wall_s = sonde_clock_s(CLOCK_MONOTONIC) - begin_s;
    sonde_tune_process_stop(&c, 0);
    if (rc == SONDE_EIO) {
        snprintf(out->reason, sizeof(out->reason), "still running after %.0f s", p->start_s);
    } else if (!rc && c.status) {
        const int n = snprintf(out->reason, sizeof(out->reason), "%s: ",
                               trial_end_words(c.status, words));
        sonde_tune_process_last_words(&c, out->reason + n, sizeof(out->reason) - (size_t)n);
        rc = SONDE_EIO;
    }
    if (!rc) {
        out->rss_bytes = (uint64_t)c.used.ru_maxrss * 1024;
        out->cpu_s = (double)(c.used.ru_utime.tv_sec + c.used.ru_stime.tv_sec) +
                     1e-6 * (double)(c.used.ru_utime.tv_usec + c.used.ru_stime.tv_usec);
        out->value = out->wall_s;
        if (p->objective == SONDE_TUNE_OBJECTIVE_METRIC) rc = trial_metric(p, &c, &out->value);
        if (!rc && !(out->value > 0 && out->value < INFINITY)) {
            snprintf(out->reason, sizeof(out->reason), "it printed no number above 0 that --metric "
                     "matches");
            rc = SONDE_EIO;
        }
    }
    sonde_tune_process_release(&c);
    return rc;
}

/* ---- One of either --------------------------------------------------------------------------- */

int sonde_tune_try(struct sonde_tune_trials *t, uint32_t point, enum sonde_tune_outcome *outcome,
                   struct sonde_tune_figures *out, struct sonde_err *err)
{
    *out = (struct sonde_tune_figures){
        .value = NAN, .tokens_per_s = NAN, .requests_per_s = NAN, .goodput_per_s = NAN,
        .ttft_s = NAN, .ttft_p95_s = NAN, .itl_s = NAN, .e2e_s = NAN, .e2e_p95_s = NAN,
        .good_ratio = NAN, .ready_s = NAN, .wall_s = NAN, .cpu_s = NAN, .client_cpu_ratio = NAN };
    const int rc = t->plan->server ? trial_server(t, point, out, err)
                                   : trial_command(t, point, out, err);
    *outcome = SONDE_TUNE_FAILED;
    if (rc == SONDE_EIO && out->reason[0]) return 0; /* it failed, and why is known */
    if (rc) return rc;
    *outcome = trial_constraints(t->plan, out);
    return 0;
}

int sonde_tune_help_ask(char *const *argv, size_t argc, struct sonde_tune_options_known *out,
                        struct sonde_err *err)
{
    char *ask[16], help[] = "--help";
    size_t n = 0;
    struct sonde_tune_process p;
    for (; n < argc && n < 14 && (n == 0 || (argv[n][0] != '-' && !strchr(argv[n], '{'))); n++) {
        ask[n] = argv[n];
    }
    ask[n++] = help;
    ask[n] = NULL;
    int rc = sonde_tune_process_start(&p, ask, "", err);
    if (rc) return rc;
    const double until = sonde_clock_s(CLOCK_MONOTONIC) + HELP_S;
    while (!sonde_tune_process_ended(&p) && sonde_clock_s(CLOCK_MONOTONIC) < until) trial_sleep();
    sonde_tune_process_stop(&p, 0);
    char *text = sonde__alloc(SONDE_TUNE_OUTPUT_KEPT + 1);
    rc = text ? 0 : sonde_err_memory(err);
    if (text) {
        const size_t len = sonde_tune_process_output(&p, text, SONDE_TUNE_OUTPUT_KEPT + 1);
        rc = sonde_tune_help_parse(text, len, out);
        if (rc) sonde_err_set(err, rc, "the help of %s cannot be read: %s", argv[0],
                              sonde_strerror(rc));
    }
    sonde__free(text);
    sonde_tune_process_release(&p);
    return rc;
}
