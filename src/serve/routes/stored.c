/* stored.c - /api/runs/ID and /api/findings, which only a store knows. */
#include <stdlib.h>

#include "serve/api/store.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 100000 };

/* 1, or 0 with a 404 in answer. s: where it would be, NULL = nowhere. */
static int has_store(const struct sonde_store *s, struct sonde_response *answer)
{
    if (s) return 1;
    sonde_response_error(answer, 404, "there is no store: start the agent with --store FILE");
    return 0;
}

static void route_stored_run(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    char *end = NULL;
    const unsigned long id = strtoul(r->name, &end, 10);
    if (!has_store(r->agent->store, answer)) return;
    if (r->name[0] < '0' || r->name[0] > '9' || *end || id > UINT32_MAX) {
        sonde_response_error(
            answer, 400, "\"%.100s\" is not the number of a run; /api/runs lists them", r->name);
        return;
    }
    const int rc =
        sonde_api_run(r->agent->store_ops, r->agent->store, (uint32_t)id, &answer->body, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
}

static void route_stored_findings(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    struct sonde_api_findings q = { .kind = sonde_http_param(r, "kind") };
    const char *severity = sonde_http_param(r, "severity");
    uint64_t run_id = 0, limit = LIMIT_DEFAULT;
    struct sonde_store *s = sonde_http_history(r);
    if (!has_store(s, answer) ||
        !sonde_http_range(r, answer, &q.range.from_s, &q.range.to_s) ||
        !sonde_http_count(r, answer, "run", UINT32_MAX, &run_id) ||
        !sonde_http_count(r, answer, "limit", LIMIT_MAX, &limit)) {
        return;
    }
    q.severity = severity ? sonde_severity_find(severity) : 0;
    if (q.severity < 0) {
        sonde_response_error(answer, 400,
                             "parameter severity: \"%.100s\" is not one of info, warning, "
                             "critical",
                             severity);
        return;
    }
    q.range.run = (uint32_t)run_id;
    q.range.limit = (size_t)limit;
    q.watch = r->agent->findings;
    const int rc = sonde_api_findings(r->agent->store_ops, s, &q, &answer->body, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
}

extern const struct sonde_route sonde_route_api_run, sonde_route_api_findings;
const struct sonde_route sonde_route_api_run = {
    .method = "GET",
    .path = "/api/runs/*",
    .summary = "one run, with its settings, the files it ran and its heaps",
    .params = (const char *const[]){ NULL },
    .handle = route_stored_run,
    .keys = "id,name,config,modules,heaps",
};
const struct sonde_route sonde_route_api_findings = {
    .method = "GET",
    .path = "/api/findings",
    .summary = "what the analysis concluded, newest first, and what goes on now",
    .params = (const char *const[]){ "from", "to", "run", "kind", "severity", "limit", NULL },
    .handle = route_stored_findings,
    .keys = "time,findings,active,looked",
    .statuses = "404",
};
