/* cost.c - /api/cost: what sonde costs the programs that it samples. */
#include "agent/own_cost_control.h"

#include "serve/http/route.h"

static void route_cost_show(const struct sonde_http_request *r, struct sonde_response *answer)
{
    sonde_own_cost_json(r->agent->own_cost, &answer->body);
    sonde_buf_putc(&answer->body, '\n');
}

extern const struct sonde_route sonde_route_api_cost;
const struct sonde_route sonde_route_api_cost = {
    .method = "GET",
    .path = "/api/cost",
    .summary = "what CPU sampling costs the program, by windows of time with it off and on",
    .params = (const char *const[]){ NULL },
    .handle = route_cost_show,
    .keys = "enabled,covers,state,text,method,measure,work,ratio,low,high,pairs,confidence,"
            "pairs_more,pairs_dropped,window_seconds,off_seconds,off_ratio,rate_hz,reason,"
            "estimate,measures",
};
