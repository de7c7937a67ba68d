/* under.c - a part of a large profile at full resolution: see sonde_tree_build_under. Which
 * stacks are on the way is found in one pass, since callers come before what they call. */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "profile/tree/private.h"
#include "sonde/sonde.h"

/* A node on the way, as it is in the whole. */
struct tree_under_step { uint64_t total, samples, self; };

struct way {
    const struct sonde_profile *p;
    const char *const *names;
    size_t count;
    int truncated;             /* it begins with "[truncated]": stacks that do */
    uint32_t *seen;            /* by stack: how many names of it are on it, from the first on … */
    uint8_t *off;              /* … and whether it has left it, unless that is all */
    struct tree_under_step *steps;    /* by how many names: of samples that have at least so many */
    struct tree_under_step others;    /* what does not begin as it does: truncated, or not */
    uint64_t truncated_weight; /* of all */
    struct sonde_profile_sample *inside; /* samples below its end */
    uint32_t inside_count;
};

static int way_init(struct way *w, const struct sonde_profile *p,
                    const struct sonde_tree_path *path)
{
    w->p = p;
    w->truncated = path->count && !strcmp(path->names[0], SONDE_TRUNCATED_NAME);
    w->names = path->names + w->truncated;
    w->count = path->count - (size_t)w->truncated;
    w->seen = sonde__calloc(p->stacks_count, sizeof(*w->seen));
    w->off = sonde__calloc(p->stacks_count, sizeof(*w->off));
    w->steps = sonde__calloc(w->count + 1, sizeof(*w->steps));
    return w->seen && w->off && w->steps ? 0 : SONDE_ENOMEM;
}

static void way_release(struct way *w)
{
    sonde__free(w->seen);
    sonde__free(w->off);
    sonde__free(w->steps);
    sonde__free(w->inside);
}

static void follow_stack(struct way *w, const struct sonde_frames *f,
                         const struct sonde_strings *pool, uint32_t stack)
{
    const struct sonde_profile_stack *s = &w->p->stacks[stack];
    const uint32_t first = f->first[s->location];
    uint32_t seen = w->seen[s->parent];
    uint8_t off = w->off[s->parent];
    for (uint32_t row = f->first[s->location + 1]; row-- > first && !off && seen < w->count;) {
        if (!strcmp(pool->strings[f->rows[row].name], w->names[seen])) seen++;
        else off = 1;
    }
    w->seen[stack] = seen;
    w->off[stack] = off;
}

static int follow_stacks(struct way *w)
{
    struct sonde_frames frames = { 0 };
    struct sonde_strings pool = { 0 };
    size_t bytes = 0;
    const struct sonde_budget b = { .used = &bytes, .max = SONDE_TREE_BYTES_MAX };
    int rc = sonde_strings_init(&pool, &b);
    if (!rc) rc = sonde_frames_create(&frames, w->p, &pool, &b);
    for (uint32_t i = 1; !rc && i < w->p->stacks_count; i++) follow_stack(w, &frames, &pool, i);
    sonde_frames_release(&frames);
    sonde_strings_release(&pool);
    return rc;
}

/* How far samples go, and those that go all the way. */
static int tree_under_sort_samples(struct way *w, const struct sonde_profile_match *m)
{
    const struct sonde_profile *p = w->p;
    w->inside = sonde__alloc((size_t)sonde_profile_match_count(m) * sizeof(*w->inside) + 1);
    if (!w->inside) return SONDE_ENOMEM;
    for (uint32_t i = 0; i < p->samples_count; i++) {
        const struct sonde_profile_sample *s = &p->samples[i];
        const int truncated = (s->flags & SONDE_SAMPLE_TRUNCATED) != 0;
        if (!sonde_profile_matches(m, i)) continue;
        if (truncated) w->truncated_weight += s->weight;
        const uint32_t seen = w->seen[s->stack];
        struct tree_under_step *step = truncated == w->truncated ? &w->steps[seen] : &w->others;
        step->total += s->weight;
        step->samples += s->count;
        if (step == &w->others) continue;
        if (!w->off[s->stack]) step->self += s->weight;
        if (seen == w->count) w->inside[w->inside_count++] = *s;
    }
    for (size_t k = w->count; k-- > 0;) {
        w->steps[k].total += w->steps[k + 1].total;
        w->steps[k].samples += w->steps[k + 1].samples;
    }
    return 0;
}

