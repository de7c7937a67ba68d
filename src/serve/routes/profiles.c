/* profiles.c - profiles that are kept: GET /admin/profiles, GET and DELETE /admin/profiles/ID. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "present/report/profile.h"
#include "serve/http/route.h"
#include "serve/http/server.h"
#include "serve/api/session_report.h"
#include "sonde/sonde.h"
#include "store/run/run.h"

enum { LIMIT_DEFAULT = 1000 };

/* The store of profiles; NULL: the error is in answer. */
static struct sonde_store *route_profiles_store_of(const struct sonde_http_request *r,
                                                   struct sonde_response *answer,
                                                   const struct sonde_store_ops **ops, int *memory)
{
    if (r->agent->sessions) return sonde_sessions_store(r->agent->sessions, ops, memory);
    if (r->agent->store) {
        *ops = r->agent->store_ops;
        *memory = 0;
        return r->agent->store;
    }
    sonde_response_error(answer, 404,
                         "this agent stores no profiles: it does not capture any and has no "
                         "store");
    return NULL;
}

/* ---- List ------------------------------------------------------------------------------------ */

struct route_profiles_listing {
    const char *name, *kind, *program;
    double from_s, to_s;
    uint64_t limit, shown, matching;
    struct sonde_buf *out;
};

static int route_profiles_matches(const char *glob, const char *text)
{
    return !glob || fnmatch(glob, text, 0) == 0;
}

/* program NULL: it is said already. */
static void route_profiles_put(const struct sonde_store_profile *p, struct sonde_buf *out)
{
    sonde_json_u64(out, "id", p->id);
    sonde_json_str(out, "name", p->name);
    sonde_json_str(out, "kind", p->kind);
    if (p->program) sonde_json_str(out, "program", p->program);
    sonde_json_time(out, "start", p->start_s);
    sonde_json_time(out, "end", p->end_s);
    sonde_json_u64(out, "samples", p->samples);
    sonde_json_u64(out, "bytes", p->bytes);
    if (p->run) sonde_json_u64(out, "run", p->run);
}

static void route_profiles_row(const struct sonde_store_profile *p, void *arg)
{
    struct route_profiles_listing *l = arg;
    /* Parts of the history are many, and have a list of their own: /api/profiles. */
    if (!l->kind && !strncmp(p->kind, "continuous", strlen("continuous"))) return;
    if (!route_profiles_matches(l->name, p->name) || !route_profiles_matches(l->kind, p->kind) ||
        !route_profiles_matches(l->program, p->program) || p->end_s < l->from_s ||
        p->start_s > l->to_s) {
        return;
    }
    if (l->matching++ >= l->limit) return;
    l->shown++;
    sonde_json_open(l->out, '{');
    route_profiles_put(p, l->out);
    sonde_json_close(l->out, '}');
}

/* Those of files: numbered from 1, in the order they were named. */
static void list_files(const struct sonde_http_request *r, struct route_profiles_listing *l)
{
    for (size_t i = 0; i < r->file_count; i++) {
        const struct sonde_profile *p = r->files[i].profile;
        uint64_t samples = 0;
        for (uint32_t k = 0; k < p->samples_count; k++) samples += p->samples[k].count;
        route_profiles_row(&(struct sonde_store_profile){
                .id = i + 1, .name = r->files[i].name, .kind = "file",
                .program = sonde_profile_str(p, p->program), .samples = samples,
                .start_s = (double)p->start_ns * 1e-9, .end_s = (double)p->end_ns * 1e-9,
                .bytes = p->bytes },
                l);
    }
}

static void route_profiles_list(const struct sonde_http_request *r, struct sonde_response *answer)
{
    const struct sonde_store_ops *ops = NULL;
    int memory = 0;
    struct sonde_err err = { "" };
    struct route_profiles_listing l = { .name = sonde_http_param(r, "name"),
                                        .kind = sonde_http_param(r, "kind"),
                                        .program = sonde_http_param(r, "program"),
                                        .to_s = SONDE_TIME_MAX_S, .limit = LIMIT_DEFAULT,
                                        .out = &answer->body };
    if (!sonde_http_range(r, answer, &l.from_s, &l.to_s) ||
        !sonde_http_count(r, answer, "limit", 100000, &l.limit)) {
        return;
    }
    struct sonde_store *s =
        r->file_count ? NULL : route_profiles_store_of(r, answer, &ops, &memory);
    if (!s && !r->file_count) return;
    sonde_json_open(&answer->body, '{');
    sonde_json_key_open(&answer->body, "profiles", '[');
    list_files(r, &l);
    const int rc = s ? ops->profiles(s, NULL, route_profiles_row, &l, &err) : 0;
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    sonde_json_close(&answer->body, ']');
    sonde_json_u64(&answer->body, "total", l.matching);
    sonde_json_str(&answer->body, "kept_in", r->file_count ? "files" : memory ? "memory" : "store");
    sonde_json_close(&answer->body, '}');
    sonde_buf_putc(&answer->body, '\n');
}

/* ---- One ------------------------------------------------------------------------------------- */

