/* cmd_ab.c - `sonde ab`: two commands, in pairs whose order is drawn, until it is clear which is
 * better; or what an agent's front says of the two servers that it splits requests between. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json.h"
#include "base/random.h"
#include "base/visible.h"
#include "bench/cmd/timing.h"
#include "bench/http/api.h"
#include "cli/ab.h"
#include "cli/bench_form.h"
#include "cli/bench_options.h"
#include "present/report/ab.h"
#include "present/report/compare.h"
#include "present/text.h"
#include "sonde/sonde.h"

#define CMD_AB_RECORD_RUNS 5u
#define CMD_AB_OUTPUT_MAX ((size_t)64 << 20)

static const struct sonde_pairs_figure cmd_ab_figures[] = {
    { "wall_s", "wall time", "s", -1 },
    { "cpu_s", "CPU time", "s", -1 },
    { "user_s", "user time", "s", -1 },
    { "system_s", "system time", "s", -1 },
    { "rss_bytes", "peak memory", "bytes", -1 },
    { "faults_major", "major faults", "", -1 },
    { "faults_minor", "minor faults", "", -1 },
    { "switches_voluntary", "waits", "", 0 },
    { "switches_involuntary", "preemptions", "", 0 },
    { "instructions", "instructions", "", -1 },
    { "cycles", "cycles", "", -1 },
};
enum { CMD_AB_WALL, CMD_AB_CPU, CMD_AB_USER, CMD_AB_SYSTEM, CMD_AB_RSS, CMD_AB_MAJOR,
       CMD_AB_MINOR, CMD_AB_VOLUNTARY, CMD_AB_INVOLUNTARY, CMD_AB_INSTRUCTIONS, CMD_AB_CYCLES };

#define AT(field) .offset = offsetof(struct ab_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "a", .type = SONDE_OPT_STR, .value = "CMD|URL", AT(a),
      .help = "what b is compared with: a command, or a server" },
    { .name = "b", .type = SONDE_OPT_STR, .value = "CMD|URL", AT(b), .help = "the other" },
    { .name = "detect", .type = SONDE_OPT_STR, .value = "PERCENT%", AT(detect),
      .help = "a difference that matters: stop too when there is none as large (default 3%)" },
    { .name = "on", .type = SONDE_OPT_STR, .value = "FIGURE", AT(on),
      .help = "figure that decides, as the JSON calls it (default wall_s; of servers e2e_s)" },
    { .name = "max-runs", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = SONDE_PAIRS_MAX,
      AT(max_runs), .help = "at most so many pairs (default 200)" },
    { .name = "max-time", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001, .max = 1e7,
      AT(max_time_s), .help = "begin no pair later than that (default: no limit)" },
    { .name = "warmup", .letter = 'w', .type = SONDE_OPT_UINT, .value = "N", .min = 0, .max = 1e5,
      AT(warmup), .help = "pairs that are not counted, at the beginning (default 0)" },
    { .name = "prepare", .letter = 'p', .type = SONDE_OPT_STR, .value = "CMD", AT(prepare),
      .help = "run this before every run, not measured" },
    { .name = "input", .type = SONDE_OPT_STR, .value = "FILE", AT(input),
      .help = "standard input of the commands (default /dev/null)" },
    { .name = "shell", .type = SONDE_OPT_STR, .value = "SHELL", AT(shell), .choices = "sh|none",
      .help = "sh: commands are run by it; none: without, which is more exact (default sh)" },
    { .name = "timeout", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001, .max = 1e7,
      AT(timeout_s), .help = "end a run that takes longer, and fail (default: none)" },
    { .name = "ignore-failure", .letter = 'i', .type = SONDE_OPT_FLAG, AT(ignore_failure),
      .help = "go on when a command's exit status is not 0" },
    { .name = "show-output", .type = SONDE_OPT_FLAG, AT(show_output),
      .help = "let the commands write to the terminal" },
    { .name = "record", .type = SONDE_OPT_FLAG, AT(record),
      .help = "then record both with `sonde record`: differences by phase and by function" },
    { .name = "record-runs", .type = SONDE_OPT_UINT, .value = "N", .min = 2, .max = 100,
      AT(record_runs), .help = "recordings of each (default 5)" },
    { .name = "rate", .letter = 'F', .type = SONDE_OPT_NUM, .value = "HZ", .min = 1, .max = 10000,
      AT(recording.rate_hz), .help = "of --record: samples per second of CPU time (default 1000)" },
    { .name = "requests", .letter = 'n', .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1e6,
      AT(requests), .help = "of servers: requests to each in a pair (default 20)" },
    { .name = "concurrency", .letter = 'c', .type = SONDE_OPT_UINT, .value = "N", .min = 1,
      .max = 10000, AT(concurrency), .help = "of servers: requests at a time (default 1)" },
    { .name = "prompt-tokens", .type = SONDE_OPT_STR, .value = "LENGTH", AT(prompt),
      .help = "of servers: as `sonde bench http` has it (default 128)" },
    { .name = "max-tokens", .type = SONDE_OPT_STR, .value = "LENGTH", AT(max_tokens),
      .help = "of servers: of answers, alike (default 128)" },
    { .name = "api", .type = SONDE_OPT_STR, .value = "DIALECT", .choices = SONDE_LOAD_API_NAMES,
      AT(api), .help = "of servers: how they are asked (default auto)" },
    { .name = "model", .letter = 'm', .type = SONDE_OPT_STR, .value = "NAME", AT(model),
      .help = "of servers: model to ask for (default the first that a server lists)" },
    { .name = "header", .letter = 'H', .type = SONDE_OPT_LIST, .value = "NAME: VALUE", AT(header),
      .help = "of servers: send this header with every request" },
    SONDE_OPT_BENCH_TRUST(struct ab_values, trust),
    { .name = "no-stream", .type = SONDE_OPT_FLAG, AT(no_stream),
      .help = "of servers: ask for whole answers" },
    { .name = "seed", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 9e15, AT(seed),
      .help = "of the order of runs (default: another each time)" },
    SONDE_OPT_BENCH_OUTPUT(struct ab_values, out),
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

struct cmd_ab_state {
    const struct ab_values *v;
    struct sonde_timing_command arms[2], prepare;
    struct sonde_spawn spawn;
    struct sonde_pairs_options o;
    struct sonde_pairs pairs;
    struct sonde_bench_result result;
    struct sonde_progress progress;
    struct sonde_cli_runs side[2];
    struct sonde_buf functions;      /* what --record found, for people */
};