static void tree_under_restore(struct sonde_tree_node *n, const struct tree_under_step *step,
                               int last)
{
    n->total = step->total;
    n->samples = step->samples;
    if (!last) n->self = step->self; /* what is below the last one is complete */
}

/* Nodes on the way are as in the whole, where they have more than what is below them here. */
static void restore_steps(const struct way *w, struct sonde_tree *t)
{
    uint32_t node = 0;
    const uint64_t below = t->nodes[0].total;
    tree_under_restore(&t->nodes[0], &w->steps[0], 0);
    t->nodes[0].total += w->others.total;
    t->nodes[0].samples += w->others.samples;
    if (w->truncated) t->nodes[0].self = 0;
    t->truncated = w->truncated_weight;
    if (t->nodes[0].total) t->min_share *= (double)below / (double)t->nodes[0].total;
    for (size_t k = w->truncated ? 0 : 1; k <= w->count; k++) {
        const char *name = k ? w->names[k - 1] : SONDE_TRUNCATED_NAME;
        uint32_t c = t->nodes[node].first_child;
        while (c && strcmp(t->nodes[c].name, name) != 0) c = t->nodes[c].next;
        /* Where two modules have a function of that name, it is both of theirs. */
        if (!c || (t->nodes[c].next && !strcmp(t->nodes[t->nodes[c].next].name, name))) return;
        tree_under_restore(&t->nodes[c], &w->steps[k], k == w->count);
        node = c;
    }
}

static int tree_under_build(struct way *w, const struct sonde_tree_options *o, int kind,
                            struct sonde_tree **out, struct sonde_err *err)
{
    struct sonde_profile view = *w->p; /* is only looked at */
    const struct sonde_profile_filter all = { .kind = kind };
    view.samples = w->inside;
    view.samples_count = w->inside_count;
    const int rc = sonde_tree_build(&view, &all, o, out, err);
    if (!rc) restore_steps(w, *out);
    return rc;
}

/* How many names the sample that goes farthest has on it. */
static size_t tree_under_farthest(const struct way *w)
{
    size_t k = w->count;
    while (k && !w->steps[k].samples && !w->steps[k].total) k--;
    return k;
}

int sonde_tree_build_under(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                           const struct sonde_tree_options *o, const struct sonde_tree_path *path,
                           size_t *found, struct sonde_tree **out, struct sonde_err *err)
{
    assert(!o->invert && !o->by_thread);
    struct way w = { 0 };
    struct sonde_profile_match *m = NULL;
    struct sonde_tree_path rest = *path;
    int rc = sonde_profile_match_some(p, f, &m, err);
    if (rc) return rc;
    while (!rc && rest.count) {
        rc = way_init(&w, p, &rest);
        if (!rc) rc = follow_stacks(&w);
        if (!rc) rc = tree_under_sort_samples(&w, m);
        if (rc || w.inside_count) break;
        const size_t far = tree_under_farthest(&w);
        rest.count = far || w.steps[0].total ? far + (size_t)w.truncated : 0;
        way_release(&w);
        w = (struct way){ 0 };
    }
    const int kind = sonde_profile_match_kind(m);
    sonde_profile_match_destroy(m);
    if (rc) sonde_err_set(err, rc, "no memory to fold %u stacks into a tree", p->stacks_count);
    else if (rest.count) rc = tree_under_build(&w, o, kind, out, err);
    else rc = sonde_tree_build(p, f, o, out, err);
    way_release(&w);
    if (!rc) *found = rest.count;
    return rc;
}
