/* gpu.c - /api/gpu: GPUs, who reads them, and who uses them. */
#include "collect/collector.h"
#include "serve/api/api.h"
#include "serve/http/route.h"

static void route_gpu_get(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    sonde_rdlock(&m->lock);
    sonde_api_gpu(sonde_collector_gpu(r->agent->collector), m, &answer->body);
    sonde_rwunlock(&m->lock);
}

extern const struct sonde_route sonde_route_api_gpu;
const struct sonde_route sonde_route_api_gpu = {
    .method = "GET",
    .path = "/api/gpu",
    .summary = "GPUs: figures of each, why others are absent, who reads them, and the processes "
               "that use them",
    .params = (const char *const[]){ NULL },
    .handle = route_gpu_get,
    .keys = "time,enabled,sources,devices,processes",
};
