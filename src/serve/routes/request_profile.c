/* request_profile.c - profiles of single requests (profiler_request.h): GET /admin/profile/last,
 * GET /admin/profile/requests/ID, and a list of those there are.
 *
 * JSON unless ?format= says otherwise: the request as the front and the engine saw it, with phases
 * and timeline, and the reports of its CPU samples and allocations. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/array.h"
#include "base/json.h"
#include "present/report/profile.h"
#include "present/report/requests.h"
#include "agent/profiler_request.h"
#include "serve/http/route.h"
#include "serve/api/session_report.h"
#include "sonde/sonde.h"

enum { LAST_TRIES = 100, LAST_WAIT_NS = 20000000 }; /* two seconds */

/* ---- JSON ------------------------------------------------------------------------------------ */

static void route_request_profile_put_head(struct sonde_buf *out,
                                           const struct sonde_profiler_request *r,
                                           uint64_t ended_ns)
{
    sonde_json_id(out, "id", &r->id, 1);
    sonde_json_id(out, "trace_id", (const uint64_t[]){ r->trace_hi, r->trace_lo }, 2);
    sonde_json_str(out, "source", sonde_infer_source_name(r->source));
    sonde_json_time(out, "arrived", (double)r->arrived_ns * 1e-9);
    if (ended_ns) sonde_json_ns(out, "seconds", ended_ns - r->arrived_ns);
    else sonde_json_str(out, "seconds", NULL);
}

/* The report of one kind of samples, or null. */
static int put_report(struct sonde_buf *out, const char *key, const struct sonde_profile *p,
                      enum sonde_sample_kind kind)
{
    const struct sonde_report_options o = { .filter.kind = (int)kind, .style = SONDE_REPORT_JSON };
    struct sonde_profile samples = *p;
    struct sonde_buf report;
    if (!p->weights[kind]) {
        sonde_json_str(out, key, NULL);
        return 0;
    }
    samples.infer = NULL; /* requests are told beside it */
    sonde_buf_init(&report, out->max);
    const int rc = sonde_profile_report(&samples, &o, &report, NULL);
    if (!rc) {
        while (report.len && report.data[report.len - 1] == '\n') report.len--;
        sonde_json_key(out, key);
        sonde_buf_add(out, report.data, report.len);
    }
    sonde_buf_release(&report);
    return rc;
}

static int route_request_profile_put_json(const struct sonde_request_profile *r,
                                          struct sonde_buf *out)
{
    const struct sonde_profile *p = r->profile;
    sonde_json_open(out, '{');
    route_request_profile_put_head(out, &r->request, r->ended_ns);
    sonde_api_put_notes(out, r->notes, r->note_count);
    sonde_json_key_open(out, "requests", '[');
    for (size_t i = 0; p->infer && i < p->infer->request_count; i++) {
        sonde_request_json(out, &p->infer->requests[i]);
    }
    sonde_json_close(out, ']');
    int rc = put_report(out, "cpu", p, SONDE_SAMPLE_CPU);
    if (!rc) rc = put_report(out, "allocations", p, SONDE_SAMPLE_ALLOC);
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
    return rc;
}

/* ---- Formats --------------------------------------------------------------------------------- */

static int route_request_profile_picture(const struct sonde_http_request *q,
                                         const struct sonde_request_profile *r,
                                         const struct sonde_profile_filter *f, int html,
                                         struct sonde_response *answer, struct sonde_err *err)
{
    char subtitle[160], title[80];
    snprintf(title, sizeof(title), "%s of one request",
             sonde_sample_kind_title((enum sonde_sample_kind)f->kind));
    snprintf(subtitle, sizeof(subtitle), "profile %016" PRIx64 ", %.3f s", r->request.id,
             (double)(r->ended_ns - r->request.arrived_ns) * 1e-9);
    return sonde_api_picture(q, r->profile, f,
                             &(struct sonde_api_picture){ title, subtitle, html }, answer, err);
}

/* CPU unless it is asked for something else, or there are only allocations. */
static int route_request_profile_kind_of(const struct sonde_http_request *q,
                                         const struct sonde_profile *p)
{
    if (sonde_http_param(q, "type")) return sonde_http_kind(q);
    return !p->weights[SONDE_SAMPLE_CPU] && p->weights[SONDE_SAMPLE_ALLOC] ? SONDE_SAMPLE_ALLOC
                                                                           : SONDE_SAMPLE_CPU;
}

static int route_request_profile_render(const struct sonde_http_request *q,
                                        const struct sonde_request_profile *r, const char *name,
                                        const struct sonde_profile_filter *f,
                                        struct sonde_response *answer, struct sonde_err *err)
{
    if (!strcmp(name, "svg") || !strcmp(name, "html")) {
        return route_request_profile_picture(q, r, f, name[0] == 'h', answer, err);
    }
    return sonde_api_format(r->profile, f, name, "request.pb.gz", answer, err);
}

static void route_request_profile_answer(const struct sonde_http_request *q,
                                         const struct sonde_request_profile *r,
                                         struct sonde_response *answer)
{
    const char *name = sonde_http_param(q, "format");
    struct sonde_err err = { "" };
    const struct sonde_profile_filter f = { .kind = route_request_profile_kind_of(q, r->profile) };
    int rc;
    if (!name || !strcmp(name, "json")) rc = route_request_profile_put_json(r, &answer->body);
    else rc = route_request_profile_render(q, r, name, &f, answer, &err);
    if (!rc) return;
    if (rc == SONDE_ENOENT) {
        sonde_response_error(answer, 404, "%s%s%s", err.text, r->note_count ? ": " : "",
                             r->note_count ? r->notes[0] : "");
    } else {
        sonde_response_failed(answer, rc, &err);
    }
}

