/* intern.h - the two pieces that interning is made of: a hash index from a key to the id of a row
 * kept elsewhere, and a pool of strings on top of it.
 *
 * The index is open addressing over slots of {hash, id}: rows are compared only when 32 bits of
 * hash agree, and growing needs no look at the rows. Nothing is ever deleted.
 *
 * Both count what they take against a budget, so that a profile's memory has one cap. */
#ifndef SONDE_BASE_INTERN_H
#define SONDE_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"

struct sonde_budget {
    size_t *used;
    size_t max;
};

/* data with room for count + 1 elements of size bytes, doubling; NULL: no memory, data stays. */
void *sonde_table_grow(void *data, uint32_t count, uint32_t *cap, size_t size,
                       const struct sonde_budget *b);

/* ---- Hash index ------------------------------------------------------------------------------ */

struct sonde_intern_slot {
    uint32_t hash, id; /* id 0 = free */
};

struct sonde_intern {
    struct sonde_intern_slot *slots;
    uint32_t cap, used; /* cap is a power of two, at most 3/4 used */
};

/* Room for one more, to be called before put: 0 or SONDE_ENOMEM. */
int sonde_intern_reserve(struct sonde_intern *t, const struct sonde_budget *b);
void sonde_intern_put(struct sonde_intern *t, uint32_t hash, uint32_t id);
void sonde_intern_clear(struct sonde_intern *t); /* empty, with the room that it has */
void sonde_intern_release(struct sonde_intern *t);

/* The next id whose hash agrees, or 0. *at starts as the hash:
 *
 *   uint32_t at = hash, id;
 *   while ((id = sonde_intern_next(t, hash, &at))) if (same(row[id], key)) return id; */
static inline uint32_t sonde_intern_next(const struct sonde_intern *t, uint32_t hash, uint32_t *at)
{
    if (!t->cap) return 0;
    for (const uint32_t mask = t->cap - 1;;) {
        const struct sonde_intern_slot s = t->slots[(*at)++ & mask];
        if (!s.id || s.hash == hash) return s.id;
    }
}

/* ---- Strings --------------------------------------------------------------------------------- */

/* String 0 is "". Texts live in blocks and never move. */
struct sonde_strings {
    char **strings;     /* NUL-terminated */
    uint32_t *lengths;
    uint32_t count, cap, lengths_cap;
    struct sonde_intern index;
    struct sonde_strings_block *blocks;
};

int sonde_strings_init(struct sonde_strings *pool, const struct sonde_budget *b);
void sonde_strings_release(struct sonde_strings *pool);

/* The id of s if it is there, else 0. */
static inline uint32_t sonde_strings_find(const struct sonde_strings *pool, const char *s,
                                          size_t len, uint32_t hash)
{
    uint32_t at = hash, id;
    while ((id = sonde_intern_next(&pool->index, hash, &at))) {
        if (pool->lengths[id] == len && !memcmp(pool->strings[id], s, len)) return id;
    }
    return 0;
}

/* The id of s, which holds no NUL; 0 for "" and when there is no memory. */
uint32_t sonde_strings_add(struct sonde_strings *pool, const char *s, size_t len,
                           const struct sonde_budget *b);

#endif
