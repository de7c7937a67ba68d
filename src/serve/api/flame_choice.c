/* flame_choice.c - what of a profile is of a phase, of requests, of a model or route, or of the
 * others: see flame.h.
 *
 * Parts of the history have spans and batches, but no requests: those are in the store and in the
 * model, and are brought together here (profile/select/select.h does the rest). */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "infer/tracker.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "present/units.h"
#include "present/report/profile.h"
#include "profile/thin.h"
#include "serve/api/flame_private.h"
#include "serve/api/requests.h"
#include "sonde/sonde.h"

#define LONG_S 600.0 /* requests that arrived so long before, or end so long after, are looked at */
#define KNOWN_BYTES_MAX ((size_t)256 << 20)
#define COPY_BYTES_MAX ((size_t)1 << 30)

static double end_s(const struct sonde_infer_request *r)
{
    return (double)r->arrived_ns * 1e-9 + r->total_s;
}

/* ---- Requests of a time ---------------------------------------------------------------------- */

/* Thing of recent.h: those that arrived or ran in a time, or have the id that is asked for. */
struct api_flame_choice_known {
    struct sonde_profile *p;
    int truncated;                     /* there was no memory for all */
};

struct gathering {
    struct api_flame_choice_known *known;
    double from_s, to_s;
    const char *id;                    /* also this one, whenever it was; NULL = none */
    const struct sonde_infer_request **sorted; /* by id, of what the store had */
    size_t sorted_count;
};

static void known_destroy(void *thing)
{
    struct api_flame_choice_known *k = thing;
    sonde_profile_destroy(k->p);
    sonde__free(k);
}

static int is_meant(const struct gathering *g, const struct sonde_infer_request *r)
{
    if (g->id && sonde_request_is(r, g->id)) return 1;
    return (double)r->arrived_ns * 1e-9 < g->to_s && end_s(r) >= g->from_s;
}

static int api_flame_choice_add(struct gathering *g, const struct sonde_infer_request *r)
{
    struct sonde_infer_request bare = *r;
    if (!is_meant(g, r)) return 0;
    bare.items = NULL;
    bare.item_count = bare.attr_count = 0;
    bare.attrs = NULL;
    bare.flags &= ~SONDE_INFER_WENT_ON; /* it replaces nothing here */
    const struct sonde_infer_run *run = g->known->p->infer;
    if ((run && run->request_count >= SONDE_REQUESTS_MAX) ||
        sonde_infer_run_add(g->known->p, &bare) != 0) {
        g->known->truncated = 1;
    }
    return g->known->truncated;
}

static int add_stored(const struct sonde_infer_request *r, void *arg)
{
    return api_flame_choice_add(arg, r);
}

static int from_store(const struct sonde_http_request *r, struct gathering *g,
                      struct sonde_err *err)
{
    const struct sonde_store_range range = { .from_s = fmax(g->from_s - LONG_S, 0),
                                             .to_s = g->to_s };
    const struct sonde_store_range any = { .from_s = 0 };
    struct sonde_store *store = sonde_http_history(r);
    if (!store || !r->agent->store_ops->requests) return 0;
    struct gathering one = *g;
    one.from_s = INFINITY; /* of others none */
    int rc = r->agent->store_ops->requests(store, &range, add_stored, g, NULL, err);
    const struct sonde_infer_run *run = g->known->p->infer;
    int found = !g->id;
    for (size_t i = 0; run && !found && i < run->request_count; i++) {
        found = sonde_request_is(&run->requests[i], g->id);
    }
    if (!rc && !found) rc = r->agent->store_ops->requests(store, &any, add_stored, &one, NULL, err);
    return rc;
}

/* Those that the store does not have: it keeps some of each second, and late. */
static void add_new(struct gathering *g, const struct sonde_infer_request *r)
{
    if (g->sorted_count &&
        bsearch(&r, g->sorted, g->sorted_count, sizeof(*g->sorted), sonde_api_request_cmp_at)) {
        return;
    }
    api_flame_choice_add(g, r);
}

