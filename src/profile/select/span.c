/* span.c - how much of each span is of the selection: see select.h for the rule. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "base/nearest.h"
#include "profile/select/private.h"

enum { HOPS_MAX = 64 }; /* upwards; files may have circles */

#define PREFILL "prefill"
#define DECODE "decode"

static uint32_t select_span_pid_of(const struct select_work *w, const struct sonde_profile_span *s)
{
    return w->p->threads[s->thread].pid;
}

/* The first of a span's parts; NULL = it is no batch. */
static const struct sonde_profile_part *parts_of(const struct sonde_profile *p, uint32_t span)
{
    assert(span < p->spans_count);
    uint32_t low = 0, high = p->parts_count;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (p->parts[mid].span < span) low = mid + 1;
        else high = mid;
    }
    return low < p->parts_count && p->parts[low].span == span ? &p->parts[low] : NULL;
}

static int64_t request_of(const struct select_work *w, const struct sonde_profile_span *s)
{
    const int64_t own = select_request_find(w, select_span_pid_of(w, s), s->id);
    return own >= 0 ? own : select_request_find(w, select_span_pid_of(w, s), s->parent);
}

int select_is_phase(const struct select_work *w, uint32_t span)
{
    assert(span < w->p->spans_count);
    const struct sonde_profile_span *s = &w->p->spans[span];
    return (w->names[s->name] & (SELECT_PHASE | SELECT_ASKED)) || parts_of(w->p, span) ||
           select_request_find(w, select_span_pid_of(w, s), s->parent) >= 0;
}

/* ---- Upwards --------------------------------------------------------------------------------- */

static int select_span_by_id(const void *a, const void *b)
{
    const struct select_id *x = a, *y = b;
    if (x->id != y->id) return SONDE_CMP(x->id, y->id);
    return SONDE_CMP(x->index, y->index);
}

static int index_spans(struct select_work *w)
{
    const struct sonde_profile *p = w->p;
    w->span_ids = sonde__alloc(p->spans_count * sizeof(*w->span_ids));
    if (!w->span_ids) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        /* What is of no thread, as a request, has nothing above it that would be asked. */
        if (!p->spans[i].id || !p->threads[p->spans[i].thread].tid) continue;
        w->span_ids[w->span_id_count++] = (struct select_id){ p->spans[i].id, i };
    }
    qsort(w->span_ids, w->span_id_count, sizeof(*w->span_ids), select_span_by_id);
    return 0;
}

/* Index + 1 of the span above; 0 = none. */
static uint32_t select_span_above(const struct select_work *w, uint32_t span)
{
    assert(span < w->p->spans_count);
    const uint64_t parent = w->p->spans[span].parent;
    uint32_t low = 0, high = w->span_id_count;
    while (parent && low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (w->span_ids[mid].id < parent) low = mid + 1;
        else high = mid;
    }
    if (parent && low < w->span_id_count && w->span_ids[low].id == parent) {
        return w->span_ids[low].index + 1;
    }
    return w->p->threads[w->p->spans[span].thread].tid ? w->of_span[span] : 0;
}

/* ---- Shares ---------------------------------------------------------------------------------- */

/* Of a batch's tokens those that are of the phase, and of requests that are chosen; either only
 * where it is still to be found out. */
static double batch_share(const struct select_work *w, uint32_t span,
                          const struct sonde_profile_part *part, int by_phase, int by_request)
{
    const struct sonde_profile *p = w->p;
    const uint32_t pid = select_span_pid_of(w, &p->spans[span]);
    const int in = !by_phase || !strcmp(w->s->phase, PREFILL);
    const int out = !by_phase || !strcmp(w->s->phase, DECODE);
    double all = 0, own = 0;
    for (; part < p->parts + p->parts_count && part->span == span; part++) {
        all += (double)part->tokens_in + part->tokens_out;
        const int64_t r = by_request ? select_request_find(w, pid, part->request) : -1;
        if (by_request && (r < 0 || !w->chosen[r])) continue;
        own += (in ? (double)part->tokens_in : 0) + (out ? (double)part->tokens_out : 0);
    }
    return all > 0 ? own / all : 0;
}

