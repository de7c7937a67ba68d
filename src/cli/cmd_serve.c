/* cmd_serve.c - `sonde serve`: the resident agent of a host. Finds every segment of this user,
 * reads them, serves HTTP, until it is told to end. With an upstream it is the front of that: the
 * port is the front's then, and the agent's own server gets its requests from there. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/log.h"
#include "base/visible.h"
#include "cli/agent_options.h"
#include "cli/cli.h"
#include "front/front.h"
#include "serve/http/listen.h"
#include "serve/http/server.h"
#include "sonde/sonde.h"

struct serve_values {
    const char *continuous;
    struct sonde_cli_list scrape;
};

static const struct sonde_cli_opt options[] = {
    SONDE_OPT_LISTEN,
    { .name = "upstream", .letter = 'u', .type = SONDE_OPT_SETTING, .value = "URL",
      .setting = "server.upstream",
      .help = "be the front of this inference server and measure its requests" },
    { .name = "ab", .type = SONDE_OPT_SETTING, .value = "URL", .setting = "ab.split",
      .help = "a second server that answers a share of them, compared with the first" },
    { .name = "mirror", .type = SONDE_OPT_SETTING, .value = "URL", .setting = "ab.mirror",
      .help = "or one that gets copies of a share, whose answers are dropped" },
    { .name = "share", .type = SONDE_OPT_SETTING, .value = "SHARE", .setting = "ab.share",
      .help = "that share (default 10% of --ab, 100% of --mirror)" },
    SONDE_OPT_SCRAPE(struct serve_values, scrape),
    SONDE_OPT_STORE,
    SONDE_OPT_CONTINUOUS(struct serve_values, continuous),
    SONDE_OPT_PUSH,
    SONDE_OPT_STRIP,
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

struct cmd_serve_running {
    const struct sonde_cli *cli;
    int status;                  /* of what is missing and was told */
    struct sonde_agent *agent;
    struct sonde_server *server;
    int own_health;
};

/* ---- The front ---------------------------------------------------------------------------- */

enum { DRAIN_MS = 5000 }; /* what streams get to end in when the agent does */

static int cmd_serve_owns(const char *path, void *arg)
{
    return sonde_server_owns(path, ((const struct cmd_serve_running *)arg)->own_health);
}

static int cmd_serve_adopt(int fd, int64_t who, void *arg)
{
    return sonde_server_adopt(((const struct cmd_serve_running *)arg)->server, fd, who);
}

static int64_t cmd_serve_caller(int client_fd, void *arg)
{
    (void)arg;
    return sonde_caller_of(client_fd);
}

static int is_here(const char *host, void *arg)
{
    return sonde_server_host_ok(((const struct cmd_serve_running *)arg)->server, host);
}

/* One a connection, two a stream: the usual 1024 are soon used up. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const rlim_t wanted = limit.rlim_max < 65536 ? limit.rlim_max : 65536;
    if (limit.rlim_cur >= wanted) return;
    limit.rlim_cur = wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* The second server. Nothing is asked for: mode stays SONDE_FRONT_ONE. */
static int cmd_serve_ab(const struct sonde_config_values *config, struct sonde_front_ab *ab,
                        struct sonde_err *err)
{
    const int split = config->ab_split[0] != 0, mirror = config->ab_mirror[0] != 0;
    if (split && mirror) {
        return sonde_err_set(err, SONDE_EINVAL, "there are both a server to split requests with "
                             "(--ab, ab.split) and one to mirror them to (--mirror, ab.mirror): "
                             "choose one");
    }
    if (!split && !mirror) {
        if (!config->ab_share[0]) return 0;
        return sonde_err_set(err, SONDE_EINVAL, "a share of requests (--share, ab.share) needs a "
                                                "second server: --ab URL or --mirror URL");
    }
    if (!config->server_upstream[0]) {
        return sonde_err_set(err, SONDE_EINVAL, "a second server (--ab, --mirror) needs a first: "
                                                "--upstream URL");
    }
    if (strlen(config->ab_session_header) > SONDE_FRONT_SESSION_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "ab.session_header is longer than %d characters",
                             SONDE_FRONT_SESSION_MAX);
    }
    ab->mode = split ? SONDE_FRONT_SPLIT : SONDE_FRONT_MIRROR;
    ab->copies_max = (uint32_t)config->ab_mirror_requests;
    ab->copy_bytes_max = (uint32_t)config->ab_mirror_request_kilobytes << 10;
    ab->copies_bytes_max = (uint32_t)config->ab_mirror_megabytes << 20;
    ab->copy_timeout_ms = (uint32_t)(config->ab_mirror_timeout_seconds * 1000);
    memcpy(ab->session, config->ab_session_header, strlen(config->ab_session_header) + 1);
    const char *share = config->ab_share[0] ? config->ab_share : split ? "10%" : "100%";
    const int rc = sonde_front_share_parse(share, &ab->share_ppm, err);
    return rc ? rc
              : sonde_front_upstream_parse(split ? config->ab_split : config->ab_mirror,
                                           &ab->upstream, err);
}

