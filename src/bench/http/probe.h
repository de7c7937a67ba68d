/* probe.h - what kind of server is behind a URL, asked before the load: its dialect, the name of
 * its model, whether it takes what the load will send, and how many tokens a word is to it. */
#ifndef SONDE_BENCH_HTTP_PROBE_H
#define SONDE_BENCH_HTTP_PROBE_H

#include "base/buf.h"
#include "base/err.h"
#include "bench/http/api.h"
#include "bench/http/prompt.h"
#include "bench/trust.h"

#define SONDE_LOAD_URL_MAX 2048u
#define SONDE_LOAD_MODEL_MAX 256u

struct sonde_load_target {
    char url[SONDE_LOAD_URL_MAX];        /* where requests go, with the path */
    enum sonde_load_api api;
    char model[SONDE_LOAD_MODEL_MAX];    /* "" = none is named */
    char server[128];                    /* what the answers' head says it is; "" = nothing */
    int ignore_eos, plain;               /* what it takes (api.h) */
    struct sonde_load_calibration calibration;
    char notes[3][200];                  /* what a reader should know; "" = nothing */
};

struct sonde_load_probe_options {
    const char *url;
    int api;                             /* enum sonde_load_api; -1 = find out */
    const char *model;                   /* NULL = find out */
    const char *const *headers;          /* NULL-terminated; NULL = none */
    struct sonde_bench_trust trust;
    int stream, ignore_eos;
    int calibrate;                       /* prompts are made up: ask what a word is */
    int silent;                          /* ask nothing: dialect from the path, or OpenAI's */
    double timeout_s;                    /* of one question; 0 = 60 */
};

/* SONDE_EINVAL: the URL cannot be used; SONDE_EIO: no connection; SONDE_EACCES: the server refuses
 * what would be sent, and what it says. */
int sonde_load_probe(const struct sonde_load_probe_options *o, struct sonde_load_target *out,
                     struct sonde_err *err);

/* One question by HTTP: GET, or POST if there is a body. trust: NULL = the system's store. The
 * answer's body is in out, at most max bytes. *status: 0 = no answer; then err says why and
 * SONDE_EIO is returned. */
int sonde_load_ask_http(const char *url, const struct sonde_bench_trust *trust,
                        const char *const *headers, const char *body, size_t max,
                        double timeout_s, struct sonde_buf *out, long *status,
                        struct sonde_err *err);

#endif
