/* diff.c - two trees as one. Children are sorted by name in both, so the lists of a pair of
 * nodes are merged like two sorted files. */
#include <assert.h>

#include "base/alloc.h"
#include "profile/tree/private.h"
#include "sonde/sonde.h"

#define NONE UINT32_MAX

/* Nodes that look the same, and the node made of them. */
struct pair {
    uint32_t before, after; /* NONE: only in the other */
    uint32_t node;
};

struct tree_diff_state {
    const struct sonde_tree *before, *after;
    struct sonde_tree *t;
    struct sonde_budget budget;
    struct pair *todo;
    uint32_t todo_count, todo_cap;
    size_t todo_bytes;
};

static const struct sonde_tree_node *tree_diff_node_at(const struct sonde_tree *t, uint32_t i)
{
    return i == NONE ? NULL : &t->nodes[i];
}

static void tree_diff_fill(struct tree_diff_state *d, const struct pair *p)
{
    struct sonde_tree_node *n = &d->t->nodes[p->node];
    const struct sonde_tree_node *b = tree_diff_node_at(d->before, p->before);
    const struct sonde_tree_node *a = tree_diff_node_at(d->after, p->after);
    if (a) {
        n->total = a->total;
        n->self = a->self;
        n->samples = a->samples;
    }
    if (b) {
        n->base_total = b->total;
        n->base_self = b->self;
    }
}

static int tree_diff_add_text(struct tree_diff_state *d, const char *s, uint32_t *out)
{
    *out = sonde_strings_add(&d->t->names->pool, s, strlen(s), &d->budget);
    return *s && !*out ? SONDE_ENOMEM : 0;
}

static int tree_diff_add_pair(struct tree_diff_state *d, uint32_t parent, uint32_t before,
                              uint32_t after)
{
    assert(before != NONE || after != NONE);
    const struct sonde_tree_node *n =
        after != NONE ? &d->after->nodes[after] : &d->before->nodes[before];
    struct sonde_frame f = { .line = n->line, .flags = n->flags };
    if (tree_diff_add_text(d, n->name, &f.name) || tree_diff_add_text(d, n->module, &f.module) ||
        tree_diff_add_text(d, n->file, &f.file)) {
        return SONDE_ENOMEM;
    }
    struct pair p = { .before = before, .after = after, .node = sonde_tree_add(d->t, parent, &f) };
    if (!p.node) return SONDE_ENOMEM;
    tree_diff_fill(d, &p);
    const struct sonde_budget b = { .used = &d->todo_bytes, .max = SONDE_TREE_BYTES_MAX };
    struct pair *todo = sonde_table_grow(d->todo, d->todo_count, &d->todo_cap, sizeof(*todo), &b);
    if (!todo) return SONDE_ENOMEM;
    d->todo = todo;
    d->todo[d->todo_count++] = p;
    return 0;
}

static int add_children(struct tree_diff_state *d, struct pair p)
{
    const struct sonde_tree_node *b = tree_diff_node_at(d->before, p.before);
    const struct sonde_tree_node *a = tree_diff_node_at(d->after, p.after);
    uint32_t x = b ? b->first_child : 0, y = a ? a->first_child : 0;
    while (x || y) {
        const int order = !x   ? 1
                          : !y ? -1
                               : strcmp(d->before->nodes[x].name, d->after->nodes[y].name);
        if (tree_diff_add_pair(d, p.node, order <= 0 ? x : NONE, order >= 0 ? y : NONE)) {
            return SONDE_ENOMEM;
        }
        if (order <= 0) x = d->before->nodes[x].next;
        if (order >= 0) y = d->after->nodes[y].next;
    }
    return 0;
}

int sonde_tree_diff(const struct sonde_tree *before, const struct sonde_tree *after,
                    struct sonde_tree **out)
{
    assert(before && after && out);
    struct tree_diff_state d = { .before = before, .after = after };
    int rc = sonde_tree_create(&d.t);
    if (rc) return rc;
    d.budget = sonde_tree_budget(d.t);
    d.t->kind = after->kind;
    d.t->inverted = after->inverted;
    d.t->truncated = after->truncated;
    d.t->base_total = before->nodes[0].total;
    tree_diff_fill(&d, &(struct pair){ 0, 0, 0 });
    rc = add_children(&d, (struct pair){ 0, 0, 0 });
    while (!rc && d.todo_count) rc = add_children(&d, d.todo[--d.todo_count]);
    if (!rc) rc = sonde_tree_link(d.t);
    sonde__free(d.todo);
    if (rc) {
        sonde_tree_destroy(d.t);
        return rc;
    }
    *out = d.t;
    return 0;
}
