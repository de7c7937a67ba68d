/* cmd_plot.c - `sonde plot`: what was recorded, as pictures. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "analyze/plot_gather.h"
#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "base/path.h"
#include "bench/plot/plot.h"
#include "bench/versus.h"
#include "cli/bench_output.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "present/plot/data_file.h"
#include "present/plot/kind.h"
#include "present/table.h"
#include "sonde/sonde.h"

#define PLOT_OUTPUT_MAX ((size_t)256 << 20)

enum { PLOT_INPUTS_MAX = 64, PLOT_LABEL = 128 };

struct plot_values {
    struct sonde_cli_filter filter; /* from and to only */
    const char *output, *format, *theme, *title, *of;
    double width, height, scale, duration_s;
    int list;
};

#define AT(field) .offset = offsetof(struct plot_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "FILE.png, .svg, .pdf, .html or .json, replaced when all is written; - is the "
              "standard output" },
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT",
      .choices = "png|svg|pdf|html|json", AT(format),
      .help = "json is the data and what is drawn (default: by the suffix of FILE, else svg)" },
    { .name = "theme", .type = SONDE_OPT_STR, .value = "THEME", .choices = "light|dark|auto",
      AT(theme), .help = "auto follows the viewer, in svg and html, where it is the default" },
    { .name = "of", .type = SONDE_OPT_STR, .value = "GLOB", AT(of),
      .help = "only series of such a name: --of 'parse*' (--format json shows names)" },
    { .name = "title", .type = SONDE_OPT_STR, .value = "TEXT", AT(title),
      .help = "what stands above it" },
    { .name = "width", .type = SONDE_OPT_NUM, .value = "POINTS", .min = SONDE_PLOT_WIDTH_MIN,
      .max = SONDE_PLOT_SIZE_MAX, AT(width), .help = "how wide (default: 800 and more)" },
    { .name = "height", .type = SONDE_OPT_NUM, .value = "POINTS", .min = 160,
      .max = SONDE_PLOT_SIZE_MAX, AT(height), .help = "how high (default: as needed)" },
    { .name = "scale", .type = SONDE_OPT_NUM, .value = "N", .min = 0.25, .max = 8, AT(scale),
      .help = "pixels a point, of png (default 2)" },
    { .name = "from", .type = SONDE_OPT_STR, .value = "SECONDS", AT(filter.from),
      .help = "of an agent: its history from here on, -SECONDS ago or unix time" },
    { .name = "to", .type = SONDE_OPT_STR, .value = "SECONDS", AT(filter.to),
      .help = "up to here, alike" },
    SONDE_OPT_DURATION(struct plot_values, duration_s),
    { .name = "list", .type = SONDE_OPT_FLAG, AT(list),
      .help = "list the kinds, and what each needs" },
    SONDE_OPT_BENCH_DIR,
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

static int plot_list(const struct sonde_cli *cli)
{
    static const struct sonde_column columns[] = {
        { .title = "KIND" }, { .title = "DRAWN", .min = 20 }, { .title = "NEEDS", .min = 20 } };
    struct sonde_table t;
    struct sonde_buf out;
    sonde_table_init(&t, columns, 3);
    for (size_t i = 0; sonde_plot_kinds[i]; i++) {
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%s", sonde_plot_kinds[i]->name);
        sonde_table_cell(&t, 1, "%s", sonde_plot_kinds[i]->summary);
        sonde_table_cell(&t, 2, "%s", sonde_plot_kinds[i]->needs);
    }
    sonde_buf_init(&out, PLOT_OUTPUT_MAX);
    sonde_table_render(&t, sonde_cli_width(), 0, &out);
    const int status = t.error ? sonde_cli_fail(cli, "out of memory")
                               : sonde_cli_write(cli, NULL, &out);
    sonde_table_release(&t);
    sonde_buf_release(&out);
    return status;
}

/* ---- Input ----------------------------------------------------------------------------------- */

struct plot_input {
    const char *target;
    char label[PLOT_LABEL];             /* what it is called beside others */
    struct sonde_buf text;              /* of a data file */
    struct sonde_bench_saved saved;     /* of results */
    struct sonde_profile *profile;      /* of a recording */
};

