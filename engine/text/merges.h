/* merges.h - which two neighbouring symbols become one, and in which order: the heart of byte-level
 * BPE and of SentencePiece alike.
 *
 * Both repeat "merge the best pair, the leftmost of equals, until none is left"; they only differ
 * in what pairs there are and what is best: BPE lists its pairs by rank, SentencePiece merges any
 * two whose concatenation is a token, the highest score first. The second is turned into the first
 * when a vocabulary is loaded: every way to cut a token in two symbols is a pair, the rank is the
 * position of its score. Looking pairs up by two numbers is then all that merging does; nothing is
 * hashed or compared as text (llama.cpp's way, which builds a string for each pair it looks at).
 *
 * A priority queue of the pairs makes it n log n for a word of n symbols. */
#ifndef ENGINE_TEXT_MERGES_H
#define ENGINE_TEXT_MERGES_H

#include <stddef.h>
#include <stdint.h>

struct merge_pair { uint32_t left, right, rank, merged; };

struct merges {
    struct merge_pair *slots;    /* open addressing; left == SYMBOL_NONE is free */
    uint32_t mask, count;
};

int merges_init(struct merges *m, uint32_t expected);  /* 0, or -1: out of memory */
void merges_release(struct merges *m);
/* The first of two with the same symbols stays. 0, or -1: out of memory. */
int merges_add(struct merges *m, const struct merge_pair *pair);
const struct merge_pair *merges_find(const struct merges *m, uint32_t left, uint32_t right);

/* A word that is being merged: nodes[0 … count) with .symbol and .bytes set by the caller. */
struct merge_node { uint32_t symbol, bytes; int32_t prev, next; };
struct merge_candidate { uint64_t order; uint32_t right, bytes, merged; };
struct merge_work {
    struct merge_node *nodes;
    struct merge_candidate *heap;
    size_t capacity;             /* of nodes; the heap has three times as many */
    size_t count;
    uint64_t lookups, merged;    /* what was done, for counting */
};

int merge_work_reserve(struct merge_work *w, size_t nodes); /* keeps nodes; -1: out of memory */
void merge_work_release(struct merge_work *w);
/* Afterwards nodes[0] starts the chain of what is left, by .next; -1 ends it. */
void merges_apply(const struct merges *m, struct merge_work *w);

#endif
