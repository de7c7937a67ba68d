/* ask.c - see ask.h. A field that is null is as one that is not there; what is not known is passed
 * over, as clients send much that only some servers know. But what would change the answer and is
 * not supported is refused: an answer to another question is worse than none. */
#include "http/ask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int ask_fail(struct ask_error *e, const char *param, const char *text)
{
    e->param = param;
    return fail_set(&e->why, "%s", text);
}

/* NULL if it is not there. */
static const json_t *field_get(const json_t *object, const char *name)
{
    const json_t *v = json_object_get(object, name);
    return v && !json_is_null(v) ? v : NULL;
}

static int field_bool(const json_t *object, const char *name, int *out, struct ask_error *e)
{
    const json_t *v = field_get(object, name);
    if (!v) return 0;
    if (!json_is_boolean(v)) {
        e->param = name;
        return fail_set(&e->why, "%s has to be true or false", name);
    }
    *out = json_is_true(v);
    return 0;
}

static int field_number(const json_t *object, const char *name, double min, double max, float *out,
                        struct ask_error *e)
{
    const json_t *v = field_get(object, name);
    if (!v) return 0;
    const double d = json_is_number(v) ? json_number_value(v) : NAN;
    if (!(d >= min && d <= max)) {
        e->param = name;
        return fail_set(&e->why, "%s has to be a number from %g to %g", name, min, max);
    }
    *out = (float)d;
    return 0;
}

static int field_integer(const json_t *object, const char *name, json_int_t min, json_int_t max,
                         json_int_t *out, struct ask_error *e)
{
    const json_t *v = field_get(object, name);
    if (!v) return 0;
    if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max) {
        e->param = name;
        return fail_set(&e->why, "%s has to be a whole number from %lld to %lld", name,
                        (long long)min, (long long)max);
    }
    *out = json_integer_value(v);
    return 0;
}

/* ---- What is not supported ------------------------------------------------------------------ */

static int is_off(const json_t *v)
{
    if (json_is_number(v)) return json_number_value(v) == 0;
    if (json_is_array(v)) return json_array_size(v) == 0;
    if (json_is_object(v)) return json_object_size(v) == 0;
    return json_is_false(v);
}

static int unsupported_check(const json_t *root, struct ask_error *e)
{
    static const char *const fields[] = {
        "logprobs", "top_logprobs", "echo", "suffix", "tools", "functions", "logit_bias",
        "frequency_penalty", "presence_penalty", "grammar", "json_schema",
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const json_t *v = field_get(root, fields[i]);
        if (!v || is_off(v)) continue;
        e->param = fields[i];
        return fail_set(&e->why, "%s is not supported", fields[i]);
    }
    const json_t *format = field_get(root, "response_format");
    const char *type = json_string_value(json_object_get(format, "type"));
    if (format && (!type || strcmp(type, "text") != 0)) {
        return ask_fail(e, "response_format",
                        "response_format: only {\"type\": \"text\"} is supported");
    }
    json_int_t n = 1;
    if (field_integer(root, "n", 1, 1, &n, e)) return ask_fail(e, "n", "n has to be 1");
    if (field_integer(root, "best_of", 1, 1, &n, e))
        return ask_fail(e, "best_of", "best_of has to be 1");
    return 0;
}

/* ---- Messages ------------------------------------------------------------------------------- */

/* Texts of an array of parts, one after the other; NULL = one is not a text. Malloc'd. */
static char *parts_join(const json_t *parts)
{
    size_t bytes = 1;
    for (int pass = 0; pass < 2; pass++) {
        char *out = pass ? malloc(bytes) : NULL, *at = out;
        for (size_t i = 0; i < json_array_size(parts); i++) {
            const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
            const char *type = json_string_value(json_object_get(part, "type"));
            if (!type || strcmp(type, "text") != 0 || !json_is_string(text)) return NULL;
            if (!pass) bytes += json_string_length(text);
            else if (at) at = stpcpy(at, json_string_value(text));
        }
        if (at) *at = 0;
        if (pass) return out;
    }
    return NULL;
}

