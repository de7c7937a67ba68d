/* own.h - what sonde itself does in a program that it samples, told apart from what that does. */
#ifndef SONDE_PROFILE_OWN_H
#define SONDE_PROFILE_OWN_H

#include "profile/profile.h"

#define SONDE_OWN_FRAME "[sonde]"

/* Of a profile that has its names: libsonde_preload stands in front of the program's malloc, free
 * and others. Time in it becomes a single frame, SONDE_OWN_FRAME, under whoever called; where it
 * only stands between the program and the real function it is left out. 0 or SONDE_ENOMEM. */
int sonde_profile_fold_own(struct sonde_profile *p);

#endif
