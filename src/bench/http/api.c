/* api.c - see api.h. */
#include "bench/http/api.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "bench/http/load.h"

static const struct { const char *name, *streaming, *whole; } api_rows[] = {
#define SONDE__X(id, name, streaming, whole) { name, streaming, whole },
    SONDE_LOAD_APIS(SONDE__X)
#undef SONDE__X
};

int sonde_load_api_find(const char *name)
{
    for (size_t i = 0; i < SONDE_COUNT(api_rows); i++) {
        if (!strcmp(api_rows[i].name, name)) return (int)i;
    }
    return -1;
}

static int api_path_ends(const char *path, size_t len, const char *end)
{
    const size_t n = strlen(end);
    return len >= n && !memcmp(path + len - n, end, n);
}

int sonde_load_api_of_path(const char *path)
{
    size_t len = strcspn(path, "?#");
    while (len && path[len - 1] == '/') len--;
    if (!len) return -1;
    for (size_t i = 0; i < SONDE_COUNT(api_rows); i++) {
        if (api_path_ends(path, len, api_rows[i].streaming) ||
            api_path_ends(path, len, api_rows[i].whole)) {
            return (int)i;
        }
    }
    /* Behind a prefix of a gateway's own. */
    if (api_path_ends(path, len, "/chat/completions")) return SONDE_LOAD_API_OPENAI_CHAT;
    if (api_path_ends(path, len, "/completions")) return SONDE_LOAD_API_OPENAI_COMPLETIONS;
    return -1;
}

const char *sonde_load_api_name(enum sonde_load_api api) { return api_rows[api].name; }

const char *sonde_load_api_path(enum sonde_load_api api, int stream)
{
    return stream ? api_rows[api].streaming : api_rows[api].whole;
}

int sonde_load_api_chats(enum sonde_load_api api)
{
    return api == SONDE_LOAD_API_OPENAI_CHAT || api == SONDE_LOAD_API_OLLAMA_CHAT;
}

int sonde_load_api_ignores_eos(enum sonde_load_api api)
{
    return api == SONDE_LOAD_API_OPENAI_CHAT || api == SONDE_LOAD_API_OPENAI_COMPLETIONS ||
           api == SONDE_LOAD_API_LLAMA;
}

/* ---- Bodies ---------------------------------------------------------------------------------- */

static void api_put_messages(const struct sonde_load_ask *ask, struct sonde_buf *out)
{
    sonde_json_key_open(out, "messages", '[');
    for (size_t i = 0; i < ask->message_count; i++) {
        sonde_json_open(out, '{');
        sonde_json_str(out, "role", ask->messages[i].role);
        sonde_json_key(out, "content");
        sonde_buf_json_str(out, ask->messages[i].text, ask->messages[i].len);
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, ']');
}

/* Messages as one text, a blank line between them. */
static void api_put_text(const struct sonde_load_ask *ask, const char *key, struct sonde_buf *out)
{
    sonde_json_key(out, key);
    if (ask->message_count == 1) {
        sonde_buf_json_str(out, ask->messages[0].text, ask->messages[0].len);
        return;
    }
    struct sonde_buf joined;
    sonde_buf_init(&joined, SONDE_LOAD_BODY_MAX);
    for (size_t i = 0; i < ask->message_count; i++) {
        if (i) sonde_buf_puts(&joined, "\n\n");
        sonde_buf_add(&joined, ask->messages[i].text, ask->messages[i].len);
    }
    sonde_buf_json_str(out, joined.data ? joined.data : "", joined.len);
    if (joined.error && !out->error) out->error = joined.error;
    sonde_buf_release(&joined);
}

static void api_put_openai(const struct sonde_load_ask *ask, struct sonde_buf *out)
{
    if (ask->model) sonde_json_str(out, "model", ask->model);
    if (sonde_load_api_chats(ask->api)) api_put_messages(ask, out);
    else api_put_text(ask, "prompt", out);
    if (ask->max_tokens) sonde_json_u64(out, "max_tokens", ask->max_tokens);
    sonde_json_bool(out, "stream", ask->stream);
    if (ask->stream && !ask->plain) {
        sonde_json_key_open(out, "stream_options", '{');
        sonde_json_bool(out, "include_usage", 1);
        sonde_json_close(out, '}');
    }
    if (ask->ignore_eos) sonde_json_bool(out, "ignore_eos", 1);
    if (ask->seed >= 0) sonde_json_u64(out, "seed", (uint64_t)ask->seed);
}

