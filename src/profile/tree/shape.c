/* shape.c - a tree looked at in another way: recursion folded, the leaf first. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/tree/private.h"
#include "sonde/sonde.h"

/* Children come after their parents, so one pass from the end sums up everything below. Until then
 * a node's total is what is neither its own nor its children's, its samples those that are in no
 * child. */
static void tree_shape_sum_up(struct sonde_tree *t)
{
    for (uint32_t i = t->node_count; i-- > 0;) {
        struct sonde_tree_node *n = &t->nodes[i];
        n->total += n->self;
        n->base_total += n->base_self;
        if (!i) break;
        t->nodes[n->parent].total += n->total;
        t->nodes[n->parent].samples += n->samples;
        t->nodes[n->parent].base_total += n->base_total;
    }
}

/* ---- Recursion ------------------------------------------------------------------------------- */

/* t is walked depth first, so that the way in d to where the walk is can be kept at hand, and
 * whether a function is on it already is one look: climbing the way for each node would take a
 * stack of 65535 functions two thousand million steps. */
struct tree_shape_folding {
    const struct sonde_tree *t;
    struct sonde_tree *d;
    struct sonde_budget budget;
    struct sonde_map children;  /* (parent, name) -> node of d */
    uint32_t *to;                  /* node of t -> node of d */
    struct sonde_tree_rest *rests; /* of t */
    uint32_t *way;                 /* by depth: the node of d that is on the way, down to the
                                    * caller's */
    uint32_t *of_name;             /* by name: the node of d that had it last; 0 = none did */
    struct fold_before { uint32_t way, of_name; } *before; /* by node of t: what it stands in place
                                                            * of */
};

static uint32_t fold_child(struct tree_shape_folding *f, uint32_t parent, uint32_t node)
{
    const uint32_t name = f->t->names->name_of[node];
    const uint32_t hash = sonde_hash_end((uint64_t)parent << 32 | name);
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&f->children, hash, &at))) {
        if (f->d->nodes[id].parent != parent || f->d->names->name_of[id] != name) continue;
        /* Inlined only if it always is. */
        if (!(f->t->nodes[node].flags & SONDE_NODE_INLINED)) {
            f->d->nodes[id].flags &= ~SONDE_NODE_INLINED;
        }
        return id;
    }
    if (sonde_intern_reserve(&f->children, &f->budget)) return 0;
    id = sonde_tree_add_like(f->d, parent, f->t, node);
    if (id) sonde_map_put(&f->children, hash, id);
    return id;
}

static int fold_is_on_way(const struct tree_shape_folding *f, uint32_t node, uint32_t caller)
{
    const struct sonde_tree_node *n = &f->d->nodes[node];
    return node && n->depth <= f->d->nodes[caller].depth && f->way[n->depth] == node;
}

/* The node of d that a node of t becomes; its caller's is known. 0 or SONDE_ENOMEM. */
static int fold_enter(struct tree_shape_folding *f, uint32_t node)
{
    const uint32_t name = f->t->names->name_of[node], caller = f->to[f->t->nodes[node].parent];
    const int function = sonde_tree_is_function(f->t, node);
    if (function && fold_is_on_way(f, f->of_name[name], caller)) {
        f->to[node] = f->of_name[name];
        return 0;
    }
    const uint32_t id = fold_child(f, caller, node);
    if (!id) return SONDE_ENOMEM;
    const uint32_t depth = f->d->nodes[id].depth;
    f->to[node] = id;
    f->before[node] = (struct fold_before){ f->way[depth], f->of_name[name] };
    f->way[depth] = id;
    if (function) f->of_name[name] = id;
    return 0;
}

/* Everything is as it was before the node was entered. What it was folded into changed nothing:
 * that is no child of the caller's. */
static void fold_leave(struct tree_shape_folding *f, uint32_t node)
{
    const struct sonde_tree_node *n = &f->d->nodes[f->to[node]];
    if (n->parent != f->to[f->t->nodes[node].parent]) return;
    f->way[n->depth] = f->before[node].way;
    f->of_name[f->t->names->name_of[node]] = f->before[node].of_name;
}

/* Without recursion: stacks may be deep. */
static int fold_walk(struct tree_shape_folding *f)
{
    const struct sonde_tree_node *nodes = f->t->nodes;
    uint32_t at = nodes[0].first_child;
    while (at) {
        if (fold_enter(f, at)) return SONDE_ENOMEM;
        if (nodes[at].first_child) {
            at = nodes[at].first_child;
            continue;
        }
        for (; at && !nodes[at].next; at = nodes[at].parent) fold_leave(f, at);
        if (!at) break;
        fold_leave(f, at);
        at = nodes[at].next;
    }
    return 0;
}

