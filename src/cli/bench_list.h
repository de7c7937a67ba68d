/* One row a command of `sonde bench`, in the order that its help shows them: bench_<name>.c defines
 * a `const struct sonde_command sonde_bench_cmd_<name>`. */
SONDE_BENCH_COMMAND(http)
SONDE_BENCH_COMMAND(cmd)
SONDE_BENCH_COMMAND(run)
SONDE_BENCH_COMMAND(compress)
SONDE_BENCH_COMMAND(cache)
SONDE_BENCH_COMMAND(tokenizer)
SONDE_BENCH_COMMAND(list)
SONDE_BENCH_COMMAND(show)
SONDE_BENCH_COMMAND(compare)
SONDE_BENCH_COMMAND(plot)
