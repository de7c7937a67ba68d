/* request.c - which requests are asked for: by an id, by rank, by trace.
 *
 * One request may be known twice, from the engine and from a front before it: of other sources, in
 * one trace, at the same time. Whoever asks for one means both. */
#include <assert.h>
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "base/nearest.h"
#include "base/trace_id.h"
#include "profile/select/private.h"

enum { NAMED_MAX = 4, ID_TEXT = SONDE_INFER_ID_MAX + 1 }; /* in a message */

int sonde_select_slowest(const char *text, struct sonde_select *s, struct sonde_err *err)
{
    char *end = NULL;
    const double v = isdigit((unsigned char)*text) ? strtod(text, &end) : NAN;
    if (end && !strcmp(end, "%") && v > 0 && v <= 100) {
        s->slowest_share = v / 100;
        return 0;
    }
    if (end && !*end && v >= 1 && v < 1e9 && v == floor(v)) {
        s->slowest = (uint64_t)v;
        return 0;
    }
    return sonde_err_set(err, SONDE_EINVAL, "'%s' is neither a number of requests nor a share of "
                         "them like 1%%", text);
}

static const struct sonde_infer_request *select_request_at(const struct select_work *w,
                                                           uint32_t index)
{
    return &w->p->infer->requests[index];
}

static uint64_t end_ns(const struct sonde_infer_request *r)
{
    return r->arrived_ns + (uint64_t)(r->total_s * 1e9);
}

static int has_trace(const struct sonde_infer_request *r)
{
    return (r->trace_hi | r->trace_lo) != 0;
}

static int compare_trace(const struct sonde_infer_request *r, uint64_t hi, uint64_t lo)
{
    if (r->trace_hi != hi) return SONDE_CMP(r->trace_hi, hi);
    return SONDE_CMP(r->trace_lo, lo);
}

static int compare_id(const struct sonde_infer_request *r, uint32_t pid, uint64_t id)
{
    if (r->id != id) return SONDE_CMP(r->id, id);
    return SONDE_CMP(r->pid, pid);
}

static int in_order_of_id(const void *a, const void *b, void *arg)
{
    const struct sonde_infer_request *y = select_request_at(arg, *(const uint32_t *)b);
    return compare_id(select_request_at(arg, *(const uint32_t *)a), y->pid, y->id);
}

static int in_order_of_trace(const void *a, const void *b, void *arg)
{
    const struct sonde_infer_request *y = select_request_at(arg, *(const uint32_t *)b);
    return compare_trace(select_request_at(arg, *(const uint32_t *)a), y->trace_hi, y->trace_lo);
}

static int select_request_slowest_first(const void *a, const void *b, void *arg)
{
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct sonde_infer_request *x = select_request_at(arg, i), *y = select_request_at(arg, k);
    if (x->total_s != y->total_s) return SONDE_CMP(y->total_s, x->total_s);
    return SONDE_CMP(i, k);
}

int64_t select_request_find(const struct select_work *w, uint32_t pid, uint64_t id)
{
    assert(w->by_id || !w->request_count);
    uint32_t low = 0, high = w->request_count;
    while (id && low < high) {
        const uint32_t mid = low + (high - low) / 2;
        const int c = compare_id(select_request_at(w, w->by_id[mid]), pid, id);
        if (!c) return w->by_id[mid];
        if (c < 0) low = mid + 1;
        else high = mid;
    }
    return -1;
}

/* Place in by_trace of the first that is not less. */
static uint32_t first_of_trace(const struct select_work *w, uint64_t hi, uint64_t lo)
{
    assert(w->by_trace || !w->request_count);
    uint32_t low = 0, high = w->request_count;
    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        if (compare_trace(select_request_at(w, w->by_trace[mid]), hi, lo) < 0) low = mid + 1;
        else high = mid;
    }
    return low;
}

int select_trace_chosen(const struct select_work *w, const struct sonde_profile_span *span)
{
    int known = -1;
    if (!(span->trace_hi | span->trace_lo)) return -1;
    for (uint32_t i = first_of_trace(w, span->trace_hi, span->trace_lo);
         i < w->request_count; i++) {
        const struct sonde_infer_request *r = select_request_at(w, w->by_trace[i]);
        if (compare_trace(r, span->trace_hi, span->trace_lo)) break;
        known = 0;
        if (w->chosen[w->by_trace[i]] && span->start_ns < end_ns(r) &&
            span->end_ns > r->arrived_ns) {
            return 1;
        }
    }
    return known;
}

/* ---- Choosing -------------------------------------------------------------------------------- */

