/* cmd_export.c - `sonde export`: what is known now, in a format other tools read; straight from
 * the segments, or from an agent by its URL. Or a profile: a run file, or what an agent samples
 * now; which of the two is meant tells the format, or the file that is given. */
#include <curl/curl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/agent.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/profile.h"
#include "profile/format.h"
#include "serve/export/export.h"
#include "sonde/sonde.h"
#include "store/transfer/transfer.h"
#include "store/history.h"

enum { LABELS_MAX = 4, BETWEEN_STEPS_MS = 200 };
static const size_t output_max = (size_t)4 << 30;

struct export_values {
    const char *format, *output, *type;
    struct sonde_cli_list names, labels;
    const char *source, *process;
    struct sonde_cli_filter filter; /* of profiles; its type is the one above */
    double duration_s;
};

#define AT(field) .offset = offsetof(struct export_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT", AT(format),
      .help = "of series: prometheus (default), openmetrics, protobuf, json, csv; of profiles: "
              "pprof (default), pprof-heap, folded, speedscope, chrome, report-json, "
              "otlp-profile" },
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "write to FILE, which is replaced when all is written (default: standard output)" },
    { .name = "name", .letter = 'n', .type = SONDE_OPT_LIST, .value = "GLOB", AT(names),
      .help = "series with such a name; any of several" },
    { .name = "type", .letter = 't', .type = SONDE_OPT_STR, .value = "TYPE", AT(type),
      .help = "series of this type or kind, samples of this type",
      .choices = "counter|gauge|histogram|time|throughput|memory|ratio|percentage|custom|"
                 SONDE_CLI_TYPES },
    { .name = "source", .type = SONDE_OPT_STR, .value = "GLOB", AT(source),
      .help = "series of such a part of the program" },
    { .name = "process", .type = SONDE_OPT_STR, .value = "GLOB", AT(process),
      .help = "series of programs with such a name" },
    { .name = "label", .type = SONDE_OPT_LIST, .value = "NAME=GLOB", AT(labels),
      .help = "series with such a label; all of up to four" },
    SONDE_OPT_FILTER_BUT_TYPE(struct export_values, filter),
    SONDE_OPT_DURATION(struct export_values, duration_s),
    SONDE_OPT_STRIP,
    SONDE_OPT_DIR,
    { .name = NULL },
};
#undef AT

/* ---- Filter ------------------------------------------------------------------------------- */

/* Globs joined by |, which a filter's name takes as alternatives; out is empty without any. */
static void cmd_export_join_names(const struct sonde_cli_list *names, struct sonde_buf *out)
{
    for (size_t i = 0; i < names->count; i++) {
        if (i) sonde_buf_putc(out, '|');
        sonde_buf_puts(out, names->item[i]);
    }
}

/* Labels are split at = in place. */
static int make_filter(const struct sonde_cli *cli, const char *names, uint32_t pid,
                       struct sonde_filter *f)
{
    const struct export_values *v = cli->values;
    *f = (struct sonde_filter){ .name = names, .source = v->source, .process = v->process,
                                .type = v->type, .pid = pid };
    if (v->labels.count > LABELS_MAX) {
        return sonde_cli_usage(cli, "--label may be given %d times at most", LABELS_MAX);
    }
    for (size_t i = 0; i < v->labels.count; i++) {
        /* The strings are argv's, which may be written to. */
        char *text = (char *)(uintptr_t)v->labels.item[i];
        char *equals = strchr(text, '=');
        if (!equals || equals == text) {
            return sonde_cli_usage(cli, "--label: '%s' is not NAME=GLOB", text);
        }
        *equals = '\0';
        f->label[f->label_count++] = (struct sonde_label){ text, equals + 1 };
    }
    return SONDE_EXIT_OK;
}

/* ---- From the segments -------------------------------------------------------------------- */

static int has_process(struct sonde_model *m, uint32_t pid)
{
    for (size_t i = 0; i < m->process_count; i++) {
        if (m->processes[i]->pid == pid && m->processes[i]->path) return 1;
    }
    return 0;
}

/* A segment that is refused is the likely reason that a process is not there. */
static int no_such_process(const struct sonde_cli *cli, struct sonde_collector *c, uint32_t pid)
{
    char dir[4096] = "", name[32];
    sonde_cli_dir(cli, dir, sizeof(dir));
    snprintf(name, sizeof(name), "/%u.", pid);
    static struct sonde_collector_refusal refused[64];
    const size_t count = sonde_collector_refusals(c, refused, 64);
    for (size_t i = 0; i < count; i++) {
        if (strstr(refused[i].path, name)) {
            return sonde_cli_fail(cli, "%s: %s", refused[i].path, refused[i].reason);
        }
    }
    return sonde_cli_fail(cli, "process %u has no segment in %s; `sonde ls` lists those that "
                          "have", pid, dir);
}

