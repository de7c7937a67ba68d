/* bench_cmd.c - `sonde bench cmd`: commands measured beside each other. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/path.h"
#include "base/visible.h"
#include "bench/cmd/report.h"
#include "cli/bench_options.h"
#include "cli/bench_output.h"
#include "cli/progress.h"
#include "present/text.h"
#include "sonde/sonde.h"

#define BENCH_CMD_MIN_RUNS 10u
#define BENCH_CMD_MAX_RUNS 1000u
#define BENCH_CMD_DURATION_S 10.0 /* of each case */
#define BENCH_CMD_SETTLE_S 1.0    /* and --until does not end it before so long */
#define BENCH_CMD_OUTPUT_MAX SONDE_BENCH_JSON_MAX

struct bench_cmd_values {
    struct sonde_cli_bench_output out;
    struct sonde_cli_list names;
    const char *prepare, *input, *parallel, *shell, *until;
    uint64_t warmup, runs, runs_min, runs_max, seed;
    double duration_s, timeout_s;
    int ignore_failure, show_output;
};

#define AT(field) .offset = offsetof(struct bench_cmd_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "name", .letter = 'n', .type = SONDE_OPT_LIST, .value = "NAME", AT(names),
      .help = "what a command is called; the first is that of the first command, and so on" },
    { .name = "warmup", .letter = 'w', .type = SONDE_OPT_UINT, .value = "N", .min = 0, .max = 1e5,
      AT(warmup), .help = "runs of each that are not counted, at the beginning (default 0)" },
    { .name = "until", .type = SONDE_OPT_STR, .value = "PERCENT%", AT(until),
      .help = "run until every mean is known so well, for a second each at least (default 1%)" },
    { .name = "min-runs", .type = SONDE_OPT_UINT, .value = "N", .min = 2,
      .max = SONDE_TIMING_ROUNDS_MAX, AT(runs_min), .help = "at least so many runs (default 10)" },
    { .name = "max-runs", .type = SONDE_OPT_UINT, .value = "N", .min = 2,
      .max = SONDE_TIMING_ROUNDS_MAX, AT(runs_max), .help = "at most so many runs (default 1000)" },
    { .name = "runs", .letter = 'r', .type = SONDE_OPT_UINT, .value = "N", .min = 1,
      .max = SONDE_TIMING_ROUNDS_MAX, AT(runs), .help = "exactly so many runs" },
    { .name = "duration", .letter = 'd', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001,
      .max = 1e7, AT(duration_s),
      .help = "begin no run later than that, once there are --min-runs (default 10 for each)" },
    { .name = "timeout", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001, .max = 1e7,
      AT(timeout_s), .help = "end a run that takes longer, and fail (default: none)" },
    { .name = "prepare", .letter = 'p', .type = SONDE_OPT_STR, .value = "CMD", AT(prepare),
      .help = "run this before every run, not measured" },
    { .name = "input", .type = SONDE_OPT_STR, .value = "FILE", AT(input),
      .help = "standard input of the commands (default /dev/null)" },
    { .name = "parallel", .type = SONDE_OPT_STR, .value = "N,...", AT(parallel),
      .help = "so many copies at a time, as 1,2,4,8: how it scales (default 1)" },
    { .name = "shell", .type = SONDE_OPT_STR, .value = "SHELL", AT(shell), .choices = "sh|none",
      .help = "sh: it runs the commands, and its start is subtracted; none: without (default sh)" },
    { .name = "ignore-failure", .letter = 'i', .type = SONDE_OPT_FLAG, AT(ignore_failure),
      .help = "go on when a command's exit status is not 0" },
    { .name = "show-output", .type = SONDE_OPT_FLAG, AT(show_output),
      .help = "let the commands write to the terminal" },
    { .name = "seed", .type = SONDE_OPT_UINT, .value = "N", .min = 0, .max = 9e15, AT(seed),
      .help = "of the order of runs (default: another each time)" },
    SONDE_OPT_BENCH_OUTPUT(struct bench_cmd_values, out),
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

