/* cmd_baseline.c - `sonde baseline`: sets of runs that later ones are checked against. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/path.h"
#include "base/strip.h"
#include "base/visible.h"
#include "cli/baseline.h"
#include "present/report/compare.h"
#include "present/table.h"
#include "present/text.h"
#include "present/units.h"
#include "profile/infer.h"
#include "sonde/sonde.h"

#define CMD_BASELINE_OUTPUT_MAX ((size_t)64 << 20)

enum { CMD_BASELINE_RUNS = 5, CMD_BASELINE_LIST_MAX = 10000 };

struct baseline_values {
    struct sonde_cli_filter filter;
    struct sonde_cli_recording recording;
    const char *note;
    uint64_t runs;
    int add, force, json;
};

#define AT(field) .offset = offsetof(struct baseline_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "add", .letter = 'a', .type = SONDE_OPT_FLAG, AT(add),
      .help = "save: add runs to a baseline that there is" },
    { .name = "force", .type = SONDE_OPT_FLAG, AT(force),
      .help = "save: replace a baseline that there is" },
    { .name = "note", .type = SONDE_OPT_STR, .value = "TEXT", AT(note),
      .help = "save: what there is to know about it" },
    { .name = "runs", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1000, AT(runs),
      .help = "save: how often CMD is run (default 5)" },
    SONDE_OPT_RUN_PART(struct baseline_values, filter),
    SONDE_OPT_RECORDING(struct baseline_values, recording),
    { .name = "json", .type = SONDE_OPT_FLAG, AT(json), .help = "list and show: write JSON" },
    SONDE_OPT_BASELINE_DIR,
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

static void cmd_baseline_when(double s, char *out, size_t size)
{
    const time_t t = (time_t)s;
    struct tm tm;
    out[0] = '\0';
    if (localtime_r(&t, &tm)) strftime(out, size, "%Y-%m-%d %H:%M", &tm);
}

/* ---- save ------------------------------------------------------------------------------------ */

static uint64_t cmd_baseline_requests(const struct sonde_profile *p, const char *span)
{
    if (!span) return p->infer ? p->infer->request_count : 0;
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        n += !fnmatch(span, sonde_profile_str(p, p->spans[i].name), 0);
    }
    return n;
}

/* A baseline of two machines knows how much those differ, and not how much runs do. */
static void cmd_baseline_warn(const struct sonde_cli *cli, const struct sonde_baseline *b)
{
    const struct sonde_run_facts *last = &b->runs[b->count - 1].facts;
    for (int i = 0; i < SONDE_FACT_COUNT && !cli->quiet && b->count > 1; i++) {
        const enum sonde_run_fact fact = (enum sonde_run_fact)i;
        if (!sonde_run_fact_differs(&b->runs[b->count - 2].facts, last, fact)) continue;
        sonde_visible_printf(STDERR_FILENO, "sonde baseline: warning: run %zu has another %s: "
                             "'%.120s' instead of '%.120s'\n", b->count,
                             sonde_run_fact_title(fact), last->text[fact],
                             b->runs[b->count - 2].facts.text[fact]);
    }
}

/* Destroys p. */
static int cmd_baseline_add(const struct sonde_cli *cli, struct sonde_baseline *b,
                            struct sonde_profile *p, const char *source)
{
    const struct baseline_values *v = cli->values;
    struct sonde_profile_filter part;
    struct sonde_err err = { "" };
    int status = sonde_cli_filter(cli, &v->filter, p, &part);
    if (!status && !p->samples_count && !p->spans_count && !p->infer && !p->heap) {
        status = sonde_cli_usage(cli, "%s: there is nothing in it to compare", source);
    }
    if (!status) {
        const struct sonde_baseline_add add = {
            .profile = p, .source = sonde_strip_on() ? sonde_path_base(source) : source,
            .from_s = (double)part.from_ns / 1e9, .to_s = (double)part.to_ns / 1e9,
            .requests = cmd_baseline_requests(p, *b->span ? b->span : NULL),
            .now_s = sonde_clock_s(CLOCK_REALTIME) };
        const size_t most = (size_t)cli->config.baseline_max_megabytes << 20;
        const int rc = sonde_baseline_add_run(b, &add, most, &err);
        if (rc == SONDE_EFULL) status = sonde_cli_usage(cli, "%s", err.text);
        else if (rc) status = sonde_cli_fail(cli, "%s", err.text);
        else cmd_baseline_warn(cli, b);
    }
    sonde_profile_destroy(p);
    return status;
}

