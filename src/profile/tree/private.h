/* private.h - what the parts of the tree share. */
#ifndef SONDE_PROFILE_TREE_PRIVATE_H
#define SONDE_PROFILE_TREE_PRIVATE_H

#include "profile/tree/frame.h"
#include "profile/tree/tree.h"

struct sonde_tree_names {
    struct sonde_strings pool;  /* all texts; … */
    int borrowed;            /* … they are those of another tree */
    uint32_t *name_of;       /* node -> string of its name; same name, same id */
    uint32_t name_of_cap;
    struct sonde_flat *pruned; /* by name: of what has no node; NULL: nothing, or not asked for */
    uint32_t pruned_count;
    size_t bytes;            /* taken, of SONDE_TREE_BYTES_MAX */
};

#define SONDE_TREE_BYTES_MAX ((size_t)8 << 30)

static inline struct sonde_budget sonde_tree_budget(struct sonde_tree *t)
{
    return (struct sonde_budget){ .used = &t->names->bytes, .max = SONDE_TREE_BYTES_MAX };
}

/* A tree with its root. */
int sonde_tree_create(struct sonde_tree **out);

/* An empty tree with the root, the texts and what is known of the whole of t. */
int sonde_tree_derive(const struct sonde_tree *t, struct sonde_tree **out);
/* A new child that looks like node `like` of t; as sonde_tree_add. */
uint32_t sonde_tree_add_like(struct sonde_tree *d, uint32_t parent, const struct sonde_tree *t,
                             uint32_t like);

/* What of a node is in none of its children, at least: 0 in a whole tree. */
struct sonde_tree_rest { uint64_t weight, samples, base; };
void sonde_tree_rests(const struct sonde_tree *t, struct sonde_tree_rest *out);

/* A new child, not yet in its parent's list: 0 = no memory. */
uint32_t sonde_tree_add(struct sonde_tree *t, uint32_t parent, const struct sonde_frame *f);

static inline int sonde_tree_is_function(const struct sonde_tree *t, uint32_t node)
{
    return node && !(t->nodes[node].flags & (SONDE_NODE_THREAD | SONDE_NODE_TRUNCATED));
}

/* Link all children, in order of their names. */
int sonde_tree_link(struct sonde_tree *t);

/* How many there are of each weight, to an eighth of an octave: one pass finds the largest ones. */
struct sonde_tree_bins {
    uint32_t counts[64 * 8];
};

static inline void sonde_tree_bins_add(struct sonde_tree_bins *bins, uint64_t weight)
{
    if (!weight) return;
    const unsigned octave = 63u - (unsigned)__builtin_clzll(weight);
    bins->counts[octave * 8 + (weight << (63 - octave) >> 60 & 7)]++;
}

/* The least weight that no more than `most` have, to a bin. */
uint64_t sonde_tree_bins_least(const struct sonde_tree_bins *bins, uint32_t most);

#endif
