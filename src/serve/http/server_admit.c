/* server_admit.c - who may ask for what: the names this machine goes by, the token, how many
 * requests a client may send, whether the path takes the method, and whether all parameters are
 * right. */
#include "base/clock.h"
#include "serve/http/server_private.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "collect/ingest/scrape.h"
#include "serve/http/param.h"

static const char *server_admit_header(const struct sonde_server_call *c, const char *name)
{
    return MHD_lookup_connection_value(c->connection, MHD_HEADER_KIND, name);
}

/* ---- Who may ask ----------------------------------------------------------------------------- */

/* 1 if the request has a Host that means this machine. */
static int host_ok(const struct sonde_server_call *c, struct sonde_response *a)
{
    const char *host = server_admit_header(c, MHD_HTTP_HEADER_HOST);
    if (!host && strcmp(c->version, MHD_HTTP_VERSION_1_0) != 0) { /* else it is no browser */
        sonde_response_error(a, 400, "the request has no Host header");
        return 0;
    }
    if (host && !sonde_auth_host_ok(c->server->auth, host)) {
        sonde_response_error(a, 403,
                             "Host \"%.100s\" is not this machine: use localhost, 127.0.0.1 or "
                             "[::1], or name it in server.hosts", host);
        return 0;
    }
    return 1;
}

/* 1 unless its client has sent too many. */
static int rate_ok(const struct sonde_server_call *c, struct sonde_response *a)
{
    struct sonde_rate_client client;
    const struct sonde_server *s = c->server;
    if (!s->rate || sonde_auth_is_health(c->path)) return 1;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!sonde_rate_client(info ? info->client_addr : NULL,
                           server_admit_header(c, "X-Forwarded-For"), &client)) {
        return 1;
    }
    const double wait_s = sonde_rate_take(s->rate, &client, sonde_clock_s(CLOCK_MONOTONIC));
    if (wait_s <= 0) return 1;
    a->retry_after_s = (unsigned)fmin(3600, ceil(wait_s));
    sonde_response_error(a, 429, "more than %g requests per second: try again in %u s, or raise "
                                 "server.rate_per_second", s->limits.rate_per_s,
                         a->retry_after_s);
    return 0;
}

/* 1 if the caller has the token, where there is one. */
static int token_ok(const struct sonde_server_call *c, struct sonde_response *a)
{
    const char *sent = server_admit_header(c, MHD_HTTP_HEADER_AUTHORIZATION);
    switch (sonde_auth_ask(c->server->auth, c->path, sent)) {
    case SONDE_AUTH_YES: return 1;
    case SONDE_AUTH_LATER:
        a->retry_after_s = 1;
        sonde_response_error(a, 429, "too many wrong tokens: try again in some seconds");
        return 0;
    default:
        sonde_response_error(a, 401, sent ? "the token is wrong"
                                          : "a token is needed: Authorization: Bearer TOKEN");
        return 0;
    }
}

/* 1 if the user at the other end may ask, where there is no token. */
static int caller_ok(const struct sonde_server_call *c, struct sonde_response *a)
{
    if (!sonde_auth_wants_same_user(c->server->auth, c->path)) return 1;
    const int64_t caller = sonde_server_caller(c->connection);
    if (sonde_caller_is_ours(caller)) return 1;
    const long uid = (long)geteuid();
    char who[64] = "a user that cannot be told (another network namespace?)", allowed[32] = "";
    if (caller != SONDE_CALLER_UNKNOWN) snprintf(who, sizeof(who), "user %ld", (long)caller);
    if (uid) snprintf(allowed, sizeof(allowed), "user %ld and ", uid);
    sonde_response_error(a, 403, "%.200s is for %sroot, and this is %s: ask as one of them, set a "
                                 "token (SONDE_TOKEN or server.token_file), or let all users of "
                                 "this machine in with server.local_users=all", c->path, allowed,
                         who);
    return 0;
}

static int same_origin(const struct sonde_server_call *c)
{
    const char *site = server_admit_header(c, "Sec-Fetch-Site");
    return site && strcmp(site, "same-origin") == 0;
}

/* 1 unless a page of another origin makes a browser fetch it, be it as a picture, a frame or a
 * link, which have no Origin. Pages cannot set this header; curl and its like do not send it. */
static int site_ok(const struct sonde_server_call *c)
{
    const char *site = server_admit_header(c, "Sec-Fetch-Site");
    return !site || strcmp(site, "none") == 0 || same_origin(c);
}

/* 1 unless a web page from elsewhere asks for what it may not. A page that answers are shared with
 * may act if it has the token, which was asked for before: without one, what counts is whose
 * browser it is, and that says nothing about the page. Behind a proxy that sends a Host of its own
 * our own pages look like that, but for what the browser says. */