static void api_put_ollama(const struct sonde_load_ask *ask, struct sonde_buf *out)
{
    if (ask->model) sonde_json_str(out, "model", ask->model);
    if (ask->api == SONDE_LOAD_API_OLLAMA_CHAT) api_put_messages(ask, out);
    else api_put_text(ask, "prompt", out);
    sonde_json_bool(out, "stream", ask->stream);
    sonde_json_key_open(out, "options", '{');
    if (ask->max_tokens) sonde_json_u64(out, "num_predict", ask->max_tokens);
    if (ask->seed >= 0) sonde_json_u64(out, "seed", (uint64_t)ask->seed);
    sonde_json_close(out, '}');
}

static void api_put_llama(const struct sonde_load_ask *ask, struct sonde_buf *out)
{
    api_put_text(ask, "prompt", out);
    if (ask->max_tokens) sonde_json_u64(out, "n_predict", ask->max_tokens);
    sonde_json_bool(out, "stream", ask->stream);
    sonde_json_bool(out, "cache_prompt", 1);
    if (ask->ignore_eos) sonde_json_bool(out, "ignore_eos", 1);
    if (ask->seed >= 0) sonde_json_u64(out, "seed", (uint64_t)ask->seed);
}

static void api_put_tgi(const struct sonde_load_ask *ask, struct sonde_buf *out)
{
    api_put_text(ask, "inputs", out);
    sonde_json_key_open(out, "parameters", '{');
    if (ask->max_tokens) sonde_json_u64(out, "max_new_tokens", ask->max_tokens);
    if (!ask->stream && !ask->plain) {
        sonde_json_bool(out, "details", 1);
        sonde_json_bool(out, "decoder_input_details", 1);
    }
    if (ask->seed >= 0) sonde_json_u64(out, "seed", (uint64_t)ask->seed);
    sonde_json_close(out, '}');
}

void sonde_load_api_body(const struct sonde_load_ask *ask, struct sonde_buf *out)
{
    sonde_buf_putc(out, '{');
    switch (ask->api) {
    case SONDE_LOAD_API_OPENAI_CHAT:
    case SONDE_LOAD_API_OPENAI_COMPLETIONS: api_put_openai(ask, out); break;
    case SONDE_LOAD_API_LLAMA: api_put_llama(ask, out); break;
    case SONDE_LOAD_API_OLLAMA_CHAT:
    case SONDE_LOAD_API_OLLAMA_GENERATE: api_put_ollama(ask, out); break;
    case SONDE_LOAD_API_TGI: api_put_tgi(ask, out); break;
    case SONDE_LOAD_API_COUNT: break;
    }
    sonde_buf_putc(out, '}');
}

/* ---- Answers --------------------------------------------------------------------------------- */

static uint32_t api_count(const json_t *number)
{
    const json_int_t n = json_is_integer(number) ? json_integer_value(number) : -1;
    return n >= 0 && n < SONDE_LOAD_UNKNOWN ? (uint32_t)n : SONDE_LOAD_UNKNOWN;
}

uint32_t sonde_load_api_prompt_tokens(const char *answer, size_t len)
{
    uint32_t n = SONDE_LOAD_UNKNOWN;
    json_t *j = json_loadb(answer, len, JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *one = json_is_array(j) ? json_array_get(j, 0) : j;
    const json_t *details = json_object_get(one, "details");
    if (json_object_get(one, "usage")) {
        n = api_count(json_object_get(json_object_get(one, "usage"), "prompt_tokens"));
    } else if (json_object_get(one, "tokens_evaluated")) {
        n = api_count(json_object_get(one, "tokens_evaluated"));
    } else if (json_object_get(one, "prompt_eval_count")) {
        n = api_count(json_object_get(one, "prompt_eval_count"));
    } else if (json_is_array(json_object_get(details, "prefill"))) {
        n = (uint32_t)json_array_size(json_object_get(details, "prefill"));
    }
    json_decref(j);
    return n;
}

void sonde_load_api_error(const char *answer, size_t len, char *out, size_t size)
{
    json_t *j = json_loadb(answer, len, JSON_DISABLE_EOF_CHECK, NULL);
    const json_t *error = json_object_get(j, "error");
    const char *text = json_string_value(error);
    if (!text) text = json_string_value(json_object_get(error, "message"));
    if (!text) text = json_string_value(json_object_get(j, "message"));
    if (!text) text = json_string_value(json_object_get(j, "detail"));
    if (text) snprintf(out, size, "%s", text);
    else snprintf(out, size, "%.*s", (int)(len < 200 ? len : 200), j ? "" : answer);
    out[strcspn(out, "\r\n")] = '\0';
    json_decref(j);
}
