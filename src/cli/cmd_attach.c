/* cmd_attach.c - `sonde attach PID`: what can be seen of a process from outside. */
#include <stdio.h>

#include "cli/agent_options.h"
#include "cli/heap.h"

struct attach_values {
    double duration_s;
    int no_http, no_cpu, no_inference, no_continuous;
    struct sonde_cli_heap heap;
    struct sonde_cli_children children;
    const char *record;
};

#define AT(field) .offset = offsetof(struct attach_values, field)
static const struct sonde_cli_opt options[] = {
    SONDE_OPT_LISTEN,
    { .name = "no-http", .type = SONDE_OPT_FLAG, .help = "do not serve HTTP", AT(no_http) },
    { .name = "duration", .letter = 'd', .type = SONDE_OPT_NUM, .value = "SECONDS", .min = 0.01,
      .max = 1e7, AT(duration_s), .help = "stay this long (default: until the process ends)" },
    { .name = "rate", .letter = 'F', .type = SONDE_OPT_SETTING, .value = "HZ",
      .setting = "cpu.sample_rate_hz", .help = "stack samples per second and thread (default 99)" },
    { .name = "no-cpu", .type = SONDE_OPT_FLAG, .help = "do not sample the CPU", AT(no_cpu) },
    SONDE_OPT_NO_HEAP(struct attach_values, heap),
    SONDE_OPT_NO_INFERENCE(struct attach_values, no_inference),
    SONDE_OPT_CHILDREN(struct attach_values, children),
    { .name = "record", .type = SONDE_OPT_STR, .value = "FILE",
      .help = "write samples and spans to a run file, as `sonde record -p` does", AT(record) },
    SONDE_OPT_NO_CONTINUOUS(struct attach_values, no_continuous),
    SONDE_OPT_STRIP,
    SONDE_OPT_DIR,
    SONDE_OPT_INTERVAL,
    { .name = NULL },
};
#undef AT

static int cmd_attach_run(struct sonde_cli *cli)
{
    const struct attach_values *v = cli->values;
    uint32_t pid;
    if (cli->operand_count == 0) return sonde_cli_usage(cli, "say to which: sonde attach PID");
    if (sonde_cli_parse_pid(cli->operands[0], &pid) != 0) {
        return sonde_cli_usage(cli, "'%s' is not a process id", cli->operands[0]);
    }
    const int sampled = cli->config.cpu_enabled && !v->no_cpu;
    struct sonde_watch_options o = {
        .pid = pid,
        .duration_s = v->duration_s,
        .http = !v->no_http,
        .series = 1,
        .progress = 1,
        .told = 1,
        .cpu = sampled ? SONDE_WATCH_IF_POSSIBLE : SONDE_WATCH_NO,
        .cpu_options = sonde_cli_cpu_options(cli),
        .children = !v->children.off,
        .llama = !v->no_inference,
        .gpu = cli->config.gpu_enabled,
        .record = v->record,
        .recent = !v->no_continuous,
    };
    const int status = sonde_cli_heap(cli, &v->heap, SONDE_WATCH_IF_POSSIBLE, &o);
    return status ? status : sonde_watch_run(cli, &o);
}

const struct sonde_command sonde_cmd_attach = {
    .name = "attach",
    .summary = "show what a process that runs does: on HTTP, until it ends or Ctrl-C",
    .usage = "[options] PID",
    .details =
        "Nothing is put into the process: its CPU is sampled from outside, its figures are read "
        "from /proc, and what it records with libsonde from its segment. When it ends, or on "
        "Ctrl-C, a summary follows on stderr (not with -q).\n"
        "\n"
        "The processes that it has started are sampled with it (not with --no-children).\n"
        "\n"
        "Its heap is profiled if it was started under `sonde run`; otherwise its resident memory "
        "is watched: whether it grows, and in which mappings.\n"
        "\n"
        "If llama.cpp is in it, as a library or built in, its requests are followed by probes "
        "in its functions (uprobes), which takes root or CAP_PERFMON. Other processes that run the "
        "same file stop at them too, for a microsecond a call.\n"
        "\n"
        "examples:\n"
        "  sonde attach 4711\n"
        "  sonde attach -d 60 --no-http --record server.run 4711",
    .options = options,
    .values_size = sizeof(struct attach_values),
    .operands_max = 1,
    .measures = 1,
    .run = cmd_attach_run,
};
