/* process.h - the samples of a profile by process. */
#ifndef SONDE_PROFILE_PROCESS_H
#define SONDE_PROFILE_PROCESS_H

#include "profile/profile.h"

struct sonde_profile_process {
    uint32_t pid;
    uint32_t name;            /* string: of its first thread, or else of the one with most weight */
    uint32_t threads;         /* that have samples */
    uint64_t weight, samples, truncated; /* samples are counts */
};

/* Of the samples that match (NULL = all of kind): the processes that have any, most weight first;
 * to be freed with sonde__free. Samples of which the process is not known are none's. 0 or
 * SONDE_ENOMEM. */
int sonde_profile_processes(const struct sonde_profile *p, const struct sonde_profile_match *match,
                            enum sonde_sample_kind kind, struct sonde_profile_process **out,
                            uint32_t *count);

#endif
