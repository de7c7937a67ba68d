/* Answers of servers, whichever way they were cut: what they say, how they ended, what is kept. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench/http/load_answer.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define NONE SONDE_LOAD_UNKNOWN

static uint64_t seed = 11;
static size_t below(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

#define JSON "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
#define SSE "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n"
#define LINES "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n\r\n"
#define CHAT(delta) "data: {\"id\":\"c-1\",\"choices\":[{\"index\":0,\"delta\":{" delta "},\"finish_reason\":null}]}\n\n"
#define DONE "data: [DONE]\n\n"

/* All of these end with the connection, unless they say how long they are. */
static const struct {
    const char *name, *bytes;
    enum sonde_load_outcome outcome;
    uint32_t events, prompt, output, cached, reasoning;
    const char *text;
    int thinks; /* the first event is not content */
} answers[] = {
    { "chat", SSE CHAT("\"role\":\"assistant\",\"content\":\"\"") CHAT("\"content\":\"Hel\"")
      CHAT("\"content\":\"lo\"") CHAT("\"content\":\"\\n\\\"q\\\"\"") CHAT("")
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,"
      "\"prompt_tokens_details\":{\"cached_tokens\":2},\"completion_tokens_details\":"
      "{\"reasoning_tokens\":0}}}\n\n" DONE,
      SONDE_LOAD_OK, 3, 9, 4, 2, 0, "Hello\n\"q\"", 0 },
    { "reasoning", SSE CHAT("\"reasoning_content\":\"hm\"") CHAT("\"reasoning\":\"so\"")
      CHAT("\"content\":null,\"reasoning_content\":\"ah\"") CHAT("\"content\":\"42\"") DONE,
      SONDE_LOAD_OK, 4, NONE, NONE, NONE, NONE, "42", 1 },
    { "a tool call", SSE CHAT("\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"{\"}}]")
      CHAT("\"tool_calls\":[]") DONE, SONDE_LOAD_OK, 1, NONE, NONE, NONE, NONE, "", 0 },
    { "parts", SSE CHAT("\"content\":[{\"type\":\"text\",\"text\":\"a\"}]") DONE,
      SONDE_LOAD_OK, 1, NONE, NONE, NONE, NONE, "a", 0 },
    { "completions", SSE "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":"
      "\"b\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n",
      SONDE_LOAD_OK, 2, 1, 2, NONE, NONE, "ab", 0 },
    { "llama.cpp", SSE "data: {\"content\":\"a\",\"stop\":false}\n\ndata: {\"content\":\"\",\"stop\":true,"
      "\"timings\":{\"cache_n\":3,\"prompt_n\":5,\"prompt_ms\":1.5,\"predicted_n\":1}}\n\n",
      SONDE_LOAD_OK, 1, 8, 1, 3, NONE, "a", 0 },
    { "llama.cpp evaluated", SSE "data: {\"content\":\"a\",\"stop\":true,\"tokens_predicted\":1,"
      "\"tokens_evaluated\":7,\"timings\":{\"cache_n\":-1,\"prompt_n\":5}}\n\n",
      SONDE_LOAD_OK, 1, 7, 1, NONE, NONE, "a", 0 },
    { "Ollama chat", LINES "{\"message\":{\"content\":\"\",\"thinking\":\"x\"},\"done\":false}\n"
      "{\"message\":{\"content\":\"a\"},\"done\":false}\r\n\n{\"done\":true,\"prompt_eval_count\":4,"
      "\"eval_count\":2}\n", SONDE_LOAD_OK, 2, 4, 2, NONE, NONE, "a", 1 },
    { "Ollama generate", LINES "{\"response\":\"a\",\"done\":false}\n{\"response\":\"b\",\"done\":true}",
      SONDE_LOAD_OK, 2, NONE, NONE, NONE, NONE, "ab", 0 },
    { "TGI", SSE "data:{\"token\":{\"id\":1,\"text\":\" a\",\"special\":false},\"generated_text\":null}\n\n"
      "data:{\"token\":{\"text\":\"b\"},\"generated_text\":\"ab\",\"details\":{\"generated_tokens\":2,"
      "\"input_length\":6}}\n\n", SONDE_LOAD_OK, 2, 6, 2, NONE, NONE, " ab", 0 },
    { "Anthropic", SSE "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":"
      "{\"input_tokens\":3,\"output_tokens\":1}}}\n\nevent: content_block_delta\ndata: {\"type\":"
      "\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\ndata: {\"type\":"
      "\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":2}}\n\ndata: {\"type\":"
      "\"message_stop\"}\n\n", SONDE_LOAD_OK, 1, 3, 2, NONE, NONE, "hi", 0 },
    { "CR LF", SSE ": hi\r\n\r\nid: 1\r\ndata: {\"content\":\"a\"}\r\n\r\ndata: [DONE]\r\n\r\n",
      SONDE_LOAD_OK, 1, NONE, NONE, NONE, NONE, "a", 0 },
    { "CR", SSE "data: {\"content\":\"a\"}\r\rdata: {\"content\":\"b\"}\r\rdata: [DONE]\r\r",
      SONDE_LOAD_OK, 2, NONE, NONE, NONE, NONE, "ab", 0 },
    { "several lines", SSE "\xef\xbb\xbf" "data: {\"content\":\ndata:\ndata: \"a\"\ndata\ndata: }\n\n" DONE,
      SONDE_LOAD_OK, 1, NONE, NONE, NONE, NONE, "a", 0 },
    { "no empty line at the end", SSE "data: {\"content\":\"a\"}\n\ndata: [DONE]",
      SONDE_LOAD_OK, 1, NONE, NONE, NONE, NONE, "a", 0 },
    { "chunks", "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
      "a\r\ndata: {\"co\r\n11\r\nntent\":\"\\u20ac\"}\n\r\n1;x=y\r\n\n\r\ne\r\ndata: [DONE]\n\n\r\n"
      "0\r\nX: y\r\n\r\n", SONDE_LOAD_OK, 1, NONE, NONE, NONE, NONE, "\xe2\x82\xac", 0 },
    { "half a character", SSE "data: {\"content\":\"\xe2\x82\"}\n\ndata: {\"content\":\"\xac\"}\n\n" DONE,
      SONDE_LOAD_OK, 2, NONE, NONE, NONE, NONE, "\xe2\x82\xac", 0 },
    { "not streamed", JSON "{\"choices\":[{\"message\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}],"
      "\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}", SONDE_LOAD_OK, 0, 1, 2, NONE, NONE,
      "hi", 0 },
    { "a length", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", SONDE_LOAD_OK, 0, NONE, NONE, NONE,
      NONE, "", 0 },
    { "nothing", "HTTP/1.1 204 No Content\r\n\r\n", SONDE_LOAD_OK, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "before the answer", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n" SSE
      "data: {\"content\":\"a\"}\n\n" DONE, SONDE_LOAD_OK, 1, NONE, NONE, NONE, NONE, "a", 0 },
    { "HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\"content\":\"a\"}\n\n"
      DONE, SONDE_LOAD_OK, 1, NONE, NONE, NONE, NONE, "a", 0 },
    { "compressed", "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n"
      "Content-Length: 3\r\n\r\n\x1f\x8b\x08", SONDE_LOAD_OK, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "a status", "HTTP/1.1 429 Slow\r\nContent-Type: application/json\r\nContent-Length: 12\r\n\r\n"
      "{\"error\":{}}", SONDE_LOAD_STATUS, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "an error event", SSE "data: {\"content\":\"a\"}\n\ndata: {\"error\":{\"code\":500}}\n\n" DONE,
      SONDE_LOAD_ERROR, 1, NONE, NONE, NONE, NONE, "a", 0 },
    { "an error field", SSE "error: {\"code\":500}\n\n", SONDE_LOAD_ERROR, 0, NONE, NONE, NONE, NONE, "",
      0 },
    { "an error document", JSON "{\"error\":\"no\"}", SONDE_LOAD_ERROR, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "no error", JSON "{\"error\":null}", SONDE_LOAD_OK, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "no mark at the end", SSE "data: {\"content\":\"a\"}\n\n", SONDE_LOAD_TRUNCATED, 1, NONE, NONE, NONE,
      NONE, "a", 0 },
    { "too short", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", SONDE_LOAD_TRUNCATED, 0, NONE, NONE,
      NONE, NONE, "", 0 },
    { "half a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}", SONDE_LOAD_TRUNCATED,
      0, NONE, NONE, NONE, NONE, "", 0 },
    { "half a head", "HTTP/1.1 200 OK\r\nConte", SONDE_LOAD_TRUNCATED, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "not even a byte", "", SONDE_LOAD_TRUNCATED, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "not HTTP", "SSH-2.0-x\r\n", SONDE_LOAD_PROTOCOL, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "another protocol", "HTTP/1.1 101 Switching\r\n\r\n", SONDE_LOAD_PROTOCOL, 0, NONE, NONE, NONE, NONE,
      "", 0 },
    { "lines without CR", "HTTP/1.1 200 OK\n\n{}", SONDE_LOAD_PROTOCOL, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
      SONDE_LOAD_PROTOCOL, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "a chunk that is none", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      SONDE_LOAD_PROTOCOL, 0, NONE, NONE, NONE, NONE, "", 0 },
    { "garbage", SSE "data: {\"content\":\"a\"}\n\ndata: {\"content\":}\n\n" DONE, SONDE_LOAD_PROTOCOL, 1,
      NONE, NONE, NONE, NONE, "a", 0 },
    { "a document that is none", JSON "{\"choices\":[", SONDE_LOAD_PROTOCOL, 0, NONE, NONE, NONE, NONE, "",
      0 },
};

