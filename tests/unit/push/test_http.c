/* One POST: which URLs are taken, what goes over the wire, and what is made of the answer. The
 * collector is a socket of the test's, which answers what it is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "push/push_private.h"
#include "sonde/sonde.h"
#include "unit/profile/profile_build.h"
#include "unit/push/push_server.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define ANSWER(status, head, body) "HTTP/1.1 " status "\r\nConnection: close\r\n" head "\r\n" body
#define LONG_S 60.0 /* as good as never */

/* ---- URLs ------------------------------------------------------------------------------------ */

static void urls_taken(void **state)
{
    (void)state;
    static const struct { const char *url, *path, *out; } cases[] = {
        { "http://h", "", "http://h" },
        { "http://h/", "", "http://h" },
        { "http://h", "/api/v1/write", "http://h/api/v1/write" },
        { "http://h/", "/api/v1/write", "http://h/api/v1/write" },
        { "http://h:4318", "", "http://h:4318" },
        { "https://h:1/x", "/api/v1/write", "https://h:1/x" },
        { "https://h/x/", "/api/v1/write", "https://h/x" },
        { "http://127.0.0.1:9", "/p", "http://127.0.0.1:9/p" },
        { "http://[::1]:9/", "/p", "http://[::1]:9/p" },
        { "http://h/a/b%20c", "", "http://h/a/b%20c" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char out[PUSH_URL_MAX];
        struct sonde_err err = { "" };
        if (push_url_check(cases[i].url, cases[i].path, out, &err)) {
            fail_msg("%s: %s", cases[i].url, err.text);
        }
        assert_string_equal(out, cases[i].out);
    }
}

static void urls_refused(void **state)
{
    (void)state;
    static const struct { const char *url, *says; } cases[] = {
        { "", "is not a URL" },
        { "h", "'h'" },
        { "h:4318", "'h:4318'" },
        { "//h", "is not a URL" },
        { "HTTP://h", "is not a URL" },
        { "ftp://h", "'ftp://h'" },
        { "file:///etc/passwd", "is not a URL" },
        { "unix:///run/x", "is not a URL" },
        { "http://", "is not a URL" },
        { "http://h:99999", "is not a URL" },
        { "http://h:x", "is not a URL" },
        { "http://[::1", "is not a URL" },
        { "http://a b/", "is not a URL" },
        { "http://h/\r\nX: y", "is not a URL" },
        { "http://u@h", "credentials" },
        { "http://u:hunter2@h", "credentials" },
        { "http://:hunter2@h", "credentials" },
        { "http://h?x", "no ?" },
        { "http://h/?token=hunter2#", "no ?" },
        { "http://h/#x", "no #" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char out[PUSH_URL_MAX] = "untouched";
        struct sonde_err err = { "" };
        if (!push_url_check(cases[i].url, "", out, &err)) fail_msg("%s is taken", cases[i].url);
        if (!strstr(err.text, cases[i].says)) fail_msg("%s: %s", cases[i].url, err.text);
        assert_string_equal(out, "untouched");
        if (strstr(cases[i].url, "hunter2@")) assert_null(strstr(err.text, "hunter2"));
    }
    static char url[2000];
    char out[PUSH_URL_MAX];
    struct sonde_err err = { "" };
    for (size_t len = 500; len < 530; len++) {
        memset(url, 'h', len);
        memcpy(url, "http://h/", 9);
        url[len] = '\0';
        const int rc = push_url_check(url, "/12", out, &err);
        assert_int_equal(rc, len + 4 <= PUSH_URL_MAX / 2 ? 0 : SONDE_EINVAL);
        if (rc) assert_non_null(strstr(err.text, "too long"));
    }
}

/* ---- A POST ---------------------------------------------------------------------------------- */

static char *lines[] = { "Content-Type: text/x-test", "X-Token: abc", NULL };

struct outcome { int rc; struct push_answer answer; };

static struct outcome post_to(int port, const char *target, char *body, size_t len,
                              double timeout_s, int (*stop)(void *arg))
{
    static struct push_dest d;
    struct push_batch b = { .target = (char *)(uintptr_t)target, .body = body, .body_len = len };
    struct outcome o = { 0 };
    snprintf(d.url, sizeof(d.url), "http://127.0.0.1:%d/base", port);
    d.headers = lines;
    sonde_buf_init(&o.answer.body, 1000);
    void *curl = push_http_open();
    assert_non_null(curl);
    o.rc = push_http_post(curl, &d, &b, timeout_s, stop, NULL, &o.answer);
    push_http_close(curl);
    return o;
}

static void what_goes_over_the_wire(void **state)
{
    (void)state;
    static char body[300000];
    struct push_server s;
    push_server_start(&s, (const char *const[]){ HTTP_OK, HTTP_OK, HTTP_OK, NULL });
    for (size_t i = 0; i < sizeof(body); i++) body[i] = (char)(i * 17);
    static const size_t sizes[] = { 5, 0, sizeof(body) };
    for (size_t i = 0; i < 3; i++) {
        struct outcome o = post_to(s.port, i == 1 ? "" : "/v1/x?a=b", body, sizes[i], LONG_S, NULL);
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.answer.status, 200);
        assert_string_equal(o.answer.text, "HTTP 200");
        sonde_buf_release(&o.answer.body);
    }
    push_server_join(&s);
    assert_int_equal(s.count, 3);
    for (size_t i = 0; i < 3; i++) {
        const char *got = s.got[i].data, *first = i == 1 ? "POST /base HTTP/1.1\r\n"
                                                         : "POST /base/v1/x?a=b HTTP/1.1\r\n";
        if (strncmp(got, first, strlen(first))) fail_msg("%.60s", got);
        assert_non_null(strstr(got, "\r\nContent-Type: text/x-test\r\n"));
        assert_non_null(strstr(got, "\r\nX-Token: abc\r\n"));
        assert_non_null(strstr(got, "\r\nUser-Agent: sonde/"));
        assert_null(strcasestr(got, "\r\nExpect:")); /* nobody waits a second for 100 Continue */
        assert_int_equal(s.got[i].len - s.got[i].body, sizes[i]);
        assert_memory_equal(got + s.got[i].body, body, sizes[i]);
    }
    push_server_free(&s);
}

static void what_is_made_of_the_answer(void **state)
{
    (void)state;
    static char long_line[400], long_body[5000], long_text[200];
    memset(long_line, 'x', 300);
    memset(long_text, 'x', 160);
    snprintf(long_body, sizeof(long_body), ANSWER("500 X", "", "%s"), long_line);
    char expected_long[256];
    snprintf(expected_long, sizeof(expected_long), "HTTP 500: %s", long_text);
    const struct {
        const char *raw;
        int rc;
        long status;
        double after_s;
        const char *text;
    } cases[] = {
        { HTTP_OK, 0, 200, 0, "HTTP 200" },
        { ANSWER("204 No Content", "", ""), 0, 204, 0, "HTTP 204" },
        { ANSWER("400 Bad", "", "no such thing\n"), 0, 400, 0, "HTTP 400: no such thing" },
        { ANSWER("400 Bad", "", "one\r\ntwo"), 0, 400, 0, "HTTP 400: one" },
        { ANSWER("400 Bad", "", "all of it"), 0, 400, 0, "HTTP 400: all of it" },
        { ANSWER("400 Bad", "", "\x08\x01\x12\x03no"), 0, 400, 0, "HTTP 400" }, /* protobuf */
        { ANSWER("400 Bad", "", "bell\x07"), 0, 400, 0, "HTTP 400" },
        { ANSWER("400 Bad", "", "esc\x1b[31m"), 0, 400, 0, "HTTP 400" },
        { ANSWER("400 Bad", "", "\xc3\xa4"), 0, 400, 0, "HTTP 400" },
        { ANSWER("400 Bad", "", "\n"), 0, 400, 0, "HTTP 400" },
        { long_body, 0, 500, 0, expected_long },
        { ANSWER("429 Slow", "Retry-After: 17\r\n", ""), 0, 429, 17, "HTTP 429" },
        { ANSWER("503 Later", "Retry-After: 0\r\n", "x"), 0, 503, 0, "HTTP 503: x" },
        { ANSWER("503 Later", "Retry-After: -5\r\n", ""), 0, 503, 0, "HTTP 503" },
        { ANSWER("503 Later", "Retry-After: soon\r\n", ""), 0, 503, 0, "HTTP 503" },
        { ANSWER("503 Later", "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n", ""), 0, 503, 0,
          "HTTP 503" },
        /* Redirections are not followed: what is sent may carry a token. */
        { ANSWER("302 Found", "Location: http://127.0.0.1:1/x\r\n", ""), 0, 302, 0, "HTTP 302" },
        { ANSWER("307 There", "Location: file:///etc/passwd\r\n", ""), 0, 307, 0, "HTTP 307" },
        /* None came. */
        { "", SONDE_EIO, 0, 0, NULL },
        { "garbage\r\n\r\n", SONDE_EIO, 0, 0, NULL },
        { "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", SONDE_EIO, 0, 0, NULL },
        { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", SONDE_EIO, 0, 0, NULL },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct push_server s;
        char body[] = "x";
        push_server_start(&s, (const char *const[]){ cases[i].raw, NULL });
        struct outcome o = post_to(s.port, "", body, 1, LONG_S, NULL);
        push_server_join(&s);
        push_server_free(&s);
        if (o.rc != cases[i].rc || o.answer.status != cases[i].status ||
            o.answer.retry_after_s != cases[i].after_s) {
            fail_msg("case %zu: %d, %ld, after %g: %s", i, o.rc, o.answer.status,
                     o.answer.retry_after_s, o.answer.text);
        }
        if (cases[i].text) assert_string_equal(o.answer.text, cases[i].text);
        else assert_true(o.answer.text[0] != '\0');
        sonde_buf_release(&o.answer.body);
    }
}

/* The first bytes are kept, the rest is read and forgotten: it is a success all the same. */
static void long_answers_are_cut(void **state)
{
    (void)state;
    static const size_t sizes[] = { 999, 1000, 1001, 500000 };
    static char raw[500200];
    char body[] = "x";
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct push_server s;
        const size_t head = (size_t)snprintf(
            raw, sizeof(raw), ANSWER("200 OK", "Content-Length: %zu\r\n", ""), sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++) raw[head + k] = (char)('a' + k % 26);
        raw[head + sizes[i]] = '\0';
        push_server_start(&s, (const char *const[]){ raw, NULL });
        struct outcome o = post_to(s.port, "", body, 1, LONG_S, NULL);
        push_server_join(&s);
        push_server_free(&s);
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.answer.status, 200);
        assert_int_equal(o.answer.body.len, sizes[i] < 1000 ? sizes[i] : 1000);
        assert_memory_equal(o.answer.body.data, raw + head, o.answer.body.len);
        sonde_buf_release(&o.answer.body);
    }
}

