/* openapi.c - GET /api/openapi.json: all routes as OpenAPI describes them. */
#include "serve/http/openapi.h"

static void route_openapi_handle(const struct sonde_http_request *r, struct sonde_response *answer)
{
    sonde_openapi(r, &answer->body);
}

extern const struct sonde_route sonde_route_openapi;
const struct sonde_route sonde_route_openapi = {
    .method = "GET",
    .path = "/api/openapi.json",
    .summary = "this list as OpenAPI 3.1, with all parameters and answers",
    .params = (const char *const[]){ NULL },
    .handle = route_openapi_handle,
    .keys = "openapi,info,paths,components",
};
