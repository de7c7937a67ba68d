/* api.h - the dialects in which servers are asked: where to, and what a body looks like.
 *
 * A dialect is one row: its name, its paths (with and without streaming), and a function that
 * writes a body. What answers look like is load.h's business: it understands all of them. */
#ifndef SONDE_BENCH_HTTP_API_H
#define SONDE_BENCH_HTTP_API_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define SONDE_LOAD_BODY_MAX ((size_t)64 << 20) /* of one request */

#define SONDE_LOAD_APIS(X)                                                                      \
    X(OPENAI_CHAT, "openai-chat", "/v1/chat/completions", "/v1/chat/completions")               \
    X(OPENAI_COMPLETIONS, "openai-completions", "/v1/completions", "/v1/completions")           \
    X(LLAMA, "llama.cpp", "/completion", "/completion")                                         \
    X(OLLAMA_CHAT, "ollama-chat", "/api/chat", "/api/chat")                                     \
    X(OLLAMA_GENERATE, "ollama-generate", "/api/generate", "/api/generate")                     \
    X(TGI, "tgi", "/generate_stream", "/generate")
enum sonde_load_api {
#define SONDE__X(id, name, streaming, whole) SONDE_LOAD_API_##id,
    SONDE_LOAD_APIS(SONDE__X)
#undef SONDE__X
    SONDE_LOAD_API_COUNT
};
#define SONDE_LOAD_API_NAMES \
    "auto|openai-chat|openai-completions|llama.cpp|ollama-chat|ollama-generate|tgi"

/* -1 = none is called so, or none has such a path. */
int sonde_load_api_find(const char *name);
int sonde_load_api_of_path(const char *path);
const char *sonde_load_api_name(enum sonde_load_api api);
const char *sonde_load_api_path(enum sonde_load_api api, int stream);
/* 1: it is asked by messages, not by one text. */
int sonde_load_api_chats(enum sonde_load_api api);
/* 1: an answer can be made to go on to max_tokens. */
int sonde_load_api_ignores_eos(enum sonde_load_api api);

struct sonde_load_message {
    const char *role;           /* static */
    const char *text;
    size_t len;
};

/* What one request asks. */
struct sonde_load_ask {
    enum sonde_load_api api;
    const char *model;          /* NULL = none is named */
    const struct sonde_load_message *messages; /* a dialect of texts joins them */
    size_t message_count;
    uint32_t max_tokens;        /* 0 = as the server likes */
    int stream, ignore_eos;
    int plain;                  /* nothing beyond the first standard: no stream_options */
    int64_t seed;               /* of sampling; < 0 = none */
};
void sonde_load_api_body(const struct sonde_load_ask *ask, struct sonde_buf *out);

/* Tokens of the prompt that a whole answer (JSON, not streamed) counts; SONDE_LOAD_UNKNOWN = it
 * does not. */
uint32_t sonde_load_api_prompt_tokens(const char *answer, size_t len);
/* The sentence of an answer that is an error, cut to fit; "" = it has none. */
void sonde_load_api_error(const char *answer, size_t len, char *out, size_t size);

#endif
