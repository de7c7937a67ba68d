/* report_html.c - see report_html.h.
 *
 * What the pages would ask an agent for is asked here, once, and put into the file with what was
 * asked as its name: of a running agent by HTTP, of a profile by calling the same routes in this
 * process. So a file shows what the dashboard showed. What an agent does not have (it may be older,
 * or profile nothing) is left out, and pages that would have nothing to show are. An agent that
 * stops answering, or takes too long in all, ends it: dozens of questions would each wait for their
 * own limit otherwise. */
#include "cli/report_html.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/agent_options.h"
#include "present/report/finding.h"
#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/path.h"
#include "base/strip.h"
#include "present/report/engine.h"
#include "present/report/infer_answer.h"
#include "present/page_file.h"
#include "present/report/profile.h"
#include "base/recent.h"
#include "serve/http/route.h"
#include "sonde/sonde.h"

enum {
    ANSWER_MAX = 256 << 20,
    ASKING_S = 120,            /* for an agent to answer everything */
    RANGE_S = 900,             /* of an agent, unless something else was asked for */
    POINTS = 180,              /* of a series, about */
    SERIES_MAX = 5000,
    REQUESTS_MAX = 5000,       /* without timelines … */
    TIMELINES_MAX = 300,       /* … and the slowest with them */
    FILE_REQUESTS_MAX = 2000,
    OWN_GRAPHS = 5,            /* of the slowest requests, a flame graph each */
    OWN_NODES = 2000,          /* frames of those, and of phases … */
    GRAPH_NODES = 8000,        /* … and of everything */
    PAGES_MAX = 12,
    ID_MAX = 64,
};

struct gather {
    const struct sonde_cli *cli;
    const struct sonde_report_html *o;
    struct sonde_http_request request;   /* of a profile: what its routes look at */
    struct sonde_page_file file;
    const char *pages[PAGES_MAX];
    size_t page_count;
    double from_s, to_s;
    char ids[OWN_GRAPHS][ID_MAX];   /* of the slowest requests */
    size_t id_count;
    double until_s;                 /* of an agent: when it has taken too long, CLOCK_MONOTONIC */
    int lost;                       /* SONDE_EIO: it does not answer any more, and err says why */
    struct sonde_err err;
};

