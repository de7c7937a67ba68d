/* opt.c - options from tables. Long ones as --name VALUE or --name=VALUE (those whose value may be
 * left out only so), short ones as -n VALUE, -nVALUE, or several flags in one (-vv). Options may
 * follow operands unless the command takes a command line of its own; `--` ends them.
 *
 * Rejected: getopt_long, whose messages cannot say what is allowed and whose permutation cannot be
 * stopped per command without the environment having a say (POSIXLY_CORRECT). */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/nearest.h"
#include "cli/cli.h"

/* Fields of struct sonde_cli, not of the command's values: see is_common(). */
const struct sonde_cli_opt sonde_cli_common_options[] = {
    { .name = "config", .type = SONDE_OPT_STR, .value = "FILE",
      .help = "read settings from this JSON file (default $SONDE_CONFIG, else none)",
      .offset = offsetof(struct sonde_cli, config_path) },
    { .name = "set", .type = SONDE_OPT_SETTING, .value = "SECTION.KEY=VALUE",
      .help = "set one setting; `sonde help config` lists them" },
    { .name = "verbose", .letter = 'v', .type = SONDE_OPT_FLAG, .help = "tell more; twice: all",
      .offset = offsetof(struct sonde_cli, verbose) },
    { .name = "quiet", .letter = 'q', .type = SONDE_OPT_FLAG, .help = "tell errors only",
      .offset = offsetof(struct sonde_cli, quiet) },
    { .name = "log", .type = SONDE_OPT_STR, .value = "FILE", .help = "append messages to FILE",
      .offset = offsetof(struct sonde_cli, log_path) },
    { .name = "help", .letter = 'h', .type = SONDE_OPT_FLAG, .help = "show this" },
    { .name = NULL },
};

static int is_common(const struct sonde_cli_opt *o)
{
    const size_t count = SONDE_COUNT(sonde_cli_common_options);
    return o >= sonde_cli_common_options && o < sonde_cli_common_options + count;
}

static int is_help(const struct sonde_cli_opt *o)
{
    return is_common(o) && o->letter == 'h';
}

static const struct sonde_cli_opt *opt_find_in(const struct sonde_cli_opt *o, const char *name,
                                               size_t len, char letter)
{
    for (; o && o->name; o++) {
        if (letter ? o->letter == letter : strlen(o->name) == len && !memcmp(o->name, name, len)) {
            return o;
        }
    }
    return NULL;
}

static const struct sonde_cli_opt *opt_find(const struct sonde_cli *cli, const char *name,
                                            size_t len, char letter)
{
    const struct sonde_cli_opt *o = opt_find_in(cli->command->options, name, len, letter);
    return o ? o : opt_find_in(sonde_cli_common_options, name, len, letter);
}

const char *sonde_cli_suggest(const char *text, const char *const *names)
{
    struct sonde_nearest best = SONDE_NEAREST_NONE;
    for (; *names; names++) sonde_nearest_try(&best, text, *names);
    return best.known;
}

static int unknown_option(const struct sonde_cli *cli, const char *name, size_t len)
{
    enum { MAX = 64 };
    const char *names[MAX + 1];
    size_t n = 0;
    const struct sonde_cli_opt *const tables[] = { cli->command->options,
                                                   sonde_cli_common_options };
    for (size_t t = 0; t < 2; t++) {
        for (const struct sonde_cli_opt *o = tables[t]; o && o->name && n < MAX; o++) {
            names[n++] = o->name;
        }
    }
    names[n] = NULL;

    char word[64];
    snprintf(word, sizeof(word), "%.*s", (int)len, name);
    const char *meant = sonde_cli_suggest(word, names);
    if (meant) {
        return sonde_cli_usage(cli, "there is no option '--%.*s'; did you mean '--%s'?", (int)len,
                               name, meant);
    }
    return sonde_cli_usage(cli, "there is no option '--%.*s'", (int)len, name);
}

/* 1 if text is one of "a|b|c". */
static int opt_is_choice(const char *choices, const char *text)
{
    const size_t len = strlen(text);
    for (const char *c = choices; c; c = strchr(c, '|') ? strchr(c, '|') + 1 : NULL) {
        if (strcspn(c, "|") == len && memcmp(c, text, len) == 0) return 1;
    }
    return 0;
}

static int opt_list_add(struct sonde_cli_list *l, const char *text)
{
    const char **grown = sonde__realloc(l->item, (l->count + 1) * sizeof(*grown));
    if (!grown) return -1;
    l->item = grown;
    l->item[l->count++] = text;
    return 0;
}

