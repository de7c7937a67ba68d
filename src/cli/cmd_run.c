/* cmd_run.c - `sonde run -- CMD…`: the command as if we were not there, and the agent beside it. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/agent_options.h"
#include "cli/heap.h"
#include "agent/recording.h"

struct run_values {
    double keep_s;
    int no_http, no_cpu, no_inference, no_continuous;
    struct sonde_cli_heap heap;
    struct sonde_cli_children children;
    const char *engine;
    const char *record;
    const char *continuous;
    struct sonde_cli_list scrape;
};

#define AT(field) .offset = offsetof(struct run_values, field)
static const struct sonde_cli_opt options[] = {
    SONDE_OPT_LISTEN,
    { .name = "no-http", .type = SONDE_OPT_FLAG, .help = "do not serve HTTP", AT(no_http) },
    { .name = "keep", .letter = 'k', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0,
      .max = 1e9, .help = "keep serving this long after CMD has ended", AT(keep_s) },
    { .name = "rate", .letter = 'F', .type = SONDE_OPT_SETTING, .value = "HZ",
      .setting = "cpu.sample_rate_hz", .help = "stack samples per second and thread (default 99)" },
    { .name = "engine", .type = SONDE_OPT_STR, .value = "ENGINE", .choices = SONDE_ENGINE_CHOICES,
      AT(engine), .help = "how to sample (default auto)" },
    { .name = "no-cpu", .type = SONDE_OPT_FLAG, .help = "do not sample the CPU", AT(no_cpu) },
    SONDE_OPT_HEAP(struct run_values, heap),
    SONDE_OPT_NO_HEAP(struct run_values, heap),
    SONDE_OPT_NO_INFERENCE(struct run_values, no_inference),
    SONDE_OPT_CHILDREN(struct run_values, children),
    { .name = "record", .type = SONDE_OPT_STR, .value = "FILE",
      .help = "write samples and spans to a run file, as `sonde record` does", AT(record) },
    SONDE_OPT_SCRAPE(struct run_values, scrape),
    SONDE_OPT_STORE,
    SONDE_OPT_CONTINUOUS(struct run_values, continuous),
    SONDE_OPT_NO_CONTINUOUS(struct run_values, no_continuous),
    SONDE_OPT_PUSH,
    SONDE_OPT_STRIP,
    SONDE_OPT_DIR,
    SONDE_OPT_INTERVAL,
    { .name = NULL },
};
#undef AT

static int cmd_run_run(struct sonde_cli *cli)
{
    const struct run_values *v = cli->values;
    if (cli->operand_count == 0) {
        return sonde_cli_usage(cli, "say what to run: sonde run [options] -- CMD [ARGUMENT]...");
    }
    const int sampled = cli->config.cpu_enabled && !v->no_cpu;
    struct sonde_watch_options o = {
        .argv = cli->operands,
        .keep_s = v->keep_s,
        .http = !v->no_http,
        .series = 1,
        .cpu = sampled ? SONDE_WATCH_IF_POSSIBLE : SONDE_WATCH_NO,
        .cpu_options = sonde_cli_cpu_options(cli),
        .children = !v->children.off,
        .llama = !v->no_inference,
        .gpu = cli->config.gpu_enabled,
        .record = v->record,
        .store = 1,
        .continuous = v->continuous,
        .recent = !v->no_continuous,
        .scrape = &v->scrape,
    };
    if (v->engine) o.cpu_options.engine = (enum sonde_cpu_engine_kind)sonde_engine_find(v->engine);
    const int status = sonde_cli_heap(cli, &v->heap, SONDE_WATCH_IF_POSSIBLE, &o);
    return status ? status : sonde_watch_run(cli, &o);
}

const struct sonde_command sonde_cmd_run = {
    .name = "run",
    .summary = "run a command and show what it does: on HTTP while it runs, in a few lines after",
    .usage = "[options] [--] CMD [ARGUMENT]...",
    .details =
        "CMD's standard input, output and error, its signals and exit status are its own, and so "
        "is its environment: sonde writes to stderr only if that is a terminal or -v is given. "
        "Signals sent to sonde are passed on; if CMD dies by a signal, so does sonde. If CMD "
        "cannot be found the exit status is 127, if it cannot be executed 126.\n"
        "\n"
        "Its CPU time is sampled all along, at a rate that costs next to nothing, and so is its "
        "heap (libsonde_preload in it looks at one allocation in 512 KiB); what is not possible "
        "is told and the rest goes on. `sonde flamegraph URL` draws what it does now, `sonde "
        "report --type live URL` says what its memory is used for. At the end leaks are told: "
        "what grew all the time and did not slow down. `sonde mark` says when warm-up is over.\n"
        "\n"
        "The processes that CMD starts are recorded with it (not with --no-children), "
        "however deep; figures are by process. A program that libsonde_preload cannot be loaded "
        "into (linked statically or with musl, built with AddressSanitizer by gcc) runs without "
        "it: of it and of what it starts, the CPU is sampled from outside, and heap and calls of "
        "llama.cpp are not seen.\n"
        "\n"
        "If CMD uses llama.cpp as a library (llama-server, llama-cli, or any other program), its "
        "requests are followed without a change to it: time to first token, tokens a second, "
        "batches, prompts that were reused, memory.\n"
        "\n"
        "Samples of the last hours are kept in memory, by the minute, so that the dashboard has a "
        "flame graph of any time, phase or request (not with --no-continuous). With --store and "
        "--continuous they are kept in the store, merged to hours and days; `sonde help serve` "
        "says more.\n"
        "\n"
        "If port 6060 is taken, the next free one is used. With --listen (or the setting "
        "server.listen) exactly that one is.\n"
        "\n"
        "examples:\n"
        "  sonde run -- ./server --port 8080\n"
        "  sonde run --heap=full --leak-check=scan -- ./tests\n"
        "  sonde run --listen 127.0.0.1:0 --log sonde.log --keep 60 -- make bench",
    .options = options,
    .values_size = sizeof(struct run_values),
    .operands_max = -1,
    .stop_at_operand = 1,
    .stderr_is_theirs = 1,
    .measures = 1,
    .run = cmd_run_run,
};