static int from_model(const struct sonde_http_request *r, struct gathering *g)
{
    struct sonde_model *m = r->agent->collector ? sonde_collector_model(r->agent->collector) : NULL;
    const struct sonde_infer_run *stored = g->known->p->infer;
    const size_t count = stored ? stored->request_count : 0;
    struct sonde_infer_request *running = NULL, *copies = NULL;
    int rc = 0;
    if (!m) return 0;
    /* Rows move when some are added: these are copies. */
    g->sorted = sonde__calloc(count + 1, sizeof(*g->sorted));
    copies = sonde__calloc(count + 1, sizeof(*copies));
    if (!g->sorted || !copies) rc = SONDE_ENOMEM;
    for (size_t i = 0; !rc && i < count; i++) {
        copies[i] = stored->requests[i];
        g->sorted[g->sorted_count++] = &copies[i];
    }
    if (!rc) qsort(g->sorted, g->sorted_count, sizeof(*g->sorted), sonde_api_request_cmp_at);
    sonde_rdlock(&m->lock);
    const struct sonde_infer_tracker *tracker = sonde_collector_tracker(r->agent->collector);
    const double now_s = sonde_clock_s(CLOCK_REALTIME);
    const size_t runs = tracker && !rc ? sonde_infer_running(tracker, now_s, NULL, 0) : 0;
    if (runs) running = sonde__calloc(runs, sizeof(*running));
    if (runs && !running) rc = SONDE_ENOMEM;
    if (running) sonde_infer_running(tracker, now_s, running, runs);
    for (size_t i = 0; running && i < runs; i++) add_new(g, &running[i]);
    for (size_t age = 0; tracker && !rc && age < sonde_infer_done_count(tracker); age++) {
        add_new(g, sonde_infer_done(tracker, age));
    }
    sonde_rwunlock(&m->lock);
    sonde__free(running);
    sonde__free(copies);
    sonde__free(g->sorted);
    return rc;
}

static int known_make(void *making, void **thing, size_t *bytes, struct sonde_err *err)
{
    const struct flame_making *m = making;
    struct api_flame_choice_known *k = sonde__calloc(1, sizeof(*k));
    struct gathering g = { .known = k, .from_s = m->side->from_s, .to_s = m->side->to_s,
                           .id = m->side->request };
    int rc = k ? sonde_profile_create(KNOWN_BYTES_MAX, &k->p) : SONDE_ENOMEM;
    if (rc) {
        sonde__free(k);
        return sonde_err_memory(err);
    }
    rc = from_store(m->r, &g, err);
    if (!rc && (rc = from_model(m->r, &g)) != 0) rc = sonde_err_memory(err);
    if (rc) {
        known_destroy(k);
        return rc;
    }
    *bytes = k->p->bytes;
    *thing = k;
    return 0;
}

static int known_take(const struct flame_making *m, const struct sonde_api_flame_side *of,
                      struct sonde_recent_thing **out, struct sonde_err *err)
{
    const struct sonde_api_flame_side side = { .from_s = of->from_s, .to_s = of->to_s,
                                               .request = of->request };
    const struct flame_making known = { m->r, m->q, &side };
    return flame_take(&known, "requests", NULL, known_make, known_destroy, out, err);
}

/* ---- Which of them --------------------------------------------------------------------------- */

/* Whether requests are chosen by when they arrived, and have all of their samples. */
static int is_by_arrival(const struct sonde_api_flame_side *s)
{
    return s->request || s->slowest || s->metric != SONDE_METRIC_NONE;
}

static struct sonde_requests_query api_flame_choice_query_of(const struct sonde_api_flame_side *s)
{
    struct sonde_requests_query q = { .outcome = -1, .source = -1, .pid = s->pid,
                                      .process = s->process, .model = s->model,
                                      .route = s->route };
    if (is_by_arrival(s)) {
        q.from_s = s->from_s;
        q.to_s = s->to_s;
    }
    return q;
}

