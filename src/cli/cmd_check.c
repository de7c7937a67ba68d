/* cmd_check.c - `sonde check`: runs, or a command that is run, against a baseline and limits. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyze/check.h"
#include "analyze/power.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/visible.h"
#include "cli/baseline.h"
#include "present/check_report.h"
#include "present/text.h"
#include "sonde/sonde.h"

#define CMD_CHECK_OUTPUT_MAX ((size_t)256 << 20)

enum { CMD_CHECK_RUNS = 5, CMD_CHECK_RUNS_MAX = 20 };

struct check_values {
    struct sonde_cli_filter filter;
    struct sonde_cli_recording recording;
    struct sonde_cli_list fail_on;
    const char *baseline, *format, *output, *detect;
    uint64_t runs, runs_max, limit;
    int json, unknown_ok;
};

#define AT(field) .offset = offsetof(struct check_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "baseline", .letter = 'b', .type = SONDE_OPT_STR, .value = "NAME", AT(baseline),
      .help = "what to compare with: a name, or the path of a file" },
    { .name = "fail-on", .type = SONDE_OPT_LIST, .value = "LIMIT", AT(fail_on),
      .help = "exit status 3 if a figure has changed by more: 'cpu>3%'; or is: 'p95>200ms'" },
    { .name = "unknown-ok", .type = SONDE_OPT_FLAG, AT(unknown_ok),
      .help = "let a limit pass where it is not known whether the figure has changed" },
    { .name = "detect", .type = SONDE_OPT_STR, .value = "PERCENT%", AT(detect),
      .help = "a change to be seen: says, or with CMD records, how many runs that takes" },
    { .name = "runs", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1000, AT(runs),
      .help = "of CMD: at least so many (default 5)" },
    { .name = "runs-max", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1000,
      AT(runs_max), .help = "of CMD: at most so many (default 20)" },
    { .name = "format", .letter = 'f', .type = SONDE_OPT_STR, .value = "FORMAT", AT(format),
      .choices = "text|markdown|json|junit", .help = "how it is written (default text)" },
    { .name = "json", .type = SONDE_OPT_FLAG, AT(json), .help = "write JSON" },
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "write to FILE; FILE.xml is JUnit, .json and .md alike (default: standard output)" },
    SONDE_OPT_RUN_PART(struct check_values, filter),
    SONDE_OPT_RECORDING(struct check_values, recording),
    { .name = "limit", .letter = 'n', .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1e6,
      AT(limit), .help = "functions in JSON (default 30)" },
    SONDE_OPT_BASELINE_DIR,
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

struct cmd_check_state {
    struct sonde_baseline *baseline;
    struct sonde_cli_runs side[2];
    struct sonde_fail_on *limits;
    struct sonde_check_options how;
    struct sonde_comparison *comparison;
    struct sonde_check check;
    struct sonde_check_difference *differences;
    size_t difference_count;
    char **command;
    int targets;              /* operands that are runs */
    enum sonde_check_format format;
    const char *span;         /* what requests are */
    char after[128];
};

/* ---- What was asked for ---------------------------------------------------------------------- */

static int cmd_check_format(const struct sonde_cli *cli, struct cmd_check_state *s)
{
    const struct check_values *v = cli->values;
    static const struct { const char *suffix; enum sonde_check_format format; } suffixes[] = {
        { ".xml", SONDE_CHECK_JUNIT },
        { ".json", SONDE_CHECK_JSON },
        { ".md", SONDE_CHECK_MARKDOWN },
    };
    if (v->json && v->format && strcmp(v->format, "json") != 0) {
        return sonde_cli_usage(cli, "--json or --format %s, not both", v->format);
    }
    if (v->json) s->format = SONDE_CHECK_JSON;
    else if (v->format) s->format = (enum sonde_check_format)sonde_check_format_find(v->format);
    for (size_t i = 0; i < SONDE_COUNT(suffixes) && !v->json && !v->format; i++) {
        if (sonde_has_suffix(v->output, suffixes[i].suffix)) s->format = suffixes[i].format;
    }
    return SONDE_EXIT_OK;
}

static int cmd_check_detect(const struct sonde_cli *cli, struct cmd_check_state *s)
{
    const struct check_values *v = cli->values;
    if (!v->detect) return SONDE_EXIT_OK;
    char text[32];
    double percent = 0;
    const size_t len = strlen(v->detect);
    snprintf(text, sizeof(text), "%s", v->detect);
    if (len && len < sizeof(text) && text[len - 1] == '%') text[len - 1] = '\0';
    if (len >= sizeof(text) || sonde_cli_number(text, &percent) || !(percent > 0) ||
        percent > 1000) {
        return sonde_cli_usage(cli, "--detect: '%.40s' is not a change in per cent, such as 3%%",
                               v->detect);
    }
    s->how.detect = percent / 100;
    return SONDE_EXIT_OK;
}

