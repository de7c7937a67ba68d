/* bench_http_both.h - the server's side of a load, from a sonde agent: times of both sides joined
 * by trace id, and what the server did in the steady window. */
#ifndef SONDE_CLI_BENCH_HTTP_BOTH_H
#define SONDE_CLI_BENCH_HTTP_BOTH_H

#include "bench/http/both.h"
#include "cli/bench_http.h"

struct bench_http_both {
    int asked;                       /* an agent was asked */
    char agent[512];                 /* its URL */
    char why[256];                   /* nothing is known, and why; "" = it is */
    struct sonde_load_both both;
    struct sonde_buf resources;      /* JSON members: cpu, memory, gpu; "" = none */
    struct sonde_buf findings;       /* JSON array */
    struct sonde_buf text;           /* lines for people */
    char flamegraph[768];            /* URL; "" = none */
};

void bench_http_both_ask(struct bench_http *b, const struct sonde_load_bench *bench,
                         struct bench_http_both *out);
void bench_http_both_json(const struct bench_http_both *both, struct sonde_bench_result *result);
void bench_http_both_text(const struct bench_http_both *both, int width, int ascii,
                          struct sonde_buf *out);
void bench_http_both_release(struct bench_http_both *both);

/* How the command was called, kept with the result. */
void bench_http_command(const struct bench_http *b, struct sonde_bench_result *result);

#endif