static int export_segments(struct sonde_cli *cli, const struct sonde_export_ops *format,
                           const struct sonde_filter *filter, struct sonde_buf *out)
{
    struct sonde_err err = { "" };
    struct sonde_agent *agent;
    if (sonde_cli_reader_open(cli, filter->pid, 1, &agent, &err) != 0) {
        return sonde_cli_fail(cli, "%s", err.text);
    }
    struct sonde_collector *c = agent->collector;

    /* Twice, so that figures which are differences (CPU shares, rates) exist. */
    sonde_collector_step(c);
    nanosleep(&(struct timespec){ .tv_nsec = BETWEEN_STEPS_MS * 1000000L }, NULL);
    sonde_collector_step(c);

    int status = SONDE_EXIT_OK;
    struct sonde_model *m = sonde_collector_model(c);
    sonde_rdlock(&m->lock);
    const int found = !filter->pid || has_process(m, filter->pid);
    if (found) format->render(m, filter, out);
    sonde_rwunlock(&m->lock);
    if (!found) status = no_such_process(cli, c, filter->pid);
    else if (out->error) status = sonde_cli_fail(cli, "%s", sonde_strerror(out->error));
    sonde_agent_close(agent);
    return status;
}

/* ---- From an agent ------------------------------------------------------------------------ */

/* Unix time, or negative: so long ago. */
static int cmd_export_parse_moment(const struct sonde_cli *cli, const char *option,
                                   const char *text, double *out)
{
    if (!text) return SONDE_EXIT_OK;
    if (sonde_cli_number(text, out) || !isfinite(*out)) {
        return sonde_cli_usage(cli, "--%s: '%s' is not a unix time, nor seconds ago as -3600",
                               option, text);
    }
    if (*out < 0) *out += sonde_clock_s(CLOCK_REALTIME);
    return SONDE_EXIT_OK;
}

static void cmd_export_add_param(struct sonde_buf *b, const char *name, const char *value)
{
    if (!value || b->error) return;
    char *escaped = curl_easy_escape(NULL, value, 0);
    if (!escaped) {
        b->error = SONDE_ENOMEM;
        return;
    }
    sonde_buf_printf(b, "&%s=%s", name, escaped);
    curl_free(escaped);
}

/* --from or --to; the agent takes no time before 1970. */
static int add_moment(const struct sonde_cli *cli, struct sonde_buf *b, const char *name,
                      const char *text)
{
    double time_s = 0;
    const int status = cmd_export_parse_moment(cli, name, text, &time_s);
    if (!status && text) sonde_buf_printf(b, "&%s=%.3f", name, fmax(0, time_s));
    return status;
}

static int export_url(struct sonde_cli *cli, const char *url, const char *format,
                      const struct sonde_filter *f, struct sonde_buf *out)
{
    const struct export_values *v = cli->values;
    struct sonde_buf query;
    sonde_buf_init(&query, 1 << 20);
    sonde_buf_printf(&query, "/api/export?format=%s", format);
    cmd_export_add_param(&query, "name", f->name);
    cmd_export_add_param(&query, "type", f->type);
    cmd_export_add_param(&query, "source", f->source);
    cmd_export_add_param(&query, "process", f->process);
    for (size_t i = 0; i < f->label_count; i++) {
        struct sonde_buf pair;
        sonde_buf_init(&pair, 1 << 16);
        sonde_buf_printf(&pair, "%s:%s", f->label[i].name, f->label[i].value);
        if (pair.error) query.error = pair.error;
        else cmd_export_add_param(&query, "label", pair.data);
        sonde_buf_release(&pair);
    }
    int status = add_moment(cli, &query, "from", v->filter.from);
    if (!status) status = add_moment(cli, &query, "to", v->filter.to);
    char full[8192];
    struct sonde_err err = { "" };
    if (!status && query.error) status = sonde_cli_fail(cli, "%s", sonde_strerror(query.error));
    if (!status && sonde_cli_url(full, sizeof(full), url, query.data) != 0) {
        status = sonde_cli_usage(cli, "the filters make too long a URL");
    }
    if (!status && sonde_cli_fetch(full, output_max, SONDE_CLI_FETCH_S, out, &err) != 0) {
        status = sonde_cli_fail(cli, "%s", err.text);
    }
    sonde_buf_release(&query);
    return status;
}

/* ---- From a store ------------------------------------------------------------------------- */