/* key "section.key" and value are borrowed: for --set, value is split off in argv itself. */
static int setting_add(struct sonde_cli *cli, const char *key, const char *value,
                       const char *origin)
{
    assert(key && value && origin);
    struct sonde_cli_setting *grown =
        sonde__realloc(cli->settings, (cli->setting_count + 1) * sizeof(*grown));
    if (!grown) return sonde_cli_fail(cli, "out of memory");
    cli->settings = grown;
    grown[cli->setting_count++] =
        (struct sonde_cli_setting){ .key = key, .value = value, .origin = origin };
    return SONDE_EXIT_OK;
}

static int take_set(struct sonde_cli *cli, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals || equals == text) {
        return sonde_cli_usage(cli, "--set: '%s' is not SECTION.KEY=VALUE, for example "
                               "agent.interval_seconds=0.5", text);
    }
    *equals = '\0';
    return setting_add(cli, text, equals + 1, "--set");
}

static int opt_take_number(const struct sonde_cli *cli, const struct sonde_cli_opt *o,
                           const char *text, void *field)
{
    assert(o->type == SONDE_OPT_UINT || o->type == SONDE_OPT_NUM);
    assert(o->min < o->max);
    double v = 0;
    const int whole = o->type == SONDE_OPT_UINT;
    if (sonde_cli_number(text, &v) || !(v >= o->min && v <= o->max) || (whole && v != floor(v))) {
        return sonde_cli_usage(cli, "--%s: '%s' is not a %s from %.15g to %.15g", o->name, text,
                               whole ? "whole number" : "number", o->min, o->max);
    }
    if (whole) *(uint64_t *)field = (uint64_t)v;
    else *(double *)field = v;
    return SONDE_EXIT_OK;
}

/* Store an option; text is its value, or NULL if it takes none. */
static int opt_take(struct sonde_cli *cli, const struct sonde_cli_opt *o, char *text)
{
    assert(o->setting || !o->fixed);
    assert(is_common(o) || o->type == SONDE_OPT_SETTING || o->offset < cli->command->values_size);
    char *base = is_common(o) ? (char *)cli : (char *)cli->values;
    void *field = base ? base + o->offset : NULL;
    switch (o->type) {
    case SONDE_OPT_FLAG:
        (*(int *)field)++;
        return SONDE_EXIT_OK;
    case SONDE_OPT_STR:
        if (o->choices && !opt_is_choice(o->choices, text)) {
            return sonde_cli_usage(cli, "--%s: '%s' is not one of %s", o->name, text, o->choices);
        }
        *(const char **)field = text;
        return SONDE_EXIT_OK;
    case SONDE_OPT_LIST:
        if (opt_list_add(field, text)) return sonde_cli_fail(cli, "out of memory");
        return SONDE_EXIT_OK;
    case SONDE_OPT_UINT:
    case SONDE_OPT_NUM:
        return opt_take_number(cli, o, text, field);
    case SONDE_OPT_SPLIT:
        if (*(int *)field) return sonde_cli_usage(cli, "--%s is given twice", o->name);
        *(int *)field = cli->operand_count + 1;
        return SONDE_EXIT_OK;
    case SONDE_OPT_SETTING:
        if (!o->setting) return take_set(cli, text);
        return setting_add(cli, o->setting, text ? text : o->fixed, o->name);
    }
    return SONDE_EXIT_OK;
}

static int takes_value(const struct sonde_cli_opt *o)
{
    return o->value != NULL;
}

/* argv[*i] is "--name" or "--name=value". */
static int parse_long(struct sonde_cli *cli, int argc, char **argv, int *i)
{
    char *name = argv[*i] + 2;
    const size_t len = strcspn(name, "=");
    char *value = name[len] == '=' ? name + len + 1 : NULL;
    const struct sonde_cli_opt *o = opt_find(cli, name, len, 0);
    if (!o) return unknown_option(cli, name, len);
    if (is_help(o)) return -1;
    if (!takes_value(o)) {
        if (value) return sonde_cli_usage(cli, "--%s takes no value", o->name);
        return opt_take(cli, o, NULL);
    }
    if (!value && o->implied) return opt_take(cli, o, (char *)(uintptr_t)o->implied);
    if (!value) {
        if (*i + 1 >= argc) return sonde_cli_usage(cli, "--%s needs %s", o->name, o->value);
        value = argv[++*i];
    }
    return opt_take(cli, o, value);
}

