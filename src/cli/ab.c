/* ab.c - see ab.h: what a test of two commands and one of two servers have in common. */
#include "cli/ab.h"

#include <string.h>

#include "base/array.h"
#include "cli/bench_options.h"
#include "sonde/sonde.h"

#define AB_DETECT 0.03

int sonde_cli_ab_plan(const struct sonde_cli *cli, struct sonde_pairs_options *o)
{
    const struct ab_values *v = cli->values;
    o->warmup = v->warmup;
    o->pairs_max = v->max_runs ? v->max_runs : SONDE_CLI_AB_RUNS_MAX;
    o->time_max_s = v->max_time_s;
    o->seed = sonde_cli_bench_seed(v->seed);
    o->lead = 0;
    o->detect = AB_DETECT;
    while (v->on && o->lead < o->figure_count && strcmp(o->figures[o->lead].name, v->on) != 0) {
        o->lead++;
    }
    if (o->lead == o->figure_count) {
        struct sonde_buf names;
        sonde_buf_init(&names, 4096);
        for (size_t i = 0; i < o->figure_count; i++) {
            sonde_buf_printf(&names, "%s%s", i ? ", " : "", o->figures[i].name);
        }
        sonde_buf_putc(&names, '\0');
        const char *all = names.error ? "others" : names.data;
        const int status = sonde_cli_usage(cli, "--on: there is no figure '%s'; there are %s",
                                           v->on, all);
        sonde_buf_release(&names);
        return status;
    }
    return sonde_cli_bench_percent(cli, "detect", v->detect, &o->detect);
}

int sonde_cli_ab_begin(const struct sonde_cli *cli, uint64_t seed, struct sonde_bench_result *r)
{
    const struct ab_values *v = cli->values;
    const char *const words[] = { "sonde", "ab", "--a", v->a, "--b", v->b };
    sonde_bench_result_init(r, "ab", "");
    r->seed = seed;
    return sonde_bench_result_command(r, (char *const *)(uintptr_t)words, SONDE_COUNT(words))
               ? sonde_cli_fail(cli, "out of memory") : SONDE_EXIT_OK;
}

int sonde_cli_ab_end(const struct sonde_cli *cli, int rc, const struct sonde_err *err,
                     const struct sonde_pairs *p, struct sonde_bench_result *r)
{
    sonde_bench_result_end(r);
    if (rc == SONDE_EINVAL) return sonde_cli_usage(cli, "%s", err->text);
    if (rc) return sonde_cli_fail(cli, "%s", err->text);
    if (!p->pairs) return sonde_cli_fail(cli, "interrupted in the first pair");
    if (p->end == SONDE_PAIRS_INTERRUPTED) sonde_bench_result_doubt(r, "it was interrupted");
    return sonde_pairs_result(p, r) ? sonde_cli_fail(cli, "out of memory") : SONDE_EXIT_OK;
}
