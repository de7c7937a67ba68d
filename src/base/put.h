/* put.h - writing into memory that is already reserved. An exporter reserves once a series and
 * fills it with these: no call, no format string, no check a byte. Each returns the end. */
#ifndef SONDE_BASE_PUT_H
#define SONDE_BASE_PUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SONDE_PUT_U64_MAX 20

static inline char *sonde_put(char *at, const void *data, size_t len)
{
    memcpy(at, data, len);
    return at + len;
}

/* A string literal. */
#define SONDE_PUT(at, literal) sonde_put((at), "" literal, sizeof(literal) - 1)

static inline char *sonde_put_u64(char *at, uint64_t v)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930"
                                "31323334353637383940414243444546474849505152535455565758596061"
                                "62636465666768697071727374757677787980818283848586878889909192"
                                "93949596979899";
    char digits[SONDE_PUT_U64_MAX], *end = digits + sizeof(digits), *p = end;
    while (v >= 100) {
        p -= 2;
        memcpy(p, pairs + 2 * (v % 100), 2);
        v /= 100;
    }
    if (v >= 10) {
        p -= 2;
        memcpy(p, pairs + 2 * v, 2);
    } else {
        *--p = (char)('0' + v);
    }
    return sonde_put(at, p, (size_t)(end - p));
}

/* Unix time as seconds with three decimals, 24 bytes at most. */
static inline char *sonde_put_time(char *at, double seconds)
{
    const uint64_t ms = seconds > 0 && seconds < 1e15 ? (uint64_t)(seconds * 1000 + 0.5) : 0;
    at = sonde_put_u64(at, ms / 1000);
    *at++ = '.';
    *at++ = (char)('0' + ms / 100 % 10);
    *at++ = (char)('0' + ms / 10 % 10);
    *at++ = (char)('0' + ms % 10);
    return at;
}

static inline char *sonde_put_hex(char *at, uint64_t v)
{
    for (int shift = 60; shift >= 0; shift -= 4) {
        *at++ = "0123456789abcdef"[v >> shift & 15];
    }
    return at;
}

#endif