enum cut { WHOLE, BYTES, RANDOM };

struct fed {
    struct sonde_load_record record;
    struct sonde_load_gaps gaps;
    struct load_answer answer;
    int over_before_end;
};

static void feed(struct fed *f, const char *bytes, size_t len, enum cut cut, uint64_t answer_max)
{
    static struct sonde_http_head head;
    memset(f, 0, sizeof(*f));
    f->record.prompt_tokens = f->record.output_tokens = f->record.cached_tokens = NONE;
    f->record.reasoning_tokens = NONE;
    assert_int_equal(load_gaps_init(&f->gaps, 0, 1000), 0);
    load_answer_init(&f->answer);
    load_answer_begin(&f->answer, &f->record, &f->gaps, answer_max, 1);
    uint64_t now = 1;
    for (size_t at = 0, n; at < len && !f->over_before_end; at += n, now++) {
        n = cut == WHOLE ? len : cut == BYTES ? 1 : 1 + below(40);
        if (n > len - at) n = len - at;
        char *piece = malloc(n); /* exactly as long as it is: a sanitizer sees more being read */
        memcpy(piece, bytes + at, n);
        f->over_before_end = load_answer_feed(&f->answer, &head, piece, n, now);
        free(piece);
    }
    if (!f->over_before_end) load_answer_close(&f->answer, now);
}

