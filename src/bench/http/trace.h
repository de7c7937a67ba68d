/* trace.h - requests of a file: prompts to be sent, or the course of a load that was once seen.
 *
 * Lines of JSON, each an object, told apart by their members:
 *
 *   {"messages": […], …}, {"prompt": …, …}         a body as servers take it; stream and usage are
 *                                                   set, model and max_tokens where they are not
 *   {"conversations": [{"from","value"}, …]}        ShareGPT's: the turns of the human, one by one
 *   {"timestamp": ms, "input_length", "output_length", "hash_ids": […]}     Mooncake's traces
 *
 * And CSV with a head, as BurstGPT has it: Timestamp (s), Request tokens, Response tokens (or
 * Timestamp, ContextTokens, GeneratedTokens, as Azure's). Traces have no texts: prompts are made
 * up, of the same length, and beginning alike where hash_ids do. */
#ifndef SONDE_BENCH_HTTP_TRACE_H
#define SONDE_BENCH_HTTP_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SONDE_LOAD_TRACE_MAX 10000000u              /* requests of a file */
#define SONDE_LOAD_TRACE_BYTES ((size_t)1 << 30)    /* of a file */
#define SONDE_LOAD_HASHES_MAX 65536u                /* of a request */

struct sonde_load_item {
    char *body;               /* owned: an object of JSON as the file has it; NULL = made up */
    char **turns;             /* owned: what the human says, in order; NULL = none */
    uint32_t turn_count;
    double at_s;              /* from the first of the trace on; NaN = not known */
    uint32_t tokens_in, tokens_out; /* 0 = not known */
    uint64_t *hashes;         /* owned: one for each block of the prompt; NULL = none */
    uint32_t hash_count;
};

struct sonde_load_trace {
    struct sonde_load_item *items; /* owned; those with times in their order */
    size_t count, cap;
    int timed;                /* all have a time */
    uint32_t skipped;         /* lines that hold no request: failed ones of CSV, without tokens */
};

/* SONDE_EINVAL: err names the line and what is wrong. */
int sonde_load_trace_parse(const char *text, size_t len, const char *name,
                           struct sonde_load_trace *out, struct sonde_err *err);
int sonde_load_trace_read(const char *path, struct sonde_load_trace *out, struct sonde_err *err);

/* One more, with a time and lengths: of what an agent recorded. 0, SONDE_ENOMEM, SONDE_EFULL. */
int sonde_load_trace_add(struct sonde_load_trace *t, double at_s, uint32_t tokens_in,
                         uint32_t tokens_out);
/* In order of time, the first at 0. */
void sonde_load_trace_sort(struct sonde_load_trace *t);
void sonde_load_trace_release(struct sonde_load_trace *t);

#endif
