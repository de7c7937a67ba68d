/* cache.h - frames by build id and place in the file, kept from one profile to the next: a
 * resident agent names the same few thousand places again and again. */
#ifndef SONDE_PROFILE_SYMBOL_CACHE_H
#define SONDE_PROFILE_SYMBOL_CACHE_H

#include "profile/profile.h"
#include "profile/symbol/symbol.h"

struct sonde_symbol_cache {
    struct sonde_profile *known; /* module's path = build id; location's address = at */
};

/* Put frames as the lines of a location. Texts become valid UTF-8 without control characters.
 * 0 or SONDE_ENOMEM. */
int sonde_symbol_set(struct sonde_profile *p, uint32_t location, uint32_t module,
                     const struct sonde_symbol_frame *frames, uint32_t count);

/* Name all locations of p that are known. 0 or SONDE_ENOMEM. */
int sonde_symbol_cache_use(struct sonde_symbol_cache *c, struct sonde_profile *p);

/* Remember. Full or out of memory: all of it is forgotten. */
void sonde_symbol_cache_put(struct sonde_symbol_cache *c, const struct sonde_symbol_job *job,
                            size_t index, const struct sonde_symbol_frame *frames,
                            uint32_t count);
void sonde_symbol_cache_flags(struct sonde_symbol_cache *c, const struct sonde_symbol_job *job,
                              uint32_t flags);
void sonde_symbol_cache_release(struct sonde_symbol_cache *c);

#endif
