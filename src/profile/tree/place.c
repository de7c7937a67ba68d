/* place.c - stacks are given their nodes, callers first; and what has none is counted. */
#include <assert.h>

#include "base/alloc.h"
#include "profile/tree/build.h"
#include "sonde/sonde.h"

#define NODE_MASK ((1u << 30) - 1)

/* ---- Nodes ----------------------------------------------------------------------------------- */

uint32_t tree_child(struct tree_build *b, uint32_t parent, const struct sonde_frame *f)
{
    const struct sonde_tree *t = b->t;
    assert(parent < t->node_count);
    const uint32_t hash = sonde_hash_end((uint64_t)parent << 32 | f->name);
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&b->children, hash, &at))) {
        if (t->nodes[id].parent != parent || t->names->name_of[id] != f->name) continue;
        /* Inlined only if it always is. */
        if (!(f->flags & SONDE_NODE_INLINED)) t->nodes[id].flags &= ~SONDE_NODE_INLINED;
        return id;
    }
    if (sonde_intern_reserve(&b->children, &b->budget)) return 0;
    id = sonde_tree_add(b->t, parent, f);
    if (id) sonde_map_put(&b->children, hash, id);
    return id;
}

/* ---- What is pruned -------------------------------------------------------------------------- */

/* Where it goes on when all below is done: far away, and in no cache. */
static void prefetch_next(const struct tree_build *b, uint32_t stack)
{
    __builtin_prefetch(&b->folds[b->folds[stack].next]);
    __builtin_prefetch(&b->p->stacks[b->folds[stack].next]);
}

/* A stack begins or ends: its functions are that many times more on the path. */
static void step_path(struct tree_build *b, uint32_t stack, uint32_t by)
{
    const uint32_t location = b->p->stacks[stack].location, only = b->only[location];
    if (only) {
        b->on_path[only] += by;
        return;
    }
    for (uint32_t row = b->frames.first[location]; row < b->frames.first[location + 1]; row++) {
        b->on_path[b->frames.rows[row].name] += by;
    }
}

/* A stack counts for the functions that are not in its callers. */
static void count_function(struct tree_build *b, uint32_t stack, uint32_t name)
{
    if (b->on_path[name]++) return;
    b->tallies[name].total += b->folds[stack].weight;
    if (b->counts) b->tallies[name].samples += b->counts[stack];
}

static void count_pruned(struct tree_build *b, uint32_t stack)
{
    const uint32_t location = b->p->stacks[stack].location, only = b->only[location];
    if (only) {
        count_function(b, stack, only);
        return;
    }
    for (uint32_t row = b->frames.first[location]; row < b->frames.first[location + 1]; row++) {
        count_function(b, stack, b->frames.rows[row].name);
    }
}

/* All that the stack calls has no nodes either, but the flat table counts it. */
static void walk_pruned(struct tree_build *b, uint32_t top, uint32_t node)
{
    uint32_t at = top;
    for (;;) {
        struct tree_fold *f = &b->folds[at];
        const uint32_t first = f->first;
        prefetch_next(b, at);
        count_pruned(b, at);
        f->node = node & NODE_MASK;
        f->single = 0;
        f->pruned = 1;
        if (first) {
            at = first;
            continue;
        }
        step_path(b, at, (uint32_t)-1);
        while (at != top && !b->folds[at].next) {
            at = b->p->stacks[at].parent;
            step_path(b, at, (uint32_t)-1);
        }
        if (at == top) return;
        at = b->folds[at].next;
    }
}

/* Samples of stacks without a node are those of their functions, and not of the nearest node, where
 * sonde_tree_flat finds them: what is taken off there comes back when it adds that node. */
