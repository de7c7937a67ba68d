/* observe.c - see observe.h. Batches are spans with parts (profile.h), so no event has to be kept
 * that was not kept before; requests are found again by their id. */
#include "analyze/predict/observe.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/hash.h"
#include "base/map.h"
#include "profile/infer.h"
#include "sonde/sonde.h"

#define OPTION_MAX 1000000u

/* ---- The command line ------------------------------------------------------------------------ */

uint32_t sonde_predict_option(const char *command, const char *const *names)
{
    for (const char *at = command; *at;) {
        const size_t len = strcspn(at, " ");
        for (size_t i = 0; names[i]; i++) {
            const size_t n = strlen(names[i]);
            if (n > len || strncmp(at, names[i], n) != 0 || (at[n] != ' ' && at[n] != '=')) {
                continue;
            }
            char *end;
            const unsigned long long v = strtoull(at + n + 1, &end, 10);
            if (end != at + n + 1 && (!*end || *end == ' ') && v && v <= OPTION_MAX) {
                return (uint32_t)v;
            }
        }
        at += len;
        at += strspn(at, " ");
    }
    return 0;
}

static void observe_setup(const struct sonde_profile *p, struct sonde_predict_recording *r,
                          uint32_t source)
{
    static const char *const slots[] = { "--slots", "--parallel", "-np", "--max-num-seqs", NULL };
    static const char *const batch[] = { "--batch", "--batch-size", "-b",
                                         "--max-num-batched-tokens", NULL };
    const char *command = sonde_profile_str(p, p->command);
    r->observed.slots = sonde_predict_option(command, slots);
    r->observed.batch_tokens = sonde_predict_option(command, batch);
    /* Of enum sonde_infer_source: what hooks and probes see is llama.cpp. */
    const char *by = sonde_infer_source_name(source);
    const int llama = !strcmp(by, "hook") || !strcmp(by, "probe");
    r->observed.share = llama ? SONDE_PREDICT_FIRST : -1;
    for (uint32_t i = 0; i < p->infer->model_count; i++) {
        const struct sonde_infer_model *m = &p->infer->models[i];
        if (m->pid == r->pid && !strcmp(m->model, r->model)) r->observed.kv_cells = m->kv_total;
    }
}

/* ---- Which process --------------------------------------------------------------------------- */

static uint32_t observe_span_pid(const struct sonde_profile *p, uint32_t span)
{
    return p->threads[p->spans[span].thread].pid;
}

/* The one with the most parts of passes; how many others have any. */
static uint32_t observe_pid(const struct sonde_profile *p, const char *model, uint32_t *others)
{
    enum { PIDS = 64 };
    struct { uint32_t pid, parts; } seen[PIDS];
    uint32_t count = 0, best = 0;
    for (uint32_t i = 0; i < p->parts_count; i++) {
        const uint32_t pid = observe_span_pid(p, p->parts[i].span);
        uint32_t k = 0;
        while (k < count && seen[k].pid != pid) k++;
        if (k == count) {
            if (count == PIDS) continue;
            seen[count].pid = pid;
            seen[count++].parts = 0;
        }
        seen[k].parts++;
    }
    *others = 0;
    for (uint32_t k = 0; k < count; k++) {
        int has = !model;
        for (uint32_t i = 0; !has && i < p->infer->request_count; i++) {
            has = p->infer->requests[i].pid == seen[k].pid &&
                  !strcmp(p->infer->requests[i].model, model);
        }
        if (!has) continue;
        ++*others;
        if (!seen[best].parts || seen[k].parts > seen[best].parts ||
            (model && *others == 1)) {
            best = k;
        }
    }
    if (!*others) return 0;
    --*others;
    return seen[best].pid;
}

/* ---- Requests and steps ---------------------------------------------------------------------- */

/* A request of the profile and its place among ours. */
struct observe_request { struct sonde_predict_request r; uint64_t id; };

static int observe_arrival_order(const void *a, const void *b)
{
    const struct observe_request *x = a, *y = b;
    return SONDE_CMP(x->r.arrived_s, y->r.arrived_s);
}

static int observe_step_order(const void *a, const void *b)
{
    const struct sonde_predict_step *x = a, *y = b;
    return SONDE_CMP(x->start_s, y->start_s);
}

static double observe_seconds(uint64_t ns, uint64_t from_ns)
{
    return ns >= from_ns ? (double)(ns - from_ns) * 1e-9 : -(double)(from_ns - ns) * 1e-9;
}

/* Whole, and of a kind that is predicted. */
static int observe_usable(const struct sonde_infer_request *q)
{
    return !(q->flags & (SONDE_INFER_INCOMPLETE | SONDE_INFER_RUNNING)) &&
           (!q->invalid || !*q->invalid) && q->tokens_in && q->tokens_out &&
           q->tokens_in < UINT32_MAX / 4 && q->tokens_out < UINT32_MAX / 4;
}

static int observe_chosen(const struct sonde_predict_choice *c, uint64_t ns)
{
    return ns >= c->from_ns && (!c->to_ns || ns < c->to_ns);
}

/* Requests of r->pid by arrival, and a map from their ids. The front's are the client's view of the
 * same ones: only what computes counts. */
