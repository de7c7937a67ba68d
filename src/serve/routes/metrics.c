/* metrics.c - /metrics, what Prometheus and its kin scrape. */
#include <string.h>

#include "serve/http/accept.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

enum { NAMES_MAX = 1 << 16 };

static int route_metrics_is_name(const char *param)
{
    return strcmp(param, "name") == 0 || strcmp(param, "name[]") == 0;
}

/* Several names ask for the families of any of them. */
static void route_metrics_join_names(const struct sonde_http_request *r, struct sonde_buf *out)
{
    for (size_t i = 0; i < r->param_count; i++) {
        if (!route_metrics_is_name(r->params[i].name)) continue;
        if (out->len) sonde_buf_putc(out, '|');
        sonde_buf_puts(out, r->params[i].value);
    }
}

static void route_metrics_handle(const struct sonde_http_request *r, struct sonde_response *answer)
{
    const struct sonde_export_ops *format = sonde_accept_metrics(r->accept);
    struct sonde_buf names;
    sonde_buf_init(&names, NAMES_MAX);
    route_metrics_join_names(r, &names);
    if (names.error == SONDE_EFULL) {
        sonde_response_error(answer, 400, "parameter name: more than %d KiB of names",
                             NAMES_MAX >> 10);
    } else if (names.error) {
        sonde_response_failed(answer, names.error, NULL);
    } else {
        const struct sonde_filter filter = { .name = names.data, .own = r->scraped };
        struct sonde_model *m = sonde_collector_model(r->agent->collector);
        sonde_rdlock(&m->lock);
        format->render(m, names.len || r->scraped ? &filter : NULL, &answer->body);
        sonde_rwunlock(&m->lock);
        answer->content_type = format->content_type;
        answer->vary_accept = 1;
    }
    sonde_buf_release(&names);
}

extern const struct sonde_route sonde_route_metrics;
const struct sonde_route sonde_route_metrics = {
    .method = "GET",
    .path = "/metrics",
    .summary = "all series for Prometheus: text, OpenMetrics or protobuf with native histograms",
    .params = (const char *const[]){ "name", "name[]", NULL },
    .handle = route_metrics_handle,
    .produces = "text/plain|application/openmetrics-text|application/vnd.google.protobuf",
};
