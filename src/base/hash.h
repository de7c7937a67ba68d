/* hash.h - the hashes there are, and which to choose.
 *
 *   sonde_hash_bytes, _text, _until   tables: of text, eight bytes at a time
 *   sonde_hash_u64, _pointer          tables: of numbers and of where something is
 *   sonde_hash_mix … sonde_hash_end   tables: of several fields
 *   sonde_fnv64, sonde_fnv32          what is kept or shown: files' names, colours, checksums
 *
 * Those of tables may change with the next version and with the byte order: their results must not
 * leave the process. All bits of what they return are good, so a table takes as many low ones as it
 * likes. FNV-1a is what files and flame graphs of earlier versions have; its low bits are weak for
 * short keys, and a byte at a time makes it the slowest: not for tables.
 *
 * None of them withstands somebody who chooses keys to collide; tables of foreign keys are
 * bounded. */
#ifndef SONDE_BASE_HASH_H
#define SONDE_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- For tables ------------------------------------------------------------------------------ */

#define SONDE_HASH_MUL 0x9e3779b97f4a7c15ull

/* Begins with h = 0 or any other number, and takes the fields in turn. */
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

/* A bijection (the end of splitmix64): numbers that differ in one bit differ in half of them. */
static inline uint64_t sonde_hash_u64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static inline uint32_t sonde_hash_pointer(const void *p)
{
    return (uint32_t)sonde_hash_u64((uintptr_t)p);
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

static inline uint32_t sonde_hash_text(const char *s) { return sonde_hash_bytes(s, strlen(s)); }

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

/* ---- For what is kept or shown --------------------------------------------------------------- */

#define SONDE_FNV64_SEED 0xcbf29ce484222325ull
#define SONDE_FNV32_SEED 0x811c9dc5u

/* FNV-1a, of more than one piece: the result of one is the seed of the next. */
static inline uint64_t sonde_fnv64(uint64_t seed, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++) seed = (seed ^ p[i]) * 0x100000001b3ull;
    return seed;
}

static inline uint32_t sonde_fnv32(uint32_t seed, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++) seed = (seed ^ p[i]) * 0x01000193u;
    return seed;
}

static inline uint64_t sonde_fnv64_text(uint64_t seed, const char *s)
{
    return sonde_fnv64(seed, s, strlen(s));
}

static inline uint32_t sonde_fnv32_text(uint32_t seed, const char *s)
{
    return sonde_fnv32(seed, s, strlen(s));
}

#endif