/* A port that is taken, so that nobody else gets it, and that nobody listens on. */
static int closed_port(void)
{
    static int fd = -1;
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(a);
    if (fd < 0) {
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    }
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    return ntohs(a.sin_port);
}

static int at_once(void *arg) { return (void)arg, 1; }

static void nobody_there(void **state)
{
    (void)state;
    char body[] = "x";
    struct outcome o = post_to(closed_port(), "", body, 1, LONG_S, NULL);
    assert_int_equal(o.rc, SONDE_EIO);
    assert_int_equal(o.answer.status, 0);
    assert_non_null(strstr(o.answer.text, "onnect"));
    sonde_buf_release(&o.answer.body);
}

/* It takes the connection and says nothing: the time limit ends it, or who asks for the end. */
static void silence(void **state)
{
    (void)state;
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t len = sizeof(a);
    char body[] = "x";
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fd, 8), 0); /* the kernel takes connections, nobody reads them */
    getsockname(fd, (struct sockaddr *)&a, &len);
    const int port = ntohs(a.sin_port);
    struct outcome o = post_to(port, "", body, 1, 0.05, NULL);
    assert_int_equal(o.rc, SONDE_EIO);
    assert_non_null(strstr(o.answer.text, "imed out"));
    sonde_buf_release(&o.answer.body);
    o = post_to(port, "", body, 1, LONG_S, at_once);
    assert_int_equal(o.rc, SONDE_EIO);
    assert_int_equal(o.answer.status, 0);
    sonde_buf_release(&o.answer.body);
    close(fd);
}

