/* bench_run.c - `sonde bench run`: the benchmarks of a program that was written with
 * sonde/bench.h. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/path.h"
#include "base/visible.h"
#include "bench/cmd/spawn.h"
#include "bench/run/suite.h"
#include "cli/bench_options.h"
#include "cli/bench_output.h"
#include "cli/progress.h"
#include "present/text.h"
#include "sonde/sonde.h"

#define BENCH_RUN_DURATION_S 60.0
#define BENCH_RUN_TIMEOUT_S 60.0

enum { BENCH_RUN_MIN = 5, BENCH_RUN_MAX = 50, BENCH_RUN_SAMPLES = 3, BENCH_RUN_SAMPLE_MS = 10 };

struct bench_run_values {
    struct sonde_cli_bench_output out;
    const char *until;
    uint64_t processes_min, processes_max, samples, seed;
    double sample_ms, duration_s, timeout_s;
    int list, show_output;
};

#define AT(field) .offset = offsetof(struct bench_run_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "list", .type = SONDE_OPT_FLAG, AT(list),
      .help = "print the names, and run nothing" },
    { .name = "until", .type = SONDE_OPT_STR, .value = "PERCENT%", AT(until),
      .help = "run until every time is known so well (default 2%)" },
    { .name = "min-processes", .type = SONDE_OPT_UINT, .value = "N", .min = 2,
      .max = SONDE_SUITE_PROCESSES_MAX, AT(processes_min),
      .help = "start the program at least so often (default 5)" },
    { .name = "max-processes", .type = SONDE_OPT_UINT, .value = "N", .min = 2,
      .max = SONDE_SUITE_PROCESSES_MAX, AT(processes_max), .help = "and at most (default 50)" },
    { .name = "samples", .type = SONDE_OPT_UINT, .value = "N", .min = 1, .max = 1000, AT(samples),
      .help = "of each benchmark in a process (default 3)" },
    { .name = "sample-ms", .type = SONDE_OPT_NUM, .value = "MS", .min = 0.01, .max = 1e5,
      AT(sample_ms), .help = "how long a sample takes at least (default 10)" },
    { .name = "duration", .letter = 'd', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001,
      .max = 1e7, AT(duration_s),
      .help = "start no process later, once there are --min-processes (default 60)" },
    { .name = "timeout", .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.001, .max = 1e7,
      AT(timeout_s), .help = "of a sample (default 60)" },
    { .name = "show-output", .type = SONDE_OPT_FLAG, AT(show_output),
      .help = "let the program write to the standard output" },
    { .name = "seed", .type = SONDE_OPT_UINT, .value = "N", .min = 0, .max = 9e15, AT(seed),
      .help = "of the order of samples (default: another each time)" },
    SONDE_OPT_BENCH_OUTPUT(struct bench_run_values, out),
    SONDE_OPT_STRIP,
    { .name = NULL },
};
#undef AT

static int bench_run_take(const struct sonde_cli *cli, struct sonde_suite_options *o)
{
    const struct bench_run_values *v = cli->values;
    o->until = 0.02;
    const int status = sonde_cli_bench_percent(cli, "until", v->until, &o->until);
    if (status) return status;
    o->processes_min = v->processes_min ? v->processes_min : BENCH_RUN_MIN;
    o->processes_max = v->processes_max ? v->processes_max : BENCH_RUN_MAX;
    /* What was given moves what was not. */
    if (o->processes_min > o->processes_max) {
        if (!v->processes_max) o->processes_max = o->processes_min;
        else if (!v->processes_min) o->processes_min = o->processes_max;
    }
    if (o->processes_min > o->processes_max) {
        return sonde_cli_usage(cli, "--min-processes is more than --max-processes");
    }
    o->filter = cli->operand_count > 1 ? cli->operands[1] : NULL;
    o->samples = v->samples ? v->samples : BENCH_RUN_SAMPLES;
    o->sample_s = (v->sample_ms > 0 ? v->sample_ms : BENCH_RUN_SAMPLE_MS) * 1e-3;
    o->duration_s = v->duration_s > 0 ? v->duration_s : BENCH_RUN_DURATION_S;
    o->timeout_s = v->timeout_s > 0 ? v->timeout_s : BENCH_RUN_TIMEOUT_S;
    o->show_output = v->show_output;
    o->seed = sonde_cli_bench_seed(v->seed);
    o->progress = sonde_progress_told;
    return SONDE_EXIT_OK;
}

static int bench_run_names(const struct sonde_cli *cli, const struct sonde_suite *s)
{
    const struct bench_run_values *v = cli->values;
    struct sonde_buf out;
    sonde_buf_init(&out, SONDE_BENCH_JSON_MAX);
    for (size_t i = 0; i < s->case_count; i++) sonde_buf_printf(&out, "%s\n", s->cases[i].of.name);
    if (!out.error) sonde_visible(out.data, out.len);
    const int status = out.error ? sonde_cli_fail(cli, "out of memory")
                                 : sonde_cli_write(cli, v->out.output, &out);
    sonde_buf_release(&out);
    return status;
}