/* Before anything is read: a mistake should not cost a minute. */
static int cmd_check_limits(const struct sonde_cli *cli, struct cmd_check_state *s)
{
    const struct check_values *v = cli->values;
    const struct sonde_cli_list *l = &v->fail_on;
    struct sonde_err err = { "" };
    s->how.unknown_ok = v->unknown_ok;
    s->how.defaults = !l->count;
    if (!l->count) return SONDE_EXIT_OK;
    s->limits = sonde__calloc(l->count, sizeof(*s->limits));
    if (!s->limits) return sonde_cli_fail(cli, "out of memory");
    for (size_t i = 0; i < l->count; i++) {
        if (sonde_fail_on_parse(l->item[i], &s->limits[i], &err)) {
            return sonde_cli_usage(cli, "--fail-on: %s", err.text);
        }
    }
    s->how.limits = s->limits;
    s->how.limit_count = l->count;
    return SONDE_EXIT_OK;
}

static int cmd_check_take(const struct sonde_cli *cli, struct cmd_check_state *s)
{
    const struct check_values *v = cli->values;
    s->command = sonde_cli_command_of(cli, &s->targets);
    if (!v->baseline) return sonde_cli_usage(cli, "say what to compare with: --baseline NAME");
    if (!s->targets == !s->command) {
        return sonde_cli_usage(cli, "say what to check: runs, a URL, or a command after --%s",
                               s->command ? "; not both" : "");
    }
    if (s->command && (v->filter.from || v->filter.to)) {
        return sonde_cli_usage(cli, "--from and --to are for runs that there are");
    }
    if (!s->command && (v->runs || v->runs_max)) {
        return sonde_cli_usage(cli, "--runs and --runs-max are for a command: -- CMD");
    }
    int status = cmd_check_format(cli, s);
    if (!status) status = cmd_check_detect(cli, s);
    return status ? status : cmd_check_limits(cli, s);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static int cmd_check_defaults(const struct sonde_cli *cli, struct cmd_check_state *s)
{
    if (!s->how.defaults) return SONDE_EXIT_OK;
    int requests = 0;
    for (size_t i = 0; i < s->side[0].count; i++) requests |= s->side[0].profiles[i]->infer != NULL;
    if (sonde_check_defaults(!requests, !requests && !s->span, &s->limits, &s->how.limit_count)) {
        return sonde_cli_fail(cli, "out of memory");
    }
    s->how.limits = s->limits;
    return SONDE_EXIT_OK;
}

static int cmd_check_compare(const struct sonde_cli *cli, struct cmd_check_state *s)
{
    const struct sonde_compare_options o = { .kind = -1, .lend = 1, .consecutive = 1,
                                             .watched = sonde_check_watches,
                                             .watched_arg = &s->how, .level = SONDE_CHECK_LEVEL };
    struct sonde_err err = { "" };
    sonde_check_release(&s->check);
    sonde_comparison_destroy(s->comparison);
    s->comparison = NULL;
    int rc = sonde_compare(s->side[0].runs, s->side[0].count, s->side[1].runs, s->side[1].count, &o,
                           &s->comparison, &err);
    if (rc == SONDE_EINVAL || rc == SONDE_EFULL) return sonde_cli_usage(cli, "%s", err.text);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);
    rc = sonde_check_run(s->comparison, &s->how, &s->check, &err);
    if (rc == SONDE_ENOMEM) return sonde_cli_fail(cli, "%s", err.text);
    return rc ? sonde_cli_usage(cli, "--fail-on: %s", err.text) : SONDE_EXIT_OK;
}

/* ---- Recording ------------------------------------------------------------------------------- */

static int cmd_check_record(struct sonde_cli *cli, struct cmd_check_state *s, size_t until)
{
    const struct check_values *v = cli->values;
    struct sonde_cli_filter filter = { .span = s->span };
    while (s->side[1].count < until) {
        struct sonde_profile *p;
        if (!cli->quiet) {
            sonde_visible_printf(STDERR_FILENO, "sonde check: run %zu of %zu\n",
                                 s->side[1].count + 1, until);
        }
        int status = sonde_cli_record_run(cli, s->command, &v->recording, &p);
        if (!status) status = sonde_cli_runs_take(cli, &s->side[1], p, &filter);
        if (status) return status;
    }
    return SONDE_EXIT_OK;
}

