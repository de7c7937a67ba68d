/* tree.h - samples folded into a tree of functions, from the thread's start down to the leaf:
 * what flame graphs, reports and diffs draw.
 *
 * Nodes are in an array; children of a node follow each other as a linked list sorted by name, so
 * that the same profile always draws the same picture. Names are the frames' display names:
 * demangled function, or module+0xoffset (an offset in the file) when there is no symbol; those of
 * the kernel end in "_[k]". Inlined frames are nodes of their own. A parent's index is always lower
 * than its children's. */
#ifndef SONDE_PROFILE_TREE_TREE_H
#define SONDE_PROFILE_TREE_TREE_H

#include "profile/profile.h"

#define SONDE_NODE_KERNEL 1u
#define SONDE_NODE_INLINED 2u
#define SONDE_NODE_UNKNOWN 4u      /* no symbol */
#define SONDE_NODE_TRUNCATED 8u    /* "[truncated]": stacks that do not reach the start */
#define SONDE_NODE_THREAD 16u      /* a thread, not a function */
#define SONDE_NODE_PYTHON 32u      /* a function of Python */

struct sonde_tree_node {
    const char *name;        /* owned by the tree */
    const char *module;      /* base name of its module; "" = unknown */
    const char *file;        /* source file; "" = unknown */
    uint32_t line;           /* of the function's start, else of its first sample; 0 = unknown */
    uint32_t flags;
    uint32_t parent, first_child, next; /* 0 = none; node 0 is the root "all" */
    uint32_t depth;          /* root = 0 */
    uint64_t total, self;    /* weight */
    uint64_t samples;        /* count */
    uint64_t base_total, base_self; /* the other profile's, in a diff; else 0 */
};

struct sonde_tree {
    struct sonde_tree_node *nodes;
    uint32_t node_count, node_cap;
    uint32_t depth_max;
    enum sonde_sample_kind kind;
    int inverted;            /* built with options.invert: self is at the thread's start */
    uint64_t base_total;     /* of a diff: weight of the other profile */
    double min_share;        /* smaller shares of the whole may be left out; 0 = none is */
    uint64_t truncated;      /* weight of stacks that do not reach the thread's start */
    struct sonde_tree_names *names; /* private */
};

struct sonde_tree_options {
    int invert;              /* leaf first: who is called, by whom; "[truncated]" comes last */
    int by_thread;           /* first level is the thread */
    int by_module;           /* in a profile of several processes, functions with the same name are
                                different ones in different modules: main of sh is not main of cc */
    /* For pictures of large profiles: what is below this share of the whole is left out where that
     * is cheap to see; its weight stays in the parent's total, which may be more than self and
     * children then. 0 = keep everything. */
    double min_share;
    uint32_t nodes_max;      /* raise min_share until there are hardly more nodes; 0 = any number */
    int functions;           /* sonde_tree_flat is exact whatever is left out */
};

/* 0; SONDE_ENOENT with a sentence when nothing passes the filter; SONDE_ENOMEM. Stacks whose
 * samples count nothing and weigh nothing have no nodes. */
int sonde_tree_build(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                     const struct sonde_tree_options *o, struct sonde_tree **out,
                     struct sonde_err *err);

/* Both trees merged by name: total/self of after, base_* of before. They must have been built with
 * the same options, and be whole. */
int sonde_tree_diff(const struct sonde_tree *before, const struct sonde_tree *after,
                    struct sonde_tree **out);
void sonde_tree_destroy(struct sonde_tree *t);

/* ---- Another look at it ---------------------------------------------------------------------- *
 * Texts stay t's: what comes out is to be destroyed before t is. Both work for differences too. */

/* Recursion folded: a function that is on its own stack already stands for the outer one, and what
 * is between is left out, so main;f;g;f;h is main;f;h. The weight of everything stays the same. */
int sonde_tree_fold(const struct sonde_tree *t, struct sonde_tree **out);

/* A way from the root, by names. */
struct sonde_tree_path { const char *const *names; size_t count; };

/* The leaf first, of a tree that is not. nodes_max: the widest nodes and hardly more, so that this
 * is cheap also where all of it would be a hundred times t; 0 = all. under (count 0 = the root):
 * only that way and what is below it; where the way ends early that is below its end. */
int sonde_tree_invert(const struct sonde_tree *t, uint32_t nodes_max,
                      const struct sonde_tree_path *under, struct sonde_tree **out);

/* The last node on a way that is there; *found: how many names of it are. Of several children with
 * the same name (options.by_module) the widest counts. */
uint32_t sonde_tree_find(const struct sonde_tree *t, const struct sonde_tree_path *path,
                         size_t *found);

/* As sonde_tree_build, but of samples on that way alone: nodes_max and min_share are spent on what
 * is below its end. Nodes on it have the totals that they have in the whole. *found as above. Not
 * for options.invert and by_thread. */
int sonde_tree_build_under(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                           const struct sonde_tree_options *o, const struct sonde_tree_path *path,
                           size_t *found, struct sonde_tree **out, struct sonde_err *err);

/* Functions, the most self weight first, then by total and name: a flat table. A recursive function
 * counts once a stack. Texts are the tree's; free *out with sonde__free. */
struct sonde_flat {
    const char *name, *module, *file;
    uint32_t line;
    uint64_t self, total;
    uint64_t self_samples, samples; /* counts, alike */
    uint64_t base_self, base_total;
};
int sonde_tree_flat(const struct sonde_tree *t, struct sonde_flat **out, size_t *count);

/* The least share of the whole, or of the other profile's, that no more than nodes_max nodes have;
 * 0 if there are no more. */
double sonde_tree_share_for(const struct sonde_tree *t, uint32_t nodes_max);
/* The same for the nodes that are below one, itself included. -1 = no memory. */
double sonde_tree_share_under(const struct sonde_tree *t, uint32_t node, uint32_t nodes_max);
/* Memory that it takes, in bytes. */
size_t sonde_tree_bytes(const struct sonde_tree *t);

#endif