static int observe_requests(const struct sonde_profile *p,
                            const struct sonde_predict_choice *choice,
                            struct sonde_predict_recording *r, struct sonde_map *map,
                            uint64_t **ids)
{
    const struct sonde_infer_run *run = p->infer;
    struct observe_request *list = sonde__calloc(run->request_count + 1u, sizeof(*list));
    uint32_t n = 0, source = 0;
    int rc = list ? 0 : SONDE_ENOMEM;
    for (uint32_t i = 0; !rc && i < run->request_count; i++) {
        const struct sonde_infer_request *q = &run->requests[i];
        if (q->pid != r->pid || !strcmp(sonde_infer_source_name(q->source), "front") ||
            !observe_chosen(choice, q->arrived_ns)) {
            continue;
        }
        if (!observe_usable(q)) {
            r->left_out++;
            continue;
        }
        source = q->source;
        r->model = q->model;
        r->program = q->program;
        list[n++] = (struct observe_request){
            { .arrived_s = observe_seconds(q->arrived_ns, p->start_ns),
              .ttft_s = q->ttft_s, .total_s = q->total_s, .tokens_in = (uint32_t)q->tokens_in,
              .tokens_reused = (uint32_t)(q->tokens_reused < q->tokens_in ? q->tokens_reused
                                                                           : q->tokens_in - 1),
              .tokens_out = (uint32_t)q->tokens_out }, q->id };
    }
    if (!rc) qsort(list, n, sizeof(*list), observe_arrival_order);
    *ids = sonde__calloc(n + 1u, sizeof(**ids));
    if (!rc && (!*ids || SONDE_ARRAY_RESERVE(r->requests, r->request_cap, n + 1u))) {
        rc = SONDE_ENOMEM;
    }
    for (uint32_t i = 0; !rc && i < n; i++) {
        r->requests[i] = list[i].r;
        (*ids)[i] = list[i].id;
        rc = sonde_map_reserve(map);
        if (!rc) sonde_map_put(map, (uint32_t)sonde_hash_u64(list[i].id), i + 1);
    }
    r->observed.request_count = rc ? 0 : n;
    sonde__free(list);
    if (!rc && n) observe_setup(p, r, source);
    return rc;
}

static uint32_t observe_find(const struct sonde_map *map, const uint64_t *ids, uint64_t id)
{
    const uint32_t hash = (uint32_t)sonde_hash_u64(id);
    uint32_t at = hash, row;
    while ((row = sonde_map_next(map, hash, &at))) {
        if (ids[row - 1] == id) return row - 1;
    }
    return UINT32_MAX;
}

/* Parts follow each other by span; a span that has any is a step. */
static int observe_steps(const struct sonde_profile *p, const struct sonde_predict_choice *choice,
                         struct sonde_predict_recording *r, const struct sonde_map *map,
                         const uint64_t *ids)
{
    struct sonde_predict_observed *o = &r->observed;
    for (uint32_t i = 0; i < p->parts_count;) {
        const uint32_t span = p->parts[i].span, first = o->part_count;
        const int ours = observe_span_pid(p, span) == r->pid &&
                         observe_chosen(choice, p->spans[span].start_ns);
        for (; i < p->parts_count && p->parts[i].span == span; i++) {
            if (!ours) continue;
            struct sonde_predict_part *part =
                SONDE_ARRAY_ADD(r->parts, o->part_count, r->part_cap);
            if (!part) return SONDE_ENOMEM;
            *part = (struct sonde_predict_part){ observe_find(map, ids, p->parts[i].request),
                                                 p->parts[i].tokens_in, p->parts[i].tokens_out };
        }
        if (!ours) continue;
        struct sonde_predict_step *step = SONDE_ARRAY_ADD(r->steps, o->step_count, r->step_cap);
        if (!step) return SONDE_ENOMEM;
        *step = (struct sonde_predict_step){ observe_seconds(p->spans[span].start_ns, p->start_ns),
                                             observe_seconds(p->spans[span].end_ns, p->start_ns),
                                             first, o->part_count - first };
    }
    if (o->step_count) qsort(r->steps, o->step_count, sizeof(*r->steps), observe_step_order);
    return 0;
}

int sonde_predict_observe(const struct sonde_profile *p,
                          const struct sonde_predict_choice *choice,
                          struct sonde_predict_recording *out, struct sonde_err *err)
{
    struct sonde_predict_recording r = { .model = "", .program = "", .host = "" };
    struct sonde_map map = { 0 };
    uint64_t *ids = NULL;
    const char *model = choice->model;
    if (!p->infer || !p->infer->request_count) {
        return sonde_err_set(err, SONDE_ENOENT, "there are no inference requests in it: record an "
                             "engine that reports them (docs/inference.md), or llama.cpp");
    }
    r.pid = observe_pid(p, model, &r.others);
    if (!r.pid) {
        return sonde_err_set(err, SONDE_ENOENT, model && p->parts_count
                                 ? "no process that computes has requests of the model '%.200s'"
                                 : "there are requests%.0s, but no forward passes: record the "
                                   "engine itself (`sonde record`), the front sees only what goes "
                                   "in and out", model ? model : "");
    }
    r.host = sonde_profile_str(p, p->host);
    r.start_s = (double)p->start_ns * 1e-9;
    int rc = observe_requests(p, choice, &r, &map, &ids);
    if (!rc) rc = observe_steps(p, choice, &r, &map, ids);
    sonde_map_release(&map);
    sonde__free(ids);
    if (rc) {
        sonde_predict_recording_release(&r);
        return sonde_err_memory(err);
    }
    r.observed.requests = r.requests;
    r.observed.steps = r.steps;
    r.observed.parts = r.parts;
    *out = r;
    return 0;
}

void sonde_predict_recording_release(struct sonde_predict_recording *r)
{
    sonde__free(r->requests);
    sonde__free(r->steps);
    sonde__free(r->parts);
    *r = (struct sonde_predict_recording){ .model = "", .program = "", .host = "" };
}
