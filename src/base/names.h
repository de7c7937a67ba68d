/* names.h - names of an enum's values: from the value, and back.
 *
 * The names are an array in the order of the values, often made of the same X-macro as the enum:
 *
 *   static const char *const names[] = {
 *   #define SONDE__X(id, name) name,
 *       SONDE_FLAVOURS(SONDE__X)
 *   #undef SONDE__X
 *   };
 *   int sonde_flavour_find(const char *name) { return SONDE_NAME_FIND(names, name); }
 */
#ifndef SONDE_BASE_NAMES_H
#define SONDE_BASE_NAMES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/array.h"

/* The value whose name is the first len bytes of text, or -1. Places without a name (NULL) are
 * passed over. */
static inline int sonde_name_find_len(const char *const *names, size_t count, const char *text,
                                      size_t len)
{
    for (size_t i = 0; i < count; i++) {
        if (names[i] && strlen(names[i]) == len && !memcmp(names[i], text, len)) return (int)i;
    }
    return -1;
}

static inline int sonde_name_find(const char *const *names, size_t count, const char *text)
{
    return sonde_name_find_len(names, count, text, strlen(text));
}

/* "unknown" if it is none: for values out of a file or from another process. */
static inline const char *sonde_name_of(const char *const *names, size_t count, uint64_t value)
{
    return value < count && names[value] ? names[value] : "unknown";
}

/* The same of an array whose length is known. */
#define SONDE_NAME_FIND(names, text) sonde_name_find(names, SONDE_COUNT(names), text)
#define SONDE_NAME_OF(names, value) sonde_name_of(names, SONDE_COUNT(names), (uint64_t)(value))

#endif