/* argv[*i] is "-abc" or "-nVALUE". */
static int parse_short(struct sonde_cli *cli, int argc, char **argv, int *i)
{
    for (char *c = argv[*i] + 1; *c; c++) {
        const struct sonde_cli_opt *o = opt_find(cli, NULL, 0, *c);
        if (!o) return sonde_cli_usage(cli, "there is no option '-%c'", *c);
        if (is_help(o)) return -1;
        int rc;
        if (!takes_value(o)) {
            rc = opt_take(cli, o, NULL);
            if (rc) return rc;
            continue;
        }
        if (c[1]) return opt_take(cli, o, c + 1);
        if (*i + 1 >= argc) return sonde_cli_usage(cli, "-%c needs %s", *c, o->value);
        return opt_take(cli, o, argv[++*i]);
    }
    return SONDE_EXIT_OK;
}

int sonde_cli_parse(struct sonde_cli *cli, int argc, char **argv)
{
    assert(!cli->values);
    const struct sonde_command *command = cli->command;
    if (command->values_size) {
        cli->values = sonde__calloc(1, command->values_size);
        if (!cli->values) return sonde_cli_fail(cli, "out of memory");
    }
    /* Operands are moved to the front of argv; the caller's array ends with NULL after argc. */
    cli->operands = argv;
    int count = 0, i = 0, ended = 0;
    cli->operands_plain = -1;
    for (; i < argc; i++) {
        int rc = SONDE_EXIT_OK;
        cli->operand_count = count;
        if (ended || argv[i][0] != '-' || argv[i][1] == '\0') {
            if (command->stop_at_operand) ended = 1;
            argv[count++] = argv[i];
        } else if (strcmp(argv[i], "--") == 0) {
            ended = 1;
            cli->operands_plain = count;
        } else if (argv[i][1] == '-') {
            rc = parse_long(cli, argc, argv, &i);
        } else {
            rc = parse_short(cli, argc, argv, &i);
        }
        if (rc) return rc;
    }
    argv[count] = NULL;
    cli->operand_count = count;
    const int command_line = command->command_after_dashes && cli->operands_plain == 0 && count;
    if (command->operands_max >= 0 && count > command->operands_max && !command_line) {
        return sonde_cli_usage(cli, "does not know what to do with '%s'",
                               argv[command->operands_max]);
    }
    return SONDE_EXIT_OK;
}

static int load_config(struct sonde_cli *cli, char *const *envp, struct sonde_err *err)
{
    struct sonde_config_values *c = &cli->config;
    if (!cli->config_path) {
        const char *path = getenv("SONDE_CONFIG");
        if (path && path[0]) cli->config_path = path;
    }
    if (cli->config_path) {
        const int rc = sonde_config_load_file(c, cli->config_path, err);
        if (rc) return rc;
    }
    int rc = sonde_config_load_env(c, envp, err);
    for (size_t i = 0; rc == 0 && i < cli->setting_count; i++) {
        const struct sonde_cli_setting *s = &cli->settings[i];
        char origin[64];
        if (s->origin[0] == '-') snprintf(origin, sizeof(origin), "%s", s->origin);
        else snprintf(origin, sizeof(origin), "--%s", s->origin);
        rc = sonde_config_set(c, s->key, s->value, origin, err);
    }
    return rc;
}

int sonde_cli_load_config(struct sonde_cli *cli, char *const *envp)
{
    struct sonde_err err = { "" };
    sonde_config_defaults(&cli->config);
    if (load_config(cli, envp, &err) == 0) return SONDE_EXIT_OK;
    if (cli->command->bad_config_ok) {
        cli->config_err = err;
        return SONDE_EXIT_OK;
    }
    sonde_cli_fail(cli, "%s (see `sonde help config`)", err.text);
    return SONDE_EXIT_USAGE;
}

int sonde_cli_was_set(const struct sonde_cli *cli, const char *setting)
{
    for (size_t i = 0; i < cli->setting_count; i++) {
        if (strcmp(cli->settings[i].key, setting) == 0) return 1;
    }
    return 0;
}

void sonde_cli_release(struct sonde_cli *cli)
{
    assert(cli->command);
    for (const struct sonde_cli_opt *o = cli->command->options; cli->values && o && o->name; o++) {
        if (o->type != SONDE_OPT_LIST) continue;
        sonde__free(((struct sonde_cli_list *)((char *)cli->values + o->offset))->item);
    }
    sonde__free(cli->values);
    sonde__free(cli->settings);
    cli->values = NULL;
    cli->settings = NULL;
    cli->setting_count = 0;
}
