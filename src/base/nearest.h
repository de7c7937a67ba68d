/* nearest.h - "did you mean": how far a word is from one that is known. */
#ifndef SONDE_BASE_NEAREST_H
#define SONDE_BASE_NEAREST_H

#include <limits.h>
#include <stddef.h>

#define SONDE_NOT_NEAR UINT_MAX

/* 0 = the same word, more = less alike, SONDE_NOT_NEAR = no help to suggest it. Edits are counted
 * (a letter more, less, another, or two swapped); a word of which the other is a part counts as
 * near whatever the length. Case and the difference of - and _ do not count. */
unsigned sonde_nearness(const char *word, const char *known);

/* The one to suggest, when all that are known have been tried; of equals the first. */
struct sonde_nearest {
    const char *known;      /* borrowed; NULL = none is near */
    unsigned cost;
};
#define SONDE_NEAREST_NONE { .cost = SONDE_NOT_NEAR }

static inline void sonde_nearest_try(struct sonde_nearest *best, const char *word,
                                     const char *known)
{
    const unsigned cost = sonde_nearness(word, known);
    if (cost < best->cost) *best = (struct sonde_nearest){ known, cost };
}

#endif
