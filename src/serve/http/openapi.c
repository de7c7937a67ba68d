/* openapi.c - see openapi.h. One operation a route; what all may answer (a wrong parameter, a
 * missing token, too many requests) is said once, under components, and referred to. */
#include "serve/http/openapi.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/json.h"
#include "serve/http/param.h"
#include "sonde/sonde.h"

/* The next part of a list like "a|b", 0 at its end. */
static int next_part(const char **at, char separator, const char **part, size_t *len)
{
    if (!*at || !**at) return 0;
    const char *stop = strchr(*at, separator);
    *part = *at;
    *len = stop ? (size_t)(stop - *at) : strlen(*at);
    *at = stop ? stop + 1 : *at + *len;
    return 1;
}

/* A key that is not a C string. */
static void openapi_put_key(struct sonde_buf *out, const char *key, size_t len)
{
    char text[128];
    snprintf(text, sizeof(text), "%.*s", (int)len, key);
    sonde_json_key(out, text);
}

static void put_words(struct sonde_buf *out, const char *key, const char *words, char separator)
{
    const char *word;
    size_t len;
    sonde_json_key_open(out, key, '[');
    for (int n = 0; next_part(&words, separator, &word, &len); n++) {
        if (n) sonde_buf_putc(out, ',');
        sonde_buf_json_str(out, word, len);
    }
    sonde_json_close(out, ']');
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static void put_schema(struct sonde_buf *out, const struct sonde_param_row *p)
{
    sonde_json_key_open(out, "schema", '{');
    switch (p->kind) {
    case SONDE_PARAM_IS_NUMBER:
    case SONDE_PARAM_IS_COUNT:
        sonde_json_str(out, "type", p->kind == SONDE_PARAM_IS_NUMBER ? "number" : "integer");
        sonde_json_num(out, "minimum", p->min);
        sonde_json_num(out, "maximum", p->max);
        break;
    case SONDE_PARAM_IS_WORDS:
        sonde_json_str(out, "type", "string");
        put_words(out, "enum", p->words, '|');
        break;
    default:
        sonde_json_str(out, "type", "string");
        if (p->pattern) sonde_json_str(out, "pattern", p->pattern);
    }
    sonde_json_close(out, '}');
}

static void openapi_put_param(struct sonde_buf *out, const struct sonde_route *route,
                              const char *name, const char *in, int required)
{
    const struct sonde_param_row *p = sonde_param_find(route->path, name);
    assert(p);
    if (!p) return;
    sonde_json_open(out, '{');
    sonde_json_str(out, "name", name);
    sonde_json_str(out, "in", in);
    sonde_json_bool(out, "required", required);
    sonde_json_str(out, "description", p->help);
    put_schema(out, p);
    if (p->example) sonde_json_str(out, "example", p->example);
    if (p->needs) put_words(out, "x-needs-one-of", p->needs, '|');
    sonde_json_close(out, '}');
}

static const char *star_of(const struct sonde_route *route)
{
    if (!strchr(route->path, '*')) return NULL;
    return route->star ? route->star : "id";
}

static int is_required(const struct sonde_route *route, const char *name)
{
    for (size_t i = 0; route->required && route->required[i]; i++) {
        if (strcmp(route->required[i], name) == 0) return 1;
    }
    return 0;
}

static void openapi_put_params(struct sonde_buf *out, const struct sonde_route *route)
{
    const char *star = star_of(route);
    if (!route->params) sonde_json_bool(out, "x-any-parameters", 1);
    sonde_json_key_open(out, "parameters", '[');
    if (star) openapi_put_param(out, route, star, "path", 1);
    for (size_t i = 0; route->params && route->params[i]; i++) {
        openapi_put_param(out, route, route->params[i], "query",
                          is_required(route, route->params[i]));
    }
    const struct sonde_param_row *p;
    for (size_t at = 0; !route->params && (p = sonde_param_next(route->path, &at));) {
        openapi_put_param(out, route, p->name, "query", 0);
    }
    sonde_json_close(out, ']');
}

static void openapi_put_body(struct sonde_buf *out, const struct sonde_route *route)
{
    const char *types = route->body_type ? route->body_type : "application/json", *type;
    size_t len;
    sonde_json_key_open(out, "requestBody", '{');
    sonde_json_u64(out, "x-bytes-max", route->body_max);
    sonde_json_key_open(out, "content", '{');
    while (next_part(&types, '|', &type, &len)) {
        openapi_put_key(out, type, len);
        sonde_buf_puts(out, "{\"schema\":");
        sonde_buf_puts(out, route->body ? route->body : "{}");
        sonde_buf_putc(out, '}');
    }
    sonde_json_close(out, '}');
    sonde_json_close(out, '}');
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void put_produced(struct sonde_buf *out, const struct sonde_route *route)
{
    const char *types = route->produces ? route->produces : "application/json", *type;
    size_t len;
    sonde_json_key_open(out, "content", '{');
    while (next_part(&types, '|', &type, &len)) {
        openapi_put_key(out, type, len);
        sonde_json_open(out, '{');
        sonde_json_key_open(out, "schema", '{');
        if (strncmp(type, "application/json", len) == 0) {
            if (route->keys) {
                sonde_json_str(out, "type", "object");
                put_words(out, "required", route->keys, ',');
            }
        } else if (strncmp(type, "text/", 5) == 0) {
            sonde_json_str(out, "type", "string");
        }
        sonde_json_close(out, '}');
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
}

static const char *meaning_of(int status)
{
    static const struct { int status; const char *text; } known[] = {
        { 200, "the requested data" },
        { 201, "created" },
        { 202, "accepted" },
        { 204, "done; no content" },
        { 302, "a browser is redirected to the dashboard" },
        { 304, "not modified: the client has it, by its ETag" },
        { 400, "a parameter, or the body, is not as described" },
        { 401, "a token is needed, or the one that was sent is wrong" },
        { 403, "not for this Host or Origin, or the system does not permit it" },
        { 404, "not found" },
        { 409, "not possible in its current state" },
        { 413, "the route accepts no body, or not one this large" },
        { 415, "the content type of the body is not supported" },
        { 429, "too many requests, or wrong tokens; Retry-After says when to try again" },
        { 500, "the agent failed" },
        { 503, "not available now: it is starting, stopping, or too busy" },
        { 507, "there is no room left" },
    };
    for (size_t i = 0; i < SONDE_COUNT(known); i++) {
        if (known[i].status == status) return known[i].text;
    }
    return "see the text";
}

static void openapi_put_status(struct sonde_buf *out, const struct sonde_route *route, int status,
                               int own)
{
    char key[16];
    snprintf(key, sizeof(key), "%d", status);
    sonde_json_key_open(out, key, '{');
    if (own || status / 100 == 3) {
        sonde_json_str(out, "description", meaning_of(status));
        if (status / 100 != 3 && status != 204) put_produced(out, route);
    } else {
        snprintf(key, sizeof(key), "E%d", status);
        sonde_json_key(out, "$ref");
        sonde_buf_printf(out, "\"#/components/responses/%s\"", key);
    }
    sonde_json_close(out, '}');
}

static const int general[] = { 400, 401, 403, 413, 429, 500 };

static int is_general(int status)
{
    for (size_t i = 0; i < SONDE_COUNT(general); i++) {
        if (general[i] == status) return 1;
    }
    return 0;
}

/* 1 if the route's own statuses name this one; 0 = any 2xx. */
static int openapi_names(const struct sonde_route *route, int status)
{
    const char *at = route->statuses, *part;
    size_t len;
    while (next_part(&at, ',', &part, &len)) {
        const int named = atoi(part);
        if (status ? named == status : named / 100 == 2) return 1;
    }
    return 0;
}

static void put_statuses(struct sonde_buf *out, const struct sonde_route *route)
{
    const char *at = route->statuses, *part;
    size_t len;
    sonde_json_key_open(out, "responses", '{');
    if (!openapi_names(route, 0)) openapi_put_status(out, route, 200, 1);
    for (size_t i = 0; i < SONDE_COUNT(general); i++) {
        openapi_put_status(out, route, general[i], 0);
    }
    while (next_part(&at, ',', &part, &len)) {
        const int status = atoi(part);
        if (!is_general(status)) {
            openapi_put_status(out, route, status, status / 100 == 2 || part[len - 1] == '*');
        }
    }
    if (star_of(route) && !openapi_names(route, 404)) openapi_put_status(out, route, 404, 0);
    if (route->slow && !openapi_names(route, 503)) openapi_put_status(out, route, 503, 0);
    sonde_json_close(out, '}');
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* "get_api_requests_id" */
static void openapi_put_id(struct sonde_buf *out, const struct sonde_route *route)
{
    char id[160];
    size_t n = 0;
    for (const char *p = route->method; *p && n < 16; p++) id[n++] = (char)(*p | 0x20);
    for (const char *p = route->path; *p && n + 16 < sizeof(id); p++) {
        const int plain = (*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9');
        if (*p == '*') n += (size_t)snprintf(id + n, sizeof(id) - n, "%.12s", star_of(route));
        else id[n++] = plain ? *p : '_';
    }
    id[n] = '\0';
    sonde_json_str(out, "operationId", id);
}

static void put_operation(struct sonde_buf *out, const struct sonde_http_request *r,
                          const struct sonde_route *route)
{
    char method[16];
    size_t n = 0;
    for (; route->method[n] && n + 1 < sizeof(method); n++) {
        method[n] = (char)(route->method[n] | 0x20);
    }
    method[n] = '\0';
    sonde_json_key_open(out, method, '{');
    openapi_put_id(out, route);
    sonde_json_str(out, "summary", route->summary);
    if (route->slow) sonde_json_bool(out, "x-slow", 1);
    if (sonde_auth_has_token(r->auth) &&
        (route->open || sonde_auth_is_open(r->auth, route->path))) {
        sonde_json_key_open(out, "security", '[');
        sonde_json_close(out, ']');
    }
    openapi_put_params(out, route);
    if (route->body_max) openapi_put_body(out, route);
    put_statuses(out, route);
    sonde_json_close(out, '}');
}

static void put_path(struct sonde_buf *out, const struct sonde_http_request *r, size_t first)
{
    const struct sonde_route *route = sonde_routes[first];
    char path[160];
    const char *star = star_of(route);
    const int len = (int)strcspn(route->path, "*");
    snprintf(path, sizeof(path), star ? "%.*s{%s}%s" : "%.*s", len, route->path,
             star ? star : "", star ? route->path + len + 1 : "");
    sonde_json_key_open(out, path, '{');
    for (size_t i = first; sonde_routes[i]; i++) {
        if (sonde_routes[i]->summary && strcmp(sonde_routes[i]->path, route->path) == 0) {
            put_operation(out, r, sonde_routes[i]);
        }
    }
    sonde_json_close(out, '}');
}

/* 1 if no route before this one has its path. */
static int openapi_is_first(size_t index)
{
    for (size_t i = 0; i < index; i++) {
        if (sonde_routes[i]->summary &&
            strcmp(sonde_routes[i]->path, sonde_routes[index]->path) == 0) {
            return 0;
        }
    }
    return 1;
}

static void put_errors(struct sonde_buf *out)
{
    static const int all[] = { 400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 500, 501, 502,
                               503, 504, 507 };
    sonde_json_key_open(out, "responses", '{');
    for (size_t i = 0; i < SONDE_COUNT(all); i++) {
        char key[16];
        snprintf(key, sizeof(key), "E%d", all[i]);
        sonde_json_key_open(out, key, '{');
        sonde_json_str(out, "description", meaning_of(all[i]));
        sonde_buf_puts(out, ",\"content\":{\"application/json\":{\"schema\":"
                            "{\"$ref\":\"#/components/schemas/Error\"}}}");
        sonde_json_close(out, '}');
    }
    sonde_json_close(out, '}');
}

static void openapi_put_components(struct sonde_buf *out)
{
    sonde_json_key_open(out, "components", '{');
    sonde_buf_puts(out, "\"schemas\":{\"Error\":{\"type\":\"object\",\"required\":[\"error\"],"
                        "\"properties\":{\"error\":{\"type\":\"string\","
                        "\"description\":\"what is wrong, and what to do\"}}}},"
                        "\"securitySchemes\":{\"token\":{\"type\":\"http\","
                        "\"scheme\":\"bearer\"}}");
    put_errors(out);
    sonde_json_close(out, '}');
}

void sonde_openapi(const struct sonde_http_request *r, struct sonde_buf *out)
{
    assert(r->auth && r->url);
    sonde_json_open(out, '{');
    sonde_json_str(out, "openapi", "3.1.0");
    sonde_json_key_open(out, "info", '{');
    sonde_json_str(out, "title", "sonde");
    sonde_json_str(out, "version", SONDE_VERSION);
    sonde_json_str(out, "description",
                   "What the agent knows of native programs and inference services. Parameters "
                   "that are not described are refused, but for routes that describe none. HEAD is "
                   "answered wherever GET is.");
    sonde_json_close(out, '}');
    sonde_json_key_open(out, "servers", '[');
    sonde_json_open(out, '{');
    sonde_json_str(out, "url", r->url);
    sonde_json_close(out, '}');
    sonde_json_close(out, ']');
    if (sonde_auth_has_token(r->auth)) sonde_buf_puts(out, ",\"security\":[{\"token\":[]}]");
    sonde_json_key_open(out, "paths", '{');
    for (size_t i = 0; sonde_routes[i]; i++) {
        if (sonde_routes[i]->summary && openapi_is_first(i)) put_path(out, r, i);
    }
    sonde_json_close(out, '}');
    openapi_put_components(out);
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
}