/* ---- A run ----------------------------------------------------------------------------------- */

static int cmd_ab_spawn(struct cmd_ab_state *s, const struct sonde_timing_command *c,
                        const char *what, struct sonde_spawn_use *use, struct sonde_err *err)
{
    const struct sonde_spawn_options so = { .path = c->path, .argv = c->argv, .input = s->v->input,
                                            .copies = 1, .timeout_s = s->v->timeout_s,
                                            .show_output = s->v->show_output };
    enum sonde_spawn_end end;
    const int rc = sonde_spawn_run(&s->spawn, &so, &end, use, err);
    if (rc) return rc;
    if (end == SONDE_SPAWN_INTERRUPTED) return 1;
    if (end == SONDE_SPAWN_TIMEOUT) {
        return sonde_err_set(err, SONDE_EIO, "%s '%.200s' ran longer than %g s and was ended; "
                             "--timeout gives it more", what, c->text, s->v->timeout_s);
    }
    if (!use->status || s->v->ignore_failure) return 0;
    if (WIFSIGNALED(use->status)) {
        return sonde_err_set(err, SONDE_EIO, "%s '%.200s' was ended by signal %d (%s); "
                             "--ignore-failure measures it all the same", what, c->text,
                             WTERMSIG(use->status), strsignal(WTERMSIG(use->status)));
    }
    return sonde_err_set(err, SONDE_EIO, "%s '%.200s' ended with exit status %d; --show-output "
                         "shows what it says, --ignore-failure measures it all the same", what,
                         c->text, WEXITSTATUS(use->status));
}