static void unfeed(struct fed *f)
{
    load_answer_release(&f->answer);
    sonde_load_gaps_release(&f->gaps);
}

static uint64_t gap_count(const struct sonde_load_gaps *g)
{
    uint64_t n = 0;
    for (size_t i = 0; i < g->window_count * sonde_load_gap_buckets(); i++) n += g->counts[i];
    return n;
}

static void check_answer(size_t i, enum cut cut)
{
    struct fed f;
    feed(&f, answers[i].bytes, strlen(answers[i].bytes), cut, UINT64_MAX);
    const struct sonde_load_record *r = &f.record;
    char got[512], wanted[512];
    snprintf(wanted, sizeof(wanted), "%s: %s events %u prompt %d output %d cached %d reasoning %d text %s",
             answers[i].name, sonde_load_outcome_name(answers[i].outcome), answers[i].events,
             (int)answers[i].prompt, (int)answers[i].output, (int)answers[i].cached,
             (int)answers[i].reasoning, answers[i].text);
    snprintf(got, sizeof(got), "%s: %s events %u prompt %d output %d cached %d reasoning %d text %.*s",
             answers[i].name, sonde_load_outcome_name(r->outcome), r->events, (int)r->prompt_tokens,
             (int)r->output_tokens, (int)r->cached_tokens, (int)r->reasoning_tokens,
             (int)f.answer.text.len, f.answer.text.len ? f.answer.text.data : "");
    assert_string_equal(got, wanted);
    assert_true(r->end_ns != 0);
    assert_int_equal(r->first_ns != 0, r->events != 0);
    assert_true(r->first_ns <= r->content_ns || !r->content_ns);
    assert_true(r->last_ns >= r->first_ns && r->last_ns <= r->end_ns);
    assert_true(!r->events || r->head_ns <= r->first_ns);
    if (cut == BYTES && answers[i].thinks) assert_true(r->content_ns > r->first_ns);
    else if (r->events && !answers[i].thinks) assert_int_equal(r->content_ns, r->first_ns);
    assert_int_equal(gap_count(&f.gaps), r->events ? r->events - 1 : 0);
    unfeed(&f);
}

static void test_answers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(answers); i++) {
        check_answer(i, WHOLE);
        check_answer(i, BYTES);
        for (int n = 0; n < 50; n++) check_answer(i, RANDOM);
    }
}

