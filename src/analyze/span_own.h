/* span_own.h - the time of spans that is spent in no other one.
 *
 * A span is inside another if it says so (its parent, also in another process: a request behind the
 * front), if it began inside of it on the same thread, or if it is a batch that served it. Its time
 * is taken off all of these, once where several overlap: so a second is nobody's twice, however
 * many processes it passes through. */
#ifndef SONDE_ANALYZE_SPAN_OWN_H
#define SONDE_ANALYZE_SPAN_OWN_H

#include "profile/profile.h"

/* For each span the nanoseconds within the time of the profile that are its own. Free *out with
 * sonde__free. 0 or SONDE_ENOMEM. */
int sonde_span_own(const struct sonde_profile *p, uint64_t **out);
/* All of a span that is in the time of the profile. */
uint64_t sonde_span_length(const struct sonde_profile *p, const struct sonde_profile_span *s);

#endif
