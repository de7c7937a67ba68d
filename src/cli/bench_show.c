/* bench_show.c - `sonde bench show`: a result that is kept, with its history. */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/visible.h"
#include "cli/bench_output.h"
#include "present/table.h"
#include "present/text.h"
#include "sonde/sonde.h"

struct bench_show_values { const char *format, *output; };

static const struct sonde_cli_opt options[] = {
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT",
      .offset = offsetof(struct bench_show_values, format), .choices = "text|markdown|json",
      .help = "how it is written (default text); json: one run a line, as it is kept" },
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE",
      .offset = offsetof(struct bench_show_values, output),
      .help = "write to FILE (default: standard output)" },
    SONDE_OPT_BENCH_DIR,
    { .name = NULL },
};

/* The runs before the last, each with the figures' values that the last has first. */
static void bench_show_history(const struct sonde_bench_saved *s, const struct sonde_bench_view *v,
                               struct sonde_buf *out)
{
    enum { SHOWN = 6 };
    const struct sonde_bench_result *last = &s->runs[s->count - 1];
    struct sonde_column columns[2 + SHOWN] = {
        { .title = "run", .align = SONDE_RIGHT }, { .title = "time" }
    };
    size_t count = 0;
    const char *names[SHOWN];
    for (size_t i = 0; i < last->figure_count && count < SHOWN; i++) {
        if (!last->figures[i].better) continue;
        names[count] = last->figures[i].name;
        columns[2 + count] = (struct sonde_column){ .title = names[count], .align = SONDE_RIGHT,
                                                    .drop = (int)count };
        count++;
    }
    struct sonde_table t;
    sonde_table_init(&t, columns, 2 + count);
    for (size_t i = 0; i < s->count; i++) {
        char text[SONDE_BENCH_VALUE_BYTES];
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%zu", i + 1);
        sonde_table_cell(&t, 1, "%s", sonde_bench_time_format(text, s->runs[i].time_s));
        for (size_t k = 0; k < count; k++) {
            const struct sonde_bench_figure *f = sonde_bench_figure_find(&s->runs[i], names[k]);
            sonde_table_cell(&t, 2 + k, "%s",
                             f ? sonde_bench_value_format(text, f->value, f->unit, v->ascii) : "");
        }
    }
    sonde_buf_puts(out, "\n");
    sonde_bench_table_text(&t, v, out);
    if (t.error && !out->error) out->error = t.error;
    sonde_table_release(&t);
}

static int bench_show_run(struct sonde_cli *cli)
{
    const struct bench_show_values *v = cli->values;
    if (cli->operand_count != 1) {
        return sonde_cli_usage(cli, "name a result: NAME, NAME@-2 or FILE");
    }
    struct sonde_bench_saved s = { 0 };
    int status = sonde_cli_bench_load(cli, cli->operands[0], &s);
    if (status) return status;
    const char *format = v->format ? v->format : "text";
    const struct sonde_bench_view view = { .markdown = !strcmp(format, "markdown"),
                                           .width = v->output ? 0 : sonde_cli_width(),
                                           .ascii = sonde_text_locale_ascii(), .details = 1 };
    struct sonde_buf out;
    sonde_buf_init(&out, SONDE_BENCH_JSON_MAX);
    if (!strcmp(format, "json")) {
        for (size_t i = 0; i < s.count; i++) sonde_bench_result_json(&s.runs[i], &out);
    } else {
        sonde_bench_result_text(&s.runs[s.count - 1], &view, &out);
        if (s.count > 1) bench_show_history(&s, &view, &out);
        if (!out.error && out.len) out.len = sonde_visible(out.data, out.len);
    }
    status = out.error ? sonde_cli_fail(cli, "out of memory")
                       : sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    sonde_bench_saved_release(&s);
    return status;
}

const struct sonde_command sonde_bench_cmd_show = {
    .name = "bench show",
    .summary = "show a result that is kept, and its history",
    .usage = "[options] NAME | FILE",
    .details = "The last run of NAME: figures with intervals, the verdict, the machine and how it "
               "was called; and if there are several, the values of all. NAME@2 is the second run, "
               "NAME@-1 the last. FILE is what -o FILE.json wrote: a name that holds a slash or "
               "ends in .json.\n"
               "\n"
               "examples:\n"
               "  sonde bench show nightly\n"
               "  sonde bench show nightly@-2 --format json",
    .options = options,
    .values_size = sizeof(struct bench_show_values),
    .operands_max = 1,
    .run = bench_show_run,
};