static int cmd_baseline_gather(struct sonde_cli *cli, struct sonde_baseline *b, int targets,
                               char **command)
{
    const struct baseline_values *v = cli->values;
    const size_t runs = v->runs ? (size_t)v->runs : CMD_BASELINE_RUNS;
    struct sonde_profile *p;
    int status = SONDE_EXIT_OK;
    for (int i = 2; i < targets && !status; i++) {
        status = sonde_cli_profile(cli, cli->operands[i], v->recording.duration_s, &v->filter, &p);
        if (!status) status = cmd_baseline_add(cli, b, p, cli->operands[i]);
    }
    for (size_t i = 0; command && i < runs && !status; i++) {
        if (!cli->quiet) {
            sonde_visible_printf(STDERR_FILENO, "sonde baseline: run %zu of %zu\n", i + 1, runs);
        }
        status = sonde_cli_record_run(cli, command, &v->recording, &p);
        if (!status) status = cmd_baseline_add(cli, b, p, command[0]);
    }
    return status;
}

static int cmd_baseline_begin(const struct sonde_cli *cli, const char *name, const char *path,
                              struct sonde_baseline **out)
{
    const struct baseline_values *v = cli->values;
    struct sonde_err err = { "" };
    if (v->add && v->force) return sonde_cli_usage(cli, "--add or --force, not both");
    if (v->add) {
        const int status = sonde_cli_baseline_load(cli, name, out);
        if (status) return status;
    } else {
        if (!v->force && access(path, F_OK) == 0) {
            return sonde_cli_usage(cli, "there is a baseline '%s' (%s): --add adds to it, --force "
                                   "replaces it", name, path);
        }
        if (sonde_baseline_create(out)) return sonde_cli_fail(cli, "out of memory");
    }
    if (sonde_baseline_describe(*out, v->note, v->filter.span, &err)) {
        return sonde_cli_usage(cli, "%s", err.text);
    }
    return SONDE_EXIT_OK;
}

static int cmd_baseline_save(struct sonde_cli *cli, int targets, char **command)
{
    const struct baseline_values *v = cli->values;
    const char *name = cli->operands[1];
    char path[SONDE_CLI_BASELINE_PATH];
    struct sonde_baseline *b = NULL;
    struct sonde_err err = { "" };
    if (targets < 3 && !command) {
        return sonde_cli_usage(cli, "say which runs: sonde baseline save %s RUN…, or -- CMD", name);
    }
    if (targets > 2 && command) {
        return sonde_cli_usage(cli, "runs, or a command after --; not both");
    }
    if (v->runs && !command) return sonde_cli_usage(cli, "--runs is for a command: -- CMD");
    int status = sonde_cli_baseline_path(cli, name, path);
    if (!status) status = cmd_baseline_begin(cli, name, path, &b);
    if (!status) status = cmd_baseline_gather(cli, b, targets, command);
    if (!status) {
        sonde_cli_make_folders(path);
        if (sonde_baseline_save(b, path, &err)) status = sonde_cli_fail(cli, "%s", err.text);
    }
    if (!status && !cli->quiet) {
        char size[SONDE_VALUE_BYTES];
        sonde_visible_printf(STDERR_FILENO, "sonde baseline: %s: %zu run%s, %s in %s\n", name,
                             b->count, b->count == 1 ? "" : "s",
                             sonde_value_format(size, (double)b->bytes, SONDE_UNIT_BYTES,
                                                sonde_text_locale_ascii()), path);
        if (b->count < 3) {
            sonde_visible_printf(STDERR_FILENO, "sonde baseline: how much runs differ takes three "
                                 "or more: add them with `sonde baseline save --add %s`\n", name);
        }
    }
    sonde_baseline_destroy(b);
    return status;
}

/* ---- list ------------------------------------------------------------------------------------ */

struct cmd_baseline_names {
    char **name;
    size_t count, cap;
};

static int cmd_baseline_by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void cmd_baseline_names_release(struct cmd_baseline_names *n)
{
    for (size_t i = 0; i < n->count; i++) sonde__free(n->name[i]);
    sonde__free(n->name);
}