struct plot_inputs {
    struct plot_input *items;
    size_t count;
    int fd;                             /* what came from the standard input; -1 = nothing did */
};

static void plot_inputs_release(struct plot_inputs *in)
{
    for (size_t i = 0; i < in->count; i++) {
        sonde_buf_release(&in->items[i].text);
        sonde_bench_saved_release(&in->items[i].saved);
        sonde_profile_destroy(in->items[i].profile);
    }
    sonde__free(in->items);
    if (in->fd >= 0) close(in->fd);
}

/* The standard input as a file that can be read twice: to see what it is, and as that. */
static int plot_keep_input(const struct sonde_cli *cli, struct plot_inputs *in, char *path,
                           size_t path_size)
{
    struct sonde_buf b;
    sonde_buf_init(&b, PLOT_OUTPUT_MAX);
    int rc = in->fd >= 0 ? SONDE_EINVAL : sonde_file_read_fd(STDIN_FILENO, &b);
    if (!rc) {
        in->fd = memfd_create("sonde-plot-input", MFD_CLOEXEC);
        rc = in->fd < 0 ? SONDE_EIO : sonde_file_write_all(in->fd, b.data ? b.data : "", b.len);
    }
    sonde_buf_release(&b);
    if (rc) return sonde_cli_usage(cli, "the standard input cannot be read, or is given twice");
    snprintf(path, path_size, "/proc/self/fd/%d", in->fd);
    return SONDE_EXIT_OK;
}

static int plot_holds(const struct sonde_buf *b, const char *word)
{
    return memmem(b->data, b->len, word, strlen(word)) != NULL;
}

/* A file of JSON may be a data file or results; anything else is a recording, or of another
 * tool. */
static int plot_read_text(const struct sonde_cli *cli, const char *path, struct plot_input *to,
                          int *known)
{
    struct sonde_err err = { "" };
    char first = 0;
    *known = 0;
    if (sonde_cli_is_url(path) || sonde_cli_in_store(path) || access(path, R_OK) != 0) {
        return SONDE_EXIT_OK;
    }
    char head[64];
    const ssize_t n = sonde_file_read_small(AT_FDCWD, path, head, sizeof(head));
    for (ssize_t i = 0; i < n && !first; i++) first = strchr(" \t\r\n", head[i]) ? 0 : head[i];
    if (first != '{') return SONDE_EXIT_OK;
    const int rc = sonde_file_read(path, &to->text, &err);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);
    if (sonde_plot_file_is(to->text.data, to->text.len)) {
        *known = 1;
        return SONDE_EXIT_OK;
    }
    const int result = plot_holds(&to->text, "\"schema\"") && plot_holds(&to->text, "\"figures\"");
    sonde_buf_release(&to->text);
    sonde_buf_init(&to->text, SONDE_PLOT_FILE_MAX);
    *known = result;
    return result ? sonde_cli_bench_load(cli, path, &to->saved) : SONDE_EXIT_OK;
}

/* A name that is no file may be one of results that were kept. */
static int plot_is_kept_result(const char *target)
{
    uint32_t pid;
    struct sonde_err err;
    return access(target, F_OK) != 0 && !sonde_cli_is_url(target) && !sonde_cli_in_store(target) &&
           sonde_cli_parse_pid(target, &pid) != 0 && !strchr(target, '/') &&
           !strchr(target, ':') && !sonde_bench_saved_name_check(target, &err);
}

static int plot_input_load(struct sonde_cli *cli, struct plot_inputs *in, const char *target)
{
    const struct plot_values *v = cli->values;
    struct plot_input *to = &in->items[in->count++];
    char path[64];
    int known = 0, status = SONDE_EXIT_OK;
    to->target = target;
    sonde_buf_init(&to->text, SONDE_PLOT_FILE_MAX);
    const int from_stdin = !strcmp(target, "-");
    snprintf(to->label, sizeof(to->label), "%.120s",
             from_stdin ? "standard input" : sonde_path_base(target));
    if (from_stdin) {
        status = plot_keep_input(cli, in, path, sizeof(path));
        target = path;
    }
    if (!status) status = plot_read_text(cli, target, to, &known);
    if (status || known) return status;
    /* A run by that name is a file; a typing error is one too, and gets that message. */
    if (plot_is_kept_result(target) && !strchr(target, '.')) {
        return sonde_cli_bench_load(cli, target, &to->saved);
    }
    return sonde_cli_profile(cli, target, v->duration_s, &v->filter, &to->profile);
}

