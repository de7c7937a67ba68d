/* specials.h - finding the texts of control and user-defined tokens in a text, before anything
 * else.
 *
 * Longer ones go first over the whole text, then the next shorter ones over what is left, as
 * llama.cpp does: with tokens "ab" and "bcd", "abcd" is "a" and "bcd". Most texts have none: one
 * pass over a trie (texts in order; a node is a range of them) says which lengths occur at all, and
 * only those are gone through. */
#ifndef ENGINE_TEXT_SPECIALS_H
#define ENGINE_TEXT_SPECIALS_H

#include <stddef.h>
#include <stdint.h>

#include "text/vocab.h"

struct specials {
    const struct vocab *vocab;   /* borrowed */
    uint32_t *tokens;            /* by text */
    uint32_t count;
    uint32_t *lengths;           /* of texts, the longest first, each once */
    uint32_t length_count;
    unsigned char starts[256];   /* a text starts with this byte */
};

/* Tokens of these kinds and of none of those. 0, or -1: out of memory. */
int specials_init(struct specials *s, const struct vocab *v, uint32_t kinds, uint32_t but);
void specials_release(struct specials *s);

/* A text in parts: token >= 0 is one, else the bytes [at, end) are plain text. */
struct special_part { size_t at, end; int32_t token; };
struct special_parts { struct special_part *items, *spare; size_t count, capacity; };

int specials_cut(const struct specials *s, const char *text, size_t bytes,
                 struct special_parts *out);
void special_parts_release(struct special_parts *p);

#endif
