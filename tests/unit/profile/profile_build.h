/* profile_build.h - small profiles for tests, written as text. */
#ifndef SONDE_TESTS_PROFILE_BUILD_H
#define SONDE_TESTS_PROFILE_BUILD_H

#include <string.h>

#include "profile/profile.h"

/* "main;f;g", the start first. */
static inline uint32_t build_stack(struct sonde_profile *p, const char *folded)
{
    uint32_t stack = 0;
    for (const char *s = folded; *s;) {
        const size_t len = strcspn(s, ";");
        stack = sonde_profile_stack(p, stack, sonde_profile_named_location(p, s, len));
        s += len + (s[len] == ';');
    }
    return stack;
}

static inline int build_sample(struct sonde_profile *p, const char *folded, uint64_t weight,
                               uint32_t thread, uint64_t time_ns)
{
    return sonde_profile_add_sample(
        p, &(struct sonde_profile_sample){ .stack = build_stack(p, folded), .weight = weight,
                                           .thread = thread, .time_ns = time_ns, .count = 1 });
}

#endif
