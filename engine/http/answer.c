/* answer.c - what the engine made of a request, as OpenAI's JSON: whole, or in chunks. timings are
 * llama.cpp's, which clients of its know. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http/server_private.h"

static const char *finish_name(enum engine_finish f)
{
    return f == ENGINE_LENGTH ? "length" : f == ENGINE_STOP ? "stop" : "error";
}

static double http_answer_by(double value, double count) { return count > 0 ? value / count : 0; }

/* ---- Figures -------------------------------------------------------------------------------- */

static json_t *usage_json(const struct http_call *c)
{
    const struct engine_timings *t = &c->timings;
    const json_int_t in = (json_int_t)t->cache_n + t->prompt_n, out = t->predicted_n;
    return json_pack("{s:I,s:I,s:I,s:{s:I}}", "prompt_tokens", in, "completion_tokens", out,
                     "total_tokens", in + out, "prompt_tokens_details", "cached_tokens",
                     (json_int_t)t->cache_n);
}

static json_t *timings_json(const struct http_call *c)
{
    const struct engine_timings *t = &c->timings;
    return json_pack("{s:i,s:i,s:f,s:f,s:f,s:i,s:f,s:f,s:f}",
                     "cache_n", (int)t->cache_n,
                     "prompt_n", (int)t->prompt_n,
                     "prompt_ms", t->prompt_ms,
                     "prompt_per_token_ms", http_answer_by(t->prompt_ms, t->prompt_n),
                     "prompt_per_second", http_answer_by(1e3 * t->prompt_n, t->prompt_ms),
                     "predicted_n", (int)t->predicted_n,
                     "predicted_ms", t->predicted_ms,
                     "predicted_per_token_ms", http_answer_by(t->predicted_ms, t->predicted_n),
                     "predicted_per_second", http_answer_by(1e3 * t->predicted_n, t->predicted_ms));
}

/* Times of one layer by operation, in ms; those that were not called are left out. */
static json_t *layer_json(const struct engine_profile *p, uint32_t layer)
{
    json_t *operations = json_object();
    double all = 0;
    for (uint32_t op = 0; op < FORWARD_OPS; op++) {
        const size_t at = (size_t)layer * FORWARD_OPS + op;
        const double ms = (double)p->op_ns[at] / 1e6;
        if (!p->op_calls[at]) continue;
        all += ms;
        json_object_set_new(operations, forward_op_name((enum forward_op)op), json_real(ms));
    }
    json_t *number = layer < p->layers ? json_integer(layer) : json_null();
    return json_pack("{s:o,s:f,s:o}", "layer", number, "ms", all, "operations_ms", operations);
}

static json_t *http_answer_operations_json(const struct engine_profile *p)
{
    json_t *list = json_array();
    for (uint32_t op = 0; op < FORWARD_OPS; op++) {
        uint64_t ns = 0, calls = 0;
        for (uint32_t layer = 0; layer <= p->layers; layer++) {
            ns += p->op_ns[layer * FORWARD_OPS + op];
            calls += p->op_calls[layer * FORWARD_OPS + op];
        }
        json_array_append_new(list, json_pack("{s:s,s:f,s:I}", "operation",
                                              forward_op_name((enum forward_op)op), "ms",
                                              (double)ns / 1e6, "calls", (json_int_t)calls));
    }
    return list;
}

json_t *http_answer_profile(const struct http_call *c, const struct engine_timings *t)
{
    const struct engine_profile *p = t->profile;
    char id[20], trace[40];
    json_t *layers = json_array();
    for (uint32_t layer = 0; layer <= p->layers; layer++) {
        json_array_append_new(layers, layer_json(p, layer));
    }
    snprintf(id, sizeof(id), "%016" PRIx64, c->sonde.id);
    snprintf(trace, sizeof(trace), "%016" PRIx64 "%016" PRIx64, c->sonde.trace.hi,
             c->sonde.trace.lo);
    return json_pack("{s:s?,s:s?,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:{s:i,s:f,s:f,s:i},s:i,s:o,s:o}",
                     "id", c->sonde.id ? id : NULL, "trace_id", c->sonde.id ? trace : NULL,
                     "encode_ms", c->encode_ms, "queue_ms", t->queue_ms, "prefill_ms",
                     p->prefill_ms, "decode_ms", p->decode_ms, "sample_ms", p->sample_ms,
                     "detokenize_ms", p->detokenize_ms, "total_ms", t->total_ms + c->encode_ms,
                     "passes", "count", (int)p->passes, "ms", p->passes_ms, "others_mean",
                     http_answer_by((double)p->others, p->passes), "others_max", (int)p->others_max,
                     "put_back", (int)p->preempted, "operations", http_answer_operations_json(p),
                     "layers", layers);
}

/* ---- Whole ---------------------------------------------------------------------------------- */

/* The pieces as one text. */
static json_t *text_json(const struct http_call *c)
{
    struct http_text all = { 0 };
    uint32_t bytes;
    int failed = 0;
    for (size_t at = 0; at < c->out.bytes; at += sizeof(bytes) + bytes) {
        memcpy(&bytes, c->out.at + at, sizeof(bytes));
        failed |= http_text_add(&all, c->out.at + at + sizeof(bytes), bytes);
    }
    json_t *text = failed ? NULL : json_stringn(all.at ? all.at : "", all.bytes);
    free(all.at);
    return text;
}

