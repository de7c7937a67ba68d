/* cmd_regressions.c - `sonde regressions`: what changed, in a store's whole history or as a running
 * agent has found it. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/regressions.h"
#include "base/visible.h"
#include "cli/agent_options.h"
#include "cli/cli.h"
#include "sonde/sonde.h"
#include "store/store.h"

enum { ANSWER_MAX = 16 << 20 };

struct regressions_values {
    const char *format;
    int all;
};

static const struct sonde_cli_opt options[] = {
    { .name = "format", .type = SONDE_OPT_STR, .value = "FORMAT", .help = "text (default) or json",
      .offset = offsetof(struct regressions_values, format) },
    { .name = "all", .type = SONDE_OPT_FLAG,
      .help = "also what got better, shifts of cost, and changes of load",
      .offset = offsetof(struct regressions_values, all) },
    { .name = NULL },
};

/* ---- Where from ------------------------------------------------------------------------------ */

static int cmd_regressions_ask(const struct sonde_cli *cli, const char *target,
                               struct sonde_buf *out)
{
    char url[4096];
    struct sonde_err err = { "" };
    if (sonde_cli_url(url, sizeof(url), target, "/api/regressions?limit=500") != 0) {
        return sonde_cli_usage(cli, "too long a URL");
    }
    if (sonde_cli_fetch(url, ANSWER_MAX, SONDE_CLI_FETCH_S, out, &err) == 0) return SONDE_EXIT_OK;
    return sonde_cli_fail(cli, "%s", err.text);
}

static int cmd_regressions_scan(const struct sonde_cli *cli, const char *path,
                                struct sonde_buf *out)
{
    const struct sonde_config_values *c = &cli->config;
    const struct sonde_store_options o = { .path = path, .read_only = 1 };
    struct sonde_store *s = NULL;
    struct sonde_regressions *r = NULL;
    struct sonde_err err = { "" };
    if (access(path, R_OK) != 0) return sonde_cli_usage(cli, "there is no file '%s'", path);
    if (!sonde_store_is_file(path)) {
        return sonde_cli_usage(cli, "'%s' is not a store: `sonde serve --store FILE` writes one",
                               path);
    }
    int rc = sonde_store_sqlite.open(&o, &s, &err);
    if (rc) return sonde_cli_fail(cli, "%s", err.text);
    const struct sonde_regressions_options look = {
        .ops = &sonde_store_sqlite, .store = s, .read_only = 1,
        .series = c->regression_series[0] ? c->regression_series : NULL,
        .series_max = (uint32_t)c->regression_max_series,
        .change = sonde_cli_change_options(cli),
    };
    rc = sonde_regressions_create(&look, &r, &err);
    if (!rc) {
        sonde_regressions_use_history(r, &sonde_store_sqlite, s);
        rc = sonde_regressions_scan(r, 0, 0, &err);
        if (!rc) sonde_regressions_json(r, 0, 0, out);
    }
    sonde_regressions_destroy(r);
    sonde_store_sqlite.close(s);
    if (!rc && out->error) return sonde_cli_fail(cli, "out of memory");
    return rc ? sonde_cli_fail(cli, "%s", err.text) : SONDE_EXIT_OK;
}

/* ---- As text --------------------------------------------------------------------------------- */

static const char *cmd_regressions_str(const json_t *o, const char *key)
{
    const char *s = json_string_value(json_object_get(o, key));
    return s ? s : "";
}

static void cmd_regressions_print(const json_t *g)
{
    size_t i;
    const json_t *fact;
    sonde_visible_printf(STDOUT_FILENO, "%s  %s\n", cmd_regressions_str(g, "verdict"),
                         cmd_regressions_str(g, "text"));
    const char *caller = cmd_regressions_str(g, "caller");
    if (*caller) sonde_visible_printf(STDOUT_FILENO, "    called by %s\n", caller);
    json_array_foreach(json_object_get(g, "what_changed"), i, fact) {
        char when[40] = "";
        const time_t at = (time_t)json_number_value(json_object_get(fact, "time"));
        struct tm tm;
        if (gmtime_r(&at, &tm)) strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &tm);
        sonde_visible_printf(STDOUT_FILENO, "    near that time: %s %s (%s)\n",
                             cmd_regressions_str(fact, "kind"),
                             cmd_regressions_str(fact, "text"), when);
    }
}

static int cmd_regressions_text(const struct sonde_cli *cli, const struct sonde_buf *b)
{
    const struct regressions_values *v = cli->values;
    json_t *all = json_loadb(b->data ? b->data : "", b->len, 0, NULL);
    const json_t *list = json_object_get(all, "regressions"), *g;
    size_t i, shown = 0;
    if (!json_is_array(list)) {
        json_decref(all);
        return sonde_cli_fail(cli, "what was answered is not a list of regressions");
    }
    json_array_foreach(list, i, g) {
        const int worse = !strcmp(cmd_regressions_str(g, "verdict"), "worse");
        if (!v->all && !worse) continue;
        cmd_regressions_print(g);
        shown++;
    }
    const long long watched = json_integer_value(json_object_get(all, "series_watched"));
    const long long learning = json_integer_value(json_object_get(all, "series_learning"));
    if (!cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde regressions: %zu shown of %zu; %lld series are "
                             "watched, %lld of them have less than a day yet\n", shown,
                             json_array_size(list), watched, learning);
    }
    json_decref(all);
    return SONDE_EXIT_OK;
}

static int cmd_regressions_run(struct sonde_cli *cli)
{
    const struct regressions_values *v = cli->values;
    const int json = v->format && !strcmp(v->format, "json");
    struct sonde_buf b;
    if (v->format && !json && strcmp(v->format, "text") != 0) {
        return sonde_cli_usage(cli, "--format: '%s' is none of text, json", v->format);
    }
    if (cli->operand_count != 1) return sonde_cli_usage(cli, "name a store's FILE, or a URL");
    const char *target = cli->operands[0];
    sonde_buf_init(&b, ANSWER_MAX);
    int status = sonde_cli_is_url(target) ? cmd_regressions_ask(cli, target, &b)
                                          : cmd_regressions_scan(cli, target, &b);
    if (status == SONDE_EXIT_OK && json) fwrite(b.data ? b.data : "", 1, b.len, stdout);
    else if (status == SONDE_EXIT_OK) status = cmd_regressions_text(cli, &b);
    sonde_buf_release(&b);
    return status;
}

const struct sonde_command sonde_cmd_regressions = {
    .name = "regressions",
    .summary = "list changes of series and of functions' costs, with what else changed then",
    .usage = "[options] FILE | URL",
    .details =
        "FILE is a store, which is looked at from its beginning to its end; URL a running agent, "
        "which is asked for what it has found. Latencies, time to first token, tokens and requests "
        "per second, failures, CPU time per token and request, and memory are looked at, and what "
        "regression.series names. A series needs a day of data before anything is said about "
        "it.\n",
    .options = options,
    .values_size = sizeof(struct regressions_values),
    .operands_max = 1,
    .run = cmd_regressions_run,
};
