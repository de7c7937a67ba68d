/* callgrind_stacks.c - stacks from a call graph. The graph knows what a function cost in itself and
 * what each of its callers' calls cost, but not what a callee cost on behalf of whose caller. As
 * gprof does, a cost is taken to be shared alike: of a function that is reached with the cost W,
 * every part (itself, each call) gets its share of W. Where each function has one caller that is
 * exact.
 *
 * Recursion is folded: a call of a function that is on the way already has no share. Where what is
 * left is less than a hundred-thousandth of all, the walk ends, and so it does in a graph with too
 * many paths: memory and time are bounded whatever the graph is.
 *
 * Both would move costs from one function to another. What a function cost in itself is known,
 * though, so the walk only decides how that is divided among the function's stacks; one that the
 * walk did not get to is put below a caller that has a stack. So every function's own cost is
 * exactly callgrind's, and so is the sum. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/formats/callgrind.h"
#include "profile/formats/import.h"
#include "sonde/sonde.h"

enum { STACKS_MAX = 1000000, DEPTH_MAX = 1000, SMALLEST = 100000 };
#define COST_MAX ((uint64_t)1 << 63)

void sonde_callgrind_init(struct sonde_callgrind *g, size_t bytes_max)
{
    *g = (struct sonde_callgrind){ .bytes_max = bytes_max };
}

void sonde_callgrind_release(struct sonde_callgrind *g)
{
    sonde__free(g->nodes);
    sonde__free(g->edges);
    sonde_map_release(&g->by_location);
    sonde_map_release(&g->by_ends);
}

int sonde_callgrind_function(struct sonde_callgrind *g, uint32_t location, uint32_t *out)
{
    const struct sonde_budget b = { .used = &g->bytes, .max = g->bytes_max };
    const uint32_t hash = sonde_hash_end(location);
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&g->by_location, hash, &at))) {
        *out = id - 1;
        if (g->nodes[*out].location == location) return 0;
    }
    void *grown = sonde_table_grow(g->nodes, g->node_count, &g->node_cap, sizeof(*g->nodes), &b);
    if (!grown || sonde_intern_reserve(&g->by_location, &b)) return SONDE_ENOMEM;
    g->nodes = grown;
    *out = g->node_count++;
    g->nodes[*out] = (struct sonde_callgrind_node){ .location = location };
    sonde_map_put(&g->by_location, hash, *out + 1);
    return 0;
}

int sonde_callgrind_self(struct sonde_callgrind *g, uint32_t node, uint64_t cost)
{
    assert(node < g->node_count);
    if (cost >= COST_MAX - g->total) return SONDE_EFORMAT;
    g->total += cost;
    g->nodes[node].self += cost;
    return 0;
}

int sonde_callgrind_call(struct sonde_callgrind *g, uint32_t from, uint32_t to, uint64_t cost)
{
    assert(from < g->node_count && to < g->node_count);
    const struct sonde_budget b = { .used = &g->bytes, .max = g->bytes_max };
    struct sonde_callgrind_node *n = &g->nodes[from];
    if (cost >= COST_MAX - n->calls) return SONDE_EFORMAT;
    g->nodes[to].called |= from != to;
    const uint32_t hash = sonde_hash_end((uint64_t)from << 32 | to);
    uint32_t at = hash, id;
    n->calls += cost;
    while ((id = sonde_map_next(&g->by_ends, hash, &at))) {
        struct sonde_callgrind_edge *e = &g->edges[id - 1];
        if (e->from != from || e->to != to) continue;
        e->cost += cost;
        return 0;
    }
    void *grown = sonde_table_grow(g->edges, g->edge_count, &g->edge_cap, sizeof(*g->edges), &b);
    if (!grown || sonde_intern_reserve(&g->by_ends, &b)) return SONDE_ENOMEM;
    g->edges = grown;
    g->edges[g->edge_count++] =
        (struct sonde_callgrind_edge){ .cost = cost, .from = from, .to = to,
                                       .next = n->first_call };
    n->first_call = g->edge_count;
    sonde_map_put(&g->by_ends, hash, g->edge_count);
    return 0;
}

/* ---- Walking the graph ----------------------------------------------------------------------- */

/* A function on the way. Shares are dealt out from `dealt`, so that they add up whatever is
 * rounded. */
struct callgrind_stacks_step {
    uint64_t weight, given;       /* that it was reached with, and passed on */
    unsigned __int128 dealt, all; /* of the costs of its parts, so far and in all */
    uint32_t node, stack;
    uint32_t edge;                /* that comes next, + 1 */
};

