/* load_event.c - what one event of an answer says; see load_answer.h.
 *
 * A table of names by place: OpenAI's chat, completions and responses, llama.cpp's /completion,
 * Ollama's /api/chat and /api/generate, TGI's /generate_stream, Anthropic's messages. They are told
 * apart by nothing but what is in them, since servers mix them freely. */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/json_read.h"
#include "bench/http/load_answer.h"

enum event_place {
    NOWHERE, TOP, CHOICE, DELTA, PART, USAGE, DETAILS, TIMINGS, TGI_TOKEN, TGI_DETAILS,
};

enum event_number {
    NO_NUMBER, PROMPT_TOKENS, OUTPUT_TOKENS, CACHED_TOKENS, REASONING_TOKENS, PROCESSED_TOKENS,
};

/* What a member means, by the type that its value has. */
static const struct event_name {
    uint8_t in;        /* enum event_place */
    uint8_t text;      /* a string that is not empty says this */
    uint8_t yes;       /* true says this */
    uint8_t inner;     /* an object, or objects in an array, that are not empty say this … */
    uint8_t to;        /* … and are looked into, as this place */
    uint8_t number;    /* enum event_number */
    uint8_t len;
    const char *name;
} event_names[] = {
#define NAME(name) sizeof(name) - 1, name
    { TOP, 0, 0, 0, CHOICE, 0, NAME("choices") },
    { TOP, LOAD_SAYS_TEXT, 0, 0, NOWHERE, 0, NAME("content") },
    { TOP, LOAD_SAYS_TEXT, 0, 0, TOP, 0, NAME("response") },
    { TOP, LOAD_SAYS_REASONING, 0, 0, NOWHERE, 0, NAME("thinking") },
    { TOP, LOAD_SAYS_REASONING, 0, 0, NOWHERE, 0, NAME("reasoning_content") },
    { TOP, LOAD_SAYS_TEXT, 0, 0, DELTA, 0, NAME("delta") },
    { TOP, 0, 0, 0, DELTA, 0, NAME("message") },
    { TOP, 0, 0, 0, USAGE, 0, NAME("usage") },
    { TOP, 0, 0, 0, TIMINGS, 0, NAME("timings") },
    { TOP, 0, 0, 0, TGI_TOKEN, 0, NAME("token") },
    { TOP, 0, 0, 0, TGI_DETAILS, 0, NAME("details") },
    { TOP, LOAD_SAYS_END, 0, 0, NOWHERE, 0, NAME("generated_text") },
    { TOP, 0, LOAD_SAYS_END, 0, NOWHERE, 0, NAME("stop") },
    { TOP, 0, LOAD_SAYS_END, 0, NOWHERE, 0, NAME("done") },
    { TOP, LOAD_SAYS_ERROR, 0, LOAD_SAYS_ERROR, NOWHERE, 0, NAME("error") },
    { TOP, 0, 0, 0, NOWHERE, PROMPT_TOKENS, NAME("prompt_eval_count") },
    { TOP, 0, 0, 0, NOWHERE, OUTPUT_TOKENS, NAME("eval_count") },
    { TOP, 0, 0, 0, NOWHERE, PROMPT_TOKENS, NAME("tokens_evaluated") },
    { TOP, 0, 0, 0, NOWHERE, OUTPUT_TOKENS, NAME("tokens_predicted") },
    { CHOICE, 0, 0, 0, DELTA, 0, NAME("delta") },
    { CHOICE, 0, 0, 0, DELTA, 0, NAME("message") },
    { CHOICE, LOAD_SAYS_TEXT, 0, 0, NOWHERE, 0, NAME("text") },
    { CHOICE, LOAD_SAYS_END, 0, 0, NOWHERE, 0, NAME("finish_reason") },
    { DELTA, LOAD_SAYS_TEXT, 0, 0, PART, 0, NAME("content") },
    { DELTA, LOAD_SAYS_TEXT, 0, 0, NOWHERE, 0, NAME("text") },
    { DELTA, LOAD_SAYS_TEXT, 0, 0, NOWHERE, 0, NAME("refusal") },
    { DELTA, LOAD_SAYS_REASONING, 0, 0, NOWHERE, 0, NAME("reasoning_content") },
    { DELTA, LOAD_SAYS_REASONING, 0, 0, NOWHERE, 0, NAME("reasoning") },
    { DELTA, LOAD_SAYS_REASONING, 0, 0, NOWHERE, 0, NAME("thinking") },
    { DELTA, LOAD_SAYS_TOOL, 0, 0, NOWHERE, 0, NAME("partial_json") },
    { DELTA, 0, 0, LOAD_SAYS_TOOL, NOWHERE, 0, NAME("tool_calls") },
    { DELTA, 0, 0, LOAD_SAYS_TOOL, NOWHERE, 0, NAME("function_call") },
    { DELTA, 0, 0, 0, USAGE, 0, NAME("usage") },
    { PART, LOAD_SAYS_TEXT, 0, 0, NOWHERE, 0, NAME("text") },
    { USAGE, 0, 0, 0, NOWHERE, PROMPT_TOKENS, NAME("prompt_tokens") },
    { USAGE, 0, 0, 0, NOWHERE, PROMPT_TOKENS, NAME("input_tokens") },
    { USAGE, 0, 0, 0, NOWHERE, OUTPUT_TOKENS, NAME("completion_tokens") },
    { USAGE, 0, 0, 0, NOWHERE, OUTPUT_TOKENS, NAME("output_tokens") },
    { USAGE, 0, 0, 0, NOWHERE, CACHED_TOKENS, NAME("cache_read_input_tokens") },
    { USAGE, 0, 0, 0, DETAILS, 0, NAME("prompt_tokens_details") },
    { USAGE, 0, 0, 0, DETAILS, 0, NAME("input_tokens_details") },
    { USAGE, 0, 0, 0, DETAILS, 0, NAME("completion_tokens_details") },
    { USAGE, 0, 0, 0, DETAILS, 0, NAME("output_tokens_details") },
    { DETAILS, 0, 0, 0, NOWHERE, CACHED_TOKENS, NAME("cached_tokens") },
    { DETAILS, 0, 0, 0, NOWHERE, REASONING_TOKENS, NAME("reasoning_tokens") },
    { TIMINGS, 0, 0, 0, NOWHERE, CACHED_TOKENS, NAME("cache_n") },
    { TIMINGS, 0, 0, 0, NOWHERE, PROCESSED_TOKENS, NAME("prompt_n") },
    { TIMINGS, 0, 0, 0, NOWHERE, OUTPUT_TOKENS, NAME("predicted_n") },
    { TGI_TOKEN, LOAD_SAYS_TEXT, 0, 0, NOWHERE, 0, NAME("text") },
    { TGI_DETAILS, 0, 0, 0, NOWHERE, OUTPUT_TOKENS, NAME("generated_tokens") },
    { TGI_DETAILS, 0, 0, 0, NOWHERE, PROMPT_TOKENS, NAME("input_length") },
#undef NAME
};

