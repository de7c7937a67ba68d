/* workload.h - what is sent and when: a source of requests (load.h) made of an arrival process,
 * prompts and a dialect.
 *
 * The body of a request follows from the seed and its number alone, whatever was sent before it and
 * however many threads send: the same seed is the same load, byte for byte. Only what the server
 * itself said is not: later turns of a chat hold its answers.
 *
 * Bodies are made before they are due: those of the first requests before the run begins (prepare),
 * the others as the sender asks for them, which it does ahead of time.
 *
 * Chats: a turn can be sent when the one before it has been answered. In a closed loop each place
 * has a chat. In an open loop a chat whose next turn is ready takes the next arrival, else a new
 * chat begins: the rate is kept either way. A chat whose turn failed ends. */
#ifndef SONDE_BENCH_HTTP_WORKLOAD_H
#define SONDE_BENCH_HTTP_WORKLOAD_H

#include "base/err.h"
#include "bench/http/api.h"
#include "bench/http/arrival.h"
#include "bench/http/load.h"
#include "bench/http/prompt.h"
#include "bench/http/trace.h"

#define SONDE_LOAD_PREPARED_BYTES ((size_t)128 << 20)
#define SONDE_LOAD_TURNS_MAX 1000u
#define SONDE_LOAD_CHAT_MAX ((size_t)16 << 20)    /* bytes of one chat's history */

struct sonde_load_workload_options {
    enum sonde_load_api api;
    const char *model;               /* NULL = none is named; borrowed, as is all below */
    int stream, ignore_eos, plain;   /* api.h */
    struct sonde_load_length prompt, output; /* tokens; output.a 0 = as the server likes */
    uint32_t prefix_tokens, prefix_count; /* the first of so many tokens are one of so many texts */
    uint32_t turns;                  /* of a chat; 0 = 1 */
    uint32_t chats_max;              /* at a time; 0 = any number */
    struct sonde_load_calibration calibration;
    struct sonde_load_trace *trace;  /* prompts, in turn, or with replay all of it once */
    int replay;
    double speed;                    /* of a replay; 0 = 1 */
    struct sonde_load_arrival *arrival; /* NULL = closed loop, or a replay */
    uint64_t requests_max;           /* 0 = any number */
    uint64_t duration_ns;            /* open loop: none is due from here on; 0 = without end */
    uint64_t seed;
};

struct sonde_load_workload;

/* SONDE_EINVAL and why; SONDE_ENOMEM. */
int sonde_load_workload_create(const struct sonde_load_workload_options *o,
                               struct sonde_load_workload **out, struct sonde_err *err);
void sonde_load_workload_destroy(struct sonde_load_workload *w); /* NULL is fine */

/* Of the first `count` requests, as far as SONDE_LOAD_PREPARED_BYTES go. 0 or SONDE_ENOMEM. */
int sonde_load_workload_prepare(struct sonde_load_workload *w, uint64_t count);

struct sonde_load_source *sonde_load_workload_source(struct sonde_load_workload *w);

/* The body of a request by its number; of a chat's the first turn. For looking and for tests. */
int sonde_load_workload_body(const struct sonde_load_workload *w, uint32_t request,
                             struct sonde_buf *out);

/* Turns that could not be sent since the one before them failed. */
uint64_t sonde_load_workload_broken(const struct sonde_load_workload *w);

#endif
