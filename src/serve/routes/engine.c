/* engine.c - /api/engine: devices, memory pools and tokenizers of inference engines. */
#include "collect/collector.h"
#include "serve/api/api.h"
#include "serve/http/route.h"

static void route_engine_get(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    sonde_rdlock(&m->lock);
    const int rc = sonde_api_engine(m, &answer->body);
    sonde_rwunlock(&m->lock);
    if (rc) sonde_response_failed(answer, rc, NULL);
}

extern const struct sonde_route sonde_route_api_engine;
const struct sonde_route sonde_route_api_engine = {
    .method = "GET",
    .path = "/api/engine",
    .summary = "internals that engines report: operations by device, memory pools and their "
               "fragmentation, tokenizers with advice",
    .params = (const char *const[]){ NULL },
    .handle = route_engine_get,
    .keys = "time,devices,pools,tokenizers",
};