/* An event counts when its empty line has come, not when the next one does. */
static void test_times(void **state)
{
    (void)state;
    static const char *const ends[] = { "\n\n", "\r\n\r\n", "\r\r" };
    static struct sonde_http_head head;
    for (size_t i = 0; i < COUNT(ends); i++) {
        struct fed f;
        char event[64];
        memset(&f, 0, sizeof(f));
        load_answer_begin(&f.answer, &f.record, NULL, UINT64_MAX, 0);
        char *first = strdup(SSE);
        assert_int_equal(load_answer_feed(&f.answer, &head, first, strlen(first), 10), 0);
        for (uint64_t n = 1; n <= 3; n++) {
            snprintf(event, sizeof(event), "data: {\"content\":\"%llu\"}%s", (unsigned long long)n, ends[i]);
            assert_int_equal(load_answer_feed(&f.answer, &head, event, strlen(event), 10 + n), 0);
            assert_int_equal(f.record.events, n);
            assert_int_equal(f.record.last_ns, 10 + n);
        }
        assert_int_equal(f.record.head_ns, 10);
        assert_int_equal(f.record.first_ns, 11);
        free(first);
        load_answer_release(&f.answer);
    }
}

/* Events that are alike but for their text are not parsed; what is different in them still counts. */
static void test_shapes(void **state)
{
    (void)state;
    struct sonde_load_record r = { .output_tokens = NONE };
    struct sonde_buf text;
    sonde_buf_init(&text, 1 << 16);
    struct load_event e = { .record = &r, .text = &text };
    static const struct { const char *data; unsigned says; } events[] = {
        { "{\"content\":\"a\",\"stop\":false}", LOAD_SAYS_TEXT },
        { "{\"content\":\"b\",\"stop\":false}", LOAD_SAYS_TEXT },
        { "{\"content\":\"\",\"stop\":false}", 0 },
        { "{\"content\":\"c\",\"stop\":true}", LOAD_SAYS_TEXT | LOAD_SAYS_END },
        { "{\"content\":\"d\",\"error\":\"x\",\"stop\":true}", LOAD_SAYS_TEXT | LOAD_SAYS_END | LOAD_SAYS_ERROR },
        { "{\"content\":\"e\",\"eval_count\":5}", LOAD_SAYS_TEXT },
        { "{\"content\":\"f\",\"eval_count\":6}", LOAD_SAYS_TEXT },
        { "{\"content\":\"g\\\"\",\"eval_count\":6}", LOAD_SAYS_TEXT },
        { "{\"content\":\"h\\\",\"eval_count\":6}", LOAD_SAYS_BAD },
        { "{\"content\":\"i\",\"thinking\":\"k\"}", LOAD_SAYS_TEXT | LOAD_SAYS_REASONING },
        { "{\"content\":\"j\",\"thinking\":\"k\"}", LOAD_SAYS_TEXT | LOAD_SAYS_REASONING },
        { "{\"content\":\"\",\"thinking\":\"k\"}", LOAD_SAYS_REASONING },
        { "null", LOAD_SAYS_BAD },
        { "", LOAD_SAYS_BAD },
        { "{} {}", LOAD_SAYS_BAD },
    };
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < COUNT(events); i++) {
            const unsigned says = load_event_read(&e, events[i].data, strlen(events[i].data));
            if (says != events[i].says) fail_msg("%s says %u", events[i].data, says);
        }
        assert_int_equal(r.output_tokens, 6);
        assert_string_equal(text.data, "abcdefg\"ij");
        sonde_buf_reset(&text);
    }
    sonde_buf_release(&text);
    sonde__free(e.shape.bytes);
}

/* Feeds a head, then one byte again and again; returns how much had to come until it was over. */
static uint64_t feed_endless(struct fed *f, const char *begin, uint64_t answer_max)
{
    static struct sonde_http_head head;
    char block[4096], *first = strdup(begin);
    uint64_t fed = 0;
    memset(f, 0, sizeof(*f));
    load_answer_begin(&f->answer, &f->record, NULL, answer_max, 1);
    int over = load_answer_feed(&f->answer, &head, first, strlen(first), 1);
    while (!over && fed < 1u << 26) {
        memset(block, 'x', sizeof(block));
        over = load_answer_feed(&f->answer, &head, block, sizeof(block), 2);
        fed += sizeof(block);
        assert_true(f->answer.stash_cap <= 4 * LOAD_STASH_MAX);
    }
    free(first);
    return fed;
}

