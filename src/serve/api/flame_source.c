/* flame_source.c - the profile that a flame graph is of: see flame.h. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "profile/thin.h"
#include "serve/api/flame_private.h"
#include "agent/continuous.h"
#include "serve/http/server.h"
#include "sonde/sonde.h"
#include "store/history.h"

#define RECENT_S 120.0      /* what is so new may not have been written yet */
#define LATER_S 60.0        /* a span is kept in the part that it ends in */

/* ---- Where it comes from --------------------------------------------------------------------- */

static struct sonde_store *history_of(const struct sonde_http_request *r,
                                      const struct sonde_store_ops **ops)
{
    const struct sonde_agent *a = r->agent;
    *ops = a->store_ops;
    return a->continuous ? sonde_continuous_store(a->continuous, ops) : a->store;
}

static void find_rounded(const struct sonde_history_part *part, void *arg)
{
    double *until_s = arg;
    if (sonde_history_step_s(part->tier) > 0) *until_s = fmax(*until_s, part->end_s);
}

/* Of what is older than two hours times are rounded and spans are gone. */
static void note_tiers(const struct sonde_store_ops *ops, struct sonde_store *store,
                       const struct sonde_history_query *q, struct sonde_api_flame_source *out)
{
    double until_s = 0;
    if (q->heap || sonde_history_each(ops, store, q, find_rounded, &until_s, NULL) != 0) return;
    if (!(until_s > 0)) return;
    flame_note(out, "Older samples in this range are merged: their times are known to five minutes "
               "or an hour, and not by phase, request or span. continuous.keep_minutes keeps them "
               "as they were for longer.");
}

/* Which kinds the heaps of that time have: they are kept apart, so a look at one tells. */
static void find_heap(const struct sonde_history_part *part, void *arg)
{
    *(uint64_t *)arg = part->id;
}

static void add_kinds(const struct sonde_store_ops *ops, struct sonde_store *store,
                      struct sonde_history_query q, struct sonde_api_flame_source *out)
{
    uint64_t id = 0;
    struct sonde_profile *p = NULL;
    q.heap = !q.heap;
    if (sonde_history_each(ops, store, &q, find_heap, &id, NULL) != 0 || !id) return;
    if (sonde_history_get(ops, store, id, &p, NULL) != 0) return;
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        if (p->weights[k]) out->kinds |= 1u << k;
    }
    sonde_profile_destroy(p);
}

static int take_history(const struct flame_making *m, int spans, struct sonde_api_flame_source *out,
                        struct sonde_err *err)
{
    const struct sonde_api_flame_side *side = m->side;
    const struct sonde_store_ops *ops;
    struct sonde_store *store = history_of(m->r, &ops);
    struct sonde_history_query q = { .from_s = side->from_s, .to_s = side->to_s,
                                     .program = side->process, .pid = side->pid,
                                     .heap = flame_is_standing(m->q->kind) };
    if (!store) return sonde_err_set(err, SONDE_ENOENT, "this agent does not profile continuously");
    if (m->r->agent->continuous && side->to_s > sonde_clock_s(CLOCK_REALTIME) - RECENT_S) {
        sonde_continuous_flush(m->r->agent->continuous);
    }
    if (spans && !q.heap) q.to_s += LATER_S;
    int rc = sonde_history_merge(ops, store, &q, &out->profile, err);
    if (rc == SONDE_ENOENT && err && sonde_history_is_empty(ops, store, q.heap)) {
        sonde_err_set(err, rc, "%s; POST /admin/profile/continuous turns it on", err->text);
    }
    if (rc) return rc;
    struct sonde_profile *p = out->profile;
    if (spans && !q.heap) {
        sonde_profile_cut(p, sonde_clock_ns_of(side->from_s), sonde_clock_ns_of(side->to_s));
        if (p->end_ns > sonde_clock_ns_of(side->to_s)) p->end_ns = sonde_clock_ns_of(side->to_s);
    }
    note_tiers(ops, store, &q, out);
    add_kinds(ops, store, q, out);
    const char *program = sonde_profile_str(p, p->program);
    snprintf(out->label, sizeof(out->label), "%.100s", *program ? program : "all programs");
    return 0;
}