/* Two files of one name in two folders are told apart. */
static void plot_labels(struct plot_inputs *in)
{
    for (size_t i = 0; i < in->count; i++) {
        size_t same = 0;
        for (size_t k = 0; k < i; k++) {
            same += !strcmp(sonde_path_base(in->items[k].target),
                            sonde_path_base(in->items[i].target));
        }
        const size_t n = strlen(in->items[i].label);
        if (same && n < PLOT_LABEL - 8) {
            snprintf(in->items[i].label + n, PLOT_LABEL - n, " (%zu)", same + 1);
        }
    }
}

/* ---- Data ------------------------------------------------------------------------------------ */

static int plot_data_of(const struct sonde_cli *cli, const struct plot_inputs *in, int role,
                        struct sonde_plot_data *data)
{
    struct sonde_err err = { "" };
    int rc = 0;
    for (size_t i = 0; i < in->count && !rc; i++) {
        const struct plot_input *it = &in->items[i];
        const char *label = in->count > 1 ? it->label : "";
        if (it->text.len) {
            rc = sonde_plot_file_read(it->text.data, it->text.len, it->target, role, label, data,
                                      &err);
        } else if (it->saved.count) {
            const struct sonde_bench_plot_input one = { it->label, &it->saved };
            rc = sonde_bench_plot_data(&one, 1, data);
        } else if (it->profile) {
            rc = sonde_plot_gather(it->profile, label, data);
        }
    }
    if (!rc) return SONDE_EXIT_OK;
    if (rc == SONDE_ENOMEM || !err.text[0]) return sonde_cli_fail(cli, "out of memory");
    sonde_cli_fail(cli, "%s", err.text);
    return SONDE_EXIT_USAGE;
}

static int plot_compare(const struct sonde_cli *cli, struct plot_inputs *in,
                        struct sonde_plot_data *data)
{
    const struct sonde_profile *runs[PLOT_INPUTS_MAX];
    const char *labels[PLOT_INPUTS_MAX];
    size_t count = 0, results = 0;
    for (size_t i = 0; i < in->count; i++) {
        struct plot_input *it = &in->items[i];
        if (it->saved.count && results++) {
            sonde_bench_compare_align(&in->items[0].saved, &it->saved);
        }
        if (!it->profile) continue;
        runs[count] = it->profile;
        labels[count++] = it->label;
    }
    if (count > 1 && sonde_plot_gather_compare(runs, labels, count, data)) {
        return sonde_cli_fail(cli, "out of memory");
    }
    return SONDE_EXIT_OK;
}

/* Program, when, how long: below the title, where a file says nothing else. */
static void plot_describe(const struct sonde_cli *cli, const struct plot_inputs *in,
                          const char *kind, struct sonde_plot_data *data)
{
    const struct plot_values *v = cli->values;
    const struct sonde_profile *p = in->items[0].profile;
    if (!data->title[0]) {
        size_t n = (size_t)snprintf(data->title, sizeof(data->title), "%s", kind);
        for (size_t i = 0; i < in->count && n + 4 < sizeof(data->title); i++) {
            n += (size_t)snprintf(data->title + n, sizeof(data->title) - n, "%s%.60s",
                                  i ? ", " : ": ", in->items[i].label);
        }
    }
    if (v->title) snprintf(data->title, sizeof(data->title), "%s", v->title);
    if (data->note[0] || !p || in->count > 1 || p->end_ns <= p->start_ns) return;
    const time_t start = (time_t)(p->start_ns / 1000000000u);
    struct tm tm;
    char when[40] = "", length[SONDE_CHART_VALUE_BYTES];
    if (localtime_r(&start, &tm)) strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S %Z", &tm);
    snprintf(data->note, sizeof(data->note), "%.120s%s%s, %s", sonde_profile_str(p, p->program),
             sonde_profile_str(p, p->program)[0] ? ", " : "", when,
             sonde_chart_value(length, (double)(p->end_ns - p->start_ns) * 1e-9, "s"));
}

