/* flamegraph.c - which frames of a tree are drawn and where, and the data for the scripts. See
 * private.h for its format.
 *
 * Only frames that can be seen are touched: a frame below the minimum width takes its callees
 * with it, so the cost follows the picture and not the profile. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/hash.h"
#include "present/flamegraph/private.h"
#include "present/text.h"
#include "sonde/sonde.h"

#define SVG_MIN_WIDTH 0.001
#define HTML_NODES_MAX 150000 /* some ten bytes a frame, and as much again for names */

/* ---- Interning ------------------------------------------------------------------------------ */

/* Of all that makes a frame. Equal texts of a tree are one, so it is enough to look at where they
 * are: reading them for every node would take longer than all the rest. */
static uint32_t flame_hash_frame(const struct sonde_tree_node *n)
{
    uint64_t h = sonde_hash_mix((uintptr_t)n->name, (uintptr_t)n->module);
    h = sonde_hash_mix(h, (uintptr_t)n->file);
    return sonde_hash_end(sonde_hash_mix(h, (uint64_t)n->line << 32 | n->flags));
}

static int flame_same_frame(const struct sonde_tree_node *a, const struct sonde_tree_node *b)
{
    return a->name == b->name && a->module == b->module && a->file == b->file &&
           a->line == b->line && a->flags == b->flags;
}

/* The text as everything after this sees it: valid, without control characters. */
static void flame_add_text(struct sonde_flame *f, const char *s)
{
    for (size_t len = strlen(s), at = 0; at < len;) {
        struct sonde_glyph g;
        char utf8[4];
        at += sonde_text_next(s + at, len - at, 0, &g);
        sonde_buf_add(&f->texts, utf8, sonde_text_encode(g.code, utf8));
    }
    sonde_buf_add(&f->texts, "", 1);
}

uint32_t sonde_flame_intern(struct sonde_flame *f, const char *s)
{
    const uint32_t hash = sonde_hash_text(s);
    uint32_t at = hash, row;
    while ((row = sonde_map_next(&f->string_rows, hash, &at))) {
        if (strcmp(f->strings[row - 1].raw, s) == 0) return row - 1;
    }
    if (sonde_map_reserve(&f->string_rows) ||
        SONDE_ARRAY_ROOM(f->strings, f->string_count, f->string_cap)) {
        return UINT32_MAX;
    }
    const size_t start = f->texts.len;
    flame_add_text(f, s);
    if (f->texts.error) return UINT32_MAX;
    f->strings[f->string_count++] = (struct sonde_flame_string){
        .raw = s, .at = start, .len = f->texts.len - start - 1 };
    sonde_map_put(&f->string_rows, hash, f->string_count);
    return f->string_count - 1;
}

const char *sonde_flame_text(const struct sonde_flame *f, uint32_t string)
{
    assert(string < f->string_count);
    return f->texts.data + f->strings[string].at;
}

static uint32_t flame_intern_frame(struct sonde_flame *f, const struct sonde_tree_node *n, int root)
{
    const uint32_t hash = flame_hash_frame(n);
    uint32_t at = hash, row;
    while ((row = sonde_map_next(&f->frame_rows, hash, &at))) {
        if (flame_same_frame(f->frames[row - 1].node, n)) return row - 1;
    }
    struct sonde_flame_frame frame = { .node = n, .name = sonde_flame_intern(f, n->name),
                                       .module = sonde_flame_intern(f, n->module),
                                       .file = sonde_flame_intern(f, n->file) };
    if (frame.name == UINT32_MAX || frame.module == UINT32_MAX || frame.file == UINT32_MAX ||
        sonde_map_reserve(&f->frame_rows) ||
        SONDE_ARRAY_ROOM(f->frames, f->frame_count, f->frame_cap)) {
        return UINT32_MAX;
    }
    const int plain = root || n->flags & SONDE_NODE_THREAD;
    frame.color = plain ? SONDE_FLAME_ROOT : sonde_flame_color_index(n->name, n->flags);
    /* A function without a name still has a module. */
    frame.module_color =
        plain ? SONDE_FLAME_ROOT
              : sonde_flame_color_index(n->module, n->flags & (uint32_t)~(SONDE_NODE_UNKNOWN |
                                                                             SONDE_NODE_PYTHON));
    f->frames[f->frame_count++] = frame;
    sonde_map_put(&f->frame_rows, hash, f->frame_count);
    return f->frame_count - 1;
}

/* ---- Choosing frames ------------------------------------------------------------------------ */

/* Share of the total; in a difference of the larger of both, so that what is gone is kept too. */
static double flame_width(const struct sonde_tree *t, const struct sonde_tree_node *n)
{
    const double now = t->nodes[0].total ? (double)n->total / (double)t->nodes[0].total : 0;
    const double before = t->base_total ? (double)n->base_total / (double)t->base_total : 0;
    return now > before ? now : before;
}