static void test_bounds(void **state)
{
    (void)state;
    struct fed f;
    static const char *const lines[] = { SSE "data: {\"content\":\"", LINES "{\"response\":\"", SSE "x" };
    for (size_t i = 0; i < COUNT(lines); i++) {
        const uint64_t fed = feed_endless(&f, lines[i], UINT64_MAX);
        assert_int_equal(f.record.outcome, SONDE_LOAD_TOO_LONG);
        assert_true(fed <= LOAD_STASH_MAX + 8192);
        load_answer_release(&f.answer);
    }
    feed_endless(&f, "HTTP/1.1 200 OK\r\nX: ", UINT64_MAX);
    assert_int_equal(f.record.outcome, SONDE_LOAD_TOO_LONG);
    load_answer_release(&f.answer);
    /* A document that is too long to be looked at is counted to its end … */
    char *whole = malloc(3u << 20);
    const int head = sprintf(whole, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                    "Content-Length: %u\r\n\r\n", 2u << 20);
    memset(whole + head, '1', 2u << 20);
    feed(&f, whole, (size_t)head + (2u << 20), RANDOM, UINT64_MAX);
    assert_int_equal(f.record.outcome, SONDE_LOAD_OK);
    assert_int_equal(f.record.bytes, 2u << 20);
    assert_true(f.answer.keep_alive);
    unfeed(&f);
    /* … unless it is longer than answers may be. */
    feed(&f, whole, (size_t)head + (2u << 20), RANDOM, 1u << 20);
    assert_int_equal(f.record.outcome, SONDE_LOAD_TOO_LONG);
    assert_false(f.answer.keep_alive);
    unfeed(&f);
    free(whole);
}

/* Many answers of one loop, each within its own limit: together they stay below another. */
static void test_bounds_of_all(void **state)
{
    (void)state;
    enum { ANSWERS = 400, BYTES_EACH = 900000 };
    static struct sonde_http_head head;
    static struct load_answer all[ANSWERS];
    static struct sonde_load_record records[ANSWERS];
    uint64_t bytes = 0;
    uint32_t refused = 0;
    char *line = malloc(BYTES_EACH);
    for (size_t i = 0; i < ANSWERS; i++) {
        load_answer_init(&all[i]);
        all[i].stashes = &bytes;
        load_answer_begin(&all[i], &records[i], NULL, UINT64_MAX, 0);
        char begin[] = SSE "data: ";
        assert_int_equal(load_answer_feed(&all[i], &head, begin, strlen(begin), 1), 0);
        memset(line, 'x', BYTES_EACH);
        if (load_answer_feed(&all[i], &head, line, BYTES_EACH, 2)) {
            assert_int_equal(records[i].outcome, SONDE_LOAD_TOO_LONG);
            refused++;
        }
        assert_true(bytes <= LOAD_STASHES_MAX + 2 * LOAD_STASH_MAX);
    }
    assert_true(refused > 0 && refused < ANSWERS);
    for (size_t i = 0; i < ANSWERS; i++) load_answer_release(&all[i]);
    assert_int_equal(bytes, 0);
    free(line);
}

static void test_keep_alive(void **state)
{
    (void)state;
    static const struct { const char *bytes; int over, keeps; } cases[] = {
        { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 1, 1 },
        { "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", 1, 1 },
        { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{} ", 1, 0 },
        { "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}", 1, 0 },
        { "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", 1, 0 },
        { "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n{}", 1, 1 },
        { "HTTP/1.1 200 OK\r\n\r\n{}", 0, 0 },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1, 1 },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nHTTP", 1, 0 },
        { "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1\r\n\r\n\n", 1, 0 },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct fed f;
        feed(&f, cases[i].bytes, strlen(cases[i].bytes), WHOLE, UINT64_MAX);
        if (f.over_before_end != cases[i].over || f.answer.keep_alive != cases[i].keeps) {
            fail_msg("%s: over %d, kept %d", cases[i].bytes, f.over_before_end, f.answer.keep_alive);
        }
        unfeed(&f);
    }
}

static void test_no_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1; nth < 12; nth++) {
        struct sonde_load_record r = { .output_tokens = NONE };
        struct load_answer a;
        static struct sonde_http_head head;
        const int64_t before = sonde__alloc_live();
        load_answer_init(&a);
        load_answer_begin(&a, &r, NULL, UINT64_MAX, 1);
        sonde__alloc_fail_nth(nth);
        int over = 0;
        for (const char *c = answers[0].bytes; *c && !over; c++) {
            char byte = *c;
            over = load_answer_feed(&a, &head, &byte, 1, 1);
        }
        if (!over) load_answer_close(&a, 2);
        sonde__alloc_fail_nth(0);
        assert_true(r.outcome == SONDE_LOAD_OK || r.outcome == SONDE_LOAD_TOO_LONG ||
                    r.outcome == SONDE_LOAD_PROTOCOL);
        load_answer_release(&a);
        assert_int_equal(sonde__alloc_live(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers), cmocka_unit_test(test_times),
        cmocka_unit_test(test_shapes),  cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_bounds_of_all), cmocka_unit_test(test_keep_alive), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
