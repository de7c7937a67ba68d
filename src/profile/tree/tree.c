/* tree.c - a tree and its flat table; build.c makes one from samples, diff.c from two. */
#include "profile/tree/tree.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/cmp.h"
#include "profile/tree/private.h"
#include "sonde/sonde.h"

int sonde_tree_create(struct sonde_tree **out)
{
    struct sonde_tree *t = sonde__calloc(1, sizeof(*t));
    if (!t) return SONDE_ENOMEM;
    t->names = sonde__calloc(1, sizeof(*t->names));
    if (!t->names) goto fail;
    const struct sonde_budget b = sonde_tree_budget(t);
    if (sonde_strings_init(&t->names->pool, &b)) goto fail;
    struct sonde_frame root = { .name = sonde_strings_add(&t->names->pool, "all", 3, &b) };
    if (!root.name) goto fail;
    sonde_tree_add(t, 0, &root);
    if (!t->node_count) goto fail;
    t->nodes[0].depth = t->depth_max = 0;
    *out = t;
    return 0;
fail:
    sonde_tree_destroy(t);
    return SONDE_ENOMEM;
}

void sonde_tree_destroy(struct sonde_tree *t)
{
    if (!t) return;
    if (t->names) {
        if (!t->names->borrowed) sonde_strings_release(&t->names->pool);
        sonde__free(t->names->name_of);
        sonde__free(t->names->pruned);
        sonde__free(t->names);
    }
    sonde__free(t->nodes);
    sonde__free(t);
}

int sonde_tree_derive(const struct sonde_tree *t, struct sonde_tree **out)
{
    struct sonde_tree *d = sonde__calloc(1, sizeof(*d));
    if (!d) return SONDE_ENOMEM;
    d->names = sonde__calloc(1, sizeof(*d->names));
    if (d->names) {
        d->names->pool = t->names->pool;
        d->names->borrowed = 1;
        sonde_tree_add_like(d, 0, t, 0);
    }
    if (!d->node_count) {
        sonde_tree_destroy(d);
        return SONDE_ENOMEM;
    }
    d->kind = t->kind;
    d->inverted = t->inverted;
    d->base_total = t->base_total;
    d->min_share = t->min_share;
    d->truncated = t->truncated;
    *out = d;
    return 0;
}

static int tree_grow(struct sonde_tree *t)
{
    const struct sonde_budget b = sonde_tree_budget(t);
    struct sonde_tree_node *nodes =
        sonde_table_grow(t->nodes, t->node_count, &t->node_cap, sizeof(*nodes), &b);
    if (!nodes) return SONDE_ENOMEM;
    t->nodes = nodes;
    uint32_t *name_of = sonde_table_grow(t->names->name_of, t->node_count, &t->names->name_of_cap,
                                         sizeof(*name_of), &b);
    if (!name_of) return SONDE_ENOMEM;
    t->names->name_of = name_of;
    return 0;
}

uint32_t sonde_tree_add(struct sonde_tree *t, uint32_t parent, const struct sonde_frame *f)
{
    assert(!t->node_count || parent < t->node_count);
    /* name_of may be behind when its growth failed. */
    if ((t->node_count >= t->node_cap || t->node_count >= t->names->name_of_cap) && tree_grow(t)) {
        return 0;
    }
    const struct sonde_strings *pool = &t->names->pool;
    const uint32_t id = t->node_count++;
    const uint32_t depth = id ? t->nodes[parent].depth + 1 : 0;
    t->nodes[id] = (struct sonde_tree_node){
        .name = pool->strings[f->name],
        .module = pool->strings[f->module],
        .file = pool->strings[f->file],
        .line = f->line,
        .flags = f->flags,
        .parent = parent,
        .depth = depth,
    };
    t->names->name_of[id] = f->name;
    if (depth > t->depth_max) t->depth_max = depth;
    return id;
}

uint32_t sonde_tree_add_like(struct sonde_tree *d, uint32_t parent, const struct sonde_tree *t,
                             uint32_t like)
{
    assert(like < t->node_count);
    const uint32_t id = sonde_tree_add(d, parent, &(struct sonde_frame){ 0 });
    if (!d->node_count) return 0;
    const struct sonde_tree_node *from = &t->nodes[like];
    struct sonde_tree_node *to = &d->nodes[id];
    if (id || !like) {
        to->name = from->name;
        to->module = from->module;
        to->file = from->file;
        to->line = from->line;
        to->flags = from->flags;
        d->names->name_of[id] = t->names->name_of[like];
    }
    return id;
}