static int is_twin(const struct sonde_infer_request *a, const struct sonde_infer_request *b)
{
    return a->source != b->source && has_trace(a) &&
           !compare_trace(a, b->trace_hi, b->trace_lo) && a->arrived_ns <= end_ns(b) &&
           b->arrived_ns <= end_ns(a);
}

/* With its twins. */
static void select_request_choose(struct select_work *w, uint32_t index)
{
    const struct sonde_infer_request *r = select_request_at(w, index);
    w->chosen[index] = 1;
    if (!has_trace(r)) return; /* all that have none would be looked at, for each */
    for (uint32_t i = first_of_trace(w, r->trace_hi, r->trace_lo); i < w->request_count; i++) {
        const struct sonde_infer_request *o = select_request_at(w, w->by_trace[i]);
        if (compare_trace(o, r->trace_hi, r->trace_lo)) break;
        if (is_twin(r, o)) w->chosen[w->by_trace[i]] = 1;
    }
}

static int is_among(const struct select_work *w, uint32_t index)
{
    return !w->s->among || w->s->among[index];
}

static void choose_slowest(struct select_work *w, uint32_t *order)
{
    uint32_t count = 0, twins = 0;
    for (uint32_t i = 0; i < w->request_count; i++) {
        if (!select_request_at(w, i)->invalid[0] && is_among(w, i)) order[count++] = i;
    }
    qsort_r(order, count, sizeof(*order), select_request_slowest_first, w);
    for (uint32_t i = 0; i + 1 < w->request_count; i++) {
        twins += (uint32_t)is_twin(select_request_at(w, w->by_trace[i]),
                                   select_request_at(w, w->by_trace[i + 1]));
    }
    const double all = count > twins ? count - twins : count;
    uint64_t left = w->s->slowest ? w->s->slowest
                                  : (uint64_t)ceil(all * w->s->slowest_share - 1e-9);
    for (uint32_t i = 0; i < count && left; i++) {
        if (w->chosen[order[i]]) continue;
        select_request_choose(w, order[i]);
        left--;
    }
}

/* given NULL: all that count. */
static void choose_given(struct select_work *w, const unsigned char *given)
{
    for (uint32_t i = 0; i < w->request_count; i++) {
        if (is_among(w, i) && (!given || given[i])) select_request_choose(w, i);
    }
}

/* The others. One that is known twice is chosen twice, so no half of it is among them. */
static void choose_rest(struct select_work *w)
{
    for (uint32_t i = 0; i < w->request_count; i++) w->chosen[i] = !w->chosen[i] && is_among(w, i);
}

static void choose_traces(struct select_work *w)
{
    for (uint32_t i = 0; i < w->request_count; i++) {
        const struct sonde_infer_request *r = select_request_at(w, i);
        for (uint32_t k = 0; k < w->s->trace_count && has_trace(r); k++) {
            w->chosen[i] |= !compare_trace(r, w->s->traces[k].hi, w->s->traces[k].lo);
        }
    }
}

/* ---- By id ----------------------------------------------------------------------------------- */

static int select_request_matches(const struct sonde_infer_request *r, const char *text, int whole)
{
    char id[17], trace[33];
    const size_t len = strlen(text);
    snprintf(id, sizeof(id), "%016" PRIx64, r->id);
    snprintf(trace, sizeof(trace), "%016" PRIx64 "%016" PRIx64, r->trace_hi, r->trace_lo);
    if (whole) {
        uint64_t hi, lo;
        return !strcmp(r->own_id, text) || !strcasecmp(id, text) ||
               (sonde_trace_id_parse(text, &hi, &lo) && !compare_trace(r, hi, lo));
    }
    return !strncmp(r->own_id, text, len) || !strncasecmp(id, text, len) ||
           (has_trace(r) && !strncasecmp(trace, text, len));
}

/* How a message calls a request: unique if ids repeat. */
static void select_request_put_id(const struct sonde_infer_request *r, int unique, char *list,
                                  size_t size)
{
    const size_t len = strlen(list);
    if (unique || !r->own_id[0]) {
        snprintf(list + len, size - len, "%s%016" PRIx64, len ? ", " : "", r->id);
    } else {
        snprintf(list + len, size - len, "%s%s", len ? ", " : "", r->own_id);
    }
}

static int select_request_several(const struct select_work *w, uint32_t count, int whole)
{
    char list[NAMED_MAX * (ID_TEXT + 4)] = "";
    uint32_t named = 0;
    for (uint32_t i = 0; i < w->request_count && named < NAMED_MAX; i++) {
        if (!w->chosen[i]) continue;
        select_request_put_id(select_request_at(w, i), whole, list, sizeof(list));
        named++;
    }
    return sonde_err_set(w->err, SONDE_EINVAL, whole
                         ? "%u requests have the id '%.40s': say which one by its own: %s%s"
                         : "the ids of %u requests begin with '%.40s': %s%s",
                         count, w->s->request, list, count > named ? ", …" : "");
}