/* Those in the folder that have a name of a baseline. No folder: none. */
static int cmd_baseline_find(const struct sonde_cli *cli, struct cmd_baseline_names *out)
{
    char dir[SONDE_CLI_BASELINE_PATH];
    const int status = sonde_cli_baseline_dir(cli, dir);
    if (status) return status;
    DIR *d = opendir(dir);
    if (!d && errno == ENOENT) return SONDE_EXIT_OK;
    if (!d) return sonde_cli_fail(cli, "cannot read '%s': %s", dir, strerror(errno));
    const struct dirent *e;
    int rc = 0;
    while (!rc && (e = readdir(d)) && out->count < CMD_BASELINE_LIST_MAX) {
        struct sonde_err err;
        char name[sizeof(e->d_name)];
        if (!sonde_has_suffix(e->d_name, SONDE_BASELINE_SUFFIX)) continue;
        const size_t len = strlen(e->d_name) - strlen(SONDE_BASELINE_SUFFIX);
        snprintf(name, sizeof(name), "%.*s", (int)len, e->d_name);
        if (sonde_baseline_name_check(name, &err)) continue;
        char *copy = sonde__alloc(len + 1);
        if (!copy || SONDE_ARRAY_ROOM(out->name, out->count, out->cap)) {
            sonde__free(copy);
            rc = SONDE_ENOMEM;
            continue;
        }
        memcpy(copy, name, len + 1);
        out->name[out->count++] = copy;
    }
    closedir(d);
    if (rc) return sonde_cli_fail(cli, "out of memory");
    if (out->count) qsort(out->name, out->count, sizeof(*out->name), cmd_baseline_by_name);
    return SONDE_EXIT_OK;
}

static void cmd_baseline_list_row(const char *name, const struct sonde_baseline *b,
                                  struct sonde_table *t)
{
    const struct sonde_run_facts *facts = &b->runs[b->count - 1].facts;
    char when[32], size[SONDE_VALUE_BYTES];
    cmd_baseline_when(b->created_s, when, sizeof(when));
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%s", name);
    sonde_table_cell(t, 1, "%zu", b->count);
    sonde_table_cell(t, 2, "%s", when);
    sonde_table_cell(t, 3, "%s", facts->text[SONDE_FACT_PROGRAM]);
    sonde_table_cell(t, 4, "%.12s", facts->text[SONDE_FACT_BUILD_ID]);
    sonde_table_cell(t, 5, "%s", facts->text[SONDE_FACT_HOST]);
    sonde_table_cell(t, 6, "%s", sonde_value_format(size, (double)b->bytes, SONDE_UNIT_BYTES,
                                                    sonde_text_locale_ascii()));
    sonde_table_cell(t, 7, "%s", b->note);
}

static void cmd_baseline_put_head(const char *name, const struct sonde_baseline *b,
                                  struct sonde_buf *out)
{
    const struct sonde_baseline_run *last = &b->runs[b->count - 1];
    sonde_json_str(out, "name", name);
    sonde_json_time(out, "created_s", b->created_s);
    sonde_json_str(out, "note", *b->note ? b->note : NULL);
    sonde_json_str(out, "span", *b->span ? b->span : NULL);
    sonde_json_u64(out, "runs", b->count);
    sonde_json_u64(out, "bytes", b->bytes);
    for (int i = 0; i < SONDE_FACT_COUNT; i++) {
        sonde_json_str(out, sonde_run_fact_key((enum sonde_run_fact)i),
                       last->facts.text[i][0] ? last->facts.text[i] : NULL);
    }
}

static int cmd_baseline_list(struct sonde_cli *cli)
{
    static const struct sonde_column columns[] = {
        { .title = "NAME", .min = 8 },    { .title = "RUNS", .align = SONDE_RIGHT },
        { .title = "CREATED" },           { .title = "PROGRAM", .min = 8 },
        { .title = "BUILD", .drop = 2 },  { .title = "HOST", .drop = 1 },
        { .title = "SIZE", .align = SONDE_RIGHT }, { .title = "NOTE", .drop = 3 },
    };
    const struct baseline_values *v = cli->values;
    struct cmd_baseline_names names = { 0 };
    struct sonde_table t;
    struct sonde_buf out;
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    sonde_buf_init(&out, CMD_BASELINE_OUTPUT_MAX);
    int status = cmd_baseline_find(cli, &names);
    if (v->json) sonde_buf_puts(&out, "{\"baselines\":[");
    for (size_t i = 0; i < names.count && !status; i++) {
        struct sonde_baseline *b;
        /* One that is damaged is told, and the others are listed. */
        if (sonde_cli_baseline_load(cli, names.name[i], &b)) continue;
        if (v->json) {
            sonde_json_open(&out, '{');
            cmd_baseline_put_head(names.name[i], b, &out);
            sonde_json_close(&out, '}');
        } else {
            cmd_baseline_list_row(names.name[i], b, &t);
        }
        sonde_baseline_destroy(b);
    }
    if (v->json) sonde_buf_puts(&out, "]}\n");
    else if (t.row_count) {
        sonde_table_render(&t, sonde_cli_width(), sonde_text_locale_ascii(), &out);
    } else if (!status && !cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde baseline: there is none: `sonde baseline save "
                             "NAME RUN…` makes one\n");
    }
    if (t.error) out.error = t.error;
    if (!status) status = sonde_cli_write(cli, NULL, &out);
    sonde_table_release(&t);
    sonde_buf_release(&out);
    cmd_baseline_names_release(&names);
    return status;
}

