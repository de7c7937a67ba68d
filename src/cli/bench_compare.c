/* bench_compare.c - `sonde bench compare`: two results that were kept, or two sets of them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/path.h"
#include "base/visible.h"
#include "bench/versus.h"
#include "cli/bench_output.h"
#include "present/text.h"
#include "sonde/sonde.h"

struct bench_compare_values {
    const char *format, *output;
    struct sonde_cli_list fail_on;
    int split, unknown_ok;
};

#define AT(field) .offset = offsetof(struct bench_compare_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "with", .type = SONDE_OPT_SPLIT, AT(split),
      .help = "what is before it is compared with what follows: several results of each" },
    { .name = "fail-on", .type = SONDE_OPT_LIST, .value = "LIMIT", AT(fail_on),
      .help = "exit status 3 if a figure changed by more: 'ttft_s.p95>5%'; or is: 'e2e_s.p99>2s'" },
    { .name = "unknown-ok", .type = SONDE_OPT_FLAG, AT(unknown_ok),
      .help = "let a limit pass where it is not known whether the figure has changed" },
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT", AT(format),
      .choices = "text|markdown|json", .help = "how it is written (default text)" },
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "write to FILE; FILE.json is JSON, .md Markdown (default: standard output)" },
    SONDE_OPT_BENCH_DIR,
    { .name = NULL },
};
#undef AT

struct bench_compare_state {
    struct sonde_bench_saved side[2];
    char label[2][160];
    struct sonde_bench_limit *limits;
    struct sonde_bench_comparison comparison;
};

/* The last run of a single name against those before it. */
static int bench_compare_last(struct sonde_cli *cli, struct bench_compare_state *s)
{
    struct sonde_bench_saved *all = &s->side[0];
    const int status = sonde_cli_bench_load(cli, cli->operands[0], all);
    if (status) return status;
    if (all->count < 2) {
        return sonde_cli_usage(cli, "'%s' has one run, and nothing to compare it with: name "
                               "another result too", cli->operands[0]);
    }
    struct sonde_bench_result *at = SONDE_ARRAY_ADD(s->side[1].runs, s->side[1].count,
                                                    s->side[1].cap);
    if (!at) return sonde_cli_fail(cli, "out of memory");
    *at = all->runs[--all->count];
    snprintf(s->label[0], sizeof(s->label[0]), "earlier runs of %.120s",
             sonde_path_base(cli->operands[0]));
    snprintf(s->label[1], sizeof(s->label[1]), "its last");
    return SONDE_EXIT_OK;
}

static int bench_compare_load(struct sonde_cli *cli, struct bench_compare_state *s)
{
    const struct bench_compare_values *v = cli->values;
    const int count = cli->operand_count, split = v->split ? v->split - 1 : 1;
    if (count == 1 && !v->split) return bench_compare_last(cli, s);
    if (!v->split && count > 2) {
        return sonde_cli_usage(cli, "which of them are before and which after? Put --with between: "
                               "sonde bench compare A1 A2 --with B1 B2");
    }
    if (count < 2 || split < 1 || split >= count) {
        return sonde_cli_usage(cli, "say what to compare: sonde bench compare BEFORE AFTER");
    }
    for (int i = 0; i < count; i++) {
        const int side = i >= split;
        const int status = sonde_cli_bench_load(cli, cli->operands[i], &s->side[side]);
        if (status) return status;
        if (!s->label[side][0]) {
            const int more = side ? count - split > 1 : split > 1;
            snprintf(s->label[side], sizeof(s->label[side]), "%.120s%s",
                     sonde_path_base(cli->operands[i]), more ? " and others" : "");
        }
    }
    return SONDE_EXIT_OK;
}

/* Before anything is read. */
static int bench_compare_take_limits(const struct sonde_cli *cli, struct bench_compare_state *s)
{
    const struct bench_compare_values *v = cli->values;
    struct sonde_err err = { "" };
    s->limits = sonde__calloc(v->fail_on.count ? v->fail_on.count : 1, sizeof(*s->limits));
    if (!s->limits) return sonde_cli_fail(cli, "out of memory");
    for (size_t i = 0; i < v->fail_on.count; i++) {
        if (sonde_bench_limit_parse(v->fail_on.item[i], &s->limits[i], &err)) {
            return sonde_cli_usage(cli, "--fail-on: %s", err.text);
        }
    }
    return SONDE_EXIT_OK;
}

