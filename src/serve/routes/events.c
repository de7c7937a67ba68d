/* events.c - GET /api/events: what happened when, for markers on a time axis; POST /api/marks and
 * DELETE /api/marks/ID: what people note there themselves.
 *
 * Programs that started and ended and models that were loaded come from the model: they are known
 * as long as it knows the process. Findings, marks, kept profiles and earlier lives of the agent
 * come from the store. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "infer/tracker.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/cmp.h"
#include "base/json.h"
#include "agent/marks.h"
#include "agent/regressions.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

enum { LIMIT_DEFAULT = 500, LIMIT_MAX = 10000, GATHERED_MAX = 20000, BODY_MAX = 4096 };
#define TEXT_MAX 600

struct route_events_event {
    double time_s, end_s;        /* end 0 = a moment */
    const char *kind, *severity; /* static */
    char *text, *process;        /* owned; process may be NULL */
    char id[24];                 /* "" = none */
    uint32_t pid;
};

struct events {
    struct route_events_event *list;
    size_t count, cap;
    double from_s, to_s;
    const char *kinds;           /* "start|mark"; NULL = all */
    int failed;                  /* out of memory */
};

/* ---- Gathering ------------------------------------------------------------------------------- */

static int kind_wanted(const struct events *all, const char *kind)
{
    const size_t n = strlen(kind);
    for (const char *at = all->kinds; at && *at; at += strcspn(at, "|,"), at += *at != 0) {
        if (strcspn(at, "|,") == n && !strncmp(at, kind, n)) return 1;
    }
    return !all->kinds;
}

/* Copies e with its texts, if it is of the time and kind that is asked for. */
static void event_add(struct events *all, const struct route_events_event *e)
{
    const double end_s = e->end_s > 0 ? e->end_s : e->time_s;
    if (!(e->time_s > 0) || end_s < all->from_s || (all->to_s > 0 && e->time_s >= all->to_s) ||
        !kind_wanted(all, e->kind) || all->count == GATHERED_MAX || all->failed) {
        return;
    }
    if (SONDE_ARRAY_ROOM(all->list, all->count, all->cap)) {
        all->failed = 1;
        return;
    }
    struct route_events_event copy = *e;
    copy.text = sonde__strdup(e->text);
    copy.process = e->process ? sonde__strdup(e->process) : NULL;
    if (!copy.text || (e->process && !copy.process)) {
        sonde__free(copy.text);
        sonde__free(copy.process);
        all->failed = 1;
        return;
    }
    all->list[all->count++] = copy;
}

static void events_release(struct events *all)
{
    for (size_t i = 0; i < all->count; i++) {
        sonde__free(all->list[i].text);
        sonde__free(all->list[i].process);
    }
    sonde__free(all->list);
}

static void gather_process(struct events *all, const struct sonde_model_process *p)
{
    char text[TEXT_MAX];
    struct route_events_event e = { .time_s = p->started_s, .kind = "start", .text = text,
                                    .process = p->program, .pid = p->pid };
    snprintf(text, sizeof(text), "%.200s started", p->program);
    event_add(all, &e);
    if (!(p->ended_s > 0)) return;
    const int killed = p->state == SONDE_PROCESS_KILLED;
    e.time_s = p->ended_s;
    e.kind = "end";
    e.severity = killed ? "warning" : NULL;
    snprintf(text, sizeof(text), "%.200s %s", p->program, killed ? "was killed" : "ended");
    event_add(all, &e);
}

static void gather_load(struct events *all, const struct sonde_infer_model_view *v)
{
    char text[TEXT_MAX];
    const struct sonde_infer_model *f = &v->facts;
    if (!f->loaded_ns) return;
    const double end_s = (double)f->loaded_ns * 1e-9;
    snprintf(text, sizeof(text), "model %.200s loaded in %.3g s", f->model, f->load_s);
    event_add(all,
              &(struct route_events_event){ .time_s = end_s - f->load_s,
                                            .end_s = end_s, .kind = "load",
                                            .text = text, .pid = v->process ? v->process->pid : 0,
                                            .process = v->process ? v->process->program : NULL });
}

