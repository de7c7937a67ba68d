/* cmd_import.c - `sonde import`: a profile of another tool as a run file. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/profile.h"
#include "sonde/sonde.h"
#include "store/run.h"

struct import_values {
    const char *output;
};

static const struct sonde_cli_opt options[] = {
    { .name = "output", .letter = 'o', .type = SONDE_OPT_STR, .value = "FILE",
      .offset = offsetof(struct import_values, output),
      .help = "the run file to write, which is replaced when all is written" },
    { .name = NULL },
};

static int run(struct sonde_cli *cli)
{
    const struct import_values *v = cli->values;
    if (!cli->operand_count) return sonde_cli_usage(cli, "say what: sonde import IN -o FILE");
    if (!v->output) return sonde_cli_usage(cli, "say where to: -o FILE.run");
    struct sonde_profile *p;
    int status = sonde_cli_profile(cli, cli->operands[0], 0, NULL, &p);
    if (status) return status;
    struct sonde_err err = { "" };
    const int rc = sonde_run_save(v->output, p, &err);
    if (rc == SONDE_EINVAL) status = sonde_cli_usage(cli, "--output: %s", err.text);
    else if (rc) status = sonde_cli_fail(cli, "%s", err.text);
    else if (!cli->quiet) {
        fprintf(stderr, "sonde: %s: %u samples of %u stacks\n", v->output, p->samples_count,
                p->stacks_count - 1);
    }
    sonde_profile_destroy(p);
    return status;
}

const struct sonde_command sonde_cmd_import = {
    .name = "import",
    .summary = "make a run file of a profile of another tool",
    .usage = "IN -o FILE",
    .details =
        "IN is pprof, folded stacks or the output of `perf script`, told apart by its first bytes; "
        "- is the standard input. Commands that read profiles take such files as they are; a run "
        "file is smaller and read faster.\n"
        "\n"
        "examples:\n"
        "  perf script -i perf.data | sonde import - -o server.run",
    .options = options,
    .values_size = sizeof(struct import_values),
    .operands_max = 1,
    .run = run,
};
