/* serve_ask.h - routes asked without a server, of any method; parameters are checked before. */
#ifndef TESTS_SERVE_ASK_H
#define TESTS_SERVE_ASK_H

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "serve/http/param.h"

static struct sonde_http_request asked; /* whom; the rest is set for each request */
static struct sonde_response answer;
static int handled;       /* the last request came as far as its route */
static unsigned fail_nth; /* allocation of the next; 0 = none */

static inline void answer_release(void)
{
    if (answer.stream) sonde_stream_close(answer.stream);
    sonde_buf_release(&answer.body);
    memset(&answer, 0, sizeof(answer));
}

/* query: "a=b&c=d", nothing in it is escaped. */
static void route_call(const struct sonde_route *route, const char *name, const char *query,
                       const char *body)
{
    static char copy[8192];
    struct sonde_http_request r = asked;
    r.path = route->path;
    r.name = name;
    r.body = body;
    r.body_len = strlen(body);
    answer_release();
    sonde_buf_init(&answer.body, 1 << 22);
    answer.status = 200;
    snprintf(copy, sizeof(copy), "%s", query ? query : "");
    for (char *at = strtok(copy, "&"); at; at = strtok(NULL, "&")) {
        char *value = strchr(at, '=');
        if (value) *value++ = '\0';
        r.params[r.param_count++] = (struct sonde_param){ at, value ? value : "" };
    }
    sonde__alloc_fail_nth(fail_nth);
    handled = sonde_params_ok(route, &r, &answer);
    if (handled) route->handle(&r, &answer);
    sonde__alloc_fail_nth(0);
    if (!fail_nth) assert_int_equal(answer.body.error, 0);
}

/* What stands in the answer {"error": …}, which is all that is in it. */
static const char *error_text(void)
{
    static char text[2000];
    json_t *o = answer.body.data ? json_loadb(answer.body.data, answer.body.len, 0, NULL) : NULL;
    const char *said = json_string_value(json_object_get(o, "error"));
    if (!said || json_object_size(o) != 1) {
        fail_msg("%u is no error: %s", answer.status, answer.body.data);
    }
    snprintf(text, sizeof(text), "%s", said);
    json_decref(o);
    assert_string_equal(answer.content_type, "application/json");
    assert_null(answer.filename);
    assert_int_equal(answer.packed, 0);
    return text;
}

/* As openapi.c describes it. */
static int is_promised(const struct sonde_route *route, unsigned status)
{
    static const unsigned always[] = { 400, 401, 403, 413, 429, 500 };
    int other = 0;
    for (const char *at = route->statuses; at && *at; at += strcspn(at, ","), at += *at == ',') {
        const unsigned named = (unsigned)atoi(at);
        if (named == status) return 1;
        other |= named / 100 == 2;
    }
    for (size_t i = 0; i < SONDE_COUNT(always); i++) {
        if (always[i] == status) return 1;
    }
    return status == 200 ? !other
                         : (status == 404 && strchr(route->path, '*')) ||
                               (status == 503 && route->slow);
}

/* The route of "METHOD", "/path?query", and what it answers. */
static const struct sonde_route *route_ask(const char *method, const char *target, const char *body)
{
    static char path[200];
    char allow[SONDE_ALLOW_MAX];
    const char *name, *query = strchr(target, '?');
    snprintf(path, sizeof(path), "%.*s", (int)strcspn(target, "?"), target);
    const struct sonde_route *route = sonde_route_find(path, method, &name, allow, sizeof(allow));
    if (!route) fail_msg("%s %s is no route", method, path);
    route_call(route, name, query ? query + 1 : NULL, body);
    return route;
}

/* The answer has this status, which is described, and says so; NULL = whatever. */
static const struct sonde_route *route_expect(const char *method, const char *target,
                                              const char *body, unsigned status,
                                              const char *says)
{
    const struct sonde_route *route = route_ask(method, target, body);
    const char *data = answer.body.data ? answer.body.data : "";
    if (answer.status != status) fail_msg("%s %s: %u %s", method, target, answer.status, data);
    if (!is_promised(route, status)) {
        fail_msg("%s %s: %u is not described", method, route->path, status);
    }
    if (status >= 400 && status < 500) data = error_text();
    if (says && !strstr(data, says)) fail_msg("%s %s: %s", method, target, data);
    return route;
}

#endif