/* From when to when samples are needed: to the end of all that are chosen or compared with. */
static void find_extent(const struct api_flame_choice_known *k, struct sonde_api_flame_side *side)
{
    const struct sonde_requests_query q = api_flame_choice_query_of(side);
    const struct sonde_infer_run *run = k->p->infer;
    const double to_s = side->to_s;
    double from_s = INFINITY, until_s = 0;
    for (size_t i = 0; run && i < run->request_count; i++) {
        const struct sonde_infer_request *r = &run->requests[i];
        const int asked = side->request && sonde_request_is(r, side->request);
        if (!asked && (side->no_range || !sonde_request_passes(&q, r))) continue;
        from_s = fmin(from_s, (double)r->arrived_ns * 1e-9);
        until_s = fmax(until_s, asked ? end_s(r) : fmin(end_s(r), to_s + LONG_S));
    }
    if (!(until_s > 0)) return;
    until_s = fmin(until_s, sonde_clock_s(CLOCK_REALTIME));
    side->from_s = side->no_range ? from_s : fmin(side->from_s, from_s);
    side->to_s = side->no_range ? until_s : fmax(side->to_s, until_s);
}

/* Requests of the time that is meant, and that time. Of a request that is asked for alone it is its
 * own, and the others are those that ran in it. */
static int find_requests(const struct flame_making *m, struct sonde_api_flame_side *side,
                         struct sonde_recent_thing **out, struct sonde_err *err)
{
    const int own = side->request && side->no_range;
    side->no_range = own;
    int rc = known_take(m, side, out, err);
    if (rc || !is_by_arrival(side)) return rc;
    find_extent(sonde_recent_get(*out), side);
    if (!own) return 0;
    sonde_recent_give(*out);
    *out = NULL;
    return known_take(m, side, out, err);
}

/* Fills what of p's requests count (among), and which of them are asked for (given; NULL = all, or
 * what select.h finds out). */
struct chosen { unsigned char *among, *given; };