/* More runs are recorded as long as these spread too much for the change that is to be seen. The
 * change itself is never looked at to decide that: who records until a difference shows finds one,
 * whatever the program. */
static int cmd_check_record_all(struct sonde_cli *cli, struct cmd_check_state *s)
{
    const struct check_values *v = cli->values;
    const size_t most = v->runs_max ? (size_t)v->runs_max : CMD_CHECK_RUNS_MAX;
    size_t until = v->runs ? (size_t)v->runs : CMD_CHECK_RUNS;
    if (until > most) until = most;
    for (;;) {
        int status = cmd_check_record(cli, s, until);
        if (!status) status = cmd_check_compare(cli, s);
        if (status || until >= most || s->check.lead >= s->check.count) return status;
        const size_t more = s->check.rows[s->check.lead].more;
        if (!more || more == SONDE_POWER_NEVER) return SONDE_EXIT_OK;
        /* Half as many again at a time: with more runs their spread is known better. */
        const size_t step = until / 2 + 1;
        until += more < step ? more : step;
        if (until > most) until = most;
    }
}

static int cmd_check_load(struct sonde_cli *cli, struct cmd_check_state *s)
{
    const struct check_values *v = cli->values;
    struct sonde_cli_filter filter = v->filter;
    int status = sonde_cli_baseline_load(cli, v->baseline, &s->baseline);
    if (status) return status;
    s->span = v->filter.span ? v->filter.span : *s->baseline->span ? s->baseline->span : NULL;
    filter.span = s->span;
    status = sonde_cli_runs_baseline(cli, &s->side[0], s->baseline, s->span);
    if (!status) status = cmd_check_defaults(cli, s);
    if (status) return status;
    if (s->command) return cmd_check_record_all(cli, s);
    for (int i = 0; i < s->targets && !status; i++) {
        status = sonde_cli_runs_load(cli, &s->side[1], cli->operands[i], v->recording.duration_s,
                                     &filter);
    }
    return status ? status : cmd_check_compare(cli, s);
}

/* ---- Showing --------------------------------------------------------------------------------- */

/* The first value of the other side that differs from all of the baseline's; NULL = none does. */
static const struct sonde_run_facts *cmd_check_stranger(const struct cmd_check_state *s,
                                                        enum sonde_run_fact fact)
{
    for (size_t i = 0; i < s->side[1].count; i++) {
        size_t k = 0;
        while (k < s->side[0].count &&
               sonde_run_fact_differs(&s->side[0].facts[k], &s->side[1].facts[i], fact)) {
            k++;
        }
        if (k == s->side[0].count) return &s->side[1].facts[i];
    }
    return NULL;
}

static int cmd_check_differences(const struct sonde_cli *cli, struct cmd_check_state *s)
{
    s->differences = sonde__calloc(SONDE_FACT_COUNT, sizeof(*s->differences));
    if (!s->differences) return sonde_cli_fail(cli, "out of memory");
    for (int i = 0; i < SONDE_FACT_COUNT; i++) {
        const enum sonde_run_fact fact = (enum sonde_run_fact)i;
        const struct sonde_run_facts *other = cmd_check_stranger(s, fact);
        if (!other || !sonde_run_fact_suspect(fact)) continue;
        struct sonde_check_difference *d = &s->differences[s->difference_count++];
        d->fact = fact;
        memcpy(d->before, s->side[0].facts[0].text[fact], sizeof(d->before));
        memcpy(d->after, other->text[fact], sizeof(d->after));
    }
    return SONDE_EXIT_OK;
}

static int cmd_check_same_build(const struct cmd_check_state *s)
{
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < s->side[side].count; i++) {
            if (!s->side[side].facts[i].text[SONDE_FACT_BUILD_ID][0]) return 0;
        }
    }
    return !cmd_check_stranger(s, SONDE_FACT_BUILD_ID);
}

