/* otlp_profile.h - a profile as OTLP's ExportProfilesServiceRequest, for who has more to say about
 * where it comes from than the profile itself. */
#ifndef SONDE_PROFILE_FORMATS_OTLP_PROFILE_H
#define SONDE_PROFILE_FORMATS_OTLP_PROFILE_H

#include "profile/format.h"

/* resource: bytes of a Resource message. */
int sonde_otlp_profile_write(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                             const struct sonde_buf *resource, struct sonde_buf *out,
                             struct sonde_err *err);

#endif