/* One handle, one answer after the other: nothing of the one before is left. */
static void handle_is_used_again(void **state)
{
    (void)state;
    static struct push_dest d;
    struct push_server s;
    char target[] = "", body[] = "x";
    struct push_batch b = { .target = target, .body = body, .body_len = 1 };
    struct push_answer a = { 0 };
    static const struct { int rc; long status; double after_s; size_t len; } expected[] = {
        { 0, 503, 9, 5 }, { 0, 200, 0, 0 }, { SONDE_EIO, 0, 0, 0 }, { 0, 200, 0, 0 },
    };
    push_server_start(&s, (const char *const[]){ ANSWER("503 X", "Retry-After: 9\r\n", "later"),
                                                 HTTP_OK, "", HTTP_OK, NULL });
    snprintf(d.url, sizeof(d.url), "http://127.0.0.1:%d", s.port);
    sonde_buf_init(&a.body, 1000);
    void *curl = push_http_open();
    for (size_t i = 0; i < COUNT(expected); i++) {
        const int rc = push_http_post(curl, &d, &b, LONG_S, NULL, NULL, &a);
        assert_int_equal(rc, expected[i].rc);
        assert_int_equal(a.status, expected[i].status);
        assert_true(a.retry_after_s == expected[i].after_s);
        assert_int_equal(a.body.len, expected[i].len);
    }
    push_http_close(curl);
    push_http_close(NULL);
    sonde_buf_release(&a.body);
    push_server_join(&s);
    push_server_free(&s);
}

