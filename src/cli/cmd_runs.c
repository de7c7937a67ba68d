/* cmd_runs.c - `sonde runs`: what is in a store, and its runs one by one. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/path.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "cli/agent_options.h"
#include "present/table.h"
#include "present/units.h"
#include "serve/api/store.h"
#include "sonde/sonde.h"
#include "store/run/run.h"

enum { OUTPUT_MAX = 64 << 20, TOLD = 1 };
#define PROFILE_MAX ((size_t)1 << 30)

struct runs_values {
    int json;
};

static const struct sonde_cli_opt options[] = {
    { .name = "store", .type = SONDE_OPT_SETTING, .value = "FILE", .setting = "storage.path",
      .help = "the store (default: the setting storage.path)" },
    { .name = "json", .type = SONDE_OPT_FLAG, .help = "list as JSON",
      .offset = offsetof(struct runs_values, json) },
    { .name = NULL },
};

static int cmd_runs_failed(const struct sonde_cli *cli, int rc, const struct sonde_err *err)
{
    const int theirs = rc == SONDE_EINVAL || rc == SONDE_ENOENT || rc == SONDE_EEXIST ||
                       rc == SONDE_EVERSION || rc == SONDE_EFORMAT;
    return theirs ? sonde_cli_usage(cli, "%s", err->text) : sonde_cli_fail(cli, "%s", err->text);
}

/* ---- Listing ------------------------------------------------------------------------------ */

static void cmd_runs_when(double s, char *out, size_t size)
{
    const time_t t = (time_t)s;
    struct tm tm;
    out[0] = '\0';
    if (localtime_r(&t, &tm)) strftime(out, size, "%Y-%m-%d %H:%M:%S", &tm);
}

static void cmd_runs_put(const struct sonde_store_run *r, void *arg)
{
    struct sonde_table *t = arg;
    char text[SONDE_VALUE_BYTES], start[32];
    cmd_runs_when(r->start_s, start, sizeof(start));
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%u", r->id);
    sonde_table_cell(t, 1, "%s", r->name);
    sonde_table_cell(t, 2, "%s", start);
    sonde_table_cell(t, 3, "%s", sonde_value_format(text, r->end_s - r->start_s,
                                                    SONDE_UNIT_SECONDS, sonde_text_locale_ascii()));
    sonde_table_cell(t, 4, "%llu", (unsigned long long)r->ticks);
    sonde_table_cell(t, 5, "%llu", (unsigned long long)r->profiles);
    sonde_table_cell(t, 6, "%s", r->live ? "recording" : "ended");
    sonde_table_cell(t, 7, "%s", r->tags);
}

static int cmd_runs_list(struct sonde_cli *cli, struct sonde_store *s, struct sonde_err *err)
{
    static const struct sonde_column columns[] = {
        { .title = "RUN", .align = SONDE_RIGHT },
        { .title = "NAME", .min = 4 },
        { .title = "START" },
        { .title = "LENGTH", .align = SONDE_RIGHT },
        { .title = "READINGS", .align = SONDE_RIGHT, .drop = 2 },
        { .title = "PROFILES", .align = SONDE_RIGHT, .drop = 1 },
        { .title = "STATE" },
        { .title = "TAGS", .drop = 3 },
    };
    const struct runs_values *v = cli->values;
    struct sonde_buf b;
    sonde_buf_init(&b, OUTPUT_MAX);
    int rc;
    if (v->json) {
        rc = sonde_api_runs(&sonde_store_sqlite, s, &b, err);
    } else {
        struct sonde_table t;
        sonde_table_init(&t, columns, SONDE_COUNT(columns));
        rc = sonde_store_sqlite.runs(s, cmd_runs_put, &t, err);
        if (!rc && t.row_count) {
            sonde_table_render(&t, sonde_cli_width(), sonde_text_locale_ascii(), &b);
        }
        if (t.error) b.error = t.error;
        sonde_table_release(&t);
    }
    if (!rc && b.error) rc = sonde_err_set(err, SONDE_ENOMEM, "out of memory");
    if (!rc && b.len) fwrite(b.data, 1, b.len, stdout);
    if (!rc && !b.len && !cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde runs: the store has no run\n");
    }
    sonde_buf_release(&b);
    return rc;
}

