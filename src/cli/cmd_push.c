/* cmd_push.c - `sonde push`: one profile to a collector, now. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/profile.h"
#include "cli/agent_options.h"
#include "sonde/sonde.h"

enum { HEADERS_MAX = 1 << 16 };

struct push_values {
    const char *to, *kind;
    double duration_s;
};

#define AT(field) .offset = offsetof(struct push_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "to", .type = SONDE_OPT_STR, .value = "URL", AT(to),
      .help = "where to: http://HOST:4318 of a collector, http://HOST:4040 of Pyroscope" },
    { .name = "kind", .letter = 'k', .type = SONDE_OPT_STR, .value = "KIND", AT(kind),
      .help = "what takes it: otlp or pyroscope (default: pyroscope for port 4040, else otlp)",
      .choices = "otlp|pyroscope" },
    SONDE_OPT_DURATION(struct push_values, duration_s),
    SONDE_OPT_DIR,
    { .name = NULL },
};
#undef AT

/* The port that Pyroscope has unless told otherwise. */
static const char *cmd_push_kind_of(const struct push_values *v)
{
    if (v->kind) return v->kind;
    const char *host = strstr(v->to, "://"), *port = host ? strstr(host + 3, ":4040") : NULL;
    return port && (port[5] == '\0' || port[5] == '/') ? "pyroscope" : "otlp";
}

static int cmd_push_run(struct sonde_cli *cli)
{
    const struct push_values *v = cli->values;
    if (!cli->operand_count || !v->to) {
        return sonde_cli_usage(cli, "say what and where to: sonde push FILE --to URL");
    }
    struct sonde_profile *p;
    const struct sonde_cli_filter filter = { 0 };
    const int status = sonde_cli_profile(cli, cli->operands[0], v->duration_s, &filter, &p);
    if (status) return status;
    struct sonde_buf headers;
    struct sonde_err err = { "" };
    sonde_buf_init(&headers, HEADERS_MAX);
    struct sonde_push_target t = { .kind = cmd_push_kind_of(v), .url = v->to };
    int rc = sonde_cli_push_headers(cli, t.kind, &headers, &err);
    t.headers = headers.data;
    if (!rc) {
        rc = sonde_push_once(&t, cli->config.push_labels, cli->config.push_timeout_seconds, p,
                             &err);
    }
    if (headers.data) explicit_bzero(headers.data, headers.len);
    sonde_buf_release(&headers);
    sonde_profile_destroy(p);
    if (!rc) return SONDE_EXIT_OK;
    return rc == SONDE_EINVAL ? sonde_cli_usage(cli, "%s", err.text)
                              : sonde_cli_fail(cli, "%s", err.text);
}

const struct sonde_command sonde_cmd_push = {
    .name = "push",
    .summary = "send a profile to an OTLP collector or to Pyroscope",
    .usage = "[options] FILE|URL|PID --to URL",
    .details =
        "FILE is a run, or what `sonde import` takes; a URL or PID is sampled now. Each kind of "
        "samples in it (CPU, time blocked, memory) is sent as a profile. It is tried once: exit "
        "status 1 says that it was not taken, and why on stderr.\n"
        "\n"
        "`sonde serve` and `sonde run` send by themselves, all the time: --otlp, --remote-write, "
        "--pyroscope. Headers, such as a token, come from files (push.otlp_headers, "
        "push.pyroscope_headers) or from SONDE_OTLP_TOKEN and SONDE_PYROSCOPE_TOKEN.\n"
        "\n"
        "examples:\n"
        "  sonde push server.run --to http://collector:4318\n"
        "  sonde push --duration 10 4711 --to http://pyroscope:4040",
    .options = options,
    .values_size = sizeof(struct push_values),
    .operands_max = 1,
    .run = cmd_push_run,
};
