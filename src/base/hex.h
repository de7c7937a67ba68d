/* hex.h - hexadecimal digits. */
#ifndef SONDE_BASE_HEX_H
#define SONDE_BASE_HEX_H

/* 0 … 15, or -1. */
static inline int sonde_hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte of "%41", -1 = no such code is at s. */
static inline int sonde_hex_escape(const char *s)
{
    const int high = s[0] == '%' ? sonde_hex_digit(s[1]) : -1;
    const int low = high >= 0 ? sonde_hex_digit(s[2]) : -1;
    return low >= 0 ? high << 4 | low : -1;
}

#endif