static void cmd_runs_put_profile(const struct sonde_store_profile *p, void *arg)
{
    struct sonde_table *t = arg;
    char text[SONDE_VALUE_BYTES], end[32];
    cmd_runs_when(p->end_s, end, sizeof(end));
    sonde_table_row(t);
    sonde_table_cell(t, 0, "%llu", (unsigned long long)p->id);
    sonde_table_cell(t, 1, "%u", p->run);
    sonde_table_cell(t, 2, "%s", p->name);
    sonde_table_cell(t, 3, "%s", p->kind);
    sonde_table_cell(t, 4, "%s", p->program);
    sonde_table_cell(t, 5, "%s", end);
    sonde_table_cell(t, 6, "%llu", (unsigned long long)p->samples);
    sonde_table_cell(t, 7, "%s", sonde_value_format(text, (double)p->bytes, SONDE_UNIT_BYTES,
                                                    sonde_text_locale_ascii()));
}

static int list_profiles(struct sonde_cli *cli, struct sonde_store *s, struct sonde_err *err)
{
    static const struct sonde_column columns[] = {
        { .title = "PROFILE", .align = SONDE_RIGHT }, { .title = "RUN", .align = SONDE_RIGHT },
        { .title = "NAME", .min = 4 },                { .title = "KIND" },
        { .title = "PROGRAM", .drop = 1 },            { .title = "END" },
        { .title = "SAMPLES", .align = SONDE_RIGHT }, { .title = "SIZE", .align = SONDE_RIGHT },
    };
    struct sonde_buf b;
    struct sonde_table t;
    sonde_buf_init(&b, OUTPUT_MAX);
    sonde_table_init(&t, columns, SONDE_COUNT(columns));
    int rc = sonde_store_sqlite.profiles(s, NULL, cmd_runs_put_profile, &t, err);
    if (!rc && t.row_count) {
        sonde_table_render(&t, sonde_cli_width(), sonde_text_locale_ascii(), &b);
        fwrite(b.data ? b.data : "", 1, b.len, stdout);
    } else if (!rc && !cli->quiet) {
        sonde_visible_printf(STDERR_FILENO, "sonde runs: the store has no profile\n");
    }
    sonde_table_release(&t);
    sonde_buf_release(&b);
    return rc;
}

/* ---- Changing ------------------------------------------------------------------------------ */

static int run_number(const char *text, uint32_t *out, struct sonde_err *err)
{
    char *end;
    errno = 0;
    const unsigned long v = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || v > UINT32_MAX) {
        return sonde_err_set(err, SONDE_EINVAL, "'%.100s' is not the number of a run", text);
    }
    *out = (uint32_t)v;
    return 0;
}

static int cmd_runs_delete(struct sonde_store *s, char **ids, struct sonde_err *err)
{
    int rc = 0;
    for (; *ids && !rc; ids++) {
        uint32_t id;
        rc = run_number(*ids, &id, err);
        if (!rc) rc = sonde_store_sqlite.run_delete(s, id, err);
    }
    return rc;
}

static int cmd_runs_merge(struct sonde_store *s, char **ids, struct sonde_err *err)
{
    uint32_t to, from;
    int rc = run_number(ids[0], &to, err);
    for (ids++; *ids && !rc; ids++) {
        rc = run_number(*ids, &from, err);
        if (!rc) rc = sonde_store_sqlite.run_merge(s, to, from, err);
    }
    return rc;
}

static int cmd_runs_set(struct sonde_store *s, char **args, int is_name, struct sonde_err *err)
{
    uint32_t id;
    const int rc = run_number(args[0], &id, err);
    return rc ? rc : sonde_store_sqlite.run_set(s, id, is_name ? args[1] : NULL,
                                                is_name ? NULL : args[1], err);
}

static int cmd_runs_copy(struct sonde_store *s, char **args, struct sonde_err *err)
{
    uint32_t id;
    const int rc = run_number(args[0], &id, err);
    return rc ? rc : sonde_store_sqlite.run_copy(s, id, args[1], err);
}

/* ---- Profiles ------------------------------------------------------------------------------ */

/* A profile of the store as a run file. */
static int cmd_runs_take_out(struct sonde_cli *cli, struct sonde_store *s, char **args,
                             struct sonde_err *err)
{
    uint32_t id;
    struct sonde_buf b;
    sonde_buf_init(&b, PROFILE_MAX);
    int rc = run_number(args[0], &id, err);
    if (!rc) rc = sonde_store_sqlite.profile_get(s, id, &b, err);
    if (!rc && sonde_cli_write(cli, args[1], &b) != SONDE_EXIT_OK) rc = TOLD;
    sonde_buf_release(&b);
    return rc;
}

/* The reverse: a run file, or whatever else `sonde report` reads. */
static int put_in(struct sonde_store *s, char **args, struct sonde_err *err)
{
    struct sonde_profile *p;
    int rc = sonde_run_load(args[0], &p, err);
    if (rc) return rc;
    rc = sonde_cli_store_profile(s, args[0], p, args[1] ? args[1] : sonde_path_base(args[0]), err);
    sonde_profile_destroy(p);
    return rc;
}

