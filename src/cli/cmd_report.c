/* cmd_report.c - `sonde report`: what a profile says, in words and tables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/agent_options.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "cli/report_html.h"
#include "base/array.h"
#include "base/strip.h"
#include "present/report/profile.h"
#include "present/text.h"
#include "sonde/sonde.h"
#include "store/store.h"

#define UNIX_TIME_MIN 1e9

enum { OUTPUT_MAX = 256 << 20 };

struct report_values {
    struct sonde_cli_filter filter;
    int json, markdown, schema;
    uint64_t limit;
    double min_percent, duration_s;
    const char *output, *format;
};

#define AT(field) .offset = offsetof(struct report_values, field)
static const struct sonde_cli_opt options[] = {
    SONDE_OPT_FILTER(struct report_values, filter),
    { .name = "limit", .letter = 'n', .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1e6,
      AT(limit), .help = "functions, threads and spans shown of each (default 20)" },
    { .name = "min-percent", .type = SONDE_OPT_NUM, .value = "PERCENT", .min = 0.0001, .max = 100,
      AT(min_percent), .help = "smaller nodes of the tree are left out (default 1)" },
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT",
      .choices = "text|markdown|json|csv|html|prometheus|pdf", AT(format),
      .help = "html is the dashboard as one file (default: by the suffix of -o, else text)" },
    { .name = "json", .type = SONDE_OPT_FLAG, AT(json), .help = "the same as --format json" },
    { .name = "markdown", .type = SONDE_OPT_FLAG, AT(markdown),
      .help = "the same as --format markdown" },
    { .name = "schema", .type = SONDE_OPT_FLAG, AT(schema),
      .help = "print the JSON Schema of --format json, and do nothing else" },
    SONDE_OPT_DURATION(struct report_values, duration_s),
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "write to FILE, which is replaced when all is written (default: standard output)" },
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

/* One row a format: its suffixes, and what an agent is asked for it. */
static const struct report_format {
    const char *name, *suffixes, *accept;
    enum sonde_report_style style;   /* of those that present/report/ writes */
} formats[] = {
    { "text", ".txt", "text/plain", SONDE_REPORT_TEXT },
    { "markdown", ".md .markdown", "text/markdown", SONDE_REPORT_MARKDOWN },
    { "json", ".json", "application/json", SONDE_REPORT_JSON },
    { "csv", ".csv", "text/csv", SONDE_REPORT_CSV },
    { "html", ".html .htm", NULL, SONDE_REPORT_TEXT },
    { "prometheus", ".prom", NULL, SONDE_REPORT_TEXT },
    { "pdf", ".pdf", NULL, SONDE_REPORT_PDF },
};

static int has_suffix(const char *suffixes, const char *suffix)
{
    const size_t len = strlen(suffix);
    const char *at = strstr(suffixes, suffix);
    return at && (at[len] == ' ' || !at[len]);
}

static const struct report_format *format_of(const struct report_values *v)
{
    const char *name = v->json ? "json" : v->markdown ? "markdown" : v->format;
    const char *dot = v->output ? strrchr(v->output, '.') : NULL;
    for (size_t i = 0; i < SONDE_COUNT(formats); i++) {
        if (name ? !strcmp(formats[i].name, name) : dot && has_suffix(formats[i].suffixes, dot)) {
            return &formats[i];
        }
    }
    return &formats[0];
}

static int is_format(const struct report_format *f, const char *name)
{
    return !strcmp(f->name, name);
}

