/* dashboard.c - the address people try first. This version has no dashboard; say what it has. */
#include "serve/route.h"

static void handle(const struct sonde_request *r, struct sonde_response *a)
{
    a->status = 404;
    a->content_type = "text/plain; charset=utf-8";
    sonde_buf_printf(&a->body,
                     "The dashboard is not in this version. What there is:\n\n"
                     "  %s/         all routes\n"
                     "  %s/metrics  all series, for Prometheus and Grafana\n"
                     "  sonde top   the same live in a terminal\n",
                     r->url, r->url);
}

extern const struct sonde_route sonde_route_dashboard;
const struct sonde_route sonde_route_dashboard = {
    .method = "GET",
    .path = "/profiling/dashboard",
    .handle = handle,
};
