/* cmd_flamegraph.c - `sonde flamegraph`: a profile as an interactive SVG or HTML page. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "cli/progress.h"
#include "present/flamegraph/flamegraph.h"
#include "profile/tree/tree.h"
#include "sonde/sonde.h"

#define OUTPUT_MAX ((size_t)1 << 30)

struct flamegraph_values {
    struct sonde_cli_filter filter;
    const char *output, *title;
    int invert, by_thread, icicle, stop;
    double duration_s;
};

#define AT(field) .offset = offsetof(struct flamegraph_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "write to FILE.svg or FILE.html (default: an SVG to the standard output; with a CMD, "
              "whose output that is, FILE must be given)" },
    SONDE_OPT_FILTER(struct flamegraph_values, filter),
    { .name = "invert", .type = SONDE_OPT_FLAG, AT(invert),
      .help = "start with the leaves: who calls what takes the time" },
    { .name = "icicle", .type = SONDE_OPT_FLAG, AT(icicle), .help = "draw from the top down" },
    { .name = "by-thread", .type = SONDE_OPT_FLAG, AT(by_thread),
      .help = "the first level are the threads" },
    { .name = "colors", .type = SONDE_OPT_SETTING, .value = "SCHEME",
      .setting = "flamegraph.color_scheme",
      .help = "hot (default), cold, rainbow, monochrome or module" },
    { .name = "min-width", .type = SONDE_OPT_SETTING, .value = "PERCENT",
      .setting = "flamegraph.min_width_percent",
      .help = "narrower frames are left out (default 0.1; 0 = none is)" },
    { .name = "title", .type = SONDE_OPT_STR, .value = "TEXT", AT(title),
      .help = "title of the picture" },
    SONDE_OPT_DURATION(struct flamegraph_values, duration_s),
    { .name = "stop", .type = SONDE_OPT_FLAG, AT(stop),
      .help = "with -d and a CMD: end it then, as `sonde record --stop` does" },
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

/* -1: neither. */
static int is_html(const char *path)
{
    if (!path || !strcmp(path, "-")) return 0;
    const char *dot = strrchr(path, '.');
    if (dot && !strcmp(dot, ".svg")) return 0;
    if (dot && (!strcmp(dot, ".html") || !strcmp(dot, ".htm"))) return 1;
    return -1;
}

static struct sonde_flamegraph_options picture_options(const struct sonde_cli *cli,
                                                       const char *subtitle, int html)
{
    const struct flamegraph_values *v = cli->values;
    const double percent = cli->config.flamegraph_min_width_percent;
    struct sonde_config_values defaults;
    sonde_config_defaults(&defaults);
    const int chosen = sonde_cli_was_set(cli, "flamegraph.min_width_percent") ||
                       percent != defaults.flamegraph_min_width_percent;
    const int colors = sonde_flamegraph_colors_find(cli->config.flamegraph_color_scheme);
    return (struct sonde_flamegraph_options){
        .title = v->title,
        .subtitle = subtitle[0] ? subtitle : NULL,
        .colors = colors < 0 ? SONDE_FLAMEGRAPH_HOT : (enum sonde_flamegraph_colors)colors,
        /* A page can hold far more frames than a drawing, so it has a rule of its own. */
        .min_width = html && !chosen ? 0 : percent > 0 ? percent / 100 : -1,
        .icicle = v->icicle,
    };
}

/* "server, in parse, phase prefill" */
static void cmd_flamegraph_describe(const struct sonde_cli_filter *f, const char *program,
                                    char *out, size_t size)
{
    const struct { const char *what, *value; } parts[] = {
        { "", program[0] ? program : NULL }, { "in ", f->span },     { "phase ", f->phase },
        { "request ", f->request },          { "slowest ", f->slowest },
    };
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < SONDE_COUNT(parts); i++) {
        if (!parts[i].value || len >= size) continue;
        len += (size_t)snprintf(out + len, size - len, "%s%s%.200s", len ? ", " : "",
                                parts[i].what, parts[i].value);
    }
}