static int cmd_ab_measure(void *arg, int arm, double *values, struct sonde_err *err)
{
    struct cmd_ab_state *s = arg;
    struct sonde_spawn_use use;
    int rc = 0;
    if (s->v->prepare) rc = cmd_ab_spawn(s, &s->prepare, "the preparation", &use, err);
    if (!rc) rc = cmd_ab_spawn(s, &s->arms[arm], arm ? "b" : "a", &use, err);
    if (rc) return rc;
    values[CMD_AB_WALL] = use.wall_s;
    values[CMD_AB_CPU] = use.user_s + use.system_s;
    values[CMD_AB_USER] = use.user_s;
    values[CMD_AB_SYSTEM] = use.system_s;
    values[CMD_AB_RSS] = (double)use.rss_bytes;
    values[CMD_AB_MAJOR] = (double)use.faults_major;
    values[CMD_AB_MINOR] = (double)use.faults_minor;
    values[CMD_AB_VOLUNTARY] = (double)use.switches_voluntary;
    values[CMD_AB_INVOLUNTARY] = (double)use.switches_involuntary;
    values[CMD_AB_INSTRUCTIONS] = use.counts[SONDE_COUNTER_INSTRUCTIONS];
    values[CMD_AB_CYCLES] = use.counts[SONDE_COUNTER_CYCLES];
    return 0;
}

/* ---- What was asked for ---------------------------------------------------------------------- */

static int cmd_ab_command(const struct sonde_cli *cli, struct sonde_timing_command *c,
                          const char *option, const char *text)
{
    const struct ab_values *v = cli->values;
    struct sonde_err err = { "" };
    const int shell = !v->shell || strcmp(v->shell, "none") != 0;
    const int rc = sonde_timing_command_init(c, NULL, text, shell, &err);
    if (rc == SONDE_ENOMEM) return sonde_cli_fail(cli, "%s", err.text);
    return rc ? sonde_cli_usage(cli, "--%s: %s", option, err.text) : SONDE_EXIT_OK;
}

static int cmd_ab_take(const struct sonde_cli *cli, struct cmd_ab_state *s)
{
    const struct ab_values *v = cli->values;
    s->v = v;
    if (!v->a || !v->b) {
        return sonde_cli_usage(cli, "say what to compare: --a 'CMD' --b 'CMD'; or the URL of an "
                               "agent whose front splits requests");
    }
    if (!v->record && (v->record_runs || v->recording.rate_hz > 0)) {
        return sonde_cli_usage(cli, "--record-runs and --rate go with --record");
    }
    if (v->input && access(v->input, R_OK)) {
        return sonde_cli_usage(cli, "--input: '%s' cannot be read", v->input);
    }
    s->o = (struct sonde_pairs_options){
        .figures = cmd_ab_figures, .figure_count = SONDE_COUNT(cmd_ab_figures),
        .measure = cmd_ab_measure, .measure_arg = s,
        .progress = sonde_progress_told, .progress_arg = &s->progress,
    };
    int status = sonde_cli_ab_plan(cli, &s->o);
    if (!status) status = cmd_ab_command(cli, &s->arms[0], "a", v->a);
    if (!status) status = cmd_ab_command(cli, &s->arms[1], "b", v->b);
    if (!status && v->prepare) status = cmd_ab_command(cli, &s->prepare, "prepare", v->prepare);
    return status;
}

/* ---- Recordings ------------------------------------------------------------------------------ */

static int cmd_ab_compare(const struct sonde_cli *cli, struct cmd_ab_state *s)
{
    const struct ab_values *v = cli->values;
    int requests = 1;
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < s->side[i].count; k++) {
            requests &= s->side[i].profiles[k]->infer != NULL;
        }
    }
    /* Both did the same work: a function is compared by what it cost in a run. */
    const struct sonde_compare_options o = { .kind = -1,
                                             .basis = requests ? SONDE_BASIS_AUTO
                                                               : SONDE_BASIS_RUN };
    const int markdown = !strcmp(sonde_cli_bench_form(&v->out), "markdown");
    struct sonde_comparison *c = NULL;
    struct sonde_err err = { "" };
    int rc = sonde_compare(s->side[0].runs, s->side[0].count, s->side[1].runs, s->side[1].count, &o,
                           &c, &err);
    struct sonde_compare_view view = {
        .before = "a", .after = "b", .all_figures = "--format json",
        .style = markdown ? SONDE_REPORT_MARKDOWN : SONDE_REPORT_TEXT,
        .width = v->out.output ? 0 : sonde_cli_width(), .ascii = sonde_text_locale_ascii() };
    if (!rc) rc = sonde_compare_report(c, &view, &s->functions, &err);
    if (!rc) {
        struct sonde_buf *extra = &s->result.extra;
        sonde_json_key(extra, "recordings");
        view.style = SONDE_REPORT_JSON;
        sonde_compare_json(c, &view, extra);
        rc = extra->error ? sonde_err_memory(&err) : 0;
    }
    sonde_comparison_destroy(c);
    /* A command that never ran on a CPU for long has no samples; the test stands without. */
    if (rc == SONDE_ENOENT) {
        sonde_buf_printf(&s->functions, "recordings: %s\n", err.text);
        return SONDE_EXIT_OK;
    }
    return rc ? sonde_cli_fail(cli, "--record: %s", err.text) : SONDE_EXIT_OK;
}