static int page_ok(const struct sonde_server_call *c, const struct sonde_route *route,
                   struct sonde_response *a)
{
    const int acts = strcmp(route->method, "GET") != 0 || route->samples;
    const struct sonde_auth *g = c->server->auth;
    const enum sonde_auth_page page = sonde_server_page(c->server, c->connection);
    if (page == SONDE_PAGE_OURS && (!acts || site_ok(c))) return 1;
    if (page == SONDE_PAGE_SHARED && (!acts || sonde_auth_has_token(g) || same_origin(c))) return 1;
    if (page == SONDE_PAGE_SHARED) {
        sonde_response_error(a,
                             403, "%s starts or changes something: a page of another origin needs "
                                  "a token for that (SONDE_TOKEN or server.token_file)", c->path);
    } else {
        sonde_response_error(a, 403, "%s is not for pages of another origin, unless their host is "
                                     "in server.hosts", c->path);
    }
    return 0;
}

/* A browser asks whether a page may send what it wants to; neither token nor route matter yet. */
static int is_preflight(const struct sonde_server_call *c)
{
    return strcmp(c->method, MHD_HTTP_METHOD_OPTIONS) == 0 &&
           server_admit_header(c, "Access-Control-Request-Method") &&
           sonde_server_page(c->server, c->connection) == SONDE_PAGE_SHARED;
}

const struct sonde_route *sonde_server_resolve(const struct sonde_server_call *c, int count,
                                               struct sonde_response *a, const char **name)
{
    if (!host_ok(c, a) || (count && !rate_ok(c, a))) return NULL;
    if (is_preflight(c)) {
        a->status = 204;
        a->preflight = 1;
        return NULL;
    }
    const struct sonde_route *route =
        sonde_route_find(c->path, c->method, name, a->allow, sizeof(a->allow));
    if (!(route && route->open) && (!token_ok(c, a) || !caller_ok(c, a))) return NULL;
    if (!route && a->allow[0]) {
        sonde_response_error(a, 405, "%.200s does not take %.20s, only %s", c->path, c->method,
                             a->allow);
    } else if (!route) {
        sonde_response_error(a, 404, "no such path: \"%.200s\"; / lists all there are", c->path);
    }
    return route && page_ok(c, route, a) ? route : NULL;
}

/* ---- What is asked for ----------------------------------------------------------------------- */

struct parsing { struct sonde_http_request *request; const char *problem; };

static enum MHD_Result server_admit_add_param(void *arg, enum MHD_ValueKind kind, const char *name,
                                              size_t name_len, const char *value, size_t value_len)
{
    (void)kind;
    struct parsing *p = arg;
    if (p->request->param_count == SONDE_PARAMS_MAX) {
        p->problem = "too many parameters";
        return MHD_NO;
    }
    if (strlen(name) != name_len || (value && strlen(value) != value_len)) {
        p->problem = "a parameter holds a NUL";
        return MHD_NO;
    }
    p->request->params[p->request->param_count++] =
        (struct sonde_param){ name, value ? value : "" };
    return MHD_YES;
}

int sonde_server_parse(const struct sonde_server_call *c, const struct sonde_route *route,
                       const char *name, struct sonde_http_request *r, struct sonde_response *a)
{
    const struct sonde_server *s = c->server;
    *r = (struct sonde_http_request){ .path = route->path, .name = name, .body = "",
                                      .agent = s->agent, .recent = s->recent,
                                      .summaries = s->summaries,
                                      .files = s->files, .file_count = s->file_count,
                                      .streams = s->streams, .auth = s->auth,
                                      .colors = s->pictures.colors,
                                      .min_width = { s->pictures.min_width,
                                                     s->pictures.min_width_html },
                                      .url = s->url };
    struct parsing parsing = { r, NULL };
    MHD_get_connection_values_n(c->connection, MHD_GET_ARGUMENT_KIND, server_admit_add_param,
                                &parsing);
    if (parsing.problem) {
        sonde_response_error(a, 400, "%s", parsing.problem);
        return 0;
    }
    if (!sonde_params_ok(route, r, a)) return 0;
    r->accept = server_admit_header(c, MHD_HTTP_HEADER_ACCEPT);
    r->content_type = server_admit_header(c, MHD_HTTP_HEADER_CONTENT_TYPE);
    r->content_encoding = server_admit_header(c, MHD_HTTP_HEADER_CONTENT_ENCODING);
    r->last_event_id = server_admit_header(c, "Last-Event-ID");
    r->scraped = server_admit_header(c, SONDE_SCRAPE_HEADER) != NULL;
    return 1;
}
