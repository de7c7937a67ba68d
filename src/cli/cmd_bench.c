/* cmd_bench.c - `sonde bench`: the table of its commands, each of which is a file bench_<name>.c
 * and a row in bench_list.h. */
#include "cli/cli.h"

#define SONDE_BENCH_COMMAND(id) extern const struct sonde_command sonde_bench_cmd_##id;
#include "cli/bench_list.h"
#undef SONDE_BENCH_COMMAND

static const struct sonde_command *const bench_commands[] = {
#define SONDE_BENCH_COMMAND(id) &sonde_bench_cmd_##id,
#include "cli/bench_list.h"
#undef SONDE_BENCH_COMMAND
    NULL,
};

const struct sonde_command sonde_cmd_bench = {
    .name = "bench",
    .summary = "load on a server, commands, compression, caches: measured, kept and compared",
    .usage = "COMMAND [options]",
    .parts = bench_commands,
};