static int cmd_report_write(const struct sonde_cli *cli, const struct sonde_profile *p)
{
    const struct report_values *v = cli->values;
    const struct report_format *format = format_of(v);
    const struct sonde_finding_options rules = sonde_cli_rules(cli);
    struct sonde_report_options o = {
        .rules = &rules,
        .style = format->style,
        .limit = (size_t)v->limit,
        .share_min = v->min_percent / 100,
        .width = v->output ? 0 : sonde_cli_width(),
        .ascii = sonde_text_locale_ascii(),
    };
    int status = sonde_cli_filter(cli, &v->filter, p, &o.filter);
    if (status) return status;
    struct sonde_buf out;
    struct sonde_err err = { "" };
    sonde_buf_init(&out, OUTPUT_MAX);
    const int rc = is_format(format, "prometheus")
                       ? sonde_report_prometheus(p, &o.filter, &out, &err)
                       : sonde_profile_report(p, &o, &out, &err);
    if (rc == SONDE_EINVAL) status = sonde_cli_usage(cli, "%s", err.text);
    else if (rc) status = sonde_cli_fail(cli, "%s: %s", cli->operands[0], err.text);
    else status = sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

/* An agent knows more of a heap than a pprof file tells: it writes the report itself. */
static int from_agent(const struct sonde_cli *cli, const char *url)
{
    const struct report_values *v = cli->values;
    const char *accept = format_of(v)->accept;
    char path[128], full[4096];
    const int n = snprintf(path, sizeof(path), "/admin/profile/memory?type=%s", v->filter.type);
    if (v->limit) {
        snprintf(path + n, sizeof(path) - (size_t)n, "&limit=%llu", (unsigned long long)v->limit);
    }
    if (sonde_cli_url(full, sizeof(full), url, path) != 0) {
        return sonde_cli_usage(cli, "too long a URL");
    }
    struct sonde_buf out;
    struct sonde_err err = { "" };
    const int rc = sonde_cli_post(full, accept, OUTPUT_MAX, SONDE_CLI_FETCH_S, &out, &err);
    const int status = rc ? sonde_cli_fail(cli, "%s", err.text)
                          : sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

/* Series of an agent as they are now are what it exposes. */
static int from_metrics(const struct sonde_cli *cli, const char *url)
{
    const struct report_values *v = cli->values;
    char full[4096];
    struct sonde_buf out;
    struct sonde_err err = { "" };
    if (sonde_cli_url(full, sizeof(full), url, "/metrics") != 0) {
        return sonde_cli_usage(cli, "too long a URL");
    }
    const int rc = sonde_cli_fetch(full, OUTPUT_MAX, SONDE_CLI_FETCH_S, &out, &err);
    const int status = rc ? sonde_cli_fail(cli, "%s", err.text)
                          : sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

/* The URL is an agent's, and all of its heap is asked for. */
static int asks_agent(const struct report_values *v, const char *target)
{
    const struct sonde_cli_filter *f = &v->filter;
    const struct report_format *format = format_of(v);
    return format->accept && format->style != SONDE_REPORT_CSV && sonde_cli_is_agent(target) &&
           sonde_cli_is_memory(f->type) &&
           !f->span && !f->thread && !f->trace && !f->from && !f->to &&
           !f->phase && !f->request && !f->slowest && !f->workers && !(v->min_percent > 0);
}

/* ---- HTML ------------------------------------------------------------------------------------ */

static int cmd_report_parse_time(const struct sonde_cli *cli, const char *option, const char *text,
                                 double *out)
{
    *out = 0;
    if (!text) return SONDE_EXIT_OK;
    if (!sonde_cli_number(text, out) && (*out >= UNIX_TIME_MIN || *out < 0) && fabs(*out) < 1e10) {
        return SONDE_EXIT_OK;
    }
    return sonde_cli_usage(cli, "--%s: of an agent say -SECONDS ago, or unix time, not '%s'",
                           option, text);
}

static int cmd_report_html(struct sonde_cli *cli)
{
    const struct report_values *v = cli->values;
    const struct sonde_cli_filter *f = &v->filter;
    struct sonde_report_html o = { .target = cli->operands[0] };
    struct sonde_profile *p = NULL;
    const int agent = sonde_cli_is_agent(o.target);
    if (f->type || f->span || f->thread || f->trace || f->phase || f->request || f->slowest ||
        f->workers || v->limit || v->min_percent > 0 ||
        (!agent && (f->from || f->to) && !sonde_store_is_file(o.target))) {
        return sonde_cli_usage(cli, "an HTML report is of everything, and what to look at "
                                    "is chosen in it: --from and --to are for a store or the URL "
                                    "of an agent, and --type, --phase and such for other formats");
    }
    if (agent && sonde_strip_on()) {
        return sonde_cli_usage(cli, "--strip: what an agent tells is decided when it is started: "
                                    "`sonde serve --strip`");
    }
    int status = agent ? cmd_report_parse_time(cli, "from", f->from, &o.from_s)
                       : sonde_cli_profile(cli, o.target, v->duration_s, f, &p);
    if (!status && agent) status = cmd_report_parse_time(cli, "to", f->to, &o.to_s);
    if (status) return status;
    struct sonde_buf out;
    sonde_buf_init(&out, OUTPUT_MAX);
    o.p = p;
    status = sonde_cli_report_html(cli, &o, &out);
    if (!status) status = sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    sonde_profile_destroy(p);
    return status;
}

static int print_schema(const struct sonde_cli *cli)
{
    const struct report_values *v = cli->values;
    struct sonde_buf out;
    sonde_buf_init(&out, OUTPUT_MAX);
    sonde_buf_puts(&out, sonde_report_schema);
    const int status = cli->operand_count
                           ? sonde_cli_usage(cli, "--schema is of no file: it is always the same")
                           : sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

static int cmd_report_run(struct sonde_cli *cli)
{
    const struct report_values *v = cli->values;
    if (v->schema) return print_schema(cli);
    if (!cli->operand_count) {
        return sonde_cli_usage(cli, "say of what: sonde report FILE, URL or PID");
    }
    if (v->json + v->markdown + (v->format != NULL) > 1) {
        return sonde_cli_usage(cli, "--json, --markdown or --format: one of them");
    }
    if (is_format(format_of(v), "pdf") && !v->output && isatty(STDOUT_FILENO)) {
        return sonde_cli_usage(cli, "a PDF is not for a terminal: say where to with -o FILE");
    }
    if (is_format(format_of(v), "html")) return cmd_report_html(cli);
    if (is_format(format_of(v), "prometheus")) {
        const struct sonde_cli_filter *f = &v->filter;
        if (f->type || f->span || f->thread || f->trace || f->phase || f->request || f->slowest ||
            f->workers || v->limit || v->min_percent > 0) {
            return sonde_cli_usage(cli, "series are of everything: of the options that choose, "
                                        "--format prometheus takes --from and --to");
        }
        if (sonde_cli_is_agent(cli->operands[0]) && !f->from && !f->to) {
            return from_metrics(cli, cli->operands[0]);
        }
    }
    if (asks_agent(v, cli->operands[0])) return from_agent(cli, cli->operands[0]);
    struct sonde_profile *p;
    int status = sonde_cli_profile(cli, cli->operands[0], v->duration_s, &v->filter, &p);
    if (status) return status;
    status = cmd_report_write(cli, p);
    sonde_profile_destroy(p);
    return status;
}

const struct sonde_command sonde_cmd_report = {
    .name = "report",
    .summary = "say what ran and how: operations, requests, functions, memory, system, findings",
    .usage = "[options] FILE | URL | PID",
    .details =
        "FILE is a run that `sonde record` wrote, or a profile of another tool (`sonde help "
        "import` lists them); - is the standard input. STORE:NAME is a profile "
        "that a store keeps, and http://HOST:PORT/admin/profiles/NAME one of a running agent. With "
        "the URL of the agent itself, or a process id, it samples now.\n"
        "\n"
        "A store, or an agent with --from, answers with all that is known of that time: series "
        "with their percentiles, requests, spans, and with --continuous samples and heaps. Notes "
        "at the end say what is missing and why.\n"
        "\n"
        "It begins with a summary and with what is worth acting on, if there is anything: `sonde "
        "findings` has all of it.\n"
        "\n"
        "What was recorded with --heap, or under `sonde run`, has a part on memory: what is in "
        "use and where it was allocated, which places leak, fragmentation, sizes and lifetimes. "
        "--type live, peak, leaked, alloc or temporary makes the rest be about memory too.\n"
        "\n"
        "A run of an inference engine has a part on its requests: how many and how they ended, "
        "percentiles of time to first token and between tokens, phases, tokens, goodput, models "
        "and their memory, and the slowest ones (`sonde requests` shows more of them). An engine "
        "that tells of its devices, memory pools and tokenizer (sonde/engine.h) has a part for "
        "each, and so have operations, errors, caches, bandwidth and scopes that a program records "
        "(sonde/sonde.h), machine learning (sonde/ml.h), and the machine and its processes.\n"
        "\n"
        "--format json is one shape for all of it, also of what an agent answers; --schema prints "
        "its JSON Schema. csv is one long table (section, program, pid, name, detail, figure, "
        "value, unit, text) to filter and pivot. prometheus is the recording's series in "
        "Prometheus' text format, of an agent what it exposes. pdf has the charts of `sonde plot` "
        "as well.\n"
        "\n"
        "--format html writes the dashboard as one file, with its data in it, to be opened from a "
        "disk or mailed; nothing is loaded from anywhere. Of a running agent it is of the last 15 "
        "minutes, or of --from and --to.\n"
        "\n"
        SONDE_CLI_SELECT_DETAILS
        "SELF is the function's own, TOTAL includes what it calls. COMPLETE is the share of stacks "
        "that reach the start of the thread. SAMPLED of a span is what the samples inside spans of "
        "that name weigh.\n"
        "\n"
        "examples:\n"
        "  sonde report server.run\n"
        "  sonde report --span parse --markdown server.run\n"
        "  sonde report --request chatcmpl-17 engine.run\n"
        "  sonde report --from 10 --to 20 -o part.csv server.run\n"
        "  sonde report -o report.pdf server.run\n"
        "  sonde report --type live http://127.0.0.1:6060\n"
        "  sonde report --format html -o report.html http://127.0.0.1:6060\n"
        "  perf script | sonde report -",
    .options = options,
    .values_size = sizeof(struct report_values),
    .operands_max = 1,
    .run = cmd_report_run,
};