/* What only others were called through that stand elsewhere now has nothing left. to is
 * overwritten. */
static void drop_empty(struct sonde_tree *d, uint32_t *to)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < d->node_count; i++) {
        const struct sonde_tree_node *n = &d->nodes[i];
        if (i && !n->total && !n->samples && !n->base_total) continue;
        to[i] = kept;
        d->nodes[kept] = *n;
        d->nodes[kept].parent = to[n->parent];
        d->names->name_of[kept++] = d->names->name_of[i];
    }
    d->node_count = kept;
    d->depth_max = 0;
    for (uint32_t i = 0; i < kept; i++) {
        if (d->nodes[i].depth > d->depth_max) d->depth_max = d->nodes[i].depth;
    }
}

static int tree_shape_fold(struct tree_shape_folding *f)
{
    const struct sonde_tree *t = f->t;
    f->to = sonde__calloc(t->node_count, sizeof(*f->to));
    f->rests = sonde__calloc(t->node_count, sizeof(*f->rests));
    f->way = sonde__calloc(t->depth_max + 1, sizeof(*f->way));
    f->of_name = sonde__calloc(t->names->pool.count, sizeof(*f->of_name));
    f->before = sonde__calloc(t->node_count, sizeof(*f->before));
    if (!f->to || !f->rests || !f->way || !f->of_name || !f->before) return SONDE_ENOMEM;
    if (sonde_tree_derive(t, &f->d)) return SONDE_ENOMEM;
    f->budget = sonde_tree_budget(f->d);
    sonde_tree_rests(t, f->rests);
    if (fold_walk(f)) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < t->node_count; i++) {
        struct sonde_tree_node *n = &f->d->nodes[f->to[i]];
        n->self += t->nodes[i].self;
        n->base_self += t->nodes[i].base_self;
        n->total += f->rests[i].weight;
        n->base_total += f->rests[i].base;
        n->samples += f->rests[i].samples;
    }
    tree_shape_sum_up(f->d);
    drop_empty(f->d, f->to);
    return sonde_tree_link(f->d);
}

int sonde_tree_fold(const struct sonde_tree *t, struct sonde_tree **out)
{
    assert(t && out);
    struct tree_shape_folding f = { .t = t };
    const int rc = tree_shape_fold(&f);
    sonde_map_release(&f.children);
    sonde__free(f.to);
    sonde__free(f.rests);
    sonde__free(f.way);
    sonde__free(f.of_name);
    sonde__free(f.before);
    if (rc) sonde_tree_destroy(f.d);
    else *out = f.d;
    return rc;
}

/* ---- The leaf first -------------------------------------------------------------------------- *
 *
 * Every node of t that has weight of its own is a stack. All stacks are in one array; a node of the
 * new tree has those in it that begin with its way, a piece of the array, and its children are the
 * pieces of that piece that have the same next caller, once it is sorted by that. Nodes are taken
 * apart widest first, until there are enough: narrower ones stay as they are, and their weight is
 * in no child. So memory is that of the stacks, and work that of what is seen. */

enum { MADE_MAX = 16 }; /* nodes for each that is wanted; then it is enough */

struct tree_shape_stack {
    uint32_t at;                   /* node of t whose caller is next */
    uint32_t next;                 /* name of that caller; 0 = there is none */
    uint64_t weight, base, samples;
};

struct tree_shape_piece {
    uint32_t node;                 /* of d */
    uint32_t begin, end;           /* in stacks */
    int open;                      /* they are sorted by the next caller */
    double width;                  /* share of the whole, the larger of both */
};

struct inverting {
    const struct sonde_tree *t;
    struct sonde_tree *d;
    struct tree_shape_stack *stacks;
    uint32_t stack_count;
    struct tree_shape_piece *heap;            /* the widest first */
    uint32_t heap_count, heap_cap;
    size_t heap_bytes;
};

static double tree_shape_width_of(const struct sonde_tree *t, uint64_t weight, uint64_t base)
{
    const double now = t->nodes[0].total ? (double)weight / (double)t->nodes[0].total : 0;
    const double before = t->base_total ? (double)base / (double)t->base_total : 0;
    return now > before ? now : before;
}

