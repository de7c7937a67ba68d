/* continuous.c - /admin/profile/continuous: how continuous profiling stands, and changing it. */
#include "agent/continuous.h"

#include "serve/http/route.h"
#include "sonde/sonde.h"

enum { BODY_MAX = 4096 };

static void route_continuous_show(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    if (!r->agent->continuous) {
        sonde_response_error(answer, 404, "this agent does not profile continuously");
        return;
    }
    const int rc = sonde_continuous_json(r->agent->continuous, &answer->body, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
}

static void route_continuous_change(const struct sonde_http_request *r,
                                    struct sonde_response *answer)
{
    struct sonde_continuous_change wanted;
    struct sonde_err err = { "" };
    int rc = sonde_continuous_parse(r->body, r->body_len, &wanted, &err);
    if (!rc && r->agent->continuous) {
        rc = sonde_continuous_apply(r->agent->continuous, &wanted, &err);
    }
    /* Not the 503 of EOFF: nothing can be sampled here, and trying again later does not help. */
    if (rc == SONDE_EOFF) sonde_response_error(answer, 409, "%s", err.text);
    else if (rc) sonde_response_failed(answer, rc, &err);
    else route_continuous_show(r, answer);
}

#define KEYS "enabled,rate_hz,interval_seconds,duration_seconds,duty,cpu,memory,gpu,burst,"      \
             "history,overhead,problem"

extern const struct sonde_route sonde_route_admin_continuous, sonde_route_admin_continuous_set;
const struct sonde_route sonde_route_admin_continuous = {
    .method = "GET",
    .path = "/admin/profile/continuous",
    .summary = "state of continuous profiling: what is enabled, what works, and what it costs",
    .params = (const char *const[]){ NULL },
    .handle = route_continuous_show,
    .keys = KEYS,
    .statuses = "404",
};
const struct sonde_route sonde_route_admin_continuous_set = {
    .method = "POST",
    .path = "/admin/profile/continuous",
    .summary = "enable or disable continuous profiling, change its rate, interval and duration, or "
               "start a burst",
    .params = (const char *const[]){ NULL },
    .body_max = BODY_MAX,
    .handle = route_continuous_change,
    .keys = KEYS,
    .statuses = "404,409",
    .body = "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
            "\"enabled\":{\"type\":\"boolean\"},\"cpu\":{\"type\":\"boolean\"},"
            "\"memory\":{\"type\":\"boolean\"},\"gpu\":{\"type\":\"boolean\"},"
            "\"rate_hz\":{\"type\":\"number\",\"minimum\":1,\"maximum\":10000},"
            "\"interval_seconds\":{\"type\":\"number\",\"minimum\":1,\"maximum\":86400},"
            "\"duration_seconds\":{\"type\":\"number\",\"minimum\":0,\"maximum\":86400},"
            "\"burst_seconds\":{\"type\":\"number\",\"minimum\":1,\"maximum\":3600}},"
            "\"example\":{\"enabled\":true,\"interval_seconds\":300,\"cpu\":true,"
            "\"memory\":true,\"gpu\":true}}",
};
