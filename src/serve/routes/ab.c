/* ab.c - /api/ab: two servers behind the front, compared. */
#include "agent/arms.h"

#include "serve/http/route.h"

static void route_ab_show(const struct sonde_http_request *r, struct sonde_response *answer)
{
    if (!r->agent->arms) {
        sonde_response_error(answer, 404, "this agent compares no servers: start it with `sonde "
                                          "serve --upstream URL --ab URL` or --mirror URL");
        return;
    }
    sonde_arms_json(r->agent->arms, &answer->body);
    sonde_buf_putc(&answer->body, '\n');
}

extern const struct sonde_route sonde_route_api_ab;
const struct sonde_route sonde_route_api_ab = {
    .method = "GET",
    .path = "/api/ab",
    .summary = "two servers behind the front, compared: time to first token, time between tokens, "
               "duration, speed and errors of each, and differences with intervals that hold at "
               "every look",
    .params = (const char *const[]){ NULL },
    .handle = route_ab_show,
    .keys = "mode,share,session_header,started,seconds,verdict,text,warnings,level,detect,"
            "block_seconds,block_requests,a,b,mirror,differences",
    .statuses = "404",
};