/* The ids that are nearest to what was asked for. */
static int select_request_unknown(const struct select_work *w)
{
    char list[NAMED_MAX * (ID_TEXT + 4)] = "";
    unsigned limit = 0;
    for (uint32_t named = 0; named < NAMED_MAX;) {
        unsigned next = SONDE_NOT_NEAR;
        for (uint32_t i = 0; i < w->request_count && named < NAMED_MAX; i++) {
            const struct sonde_infer_request *r = select_request_at(w, i);
            const unsigned near = r->own_id[0] ? sonde_nearness(w->s->request, r->own_id)
                                               : SONDE_NOT_NEAR;
            if (near == limit && limit) {
                select_request_put_id(r, 0, list, sizeof(list));
                named++;
            } else if (near > limit && near < next) {
                next = near;
            }
        }
        if (next == SONDE_NOT_NEAR) break;
        limit = next;
    }
    if (list[0]) {
        return sonde_err_set(w->err, SONDE_ENOENT, "no request has the id '%.40s'; near it: %s",
                             w->s->request, list);
    }
    select_request_put_id(select_request_at(w, w->request_count - 1), 0, list, sizeof(list));
    return sonde_err_set(w->err, SONDE_ENOENT, "none of %u requests has the id '%.40s'; the last "
                         "is %s", w->request_count, w->s->request, list);
}

static int choose_by_id(struct select_work *w)
{
    uint32_t count = 0, first = 0;
    int one = 1, whole = 1; /* one: all that were found are of one trace */
    for (;; whole = 0) {
        for (uint32_t i = 0; i < w->request_count; i++) {
            const struct sonde_infer_request *r = select_request_at(w, i);
            if (!select_request_matches(r, w->s->request, whole)) continue;
            w->chosen[i] = 1;
            if (!count++) first = i;
            else one &= has_trace(r) && !in_order_of_trace(&i, &first, w);
        }
        if (count || !whole) break;
    }
    if (!count || !w->s->request[0]) return select_request_unknown(w);
    if (!one) return select_request_several(w, count, whole);
    if (count == 1) select_request_choose(w, first);
    return 0;
}

/* ---- All ------------------------------------------------------------------------------------- */

static int sort_requests(struct select_work *w)
{
    const uint32_t count = w->request_count;
    w->by_id = sonde__alloc(count * sizeof(*w->by_id));
    w->by_trace = sonde__alloc(count * sizeof(*w->by_trace));
    if (!w->by_id || !w->by_trace) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < count; i++) w->by_id[i] = w->by_trace[i] = i;
    qsort_r(w->by_id, count, sizeof(*w->by_id), in_order_of_id, w);
    qsort_r(w->by_trace, count, sizeof(*w->by_trace), in_order_of_trace, w);
    return 0;
}

int select_requests(struct select_work *w)
{
    const struct sonde_select *s = w->s;
    const int asked = !!s->request + (s->slowest || s->slowest_share > 0) + !!s->trace_count +
                      !!s->given;
    const int chosen = asked || s->among;
    if (asked > 1) {
        return sonde_err_set(w->err, SONDE_EINVAL, "one request or the slowest, not both");
    }
    w->request_count = w->p->infer ? (uint32_t)w->p->infer->request_count : 0;
    if (chosen && !w->request_count) {
        return sonde_err_set(w->err, SONDE_ENOENT, "no inference requests are known of it: either "
                             "none ended while it was recorded, or the program does not tell them "
                             "(sonde/inference.h)");
    }
    if (sort_requests(w)) return SONDE_ENOMEM;
    if (!chosen) return 0;
    w->chosen = sonde__calloc(w->request_count, sizeof(*w->chosen));
    if (!w->chosen) return SONDE_ENOMEM;
    if (s->request) {
        const int rc = choose_by_id(w);
        if (rc) return rc;
    } else if (s->trace_count) {
        choose_traces(w);
    } else if (s->given || !asked) {
        choose_given(w, s->given);
    } else {
        uint32_t *order = sonde__alloc(w->request_count * sizeof(*order));
        if (!order) return SONDE_ENOMEM;
        choose_slowest(w, order);
        sonde__free(order);
    }
    if (s->rest) choose_rest(w);
    if (memchr(w->chosen, 1, w->request_count)) return 0;
    return sonde_err_set(w->err, SONDE_ENOENT, s->rest ? "there are no other requests%s"
                                                       : "no request %s",
                         s->rest            ? ""
                         : s->trace_count   ? "is of that trace"
                         : s->given || !asked ? "is as asked for"
                                              : "has figures that can be");
}
