/* cmd_diff.c - `sonde diff`: what changed between two profiles. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/profile.h"
#include "present/flamegraph.h"
#include "present/profile_report.h"
#include "present/text.h"
#include "profile/tree.h"
#include "sonde/sonde.h"

#define OUTPUT_MAX ((size_t)1 << 30)

struct diff_values {
    struct sonde_cli_filter filter;
    const char *output;
    int json, invert;
    uint64_t limit;
};

#define AT(field) .offset = offsetof(struct diff_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "FILE.svg or FILE.html: a flame graph of the change; else the table to FILE" },
    SONDE_OPT_FILTER(struct diff_values, filter),
    { .name = "invert", .type = SONDE_OPT_FLAG, AT(invert),
      .help = "a flame graph that starts with the leaves" },
    { .name = "limit", .letter = 'n', .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1e6,
      AT(limit), .help = "functions shown (default 30)" },
    { .name = "json", .type = SONDE_OPT_FLAG, AT(json), .help = "write JSON" },
    { .name = NULL },
};
#undef AT

static int has_suffix(const char *path, const char *suffix)
{
    const size_t len = path ? strlen(path) : 0, n = strlen(suffix);
    return len >= n && !strcmp(path + len - n, suffix);
}

/* *kind: in, what to look for, -1 = any; out, what was found. */
static int build(struct sonde_cli *cli, const char *target, int *kind, int invert,
                 struct sonde_tree **out)
{
    const struct diff_values *v = cli->values;
    struct sonde_profile *p;
    int status = sonde_cli_profile(cli, target, 0, &v->filter, &p);
    if (status) return status;
    struct sonde_profile_filter filter;
    const struct sonde_tree_options how = { .invert = invert };
    struct sonde_err err = { "" };
    status = sonde_cli_filter(cli, &v->filter, p, &filter);
    if (!status) {
        if (*kind >= 0) filter.kind = *kind;
        const int rc = sonde_tree_build(p, &filter, &how, out, &err);
        if (rc == SONDE_EINVAL) status = sonde_cli_usage(cli, "%s", err.text);
        else if (rc) status = sonde_cli_fail(cli, "%s: %s", target, err.text);
        else *kind = (int)(*out)->kind;
    }
    sonde_profile_destroy(p);
    return status;
}

static int show(const struct sonde_cli *cli, const struct sonde_tree *diff, int svg, int html)
{
    const struct diff_values *v = cli->values;
    struct sonde_buf out;
    struct sonde_err err = { "" };
    int rc;
    sonde_buf_init(&out, OUTPUT_MAX);
    if (svg || html) {
        char title[512];
        snprintf(title, sizeof(title), "%.200s compared with %.200s", cli->operands[1],
                 cli->operands[0]);
        const struct sonde_flamegraph_options o = { .subtitle = title };
        rc = html ? sonde_flamegraph_html(diff, &o, &out) : sonde_flamegraph_svg(diff, &o, &out);
        if (rc) sonde_err_set(&err, rc, "%s", sonde_strerror(rc));
    } else {
        const struct sonde_report_options o = {
            .style = v->json ? SONDE_REPORT_JSON : SONDE_REPORT_TEXT, .limit = (size_t)v->limit,
            .width = v->output ? 0 : sonde_cli_width(), .ascii = sonde_text_locale_ascii() };
        rc = sonde_profile_diff(diff, &o, &out, &err);
    }
    const int status = rc ? sonde_cli_fail(cli, "%s", err.text)
                          : sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

static int run(struct sonde_cli *cli)
{
    const struct diff_values *v = cli->values;
    if (cli->operand_count != 2) {
        return sonde_cli_usage(cli, "say what to compare: sonde diff BEFORE AFTER");
    }
    const int svg = has_suffix(v->output, ".svg"), html = has_suffix(v->output, ".html");
    if ((svg || html) && v->json) return sonde_cli_usage(cli, "--json or a flame graph, not both");
    if (v->invert && !svg && !html) {
        return sonde_cli_usage(cli, "--invert is for a flame graph: -o out.svg");
    }
    int kind = -1;
    struct sonde_tree *before = NULL, *after = NULL, *diff = NULL;
    int status = build(cli, cli->operands[0], &kind, v->invert, &before);
    if (!status) status = build(cli, cli->operands[1], &kind, v->invert, &after);
    if (!status) {
        const int rc = sonde_tree_diff(before, after, &diff);
        status = rc ? sonde_cli_fail(cli, "%s", sonde_strerror(rc)) : show(cli, diff, svg, html);
    }
    sonde_tree_destroy(diff);
    sonde_tree_destroy(after);
    sonde_tree_destroy(before);
    return status;
}

const struct sonde_command sonde_cmd_diff = {
    .name = "diff",
    .summary = "compare two profiles: what takes more than before, and what less",
    .usage = "[options] BEFORE AFTER",
    .details =
        "Both are files as `sonde report` takes them. Shares are of each profile's total, so "
        "profiles of different length can be compared; changes are in percentage points, the "
        "largest first. Memory (--type live, peak, leaked, alloc, temporary) is compared by "
        "bytes. In the flame graph widths are those of AFTER, red is a larger share than before, "
        "blue a smaller one.\n"
        "\n"
        "examples:\n"
        "  sonde diff before.run after.run\n"
        "  sonde diff before.run after.run -o change.svg",
    .options = options,
    .values_size = sizeof(struct diff_values),
    .operands_max = 2,
    .run = run,
};
