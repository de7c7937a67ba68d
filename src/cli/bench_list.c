/* bench_list.c - `sonde bench list`: the results that are kept, one row a name. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/path.h"
#include "base/visible.h"
#include "cli/bench_output.h"
#include "present/table.h"
#include "sonde/sonde.h"

#define BENCH_LIST_OUTPUT_MAX ((size_t)64 << 20)

enum { BENCH_LIST_NAMES_MAX = 10000 };

struct bench_list_values { const char *format; };

static const struct sonde_cli_opt options[] = {
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT",
      .offset = offsetof(struct bench_list_values, format), .choices = "text|markdown|json",
      .help = "how it is written (default text)" },
    SONDE_OPT_BENCH_DIR,
    { .name = NULL },
};

struct bench_list_names { char **item; size_t count, cap; };

static int bench_list_by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names without their suffix, sorted. A folder that is not there holds nothing. */
static int bench_list_read(const struct sonde_cli *cli, const char *dir,
                           struct bench_list_names *names)
{
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT) return SONDE_EXIT_OK;
    if (!d) return sonde_cli_fail(cli, "cannot read the folder '%s': %s", dir, strerror(errno));
    const struct dirent *e;
    int status = SONDE_EXIT_OK;
    while (!status && (e = readdir(d)) != NULL) {
        const size_t len = strlen(e->d_name), suffix = strlen(SONDE_BENCH_SAVED_SUFFIX);
        struct sonde_err err = { "" };
        if (!sonde_has_suffix(e->d_name, SONDE_BENCH_SAVED_SUFFIX)) continue;
        char name[sizeof(e->d_name)];
        snprintf(name, sizeof(name), "%.*s", (int)(len - suffix), e->d_name);
        if (sonde_bench_saved_name_check(name, &err)) continue;
        char *copy = names->count < BENCH_LIST_NAMES_MAX ? sonde__strdup(name) : NULL;
        char **at = copy ? SONDE_ARRAY_ADD(names->item, names->count, names->cap) : NULL;
        if (at) *at = copy;
        else {
            sonde__free(copy);
            status = sonde_cli_fail(cli, "'%s' has more than %d results, or memory is out", dir,
                                    BENCH_LIST_NAMES_MAX);
        }
    }
    closedir(d);
    if (names->count) qsort(names->item, names->count, sizeof(*names->item), bench_list_by_name);
    return status;
}

/* The figure that stands for a result: the first that is better in a direction. */
static const struct sonde_bench_figure *bench_list_headline(const struct sonde_bench_result *r)
{
    for (size_t i = 0; i < r->figure_count; i++) {
        if (r->figures[i].better) return &r->figures[i];
    }
    return r->figure_count ? &r->figures[0] : NULL;
}

static void bench_list_row(struct sonde_table *t, const char *name,
                           const struct sonde_bench_saved *s)
{
    const struct sonde_bench_result *last = &s->runs[s->count - 1];
    const struct sonde_bench_figure *f = bench_list_headline(last);
    char text[SONDE_BENCH_VALUE_BYTES];
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%s", name);
    sonde_table_cell(t, 1, "%s", last->kind);
    sonde_table_cell(t, 2, "%zu", s->count);
    sonde_table_cell(t, 3, "%s", sonde_bench_time_format(text, last->time_s));
    if (f) {
        sonde_table_cell(t, 4, "%s", f->name);
        sonde_table_cell(t, 5, "%s", sonde_bench_value_format(text, f->value, f->unit, 0));
    }
    sonde_table_cell(t, 6, "%s", last->reason_count ? "not valid" : "valid");
}

static void bench_list_json(struct sonde_buf *out, const char *name,
                            const struct sonde_bench_saved *s)
{
    const struct sonde_bench_result *last = &s->runs[s->count - 1];
    sonde_json_open(out, '{');
    sonde_json_str(out, "name", name);
    sonde_json_str(out, "kind", last->kind);
    sonde_json_u64(out, "runs", s->count);
    sonde_json_time(out, "first_s", s->runs[0].time_s);
    sonde_json_time(out, "last_s", last->time_s);
    sonde_json_u64(out, "figures", last->figure_count);
    sonde_json_bool(out, "valid", !last->reason_count);
    sonde_json_close(out, '}');
}

