/* regressions.c - GET /api/regressions: changes of series and of functions' costs. */
#include "agent/regressions.h"

#include "serve/http/route.h"
#include "sonde/sonde.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = SONDE_REGRESSIONS_MAX };

static void route_regressions_list(const struct sonde_http_request *r,
                                   struct sonde_response *answer)
{
    double from_s = 0, to_s = 0;
    uint64_t limit = LIMIT_DEFAULT;
    if (!sonde_http_range(r, answer, &from_s, &to_s) ||
        !sonde_http_count(r, answer, "limit", LIMIT_MAX, &limit)) {
        return;
    }
    if (!r->agent->regressions) {
        sonde_response_error(answer, 404, "this agent does not look for regressions: "
                             "bottleneck.alert_on_regression is off, or it has no store");
        return;
    }
    sonde_regressions_json(r->agent->regressions, from_s, (size_t)limit, &answer->body);
}

extern const struct sonde_route sonde_route_api_regressions;
const struct sonde_route sonde_route_api_regressions = {
    .method = "GET",
    .path = "/api/regressions",
    .summary = "changes of series and of functions' costs, newest first: effect with a 95 % "
               "interval, since when, whether it went away, and what else changed then",
    .params = (const char *const[]){ "from", "limit", NULL },
    .handle = route_regressions_list,
    .keys = "time,series_watched,series_learning,programs_profiled,regressions",
    .statuses = "404",
};
