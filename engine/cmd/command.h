/* command.h - one subcommand = one file + one row in command_list.h. */
#ifndef ENGINE_CMD_COMMAND_H
#define ENGINE_CMD_COMMAND_H

struct command {
    const char *name;            /* "serve" */
    const char *usage;           /* what stands behind "sonde-engine serve" */
    const char *summary;         /* one line */
    const char *help;            /* the options, a line each */
    int (*run)(int argc, char **argv); /* argv[0] is the name; returns the exit status */
};

/* Prints "sonde-engine NAME: …" and how to get help; returns 2. */
int command_bad(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints why a model cannot be used, with its file's name before it unless it is there; returns
 * 2. */
int command_bad_model(const char *name, const char *path, const char *why);

#endif
