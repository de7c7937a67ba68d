/* report.c - /api/report: the report of the last minute, of so many seconds from now on, or of any
 * time that is kept. */
#include <string.h>

#include "agent/recent_profile.h"
#include "base/array.h"
#include "present/report/profile.h"
#include "serve/api/period.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

#define WINDOW_S 60

static const struct report_answer {
    const char *format, *content_type;
    enum sonde_report_style style;
} answers[] = {
    { "json", "application/json", SONDE_REPORT_JSON },
    { "text", "text/plain; charset=utf-8", SONDE_REPORT_TEXT },
    { "markdown", "text/markdown; charset=utf-8", SONDE_REPORT_MARKDOWN },
    { "csv", "text/csv; charset=utf-8; header=present", SONDE_REPORT_CSV },
    { "pdf", "application/pdf", SONDE_REPORT_PDF },
};

/* 1 if from or to is there, which duration is no part of; 0 and no answer yet, or an error. */
static int route_report_range(const struct sonde_http_request *r, struct sonde_response *answer,
                              struct sonde_history_query *q)
{
    *q = (struct sonde_history_query){ .heap = 0 };
    if (!sonde_http_param(r, "from") && !sonde_http_param(r, "to")) return 0;
    if (!sonde_http_range(r, answer, &q->from_s, &q->to_s)) return 0;
    if (sonde_http_history(r) || r->agent->continuous) return 1;
    sonde_response_error(answer, 404, "this agent keeps no history: `sonde serve --store FILE`, "
                         "or --continuous for samples");
    return 0;
}

static void route_report_get(const struct sonde_http_request *r, struct sonde_response *answer)
{
    const char *format = sonde_http_param(r, "format");
    const struct report_answer *how = &answers[0];
    struct sonde_recent_profile_options o = { .window_s = WINDOW_S, .gone = r->gone,
                                              .client = r->client };
    struct sonde_report_options look = { .filter.kind = -1, .rules = &r->agent->rules };
    struct sonde_profile *p;
    struct sonde_err err = { "" };
    uint64_t limit = 0;
    for (size_t i = 0; format && i < SONDE_COUNT(answers); i++) {
        if (!strcmp(answers[i].format, format)) how = &answers[i];
    }
    if (!sonde_http_number(r, answer, "duration", 0.1, 600, &o.record_s) ||
        !sonde_http_count(r, answer, "limit", 100000, &limit)) {
        return;
    }
    struct sonde_history_query q;
    const int ranged = route_report_range(r, answer, &q);
    if (!ranged && answer->status >= 400) return;
    int rc = ranged ? sonde_api_period(r, &q, &p, &err)
                    : sonde_recent_profile(r->agent, &o, &p, &err);
    if (!rc) {
        look.style = how->style;
        look.limit = (size_t)limit;
        rc = sonde_profile_report(p, &look, &answer->body, &err);
        sonde_profile_destroy(p);
    }
    if (rc) sonde_response_failed(answer, rc, &err);
    else answer->content_type = how->content_type;
}

extern const struct sonde_route sonde_route_api_report;
const struct sonde_route sonde_route_api_report = {
    .method = "GET",
    .path = "/api/report",
    .summary = "the report of the last minute, with duration of so many seconds from now on, or "
               "with from and to of any time that is kept: "
               "summary, findings, operations, requests, machine learning, system, functions",
    .params = (const char *const[]){ "duration", "from", "to", "limit", "format", NULL },
    .samples = 1,
    .slow = 1,
    .handle = route_report_get,
    .produces = "application/json|text/plain|text/markdown|text/csv|application/pdf",
    .keys = "profile_id,duration_seconds,summary",
    .statuses = "404,503",
};
