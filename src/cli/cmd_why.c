/* cmd_why.c - `sonde why`: what the latency of a request, a span or a trace consisted of, and what
 * tells the slow ones from the rest. Wherever it comes from, it comes as the JSON of /api/why. */
#include <curl/curl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "present/grid.h"
#include "present/report/why.h"
#include "present/text.h"
#include "sonde/sonde.h"

#define ANSWER_MAX ((size_t)256 << 20)

struct why_values {
    const char *slowest, *span, *trace, *from, *to, *format;
    uint64_t width;
};

#define AT(field) .offset = offsetof(struct why_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "slowest", .type = SONDE_OPT_STR, .value = "N|PERCENT%", AT(slowest),
      .help = "the slowest requests, or with --span spans, against the rest (default 1%)" },
    { .name = "span", .letter = 's', .type = SONDE_OPT_STR, .value = "GLOB", AT(span),
      .help = "spans of such a name instead of inference requests" },
    { .name = "trace", .type = SONDE_OPT_STR, .value = "ID", AT(trace),
      .help = "all spans of a trace (32 hexadecimal digits, or a UUID)" },
    { .name = "from", .type = SONDE_OPT_STR, .value = "TIME", AT(from),
      .help = "of an agent: since this Unix time, in seconds (default a minute ago)" },
    { .name = "to", .type = SONDE_OPT_STR, .value = "TIME", AT(to), .help = "up to here, alike" },
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT",
      .choices = "text|json", AT(format), .help = "how it is written (default text)" },
    { .name = "width", .letter = 'w', .type = SONDE_OPT_UINT, .value = "COLUMNS", .min = 40,
      .max = SONDE_GRID_MAX, AT(width), .help = "columns of the table (default the terminal's)" },
    { .name = NULL },
};
#undef AT

/* ---- An agent -------------------------------------------------------------------------------- */

static void cmd_why_add_parameter(struct sonde_buf *b, const char *name, const char *value)
{
    char *escaped = value ? curl_easy_escape(NULL, value, 0) : NULL;
    if (value && !escaped) b->error = SONDE_ENOMEM;
    if (escaped) {
        sonde_buf_printf(b, "%s%s=%s", b->data && strchr(b->data, '?') ? "&" : "?", name, escaped);
    }
    curl_free(escaped);
}

static int cmd_why_ask_agent(const struct sonde_cli *cli, const char *target, const char *request,
                             struct sonde_buf *out)
{
    const struct why_values *v = cli->values;
    char url[8192];
    struct sonde_err err = { "" };
    struct sonde_buf path;
    sonde_buf_init(&path, sizeof(url));
    if (request) {
        char *escaped = curl_easy_escape(NULL, request, 0);
        sonde_buf_printf(&path, "/api/requests/%s/why", escaped ? escaped : "");
        curl_free(escaped);
    } else {
        sonde_buf_puts(&path, "/api/why");
        cmd_why_add_parameter(&path, "slowest", v->slowest);
        cmd_why_add_parameter(&path, "span", v->span);
        cmd_why_add_parameter(&path, "trace", v->trace);
        cmd_why_add_parameter(&path, "from", v->from);
        cmd_why_add_parameter(&path, "to", v->to);
    }
    const int fits = !path.error && sonde_cli_url(url, sizeof(url), target, path.data) == 0;
    sonde_buf_release(&path);
    if (!fits) return sonde_cli_usage(cli, "too long a URL");
    sonde_buf_release(out);
    if (sonde_cli_fetch(url, ANSWER_MAX, SONDE_CLI_FETCH_S, out, &err) == 0) return SONDE_EXIT_OK;
    return sonde_cli_fail(cli, "%s", err.text);
}

/* ---- A file ---------------------------------------------------------------------------------- */