/* The port is opened before anything is started, so that a bad one is reported at once. */
static int start_front(struct sonde_cli *cli, struct cmd_serve_running *r, struct sonde_err *err)
{
    struct sonde_front_options o = { .own = cmd_serve_owns,
                                     .adopt = cmd_serve_adopt,
                                     .who = cmd_serve_caller,
                                     .arg = r,
                                     .host_ok = is_here,
                                     .drain_ms = DRAIN_MS,
                                     .poll_percent =
                                         (uint32_t)cli->config.server_upstream_poll_percent };
    struct sonde_listen where;
    char url[80], token[SONDE_TOKEN_MAX + 1];
    struct sonde_server_options s = { .url = url, .agent = r->agent };
    const struct sonde_arms_settings compared = {
        .block_s = cli->config.ab_block_seconds,
        .block_values = (uint32_t)cli->config.ab_block_requests,
        .detect = cli->config.ab_detect_percent / 100 };
    int rc = sonde_front_upstream_parse(cli->config.server_upstream, &o.upstream, err);
    if (!rc) rc = cmd_serve_ab(&cli->config, &o.ab, err);
    if (!rc) rc = sonde_cli_server_options(cli, &s, token, err);
    if (!rc) rc = sonde_listen_parse(cli->config.server_listen, &where, err);
    if (!rc && (!sonde_listen_is_loopback(&where) || *s.tls_certificate)) {
        rc = sonde_err_set(err, SONDE_EINVAL, "with an upstream sonde listens on loopback "
                                              "addresses only, without TLS: put a proxy before it");
    }
    if (!rc) rc = sonde_listen_open(&where, 0, &o.listen_fd, err);
    if (rc) return rc;
    sonde_listen_url(&where, 0, url, sizeof(url));
    r->own_health = cli->config.server_own_health;
    rc = sonde_server_start(&s, &r->server, err);
    if (!rc) rc = sonde_agent_front(r->agent, &o, &compared, err);
    if (rc) close(o.listen_fd);
    return rc;
}

/* ---- The whole ---------------------------------------------------------------------------- */

static int cmd_serve_start(struct sonde_cli *cli, struct cmd_serve_running *r,
                           struct sonde_err *err)
{
    raise_descriptors();
    if (cli->config.server_upstream[0]) return start_front(cli, r, err);
    struct sonde_front_ab none = { .mode = SONDE_FRONT_ONE };
    const int bad = cmd_serve_ab(&cli->config, &none, err);
    if (bad) return bad;
    char token[SONDE_TOKEN_MAX + 1];
    struct sonde_server_options o = { .listen = cli->config.server_listen, .agent = r->agent };
    const int rc = sonde_cli_server_options(cli, &o, token, err);
    return rc ? rc : sonde_server_start(&o, &r->server, err);
}

static void cmd_serve_announce(const struct sonde_cli *cli, const struct cmd_serve_running *r)
{
    const char *url = sonde_server_url(r->server), *upstream = cli->config.server_upstream;
    const char *split = cli->config.ab_split, *mirror = cli->config.ab_mirror;
    char text[2048], second[640] = "";
    if (*split || *mirror) {
        const char *share = cli->config.ab_share;
        snprintf(second, sizeof(second), "; %s of inference requests %s %.300s",
                 *share ? share : *split ? "10%" : "100%", *split ? "go to" : "are mirrored to",
                 *split ? split : mirror);
    }
    snprintf(text, sizeof(text), "listening on %s%s%.300s%s", url,
             *upstream ? ", the front of " : "", upstream, second);
    if (cli->log_path) sonde_log(SONDE_LOG_INFO, "%s", text);
    if (!cli->quiet) sonde_visible_printf(STDERR_FILENO, "sonde: %s\n", text);
}

static int cmd_serve_missing(enum sonde_agent_part part, int rc, const struct sonde_err *err,
                             void *arg)
{
    struct cmd_serve_running *r = arg;
    r->status = sonde_cli_agent_missing(r->cli, part, rc, err);
    return r->status != SONDE_EXIT_OK;
}

static int cmd_serve_open(struct sonde_cli *cli, struct cmd_serve_running *r)
{
    const struct serve_values *v = cli->values;
    const struct sonde_cli_agent_wants wants = { .http = 1, .keep = 1, .scrape = &v->scrape };
    struct sonde_cli_agent a;
    struct sonde_err err = { "" };
    int status = sonde_cli_agent_options(cli, &wants, &a);
    a.options.profile = 1;
    a.options.missing = cmd_serve_missing;
    a.options.missing_arg = r;
    if (!status && sonde_agent_open(&a.options, &r->agent, &err) != 0) {
        status = r->status ? r->status : sonde_cli_fail(cli, "%s", err.text);
    }
    sonde_cli_agent_release(&a);
    return status;
}

static int cmd_serve_profile(struct sonde_cli *cli, struct cmd_serve_running *r)
{
    const struct serve_values *v = cli->values;
    struct sonde_continuous_options o = { 0 };
    struct sonde_err err = { "" };
    const int status = sonde_cli_continuous(cli, v->continuous, &o);
    if (status) return status;
    if (o.settings.enabled && !r->agent->store && !cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde: profiles are kept in memory, until it ends: "
                                            "--store FILE keeps them\n");
    }
    return sonde_agent_profile(r->agent, &o, &err) == 0 ? SONDE_EXIT_OK : r->status;
}

