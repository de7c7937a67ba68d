/* The service over real sockets: a collector on an empty directory, whose model the tests fill. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "serve/export/export.h"
#include "serve/http/server.h"
#include "unit/serve/serve_collector.h"
#include "unit/serve/serve_model.h"

static struct sonde_server *server;
static int port;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fill(struct sonde_model *m)
{
    sonde_wrlock(&m->lock);
    struct sonde_model_family *f = family(m, SONDE_COUNTER, "a_total", "A.", "", 1);
    for (int i = 0; i < 100; i++) {
        char value[16];
        snprintf(value, sizeof(value), "v%d", i);
        series1(m, f, "k", value)->counter = (uint64_t)i;
    }
    series1(m, family(m, SONDE_GAUGE, "b", "B.", "", 1), NULL, NULL)->gauge = 1.5;
    record(series1(m, family(m, SONDE_HISTOGRAM, "c", "C.", "", 1), NULL, NULL), 3, 7);
    struct sonde_model_attr attrs[] = {
        { .key = "n", .type = SONDE__ATTR_INT, .value.i = -5 },
        { .key = "s", .type = SONDE__ATTR_STR, .value.str = "x\"y" },
    };
    sonde_model_span(m, &(struct sonde_model_span){
                            .name = "work", .program = "prog", .pid = 12, .tid = 13,
                            .start_ns = 1700000000123456789ull, .duration_ns = 1500,
                            .trace_hi = 0xabc, .trace_lo = 0xdef, .id = 9, .outcome = SONDE_ERROR,
                            .attrs = attrs, .attr_count = 2 });
    sonde_model_process(m, 12, 1, "prog")->drops[SONDE__DROP_memory] = 2;
    sonde_model_tick(m, now());
    sonde_rwunlock(&m->lock);
}

static int setup(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    if (collector_make(NULL) != 0) return -1;
    const struct sonde_server_options listen_on = { .listen = "127.0.0.1:0",
                                                    .agent = &agent };
    if (sonde_server_start(&listen_on, &server, &err) != 0) return -1;
    port = atoi(strrchr(sonde_server_url(server), ':') + 1);
    fill(sonde_collector_model(collector));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sonde_server_stop(server);
    return collector_end();
}

/* ---- A client ------------------------------------------------------------------------------ */

static int dial(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        const ssize_t n = send(fd, text, left, MSG_NOSIGNAL);
        if (n <= 0) return; /* the server may have had enough */
        text += n;
        left -= (size_t)n;
    }
}

static char reply[4 << 20];
static size_t reply_len;

/* Everything up to the end of the connection. */
static void hear(int fd)
{
    reply_len = 0;
    for (ssize_t n; reply_len < sizeof(reply) - 1; reply_len += (size_t)n) {
        struct pollfd p = { fd, POLLIN, 0 };
        assert_int_equal(poll(&p, 1, 60000), 1);
        n = recv(fd, reply + reply_len, sizeof(reply) - 1 - reply_len, 0);
        if (n <= 0) break;
    }
    reply[reply_len] = 0;
}

static int status(void) { return strncmp(reply, "HTTP/1.1 ", 9) == 0 ? atoi(reply + 9) : -1; }

static const char *body(void)
{
    const char *end = strstr(reply, "\r\n\r\n");
    assert_non_null(end);
    return end + 4;
}

static int has_header(const char *line)
{
    const char *at = strcasestr(reply, line);
    return at && at < body();
}

/* One request on a connection of its own; headers without the last empty line. */
static int ask_raw(const char *text)
{
    const int fd = dial();
    say(fd, text);
    hear(fd);
    close(fd);
    return status();
}

static int ask(const char *method, const char *target, const char *headers)
{
    char text[4096];
    snprintf(text, sizeof(text),
             "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n", method, target,
             headers);
    return ask_raw(text);
}

/* ---- Tests --------------------------------------------------------------------------------- */

