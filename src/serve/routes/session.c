/* session.c - profiling sessions with names (sessions.h): POST /admin/profile/start and stop, GET
 * /admin/profile/status. */
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "profile/infer.h"
#include "serve/http/route.h"
#include "serve/api/session_report.h"
#include "sonde/sonde.h"

/* 1 if *ask is what the body says. */
static int read_body(const struct sonde_http_request *r, struct sonde_response *answer,
                     int is_start, struct sonde_session_ask *ask)
{
    struct sonde_err err = { "" };
    if (!sonde_http_has_sessions(r, answer)) return 0;
    if (sonde_session_body(r->body, r->body_len, is_start, ask, &err) == 0) return 1;
    sonde_response_error(answer, 400, "%s", err.text);
    return 0;
}

static void put_kept(const struct sonde_http_request *r, struct sonde_buf *out)
{
    const struct sonde_store_ops *ops;
    int memory;
    sonde_sessions_store(r->agent->sessions, &ops, &memory);
    sonde_json_str(out, "kept_in", memory ? "memory" : "store");
    if (!memory) return;
    sonde_json_str(out, "kept_note", "profiles are kept until this agent ends: start sonde with "
                   "--store FILE to keep them for longer");
}

/* ---- start ----------------------------------------------------------------------------------- */

static void route_session_put_row(const struct sonde_session_row *row, struct sonde_buf *out)
{
    const struct sonde_capture_status *t = &row->status;
    const uint64_t now_ns = sonde_clock_ns(CLOCK_REALTIME);
    sonde_json_str(out, "name", row->name);
    sonde_json_ns(out, "since", t->since_ns);
    sonde_json_ns(out, "seconds", now_ns > t->since_ns ? now_ns - t->since_ns : 0);
    if (row->duration_s > 0) sonde_json_num(out, "duration_seconds", row->duration_s);
    else sonde_json_str(out, "duration_seconds", NULL);
    sonde_json_bool(out, "cpu", row->cpu);
    sonde_json_bool(out, "memory", row->memory);
    sonde_json_num(out, "rate_hz", t->rate_hz);
    sonde_json_u64(out, "processes", t->processes);
    sonde_json_u64(out, "samples", t->samples);
    sonde_json_u64(out, "spans", t->spans);
    sonde_json_u64(out, "requests", t->requests);
    sonde_json_key_open(out, "dropped", '{');
    sonde_json_u64(out, "samples", t->dropped_samples);
    sonde_json_u64(out, "spans", t->dropped_spans);
    sonde_json_u64(out, "requests", t->dropped_requests);
    sonde_json_close(out, '}');
    if (t->slice_s > 0) sonde_json_num(out, "slice_seconds", t->slice_s);
    sonde_json_u64(out, "bytes", t->bytes);
    if (*t->note) sonde_json_str(out, "note", t->note);
    else if (row->cpu && !t->processes) {
        sonde_json_str(out, "note",
                       "no process is recording now; those that start will be sampled");
    }
}