/* ---- show ------------------------------------------------------------------------------------ */

/* A baseline compared with itself has all figures, each with its interval. */
static int cmd_baseline_figures(struct sonde_cli *cli, const struct sonde_baseline *b,
                                struct sonde_cli_runs *r, struct sonde_comparison **out)
{
    const struct baseline_values *v = cli->values;
    const struct sonde_compare_options o = { .kind = -1, .consecutive = 1 };
    struct sonde_err err = { "" };
    const int status = sonde_cli_runs_baseline(cli, r, b, v->filter.span);
    if (status) return status;
    const int rc = sonde_compare(r->runs, r->count, r->runs, r->count, &o, out, &err);
    return rc ? sonde_cli_fail(cli, "%s", err.text) : SONDE_EXIT_OK;
}

static void cmd_baseline_bounds(const struct sonde_estimate *e, double *low, double *high)
{
    const double t = sonde_t_quantile(0.975, e->df);
    *low = isfinite(e->se_low) ? fmax(e->value - t * e->se_low, 0) : NAN;
    *high = isfinite(e->se_high) ? e->value + t * e->se_high : NAN;
}

static void cmd_baseline_show_figures(const struct sonde_comparison *c, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "FIGURE", .min = 20 }, { .title = "VALUE", .align = SONDE_RIGHT },
        { .title = "95 % FROM", .align = SONDE_RIGHT }, { .title = "TO", .align = SONDE_RIGHT },
        { .title = "HALF", .align = SONDE_RIGHT },
    };
    const int ascii = sonde_text_locale_ascii();
    struct sonde_table t;
    char text[SONDE_MEASURE_BYTES];
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        double low, high;
        if (f->group == SONDE_MEASURE_FUNCTIONS) continue;
        cmd_baseline_bounds(&f->estimate[0], &low, &high);
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%.200s%s%s", f->subject, *f->subject ? ": " : "", f->title);
        sonde_table_cell(&t, 1, "%s", sonde_compare_measure_format(text, f->before, f->unit,
                                                                   ascii));
        sonde_table_cell(&t, 2, "%s", sonde_compare_measure_format(text, low, f->unit, ascii));
        sonde_table_cell(&t, 3, "%s", sonde_compare_measure_format(text, high, f->unit, ascii));
        if (isfinite(high - low) && f->before > 0) {
            sonde_table_cell(&t, 4, "%.1f %%", 50 * (high - low) / f->before);
        }
    }
    sonde_buf_putc(out, '\n');
    sonde_table_render(&t, sonde_cli_width(), ascii, out);
    sonde_buf_printf(out, "\n95 %% intervals from %zu %s\n", c->by_runs ? c->runs[0] : c->parts[0],
                     c->by_runs ? "runs"
                                : "sub-windows of one run, which do not know how much runs differ");
    if (t.error) out->error = t.error;
    sonde_table_release(&t);
}

