/* pages.c - the short answers: models, health, tokenize, detokenize. */
#include <stdlib.h>
#include <string.h>

#include "http/server_private.h"

enum { TOKENS_MAX = 1 << 20, PIECE_MAX = 512 };

enum MHD_Result http_models(struct http_call *c)
{
    const struct model *m = engine_model(c->server->engine);
    json_t *meta = json_pack("{s:i,s:i,s:i,s:i,s:I,s:s}", "n_vocab", (int)m->vocab, "n_ctx",
                             (int)engine_context(c->server->engine), "n_ctx_train", (int)m->context,
                             "n_embd", (int)m->embd, "size", (json_int_t)m->weight_bytes, "type",
                             m->type);
    return http_reply_json(c, MHD_HTTP_OK,
                           json_pack("{s:s,s:[{s:s,s:s,s:I,s:s,s:o}]}", "object", "list", "data",
                                     "id", m->name, "object", "model", "created",
                                     (json_int_t)c->server->started, "owned_by", "sonde-engine",
                                     "meta", meta));
}

enum MHD_Result http_health(struct http_call *c)
{
    struct engine *e = c->server->engine;
    const int stopping = __atomic_load_n(&c->server->stopping, __ATOMIC_RELAXED);
    struct engine_counts n;
    engine_counts(e, &n);
    json_t *counts = json_pack("{s:I,s:I,s:I,s:I,s:I}", "running", (json_int_t)n.running, "waiting",
                               (json_int_t)n.waiting, "done", (json_int_t)n.done, "failed",
                               (json_int_t)n.failed, "cancelled", (json_int_t)n.cancelled);
    return http_reply_json(c, stopping ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_OK,
                           json_pack("{s:s,s:i,s:i,s:s,s:o,s:I,s:I}", "status",
                                     stopping ? "stopping" : "ok", "slots", (int)engine_slots(e),
                                     "threads", (int)engine_threads(e), "device",
                                     engine_device_name(e), "requests", counts,
                                     "tokens_in", (json_int_t)n.tokens_in, "tokens_out",
                                     (json_int_t)n.tokens_out));
}

/* The body's object, or NULL and the answer is sent. */
static json_t *body_object(struct http_call *c, enum MHD_Result *sent)
{
    json_error_t wrong;
    json_t *root = json_loadb(c->body.at ? c->body.at : "", c->body.bytes, 0, &wrong);
    if (json_is_object(root)) return root;
    *sent = root ? http_reply_error(c, MHD_HTTP_BAD_REQUEST, NULL, NULL,
                                    "the body has to be a JSON object")
                 : http_reply_error(c, MHD_HTTP_BAD_REQUEST, NULL, NULL,
                                    "the body is not JSON: %s, in line %d, column %d", wrong.text,
                                    wrong.line, wrong.column);
    json_decref(root);
    return NULL;
}

static int http_pages_flag(const json_t *root, const char *name, int otherwise)
{
    const json_t *v = json_object_get(root, name);
    return json_is_boolean(v) ? json_is_true(v) : otherwise;
}

/* As llama.cpp's server: content; add_special (false), parse_special (true). */
enum MHD_Result http_tokenize(struct http_call *c)
{
    enum MHD_Result result = MHD_NO;
    json_t *root = body_object(c, &result);
    if (!root) return result;
    const json_t *content = json_object_get(root, "content");
    const unsigned flags = (http_pages_flag(root, "add_special", 0) ? TOKENIZE_BOS : 0u) |
                           (http_pages_flag(root, "parse_special", 1) ? TOKENIZE_SPECIAL : 0u);
    const size_t bytes = json_string_length(content), room = bytes + 16;
    if (!json_is_string(content)) {
        json_decref(root);
        return http_reply_error(c, MHD_HTTP_BAD_REQUEST, "content", NULL,
                                "content has to be a string");
    }
    /* A token is made of a byte at least, but for those added at the ends. */
    int32_t *tokens = malloc(room * sizeof(*tokens));
    size_t count = 0;
    if (tokens && !tokenizer_encode(engine_tokenizer(c->server->engine), json_string_value(content),
                                    bytes, flags, tokens, room, &count)) {
        json_t *list = json_array();
        if (count > room) count = room;
        for (size_t i = 0; i < count; i++) json_array_append_new(list, json_integer(tokens[i]));
        result = http_reply_json(
            c, MHD_HTTP_OK, json_pack("{s:o,s:I}", "tokens", list, "count", (json_int_t)count));
    } else {
        result = http_reply_error(c, MHD_HTTP_INTERNAL_SERVER_ERROR, NULL, NULL, "out of memory");
    }
    free(tokens);
    json_decref(root);
    return result;
}

enum MHD_Result http_detokenize(struct http_call *c)
{
    enum MHD_Result result = MHD_NO;
    json_t *root = body_object(c, &result);
    if (!root) return result;
    const struct tokenizer *t = engine_tokenizer(c->server->engine);
    const json_t *list = json_object_get(root, "tokens");
    struct http_text all = { 0 };
    struct text_stream stream;
    const char *text, *wrong = json_is_array(list) && json_array_size(list) <= TOKENS_MAX ? NULL
                               : "tokens has to be an array of tokens";
    text_stream_init(&stream, NULL, 0);
    for (size_t i = 0; !wrong && i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        const json_int_t token = json_integer_value(v);
        char piece[PIECE_MAX];
        if (!json_is_integer(v) || token < 0 || token >= tokenizer_size(t)) {
            wrong = "tokens has one that is not of the vocabulary";
            break;
        }
        size_t bytes = tokenizer_piece(t, (int32_t)token, 1, piece, sizeof(piece));
        if (bytes > sizeof(piece)) bytes = sizeof(piece);
        const long n = text_stream_add(&stream, piece, bytes, &text);
        if (n > 0) http_text_add(&all, text, (size_t)n);
    }
    const long n = text_stream_end(&stream, &text);
    if (n > 0) http_text_add(&all, text, (size_t)n);
    result = wrong ? http_reply_error(c, MHD_HTTP_BAD_REQUEST, "tokens", NULL, "%s", wrong)
                   : http_reply_json(c, MHD_HTTP_OK,
                                     json_pack("{s:o}", "content",
                                               json_stringn(all.at ? all.at : "", all.bytes)));
    text_stream_release(&stream);
    free(all.at);
    json_decref(root);
    return result;
}
