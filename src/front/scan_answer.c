/* scan_answer.c - answers of inference servers; see scan.h.
 *
 * Three layers, each fed by the one before: lines of server-sent events (or of NDJSON), the JSON
 * in them, and what its values mean. Rejected: buffering an event to parse it at its end; events
 * with log probabilities or images have no bound. */
#include <string.h>
#include <strings.h>

#include "base/array.h"
#include "base/utf8.h"
#include "front/scan.h"
#include "front/scan_names.h"

/* ---- What values mean --------------------------------------------------------------------- */

/* 1 if a non-empty string here is text of the answer, or part of a tool call. */
static int is_text_path(const struct sonde_json_scan *j)
{
    const uint64_t last = j->path & 0xff;
    switch (j->depth) {
    case 1:
        return last == NAME_content || last == NAME_response || last == NAME_thinking ||
               last == NAME_delta;
    case 2:
        if (sonde_scan_prefix(j, 1) == P1(message)) {
            return last == NAME_content || last == NAME_thinking;
        }
        if (sonde_scan_prefix(j, 1) == P1(delta)) {
            return last == NAME_text || last == NAME_thinking || last == NAME_partial_json;
        }
        return j->path == P2(token, text);
    case 3:
        if (j->path == P3(choices, any, text)) return 1;
        break;
    case 4:
        if (sonde_scan_prefix(j, 3) == P3(choices, any, delta)) {
            return last == NAME_content || last == NAME_reasoning_content ||
                   last == NAME_reasoning || last == NAME_refusal;
        }
        break;
    default: break;
    }
    const uint64_t four = sonde_scan_prefix(j, 4);
    return four == P4(choices, any, delta, tool_calls) ||
           four == P4(choices, any, delta, function_call) ||
           (four == P4(choices, any, delta, content) && last == NAME_text) ||
           sonde_scan_prefix(j, 2) == P2(message, tool_calls);
}

static void scan_answer_set_count(int64_t *out, const struct sonde_json_scan *j)
{
    const int64_t v = sonde_scan_count(j);
    if (v >= 0) *out = v;
}

static void set_ns(int64_t *out, const struct sonde_json_scan *j, double unit_ns)
{
    const int64_t v = sonde_scan_ns(j, unit_ns);
    if (v >= 0) *out = v;
}

/* usage.…, wherever it stands: `path` begins behind it and has `depth` steps. */
static void scan_answer_on_usage(struct sonde_scan_usage *u, const struct sonde_json_scan *j,
                                 uint64_t path, uint32_t depth)
{
    if (depth == 1) {
        switch (path) {
        case P1(prompt_tokens):
        case P1(input_tokens): scan_answer_set_count(&u->prompt_tokens, j); break;
        case P1(completion_tokens):
        case P1(output_tokens): scan_answer_set_count(&u->completion_tokens, j); break;
        case P1(cache_read_input_tokens): scan_answer_set_count(&u->cached_tokens, j); break;
        default: break;
        }
    } else if (depth == 2) {
        if (path == P2(prompt_tokens_details, cached_tokens) ||
            path == P2(input_tokens_details, cached_tokens)) {
            scan_answer_set_count(&u->cached_tokens, j);
        } else if (path == P2(completion_tokens_details, reasoning_tokens) ||
                   path == P2(output_tokens_details, reasoning_tokens)) {
            scan_answer_set_count(&u->reasoning_tokens, j);
        }
    }
}

/* Figures of llama.cpp (top level and timings) and Ollama (top level). */
static void on_engine_number(struct sonde_scan_answer *s, const struct sonde_json_scan *j)
{
    struct sonde_scan_usage *u = &s->usage;
    switch (j->depth == 1 ? j->path : 0) {
    case P1(tokens_evaluated):
    case P1(prompt_eval_count): scan_answer_set_count(&u->prompt_tokens, j); return;
    case P1(tokens_predicted):
    case P1(eval_count): scan_answer_set_count(&u->completion_tokens, j); return;
    case P1(load_duration): set_ns(&u->load_ns, j, 1); return;
    case P1(prompt_eval_duration): set_ns(&u->prompt_ns, j, 1); return;
    case P1(eval_duration): set_ns(&u->decode_ns, j, 1); return;
    default: break;
    }
    switch (j->depth == 2 ? j->path : 0) {
    case P2(timings, cache_n): scan_answer_set_count(&u->cached_tokens, j); break;
    case P2(timings, prompt_n): scan_answer_set_count(&s->processed_tokens, j); break;
    case P2(timings, prompt_ms): set_ns(&u->prompt_ns, j, 1e6); break;
    case P2(timings, predicted_n): scan_answer_set_count(&u->completion_tokens, j); break;
    case P2(timings, predicted_ms): set_ns(&u->decode_ns, j, 1e6); break;
    default: break;
    }
}

