/* index.c - / lists the routes, and leads a browser to the dashboard; /profiling/routes is the same
 * list as a page. */
#include <stdio.h>
#include <string.h>

#include "serve/http/accept.h"
#include "serve/http/route.h"

enum { PATH_WIDTH = 31 }; /* of the list as text: the longest method and path */

static void route_index_put_params(struct sonde_buf *out, const struct sonde_route *route)
{
    for (size_t i = 0; route->params && route->params[i]; i++) {
        sonde_buf_printf(out, "%s%s", i ? ", " : " (", route->params[i]);
    }
    if (route->params && route->params[0]) sonde_buf_putc(out, ')');
}

static void put_html(const struct sonde_http_request *r, struct sonde_buf *out)
{
    sonde_buf_puts(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                        "<meta name=\"viewport\" content=\"width=device-width\">"
                        "<meta name=\"color-scheme\" content=\"light dark\"><title>Routes - "
                        "sonde</title><link rel=\"icon\" href=\"icon.svg\" type=\"image/svg+xml\">"
                        "<link rel=\"stylesheet\" href=\"app.css\"></head>\n"
                        "<body class=\"plain\"><main><h1>sonde</h1>\n"
                        "<p><a href=\"dashboard\">Dashboard</a></p>\n<dl>\n");
    /* Paths, summaries and parameter names come from the table: nothing to escape. */
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        if (!route->summary) continue;
        if (strcmp(route->method, "GET") == 0 && !strchr(route->path, '*')) {
            sonde_buf_printf(out, "<dt><a href=\"%s\"><code>%s</code></a></dt><dd>%s",
                             route->path, route->path, route->summary);
        } else {
            sonde_buf_printf(out, "<dt><code>%s %s</code></dt><dd>%s", route->method, route->path,
                             route->summary);
        }
        route_index_put_params(out, route);
        sonde_buf_puts(out, "</dd>\n");
    }
    sonde_buf_printf(out, "</dl>\n<p>In a terminal: <code>sonde top "
                     "%s</code></p></main></body></html>\n", r->url);
}

static void route_index_put_text(const struct sonde_http_request *r, struct sonde_buf *out)
{
    sonde_buf_printf(out, "sonde at %s\n\n", r->url);
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        if (!route->summary) continue;
        const int get = strcmp(route->method, "GET") == 0;
        sonde_buf_printf(out, "%s%s%-*s %s", get ? "" : route->method, get ? "" : " ",
                         get ? PATH_WIDTH : PATH_WIDTH - 1 - (int)strlen(route->method),
                         route->path, route->summary);
        route_index_put_params(out, route);
        sonde_buf_putc(out, '\n');
    }
}

#define DASHBOARD "/profiling/dashboard"

/* The query goes with it, escaped anew so that nothing in it ends the header; one that is too long
 * for that is left out. */
static void put_location(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_buf to;
    sonde_buf_init(&to, sizeof(answer->location) - 1);
    sonde_buf_puts(&to, DASHBOARD);
    for (size_t i = 0; i < r->param_count; i++) {
        sonde_buf_putc(&to, i ? '&' : '?');
        sonde_buf_url(&to, r->params[i].name);
        sonde_buf_putc(&to, '=');
        sonde_buf_url(&to, r->params[i].value);
    }
    snprintf(answer->location, sizeof(answer->location), "%s", to.error ? DASHBOARD : to.data);
    sonde_buf_release(&to);
}

static void route_index_handle(const struct sonde_http_request *r, struct sonde_response *answer)
{
    answer->vary_accept = 1;
    answer->content_type = "text/plain; charset=utf-8";
    if (sonde_accept_html(r->accept)) {
        answer->status = 302;
        put_location(r, answer);
    } else {
        route_index_put_text(r, &answer->body);
    }
}

static void list_page(const struct sonde_http_request *r, struct sonde_response *answer)
{
    answer->content_type = "text/html; charset=utf-8";
    answer->policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; "
                     "form-action 'none'; frame-ancestors 'self'";
    put_html(r, &answer->body);
}

extern const struct sonde_route sonde_route_index, sonde_route_list_page;
const struct sonde_route sonde_route_index = {
    .method = "GET",
    .path = "/",
    .summary = "this list; a browser gets the dashboard",
    .open = 1,
    .handle = route_index_handle,
    .produces = "text/plain",
    .statuses = "302",
};
const struct sonde_route sonde_route_list_page = {
    .method = "GET",
    .path = "/profiling/routes",
    .summary = "this list as a page",
    .open = 1,
    .handle = list_page,
    .produces = "text/html",
};
