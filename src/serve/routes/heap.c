/* heap.c - heaps on demand: /debug/pprof/heap, as Go programs have it, so that `go tool pprof` and
 * Pyroscope can ask for one; POST /admin/profile/memory, which answers with a report; and POST
 * /admin/profile/mark, which says that warm-up is over. */
#include <string.h>

#include "base/json.h"
#include "present/report/profile.h"
#include "serve/http/route.h"
#include "serve/api/session_report.h"
#include "sonde/sonde.h"

#define PID_MAX 4194304u
#define LIMIT_MAX 100000u

/* 0: the error is in answer. */
static int route_heap_process_of(const struct sonde_http_request *r, struct sonde_response *answer,
                                 uint32_t *out)
{
    uint64_t pid = 0;
    if (!sonde_http_count(r, answer, "pid", PID_MAX, &pid)) return 0;
    *out = (uint32_t)pid;
    return sonde_http_has_profiler(r, answer);
}

/* NULL: the error is in answer. */
static struct sonde_profile *route_heap_take(const struct sonde_http_request *r,
                                             struct sonde_response *answer, int one)
{
    struct sonde_profile *p = NULL;
    struct sonde_err err = { "" };
    uint32_t pid;
    if (!route_heap_process_of(r, answer, &pid)) return NULL;
    const int rc = sonde_profiler_heap(r->agent->profiler, pid, one, &p, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
    return rc ? NULL : p;
}

static void answer_pprof(const struct sonde_profile *p, struct sonde_response *answer)
{
    const struct sonde_profile_filter all = { .kind = -1 };
    struct sonde_err err = { "" };
    const int rc = sonde_api_format(p, &all, "pprof-heap", "heap.pb.gz", answer, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
}

static void pprof_heap(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_profile *p = route_heap_take(r, answer, 0);
    if (!p) return;
    if (sonde_http_wants_run(r)) sonde_response_run(answer, p);
    else answer_pprof(p, answer);
    sonde_profile_destroy(p);
}

/* In what form; JSON unless Accept says otherwise. -1 = pprof. */
static int route_heap_style_of(const char *accept)
{
    if (!accept) return SONDE_REPORT_JSON;
    if (strstr(accept, "protobuf") || strstr(accept, "octet-stream") || strstr(accept, "pprof")) {
        return -1;
    }
    if (strstr(accept, "text/markdown")) return SONDE_REPORT_MARKDOWN;
    return strstr(accept, "text/plain") ? SONDE_REPORT_TEXT : SONDE_REPORT_JSON;
}

static void answer_report(const struct sonde_profile *p, enum sonde_report_style style,
                          uint64_t limit, int kind, struct sonde_response *answer)
{
    static const char *const types[] = { [SONDE_REPORT_TEXT] = "text/plain; charset=utf-8",
                                         [SONDE_REPORT_MARKDOWN] = "text/markdown; charset=utf-8",
                                         [SONDE_REPORT_JSON] = "application/json" };
    const struct sonde_report_options o = { .filter.kind = kind, .style = style,
                                            .limit = (size_t)limit };
    struct sonde_err err = { "" };
    const int rc = sonde_profile_report(p, &o, &answer->body, &err);
    if (rc) sonde_response_failed(answer, rc, &err);
    else answer->content_type = types[style];
}

static void admin_profile_memory(const struct sonde_http_request *r, struct sonde_response *answer)
{
    uint64_t limit = 0;
    const int kind = sonde_http_kind(r); /* else what is in use, if anything is */
    const int style = route_heap_style_of(r->accept);
    const char *keep = sonde_http_param(r, "keep");
    answer->vary_accept = 1;
    if (!sonde_http_count(r, answer, "limit", LIMIT_MAX, &limit)) return;
    struct sonde_profile *p = route_heap_take(r, answer, style >= 0);
    if (!p) return;
    if (style < 0) answer_pprof(p, answer);
    else answer_report(p, (enum sonde_report_style)style, limit, kind, answer);
    if (!keep || keep[0] == '1') {
        sonde_session_keep_answer(r->agent->sessions, "on-demand-memory", "memory", p, answer);
    }
    sonde_profile_destroy(p);
}

static void admin_profile_mark(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    uint32_t pid;
    size_t count = 0;
    if (!route_heap_process_of(r, answer, &pid)) return;
    const int rc = sonde_profiler_mark(r->agent->profiler, pid, &count, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    sonde_buf_putc(&answer->body, '{');
    sonde_json_u64(&answer->body, "marked", count);
    sonde_buf_puts(&answer->body, "}\n");
}

extern const struct sonde_route sonde_route_pprof_heap, sonde_route_admin_profile_memory,
    sonde_route_admin_profile_mark;
const struct sonde_route sonde_route_pprof_heap = {
    .method = "GET",
    .path = "/debug/pprof/heap",
    .summary =
        "heap profile of the current memory use, as pprof (of processes started with `sonde run`); "
        "format=run: as a run file",
    /* gc, debug: as Go's, void */
    .params = (const char *const[]){ "pid", "format", "gc", "debug", NULL },
    .samples = 1,
    .slow = 1,
    .handle = pprof_heap,
    .produces = "application/octet-stream|application/vnd.sqlite3",
    .statuses = "404",
};
const struct sonde_route sonde_route_admin_profile_memory = {
    .method = "POST",
    .path = "/admin/profile/memory",
    .summary =
        "heap profile as a report with leaks, in JSON; as text/plain, text/markdown or pprof if "
        "Accept names it",
    .params = (const char *const[]){ "pid", "type", "limit", "keep", NULL },
    .slow = 1,
    .handle = admin_profile_memory,
    .produces = "application/json|application/octet-stream|text/plain|text/markdown",
    .statuses = "404",
};
const struct sonde_route sonde_route_admin_profile_mark = {
    .method = "POST",
    .path = "/admin/profile/mark",
    .summary = "marks the end of warm-up: growth of memory counts from now on",
    .params = (const char *const[]){ "pid", NULL },
    .slow = 1,
    .handle = admin_profile_mark,
    .keys = "marked",
    .statuses = "404",
};
