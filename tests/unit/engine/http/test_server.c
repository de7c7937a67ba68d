/* Routes, answers, and a table of bad requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>

#include "unit/engine/http/client.h"
#include "unit/engine/small_model.h"

static struct engine *engine;
static struct http_server *server;

static int start(void **state)
{
    const struct engine_options o = { .model_path = small_model(),
                                      .threads = 2,
                                      .deterministic = 1 };
    const struct http_options h = { .listen = "127.0.0.1:0", .body_bytes_max = 20000 };
    struct fail why;
    (void)state;
    if (engine_create(&o, &engine, &why) || http_server_create(engine, &h, &server, &why)) {
        fail_msg("%s", why.text);
    }
    return 0;
}

static int stop(void **state)
{
    (void)state;
    http_server_stop(server, 10);
    http_server_destroy(server);
    engine_destroy(engine);
    return 0;
}

static char *ask(const char *method, const char *path, const char *body)
{
    return client_ask(http_server_url(server), method, path, "", body);
}

/* The body of an answer, which has this status. */
static json_t *ask_json(const char *path, const char *body, int status)
{
    char *answer = ask(body ? "POST" : "GET", path, body);
    const char *at = strstr(answer, "\r\n\r\n");
    if (client_status(answer) != status || !at) fail_msg("%s: not %d: %s", path, status, answer);
    json_t *j = json_loads(at + 4, 0, NULL);
    if (!j) fail_msg("no JSON: %s", at);
    free(answer);
    return j;
}

static long long number(const json_t *j, const char *a, const char *b)
{
    const json_t *v = json_object_get(j, a);
    return json_integer_value(b ? json_object_get(v, b) : v);
}

/* ---- Answers -------------------------------------------------------------------------------- */

