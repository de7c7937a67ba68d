/* cmd_findings.c - `sonde findings`: what is wrong, what proves it, and what to do about it. */
#include <stdio.h>
#include <string.h>

#include "analyze/finding/finding.h"
#include "cli/agent_options.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "present/report/finding.h"
#include "sonde/sonde.h"

enum { OUTPUT_MAX = 64 << 20, MUTED_MAX = 65536, AGENT_S = 3 };

struct findings_values {
    struct sonde_cli_list mute;
    const char *format, *severity, *output;
    uint64_t limit;
    double duration_s;
    int json, kinds;
};

#define AT(field) .offset = offsetof(struct findings_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "severity", .letter = 's', .type = SONDE_OPT_STR, .value = "LEVEL",
      .choices = "info|warning|critical", AT(severity),
      .help = "only findings that are at least so severe" },
    { .name = "mute", .letter = 'm', .type = SONDE_OPT_LIST, .value = "KIND[:GLOB]", AT(mute),
      .help = "none of this kind, or of this kind and such a subject; may be given again" },
    { .name = "limit", .letter = 'n', .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1000,
      AT(limit), .help = "of each kind at most so many (default 20)" },
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT",
      .choices = "text|json", AT(format), .help = "text, or JSON for programs (default text)" },
    { .name = "json", .type = SONDE_OPT_FLAG, AT(json), .help = "the same as --format json" },
    { .name = "kinds", .type = SONDE_OPT_FLAG, AT(kinds),
      .help = "list the kinds of findings there are, and when there is one" },
    SONDE_OPT_DURATION(struct findings_values, duration_s),
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "write to FILE (default: standard output)" },
    SONDE_OPT_DIR,
    { .name = NULL },
};
#undef AT

static int findings_wants_json(const struct findings_values *v)
{
    return v->json || (v->format && !strcmp(v->format, "json"));
}

static int findings_list_kinds(const struct sonde_cli *cli)
{
    const struct findings_values *v = cli->values;
    const char *kind, *title, *summary;
    struct sonde_buf out;
    sonde_buf_init(&out, OUTPUT_MAX);
    for (size_t i = 0; (kind = sonde_finding_kind(i, &title, &summary)); i++) {
        sonde_buf_printf(&out, "%-22s %s: %s\n", kind, title, summary);
    }
    const int status = sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

/* What --mute and the setting say together; owned by the caller. */
static int findings_muted(const struct sonde_cli *cli, const char *setting, struct sonde_buf *out)
{
    const struct findings_values *v = cli->values;
    struct sonde_err err = { "" };
    sonde_buf_init(out, MUTED_MAX);
    sonde_buf_puts(out, setting);
    for (size_t i = 0; i < v->mute.count; i++) sonde_buf_printf(out, ",%s", v->mute.item[i]);
    if (out->error) return sonde_cli_usage(cli, "--mute: too much is muted");
    if (sonde_finding_mute_check(out->data, &err) == 0) return SONDE_EXIT_OK;
    return sonde_cli_usage(cli, "--mute: %s", err.text);
}

/* Those that are less severe go, with what they explain. */
static void findings_cut(struct sonde_findings *f, const char *severity)
{
    const int least = severity ? sonde_severity_find(severity) : 0;
    while (f->causes && (int)f->rows[f->causes - 1].severity < least) f->causes--;
}

static int findings_write(const struct sonde_cli *cli, struct sonde_findings *f)
{
    const struct findings_values *v = cli->values;
    struct sonde_buf out;
    sonde_buf_init(&out, OUTPUT_MAX);
    if (findings_wants_json(v)) sonde_findings_json_answer(f, &out);
    else sonde_findings_text(f, v->output ? 0 : (size_t)sonde_cli_width(), 0, &out);
    const int status = sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

/* ---- An agent -------------------------------------------------------------------------------- */

static int findings_of_agent(const struct sonde_cli *cli, const char *target)
{
    const struct findings_values *v = cli->values;
    char path[256], url[4096];
    struct sonde_buf out;
    struct sonde_err err = { "" };
    if (v->mute.count || v->limit) {
        return sonde_cli_usage(cli, "--mute and --limit are for files: what an agent mutes is its "
                                    "setting bottleneck.mute");
    }
    const double seconds = v->duration_s > 0 ? v->duration_s : AGENT_S;
    snprintf(path, sizeof(path), "/api/findings/now?duration=%.3f&format=%s%s%s", seconds,
             findings_wants_json(v) ? "json" : "text", v->severity ? "&severity=" : "",
             v->severity ? v->severity : "");
    if (sonde_cli_url(url, sizeof(url), target, path) != 0) {
        return sonde_cli_usage(cli, "too long a URL");
    }
    sonde_buf_init(&out, OUTPUT_MAX);
    const int rc = sonde_cli_fetch(url, OUTPUT_MAX, seconds + SONDE_CLI_FETCH_S, &out, &err);
    const int status = rc ? sonde_cli_fail(cli, "%s", err.text)
                          : sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int findings_of_profile(struct sonde_cli *cli, const char *target)
{
    const struct findings_values *v = cli->values;
    struct sonde_finding_options o = sonde_cli_rules(cli);
    struct sonde_profile *p = NULL;
    struct sonde_findings *found = NULL;
    struct sonde_buf muted;
    int status = findings_muted(cli, o.muted, &muted);
    if (!status) status = sonde_cli_profile(cli, target, v->duration_s, NULL, &p);
    if (!status) {
        o.limit = (size_t)v->limit;
        o.muted = muted.data;
        if (sonde_findings_look(p, &o, &found) != 0) status = sonde_cli_fail(cli, "out of memory");
    }
    if (!status) {
        findings_cut(found, v->severity);
        status = findings_write(cli, found);
    }
    sonde_findings_destroy(found);
    sonde_profile_destroy(p);
    sonde_buf_release(&muted);
    return status;
}

static int findings_run(struct sonde_cli *cli)
{
    const struct findings_values *v = cli->values;
    if (v->kinds) return findings_list_kinds(cli);
    if (!cli->operand_count) {
        return sonde_cli_usage(cli, "say of what: sonde findings FILE, URL or PID");
    }
    if (sonde_cli_is_agent(cli->operands[0])) return findings_of_agent(cli, cli->operands[0]);
    return findings_of_profile(cli, cli->operands[0]);
}

const struct sonde_command sonde_cmd_findings = {
    .name = "findings",
    .summary = "say what is wrong, what proves it, and what to do about it",
    .usage = "[options] FILE | URL | PID",
    .details =
        "FILE is a run that `sonde record` wrote; record with --off-cpu and --heap, so that "
        "waiting and memory can be judged too. With the URL of an agent, or a process id, it "
        "records for some seconds (--duration, 3 and 10) and looks at that.\n"
        "\n"
        "The weightiest come first: critical (something stands still, fails or runs out), warning "
        "(time, memory or throughput is wasted), info (where the time goes). What a cause "
        "explains stands under it. What could not be judged, and what would help, is said at the "
        "end.\n"
        "\n"
        "examples:\n"
        "  sonde record --off-cpu --heap -o server.run -- ./server\n"
        "  sonde findings server.run\n"
        "  sonde findings --severity warning --json http://127.0.0.1:6060\n"
        "  sonde findings --mute cpu_hot_spot:memcpy server.run",
    .options = options,
    .values_size = sizeof(struct findings_values),
    .operands_max = 1,
    .run = findings_run,
};
