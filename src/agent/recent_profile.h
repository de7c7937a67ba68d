/* recent_profile.h - all that the agent knows of the last seconds, as one profile: CPU samples,
 * spans, requests, heaps and series. What `sonde record` would have written, for whoever looks for
 * causes in a program that runs. */
#ifndef SONDE_AGENT_RECENT_PROFILE_H
#define SONDE_AGENT_RECENT_PROFILE_H

#include "agent/agent.h"

struct sonde_recent_profile_options {
    double window_s;            /* so much of what was, from continuous profiling; at most what the
                                   model remembers of series (SONDE_HISTORY ticks) */
    double record_s;            /* > 0: instead of it so long from now on, with waiting (off-CPU) */
    int (*gone)(void *client);  /* NULL, or asked while it records: 1 = nobody waits any more */
    void *client;
};

/* Symbolized and judged. SONDE_EOFF: nobody waits any more, or the agent ends; SONDE_ENOMEM. What
 * cannot be sampled is left out. */
int sonde_recent_profile(const struct sonde_agent *a, const struct sonde_recent_profile_options *o,
                         struct sonde_profile **out, struct sonde_err *err);

#endif
