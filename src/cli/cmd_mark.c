/* cmd_mark.c - `sonde mark`: tell an agent that warm-up is over. */
#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"

#define ANSWER_MAX ((size_t)1 << 20)

struct mark_values { uint64_t pid; };

static const struct sonde_cli_opt options[] = {
    { .name = "pid", .letter = 'p', .type = SONDE_OPT_UINT, .value = "PID", .min = 1,
      .max = 4194304, .offset = offsetof(struct mark_values, pid),
      .help = "of this process only (default: of all whose heap is profiled)" },
    { .name = NULL },
};

/* The agent's URL with the route. -1: does not fit. */
static int mark_url(const struct sonde_cli *cli, char *out, size_t out_size)
{
    const struct mark_values *v = cli->values;
    char path[80], here[sizeof(cli->config.server_listen) + 16];
    snprintf(path, sizeof(path), v->pid ? "/admin/profile/mark?pid=%llu" : "/admin/profile/mark",
             (unsigned long long)v->pid);
    snprintf(here, sizeof(here), "http://%s", cli->config.server_listen);
    return sonde_cli_url(out, out_size, cli->operand_count ? cli->operands[0] : here, path);
}

static int run(struct sonde_cli *cli)
{
    char url[4096];
    if (cli->operand_count && !sonde_cli_is_url(cli->operands[0])) {
        return sonde_cli_usage(cli, "'%s' is not a URL, which begins with http://",
                               cli->operands[0]);
    }
    if (mark_url(cli, url, sizeof(url)) != 0) return sonde_cli_usage(cli, "too long a URL");
    struct sonde_buf body;
    struct sonde_err err = { "" };
    int status = SONDE_EXIT_OK;
    if (sonde_cli_post(url, NULL, ANSWER_MAX, SONDE_CLI_FETCH_S, &body, &err) != 0) {
        status = sonde_cli_fail(cli, "%s", err.text);
    } else {
        json_t *answer = body.len ? json_loadb(body.data, body.len, 0, NULL) : NULL;
        const json_int_t count = json_integer_value(json_object_get(answer, "marked"));
        if (!json_is_object(answer)) {
            status = sonde_cli_fail(cli, "%s: not an agent's answer", url);
        } else if (!cli->quiet) {
            printf("marked %lld process%s\n", (long long)count, count == 1 ? "" : "es");
        }
        json_decref(answer);
    }
    sonde_buf_release(&body);
    return status;
}

const struct sonde_command sonde_cmd_mark = {
    .name = "mark",
    .summary = "say that a program has warmed up: growth of its memory counts from now on",
    .usage = "[options] [URL]",
    .details =
        "What is allocated after the mark and still in use is what `--type leaked` shows, until "
        "the process ends; verdicts on leaks look at what happens after it. Without a mark the "
        "end of warm-up is found from the curve of all memory in use.\n"
        "\n"
        "URL is an agent's (`sonde run` tells it; default: the setting server.listen).\n"
        "\n"
        "examples:\n"
        "  sonde mark\n"
        "  sonde mark http://127.0.0.1:6061",
    .options = options,
    .values_size = sizeof(struct mark_values),
    .operands_max = 1,
    .run = run,
};