static int export_store(struct sonde_cli *cli, const char *path, const char *format,
                        const struct sonde_filter *filter, struct sonde_buf *out)
{
    const struct export_values *v = cli->values;
    const int which = sonde_transfer_format(format);
    if (which < 0) {
        return sonde_cli_usage(cli, "--format: of a store json, csv, openmetrics and prometheus "
                               "can be written, not %s", format);
    }
    struct sonde_store_query q = { .filters = filter, .filter_count = 1 };
    int status = cmd_export_parse_moment(cli, "from", v->filter.from, &q.from_s);
    if (!status) status = cmd_export_parse_moment(cli, "to", v->filter.to, &q.to_s);
    if (status) return status;
    const struct sonde_store_ops *ops = &sonde_store_sqlite;
    const struct sonde_store_options o = { .path = path, .read_only = 1 };
    struct sonde_store *store;
    struct sonde_err err = { "" };
    struct sonde_transfer_result result = { 0 };
    if (ops->open(&o, &store, &err) != 0) return sonde_cli_fail(cli, "%s", err.text);
    if (sonde_transfer_export(ops, store, &q, (enum sonde_transfer_format)which, out, &result,
                              &err)) {
        status = sonde_cli_fail(cli, "%s", err.text);
    } else if (!cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde: %llu points of %llu series\n",
                             (unsigned long long)result.points, (unsigned long long)result.series);
    }
    if (!status && result.left_out) {
        sonde_visible_printf(STDERR_FILENO,
                             "sonde: %llu series have a name that %s has for another; json and csv "
                             "have them all\n", (unsigned long long)result.left_out, format);
    }
    ops->close(store);
    return status;
}

/* ---- Profiles ----------------------------------------------------------------------------- */

static int is_file(const char *target)
{
    return target && (!strcmp(target, "-") || access(target, F_OK) == 0 ||
                      sonde_cli_in_store(target));
}

/* The format that FILE of -o looks like, else pprof. The longest suffix is the best. */
static const struct sonde_format_ops *cmd_export_format_of(const char *path)
{
    const struct sonde_format_ops *best = sonde_format_find("pprof");
    size_t best_len = 0;
    for (size_t i = 0; path && sonde_formats[i]; i++) {
        const struct sonde_format_ops *f = sonde_formats[i];
        if (!f->write || !sonde_has_suffix(path, f->suffix) || strlen(f->suffix) <= best_len) {
            continue;
        }
        best = f;
        best_len = strlen(f->suffix);
    }
    return best;
}

static int write_profile(const struct sonde_cli *cli, const struct sonde_format_ops *format,
                         const struct sonde_profile *p)
{
    const struct export_values *v = cli->values;
    struct sonde_cli_filter chosen = v->filter;
    chosen.type = v->type;
    struct sonde_profile_filter filter;
    int status = sonde_cli_filter(cli, &chosen, p, &filter);
    if (status) return status;
    struct sonde_buf out;
    struct sonde_err err = { "" };
    sonde_buf_init(&out, output_max);
    const int rc = format->write(p, &filter, &out, &err);
    if (rc == SONDE_EINVAL) status = sonde_cli_usage(cli, "%s", err.text);
    else if (rc) status = sonde_cli_fail(cli, "%s: %s", cli->operands[0], err.text);
    else status = sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    return status;
}

static int export_profile(struct sonde_cli *cli, const char *target,
                          const struct sonde_format_ops *format)
{
    const struct export_values *v = cli->values;
    if (!format->write) {
        return sonde_cli_usage(cli, "--format: %s can be read, not written", format->name);
    }
    if (v->names.count || v->labels.count || v->source || v->process) {
        return sonde_cli_usage(cli, "--name, --label, --source and --process are for series, and "
                               "%s is for profiles", format->name);
    }
    if (v->type && sonde_sample_kind_find(v->type) < 0) {
        return sonde_cli_usage(cli, "--type: '%s' is not one of " SONDE_CLI_TYPES, v->type);
    }
    if (!target) {
        return sonde_cli_usage(cli, "%s is for profiles: give a FILE, URL or PID", format->name);
    }
    const int all_memory = !strcmp(format->name, "pprof-heap");
    if (!v->output && isatty(STDOUT_FILENO) && !strncmp(format->name, "pprof", 5)) {
        return sonde_cli_usage(cli, "say where to: -o out.pb.gz (pprof is not text)");
    }
    struct sonde_profile *p;
    struct sonde_cli_filter filter = v->filter;
    filter.type = v->type ? v->type : all_memory ? "live" : NULL;
    int status = sonde_cli_profile(cli, target, v->duration_s, &filter, &p);
    if (status) return status;
    status = write_profile(cli, format, p);
    sonde_profile_destroy(p);
    return status;
}

/* ---- The command -------------------------------------------------------------------------- */

