/* What the front reads out of requests and answers, whichever way they were cut. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/scan.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t seed = 7;
static size_t below(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

/* ---- Requests ------------------------------------------------------------------------------ */

static const struct {
    const char *text, *model;
    int stream;
    int64_t max;
} requests[] = {
    { "{\"model\":\"m\",\"stream\":true,\"max_tokens\":5}", "m", 1, 5 },
    { " { \"messages\" : [ {\"role\":\"user\",\"content\":\"{\\\"model\\\":\\\"no\\\"}\"} ] ,\n"
      "\"stream\":false, \"model\" : \"a\\/b\" }", "a/b", 0, -1 },
    { "{\"messages\":[{\"model\":\"no\",\"stream\":true,\"max_tokens\":1}],\"model\":\"yes\"}",
      "yes", -1, -1 },
    { "{\"model\":\"\\u00e9\\u20ac\",\"max_completion_tokens\":7}", "\xc3\xa9\xe2\x82\xac", -1, 7 },
    { "{\"model\":\"x\",\"options\":{\"num_predict\":9,\"stream\":false}}", "x", -1, 9 },
    { "{\"prompt\":\"a\",\"n_predict\":3,\"stream\":null}", "", -1, 3 },
    { "{\"parameters\":{\"max_new_tokens\":20}}", "", -1, 20 },
    { "{\"max_output_tokens\":1e3}", "", -1, 1000 },
    { "{\"max_tokens\":-4}", "", -1, -1 },
    { "{\"max_tokens\":1e400,\"model\":5,\"stream\":\"true\"}", "", -1, -1 },
    { "[\"model\",\"no\"]", "", -1, -1 },
    { "model=no&stream=true", "", -1, -1 },
    { "", "", -1, -1 },
    { "{\"model\":\"cut", "", -1, -1 },
};

static void test_requests(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(requests); i++) {
        const size_t len = strlen(requests[i].text);
        for (size_t piece = 0; piece <= len; piece++) {
            struct sonde_scan_request s;
            sonde_scan_request_init(&s);
            for (size_t at = 0, n; at < len; at += n) {
                n = piece ? piece : 1 + below(len);
                if (n > len - at) n = len - at;
                sonde_scan_request_feed(&s, requests[i].text + at, n);
            }
            assert_string_equal(s.model, requests[i].model);
            assert_int_equal(s.stream, requests[i].stream);
            assert_int_equal(s.max_tokens, requests[i].max);
        }
    }
}

static void test_request_is_bounded(void **state)
{
    (void)state;
    char *text = malloc(1 << 20);
    struct sonde_scan_request s;
    sonde_scan_request_init(&s);
    memset(text, 'x', 1 << 20);
    sonde_scan_request_feed(&s, "{\"a\":\"", 6);
    for (int i = 0; i < 9; i++) sonde_scan_request_feed(&s, text, 1 << 20);
    assert_true(s.over); /* what comes after is not looked at */
    sonde_scan_request_feed(&s, "\",\"model\":\"late\"}", 17);
    assert_string_equal(s.model, "");
    /* A name that is too long is cut, and is not overrun. */
    sonde_scan_request_init(&s);
    sonde_scan_request_feed(&s, "{\"model\":\"", 10);
    sonde_scan_request_feed(&s, text, 1000);
    sonde_scan_request_feed(&s, "\"}", 2);
    assert_int_equal(strlen(s.model), SONDE_JSON_TEXT_MAX);
    free(text);
}

/* ---- Answers ------------------------------------------------------------------------------- */

#define CHAT(content) "data: {\"choices\":[{\"index\":0,\"delta\":{" content "}}]}\n\n"
#define DONE_MARK "data: [DONE]\n\n"

