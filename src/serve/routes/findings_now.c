/* findings_now.c - /api/findings/now: what is wrong now, what proves it, what to do about it. */
#include <string.h>

#include "agent/recent_profile.h"
#include "base/json.h"
#include "present/report/finding.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

#define WINDOW_S 60

struct findings_now {
    struct sonde_buf *out;
    int text;
    enum sonde_severity severity;
};

static void findings_now_put(struct findings_now *n, struct sonde_findings *f)
{
    while (f->causes && f->rows[f->causes - 1].severity < n->severity) f->causes--;
    if (n->text) sonde_findings_text(f, 0, 0, n->out);
    else sonde_findings_json_answer(f, n->out);
}

static void route_findings_now(const struct sonde_http_request *r, struct sonde_response *answer)
{
    const char *format = sonde_http_param(r, "format"), *least = sonde_http_param(r, "severity");
    struct findings_now n = { .out = &answer->body, .text = format && !strcmp(format, "text"),
                              .severity = (enum sonde_severity)(least ? sonde_severity_find(least)
                                                                      : 0) };
    struct sonde_recent_profile_options o = { .window_s = WINDOW_S, .gone = r->gone,
                                              .client = r->client };
    struct sonde_profile *p;
    struct sonde_findings *found;
    struct sonde_err err = { "" };
    if (!sonde_http_number(r, answer, "duration", 0.1, 600, &o.record_s)) return;
    int rc = sonde_recent_profile(r->agent, &o, &p, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    rc = sonde_findings_look(p, &r->agent->rules, &found);
    sonde_profile_destroy(p);
    if (rc) {
        sonde_response_failed(answer, rc, NULL);
        return;
    }
    findings_now_put(&n, found);
    if (n.text) answer->content_type = "text/plain; charset=utf-8";
    sonde_findings_destroy(found);
}

extern const struct sonde_route sonde_route_api_findings_now;
const struct sonde_route sonde_route_api_findings_now = {
    .method = "GET",
    .path = "/api/findings/now",
    .summary = "what is wrong now, the weightiest first, with evidence and advice: of the last "
               "minute, or with duration of so many seconds from now on, with waiting",
    .params = (const char *const[]){ "duration", "severity", "format", NULL },
    .samples = 1,
    .slow = 1,
    .handle = route_findings_now,
    .produces = "application/json|text/plain",
    .keys = "findings,notes,muted",
    .statuses = "404,503",
};
