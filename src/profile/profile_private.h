/* profile_private.h - what formats/ use of profile.c beside its interface. */
#ifndef SONDE_PROFILE_PROFILE_PRIVATE_H
#define SONDE_PROFILE_PROFILE_PRIVATE_H

#include "profile/profile.h"

/* sonde_profile_named_location for a name whose sonde_hash_bytes is known. */
uint32_t sonde_profile_hashed_location(struct sonde_profile *p, const char *name, size_t len,
                                       uint32_t hash);

#endif