/* ---- Output ---------------------------------------------------------------------------------- */

static int plot_format(const struct sonde_cli *cli, int *out)
{
    const struct plot_values *v = cli->values;
    const int file = v->output && strcmp(v->output, "-") != 0;
    *out = SONDE_PLOT_SVG;
    if (v->format) *out = sonde_plot_format_find(v->format);
    else if (file) *out = sonde_plot_format_of(v->output);
    if (*out < 0) {
        return sonde_cli_usage(cli, "--output: '%s' does not end in .png, .svg, .pdf, .html or "
                               ".json: say --format", v->output);
    }
    const int binary = *out == SONDE_PLOT_PNG || *out == SONDE_PLOT_PDF;
    if (binary && !file && isatty(STDOUT_FILENO)) {
        return sonde_cli_usage(cli, "%s is not for a terminal: name a file (-o FILE.%s)",
                               v->format, v->format);
    }
    if (binary && v->theme && !strcmp(v->theme, "auto")) {
        return sonde_cli_usage(cli,
                               "--theme auto: a %s cannot follow its viewer, say light or dark",
                               sonde_plot_format_name((enum sonde_plot_format)*out));
    }
    return SONDE_EXIT_OK;
}

static struct sonde_plot_look plot_look(const struct plot_values *v)
{
    return (struct sonde_plot_look){
        .theme = !v->theme || !strcmp(v->theme, "auto") ? SONDE_THEME_AUTO
                 : !strcmp(v->theme, "dark")            ? SONDE_THEME_DARK
                                                        : SONDE_THEME_LIGHT,
        .width = v->width, .height = v->height, .scale = v->scale };
}

static void plot_json(const char *kind, struct sonde_plot_data *data,
                      const struct sonde_plot_page *page, struct sonde_buf *out)
{
    snprintf(data->kind, sizeof(data->kind), "%s", kind);
    sonde_json_open(out, '{');
    sonde_json_u64(out, "sonde_plot", 1);
    sonde_plot_file_write(data, out);
    sonde_plot_page_json(page, out);
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
}