/* Add node n of the tree below `parent`, which has already been added. */
static int flame_add_node(struct sonde_flame *f, uint32_t n, uint32_t parent)
{
    const struct sonde_tree_node *from = &f->tree->nodes[n];
    if (SONDE_ARRAY_ROOM(f->nodes, f->node_count, f->node_cap)) return SONDE_ENOMEM;
    const uint32_t frame = flame_intern_frame(f, from, n == 0);
    if (frame == UINT32_MAX) return SONDE_ENOMEM;
    struct sonde_flame_node *to = &f->nodes[f->node_count];
    assert(from->total >= from->self && from->base_total >= from->base_self);
    *to = (struct sonde_flame_node){ .node = n, .parent = parent, .frame = frame,
                                     .total = from->total, .self = from->self,
                                     .dropped = from->total - from->self,
                                     .samples = from->samples, .base_self = from->base_self,
                                     .base_dropped = from->base_total - from->base_self };
    if (n != 0) {
        struct sonde_flame_node *above = &f->nodes[parent];
        assert(above->dropped >= from->total && above->base_dropped >= from->base_total);
        to->start = above->start + (above->total - above->self - above->dropped);
        to->depth = above->depth + 1;
        to->up = f->nodes[f->node_count - 1].depth - above->depth;
        above->dropped -= from->total;
        above->base_dropped -= from->base_total;
        above->samples -= from->samples < above->samples ? from->samples : above->samples;
    }
    if (to->depth > f->depth_max) f->depth_max = to->depth;
    f->node_count++;
    return 0;
}

/* The root, or the node that all is below of, with its callers. */
static int add_top(struct sonde_flame *f)
{
    const struct sonde_tree_node *nodes = f->tree->nodes;
    uint32_t *way = sonde__calloc(nodes[f->under].depth + 1u, sizeof(*way)), count = 0;
    int rc = way ? flame_add_node(f, 0, 0) : SONDE_ENOMEM;
    for (uint32_t n = f->under; rc == 0 && n; n = nodes[n].parent) way[count++] = n;
    while (rc == 0 && count) rc = flame_add_node(f, way[--count], f->node_count - 1);
    sonde__free(way);
    return rc;
}

static int flame_nodes_choose(struct sonde_flame *f)
{
    const struct sonde_tree *t = f->tree;
    int rc = add_top(f);
    const uint32_t top = f->node_count - 1;
    uint32_t parent = top;
    uint32_t n = t->nodes[f->under].first_child;
    while (rc == 0) {
        while (n && flame_width(t, &t->nodes[n]) < f->min_width) n = t->nodes[n].next;
        if (n) {
            const uint32_t added = f->node_count;
            rc = flame_add_node(f, n, parent);
            if (rc == 0 && f->nodes[added].depth < SONDE_FLAME_DEPTH_MAX) {
                parent = added;
                n = t->nodes[n].first_child;
            } else {
                n = t->nodes[n].next;
            }
        } else if (parent != top) {
            n = t->nodes[f->nodes[parent].node].next;
            parent = f->nodes[parent].parent;
        } else {
            break;
        }
    }
    return rc;
}

static void color_changes(struct sonde_flame *f)
{
    double largest = 0;
    for (uint32_t i = 1; i < f->node_count; i++) {
        const struct sonde_tree_node *n = &f->tree->nodes[f->nodes[i].node];
        largest = fmax(largest, fabs(sonde_flame_change(f->tree, n)));
    }
    for (uint32_t i = 1; i < f->node_count; i++) {
        f->nodes[i].level =
            sonde_flame_level(f->tree, &f->tree->nodes[f->nodes[i].node], largest);
    }
}

int sonde_flame_init(struct sonde_flame *f, const struct sonde_tree *t, double min_width,
                     uint32_t nodes_max)
{
    return sonde_flame_init_under(f, t, min_width, nodes_max, 0);
}

int sonde_flame_init_under(struct sonde_flame *f, const struct sonde_tree *t, double min_width,
                           uint32_t nodes_max, uint32_t under)
{
    assert(under < t->node_count);
    *f = (struct sonde_flame){ .tree = t, .under = under, .min_width = min_width, .scale = 1 };
    sonde_buf_init(&f->texts, (size_t)1 << 32);
    f->min_width = fmax(f->min_width, t->min_share);
    if (nodes_max) {
        const double share = sonde_tree_share_under(t, under, nodes_max);
        if (share < 0) return SONDE_ENOMEM;
        f->min_width = fmax(f->min_width, share);
    }
    if (sonde_flame_intern(f, "") != 0) return SONDE_ENOMEM;
    const int rc = flame_nodes_choose(f);
    if (rc != 0) return rc;
    for (uint32_t i = 0; i < f->node_count; i++) f->dropped += f->nodes[i].dropped;
    if (t->base_total) color_changes(f);
    return 0;
}

struct sonde_tree_options sonde_flamegraph_tree(const struct sonde_flamegraph_options *o, int html)
{
    struct sonde_tree_options tree = { .functions = html, .by_module = 1 };
    if (o->min_width > 0) tree.min_share = o->min_width;
    else if (o->min_width == 0 && html) tree.nodes_max = HTML_NODES_MAX;
    else if (o->min_width == 0) tree.min_share = SVG_MIN_WIDTH;
    return tree;
}

void sonde_flame_release(struct sonde_flame *f)
{
    sonde__free(f->nodes);
    sonde__free(f->strings);
    sonde__free(f->frames);
    sonde_map_release(&f->string_rows);
    sonde_map_release(&f->frame_rows);
    sonde_buf_release(&f->texts);
}