static void add_page(struct gather *g, const char *name)
{
    if (g->page_count + 1 < PAGES_MAX) g->pages[g->page_count++] = name;
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int report_html_ask_agent(struct gather *g, const char *target, struct sonde_buf *out)
{
    char url[4096];
    if (g->lost) return g->lost;
    if (sonde_cli_url(url, sizeof(url), g->o->target, target) != 0) {
        return sonde_err_set(&g->err, SONDE_EINVAL, "too long a URL");
    }
    const double left_s = g->until_s - sonde_clock_s(CLOCK_MONOTONIC);
    int rc;
    if (left_s > 0) {
        rc = sonde_cli_fetch(url, ANSWER_MAX, fmin(left_s, SONDE_CLI_FETCH_S), out, &g->err);
    } else {
        rc = sonde_err_set(&g->err, SONDE_EIO, "%.200s has not answered everything in %d s: ask "
                           "for a shorter time with --from and --to, or try again later",
                           g->o->target, ASKING_S);
    }
    if (rc == SONDE_EIO) g->lost = rc;
    return rc;
}

static int ask_routes(struct gather *g, const char *target, struct sonde_buf *out)
{
    struct sonde_response a = { 0 };
    sonde_buf_init(&a.body, ANSWER_MAX);
    sonde_route_ask(&g->request, target, &a);
    *out = a.body;
    if (out->error) return sonde_err_set(&g->err, out->error, "%s: out of memory", target);
    if (a.status && a.status != 200) {
        return sonde_err_set(&g->err, SONDE_ENOENT, "%.*s", (int)out->len, out->data);
    }
    return 0;
}

/* The answer is in the file, as key, and *json (NULL = not wanted), which the caller gives back.
 * target: NULL = the key. */
static int report_html_ask(struct gather *g, const char *key, const char *target, json_t **json)
{
    struct sonde_buf answer = { 0 };
    json_error_t wrong;
    if (!target) target = key;
    int rc = g->o->p ? ask_routes(g, target, &answer) : report_html_ask_agent(g, target, &answer);
    json_t *read = NULL;
    if (!rc) {
        read = json_loadb(answer.data, answer.len, JSON_DECODE_ANY, &wrong);
        if (!read) {
            rc = sonde_err_set(&g->err, SONDE_EFORMAT, "%.200s answers %.100s with something that "
                               "is not JSON: is it an agent?", g->o->target, key);
        }
    }
    if (!rc) sonde_page_file_add(&g->file, key, answer.data, answer.len);
    sonde_buf_release(&answer);
    if (json && !rc) *json = read;
    else json_decref(read);
    return rc;
}

/* ---- Flame graphs ---------------------------------------------------------------------------- */

/* Whose; NULL = all. */
struct graph { const char *type, *phase, *request, *slowest; int against_rest; };

static void report_html_put_param(struct sonde_buf *out, const char *name, const char *value)
{
    sonde_buf_printf(out, "%s%s=", out->len && out->data[out->len - 1] == '?' ? "" : "&", name);
    sonde_buf_url(out, value);
}

static void report_html_put_time(struct sonde_buf *out, const char *name, double time_s)
{
    char text[32];
    snprintf(text, sizeof(text), "%.0f", time_s);
    report_html_put_param(out, name, text);
}

/* In order of their names. */
static void put_graph(const struct gather *g, const struct graph *q, int range,
                      struct sonde_buf *out)
{
    sonde_buf_puts(out, "/api/flamegraph?");
    if (q->against_rest) report_html_put_param(out, "base", "rest");
    if (range) report_html_put_time(out, "from", g->from_s);
    if (q->phase) report_html_put_param(out, "phase", q->phase);
    if (q->request) report_html_put_param(out, "request", q->request);
    if (q->slowest) report_html_put_param(out, "slowest", q->slowest);
    if (range) report_html_put_time(out, "to", g->to_s);
    report_html_put_param(out, "type", q->type);
}

/* 0 = it is in the file. */
static int ask_graph(struct gather *g, const struct graph *q, unsigned nodes, json_t **json)
{
    struct sonde_buf key, target;
    sonde_buf_init(&key, 4096);
    sonde_buf_init(&target, 4096);
    put_graph(g, q, 1, &key);
    /* A profile is looked at whole: samples of other tools have no times. */
    put_graph(g, q, !g->o->p, &target);
    if (g->o->p) report_html_put_param(&target, "profile", "file");
    sonde_buf_printf(&target, "&nodes=%u", nodes);
    const int rc =
        key.error || target.error ? SONDE_EINVAL : report_html_ask(g, key.data, target.data, json);
    sonde_buf_release(&key);
    sonde_buf_release(&target);
    return rc;
}

/* What is special about some requests: in the phases, of the slowest, and of each of those. */
static void ask_choices(struct gather *g)
{
    static const char *const phases[] = { "encode", "prefill", "decode", "sample", "detokenize" };
    for (size_t i = 0; i < SONDE_COUNT(phases); i++) {
        ask_graph(g, &(struct graph){ .type = "cpu", .phase = phases[i] }, OWN_NODES, NULL);
    }
    for (int rest = 0; rest < 2; rest++) {
        ask_graph(g, &(struct graph){ .type = "cpu", .slowest = "1%", .against_rest = rest },
                  OWN_NODES, NULL);
        for (size_t i = 0; i < g->id_count; i++) {
            ask_graph(g, &(struct graph){ .type = "cpu", .request = g->ids[i],
                                          .against_rest = rest }, OWN_NODES, NULL);
        }
    }
}

static int report_html_is_memory(const char *type)
{
    const int kind = sonde_sample_kind_find(type);
    return kind >= 0 && sonde_sample_kind_is_bytes((enum sonde_sample_kind)kind);
}

/* 1 << 0: there are graphs of time; 1 << 1: of memory. */
static int ask_graphs(struct gather *g)
{
    int found = 0;
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        const char *type = sonde_sample_kind_name((enum sonde_sample_kind)k);
        const struct graph q = { .type = type };
        json_t *graph = NULL;
        if (g->o->p && !g->o->p->weights[k]) continue;
        if (ask_graph(g, &q, GRAPH_NODES, &graph) != 0) continue;
        found |= report_html_is_memory(type) ? 2 : 1;
        json_decref(graph);
    }
    if (found & 1) ask_choices(g);
    return found;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void note_slowest(struct gather *g, const json_t *answer)
{
    size_t i;
    json_t *r;
    json_array_foreach(json_object_get(answer, "requests"), i, r) {
        const char *id = json_string_value(json_object_get(r, "id"));
        if (!id || strlen(id) >= ID_MAX) continue;
        if (g->id_count == OWN_GRAPHS) break;
        snprintf(g->ids[g->id_count++], ID_MAX, "%s", id);
    }
}

/* How many there are. */
static size_t ask_requests(struct gather *g)
{
    char key[256];
    json_t *slowest = NULL, *all = NULL;
    snprintf(key, sizeof(key), "/api/requests?from=%.0f&limit=%d&state=done&to=%.0f", g->from_s,
             TIMELINES_MAX, g->to_s);
    if (report_html_ask(g, key, NULL, &slowest) != 0) return 0;
    const size_t count = json_array_size(json_object_get(slowest, "requests"));
    note_slowest(g, slowest);
    json_decref(slowest);
    if (count == TIMELINES_MAX) {
        snprintf(key, sizeof(key), "/api/requests?from=%.0f&limit=%d&sort=newest&state=done&"
                 "timeline=0&to=%.0f", g->from_s, REQUESTS_MAX, g->to_s);
        report_html_ask(g, key, NULL, &all);
        json_decref(all);
    }
    for (size_t i = 0; i < g->id_count; i++) {
        snprintf(key, sizeof(key), "/api/shared/%s", g->ids[i]);
        report_html_ask(g, key, NULL, NULL);
    }
    return count;
}

static void ask_heatmaps(struct gather *g)
{
    static const char *const metrics[] = { "ttft", "itl", "total", "queue", "tokens_per_s" };
    char key[256];
    for (size_t i = 0; i < SONDE_COUNT(metrics); i++) {
        snprintf(key, sizeof(key), "/api/heatmap?from=%.0f&metric=%s&to=%.0f", g->from_s,
                 metrics[i], g->to_s);
        report_html_ask(g, key, NULL, NULL);
    }
}

/* ---- An agent -------------------------------------------------------------------------------- */

/* A step that pages know, about POINTS of which are the range. */
static double step_of(double seconds)
{
    static const double steps[] = { 1, 2, 5, 10, 15, 30, 60, 300, 900, 3600, 21600, 86400 };
    size_t i = 0;
    while (i + 1 < SONDE_COUNT(steps) && seconds / steps[i] > POINTS) i++;
    return steps[i];
}

static void find_range(struct gather *g, double now_s)
{
    const struct sonde_report_html *o = g->o;
    g->to_s = o->to_s > 0 ? o->to_s : floor(now_s) + o->to_s;
    g->from_s = o->from_s > 0 ? o->from_s : o->from_s < 0 ? floor(now_s) + o->from_s
                                                           : g->to_s - RANGE_S;
}

static int gather_agent(struct gather *g)
{
    char key[256];
    json_t *inference = NULL, *found = NULL;
    g->until_s = sonde_clock_s(CLOCK_MONOTONIC) + ASKING_S;
    const int rc = report_html_ask(g, "/api/inference", NULL, &inference);
    if (rc) return rc;
    const double now_s = json_number_value(json_object_get(inference, "time"));
    const size_t models = json_array_size(json_object_get(inference, "models"));
    json_decref(inference);
    if (!(now_s > 0)) {
        return sonde_err_set(&g->err, SONDE_EFORMAT, "%.200s answers, but not as an agent does: is "
                             "its address right?", g->o->target);
    }
    find_range(g, now_s);
    if (!(g->to_s > g->from_s)) {
        return sonde_err_set(&g->err, SONDE_EINVAL, "--from is not before --to");
    }
    snprintf(key, sizeof(key), "/api/query?from=%.0f&limit=%d&step=%.0f&to=%.0f", g->from_s,
             SERIES_MAX, step_of(g->to_s - g->from_s), g->to_s);
    const int series = report_html_ask(g, key, NULL, NULL) == 0;
    report_html_ask(g, "/health", NULL, NULL);
    report_html_ask(g, "/api/engine", NULL, NULL);
    report_html_ask(g, "/api/processes", NULL, NULL);
    report_html_ask(g, "/api/series", NULL, NULL);
    snprintf(key, sizeof(key), "/api/events?from=%.0f&to=%.0f", g->from_s, g->to_s);
    report_html_ask(g, key, NULL, NULL);
    const size_t requests = ask_requests(g);
    if (requests) ask_heatmaps(g);
    if (series) add_page(g, "dashboard");
    if (series && (models || requests)) add_page(g, "inference");
    if (requests) add_page(g, "requests");
    const int graphs = ask_graphs(g);
    if (graphs & 1) add_page(g, "cpu");
    if (graphs & 2) add_page(g, "memory");
    if (series) add_page(g, "system");
    if (report_html_ask(g, "/api/findings", NULL, &found) == 0) {
        if (json_array_size(json_object_get(found, "findings")) ||
            json_array_size(json_object_get(found, "active"))) {
            add_page(g, "findings");
        }
        json_decref(found);
    }
    /* Of that time, or where no history is kept of the last minute. */
    snprintf(key, sizeof(key), "/api/report?from=%.0f&limit=1&to=%.0f", g->from_s, g->to_s);
    if (report_html_ask(g, "/api/report", key, NULL) == 0 ||
        report_html_ask(g, "/api/report", "/api/report?limit=1", NULL) == 0) {
        add_page(g, "report");
    }
    if (g->lost) return g->lost;
    if (!g->page_count) {
        return sonde_err_set(&g->err, SONDE_ENOENT, "%.200s has no history yet, and no requests or "
                             "samples: start it with --store, or try again later", g->o->target);
    }
    return 0;
}

/* ---- A profile ------------------------------------------------------------------------------- */

static void add_findings(struct gather *g)
{
    const struct sonde_finding_options rules = sonde_cli_rules(g->cli);
    struct sonde_findings *found = NULL;
    struct sonde_buf out;
    if (sonde_findings_look(g->o->p, &rules, &found) != 0) return;
    sonde_buf_init(&out, ANSWER_MAX);
    sonde_json_open(&out, '{');
    sonde_json_time(&out, "time", g->to_s);
    sonde_json_key_open(&out, "findings", '[');
    sonde_json_close(&out, ']');
    sonde_json_key(&out, "active");
    sonde_findings_json(found, &out);
    sonde_json_time(&out, "looked", g->to_s);
    sonde_json_close(&out, '}');
    if (found->count && !out.error) {
        sonde_page_file_add(&g->file, "/api/findings", out.data, out.len);
        add_page(g, "findings");
    }
    sonde_buf_release(&out);
    sonde_findings_destroy(found);
}

/* Operations, errors, caches, training, processes … as `sonde report --json` has them, but for what
 * other pages show better: the page opens a file of megabytes faster without. */
static int report_html_add_report(struct gather *g)
{
    const struct sonde_finding_options rules = sonde_cli_rules(g->cli);
    const struct sonde_report_options o = { .filter.kind = -1, .rules = &rules, .limit = 1,
                                            .share_min = 1, .style = SONDE_REPORT_JSON };
    struct sonde_err err = { "" };
    struct sonde_buf out;
    sonde_buf_init(&out, ANSWER_MAX);
    const int rc = sonde_profile_report(g->o->p, &o, &out, &err);
    if (!rc) {
        sonde_page_file_add(&g->file, "/api/report", out.data, out.len);
        add_page(g, "report");
    }
    sonde_buf_release(&out);
    return rc == SONDE_ENOMEM || rc == SONDE_EFULL
               ? sonde_err_set(&g->err, rc, "no memory for the report") : 0;
}

static int report_html_add_requests(struct gather *g)
{
    char key[128];
    struct sonde_buf out;
    size_t count = 0;
    sonde_buf_init(&out, ANSWER_MAX);
    int rc = sonde_infer_answer(g->o->p, &out);
    if (!rc) sonde_page_file_add(&g->file, "/api/inference", out.data, out.len);
    sonde_buf_reset(&out);
    if (!rc) rc = sonde_requests_answer(g->o->p, FILE_REQUESTS_MAX, &count, &out);
    if (!rc) {
        snprintf(key, sizeof(key), "/api/requests?from=%.0f&limit=%d&to=%.0f", g->from_s,
                 FILE_REQUESTS_MAX, g->to_s);
        sonde_page_file_add(&g->file, key, out.data, out.len);
        json_t *read = json_loadb(out.data, out.len, 0, NULL);
        note_slowest(g, read);
        json_decref(read);
        if (count) add_page(g, "requests");
    }
    sonde_buf_release(&out);
    return rc ? sonde_err_set(&g->err, rc, "no memory for the report") : 0;
}

/* Devices, pools and tokenizers; *any: there is something of the kind. */
static int add_engine(struct gather *g, int *any)
{
    struct sonde_buf out;
    sonde_buf_init(&out, ANSWER_MAX);
    const int rc = sonde_engine_answer_run(g->o->p, any, &out);
    if (!rc && *any) sonde_page_file_add(&g->file, "/api/engine", out.data, out.len);
    sonde_buf_release(&out);
    return rc ? sonde_err_set(&g->err, rc, "no memory for the report") : 0;
}

static int report_html_gather_profile(struct gather *g)
{
    const struct sonde_profile *p = g->o->p;
    const struct sonde_infer_run *run = p->infer;
    const double now_s = sonde_clock_s(CLOCK_REALTIME);
    int inside = 0;
    int rc = add_engine(g, &inside);
    g->to_s = p->end_ns ? ceil((double)p->end_ns * 1e-9) : floor(now_s);
    g->from_s = p->start_ns ? floor((double)p->start_ns * 1e-9) : g->to_s - 60;
    for (size_t i = 0; run && i < run->request_count; i++) { /* some began before */
        const double arrived_s = (double)run->requests[i].arrived_ns * 1e-9;
        if (arrived_s < g->from_s) g->from_s = floor(arrived_s);
    }
    if (g->to_s <= g->from_s) g->to_s = g->from_s + 1;
    if (sonde_recent_create((size_t)1 << 30, 3600, &g->request.recent) != 0) {
        return sonde_err_set(&g->err, SONDE_ENOMEM, "no memory for the report");
    }
    g->request.agent = &sonde_agent_none;
    g->request.shown = p;
    if (inside) add_page(g, "inference");
    if (!rc && run && (run->request_count || run->model_count)) rc = report_html_add_requests(g);
    const int graphs = rc ? 0 : ask_graphs(g);
    if (graphs & 1) add_page(g, "cpu");
    if (graphs & 2 || inside) add_page(g, "memory");
    if (!rc) add_findings(g);
    if (!rc) rc = report_html_add_report(g);
    sonde_recent_destroy(g->request.recent);
    if (!rc && !g->page_count) {
        return sonde_err_set(&g->err, SONDE_ENOENT,
                             "%.200s: there are no samples and no requests in it", g->o->target);
    }
    return rc;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* Of a path only its end: where somebody keeps files is nobody's business. */
static void find_names(const struct gather *g, char title[200], char source[200])
{
    const struct sonde_profile *p = g->o->p;
    const char *program = p ? sonde_profile_str(p, p->program) : "";
    snprintf(source, 200, "%.190s", p ? sonde_path_base(g->o->target) : g->o->target);
    if (!p && strchr(source, '@')) snprintf(source, 200, "an agent"); /* a name and a password */
    if (sonde_strip_on() && !p) snprintf(source, 200, "an agent");
    snprintf(title, 200, "%.150s - sonde", *program ? program : source);
}

int sonde_cli_report_html(const struct sonde_cli *cli, const struct sonde_report_html *o,
                          struct sonde_buf *out)
{
    char title[200], source[200], query[80];
    struct gather *g = sonde__calloc(1, sizeof(*g));
    if (!g) return sonde_cli_fail(cli, "no memory for the report");
    g->cli = cli;
    g->o = o;
    sonde_buf_init(&g->file.answers, ANSWER_MAX);
    int rc = o->p ? report_html_gather_profile(g) : gather_agent(g);
    if (!rc) {
        find_names(g, title, source);
        snprintf(query, sizeof(query), "from=%.0f&to=%.0f", g->from_s, g->to_s);
        g->file.title = title;
        g->file.source = source;
        g->file.made_s = sonde_clock_s(CLOCK_REALTIME);
        g->file.pages = g->pages;
        g->file.query = query;
        rc = sonde_page_file_write(&g->file, out);
        if (rc) {
            sonde_err_set(&g->err, rc, rc == SONDE_EFULL ? "the report is larger than can "
                                                           "be written: choose a shorter time with "
                                                           "--from" : "no memory for the report");
        }
    }
    int status = SONDE_EXIT_OK;
    if (rc == SONDE_EINVAL || rc == SONDE_ENOENT) status = sonde_cli_usage(cli, "%s", g->err.text);
    else if (rc) status = sonde_cli_fail(cli, "%s", g->err.text);
    sonde_buf_release(&g->file.answers);
    sonde__free(g);
    return status;
}
