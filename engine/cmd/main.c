/* main.c - sonde-engine: a small inference server, instrumented with libsonde. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cmd/command.h"
#include "sonde/sonde.h"

#define COMMAND(id) extern const struct command command_##id;
#include "cmd/command_list.h"
#undef COMMAND

static const struct command *const commands[] = {
#define COMMAND(id) &command_##id,
#include "cmd/command_list.h"
#undef COMMAND
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

int command_bad(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "sonde-engine %s: ", name);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\nTry: sonde-engine %s --help\n", name);
    va_end(args);
    return 2;
}

int command_bad_model(const char *name, const char *path, const char *why)
{
    const int named = !strncmp(why, path, strlen(path));
    fprintf(stderr, "sonde-engine %s: %s%s%s\n", name, named ? "" : path, named ? "" : ": ", why);
    return 2;
}

static void help_print(FILE *to)
{
    fputs("usage: sonde-engine COMMAND …\n"
          "A small inference server for GGUF models, instrumented with libsonde.\n\n",
          to);
    for (int i = 0; i < COMMANDS; i++) {
        fprintf(to, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    }
    fputs("\nsonde-engine COMMAND --help lists its options.\n", to);
}

static void command_help_print(const struct command *c)
{
    printf("usage: sonde-engine %s %s\n%s\n", c->name, c->usage, c->summary);
    if (c->help) printf("\n%s", c->help);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help_print(stderr);
        return 2;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        help_print(stdout);
        return 0;
    }
    if (!strcmp(argv[1], "--version")) {
        puts("sonde-engine " SONDE_VERSION);
        return 0;
    }
    for (int i = 0; i < COMMANDS; i++) {
        if (strcmp(argv[1], commands[i]->name)) continue;
        for (int k = 2; k < argc && strcmp(argv[k], "--"); k++) {
            if (strcmp(argv[k], "--help") && strcmp(argv[k], "-h")) continue;
            command_help_print(commands[i]);
            return 0;
        }
        return commands[i]->run(argc - 1, argv + 1);
    }
    fprintf(stderr, "sonde-engine: there is no command '%s'\n\n", argv[1]);
    help_print(stderr);
    return 2;
}
