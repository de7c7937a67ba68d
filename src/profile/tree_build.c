/* tree_build.c - samples folded into a tree.
 *
 * The stacks of a profile are a tree already, of locations; what is left is to merge those that
 * look the same. So the stacks in use are listed once, parents first, each is given its node from
 * its parent's, and a sample costs one look at its stack: the work is in the number of different
 * stacks, not in samples times depth.
 *
 * A child is found by a hash of (parent node, name), unless that cannot find anything: where every
 * stack from the start down to here consists of locations that alone have their name, no other
 * stack can lead to the same node. That holds for all of an imported profile and saves most of
 * the time for it. It also tells which nodes are too small to be drawn before they are made.
 *
 * Trees by thread start over with each thread, and stacks that are truncated are kept apart, so
 * samples are sorted into groups first; what is known of a stack is stamped with its group. */
#include "profile/tree.h"

#include <assert.h>

#include "base/alloc.h"
#include "profile/tree_private.h"
#include "sonde/sonde.h"

#define NODE_MASK ((1u << 30) - 1)

struct memo {
    uint32_t group;          /* it is known for this group; 0 = none */
    uint32_t node : 30;
    uint32_t single : 1;     /* no other stack leads to that node */
    uint32_t pruned : 1;     /* it has no node: this is its nearest ancestor's */
};

struct build {
    const struct sonde_profile *p;
    struct sonde_tree *t;
    struct sonde_budget budget;
    struct sonde_frames frames;
    struct sonde_intern children;  /* (parent, name) -> node */
    uint32_t *sharers;             /* name -> how many locations have it */
    struct memo *memo;             /* by stack */
    uint32_t *used;                /* stacks of the group, parents first */
    uint32_t used_count;
    int use_all;                   /* instead of that list, all stacks in their order */
    uint64_t *weight;              /* by stack, with all above it; NULL: nothing is pruned */
    uint64_t weight_min;
    uint32_t *order;               /* samples, by group */
    uint32_t *ends;                /* group -> where it ends in order */
};

/* ---- Nodes ----------------------------------------------------------------------------------- */

static uint32_t child(struct build *b, uint32_t parent, const struct sonde_frame *f)
{
    const struct sonde_tree *t = b->t;
    const uint32_t hash = sonde_hash_end((uint64_t)parent << 32 | f->name);
    uint32_t at = hash, id;
    while ((id = sonde_intern_next(&b->children, hash, &at))) {
        if (t->nodes[id].parent != parent || t->names->name_of[id] != f->name) continue;
        /* Inlined only if it always is. */
        if (!(f->flags & SONDE_NODE_INLINED)) t->nodes[id].flags &= ~SONDE_NODE_INLINED;
        return id;
    }
    if (sonde_intern_reserve(&b->children, &b->budget)) return 0;
    id = sonde_tree_add(b->t, parent, f);
    if (id) sonde_intern_put(&b->children, hash, id);
    return id;
}

/* List the stack and its callers, unless they are listed. */
static void use_stack(struct build *b, uint32_t group, uint32_t stack)
{
    const uint32_t begin = b->used_count;
    for (uint32_t at = stack; at && b->memo[at].group != group; at = b->p->stacks[at].parent) {
        b->memo[at].group = group;
        b->used[b->used_count++] = at;
    }
    for (uint32_t i = begin, k = b->used_count; i + 1 < k; i++) {
        const uint32_t at = b->used[i];
        b->used[i] = b->used[--k];
        b->used[k] = at;
    }
}

/* The node of a stack whose parent has one. */
static int place_stack(struct build *b, uint32_t base, uint32_t group, uint32_t stack)
{
    const struct sonde_profile_stack *s = &b->p->stacks[stack];
    const struct memo parent =
        s->parent ? b->memo[s->parent] : (struct memo){ .node = base & NODE_MASK, .single = 1 };
    struct memo *memo = &b->memo[stack];
    if (parent.pruned) {
        *memo = (struct memo){ .group = group, .node = parent.node, .pruned = 1 };
        return 0;
    }
    const uint32_t first = b->frames.first[s->location];
    uint32_t row = b->frames.first[s->location + 1], node = parent.node;
    const unsigned single =
        parent.single && row - first == 1 && b->sharers[b->frames.rows[first].name] == 1;
    const unsigned pruned = single && b->weight && b->weight[stack] < b->weight_min;
    while (!pruned && row-- > first) {
        const struct sonde_frame *f = &b->frames.rows[row];
        node = single ? sonde_tree_add(b->t, node, f) : child(b, node, f);
        if (!node) return SONDE_ENOMEM;
    }
    *memo = (struct memo){ .group = group, .node = node & NODE_MASK, .single = single & 1,
                           .pruned = pruned & 1 };
    return 0;
}

/* The node of a stack, the leaf first: nothing is shared with the parent's node, but whole stacks
 * repeat. 0 = no memory. */
