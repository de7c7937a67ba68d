/* intern.h - interning within a budget: tables of rows that grow, their hash indexes (map.h), and a
 * pool of strings on top of both. Nothing is ever deleted.
 *
 * All count what they take against a budget, so that a profile's memory has one cap. */
#ifndef SONDE_BASE_INTERN_H
#define SONDE_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"

struct sonde_budget {
    size_t *used;
    size_t max;
};

/* data with room for count + 1 elements of size bytes, doubling; NULL: no memory, data stays. */
void *sonde_table_grow(void *data, uint32_t count, uint32_t *cap, size_t size,
                       const struct sonde_budget *b);

/* Room for one more in an index, to be called before sonde_map_put(): 0 or SONDE_ENOMEM. */
int sonde_intern_reserve(struct sonde_map *index, const struct sonde_budget *b);

/* ---- Strings --------------------------------------------------------------------------------- */

/* String 0 is "". Texts live in blocks and never move. */
struct sonde_strings {
    char **strings;     /* NUL-terminated */
    uint32_t *lengths;
    uint32_t count, cap, lengths_cap;
    struct sonde_map index;
    struct sonde_strings_block *blocks;
};

int sonde_strings_init(struct sonde_strings *pool, const struct sonde_budget *b);
void sonde_strings_release(struct sonde_strings *pool);

/* The id of s if it is there, else 0. */
static inline uint32_t sonde_strings_find(const struct sonde_strings *pool, const char *s,
                                          size_t len, uint32_t hash)
{
    uint32_t at = hash, id;
    while ((id = sonde_map_next(&pool->index, hash, &at))) {
        if (pool->lengths[id] == len && !memcmp(pool->strings[id], s, len)) return id;
    }
    return 0;
}

/* The id of s, which holds no NUL; 0 for "" and when there is no memory. */
uint32_t sonde_strings_add(struct sonde_strings *pool, const char *s, size_t len,
                           const struct sonde_budget *b);

#endif