static void cmd_baseline_show_runs(const struct sonde_baseline *b, struct sonde_buf *out)
{
    static const struct sonde_column columns[] = {
        { .title = "RUN", .align = SONDE_RIGHT },    { .title = "RECORDED" },
        { .title = "LENGTH", .align = SONDE_RIGHT }, { .title = "REQUESTS", .align = SONDE_RIGHT },
        { .title = "BUILD", .drop = 1 },             { .title = "SONDE", .drop = 3 },
        { .title = "SOURCE", .drop = 2 },
    };
    struct sonde_table t;
    char when[32], text[SONDE_VALUE_BYTES];
    const int ascii = sonde_text_locale_ascii();
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    for (size_t i = 0; i < b->count; i++) {
        const struct sonde_baseline_run *r = &b->runs[i];
        cmd_baseline_when(r->start_s, when, sizeof(when));
        sonde_table_row(&t);
        sonde_table_cell(&t, 0, "%zu", i + 1);
        sonde_table_cell(&t, 1, "%s", r->start_s > 0 ? when : "");
        sonde_table_cell(&t, 2, "%s", sonde_value_format(text, r->end_s - r->start_s,
                                                         SONDE_UNIT_SECONDS, ascii));
        if (r->requests) sonde_table_cell(&t, 3, "%llu", (unsigned long long)r->requests);
        sonde_table_cell(&t, 4, "%.12s", r->facts.text[SONDE_FACT_BUILD_ID]);
        sonde_table_cell(&t, 5, "%s", r->sonde);
        sonde_table_cell(&t, 6, "%s", r->source);
    }
    sonde_buf_putc(out, '\n');
    sonde_table_render(&t, sonde_cli_width(), ascii, out);
    if (t.error) out->error = t.error;
    sonde_table_release(&t);
}

static void cmd_baseline_show_text(const char *name, const struct sonde_baseline *b,
                                   const struct sonde_comparison *c, struct sonde_buf *out)
{
    const struct sonde_run_facts *facts = &b->runs[b->count - 1].facts;
    char when[32];
    cmd_baseline_when(b->created_s, when, sizeof(when));
    sonde_buf_printf(out, "baseline %s: %zu run%s, the first saved on %s\n", name, b->count,
                     b->count == 1 ? "" : "s", when);
    if (*b->note) sonde_buf_printf(out, "note: %s\n", b->note);
    if (*b->span) sonde_buf_printf(out, "requests: spans %s\n", b->span);
    for (int i = 0; i < SONDE_FACT_COUNT; i++) {
        if (!facts->text[i][0]) continue;
        sonde_buf_printf(out, "%s: %s\n", sonde_run_fact_title((enum sonde_run_fact)i),
                         facts->text[i]);
    }
    /* Texts of files: nothing of them moves a cursor. */
    if (out->data) out->len = sonde_visible(out->data, out->len);
    cmd_baseline_show_runs(b, out);
    cmd_baseline_show_figures(c, out);
}

