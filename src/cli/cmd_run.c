/* cmd_run.c - `sonde run -- CMD…`: the command as if we were not there, and the agent beside it.
 *
 * Standard input and output are the command's alone. So is stderr unless it is a terminal (or -v
 * is given), where a line at the start and a few at the end help more than they hurt; failures of
 * our own are told in any case. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "analyze/window.h"
#include "base/log.h"
#include "cli/child.h"
#include "cli/cli.h"
#include "collect/collector.h"
#include "present/text.h"
#include "present/units.h"
#include "serve/server.h"
#include "sonde/sonde.h"

enum { PORT_TRIES = 20, BUSIEST = 3 };

struct run_values {
    double keep_s;
    int no_http;
};

static const struct sonde_cli_opt options[] = {
    SONDE_OPT_LISTEN,
    { .name = "no-http", .type = SONDE_OPT_FLAG, .help = "do not serve HTTP",
      .offset = offsetof(struct run_values, no_http) },
    { .name = "keep", .letter = 'k', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0,
      .max = 1e9, .help = "keep serving this long after CMD has ended",
      .offset = offsetof(struct run_values, keep_s) },
    SONDE_OPT_DIR,
    SONDE_OPT_INTERVAL,
    { .name = NULL },
};

struct run {
    const struct sonde_cli *cli;
    const struct run_values *values;
    struct sonde_child child;
    struct sonde_collector *collector; /* NULL: it could not be started; CMD runs on */
    struct sonde_server *server;       /* NULL: none wanted, or it could not be started */
    double started_s;                  /* CLOCK_MONOTONIC */
};

static double monotonic_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One write each: the command may be writing to the same terminal. */
static void say(const char *line)
{
    dprintf(STDERR_FILENO, "sonde: %s\n", line);
}