void sonde_tree_rests(const struct sonde_tree *t, struct sonde_tree_rest *out)
{
    for (uint32_t i = 0; i < t->node_count; i++) {
        const struct sonde_tree_node *n = &t->nodes[i];
        assert(n->total >= n->self && n->base_total >= n->base_self);
        out[i] = (struct sonde_tree_rest){ n->total - n->self, n->samples,
                                           n->base_total - n->base_self };
    }
    for (uint32_t i = 1; i < t->node_count; i++) {
        const struct sonde_tree_node *n = &t->nodes[i];
        struct sonde_tree_rest *above = &out[n->parent];
        above->weight -= n->total;
        above->samples -= n->samples < above->samples ? n->samples : above->samples;
        above->base -= n->base_total;
    }
}

size_t sonde_tree_bytes(const struct sonde_tree *t)
{
    return sizeof(*t) + t->names->bytes;
}

/* ---- Children in order ----------------------------------------------------------------------- */

static int by_text(const void *a, const void *b, void *pool)
{
    char **strings = ((const struct sonde_strings *)pool)->strings;
    return strcmp(strings[*(const uint32_t *)a], strings[*(const uint32_t *)b]);
}

/* String id -> its place in the order of all texts, so that names are compared once, not once a
 * node. */
static uint32_t *rank_names(struct sonde_strings *pool)
{
    uint32_t *order = sonde__alloc(pool->count * sizeof(*order));
    uint32_t *rank = sonde__alloc(pool->count * sizeof(*rank));
    if (order && rank) {
        for (uint32_t i = 0; i < pool->count; i++) order[i] = i;
        qsort_r(order, pool->count, sizeof(*order), by_text, pool);
        for (uint32_t i = 0; i < pool->count; i++) rank[order[i]] = i;
    } else {
        sonde__free(rank);
        rank = NULL;
    }
    sonde__free(order);
    return rank;
}

/* Sort one node's list. Most have one child, so this is rarely much work. */
static int sort_children(struct sonde_tree *t, uint32_t node, const uint32_t *rank,
                         uint64_t **keys, uint32_t *keys_cap)
{
    assert(node < t->node_count);
    uint32_t count = 0;
    for (uint32_t c = t->nodes[node].first_child; c; c = t->nodes[c].next) {
        if (count == *keys_cap) {
            const uint32_t cap = count ? count * 2 : 64;
            uint64_t *grown = sonde__realloc(*keys, cap * sizeof(*grown));
            if (!grown) return SONDE_ENOMEM;
            *keys = grown;
            *keys_cap = cap;
        }
        (*keys)[count++] = (uint64_t)rank[t->names->name_of[c]] << 32 | c;
    }
    qsort(*keys, count, sizeof(**keys), sonde_cmp_u64);
    uint32_t *link = &t->nodes[node].first_child;
    for (uint32_t i = 0; i < count; i++) {
        *link = (uint32_t)(*keys)[i];
        link = &t->nodes[*link].next;
    }
    *link = 0;
    return 0;
}

int sonde_tree_link(struct sonde_tree *t)
{
    for (uint32_t i = t->node_count - 1; i; i--) {
        struct sonde_tree_node *n = &t->nodes[i], *parent = &t->nodes[n->parent];
        assert(n->parent < i); /* parents come first */
        n->next = parent->first_child;
        parent->first_child = i;
    }
    uint32_t *rank = rank_names(&t->names->pool);
    if (!rank) return SONDE_ENOMEM;
    uint64_t *keys = NULL;
    uint32_t keys_cap = 0;
    int rc = 0;
    for (uint32_t i = 0; i < t->node_count && !rc; i++) {
        const uint32_t first = t->nodes[i].first_child;
        if (first && t->nodes[first].next) rc = sort_children(t, i, rank, &keys, &keys_cap);
    }
    sonde__free(keys);
    sonde__free(rank);
    return rc;
}

/* ---- The largest nodes ----------------------------------------------------------------------- */

uint64_t sonde_tree_bins_least(const struct sonde_tree_bins *bins, uint32_t most)
{
    uint64_t count = 0, least = UINT64_MAX;
    for (unsigned bin = 64 * 8; bin-- > 0;) {
        count += bins->counts[bin];
        if (count > most) return least;
        /* The least of its weights: in the lowest octaves there are bins between whole numbers. */
        const unsigned octave = bin / 8, eighths = 8 + bin % 8;
        least = octave < 3 ? (eighths + (1u << (3 - octave)) - 1) >> (3 - octave)
                           : (uint64_t)eighths << (octave - 3);
    }
    return 0;
}

#define WHOLE 0x1p62 /* what has a share of 1 */

static void add_share(const struct sonde_tree *t, uint32_t node, struct sonde_tree_bins *bins)
{
    const struct sonde_tree_node *n = &t->nodes[node];
    const double now = t->nodes[0].total ? WHOLE / (double)t->nodes[0].total : 0;
    const double before = t->base_total ? WHOLE / (double)t->base_total : 0;
    const double a = (double)n->total * now, b = (double)n->base_total * before;
    sonde_tree_bins_add(bins, (uint64_t)(a > b ? a : b));
}

