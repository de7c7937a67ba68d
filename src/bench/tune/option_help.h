/* option_help.h - which options a program has, by what it prints for --help.
 *
 *   -t,    --threads N        number of threads (default: -1)            llama.cpp
 *   --mmap, --no-mmap         whether to memory-map model (default: enabled)
 *       --slots N             requests that are computed together (4)    sonde-engine
 *   -t N, --threads N         threads (default: 4)                       argparse
 *   --threads=N               …                                          GNU
 *
 * A line whose first word begins with a dash, near the left edge, begins an option: names, then at
 * most one word that stands for its value, then, after two blanks or on the next line, what it
 * does. Deeper lines go on with that. */
#ifndef SONDE_BENCH_TUNE_OPTION_HELP_H
#define SONDE_BENCH_TUNE_OPTION_HELP_H

#include <stddef.h>

#define SONDE_TUNE_OPTIONS_MAX 2048u
#define SONDE_TUNE_OPTION_NAMES_MAX 6u
#define SONDE_TUNE_OPTION_NAME_MAX 47

struct sonde_tune_option {
    char names[SONDE_TUNE_OPTION_NAMES_MAX][SONDE_TUNE_OPTION_NAME_MAX + 1]; /* with dashes */
    size_t name_count;
    char value[SONDE_TUNE_OPTION_NAME_MAX + 1]; /* "N", "[on|off|auto]"; "" = it has none */
    char preset[SONDE_TUNE_OPTION_NAME_MAX + 1]; /* what it is if it is not given; "" = not said */
    char choices[160];                 /* "f32, f16, q8_0" if the text lists them; else "" */
};

struct sonde_tune_options_known {
    struct sonde_tune_option *options; /* owned */
    size_t count, cap;
};

/* 0 or SONDE_ENOMEM; SONDE_EFULL: there are more than SONDE_TUNE_OPTIONS_MAX. */
int sonde_tune_help_parse(const char *text, size_t len, struct sonde_tune_options_known *out);
void sonde_tune_help_release(struct sonde_tune_options_known *k);

/* The option with that name; NULL = there is none. */
const struct sonde_tune_option *sonde_tune_help_find(const struct sonde_tune_options_known *k,
                                                     const char *name);
/* 1 if a word is among choices, or among the names between brackets and bars of its value. */
int sonde_tune_help_allows(const struct sonde_tune_option *o, const char *word);

#endif