static int cmd_why_ask_file(struct sonde_cli *cli, const char *target, const char *request,
                            struct sonde_buf *out)
{
    const struct why_values *v = cli->values;
    struct sonde_err err = { "" };
    struct sonde_profile *p;
    const struct sonde_why_query q = { .request = request, .trace = v->trace, .span = v->span,
                                       .slowest = v->slowest };
    if (v->from || v->to) return sonde_cli_usage(cli, "--from and --to are for agents");
    const int status = sonde_cli_profile(cli, target, 0, NULL, &p);
    if (status) return status;
    const int rc = sonde_why_json(p, &q, out, &err);
    sonde_profile_destroy(p);
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    return rc ? sonde_cli_fail(cli, "%s: %s", target, err.text) : SONDE_EXIT_OK;
}

static int cmd_why_run(struct sonde_cli *cli)
{
    const struct why_values *v = cli->values;
    const char *first = cli->operand_count ? cli->operands[0] : NULL;
    const char *second = cli->operand_count == 2 ? cli->operands[1] : NULL;
    /* REQUEST FILE, or FILE alone. */
    const char *target = second ? second : first, *request = second ? first : NULL;
    if (!target) {
        return sonde_cli_usage(cli, "name a FILE that `sonde record` wrote, or the URL of an "
                               "agent");
    }
    if (request && (v->slowest || v->span || v->trace)) {
        return sonde_cli_usage(cli, "a REQUEST is one: --slowest, --span and --trace name others");
    }
    if (v->trace && (v->slowest || v->span)) {
        return sonde_cli_usage(cli, "--trace is one trace: leave out --slowest and --span");
    }
    struct sonde_buf json, text;
    sonde_buf_init(&json, ANSWER_MAX);
    sonde_buf_init(&text, ANSWER_MAX);
    int status = sonde_cli_is_url(target) ? cmd_why_ask_agent(cli, target, request, &json)
                                          : cmd_why_ask_file(cli, target, request, &json);
    if (!status && v->format && !strcmp(v->format, "json")) {
        status = sonde_cli_write(cli, NULL, &json);
    } else if (!status) {
        struct sonde_err err = { "" };
        const struct sonde_why_style style = { v->width ? (int)v->width : sonde_cli_width(),
                                               sonde_text_locale_ascii() };
        if (sonde_why_text(json.data ? json.data : "", json.len, &style, &text, &err) != 0) {
            status = sonde_cli_fail(cli, "%s: %s", target, err.text);
        } else {
            status = sonde_cli_write(cli, NULL, &text);
        }
    }
    sonde_buf_release(&json);
    sonde_buf_release(&text);
    return status;
}

const struct sonde_command sonde_cmd_why = {
    .name = "why",
    .summary = "show what the latency of a request, span or trace consisted of",
    .usage = "[options] [REQUEST] FILE | URL",
    .details =
        "The critical path, across threads and processes: waiting for a slot, computing for the "
        "request and for others in its batches, locks, I/O, page faults, the network, runnable but "
        "not running. Parts add up to the latency; what is not known is shown as unexplained. "
        "FILE is a run that `sonde record` wrote: with --off-cpu waits are known to the "
        "nanosecond, without it only phases, spans and CPU samples are. URL is a running agent, "
        "which answers from its continuous profile, else from what it remembers.\n"
        "\n"
        "REQUEST is the engine's own id, the number or the trace id of an inference request. "
        "Without one, the slowest 1 % (--slowest), what they consist of, and what tells them from "
        "the rest: parts, functions, waits, sizes, places, with how sure that is.\n"
        "\n"
        "examples:\n"
        "  sonde record --off-cpu -o server.run -- ./server\n"
        "  sonde why server.run\n"
        "  sonde why job-12 server.run\n"
        "  sonde why --span 'handle*' --slowest 5% server.run\n"
        "  sonde why --slowest 20 http://127.0.0.1:6060",
    .options = options,
    .values_size = sizeof(struct why_values),
    .operands_max = 2,
    .run = cmd_why_run,
};
