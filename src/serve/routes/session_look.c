/* session_look.c - what is seen in sessions: POST /admin/profile/flamegraph, GET
 * /admin/profile/bottlenecks, GET /admin/profile/compare. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "present/report/finding.h"
#include "serve/http/route.h"
#include "serve/api/session_report.h"
#include "sonde/sonde.h"

#define SECONDS_DEFAULT 10 /* of what is sampled because there is nothing else */

/* Samples now. */
static int route_session_look_take(const struct sonde_http_request *r, double seconds,
                                   struct sonde_session_found *out, struct sonde_err *err)
{
    *out = (struct sonde_session_found){ 0 };
    snprintf(out->label, sizeof(out->label), "sampled just now");
    return sonde_profiler_capture(r->agent->profiler, seconds, r->gone, r->client,
                                  &out->profile, err);
}

/* name, or duration, or what runs or was kept last, or else what is sampled now. 0: the answer is
 * in a. */
static int route_session_look_choose(const struct sonde_http_request *r,
                                     struct sonde_response *answer, struct sonde_session_found *out)
{
    const char *name = sonde_http_param(r, "name");
    double seconds = 0;
    struct sonde_err err = { "" };
    if (!sonde_http_has_sessions(r, answer) ||
        !sonde_http_number(r, answer, "duration", 0.1, 3600, &seconds)) {
        return 0;
    }
    int rc;
    if (!name && seconds > 0) {
        rc = route_session_look_take(r, seconds, out, &err);
    } else {
        rc = sonde_sessions_find(r->agent->sessions, name, out, &err);
        if (rc == SONDE_ENOENT && !name) {
            rc = route_session_look_take(r, SECONDS_DEFAULT, out, &err);
        }
    }
    if (rc) sonde_response_failed(answer, rc, &err);
    return !rc;
}

static void route_session_look_flamegraph(const struct sonde_http_request *r,
                                          struct sonde_response *answer)
{
    struct sonde_session_found f;
    const char *format = sonde_http_param(r, "format");
    if (!route_session_look_choose(r, answer, &f)) return;
    sonde_session_picture(r, f.profile, sonde_http_kind(r), f.label,
                          format && !strcmp(format, "html"), answer);
    sonde_profile_destroy(f.profile);
}

/* ---- Bottlenecks ----------------------------------------------------------------------------- */

static void put_findings(const struct sonde_session_found *f, const struct sonde_findings *found,
                         struct sonde_buf *out)
{
    sonde_json_open(out, '{');
    sonde_json_str(out, "profile", f->label);
    sonde_json_u64_or_null(out, "id", f->id);
    sonde_json_ns(out, "duration_seconds", f->profile->end_ns - f->profile->start_ns);
    sonde_json_key(out, "bottlenecks");
    sonde_findings_json(found, out);
    if (found->note_count) sonde_json_str(out, "note", found->notes[0]);
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
}

static void route_session_look_bottlenecks(const struct sonde_http_request *r,
                                           struct sonde_response *answer)
{
    struct sonde_session_found f;
    struct sonde_findings *found = NULL;
    const char *format = sonde_http_param(r, "format");
    uint64_t limit = 0;
    if (!sonde_http_count(r, answer, "limit", 1000, &limit) ||
        !route_session_look_choose(r, answer, &f)) {
        return;
    }
    struct sonde_finding_options o = r->agent->rules;
    o.limit = (size_t)limit;
    const int rc = sonde_findings_look(f.profile, &o, &found);
    if (rc) {
        sonde_response_failed(answer, rc, NULL);
    } else if (format && !strcmp(format, "text")) {
        sonde_findings_text(found, 0, 0, &answer->body);
        answer->content_type = "text/plain; charset=utf-8";
    } else {
        put_findings(&f, found, &answer->body);
    }
    sonde_findings_destroy(found);
    sonde_profile_destroy(f.profile);
}

/* ---- Comparison ------------------------------------------------------------------------------ */

/* text NULL: what was kept last. */
static int route_session_look_side(const struct sonde_http_request *r, const char *text,
                                   struct sonde_session_range *out, struct sonde_err *err)
{
    char last[24];
    if (text && sonde_sessions_is_range(text)) {
        return sonde_sessions_range(r->agent->sessions, text, out, err);
    }
    if (!text) {
        const uint64_t id = sonde_sessions_last(r->agent->sessions);
        if (!id) return sonde_err_set(err, SONDE_ENOENT, "there is no profile to compare it with");
        snprintf(last, sizeof(last), "%llu", (unsigned long long)id);
        text = last;
    }
    *out = (struct sonde_session_range){ 0 };
    return sonde_sessions_find(r->agent->sessions, text, &out->found, err);
}

static void route_session_look_compare(const struct sonde_http_request *r,
                                       struct sonde_response *answer)
{
    struct sonde_session_range x[2] = { { .from_ns = 0 }, { .from_ns = 0 } };
    struct sonde_err err = { "" };
    const char *format = sonde_http_param(r, "format");
    if (!sonde_http_has_sessions(r, answer)) return;
    int rc = route_session_look_side(r, sonde_http_param(r, "a"), &x[0], &err);
    if (!rc) rc = route_session_look_side(r, sonde_http_param(r, "b"), &x[1], &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
    } else {
        struct sonde_session_side s[2];
        for (int i = 0; i < 2; i++) {
            s[i] = (struct sonde_session_side){ .profile = x[i].found.profile,
                                                .label = x[i].found.label,
                                                .from_ns = x[i].from_ns, .to_ns = x[i].to_ns };
        }
        sonde_session_compare(r, &s[0], &s[1], sonde_http_kind(r),
                              format ? format : "json", answer);
    }
    for (int i = 0; i < 2; i++) sonde_profile_destroy(x[i].found.profile);
}

extern const struct sonde_route sonde_route_admin_profile_flamegraph,
    sonde_route_admin_profile_bottlenecks, sonde_route_admin_profile_compare;
const struct sonde_route sonde_route_admin_profile_flamegraph = {
    .method = "POST",
    .path = "/admin/profile/flamegraph",
    .summary = "a flame graph as SVG of the running session so far, or of the last one that ended",
    .params = (const char *const[]){ "name", "duration", "type", "format", NULL },
    .slow = 1,
    .handle = route_session_look_flamegraph,
    .produces = "image/svg+xml|text/html",
    .statuses = "404,409",
};
const struct sonde_route sonde_route_admin_profile_bottlenecks = {
    .method = "GET",
    .path = "/admin/profile/bottlenecks",
    .summary = "bottlenecks: what is wrong, what proves it, what to do about it",
    .params = (const char *const[]){ "name", "duration", "format", "limit", NULL },
    .samples = 1,
    .slow = 1,
    .handle = route_session_look_bottlenecks,
    .produces = "application/json|text/plain",
    .keys = "profile,id,bottlenecks",
    .statuses = "404,409",
};
const struct sonde_route sonde_route_admin_profile_compare = {
    .method = "GET",
    .path = "/admin/profile/compare",
    .summary = "two sessions compared: what is faster or slower, by how much, and whether that is "
               "noise",
    .params = (const char *const[]){ "a", "b", "type", "format", NULL },
    .required = (const char *const[]){ "a", NULL },
    .slow = 1,
    .handle = route_session_look_compare,
    .produces = "application/json|text/plain|text/markdown|image/svg+xml|text/html",
    .keys = "verdict,figures",
    .statuses = "404,409",
};