/* For who wants to know: the log, and stderr if it is a terminal or -v was given. */
__attribute__((format(printf, 2, 3)))
static void tell(const struct run *r, const char *format, ...)
{
    char line[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    if (r->cli->log_path) sonde_log(SONDE_LOG_INFO, "%s", line);
    if (r->cli->verbose || (!r->cli->quiet && isatty(STDERR_FILENO))) say(line);
}

/* Something of ours does not work. */
static void tell_failure(const struct run *r, const char *what, const struct sonde_err *err)
{
    char line[1024];
    snprintf(line, sizeof(line), "%s: %s", what, err->text);
    if (r->cli->log_path) sonde_log(SONDE_LOG_ERROR, "%s", line);
    if (!r->cli->quiet) say(line);
}

/* ---- The summary -------------------------------------------------------------------------- */

struct busy {
    const struct sonde_model_series *series;
    uint64_t count;
};

static void busiest_add(struct busy busy[BUSIEST], const struct sonde_model_series *s)
{
    struct busy one = { s, s->hist->count };
    for (size_t i = 0; i < BUSIEST; i++) {
        if (busy[i].count >= one.count) continue;
        const struct busy shifted = busy[i];
        busy[i] = one;
        one = shifted;
    }
}

static void tell_histogram(const struct run *r, const struct sonde_model_series *s)
{
    const struct sonde_model_family *f = s->family;
    const struct sonde_hist_value *h = s->hist;
    const uint64_t *const *octave = (const uint64_t *const *)h->octave;
    const double p50 = sonde_quantile(0.5, h->zero, octave);
    const double p99 = sonde_quantile(0.99, h->zero, octave);

    const enum sonde_unit unit = sonde_unit_of(f->unit, f->name);
    const int ascii = sonde_text_locale_ascii();
    char a[SONDE_VALUE_BYTES], b[SONDE_VALUE_BYTES];
    tell(r, "  %s{%s}: %llu recorded, p50 %s, p99 %s", f->name, s->label_text,
         (unsigned long long)h->count, sonde_value_format(a, p50, unit, ascii),
         sonde_value_format(b, p99, unit, ascii));
}

static void tell_model(const struct run *r)
{
    struct sonde_model *m = sonde_collector_model(r->collector);
    struct busy busy[BUSIEST] = { { NULL, 0 } };
    size_t series = 0;
    pthread_rwlock_rdlock(&m->lock);
    for (size_t i = 0; i < m->family_count; i++) {
        const struct sonde_model_family *f = m->families[i];
        for (size_t j = 0; j < f->series_count; j++) {
            const struct sonde_model_series *s = f->series[j];
            if (!s->process) continue;
            series++;
            if (f->type == SONDE_HISTOGRAM && s->hist) busiest_add(busy, s);
        }
    }
    tell(r, "%zu series, %llu spans", series, (unsigned long long)m->span_next);
    for (size_t i = 0; i < BUSIEST && busy[i].series; i++) tell_histogram(r, busy[i].series);
    pthread_rwlock_unlock(&m->lock);
}

static void tell_end(const struct run *r, int status)
{
    char time[SONDE_VALUE_BYTES];
    sonde_value_format(time, monotonic_s() - r->started_s, SONDE_UNIT_SECONDS,
                       sonde_text_locale_ascii());
    if (WIFEXITED(status)) {
        tell(r, "%s ran %s, exit status %d", r->cli->operands[0], time, WEXITSTATUS(status));
    } else {
        const int sig = WTERMSIG(status);
        const char *name = sigabbrev_np(sig);
        tell(r, "%s ran %s, killed by signal %d (%s%s)%s", r->cli->operands[0], time, sig,
             name ? "SIG" : "real-time", name ? name : "",
             WCOREDUMP(status) ? ", core dumped" : "");
    }
    if (r->collector) tell_model(r);
}

/* ---- The agent ---------------------------------------------------------------------------- */

/* A mistake of the user's ends everything before CMD starts; anything else is told. */
static int start_server(struct run *r)
{
    const struct sonde_cli *cli = r->cli;
    if (r->values->no_http || !r->collector) return SONDE_EXIT_OK;

    struct sonde_config_values defaults;
    sonde_config_defaults(&defaults);
    const int chosen = sonde_cli_was_set(cli, "server.listen") ||
                       strcmp(cli->config.server_listen, defaults.server_listen) != 0;
    const struct sonde_server_options o = {
        .listen = cli->config.server_listen,
        .port_tries = chosen ? 0 : PORT_TRIES,
        .collector = r->collector,
    };
    struct sonde_err err = { "" };
    if (sonde_server_start(&o, &r->server, &err) == 0) return SONDE_EXIT_OK;
    if (chosen) return sonde_cli_usage(cli, "%s", err.text);
    tell_failure(r, "HTTP is not served", &err);
    return SONDE_EXIT_OK;
}

static int start_agent(struct run *r)
{
    struct sonde_collector_options o = sonde_cli_collector_options(r->cli);
    o.agent = 1;
    o.pid = (uint32_t)r->child.pid;
    struct sonde_err err = { "" };
    if (sonde_collector_create(&o, &r->collector, &err) != 0) {
        r->collector = NULL;
        if (sonde_cli_was_set(r->cli, "agent.dir")) return sonde_cli_usage(r->cli, "%s", err.text);
        tell_failure(r, "nothing is collected", &err);
    }
    return start_server(r);
}

static void start_collecting(struct run *r)
{
    struct sonde_err err = { "" };
    if (r->collector && sonde_collector_start(r->collector, &err) != 0) {
        tell_failure(r, "readings are taken at the end only", &err);
    }
}

static void stop_agent(struct run *r)
{
    sonde_server_stop(r->server);
    sonde_collector_destroy(r->collector);
}

static int exec_failed(const struct run *r, int error)
{
    const char *name = r->cli->operands[0];
    const char *why = strerror(error);
    if (error == ENOENT) {
        why = strchr(name, '/') ? "no such file, or the interpreter it names is missing"
                                : "command not found";
    }
    sonde_cli_fail(r->cli, "%s: %s", name, why);
    return sonde_child_exec_status(error);
}

static int run_child(struct run *r)
{
    r->started_s = monotonic_s();
    const int error = sonde_child_exec(&r->child);
    if (error) {
        stop_agent(r);
        return exec_failed(r, error);
    }
    /* Not before: until then the process is a copy of us, by name too. */
    if (r->collector) sonde_collector_watch(r->collector, (uint32_t)r->child.pid);
    start_collecting(r);
    if (r->server) {
        tell(r, "%s shows process %d (%s)", sonde_server_url(r->server), (int)r->child.pid,
             r->cli->operands[0]);
    }
    const int status = sonde_child_wait(&r->child);

    /* What CMD recorded after the last tick is still in its segment. */
    if (r->collector) {
        sonde_collector_stop(r->collector);
        sonde_collector_step(r->collector);
    }
    tell_end(r, status);
    if (r->values->keep_s > 0 && r->server) {
        tell(r, "serving %s for %g s more; Ctrl-C ends it", sonde_server_url(r->server),
             r->values->keep_s);
        start_collecting(r);
        sonde_child_linger(r->values->keep_s);
    }
    stop_agent(r);
    return sonde_child_end(status);
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

static int run(struct sonde_cli *cli)
{
    struct run r = { .cli = cli, .values = cli->values };
    if (cli->operand_count == 0) {
        return sonde_cli_usage(cli, "say what to run: sonde run [options] -- CMD [ARGUMENT]...");
    }
    struct sonde_err err = { "" };
    char dir[4096 + sizeof(cli->config.agent_dir)];
    if (sonde_child_fork(&r.child, cli->operands, child_dir(cli, dir, sizeof(dir)), &err) != 0) {
        return sonde_cli_fail(cli, "%s", err.text);
    }
    const int status = start_agent(&r);
    if (status != SONDE_EXIT_OK) {
        sonde_child_cancel(&r.child);
        stop_agent(&r);
        return status;
    }
    return run_child(&r);
}

const struct sonde_command sonde_cmd_run = {
    .name = "run",
    .summary = "run a command and show what it does: on HTTP while it runs, in a few lines after",
    .usage = "[options] [--] CMD [ARGUMENT]...",
    .details =
        "CMD's standard input, output and error, its environment, signals and exit status are its "
        "own: sonde writes to stderr only if that is a terminal or -v is given. Signals sent to "
        "sonde are passed on; if CMD dies by a signal, so does sonde. If CMD cannot be found the "
        "exit status is 127, if it cannot be executed 126.\n"
        "\n"
        "If port 6060 is taken, the next free one is used. With --listen (or the setting "
        "server.listen) exactly that one is.\n"
        "\n"
        "examples:\n"
        "  sonde run -- ./server --port 8080\n"
        "  sonde run --listen 127.0.0.1:0 --log sonde.log --keep 60 -- make bench",
    .options = options,
    .values_size = sizeof(struct run_values),
    .operands_max = -1,
    .stop_at_operand = 1,
    .stderr_is_theirs = 1,
    .run = run,
};
