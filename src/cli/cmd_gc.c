/* cmd_gc.c - `sonde gc`: what a store keeps, enforced now, and its free space given back. */
#include <stddef.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/agent_options.h"
#include "present/text.h"
#include "present/units.h"
#include "sonde/sonde.h"

struct gc_values { int force; };

static const struct sonde_cli_opt options[] = {
    { .name = "store", .type = SONDE_OPT_SETTING, .value = "FILE", .setting = "storage.path",
      .help = "the store (default: the setting storage.path)" },
    { .name = "days", .type = SONDE_OPT_SETTING, .value = "DAYS",
      .setting = "storage.retention_days", .help = "delete what is older" },
    { .name = "raw-hours", .type = SONDE_OPT_SETTING, .value = "HOURS",
      .setting = "storage.raw_hours", .help = "keep only roll-ups of what is older" },
    { .name = "profiles", .type = SONDE_OPT_SETTING, .value = "COUNT",
      .setting = "storage.max_profiles", .help = "delete the oldest profiles over this many" },
    { .name = "megabytes", .type = SONDE_OPT_SETTING, .value = "MB",
      .setting = "storage.max_megabytes", .help = "delete the oldest until it is smaller" },
    { .name = "force", .type = SONDE_OPT_FLAG, .offset = offsetof(struct gc_values, force),
      .help = "delete for its age also when the clock is far beyond what was recorded before" },
    { .name = NULL },
};

static int cmd_gc_run(struct sonde_cli *cli)
{
    if (!cli->config.storage_path[0]) return sonde_cli_usage(cli, "say which store: --store FILE");
    const struct sonde_store_options look = { .path = cli->config.storage_path, .read_only = 1 };
    const struct sonde_store_options o = { .path = cli->config.storage_path, .maintain = 1 };
    struct sonde_store_retention keep = sonde_cli_retention(cli);
    keep.force = ((const struct gc_values *)cli->values)->force;
    struct sonde_store *s = NULL;
    struct sonde_err err = { "" };
    uint64_t freed = 0;
    /* Looking first: a store that is not there shall not be made. */
    int rc = sonde_store_sqlite.open(&look, &s, &err);
    if (!rc) {
        sonde_store_sqlite.close(s);
        rc = sonde_store_sqlite.open(&o, &s, &err);
    }
    if (!rc) {
        struct sonde_progress progress;
        sonde_progress_begin(&progress, cli, "deleting from", o.path);
        rc = sonde_store_sqlite.gc(s, &keep, &freed, &err);
        sonde_store_sqlite.close(s);
        sonde_progress_end(&progress);
    }
    if (rc == SONDE_ENOENT || rc == SONDE_EINVAL || rc == SONDE_EVERSION ||
        rc == SONDE_EFORMAT) {
        return sonde_cli_usage(cli, "%s", err.text);
    }
    if (rc) return sonde_cli_fail(cli, "%s", err.text);
    char text[SONDE_VALUE_BYTES];
    if (!cli->quiet) {
        printf("%s freed\n", sonde_value_format(text, (double)freed, SONDE_UNIT_BYTES,
                                                sonde_text_locale_ascii()));
    }
    return SONDE_EXIT_OK;
}

const struct sonde_command sonde_cmd_gc = {
    .name = "gc",
    .summary = "delete what a store need not keep, and give its space back",
    .usage = "[options]",
    .details =
        "A sonde that records into a store applies the same limits all the time, a little at a "
        "time; the space goes to what is recorded next. This command does it at once and makes "
        "the file shorter. It may be used while a sonde records.\n"
        "\n"
        "A clock that is days beyond what was recorded before is taken to be wrong for a day: "
        "meanwhile nothing is deleted for its age without --force.",
    .options = options,
    .values_size = sizeof(struct gc_values),
    .operands_max = 0,
    .run = cmd_gc_run,
};