static int unknown_format(const struct sonde_cli *cli, const char *name)
{
    char known[512] = "";
    size_t n = 0;
    for (size_t i = 0; sonde_exports[i] && n < sizeof(known); i++) {
        n += (size_t)snprintf(known + n, sizeof(known) - n, "%s%s", i ? ", " : "",
                              sonde_exports[i]->name);
    }
    for (size_t i = 0; sonde_formats[i] && n < sizeof(known); i++) {
        if (!sonde_formats[i]->write) continue;
        n += (size_t)snprintf(known + n, sizeof(known) - n, ", %s", sonde_formats[i]->name);
    }
    return sonde_cli_usage(cli, "--format: '%s' is not one of %s", name, known);
}

static int export_series(struct sonde_cli *cli, const char *target,
                         const struct sonde_export_ops *format)
{
    const struct export_values *v = cli->values;
    uint32_t pid = 0;
    const int is_url = target && sonde_cli_is_url(target),
              is_store = target && sonde_store_is_file(target);
    if (target && !is_url && !is_store && sonde_cli_parse_pid(target, &pid) != 0) {
        return sonde_cli_usage(cli, "'%s' is neither a process id nor a URL nor a file", target);
    }
    if (v->type && sonde_sample_kind_find(v->type) >= 0) {
        return sonde_cli_usage(cli, "--type: '%s' is a type of samples, not of series", v->type);
    }
    if (!is_url && !is_store && (v->filter.from || v->filter.to)) {
        return sonde_cli_usage(cli, "--from and --to are for what was recorded: give a store, or "
                               "the URL of an agent that has one");
    }
    if (is_url && cli->config.agent_strip) {
        return sonde_cli_usage(cli, "--strip: what an agent shows is up to that: start it with "
                                    "`sonde serve --strip`");
    }
    struct sonde_buf names, out;
    sonde_buf_init(&names, 1 << 16);
    sonde_buf_init(&out, output_max);
    cmd_export_join_names(&v->names, &names);

    struct sonde_filter filter;
    int status = names.error ? sonde_cli_usage(cli, "--name: %s", sonde_strerror(names.error))
                             : make_filter(cli, names.len ? names.data : NULL, pid, &filter);
    if (status == SONDE_EXIT_OK) {
        status = is_url     ? export_url(cli, target, format->name, &filter, &out)
                 : is_store ? export_store(cli, target, format->name, &filter, &out)
                            : export_segments(cli, format, &filter, &out);
    }
    if (status == SONDE_EXIT_OK) status = sonde_cli_write(cli, v->output, &out);
    sonde_buf_release(&out);
    sonde_buf_release(&names);
    return status;
}

static int cmd_export_run(struct sonde_cli *cli)
{
    const struct export_values *v = cli->values;
    const char *target = cli->operand_count ? cli->operands[0] : NULL;
    const int profile = is_file(target);
    const char *name = v->format ? v->format
                       : profile ? cmd_export_format_of(v->output)->name
                                 : "prometheus";
    const struct sonde_export_ops *series = sonde_export_find(name);
    const struct sonde_format_ops *format = sonde_format_find(name);
    if (!series && !format) return unknown_format(cli, name);
    if (format) return export_profile(cli, target, format);
    if (profile && !sonde_store_is_file(target)) {
        return sonde_cli_usage(
            cli, "'%s' is a file and no store, so a profile, and %s is for series", target, name);
    }
    return export_series(cli, target, series);
}

const struct sonde_command sonde_cmd_export = {
    .name = "export",
    .summary = "write the current values of series, or a profile, for other tools",
    .usage = "[options] [PID | URL | STORE | FILE]",
    .details =
        "Without a PID, all processes that record and the host are written; with one, that "
        "process alone. With the URL of a running agent, such as http://127.0.0.1:6060, what it "
        "knows. GLOBs are as in a shell: *, ?, [a-z].\n"
        "\n"
        "With a FILE that holds a profile (a "
        "run, or what `sonde import` takes; STORE:NAME is one of a store), or a format of profiles "
        "and a URL or PID, which is then sampled now, the profile is written: pprof for `go tool "
        "pprof`, folded for flamegraph.pl, speedscope for speedscope.app, chrome for Perfetto and "
        "chrome://tracing, with spans and inference requests. Folded weights are samples for CPU, "
        "nanoseconds for time blocked, bytes for memory.\n"
        "\n"
        "With a store (--store of `serve` and `run`) and json, csv, openmetrics or prometheus, "
        "every reading of its series between --from and --to (unix time, or seconds ago as -3600) "
        "is written, all buckets of histograms included. `sonde import` makes a store of it again. "
        "With the URL of an agent that has a store and one of the two, the same.\n"
        "\n"
        "examples:\n"
        "  sonde export --format csv -o now.csv\n"
        "  sonde export --name 'app_*' --type histogram 4711\n"
        "  sonde export --format openmetrics http://127.0.0.1:6060\n"
        "  sonde export --format speedscope -o server.speedscope.json server.run",
    .options = options,
    .values_size = sizeof(struct export_values),
    .operands_max = 1,
    .run = cmd_export_run,
};
