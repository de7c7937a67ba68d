/* correlate.c - /api/correlations: which series move with throughput, or with any other. */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "serve/api/correlate.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

static void route_correlate_get(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_correlate_query q = { .target = sonde_http_param(r, "target"),
                                       .with = sonde_http_param(r, "with") };
    const char *format = sonde_http_param(r, "format");
    const char *all = sonde_http_param(r, "all");
    const struct sonde_correlate_style style = { .json = !format || strcmp(format, "text") != 0,
                                                 .all = all && !strcmp(all, "1") };
    uint64_t limit = 0;
    struct sonde_err err = { "" };
    if (!sonde_http_range(r, answer, &q.from_s, &q.to_s) ||
        !sonde_http_number(r, answer, "lag", 0.001, 86400, &q.lag_s) ||
        !sonde_http_count(r, answer, "limit", 1000, &limit)) {
        return;
    }
    struct sonde_store *history = sonde_http_history(r);
    if (!history) {
        sonde_response_error(answer, 404,
                             "this agent keeps no history: start it with --store FILE");
        return;
    }
    q.limit = (size_t)limit;
    if (!(q.to_s > 0)) q.to_s = sonde_clock_s(CLOCK_REALTIME);
    if (!(q.from_s > 0)) q.from_s = q.to_s - SONDE_API_CORRELATE_S;
    if (!(q.from_s < q.to_s)) q.to_s = q.from_s + SONDE_API_CORRELATE_S; /* of the future */
    const int rc = sonde_api_correlate(r->agent->store_ops, history, &q, &style, &answer->body,
                                       &err);
    if (rc) sonde_response_failed(answer, rc, &err);
    else if (!style.json) answer->content_type = "text/plain; charset=utf-8";
}

extern const struct sonde_route sonde_route_api_correlations;
const struct sonde_route sonde_route_api_correlations = {
    .method = "GET",
    .path = "/api/correlations",
    .summary = "which series move with throughput, or with any other series: correlation, lag and "
               "how sure that is, allowing for autocorrelation and for all pairs looked at",
    .params = (const char *const[]){ "target", "with", "from", "to", "lag", "limit", "format",
                                     "all", NULL },
    .slow = 1,
    .handle = route_correlate_get,
    .produces = "application/json|text/plain",
    .keys = "from,to,step_s,points,pairs,correlated,targets,correlations",
    .statuses = "404",
};
