/* command.c - the table of commands: finds the subcommand, has its options parsed and its settings
 * loaded, and runs it. */
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/log.h"
#include "base/strip.h"
#include "base/visible.h"
#include "cli/cli.h"
#include "sonde/sonde.h"

#define SONDE_COMMAND(id) extern const struct sonde_command sonde_cmd_##id;
#include "cli/cmd_list.h"
#undef SONDE_COMMAND

const struct sonde_command *const sonde_commands[] = {
#define SONDE_COMMAND(id) &sonde_cmd_##id,
#include "cli/cmd_list.h"
#undef SONDE_COMMAND
    NULL,
};

const struct sonde_command *sonde_command_find(const char *name)
{
    for (size_t i = 0; sonde_commands[i]; i++) {
        if (strcmp(sonde_commands[i]->name, name) == 0) return sonde_commands[i];
    }
    return NULL;
}

/* "http" of "bench http", "bench" of "bench". */
static const char *command_last_word(const struct sonde_command *command)
{
    const char *blank = strrchr(command->name, ' ');
    return blank ? blank + 1 : command->name;
}

const struct sonde_command *sonde_command_part(const struct sonde_command *command,
                                               const char *name)
{
    for (size_t i = 0; command->parts && command->parts[i]; i++) {
        if (strcmp(command_last_word(command->parts[i]), name) == 0) return command->parts[i];
    }
    return NULL;
}

/* parent: NULL, or the command that has none of this name among its own. */
static int unknown_command(const struct sonde_command *parent, const char *name)
{
    enum { MAX = 64 };
    const struct sonde_command *const *all = parent ? parent->parts : sonde_commands;
    const char *names[MAX + 1];
    size_t n = 0;
    for (; all[n] && n < MAX; n++) names[n] = command_last_word(all[n]);
    names[n] = NULL;

    const char *meant = sonde_cli_suggest(name, names);
    const char *above = parent ? parent->name : "", *blank = parent ? " " : "";
    if (meant) {
        sonde_visible_printf(STDERR_FILENO,
                             "sonde: there is no command '%s%s%s'; did you mean '%s%s%s'?\n", above,
                             blank, name, above, blank, meant);
    } else {
        sonde_visible_printf(STDERR_FILENO,
                             "sonde: there is no command '%s%s%s'; `sonde help%s%s` lists them\n",
                             above, blank, name, blank, above);
    }
    return SONDE_EXIT_USAGE;
}

static int open_log(const struct sonde_cli *cli)
{
    enum sonde_log_level level =
        cli->command->stderr_is_theirs ? SONDE_LOG_ERROR : SONDE_LOG_WARN;
    if (cli->log_path) level = SONDE_LOG_INFO;
    if (cli->verbose) level = cli->verbose > 1 ? SONDE_LOG_DEBUG : SONDE_LOG_INFO;
    else if (cli->quiet) level = SONDE_LOG_ERROR;

    const int rc = sonde_log_open(level, cli->log_path);
    if (rc == 0) return SONDE_EXIT_OK;
    return sonde_cli_usage(cli, "--log: cannot write to '%s': %s", cli->log_path,
                           errno ? strerror(errno) : sonde_strerror(rc));
}

static int run_command(const struct sonde_command *command, int argc, char **argv, char **envp)
{
    struct sonde_cli cli = { .command = command };
    int status = sonde_cli_parse(&cli, argc, argv);
    if (status < 0) {
        sonde_cli_print_help(command);
        status = SONDE_EXIT_OK;
    } else if (status == SONDE_EXIT_OK) {
        errno = 0;
        status = sonde_cli_load_config(&cli, envp);
        sonde_strip_set(cli.config.agent_strip);
        if (status == SONDE_EXIT_OK) status = open_log(&cli);
        if (status == SONDE_EXIT_OK && command->measures) sonde_cli_tell_void(&cli);
        if (status == SONDE_EXIT_OK) status = command->run(&cli);
    }
    sonde_cli_release(&cli);
    return status;
}

/* One of command's own: `sonde bench http …`. */
static int run_part(const struct sonde_command *command, int argc, char **argv, char **envp)
{
    const int help = argc && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"));
    if (!argc || help) {
        sonde_cli_print_help(command);
        return help ? SONDE_EXIT_OK : SONDE_EXIT_USAGE;
    }
    if (argv[0][0] == '-') {
        sonde_visible_printf(STDERR_FILENO,
                             "sonde %s: there is no option '%s'; name a command first: `sonde help "
                             "%s` lists them\n", command->name, argv[0], command->name);
        return SONDE_EXIT_USAGE;
    }
    const struct sonde_command *part = sonde_command_part(command, argv[0]);
    if (!part) return unknown_command(command, argv[0]);
    return run_command(part, argc - 1, argv + 1, envp);
}

/* A full disk shows when the last bytes are written; without this the exit status would be 0. */
static int flush_output(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    sonde_visible_printf(STDERR_FILENO, "sonde: writing to the standard output failed: %s\n",
                         strerror(errno));
    return status ? status : SONDE_EXIT_FAIL;
}

int sonde_cli_main(int argc, char **argv, char **envp)
{
    setlocale(LC_CTYPE, ""); /* not LC_NUMERIC: numbers are written and read with a point */
    if (argc < 2) {
        sonde_cli_print_help(NULL);
        return flush_output(SONDE_EXIT_USAGE);
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("sonde %s\n", SONDE_VERSION);
        return flush_output(SONDE_EXIT_OK);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    if (name[0] == '-') {
        sonde_visible_printf(STDERR_FILENO, "sonde: '%s' before a command is not known here; "
                                            "options follow the command: sonde COMMAND [options]. "
                                            "`sonde help` lists the commands\n", name);
        return SONDE_EXIT_USAGE;
    }
    const struct sonde_command *command = sonde_command_find(name);
    if (!command) return unknown_command(NULL, name);
    if (command->parts) return flush_output(run_part(command, argc - 2, argv + 2, envp));
    return flush_output(run_command(command, argc - 2, argv + 2, envp));
}
