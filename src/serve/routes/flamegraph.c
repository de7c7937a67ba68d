/* flamegraph.c - GET /api/flamegraph: the frames of a profile for a page that draws them, cut to
 * what it can show: of any time that continuous profiling has seen, of a profile that is kept, or
 * of heaps as they are now. See serve/api/flame.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "present/flamegraph/flamegraph.h"
#include "serve/api/flame.h"
#include "serve/api/session_report.h"
#include "sonde/sonde.h"

enum { FEW_SAMPLES = 100 };

/* What is drawn. */
struct route_flame_view {
    const struct sonde_tree *tree;   /* owned, or the one that is kept */
    struct sonde_tree *own;          /* NULL = it is the latter */
    uint32_t under;                  /* node of it */
    size_t found;                    /* names of the focus that are there */
};

/* ---- The view -------------------------------------------------------------------------------- */

static int make_view(const struct sonde_api_flame_query *q, const struct sonde_api_flame_tree *t,
                     struct route_flame_view *out, struct sonde_err *err)
{
    const struct sonde_tree_path focus = { q->focus, q->focus_count };
    int rc = 0;
    *out = (struct route_flame_view){ .tree = t->tree };
    if (q->invert) {
        rc = sonde_tree_invert(t->tree, q->nodes, &focus, &out->own);
        if (rc) rc = sonde_err_memory(err);
    } else if (focus.count && t->tree->min_share > 0 && !q->fold && !q->has_base) {
        const struct sonde_profile_filter f = sonde_api_flame_filter(q, &q->side);
        const struct sonde_tree_options o = { .by_module = 1, .nodes_max = q->nodes };
        rc = sonde_tree_build_under(t->source->profile, &f, &o, &focus, &out->found, &out->own,
                                    err);
    }
    if (rc) return rc;
    if (out->own) out->tree = out->own;
    out->under = sonde_tree_find(out->tree, &focus, &out->found);
    return 0;
}

/* ---- Answer ---------------------------------------------------------------------------------- */

static void route_flame_put_text(struct sonde_buf *out, const char *text)
{
    if (out->len && out->data[out->len - 1] != '[') sonde_buf_putc(out, ',');
    sonde_buf_json_str(out, text, strlen(text));
}

/* Few samples say little: the share of a function that has half of them is good to so many
 * percent. */
static void note_few(const struct sonde_api_flame_tree *t, struct sonde_buf *out)
{
    const uint64_t samples = t->tree->nodes[0].samples;
    const int timed = t->tree->kind == SONDE_SAMPLE_CPU || t->tree->kind == SONDE_SAMPLE_OFFCPU;
    char text[200];
    if (!timed || samples >= FEW_SAMPLES || !samples) return;
    snprintf(text, sizeof(text), "There %s only %llu sample%s: shares are good to ±%.0f %% at "
             "best. A longer range has more, and so has a session (POST /admin/profile/start).",
             samples == 1 ? "is" : "are", (unsigned long long)samples, samples == 1 ? "" : "s",
             100 * fmin(0.98 / sqrt((double)samples), 1));
    route_flame_put_text(out, text);
}

static void put_notes(const struct sonde_api_flame_query *q, const struct sonde_api_flame_tree *t,
                      const struct route_flame_view *v, struct sonde_buf *out)
{
    char text[400];
    sonde_json_key_open(out, "notes", '[');
    if (v->found < q->focus_count) {
        snprintf(text, sizeof(text), "\"%.200s\" is not in these samples: this is what is around "
                 "it.", q->focus[v->found]);
        route_flame_put_text(out, text);
    }
    for (size_t i = 0; i < t->source->note_count; i++) {
        route_flame_put_text(out, t->source->notes[i]);
    }
    for (size_t i = 0; t->base && i < t->base->note_count; i++) {
        snprintf(text, sizeof(text), "Of what it is compared with: %s", t->base->notes[i]);
        route_flame_put_text(out, text);
    }
    note_few(t, out);
    sonde_json_close(out, ']');
}

/* A count that is null where nothing was chosen. */
static void route_flame_put_count(struct sonde_buf *out, const char *key, int known, uint64_t count)
{
    if (known) sonde_json_u64(out, key, count);
    else sonde_json_str(out, key, NULL);
}

static void put_chosen(const struct sonde_api_flame_tree *t, struct sonde_buf *out)
{
    const struct sonde_selected *f = &t->source->found;
    const int kind = (int)t->tree->kind, chosen = t->source->chosen;
    route_flame_put_count(out, "requests", chosen && f->requests_all, f->requests);
    route_flame_put_count(out, "requests_all", chosen && f->requests_all, f->requests_all);
    route_flame_put_count(out, "own", chosen, f->own[kind]);
    route_flame_put_count(out, "workers", chosen, f->workers[kind]);
    route_flame_put_count(out, "ambiguous", chosen, f->ambiguous[kind]);
    route_flame_put_count(out, "untimed", chosen, f->untimed[kind]);
}