static uint32_t node_of_inverted(struct build *b, uint32_t base, uint32_t group, uint32_t stack,
                                 int truncated)
{
    const struct sonde_profile *p = b->p;
    if (b->memo[stack].group == group) return b->memo[stack].node;
    uint32_t node = base;
    for (uint32_t at = stack; at; at = p->stacks[at].parent) {
        const uint32_t location = p->stacks[at].location;
        for (uint32_t row = b->frames.first[location]; row < b->frames.first[location + 1]; row++) {
            node = child(b, node, &b->frames.rows[row]);
            if (!node) return 0;
        }
    }
    if (truncated) node = child(b, node, &b->frames.rows[b->frames.truncated]);
    b->memo[stack] = (struct memo){ .group = group, .node = node & NODE_MASK };
    return node;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Group g holds the samples of thread g / 2 (all threads: 0), truncated if g is odd. */
static uint32_t group_of(const struct sonde_profile_sample *s, const struct sonde_tree_options *o)
{
    return (o->by_thread ? s->thread * 2 : 0) + (s->flags & SONDE_SAMPLE_TRUNCATED ? 1 : 0);
}

/* A counting sort of the samples that pass. */
static int sort_samples(struct build *b, const struct sonde_profile_match *m,
                        const struct sonde_tree_options *o, uint32_t groups)
{
    const struct sonde_profile *p = b->p;
    b->ends = sonde__calloc((size_t)groups + 1, sizeof(*b->ends));
    b->order = sonde__alloc(sonde_profile_match_count(m) * sizeof(*b->order));
    if (!b->ends || !b->order) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (sonde_profile_matches(m, i)) b->ends[group_of(&p->samples[i], o) + 1]++;
    }
    for (uint32_t g = 0; g < groups; g++) b->ends[g + 1] += b->ends[g];
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (sonde_profile_matches(m, i)) b->order[b->ends[group_of(&p->samples[i], o)]++] = i;
    }
    return 0;
}

/* The node under which a group's stacks start; *base is the thread's and is kept for the next. */
static int group_base(struct build *b, uint32_t group, const struct sonde_tree_options *o,
                      uint32_t *thread_node, uint32_t *base)
{
    if (o->by_thread && (!(group & 1) || !*thread_node)) {
        const struct sonde_frame f = {
            .name = sonde_thread_label(b->p, group / 2, &b->t->names->pool, &b->budget),
            .flags = SONDE_NODE_THREAD,
        };
        if (!f.name) return SONDE_ENOMEM;
        *thread_node = sonde_tree_add(b->t, 0, &f);
        if (!*thread_node) return SONDE_ENOMEM;
    }
    *base = *thread_node;
    if (o->invert || !(group & 1)) return 0;
    *base = child(b, *thread_node, &b->frames.rows[b->frames.truncated]);
    return *base ? 0 : SONDE_ENOMEM;
}

static uint32_t used_stack(const struct build *b, uint32_t i)
{
    return b->use_all ? i + 1 : b->used[i];
}

/* The stacks of a group, parents first. A group that has most samples may as well look at all of
 * them in a row, if those that are not in it weigh nothing and are pruned. */
static void list_stacks(struct build *b, uint32_t group, uint32_t begin)
{
    const uint32_t end = b->ends[group];
    b->use_all = b->weight && b->weight_min && (end - begin) >= b->p->samples_count / 4;
    b->used_count = b->use_all ? b->p->stacks_count - 1 : 0;
    for (uint32_t i = begin; i < end && !b->use_all; i++) {
        use_stack(b, group + 1, b->p->samples[b->order[i]].stack);
    }
}

/* All stacks of a group are given their nodes. */
static int place_stacks(struct build *b, uint32_t group, uint32_t begin, uint32_t base)
{
    list_stacks(b, group, begin);
    for (uint32_t i = begin; i < b->ends[group] && b->weight; i++) {
        const struct sonde_profile_sample *s = &b->p->samples[b->order[i]];
        b->weight[s->stack] += s->weight;
    }
    for (uint32_t i = b->used_count; b->weight && i-- > 0;) {
        const uint32_t stack = used_stack(b, i);
        b->weight[b->p->stacks[stack].parent] += b->weight[stack];
    }
    for (uint32_t i = 0; i < b->used_count; i++) {
        if (place_stack(b, base, group + 1, used_stack(b, i))) return SONDE_ENOMEM;
    }
    for (uint32_t i = 0; i < b->used_count && b->weight; i++) { /* for the next group */
        b->weight[used_stack(b, i)] = 0;
    }
    return 0;
}

