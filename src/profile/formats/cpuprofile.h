/* cpuprofile.h - V8's samples where they come in pieces: in trace events of Chrome and DevTools. */
#ifndef SONDE_PROFILE_FORMATS_CPUPROFILE_H
#define SONDE_PROFILE_FORMATS_CPUPROFILE_H

#include "profile/formats/import.h"

/* Read one profile from the "args" of its events Profile and ProfileChunk, in order of time, of a
 * thread of p. 0 or SONDE_E… with err. */
int sonde_cpuprofile_chunks(const struct sonde_json_reader *args, uint32_t count, uint32_t thread,
                            struct sonde_profile *p, struct sonde_err *err);

#endif
