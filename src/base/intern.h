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

#define SONDE_HASH_MUL 0x9e3779b97f4a7c15ull

static inline uint64_t sonde_hash_mix(uint64_t h, uint64_t word)
{
    const __uint128_t wide = (__uint128_t)(h ^ word) * SONDE_HASH_MUL;
    return (uint64_t)wide ^ (uint64_t)(wide >> 64);
}

static inline uint32_t sonde_hash_end(uint64_t h)
{
    h = sonde_hash_mix(h, 0xe7037ed1a0b428dbull);
    return (uint32_t)(h ^ (h >> 32));
}

/* Whole words, then what is left of one, then the length. */
static inline uint32_t sonde_hash_bytes(const char *s, size_t len)
{
    const size_t total = len;
    uint64_t h = 0, word;
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&word, s, 8);
        h = sonde_hash_mix(h, word);
    }
    word = 0;
    memcpy(&word, s, len);
    return sonde_hash_end(sonde_hash_mix(h, word) + total);
}

/* The hash of what is before stop, or of all of s[0..max), and how long that is. One pass for both:
 * readers of text spend most of their time here. */
static inline uint32_t sonde_hash_until(const char *s, size_t max, char stop, size_t *len)
{
    const uint64_t ones = 0x0101010101010101ull, stops = ones * (unsigned char)stop;
    uint64_t h = 0, word;
    size_t at = 0;
    for (; at + 8 <= max; at += 8) {
        memcpy(&word, s + at, 8);
        const uint64_t x = word ^ stops, hit = (x - ones) & ~x & (ones << 7);
        if (hit) { /* a bit in the first byte that is stop; below it no bits */
            const unsigned bytes = (unsigned)__builtin_ctzll(hit) / 8;
            *len = at + bytes;
            word &= (1ull << (8 * bytes)) - 1;
            return sonde_hash_end(sonde_hash_mix(h, word) + *len);
        }
        h = sonde_hash_mix(h, word);
    }
    word = 0;
    const size_t begin = at;
    for (; at < max && s[at] != stop; at++) {
        word |= (uint64_t)(unsigned char)s[at] << (8 * (at - begin));
    }
    *len = at;
    return sonde_hash_end(sonde_hash_mix(h, word) + at);
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
