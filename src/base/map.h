/* map.h - the one hash table, in two shapes: from a key to the number of a row that is kept
 * elsewhere (struct sonde_map), and from a key to a pointer (struct sonde_pointer_map).
 *
 * Both are open addressing with linear probing over slots of {hash, value}, a power of two of them,
 * at most 3/4 used. The key is not in the table: a search yields the values whose 32 bits of hash
 * agree, and the caller compares its own rows. So growing needs no look at the rows, and there is
 * no callback between a loop and its comparison. Hashes are those of hash.h "for tables".
 *
 *   uint32_t at = hash, row;
 *   while ((row = sonde_map_next(&t->map, hash, &at))) {
 *       if (same(&t->rows[row], key)) return row;
 *   }
 *
 *   if (sonde_map_reserve(&t->map)) return SONDE_ENOMEM;    before anything has changed …
 *   sonde_map_put(&t->map, hash, row);                      … and then it cannot fail
 *
 * Removing moves those behind into the gap, so there are no tombstones and searches stay short. A
 * map of all zeros is empty. Not more than 2^31 slots; who fills it from foreign data bounds the
 * rows.
 *
 * Rejected: chains through the rows (each step is a cache miss in a row that is not the one), a
 * table that holds the rows (they move when it grows), a map of pointers alone (twice the memory
 * for most users, who have rows). */
#ifndef SONDE_BASE_MAP_H
#define SONDE_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

/* ---- To the numbers of rows ------------------------------------------------------------------ */

struct sonde_map_slot {
    uint32_t hash, row; /* row 0 = free: rows count from 1, or row 0 is the one that is never
                         * found */
};

struct sonde_map {
    struct sonde_map_slot *slots; /* owned */
    uint32_t cap, used;
};

void sonde_map_release(struct sonde_map *m);
void sonde_map_clear(struct sonde_map *m); /* empty, with the room that it has */

static inline int sonde_map_has_room(const struct sonde_map *m)
{
    return m->used < m->cap - m->cap / 4;
}

/* Room for one more: 0 or SONDE_ENOMEM. */
int sonde_map_reserve(struct sonde_map *m);
/* Bytes that the next reserve will add, often 0: for those who keep to a budget. */
size_t sonde_map_reserve_bytes(const struct sonde_map *m);
/* There is room. The same key must not be there yet; row is not 0. */
void sonde_map_put(struct sonde_map *m, uint32_t hash, uint32_t row);
/* It is there. After it, searches that are under way begin again. */
void sonde_map_remove(struct sonde_map *m, uint32_t hash, uint32_t row);
/* It is there, and has another number from now on: its row was moved to fill a gap. */
void sonde_map_renumber(struct sonde_map *m, uint32_t hash, uint32_t row, uint32_t now);

/* The next row whose hash agrees, or 0. *at begins as the hash. */
static inline uint32_t sonde_map_next(const struct sonde_map *m, uint32_t hash, uint32_t *at)
{
    if (!m->cap) return 0;
    for (const uint32_t mask = m->cap - 1;;) {
        const struct sonde_map_slot s = m->slots[(*at)++ & mask];
        if (!s.row || s.hash == hash) return s.row;
    }
}

/* ---- To pointers ----------------------------------------------------------------------------- */

struct sonde_pointer_map_slot {
    void *item; /* borrowed; NULL = free */
    uint32_t hash;
};

struct sonde_pointer_map {
    struct sonde_pointer_map_slot *slots; /* owned */
    uint32_t cap, used;
};

void sonde_pointer_map_release(struct sonde_pointer_map *m);
void sonde_pointer_map_clear(struct sonde_pointer_map *m);
static inline int sonde_pointer_map_has_room(const struct sonde_pointer_map *m)
{
    return m->used < m->cap - m->cap / 4;
}
int sonde_pointer_map_reserve(struct sonde_pointer_map *m);
size_t sonde_pointer_map_reserve_bytes(const struct sonde_pointer_map *m);
void sonde_pointer_map_put(struct sonde_pointer_map *m, uint32_t hash, void *item);
void sonde_pointer_map_remove(struct sonde_pointer_map *m, uint32_t hash, const void *item);

/* The next item whose hash agrees, or NULL. *at begins as the hash. */
static inline void *sonde_pointer_map_next(const struct sonde_pointer_map *m, uint32_t hash,
                                           uint32_t *at)
{
    if (!m->cap) return NULL;
    for (const uint32_t mask = m->cap - 1;;) {
        const struct sonde_pointer_map_slot s = m->slots[(*at)++ & mask];
        if (!s.item || s.hash == hash) return s.item;
    }
}

/* All of them, in no order: *at begins as 0; NULL at the end. Nothing may be put or removed
 * meanwhile; what is to be freed may be, if the map is released or cleared next. */
static inline void *sonde_pointer_map_each(const struct sonde_pointer_map *m, uint32_t *at)
{
    while (*at < m->cap) {
        void *item = m->slots[(*at)++].item;
        if (item) return item;
    }
    return NULL;
}

#endif
