/* history.c - profiles of any time that continuous profiling has seen: GET /api/profiles says which
 * parts there are, GET /api/profile is one profile of a range. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "present/report/profile.h"
#include "serve/api/history.h"
#include "serve/api/period.h"
#include "serve/api/session_report.h"
#include "agent/continuous.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

enum { LIMIT_DEFAULT = 500 };

/* What is kept, be it only in memory; NULL = nothing is. */
static struct sonde_store *route_history_store_of(const struct sonde_http_request *r,
                                                  const struct sonde_store_ops **ops)
{
    const struct sonde_agent *a = r->agent;
    *ops = a->store_ops;
    return a->continuous ? sonde_continuous_store(a->continuous, ops) : a->store;
}

/* 0: the error is in answer. */
static int route_history_query_of(const struct sonde_http_request *r, struct sonde_response *answer,
                                  struct sonde_history_query *out)
{
    uint64_t pid = 0;
    *out = (struct sonde_history_query){ .program = sonde_http_param(r, "process") };
    if (!sonde_http_range(r, answer, &out->from_s, &out->to_s) ||
        !sonde_http_count(r, answer, "pid", UINT32_MAX, &pid)) {
        return 0;
    }
    out->pid = (uint32_t)pid;
    return 1;
}

/* 0: the error is in answer. */
static int route_history_has_profiles(const struct sonde_http_request *r,
                                      struct sonde_response *answer)
{
    if (r->agent->continuous || r->agent->store) return 1;
    sonde_response_error(answer, 404, "this agent does not profile continuously");
    return 0;
}

static void route_history_list(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_history_query q;
    struct sonde_err err = { "" };
    uint64_t limit = LIMIT_DEFAULT;
    const struct sonde_store_ops *ops;
    const char *type = sonde_http_param(r, "type");
    if (!sonde_http_count(r, answer, "limit", 10000, &limit) ||
        !route_history_query_of(r, answer, &q) || !route_history_has_profiles(r, answer)) {
        return;
    }
    q.heap = type && !strcmp(type, "memory");
    struct sonde_store *s = route_history_store_of(r, &ops);
    const int rc = sonde_api_history(ops, s, r->summaries, &q, (size_t)limit, &answer->body, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
}

/* ---- One ------------------------------------------------------------------------------------- */

static int route_history_picture(const struct sonde_http_request *r, const struct sonde_profile *p,
                                 const struct sonde_profile_filter *f, int html,
                                 struct sonde_response *answer, struct sonde_err *err)
{
    char subtitle[160];
    snprintf(subtitle, sizeof(subtitle), "%.60s, unix time %.0f to %.0f",
             sonde_profile_str(p, p->program), (double)p->start_ns * 1e-9,
             (double)p->end_ns * 1e-9);
    return sonde_api_picture(r, p, f, &(struct sonde_api_picture){ NULL, subtitle, html }, answer,
                             err);
}

static int route_history_render(const struct sonde_http_request *r, const struct sonde_profile *p,
                                const struct sonde_profile_filter *f, const char *name,
                                struct sonde_response *answer, struct sonde_err *err)
{
    if (!strcmp(name, "json")) {
        const struct sonde_report_options o = { .filter = *f, .style = SONDE_REPORT_JSON,
                                                .rules = &r->agent->rules };
        return sonde_profile_report(p, &o, &answer->body, err);
    }
    if (!strcmp(name, "svg") || !strcmp(name, "html")) {
        return route_history_picture(r, p, f, name[0] == 'h', answer, err);
    }
    return sonde_api_format(p, f, name, "profile.pb.gz", answer, err);
}

/* How heaps stood is kept apart from what adds up over time. */
static int is_standing(const char *type)
{
    return type && (!strcmp(type, "live") || !strcmp(type, "peak") || !strcmp(type, "leaked") ||
                    !strcmp(type, "temporary"));
}

/* A run file and a report have all of that time; other formats have samples. */
static int route_history_wants_all(const struct sonde_http_request *r,
                                   const struct sonde_history_query *q)
{
    const char *format = sonde_http_param(r, "format");
    const int report = !format || !strcmp(format, "json");
    return sonde_http_wants_run(r) ? !q->heap : report && sonde_http_kind(r) < 0;
}

static void route_history_answer(const struct sonde_http_request *r, const struct sonde_profile *p,
                                 struct sonde_response *answer)
{
    const char *name = sonde_http_param(r, "format");
    struct sonde_err err = { "" };
    const struct sonde_profile_filter f = { .kind = sonde_http_kind(r) };
    if (sonde_http_wants_run(r)) {
        sonde_response_run(answer, p);
        return;
    }
    const int rc = route_history_render(r, p, &f, name ? name : "json", answer, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
}

static void route_history_merged(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_history_query q;
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    const struct sonde_store_ops *ops;
    const char *type = sonde_http_param(r, "type");
    if (!route_history_query_of(r, answer, &q)) return;
    q.heap = is_standing(type);
    const int all = route_history_wants_all(r, &q) && sonde_http_history(r);
    if (!all && !route_history_has_profiles(r, answer)) return;
    if (!all) sonde_api_period_flush(r, &q);
    struct sonde_store *s = route_history_store_of(r, &ops);
    const int rc = all ? sonde_api_period(r, &q, &p, &err)
                       : sonde_history_merge(ops, s, &q, &p, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    route_history_answer(r, p, answer);
    sonde_profile_destroy(p);
}

extern const struct sonde_route sonde_route_api_profiles, sonde_route_api_profile;
const struct sonde_route sonde_route_api_profiles = {
    .method = "GET",
    .path = "/api/profiles",
    .summary = "stored parts of continuous profiling, by the minute, the hour and the day, with "
               "totals and the function that took most",
    .params = (const char *const[]){ "from", "to", "process", "type", "limit", NULL },
    .slow = 1,
    .handle = route_history_list,
    .keys = "parts,total,truncated",
    .statuses = "404",
};
const struct sonde_route sonde_route_api_profile = {
    .method = "GET",
    .path = "/api/profile",
    .summary =
        "one continuous profile of any time range, of one program or process or all: JSON, or "
        "?format=svg, html, pprof, folded, speedscope, chrome, run",
    .params = (const char *const[]){ "from", "to", "process", "pid", "type", "format", NULL },
    .slow = 1,
    .handle = route_history_merged,
    .produces = "application/json|image/svg+xml|text/html|text/plain|application/octet-stream|"
                "application/vnd.sqlite3",
    .statuses = "404",
};