static void cmd_baseline_show_json(const char *name, const struct sonde_baseline *b,
                                   const struct sonde_comparison *c, struct sonde_buf *out)
{
    sonde_buf_putc(out, '{');
    cmd_baseline_put_head(name, b, out);
    sonde_json_key_open(out, "run_list", '[');
    for (size_t i = 0; i < b->count; i++) {
        const struct sonde_baseline_run *r = &b->runs[i];
        sonde_json_open(out, '{');
        sonde_json_str(out, "source", r->source);
        sonde_json_str(out, "sonde", r->sonde);
        sonde_json_time(out, "added_s", r->added_s);
        sonde_json_time(out, "start_s", r->start_s);
        sonde_json_time(out, "end_s", r->end_s);
        sonde_json_u64_or_null(out, "requests", r->requests);
        sonde_json_str(out, "build_id", r->facts.text[SONDE_FACT_BUILD_ID]);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_json_str(out, "parts", c->by_runs ? "runs" : c->timed ? "windows" : "none");
    sonde_json_key_open(out, "figures", '[');
    for (size_t i = 0; i < c->count; i++) {
        const struct sonde_compare_measure *f = &c->figures[i];
        double low, high;
        if (f->group == SONDE_MEASURE_FUNCTIONS) continue;
        cmd_baseline_bounds(&f->estimate[0], &low, &high);
        sonde_json_open(out, '{');
        sonde_json_str(out, "measure", f->measure);
        if (*f->subject) sonde_json_str(out, "subject", f->subject);
        sonde_json_str(out, "title", f->title);
        sonde_json_str(out, "unit", f->unit);
        sonde_json_num(out, "value", f->before);
        sonde_json_num(out, "low", low);
        sonde_json_num(out, "high", high);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
    sonde_buf_puts(out, "}\n");
}

static int cmd_baseline_show(struct sonde_cli *cli)
{
    const struct baseline_values *v = cli->values;
    const char *name = cli->operands[1];
    struct sonde_baseline *b = NULL;
    struct sonde_cli_runs runs = { 0 };
    struct sonde_comparison *c = NULL;
    struct sonde_buf out;
    sonde_buf_init(&out, CMD_BASELINE_OUTPUT_MAX);
    int status = sonde_cli_baseline_load(cli, name, &b);
    if (!status) status = cmd_baseline_figures(cli, b, &runs, &c);
    if (!status) {
        if (v->json) cmd_baseline_show_json(name, b, c, &out);
        else cmd_baseline_show_text(name, b, c, &out);
        status = sonde_cli_write(cli, NULL, &out);
    }
    sonde_buf_release(&out);
    sonde_comparison_destroy(c);
    sonde_cli_runs_release(&runs);
    sonde_baseline_destroy(b);
    return status;
}

/* ---- delete ---------------------------------------------------------------------------------- */

/* A path may be of anything: what is not a baseline is left alone. */
static int cmd_baseline_delete(struct sonde_cli *cli, int count)
{
    for (int i = 1; i < count; i++) {
        char path[SONDE_CLI_BASELINE_PATH];
        struct sonde_baseline *b;
        int status = sonde_cli_baseline_path(cli, cli->operands[i], path);
        if (!status) status = sonde_cli_baseline_load(cli, cli->operands[i], &b);
        if (status) return status;
        sonde_baseline_destroy(b);
        if (unlink(path) != 0) {
            return sonde_cli_fail(cli, "cannot delete '%s': %s", path, strerror(errno));
        }
    }
    return SONDE_EXIT_OK;
}

static int cmd_baseline_run(struct sonde_cli *cli)
{
    const struct baseline_values *v = cli->values;
    int targets;
    char **command = sonde_cli_command_of(cli, &targets);
    const char *verb = targets ? cli->operands[0] : "";
    const int save = !strcmp(verb, "save"), list = !strcmp(verb, "list");
    const int show = !strcmp(verb, "show"), delete = !strcmp(verb, "delete");
    if (!save && !list && !show && !delete) {
        return sonde_cli_usage(cli, "%s%s%ssay what to do: save, list, show or delete",
                               *verb ? "'" : "", verb, *verb ? "' is not known: " : "");
    }
    if (!save && (command || v->add || v->force || v->note || v->runs || v->filter.from ||
                  v->filter.to)) {
        return sonde_cli_usage(cli, "%s takes no runs, and no option of save", verb);
    }
    if (save && v->json) return sonde_cli_usage(cli, "--json is for list and show");
    if (list) {
        return targets > 1 ? sonde_cli_usage(cli, "list takes no name; show does")
                           : cmd_baseline_list(cli);
    }
    if (targets < 2) return sonde_cli_usage(cli, "%s: say the name of the baseline", verb);
    if (save) return cmd_baseline_save(cli, targets, command);
    if (delete) return cmd_baseline_delete(cli, targets);
    return targets > 2 ? sonde_cli_usage(cli, "show takes one name") : cmd_baseline_show(cli);
}

const struct sonde_command sonde_cmd_baseline = {
    .name = "baseline",
    .summary = "keep runs under a name, for `sonde check` to compare with",
    .usage = "save NAME RUN…|URL|-- CMD  |  list  |  show NAME  |  delete NAME…",
    .details =
        "A baseline is a set of runs in one file, NAME.baseline in the folder of --dir; a NAME "
        "with a slash is the path of such a file, which can be committed to a repository. It knows "
        "when, where and of what its runs were: host, kernel, CPU, program, build id, arguments, "
        "model.\n"
        "\n"
        "save takes run files and all else that `sonde report` takes: profiles of a store "
        "(STORE:NAME), sessions of an agent (URL/admin/profiles/NAME), an agent's URL, which "
        "samples for -d SECONDS or, with --from and --to, answers from its history. With -- CMD it "
        "runs and records CMD, --runs times. How much one run differs from the next is what later "
        "comparisons rest on: save five or more, and add some from other days (--add).\n"
        "\n"
        "--span GLOB says which spans are requests; `sonde check` then counts by them. show has "
        "all figures with their 95 % intervals.\n"
        "\n"
        "examples:\n"
        "  sonde baseline save main main*.run\n"
        "  sonde baseline save ci/main.baseline --runs 8 --span request -- ./bench\n"
        "  sonde baseline save night http://127.0.0.1:6060 --from -7200 --to -3600\n"
        "  sonde baseline show main",
    .options = options,
    .values_size = sizeof(struct baseline_values),
    .operands_max = -1,
    .command_after_dashes = 1,
    .run = cmd_baseline_run,
};