static void count_pruned_samples(struct tree_build *b, uint32_t group)
{
    struct sonde_flat *rows = b->t->names->pruned;
    for (uint32_t i = tree_group_begin(b, group); i < b->ends[group]; i++) {
        const struct sonde_profile_sample *s = &b->p->samples[b->order[i]];
        const struct tree_fold *f = &b->folds[s->stack];
        if (!f->pruned) continue;
        const uint32_t location = b->p->stacks[s->stack].location;
        struct sonde_flat *row = &rows[b->frames.rows[b->frames.first[location]].name];
        row->self += s->weight;
        row->self_samples += s->count;
        if (sonde_tree_is_function(b->t, f->node)) {
            rows[b->t->names->name_of[f->node]].self_samples -= s->count;
        }
    }
}

/* ---- Placing stacks -------------------------------------------------------------------------- */

/* The node of a stack whose caller has one, unless it is pruned. */
static int place_stack(struct tree_build *b, uint32_t stack)
{
    const struct sonde_profile_stack *s = &b->p->stacks[stack];
    struct tree_fold *f = &b->folds[stack];
    const struct tree_fold *caller = &b->folds[s->parent];
    const uint32_t first = b->frames.first[s->location];
    uint32_t row = b->frames.first[s->location + 1], node = caller->node;
    const uint32_t only = b->only[s->location];
    const unsigned single = caller->single && only && b->sharers[only] == 1;
    b->t->nodes[node].self -= f->weight;
    if (single && f->weight < b->weight_min) {
        b->t->nodes[node].total += f->weight;
        if (b->tallies) walk_pruned(b, stack, node);
        f->pruned = 1;
        return 0;
    }
    b->t->nodes[node].samples -= tree_count_of(b, stack);
    while (row-- > first) {
        const struct sonde_frame *frame = &b->frames.rows[row];
        node = single ? sonde_tree_add(b->t, node, frame) : tree_child(b, node, frame);
        if (!node) return SONDE_ENOMEM;
    }
    b->t->nodes[node].self += f->weight;
    b->t->nodes[node].samples += tree_count_of(b, stack);
    f->node = node & NODE_MASK;
    f->single = single & 1;
    f->pruned = 0;
    if (b->tallies) step_path(b, stack, 1);
    return 0;
}

/* All stacks of the group that are linked, without recursion: they may be deep. */
int tree_place_stacks(struct tree_build *b, uint32_t group, uint32_t base)
{
    assert((base & NODE_MASK) < b->t->node_count);
    uint32_t at = b->folds[0].first;
    b->folds[0].node = base & NODE_MASK;
    b->folds[0].single = 1;
    b->folds[0].pruned = 0;
    b->t->nodes[base].self += b->folds[0].weight;
    b->t->nodes[base].samples += tree_count_of(b, 0);
    while (at) {
        const uint32_t first = b->folds[at].first;
        prefetch_next(b, at);
        if (place_stack(b, at)) return SONDE_ENOMEM;
        if (first && !b->folds[at].pruned) {
            at = first;
            continue;
        }
        for (;; at = b->p->stacks[at].parent) {
            if (at && b->tallies && !b->folds[at].pruned) step_path(b, at, (uint32_t)-1);
            if (!at || b->folds[at].next) break;
        }
        if (at) at = b->folds[at].next;
    }
    if (b->tallies) count_pruned_samples(b, group);
    return 0;
}

/* The leaf first: nothing is shared with the caller's node. */
int tree_place_inverted(struct tree_build *b, uint32_t base, uint32_t stack, int truncated)
{
    assert(base < b->t->node_count && stack < b->p->stacks_count);
    const struct sonde_profile *p = b->p;
    uint32_t node = base;
    for (uint32_t at = stack; at; at = p->stacks[at].parent) {
        const uint32_t location = p->stacks[at].location;
        for (uint32_t row = b->frames.first[location]; row < b->frames.first[location + 1]; row++) {
            node = tree_child(b, node, &b->frames.rows[row]);
            if (!node) return SONDE_ENOMEM;
        }
    }
    if (truncated) node = tree_child(b, node, &b->frames.rows[b->frames.truncated]);
    if (!node) return SONDE_ENOMEM;
    b->t->nodes[node].self += b->folds[stack].weight;
    b->t->nodes[node].samples += tree_count_of(b, stack);
    return 0;
}