static int plot_write(const struct sonde_cli *cli, const struct sonde_plot_kind *kind,
                      struct sonde_plot_data *data, int format)
{
    const struct plot_values *v = cli->values;
    const struct sonde_plot_look look = plot_look(v);
    struct sonde_plot_page page = { .title = "" };
    struct sonde_err err = { "" };
    struct sonde_buf out;
    int empty = 0, status;
    int rc = sonde_plot_kind_draw(kind, data, &page, &empty);
    sonde_buf_init(&out, PLOT_OUTPUT_MAX);
    if (rc) sonde_err_memory(&err);
    else if (format == SONDE_PLOT_JSON) plot_json(kind->name, data, &page, &out);
    else rc = sonde_plot_page_write(&page, (enum sonde_plot_format)format, &look, &out, &err);
    if (!rc && out.error) rc = sonde_err_set(&err, out.error, "it is too large, or memory is out");
    if (rc == SONDE_EINVAL) status = sonde_cli_usage(cli, "%s", err.text);
    else if (rc) status = sonde_cli_fail(cli, "%s", err.text);
    else status = sonde_cli_write(cli, v->output, &out);
    if (!status && empty) {
        status = sonde_cli_fail(cli, "there is nothing to draw: %s needs %s. %s", kind->name,
                                kind->needs, kind->hint);
    }
    sonde_buf_release(&out);
    sonde_plot_page_release(&page);
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int plot_kind_of(const struct sonde_cli *cli, const char *name,
                        const struct sonde_plot_kind **out)
{
    const char *names[32];
    size_t n = 0;
    *out = sonde_plot_kind_find(name);
    if (*out) return SONDE_EXIT_OK;
    for (; sonde_plot_kinds[n] && n + 1 < 32; n++) names[n] = sonde_plot_kinds[n]->name;
    names[n] = NULL;
    const char *meant = sonde_cli_suggest(name, names);
    return sonde_cli_usage(
        cli, "there is no kind of plot '%s'%s%s%s: `sonde plot --list` shows them", name,
        meant ? " (did you mean " : "", meant ? meant : "", meant ? "?)" : "");
}

static int plot_draw(struct sonde_cli *cli, struct plot_inputs *in,
                     const struct sonde_plot_kind *kind, int format)
{
    const struct plot_values *v = cli->values;
    struct sonde_plot_data data = { .kind = "" };
    int status = plot_data_of(cli, in, kind ? kind->role : -1, &data);
    if (!status) status = plot_compare(cli, in, &data);
    if (!status && !kind && !data.kind[0]) {
        status = sonde_cli_usage(cli, "%s does not say what it is to be drawn as: name a kind",
                                 in->items[0].target);
    }
    if (!status && !kind) status = plot_kind_of(cli, data.kind, &kind);
    if (!status && v->of) sonde_plot_data_keep(&data, v->of);
    if (!status) {
        plot_describe(cli, in, kind->name, &data);
        status = plot_write(cli, kind, &data, format);
    }
    sonde_plot_data_release(&data);
    return status;
}

static int cmd_plot_run(struct sonde_cli *cli)
{
    const struct plot_values *v = cli->values;
    const struct sonde_plot_kind *kind = NULL;
    int format;
    if (v->list) return plot_list(cli);
    if (cli->operand_count < 2) {
        return sonde_cli_usage(cli, "say what to draw, and of what: sonde plot latency FILE -o "
                               "FILE.png (`sonde plot --list` shows the kinds)");
    }
    if (cli->operand_count - 1 > PLOT_INPUTS_MAX) return sonde_cli_usage(cli, "too many inputs");
    int status = plot_format(cli, &format);
    if (!status && strcmp(cli->operands[0], "auto") != 0) {
        status = plot_kind_of(cli, cli->operands[0], &kind);
    }
    if (status) return status;
    struct plot_inputs in = { .fd = -1 };
    in.items = sonde__calloc((size_t)cli->operand_count, sizeof(*in.items));
    if (!in.items) return sonde_cli_fail(cli, "out of memory");
    for (int i = 1; i < cli->operand_count && !status; i++) {
        status = plot_input_load(cli, &in, cli->operands[i]);
    }
    plot_labels(&in);
    if (!status) status = plot_draw(cli, &in, kind, format);
    plot_inputs_release(&in);
    return status;
}

const struct sonde_command sonde_cmd_plot = {
    .name = "plot",
    .summary = "draw what was recorded: training curves, latencies, throughput, memory ...",
    .usage = "[options] KIND FILE | URL | PID ... | --list",
    .details =
        "FILE is a run that `sonde record` wrote (STORE:NAME is one of a store), results of `sonde "
        "bench` by file or name, or a data file: JSON that any program can write (docs/plot.md). "
        "With the URL of a running agent, or a process id, it records now. Several are drawn "
        "beside "
        "each other. KIND auto is what a data file says.\n"
        "\n"
        "PNG and PDF are pictures; SVG has text as text, and says its values to who points at "
        "them; "
        "HTML is one file with the SVG and tables of all values; JSON has the data and what is "
        "drawn "
        "of it. Light and dark are those of the dashboard.\n"
        "\n"
        "If the input has nothing of what the kind needs, the picture says what is missing, and "
        "the "
        "exit status is 1.\n"
        "\n"
        "examples:\n"
        "  sonde plot --list\n"
        "  sonde plot latency server.run -o latency.png\n"
        "  sonde plot comprehensive http://127.0.0.1:6060 -o page.html\n"
        "  sonde plot compare before.run after.run --theme dark -o change.pdf\n"
        "  sonde plot training history.json --format svg",
    .options = options,
    .values_size = sizeof(struct plot_values),
    .operands_max = -1,
    .run = cmd_plot_run,
};
