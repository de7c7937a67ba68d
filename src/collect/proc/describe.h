/* describe.h - what a process is called, for a profile of it. */
#ifndef SONDE_COLLECT_PROC_DESCRIBE_H
#define SONDE_COLLECT_PROC_DESCRIBE_H

#include "profile/profile.h"

/* Name the profile after the process as it is now: program and command line. SONDE_ENOENT: the
 * process cannot be inspected, and the program is called name. */
int sonde_proc_describe(struct sonde_profile *p, uint32_t pid, const char *name);

#endif