static int message_parse(const json_t *m, size_t i, struct chat_message *out, struct ask_error *e)
{
    static const char *const roles[] = { "system", "user", "assistant", "tool" };
    const char *role = json_string_value(json_object_get(m, "role"));
    const json_t *content = field_get(m, "content");
    e->param = "messages";
    if (!json_is_object(m)) return fail_set(&e->why, "messages[%zu] has to be an object", i);
    if (role && !strcmp(role, "developer")) role = "system";
    for (size_t k = 0; role && k < sizeof(roles) / sizeof(roles[0]); k++) {
        if (!strcmp(role, roles[k])) out->role = roles[k];
    }
    if (!out->role) {
        return fail_set(&e->why,
                        "messages[%zu].role has to be system, developer, user, assistant or "
                        "tool",
                        i);
    }
    if (!content && !strcmp(out->role, "assistant")) out->content = strdup("");
    else if (json_is_string(content)) out->content = strdup(json_string_value(content));
    else if (json_is_array(content)) out->content = parts_join(content);
    if (out->content) return 0;
    return fail_set(&e->why,
                    "messages[%zu].content has to be a string, or an array of parts of type "
                    "\"text\"",
                    i);
}

static int messages_parse(struct ask *a, struct ask_error *e)
{
    const json_t *messages = field_get(a->root, "messages");
    const size_t count = json_array_size(messages);
    if (!messages) return ask_fail(e, "messages", "messages is required");
    if (!json_is_array(messages) || !count) {
        return ask_fail(e, "messages", "messages has to be an array with at least one message");
    }
    if (count > ASK_MESSAGES_MAX) {
        e->param = "messages";
        return fail_set(&e->why, "messages has %zu messages, and at most %d are allowed", count,
                        ASK_MESSAGES_MAX);
    }
    a->messages = calloc(count, sizeof(*a->messages));
    if (!a->messages) return ask_fail(e, NULL, "out of memory");
    for (; a->messages_count < count; a->messages_count++) {
        const size_t i = a->messages_count;
        if (message_parse(json_array_get(messages, i), i, &a->messages[i], e)) return -1;
    }
    return 0;
}

/* ---- Prompts -------------------------------------------------------------------------------- */

static int tokens_parse(struct ask *a, const json_t *list, struct ask_error *e)
{
    const size_t count = json_array_size(list);
    e->param = "prompt";
    if (count > ASK_PROMPT_TOKENS_MAX) {
        return fail_set(&e->why, "prompt has %zu tokens, and at most %d are allowed", count,
                        ASK_PROMPT_TOKENS_MAX);
    }
    a->tokens = malloc(count * sizeof(*a->tokens));
    if (!a->tokens) return fail_set(&e->why, "out of memory");
    for (size_t i = 0; i < count; i++) {
        const json_t *v = json_array_get(list, i);
        const json_int_t token = json_integer_value(v);
        if (!json_is_integer(v) || token < 0 || token > INT32_MAX) {
            return fail_set(&e->why, "prompt[%zu] has to be a token: a whole number of 0 or more",
                            i);
        }
        a->tokens[i] = (int32_t)token;
    }
    a->tokens_count = count;
    return 0;
}

static int prompt_parse(struct ask *a, struct ask_error *e)
{
    const json_t *prompt = field_get(a->root, "prompt");
    if (!prompt) return ask_fail(e, "prompt", "prompt is required");
    if (json_array_size(prompt) == 1 && json_is_string(json_array_get(prompt, 0))) {
        prompt = json_array_get(prompt, 0);
    }
    if (json_array_size(prompt)) return tokens_parse(a, prompt, e);
    if (!json_is_string(prompt)) {
        return ask_fail(e, "prompt", "prompt has to be a string or an array of tokens");
    }
    a->prompt = json_string_value(prompt);
    a->prompt_bytes = json_string_length(prompt);
    return 0;
}

/* ---- Parameters ----------------------------------------------------------------------------- */

