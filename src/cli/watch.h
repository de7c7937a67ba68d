/* watch.h - watching one process from its start, or from now on, to its end: what `run`,
 * `record` and `attach` do, each with other defaults. The collector reads its segments, an engine
 * samples its CPU, libsonde_preload its heap and calls of llama.cpp (or probes do), HTTP shows all
 * of it, a run file keeps it. */
#ifndef SONDE_CLI_WATCH_H
#define SONDE_CLI_WATCH_H

#include "cli/cli.h"
#include "collect/cpu/cpu.h"
#include "collect/heap/heap.h"

/* An option of commands that start one. */
#define SONDE_OPT_NO_INFERENCE(values, field)                                                    \
    { .name = "no-inference", .type = SONDE_OPT_FLAG, .offset = offsetof(values, field),         \
      .help = "do not watch llama.cpp in it" }

/* Embedded in a command's values. */
struct sonde_cli_children {
    int on;   /* --children: as it is anyway */
    int off;  /* --no-children */
};
#define SONDE_OPT_CHILDREN(values, field)                                                        \
    { .name = "no-children", .type = SONDE_OPT_FLAG, .offset = offsetof(values, field.off),      \
      .help = "not the processes that it starts" },                                              \
    { .name = "children", .type = SONDE_OPT_FLAG, .offset = offsetof(values, field.on),          \
      .help = "also the processes that it starts (the default)" }

enum sonde_watch_want {
    SONDE_WATCH_NO,
    SONDE_WATCH_IF_POSSIBLE, /* what forbids it is told, and the rest goes on */
    SONDE_WATCH_MUST,        /* what forbids it ends the watch before it begins */
};

struct sonde_watch_options {
    char **argv;             /* CMD to run, NULL-terminated; NULL = attach to pid */
    uint32_t pid;
    double duration_s;       /* then recording ends (and attaching); 0 = when the process does */
    int stop;                /* end CMD then */
    double keep_s;           /* serve this long after its end */
    int http;
    int series;              /* tell about series and spans at the end */
    int progress;            /* of a process that runs: on a terminal, how far it is */
    int told;                /* stderr is ours: tell even if it is no terminal, unless --quiet */
    enum sonde_watch_want cpu, heap;
    int children;            /* also processes that it starts, or has started */
    int gpu;                 /* commands that it has GPUs do */
    int llama;               /* calls of llama.cpp's functions, if it uses them */
    struct sonde_cpu_options cpu_options; /* without pid and children */
    struct sonde_heap_reader_options heap_options; /* alike */
    int leaks;               /* judge growth */
    const char *record;      /* run file to write; NULL = none */
    const struct sonde_cli_list *scrape; /* exporters to read, besides those of the settings; NULL =
                                            not even those */
    int store;               /* keep readings in the store that the settings name, and send them
                                where those say */
    const char *continuous;  /* keep profiles in it, too: cli/agent_options.h; NULL = as settings
                              * say */
    int recent;              /* without that, keep those of the last hours in memory, where HTTP is
                                served and settings do not forbid it */
    /* Gets samples and spans once they are complete, CMD may still run: its to destroy. The exit
     * status, SONDE_EXIT_OK if all is well. NULL = not wanted. */
    int (*on_profile)(struct sonde_profile *p, void *arg);
    void *on_profile_arg;
};

/* Returns the exit status: CMD's, or by its signal not at all. 0 for a process that was attached
 * to, 1 when what was asked for could not be done. */
int sonde_watch_run(struct sonde_cli *cli, const struct sonde_watch_options *options);

/* "sonde-<name>-<time>.run" for the base name of a program. */
void sonde_watch_file(char *out, size_t out_size, const char *name);

#endif
