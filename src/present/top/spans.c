/* spans.c - see spans.h. */
#include "present/top/spans.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "sonde/sonde.h"

#define RATE_S 60.0

/* A span with what it is sorted by. Sorting brings equal names together, so that grouping is one
 * pass, and the durations of a group in order, so that quantiles are look-ups. */
struct item {
    const struct sonde_top_span *span;
    const char *parent; /* name of its parent; NULL = not at hand */
};

static int top_spans_by_name(const void *a, const void *b)
{
    const struct item *x = a, *y = b;
    int order = strcmp(x->span->name, y->span->name);
    if (!order && x->parent && y->parent) order = strcmp(x->parent, y->parent);
    if (order) return order;
    return (x->span->duration_s > y->span->duration_s) -
           (x->span->duration_s < y->span->duration_s);
}

static int top_spans_by_count(const void *a, const void *b)
{
    const struct sonde_top_group *x = a, *y = b;
    if (x->count != y->count) return SONDE_CMP(y->count, x->count);
    return strcmp(x->name, y->name);
}

static int same_group(const struct item *a, const struct item *b)
{
    if (strcmp(a->span->name, b->span->name) != 0) return 0;
    return (!a->parent && !b->parent) ||
           (a->parent && b->parent && strcmp(a->parent, b->parent) == 0);
}

/* Nearest rank: the smallest value that at least q of all are not above. */
static double top_spans_quantile(const struct item *sorted, size_t n, double q)
{
    size_t rank = (size_t)ceil(q * (double)n);
    if (rank < 1) rank = 1;
    return sorted[rank - 1].span->duration_s;
}

static int is_failure(const struct sonde_top_span *s)
{
    return s->outcome[0] && strcmp(s->outcome, "ok") != 0;
}

/* Groups of items, which get sorted; out has room for n. Returns how many. Rates are of the spans
 * since from_s, seconds long. */
static size_t top_spans_group(struct item *items, size_t n, double from_s, double seconds,
                              struct sonde_top_group *out)
{
    size_t groups = 0;
    qsort(items, n, sizeof(*items), top_spans_by_name);
    for (size_t from = 0, to; from < n; from = to) {
        struct sonde_top_group g = { .name = items[from].span->name,
                                     .parent = items[from].parent };
        size_t recent = 0;
        for (to = from; to < n && same_group(&items[from], &items[to]); to++) {
            g.errors += (size_t)is_failure(items[to].span);
            recent += items[to].span->start >= from_s;
        }
        g.count = to - from;
        g.rate = seconds > 0 ? (double)recent / seconds : NAN;
        g.p50 = top_spans_quantile(items + from, g.count, 0.50);
        g.p95 = top_spans_quantile(items + from, g.count, 0.95);
        g.p99 = top_spans_quantile(items + from, g.count, 0.99);
        g.max = items[to - 1].span->duration_s;
        out[groups++] = g;
    }
    qsort(out, groups, sizeof(*out), top_spans_by_count);
    return groups;
}

/* ---- Looking up spans by id ---------------------------------------------------------------- */

struct top_spans_by_id { const struct sonde_top_span *span; };

static int compare_ids(const void *a, const void *b)
{
    return strcmp(((const struct top_spans_by_id *)a)->span->span_id,
                  ((const struct top_spans_by_id *)b)->span->span_id);
}

static struct top_spans_by_id *top_spans_index_ids(const struct sonde_top_span *spans, size_t n)
{
    struct top_spans_by_id *ids = sonde__calloc(n + 1, sizeof(*ids));
    if (!ids) return NULL;
    for (size_t i = 0; i < n; i++) ids[i].span = &spans[i];
    qsort(ids, n, sizeof(*ids), compare_ids);
    return ids;
}

static const struct sonde_top_span *find_parent(const struct top_spans_by_id *ids, size_t n,
                                                const struct sonde_top_span *s)
{
    const struct sonde_top_span key = { .span_id = s->parent_id };
    const struct top_spans_by_id want = { .span = &key };
    if (!s->parent_id[0]) return NULL;
    const struct top_spans_by_id *hit = bsearch(&want, ids, n, sizeof(*ids), compare_ids);
    return hit && hit->span != s ? hit->span : NULL;
}

