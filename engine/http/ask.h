/* ask.h - what a client asks for: the JSON of /v1/chat/completions and /v1/completions,
 * validated. */
#ifndef ENGINE_HTTP_ASK_H
#define ENGINE_HTTP_ASK_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "model/sampler.h"
#include "run/text_stream.h"
#include "text/tokenizer.h"

enum { ASK_MESSAGES_MAX = 1024, ASK_PROMPT_TOKENS_MAX = 1 << 20 };

struct ask {
    json_t *root;                /* what is borrowed below is of it */
    int chat, stream, include_usage, ignore_eos;
    struct sampler_params sampler;
    int seed_set;
    uint32_t tokens_max;         /* 0 = as many as there is room for */
    const char *stops[TEXT_STOPS_MAX];
    size_t stops_count;
    struct chat_message *messages; /* chat: owned, contents too */
    size_t messages_count;
    const char *prompt;          /* completions: text … */
    size_t prompt_bytes;
    int32_t *tokens;             /* … or tokens; owned */
    size_t tokens_count;
};

struct ask_error { const char *param, *code; struct fail why; };

/* 0, or -1 and what is wrong with which field. ask_release() in either case. */
int ask_parse(struct ask *a, int chat, const char *body, size_t bytes, struct ask_error *error);
void ask_release(struct ask *a);

#endif