static void gather_model(struct events *all, struct sonde_collector *c)
{
    struct sonde_model *m = sonde_collector_model(c);
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(c);
    sonde_rdlock(&m->lock);
    for (size_t i = 0; i < m->process_count; i++) gather_process(all, m->processes[i]);
    for (size_t i = 0; tracker && i < sonde_infer_model_count(tracker); i++) {
        struct sonde_infer_model_view v;
        sonde_infer_model_at(tracker, i, &v);
        gather_load(all, &v);
    }
    sonde_rwunlock(&m->lock);
}

static int gather_mark(const struct sonde_mark *mark, void *arg)
{
    struct events *all = arg;
    struct route_events_event e = { .time_s = mark->time_s, .end_s = mark->end_s, .kind = "mark",
                                    .text = (char *)(uintptr_t)mark->text };
    snprintf(e.id, sizeof(e.id), "%llu", (unsigned long long)mark->id);
    event_add(all, &e);
    return all->failed;
}

static int gather_finding(const struct sonde_store_finding *f, void *arg)
{
    struct events *all = arg;
    if (!strcmp(f->kind, SONDE_MARK_KIND)) return 0;
    /* How things were when they were first seen is not an event. */
    if (!strcmp(f->kind, SONDE_CHANGE_KIND) && !strstr(f->text, " -> ")) return 0;
    struct route_events_event e = { .time_s = f->time_s, .kind = "finding",
                                    .severity = sonde_severity_name(f->severity),
                                    .text = (char *)(uintptr_t)(f->text[0]
                                                                    ? f->text : f->subject) };
    snprintf(e.id, sizeof(e.id), "%llu", (unsigned long long)f->id);
    event_add(all, &e);
    return all->failed;
}

static void gather_run(const struct sonde_store_run *r, void *arg)
{
    char text[TEXT_MAX];
    snprintf(text, sizeof(text), "sonde began run %u%s%.200s", r->id, r->name[0] ? ": " : "",
             r->name);
    event_add(arg,
              &(struct route_events_event){ .time_s = r->start_s, .kind = "start", .text = text });
    if (r->live) return;
    snprintf(text, sizeof(text), "sonde ended run %u%s%.200s", r->id, r->name[0] ? ": " : "",
             r->name);
    event_add(arg, &(struct route_events_event){ .time_s = r->end_s, .kind = "end", .text = text });
}

/* Parts of the history are kept all the time: nobody named them. */
static void route_events_gather_profile(const struct sonde_store_profile *p, void *arg)
{
    if (!strncmp(p->kind, "continuous", strlen("continuous"))) return;
    struct route_events_event e = { .time_s = p->start_s, .end_s = p->end_s, .kind = "session",
                                    .text = (char *)(uintptr_t)p->name,
                                    .process = p->program && p->program[0]
                                                   ? (char *)(uintptr_t)p->program : NULL };
    snprintf(e.id, sizeof(e.id), "%llu", (unsigned long long)p->id);
    event_add(arg, &e);
}

static int route_events_gather(const struct sonde_http_request *r, struct events *all,
                               struct sonde_err *err)
{
    const struct sonde_store_range range = { .from_s = all->from_s, .to_s = all->to_s };
    const struct sonde_store_ops *ops = NULL;
    const struct sonde_agent *g = r->agent;
    int memory, rc = 0;
    gather_model(all, g->collector);
    if (g->marks) rc = sonde_marks_each(g->marks, &range, gather_mark, all, err);
    if (!rc && g->store) rc = g->store_ops->findings(g->store, &range, gather_finding, all, err);
    if (!rc && g->store) rc = g->store_ops->runs(g->store, gather_run, all, err);
    struct sonde_store *kept =
        g->sessions ? sonde_sessions_store(g->sessions, &ops, &memory) : NULL;
    if (!rc && kept) rc = ops->profiles(kept, NULL, route_events_gather_profile, all, err);
    return !rc && all->failed ? sonde_err_memory(err) : rc;
}

/* ---- Answering ------------------------------------------------------------------------------- */

static int newest_first(const void *a, const void *b)
{
    const struct route_events_event *x = a, *y = b;
    return SONDE_CMP(y->time_s, x->time_s);
}

static void route_events_put(struct sonde_buf *out, const struct route_events_event *e)
{
    sonde_json_open(out, '{');
    sonde_json_time(out, "time", e->time_s);
    sonde_json_time(out, "end", e->end_s);
    sonde_json_str(out, "kind", e->kind);
    sonde_json_str(out, "severity", e->severity);
    sonde_json_str(out, "text", e->text);
    sonde_json_str(out, "process", e->process);
    sonde_json_u64_or_null(out, "pid", e->pid);
    sonde_json_str(out, "id", e->id[0] ? e->id : NULL);
    sonde_json_close(out, '}');
}

