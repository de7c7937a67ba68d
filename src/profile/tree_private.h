/* tree_private.h - what tree.c and tree_diff.c share. */
#ifndef SONDE_PROFILE_TREE_PRIVATE_H
#define SONDE_PROFILE_TREE_PRIVATE_H

#include "profile/frame.h"
#include "profile/tree.h"

struct sonde_tree_names {
    struct sonde_strings pool;  /* all texts */
    uint32_t *name_of;       /* node -> string of its name; same name, same id */
    uint32_t name_of_cap;
    size_t bytes;            /* taken, of SONDE_TREE_BYTES_MAX */
};

#define SONDE_TREE_BYTES_MAX ((size_t)8 << 30)

static inline struct sonde_budget sonde_tree_budget(struct sonde_tree *t)
{
    return (struct sonde_budget){ .used = &t->names->bytes, .max = SONDE_TREE_BYTES_MAX };
}

/* A tree with its root. */
int sonde_tree_create(struct sonde_tree **out);

/* A new child, not yet in its parent's list: 0 = no memory. */
uint32_t sonde_tree_add(struct sonde_tree *t, uint32_t parent, const struct sonde_frame *f);

/* Link all children, in order of their names. */
int sonde_tree_link(struct sonde_tree *t);

#endif
