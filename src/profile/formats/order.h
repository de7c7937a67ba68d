/* order.h - samples as a writer of timelines wants them. */
#ifndef SONDE_PROFILE_FORMATS_ORDER_H
#define SONDE_PROFILE_FORMATS_ORDER_H

#include "profile/profile.h"

/* The samples that pass m, by thread, then time, then as they came. Free with sonde__free. NULL:
 * no memory. There are sonde_profile_match_count(m) of them. */
uint32_t *sonde_samples_in_order(const struct sonde_profile *p,
                                 const struct sonde_profile_match *m);

#endif
