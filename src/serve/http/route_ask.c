/* route_ask.c - routes asked by their own process, without a server: a target as a browser would
 * send it is taken apart, checked like any other, and handed to its route. See route.h. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hex.h"
#include "serve/http/param.h"
#include "sonde/sonde.h"

/* "%41" and "+" in place; 0 = there is a NUL in it. */
static int route_ask_decode(char *text)
{
    char *to = text;
    for (const char *s = text; *s; s++) {
        const int byte = sonde_hex_escape(s);
        if (byte < 0) {
            *to++ = *s == '+' ? ' ' : *s;
            continue;
        }
        if (!byte) return 0;
        *to++ = (char)byte;
        s += 2;
    }
    *to = '\0';
    return 1;
}

/* text is cut up; 0 = it is not as it should be. */
static int read_params(char *text, struct sonde_http_request *r)
{
    for (char *at = text, *next; at && *at; at = next) {
        next = strchr(at, '&');
        if (next) *next++ = '\0';
        char *value = strchr(at, '=');
        if (value) *value++ = '\0';
        if (r->param_count == SONDE_PARAMS_MAX || !route_ask_decode(at) ||
            (value && !route_ask_decode(value))) {
            return 0;
        }
        r->params[r->param_count++] = (struct sonde_param){ at, value ? value : "" };
    }
    return 1;
}

void sonde_route_ask(const struct sonde_http_request *from, const char *target,
                     struct sonde_response *answer)
{
    assert(!answer->body.len);
    struct sonde_http_request r = *from;
    const char *name = NULL;
    char allow[SONDE_ALLOW_MAX];
    char *text = sonde__strdup(target);
    if (!text) {
        sonde_response_failed(answer, SONDE_ENOMEM, NULL);
        return;
    }
    char *query = strchr(text, '?');
    if (query) *query++ = '\0';
    r.param_count = 0;
    r.body = "";
    r.body_len = 0;
    const int ok = route_ask_decode(text) && (!query || read_params(query, &r));
    const struct sonde_route *route =
        ok ? sonde_route_find(text, "GET", &name, allow, sizeof(allow)) : NULL;
    if (!ok) sonde_response_error(answer, 400, "\"%.200s\" cannot be asked for", target);
    else if (!route) sonde_response_error(answer, 404, "no such path: \"%.200s\"", text);
    if (route) {
        r.path = route->path;
        r.name = name;
        if (sonde_params_ok(route, &r, answer)) route->handle(&r, answer);
    }
    sonde__free(text);
}