static void test_negotiation(void **state)
{
    (void)state;
    static const struct { const char *accept, *type; } cases[] = {
        { "", "Content-Type: text/plain; version=0.0.4; charset=utf-8" },
        { "Accept: application/openmetrics-text;version=1.0.0,*/*;q=0.1\r\n",
          "Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8" },
        { "Accept: application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
          "encoding=delimited,text/plain;q=0.5\r\n",
          "Content-Type: application/vnd.google.protobuf; "
          "proto=io.prometheus.client.MetricFamily; encoding=delimited" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(ask("GET", "/metrics", cases[i].accept), 200);
        assert_true(has_header(cases[i].type));
        assert_true(has_header("Vary: Accept, Accept-Encoding"));
    }
    ask("GET", "/metrics", "");
    assert_non_null(strstr(body(), "\na_total{k=\"v99\"} 99\n"));
    assert_non_null(strstr(body(), "\nc_bucket{le=\"4\"} 7\n"));
}

static void test_names(void **state)
{
    (void)state;
    assert_int_equal(ask("GET", "/metrics?name[]=b&name%5B%5D=c*", ""), 200);
    assert_null(strstr(body(), "a_total"));
    assert_non_null(strstr(body(), "\nb 1.5\n"));
    assert_non_null(strstr(body(), "\nc_count 7\n"));
    assert_int_equal(ask("GET", "/metrics?name=b", ""), 200);
    assert_string_equal(body(), "# HELP b B.\n# TYPE b gauge\nb 1.5\n");
    assert_int_equal(ask("GET", "/metrics?name=nothing", ""), 200);
    assert_string_equal(body(), "");
}

static void test_gzip(void **state)
{
    (void)state;
    ask("GET", "/metrics", "");
    char *plain = strdup(body());
    assert_int_equal(ask("GET", "/metrics", "Accept-Encoding: deflate, gzip\r\n"), 200);
    assert_true(has_header("Content-Encoding: gzip"));
    const size_t packed = reply_len - (size_t)(body() - reply);
    assert_true(packed < strlen(plain) / 3);
    char *unpacked = calloc(1, strlen(plain) + 1);
    z_stream z = { .next_in = (Bytef *)(uintptr_t)body(), .avail_in = (uInt)packed,
                   .next_out = (Bytef *)unpacked, .avail_out = (uInt)strlen(plain) };
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    inflateEnd(&z);
    assert_string_equal(unpacked, plain);
    free(unpacked);
    free(plain);
    ask("GET", "/livez", "Accept-Encoding: gzip\r\n");
    assert_false(has_header("Content-Encoding"));
    assert_string_equal(body(), "ok\n");
}

static void test_head(void **state)
{
    (void)state;
    assert_int_equal(ask("HEAD", "/metrics", ""), 200);
    assert_string_equal(body(), "");
    assert_true(has_header("Content-Type: text/plain; version=0.0.4"));
    const char *length = strcasestr(reply, "Content-Length: ");
    const int head = atoi(length + 16);
    ask("GET", "/metrics", "");
    assert_int_equal(head, strlen(body()));
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct { const char *method, *target, *headers; int status; const char *says; }
    cases[] = {
        { "GET", "/nothing", "", 404, "no such path" },
        { "GET", "/metrics/", "", 404, "no such path" },
        { "GET", "/../etc/passwd", "", 404, "no such path" },
        { "GET", "/profiling/nothing", "", 404, "no such page" },
        { "GET", "/profiling/", "", 404, "no such path" },
        { "POST", "/profiling/app.js", "", 405, "only GET" },
        { "POST", "/metrics", "", 405, "only GET" },
        { "DELETE", "/api/query", "", 405, "only GET" },
        { "OPTIONS", "/livez", "", 405, "only GET" },
        { "POST", "/metrics", "Content-Length: 3\r\n\r\nabc", 405, "only GET" },
        { "GET", "/metrics", "Content-Length: 3\r\n\r\nabc", 413, "takes no body" },
        { "GET", "/metrics?nme=x", "", 400, "unknown parameter \\\"nme\\\"" },
        { "GET", "/health?format=xml", "", 400, "parameter format" },
        { "GET", "/metrics?name=a%00b", "", 400, "NUL" },
        { "GET", "/api/query?window=x", "", 400, "parameter window" },
        { "GET", "/api/query?window=0", "", 400, "parameter window" },
        { "GET", "/api/query?window=nan", "", 400, "parameter window" },
        { "GET", "/api/query?window=0x10", "", 400, "parameter window" },
        { "GET", "/api/query?window=", "", 400, "parameter window" },
        { "GET", "/api/query?limit=0", "", 400, "parameter limit" },
        { "GET", "/api/query?limit=-1", "", 400, "parameter limit" },
        { "GET", "/api/query?limit=99999999999999999999", "", 400, "parameter limit" },
        { "GET", "/api/query?history=1.5", "", 400, "parameter history" },
        { "GET", "/api/query?pid=abc", "", 400, "parameter pid" },
        { "GET", "/api/query?type=color", "", 400, "parameter type" },
        { "GET", "/api/query?label=nocolon", "", 400, "parameter label" },
        { "GET", "/api/query?label=a:1&label=b:1&label=c:1&label=d:1&label=e:1", "", 400,
          "parameter label" },
        { "GET", "/api/query?from=9&to=8", "", 400, "parameter to" },
        { "GET", "/api/spans?trace=12", "", 400, "parameter trace" },
        { "GET", "/api/spans?trace=00000000000000000000000000000000", "", 400, "trace" },
        { "GET", "/api/export?format=xml", "", 400, "prometheus, openmetrics, protobuf" },
        { "GET", "/api/series?name=a&name=b", "", 400, "parameter name" },
        { "GET", "/api/processes?x=1", "", 400, "unknown parameter" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int got = ask(cases[i].method, cases[i].target, cases[i].headers);
        if (got != cases[i].status) print_message("%s %s\n", cases[i].method, cases[i].target);
        assert_int_equal(got, cases[i].status);
        assert_non_null(strstr(body(), cases[i].says));
        if (got == 405) assert_true(has_header("Allow: GET, HEAD"));
        if (has_header("Content-Type: application/json")) {
            json_t *root = json_loads(body(), 0, NULL);
            assert_non_null(json_object_get(root, "error"));
            json_decref(root);
        }
    }
}

static void test_hosts(void **state)
{
    (void)state;
    assert_int_equal(
        ask_raw("GET /livez HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"), 403);
    assert_non_null(strstr(body(), "evil.example"));
    assert_int_equal(ask_raw("GET /livez HTTP/1.1\r\nHost: [::1]:1\r\nConnection: close\r\n\r\n"),
                     200);
    assert_int_equal(ask_raw("GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n"), 400);
    const int fd = dial(); /* no browser speaks 1.0 without Host */
    say(fd, "GET /livez HTTP/1.0\r\n\r\n");
    hear(fd);
    close(fd);
    assert_non_null(strstr(reply, " 200 "));
}

static void test_index(void **state)
{
    (void)state;
    assert_int_equal(ask("GET", "/", ""), 200);
    assert_true(has_header("Content-Type: text/plain"));
    assert_true(has_header("Vary: Accept, Accept-Encoding"));
    assert_non_null(strstr(body(), "/api/query"));
    assert_int_equal(ask("GET", "/", "Accept: text/plain, text/html;q=0.5\r\n"), 200);
    assert_int_equal(ask("GET", "/", "Accept: text/html,*/*;q=0.8\r\n"), 302);
    assert_true(has_header("Location: /profiling/dashboard\r\n"));
    assert_true(has_header("Vary: Accept, Accept-Encoding"));
    assert_int_equal(ask("GET", "/?range=60&model=a%26b%0d%0aX-Y:%20z&base",
                         "Accept: text/html\r\n"), 302);
    assert_true(has_header("Location: "
                           "/profiling/dashboard?range=60&model=a%26b%0D%0AX-Y%3A%20z&base=\r\n"));
    char path[3000] = "/?model=";
    memset(path + 8, '+', 2000); /* %20 each in the header */
    assert_int_equal(ask("GET", path, "Accept: text/html\r\n"), 302);
    assert_true(has_header("Location: /profiling/dashboard\r\n"));
    assert_int_equal(ask("GET", "/profiling/routes", ""), 200);
    assert_true(has_header("Content-Type: text/html"));
    assert_true(has_header("Content-Security-Policy: default-src 'none'"));
    assert_non_null(strstr(body(), "<a href=\"/metrics\">"));
    assert_null(strstr(body(), "style="));
}

/* The value of a header, in out. */
static int header_value(const char *name, char *out, size_t size)
{
    char start[64];
    snprintf(start, sizeof(start), "\r\n%s: ", name);
    const char *at = strcasestr(reply, start);
    if (!at || at >= body()) return 0;
    at += strlen(start);
    snprintf(out, size, "%.*s", (int)strcspn(at, "\r"), at);
    return 1;
}

static char *unpack(const char *packed, size_t len, size_t *out_len)
{
    char *out = calloc(1, sizeof(reply));
    z_stream z = { .next_in = (Bytef *)(uintptr_t)packed, .avail_in = (uInt)len,
                   .next_out = (Bytef *)out, .avail_out = (uInt)sizeof(reply) };
    assert_int_equal(inflateInit2(&z, 15 + 16), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    *out_len = z.total_out;
    inflateEnd(&z);
    return out;
}

/* What is embedded: plain and packed hold the same, and whoever has it is told so. */
static void test_files(void **state)
{
    (void)state;
    static const struct { const char *path, *type, *holds; int page; } cases[] = {
        { "/profiling/dashboard", "text/html; charset=utf-8", "<script src=\"app.js\" defer>", 1 },
        { "/profiling/inference?range=60&x=1", "text/html; charset=utf-8", "data-version=\"", 1 },
        { "/profiling/requests", "text/html; charset=utf-8", "<noscript>", 1 },
        { "/profiling/cpu", "text/html; charset=utf-8", "", 1 },
        { "/profiling/memory", "text/html; charset=utf-8", "", 1 },
        { "/profiling/gpu", "text/html; charset=utf-8", "", 1 },
        { "/profiling/system", "text/html; charset=utf-8", "", 1 },
        { "/profiling/history", "text/html; charset=utf-8", "", 1 },
        { "/profiling/compare", "text/html; charset=utf-8", "", 1 },
        { "/profiling/findings", "text/html; charset=utf-8", "", 1 },
        { "/profiling/app.js", "text/javascript; charset=utf-8", "\"use strict\"", 0 },
        { "/profiling/app.css", "text/css; charset=utf-8", "--sonde-page:", 0 },
        { "/profiling/elements.js", "text/javascript; charset=utf-8", "", 0 },
        { "/profiling/icon.svg", "image/svg+xml", "<svg", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char etag[2][80], type[64], text[160], policy[512];
        size_t len;
        const char *path = cases[i].path;
        assert_int_equal(ask("GET", path, ""), 200);
        assert_true(header_value("Content-Type", type, sizeof(type)));
        assert_string_equal(type, cases[i].type);
        assert_true(has_header("Cache-Control: no-cache\r\n"));
        assert_true(has_header("X-Content-Type-Options: nosniff"));
        assert_true(has_header("Vary: Accept-Encoding\r\n"));
        assert_true(header_value("ETag", etag[0], sizeof(etag[0])));
        assert_non_null(strstr(body(), cases[i].holds));
        assert_int_equal(header_value("Content-Security-Policy", policy, sizeof(policy)),
                         cases[i].page);
        assert_int_equal(has_header("Referrer-Policy: no-referrer"), cases[i].page);
        if (cases[i].page) {
            assert_non_null(strstr(policy,
                                   "default-src 'none'; script-src 'self'; style-src 'self';"));
            assert_null(strstr(policy, "unsafe"));
        }
        char *plain = strdup(body());

        assert_int_equal(ask("GET", path, "Accept-Encoding: gzip, br\r\n"), 200);
        assert_true(has_header("Content-Encoding: gzip"));
        assert_true(header_value("ETag", etag[1], sizeof(etag[1])));
        assert_string_not_equal(etag[0], etag[1]);
        char *unpacked = unpack(body(), reply_len - (size_t)(body() - reply), &len);
        assert_int_equal(len, strlen(plain));
        assert_memory_equal(unpacked, plain, len);
        free(unpacked);

        for (int e = 0; e < 2; e++) {
            for (int head = 0; head < 2; head++) {
                snprintf(text, sizeof(text), "If-None-Match: \"x\", %s%s\r\n", e ? "W/" : "",
                         etag[e]);
                assert_int_equal(ask(head ? "HEAD" : "GET", path, text), 304);
                assert_string_equal(body(), "");
                assert_true(header_value("ETag", type, sizeof(type)));
                assert_string_equal(type, etag[0]);
            }
        }
        assert_int_equal(ask("GET", path, "If-None-Match: \"x\"\r\n"), 200);
        assert_string_equal(body(), plain);
        assert_int_equal(ask("HEAD", path, ""), 200);
        assert_string_equal(body(), "");
        assert_true(header_value("Content-Length", type, sizeof(type)));
        assert_int_equal(atoi(type), strlen(plain));
        free(plain);
    }
    char script[80], etag[80];
    ask("GET", "/profiling/app.js", "");
    assert_true(header_value("ETag", script, sizeof(script)));
    ask("GET", "/profiling/app.css", "");
    assert_true(header_value("ETag", etag, sizeof(etag)));
    assert_string_not_equal(script, etag);
}

static json_t *get_json(const char *target)
{
    assert_int_equal(ask("GET", target, ""), 200);
    assert_true(has_header("Content-Type: application/json"));
    json_error_t error;
    json_t *root = json_loads(body(), 0, &error);
    if (!root) print_message("%s: %s\n%s\n", target, error.text, body());
    assert_non_null(root);
    return root;
}

static void test_api(void **state)
{
    (void)state;
    json_t *root = get_json("/api/query?name=a*&name=*total&label=k:v7&history=5");
    int total, truncated, value;
    const char *name, *label;
    assert_int_equal(json_unpack(root, "{s:i,s:b,s:[{s:s,s:{s:s},s:i}]}", "total", &total,
                                 "truncated", &truncated, "series", "name", &name, "labels", "k",
                                 &label, "value", &value),
                     0);
    assert_string_equal(name, "a_total");
    assert_string_equal(label, "v7");
    assert_true(total == 1 && !truncated && value == 7);
    json_decref(root);

    root = get_json("/api/query?limit=3&type=counter&window=10");
    assert_int_equal(json_array_size(json_object_get(root, "series")), 3);
    assert_int_equal(json_integer_value(json_object_get(root, "total")), 100);
    assert_true(json_is_true(json_object_get(root, "truncated")));
    json_decref(root);

    root = get_json("/api/query?name=b&history=3");
    json_t *b = json_array_get(json_object_get(root, "series"), 0);
    json_t *point = json_array_get(json_object_get(b, "history"), 0);
    assert_true(json_number_value(json_array_get(point, 1)) == 1.5);
    assert_true(json_is_null(json_object_get(b, "process")));
    assert_true(json_is_null(json_object_get(b, "trend")));
    json_decref(root);

    root = get_json("/api/query?name=b&history=3&to=5");
    b = json_array_get(json_object_get(root, "series"), 0);
    assert_int_equal(json_array_size(json_object_get(b, "history")), 0);
    json_decref(root);

    root = get_json("/api/series?limit=2");
    b = json_array_get(json_object_get(root, "families"), 0);
    assert_int_equal(json_array_size(json_object_get(b, "series")), 2);
    assert_int_equal(json_array_size(json_object_get(root, "families")), 1);
    json_decref(root);
}

static void test_processes_and_spans(void **state)
{
    (void)state;
    json_t *root = get_json("/api/processes");
    int pid, dropped;
    const char *process_state, *trace, *outcome, *text, *id;
    double start, duration;
    assert_int_equal(json_unpack(root, "{s:[{s:i,s:s,s:{s:i}}]}", "processes", "pid", &pid,
                                 "state", &process_state, "drops", "memory", &dropped),
                     0);
    assert_string_equal(process_state, "running");
    assert_true(pid == 12 && dropped == 2);
    json_decref(root);

    static const struct { const char *query; size_t count; } cases[] = {
        { "", 1 },
        { "?trace=0000000000000abc0000000000000DEF", 1 },
        { "?trace=0000000000000abc0000000000000dee", 0 },
        { "?name=w*", 1 },
        { "?name=x*", 0 },
        { "?pid=12&limit=5", 1 },
        { "?pid=13", 0 },
        { "?from=1700000000&to=1700000001", 1 },
        { "?from=1700000001", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char target[128];
        snprintf(target, sizeof(target), "/api/spans%s", cases[i].query);
        root = get_json(target);
        assert_int_equal(json_array_size(json_object_get(root, "spans")), cases[i].count);
        json_decref(root);
    }
    root = get_json("/api/spans");
    int n;
    assert_int_equal(json_unpack(root, "{s:[{s:F,s:F,s:s,s:s,s:n,s:s,s:{s:i,s:s}}]}", "spans",
                                 "start", &start, "duration_s", &duration, "trace_id", &trace,
                                 "span_id", &id, "parent_id", "outcome", &outcome, "attributes",
                                 "n", &n, "s", &text),
                     0);
    assert_string_equal(trace, "0000000000000abc0000000000000def");
    assert_string_equal(id, "0000000000000009");
    assert_string_equal(outcome, "error");
    assert_string_equal(text, "x\"y");
    assert_true(n == -5 && start == 1700000000.123456789 && duration == 1500e-9);
    json_decref(root);

    /* Rings are read between ticks too: the time is that of the later of the two. */
    struct sonde_model *model = sonde_collector_model(collector);
    double time_s;
    sonde_wrlock(&model->lock);
    model->spans_s = model->now_s + 0.75;
    const double until_s = model->spans_s;
    sonde_rwunlock(&model->lock);
    root = get_json("/api/spans");
    assert_int_equal(json_unpack(root, "{s:F}", "time", &time_s), 0);
    assert_true(time_s > until_s - 0.002 && time_s < until_s + 0.002);
    json_decref(root);
}

static void test_export(void **state)
{
    (void)state;
    for (size_t i = 0; sonde_exports[i]; i++) {
        char target[64], type[160];
        snprintf(target, sizeof(target), "/api/export?format=%s&name=b", sonde_exports[i]->name);
        snprintf(type, sizeof(type), "Content-Type: %s", sonde_exports[i]->content_type);
        assert_int_equal(ask("GET", target, ""), 200);
        assert_true(has_header(type));
        struct sonde_buf out;
        sonde_buf_init(&out, 1 << 20);
        const struct sonde_filter f = { .name = "b" };
        struct sonde_model *m = sonde_collector_model(collector);
        sonde_rdlock(&m->lock);
        sonde_exports[i]->render(m, &f, &out);
        sonde_rwunlock(&m->lock);
        assert_int_equal(reply_len - (size_t)(body() - reply), out.len);
        assert_memory_equal(body(), out.data, out.len);
        sonde_buf_release(&out);
    }
}

static void test_health(void **state)
{
    (void)state;
    struct sonde_model *m = sonde_collector_model(collector);
    assert_int_equal(ask("GET", "/livez", ""), 200);
    assert_int_equal(ask("GET", "/readyz", ""), 200);
    json_t *root = get_json("/healthz");
    assert_string_equal(json_string_value(json_object_get(root, "status")), "degraded");
    assert_int_equal(json_integer_value(json_object_get(root, "ticks")), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "series")), 102);
    assert_int_equal(json_integer_value(json_object_get(root, "processes")), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "refused_segments")), 0);
    json_decref(root);

    sonde_wrlock(&m->lock);
    m->now_s -= 1000;
    sonde_rwunlock(&m->lock);
    assert_int_equal(ask("GET", "/livez", ""), 200);
    assert_int_equal(ask("GET", "/readyz", ""), 503);
    assert_non_null(strstr(body(), "stale"));
    assert_int_equal(ask("GET", "/healthz", ""), 503);
    assert_non_null(strstr(body(), "\"status\":\"stale\""));

    sonde_wrlock(&m->lock);
    m->tick = 0;
    sonde_rwunlock(&m->lock);
    assert_int_equal(ask("GET", "/readyz", ""), 503);
    assert_non_null(strstr(body(), "starting"));
}

static void test_pipelined_and_slow(void **state)
{
    (void)state;
    int fd = dial();
    say(fd, "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
            "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
            "GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    hear(fd);
    close(fd);
    const char *first = strstr(reply, "200 OK"), *second = first ? strstr(first + 1, "200 OK") : 0;
    assert_non_null(second);
    assert_non_null(strstr(second, "404 Not Found"));

    /* A client that sends byte by byte does not keep others waiting. */
    fd = dial();
    const char *text = "GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    for (const char *p = text; *p; p++) {
        say(fd, (char[]){ *p, 0 });
        if (p - text == 10) assert_int_equal(ask("GET", "/livez", ""), 200);
    }
    hear(fd);
    close(fd);
    assert_int_equal(status(), 200);
}

static void test_oversized(void **state)
{
    (void)state;
    enum { LEN = 60000 };
    char *big = malloc(LEN + 200);
    char *end = stpcpy(big, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: ");
    memset(end, 'x', LEN);
    strcpy(end + LEN, "\r\n\r\n");
    /* -1: what the server did not read is on its way when it closes, which may cut its answer. */
    const int header = ask_raw(big);
    assert_true(header == 431 || header == -1);
    end = stpcpy(big, "GET /");
    memset(end, 'x', LEN);
    strcpy(end + LEN, " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const int line = ask_raw(big);
    assert_true(line == 414 || line == -1);
    free(big);
    assert_int_equal(ask_raw("no http at all\r\nConnection: close\r\n\r\n") == 200, 0);
    assert_int_equal(ask("GET", "/livez", ""), 200);
    char many[2048] = "/metrics?name=a";
    for (int i = 0; i < 70; i++) strcat(many, "&name=a");
    assert_int_equal(ask("GET", many, ""), 400);
    assert_non_null(strstr(body(), "too many"));
}

/* 200 connections open at once, each answered. */
static void test_parallel(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    int fds[COUNT];
    for (int i = 0; i < COUNT; i++) {
        fds[i] = dial();
        say(fds[i], "GET /metrics HTTP/1.1\r\nHost: localhost\r\n");
    }
    for (int i = 0; i < COUNT; i++) say(fds[i], "Connection: close\r\n\r\n");
    for (int i = 0; i < COUNT; i++) {
        hear(fds[i]);
        close(fds[i]);
        assert_int_equal(status(), 200);
        assert_non_null(strstr(body(), "\nc_count 7\n"));
    }
}

static void *ticker(void *stop)
{
    struct sonde_model *m = sonde_collector_model(collector);
    for (uint64_t i = 0; !__atomic_load_n((int *)stop, __ATOMIC_RELAXED); i++) {
        sonde_wrlock(&m->lock);
        struct sonde_model_family *f = family(m, SONDE_HISTOGRAM, "c", "C.", "", 1);
        record(series1(m, f, NULL, NULL), 1 + i % 1000, 1);
        sonde_model_tick(m, now());
        sonde_rwunlock(&m->lock);
        sched_yield();
    }
    return NULL;
}

/* Scrapes while the model changes: a bucket, once shown, stays and never counts back, and the
 * buckets of one scrape agree with its count. */
static void test_scrapes_during_ticks(void **state)
{
    (void)state;
    int stop = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ticker, &stop), 0);
    unsigned long long before[64] = { 0 }; /* by exponent */
    for (int round = 0; round < 50; round++) {
        unsigned long long n, last = 0, shown[64] = { 0 };
        double bound;
        assert_int_equal(ask("GET", "/metrics?name=c", ""), 200);
        for (const char *p = body(); (p = strstr(p, "c_bucket{le=\"")) != NULL; p++) {
            if (sscanf(p, "c_bucket{le=\"%lf\"} %llu", &bound, &n) != 2) continue;
            assert_true(n >= last);
            last = n;
            if (bound >= 1 && bound < 1e9) shown[__builtin_ctzll((uint64_t)bound)] = n + 1;
        }
        for (int e = 0; e < 64; e++) {
            assert_true(shown[e] >= before[e]);
            before[e] = shown[e];
        }
        const char *count = strstr(body(), "\nc_count ");
        assert_int_equal(strtoull(count + 9, NULL, 10), last);
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
}

static void *write_once(void *done)
{
    struct sonde_model *m = sonde_collector_model(collector);
    sonde_wrlock(&m->lock);
    *(int *)done = 1;
    sonde_rwunlock(&m->lock);
    return NULL;
}

/* While a tick waits for a scrape to end, no other scrape gets in before it. */
static void test_ticks_go_first(void **state)
{
    (void)state;
    struct sonde_model *m = sonde_collector_model(collector);
    int done = 0;
    pthread_t thread;
    sonde_rdlock(&m->lock);
    assert_int_equal(pthread_create(&thread, NULL, write_once, &done), 0);
    /* The lock below the checked one, which no thread may read-lock twice. */
    while (pthread_rwlock_tryrdlock(&m->lock.rwlock) == 0) {
        pthread_rwlock_unlock(&m->lock.rwlock);
        sched_yield();
    }
    assert_int_equal(done, 0);
    sonde_rwunlock(&m->lock);
    pthread_join(thread, NULL);
    assert_int_equal(done, 1);
}

static void test_ports(void **state)
{
    (void)state;
    char address[64];
    struct sonde_err err = { "" };
    struct sonde_server *second = NULL;
    struct sonde_server_options options = { .listen = address, .agent = &agent };
    snprintf(address, sizeof(address), "127.0.0.1:%d", port);
    assert_int_equal(sonde_server_start(&options, &second, &err), SONDE_EBUSY);
    assert_null(second);
    char holder[64];
    snprintf(holder, sizeof(holder), "port %d is in use", port);
    assert_non_null(strstr(err.text, holder));
    snprintf(holder, sizeof(holder), "(pid %d)", (int)getpid());
    assert_non_null(strstr(err.text, holder));
    assert_non_null(strstr(err.text, "--listen 127.0.0.1:0"));
    options.port_tries = 50;
    assert_int_equal(sonde_server_start(&options, &second, &err), 0);
    assert_true(atoi(strrchr(sonde_server_url(second), ':') + 1) > port);
    sonde_server_stop(second);
    options.listen = "0.0.0.0:0";
    second = NULL;
    assert_int_equal(sonde_server_start(&options, &second, &err), SONDE_EINVAL);
    assert_null(second);
    options.listen = "[::1]:0";
    if (sonde_server_start(&options, &second, &err) == 0) { /* not every container has IPv6 */
        assert_memory_equal(sonde_server_url(second), "http://[::1]:", 13);
        sonde_server_stop(second);
    }
    sonde_server_stop(NULL);
}

/* A server without a port of its own, as behind the front. */
static void test_adopted(void **state)
{
    (void)state;
    struct sonde_err err = { "" };
    struct sonde_server *inner;
    const struct sonde_server_options options = { .url = "http://127.0.0.1:1234",
                                                  .agent = &agent };
    assert_int_equal(sonde_server_start(&options, &inner, &err), 0);
    assert_string_equal(sonde_server_url(inner), "http://127.0.0.1:1234");
    for (int i = 0; i < 3; i++) {
        int pair[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair),
                         0);
        assert_int_equal(sonde_server_adopt(inner, pair[1], (int64_t)geteuid()), 0);
        say(pair[0], "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        hear(pair[0]);
        assert_int_equal(status(), 200);
        assert_non_null(strstr(reply, "sonde at http://127.0.0.1:1234"));
        close(pair[0]);
    }
    sonde_server_stop(inner);
}

static void test_owned_paths(void **state)
{
    (void)state;
    static const struct { const char *path; int owned; } cases[] = {
        { "/metrics", 1 },      { "/api/series", 1 },        { "/admin/profile/cpu", 1 },
        { "/admin/what", 1 },   { "/profiling/cpu", 1 },     { "/debug/pprof/heap", 1 },
        { "/", 0 },             { "/api/chat", 0 },          { "/api/tags", 0 },
        { "/v1/models", 0 },    { "/metricsx", 0 },          { "/administration", 0 },
        { "", 0 },              { "/livez", 0 },             { "/health", 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(sonde_server_owns(cases[i].path, 0), cases[i].owned);
    }
    assert_int_equal(sonde_server_owns("/livez", 1), 1);
    assert_int_equal(sonde_server_owns("/health", 1), 1);
}

int main(void)
{
#define ROW(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
    const struct CMUnitTest tests[] = {
        ROW(test_negotiation), ROW(test_names), ROW(test_gzip), ROW(test_head),
        ROW(test_refusals), ROW(test_hosts), ROW(test_index), ROW(test_files), ROW(test_api),
        ROW(test_processes_and_spans), ROW(test_export), ROW(test_health),
        ROW(test_pipelined_and_slow), ROW(test_oversized), ROW(test_parallel),
        ROW(test_scrapes_during_ticks), ROW(test_ticks_go_first), ROW(test_ports),
        ROW(test_adopted), ROW(test_owned_paths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
