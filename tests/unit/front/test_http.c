/* The parser of HTTP messages: what it takes, what it refuses, and that it does not matter how the
 * bytes were cut. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "front/http.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static uint64_t seed = 1;
static size_t below(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

/* ---- Heads --------------------------------------------------------------------------------- */

#define HOST "Host: h\r\n"
#define GET "GET / HTTP/1.1\r\n" HOST

static const struct head_case {
    const char *name, *text;
    int response;
    unsigned status;           /* of the answer to a bad request, or of a good response; 0 = good */
    const char *problem;       /* part of it; NULL = it is good */
} heads[] = {
    { "simple", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, 0, NULL },
    { "http/1.0 needs no host", "GET / HTTP/1.0\r\n\r\n", 0, 0, NULL },
    { "empty lines before", "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, 0, NULL },
    { "body behind it", "POST /x HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", 0, 0, NULL },
    { "chunked in any case", GET "transfer-ENCODING: Chunked\r\n\r\n", 0, 0, NULL },
    { "utf-8 in target and value", "GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\nX: \xc3\xa9\r\n\r\n", 0, 0,
      NULL },
    { "empty value", GET "X:\r\nY: \t \r\n\r\n", 0, 0, NULL },
    { "expects", GET "Expect: 100-Continue\r\n\r\n", 0, 0, NULL },
    { "absolute target", "GET http://h/x HTTP/1.1\r\nHost: h\r\n\r\n", 0, 0, NULL },

    { "no host", "GET / HTTP/1.1\r\n\r\n", 0, 400, "no Host" },
    { "two hosts", GET "Host: i\r\n\r\n", 0, 400, "Host is there twice" },
    { "tls", "\x16\x03\x01\x02", 0, 400, "TLS" },
    { "a blank first", " GET / HTTP/1.1\r\n", 0, 400, "not HTTP" },
    { "no method", "G(T / HTTP/1.1\r\n", 0, 400, "method" },
    { "no target", "GET  HTTP/1.1\r\n", 0, 400, "METHOD TARGET" },
    { "two blanks", "GET /  HTTP/1.1\r\n", 0, 400, "METHOD TARGET" },
    { "blank in the target", "GET /a b HTTP/1.1\r\n", 0, 400, "METHOD TARGET" },
    { "tab in the line", "GET\t/ HTTP/1.1\r\n", 0, 400, "method" },
    { "http/0.9", "GET /\r\n", 0, 400, "METHOD TARGET" },
    { "http/2", "PRI * HTTP/2.0\r\n", 0, 505, "HTTP/1.1" },
    { "no version", "GET / JTTP/1.1\r\n", 0, 400, "version" },
    { "lower case version", "GET / http/1.1\r\n", 0, 400, "version" },
    { "bare LF", "GET / HTTP/1.1\nHost: h\n\n", 0, 400, "without CR" },
    { "bare LF in a field", GET "X: y\n\r\n", 0, 400, "without CR" },
    { "bare CR in a field", GET "X: y\rz\r\n\r\n", 0, 400, "control" },
    { "NUL in a field", NULL, 0, 400, "control" },
    { "folded", GET "X: y\r\n z\r\n\r\n", 0, 400, "folded" },
    { "folded by a tab", GET "X: y\r\n\tz\r\n\r\n", 0, 400, "folded" },
    { "blank before the colon", GET "X : y\r\n\r\n", 0, 400, "NAME: VALUE" },
    { "no colon", GET "X\r\n\r\n", 0, 400, "NAME: VALUE" },
    { "no name", GET ": y\r\n\r\n", 0, 400, "NAME: VALUE" },
    { "length and chunks", GET "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 400,
      "contradict" },
    { "chunks and length", GET "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 0, 400,
      "contradict" },
    { "two lengths", GET "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 0, 400, "twice" },
    { "the same length twice", GET "Content-Length: 3\r\nContent-Length: 3\r\n\r\n", 0, 400,
      "twice" },
    { "a list of lengths", GET "Content-Length: 3, 3\r\n\r\n", 0, 400, "whole number" },
    { "negative length", GET "Content-Length: -3\r\n\r\n", 0, 400, "whole number" },
    { "length with a sign", GET "Content-Length: +3\r\n\r\n", 0, 400, "whole number" },
    { "hexadecimal length", GET "Content-Length: 0x3\r\n\r\n", 0, 400, "whole number" },
    { "empty length", GET "Content-Length: \r\n\r\n", 0, 400, "whole number" },
    { "huge length", GET "Content-Length: 1234567890123456789\r\n\r\n", 0, 400, "whole number" },
    { "gzip, chunked", GET "Transfer-Encoding: gzip, chunked\r\n\r\n", 0, 501, "chunked" },
    { "chunked twice", GET "Transfer-Encoding: chunked, chunked\r\n\r\n", 0, 501, "chunked" },
    { "chunked in two fields",
      GET "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 400, "twice" },
    { "almost chunked", GET "Transfer-Encoding: xchunked\r\n\r\n", 0, 501, "chunked" },
    { "chunked by control character", GET "Transfer-Encoding: \x0b" "chunked\r\n\r\n", 0, 400,
      "control" },
    { "chunks in http/1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 400,
      "HTTP/1.0" },
    { "unknown expectation", GET "Expect: tea\r\n\r\n", 0, 417, "100-continue" },

    { "response", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 1, 200, NULL },
    { "no reason", "HTTP/1.1 404\r\n\r\n", 1, 404, NULL },
    { "empty reason", "HTTP/1.0 599 \r\n\r\n", 1, 599, NULL },
    { "interim", "HTTP/1.1 100 Continue\r\n\r\n", 1, 100, NULL },
    { "bad status", "HTTP/1.1 2x0 OK\r\n\r\n", 1, 0, "number" },
    { "low status", "HTTP/1.1 099 OK\r\n\r\n", 1, 0, "below 100" },
    { "long status", "HTTP/1.1 2000 OK\r\n\r\n", 1, 0, "status line" },
    { "short", "HTTP/1.1 20\r\n\r\n", 1, 0, "status line" },
    { "other protocol", "ICY/1.1 200 OK\r\n\r\n", 1, 0, "status line" },
    { "http/2 response", "HTTP/2.0 200 OK\r\n\r\n", 1, 0, "HTTP/1.1" },
    { "empty line first", "\r\nHTTP/1.1 200 OK\r\n\r\n", 1, 0, "status line" },
    { "both framings", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
      1, 0, "contradict" },
};

static const char nul_in_field[] = GET "X: a\0b\r\n\r\n";

static void same_head(const char *name, const struct sonde_http_head *a,
                      const struct sonde_http_head *b)
{
    const int same = a->progress == b->progress && a->len == b->len && a->problem == b->problem &&
                     a->status == b->status && a->minor == b->minor &&
                     a->field_count == b->field_count && a->length == b->length &&
                     a->chunked == b->chunked &&
                     memcmp(&a->target, &b->target, sizeof(a->target)) == 0 &&
                     memcmp(a->field, b->field, a->field_count * sizeof(a->field[0])) == 0;
    if (!same) fail_msg("%s: another result when it is cut differently", name);
}

static void check_head(const struct head_case *c, const char *text, size_t len)
{
    struct sonde_http_head whole, cut;
    sonde_http_head_init(&whole, c->response);
    const enum sonde_http_progress got = sonde_http_head_feed(&whole, text, len);
    if (got != (c->problem ? SONDE_HTTP_BAD : SONDE_HTTP_DONE)) {
        fail_msg("%s: progress %d (%s)", c->name, got, whole.problem ? whole.problem : "-");
    }
    if (c->problem) {
        if (!strstr(whole.problem, c->problem)) fail_msg("%s: %s", c->name, whole.problem);
        if (!c->response && whole.problem_status != c->status) {
            fail_msg("%s: status %u", c->name, whole.problem_status);
        }
    } else if (c->response) {
        assert_int_equal(whole.status, c->status);
    }
    /* At every byte, and in pieces of random sizes; each in memory of just that size. */
    for (int round = 0; round < 20; round++) {
        sonde_http_head_init(&cut, c->response);
        size_t n = 0;
        while (cut.progress == SONDE_HTTP_MORE && n < len) {
            n += round == 0 ? 1 : 1 + below(len - n);
            char *piece = malloc(n);
            assert_non_null(piece);
            memcpy(piece, text, n);
            sonde_http_head_feed(&cut, piece, n);
            free(piece);
        }
        same_head(c->name, &whole, &cut);
    }
}

static void test_heads(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(heads); i++) {
        const char *text = heads[i].text ? heads[i].text : nul_in_field;
        check_head(&heads[i], text, heads[i].text ? strlen(text) : sizeof(nul_in_field) - 1);
    }
}

static void test_fields(void **state)
{
    (void)state;
    static const char text[] =
        "POST /v1/x?y HTTP/1.1\r\nHost:  h:1 \r\nconnection: Keep-Alive, X-Y\r\n"
        "Connection: UPGRADE ,, close\r\ncontent-length: 0012\r\nX-Y: 1\r\n\r\n";
    struct sonde_http_head h;
    sonde_http_head_init(&h, 0);
    assert_int_equal(sonde_http_head_feed(&h, text, strlen(text)), SONDE_HTTP_DONE);
    assert_int_equal(h.len, strlen(text));
    assert_int_equal(h.length, 12);
    assert_true(h.says_close && h.says_keep_alive && h.says_upgrade);
    assert_false(sonde_http_keeps_alive(&h));
    assert_memory_equal(text + h.target.at, "/v1/x?y", h.target.len);
    const struct sonde_http_field *host = sonde_http_field(&h, SONDE_HTTP_HOST);
    assert_non_null(host);
    assert_int_equal(host->value.len, 3);
    assert_memory_equal(text + host->value.at, "h:1", 3);
    assert_null(sonde_http_field(&h, SONDE_HTTP_VIA));
    assert_true(sonde_http_list_has("a, B\t,c", 7, "b"));
    assert_false(sonde_http_list_has("ab, c", 5, "b"));
    assert_false(sonde_http_list_has("", 0, "b"));
}

static void test_limits(void **state)
{
    (void)state;
    char *text = malloc(3 * SONDE_HTTP_HEAD_MAX);
    struct sonde_http_head h;
    /* A start line without end, fields without end, too many fields. */
    memset(text, 'a', 3 * SONDE_HTTP_HEAD_MAX);
    sonde_http_head_init(&h, 0);
    assert_int_equal(sonde_http_head_feed(&h, text, SONDE_HTTP_HEAD_MAX - 1), SONDE_HTTP_MORE);
    assert_int_equal(sonde_http_head_feed(&h, text, SONDE_HTTP_HEAD_MAX), SONDE_HTTP_BAD);
    assert_int_equal(h.problem_status, 414);
    memcpy(text, GET "X: ", strlen(GET "X: "));
    sonde_http_head_init(&h, 0);
    assert_int_equal(sonde_http_head_feed(&h, text, 3 * SONDE_HTTP_HEAD_MAX), SONDE_HTTP_BAD);
    assert_int_equal(h.problem_status, 431);
    for (unsigned fields = 127; fields < 129; fields++) {
        size_t n = (size_t)sprintf(text, GET);
        for (unsigned i = 0; i < fields; i++) n += (size_t)sprintf(text + n, "X: %u\r\n", i);
        n += (size_t)sprintf(text + n, "\r\n");
        sonde_http_head_init(&h, 0);
        assert_int_equal(sonde_http_head_feed(&h, text, n),
                         fields == 127 ? SONDE_HTTP_DONE : SONDE_HTTP_BAD);
    }
    assert_int_equal(h.problem_status, 431);
    free(text);
}

/* ---- Bodies -------------------------------------------------------------------------------- */

static const struct body_case {
    const char *name, *fields, *text, *payload;
    int rest;               /* bytes behind the body */
    const char *problem;    /* NULL = it is whole; "" = it is cut off */
} bodies[] = {
    { "length", "Content-Length: 5\r\n", "hello!", "hello", 1, NULL },
    { "length of 0", "Content-Length: 0\r\n", "x", "", 1, NULL },
    { "cut off", "Content-Length: 5\r\n", "hell", "hell", 0, "" },
    { "chunks", "Transfer-Encoding: chunked\r\n", "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\nGET", "hello", 3,
      NULL },
    { "hexadecimal", "Transfer-Encoding: chunked\r\n", "00A\r\n0123456789\r\n0000\r\n\r\n",
      "0123456789", 0, NULL },
    { "extensions", "Transfer-Encoding: chunked\r\n", "1;a=\"b\" ;c\r\nx\r\n0;d\r\n\r\n", "x", 0,
      NULL },
    { "trailers", "Transfer-Encoding: chunked\r\n", "1\r\nx\r\n0\r\nA: b\r\nC:\t\xc3\xa9\r\n\r\nz",
      "x", 1, NULL },
    { "no chunks at all", "Transfer-Encoding: chunked\r\n", "0\r\n\r\n", "", 0, NULL },
    { "chunks cut off", "Transfer-Encoding: chunked\r\n", "5\r\nhel", "hel", 0, "" },
    { "no last chunk", "Transfer-Encoding: chunked\r\n", "1\r\nx\r\n", "x", 0, "" },
    { "no end of trailers", "Transfer-Encoding: chunked\r\n", "0\r\n", "", 0, "" },
    { "no size", "Transfer-Encoding: chunked\r\n", "\r\n", "", 2, "no size" },
    { "only an extension", "Transfer-Encoding: chunked\r\n", ";a\r\n", "", 4, "no size" },
    { "sign", "Transfer-Encoding: chunked\r\n", "-1\r\n", "", 4, "no size" },
    { "0x", "Transfer-Encoding: chunked\r\n", "0x1\r\n", "", 4, "hexadecimal" },
    { "blank behind the size", "Transfer-Encoding: chunked\r\n", "1 \r\nx", "", 4, "hexadecimal" },
    { "huge", "Transfer-Encoding: chunked\r\n", "FFFFFFFFFFFFFFFF\r\n", "", 3, "too large" },
    { "bare LF", "Transfer-Encoding: chunked\r\n", "1\nx", "", 2, "hexadecimal" },
    { "bare LF behind an extension", "Transfer-Encoding: chunked\r\n", "1;a\nx", "", 2, "control" },
    { "bare CR", "Transfer-Encoding: chunked\r\n", "1\rx", "", 1, "CR LF" },
    { "data too long", "Transfer-Encoding: chunked\r\n", "1\r\nxy\r\n", "x", 3, "CR LF" },
    { "LF behind data", "Transfer-Encoding: chunked\r\n", "1\r\nx\n0\r\n", "x", 4, "CR LF" },
    { "trailer without name", "Transfer-Encoding: chunked\r\n", "0\r\n: x\r\n", "", 5,
      "NAME: VALUE" },
    { "folded trailer", "Transfer-Encoding: chunked\r\n", "0\r\nA: b\r\n c\r\n", "", 4,
      "NAME: VALUE" },
    { "blank in a trailer's name", "Transfer-Encoding: chunked\r\n", "0\r\nA : b\r\n", "", 6,
      "NAME: VALUE" },
    { "bare LF in trailers", "Transfer-Encoding: chunked\r\n", "0\r\nA: b\n", "", 1, "control" },
    { "a length in a trailer", "Transfer-Encoding: chunked\r\n",
      "1\r\nx\r\n0\r\nA: b\r\ncontent-LENGTH: 3\r\n\r\n", "x", 7, "belongs in the head" },
    { "a coding in a trailer", "Transfer-Encoding: chunked\r\n",
      "0\r\nTransfer-Encoding: chunked\r\n\r\n", "", 13, "belongs in the head" },
    { "who sent it in a trailer", "Transfer-Encoding: chunked\r\n",
      "0\r\nX-Forwarded-For: 1\r\n\r\n", "", 7, "belongs in the head" },
    { "names much like those", "Transfer-Encoding: chunked\r\n",
      "0\r\nContent-Length2: 3\r\nHos: t\r\nHost-with-a-very-long-name-behind-it: x\r\n\r\n", "", 0,
      NULL },
};

/* Feed text in pieces that end at `cuts` and report what came out. */
static size_t run_body(struct sonde_http_body *b, const char *text, size_t len, size_t piece,
                       char *payload)
{
    size_t at = 0, got = 0;
    while (at < len && b->progress == SONDE_HTTP_MORE) {
        size_t end = at + (piece ? piece : 1 + below(len - at));
        if (end > len) end = len;
        while (at < end && b->progress == SONDE_HTTP_MORE) {
            struct sonde_http_span s;
            const size_t n = sonde_http_body_feed(b, text + at, end - at, &s);
            assert_true(s.at + s.len <= n);
            memcpy(payload + got, text + at + s.at, s.len);
            got += s.len;
            at += n;
        }
    }
    payload[got] = 0;
    return at;
}

static void check_body(const struct body_case *c, size_t piece)
{
    char head[256], payload[256];
    struct sonde_http_head h;
    struct sonde_http_body b;
    const size_t len = strlen(c->text);
    snprintf(head, sizeof(head), "POST / HTTP/1.1\r\nHost: h\r\n%s\r\n", c->fields);
    sonde_http_head_init(&h, 0);
    assert_int_equal(sonde_http_head_feed(&h, head, strlen(head)), SONDE_HTTP_DONE);
    sonde_http_body_of_request(&b, &h);
    const size_t used = run_body(&b, c->text, len, piece, payload);
    if (strcmp(payload, c->payload) != 0) fail_msg("%s: payload '%s'", c->name, payload);
    if (c->problem && !*c->problem) {
        assert_int_equal(b.progress, SONDE_HTTP_MORE);
        assert_int_equal(sonde_http_body_end(&b), SONDE_HTTP_BAD);
    } else if (c->problem) {
        if (b.progress != SONDE_HTTP_BAD || !strstr(b.problem, c->problem)) {
            fail_msg("%s: progress %d, %s", c->name, b.progress, b.problem ? b.problem : "-");
        }
    } else {
        if (b.progress != SONDE_HTTP_DONE) fail_msg("%s: progress %d", c->name, b.progress);
        assert_int_equal(sonde_http_body_end(&b), SONDE_HTTP_DONE);
    }
    if (len - used != (size_t)c->rest) fail_msg("%s: %zu bytes left", c->name, len - used);
}

static void test_bodies(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bodies); i++) {
        for (size_t piece = 1; piece <= strlen(bodies[i].text); piece++) {
            check_body(&bodies[i], piece);
        }
        for (int round = 0; round < 30; round++) check_body(&bodies[i], 0);
    }
}

