/* pages.c - the dashboard: pages for browsers, the scripts and styles they load, and the elements
 * alone, for pages of others (web/, embedded: present/web.h).
 *
 * All pages are the same few lines of HTML; which one is shown is decided by the script, from the
 * address. They hold nothing that was measured, so everybody may have them: what they show, they
 * ask for, and that is guarded. */
#include <string.h>

#include "base/array.h"
#include "serve/http/route.h"

/* Nothing is loaded from, or sent to, anybody but the agent that served the page. */
static const char policy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'";

static void route_pages_dashboard(const struct sonde_http_request *r, struct sonde_response *answer)
{
    (void)r;
    answer->file = &sonde_web_page_html;
    answer->policy = policy;
}

/* Also change the row of "page" in param_list.h, and web/src/pages/list.ts. */
static void route_pages_page(const struct sonde_http_request *r, struct sonde_response *answer)
{
    static const char *const pages[] = { "inference", "requests", "cpu", "memory", "gpu", "system",
                                         "history", "compare", "findings", "report" };
    for (size_t i = 0; i < SONDE_COUNT(pages); i++) {
        if (strcmp(r->name, pages[i]) == 0) {
            route_pages_dashboard(r, answer);
            return;
        }
    }
    sonde_response_error(answer, 404,
                         "no such page: \"%.100s\"; /profiling/dashboard leads to all there "
                         "are",
                         r->name);
}

static void app_js(const struct sonde_http_request *r, struct sonde_response *answer)
{
    (void)r;
    answer->file = &sonde_web_app_js;
}

static void app_css(const struct sonde_http_request *r, struct sonde_response *answer)
{
    (void)r;
    answer->file = &sonde_web_app_css;
}

static void elements_js(const struct sonde_http_request *r, struct sonde_response *answer)
{
    (void)r;
    answer->file = &sonde_web_elements_js;
}

static void route_pages_icon(const struct sonde_http_request *r, struct sonde_response *answer)
{
    (void)r;
    answer->file = &sonde_web_icon_svg;
}

extern const struct sonde_route sonde_route_dashboard, sonde_route_page, sonde_route_app_js,
    sonde_route_app_css, sonde_route_elements_js, sonde_route_icon;
const struct sonde_route sonde_route_dashboard = {
    .method = "GET",
    .path = "/profiling/dashboard",
    .summary = "the dashboard, for a browser",
    .open = 1,
    .handle = route_pages_dashboard,
    .produces = "text/html",
    .statuses = "304",
};
const struct sonde_route sonde_route_page = {
    .method = "GET",
    .path = "/profiling/*",
    .summary = "one page of the dashboard: inference, requests, cpu, memory, gpu, system, history, "
               "compare, findings, report",
    .open = 1,
    .handle = route_pages_page,
    .star = "page",
    .produces = "text/html",
    .statuses = "304",
};
const struct sonde_route sonde_route_app_js = {
    .method = "GET",
    .path = "/profiling/app.js",
    .summary = "the script of these pages",
    .open = 1,
    .handle = app_js,
    .produces = "text/javascript",
    .statuses = "304",
};
const struct sonde_route sonde_route_app_css = {
    .method = "GET",
    .path = "/profiling/app.css",
    .summary = "their style",
    .open = 1,
    .handle = app_css,
    .produces = "text/css",
    .statuses = "304",
};
const struct sonde_route sonde_route_elements_js = {
    .method = "GET",
    .path = "/profiling/elements.js",
    .summary = "the dashboard's elements alone, for a page of your own",
    .open = 1,
    .handle = elements_js,
    .produces = "text/javascript",
    .statuses = "304",
};
const struct sonde_route sonde_route_icon = {
    .method = "GET",
    .path = "/profiling/icon.svg",
    .summary = "their icon",
    .open = 1,
    .handle = route_pages_icon,
    .produces = "image/svg+xml",
    .statuses = "304",
};