static double tree_share_of(const struct sonde_tree_bins *bins, uint32_t nodes_max)
{
    const double least = (double)sonde_tree_bins_least(bins, nodes_max);
    return least < WHOLE ? least / WHOLE : 1;
}

double sonde_tree_share_for(const struct sonde_tree *t, uint32_t nodes_max)
{
    struct sonde_tree_bins bins = { { 0 } };
    if (t->node_count <= nodes_max) return 0;
    for (uint32_t i = 0; i < t->node_count; i++) add_share(t, i, &bins);
    return tree_share_of(&bins, nodes_max);
}

double sonde_tree_share_under(const struct sonde_tree *t, uint32_t node, uint32_t nodes_max)
{
    assert(node < t->node_count);
    if (!node || t->node_count <= nodes_max) return sonde_tree_share_for(t, nodes_max);
    struct sonde_tree_bins bins = { { 0 } };
    uint8_t *below = sonde__calloc(t->node_count, 1);
    if (!below) return -1;
    uint32_t count = 0;
    for (uint32_t i = node; i < t->node_count; i++) {
        below[i] = i == node || below[t->nodes[i].parent];
        if (!below[i]) continue;
        add_share(t, i, &bins);
        count++;
    }
    sonde__free(below);
    return count > nodes_max ? tree_share_of(&bins, nodes_max) : 0;
}

/* ---- Flat table ------------------------------------------------------------------------------ */

struct flat_work {
    const struct sonde_tree *t;
    struct sonde_flat *rows; /* by name; name NULL = not a function of the tree */
    uint32_t *on_path;       /* by name: how many nodes from the root to here have it */
};

static void flat_enter(struct flat_work *w, uint32_t node)
{
    const struct sonde_tree_node *n = &w->t->nodes[node];
    const uint32_t name = w->t->names->name_of[node];
    if (!sonde_tree_is_function(w->t, node)) return;
    struct sonde_flat *row = &w->rows[name];
    if (!row->name) {
        row->name = n->name;
        row->module = n->module;
        row->file = n->file;
        row->line = n->line;
    }
    if (!w->on_path[name]++) {
        row->total += n->total;
        row->samples += n->samples;
        row->base_total += n->base_total;
    }
    if (w->t->inverted) {
        if (sonde_tree_is_function(w->t, n->parent)) return;
        row->self += n->total;
        row->self_samples += n->samples;
        row->base_self += n->base_total;
        return;
    }
    uint64_t below = 0;
    for (uint32_t c = n->first_child; c; c = w->t->nodes[c].next) below += w->t->nodes[c].samples;
    row->self += n->self;
    row->self_samples += n->samples - below;
    row->base_self += n->base_self;
}

static void flat_leave(struct flat_work *w, uint32_t node)
{
    if (sonde_tree_is_function(w->t, node)) w->on_path[w->t->names->name_of[node]]--;
}

/* Every node, parents before children, without recursion: stacks may be deep. */
static void flat_walk(struct flat_work *w)
{
    uint32_t at = w->t->nodes[0].first_child;
    while (at) {
        flat_enter(w, at);
        if (w->t->nodes[at].first_child) {
            at = w->t->nodes[at].first_child;
            continue;
        }
        flat_leave(w, at);
        while (at && !w->t->nodes[at].next) {
            at = w->t->nodes[at].parent;
            flat_leave(w, at);
        }
        if (at) at = w->t->nodes[at].next;
    }
}

static int by_self(const void *a, const void *b)
{
    const struct sonde_flat *x = a, *y = b;
    if (x->self != y->self) return SONDE_CMP(y->self, x->self);
    if (x->total != y->total) return SONDE_CMP(y->total, x->total);
    return strcmp(x->name, y->name);
}

int sonde_tree_flat(const struct sonde_tree *t, struct sonde_flat **out, size_t *count)
{
    assert(t && out && count);
    const uint32_t names = t->names->pool.count;
    struct flat_work w = { .t = t };
    w.rows = sonde__calloc(names, sizeof(*w.rows));
    w.on_path = sonde__calloc(names, sizeof(*w.on_path));
    if (!w.rows || !w.on_path) {
        sonde__free(w.rows);
        sonde__free(w.on_path);
        return SONDE_ENOMEM;
    }
    if (t->names->pruned) {
        memcpy(w.rows, t->names->pruned, t->names->pruned_count * sizeof(*w.rows));
    }
    flat_walk(&w);
    sonde__free(w.on_path);
    size_t n = 0;
    for (uint32_t i = 0; i < names; i++) {
        if (w.rows[i].name) w.rows[n++] = w.rows[i];
    }
    qsort(w.rows, n, sizeof(*w.rows), by_self);
    *out = w.rows;
    *count = n;
    return 0;
}