json_t *http_answer_json(struct http_call *c)
{
    const char *model = engine_model(c->server->engine)->name, *finish = finish_name(c->finish);
    json_t *choice =
        c->ask.chat
            ? json_pack("{s:i,s:{s:s,s:o},s:n,s:s}", "index", 0, "message", "role", "assistant",
                        "content", text_json(c), "logprobs", "finish_reason", finish)
            : json_pack("{s:i,s:o,s:n,s:s}", "index", 0, "text", text_json(c), "logprobs",
                        "finish_reason", finish);
    json_t *answer = json_pack("{s:s,s:s,s:I,s:s,s:[o],s:o,s:o}", "id", c->id, "object",
                               c->ask.chat ? "chat.completion" : "text_completion", "created",
                               (json_int_t)time(NULL), "model", model, "choices", choice, "usage",
                               usage_json(c), "timings", timings_json(c));
    if (c->profile) json_object_set(answer, "profile", c->profile);
    return answer;
}

/* ---- Chunks --------------------------------------------------------------------------------- */

/* All but the choices is the same for all of an answer's, so it is made once. */
static int chunk_head(struct http_call *c)
{
    if (c->chunk_head) return 0;
    json_t *head =
        json_pack("{s:s,s:s,s:I,s:s}", "id", c->id, "object",
                  c->ask.chat ? "chat.completion.chunk" : "text_completion", "created",
                  (json_int_t)time(NULL), "model", engine_model(c->server->engine)->name);
    char *text = head ? json_dumps(head, JSON_COMPACT) : NULL;
    json_decref(head);
    if (!text) return -1;
    text[strlen(text) - 1] = 0; /* the brace that closes it */
    c->chunk_head = text;
    return 0;
}

static int chunk_text(struct http_call *c, const char *text, size_t bytes)
{
    json_t *string = json_stringn(text, bytes);
    char *quoted = string ? json_dumps(string, JSON_ENCODE_ANY) : NULL;
    json_decref(string);
    if (!quoted) return -1;
    const char *role = c->ask.chat && !c->begun ? "\"role\":\"assistant\"," : "";
    const int failed =
        c->ask.chat
            ? http_text_print(&c->sse,
                              "data: %s,\"choices\":[{\"index\":0,\"delta\":{%s\"content\":%s}"
                              ",\"finish_reason\":null}]}\n\n",
                              c->chunk_head, role, quoted)
            : http_text_print(&c->sse,
                              "data: %s,\"choices\":[{\"index\":0,\"text\":%s,\"logprobs\":null,"
                              "\"finish_reason\":null}]}\n\n",
                              c->chunk_head, quoted);
    c->begun = 1;
    free(quoted);
    return failed;
}

/* "usage":…,"timings":…,"profile":… for the last chunk. */
static char *figures_text(const struct http_call *c)
{
    json_t *figures = json_pack("{s:o}", "timings", timings_json(c));
    if (c->ask.include_usage) json_object_set_new(figures, "usage", usage_json(c));
    if (c->profile) json_object_set(figures, "profile", c->profile);
    char *text = json_dumps(figures, JSON_COMPACT | JSON_REAL_PRECISION(12));
    json_decref(figures);
    return text;
}

static int chunks_end(struct http_call *c)
{
    const char *empty = c->ask.chat ? "\"delta\":{}" : "\"text\":\"\",\"logprobs\":null";
    if (c->finish == ENGINE_FAILED || c->finish == ENGINE_CANCELLED) {
        json_t *error = http_error_json(MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, NULL, c->why);
        char *text = error ? json_dumps(error, JSON_COMPACT) : NULL;
        const int failed = !text || http_text_print(&c->sse, "data: %s\n\n", text);
        json_decref(error);
        free(text);
        return failed ? -1 : 0;
    }
    char *figures = figures_text(c);
    if (!figures) return -1;
    /* With usage asked for, figures stand in a chunk without choices, as OpenAI has it. */
    const char *last = figures + 1;
    const int failed =
        c->ask.include_usage
            ? http_text_print(
                &c->sse,
                "data: %s,\"choices\":[{\"index\":0,%s,\"finish_reason\":\"%s\"}]}\n\n"
                "data: %s,\"choices\":[],%s\n\ndata: [DONE]\n\n",
                c->chunk_head, empty, finish_name(c->finish), c->chunk_head, last)
            : http_text_print(&c->sse,
                              "data: %s,\"choices\":[{\"index\":0,%s,\"finish_reason\":\"%s\"}],%s"
                              "\n\ndata: [DONE]\n\n",
                              c->chunk_head, empty, finish_name(c->finish), last);
    free(figures);
    return failed;
}

int http_answer_chunks(struct http_call *c)
{
    uint32_t bytes;
    if (c->ended) return 0;
    if (chunk_head(c)) return -1;
    for (size_t at = 0; at < c->out.bytes; at += sizeof(bytes) + bytes) {
        memcpy(&bytes, c->out.at + at, sizeof(bytes));
        if (chunk_text(c, c->out.at + at + sizeof(bytes), bytes)) return -1;
    }
    c->out.bytes = 0;
    if (!c->done) return 0;
    c->ended = 1;
    /* An answer without text has its role, too. */
    if (c->ask.chat && !c->begun && chunk_text(c, "", 0)) return -1;
    return chunks_end(c);
}
