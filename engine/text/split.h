/* split.h - cutting text into words before merging, by the name in tokenizer.ggml.pre.
 *
 * A pre-tokenizer is a list of rules. Each cuts every piece that the ones before it left: where it
 * matches, the match is a piece; what lies between matches is one piece, too. The last rule's
 * pieces are the words. Rules are matchers by hand instead of regular expressions: the expression
 * is quoted at each, and what it does is what llama.cpp makes of it, character classes included. */
#ifndef ENGINE_TEXT_SPLIT_H
#define ENGINE_TEXT_SPLIT_H

#include <stddef.h>
#include <stdint.h>

enum { SPLIT_RULES_MAX = 6 };

struct split {
    const char *name;            /* of tokenizer.ggml.pre */
    /* Each says how many units match at u[0], of n > 0 that there are; 0: none. NULL ends them. */
    size_t (*rules[SPLIT_RULES_MAX + 1])(const uint32_t *u, size_t n);
    unsigned ignore_merges : 1;  /* a word that is a token is that token, whatever merges say */
    unsigned adds_bos : 1;       /* unless the file says otherwise */
    unsigned no_default_bos : 1; /* token 11 is not the begin of text where the file has none */
};

const struct split *split_named(const char *name, size_t bytes); /* NULL: not known */

/* Calls word for each, in order; stops and returns what it returns if that is not 0. */
int split_words(const struct split *s, const uint32_t *units, size_t count,
                int (*word)(void *context, const uint32_t *units, size_t count), void *context);

#endif
