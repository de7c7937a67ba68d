/* build.c - samples folded into a tree.
 *
 * The stacks of a profile are a tree already, of locations; what is left is to merge those that
 * look the same. Weights are put on the stacks and summed up from the last stack to the first,
 * which comes after all it calls; then the stacks are walked from the thread's start down, and each
 * is given its node from its caller's. So the work is in the number of different stacks, not in
 * samples times depth; and where the tree is for a picture, stacks that are too small to be drawn
 * are known by their weight and not even walked.
 *
 * A child is found by a hash of (parent node, name), unless that cannot find anything: where every
 * stack from the start down to here consists of locations that alone have their name, no other
 * stack can lead to the same node. That holds for all of an imported profile and saves most of
 * the time for it. Only there a stack's weight is known to be its node's.
 *
 * Trees by thread start over with each thread, and stacks that are truncated are kept apart, so
 * samples are sorted into groups first. */
#include "profile/tree/tree.h"

#include <assert.h>

#include "base/alloc.h"
#include "profile/tree/build.h"
#include "sonde/sonde.h"

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Group g holds the samples of thread g / 2 (all threads: 0), truncated if g is odd. */
static uint32_t tree_build_group_of(const struct sonde_profile_sample *s,
                                    const struct sonde_tree_options *o)
{
    return (o->by_thread ? s->thread * 2 : 0) + (s->flags & SONDE_SAMPLE_TRUNCATED ? 1 : 0);
}

/* Sums do not overflow: sonde_profile_add_sample sees to that. */
static int tree_build_add_up(struct tree_build *b, const struct sonde_profile_match *m)
{
    int differ = 0;
    for (uint32_t i = 0; i < b->p->samples_count; i++) {
        const struct sonde_profile_sample *s = &b->p->samples[i];
        if (!sonde_profile_matches(m, i)) continue;
        b->total += s->weight;
        if (s->flags & SONDE_SAMPLE_TRUNCATED) b->t->truncated += s->weight;
        differ |= s->count != s->weight;
    }
    if (differ) b->counts = sonde__calloc(b->p->stacks_count, sizeof(*b->counts));
    return differ && !b->counts ? SONDE_ENOMEM : 0;
}

/* A counting sort of the samples that pass. */
static int tree_build_sort_samples(struct tree_build *b, const struct sonde_profile_match *m,
                                   const struct sonde_tree_options *o, uint32_t groups)
{
    const struct sonde_profile *p = b->p;
    b->ends = sonde__calloc((size_t)groups + 1, sizeof(*b->ends));
    b->order = sonde__alloc(sonde_profile_match_count(m) * sizeof(*b->order));
    if (!b->ends || !b->order) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (sonde_profile_matches(m, i)) b->ends[tree_build_group_of(&p->samples[i], o) + 1]++;
    }
    for (uint32_t g = 0; g < groups; g++) b->ends[g + 1] += b->ends[g];
    for (uint32_t i = 0; i < p->samples_count; i++) {
        if (sonde_profile_matches(m, i)) {
            b->order[b->ends[tree_build_group_of(&p->samples[i], o)]++] = i;
        }
    }
    return 0;
}

static int is_empty(const struct tree_build *b, uint32_t group)
{
    return tree_group_begin(b, group) == b->ends[group];
}

/* The node under which a group's stacks start; *base is the thread's and is kept for the next. */
static int group_base(struct tree_build *b, uint32_t group, const struct sonde_tree_options *o,
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
    *base = tree_child(b, *thread_node, &b->frames.rows[b->frames.truncated]);
    return *base ? 0 : SONDE_ENOMEM;
}

/* ---- Weights --------------------------------------------------------------------------------- */

static uint32_t used_stack(const struct tree_build *b, uint32_t i)
{
    return b->use_all ? i + 1 : b->used[i];
}

/* List the stack and its callers, unless they are listed. */
static void use_stack(struct tree_build *b, uint32_t stack)
{
    assert(stack < b->p->stacks_count);
    const uint32_t begin = b->used_count;
    for (uint32_t at = stack; at && !b->folds[at].listed; at = b->p->stacks[at].parent) {
        b->folds[at].listed = 1;
        b->used[b->used_count++] = at;
    }
    for (uint32_t i = begin, k = b->used_count; i + 1 < k; i++) {
        const uint32_t at = b->used[i];
        b->used[i] = b->used[--k];
        b->used[k] = at;
    }
}

