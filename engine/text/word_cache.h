/* word_cache.h - words and their tokens: a cache of fixed size that threads share without a lock.
 *
 *   slot (64 bytes, a cache line):  state │ word, 24 bytes │ 8 tokens
 *   state: sequence << 32 | tokens << 8 | bytes of the word; the sequence is odd during a write
 *
 * A set has two slots; a new word replaces one of them. Readers take a slot only if its sequence
 * was even and the same before and after; a writer that meets another one gives up: it is a cache.
 * Longer words and those of more tokens do not fit and are counted. It never leaves the process. */
#ifndef ENGINE_TEXT_WORD_CACHE_H
#define ENGINE_TEXT_WORD_CACHE_H

#include <stddef.h>
#include <stdint.h>

enum { WORD_CACHE_BYTES = 24, WORD_CACHE_TOKENS = 8 };

struct word_cache_slot;
struct word_cache { struct word_cache_slot *slots; void *room; uint32_t mask; };

int word_cache_init(struct word_cache *c, uint32_t slots); /* a power of two; -1: out of memory */
void word_cache_release(struct word_cache *c);

struct word_cache_key { uint64_t words[WORD_CACHE_BYTES / 8], hash; uint32_t bytes; };
/* 1, or 0: the word is too long for it. */
int word_cache_key(const char *word, size_t bytes, struct word_cache_key *key);
/* How many tokens, which are written to tokens; -1: it is not there. */
int word_cache_get(const struct word_cache *c, const struct word_cache_key *key,
                   int32_t tokens[WORD_CACHE_TOKENS]);
void word_cache_put(const struct word_cache *c, const struct word_cache_key *key,
                    const int32_t *tokens, size_t count);
uint32_t word_cache_used(const struct word_cache *c); /* slots with a word */

#endif