static void route_profiles_put_json(const struct sonde_http_request *r,
                                    const struct sonde_store_found *f,
                                    const struct sonde_profile *p, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    const int rc = sonde_session_report(r, p, &answer->body, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    /* The report has named its program, if it is known: a key is there once. */
    const int named = *sonde_profile_str(p, p->program) != '\0';
    route_profiles_put(&(struct sonde_store_profile){
        .id = f->id, .name = f->name, .kind = f->kind, .program = named ? NULL : f->program,
        .start_s = f->start_s, .end_s = f->end_s, .samples = f->samples, .bytes = f->bytes },
        &answer->body);
    sonde_json_close(&answer->body, '}');
    sonde_buf_putc(&answer->body, '\n');
}

static int route_profiles_put_text(const struct sonde_profile *p, int kind, int markdown,
                                   struct sonde_response *answer, struct sonde_err *err)
{
    const struct sonde_report_options o = { .filter.kind = kind,
                                            .style = markdown ? SONDE_REPORT_MARKDOWN
                                                              : SONDE_REPORT_TEXT };
    answer->content_type = markdown ? "text/markdown; charset=utf-8" : "text/plain; charset=utf-8";
    return sonde_profile_report(p, &o, &answer->body, err);
}

/* In another form than that in which it is kept. */
static void put_profile_as(const struct sonde_http_request *r, const struct sonde_store_found *f,
                           const struct sonde_profile *p, const char *format,
                           struct sonde_response *answer)
{
    const int kind = sonde_http_kind(r);
    struct sonde_err err = { "" };
    int rc = 0;
    if (!strcmp(format, "json")) {
        route_profiles_put_json(r, f, p, answer);
    } else if (!strcmp(format, "svg") || !strcmp(format, "html")) {
        sonde_session_picture(r, p, kind, f->name, format[0] == 'h', answer);
    } else if (!strcmp(format, "text") || !strcmp(format, "markdown")) {
        rc = route_profiles_put_text(p, kind, format[0] == 'm', answer, &err);
    } else {
        rc = sonde_api_format(p, &(struct sonde_profile_filter){ .kind = kind }, format,
                              "profile.pb.gz", answer, &err);
    }
    if (rc) sonde_response_failed(answer, rc, &err);
}

void sonde_session_show_kept(const struct sonde_http_request *r, const char *name,
                             struct sonde_response *answer)
{
    const char *format = sonde_http_param(r, "format");
    const struct sonde_store_ops *ops;
    struct sonde_store_found f;
    struct sonde_profile *p = NULL;
    struct sonde_buf data;
    struct sonde_err err = { "" };
    int memory;
    struct sonde_store *s = route_profiles_store_of(r, answer, &ops, &memory);
    if (!s) return;
    const int as_run = format && !strcmp(format, "run");
    sonde_buf_init(&data, as_run ? answer->body.max : (size_t)1 << 30);
    int rc = sonde_store_profile_find(ops, s, name, &f, &err);
    if (!rc) rc = ops->profile_get(s, f.id, as_run ? &answer->body : &data, &err);
    if (!rc && !as_run) rc = sonde_run_load_bytes(data.data, data.len, f.name, &p, &err);
    sonde_buf_release(&data);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
    } else if (as_run) {
        answer->content_type = "application/vnd.sqlite3";
        answer->filename = "profile.run";
    } else {
        put_profile_as(r, &f, p, format ? format : "json", answer);
    }
    sonde_profile_destroy(p);
}

static void route_profiles_get(const struct sonde_http_request *r, struct sonde_response *answer)
{
    sonde_session_show_kept(r, r->name, answer);
}

static void delete_one(const struct sonde_http_request *r, struct sonde_response *answer)
{
    const struct sonde_store_ops *ops;
    struct sonde_store_found f;
    struct sonde_err err = { "" };
    int memory;
    struct sonde_store *s = route_profiles_store_of(r, answer, &ops, &memory);
    if (!s) return;
    int rc = sonde_store_profile_find(ops, s, r->name, &f, &err);
    if (!rc) rc = ops->profile_delete(s, f.id, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    sonde_json_open(&answer->body, '{');
    sonde_json_u64(&answer->body, "deleted", f.id);
    sonde_json_str(&answer->body, "name", f.name);
    sonde_json_close(&answer->body, '}');
    sonde_buf_putc(&answer->body, '\n');
}

extern const struct sonde_route sonde_route_admin_profiles, sonde_route_admin_profile_get,
    sonde_route_admin_profile_delete;
const struct sonde_route sonde_route_admin_profiles = {
    .method = "GET",
    .path = "/admin/profiles",
    .summary = "list of stored profiles, newest first",
    .params = (const char *const[]){ "name", "kind", "program", "from", "to", "limit", NULL },
    .handle = route_profiles_list,
    .keys = "profiles,total,kept_in",
    .statuses = "404",
};
const struct sonde_route sonde_route_admin_profile_get = {
    .method = "GET",
    .path = "/admin/profiles/*",
    .summary =
        "one stored profile, by its id or name: a report as JSON, or ?format=run, pprof, folded, "
        "speedscope, chrome, svg, html, text, markdown",
    .params = (const char *const[]){ "format", "type", NULL },
    .slow = 1,
    .handle = route_profiles_get,
    .produces = "application/json|application/vnd.sqlite3|application/octet-stream|text/plain|"
                "text/markdown|image/svg+xml|text/html",
    .keys = "",
};
const struct sonde_route sonde_route_admin_profile_delete = {
    .method = "DELETE",
    .path = "/admin/profiles/*",
    .summary = "deletes a stored profile",
    .params = (const char *const[]){ NULL },
    .handle = delete_one,
    .keys = "deleted,name",
};