static int choose_requests(const struct sonde_api_flame_side *s, const struct sonde_profile *p,
                           struct chosen *out)
{
    const struct sonde_infer_run *run = p->infer;
    const size_t count = run ? run->request_count : 0;
    struct sonde_requests_query among = api_flame_choice_query_of(s), given;
    /* A model or route alone chooses; else it is among its requests that others are chosen. */
    const int by_model = !is_by_arrival(s);
    *out = (struct chosen){ 0 };
    if (!flame_asks_requests(s)) return 0;
    given = among;
    given.metric = s->metric;
    given.metric_min = s->min;
    given.metric_max = s->max;
    if (by_model) among.model = among.route = NULL;
    out->among = sonde__calloc(count + 1, 1);
    if (s->metric != SONDE_METRIC_NONE || by_model) out->given = sonde__calloc(count + 1, 1);
    if (!out->among || ((s->metric != SONDE_METRIC_NONE || by_model) && !out->given)) {
        return SONDE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        out->among[i] = sonde_request_passes(&among, &run->requests[i]) != 0;
        if (out->given) out->given[i] = sonde_request_passes(&given, &run->requests[i]) != 0;
    }
    return 0;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

/* "1.23 s", of samples of a kind. */
static const char *api_flame_choice_amount(int kind, uint64_t weight, char out[SONDE_WEIGHT_BYTES])
{
    return sonde_weight_format(out, weight, (enum sonde_sample_kind)kind, 0);
}

static void note_found(const struct flame_making *m, struct sonde_api_flame_source *s)
{
    const int kind = m->q->kind < 0 ? SONDE_SAMPLE_CPU : m->q->kind;
    const struct sonde_selected *f = &s->found;
    char text[SONDE_WEIGHT_BYTES];
    if (f->workers[kind] && !m->side->workers) {
        flame_note(s, "%s more ran at the same time on threads without a span of their own, such "
                   "as a pool of workers, and is left out: workers=1 includes it.",
                   api_flame_choice_amount(kind, f->workers[kind], text));
    }
    if (f->ambiguous[kind]) {
        flame_note(s, "%s could not be told: it ran on threads without a span while others were "
                   "served too. A span around the work of each thread (sonde_phase_begin) tells.",
                   api_flame_choice_amount(kind, f->ambiguous[kind], text));
    }
    if (f->untimed[kind]) {
        flame_note(s, "%s has no time or thread, and is left out.",
                   api_flame_choice_amount(kind, f->untimed[kind], text));
    }
}

static int api_flame_choice_copy_profile(const struct sonde_profile *from,
                                         struct sonde_profile **out)
{
    struct sonde_profile *p = NULL;
    int rc = sonde_profile_create(COPY_BYTES_MAX, &p);
    if (!rc) rc = sonde_profile_merge(p, from);
    if (rc) sonde_profile_destroy(p);
    else *out = p;
    return rc;
}

static int api_flame_choice_add_requests(const struct api_flame_choice_known *k,
                                         struct sonde_profile *p)
{
    const struct sonde_infer_run *run = k->p->infer;
    int rc = 0;
    for (size_t i = 0; run && !rc && i < run->request_count; i++) {
        rc = sonde_infer_run_add(p, &run->requests[i]);
    }
    return rc;
}

static int api_flame_choice_choose(const struct sonde_api_flame_side *side,
                                   const struct sonde_api_flame_source *whole,
                                   const struct api_flame_choice_known *known,
                                   struct sonde_api_flame_source *out, struct sonde_err *err)
{
    static const char *const hints[SONDE_SELECT_HINT_COUNT] = {
        [SONDE_SELECT_HINT_NONE] = "",
        [SONDE_SELECT_HINT_WORKERS] = " (workers=1 includes them)",
        [SONDE_SELECT_HINT_SPANS] = "; span=NAME takes spans of any name",
    };
    struct sonde_select s = { .phase = side->phase, .request = side->request, .rest = side->rest,
                              .workers = side->workers };
    struct chosen chosen = { 0 };
    int rc = side->slowest ? sonde_select_slowest(side->slowest, &s, err) : 0;
    if (rc) return rc;
    rc = api_flame_choice_copy_profile(whole->profile, &out->profile);
    if (!rc && known) rc = api_flame_choice_add_requests(known, out->profile);
    if (!rc) rc = choose_requests(side, out->profile, &chosen);
    if (rc) {
        rc = sonde_err_memory(err);
    } else {
        /* Of a kept profile; that of the history is of this time. */
        if (side->profile && !is_by_arrival(side)) {
            sonde_profile_cut(out->profile, sonde_clock_ns_of(side->from_s),
                              sonde_clock_ns_of(side->to_s));
        }
        s.among = chosen.among;
        s.given = chosen.given;
        rc = sonde_profile_select(out->profile, &s, &out->found, err);
        if (rc) sonde_err_set(err, rc, "%s%s", err->text, hints[out->found.hint]);
    }
    sonde__free(chosen.among);
    sonde__free(chosen.given);
    return rc;
}

int flame_choose(void *making, void **thing, size_t *bytes, struct sonde_err *err)
{
    const struct flame_making *m = making;
    struct sonde_api_flame_side extent = *m->side, side = *m->side;
    struct sonde_recent_thing *known = NULL, *whole = NULL;
    struct sonde_api_flame_source *s = sonde__calloc(1, sizeof(*s));
    if (!s) return sonde_err_memory(err);
    int rc = m->side->profile ? 0 : find_requests(m, &extent, &known, err);
    if (known && extent.no_range) side.from_s = side.to_s = 0; /* all that ran meanwhile count */
    if (!rc) rc = flame_whole(m->r, m->q, &extent, &whole, err);
    if (!rc) {
        const struct sonde_api_flame_source *of = sonde_recent_get(whole);
        const struct api_flame_choice_known *k = known ? sonde_recent_get(known) : NULL;
        *s = *of;
        s->profile = NULL;
        s->lent = 0;
        s->chosen = 1;
        rc = api_flame_choice_choose(&side, of, k, s, err);
        if (!rc && k && k->truncated) {
            flame_note(s, "There are more requests in this range than are looked at: choose a "
                       "shorter one.");
        }
        if (!rc) note_found(m, s);
    }
    sonde_recent_give(whole);
    sonde_recent_give(known);
    if (rc) {
        flame_source_destroy(s);
        return rc;
    }
    *bytes = s->profile->bytes;
    *thing = s;
    return 0;
}