static int cmd_serve_until_signal(struct sonde_cli *cli, struct cmd_serve_running *r,
                                  const sigset_t *set)
{
    struct sonde_err err = { "" };
    const int rc = cmd_serve_start(cli, r, &err);
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);
    if (sonde_agent_start(r->agent, &err) != 0) return r->status;
    cmd_serve_announce(cli, r);
    wait_for_end(set);
    return SONDE_EXIT_OK;
}

static int cmd_serve_run(struct sonde_cli *cli)
{
    sigset_t set;
    block_signals(&set);
    struct cmd_serve_running r = { .cli = cli };
    int status = cmd_serve_open(cli, &r);
    if (status) return status;
    status = cmd_serve_profile(cli, &r);
    if (!status) status = cmd_serve_until_signal(cli, &r, &set);
    sonde_agent_stop(r.agent, 0);
    if (!status && cli->log_path) sonde_log(SONDE_LOG_INFO, "ending");
    sonde_server_stop(r.server);
    sonde_agent_close(r.agent);
    return status;
}

const struct sonde_command sonde_cmd_serve = {
    .name = "serve",
    .summary = "watch every process of this user that records, and serve HTTP until stopped",
    .usage = "[options]",
    .details =
        "SIGTERM and SIGINT end it with exit status 0. Counts are in the processes' segments, and "
        "those of spans and requests in agent.state beside them: an agent that is restarted, also "
        "after SIGKILL, carries on where the last one was. What the processes' rings did not hold "
        "until then is counted as lost. SIGHUP does nothing: settings are read at the start only.\n"
        "\n"
        "While it runs, segments of ended processes stay for agent.retain_seconds and are then "
        "deleted.\n"
        "\n"
        "With --store (or the setting storage.path) every reading of every series is written to a "
        "file, at once: /api/query?from=…&to=…&step=… answers from it, also for times before the "
        "agent was started. A store takes about a byte a reading; storage.retention_days, "
        "raw_hours and max_megabytes bound it. `sonde runs` lists what is in it. Without a store "
        "the last hours are kept in a temporary file, storage.recent_megabytes of them at the "
        "most.\n"
        "\n"
        "With --continuous the CPU of these processes is sampled all the time, at a rate that "
        "costs next to nothing, and kept in the store by the minute, merged to hours and days: "
        "/api/profile?from=…&to=…&format=svg draws any of it, `sonde flamegraph --from -3600 URL` "
        "the last hour. /admin/profile/continuous shows what it costs and changes it.\n"
        "\n"
        "With --scrape (or the setting scrape.targets, which can say more of each) it reads other "
        "exporters' /metrics as well; their series have the labels job and instance.\n"
        "\n"
        "OpenTelemetry's SDKs can send metrics and traces to it (OTLP/HTTP, /v1/metrics and "
        "/v1/traces): OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:6060.\n"
        "\n"
        "With --otlp, --remote-write and --pyroscope what it knows is sent on, every "
        "push.interval_seconds; what cannot be sent waits on disk and is sent later, also by the "
        "next agent. sonde_push_… on /metrics says how that goes; `sonde help config` lists the "
        "settings, push.….\n"
        "\n"
        "With --upstream it passes all requests on to that server, streams included, and measures "
        "them: time to first token, time between tokens, tokens, errors. /metrics, /admin/…, "
        "/profiling/…, /debug/pprof/… and its own /api/… are answered by sonde itself. When it is "
        "told to end, requests under way have five seconds to do so. A request with the header "
        "X-Profile: true is profiled alone: its answer has an X-Profile-Id, and "
        "/admin/profile/requests/ID the profile.\n"
        "\n"
        "With --ab a second server answers a share of the inference requests, chosen by a hash of "
        "the header X-Session-Id or else of the trace; while it cannot be reached the first one "
        "does. With --mirror it gets copies instead, and nobody waits for its answers. "
        "`sonde ab URL` and /api/ab compare the two: time to first token, time between tokens, "
        "duration, speed, errors, with intervals that may be looked at at any time.\n"
        "\n"
        "Programs of this user and of root may ask, those of other users of this machine only for "
        "/metrics, health and the dashboard without its data (and they may send OTLP); "
        "server.local_users=all lets them ask for everything. To ask callers for a token "
        "put one of 16 characters or more in SONDE_TOKEN or in the file of server.token_file: then "
        "`Authorization: Bearer TOKEN` is needed for everything but /livez, /readyz, /healthz and "
        "the dashboard's pages without their data (and /metrics and /health, "
        "if server.open_metrics and server.open_health are set), and other than loopback addresses "
        "may be listened on; server.hosts are names they may be called by, and whose web pages "
        "may read answers. Commands that take a URL send SONDE_TOKEN. server.tls_certificate and "
        "server.tls_key make it HTTPS.",
    .options = options,
    .values_size = sizeof(struct serve_values),
    .operands_max = 0,
    .measures = 1,
    .run = cmd_serve_run,
};