/* ---- Reaching, and once ---------------------------------------------------------------------- */

static void reach(void **state)
{
    (void)state;
    struct push_server s;
    struct sonde_err err = { "" };
    char url[64];
    push_server_start(&s, (const char *const[]){ "", NULL });
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", s.port);
    assert_int_equal(push_http_reach(url, LONG_S, &err), 0);
    push_server_join(&s);
    assert_int_equal(s.got[0].len, 0); /* nothing is sent */
    push_server_free(&s);
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", closed_port());
    assert_int_equal(push_http_reach(url, LONG_S, &err), SONDE_EIO);
    assert_non_null(strstr(err.text, "onnect"));
    const struct sonde_push_target bad = { .kind = "otlp", .url = "h" }, none = { "x", url, NULL };
    assert_int_equal(sonde_push_reach(&bad, NULL, LONG_S, &err), SONDE_EINVAL);
    assert_int_equal(sonde_push_reach(&none, NULL, LONG_S, &err), SONDE_EINVAL);
    const struct sonde_push_target away = { .kind = "otlp", .url = url };
    assert_int_equal(sonde_push_reach(&away, NULL, LONG_S, &err), SONDE_EIO);
}

static struct sonde_profile *small_profile(void)
{
    struct sonde_profile *p = NULL;
    assert_int_equal(sonde_profile_create(1 << 24, &p), 0);
    p->program = sonde_profile_string(p, "/opt/my app", 11);
    p->start_ns = 1500000000ull;
    p->end_ns = 3200000000ull;
    p->rate_hz = 99;
    assert_int_equal(build_sample(p, "main;f;g", 1000, 0, 2000000000ull), 0);
    return p;
}

