/* word_cache.c - see word_cache.h. */
#include "text/word_cache.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "text/symbols.h"

enum { KEY_WORDS = WORD_CACHE_BYTES / 8, TOKEN_WORDS = WORD_CACHE_TOKENS / 2 };

struct word_cache_slot {
    _Alignas(64) _Atomic uint64_t state;
    _Atomic uint64_t key[KEY_WORDS], tokens[TOKEN_WORDS];
};

/* calloc, and aligned by hand: pages of a cache that is hardly used are never touched. */
int word_cache_init(struct word_cache *c, uint32_t slots)
{
    c->mask = slots - 1;
    c->room = calloc((size_t)slots + 1, sizeof(*c->slots));
    if (!c->room) return -1;
    c->slots = (struct word_cache_slot *)(((uintptr_t)c->room + 63) & ~(uintptr_t)63);
    return 0;
}

void word_cache_release(struct word_cache *c)
{
    free(c->room);
    c->room = NULL;
    c->slots = NULL;
}

int word_cache_key(const char *word, size_t bytes, struct word_cache_key *key)
{
    if (bytes > WORD_CACHE_BYTES) return 0;
    memset(key->words, 0, sizeof(key->words));
    memcpy(key->words, word, bytes);
    key->bytes = (uint32_t)bytes;
    key->hash = symbols_hash((const char *)key->words, sizeof(key->words)) ^ bytes;
    return 1;
}

/* Payload is read with acquire and written with release: who reads a word of a later write also
 * sees the odd sequence from before that write. */
static int slot_read(struct word_cache_slot *slot, const struct word_cache_key *key,
                     int32_t tokens[WORD_CACHE_TOKENS])
{
    const uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    if ((state & 0xFF) != key->bytes || (state >> 32 & 1) || !state) return -1;
    for (int i = 0; i < KEY_WORDS; i++) {
        if (atomic_load_explicit(&slot->key[i], memory_order_acquire) != key->words[i]) return -1;
    }
    const int count = (int)(state >> 8 & 0xFF);
    for (int i = 0; i < count; i += 2) {
        const uint64_t two = atomic_load_explicit(&slot->tokens[i / 2], memory_order_acquire);
        tokens[i] = (int32_t)(uint32_t)two;
        tokens[i + 1] = (int32_t)(uint32_t)(two >> 32);
    }
    return atomic_load_explicit(&slot->state, memory_order_relaxed) == state ? count : -1;
}

int word_cache_get(const struct word_cache *c, const struct word_cache_key *key,
                   int32_t tokens[WORD_CACHE_TOKENS])
{
    const uint32_t at = (uint32_t)key->hash & c->mask;
    const int count = slot_read(&c->slots[at], key, tokens);
    return count >= 0 ? count : slot_read(&c->slots[at ^ 1], key, tokens);
}

void word_cache_put(const struct word_cache *c, const struct word_cache_key *key,
                    const int32_t *tokens, size_t count)
{
    if (count > WORD_CACHE_TOKENS) return;
    /* The slot of its own, unless only the other one is free; so that words which share a set do
     * not always drive out each other. */
    struct word_cache_slot *slot = &c->slots[(uint32_t)key->hash & c->mask];
    struct word_cache_slot *other = &c->slots[((uint32_t)key->hash & c->mask) ^ 1];
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_relaxed);
    if (state && !atomic_load_explicit(&other->state, memory_order_relaxed)) {
        slot = other;
        state = 0;
    }
    const uint64_t sequence = state >> 32;
    if (sequence & 1) return;
    if (!atomic_compare_exchange_strong_explicit(&slot->state, &state, (sequence + 1) << 32,
                                                 memory_order_acq_rel, memory_order_relaxed)) {
        return;
    }
    for (int i = 0; i < KEY_WORDS; i++) {
        atomic_store_explicit(&slot->key[i], key->words[i], memory_order_release);
    }
    for (size_t i = 0; i < count; i += 2) {
        const uint32_t second = i + 1 < count ? (uint32_t)tokens[i + 1] : 0;
        atomic_store_explicit(&slot->tokens[i / 2], (uint64_t)second << 32 | (uint32_t)tokens[i],
                              memory_order_release);
    }
    const uint64_t written =
        ((sequence + 2) & UINT32_MAX) << 32 | (uint64_t)count << 8 | key->bytes;
    atomic_store_explicit(&slot->state, written, memory_order_release);
}

uint32_t word_cache_used(const struct word_cache *c)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i <= c->mask; i++) {
        used += atomic_load_explicit(&c->slots[i].state, memory_order_relaxed) != 0;
    }
    return used;
}