static void on_number(struct sonde_scan_answer *s, const struct sonde_json_scan *j)
{
    const uint64_t first = sonde_scan_prefix(j, 1), two = sonde_scan_prefix(j, 2);
    if (first == P1(usage)) {
        scan_answer_on_usage(&s->usage, j, j->path & ~(~0ull << 8 * (j->depth - 1)), j->depth - 1);
    } else if (two == P2(response, usage) || two == P2(message, usage)) {
        scan_answer_on_usage(&s->usage, j, j->path & ~(~0ull << 8 * (j->depth - 2)), j->depth - 2);
    } else {
        on_engine_number(s, j);
    }
}

static void scan_answer_set_error(struct sonde_scan_answer *s, const char *text, size_t len)
{
    int changed = 0;
    if (s->error[0]) return;
    s->error[sonde__utf8_copy(s->error, sizeof(s->error) - 1, text, len, &changed)] = 0;
}

/* Errors in the middle of a stream come as an event, after a status of 200. */
static void on_error(struct sonde_scan_answer *s, const struct sonde_json_scan *j,
                     enum sonde_json_type type)
{
    if (j->depth == 1 && j->path == P1(error)) {
        if (type == SONDE_JSON_OBJECT || (type == SONDE_JSON_STRING && j->len)) s->failed = 1;
    } else if (j->depth == 2 && (j->path == P2(error, type) || j->path == P2(error, code))) {
        if (type == SONDE_JSON_STRING || type == SONDE_JSON_NUMBER) {
            scan_answer_set_error(s, j->text, j->text_len);
        }
    }
}

/* Types of events, of OpenAI's responses and Anthropic's messages. */
static void on_type(struct sonde_scan_answer *s, const char *type)
{
    if (strcmp(type, "response.completed") == 0 || strcmp(type, "response.incomplete") == 0 ||
        strcmp(type, "message_stop") == 0) {
        s->complete = 1;
    } else if (strcmp(type, "response.failed") == 0) {
        s->complete = s->failed = 1;
    }
}

static void scan_answer_on_value(void *arg, const struct sonde_json_scan *j,
                                 enum sonde_json_type type)
{
    struct sonde_scan_answer *s = arg;
    if (j->depth == 0) return;
    if (sonde_scan_prefix(j, 1) == P1(error)) {
        on_error(s, j, type);
    } else if (type == SONDE_JSON_STRING) {
        if (j->len && is_text_path(j)) s->has_text = 1;
        if (j->depth == 1 && j->path == P1(type)) on_type(s, j->text);
        if (j->depth == 1 && j->path == P1(model)) memcpy(s->model, j->text, j->text_len + 1);
    } else if (type == SONDE_JSON_NUMBER) {
        on_number(s, j);
    } else if (type == SONDE_JSON_TRUE && j->depth == 1) {
        if (j->path == P1(done) || j->path == P1(stop)) s->complete = 1;
    }
}

/* ---- Events and lines --------------------------------------------------------------------- */

enum line_state { FIELD, DATA_BLANK, DATA, SKIP };

static const char done_mark[] = "[DONE]";

static void data_bytes(struct sonde_scan_answer *s, const char *data, size_t len)
{
    for (size_t i = 0; i < len && s->data_len < sizeof(done_mark); i++, s->data_len++) {
        if (s->data_len < sizeof(done_mark) - 1 && data[i] == done_mark[s->data_len]) s->done_len++;
    }
    s->has_data = 1;
    sonde_json_scan_feed(&s->json, data, len);
}

/* The document that was being read is over. 1 if it carried text. */
static unsigned scan_answer_end_event(struct sonde_scan_answer *s)
{
    unsigned text = 0;
    if (s->has_data) {
        const int marked = s->done_len == sizeof(done_mark) - 1 && s->data_len == s->done_len;
        if (marked) s->complete = 1;
        else if (!sonde_json_scan_end(&s->json)) s->bad++;
        text = s->has_text && s->format != SONDE_SCAN_JSON;
        s->chunks += text;
        sonde_json_scan_reset(&s->json);
    }
    s->has_text = s->has_data = 0;
    s->data_len = s->done_len = 0;
    return text;
}

/* The name of a line's field is complete, at a colon or the line's end. */
static void field_named(struct sonde_scan_answer *s)
{
    if (s->field_len == 4 && memcmp(s->field, "data", 4) == 0) {
        if (s->has_data) sonde_json_scan_feed(&s->json, "\n", 1); /* several make one */
        s->line_state = DATA_BLANK;
    } else {
        /* llama.cpp before 2025 told errors in a field of their own. */
        if (s->field_len == 5 && memcmp(s->field, "error", 5) == 0) s->failed = 1;
        s->line_state = SKIP;
    }
}

