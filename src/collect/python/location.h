/* location.h - frames of Python that libsonde_preload has put on stacks (segment/python.h), into a
 * profile; and the words for what it could not do. */
#ifndef SONDE_COLLECT_PYTHON_LOCATION_H
#define SONDE_COLLECT_PYTHON_LOCATION_H

#include "collect/segment/read.h"
#include "profile/profile.h"

/* The location of a frame for which sonde__python_is; 0 = no memory. *final: it will be the same
 * when it is asked for again. */
uint32_t sonde_python_location(struct sonde_profile *p, struct sonde_segment *s, uint64_t ip,
                               int *final);

/* Why functions of Python are missing in the process of s, or some of them, as a sentence; "" =
 * they are not, or it is not Python. */
void sonde_python_note(struct sonde_segment *s, uint32_t pid, char *out, size_t size);

#endif
