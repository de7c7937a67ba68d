/* hist_tables.c - where in an octave a mantissa falls; see sonde__hist_bucket.
 * bound[k] = floor((2^(k/64) - 1) * 2^52), so that mantissa > bound[k] exactly when the value is
 * above 2^(k/64): no bound but k = 0 is a double. bound[64] is never passed. slot[s] = bounds
 * below 1 + s/128. Both are checked against exact arithmetic by tests/unit/segment. */
#include "sonde/sonde.h"

const uint8_t sonde__hist_slot[128] = {
     0,  1,  2,  3,  3,  4,  5,  5,  6,  7,  7,  8,  9,  9, 10, 11,
    11, 12, 13, 13, 14, 15, 15, 16, 16, 17, 18, 18, 19, 19, 20, 21,
    21, 22, 22, 23, 23, 24, 25, 25, 26, 26, 27, 27, 28, 28, 29, 29,
    30, 30, 31, 31, 32, 32, 33, 34, 34, 35, 35, 36, 36, 36, 37, 37,
    38, 38, 39, 39, 40, 40, 41, 41, 42, 42, 43, 43, 44, 44, 44, 45,
    45, 46, 46, 47, 47, 48, 48, 48, 49, 49, 50, 50, 51, 51, 51, 52,
    52, 53, 53, 53, 54, 54, 55, 55, 55, 56, 56, 57, 57, 57, 58, 58,
    59, 59, 59, 60, 60, 60, 61, 61, 62, 62, 62, 63, 63, 63, 64, 64,
};

const uint64_t sonde__hist_bound[65] = {
    0x0000000000000ull, 0x02c9a3e778060ull, 0x059b0d3158574ull, 0x0874518759bc8ull,
    0x0b5586cf9890full, 0x0e3ec32d3d1a2ull, 0x11301d0125b50ull, 0x1429aaea92ddfull,
    0x172b83c7d517aull, 0x1a35beb6fcb75ull, 0x1d4873168b9aaull, 0x2063b88628cd6ull,
    0x2387a6e756238ull, 0x26b4565e27cddull, 0x29e9df51fdee1ull, 0x2d285a6e4030bull,
    0x306fe0a31b715ull, 0x33c08b26416ffull, 0x371a7373aa9caull, 0x3a7db34e59ff6ull,
    0x3dea64c123422ull, 0x4160a21f72e29ull, 0x44e086061892dull, 0x486a2b5c13cd0ull,
    0x4bfdad5362a27ull, 0x4f9b2769d2ca6ull, 0x5342b569d4f81ull, 0x56f4736b527daull,
    0x5ab07dd485429ull, 0x5e76f15ad2148ull, 0x6247eb03a5584ull, 0x6623882552224ull,
    0x6a09e667f3bccull, 0x6dfb23c651a2eull, 0x71f75e8ec5f73ull, 0x75feb564267c8ull,
    0x7a11473eb0186ull, 0x7e2f336cf4e62ull, 0x82589994cce12ull, 0x868d99b4492ecull,
    0x8ace5422aa0dbull, 0x8f1ae99157736ull, 0x93737b0cdc5e4ull, 0x97d829fde4e4full,
    0x9c49182a3f090ull, 0xa0c667b5de564ull, 0xa5503b23e255cull, 0xa9e6b5579fdbfull,
    0xae89f995ad3adull, 0xb33a2b84f15faull, 0xb7f76f2fb5e46ull, 0xbcc1e904bc1d2ull,
    0xc199bdd85529cull, 0xc67f12e57d14bull, 0xcb720dcef9069ull, 0xd072d4a07897bull,
    0xd5818dcfba487ull, 0xda9e603db3285ull, 0xdfc97337b9b5eull, 0xe502ee78b3ff6ull,
    0xea4afa2a490d9ull, 0xefa1bee615a27ull, 0xf50765b6e4540ull, 0xfa7c1819e90d8ull,
    0xfffffffffffffull,
};