/* ---- Routes ---------------------------------------------------------------------------------- */

static void route_request_profile_show(const struct sonde_http_request *q,
                                       struct sonde_response *answer, const char *id)
{
    struct sonde_request_profile *r;
    struct sonde_err err = { "" };
    if (!sonde_http_has_profiler(q, answer)) return;
    const int rc = sonde_profiler_request_get(q->agent->profiler, id, &r, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    route_request_profile_answer(q, r, answer);
    sonde_profiler_request_put(q->agent->profiler, r);
}

/* The newest profile of a request that is done, or about to be: 1 = row is it. *any: there are
 * some, be they of requests that have not ended. */
static int last_request(const struct sonde_http_request *q, struct sonde_request_profile_row *row,
                        int *any)
{
    struct sonde_request_profile_row rows[2 * SONDE_REQUEST_PROFILES_MAX];
    struct sonde_profiler *profiler = q->agent->profiler;
    const size_t count =
        profiler ? sonde_profiler_request_list(profiler, rows, SONDE_COUNT(rows)) : 0;
    *any = count > 0;
    for (size_t i = 0; i < count; i++) {
        if (!rows[i].ended_ns) continue;
        *row = rows[i];
        return 1;
    }
    return 0;
}

/* When it ended; 0 = there is none. Who has the answer to a request and asks for its profile at
 * once means that one, which takes a fraction of a second to be put together. */
static double last_request_s(const struct sonde_http_request *q, int *any)
{
    struct sonde_request_profile_row row;
    for (int i = 0; i < LAST_TRIES; i++) {
        if (!last_request(q, &row, any)) return 0;
        if (row.done || (q->gone && q->gone(q->client))) break;
        nanosleep(&(struct timespec){ .tv_nsec = LAST_WAIT_NS }, NULL);
    }
    return (double)row.ended_ns * 1e-9;
}

/* The newest that is kept, its id in text; 0 = there is none. */
static double last_kept_s(const struct sonde_http_request *q, char text[24])
{
    const struct sonde_store_ops *ops;
    struct sonde_store_found f;
    struct sonde_err err = { "" };
    int memory;
    const uint64_t id = q->agent->sessions ? sonde_sessions_newest(q->agent->sessions) : 0;
    if (!id) return 0;
    snprintf(text, 24, "%" PRIu64, id);
    struct sonde_store *s = sonde_sessions_store(q->agent->sessions, &ops, &memory);
    return sonde_store_profile_find(ops, s, text, &f, &err) == 0 ? f.end_s : 0;
}

/* Whichever is newer: of a request, or one that is kept. */
static void route_request_profile_last(const struct sonde_http_request *q,
                                       struct sonde_response *answer)
{
    char id[24];
    int any;
    const double kept_s = last_kept_s(q, id), request_s = last_request_s(q, &any);
    if (kept_s > request_s) {
        sonde_session_show_kept(q, id, answer);
    } else if (any || !q->agent->profiler) {
        route_request_profile_show(q, answer, NULL);
    } else {
        sonde_response_error(
            answer, 404,
            "no profile has been captured yet: send a request with X-Profile: true, "
            "or POST /admin/profile/cpu, /admin/profile/memory or "
            "/admin/profile/start");
    }
}

static void route_request_profile_one(const struct sonde_http_request *q,
                                      struct sonde_response *answer)
{
    route_request_profile_show(q, answer, q->name);
}

static void route_request_profile_list(const struct sonde_http_request *q,
                                       struct sonde_response *answer)
{
    struct sonde_request_profile_row rows[2 * SONDE_REQUEST_PROFILES_MAX];
    struct sonde_profiler *profiler = q->agent->profiler;
    const size_t count =
        profiler ? sonde_profiler_request_list(profiler, rows, SONDE_COUNT(rows)) : 0;
    sonde_json_open(&answer->body, '{');
    sonde_json_key_open(&answer->body, "profiles", '[');
    for (size_t i = 0; i < count; i++) {
        sonde_json_open(&answer->body, '{');
        route_request_profile_put_head(&answer->body, &rows[i].request, rows[i].ended_ns);
        sonde_json_bool(&answer->body, "done", rows[i].done);
        sonde_json_close(&answer->body, '}');
    }
    sonde_json_close(&answer->body, ']');
    sonde_json_close(&answer->body, '}');
    sonde_buf_putc(&answer->body, '\n');
}

static const char *const params[] = { "format", "type", NULL };

extern const struct sonde_route sonde_route_admin_profile_last, sonde_route_admin_profile_request,
    sonde_route_admin_profile_requests;
const struct sonde_route sonde_route_admin_profile_last = {
    .method = "GET",
    .path = "/admin/profile/last",
    .summary = "the newest profile of all: of a single request (X-Profile: true), on demand, "
               "or of a session: JSON, or ?format=svg, html, pprof, folded, speedscope, chrome; "
               "?type=cpu, off-cpu, alloc",
    .params = params,
    .slow = 1,
    .handle = route_request_profile_last,
    .produces = "application/json|image/svg+xml|text/html|text/plain|application/octet-stream",
    .statuses = "404,409",
};
const struct sonde_route sonde_route_admin_profile_request = {
    .method = "GET",
    .path = "/admin/profile/requests/*",
    .summary = "the profile of one request, by X-Profile-Id or trace id",
    .params = params,
    .slow = 1,
    .handle = route_request_profile_one,
    .produces = "application/json|image/svg+xml|text/html|text/plain|application/octet-stream",
    .statuses = "409",
};
const struct sonde_route sonde_route_admin_profile_requests = {
    .method = "GET",
    .path = "/admin/profile/requests",
    .summary = "list of the profiles of single requests",
    .params = (const char *const[]){ NULL },
    .handle = route_request_profile_list,
    .keys = "profiles",
};
