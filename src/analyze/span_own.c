/* span_own.c - see span_own.h. */
#include "analyze/span_own.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

struct span_own_by_id { uint64_t id; uint32_t span; };

/* A span that is inside another. */
struct inside { uint32_t outer, inner; uint64_t from, to; };

struct nesting {
    const struct sonde_profile *p;
    struct span_own_by_id *ids;           /* sorted; spans that have one */
    uint32_t id_count;
    struct inside *rows;
    size_t count, cap;
};

static int by_id_order(const void *x, const void *y)
{
    const struct span_own_by_id *a = x, *b = y;
    if (a->id != b->id) return SONDE_CMP(a->id, b->id);
    return SONDE_CMP(a->span, b->span);
}

static int by_outer(const void *x, const void *y)
{
    const struct inside *a = x, *b = y;
    if (a->outer != b->outer) return SONDE_CMP(a->outer, b->outer);
    return SONDE_CMP(a->from, b->from);
}

/* The part of a span that is in the time of the profile. */
static void span_own_clip(const struct sonde_profile *p, const struct sonde_profile_span *s,
                          uint64_t *from, uint64_t *to)
{
    *from = s->start_ns > p->start_ns ? s->start_ns : p->start_ns;
    *to = p->end_ns && s->end_ns > p->end_ns ? p->end_ns : s->end_ns;
    if (*to < *from) *to = *from;
}

uint64_t sonde_span_length(const struct sonde_profile *p, const struct sonde_profile_span *s)
{
    uint64_t from, to;
    span_own_clip(p, s, &from, &to);
    return to - from;
}

/* ---- Who is inside of whom ------------------------------------------------------------------- */

static int span_own_index_ids(struct nesting *n)
{
    const struct sonde_profile *p = n->p;
    n->ids = sonde__calloc(p->spans_count, sizeof(*n->ids));
    if (!n->ids) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->spans_count; i++) {
        if (p->spans[i].id) n->ids[n->id_count++] = (struct span_own_by_id){ p->spans[i].id, i };
    }
    qsort(n->ids, n->id_count, sizeof(*n->ids), by_id_order);
    return 0;
}

/* The span of that id, in that trace if both know theirs; index + 1, 0 = there is none. */
static uint32_t span_own_find(const struct nesting *n, uint64_t id,
                              const struct sonde_profile_span *inner)
{
    uint32_t low = 0, high = id ? n->id_count : 0;
    assert(!high || n->ids[0].id <= n->ids[high - 1].id);
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (n->ids[middle].id < id) low = middle + 1;
        else high = middle;
    }
    for (; id && low < n->id_count && n->ids[low].id == id; low++) {
        const struct sonde_profile_span *s = &n->p->spans[n->ids[low].span];
        const int known = (s->trace_hi | s->trace_lo) && (inner->trace_hi | inner->trace_lo);
        if (s != inner && (!known || (s->trace_hi == inner->trace_hi &&
                                      s->trace_lo == inner->trace_lo))) {
            return n->ids[low].span + 1;
        }
    }
    return 0;
}

/* outer: index + 1, 0 = nothing is to be noted. */
static int span_own_note(struct nesting *n, uint32_t outer, uint32_t inner)
{
    struct inside row = { .outer = outer - 1, .inner = inner };
    uint64_t from, to;
    if (!outer || outer - 1 == inner) return 0;
    span_own_clip(n->p, &n->p->spans[outer - 1], &from, &to);
    span_own_clip(n->p, &n->p->spans[inner], &row.from, &row.to);
    if (row.from < from) row.from = from;
    if (row.to > to) row.to = to;
    if (row.to <= row.from) return 0;
    if (SONDE_ARRAY_ROOM(n->rows, n->count, n->cap)) return SONDE_ENOMEM;
    n->rows[n->count++] = row;
    return 0;
}

static int span_own_nest(struct nesting *n, const uint32_t *of_span)
{
    const struct sonde_profile *p = n->p;
    int rc = 0;
    for (uint32_t i = 0; !rc && i < p->spans_count; i++) {
        const struct sonde_profile_span *s = &p->spans[i];
        const uint32_t told = span_own_find(n, s->parent, s);
        rc = span_own_note(n, told, i);
        /* What is of no one thread, such as a request, may overlap with others and is in none. */
        if (!rc && of_span[i] != told && p->threads[s->thread].tid) {
            rc = span_own_note(n, of_span[i], i);
        }
    }
    static const struct sonde_profile_span any_trace;
    for (uint32_t i = 0; !rc && i < p->parts_count; i++) {
        const struct sonde_profile_part *part = &p->parts[i];
        if (part->span < p->spans_count) {
            rc = span_own_note(n, span_own_find(n, part->request, &any_trace), part->span);
        }
    }
    return rc;
}

/* ---- Times ----------------------------------------------------------------------------------- */

/* Of each outer span what the union of those inside covers. */
static void take_off(struct nesting *n, uint64_t *own)
{
    uint64_t covered_to = 0;
    if (n->count) qsort(n->rows, n->count, sizeof(*n->rows), by_outer);
    for (size_t i = 0; i < n->count; i++) {
        const struct inside *row = &n->rows[i];
        if (!i || row->outer != n->rows[i - 1].outer) covered_to = 0;
        const uint64_t from = row->from > covered_to ? row->from : covered_to;
        if (row->to <= from) continue;
        own[row->outer] -= row->to - from;
        covered_to = row->to;
    }
}

int sonde_span_own(const struct sonde_profile *p, uint64_t **out)
{
    struct nesting n = { .p = p };
    uint32_t *of_sample = NULL, *of_span = NULL;
    uint64_t *own = sonde__calloc(p->spans_count ? p->spans_count : 1, sizeof(*own));
    int rc = own ? 0 : SONDE_ENOMEM;
    for (uint32_t i = 0; !rc && i < p->spans_count; i++) {
        own[i] = sonde_span_length(p, &p->spans[i]);
    }
    if (!rc && p->spans_count) {
        rc = sonde_profile_innermost_spans(p, &of_sample, &of_span);
        if (!rc) rc = span_own_index_ids(&n);
        if (!rc) rc = span_own_nest(&n, of_span);
        if (!rc) take_off(&n, own);
    }
    sonde__free(of_sample);
    sonde__free(of_span);
    sonde__free(n.ids);
    sonde__free(n.rows);
    if (rc) sonde__free(own);
    else *out = own;
    return rc;
}
