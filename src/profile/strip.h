/* strip.h - a profile without paths, command line and host name, to be shown to others. Names of
 * functions stay, of files and modules the base name, of the host what kind of machine it is.
 * Nothing of it can be symbolized any more. */
#ifndef SONDE_PROFILE_STRIP_H
#define SONDE_PROFILE_STRIP_H

#include "profile/profile.h"

/* 0 or SONDE_ENOMEM: then it is as it was. */
int sonde_profile_strip(struct sonde_profile *p);

#endif
