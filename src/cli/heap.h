/* heap.h - what the commands that profile the heap share: options and how they become those of
 * collect/heap/heap.h. */
#ifndef SONDE_CLI_HEAP_H
#define SONDE_CLI_HEAP_H

#include "cli/cli.h"
#include "cli/watch.h"

/* Embedded in a command's values; SONDE_OPT_HEAP(struct run_values, heap) is its options. */
struct sonde_cli_heap {
    const char *mode;        /* --heap: "" = as the settings say, "full", or bytes; NULL = not
                                given */
    int off;                 /* --no-heap */
    const char *leak_check;  /* --leak-check: "scan" */
};

#define SONDE_OPT_HEAP(values, field)                                                            \
    { .name = "heap", .type = SONDE_OPT_STR, .value = "BYTES|full", .implied = "",               \
      .offset = offsetof(values, field.mode),                                                    \
      .help = "profile the heap: one allocation in so many bytes (default 512K), or every one" }, \
    { .name = "leak-check", .type = SONDE_OPT_STR, .value = "HOW", .choices = "scan",            \
      .offset = offsetof(values, field.leak_check),                                              \
      .help = "at exit, tell memory that nothing points to from what is just still in use" }
#define SONDE_OPT_NO_HEAP(values, field)                                                         \
    { .name = "no-heap", .type = SONDE_OPT_FLAG, .offset = offsetof(values, field.off),          \
      .help = "do not profile the heap" }

/* Into o: whether the heap is profiled, and how. wanted: what it is without --heap and --no-heap.
 * SONDE_EXIT_OK, or tells what is wrong. */
int sonde_cli_heap(const struct sonde_cli *cli, const struct sonde_cli_heap *v,
                   enum sonde_watch_want wanted, struct sonde_watch_options *o);

/* Options of collect/heap/heap.h from the settings, without pid. */
struct sonde_heap_reader_options sonde_cli_heap_options(const struct sonde_cli *cli);

#endif