static const struct answer_case {
    const char *name;
    enum sonde_scan_format format;
    const char *text;
    unsigned chunks, bad;
    int complete, failed;
    int64_t prompt, completion, cached;
    const char *error;
} answers[] = {
    { "chat", SONDE_SCAN_SSE,
      CHAT("\"role\":\"assistant\",\"content\":\"\"") CHAT("\"content\":\"a\"")
      CHAT("\"content\":\" \\u00e9\"") CHAT("") DONE_MARK, 2, 0, 1, 0, -1, -1, -1, "" },
    { "usage at the end", SONDE_SCAN_SSE,
      CHAT("\"content\":\"a\"") "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,"
      "\"completion_tokens\":2,\"prompt_tokens_details\":{\"cached_tokens\":8},"
      "\"completion_tokens_details\":{\"reasoning_tokens\":1}}}\n\n" DONE_MARK,
      1, 0, 1, 0, 11, 2, 8, "" },
    { "usage in each, null first", SONDE_SCAN_SSE,
      "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n"
      "data: {\"choices\":[{\"delta\":{\"content\":\"b\"}}],\"usage\":{\"prompt_tokens\":3,"
      "\"completion_tokens\":1}}\n\n"
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
      2, 0, 0, 0, 3, 2, -1, "" },
    { "reasoning, tools, refusal", SONDE_SCAN_SSE,
      CHAT("\"reasoning_content\":\"hm\"") CHAT("\"reasoning\":\"hm\"") CHAT("\"refusal\":\"no\"")
      CHAT("\"tool_calls\":[{\"index\":0,\"function\":{\"name\":\"f\",\"arguments\":\"\"}}]")
      CHAT("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\"}}]")
      CHAT("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\"}}]")
      CHAT("\"tool_calls\":[]") CHAT("\"function_call\":{\"arguments\":\"1\"}")
      CHAT("\"content\":[{\"type\":\"text\",\"text\":\"a\"}]")
      CHAT("\"content\":[{\"type\":\"text\",\"text\":\"\"}]"), 7, 0, 0, 0, -1, -1, -1, "" },
    { "line ends and comments", SONDE_SCAN_SSE,
      "\xef\xbb\xbf: ping\r\n\r\nevent: x\r\nid:1\r\ndata:{\"choices\":\r\n"
      "data: [{\"text\":\"a\"}]}\r\n\r\n"
      "data: {\"choices\":[{\"text\":\"b\"}]}\r\rdata: {\"choices\":[{\"text\":\"\"}]}\n\n:\n\n"
      "data\ndatax: {\"choices\":[{\"text\":\"c\"}]}\n\n"
      "data:  [DONE]\n\ndata: {\"choices\":[{\"text\":\"d\"}]}",
      3, 1, 0, 0, -1, -1, -1, "" },
    { "not JSON", SONDE_SCAN_SSE,
      "data: hello\n\ndata: {\"choices\":[{\"text\":\"a\"}]\n\ndata: \n\ndata:\n\n"
      CHAT("\"content\":\"a\""), 2, 2, 0, 0, -1, -1, -1, "" },
    { "error in the stream", SONDE_SCAN_SSE,
      CHAT("\"content\":\"a\"")
      "data: {\"error\":{\"message\":\"m\",\"type\":\"server_error\",\"code\":500}}\n\n",
      1, 0, 0, 1, -1, -1, -1, "server_error" },
    { "null error", SONDE_SCAN_SSE, "data: {\"error\":null,\"choices\":[]}\n\n", 0, 0, 0, 0, -1, -1,
      -1, "" },
    { "error field", SONDE_SCAN_SSE, "error: {\"code\":500}\n\n", 0, 0, 0, 1, -1, -1, -1, "" },
    { "responses", SONDE_SCAN_SSE,
      "event: response.created\ndata: {\"type\":\"response.created\","
      "\"response\":{\"usage\":null}}\n\n"
      "event: response.output_text.delta\n"
      "data: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n"
      "data: {\"type\":\"response.function_call_arguments.delta\",\"delta\":\"{\"}\n\n"
      "data: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":4,"
      "\"output_tokens\":2,\"input_tokens_details\":{\"cached_tokens\":1}}}}\n\n",
      2, 0, 1, 0, 4, 2, 1, "" },
    { "messages", SONDE_SCAN_SSE,
      "data: {\"type\":\"message_start\",\"message\":{\"content\":[],\"usage\":{\"input_tokens\":9,"
      "\"cache_read_input_tokens\":6,\"output_tokens\":1}}}\n\n"
      "data: {\"type\":\"content_block_start\",\"content_block\":{\"type\":\"text\","
      "\"text\":\"\"}}\n\n"
      "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\","
      "\"text\":\"Hi\"}}\n\n"
      "data: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":3}}\n\n"
      "data: {\"type\":\"message_stop\"}\n\n", 1, 0, 1, 0, 9, 3, 6, "" },
    { "llama.cpp", SONDE_SCAN_SSE,
      "data: {\"index\":0,\"content\":\"a\",\"stop\":false}\n\n"
      "data: {\"index\":0,\"content\":\"\",\"stop\":true,\"tokens_predicted\":1,"
      "\"tokens_evaluated\":12,\"timings\":{\"cache_n\":4,\"prompt_n\":8,\"prompt_ms\":2.5,"
      "\"predicted_n\":1,\"predicted_ms\":1.5}}\n\n", 1, 0, 1, 0, 12, 1, 4, "" },
    { "llama.cpp, only timings", SONDE_SCAN_SSE,
      "data: {\"choices\":[],\"timings\":{\"cache_n\":4,\"prompt_n\":8,\"predicted_n\":2}}\n\n",
      0, 0, 0, 0, 12, 2, 4, "" },
    { "tgi", SONDE_SCAN_SSE,
      "data:{\"token\":{\"id\":1,\"text\":\"a\",\"special\":false},\"generated_text\":null}\n\n",
      1, 0, 0, 0, -1, -1, -1, "" },
    { "ollama chat", SONDE_SCAN_NDJSON,
      "{\"message\":{\"role\":\"assistant\",\"content\":\"a\"},\"done\":false}\n"
      "{\"message\":{\"content\":\"\",\"thinking\":\"hm\"},\"done\":false}\r\n\n"
      "{\"message\":{\"content\":\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\"}}]},"
      "\"done\":false}\n"
      "{\"message\":{\"content\":\"\"},\"done\":true,\"total_duration\":9,\"load_duration\":5,"
      "\"prompt_eval_count\":26,\"prompt_eval_duration\":100,\"eval_count\":2,"
      "\"eval_duration\":300}\n", 3, 0, 1, 0, 26, 2, -1, "" },
    { "ollama generate, no newline at the end", SONDE_SCAN_NDJSON,
      "{\"response\":\"a\",\"done\":false}\n{\"response\":\"b\",\"done\":true}", 2, 0, 1, 0, -1, -1,
      -1, "" },
    { "ollama error", SONDE_SCAN_NDJSON, "{\"error\":\"model gone\"}\n", 0, 0, 0, 1, -1, -1,
      -1, "" },
    { "one document", SONDE_SCAN_JSON,
      "{\"choices\":[{\"text\":\"a\",\"message\":{\"content\":\"b\"}}],\n"
      "\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2,\"total_tokens\":3}}", 0, 0, 1, 0, 1,
      2, -1, "" },
    { "an error document", SONDE_SCAN_JSON,
      "{\"error\":{\"code\":\"rate_limit\",\"type\":\"requests\"}}", 0, 0, 1, 1, -1, -1, -1,
      "rate_limit" },
    { "strange numbers", SONDE_SCAN_JSON,
      "{\"usage\":{\"prompt_tokens\":-1,\"completion_tokens\":1e999,\"total_tokens\":\"7\"}}", 0, 0,
      1, 0, -1, -1, -1, "" },
    { "nothing", SONDE_SCAN_NOTHING, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n", 0, 0, 0, 0, -1,
      -1, -1, "" },
};

