/* cmd_mark.c - `sonde mark`: tell an agent that warm-up is over, or note a text on its time
 * axis. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "sonde/sonde.h"

#define ANSWER_MAX ((size_t)1 << 20)

struct mark_values { uint64_t pid; const char *message; };

static const struct sonde_cli_opt options[] = {
    { .name = "pid", .letter = 'p', .type = SONDE_OPT_UINT, .value = "PID", .min = 1,
      .max = 4194304, .offset = offsetof(struct mark_values, pid),
      .help = "of this process only (default: of all whose heap is profiled)" },
    { .name = "message", .letter = 'm', .type = SONDE_OPT_STR, .value = "TEXT",
      .offset = offsetof(struct mark_values, message),
      .help = "note TEXT on the time axis of the dashboard, such as a deployment; nothing is said "
              "about warm-up then" },
    { .name = NULL },
};

/* The agent's URL with the route. -1: does not fit. */
static int mark_url(const struct sonde_cli *cli, char *out, size_t out_size)
{
    const struct mark_values *v = cli->values;
    char path[80] = "/api/marks", here[sizeof(cli->config.server_listen) + 16];
    if (!v->message) {
        snprintf(path, sizeof(path), v->pid ? "/admin/profile/mark?pid=%llu"
                                            : "/admin/profile/mark", (unsigned long long)v->pid);
    }
    snprintf(here, sizeof(here), "http://%s", cli->config.server_listen);
    return sonde_cli_url(out, out_size, cli->operand_count ? cli->operands[0] : here, path);
}

/* Of a mark that was made, or of the processes whose warm-up is over. */
static int answer_tell(const struct sonde_cli *cli, const char *url, const struct sonde_buf *body)
{
    const struct mark_values *v = cli->values;
    json_t *answer = body->len ? json_loadb(body->data, body->len, 0, NULL) : NULL;
    const json_int_t count = json_integer_value(json_object_get(answer, "marked"));
    const char *id = json_string_value(json_object_get(answer, "id"));
    int status = SONDE_EXIT_OK;
    if (!json_is_object(answer) || (v->message && !id)) {
        status = sonde_cli_fail(cli, "%s: not an agent's answer", url);
    } else if (!cli->quiet && v->message) {
        printf("mark %s\n", id);
    } else if (!cli->quiet) {
        printf("marked %lld process%s\n", (long long)count, count == 1 ? "" : "es");
    }
    json_decref(answer);
    return status;
}

static int message_post(const char *url, const char *message, struct sonde_buf *out,
                        struct sonde_err *err)
{
    json_t *mark = json_pack("{s:s}", "text", message);
    char *body = mark ? json_dumps(mark, JSON_COMPACT) : NULL;
    const int rc = body ? sonde_cli_post_body(url, body, ANSWER_MAX, SONDE_CLI_FETCH_S, out, err)
                        : sonde_err_set(err, SONDE_EINVAL, "the message is not UTF-8");
    if (!body) sonde_buf_init(out, 0);
    free(body);
    json_decref(mark);
    return rc;
}

static int cmd_mark_run(struct sonde_cli *cli)
{
    const struct mark_values *v = cli->values;
    char url[4096];
    if (cli->operand_count && !sonde_cli_is_url(cli->operands[0])) {
        return sonde_cli_usage(cli, "'%s' is not a URL, which begins with http://",
                               cli->operands[0]);
    }
    if (v->message && v->pid) {
        return sonde_cli_usage(cli, "--message is of all processes: leave out --pid");
    }
    if (mark_url(cli, url, sizeof(url)) != 0) return sonde_cli_usage(cli, "too long a URL");
    struct sonde_buf body;
    struct sonde_err err = { "" };
    const int rc = v->message
                       ? message_post(url, v->message, &body, &err)
                       : sonde_cli_post(url, NULL, ANSWER_MAX, SONDE_CLI_FETCH_S, &body, &err);
    const int status = rc == SONDE_EINVAL ? sonde_cli_usage(cli, "%s", err.text)
                       : rc ? sonde_cli_fail(cli, "%s", err.text) : answer_tell(cli, url, &body);
    sonde_buf_release(&body);
    return status;
}

const struct sonde_command sonde_cmd_mark = {
    .name = "mark",
    .summary = "say that a program has warmed up, or note a text on the time axis",
    .usage = "[options] [URL]",
    .details =
        "What is allocated after the mark and still in use is what `--type leaked` shows, until "
        "the process ends; verdicts on leaks look at what happens after it. Without a mark the "
        "end of warm-up is found from the curve of all memory in use.\n"
        "\n"
        "With -m it is a note instead: a line with that text on every chart of the dashboard, and "
        "in /api/events.\n"
        "\n"
        "URL is an agent's (`sonde run` tells it; default: the setting server.listen).\n"
        "\n"
        "examples:\n"
        "  sonde mark\n"
        "  sonde mark http://127.0.0.1:6061\n"
        "  sonde mark -m 'deploy 42'",
    .options = options,
    .values_size = sizeof(struct mark_values),
    .operands_max = 1,
    .run = cmd_mark_run,
};