/* A stack that ends in a function, and what the walk gave it of the function's own cost. */
struct callgrind_stacks_share {
    uint64_t weight;
    uint32_t node, stack;
};

struct callgrind_stacks_walk {
    struct sonde_callgrind *g;
    struct sonde_profile *p;
    struct sonde_err *err;
    struct callgrind_stacks_step path[DEPTH_MAX];
    uint32_t depth;
    uint32_t stacks;
    struct callgrind_stacks_share *shares;
    uint32_t share_count, share_cap;
    size_t bytes;
    uint64_t smallest;
    int shared;                   /* some function has several callers */
};

static int callgrind_stacks_give(struct callgrind_stacks_walk *w, uint32_t node, uint32_t stack,
                                 uint64_t weight)
{
    void *table = w->shares;
    const int rc = sonde_import_grow(w->p, &w->bytes, &table, w->share_count, &w->share_cap,
                                     sizeof(*w->shares), w->err);
    if (rc) return rc;
    w->shares = table;
    w->shares[w->share_count++] = (struct callgrind_stacks_share){ weight, node, stack };
    w->g->nodes[node].given += weight;
    return 0;
}

/* weight * part / all, for a part of all. */
static uint64_t callgrind_stacks_portion(uint64_t weight, unsigned __int128 part,
                                         unsigned __int128 all)
{
    /* Both are below 2^96 or so: the quotient is taken of what fits into 128 bits. */
    while (all >> 63) part >>= 1, all >>= 1;
    return (uint64_t)(part * weight / all);
}

/* What a part that costs so much gets. */
static uint64_t callgrind_stacks_deal(struct callgrind_stacks_step *s, uint64_t cost)
{
    if (!s->all) return 0;
    s->dealt += cost;
    const uint64_t until = callgrind_stacks_portion(s->weight, s->dealt, s->all);
    const uint64_t share = until > s->given ? until - s->given : 0;
    s->given += share;
    return share;
}

static int callgrind_stacks_enter(struct callgrind_stacks_walk *w, uint32_t node, uint32_t above,
                                  uint64_t weight)
{
    assert(w->depth <= DEPTH_MAX && node < w->g->node_count);
    struct sonde_callgrind_node *n = &w->g->nodes[node];
    const uint32_t stack = sonde_profile_stack(w->p, above, n->location);
    if (!stack) return sonde_import_no_room(w->p, w->err);
    if (!n->stack) {
        n->stack = stack;
        n->depth = w->depth;
    }
    w->stacks++;
    if (w->depth == DEPTH_MAX || weight <= w->smallest || w->stacks >= STACKS_MAX) {
        const uint64_t own =
            callgrind_stacks_portion(weight, n->self, (unsigned __int128)n->self + n->calls + 1);
        return n->self ? callgrind_stacks_give(w, node, stack, own ? own : 1) : 0;
    }
    struct callgrind_stacks_step *s = &w->path[w->depth++];
    *s = (struct callgrind_stacks_step){ .weight = weight, .all = n->self, .node = node,
                                         .stack = stack, .edge = n->first_call };
    n->on_path = 1;
    for (uint32_t e = n->first_call; e; e = w->g->edges[e - 1].next) {
        if (!w->g->nodes[w->g->edges[e - 1].to].on_path) s->all += w->g->edges[e - 1].cost;
    }
    const uint64_t own = callgrind_stacks_deal(s, n->self);
    return own ? callgrind_stacks_give(w, node, stack, own) : 0;
}

static int callgrind_stacks_walk_from(struct callgrind_stacks_walk *w, uint32_t root,
                                      uint64_t weight)
{
    assert(!w->depth);
    int rc = callgrind_stacks_enter(w, root, 0, weight);
    while (!rc && w->depth) {
        struct callgrind_stacks_step *s = &w->path[w->depth - 1];
        if (!s->edge) {
            w->g->nodes[s->node].on_path = 0;
            w->depth--;
            continue;
        }
        const struct sonde_callgrind_edge *e = &w->g->edges[s->edge - 1];
        s->edge = e->next;
        if (w->g->nodes[e->to].on_path) continue;
        const uint64_t share = callgrind_stacks_deal(s, e->cost);
        if (share) rc = callgrind_stacks_enter(w, e->to, s->stack, share);
    }
    return rc;
}

static int most_expensive_first(const void *a, const void *b, void *nodes)
{
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct sonde_callgrind_node *x = (struct sonde_callgrind_node *)nodes + i;
    const struct sonde_callgrind_node *y = (struct sonde_callgrind_node *)nodes + k;
    const uint64_t left = x->self + x->calls, right = y->self + y->calls;
    if (left != right) return SONDE_CMP(right, left);
    return SONDE_CMP(i, k);
}