static int add_group(struct build *b, uint32_t group, uint32_t begin, uint32_t base, int invert)
{
    if (!invert && place_stacks(b, group, begin, base)) return SONDE_ENOMEM;
    for (uint32_t i = begin; i < b->ends[group]; i++) {
        const struct sonde_profile_sample *s = &b->p->samples[b->order[i]];
        struct memo memo = b->memo[s->stack];
        if (invert) {
            memo.node = node_of_inverted(b, base, group + 1, s->stack, (int)(group & 1)) & NODE_MASK;
            memo.pruned = 0;
            if (!memo.node) return SONDE_ENOMEM;
        }
        struct sonde_tree_node *n = &b->t->nodes[memo.node];
        if (memo.pruned) n->total += s->weight;
        else n->self += s->weight;
        n->samples += s->count;
        if (group & 1) b->t->truncated += s->weight;
    }
    return 0;
}

static int add_groups(struct build *b, const struct sonde_tree_options *o, uint32_t groups)
{
    uint32_t begin = 0, thread_node = 0, base;
    for (uint32_t g = 0; g < groups; begin = b->ends[g++]) {
        if (!(g & 1)) thread_node = 0;
        if (begin == b->ends[g]) continue;
        int rc = group_base(b, g, o, &thread_node, &base);
        if (!rc) rc = add_group(b, g, begin, base, o->invert);
        if (rc) return rc;
    }
    return 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* What pruning needs: where it is asked for, and a node can be seen to be small. */
static int init_pruning(struct build *b, const struct sonde_profile_match *m,
                        const struct sonde_tree_options *o)
{
    uint64_t total = 0;
    if (!(o->min_share > 0) || o->invert) return 0;
    for (uint32_t i = 0; i < b->p->samples_count; i++) {
        if (sonde_profile_matches(m, i)) total += b->p->samples[i].weight;
    }
    const double min = (double)total * (o->min_share < 1 ? o->min_share : 1);
    b->weight_min = min < 0x1p63 ? (uint64_t)min : (uint64_t)1 << 63;
    b->weight = sonde__calloc(b->p->stacks_count, sizeof(*b->weight));
    return b->weight ? 0 : SONDE_ENOMEM;
}

static int build_init(struct build *b)
{
    struct sonde_strings *pool = &b->t->names->pool;
    b->budget = sonde_tree_budget(b->t);
    if (sonde_frames_create(&b->frames, b->p, pool, &b->budget)) return SONDE_ENOMEM;
    b->sharers = sonde__calloc(pool->count, sizeof(*b->sharers));
    b->memo = sonde__calloc(b->p->stacks_count, sizeof(*b->memo));
    b->used = sonde__alloc(b->p->stacks_count * sizeof(*b->used));
    if (!b->sharers || !b->memo || !b->used) return SONDE_ENOMEM;
    for (uint32_t i = 0; i <= b->frames.truncated; i++) b->sharers[b->frames.rows[i].name]++;
    return 0;
}

static void build_release(struct build *b)
{
    sonde_frames_release(&b->frames);
    sonde_intern_release(&b->children);
    sonde__free(b->sharers);
    sonde__free(b->memo);
    sonde__free(b->used);
    sonde__free(b->weight);
    sonde__free(b->order);
    sonde__free(b->ends);
}

/* Children come after their parents, so one pass from the end sums up everything below. */
static void sum_up(struct sonde_tree *t)
{
    for (uint32_t i = t->node_count; i-- > 0;) {
        struct sonde_tree_node *n = &t->nodes[i];
        n->total += n->self;
        if (!i) break;
        t->nodes[n->parent].total += n->total;
        t->nodes[n->parent].samples += n->samples;
    }
}

int sonde_tree_build(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                     const struct sonde_tree_options *o, struct sonde_tree **out,
                     struct sonde_err *err)
{
    assert(p && f && o && out);
    struct sonde_profile_match *m;
    int rc = sonde_profile_match_create(p, f, &m, err);
    if (rc) return rc;
    if (!sonde_profile_match_count(m)) {
        sonde_profile_match_destroy(m);
        return sonde_profile_match_none(p, f, err);
    }
    struct build b = { .p = p };
    const uint32_t groups = o->by_thread ? p->threads_count * 2 : 2;
    rc = sonde_tree_create(&b.t);
    if (!rc) rc = build_init(&b);
    if (!rc) rc = init_pruning(&b, m, o);
    if (!rc) rc = sort_samples(&b, m, o, groups);
    if (!rc) rc = add_groups(&b, o, groups);
    if (!rc) {
        b.t->kind = (enum sonde_sample_kind)sonde_profile_match_kind(m);
        b.t->inverted = o->invert != 0;
        sum_up(b.t);
        rc = sonde_tree_link(b.t);
    }
    build_release(&b);
    sonde_profile_match_destroy(m);
    if (rc) {
        sonde_tree_destroy(b.t);
        return sonde_err_set(err, rc, "no memory to fold %u stacks into a tree", p->stacks_count);
    }
    *out = b.t;
    return 0;
}
