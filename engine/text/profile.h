/* profile.h - what a tokenizer did so far, and its slowest inputs; see tokenizer.h. */
#ifndef ENGINE_TEXT_PROFILE_H
#define ENGINE_TEXT_PROFILE_H

#include <pthread.h>
#include <stdatomic.h>

#include "text/tokenizer.h"

struct profile {
    _Atomic uint64_t encodes, bytes, tokens, ns, lookups, merges, cache_hits, cache_misses,
                     words_long, words_long_bytes;
    /* The slowest, the slowest first. An encode that is faster than the last of a full list, which
     * is nearly every one, does not take the lock. */
    pthread_mutex_t lock;
    _Atomic uint64_t slow_ns;    /* of the last one of a full list, else 0 */
    struct tokenizer_slow slowest[TOKENIZER_SLOWEST];
    size_t slow_count;
};

void profile_init(struct profile *p);
void profile_release(struct profile *p);
/* one: of one encode; its encodes, cache_slots and cache_used are not looked at. */
void profile_add(struct profile *p, const struct tokenizer_counts *one);

#endif