static int take_kept(const struct flame_making *m, struct sonde_api_flame_source *out,
                     struct sonde_err *err)
{
    struct sonde_session_found found;
    const struct sonde_server_file *file = sonde_http_file(m->r, m->side->profile);
    if (m->r->shown) {
        out->profile = (struct sonde_profile *)(uintptr_t)m->r->shown; /* is only read */
        out->lent = 1;
        snprintf(out->label, sizeof(out->label), "%.100s",
                 sonde_profile_str(out->profile, out->profile->program));
        return 0;
    }
    if (file) {
        out->lent = 1;
        out->profile = file->profile;
        snprintf(out->label, sizeof(out->label), "%.100s", file->name);
        return 0;
    }
    if (!m->r->agent->sessions) {
        return sonde_err_set(err, SONDE_ENOENT, "this agent stores no profiles");
    }
    const int rc = sonde_sessions_find(m->r->agent->sessions, m->side->profile, &found, err);
    if (rc) return rc;
    out->profile = found.profile;
    snprintf(out->label, sizeof(out->label), "%s", found.label);
    return 0;
}

static int take_heaps(const struct flame_making *m, struct sonde_api_flame_source *out,
                      struct sonde_err *err)
{
    if (!m->r->agent->profiler) {
        return sonde_err_set(err, SONDE_ENOENT, "this agent does not capture profiles");
    }
    const int rc = sonde_profiler_heap(m->r->agent->profiler, m->side->pid, 0, &out->profile, err);
    if (rc) return rc;
    const char *program = sonde_profile_str(out->profile, out->profile->program);
    snprintf(out->label, sizeof(out->label), "%.100s%snow", program, *program ? ", " : "");
    return 0;
}

/* ---- The whole ------------------------------------------------------------------------------- */

void flame_source_destroy(void *source)
{
    struct sonde_api_flame_source *s = source;
    if (!s->lent) sonde_profile_destroy(s->profile);
    sonde__free(s);
}

/* The time that it covers: what was asked for, as far as it was sampled. */
static void find_times(const struct sonde_api_flame_side *side, struct sonde_api_flame_source *s)
{
    const struct sonde_profile *p = s->profile;
    s->from_ns = p->start_ns;
    s->to_ns = p->end_ns;
    if (!side->profile) return;
    if (sonde_clock_ns_of(side->from_s) > s->from_ns) s->from_ns = sonde_clock_ns_of(side->from_s);
    if (side->to_s > 0 && sonde_clock_ns_of(side->to_s) < s->to_ns) {
        s->to_ns = sonde_clock_ns_of(side->to_s);
    }
    if (s->to_ns < s->from_ns) s->to_ns = s->from_ns;
}

static int api_flame_source_make(const struct flame_making *m, int spans, void **thing,
                                 size_t *bytes, struct sonde_err *err)
{
    struct sonde_api_flame_source *s = sonde__calloc(1, sizeof(*s));
    if (!s) return sonde_err_memory(err);
    const int rc = m->side->live      ? take_heaps(m, s, err)
                   : m->side->profile ? take_kept(m, s, err)
                                      : take_history(m, spans, s, err);
    if (rc) {
        flame_source_destroy(s);
        return rc;
    }
    for (int k = 0; k < SONDE_SAMPLE_KIND_COUNT; k++) {
        if (s->profile->weights[k]) s->kinds |= 1u << k;
    }
    find_times(m->side, s);
    *bytes = s->lent ? sizeof(*s) : s->profile->bytes;
    *thing = s;
    return 0;
}

static int api_flame_source_make_whole(void *making, void **thing, size_t *bytes,
                                       struct sonde_err *err)
{
    return api_flame_source_make(making, 0, thing, bytes, err);
}

static int make_with_spans(void *making, void **thing, size_t *bytes, struct sonde_err *err)
{
    return api_flame_source_make(making, 1, thing, bytes, err);
}

int flame_whole(const struct sonde_http_request *r, const struct sonde_api_flame_query *q,
                const struct sonde_api_flame_side *side, struct sonde_recent_thing **out,
                struct sonde_err *err)
{
    const int spans = side->span || flame_asks_choice(side);
    const struct sonde_api_flame_side of = { .profile = side->profile, .live = side->live,
                                             .from_s = side->from_s, .to_s = side->to_s,
                                             .process = side->process, .pid = side->pid };
    const struct flame_making m = { r, q, &of };
    return flame_take(&m, spans ? "with spans" : "whole", NULL,
                      spans ? make_with_spans : api_flame_source_make_whole, flame_source_destroy,
                      out, err);
}

int sonde_api_flame_source(
    const struct sonde_http_request *r, const struct sonde_api_flame_query *q,
    const struct sonde_api_flame_side *side, struct sonde_recent_thing **out, struct sonde_err *err)
{
    struct sonde_api_flame_side of = *side;
    const struct flame_making m = { r, q, &of };
    if (!flame_asks_choice(side)) return flame_whole(r, q, side, out, err);
    of.thread = of.span = NULL; /* these are chosen when the tree is made */
    return flame_take(&m, "choice", NULL, flame_choose, flame_source_destroy, out, err);
}