static void tree_build_clear(struct tree_build *b)
{
    for (uint32_t i = 0; i < b->used_count && b->gathered; i++) {
        b->folds[used_stack(b, i)] = (struct tree_fold){ 0 };
        if (b->counts) b->counts[used_stack(b, i)] = 0;
    }
    b->folds[0] = (struct tree_fold){ 0 };
    if (b->counts) b->counts[0] = 0;
}

/* Sum up from the last stack to the first, and link those that are not empty. Callers are anywhere
 * in the table, but which ones come is known: they are asked for ahead. */
static void link_stacks(struct tree_build *b)
{
    enum { AHEAD = 64 };
    for (uint32_t i = b->used_count; i-- > 0;) {
        const uint32_t stack = used_stack(b, i), parent = b->p->stacks[stack].parent;
        const uint32_t ahead = used_stack(b, i > AHEAD ? i - AHEAD : 0);
        __builtin_prefetch(&b->folds[b->p->stacks[ahead].parent]);
        struct tree_fold *f = &b->folds[stack], *caller = &b->folds[parent];
        if (!f->weight && !tree_count_of(b, stack)) continue;
        caller->weight += f->weight;
        if (b->counts) b->counts[parent] += b->counts[stack];
        f->next = caller->first & INT32_MAX;
        caller->first = stack;
    }
}

/* Put the group's weights on its stacks, and link these unless the leaf is to be first. A group
 * that has many of the samples looks at all stacks in a row rather than at a list. */
static void tree_build_gather(struct tree_build *b, uint32_t group, int link)
{
    const struct sonde_profile *p = b->p;
    const uint32_t begin = tree_group_begin(b, group), end = b->ends[group];
    tree_build_clear(b);
    b->use_all = end - begin >= p->samples_count / 4;
    b->used_count = b->use_all ? p->stacks_count - 1 : 0;
    b->gathered = group + 1;
    for (uint32_t i = begin; i < end; i++) {
        const struct sonde_profile_sample *s = &p->samples[b->order[i]];
        b->folds[s->stack].weight += s->weight;
        if (b->counts) b->counts[s->stack] += s->count;
        if (!b->use_all) use_stack(b, s->stack);
    }
    if (link) link_stacks(b);
}

/* The least weight that at most nodes_max stacks have. Leaves the first group gathered. */
static uint64_t weight_for(struct tree_build *b, uint32_t groups, uint32_t nodes_max)
{
    struct sonde_tree_bins bins = { { 0 } };
    for (uint32_t g = groups; g-- > 0;) {
        if (is_empty(b, g)) continue;
        tree_build_gather(b, g, 1);
        for (uint32_t i = 0; i < b->used_count; i++) {
            sonde_tree_bins_add(&bins, b->folds[used_stack(b, i)].weight);
        }
    }
    return sonde_tree_bins_least(&bins, nodes_max);
}

/* What is pruned, where that is asked for and can be seen. */
static int init_pruning(struct tree_build *b, const struct sonde_tree_options *o, uint32_t groups)
{
    if (o->invert) return 0;
    const double min = (double)b->total * (o->min_share < 1 ? o->min_share : 1);
    if (min > 0) b->weight_min = min < 0x1p63 ? (uint64_t)min : (uint64_t)1 << 63;
    if (o->nodes_max && b->p->stacks_count > o->nodes_max) {
        const uint64_t least = weight_for(b, groups, o->nodes_max);
        if (least > b->weight_min) b->weight_min = least < b->total ? least : b->total;
    }
    if (!b->weight_min) return 0;
    b->t->min_share = (double)b->weight_min / (double)b->total;
    if (!o->functions) return 0;
    const uint32_t names = b->t->names->pool.count;
    b->tallies = sonde__calloc(names, sizeof(*b->tallies));
    b->on_path = sonde__calloc(names, sizeof(*b->on_path));
    b->t->names->pruned = sonde__calloc(names, sizeof(*b->t->names->pruned));
    b->t->names->pruned_count = names;
    return b->tallies && b->on_path && b->t->names->pruned ? 0 : SONDE_ENOMEM;
}