static float select_span_share_of(const struct select_work *w, uint32_t span)
{
    double phase = w->s->phase ? -1 : 1, request = w->chosen ? -1 : 1; /* -1: not known yet */
    uint32_t at = span + 1;
    for (int hops = 0; at && hops < HOPS_MAX && (phase < 0 || request < 0); hops++) {
        const struct sonde_profile_span *s = &w->p->spans[at - 1];
        const struct sonde_profile_part *part = parts_of(w->p, at - 1);
        if (part) {
            const double share = batch_share(w, at - 1, part, phase < 0, request < 0);
            if (request < 0) request = share;
            else phase = share;
            if (phase < 0) phase = share > 0; /* the share is of both */
            break;
        }
        const int64_t r = request < 0 ? request_of(w, s) : -1;
        if (r >= 0) request = w->chosen[r];
        if (phase < 0 && select_is_phase(w, at - 1)) {
            phase = (w->names[s->name] & SELECT_ASKED) != 0;
        }
        at = select_span_above(w, at - 1);
    }
    if (request < 0) request = select_trace_chosen(w, &w->p->spans[span]);
    if (phase == 0 || request == 0) return SELECT_OTHERS;
    return phase > 0 && request > 0 ? (float)(phase * request) : 0;
}

/* ---- Names ----------------------------------------------------------------------------------- */

static int name_phases(struct select_work *w)
{
    static const char *const phases[] = {
#define SONDE__X(id, name) name,
        SONDE_PHASES(SONDE__X)
#undef SONDE__X
    };
    const struct sonde_profile *p = w->p;
    w->names = sonde__calloc(p->strings_count, sizeof(*w->names));
    if (!w->names) return SONDE_ENOMEM;
    for (uint32_t i = 1; i < p->strings_count; i++) {
        for (size_t k = 0; k < SONDE_COUNT(phases); k++) {
            if (strcmp(p->strings[i], phases[k]) != 0) continue;
            w->names[i] = SELECT_PHASE | (k + 1 == SONDE_PHASE_QUEUE ? SELECT_WAITS : 0);
        }
        if (w->s->phase && !strcmp(p->strings[i], w->s->phase)) w->names[i] |= SELECT_ASKED;
    }
    return 0;
}

static int phase_exists(const struct select_work *w)
{
    const struct sonde_profile *p = w->p;
    const int in = !strcmp(w->s->phase, PREFILL), out = !strcmp(w->s->phase, DECODE);
    for (uint32_t i = 0; i < p->spans_count; i++) {
        if (w->names[p->spans[i].name] & SELECT_ASKED) return 1;
    }
    for (uint32_t i = 0; i < p->parts_count; i++) {
        if ((in && p->parts[i].tokens_in) || (out && p->parts[i].tokens_out)) return 1;
    }
    return 0;
}

/* Which there are, the likeliest first. */
static int unknown_phase(struct select_work *w)
{
    enum { SEEN = 8 };
    const struct sonde_profile *p = w->p;
    char list[256] = "";
    const char *near = NULL;
    unsigned nearest = SONDE_NOT_NEAR;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        unsigned char *seen = &w->names[p->spans[i].name];
        const char *name = sonde_profile_str(p, p->spans[i].name);
        if ((*seen & SEEN) || !select_is_phase(w, i)) continue;
        *seen |= SEEN;
        const size_t len = strlen(list);
        snprintf(list + len, sizeof(list) - len, "%s%s", len ? ", " : "", name);
        if (sonde_nearness(w->s->phase, name) < nearest) {
            nearest = sonde_nearness(w->s->phase, name);
            near = name;
        }
    }
    if (!list[0]) {
        w->hint = SONDE_SELECT_HINT_SPANS;
        return sonde_err_set(w->err, SONDE_ENOENT, "no phases are known of it: the program reports "
                             "none (sonde/inference.h)");
    }
    return sonde_err_set(w->err, SONDE_ENOENT, "no phase is named '%.60s'%s%.60s%s; there are: %s",
                         w->s->phase, near ? "; did you mean '" : "", near ? near : "",
                         near ? "'?" : "", list);
}

int select_spans(struct select_work *w)
{
    const struct sonde_profile *p = w->p;
    int rc = name_phases(w);
    if (!rc && w->s->phase && !phase_exists(w)) return unknown_phase(w);
    if (!rc) rc = index_spans(w);
    if (rc) return rc;
    w->span_share = sonde__alloc(p->spans_count * sizeof(*w->span_share));
    if (!w->span_share) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->spans_count; i++) w->span_share[i] = select_span_share_of(w, i);
    return 0;
}
