/* cmd_serve.c - `sonde serve`: the resident agent of a host. Finds every segment of this user,
 * reads them, serves HTTP, until it is told to end. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/cli.h"
#include "collect/collector.h"
#include "serve/profiler.h"
#include "serve/server.h"
#include "sonde/sonde.h"

static const struct sonde_cli_opt options[] = {
    SONDE_OPT_LISTEN,
    SONDE_OPT_DIR,
    SONDE_OPT_INTERVAL,
    { .name = "retain", .type = SONDE_OPT_SETTING, .value = "SECONDS",
      .setting = "agent.retain_seconds", .help = "how long ended processes stay visible" },
    { .name = "no-host", .type = SONDE_OPT_SETTING, .setting = "agent.host_metrics",
      .fixed = "false", .help = "without figures of the host" },
    { .name = "no-processes", .type = SONDE_OPT_SETTING, .setting = "agent.process_metrics",
      .fixed = "false", .help = "without CPU, memory and I/O of processes and threads" },
    { .name = NULL },
};

static void block_signals(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGHUP);
    /* Before any thread starts, so that every thread inherits it. */
    pthread_sigmask(SIG_BLOCK, set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

static void wait_for_end(const sigset_t *set)
{
    for (;;) {
        const int sig = sigwaitinfo(set, NULL);
        if (sig < 0) continue; /* EINTR: stopped and continued */
        if (sig != SIGHUP) return;
        sonde_log(SONDE_LOG_WARN, "SIGHUP: settings are read at the start only; restart to "
                                  "change them (no counts are lost)");
    }
}

static int serve(struct sonde_cli *cli, struct sonde_collector *collector,
                 struct sonde_profiler *profiler, const sigset_t *set)
{
    struct sonde_err err = { "" };
    struct sonde_server *server;
    const struct sonde_server_options o = { .listen = cli->config.server_listen,
                                            .collector = collector, .profiler = profiler };
    const int rc = sonde_server_start(&o, &server, &err);
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);

    int status = SONDE_EXIT_OK;
    if (sonde_collector_start(collector, &err) != 0) {
        status = sonde_cli_fail(cli, "%s", err.text);
    } else {
        const char *url = sonde_server_url(server);
        if (cli->log_path) sonde_log(SONDE_LOG_INFO, "listening on %s", url);
        if (!cli->quiet) dprintf(STDERR_FILENO, "sonde: listening on %s\n", url);
        wait_for_end(set);
        sonde_collector_stop(collector);
        if (cli->log_path) sonde_log(SONDE_LOG_INFO, "ending");
    }
    sonde_server_stop(server);
    return status;
}

static int run(struct sonde_cli *cli)
{
    sigset_t set;
    block_signals(&set);
    struct sonde_collector_options o = sonde_cli_collector_options(cli);
    o.agent = 1;
    struct sonde_err err = { "" };
    struct sonde_collector *collector;
    const int rc = sonde_collector_create(&o, &collector, &err);
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);

    const struct sonde_cpu_options cpu = sonde_cli_cpu_options(cli);
    const struct sonde_profiler_options p = { .collector = collector, .rate_hz = cpu.rate_hz,
                                              .depth_max = cpu.depth_max, .dir = cpu.dir };
    struct sonde_profiler *profiler = NULL;
    const int sampled = cli->config.cpu_enabled && sonde_profiler_create(&p, &profiler) == 0;
    const int status = serve(cli, collector, sampled ? profiler : NULL, &set);
    sonde_profiler_destroy(profiler);
    sonde_collector_destroy(collector);
    return status;
}

const struct sonde_command sonde_cmd_serve = {
    .name = "serve",
    .summary = "watch every process of this user that records, and serve HTTP until stopped",
    .usage = "[options]",
    .details =
        "SIGTERM and SIGINT end it with exit status 0. Counts are in the processes' segments: an "
        "agent that is restarted carries on where the last one was. SIGHUP does nothing: settings "
        "are read at the start only.\n"
        "\n"
        "While it runs, segments of ended processes stay for agent.retain_seconds and are then "
        "deleted.",
    .options = options,
    .operands_max = 0,
    .run = run,
};
