/* alerts.c - /api/alerts: what fires and who was told; POST and DELETE of mutes below it; POST
 * /api/alerts/test, which tries every receiver. */
#include <stdlib.h>

#include "agent/agent.h"
#include "base/json.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

enum { MUTE_BODY_MAX = 8192 };

/* 1, or 0 with a 404 in answer. */
static int route_has_alerts(const struct sonde_http_request *r, struct sonde_response *answer)
{
    if (r->agent->alerts) return 1;
    sonde_response_error(answer, 404, "there are no alerts here: alerts.enabled is false, or this "
                         "is not a resident agent");
    return 0;
}

static void alerts_list(const struct sonde_http_request *r, struct sonde_response *answer)
{
    if (!route_has_alerts(r, answer)) return;
    sonde_alerts_json(r->agent->alerts, &answer->body);
    sonde_buf_putc(&answer->body, '\n');
}

static void alerts_mute_add(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    uint64_t id = 0;
    if (!route_has_alerts(r, answer)) return;
    const int rc = sonde_alerts_mute(r->agent->alerts, r->body, r->body_len, &id, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    answer->status = 201;
    sonde_buf_putc(&answer->body, '{');
    sonde_json_u64(&answer->body, "id", id);
    sonde_buf_puts(&answer->body, "}\n");
}

static void alerts_mute_delete(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    char *end = NULL;
    const unsigned long long id = strtoull(r->name, &end, 10);
    if (!route_has_alerts(r, answer)) return;
    if (r->name[0] < '0' || r->name[0] > '9' || *end) {
        sonde_response_error(answer, 400,
                             "\"%.100s\" is not the number of a mute; /api/alerts lists them",
                             r->name);
        return;
    }
    const int rc = sonde_alerts_unmute(r->agent->alerts, id, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    sonde_buf_printf(&answer->body, "{\"deleted\":%llu}\n", id);
}

static void alerts_test(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_alerts_tried tried[SONDE_ALERT_RECEIVERS_MAX];
    if (!route_has_alerts(r, answer)) return;
    const size_t count = sonde_alerts_test(r->agent->alerts, tried, SONDE_ALERT_RECEIVERS_MAX);
    sonde_alerts_tried_json(tried, count, &answer->body);
    sonde_buf_putc(&answer->body, '\n');
}

extern const struct sonde_route sonde_route_api_alerts, sonde_route_api_alerts_mute,
    sonde_route_api_alerts_unmute, sonde_route_api_alerts_test;
const struct sonde_route sonde_route_api_alerts = {
    .method = "GET",
    .path = "/api/alerts",
    .summary = "alerts that fire, are pending or were resolved in the last day, with what "
               "receivers were told; receivers, rules and mutes",
    .params = (const char *const[]){ NULL },
    .handle = alerts_list,
    .keys = "time,firing,firing_muted,pending,alerts,receivers,rules,mutes",
    .statuses = "404",
};
const struct sonde_route sonde_route_api_alerts_mute = {
    .method = "POST",
    .path = "/api/alerts/mutes",
    .summary = "mutes alerts by label, for a time or for hours of the week: they are listed and "
               "not sent",
    .params = (const char *const[]){ NULL },
    .body_max = MUTE_BODY_MAX,
    .handle = alerts_mute_add,
    .keys = "id",
    .statuses = "201,404",
    .body = "{\"type\":\"object\",\"properties\":{"
            "\"labels\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\","
            "\"maxLength\":200},\"maxProperties\":8,\"description\":\"globs; kind and severity may "
            "be among them\"},"
            "\"from\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"description\":\"Unix "
            "seconds\"},"
            "\"to\":{\"type\":\"number\",\"exclusiveMinimum\":0},"
            "\"seconds\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"description\":\"instead of "
            "to: from now on\"},"
            "\"weekly\":{\"type\":\"string\",\"maxLength\":127,\"description\":\"days and hours in "
            "local time, such as Mon-Fri 22:00-06:00; Sat,Sun\"},"
            "\"comment\":{\"type\":\"string\",\"maxLength\":200}},"
            "\"additionalProperties\":false,"
            "\"example\":{\"labels\":{\"kind\":\"memory\"},\"seconds\":3600}}",
};
const struct sonde_route sonde_route_api_alerts_unmute = {
    .method = "DELETE",
    .path = "/api/alerts/mutes/*",
    .summary = "ends a mute",
    .params = (const char *const[]){ NULL },
    .handle = alerts_mute_delete,
    .keys = "deleted",
};
const struct sonde_route sonde_route_api_alerts_test = {
    .method = "POST",
    .path = "/api/alerts/test",
    .summary = "sends a test notification to every receiver and says of each whether it arrived",
    .params = (const char *const[]){ NULL },
    .slow = 1,
    .handle = alerts_test,
    .keys = "receivers,ok",
    .statuses = "404",
};
