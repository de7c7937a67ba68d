/* cmd_diff.c - `sonde diff`: what changed between two runs, or two sets of runs. */
#include <stdio.h>
#include <string.h>

#include "analyze/compare.h"
#include "analyze/compare_fail.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/path.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "present/report/compare.h"
#include "present/flamegraph/flamegraph.h"
#include "present/text.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

#define OUTPUT_MAX ((size_t)1 << 30)

struct diff_values {
    struct sonde_cli_filter filter;
    const char *output, *format, *per;
    int json, invert, split, unknown_ok;
    uint64_t limit;
    struct sonde_cli_list fail_on;
};

#define AT(field) .offset = offsetof(struct diff_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "with", .type = SONDE_OPT_SPLIT, AT(split),
      .help = "what is before it is compared with what follows: several runs of each" },
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "FILE.svg or FILE.html: a flame graph of the change; else the table to FILE" },
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT", AT(format),
      .choices = "text|json|markdown", .help = "how it is written (default text)" },
    { .name = "json", .type = SONDE_OPT_FLAG, AT(json), .help = "write JSON" },
    { .name = "fail-on", .type = SONDE_OPT_LIST, .value = "LIMIT", AT(fail_on),
      .help = "exit status 3 if a figure has changed by more: 'p95>5%'; or is: 'rss>1GB'" },
    { .name = "unknown-ok", .type = SONDE_OPT_FLAG, AT(unknown_ok),
      .help = "let a --fail-on limit pass where it is not known whether the figure has changed" },
    { .name = "per", .type = SONDE_OPT_STR, .value = "WHAT", AT(per),
      .choices = "share|second|request|run",
      .help = "what functions are measured by (default request if there are any, else share)" },
    SONDE_OPT_FILTER(struct diff_values, filter),
    { .name = "invert", .type = SONDE_OPT_FLAG, AT(invert),
      .help = "a flame graph that starts with the leaves" },
    { .name = "limit", .letter = 'n', .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1e6,
      AT(limit), .help = "functions shown (default 30)" },
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

/* One of the two that are compared. */
struct cmd_diff_side {
    char **names;
    size_t count;
    struct sonde_profile **profiles;
    struct sonde_compare_run *runs;
    struct sonde_tree *tree;    /* of all of them, for a picture */
    char label[128];
};

struct cmd_diff_state {
    struct cmd_diff_side side[2];
    struct sonde_tree *tree;    /* of both, for a picture */
    struct sonde_comparison *comparison;
    struct sonde_fail_on *fail_on;
    int kind;                   /* of samples; -1 = the first there is */
    int svg, html;
    enum sonde_report_style style;
};

/* ---- What was asked for ---------------------------------------------------------------------- */

static int take_sides(const struct sonde_cli *cli, struct cmd_diff_state *d)
{
    const struct diff_values *v = cli->values;
    const int count = cli->operand_count, split = v->split ? v->split - 1 : 1;
    if (!v->split && count > 2) {
        return sonde_cli_usage(cli, "which of them are before and which after? Put --with between: "
                               "sonde diff A1 A2 --with B1 B2");
    }
    if (count < 2 || split < 1 || split >= count) {
        return sonde_cli_usage(cli, "say what to compare: sonde diff BEFORE AFTER");
    }
    if (count > 2 && (v->filter.from || v->filter.to)) {
        return sonde_cli_usage(cli, "--from and --to are for one run on each side");
    }
    d->side[0] = (struct cmd_diff_side){ .names = cli->operands, .count = (size_t)split };
    d->side[1] = (struct cmd_diff_side){ .names = cli->operands + split,
                                         .count = (size_t)(count - split) };
    return SONDE_EXIT_OK;
}

static int take_style(const struct sonde_cli *cli, struct cmd_diff_state *d)
{
    const struct diff_values *v = cli->values;
    d->svg = sonde_has_suffix(v->output, ".svg");
    d->html = sonde_has_suffix(v->output, ".html");
    const int graph = d->svg || d->html;
    if (v->json && v->format && strcmp(v->format, "json") != 0) {
        return sonde_cli_usage(cli, "--json or --format %s, not both", v->format);
    }
    if (graph && (v->json || v->format)) {
        return sonde_cli_usage(cli, "--%s or a flame graph, not both", v->json ? "json" : "format");
    }
    if (v->invert && !graph) {
        return sonde_cli_usage(cli, "--invert is for a flame graph: -o out.svg");
    }
    d->style = v->json || (v->format && !strcmp(v->format, "json")) ? SONDE_REPORT_JSON
               : v->format && !strcmp(v->format, "markdown")        ? SONDE_REPORT_MARKDOWN
                                                                    : SONDE_REPORT_TEXT;
    return SONDE_EXIT_OK;
}

