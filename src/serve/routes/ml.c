/* ml.c - /api/ml: training, inference by batch size, datasets and workers. */
#include "collect/collector.h"
#include "serve/api/api.h"
#include "serve/http/route.h"

static void route_ml_get(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_model *m = sonde_collector_model(r->agent->collector);
    sonde_rdlock(&m->lock);
    const int rc = sonde_api_ml(m, &answer->body);
    sonde_rwunlock(&m->lock);
    if (rc) sonde_response_failed(answer, rc, NULL);
}

extern const struct sonde_route sonde_route_api_ml;
const struct sonde_route sonde_route_api_ml = {
    .method = "GET",
    .path = "/api/ml",
    .summary = "machine learning that programs report: models, inference by batch size, training "
               "by epoch and phase, datasets, tasks and workers",
    .params = (const char *const[]){ NULL },
    .handle = route_ml_get,
    .keys = "time,ml",
};