static void put_about(const struct sonde_api_flame_query *q, const struct sonde_api_flame_tree *t,
                      const struct route_flame_view *v, struct sonde_buf *out)
{
    const struct sonde_api_flame_source *s = t->source;
    const uint64_t total = t->tree->nodes[0].total;
    sonde_json_key_open(out, "about", '{');
    sonde_json_u64(out, "samples", t->tree->nodes[0].samples);
    sonde_json_ns(out, "seconds", s->to_ns - s->from_ns);
    sonde_json_time(out, "from", (double)s->from_ns * 1e-9);
    sonde_json_time(out, "to", (double)s->to_ns * 1e-9);
    route_flame_put_count(out, "base_samples", t->base != NULL, t->base_samples);
    if (t->base) sonde_json_ns(out, "base_seconds", t->base->to_ns - t->base->from_ns);
    else sonde_json_str(out, "base_seconds", NULL);
    put_notes(q, t, v, out);
    put_chosen(t, out);
    sonde_json_num(out, "truncated_share",
                   total ? (double)t->tree->truncated / (double)total : NAN);
    sonde_json_key_open(out, "kinds", '[');
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        if (s->kinds >> k & 1) {
            route_flame_put_text(out, sonde_sample_kind_name((enum sonde_sample_kind)k));
        }
    }
    sonde_json_close(out, ']');
    sonde_json_u64(out, "focus", v->found);
    sonde_json_close(out, '}');
}

static int route_flame_answer(const struct sonde_http_request *r,
                              const struct sonde_api_flame_query *q,
                              const struct sonde_api_flame_tree *t, struct sonde_response *answer,
                              struct sonde_err *err)
{
    struct route_flame_view v;
    struct sonde_flamegraph_options look = sonde_http_picture(r, 1);
    int rc = make_view(q, t, &v, err);
    if (rc) return rc;
    look.subtitle = t->source->label;
    const struct sonde_flamegraph_part part = { .nodes_max = q->nodes, .under = v.under,
                                                .functions = q->functions ? t->tree : NULL };
    rc = sonde_flamegraph_data(v.tree, &look, &part, &answer->body);
    if (rc) rc = sonde_err_memory(err);
    if (!rc) put_about(q, t, &v, &answer->body);
    if (!rc) sonde_buf_puts(&answer->body, "}\n");
    sonde_tree_destroy(v.own);
    return rc;
}

/* The same without frames, and why. */
static void route_flame_put_empty(const struct sonde_api_flame_query *q, const char *why,
                                  struct sonde_buf *out)
{
    const enum sonde_sample_kind kind =
        q->kind < 0 ? SONDE_SAMPLE_CPU : (enum sonde_sample_kind)q->kind;
    sonde_buf_puts(out, "{\"version\":1");
    sonde_json_str(out, "kind", sonde_sample_kind_name(kind));
    sonde_json_str(out, "unit", sonde_sample_kind_unit(kind));
    sonde_buf_puts(
        out, ",\"strings\":[],\"frames\":\"\",\"nodes\":\"\",\"about\":{\"samples\":0,\"notes\":[");
    route_flame_put_text(out, why);
    sonde_buf_puts(out, "]}}\n");
}

static void route_flame_flamegraph(const struct sonde_http_request *r,
                                   struct sonde_response *answer)
{
    struct sonde_api_flame_query q;
    struct sonde_recent_thing *tree = NULL;
    struct sonde_err err = { "" };
    if (sonde_api_flame_read(r, answer, &q)) {
        int rc = sonde_api_flame_tree(r, &q, &tree, &err);
        if (!rc) rc = route_flame_answer(r, &q, sonde_recent_get(tree), answer, &err);
        if (rc == SONDE_ENOENT && q.empty) {
            route_flame_put_empty(&q, err.text, &answer->body);
        } else if (rc) {
            sonde_response_failed(answer, rc, &err);
        }
        sonde_recent_give(tree);
    }
    sonde_api_flame_release(&q);
}

extern const struct sonde_route sonde_route_api_flamegraph;
const struct sonde_route sonde_route_api_flamegraph = {
    .method = "GET",
    .path = "/api/flamegraph",
    .summary = "the frames of a flame graph, for a page that draws it: of any time that continuous "
               "profiling has seen, of a profile that is kept (?profile=), of heaps now (?live=1); "
               "the widest ?nodes= of them, or of what is below ?focus=; of a phase, of requests; "
               "and the difference between two times or profiles, or between some requests and "
               "the rest",
    .params = (const char *const[]){ "from", "to", "process", "pid", "profile", "live", "type",
                                     "thread", "span", "phase", "request", "slowest", "model",
                                     "route", "metric", "min", "max", "workers", "base",
                                     "base_from", "base_to", "base_profile", "nodes", "functions",
                                     "focus", "fold", "invert", "empty", NULL },
    .slow = 1,
    .handle = route_flame_flamegraph,
    .keys = "version,kind,unit,strings,frames,nodes,about",
    .statuses = "404,409",
};
