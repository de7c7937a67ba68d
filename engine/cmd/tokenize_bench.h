/* tokenize_bench.h - `sonde-engine tokenize --bench`: tokens per second, both ways, by kind and
 * length of the input. */
#ifndef ENGINE_CMD_TOKENIZE_BENCH_H
#define ENGINE_CMD_TOKENIZE_BENCH_H

#include <stdint.h>

#include "text/tokenizer.h"

struct tokenize_bench_options {
    const char *lengths;         /* "100,1000": bytes; NULL = some */
    const char *kinds;           /* "text,code"; NULL = all */
    const char *input;           /* a file to use instead of what is made up; NULL = none */
    uint32_t turns;
    float seconds;               /* for each row and direction */
};

/* One JSON object to the standard output; the exit status. */
int tokenize_bench(const struct tokenizer *t, const struct tokenize_bench_options *o);

#endif