/* ---- The command --------------------------------------------------------------------------- */

enum verb { LIST, PROFILES, NAME, TAG, DELETE, MERGE, COPY, PROFILE, ADD };
static const struct { const char *word; int min, max; } verbs[] = {
    [LIST] = { "list", 0, 0 }, [PROFILES] = { "profiles", 0, 0 }, [NAME] = { "name", 2, 2 },
    [TAG] = { "tag", 2, 2 },   [DELETE] = { "delete", 1, 1000 },  [MERGE] = { "merge", 2, 1000 },
    [COPY] = { "copy", 2, 2 }, [PROFILE] = { "profile", 2, 2 },   [ADD] = { "add", 1, 2 },
};

static int find_verb(struct sonde_cli *cli, enum verb *out)
{
    const char *word = cli->operand_count ? cli->operands[0] : "list";
    const int args = cli->operand_count ? cli->operand_count - 1 : 0;
    for (size_t i = 0; i < SONDE_COUNT(verbs); i++) {
        if (strcmp(word, verbs[i].word) != 0) continue;
        *out = (enum verb)i;
        if (args >= verbs[i].min && args <= verbs[i].max) return SONDE_EXIT_OK;
        return sonde_cli_usage(cli, "%s: wrong number of arguments", word);
    }
    return sonde_cli_usage(cli, "'%s' is none of list, profiles, name, tag, delete, merge, copy, "
                           "profile, add", word);
}

static int cmd_runs_run(struct sonde_cli *cli)
{
    enum verb verb = LIST;
    const int status = find_verb(cli, &verb);
    if (status) return status;
    if (!cli->config.storage_path[0]) return sonde_cli_usage(cli, "say which store: --store FILE");
    const int looks = verb == LIST || verb == PROFILES || verb == COPY ||
                      verb == PROFILE;
    const struct sonde_store_options o = { .path = cli->config.storage_path, .read_only = looks,
                                           .maintain = !looks };
    struct sonde_store *s = NULL;
    struct sonde_err err = { "" };
    char **args = cli->operands + 1;
    int rc = sonde_store_sqlite.open(&o, &s, &err);
    if (rc) return cmd_runs_failed(cli, rc, &err);
    switch (verb) {
    case LIST: rc = cmd_runs_list(cli, s, &err); break;
    case PROFILES: rc = list_profiles(cli, s, &err); break;
    case NAME: rc = cmd_runs_set(s, args, 1, &err); break;
    case TAG: rc = cmd_runs_set(s, args, 0, &err); break;
    case DELETE: rc = cmd_runs_delete(s, args, &err); break;
    case MERGE: rc = cmd_runs_merge(s, args, &err); break;
    case COPY: rc = cmd_runs_copy(s, args, &err); break;
    case PROFILE: rc = cmd_runs_take_out(cli, s, args, &err); break;
    case ADD: rc = put_in(s, args, &err); break;
    }
    sonde_store_sqlite.close(s);
    if (rc == TOLD) return SONDE_EXIT_FAIL;
    return rc ? cmd_runs_failed(cli, rc, &err) : SONDE_EXIT_OK;
}

const struct sonde_command sonde_cmd_runs = {
    .name = "runs",
    .summary = "list, name, delete, merge and copy out what is in a store",
    .usage = "[options] [list|profiles|name|tag|delete|merge|copy|profile|add] [ARGUMENT]...",
    .details =
        "  list               the runs, newest first\n"
        "  profiles           the profiles, newest first\n"
        "  name RUN NAME      give a run a name\n"
        "  tag RUN TEXT       and any text\n"
        "  delete RUN...      with all that it recorded\n"
        "  merge RUN RUN...   make the others part of the first\n"
        "  copy RUN FILE      to a store with that run only\n"
        "  profile ID FILE    a profile, as a run file that `sonde report` and others read\n"
        "  add FILE [NAME]    a run file, to the profiles of the last run\n"
        "\n"
        "A run is one life of `sonde serve` or `sonde run` with --store. What `copy` writes is one "
        "file that can be mailed, and is read like any store. All of it works while a sonde "
        "records into the store; only the run that is being recorded cannot be deleted or "
        "merged.\n"
        "\n"
        "examples:\n"
        "  sonde runs --store history.store\n"
        "  sonde runs --store history.store name 7 before-upgrade\n"
        "  sonde runs --store history.store copy 7 before.store",
    .options = options,
    .values_size = sizeof(struct runs_values),
    .operands_max = -1,
    .run = cmd_runs_run,
};
