/* cmd_help.c - `sonde help [COMMAND|config]`; all text comes from the tables of the commands and
 * of the settings. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "sonde/sonde.h"

enum { COLUMN = 30, WIDTH = 100 };

/* text in lines of at most WIDTH columns, each after the first indented. column: where we are. */
static void print_wrapped(const char *text, int column, int indent)
{
    int first = 1;
    while (*text) {
        const int len = (int)strcspn(text, " \n");
        if (!first && column + 1 + len > WIDTH) {
            printf("\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            putchar(' ');
            column++;
        }
        printf("%.*s", len, text);
        column += len;
        first = 0;
        text += len;
        if (*text == '\n') {
            printf("\n%*s", text[1] ? indent : 0, "");
            column = indent;
            first = 1;
            text++;
        } else if (*text == ' ') {
            text++;
            /* Two blanks or more: an example's own alignment, kept. */
            while (*text == ' ') {
                putchar(' ');
                column++;
                text++;
            }
        }
    }
    putchar('\n');
}

static void cmd_help_print_row(const char *left, const char *right)
{
    printf("  %-*s", COLUMN - 2, left);
    int column = COLUMN;
    if (strlen(left) >= COLUMN - 2) printf("\n%*s", COLUMN, "");
    print_wrapped(right, column, COLUMN);
}

/* "a|b|c" as "a, b, c", so that it can be wrapped. */
static const char *list_choices(const char *choices, char *out, size_t out_size)
{
    size_t n = 0;
    for (; choices && *choices && n + 3 < out_size; choices++) {
        if (*choices == '|') {
            out[n++] = ',';
            out[n++] = ' ';
        } else {
            out[n++] = *choices;
        }
    }
    out[n] = '\0';
    return out;
}

static void print_options(const struct sonde_cli_opt *o)
{
    for (; o && o->name; o++) {
        char left[128], right[512], choices[256];
        const char *before = !o->value ? "" : o->implied ? "[=" : " ";
        const char *value = o->value ? o->value : "", *after = o->implied ? "]" : "";
        if (o->letter) {
            snprintf(left, sizeof(left), "-%c, --%s%s%s%s", o->letter, o->name, before, value,
                     after);
        } else {
            snprintf(left, sizeof(left), "    --%s%s%s%s", o->name, before, value, after);
        }
        snprintf(right, sizeof(right), "%s%s%s%s", o->help, o->choices ? ": " : "",
                 list_choices(o->choices, choices, sizeof(choices)),
                 o->type == SONDE_OPT_LIST ? " (repeatable)" : "");
        cmd_help_print_row(left, right);
    }
}

static void print_overview(void)
{
    printf("sonde %s - what a native program does with its time and memory, while it runs\n\n"
           "usage: sonde COMMAND [options]\n\n",
           SONDE_VERSION);
    for (size_t i = 0; sonde_commands[i]; i++) {
        cmd_help_print_row(sonde_commands[i]->name, sonde_commands[i]->summary);
    }
    printf("\n`sonde help COMMAND` explains one of them, `sonde help config` lists the settings.\n"
           "Exit status: 0, 1 when something failed, 2 for a mistake in the command line or the\n"
           "settings, 3 when a limit given with --fail-on is broken; `sonde run` passes on the "
           "exit\n"
           "status of what it ran.\n");
}

void sonde_cli_print_help(const struct sonde_command *command)
{
    if (!command) {
        print_overview();
        return;
    }
    printf("usage: sonde %s%s%s\n\n", command->name, command->usage[0] ? " " : "",
           command->usage);
    print_wrapped(command->summary, 0, 0);
    if (command->details) {
        putchar('\n');
        print_wrapped(command->details, 0, 0);
    }
    if (command->parts) {
        printf("\ncommands:\n");
        for (size_t i = 0; command->parts[i]; i++) {
            cmd_help_print_row(command->parts[i]->name, command->parts[i]->summary);
        }
        printf("\n`sonde help %s` and a command's name explain one of them.\n", command->name);
        return;
    }
    if (command->options) printf("\noptions:\n");
    print_options(command->options);
    printf("\noptions of every command:\n");
    print_options(sonde_cli_common_options);
}

static void print_setting(const struct sonde_config_row *r, void *arg)
{
    const char **section = arg;
    if (!*section || strcmp(*section, r->section) != 0) printf("\n%s\n", r->section);
    *section = r->section;

    char left[160], right[512];
    const int ranged = r->range && r->range[0];
    snprintf(left, sizeof(left), "%s.%s", r->section, r->key);
    snprintf(right, sizeof(right), "%s (%s%s%s, default %s)", r->help, r->type,
             ranged ? " " : "", ranged ? r->range : "", r->def[0] ? r->def : "empty");
    cmd_help_print_row(left, right);
}

static void print_config_help(void)
{
    const char *section = NULL;
    printf("Settings come from the JSON file of --config (or $SONDE_CONFIG), then from the\n"
           "environment, then from flags; each overrides the one before. In the file:\n\n"
           "  { \"agent\": { \"interval_seconds\": 0.5 }, \"server\": { \"listen\": "
           "\"127.0.0.1:7070\" } }\n\n"
           "In the environment: SONDE_AGENT_INTERVAL_SECONDS=0.5. As a flag:\n"
           "--set agent.interval_seconds=0.5. An unknown key or a bad value is an error.\n");
    sonde_config_each(print_setting, &section);
}

static int cmd_help_run(struct sonde_cli *cli)
{
    if (cli->operand_count == 0) {
        sonde_cli_print_help(NULL);
        return SONDE_EXIT_OK;
    }
    const char *topic = cli->operands[0];
    if (strcmp(topic, "config") == 0) {
        print_config_help();
        return SONDE_EXIT_OK;
    }
    const struct sonde_command *command = sonde_command_find(topic);
    if (!command) {
        return sonde_cli_usage(cli, "there is nothing on '%s'; `sonde help` lists the commands, "
                               "and there is `sonde help config`", topic);
    }
    if (cli->operand_count > 1) {
        const struct sonde_command *part = sonde_command_part(command, cli->operands[1]);
        if (!part) {
            return sonde_cli_usage(cli, "there is nothing on '%s %s'; `sonde help %s` says what "
                                   "there is", topic, cli->operands[1], topic);
        }
        command = part;
    }
    sonde_cli_print_help(command);
    return SONDE_EXIT_OK;
}

const struct sonde_command sonde_cmd_help = {
    .name = "help",
    .summary = "explain a command or the settings",
    .usage = "[COMMAND | config]",
    .operands_max = 2,
    .bad_config_ok = 1,
    .run = cmd_help_run,
};