static unsigned line_end(struct sonde_scan_answer *s)
{
    const int empty = s->line_state == FIELD && s->field_len == 0;
    s->line_state = FIELD;
    s->field_len = 0;
    return empty ? scan_answer_end_event(s) : 0;
}

static size_t until_line_end(const char *data, size_t len)
{
    size_t n = 0;
    while (n < len && data[n] != '\n' && data[n] != '\r') n++;
    return n;
}

/* One byte of a line that is neither data nor skipped. */
static void field_byte(struct sonde_scan_answer *s, char c)
{
    static const char bom[] = "\xef\xbb\xbf";
    if (s->bytes < 3 && c == bom[s->bytes]) return;
    if (c == ':') {
        field_named(s);
    } else if (s->field_len < sizeof(s->field)) {
        s->field[s->field_len++] = c;
    }
}

static unsigned feed_sse(struct sonde_scan_answer *s, const char *data, size_t len)
{
    unsigned chunks = 0;
    for (size_t i = 0; i < len;) {
        const char c = data[i];
        const int lf_of_crlf = s->after_cr && c == '\n';
        s->after_cr = c == '\r';
        if (lf_of_crlf || c == '\n' || c == '\r') {
            if (!lf_of_crlf) chunks += line_end(s);
            i++, s->bytes++;
            continue;
        }
        if (s->line_state == FIELD || (s->line_state == DATA_BLANK && c == ' ')) {
            if (s->line_state == FIELD) field_byte(s, c);
            else s->line_state = DATA;
            i++, s->bytes++;
            continue;
        }
        if (s->line_state == DATA_BLANK) s->line_state = DATA;
        const size_t n = until_line_end(data + i, len - i);
        if (s->line_state == DATA) data_bytes(s, data + i, n);
        i += n, s->bytes += n;
    }
    return chunks;
}

static unsigned feed_ndjson(struct sonde_scan_answer *s, const char *data, size_t len)
{
    unsigned chunks = 0;
    while (len) {
        const char *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;
        size_t blank = 0;
        while (!s->has_data && blank < n && (data[blank] == '\r' || data[blank] == ' ')) blank++;
        if (blank < n) data_bytes(s, data + blank, n - blank);
        if (end) {
            chunks += scan_answer_end_event(s);
            n++;
        }
        data += n;
        len -= n;
    }
    return chunks;
}

/* ---- The whole ---------------------------------------------------------------------------- */

enum sonde_scan_format sonde_scan_format_of(const char *content_type, size_t len)
{
    static const struct { const char *type; enum sonde_scan_format format; } known[] = {
        { "text/event-stream", SONDE_SCAN_SSE },   { "application/x-ndjson", SONDE_SCAN_NDJSON },
        { "application/jsonl", SONDE_SCAN_NDJSON }, { "application/json-lines", SONDE_SCAN_NDJSON },
        { "application/json", SONDE_SCAN_JSON },   { "application/problem+json", SONDE_SCAN_JSON },
    };
    size_t n = 0;
    while (content_type && n < len && content_type[n] != ';' && content_type[n] != ' ') n++;
    for (size_t i = 0; n && i < SONDE_COUNT(known); i++) {
        if (strlen(known[i].type) == n && strncasecmp(known[i].type, content_type, n) == 0) {
            return known[i].format;
        }
    }
    return SONDE_SCAN_NOTHING;
}

void sonde_scan_answer_init(struct sonde_scan_answer *s, enum sonde_scan_format format)
{
    *s = (struct sonde_scan_answer){ .format = format, .processed_tokens = -1,
                                     .usage = { -1, -1, -1, -1, -1, -1, -1 } };
    sonde_json_scan_init(&s->json, &sonde_scan_names, scan_answer_on_value, s);
}

unsigned sonde_scan_answer_feed(struct sonde_scan_answer *s, const char *data, size_t len)
{
    if (!len) return 0;
    switch (s->format) {
    case SONDE_SCAN_SSE: return feed_sse(s, data, len);
    case SONDE_SCAN_NDJSON: return feed_ndjson(s, data, len);
    case SONDE_SCAN_JSON:
        data_bytes(s, data, len);
        return 0;
    case SONDE_SCAN_NOTHING: break;
    }
    return 0;
}

unsigned sonde_scan_answer_end(struct sonde_scan_answer *s)
{
    const unsigned chunks = scan_answer_end_event(s);
    struct sonde_scan_usage *u = &s->usage;
    if (u->prompt_tokens < 0 && s->processed_tokens >= 0) {
        u->prompt_tokens = s->processed_tokens + (u->cached_tokens > 0 ? u->cached_tokens : 0);
    }
    if (s->format == SONDE_SCAN_JSON && !s->bad) s->complete = 1;
    return chunks;
}