static void test_body_limits(void **state)
{
    (void)state;
    struct sonde_http_span s;
    char text[16384];
    memset(text, 'a', sizeof(text));
    struct sonde_http_body b = { .framing = SONDE_HTTP_CHUNKED };
    memcpy(text, "1;", 2);
    sonde_http_body_feed(&b, text, sizeof(text), &s);
    assert_int_equal(b.progress, SONDE_HTTP_BAD);
    b = (struct sonde_http_body){ .framing = SONDE_HTTP_CHUNKED };
    memcpy(text, "0\r\nA:", 5);
    sonde_http_body_feed(&b, text, sizeof(text), &s);
    assert_int_equal(b.progress, SONDE_HTTP_BAD);
}

static void test_response_framing(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int to_head;
        enum sonde_http_framing framing;
        enum sonde_http_progress progress;
    } cases[] = {
        { "HTTP/1.1 200 OK\r\n\r\n", 0, SONDE_HTTP_CLOSE, SONDE_HTTP_MORE },
        { "HTTP/1.0 200 OK\r\n\r\n", 0, SONDE_HTTP_CLOSE, SONDE_HTTP_MORE },
        { "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 0, SONDE_HTTP_LENGTH, SONDE_HTTP_MORE },
        { "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", 1, SONDE_HTTP_NONE, SONDE_HTTP_DONE },
        { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0, SONDE_HTTP_NONE, SONDE_HTTP_DONE },
        { "HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n", 0, SONDE_HTTP_NONE,
          SONDE_HTTP_DONE },
        { "HTTP/1.1 304 No\r\nContent-Length: 9\r\n\r\n", 0, SONDE_HTTP_NONE, SONDE_HTTP_DONE },
        { "HTTP/1.1 103 Hints\r\n\r\n", 0, SONDE_HTTP_NONE, SONDE_HTTP_DONE },
        { "HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n", 0, SONDE_HTTP_CHUNKED,
          SONDE_HTTP_MORE },
        { "HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n", 1, SONDE_HTTP_NONE,
          SONDE_HTTP_DONE },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct sonde_http_head h;
        struct sonde_http_body b;
        sonde_http_head_init(&h, 1);
        assert_int_equal(sonde_http_head_feed(&h, cases[i].text, strlen(cases[i].text)),
                         SONDE_HTTP_DONE);
        sonde_http_body_of_response(&b, &h, cases[i].to_head);
        assert_int_equal(b.framing, cases[i].framing);
        assert_int_equal(b.progress, cases[i].progress);
        if (b.framing == SONDE_HTTP_CLOSE) {
            assert_int_equal(sonde_http_body_end(&b), SONDE_HTTP_DONE);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),       cmocka_unit_test(test_fields),
        cmocka_unit_test(test_limits),      cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_body_limits), cmocka_unit_test(test_response_framing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
