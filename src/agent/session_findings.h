/* session_findings.h - what takes the most in a profile, into a store: /api/findings lists it. */
#ifndef SONDE_AGENT_SESSION_FINDINGS_H
#define SONDE_AGENT_SESSION_FINDINGS_H

#include "profile/profile.h"
#include "store/store.h"

/* name: the profile's. What does not fit or cannot be written is logged. */
void sonde_session_findings(const struct sonde_store_ops *ops, struct sonde_store *s,
                            const char *name, const struct sonde_profile *p, double seconds_min);

#endif