static int bench_list_show(const struct sonde_cli *cli, const char *dir,
                           const struct bench_list_names *names)
{
    static const struct sonde_column columns[] = {
        { .title = "name" }, { .title = "kind" }, { .title = "runs", .align = SONDE_RIGHT },
        { .title = "last" }, { .title = "figure", .drop = 2 },
        { .title = "value", .align = SONDE_RIGHT, .drop = 1 }, { .title = "verdict", .drop = 3 },
    };
    const struct bench_list_values *v = cli->values;
    const int json = v->format && !strcmp(v->format, "json");
    const struct sonde_bench_view view = { .markdown = v->format && !strcmp(v->format, "markdown"),
                                           .width = sonde_cli_width(),
                                           .ascii = sonde_text_locale_ascii() };
    struct sonde_table t;
    struct sonde_buf out;
    int status = SONDE_EXIT_OK;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    sonde_buf_init(&out, BENCH_LIST_OUTPUT_MAX);
    if (json) sonde_json_open(&out, '[');
    for (size_t i = 0; i < names->count; i++) {
        char path[SONDE_CLI_BENCH_PATH];
        struct sonde_bench_saved s = { 0 };
        struct sonde_err err = { "" };
        snprintf(path, sizeof(path), "%.3800s/%.200s%s", dir, names->item[i],
                 SONDE_BENCH_SAVED_SUFFIX);
        const int rc = sonde_bench_saved_load(path, &s, &err);
        /* One that is damaged does not hide the others. */
        if (rc) {
            status = rc == SONDE_EFORMAT || rc == SONDE_EVERSION || rc == SONDE_EFULL
                         ? sonde_cli_usage(cli, "%s", err.text)
                         : sonde_cli_fail(cli, "%s", err.text);
            continue;
        }
        if (json) bench_list_json(&out, names->item[i], &s);
        else bench_list_row(&t, names->item[i], &s);
        sonde_bench_saved_release(&s);
    }
    if (json) {
        sonde_json_close(&out, ']');
        sonde_buf_putc(&out, '\n');
    } else if (t.row_count) {
        sonde_bench_table_text(&t, &view, &out);
    }
    if (out.error || t.error) status = sonde_cli_fail(cli, "out of memory");
    else if (out.len) {
        if (!json) out.len = sonde_visible(out.data, out.len);
        const int written = sonde_cli_write(cli, NULL, &out);
        if (!status) status = written;
    }
    sonde_table_release(&t);
    sonde_buf_release(&out);
    return status;
}

static int bench_list_run(struct sonde_cli *cli)
{
    char dir[SONDE_CLI_BENCH_PATH];
    struct bench_list_names names = { 0 };
    int status = sonde_cli_bench_dir(cli, dir);
    if (!status) status = bench_list_read(cli, dir, &names);
    if (!status) status = bench_list_show(cli, dir, &names);
    if (!status && !names.count && !cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde bench list: there is nothing in %s: `sonde "
                             "bench … --save NAME` keeps a result\n", dir);
    }
    for (size_t i = 0; i < names.count; i++) sonde__free(names.item[i]);
    sonde__free(names.item);
    return status;
}

const struct sonde_command sonde_bench_cmd_list = {
    .name = "bench list",
    .summary = "list the results that are kept",
    .usage = "[options]",
    .details = "One row a name: how many runs it has, when the last was, and its first figure. "
               "Results are kept with --save NAME by all commands of `sonde bench` and by `sonde "
               "ab`, in the folder of --results (setting bench.dir).\n"
               "\n"
               "examples:\n"
               "  sonde bench list\n"
               "  sonde bench list --format json",
    .options = options,
    .values_size = sizeof(struct bench_list_values),
    .operands_max = 0,
    .run = bench_list_run,
};