struct bench_cmd_state {
    struct sonde_timing_options o;
    struct sonde_timing_command *commands; /* owned */
    struct sonde_timing_command prepare;
    char *joined;                       /* owned: the words after -- */
    struct sonde_progress progress;
    struct sonde_timing_bench bench;
    struct sonde_timing_report report;
    struct sonde_bench_result result;
};

/* ---- What was asked for ---------------------------------------------------------------------- */

static int bench_cmd_parallel(const struct sonde_cli *cli, struct sonde_timing_options *o)
{
    const struct bench_cmd_values *v = cli->values;
    const char *at = v->parallel ? v->parallel : "1";
    for (;;) {
        char text[16];
        double n;
        const size_t len = strcspn(at, ",");
        const size_t kept = len < sizeof(text) ? len : sizeof(text) - 1;
        snprintf(text, sizeof(text), "%.*s", (int)kept, at);
        if (sonde_cli_number(text, &n) || n != floor(n) || !(n >= 1) ||
            n > SONDE_SPAWN_COPIES_MAX) {
            return sonde_cli_usage(cli, "--parallel: '%s' is not a number of copies from 1 to %u",
                                   text, SONDE_SPAWN_COPIES_MAX);
        }
        for (size_t i = 0; i < o->parallel_count; i++) {
            if (o->parallel[i] == (uint32_t)n) {
                return sonde_cli_usage(cli, "--parallel: %s is there twice", text);
            }
        }
        if (o->parallel_count == SONDE_TIMING_PARALLEL_MAX) {
            return sonde_cli_usage(cli, "--parallel: more than %u numbers",
                                   SONDE_TIMING_PARALLEL_MAX);
        }
        o->parallel[o->parallel_count++] = (uint32_t)n;
        if (!at[len]) return SONDE_EXIT_OK;
        at += len + 1;
    }
}

/* Names are keys of the result: a second one is told apart. */
static void bench_cmd_unique(struct sonde_timing_command *commands, size_t at)
{
    char base[SONDE_TIMING_NAME_MAX + 1];
    memcpy(base, commands[at].name, sizeof(base));
    for (unsigned n = 2; n <= SONDE_TIMING_COMMANDS_MAX + 1; n++) {
        size_t i = 0;
        while (i < at && strcmp(commands[i].name, commands[at].name)) i++;
        if (i == at) return;
        snprintf(commands[at].name, sizeof(commands[at].name), "%.*s (%u)",
                 SONDE_TIMING_NAME_MAX - 8, base, n);
    }
}

static int bench_cmd_join(struct bench_cmd_state *s, char *const *words)
{
    struct sonde_buf b;
    sonde_buf_init(&b, (size_t)4 << 20);
    for (; *words; words++) sonde_buf_printf(&b, "%s%s", b.len ? " " : "", *words);
    s->joined = sonde_buf_take(&b);
    return s->joined ? 0 : SONDE_ENOMEM;
}