/* Functions below those where the walk ended: each below the first caller that has a stack. */
static int place_rest(struct callgrind_stacks_walk *w)
{
    struct sonde_callgrind *g = w->g;
    uint32_t *queue = sonde__calloc(g->node_count, sizeof(*queue)), count = 0;
    int rc = queue ? 0 : sonde_import_no_room(w->p, w->err);
    for (uint32_t i = 0; !rc && i < g->node_count; i++) {
        if (g->nodes[i].stack) queue[count++] = i;
    }
    for (uint32_t i = 0; !rc && i < count; i++) {
        const struct sonde_callgrind_node *from = &g->nodes[queue[i]];
        const int deep = from->depth >= DEPTH_MAX;
        for (uint32_t e = from->first_call; !rc && e; e = g->edges[e - 1].next) {
            struct sonde_callgrind_node *to = &g->nodes[g->edges[e - 1].to];
            if (to->stack) continue;
            to->stack = sonde_profile_stack(w->p, deep ? 0 : from->stack, to->location);
            to->depth = deep ? 0 : from->depth + 1;
            if (!to->stack) rc = sonde_import_no_room(w->p, w->err);
            assert(count < g->node_count); /* each is there once */
            queue[count++] = g->edges[e - 1].to;
        }
    }
    sonde__free(queue);
    return rc;
}

/* The program starts at what nobody calls. A graph that is all cycles has no such function; then,
 * and for what is reached from none of them, the most expensive one stands in. */
static int walk_all(struct callgrind_stacks_walk *w, uint32_t *order)
{
    struct sonde_callgrind *g = w->g;
    int rc = 0;
    for (uint32_t i = 0; i < g->node_count; i++) order[i] = i;
    qsort_r(order, g->node_count, sizeof(*order), most_expensive_first, g->nodes);
    for (int any = 0; any < 2; any++) {
        for (uint32_t i = 0; !rc && i < g->node_count; i++) {
            const struct sonde_callgrind_node *n = &g->nodes[order[i]];
            const uint64_t cost = n->self + n->calls;
            if (n->stack || !cost || (n->called && !any)) continue;
            rc = callgrind_stacks_walk_from(w, order[i], cost);
        }
        if (!rc) rc = place_rest(w);
    }
    return rc;
}

/* ---- Samples --------------------------------------------------------------------------------- */

/* Every function's own cost, divided among its stacks as the walk did. */
static int make_samples(struct callgrind_stacks_walk *w)
{
    int rc = 0;
    for (uint32_t i = 0; !rc && i < w->g->node_count; i++) {
        const struct sonde_callgrind_node *n = &w->g->nodes[i];
        if (n->self && !n->given) rc = callgrind_stacks_give(w, i, n->stack, 1);
    }
    for (uint32_t i = 0; !rc && i < w->share_count; i++) {
        struct sonde_callgrind_node *n = &w->g->nodes[w->shares[i].node];
        n->dealt += w->shares[i].weight;
        const uint64_t until = callgrind_stacks_portion(n->self, n->dealt, n->given);
        const struct sonde_profile_sample s = { .stack = w->shares[i].stack, .count = 1,
                                                .weight = until - n->sampled,
                                                .kind = SONDE_SAMPLE_OTHER };
        n->sampled = until;
        rc = sonde_import_sample(w->p, &s, w->err);
    }
    return rc;
}

int sonde_callgrind_stacks(struct sonde_callgrind *g, struct sonde_profile *p,
                           struct sonde_import *how, struct sonde_err *err)
{
    if (!g->total) return sonde_err_set(err, SONDE_EFORMAT, "no costs in it");
    struct callgrind_stacks_walk *w = sonde__calloc(1, sizeof(*w));
    uint32_t *callers = sonde__calloc(g->node_count, sizeof(*callers));
    int rc = w && callers ? 0 : sonde_import_no_room(p, err);
    if (!rc) {
        w->g = g;
        w->p = p;
        w->err = err;
        w->smallest = g->total / SMALLEST;
        for (uint32_t i = 0; i < g->edge_count; i++) {
            w->shared |= g->edges[i].from != g->edges[i].to && ++callers[g->edges[i].to] > 1;
        }
        rc = walk_all(w, callers); /* which is not needed any more */
        if (!rc) rc = make_samples(w);
        if (!rc && w->shared) {
            sonde_import_note(how, "callgrind knows callers and callees, not stacks: costs of "
                              "functions with several callers are shared out in proportion");
        }
    }
    sonde__free(callers);
    if (w) sonde__free(w->shares);
    sonde__free(w);
    return rc;
}
