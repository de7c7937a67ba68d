/* profile.c - CPU profiles on demand: /debug/pprof/profile, as Go programs have it, so that `go
 * tool pprof` and Pyroscope can ask for one, and POST /admin/profile/cpu, which answers with a
 * report. Both sample now, for the time that is asked for, what the agent watches. */
#include <string.h>

#include "serve/http/route.h"
#include "serve/api/session_report.h"
#include "sonde/sonde.h"

enum { SECONDS_DEFAULT = 30, SECONDS_MAX = 3600 }; /* 30: Go's default */

/* NULL: the error is in answer. */
static struct sonde_profile *route_profile_take(const struct sonde_http_request *r,
                                                struct sonde_response *answer, const char *param,
                                                double seconds)
{
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    if (!sonde_http_number(r, answer, param, 0.1, SECONDS_MAX, &seconds) ||
        !sonde_http_has_profiler(r, answer)) {
        return NULL;
    }
    const int rc = sonde_profiler_capture(r->agent->profiler, seconds, r->gone, r->client,
                                          &p, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
    return rc ? NULL : p;
}

/* A profile without samples (nothing ran) is an answer too, in pprof. */
static void route_profile_answer(const struct sonde_profile *p, const char *name,
                                 struct sonde_response *answer)
{
    const struct sonde_profile_filter all = { .kind = SONDE_SAMPLE_CPU };
    struct sonde_err err = { "" };
    const int rc = sonde_api_format(p, &all, name, "cpu.pb.gz", answer, &err);
    if (rc == SONDE_ENOENT) {
        sonde_response_error(answer, 404, "%s: nothing used the CPU in that time", err.text);
    } else if (rc) {
        sonde_response_failed(answer, rc, &err);
    }
}

static void pprof_profile(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_profile *p = route_profile_take(r, answer, "seconds", SECONDS_DEFAULT);
    if (!p) return;
    if (sonde_http_wants_run(r)) sonde_response_run(answer, p);
    else route_profile_answer(p, "pprof", answer);
    sonde_profile_destroy(p);
}

static int wants_pprof(const char *accept)
{
    return accept && (strstr(accept, "protobuf") || strstr(accept, "octet-stream") ||
                      strstr(accept, "pprof"));
}

static void admin_profile_cpu(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_profile *p = route_profile_take(r, answer, "duration", SECONDS_DEFAULT);
    answer->vary_accept = 1;
    if (!p) return;
    route_profile_answer(p, wants_pprof(r->accept) ? "pprof" : "report-json", answer);
    sonde_session_keep_answer(r->agent->sessions, "on-demand-cpu", "cpu", p, answer);
    sonde_profile_destroy(p);
}

extern const struct sonde_route sonde_route_pprof_profile, sonde_route_admin_profile_cpu;
const struct sonde_route sonde_route_pprof_profile = {
    .method = "GET",
    .path = "/debug/pprof/profile",
    .summary = "samples the CPU for some seconds (default 30) and answers with pprof; format=run: "
               "with a run file, which has spans and inference requests too",
    .params = (const char *const[]){ "seconds", "format", NULL },
    .samples = 1,
    .slow = 1,
    .handle = pprof_profile,
    .produces = "application/octet-stream|application/vnd.sqlite3",
    .statuses = "404,409",
};
const struct sonde_route sonde_route_admin_profile_cpu = {
    .method = "POST",
    .path = "/admin/profile/cpu",
    .summary = "CPU profile on demand as a JSON report; as pprof if Accept names protobuf or "
               "octet-stream; it is stored",
    .params = (const char *const[]){ "duration", NULL },
    .slow = 1,
    .handle = admin_profile_cpu,
    .produces = "application/json|application/octet-stream",
    .statuses = "404,409",
};
