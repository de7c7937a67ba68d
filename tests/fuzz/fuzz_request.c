/* fuzz_request.c - what the server makes of a request besides its body: path and method,
 * parameters, and the headers it looks into. Whatever they are, an answer is 400 with a reason or
 * the parameters are as their rows say.
 *
 * Input: method, path, Host, Accept, Accept-Encoding, X-Forwarded-For, then names and values of
 * parameters, each ended by a line feed. */
static const struct { const char *data; unsigned long len; } fuzz_seeds[] = {
#define SEED(s) { s, sizeof(s) - 1 }
    SEED("GET\n/api/query\nlocalhost:1\ntext/html;q=0.5, */*\ngzip;q=1, *;q=0\n10.0.0.1, [::1]:3\n"
         "name\nhttp_*\nwindow\n1e3\nlimit\n10\nlabel\na:b\npid\n7\ntype\ncounter\n"),
    SEED("HEAD\n/api/spans\n[::1]\n\nidentity\n2001:db8::1\ntrace\n"
         "0af7651916cd43dd8448eb211c80319c\nfrom\n0\nto\n1e11\n"),
    SEED("GET\n/api/requests/abc\n127.0.0.1\napplication/openmetrics-text; version=1.0.0\n\n\n"),
    SEED("POST\n/admin/profile/memory\nlocalhost\n\"\\\n\n,\ntype\nlive\nlimit\n1\n"),
    SEED("GET\n/api/stream\nlocalhost\n\n\n\nevents\nseries,store\nhistory\n5\n"),
    SEED("GET\n/admin/profile/requests/00f067aa0ba902b7\nh\n\n\n\nformat\nsvg\n"),
};

#include <netinet/in.h>

#include "base/strip.h"
#include "fuzz/fuzz_seeds.h"
#include "serve/http/accept.h"
#include "serve/http/auth.h"
#include "serve/http/param.h"
#include "serve/http/rate.h"
#include "serve/http/route.h"

/* The next line of text, cut out in place. */
static char *line(char **at)
{
    char *text = *at, *end = strchr(text, '\n');
    if (end) *end++ = '\0';
    *at = end ? end : text + strlen(text);
    return text;
}

static void check_headers(const char *host, const char *accept, const char *encoding,
                          const char *forwarded)
{
    static struct sonde_auth *auth;
    struct sonde_rate_client client;
    struct sonde_err err;
    const struct sockaddr_in peer = { .sin_family = AF_INET,
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    if (!auth) {
        const struct sonde_auth_options o = { .token = "0123456789abcdef", .hosts = "a.lan,b.lan" };
        CHECK(sonde_auth_create(&o, NULL, &auth, &err) == 0);
    }
    CHECK(!sonde_listen_host_ok(host) || sonde_auth_host_ok(auth, host));
    const int answer = sonde_auth_ask(auth, "/api/series", accept);
    CHECK(answer != SONDE_AUTH_YES || strstr(accept, "0123456789abcdef"));
    CHECK(sonde_accept_metrics(accept));
    (void)sonde_accept_gzip(encoding);
    (void)sonde_accept_html(accept);
    CHECK(sonde_rate_client((const struct sockaddr *)&peer, forwarded, &client) == 1);
}

static void check_strip(const char *text)
{
    char *copy = strdup(text), *again;
    CHECK(copy);
    sonde_strip_paths(copy);
    CHECK(strlen(copy) <= strlen(text) && !*copy == !*text);
    again = strdup(copy);
    CHECK(again);
    sonde_strip_path(again);
    CHECK(strlen(again) <= strlen(copy) && !*again == !*copy);
    free(again);
    free(copy);
}

/* A number that was let through is one, within its bounds. */
static void check_value(const struct sonde_param_row *p, const char *value)
{
    if (p->kind == SONDE_PARAM_IS_NUMBER || p->kind == SONDE_PARAM_IS_COUNT) {
        char *end;
        const double v = strtod(value, &end);
        CHECK(*value && !*end && v >= p->min && v <= p->max);
    } else if (p->kind == SONDE_PARAM_IS_WORDS) {
        CHECK(strstr(p->words, value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = calloc(1, size + 1), *at = text, allow[SONDE_ALLOW_MAX];
    const char *name = NULL;
    CHECK(text);
    if (size) memcpy(text, data, size);
    const char *method = line(&at), *path = line(&at), *host = line(&at), *accept = line(&at);
    const char *encoding = line(&at), *forwarded = line(&at);
    check_headers(host, accept, encoding, forwarded);
    check_strip(path);
    const struct sonde_route *route = sonde_route_find(path, method, &name, allow, sizeof(allow));
    struct sonde_http_request r = { .name = name };
    while (route && *at && r.param_count < SONDE_PARAMS_MAX) {
        const char *key = line(&at);
        r.params[r.param_count++] = (struct sonde_param){ key, line(&at) };
    }
    struct sonde_response a = { 0 };
    sonde_buf_init(&a.body, 1 << 16);
    if (route && !sonde_params_ok(route, &r, &a)) {
        CHECK(a.status == 400 && a.body.len > 12 && !memcmp(a.body.data, "{\"error\":\"", 10));
    } else if (route && route->params) {
        for (size_t i = 0; i < r.param_count; i++) {
            const struct sonde_param_row *p = sonde_param_find(route->path, r.params[i].name);
            if (p) check_value(p, r.params[i].value);
        }
    }
    sonde_buf_release(&a.body);
    free(text);
    return 0;
}
