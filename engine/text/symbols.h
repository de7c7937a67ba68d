/* symbols.h - byte strings and their numbers: a hash table with open addressing.
 *
 *   slots: hash → symbol + 1, 0 is free       keys: (offset, bytes) of each symbol in one pool
 *
 * Symbols are numbered from 0 in the order in which they were added. A tokenizer adds its tokens
 * first, so a symbol below the size of the vocabulary is that token; further ones are what merges
 * go through without being tokens. */
#ifndef ENGINE_TEXT_SYMBOLS_H
#define ENGINE_TEXT_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#define SYMBOL_NONE UINT32_MAX

struct symbols {
    uint32_t *slots;
    uint32_t mask;               /* slots - 1, a power of two */
    struct symbol_key { uint32_t offset, bytes; } *keys;
    uint32_t count, capacity;
    char *pool;
    size_t pool_bytes, pool_capacity;
};

int symbols_init(struct symbols *s, uint32_t expected);   /* 0, or -1: out of memory */
void symbols_release(struct symbols *s);
uint32_t symbols_find(const struct symbols *s, const char *key, size_t bytes); /* or SYMBOL_NONE */
/* The number of the key, a new one if it was not there; SYMBOL_NONE: out of memory or numbers. */
uint32_t symbols_add(struct symbols *s, const char *key, size_t bytes);
/* The next number without a key: no look-up finds it. */
uint32_t symbols_skip(struct symbols *s);
const char *symbols_key(const struct symbols *s, uint32_t symbol, size_t *bytes);

/* 64 good bits of a byte string. */
uint64_t symbols_hash(const char *key, size_t bytes);

#endif