static int cmd_check_show(const struct sonde_cli *cli, struct cmd_check_state *s)
{
    const struct check_values *v = cli->values;
    const char *first = s->command ? s->command[0] : cli->operands[0];
    const int is_path = strchr(v->baseline, '/') != NULL;
    snprintf(s->after, sizeof(s->after), "%.90s%s", sonde_path_base(first),
             s->side[1].count > 1 && !s->command ? " and others" : "");
    const struct sonde_check_view view = {
        .baseline = is_path ? sonde_path_base(v->baseline) : v->baseline, .after = s->after,
        .created_s = s->baseline->created_s, .now_s = sonde_clock_s(CLOCK_REALTIME),
        .differences = s->differences, .difference_count = s->difference_count,
        .same_build = cmd_check_same_build(s), .defaults = s->how.defaults,
        .unknown_ok = v->unknown_ok, .limit = (size_t)v->limit, .format = s->format,
        .width = v->output ? 0 : sonde_cli_width(), .ascii = sonde_text_locale_ascii() };
    struct sonde_buf out;
    struct sonde_err err = { "" };
    sonde_buf_init(&out, CMD_CHECK_OUTPUT_MAX);
    const int rc = sonde_check_report(&s->check, s->comparison, &view, &out, &err);
    const int status = rc ? sonde_cli_fail(cli, "%s", err.text)
                          : sonde_cli_write(cli, v->output, &out);
    sonde_buf_reset(&out);
    /* A report in a file is not what the log of a CI job shows. */
    const int told = s->format != SONDE_CHECK_TEXT || v->output;
    if (!status && told && !cli->quiet) {
        sonde_check_headline(&s->check, s->comparison, &view, &out);
        if (!out.error) sonde_visible_printf(STDERR_FILENO, "sonde check: %s\n", out.data);
        for (size_t i = 0; i < s->difference_count; i++) {
            sonde_visible_printf(STDERR_FILENO, "sonde check: warning: %s: '%.120s' in the "
                                 "baseline, '%.120s' now\n",
                                 sonde_run_fact_title(s->differences[i].fact),
                                 s->differences[i].before, s->differences[i].after);
        }
    }
    sonde_buf_release(&out);
    return status;
}

static int cmd_check_run(struct sonde_cli *cli)
{
    struct cmd_check_state s = { 0 };
    int status = cmd_check_take(cli, &s);
    if (!status) status = cmd_check_load(cli, &s);
    if (!status) status = cmd_check_differences(cli, &s);
    if (!status) status = cmd_check_show(cli, &s);
    if (!status && s.check.failed) status = SONDE_EXIT_LIMIT;
    sonde_check_release(&s.check);
    sonde_comparison_destroy(s.comparison);
    sonde_cli_runs_release(&s.side[0]);
    sonde_cli_runs_release(&s.side[1]);
    sonde_baseline_destroy(s.baseline);
    sonde__free(s.limits);
    sonde__free(s.differences);
    return status;
}

const struct sonde_command sonde_cmd_check = {
    .name = "check",
    .summary = "check runs, or a command, against a baseline: for CI",
    .usage = "--baseline NAME [options] RUN…|URL|-- CMD [ARGUMENT]...",
    .details =
        "Compares runs with those of a baseline (`sonde help baseline`) figure by figure, as "
        "`sonde diff` does, and says of each figure that is watched: regressed, improved, or "
        "nothing to be seen with so many runs, and then the smallest change that would have been. "
        "Runs are files, profiles of a store or URLs, as `sonde report` takes them.\n"
        "\n"
        "--fail-on LIMIT says which figures are watched, and how much they may change "
        "(`sonde help diff`): 'cpu>3%', 'p95:handle>5%', 'rss>1GB'. Without it: latency (p50, p95, "
        "also to the first token and between tokens), requests and tokens per second, errors, CPU "
        "time, memory at the peak, and without requests of inference p50, p95 and CPU time of "
        "spans; each fails if it is worse by more than 1 % and that is no noise. At most one check "
        "in twenty of a program that has not changed finds a change.\n"
        "\n"
        "With -- CMD it is recorded, at least --runs times, and again until a change of --detect "
        "(default: that of the limits; 3%) would be seen in nine of ten checks, at most --runs-max "
        "times. Only the spread of runs decides when that is. CMD's output goes to the standard "
        "error; if it fails, so does the check, with exit status 1.\n"
        "\n"
        "A single run borrows how much runs differ from the baseline. Differences of host, kernel, "
        "CPU, program, arguments and model are warned of. Exit status 0: passed; 3: a limit is "
        "broken, or it is not known whether it is; 2: bad input; 1: something failed.\n"
        "\n"
        "examples:\n"
        "  sonde check --baseline main new*.run\n"
        "  sonde check --baseline ci/main.baseline --fail-on 'cpu>3%' -o check.xml -- ./bench\n"
        "  sonde check --baseline night http://127.0.0.1:6060 --from -3600",
    .options = options,
    .values_size = sizeof(struct check_values),
    .operands_max = -1,
    .command_after_dashes = 1,
    .run = cmd_check_run,
};
