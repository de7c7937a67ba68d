/* build.h - what build.c and place.c share: a tree while it is built. */
#ifndef SONDE_PROFILE_TREE_BUILD_H
#define SONDE_PROFILE_TREE_BUILD_H

#include "profile/tree/private.h"

/* What a stack is in the group at hand. Small, since touching memory for the first time is much of
 * the work: counts have an array of their own, which is not needed where they are the weights. */
struct tree_fold {
    uint64_t weight;             /* of its samples; once summed up, with those of what it calls */
    uint32_t next : 31;          /* of the stacks with the same caller */
    uint32_t listed : 1;
    union {
        uint32_t first;          /* stack it calls; until it is placed */
        struct {
            uint32_t node : 30;  /* its own or, if it is pruned, the nearest caller's */
            uint32_t single : 1; /* no other stack leads to that node */
            uint32_t pruned : 1;
        };
    };
};

/* Of a function in stacks that are pruned, for the flat table. */
struct tree_tally {
    uint64_t total, samples;     /* the latter only if counts are not weights */
};

struct tree_build {
    const struct sonde_profile *p;
    struct sonde_tree *t;
    struct sonde_budget budget;
    struct sonde_frames frames;
    struct sonde_map children;  /* (parent, name) -> node */
    uint32_t *sharers;             /* name -> how many locations have it */
    struct tree_fold *folds;       /* by stack; 0 is the node where the group's stacks start */
    uint64_t *counts;              /* alike, of samples; NULL: the weights are the counts */
    uint32_t *used;                /* stacks of the group, callers first */
    uint32_t used_count;
    int use_all;                   /* instead of that list, all stacks in their order */
    uint32_t gathered;             /* group in folds + 1; 0 = none */
    uint64_t total, weight_min;    /* stacks below that are pruned */
    struct tree_tally *tallies;    /* by name; NULL: what is pruned is not counted */
    uint32_t *on_path;             /* name -> how often in the stack at hand and its callers */
    uint32_t *only;                /* location -> name of its only frame; 0: it has several */
    uint32_t *order;               /* samples, by group */
    uint32_t *ends;                /* group -> where it ends in order */
};

static inline uint64_t tree_count_of(const struct tree_build *b, uint32_t stack)
{
    return b->counts ? b->counts[stack] : b->folds[stack].weight;
}

static inline uint32_t tree_group_begin(const struct tree_build *b, uint32_t group)
{
    return group ? b->ends[group - 1] : 0;
}

/* The node of a child with that name, made if there is none; 0 = no memory. */
uint32_t tree_child(struct tree_build *b, uint32_t parent, const struct sonde_frame *f);

/* Give all stacks of the group that is gathered their nodes, below base. 0 or SONDE_ENOMEM. */
int tree_place_stacks(struct tree_build *b, uint32_t group, uint32_t base);

/* One stack, the leaf first. 0 or SONDE_ENOMEM. */
int tree_place_inverted(struct tree_build *b, uint32_t base, uint32_t stack, int truncated);

#endif