static int tree_build_add_group(struct tree_build *b, uint32_t group, uint32_t base, int invert)
{
    if (b->gathered != group + 1) tree_build_gather(b, group, !invert);
    if (!invert) return tree_place_stacks(b, group, base);
    for (uint32_t i = 0; i < b->used_count; i++) {
        const uint32_t stack = used_stack(b, i);
        if (!b->folds[stack].weight && !tree_count_of(b, stack)) continue;
        if (tree_place_inverted(b, base, stack, (int)(group & 1))) return SONDE_ENOMEM;
    }
    return 0;
}

static int add_groups(struct tree_build *b, const struct sonde_tree_options *o, uint32_t groups)
{
    uint32_t thread_node = 0, base;
    for (uint32_t g = 0; g < groups; g++) {
        if (!(g & 1)) thread_node = 0;
        if (is_empty(b, g)) continue;
        int rc = group_base(b, g, o, &thread_node, &base);
        if (!rc) rc = tree_build_add_group(b, g, base, o->invert);
        if (rc) return rc;
    }
    return 0;
}

static void finish_pruned(struct tree_build *b)
{
    char **strings = b->t->names->pool.strings;
    for (uint32_t i = 0; i < b->frames.truncated; i++) {
        const struct sonde_frame *f = &b->frames.rows[i];
        const struct tree_tally *t = &b->tallies[f->name];
        struct sonde_flat *row = &b->t->names->pruned[f->name];
        if (row->name || !t->total) continue;
        row->name = strings[f->name];
        row->module = strings[f->module];
        row->file = strings[f->file];
        row->line = f->line;
        row->total = t->total;
        row->samples = b->counts ? t->samples : t->total;
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

static int has_processes(const struct sonde_profile *p)
{
    for (uint32_t i = 2; i < p->threads_count; i++) {
        if (p->threads[i].pid != p->threads[1].pid) return 1;
    }
    return 0;
}

static int build_init(struct tree_build *b, int by_module)
{
    struct sonde_strings *pool = &b->t->names->pool;
    b->budget = sonde_tree_budget(b->t);
    if (sonde_frames_create(&b->frames, b->p, pool, &b->budget)) return SONDE_ENOMEM;
    if (by_module && has_processes(b->p) &&
        sonde_frames_by_module(&b->frames, pool, &b->budget)) {
        return SONDE_ENOMEM;
    }
    b->sharers = sonde__calloc(pool->count, sizeof(*b->sharers));
    b->folds = sonde__calloc(b->p->stacks_count, sizeof(*b->folds));
    b->used = sonde__alloc(b->p->stacks_count * sizeof(*b->used));
    b->only = sonde__calloc(b->p->locations_count, sizeof(*b->only));
    if (!b->sharers || !b->folds || !b->used || !b->only) return SONDE_ENOMEM;
    for (uint32_t i = 0; i <= b->frames.truncated; i++) b->sharers[b->frames.rows[i].name]++;
    for (uint32_t i = 1; i < b->p->locations_count; i++) {
        const uint32_t first = b->frames.first[i];
        if (b->frames.first[i + 1] == first + 1) b->only[i] = b->frames.rows[first].name;
    }
    return 0;
}

static void build_release(struct tree_build *b)
{
    sonde_frames_release(&b->frames);
    sonde_map_release(&b->children);
    sonde__free(b->sharers);
    sonde__free(b->folds);
    sonde__free(b->counts);
    sonde__free(b->used);
    sonde__free(b->tallies);
    sonde__free(b->on_path);
    sonde__free(b->only);
    sonde__free(b->order);
    sonde__free(b->ends);
}

/* Children come after their parents, so one pass from the end sums up everything below. */
static void tree_build_sum_up(struct sonde_tree *t)
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
    int rc = sonde_profile_match_some(p, f, &m, err);
    if (rc) return rc;
    struct tree_build b = { .p = p };
    const uint32_t groups = o->by_thread ? p->threads_count * 2 : 2;
    rc = sonde_tree_create(&b.t);
    if (!rc) rc = build_init(&b, o->by_module);
    if (!rc) rc = tree_build_sort_samples(&b, m, o, groups);
    if (!rc) rc = tree_build_add_up(&b, m);
    if (!rc) rc = init_pruning(&b, o, groups);
    if (!rc) rc = add_groups(&b, o, groups);
    if (!rc) {
        b.t->kind = (enum sonde_sample_kind)sonde_profile_match_kind(m);
        b.t->inverted = o->invert != 0;
        if (b.tallies) finish_pruned(&b);
        tree_build_sum_up(b.t);
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
