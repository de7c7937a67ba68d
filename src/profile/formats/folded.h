/* folded.h - the reading side of the folded format, for folded.c. */
#ifndef SONDE_PROFILE_FORMATS_FOLDED_H
#define SONDE_PROFILE_FORMATS_FOLDED_H

#include "profile/format.h"

int sonde_folded_probe(const char *data, size_t len);
int sonde_folded_read(const char *data, size_t len, struct sonde_import *how,
                      struct sonde_profile *p, struct sonde_err *err);

#endif