static int stop_add(struct ask *a, const json_t *v, struct ask_error *e)
{
    const size_t bytes = json_string_length(v);
    if (!json_is_string(v) || !bytes || bytes > TEXT_STOP_BYTES_MAX) {
        e->param = "stop";
        return fail_set(&e->why,
                        "stop has to be a string, or an array of strings, of 1 to %d bytes",
                        TEXT_STOP_BYTES_MAX);
    }
    a->stops[a->stops_count++] = json_string_value(v);
    return 0;
}

static int stops_parse(struct ask *a, struct ask_error *e)
{
    const json_t *stop = field_get(a->root, "stop");
    if (!stop) return 0;
    if (!json_is_array(stop)) return stop_add(a, stop, e);
    if (json_array_size(stop) > TEXT_STOPS_MAX) {
        e->param = "stop";
        return fail_set(&e->why, "stop has %zu strings, and at most %d are allowed",
                        json_array_size(stop), TEXT_STOPS_MAX);
    }
    for (size_t i = 0; i < json_array_size(stop); i++) {
        if (stop_add(a, json_array_get(stop, i), e)) return -1;
    }
    return 0;
}

/* -1 = as many as there is room for, as llama.cpp has it. */
static int tokens_max_parse(struct ask *a, struct ask_error *e)
{
    json_int_t max = a->chat ? -1 : 16;
    if (field_integer(a->root, "max_tokens", -1, INT32_MAX, &max, e) ||
        field_integer(a->root, "max_completion_tokens", -1, INT32_MAX, &max, e)) {
        return -1;
    }
    if (max == 0)
        return ask_fail(e, "max_tokens", "max_tokens has to be 1 or more, or -1 for no limit");
    a->tokens_max = max < 0 ? 0 : (uint32_t)max;
    return 0;
}

static int params_parse(struct ask *a, struct ask_error *e)
{
    json_int_t top_k = 0, seed = 0;
    const json_t *options = field_get(a->root, "stream_options"),
                 *model = field_get(a->root, "model");
    a->sampler = (struct sampler_params){ .temperature = 1, .top_p = 1 };
    if (model && !json_is_string(model)) return ask_fail(e, "model", "model has to be a string");
    if (options && !json_is_object(options)) {
        return ask_fail(e, "stream_options", "stream_options has to be an object");
    }
    if (field_bool(a->root, "stream", &a->stream, e) ||
        field_bool(options, "include_usage", &a->include_usage, e) ||
        field_bool(a->root, "ignore_eos", &a->ignore_eos, e) ||
        field_number(a->root, "temperature", 0, 100, &a->sampler.temperature, e) ||
        field_number(a->root, "top_p", 0, 1, &a->sampler.top_p, e) ||
        field_number(a->root, "min_p", 0, 1, &a->sampler.min_p, e) ||
        field_integer(a->root, "top_k", 0, INT32_MAX, &top_k, e) ||
        field_integer(a->root, "seed", INT64_MIN, INT64_MAX, &seed, e) || tokens_max_parse(a, e) ||
        stops_parse(a, e)) {
        return -1;
    }
    a->sampler.top_k = (uint32_t)top_k;
    a->sampler.seed = (uint64_t)seed;
    a->seed_set = field_get(a->root, "seed") != NULL;
    return 0;
}

int ask_parse(struct ask *a, int chat, const char *body, size_t bytes, struct ask_error *error)
{
    json_error_t wrong;
    *error = (struct ask_error){ 0 };
    *a = (struct ask){ .chat = chat };
    a->root = json_loadb(body ? body : "", bytes, 0, &wrong);
    if (!a->root) {
        return fail_set(&error->why, "the body is not JSON: %s, in line %d, column %d", wrong.text,
                        wrong.line, wrong.column);
    }
    if (!json_is_object(a->root)) return ask_fail(error, NULL, "the body has to be a JSON object");
    if (unsupported_check(a->root, error) || params_parse(a, error)) return -1;
    return chat ? messages_parse(a, error) : prompt_parse(a, error);
}

void ask_release(struct ask *a)
{
    for (size_t i = 0; i < a->messages_count; i++) free((void *)(uintptr_t)a->messages[i].content);
    free(a->messages);
    free(a->tokens);
    json_decref(a->root);
    *a = (struct ask){ 0 };
}