struct bench_run_shown { const struct sonde_suite_options *o; const struct sonde_suite *s; };

static void bench_run_text(const struct sonde_bench_result *r, const struct sonde_bench_view *view,
                           struct sonde_buf *out, void *arg)
{
    const struct bench_run_shown *shown = arg;
    (void)r;
    if (view->markdown) sonde_suite_markdown(shown->s, out);
    else sonde_suite_text(shown->o, shown->s, view->width, view->ascii, out);
}

/* All that could not be measured is a failure; some of it is told in the result. */
static int bench_run_verdict(const struct sonde_cli *cli, const struct sonde_suite *s)
{
    for (size_t i = 0; i < s->case_count; i++) {
        if (s->cases[i].iterations) return s->interrupted ? SONDE_EXIT_FAIL : SONDE_EXIT_OK;
    }
    return sonde_cli_fail(cli, "no benchmark could be measured");
}

static int bench_run_measure(const struct sonde_cli *cli, struct sonde_suite_options *o,
                             struct sonde_suite *s, struct sonde_bench_result *result)
{
    const struct bench_run_values *v = cli->values;
    struct sonde_err err = { "" };
    struct sonde_progress progress;
    o->progress_arg = &progress;
    sonde_progress_begin(&progress, cli, v->list ? "asking" : "running", sonde_path_base(o->path));
    const int rc = v->list ? sonde_suite_list(o, s, &err) : sonde_suite_run(o, s, &err);
    sonde_progress_end(&progress);
    sonde_bench_result_end(result);
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err.text);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);
    if (v->list && s->interrupted) return sonde_cli_fail(cli, "interrupted");
    if (v->list) return bench_run_names(cli, s);
    if (!s->processes) return sonde_cli_fail(cli, "interrupted before a process was finished");
    if (sonde_suite_result(o, s, result)) return sonde_cli_fail(cli, "out of memory");
    struct bench_run_shown shown = { o, s };
    const int status = sonde_cli_bench_finish(cli, &v->out, result, bench_run_text, &shown);
    return status ? status : bench_run_verdict(cli, s);
}

static int bench_run_run(struct sonde_cli *cli)
{
    const struct bench_run_values *v = cli->values;
    struct sonde_suite_options o = { .path = NULL };
    struct sonde_suite s = { .cases = NULL };
    struct sonde_bench_result result;
    struct sonde_err err = { "" };
    char *path = NULL;
    if (!cli->operand_count) return sonde_cli_usage(cli, "say which program to run");
    int status = bench_run_take(cli, &o);
    if (!status) status = sonde_cli_bench_begin(cli, &v->out, sonde_path_base(cli->operands[0]));
    if (status) return status;
    if (sonde_spawn_find(cli->operands[0], &path, &err)) {
        return sonde_cli_usage(cli, "%s", err.text);
    }
    o.path = path;
    sonde_bench_result_init(&result, "run", sonde_path_base(path));
    if (sonde_bench_result_command(&result, cli->operands, (size_t)cli->operand_count)) {
        status = sonde_cli_fail(cli, "out of memory");
    }
    if (!status) status = bench_run_measure(cli, &o, &s, &result);
    sonde_suite_release(&s);
    sonde_bench_result_release(&result);
    sonde__free(path);
    return status;
}

const struct sonde_command sonde_bench_cmd_run = {
    .name = "bench run",
    .summary = "benchmarks of C and C++ functions, of a program with sonde/bench.h",
    .usage = "[options] PROGRAM [FILTER]",
    .details =
        "PROGRAM has benchmarks, written with SONDE_BENCH of sonde/bench.h. FILTER is part of the "
        "names of those to run, or a pattern with *, ? or [.\n"
        "\n"
        "Every benchmark repeats its loop until a sample takes --sample-ms. The program is started "
        "again and again, since where its memory lies is drawn at each start and shifts times by "
        "some per cent; in each process all benchmarks run --samples times in random order. What "
        "counts as one observation is a process. It ends when every time is known to --until, or "
        "--duration or --max-processes is used up. Shown are the time of one iteration with a 95 % "
        "interval, CPU time, bytes and items per second, and for benchmarks with three or more "
        "numbers of threads how they scale.\n"
        "\n"
        "A benchmark that fails is named and left out; a program that crashes is exit status 1, "
        "one that has no benchmarks 2.\n"
        "\n"
        "examples:\n"
        "  sonde bench run ./bench\n"
        "  sonde bench run ./bench 'copy/*' --until 1% --format json -o copy.json\n"
        "  sonde bench run --list ./bench",
    .options = options,
    .values_size = sizeof(struct bench_run_values),
    .operands_max = 2,
    .run = bench_run_run,
};