struct event_reader {
    struct sonde_json_reader json;
    struct load_event *event;
    unsigned says;
    const char *text, *text_end; /* of the only string that says a token; NULL = none yet */
    unsigned text_says, texts;
};

static void event_object(struct event_reader *e, enum event_place in);

static void event_count(struct event_reader *e, enum event_number number)
{
    struct sonde_load_record *r = e->event->record;
    uint64_t v;
    if (*e->json.at == '-') {
        sonde_json_skip(&e->json);
        return;
    }
    if (!sonde_json_number_u64(&e->json, &v) || v >= SONDE_LOAD_UNKNOWN) return;
    switch (number) {
    case PROMPT_TOKENS: r->prompt_tokens = (uint32_t)v; break;
    case OUTPUT_TOKENS: r->output_tokens = (uint32_t)v; break;
    case CACHED_TOKENS: r->cached_tokens = (uint32_t)v; break;
    case REASONING_TOKENS: r->reasoning_tokens = (uint32_t)v; break;
    case PROCESSED_TOKENS: e->event->processed_tokens = (uint32_t)v; break;
    case NO_NUMBER: break;
    }
}

/* What the source gets back as the answer's text; it is cut at the buffer's cap. */
static void event_keep(struct sonde_buf *text, const char *data, size_t len)
{
    const size_t room = text->max - text->len;
    sonde_buf_add(text, data, len < room ? len : room);
}

static void event_keep_string(struct event_reader *e)
{
    struct sonde_buf scratch;
    struct sonde_json_text t;
    sonde_buf_init(&scratch, LOAD_STASH_MAX);
    if (sonde_json_string(&e->json, &scratch, &t)) event_keep(e->event->text, t.s, t.len);
    sonde_buf_release(&scratch);
}

static void event_string(struct event_reader *e, const struct event_name *n)
{
    const char *from = e->json.at + 1;
    const int empty = from < e->json.end && *from == '"';
    if (empty || !n->text) {
        sonde_json_skip(&e->json);
        return;
    }
    e->says |= n->text;
    if (n->text == LOAD_SAYS_TEXT && e->event->text) event_keep_string(e);
    else sonde_json_skip(&e->json);
    if (n->text & LOAD_SAYS_TOKEN) {
        e->texts++;
        e->text = from;
        e->text_end = e->json.at - 1;
        e->text_says = n->text;
    }
}