static void check_answer(const struct answer_case *c, size_t piece)
{
    struct sonde_scan_answer s;
    const size_t len = strlen(c->text);
    unsigned chunks = 0;
    sonde_scan_answer_init(&s, c->format);
    for (size_t at = 0, n; at < len; at += n) {
        n = piece ? piece : 1 + below(len);
        if (n > len - at) n = len - at;
        chunks += sonde_scan_answer_feed(&s, c->text + at, n);
    }
    chunks += sonde_scan_answer_end(&s);
    if (chunks != c->chunks || s.chunks != c->chunks || s.bad != c->bad ||
        s.complete != c->complete || s.failed != c->failed ||
        s.usage.prompt_tokens != c->prompt || s.usage.completion_tokens != c->completion ||
        s.usage.cached_tokens != c->cached || strcmp(s.error, c->error) != 0) {
        fail_msg("%s in pieces of %zu: chunks %u bad %llu complete %d failed %d usage %lld %lld "
                 "%lld error '%s'", c->name, piece, chunks, (unsigned long long)s.bad, s.complete,
                 s.failed, (long long)s.usage.prompt_tokens, (long long)s.usage.completion_tokens,
                 (long long)s.usage.cached_tokens, s.error);
    }
}

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        for (size_t piece = 1; piece < 80; piece++) check_answer(&answers[i], piece);
        for (int round = 0; round < 50; round++) check_answer(&answers[i], 0);
        check_answer(&answers[i], strlen(answers[i].text) + 1);
    }
}

