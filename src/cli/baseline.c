/* baseline.c - see baseline.h. */
#include "cli/baseline.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/array.h"
#include "sonde/sonde.h"

/* ---- Where ----------------------------------------------------------------------------------- */

int sonde_cli_baseline_dir(const struct sonde_cli *cli, char out[SONDE_CLI_BASELINE_PATH])
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    const char *chosen = cli->config.baseline_dir;
    int n = -1;
    if (*chosen) n = snprintf(out, SONDE_CLI_BASELINE_PATH, "%s", chosen);
    else if (state && *state == '/') {
        n = snprintf(out, SONDE_CLI_BASELINE_PATH, "%s/sonde/baselines", state);
    } else if (home && *home == '/') {
        n = snprintf(out, SONDE_CLI_BASELINE_PATH, "%s/.local/state/sonde/baselines", home);
    }
    if (n < 0) {
        return sonde_cli_usage(cli, "there is neither XDG_STATE_HOME nor HOME: say where baselines "
                               "are with --dir");
    }
    return n < SONDE_CLI_BASELINE_PATH - 200 ? SONDE_EXIT_OK
                                             : sonde_cli_usage(cli, "--dir is too long");
}

int sonde_cli_baseline_path(const struct sonde_cli *cli, const char *name,
                            char out[SONDE_CLI_BASELINE_PATH])
{
    struct sonde_err err = { "" };
    if (strchr(name, '/')) {
        const int n = snprintf(out, SONDE_CLI_BASELINE_PATH, "%s", name);
        if (n >= SONDE_CLI_BASELINE_PATH) return sonde_cli_usage(cli, "too long a path");
        return SONDE_EXIT_OK;
    }
    if (sonde_baseline_name_check(name, &err)) return sonde_cli_usage(cli, "%s", err.text);
    const int status = sonde_cli_baseline_dir(cli, out);
    if (status) return status;
    const size_t len = strlen(out);
    snprintf(out + len, SONDE_CLI_BASELINE_PATH - len, "/%s%s", name, SONDE_BASELINE_SUFFIX);
    return SONDE_EXIT_OK;
}

int sonde_cli_baseline_load(const struct sonde_cli *cli, const char *name,
                            struct sonde_baseline **out)
{
    char path[SONDE_CLI_BASELINE_PATH];
    struct sonde_err err = { "" };
    const int status = sonde_cli_baseline_path(cli, name, path);
    if (status) return status;
    const int rc = sonde_baseline_load(path, out, &err);
    if (!rc) return SONDE_EXIT_OK;
    if (rc == SONDE_ENOENT) {
        return sonde_cli_usage(cli, "there is no baseline '%s' (%s): `sonde baseline list` shows "
                               "those there are, `sonde baseline save %s RUN…` makes one", name,
                               path, name);
    }
    if (rc == SONDE_EFORMAT || rc == SONDE_EVERSION) return sonde_cli_usage(cli, "%s", err.text);
    return sonde_cli_fail(cli, "%s", err.text);
}

char **sonde_cli_command_of(const struct sonde_cli *cli, int *operands)
{
    const int plain = cli->operands_plain;
    *operands = plain >= 0 ? plain : cli->operand_count;
    return plain >= 0 && plain < cli->operand_count ? cli->operands + plain : NULL;
}

/* ---- Sets of runs ---------------------------------------------------------------------------- */

void sonde_cli_runs_release(struct sonde_cli_runs *r)
{
    for (size_t i = 0; i < r->count; i++) sonde_profile_destroy(r->profiles[i]);
    sonde__free(r->profiles);
    sonde__free(r->runs);
    sonde__free(r->facts);
    *r = (struct sonde_cli_runs){ 0 };
}

int sonde_cli_runs_take(const struct sonde_cli *cli, struct sonde_cli_runs *r,
                        struct sonde_profile *p, const struct sonde_cli_filter *filter)
{
    struct sonde_profile_filter part;
    int status = sonde_cli_filter(cli, filter, p, &part);
    if (!status && (SONDE_ARRAY_ROOM(r->profiles, r->count, r->cap) ||
                    SONDE_ARRAY_ROOM(r->runs, r->count, r->runs_cap) ||
                    SONDE_ARRAY_ROOM(r->facts, r->count, r->facts_cap))) {
        status = sonde_cli_fail(cli, "out of memory");
    }
    if (status) {
        sonde_profile_destroy(p);
        return status;
    }
    /* In the order they were recorded: neighbours are alike. */
    size_t at = r->count;
    while (at && r->profiles[at - 1]->start_ns > p->start_ns) {
        r->profiles[at] = r->profiles[at - 1];
        r->runs[at] = r->runs[at - 1];
        r->facts[at] = r->facts[at - 1];
        at--;
    }
    r->profiles[at] = p;
    r->runs[at] = (struct sonde_compare_run){ p, part };
    sonde_run_facts_of(p, &r->facts[at]);
    r->count++;
    return SONDE_EXIT_OK;
}

int sonde_cli_runs_load(struct sonde_cli *cli, struct sonde_cli_runs *r, const char *target,
                        double duration_s, const struct sonde_cli_filter *filter)
{
    struct sonde_profile *p;
    const int status = sonde_cli_profile(cli, target, duration_s, filter, &p);
    return status ? status : sonde_cli_runs_take(cli, r, p, filter);
}

int sonde_cli_runs_baseline(const struct sonde_cli *cli, struct sonde_cli_runs *r,
                            const struct sonde_baseline *b, const char *span)
{
    const struct sonde_cli_filter all = { .span = span ? span : *b->span ? b->span : NULL };
    for (size_t i = 0; i < b->count; i++) {
        struct sonde_profile *p;
        struct sonde_err err = { "" };
        const int rc = sonde_baseline_profile(b, i, &p, &err);
        if (rc) return sonde_cli_usage(cli, "%s", err.text);
        const int status = sonde_cli_runs_take(cli, r, p, &all);
        if (status) return status;
        size_t at = 0;
        while (r->profiles[at] != p) at++;
        r->runs[at].filter.from_ns = (uint64_t)(b->runs[i].from_s * 1e9);
        r->runs[at].filter.to_ns = (uint64_t)(b->runs[i].to_s * 1e9);
    }
    return SONDE_EXIT_OK;
}
