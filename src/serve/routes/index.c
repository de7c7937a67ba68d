/* index.c - / lists the routes: as a page for browsers, as text for everything else. */
#include <string.h>

#include "serve/accept.h"
#include "serve/route.h"

enum { PATH_WIDTH = 31 }; /* of the list as text: the longest method and path */

static void put_params(struct sonde_buf *out, const struct sonde_route *route)
{
    for (size_t i = 0; route->params && route->params[i]; i++) {
        sonde_buf_printf(out, "%s%s", i ? ", " : " (", route->params[i]);
    }
    if (route->params && route->params[0]) sonde_buf_putc(out, ')');
}

static void put_html(const struct sonde_request *r, struct sonde_buf *out)
{
    sonde_buf_puts(out,
                   "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                   "<meta name=\"viewport\" content=\"width=device-width\">"
                   "<meta name=\"color-scheme\" content=\"light dark\"><title>sonde</title>"
                   "<style>body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;"
                   "max-width:50rem;padding:0 1rem}dd{margin:0 0 .6rem 1.5rem}</style></head>\n"
                   "<body><h1>sonde</h1>\n<dl>\n");
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
        put_params(out, route);
        sonde_buf_puts(out, "</dd>\n");
    }
    sonde_buf_printf(out, "</dl>\n<p>In a terminal: <code>sonde top %s</code></p></body></html>\n",
                     r->url);
}

static void put_text(const struct sonde_request *r, struct sonde_buf *out)
{
    sonde_buf_printf(out, "sonde at %s\n\n", r->url);
    for (size_t i = 0; sonde_routes[i]; i++) {
        const struct sonde_route *route = sonde_routes[i];
        if (!route->summary) continue;
        const int get = strcmp(route->method, "GET") == 0;
        sonde_buf_printf(out, "%s%s%-*s %s", get ? "" : route->method, get ? "" : " ",
                         get ? PATH_WIDTH : PATH_WIDTH - 1 - (int)strlen(route->method), route->path, route->summary);
        put_params(out, route);
        sonde_buf_putc(out, '\n');
    }
}

static void handle(const struct sonde_request *r, struct sonde_response *a)
{
    const int html = sonde_accept_html(r->accept);
    a->vary_accept = 1;
    a->content_type = html ? "text/html; charset=utf-8" : "text/plain; charset=utf-8";
    if (html) put_html(r, &a->body);
    else put_text(r, &a->body);
}

extern const struct sonde_route sonde_route_index;
const struct sonde_route sonde_route_index = {
    .method = "GET",
    .path = "/",
    .summary = "this list",
    .handle = handle,
    .produces = "text/plain|text/html",
};