/* Before anything is read: a mistake should not cost a minute. */
static int take_limits(const struct sonde_cli *cli, struct cmd_diff_state *d)
{
    const struct sonde_cli_list *l = &((const struct diff_values *)cli->values)->fail_on;
    struct sonde_err err = { "" };
    d->fail_on = sonde__calloc(l->count ? l->count : 1, sizeof(*d->fail_on));
    if (!d->fail_on) return sonde_cli_fail(cli, "out of memory");
    for (size_t i = 0; i < l->count; i++) {
        if (sonde_fail_on_parse(l->item[i], &d->fail_on[i], &err)) {
            return sonde_cli_usage(cli, "--fail-on: %s", err.text);
        }
    }
    return SONDE_EXIT_OK;
}

/* File names without folders, unless they are the same. */
static void cmd_diff_make_labels(struct cmd_diff_state *d)
{
    const char *const name[2] = { sonde_path_base(d->side[0].names[0]),
                                  sonde_path_base(d->side[1].names[0]) };
    for (int i = 0; i < 2; i++) {
        struct cmd_diff_side *s = &d->side[i];
        const char *shown = strcmp(name[0], name[1]) != 0 ? name[i] : s->names[0];
        if (s->count == 1) snprintf(s->label, sizeof(s->label), "%.120s", shown);
        else snprintf(s->label, sizeof(s->label), "%.90s and %zu more", shown, s->count - 1);
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

static int load_side(struct sonde_cli *cli, struct cmd_diff_side *s)
{
    const struct diff_values *v = cli->values;
    s->profiles = sonde__calloc(s->count, sizeof(struct sonde_profile *));
    s->runs = sonde__calloc(s->count, sizeof(*s->runs));
    if (!s->profiles || !s->runs) return sonde_cli_fail(cli, "out of memory");
    for (size_t i = 0; i < s->count; i++) {
        int status = sonde_cli_profile(cli, s->names[i], 0, &v->filter, &s->profiles[i]);
        if (!status) {
            s->runs[i].profile = s->profiles[i];
            status = sonde_cli_filter(cli, &v->filter, s->profiles[i], &s->runs[i].filter);
        }
        if (status) return status;
    }
    return SONDE_EXIT_OK;
}

/* Something of a side passes the filter; of the first kind there is, if none is asked for. */
static int cmd_diff_check_side(struct sonde_cli *cli, struct cmd_diff_state *d,
                               struct cmd_diff_side *s)
{
    const struct diff_values *v = cli->values;
    struct sonde_err err = { "" }, first = { "" };
    int kind = -1, why = 0;
    for (size_t i = 0; i < s->count; i++) {
        struct sonde_profile_filter filter = s->runs[i].filter;
        struct sonde_profile_match *match;
        if (d->kind >= 0) filter.kind = d->kind;
        const int rc = sonde_profile_match_some(s->profiles[i], &filter, &match, &err);
        if (rc && !why) {
            why = rc;
            first = err;
        }
        if (rc) continue;
        const int found = sonde_profile_match_kind(match);
        if (kind < 0 || found < kind) kind = found;
        sonde_profile_match_destroy(match);
    }
    if (kind >= 0) {
        d->kind = kind;
        return SONDE_EXIT_OK;
    }
    /* Runs may hold requests and spans alone; then there are figures, and no functions. */
    if (why == SONDE_ENOENT && !v->filter.type &&
        (s->profiles[0]->infer || s->profiles[0]->spans_count)) {
        return SONDE_EXIT_OK;
    }
    if (why == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", first.text);
    return sonde_cli_fail(cli, "%s: %s", s->names[0], first.text);
}

/* All runs of a side in one tree, for a picture. */
static int build_tree(struct sonde_cli *cli, struct cmd_diff_state *d, struct cmd_diff_side *s)
{
    const struct diff_values *v = cli->values;
    const struct sonde_tree_options how = { .invert = v->invert };
    struct sonde_profile_filter filter = s->runs[0].filter;
    struct sonde_profile *all = NULL;
    struct sonde_err err = { "" };
    int rc = 0;
    if (s->count > 1) {
        rc = sonde_profile_create(0, &all);
        for (size_t i = 0; i < s->count && !rc; i++) rc = sonde_profile_merge(all, s->profiles[i]);
        if (rc) sonde_err_set(&err, rc, "all runs together: %s", sonde_strerror(rc));
    }
    if (d->kind >= 0) filter.kind = d->kind;
    if (!rc) rc = sonde_tree_build(all ? all : s->profiles[0], &filter, &how, &s->tree, &err);
    sonde_profile_destroy(all);
    if (!rc) d->kind = (int)s->tree->kind;
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    return rc ? sonde_cli_fail(cli, "%s: %s", s->names[0], err.text) : SONDE_EXIT_OK;
}

static int cmd_diff_compare(const struct sonde_cli *cli, struct cmd_diff_state *d)
{
    const struct diff_values *v = cli->values;
    if ((d->svg || d->html) && !v->fail_on.count) return SONDE_EXIT_OK;
    const int per = v->per ? sonde_compare_basis_find(v->per) : SONDE_BASIS_AUTO;
    const struct sonde_compare_options o = { .kind = d->kind,
                                             .basis = (enum sonde_compare_basis)per };
    struct sonde_err err = { "" };
    const int rc = sonde_compare(d->side[0].runs, d->side[0].count, d->side[1].runs,
                                 d->side[1].count, &o, &d->comparison, &err);
    if (rc == SONDE_EINVAL && per != SONDE_BASIS_AUTO) {
        return sonde_cli_usage(cli, "--per %s: %s%s", v->per, err.text,
                               per == SONDE_BASIS_REQUEST ? " with --span" : "");
    }
    if (rc == SONDE_EINVAL || rc == SONDE_EFULL) return sonde_cli_usage(cli, "%s", err.text);
    return rc ? sonde_cli_fail(cli, "%s", err.text) : SONDE_EXIT_OK;
}

/* ---- Showing --------------------------------------------------------------------------------- */

static int cmd_diff_show(const struct sonde_cli *cli, const struct cmd_diff_state *d)
{
    const struct diff_values *v = cli->values;
    struct sonde_buf out;
    struct sonde_err err = { "" };
    int rc;
    sonde_buf_init(&out, OUTPUT_MAX);
    if (d->svg || d->html) {
        char title[512];
        snprintf(title, sizeof(title), "%.200s compared with %.200s", d->side[1].names[0],
                 d->side[0].names[0]);
        const struct sonde_flamegraph_options o = { .subtitle = title };
        rc = d->html ? sonde_flamegraph_html(d->tree, &o, &out)
                     : sonde_flamegraph_svg(d->tree, &o, &out);
        if (rc) sonde_err_set(&err, rc, "%s", sonde_strerror(rc));
    } else {
        const struct sonde_compare_view view = {
            .before = d->side[0].label, .after = d->side[1].label,
            .more_runs = "sonde diff A1 A2 --with B1 B2", .all_figures = "--format json",
            .style = d->style, .limit = (size_t)v->limit,
            .width = v->output ? 0 : sonde_cli_width(), .ascii = sonde_text_locale_ascii() };
        rc = sonde_compare_report(d->comparison, &view, &out, &err);
    }
    const int status = rc ? sonde_cli_fail(cli, "%s", err.text)
                          : sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

/* How runs are recorded that have a figure. */
static const char *cmd_diff_how_to_record(const char *measure)
{
    static const char heap[] = ": use `sonde record --heap`";
    static const struct { const char *measure, *how; } ways[] = {
        { "peak", heap }, { "live", heap }, { "alloc", heap }, { "rss", heap },
        { "off-cpu", ": use `sonde record --off-cpu`" }, { "time", ": use --with" },
    };
    for (size_t i = 0; i < SONDE_COUNT(ways); i++) {
        if (!strcmp(ways[i].measure, measure)) return ways[i].how;
    }
    return "";
}

static int check_limits(const struct sonde_cli *cli, const struct cmd_diff_state *d)
{
    const struct diff_values *v = cli->values;
    int status = SONDE_EXIT_OK;
    for (size_t i = 0; i < v->fail_on.count; i++) {
        const struct sonde_compare_measure *f;
        struct sonde_err err = { "" };
        const int rc = sonde_fail_on_check(&d->fail_on[i], d->comparison, v->unknown_ok, &f, &err);
        if (rc < 0) {
            return sonde_cli_usage(
                cli, "--fail-on: %s%s", err.text,
                rc == SONDE_ENOENT ? cmd_diff_how_to_record(d->fail_on[i].measure) : "");
        }
        if (!rc) continue;
        status = SONDE_EXIT_LIMIT;
        if (!d->fail_on[i].absolute && f->verdict == SONDE_VERDICT_UNKNOWN) {
            sonde_cli_fail(cli, "--fail-on '%s': it is not known whether %.200s%s%s has changed; "
                           "record longer, compare two or more runs of each (sonde diff A1 A2 "
                           "--with B1 B2), or let it pass with --unknown-ok", d->fail_on[i].text,
                           f->subject, *f->subject ? ": " : "", f->title);
            continue;
        }
        char interval[SONDE_MEASURE_BYTES], before[SONDE_MEASURE_BYTES], after[SONDE_MEASURE_BYTES];
        const int ascii = sonde_text_locale_ascii();
        sonde_compare_measure_interval(interval, f, ascii);
        sonde_cli_fail(cli, "--fail-on '%s': %.200s%s%s went from %s to %s%s%s", d->fail_on[i].text,
                       f->subject, *f->subject ? ": " : "", f->title,
                       sonde_compare_measure_format(before, f->before, f->unit, ascii),
                       sonde_compare_measure_format(after, f->after, f->unit, ascii),
                       *interval ? ", " : "", interval);
    }
    return status;
}

static int run_diff(struct sonde_cli *cli, struct cmd_diff_state *d)
{
    int status = take_sides(cli, d);
    if (!status) status = take_style(cli, d);
    if (!status) status = take_limits(cli, d);
    if (status) return status;
    cmd_diff_make_labels(d);
    for (int i = 0; i < 2 && !status; i++) {
        status = load_side(cli, &d->side[i]);
        if (status) continue;
        status = d->svg || d->html ? build_tree(cli, d, &d->side[i])
                                   : cmd_diff_check_side(cli, d, &d->side[i]);
    }
    if (!status && d->side[0].tree && d->side[1].tree) {
        const int rc = sonde_tree_diff(d->side[0].tree, d->side[1].tree, &d->tree);
        if (rc) status = sonde_cli_fail(cli, "%s", sonde_strerror(rc));
    }
    if (!status) status = cmd_diff_compare(cli, d);
    if (!status) status = cmd_diff_show(cli, d);
    return status ? status : check_limits(cli, d);
}

static int cmd_diff_run(struct sonde_cli *cli)
{
    struct cmd_diff_state d = { .kind = -1 };
    const int status = run_diff(cli, &d);
    for (int i = 0; i < 2; i++) {
        struct cmd_diff_side *s = &d.side[i];
        for (size_t k = 0; s->profiles && k < s->count; k++) sonde_profile_destroy(s->profiles[k]);
        sonde__free(s->profiles);
        sonde__free(s->runs);
        sonde_tree_destroy(s->tree);
    }
    sonde_tree_destroy(d.tree);
    sonde_comparison_destroy(d.comparison);
    sonde__free(d.fail_on);
    return status;
}

const struct sonde_command sonde_cmd_diff = {
    .name = "diff",
    .summary = "compare runs: what is faster or slower, by how much, and whether that is noise",
    .usage = "[options] BEFORE AFTER  |  BEFORE… --with AFTER…",
    .details =
        "What is compared are files, profiles of a store (STORE:NAME) and URLs of profiles, as "
        "`sonde report` takes them. On top is the verdict; then "
        "throughput, percentiles of requests and spans, CPU time and memory, each with the change, "
        "its 95 % interval and whether it is a change or noise; then functions. Shares of "
        "functions are of each profile's total, so profiles of different length can be compared; "
        "changes of shares are in percentage points. Memory (--type live, peak, leaked, alloc, "
        "temporary) is compared by bytes. In the flame graph widths are those of AFTER, red is a "
        "larger share than before, blue a smaller one.\n"
        "\n"
        "Intervals come from sub-windows of the two runs. These do not know how much one run "
        "differs from the next: to be sure, record several of each, in turns, and compare them "
        "all (--with).\n"
        "\n"
        "--fail-on LIMIT is for tests: exit status 3 if a figure has changed, noise left aside, by "
        "more than that. FIGURE>N% means it grew by more, FIGURE<N% that it shrank. Without "
        "% it is a limit of the value itself: tokens_per_s<50, p95>200ms, rss>1GB. Where it is "
        "not known whether a figure has changed the test fails too, unless --unknown-ok is given. "
        "Of requests: p50 p95 p99 ttft.p95 itl.p95 requests tokens prompt errors; of all: cpu "
        "cores off-cpu time peak live alloc rss; of spans p95:NAME spans:NAME cpu:NAME, of phases "
        "phase.p95:NAME, of functions self:NAME total:NAME. A NAME may hold * and ?. Exit status 2 "
        "if these runs have no such figure.\n"
        "\n"
        "examples:\n"
        "  sonde diff before.run after.run\n"
        "  sonde diff before.run after.run -o change.svg\n"
        "  sonde diff http://127.0.0.1:6060/admin/profiles/baseline after.run\n"
        "  sonde diff a*.run --with b*.run --fail-on 'cpu>3%' --fail-on 'p95:handle>5%'",
    .options = options,
    .values_size = sizeof(struct diff_values),
    .operands_max = -1,
    .run = cmd_diff_run,
};