int sonde_top_group_spans(struct sonde_top_data *d)
{
    const size_t n = d->span_count;
    struct top_spans_by_id *ids = top_spans_index_ids(d->spans, n);
    struct item *items = sonde__calloc(n + 1, sizeof(*items));
    d->names = sonde__calloc(n + 1, sizeof(*d->names));
    d->pairs = sonde__calloc(n + 1, sizeof(*d->pairs));
    const int ok = ids && items && d->names && d->pairs;

    if (ok && n > 0) {
        double first = INFINITY;
        for (size_t i = 0; i < n; i++) {
            if (d->spans[i].start < first) first = d->spans[i].start;
            items[i] = (struct item){ .span = &d->spans[i] };
        }
        if (d->spans_from_s > 0) first = d->spans_from_s;
        d->spans_seconds = d->time_s - first;
        /* Of an hour of spans, what happens now is the last minute. */
        const double seconds = d->spans_seconds < RATE_S ? d->spans_seconds : RATE_S;
        const double from_s = d->time_s - seconds;
        d->name_count = top_spans_group(items, n, from_s, seconds, d->names);

        size_t pairs = 0;
        for (size_t i = 0; i < n; i++) {
            const struct sonde_top_span *parent = find_parent(ids, n, &d->spans[i]);
            if (parent) {
                items[pairs++] = (struct item){ .span = &d->spans[i], .parent = parent->name };
            }
        }
        d->pair_count = top_spans_group(items, pairs, from_s, seconds, d->pairs);
    }
    sonde__free(ids);
    sonde__free(items);
    return ok ? 0 : SONDE_ENOMEM;
}

/* ---- The tree of a trace ------------------------------------------------------------------- */

#define NONE ((size_t)-1)

struct link { size_t child, next, parent; int seen; };

/* Walk down from root without recursion: a trace may be as deep as it is long. */
static size_t top_spans_walk(struct link *links, size_t root, struct sonde_top_node *out,
                             size_t count)
{
    size_t at = root;
    int depth = 0;
    while (at != NONE) {
        links[at].seen = 1;
        out[count++] = (struct sonde_top_node){
            .span = at, .depth = depth < SONDE_TOP_DEPTH_MAX ? depth : SONDE_TOP_DEPTH_MAX };
        if (links[at].child != NONE && !links[links[at].child].seen) {
            at = links[at].child;
            depth++;
            continue;
        }
        while (at != root && (links[at].next == NONE || links[links[at].next].seen)) {
            at = links[at].parent;
            depth--;
        }
        if (at == root) break;
        at = links[at].next;
    }
    return count;
}

int sonde_top_trace_tree(const struct sonde_top_data *d, struct sonde_top_node *out)
{
    const size_t n = d->trace_count;
    struct top_spans_by_id *ids = top_spans_index_ids(d->trace, n);
    struct link *links = sonde__calloc(n + 1, sizeof(*links));
    size_t count = 0;
    const int ok = ids && links;

    if (ok) {
        for (size_t i = 0; i < n; i++) {
            links[i] = (struct link){ .child = NONE, .next = NONE, .parent = NONE };
        }
        /* From the last to the first, so that pushing in front leaves children by start. */
        for (size_t i = n; i-- > 0;) {
            const struct sonde_top_span *parent = find_parent(ids, n, &d->trace[i]);
            if (!parent) continue;
            const size_t p = (size_t)(parent - d->trace);
            links[i].parent = p;
            links[i].next = links[p].child;
            links[p].child = i;
        }
        for (size_t i = 0; i < n; i++) {
            if (links[i].parent == NONE) count = top_spans_walk(links, i, out, count);
        }
        /* What is left are cycles, which only a damaged trace has: enter each somewhere. */
        for (size_t i = 0; i < n; i++) {
            if (!links[i].seen) count = top_spans_walk(links, i, out, count);
        }
        assert(count == n); /* the room that out has */
    }
    sonde__free(ids);
    sonde__free(links);
    return ok ? 0 : SONDE_ENOMEM;
}