static int cmd_flamegraph_draw(const struct sonde_cli *cli, const struct sonde_profile *p, int html)
{
    const struct flamegraph_values *v = cli->values;
    struct sonde_profile_filter filter;
    int status = sonde_cli_filter(cli, &v->filter, p, &filter);
    if (status) return status;
    char subtitle[512];
    cmd_flamegraph_describe(&v->filter, sonde_profile_str(p, p->program), subtitle,
                            sizeof(subtitle));
    const struct sonde_flamegraph_options o = picture_options(cli, subtitle, html);
    struct sonde_tree_options how = sonde_flamegraph_tree(&o, html);
    how.invert = v->invert;
    how.by_thread = v->by_thread;
    struct sonde_progress progress;
    struct sonde_tree *tree;
    struct sonde_buf out;
    struct sonde_err err = { "" };
    sonde_buf_init(&out, OUTPUT_MAX);
    sonde_progress_begin(&progress, cli, "drawing", v->output ? v->output : "a flame graph");
    int rc = sonde_tree_build(p, &filter, &how, &tree, &err);
    const int is_built = !rc;
    if (!rc) {
        rc = html ? sonde_flamegraph_html(tree, &o, &out) : sonde_flamegraph_svg(tree, &o, &out);
    }
    sonde_progress_end(&progress);
    if (!is_built && rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    if (!is_built) return sonde_cli_fail(cli, "%s: %s", cli->operands[0], err.text);

    if (rc == SONDE_EFULL) status = sonde_cli_fail(cli, "the picture is larger than 1 GiB");
    else if (rc) status = sonde_cli_fail(cli, "%s", sonde_strerror(rc));
    else status = sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    sonde_tree_destroy(tree);
    return status;
}

/* A command that was too short, or slept: the picture says so, and the exit status is its own. */
static int cmd_flamegraph_draw_nothing(const struct sonde_cli *cli, int html)
{
    static const char text[] = "no samples: it used too little CPU time";
    const struct flamegraph_values *v = cli->values;
    struct sonde_buf out;
    sonde_buf_init(&out, OUTPUT_MAX);
    sonde_buf_printf(&out,
                     html ? "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>"
                            "flame graph</title><body><p>%s</p></body></html>\n"
                          : "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" "
                            "height=\"60\"><rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>"
                            "<text x=\"600\" y=\"35\" text-anchor=\"middle\" font-family="
                            "\"sans-serif\" font-size=\"14\">%s</text></svg>\n", text);
    const int status = out.error ? sonde_cli_fail(cli, "out of memory")
                                 : sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    if (!status && !cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde: %s: %s\n", cli->operands[0], text);
    }
    return status;
}

static int draw_command(struct sonde_cli *cli, struct sonde_profile *p)
{
    const struct flamegraph_values *v = cli->values;
    if (!p->samples_count) return cmd_flamegraph_draw_nothing(cli, is_html(v->output));
    const int status = cmd_flamegraph_draw(cli, p, is_html(v->output));
    if (!status && !cli->quiet && isatty(STDERR_FILENO)) {
        sonde_visible_printf(STDERR_FILENO, "sonde: %s is drawn\n", v->output);
    }
    return status;
}

static int cmd_flamegraph_run(struct sonde_cli *cli)
{
    const struct flamegraph_values *v = cli->values;
    const int command = cli->operands_plain == 0 && cli->operand_count;
    if (!cli->operand_count) {
        return sonde_cli_usage(cli, "say of what: sonde flamegraph FILE -o out.svg, or sonde "
                               "flamegraph -o out.svg -- CMD");
    }
    const int html = is_html(v->output);
    if (html < 0) {
        return sonde_cli_usage(cli, "--output: '%s' ends in neither .svg nor .html", v->output);
    }
    const int to_stdout = !v->output || !strcmp(v->output, "-");
    if (!v->output && (command || isatty(STDOUT_FILENO))) {
        return sonde_cli_usage(cli, "say where to: -o out.svg or -o out.html");
    }
    if (command && to_stdout) {
        return sonde_cli_usage(cli, "the standard output is that of %s: say -o out.svg",
                               cli->operands[0]);
    }
    if (v->stop && (!command || v->duration_s <= 0)) {
        return sonde_cli_usage(cli, "--stop ends CMD after -d SECONDS: it needs both");
    }
    if (command) {
        return sonde_cli_profile_command(cli, cli->operands, v->duration_s, v->stop, &v->filter,
                                         draw_command);
    }
    struct sonde_profile *p;
    int status = sonde_cli_profile(cli, cli->operands[0], v->duration_s, &v->filter, &p);
    if (status) return status;
    status = cmd_flamegraph_draw(cli, p, html);
    sonde_profile_destroy(p);
    return status;
}

const struct sonde_command sonde_cmd_flamegraph = {
    .name = "flamegraph",
    .summary = "draw a profile as an interactive SVG or HTML page",
    .usage = "[options] -o out.svg|out.html FILE | URL | PID | -- CMD [ARGUMENT]...",
    .details =
        "FILE is a run that `sonde record` wrote, or a profile of another tool (`sonde help "
        "import` lists them); - is the standard input. STORE:NAME is a profile "
        "that a store keeps, and http://HOST:PORT/admin/profiles/NAME one of a running agent. With "
        "the URL of the agent itself, or a process id, it samples now. What follows "
        "-- is a command that is run and sampled, with the processes that it starts, until it ends "
        "or for -d SECONDS; its input, output and exit status are its own, also when there were no "
        "samples, which the picture then says.\n"
        "\n"
        "Of what was recorded with --heap, or of an agent that `sonde run` started, --type live "
        "draws what memory is used for, peak that at the peak, leaked what was not given back, "
        "alloc all that was allocated, temporary what was freed at once.\n"
        "\n"
        SONDE_CLI_SELECT_DETAILS
        "An SVG is for embedding and looking at; HTML is for large profiles and has a table of "
        "callers and callees.\n"
        "\n"
        "examples:\n"
        "  sonde flamegraph server.run -o server.svg\n"
        "  sonde flamegraph -o sort.svg -- sort -R words.txt\n"
        "  sonde flamegraph --span parse --colors module server.run -o parse.html\n"
        "  sonde flamegraph --phase prefill --slowest 1% engine.run -o slow.html\n"
        "  sonde flamegraph --type leaked http://127.0.0.1:6060 -o leaks.svg",
    .options = options,
    .values_size = sizeof(struct flamegraph_values),
    .operands_max = 1,
    .command_after_dashes = 1,
    .run = cmd_flamegraph_run,
};