/* In turns, and who is first is drawn: what the machine does meanwhile is not one arm's. */
static int cmd_ab_record(struct sonde_cli *cli, struct cmd_ab_state *s)
{
    const struct ab_values *v = cli->values;
    const size_t runs = v->record_runs ? (size_t)v->record_runs : CMD_AB_RECORD_RUNS;
    const struct sonde_cli_filter all = { 0 };
    uint64_t seed = s->o.seed;
    for (size_t i = 0; i < runs; i++) {
        const int b_first = sonde_random_u64(&seed) >> 63 != 0;
        for (int k = 0; k < 2; k++) {
            const int arm = k ^ b_first;
            struct sonde_profile *p;
            if (!cli->quiet) {
                sonde_visible_printf(STDERR_FILENO, "sonde ab: recording %zu of %zu, %s\n", i + 1,
                                     runs, arm ? "b" : "a");
            }
            int status = sonde_cli_record_run(cli, s->arms[arm].argv, &v->recording, &p);
            if (!status) status = sonde_cli_runs_take(cli, &s->side[arm], p, &all);
            if (status) return status;
        }
    }
    return cmd_ab_compare(cli, s);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void cmd_ab_text(const struct sonde_bench_result *r, const struct sonde_bench_view *view,
                        struct sonde_buf *out, void *arg)
{
    const struct cmd_ab_state *s = arg;
    sonde_pairs_text(&s->pairs, s->v->a, s->v->b, view, out);
    sonde_bench_form_doubts(r, out);
    if (!s->functions.len) return;
    sonde_buf_putc(out, '\n');
    sonde_buf_add(out, s->functions.data, s->functions.len);
}

static int cmd_ab_test(const struct sonde_cli *cli, struct cmd_ab_state *s)
{
    const struct ab_values *v = cli->values;
    struct sonde_err err = { "" };
    const int status = sonde_cli_ab_begin(cli, s->o.seed, &s->result);
    if (status) return status;
    int rc = sonde_spawn_init(&s->spawn, 1, &err);
    if (!rc) {
        if (!v->show_output) sonde_progress_begin(&s->progress, cli, "comparing", v->b);
        rc = sonde_pairs_run(&s->o, &s->pairs, &err);
        if (!v->show_output) sonde_progress_end(&s->progress);
    }
    sonde_spawn_release(&s->spawn);
    return sonde_cli_ab_end(cli, rc, &err, &s->pairs, &s->result);
}

/* What an agent's front says of the servers that it splits or mirrors requests to. */
static int cmd_ab_front(const struct sonde_cli *cli, const char *agent)
{
    const struct ab_values *v = cli->values;
    const char *form = sonde_cli_bench_form(&v->out);
    char url[4096];
    struct sonde_buf answer, out;
    struct sonde_err err = { "" };
    if (v->a || v->b) return sonde_cli_usage(cli, "an agent's URL, or --a and --b; not both");
    if (!sonde_cli_is_url(agent)) {
        return sonde_cli_usage(cli, "'%s' is not the URL of an agent, which begins with http://",
                               agent);
    }
    if (v->out.save || v->out.store || v->out.mark || v->out.fail_on.count ||
        !strcmp(form, "markdown")) {
        return sonde_cli_usage(cli, "of a front there are --format text and json, and --output");
    }
    if (sonde_cli_url(url, sizeof(url), agent, "/api/ab")) {
        return sonde_cli_usage(cli, "too long a URL");
    }
    int rc = sonde_cli_fetch(url, SONDE_AB_ANSWER_MAX, SONDE_CLI_FETCH_S, &answer, &err);
    int status = rc ? sonde_cli_fail(cli, "%s", err.text) : SONDE_EXIT_OK;
    sonde_buf_init(&out, CMD_AB_OUTPUT_MAX);
    if (!status && !strcmp(form, "json")) sonde_buf_add(&out, answer.data, answer.len);
    else if (!status) {
        const struct sonde_ab_style style = { .width = v->out.output ? 0 : sonde_cli_width(),
                                              .ascii = sonde_text_locale_ascii() };
        rc = sonde_ab_text(answer.data ? answer.data : "", answer.len, &style, &out, &err);
        if (rc) status = sonde_cli_fail(cli, "%s: %s", url, err.text);
    }
    if (!status && out.error) status = sonde_cli_fail(cli, "out of memory");
    if (!status) status = sonde_cli_write(cli, v->out.output, &out);
    sonde_buf_release(&answer);
    sonde_buf_release(&out);
    return status;
}

static int cmd_ab_run(struct sonde_cli *cli)
{
    const struct ab_values *v = cli->values;
    if (cli->operand_count) return cmd_ab_front(cli, cli->operands[0]);
    const int servers = (v->a && sonde_cli_is_url(v->a)) + (v->b && sonde_cli_is_url(v->b));
    if (servers == 1) return sonde_cli_usage(cli, "--a and --b: two commands or two URLs");
    if (servers) return sonde_cli_ab_http(cli);
    if (v->requests || v->concurrency || v->prompt || v->max_tokens || v->api || v->model ||
        v->header.count || v->no_stream || v->trust.insecure || v->trust.ca_file) {
        return sonde_cli_usage(cli, "options of servers go with --a URL --b URL");
    }
    struct cmd_ab_state s;
    memset(&s, 0, sizeof(s));
    sonde_buf_init(&s.functions, CMD_AB_OUTPUT_MAX);
    int status = cmd_ab_take(cli, &s);
    if (!status) status = sonde_cli_bench_begin(cli, &v->out, "ab");
    if (!status) status = cmd_ab_test(cli, &s);
    const int interrupted = s.pairs.end == SONDE_PAIRS_INTERRUPTED;
    if (!status && v->record && !interrupted) status = cmd_ab_record(cli, &s);
    if (!status) status = sonde_cli_bench_finish(cli, &v->out, &s.result, cmd_ab_text, &s);
    if (!status && interrupted) status = SONDE_EXIT_FAIL;
    sonde_cli_runs_release(&s.side[0]);
    sonde_cli_runs_release(&s.side[1]);
    sonde_pairs_release(&s.pairs);
    sonde_bench_result_release(&s.result);
    sonde_timing_command_release(&s.arms[0]);
    sonde_timing_command_release(&s.arms[1]);
    sonde_timing_command_release(&s.prepare);
    sonde_buf_release(&s.functions);
    return status;
}

const struct sonde_command sonde_cmd_ab = {
    .name = "ab",
    .summary = "which of two commands or servers is better: in pairs, until it is clear",
    .usage = "[options] --a 'CMD' --b 'CMD' | --a URL --b URL | URL",
    .details =
        "Runs both in pairs, the order within a pair drawn at random, and looks after every pair: "
        "it stops as soon as b is clearly better or worse, or clearly not different by as much as "
        "--detect. Looking often is allowed: however often it looks, equal commands are called "
        "different in at most 5 % of tests. Intervals are valid whenever it stops.\n"
        "\n"
        "--on says which figure decides; wall, CPU, user and system time, peak memory, faults and "
        "context switches are compared beside it. With --record both are then recorded in turns, "
        "and differences by phase, span and function shown as `sonde diff` does.\n"
        "\n"
        "--a URL --b URL: two inference servers. In a pair each is sent the same requests "
        "(--requests, --concurrency), one after the other in an order that is drawn, and time to "
        "first token, between tokens, of whole answers, tokens per second and errors are "
        "compared.\n"
        "\n"
        "URL alone is that of an agent whose front splits live requests between two servers, or "
        "mirrors them (`sonde serve --upstream A --ab B`): how the two compare so far.\n"
        "\n"
        "examples:\n"
        "  sonde ab --a './old in.json' --b './new in.json'\n"
        "  sonde ab --detect 1% --max-time 300 --shell none --a ./old --b ./new --save parser\n"
        "  sonde ab --record --a './server-old --once' --b './server-new --once'\n"
        "  sonde ab --a http://127.0.0.1:8080 --b http://127.0.0.1:8081 -c 4 --on ttft_s\n"
        "  sonde ab http://127.0.0.1:6060",
    .options = options,
    .values_size = sizeof(struct ab_values),
    .operands_max = 1,
    .run = cmd_ab_run,
};