static void events_list(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct events all = { .kinds = sonde_http_param(r, "kind") };
    struct sonde_err err = { "" };
    uint64_t limit = LIMIT_DEFAULT;
    if (!sonde_http_range(r, answer, &all.from_s, &all.to_s) ||
        !sonde_http_count(r, answer, "limit", LIMIT_MAX, &limit)) {
        return;
    }
    const int rc = route_events_gather(r, &all, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
    } else {
        if (all.count) qsort(all.list, all.count, sizeof(all.list[0]), newest_first);
        sonde_buf_putc(&answer->body, '{');
        sonde_json_time(&answer->body, "time", sonde_clock_s(CLOCK_REALTIME));
        sonde_json_u64(&answer->body, "total", all.count);
        sonde_json_key_open(&answer->body, "events", '[');
        for (size_t i = 0; i < all.count && i < limit; i++) {
            route_events_put(&answer->body, &all.list[i]);
        }
        sonde_buf_puts(&answer->body, "]}\n");
    }
    events_release(&all);
}

/* ---- Marks ----------------------------------------------------------------------------------- */

static void mark_add(const struct sonde_http_request *r, struct sonde_response *answer)
{
    char text[SONDE_MARK_TEXT_MAX + 1];
    struct sonde_mark mark;
    struct sonde_err err = { "" };
    uint64_t id = 0;
    int rc = sonde_mark_parse(r->body, r->body_len, sonde_clock_s(CLOCK_REALTIME), &mark,
                              text, &err);
    if (!rc) rc = sonde_marks_add(r->agent->marks, &mark, &id, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    char name[24];
    snprintf(name, sizeof(name), "%llu", (unsigned long long)id);
    answer->status = 201;
    sonde_buf_putc(&answer->body, '{');
    sonde_json_str(&answer->body, "id", name);
    sonde_json_time(&answer->body, "time", mark.time_s);
    sonde_json_time(&answer->body, "end", mark.end_s);
    sonde_buf_puts(&answer->body, "}\n");
}

static void mark_delete(const struct sonde_http_request *r, struct sonde_response *answer)
{
    struct sonde_err err = { "" };
    char *end = NULL;
    const unsigned long long id = strtoull(r->name, &end, 10);
    if (r->name[0] < '0' || r->name[0] > '9' || *end) {
        sonde_response_error(
            answer, 400, "\"%.100s\" is not the number of a mark; /api/events lists them", r->name);
        return;
    }
    const int rc = sonde_marks_delete(r->agent->marks, id, &err);
    if (rc) {
        sonde_response_failed(answer, rc, &err);
        return;
    }
    sonde_buf_printf(&answer->body, "{\"deleted\":\"%llu\"}\n", id);
}

extern const struct sonde_route sonde_route_api_events, sonde_route_api_marks,
    sonde_route_api_mark_delete;
const struct sonde_route sonde_route_api_events = {
    .method = "GET",
    .path = "/api/events",
    .summary = "events, newest first: programs that started and ended, models loaded, "
               "profiles kept, findings, marks",
    .params = (const char *const[]){ "from", "to", "kind", "limit", NULL },
    .handle = events_list,
    .keys = "time,total,events",
};
const struct sonde_route sonde_route_api_marks = {
    .method = "POST",
    .path = "/api/marks",
    .summary = "adds a mark to the time axis, such as a deployment",
    .params = (const char *const[]){ NULL },
    .body_max = BODY_MAX,
    .handle = mark_add,
    .keys = "id,time,end",
    .statuses = "201,503",
    .body = "{\"type\":\"object\",\"properties\":{"
            "\"text\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":500},"
            "\"time\":{\"type\":[\"number\",\"null\"],\"description\":\"Unix seconds; now unless "
            "given\"},"
            "\"end\":{\"type\":[\"number\",\"null\"]}},\"required\":[\"text\"],"
            "\"additionalProperties\":false,\"example\":{\"text\":\"deploy 42\"}}",
};
const struct sonde_route sonde_route_api_mark_delete = {
    .method = "DELETE",
    .path = "/api/marks/*",
    .summary = "deletes a mark",
    .params = (const char *const[]){ NULL },
    .handle = mark_delete,
    .keys = "deleted",
};
