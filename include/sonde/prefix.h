/* prefix.h - how a prompt begins, in 64 bits: enough to see that prompts share their first tokens,
 * and not enough to learn anything about them. Included by inference.h, and by the agent.
 *
 * Four hashes of 16 bits, of the first 32, 96, 256 and 768 tokens; 0 = there are not that many. Two
 * prompts whose first n of these agree have at least so many tokens in common at their beginning,
 * but for one pair in 65,536. */
#ifndef SONDE_PREFIX_H
#define SONDE_PREFIX_H

#include <stddef.h>
#include <stdint.h>

#define SONDE_PREFIX_LEVELS 4

static inline size_t sonde_prefix_tokens(int level)
{
    static const size_t tokens[SONDE_PREFIX_LEVELS] = { 32, 96, 256, 768 };
    return level >= 0 && level < SONDE_PREFIX_LEVELS ? tokens[level] : 0;
}

static inline uint64_t sonde_prefix_signature(const int32_t *tokens, size_t count)
{
    uint64_t hash = 1469598103934665603u, out = 0;
    size_t at = 0;
    for (int level = 0; level < SONDE_PREFIX_LEVELS && sonde_prefix_tokens(level) <= count;
         level++) {
        for (; at < sonde_prefix_tokens(level); at++) {
            hash = (hash ^ (uint32_t)tokens[at]) * 1099511628211u;
            hash ^= hash >> 29;
        }
        const uint64_t folded = (hash ^ hash >> 16 ^ hash >> 32 ^ hash >> 48) & 0xffff;
        out |= (folded ? folded : 1) << (16 * level);
    }
    return out;
}

/* Tokens that both begin with, at least. */
static inline size_t sonde_prefix_shared(uint64_t a, uint64_t b)
{
    size_t shared = 0;
    for (int level = 0; level < SONDE_PREFIX_LEVELS; level++) {
        const uint64_t x = a >> (16 * level) & 0xffff, y = b >> (16 * level) & 0xffff;
        if (!x || x != y) break;
        shared = sonde_prefix_tokens(level);
    }
    return shared;
}

#endif