/* What `sonde push` sends of a profile, and what it says if that is not taken. */
static void once(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *answer, *headers, *path, *says;
        int rc;
    } cases[] = {
        { "otlp", HTTP_OK, "X-Token: t", "POST /v1development/profiles HTTP", NULL, 0 },
        { "pyroscope", HTTP_OK, NULL, "POST /ingest?name=my_app%7Bhost%3D", NULL, 0 },
        { "otlp", ANSWER("404 No", "", "not here"), NULL, "POST /v1development/profiles",
          "HTTP 404: not here", SONDE_EIO },
        { "otlp", ANSWER("503 No", "Retry-After: 99\r\n", ""), NULL, "POST /", "HTTP 503",
          SONDE_EIO },
        { "otlp", "", NULL, "POST /", "/v1development/profiles", SONDE_EIO },
        /* ExportProfilesServiceResponse{partial_success{rejected_profiles 1, "too old"}} */
        { "otlp", ANSWER("200 OK", "", "\x0a\x0b\x08\x01\x12\x07too old"), NULL, "POST /",
          "does not take it: too old", SONDE_EIO },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct push_server s;
        char url[64];
        struct sonde_err err = { "" };
        struct sonde_profile *p = small_profile();
        push_server_start(&s, (const char *const[]){ cases[i].answer, NULL });
        snprintf(url, sizeof(url), "http://127.0.0.1:%d/", s.port);
        const struct sonde_push_target target = { cases[i].kind, url, cases[i].headers };
        const int rc = sonde_push_once(&target, "zone=a b", LONG_S, p, &err);
        push_server_join(&s);
        if (rc != cases[i].rc) fail_msg("case %zu: %d, %s", i, rc, err.text);
        const char *says = cases[i].says ? cases[i].says : "";
        if (!strstr(err.text, says)) fail_msg("case %zu: %s", i, err.text);
        assert_int_equal(s.count, 1);
        if (strncmp(s.got[0].data, cases[i].path, strlen(cases[i].path))) {
            fail_msg("case %zu: %.80s", i, s.got[0].data);
        }
        if (cases[i].headers) assert_non_null(strstr(s.got[0].data, cases[i].headers));
        push_server_free(&s);
        sonde_profile_destroy(p);
    }
}

/* Pyroscope's name, times and rate are in the query; the form has two parts. */
static void pyroscope_form(void **state)
{
    (void)state;
    struct push_server s;
    char url[64];
    struct sonde_err err = { "" };
    struct sonde_profile *p = small_profile();
    push_server_start(&s, (const char *const[]){ HTTP_OK, NULL });
    snprintf(url, sizeof(url), "http://127.0.0.1:%d", s.port);
    const struct sonde_push_target target = { "pyroscope", url, NULL };
    assert_int_equal(sonde_push_once(&target, "zone=a b", LONG_S, p, &err), 0);
    push_server_join(&s);
    const char *got = s.got[0].data, *body = got + s.got[0].body;
    const size_t len = s.got[0].len - s.got[0].body;
    assert_non_null(strstr(got, "%2Czone%3Da_b%7D&from=1&until=4&spyName=sonde&sampleRate=99 "));
    assert_non_null(strstr(got, "Content-Type: multipart/form-data; boundary=sonde-"));
    assert_non_null(memmem(body, len, "name=\"profile\"; filename=\"profile.pprof\"", 39));
    assert_non_null(memmem(body, len, "name=\"sample_type_config\"", 25));
    assert_non_null(memmem(body, len, "\"aggregation\":\"sum\",\"sampled\":true}", 35));
    push_server_free(&s);
    sonde_profile_destroy(p);
}

static void kinds_without_profiles(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_profile *p = small_profile();
    const struct sonde_push_target target = { "remote_write", "http://127.0.0.1:1", NULL };
    assert_int_equal(sonde_push_once(&target, NULL, LONG_S, p, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "remote_write takes no profiles"));
    sonde_profile_destroy(p);
    const struct sonde_push_target pyroscope = { "pyroscope", "http://127.0.0.1:1", NULL };
    static char labels[700];
    memset(labels, 'v', sizeof(labels) - 1);
    memcpy(labels, "a=", 2);
    p = small_profile();
    assert_int_equal(sonde_push_once(&pyroscope, labels, LONG_S, p, &err), SONDE_EINVAL);
    assert_non_null(strstr(err.text, "too long for a URL"));
    sonde_profile_destroy(p);
}

int main(void)
{
#define T(name) cmocka_unit_test(name)
    const struct CMUnitTest tests[] = {
        T(urls_taken), T(urls_refused), T(what_goes_over_the_wire), T(what_is_made_of_the_answer),
        T(long_answers_are_cut), T(nobody_there), T(silence), T(handle_is_used_again), T(reach),
        T(once), T(pyroscope_form), T(kinds_without_profiles),
    };
    return cmocka_run_group_tests_name("http", tests, NULL, NULL);
}