static void event_array(struct event_reader *e, enum event_place to)
{
    if (!sonde_json_enter(&e->json, '[')) return;
    while (sonde_json_element(&e->json)) {
        if (to && sonde_json_peek(&e->json) == '{') event_object(e, to);
        else sonde_json_skip(&e->json);
    }
}

/* 1 if the object or array that comes has something in it. */
static int event_is_filled(const struct sonde_json_reader *json)
{
    const char *at = json->at + 1;
    while (at < json->end && strchr(" \t\r\n", *at)) at++;
    return at < json->end && *at != ']' && *at != '}';
}

static void event_value(struct event_reader *e, const struct event_name *n)
{
    const char c = sonde_json_peek(&e->json);
    switch (c) {
    case '"': event_string(e, n); return;
    case '{':
    case '[':
        if (n->inner && event_is_filled(&e->json)) e->says |= n->inner;
        if (!n->to) break;
        if (c == '{') event_object(e, n->to);
        else event_array(e, n->to);
        return;
    case '0':
        if (!n->number) break;
        event_count(e, n->number);
        return;
    case 't': e->says |= n->yes; break;
    default: break;
    }
    sonde_json_skip(&e->json);
}

/* Events of OpenAI's responses and Anthropic's messages have a type. */
static void event_type(struct event_reader *e)
{
    static const struct { const char *type; unsigned says; } types[] = {
        { "response.completed", LOAD_SAYS_END }, { "response.incomplete", LOAD_SAYS_END },
        { "message_stop", LOAD_SAYS_END },       { "response.failed", LOAD_SAYS_ERROR },
    };
    const char *from = e->json.at + 1;
    sonde_json_skip(&e->json);
    if (e->json.error) return;
    const struct sonde_json_text t = { from, (size_t)(e->json.at - 1 - from) };
    for (size_t i = 0; i < SONDE_COUNT(types); i++) {
        if (sonde_json_text_is(t, types[i].type)) e->says |= types[i].says;
    }
}

static void event_object(struct event_reader *e, enum event_place in)
{
    struct sonde_json_text key;
    if (!sonde_json_enter(&e->json, '{')) return;
    while (sonde_json_member(&e->json, &key)) {
        const struct event_name *found = NULL;
        for (size_t i = 0; i < SONDE_COUNT(event_names) && !found; i++) {
            const struct event_name *n = &event_names[i];
            if (n->in == in && n->len == key.len && !memcmp(n->name, key.s, key.len)) found = n;
        }
        if (found) event_value(e, found);
        else if (in == TOP && sonde_json_text_is(key, "type") && sonde_json_peek(&e->json) == '"')
            event_type(e);
        else sonde_json_skip(&e->json);
    }
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

static void event_learn(struct load_shape *s, const struct event_reader *e, const char *data,
                        size_t len, unsigned says)
{
    s->says = 0;
    if (e->texts != 1) return;
    const size_t before = (size_t)(e->text - data), behind = (size_t)(data + len - e->text_end);
    if (before + behind > LOAD_SHAPE_MAX ||
        SONDE_ARRAY_RESERVE(s->bytes, s->cap, before + behind)) return;
    memcpy(s->bytes, data, before);
    memcpy(s->bytes + before, e->text_end, behind);
    s->before = (uint32_t)before;
    s->behind = (uint32_t)behind;
    s->says = says;
}

/* 1 if the event is the last one with another text. */
static int event_has_shape(const struct load_shape *s, const char *data, size_t len)
{
    if (!s->says || len <= (size_t)s->before + s->behind) return 0;
    const char *text = data + s->before;
    const size_t text_len = len - s->before - s->behind;
    return !memcmp(data, s->bytes, s->before) &&
           !memcmp(data + len - s->behind, s->bytes + s->before, s->behind) &&
           !memchr(text, '"', text_len) && !memchr(text, '\\', text_len);
}

unsigned load_event_read(struct load_event *event, const char *data, size_t len)
{
    struct load_shape *shape = &event->shape;
    if (event_has_shape(shape, data, len)) {
        if (event->text && (shape->says & LOAD_SAYS_TEXT)) {
            event_keep(event->text, data + shape->before, len - shape->before - shape->behind);
        }
        return shape->says;
    }
    struct event_reader e = { .event = event };
    const size_t kept = event->text ? event->text->len : 0;
    sonde_json_reader_init(&e.json, data, len);
    const char c = sonde_json_peek(&e.json);
    if (c == '{') event_object(&e, TOP);
    else if (c == '[') event_array(&e, TOP);
    else return LOAD_SAYS_BAD;
    if (e.json.error || !sonde_json_at_end(&e.json)) {
        if (event->text) event->text->len = kept;
        return LOAD_SAYS_BAD;
    }
    event_learn(shape, &e, data, len, e.says);
    return e.says;
}