static int tree_shape_heap_push(struct inverting *v, struct tree_shape_piece p)
{
    const struct sonde_budget b = { .used = &v->heap_bytes, .max = SONDE_TREE_BYTES_MAX };
    struct tree_shape_piece *heap =
        sonde_table_grow(v->heap, v->heap_count, &v->heap_cap, sizeof(*heap), &b);
    if (!heap) return SONDE_ENOMEM;
    v->heap = heap;
    uint32_t i = v->heap_count++;
    for (; i && heap[(i - 1) / 2].width < p.width; i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = p;
    return 0;
}

static struct tree_shape_piece tree_shape_heap_pop(struct inverting *v)
{
    struct tree_shape_piece *heap = v->heap;
    const struct tree_shape_piece top = heap[0], last = heap[--v->heap_count];
    uint32_t i = 0;
    for (uint32_t c; (c = 2 * i + 1) < v->heap_count; i = c) {
        if (c + 1 < v->heap_count && heap[c + 1].width > heap[c].width) c++;
        if (heap[c].width <= last.width) break;
        heap[i] = heap[c];
    }
    heap[i] = last;
    return top;
}

static int by_next(const void *a, const void *b)
{
    const struct tree_shape_stack *x = a, *y = b;
    if (x->next != y->next) return SONDE_CMP(x->next, y->next);
    return SONDE_CMP(x->at, y->at);
}

static void sort_stacks(struct inverting *v, const struct tree_shape_piece *p)
{
    qsort(v->stacks + p->begin, p->end - p->begin, sizeof(*v->stacks), by_next);
}

/* Each stack goes on to its next caller. */
static void piece_open(struct inverting *v, struct tree_shape_piece *p)
{
    if (p->open) return;
    for (uint32_t i = p->begin; i < p->end; i++) {
        struct tree_shape_stack *s = &v->stacks[i];
        s->at = v->t->nodes[s->at].parent;
        s->next = s->at ? v->t->names->name_of[s->at] : 0;
    }
    sort_stacks(v, p);
    p->open = 1;
}

/* Those that end here are the node's own: the thread's start. Returns where the others begin. */
static uint32_t piece_take_own(struct inverting *v, const struct tree_shape_piece *p)
{
    struct sonde_tree_node *n = &v->d->nodes[p->node];
    uint32_t at = p->begin;
    for (; at < p->end && !v->stacks[at].next; at++) {
        n->self += v->stacks[at].weight;
        n->base_self += v->stacks[at].base;
    }
    return at;
}

static uint32_t piece_next_end(const struct inverting *v, const struct tree_shape_piece *p,
                               uint32_t begin)
{
    uint32_t end = begin + 1;
    while (end < p->end && v->stacks[end].next == v->stacks[begin].next) end++;
    return end;
}

/* The node of stacks [begin, end), which have the same next caller. */
static int tree_shape_piece_add(struct inverting *v, uint32_t parent, uint32_t begin, uint32_t end,
                                struct tree_shape_piece *out)
{
    uint64_t weight = 0, base = 0, samples = 0;
    uint32_t inlined = SONDE_NODE_INLINED;
    for (uint32_t i = begin; i < end; i++) {
        weight += v->stacks[i].weight;
        base += v->stacks[i].base;
        samples += v->stacks[i].samples;
        inlined &= v->t->nodes[v->stacks[i].at].flags;
    }
    const uint32_t node = sonde_tree_add_like(v->d, parent, v->t, v->stacks[begin].at);
    if (!node) return SONDE_ENOMEM;
    struct sonde_tree_node *n = &v->d->nodes[node];
    n->flags = (n->flags & ~SONDE_NODE_INLINED) | inlined;
    n->total = weight;
    n->base_total = base;
    n->samples = samples;
    *out = (struct tree_shape_piece){ .node = node, .begin = begin, .end = end,
                                      .width = tree_shape_width_of(v->t, weight, base) };
    return 0;
}

static int take_apart(struct inverting *v, struct tree_shape_piece *p)
{
    piece_open(v, p);
    for (uint32_t at = piece_take_own(v, p), end; at < p->end; at = end) {
        struct tree_shape_piece child;
        end = piece_next_end(v, p, at);
        if (tree_shape_piece_add(v, p->node, at, end, &child) || tree_shape_heap_push(v, child)) {
            return SONDE_ENOMEM;
        }
    }
    return 0;
}

static uint64_t tree_shape_weight_of(const struct inverting *v, uint32_t begin, uint32_t end)
{
    uint64_t weight = 0;
    for (; begin < end; begin++) weight += v->stacks[begin].weight + v->stacks[begin].base;
    return weight;
}

/* From *top down the way, as far as it goes: *top is its end then. Others that are called there
 * stay in what the caller has and no child. */
static int tree_shape_follow(struct inverting *v, const struct sonde_tree_path *under,
                             struct tree_shape_piece *top)
{
    for (size_t i = 0; i < under->count; i++) {
        uint32_t begin = 0, end = 0;
        piece_open(v, top);
        for (uint32_t at = top->begin, next; at < top->end; at = next) {
            next = piece_next_end(v, top, at);
            if (!v->stacks[at].next) continue;
            if (strcmp(v->t->nodes[v->stacks[at].at].name, under->names[i]) != 0) continue;
            if (end && tree_shape_weight_of(v, at, next) <= tree_shape_weight_of(v, begin, end)) {
                continue;
            }
            begin = at;
            end = next;
        }
        if (!end) return 0;
        piece_take_own(v, top);
        if (tree_shape_piece_add(v, top->node, begin, end, top)) return SONDE_ENOMEM;
    }
    return 0;
}

static int find_stacks(struct inverting *v)
{
    const struct sonde_tree *t = v->t;
    struct sonde_tree_rest *rests = sonde__calloc(t->node_count, sizeof(*rests));
    v->stacks = sonde__calloc(t->node_count, sizeof(*v->stacks));
    if (rests && v->stacks) sonde_tree_rests(t, rests);
    for (uint32_t i = 1; rests && v->stacks && i < t->node_count; i++) {
        const struct sonde_tree_node *n = &t->nodes[i];
        const struct tree_shape_stack s = { .at = i, .next = t->names->name_of[i],
                                            .weight = n->self + rests[i].weight,
                                            .base = n->base_self + rests[i].base,
                                            .samples = rests[i].samples };
        if (s.weight || s.base || s.samples) v->stacks[v->stack_count++] = s;
    }
    const int rc = rests && v->stacks ? 0 : SONDE_ENOMEM;
    sonde__free(rests);
    return rc;
}

static int tree_shape_invert(struct inverting *v, uint32_t nodes_max,
                             const struct sonde_tree_path *under)
{
    if (find_stacks(v) || sonde_tree_derive(v->t, &v->d)) return SONDE_ENOMEM;
    struct sonde_tree_node *root = &v->d->nodes[0];
    root->total = v->t->nodes[0].total;
    root->base_total = v->t->nodes[0].base_total;
    root->samples = v->t->nodes[0].samples;
    v->d->inverted = 1;
    struct tree_shape_piece top = { .end = v->stack_count, .open = 1, .width = 1 };
    sort_stacks(v, &top);
    if (tree_shape_follow(v, under, &top) || tree_shape_heap_push(v, top)) return SONDE_ENOMEM;
    /* None that is still to come is wider than the one that is taken apart: so these are the
     * widest. */
    for (uint64_t n = 0; v->heap_count && (!nodes_max || n < nodes_max); n++) {
        struct tree_shape_piece widest = tree_shape_heap_pop(v);
        if (nodes_max && v->d->node_count / MADE_MAX > nodes_max) break;
        if (take_apart(v, &widest)) return SONDE_ENOMEM;
    }
    if (v->heap_count) v->d->min_share = fmax(v->d->min_share, v->heap[0].width);
    return sonde_tree_link(v->d);
}

int sonde_tree_invert(const struct sonde_tree *t, uint32_t nodes_max,
                      const struct sonde_tree_path *under, struct sonde_tree **out)
{
    assert(t && under && out && !t->inverted);
    struct inverting v = { .t = t };
    const int rc = tree_shape_invert(&v, nodes_max, under);
    sonde__free(v.stacks);
    sonde__free(v.heap);
    if (rc) sonde_tree_destroy(v.d);
    else *out = v.d;
    return rc;
}

/* ---- A way ----------------------------------------------------------------------------------- */

uint32_t sonde_tree_find(const struct sonde_tree *t, const struct sonde_tree_path *path,
                         size_t *found)
{
    uint32_t node = 0;
    for (*found = 0; *found < path->count; ++*found) {
        uint32_t next = 0;
        for (uint32_t c = t->nodes[node].first_child; c; c = t->nodes[c].next) {
            if (strcmp(t->nodes[c].name, path->names[*found]) != 0) continue;
            if (!next || t->nodes[c].total > t->nodes[next].total) next = c;
        }
        if (!next) break;
        node = next;
    }
    return node;
}