static int bench_cmd_commands(const struct sonde_cli *cli, struct bench_cmd_state *s)
{
    const struct bench_cmd_values *v = cli->values;
    const int shell = !v->shell || strcmp(v->shell, "none") != 0;
    struct sonde_err err = { "" };
    const size_t texts = (size_t)(cli->operands_plain >= 0 ? cli->operands_plain
                                                           : cli->operand_count);
    const int words = (size_t)cli->operand_count > texts;
    const size_t count = texts + (words ? 1 : 0);
    if (!count) {
        return sonde_cli_usage(cli, "say what to run: 'CMD'..., each in quotes, or -- CMD "
                               "[ARGUMENT]...");
    }
    if (count > SONDE_TIMING_COMMANDS_MAX) {
        return sonde_cli_usage(cli, "%zu commands; at most %u are measured together. Several words "
                               "of one command are put in quotes, or after --", count,
                               SONDE_TIMING_COMMANDS_MAX);
    }
    if (v->names.count > count) {
        return sonde_cli_usage(cli, "--name '%s': there is no command left for it",
                               v->names.item[count]);
    }
    s->commands = sonde__calloc(count, sizeof(*s->commands));
    if (!s->commands) return sonde_cli_fail(cli, "out of memory");
    s->o.commands = s->commands;
    for (size_t i = 0; i < count; i++) {
        const char *name = i < v->names.count ? v->names.item[i] : NULL;
        int rc = 0;
        s->o.command_count++;
        if (i < texts) {
            rc = sonde_timing_command_init(&s->commands[i], name, cli->operands[i], shell, &err);
        } else {
            rc = bench_cmd_join(s, cli->operands + texts) ? sonde_err_memory(&err) : 0;
            if (!rc) {
                rc = sonde_timing_command_words(&s->commands[i], name, s->joined,
                                                cli->operands + texts, &err);
            }
        }
        if (rc == SONDE_ENOMEM) return sonde_cli_fail(cli, "%s", err.text);
        if (rc) return sonde_cli_usage(cli, "%s", err.text);
        bench_cmd_unique(s->commands, i);
    }
    if (!v->prepare) return SONDE_EXIT_OK;
    const int rc = sonde_timing_command_init(&s->prepare, NULL, v->prepare, shell, &err);
    if (rc) return sonde_cli_usage(cli, "--prepare: %s", err.text);
    s->o.prepare = &s->prepare;
    return SONDE_EXIT_OK;
}

static int bench_cmd_take(const struct sonde_cli *cli, struct bench_cmd_state *s)
{
    const struct bench_cmd_values *v = cli->values;
    struct sonde_timing_options *o = &s->o;
    int status = bench_cmd_parallel(cli, o);
    o->until = 0.01;
    if (!status) status = sonde_cli_bench_percent(cli, "until", v->until, &o->until);
    if (status) return status;
    if (v->runs && (v->runs_min || v->runs_max || v->until)) {
        return sonde_cli_usage(cli, "--runs says how many there are: without --min-runs, "
                               "--max-runs and --until");
    }
    o->rounds_min = v->runs_min ? v->runs_min : BENCH_CMD_MIN_RUNS;
    o->rounds_max = v->runs_max ? v->runs_max : BENCH_CMD_MAX_RUNS;
    if (v->runs_min && !v->runs_max && o->rounds_max < o->rounds_min) o->rounds_max = o->rounds_min;
    if (v->runs_max && !v->runs_min && o->rounds_min > o->rounds_max) o->rounds_min = o->rounds_max;
    if (o->rounds_min > o->rounds_max) {
        return sonde_cli_usage(cli, "--min-runs is more than --max-runs");
    }
    if (v->runs) {
        o->rounds_min = o->rounds_max = v->runs;
        o->until = 0;
    }
    if (v->input && access(v->input, R_OK)) {
        return sonde_cli_usage(cli, "--input: '%s' cannot be read", v->input);
    }
    status = bench_cmd_commands(cli, s);
    o->input = v->input;
    o->warmup = v->warmup;
    o->duration_s = v->duration_s > 0
                        ? v->duration_s
                        : BENCH_CMD_DURATION_S * (double)(o->command_count * o->parallel_count);
    o->settle_s = fmin(BENCH_CMD_SETTLE_S * (double)(o->command_count * o->parallel_count),
                       o->duration_s);
    o->timeout_s = v->timeout_s;
    o->ignore_failure = v->ignore_failure;
    o->show_output = v->show_output;
    o->seed = sonde_cli_bench_seed(v->seed);
    o->progress = sonde_progress_told;
    o->progress_arg = &s->progress;
    return status;
}

/* ---- Running and showing --------------------------------------------------------------------- */

static void bench_cmd_text(const struct sonde_bench_result *r, const struct sonde_bench_view *view,
                           struct sonde_buf *out, void *arg)
{
    const struct bench_cmd_state *s = arg;
    (void)r;
    if (view->markdown) sonde_timing_report_markdown(&s->report, out);
    else sonde_timing_report_text(&s->report, view->width, view->ascii, out);
}

