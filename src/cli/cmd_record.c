/* cmd_record.c - `sonde record`: samples and spans of a command, or of a process that runs, to a
 * run file. */
#include <stdio.h>

#include "cli/heap.h"
#include "agent/recording.h"
#include "collect/discover.h"

#define RATE_DEFAULT_HZ 1000

struct record_values {
    double rate_hz, duration_s;
    int stop, off_cpu, kernel, no_cpu, no_inference;
    struct sonde_cli_heap heap;
    struct sonde_cli_children children;
    const char *engine, *output;
    uint64_t pid;
};

#define AT(field) .offset = offsetof(struct record_values, field)
static const struct sonde_cli_opt options[] = {
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE", AT(output),
      .help = "the run file (default: sonde-<program>-<time>.run), replaced when all is written" },
    { .name = "pid", .letter = 'p', .type = SONDE_OPT_UINT, .value = "PID", .min = 1,
      .max = 4194304, AT(pid), .help = "record this process, until it ends or Ctrl-C" },
    { .name = "duration", .letter = 'd', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.01,
      .max = 1e7, AT(duration_s), .help = "record this long; CMD goes on until it ends" },
    { .name = "stop", .type = SONDE_OPT_FLAG, AT(stop),
      .help = "with -d: end CMD then (SIGTERM, and SIGKILL if it has not ended 10 s later)" },
    { .name = "rate", .letter = 'F', .type = SONDE_OPT_NUM, .value = "HZ", .min = 1, .max = 10000,
      AT(rate_hz), .help = "samples per second of a thread's CPU time (default 1000)" },
    { .name = "off-cpu", .type = SONDE_OPT_FLAG, AT(off_cpu),
      .help = "also where threads wait, and how long" },
    SONDE_OPT_HEAP(struct record_values, heap),
    { .name = "no-cpu", .type = SONDE_OPT_FLAG, AT(no_cpu),
      .help = "do not sample the CPU: with --heap" },
    SONDE_OPT_NO_INFERENCE(struct record_values, no_inference),
    SONDE_OPT_CHILDREN(struct record_values, children),
    { .name = "kernel", .type = SONDE_OPT_FLAG, AT(kernel),
      .help = "also frames of the kernel, if permitted" },
    { .name = "engine", .type = SONDE_OPT_STR, .value = "ENGINE", .choices = SONDE_ENGINE_CHOICES,
      AT(engine), .help = "how to sample (default auto)" },
    SONDE_OPT_STRIP,
    SONDE_OPT_DIR,
    { .name = NULL },
};
#undef AT

static int cmd_record_run(struct sonde_cli *cli)
{
    const struct record_values *v = cli->values;
    if (!v->pid == !cli->operand_count) {
        return sonde_cli_usage(cli, "say what to record: a CMD, or a process with -p PID%s",
                               v->pid ? ", not both" : "");
    }
    if (v->no_cpu && !v->heap.mode) {
        return sonde_cli_usage(cli, "--no-cpu leaves nothing to record: add --heap");
    }
    if (v->stop && (v->pid || v->duration_s <= 0)) {
        return sonde_cli_usage(cli, "--stop ends CMD after -d SECONDS: it needs both");
    }
    char file[256] = "";
    struct sonde_proc_stat stat = { .comm = "" };
    if (v->pid && sonde_proc_stat((uint32_t)v->pid, &stat) != 0) {
        return sonde_cli_fail(cli, "there is no process %llu", (unsigned long long)v->pid);
    }
    if (!v->output) sonde_watch_file(file, sizeof(file), v->pid ? stat.comm : cli->operands[0]);
    struct sonde_watch_options o = {
        .argv = v->pid ? NULL : cli->operands,
        .pid = (uint32_t)v->pid,
        .duration_s = v->duration_s,
        .stop = v->stop,
        .progress = 1,
        .told = 1,
        .cpu = v->no_cpu ? SONDE_WATCH_NO : SONDE_WATCH_MUST,
        .cpu_options = sonde_cli_cpu_options(cli),
        .children = !v->children.off,
        .llama = !v->no_inference,
        .gpu = cli->config.gpu_enabled,
        .record = v->output ? v->output : file,
    };
    o.cpu_options.rate_hz = v->rate_hz > 0 ? v->rate_hz : RATE_DEFAULT_HZ;
    o.cpu_options.off_cpu = v->off_cpu;
    o.cpu_options.kernel = v->kernel;
    o.cpu_options.engine =
        v->engine ? (enum sonde_cpu_engine_kind)sonde_engine_find(v->engine) : SONDE_CPU_AUTO;
    const int status = sonde_cli_heap(cli, &v->heap, SONDE_WATCH_NO, &o);
    return status ? status : sonde_watch_run(cli, &o);
}

const struct sonde_command sonde_cmd_record = {
    .name = "record",
    .summary = "record where a command, or a process that runs, spends its time and memory",
    .usage = "[options] -p PID | [--] CMD [ARGUMENT]...",
    .details =
        "Stacks of all threads are sampled while they use the CPU, and joined with the spans that "
        "the program records with libsonde. The run file can be copied: names and lines are in it. "
        "`sonde report` and `sonde flamegraph` show it.\n"
        "\n"
        "With --heap also what it allocates: what is in use, at the peak and in the end, and "
        "where it was allocated, by type (--type live, peak, leaked, alloc, temporary of the "
        "commands that show it). Without a value one allocation in 512 KiB is looked at, which "
        "costs next to nothing; with =full every one. A process that runs (-p) must have been "
        "started under `sonde run`.\n"
        "\n"
        "The processes that it starts, or with -p has started, are recorded with it (not with "
        "--no-children); `sonde report` has a table of them.\n"
        "\n"
        "CMD's input, output, signals and exit status are its own; a summary follows on stderr "
        "(not with -q). If CMD cannot be found the exit status is 127, if it cannot be executed "
        "126.\n"
        "\n"
        "examples:\n"
        "  sonde record -o server.run -- ./server --port 8080\n"
        "  sonde record -d 30 --stop -o server.run -- ./server\n"
        "  sonde record --off-cpu -d 30 -p 4711\n"
        "  sonde record --heap=full --no-cpu -o tests.run -- ./tests",
    .options = options,
    .values_size = sizeof(struct record_values),
    .operands_max = -1,
    .stop_at_operand = 1,
    .measures = 1,
    .run = cmd_record_run,
};