static void test_durations(void **state)
{
    (void)state;
    struct sonde_scan_answer s;
    static const char llama[] = "{\"timings\":{\"prompt_ms\":2.5,\"predicted_ms\":1.5}}";
    static const char ollama[] =
        "{\"load_duration\":5,\"prompt_eval_duration\":100,\"eval_duration\":300}";
    sonde_scan_answer_init(&s, SONDE_SCAN_JSON);
    sonde_scan_answer_feed(&s, llama, strlen(llama));
    assert_int_equal(s.usage.prompt_ns, 2500000);
    assert_int_equal(s.usage.decode_ns, 1500000);
    assert_int_equal(s.usage.load_ns, -1);
    sonde_scan_answer_init(&s, SONDE_SCAN_JSON);
    sonde_scan_answer_feed(&s, ollama, strlen(ollama));
    assert_int_equal(s.usage.load_ns, 5);
    assert_int_equal(s.usage.prompt_ns, 100);
    assert_int_equal(s.usage.decode_ns, 300);
}

static void test_formats(void **state)
{
    (void)state;
    static const struct { const char *type; enum sonde_scan_format format; } cases[] = {
        { "text/event-stream", SONDE_SCAN_SSE },
        { "Text/Event-Stream; charset=utf-8", SONDE_SCAN_SSE },
        { "application/json ; x", SONDE_SCAN_JSON },
        { "application/x-ndjson", SONDE_SCAN_NDJSON },
        { "text/html", SONDE_SCAN_NOTHING },
        { "", SONDE_SCAN_NOTHING },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(sonde_scan_format_of(cases[i].type, strlen(cases[i].type)),
                         cases[i].format);
    }
    assert_int_equal(sonde_scan_format_of(NULL, 0), SONDE_SCAN_NOTHING);
}

/* ---- JSON beside jansson -------------------------------------------------------------------- */

static const struct sonde_json_name two_names[] = { { "a", 1, 1 }, { "bc", 2, 0 } };
static const struct sonde_json_names names = { two_names, 2 };

/* Everything that is told, as text; and the same of a document that jansson has parsed. */
static char told[1 << 16];
static size_t told_len;

static void say(uint64_t path, uint32_t depth, const char *what)
{
    if (depth <= SONDE_JSON_PATH_MAX && told_len < sizeof(told) - 100) {
        told_len += (size_t)snprintf(told + told_len, sizeof(told) - told_len, "%llx %.60s\n",
                                     (unsigned long long)path, what);
    }
}

static void on_value(void *arg, const struct sonde_json_scan *j, enum sonde_json_type type)
{
    static const char *const words[] = { "null", "false", "true", "number", "string", "{", "[" };
    char text[64];
    (void)arg;
    snprintf(text, sizeof(text), "%s %d", words[type], type == SONDE_JSON_STRING && j->len > 0);
    if (type == SONDE_JSON_NUMBER) snprintf(text, sizeof(text), "%.9g", strtod(j->text, NULL));
    say(j->path, j->depth, text);
}

