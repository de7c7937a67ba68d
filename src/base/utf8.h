/* utf8.h - make bytes of unknown origin valid UTF-8. Libc only, no allocation. */
#ifndef SONDE_BASE_UTF8_H
#define SONDE_BASE_UTF8_H

#include <stddef.h>

/* 1 if s[0..len) is well-formed UTF-8 without NUL. */
int sonde__utf8_valid(const char *s, size_t len);

/* Copy at most out_max bytes to out, bad sequences and NUL replaced by U+FFFD, cut before a
 * character that does not fit. Returns the bytes written; *changed is set to 1 when out is not
 * the same as s (never cleared). */
size_t sonde__utf8_copy(char *out, size_t out_max, const char *s, size_t len, int *changed);

#endif