static int bench_compare_write(const struct sonde_cli *cli, const struct bench_compare_state *s)
{
    const struct bench_compare_values *v = cli->values;
    const char *format = v->format                              ? v->format
                         : sonde_has_suffix(v->output, ".json") ? "json"
                         : sonde_has_suffix(v->output, ".md")   ? "markdown"
                                                                : "text";
    const int json = !strcmp(format, "json");
    const struct sonde_bench_compare_view view = {
        .before = s->label[0], .after = s->label[1],
        .view = { .markdown = !strcmp(format, "markdown"),
                  .width = v->output ? 0 : sonde_cli_width(), .ascii = sonde_text_locale_ascii() },
    };
    struct sonde_buf out;
    sonde_buf_init(&out, SONDE_BENCH_JSON_MAX);
    if (json) sonde_bench_compare_json(&s->comparison, &view, &out);
    else sonde_bench_compare_text(&s->comparison, &view, &out);
    if (!out.error && !json) out.len = sonde_visible(out.data, out.len);
    const int status = out.error ? sonde_cli_fail(cli, "out of memory")
                                 : sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

static int bench_compare_limits(const struct sonde_cli *cli, const struct bench_compare_state *s)
{
    const struct bench_compare_values *v = cli->values;
    int status = SONDE_EXIT_OK;
    for (size_t i = 0; i < v->fail_on.count; i++) {
        const struct sonde_bench_change *k = NULL;
        struct sonde_err err = { "" };
        const int rc = sonde_bench_compare_limit(&s->limits[i], &s->comparison, v->unknown_ok, &k,
                                                 &err);
        if (rc < 0) return sonde_cli_usage(cli, "--fail-on: %s", err.text);
        if (!rc) continue;
        char value[SONDE_BENCH_VALUE_BYTES], change[SONDE_BENCH_VALUE_BYTES];
        sonde_visible_printf(STDERR_FILENO, "sonde bench compare: --fail-on '%s': %s is %s, %s: "
                             "%s\n", s->limits[i].text, k->name,
                             sonde_bench_value_format(value, k->estimate[1].value, k->unit, 0),
                             sonde_bench_percent_format(change, k->d.relative, 0),
                             sonde_bench_verdict_name(k->verdict));
        status = SONDE_EXIT_LIMIT;
    }
    return status;
}

static int bench_compare_run(struct sonde_cli *cli)
{
    struct bench_compare_state s = { 0 };
    struct sonde_err err = { "" };
    int status = bench_compare_take_limits(cli, &s);
    if (!status) status = bench_compare_load(cli, &s);
    if (!status) {
        sonde_bench_compare_align(&s.side[0], &s.side[1]);
        const int rc = sonde_bench_compare(&s.side[0], &s.side[1], &s.comparison, &err);
        if (rc == SONDE_EINVAL) status = sonde_cli_usage(cli, "%s", err.text);
        else if (rc) status = sonde_cli_fail(cli, "%s", err.text);
    }
    if (!status) status = bench_compare_write(cli, &s);
    if (!status) status = bench_compare_limits(cli, &s);
    sonde_bench_comparison_release(&s.comparison);
    sonde_bench_saved_release(&s.side[0]);
    sonde_bench_saved_release(&s.side[1]);
    sonde__free(s.limits);
    return status;
}

const struct sonde_command sonde_bench_cmd_compare = {
    .name = "bench compare",
    .summary = "compare two results that are kept, with intervals",
    .usage = "[options] BEFORE [AFTER] | BEFORE… --with AFTER…",
    .details =
        "BEFORE and AFTER are names of results that were kept with --save, or files that -o "
        "FILE.json wrote. A name stands for all its runs, NAME@-1 for the last of them. One name "
        "alone: its last run against the earlier ones.\n"
        "\n"
        "Every figure that both have is compared: the change with its 95 % interval, and whether "
        "it is one. With several runs on a side the interval is of how much runs differ; with one "
        "each, of how much a run varied. Where no difference is seen, the smallest is said that "
        "would have been in nine of ten cases. What the machines do not have in common is noted, "
        "and so are results that are not valid.\n"
        "\n"
        "examples:\n"
        "  sonde bench compare main branch\n"
        "  sonde bench compare nightly --fail-on 'ttft_s.p95>5%'\n"
        "  sonde bench compare a1.json a2.json --with b1.json b2.json --format markdown",
    .options = options,
    .values_size = sizeof(struct bench_compare_values),
    .operands_max = -1,
    .run = bench_compare_run,
};