static void walk(const json_t *v, uint64_t path, uint32_t depth)
{
    char text[64];
    const char *key;
    size_t i;
    json_t *child;
    switch (json_typeof(v)) {
    case JSON_NULL: say(path, depth, "null 0"); break;
    case JSON_TRUE: say(path, depth, "true 0"); break;
    case JSON_FALSE: say(path, depth, "false 0"); break;
    case JSON_INTEGER:
    case JSON_REAL:
        snprintf(text, sizeof(text), "%.9g", json_number_value(v));
        say(path, depth, text);
        break;
    case JSON_STRING:
        snprintf(text, sizeof(text), "string %d", json_string_length(v) > 0);
        say(path, depth, text);
        break;
    case JSON_ARRAY:
        say(path, depth, "[ 0");
        json_array_foreach(v, i, child) walk(child, path << 8 | SONDE_JSON_ELEMENT, depth + 1);
        break;
    case JSON_OBJECT:
        say(path, depth, "{ 0");
        json_object_foreach((json_t *)(uintptr_t)v, key, child) {
            const uint64_t step = strcmp(key, "a") == 0 ? 2 : strcmp(key, "bc") == 0 ? 3 : 0;
            walk(child, path << 8 | step, depth + 1);
        }
        break;
    }
}

static json_t *random_value(int depth)
{
    static const char *const strings[] = { "", "x", "\"\\/\b\f\n\r\t", "\xc3\xa9",
                                           "\xf0\x9f\x98\x80", "}]," };
    static const char *const keys[] = { "a", "bc", "b", "\"", "\xc3\xa9", "" };
    json_t *v;
    switch (below(depth > 11 ? 6 : 9)) {
    case 0: return json_null();
    case 1: return json_true();
    case 2: return json_false();
    case 3: return json_integer((json_int_t)below(100000) - 50000);
    case 4: return json_real((double)below(1000) / 7e3);
    case 5: return json_string(strings[below(COUNT(strings))]);
    case 6:
        v = json_array();
        for (size_t n = below(4); n; n--) json_array_append_new(v, random_value(depth + 1));
        return v;
    default:
        v = json_object();
        for (size_t n = below(5); n; n--) {
            json_object_set_new(v, keys[below(COUNT(keys))], random_value(depth + 1));
        }
        return v;
    }
}

static void test_beside_jansson(void **state)
{
    (void)state;
    static const size_t flags[] = { JSON_COMPACT, JSON_INDENT(2), JSON_ENSURE_ASCII,
                                    JSON_ESCAPE_SLASH };
    for (int round = 0; round < 3000; round++) {
        json_t *v = random_value(0);
        char *text = json_dumps(v, flags[round % 4] | JSON_ENCODE_ANY), *expected;
        assert_non_null(text);
        told_len = 0;
        walk(v, 0, 0);
        expected = strndup(told, told_len);
        struct sonde_json_scan j;
        sonde_json_scan_init(&j, &names, on_value, NULL);
        told_len = 0;
        for (size_t at = 0, n, len = strlen(text); at < len; at += n) {
            n = 1 + below(len - at);
            sonde_json_scan_feed(&j, text + at, n);
        }
        assert_true(sonde_json_scan_end(&j));
        told[told_len] = 0;
        if (strcmp(told, expected) != 0) fail_msg("%s\nwanted\n%s\ngot\n%s", text, expected, told);
        free(expected);
        free(text);
        json_decref(v);
    }
}

static void test_bad_json(void **state)
{
    (void)state;
    static const char *const cases[] = { "{", "[1,]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}",
                                         "[1 2]", "]", "{]", "[}", "nul", "nulx", "\"a", "\"\\x\"",
                                         "\"\\u12g4\"", "{1:2}", "hello", "" };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_json_scan j;
        sonde_json_scan_init(&j, &names, on_value, NULL);
        told_len = 0;
        sonde_json_scan_feed(&j, cases[i], strlen(cases[i]));
        if (sonde_json_scan_end(&j)) fail_msg("taken: %s", cases[i]);
    }
    struct sonde_json_scan j;
    sonde_json_scan_init(&j, &names, on_value, NULL);
    for (int i = 0; i < 1000; i++) sonde_json_scan_feed(&j, "[{\"a\":", 6);
    assert_true(sonde_json_scan_over(&j)); /* too deep: given up, not overrun */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),       cmocka_unit_test(test_request_is_bounded),
        cmocka_unit_test(test_answers),        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_formats),        cmocka_unit_test(test_beside_jansson),
        cmocka_unit_test(test_bad_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