static void test_whole(void **state)
{
    static const char question[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
        "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"Hel\"},"
        "{\"type\":\"text\",\"text\":\"lo\"}]}],\"max_tokens\":6,\"ignore_eos\":true}";
    (void)state;
    json_t *first = ask_json("/v1/chat/completions", question, 200);
    json_t *second = ask_json("/v1/chat/completions", question, 200);
    json_t *choice = json_array_get(json_object_get(first, "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "length");
    assert_string_equal(json_string_value(json_object_get(first, "object")), "chat.completion");
    assert_true(json_equal(json_object_get(first, "choices"), json_object_get(second, "choices")));
    const long long in = number(first, "usage", "prompt_tokens");
    assert_true(in > 4);
    assert_int_equal(number(first, "usage", "completion_tokens"), 6);
    assert_int_equal(number(first, "usage", "total_tokens"), in + 6);
    assert_int_equal(number(first, "timings", "prompt_n") + number(first, "timings", "cache_n"),
                     in);
    assert_int_equal(number(first, "timings", "predicted_n"), 6);
    /* The second need not compute its prompt, but for the last token. */
    assert_int_equal(number(second, "timings", "cache_n"), in - 1);
    assert_int_equal(
        number(json_object_get(second, "usage"), "prompt_tokens_details", "cached_tokens"), in - 1);
    assert_null(json_object_get(first, "profile"));
    json_decref(first);
    json_decref(second);
}

static void test_completion(void **state)
{
    (void)state;
    json_t *text = ask_json("/v1/completions",
                            "{\"prompt\":\"static int\",\"max_tokens\":5,\"temperature\":0,"
                            "\"ignore_eos\":true}",
                            200);
    json_t *tokens =
        ask_json("/tokenize", "{\"content\":\"static int\",\"add_special\":true}", 200);
    assert_int_equal(number(text, "usage", "prompt_tokens"), number(tokens, "count", NULL));
    /* The same by its tokens. */
    json_t *question = json_pack("{s:O,s:i,s:i,s:b}", "prompt", json_object_get(tokens, "tokens"),
                                 "max_tokens", 5, "temperature", 0, "ignore_eos", 1);
    char *body = json_dumps(question, 0);
    json_t *again = ask_json("/v1/completions", body, 200);
    assert_true(json_equal(json_object_get(text, "choices"), json_object_get(again, "choices")));
    json_t *list = json_pack("{s:O}", "tokens", json_object_get(tokens, "tokens"));
    char *listed = json_dumps(list, 0);
    json_t *back = ask_json("/detokenize", listed, 200);
    assert_non_null(strstr(json_string_value(json_object_get(back, "content")), "static int"));
    free(body);
    free(listed);
    json_decref(text);
    json_decref(tokens);
    json_decref(question);
    json_decref(again);
    json_decref(list);
    json_decref(back);
}

static void test_stop_string(void **state)
{
    static const char form[] =
        "{\"prompt\":\"The reader\",\"max_tokens\":40,\"ignore_eos\":true,\"stop\":[%s]}";
    char body[512];
    (void)state;
    snprintf(body, sizeof(body), form, "\"never to be seen\"");
    json_t *whole = ask_json("/v1/completions", body, 200);
    const char *text = json_string_value(json_object_get(
        json_array_get(json_object_get(whole, "choices"), 0), "text"));
    /* Two letters from its midst, that stand side by side. */
    const char *at = text + strlen(text) / 2;
    while (*at && !(at[0] > ' ' && at[0] < 0x7f && at[0] != '"' && at[0] != '\\' && at[1] > ' ' &&
                    at[1] < 0x7f && at[1] != '"' && at[1] != '\\')) at++;
    assert_true(at[0]);
    char stop_text[8];
    snprintf(stop_text, sizeof(stop_text), "\"%c%c\"", at[0], at[1]);
    const char *first = strstr(text, (char[]){ at[0], at[1], 0 });
    snprintf(body, sizeof(body), form, stop_text);
    json_t *cut = ask_json("/v1/completions", body, 200);
    json_t *choice = json_array_get(json_object_get(cut, "choices"), 0);
    assert_string_equal(json_string_value(json_object_get(choice, "finish_reason")), "stop");
    assert_int_equal(json_string_length(json_object_get(choice, "text")), first - text);
    assert_memory_equal(json_string_value(json_object_get(choice, "text")), text,
                        (size_t)(first - text));
    json_decref(whole);
    json_decref(cut);
}

static void test_stream(void **state)
{
    (void)state;
    char *answer =
        ask("POST", "/v1/chat/completions",
            "{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}],\"max_tokens\":5,"
            "\"ignore_eos\":true,\"stream\":true,\"stream_options\":{\"include_usage\":true}}");
    assert_int_equal(client_status(answer), 200);
    assert_non_null(strstr(answer, "Content-Type: text/event-stream"));
    const char *role = strstr(answer, "\"role\":\"assistant\"");
    assert_non_null(role);
    assert_null(strstr(role + 1, "\"role\""));
    assert_non_null(strstr(answer, "\"finish_reason\":\"length\""));
    assert_non_null(strstr(answer, "\"choices\":[],"));
    assert_non_null(strstr(answer, "\"completion_tokens\":5"));
    assert_non_null(strstr(answer, "data: [DONE]\n\n"));
    free(answer);
}

static void test_profile(void **state)
{
    static const char headers[] =
        "X-Profile: true\r\n"
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    (void)state;
    char *answer = client_ask(http_server_url(server), "POST", "/v1/completions", headers,
                              "{\"prompt\":\"a b c\",\"max_tokens\":4,\"ignore_eos\":true}");
    assert_int_equal(client_status(answer), 200);
    json_t *j = json_loads(strstr(answer, "\r\n\r\n") + 4, 0, NULL);
    const json_t *p = json_object_get(j, "profile"), *passes = json_object_get(p, "passes");
    assert_int_equal(number(passes, "count", NULL), 4);
    assert_int_equal(json_array_size(json_object_get(p, "layers")), 3);
    assert_true(json_real_value(json_object_get(p, "decode_ms")) > 0);
    if (json_is_string(json_object_get(p, "id"))) { /* sonde records */
        assert_non_null(strstr(answer, "X-Trace-Id: 0af7651916cd43dd8448eb211c80319c"));
        assert_non_null(strstr(answer, json_string_value(json_object_get(p, "id"))));
        assert_non_null(strstr(answer, "X-Profile-Id: "));
    }
    json_decref(j);
    free(answer);
}

static void test_pages(void **state)
{
    (void)state;
    json_t *models = ask_json("/v1/models", NULL, 200), *health = ask_json("/health", NULL, 200);
    assert_string_equal(json_string_value(json_object_get(
        json_array_get(json_object_get(models, "data"), 0), "id")), engine_model(engine)->name);
    assert_string_equal(json_string_value(json_object_get(health, "status")), "ok");
    assert_true(number(health, "requests", "done") > 0);
    json_decref(models);
    json_decref(health);
}

/* ---- Bad requests --------------------------------------------------------------------------- */

#define CHAT "/v1/chat/completions"
#define PLAIN "/v1/completions"
#define USER "\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"

static const struct {
    const char *method, *path, *body;
    int status;
    const char *says, *param;
} bad[] = {
    { "GET", "/", NULL, 404, "there is no /", NULL },
    { "GET", "/v1", NULL, 404, "there is no /v1", NULL },
    { "GET", CHAT, NULL, 405, "Allow: POST", NULL },
    { "DELETE", "/health", NULL, 405, "Allow: GET, HEAD", NULL },
    { "POST", "/v1/models", "{}", 405, "takes GET", NULL },
    { "POST", CHAT, "", 400, "not JSON", NULL },
    { "POST", CHAT, "{", 400, "line 1", NULL },
    { "POST", CHAT, "[]", 400, "JSON object", NULL },
    { "POST", CHAT, "3", 400, "not JSON", NULL },
    { "POST", CHAT, "{}", 400, "messages is required", "messages" },
    { "POST", CHAT, "{\"messages\":[]}", 400, "at least one", "messages" },
    { "POST", CHAT, "{\"messages\":\"x\"}", 400, "array", "messages" },
    { "POST", CHAT, "{\"messages\":[3]}", 400, "messages[0] has to be an object", "messages" },
    { "POST", CHAT, "{\"messages\":[{\"role\":\"king\",\"content\":\"x\"}]}", 400,
      "messages[0].role", "messages" },
    { "POST", CHAT, "{\"messages\":[{\"content\":\"x\"}]}", 400, "messages[0].role", "messages" },
    { "POST", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":4}]}", 400,
      "messages[0].content", "messages" },
    { "POST", CHAT, "{\"messages\":[{\"role\":\"user\"}]}", 400, "messages[0].content",
      "messages" },
    { "POST", CHAT, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image_url\"}]}]}",
      400, "messages[0].content", "messages" },
    { "POST", CHAT, "{" USER ",\"temperature\":\"hot\"}", 400,
      "temperature has to be a number from 0", "temperature" },
    { "POST", CHAT, "{" USER ",\"temperature\":-1}", 400, "temperature", "temperature" },
    { "POST", CHAT, "{" USER ",\"top_p\":2}", 400, "top_p has to be a number from 0 to 1",
      "top_p" },
    { "POST", CHAT, "{" USER ",\"top_k\":1.5}", 400, "top_k has to be a whole number", "top_k" },
    { "POST", CHAT, "{" USER ",\"min_p\":true}", 400, "min_p", "min_p" },
    { "POST", CHAT, "{" USER ",\"max_tokens\":0}", 400, "max_tokens", "max_tokens" },
    { "POST", CHAT, "{" USER ",\"max_completion_tokens\":\"9\"}", 400, "max_completion_tokens",
      "max_completion_tokens" },
    { "POST", CHAT, "{" USER ",\"seed\":\"x\"}", 400, "seed", "seed" },
    { "POST", CHAT, "{" USER ",\"seed\":99999999999999999999}", 400, "not JSON", NULL },
    { "POST", CHAT, "{" USER ",\"stream\":1}", 400, "stream has to be true or false", "stream" },
    { "POST", CHAT, "{" USER ",\"stream_options\":[]}", 400, "stream_options", "stream_options" },
    { "POST", CHAT, "{" USER ",\"stop\":3}", 400, "stop", "stop" },
    { "POST", CHAT, "{" USER ",\"stop\":[\"\"]}", 400, "stop", "stop" },
    { "POST", CHAT, "{" USER ",\"stop\":[1,2]}", 400, "stop", "stop" },
    { "POST", CHAT,
      "{" USER ",\"stop\":[\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\",\"a\","
      "\"a\",\"a\",\"a\",\"a\",\"a\"]}",
      400, "17 strings", "stop" },
    { "POST", CHAT, "{" USER ",\"n\":2}", 400, "n has to be 1", "n" },
    { "POST", CHAT, "{" USER ",\"logprobs\":true}", 400, "logprobs is not supported", "logprobs" },
    { "POST", CHAT, "{" USER ",\"tools\":[{}]}", 400, "tools is not supported", "tools" },
    { "POST", CHAT, "{" USER ",\"response_format\":{\"type\":\"json_object\"}}", 400,
      "response_format", "response_format" },
    { "POST", CHAT, "{" USER ",\"model\":7}", 400, "model has to be a string", "model" },
    { "POST", PLAIN, "{}", 400, "prompt is required", "prompt" },
    { "POST", PLAIN, "{\"prompt\":5}", 400, "string or an array", "prompt" },
    { "POST", PLAIN, "{\"prompt\":[]}", 400, "string or an array", "prompt" },
    { "POST", PLAIN, "{\"prompt\":[1,\"a\"]}", 400, "prompt[1]", "prompt" },
    { "POST", PLAIN, "{\"prompt\":[1,-2]}", 400, "prompt[1]", "prompt" },
    { "POST", PLAIN, "{\"prompt\":[1,100000]}", 400, "100000", "prompt" },
    { "POST", PLAIN, "{\"prompt\":[\"a\",\"b\"]}", 400, "prompt[0]", "prompt" },
    { "POST", PLAIN, "{\"prompt\":\"a\\u0000b\"}", 400, "not JSON", NULL },
    { "POST", PLAIN, "{\"prompt\":\"\xff\"}", 400, "not JSON", NULL },
    { "POST", PLAIN, "{\"prompt\":\"x\",\"echo\":true}", 400, "echo is not supported", "echo" },
    { "POST", "/tokenize", "{\"content\":4}", 400, "content has to be a string", "content" },
    { "POST", "/tokenize", "nothing", 400, "not JSON", NULL },
    { "POST", "/detokenize", "{\"tokens\":4}", 400, "tokens", "tokens" },
    { "POST", "/detokenize", "{\"tokens\":[1,1000000]}", 400, "vocabulary", "tokens" },
};

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *answer = ask(bad[i].method, bad[i].path, bad[i].body);
        const char *body = strstr(answer, "\r\n\r\n");
        json_t *j = body ? json_loads(body + 4, 0, NULL) : NULL;
        const json_t *error = json_object_get(j, "error");
        const char *param = json_string_value(json_object_get(error, "param"));
        if (client_status(answer) != bad[i].status || !strstr(answer, bad[i].says) ||
            !json_is_string(json_object_get(error, "message")) ||
            !json_is_string(json_object_get(error, "type")) ||
            (bad[i].param ? !param || strcmp(param, bad[i].param) != 0 : param != NULL)) {
            fail_msg("%s %s: %s", bad[i].path, bad[i].body ? bad[i].body : "", answer);
        }
        json_decref(j);
        free(answer);
    }
}

static void test_too_long(void **state)
{
    char body[12000];
    (void)state;
    size_t n = (size_t)snprintf(body, sizeof(body), "{\"prompt\":\"");
    for (; n < 10000; n++) body[n] = "qz"[n % 7 == 0];
    snprintf(body + n, sizeof(body) - n, "\"}");
    json_t *j = ask_json("/v1/completions", body, 400);
    const json_t *error = json_object_get(j, "error");
    assert_non_null(strstr(json_string_value(json_object_get(error, "message")), "room for 512"));
    assert_string_equal(json_string_value(json_object_get(error, "code")),
                        "context_length_exceeded");
    json_decref(j);
}

static void test_too_large(void **state)
{
    char *body = calloc(1, 30001);
    (void)state;
    memset(body, ' ', 30000);
    char *answer = ask("POST", "/v1/completions", body);
    assert_int_equal(client_status(answer), 413);
    assert_non_null(strstr(answer, "20000"));
    free(answer);

    /* Without saying so before. */
    const int fd = client_connect(http_server_url(server));
    dprintf(fd, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", 30000, body);
    answer = client_read(fd, CLIENT_BYTES_MAX);
    assert_int_equal(client_status(answer), 413);
    close(fd);
    free(answer);
    free(body);
}

/* Nothing of this is a request. The server is still there afterwards. */
static void test_nonsense(void **state)
{
    static const char *const texts[] = {
        "", "\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\x16\x03\x01\x02",
        "POST /v1/completions",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{\"prompt\"",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const int fd = client_connect(http_server_url(server));
        send(fd, texts[i], strlen(texts[i]), MSG_NOSIGNAL);
        if (i % 2) shutdown(fd, SHUT_WR);
        json_decref(ask_json("/health", NULL, 200));
        close(fd);
    }
    json_decref(ask_json("/health", NULL, 200));
}

static void test_listen_errors(void **state)
{
    static const char *const wrong[] = {
        "8080", "127.0.0.1", "127.0.0.1:99999",        "127.0.0.1:x",
        ":80",  "::1:80",    "no.such.host.invalid:0", "127.0.0.1:80x"
    };
    struct http_server *s;
    struct fail why;
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(
            http_server_create(engine, &(struct http_options){ .listen = wrong[i] }, &s, &why), -1);
        assert_non_null(strstr(why.text, wrong[i]));
    }
    const char *taken = http_server_url(server) + strlen("http://");
    assert_int_equal(
        http_server_create(engine, &(struct http_options){ .listen = taken }, &s, &why), -1);
    assert_non_null(strstr(why.text, "in use"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole), cmocka_unit_test(test_completion),
        cmocka_unit_test(test_stop_string), cmocka_unit_test(test_stream),
        cmocka_unit_test(test_profile), cmocka_unit_test(test_pages), cmocka_unit_test(test_bad),
        cmocka_unit_test(test_too_long), cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_nonsense), cmocka_unit_test(test_listen_errors),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
