/* varint.h - numbers in as few bytes as they need: seven bits a byte, the lowest first, and a high
 * bit that says that more follow. As protobuf has them, and our own files. */
#ifndef SONDE_BASE_VARINT_H
#define SONDE_BASE_VARINT_H

#include <stddef.h>
#include <stdint.h>

enum { SONDE_VARINT_MAX = 10 }; /* bytes */

/* Returns what follows it; there is room for SONDE_VARINT_MAX bytes. */
static inline unsigned char *sonde_varint_put(unsigned char *at, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) *at++ = (unsigned char)(v | 0x80);
    *at++ = (unsigned char)v;
    return at;
}

/* 0, and *at is behind it; -1: it does not end before `end`, or has more than 64 bits. */
static inline int sonde_varint_get(const unsigned char **at, const unsigned char *end,
                                   uint64_t *out)
{
    uint64_t v = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        const uint64_t byte = *(*at)++;
        if (shift == 63 && byte > 1) break;
        v |= (byte & 0x7f) << shift;
        if (byte < 0x80) {
            *out = v;
            return 0;
        }
    }
    return -1;
}

static inline size_t sonde_varint_size(uint64_t v)
{
    return (63u - (size_t)__builtin_clzll(v | 1)) / 7 + 1;
}

/* 0, -1, 1, -2, … become 0, 1, 2, 3, …, so that small numbers are short whatever their sign.
 * Differences of two numbers of 64 bits wrap, so every pair of them has one. */
static inline uint64_t sonde_zigzag(uint64_t v) { return v << 1 ^ (v >> 63 ? UINT64_MAX : 0); }
static inline uint64_t sonde_unzigzag(uint64_t z) { return z >> 1 ^ (z & 1 ? UINT64_MAX : 0); }

#endif
