/* symbols.c - see symbols.h. */
#include "text/symbols.h"

#include <stdlib.h>
#include <string.h>

static uint64_t symbols_mix(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t symbols_hash(const char *key, size_t bytes)
{
    uint64_t hash = 0x9E3779B97F4A7C15u ^ bytes, word;
    for (; bytes >= 8; key += 8, bytes -= 8) {
        memcpy(&word, key, 8);
        hash = symbols_mix(hash ^ word, 0xD6E8FEB86659FD93u);
    }
    word = 0;
    memcpy(&word, key, bytes);
    return symbols_mix(hash ^ word, 0xA0761D6478BD642Fu);
}

int symbols_init(struct symbols *s, uint32_t expected)
{
    memset(s, 0, sizeof(*s));
    uint32_t slots = 64;
    while (slots < expected + expected / 2 && slots < 1u << 30) slots *= 2;
    s->slots = calloc(slots, sizeof(*s->slots));
    s->mask = slots - 1;
    s->capacity = expected < 16 ? 16 : expected;
    s->keys = malloc(s->capacity * sizeof(*s->keys));
    s->pool_capacity = 4096;
    s->pool = malloc(s->pool_capacity);
    if (s->slots && s->keys && s->pool) return 0;
    symbols_release(s);
    return -1;
}

void symbols_release(struct symbols *s)
{
    free(s->slots);
    free(s->keys);
    free(s->pool);
    memset(s, 0, sizeof(*s));
}

const char *symbols_key(const struct symbols *s, uint32_t symbol, size_t *bytes)
{
    *bytes = s->keys[symbol].bytes;
    return s->pool + s->keys[symbol].offset;
}

static uint32_t slot_find(const struct symbols *s, const char *key, size_t bytes)
{
    uint32_t slot = (uint32_t)symbols_hash(key, bytes) & s->mask;
    for (; s->slots[slot]; slot = (slot + 1) & s->mask) {
        const struct symbol_key *k = &s->keys[s->slots[slot] - 1];
        if (k->bytes == bytes && !memcmp(s->pool + k->offset, key, bytes)) break;
    }
    return slot;
}

uint32_t symbols_find(const struct symbols *s, const char *key, size_t bytes)
{
    return s->slots[slot_find(s, key, bytes)] - 1; /* free is 0, and 0 - 1 is SYMBOL_NONE */
}

static int symbols_slots_grow(struct symbols *s)
{
    const uint32_t before = s->mask + 1;
    if (s->count < before - before / 4) return 0;
    if (before > 1u << 29) return -1;
    uint32_t *old = s->slots, *slots = calloc((size_t)before * 2, sizeof(*slots));
    if (!slots) return -1;
    s->slots = slots;
    s->mask = before * 2 - 1;
    for (uint32_t i = 0; i < before; i++) {
        if (!old[i]) continue;
        size_t bytes;
        const char *key = symbols_key(s, old[i] - 1, &bytes);
        s->slots[slot_find(s, key, bytes)] = old[i];
    }
    free(old);
    return 0;
}

/* Room for one more key of that many bytes. */
static int keys_grow(struct symbols *s, size_t bytes)
{
    if (s->count == s->capacity) {
        if (s->capacity > 1u << 29) return -1;
        void *keys = realloc(s->keys, (size_t)s->capacity * 2 * sizeof(*s->keys));
        if (!keys) return -1;
        s->keys = keys;
        s->capacity *= 2;
    }
    if (bytes > UINT32_MAX - s->pool_bytes) return -1; /* offsets have 32 bits */
    if (s->pool_bytes + bytes > s->pool_capacity) {
        const size_t capacity = (s->pool_bytes + bytes) * 2;
        char *pool = realloc(s->pool, capacity);
        if (!pool) return -1;
        s->pool = pool;
        s->pool_capacity = capacity;
    }
    return 0;
}

uint32_t symbols_add(struct symbols *s, const char *key, size_t bytes)
{
    uint32_t slot = slot_find(s, key, bytes);
    if (s->slots[slot]) return s->slots[slot] - 1;
    if (keys_grow(s, bytes) || symbols_slots_grow(s)) return SYMBOL_NONE;
    slot = slot_find(s, key, bytes); /* growing moves them */
    memcpy(s->pool + s->pool_bytes, key, bytes);
    s->keys[s->count] = (struct symbol_key){ (uint32_t)s->pool_bytes, (uint32_t)bytes };
    s->pool_bytes += bytes;
    s->slots[slot] = ++s->count;
    return s->count - 1;
}

uint32_t symbols_skip(struct symbols *s)
{
    if (keys_grow(s, 0)) return SYMBOL_NONE;
    s->keys[s->count] = (struct symbol_key){ 0, 0 };
    return s->count++;
}
