/* path.h - names of files, and how texts begin and end. */
#ifndef SONDE_BASE_PATH_H
#define SONDE_BASE_PATH_H

#include <stddef.h>
#include <string.h>

/* What follows the last slash: a part of path, never NULL. A path that ends in a slash is the
 * answer itself, since what is shown or compared as a name should not be empty; so only "" gives
 * "". */
static inline const char *sonde_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static inline int sonde_has_prefix(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* s need not end in a NUL at len. */
static inline int sonde_has_suffix_len(const char *s, size_t len, const char *suffix)
{
    const size_t n = strlen(suffix);
    return len >= n && memcmp(s + len - n, suffix, n) == 0;
}

/* s may be NULL, which ends in nothing. */
static inline int sonde_has_suffix(const char *s, const char *suffix)
{
    return s && sonde_has_suffix_len(s, strlen(s), suffix);
}

#endif