static void route_session_start(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_session_ask ask;
    struct sonde_session_row rows[SONDE_CAPTURES_MAX];
    struct sonde_err err = { "" };
    if (!read_body(r, answer, 1, &ask)) return;
    const int rc = sonde_sessions_begin(r->agent->sessions, &ask, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    sonde_json_open(&answer->body, '{');
    sonde_json_str(&answer->body, "status", "running");
    const size_t count = sonde_sessions_running(r->agent->sessions, rows, SONDE_CAPTURES_MAX);
    size_t i = 0;
    while (i < count && strcmp(rows[i].name, ask.name) != 0) i++;
    if (i < count) route_session_put_row(&rows[i], &answer->body);
    else sonde_json_str(&answer->body, "name", ask.name); /* it was stopped already */
    put_kept(r, &answer->body);
    sonde_json_close(&answer->body, '}');
    sonde_buf_putc(&answer->body, '\n');
}

/* ---- stop ------------------------------------------------------------------------------------ */

static void put_done(const struct sonde_http_request *r, const struct sonde_session_done *d,
                     struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    struct sonde_buf *out = &answer->body;
    const int rc = sonde_session_report(r, d->profile, out, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    sonde_json_u64_or_null(out, "id", d->id);
    sonde_json_str(out, "name", d->name);
    sonde_json_str(out, "status", "stopped");
    sonde_json_u64(out, "spans", d->profile->spans_count);
    sonde_json_u64(out, "requests", d->profile->infer ? d->profile->infer->request_count : 0);
    sonde_api_put_notes(out, d->notes, d->note_count);
    sonde_json_close(out, '}');
    sonde_buf_putc(out, '\n');
}

static void route_session_stop(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_session_ask ask;
    struct sonde_session_done done;
    struct sonde_err err = { "" };
    if (!read_body(r, answer, 0, &ask)) return;
    const int rc = sonde_sessions_end(r->agent->sessions, *ask.name ? ask.name : NULL, &done, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    put_done(r, &done, answer);
    sonde_profile_destroy(done.profile);
}

/* ---- status ---------------------------------------------------------------------------------- */

static void route_session_status(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_session_row rows[SONDE_CAPTURES_MAX];
    if (!sonde_http_has_sessions(r, answer)) return;
    const size_t count = sonde_sessions_running(r->agent->sessions, rows, SONDE_CAPTURES_MAX);
    const uint64_t last = sonde_sessions_last(r->agent->sessions);
    sonde_json_open(&answer->body, '{');
    sonde_json_str(&answer->body, "status", count ? "running" : "idle");
    sonde_json_key_open(&answer->body, "sessions", '[');
    for (size_t i = 0; i < count; i++) {
        sonde_json_open(&answer->body, '{');
        route_session_put_row(&rows[i], &answer->body);
        sonde_json_close(&answer->body, '}');
    }
    sonde_json_close(&answer->body, ']');
    sonde_json_u64_or_null(&answer->body, "last_id", last);
    put_kept(r, &answer->body);
    sonde_json_close(&answer->body, '}');
    sonde_buf_putc(&answer->body, '\n');
}

#define NAME_SCHEMA                                                                            \
    "\"name\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9._-]{1,64}$\"}"

extern const struct sonde_route sonde_route_admin_profile_start, sonde_route_admin_profile_stop,
    sonde_route_admin_profile_status;
const struct sonde_route sonde_route_admin_profile_start = {
    .method = "POST",
    .path = "/admin/profile/start",
    .summary =
        "starts a profiling session with this name: CPU, heaps, spans and requests of everything "
        "that is watched, until stop",
    .params = (const char *const[]){ NULL },
    .body_max = SONDE_SESSION_BODY_MAX,
    .slow = 1,
    .handle = route_session_start,
    .keys = "status,name,kept_in",
    .statuses = "404,409",
    .body = "{\"type\":\"object\",\"properties\":{" NAME_SCHEMA ","
            "\"rate_hz\":{\"type\":\"number\",\"minimum\":1,\"maximum\":10000},"
            "\"cpu\":{\"type\":\"boolean\"},\"memory\":{\"type\":\"boolean\"},"
            "\"duration_seconds\":{\"type\":\"number\",\"minimum\":0.1,\"maximum\":2592000}},"
            "\"additionalProperties\":false,\"example\":{\"name\":\"baseline\"}}",
    .body_type = "application/json|application/x-www-form-urlencoded",
};
const struct sonde_route sonde_route_admin_profile_stop = {
    .method = "POST",
    .path = "/admin/profile/stop",
    .summary = "ends a session, keeps its profile, and answers with a report of it",
    .params = (const char *const[]){ NULL },
    .body_max = SONDE_SESSION_BODY_MAX,
    .slow = 1,
    .handle = route_session_stop,
    .keys = "profile_id,duration_seconds,id,name,bottlenecks,notes",
    .statuses = "404,409",
    .body = "{\"type\":\"object\",\"properties\":{" NAME_SCHEMA "},"
            "\"additionalProperties\":false,\"example\":{\"name\":\"baseline\"}}",
    .body_type = "application/json|application/x-www-form-urlencoded",
};
const struct sonde_route sonde_route_admin_profile_status = {
    .method = "GET",
    .path = "/admin/profile/status",
    .summary = "running sessions: what they have captured so far, and what was dropped",
    .params = (const char *const[]){ NULL },
    .handle = route_session_status,
    .keys = "status,sessions,last_id,kept_in",
    .statuses = "404",
};
