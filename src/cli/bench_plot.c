/* bench_plot.c - `sonde bench plot`: results that are kept as pictures. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/path.h"
#include "bench/versus.h"
#include "bench/plot/plot.h"
#include "cli/bench_output.h"
#include "sonde/sonde.h"

#define BENCH_PLOT_OUTPUT_MAX ((size_t)64 << 20)

struct bench_plot_values { const char *output; struct sonde_cli_list figure; };

static const struct sonde_cli_opt options[] = {
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE",
      .offset = offsetof(struct bench_plot_values, output),
      .help = "FILE.svg, .html, .png or .pdf (default: SVG to the standard output)" },
    { .name = "figure", .type = SONDE_OPT_LIST, .value = "NAME",
      .offset = offsetof(struct bench_plot_values, figure),
      .help = "draw this figure (default: what the kind of result shows best)" },
    SONDE_OPT_BENCH_DIR,
    { .name = NULL },
};

static int bench_plot_draw(const struct sonde_cli *cli, const struct sonde_bench_plot_input *inputs,
                           size_t count, enum sonde_plot_format format)
{
    const struct bench_plot_values *v = cli->values;
    const struct sonde_plot_look look = { .theme = SONDE_THEME_AUTO };
    struct sonde_plot_page page = { .title = "" };
    struct sonde_err err = { "" };
    struct sonde_buf out;
    int rc = sonde_bench_plot_make(inputs, count, v->figure.item, v->figure.count, &page, &err);
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);
    sonde_buf_init(&out, BENCH_PLOT_OUTPUT_MAX);
    rc = sonde_plot_page_write(&page, format, &look, &out, &err);
    const int status = rc ? sonde_cli_fail(cli, "%s", err.text)
                          : sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    sonde_plot_page_release(&page);
    return status;
}

static int bench_plot_run(struct sonde_cli *cli)
{
    const struct bench_plot_values *v = cli->values;
    const size_t count = (size_t)cli->operand_count;
    if (!count) return sonde_cli_usage(cli, "name results: sonde bench plot NAME… -o FILE.svg");
    const int format = v->output && strcmp(v->output, "-") != 0 ? sonde_plot_format_of(v->output)
                                                                : SONDE_PLOT_SVG;
    if (format < 0 || format == SONDE_PLOT_JSON) {
        return sonde_cli_usage(cli, "--output: '%s' is not .svg, .html, .png or .pdf", v->output);
    }
    struct sonde_bench_saved *saved = sonde__calloc(count, sizeof(*saved));
    struct sonde_bench_plot_input *inputs = sonde__calloc(count, sizeof(*inputs));
    int status = saved && inputs ? SONDE_EXIT_OK : sonde_cli_fail(cli, "out of memory");
    for (size_t i = 0; i < count && !status; i++) {
        status = sonde_cli_bench_load(cli, cli->operands[i], &saved[i]);
        inputs[i] = (struct sonde_bench_plot_input){ sonde_path_base(cli->operands[i]), &saved[i] };
    }
    for (size_t i = 1; i < count && !status; i++) sonde_bench_compare_align(&saved[0], &saved[i]);
    if (!status) status = bench_plot_draw(cli, inputs, count, (enum sonde_plot_format)format);
    for (size_t i = 0; saved && i < count; i++) sonde_bench_saved_release(&saved[i]);
    sonde__free(saved);
    sonde__free(inputs);
    return status;
}

const struct sonde_command sonde_bench_cmd_plot = {
    .name = "bench plot",
    .summary = "draw results that are kept: distributions, history, curves",
    .usage = "[options] NAME|FILE…",
    .details = "One picture, SVG and HTML in light or dark as the viewer prefers, with nothing "
               "loaded from anywhere: throughput by copies with the fitted curve (`bench cmd "
               "--parallel`), "
               "latency and rates by load (`bench http --sweep`), ratio by speed with the Pareto "
               "front (`bench compress`); and of other results, or with --figure, the parts of a "
               "figure with its interval for each NAME, and its history where a name has several "
               "runs.\n"
               "\n"
               "examples:\n"
               "  sonde bench plot main branch -o compare.svg\n"
               "  sonde bench plot nightly --figure ttft_s.p95 -o history.html",
    .options = options,
    .values_size = sizeof(struct bench_plot_values),
    .operands_max = -1,
    .run = bench_plot_run,
};