static int bench_cmd_measure(const struct sonde_cli *cli, struct bench_cmd_state *s)
{
    struct sonde_err err = { "" };
    sonde_bench_result_init(&s->result, "cmd", s->commands[0].name);
    if (sonde_bench_result_command(&s->result, cli->operands, (size_t)cli->operand_count)) {
        return sonde_cli_fail(cli, "out of memory");
    }
    if (!s->o.show_output) {
        sonde_progress_begin(&s->progress, cli, "running", s->commands[0].name);
    }
    const int rc = sonde_timing_run(&s->o, &s->bench, &err);
    if (!s->o.show_output) sonde_progress_end(&s->progress);
    sonde_bench_result_end(&s->result);
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);
    if (!s->bench.rounds) {
        return sonde_cli_fail(cli, "interrupted in the first round: nothing was measured");
    }
    if (sonde_timing_report_init(&s->report, &s->o, &s->bench) ||
        sonde_timing_report_result(&s->report, &s->result)) {
        return sonde_cli_fail(cli, "out of memory");
    }
    const struct bench_cmd_values *v = cli->values;
    const int status = sonde_cli_bench_finish(cli, &v->out, &s->result, bench_cmd_text, s);
    return status ? status : s->bench.interrupted ? SONDE_EXIT_FAIL : SONDE_EXIT_OK;
}

static int bench_cmd_run(struct sonde_cli *cli)
{
    const struct bench_cmd_values *v = cli->values;
    struct bench_cmd_state s;
    memset(&s, 0, sizeof(s));
    int status = bench_cmd_take(cli, &s);
    if (!status) status = sonde_cli_bench_begin(cli, &v->out, s.commands[0].name);
    if (!status) status = bench_cmd_measure(cli, &s);
    sonde_timing_report_release(&s.report);
    sonde_timing_bench_release(&s.bench);
    sonde_bench_result_release(&s.result);
    for (size_t i = 0; i < s.o.command_count; i++) sonde_timing_command_release(&s.commands[i]);
    sonde_timing_command_release(&s.prepare);
    sonde__free(s.commands);
    sonde__free(s.joined);
    return status;
}

const struct sonde_command sonde_bench_cmd_cmd = {
    .name = "bench cmd",
    .summary = "how long commands take, beside each other, and what they use",
    .usage = "[options] 'CMD'... | [options] -- CMD [ARGUMENT]...",
    .details =
        "Runs commands again and again, in rounds whose order is drawn anew, until the mean time "
        "of each is known to --until, or --duration or --max-runs is used up. Each operand is one "
        "command, in quotes, for the shell; what follows -- is one more, run without a shell.\n"
        "\n"
        "Shows for each the mean with a 95 % interval, user and system time, peak of memory (of "
        "its largest process), page faults, context switches, and instructions and cycles where "
        "the CPU counts them. Commands are compared with the fastest round by round: how many "
        "times as long they take, with an interval, or that no difference is seen and how large "
        "one would have had to be. Runs that fall out of the rest are named with the reason (page "
        "cache, other load, more CPU time), and stay in the figures.\n"
        "\n"
        "With --parallel so many copies run at a time, and with three or more such numbers the "
        "universal scalability law is fitted: contention, coherence and the best number of "
        "copies.\n"
        "\n"
        "Time is from exec to the end of the process. The output of commands is dropped, unless "
        "--show-output is given. A command that fails ends the benchmark with exit status 1, "
        "unless --ignore-failure is given; Ctrl-C ends the commands and shows what there is, with "
        "exit status 1.\n"
        "\n"
        "examples:\n"
        "  sonde bench cmd 'gzip -9 -k -c big' 'zstd -19 -c big'\n"
        "  sonde bench cmd --shell none --until 0.5% -n old -n new ./old ./new\n"
        "  sonde bench cmd --prepare 'sync' --warmup 3 --format json -o result.json 'make -j2'\n"
        "  sonde bench cmd --parallel 1,2,4,8 -- ./worker --once",
    .options = options,
    .values_size = sizeof(struct bench_cmd_values),
    .operands_max = -1,
    .command_after_dashes = 1,
    .run = bench_cmd_run,
};
