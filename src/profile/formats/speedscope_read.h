/* speedscope_read.h - the reading side of speedscope's format, for speedscope.c. */
#ifndef SONDE_PROFILE_FORMATS_SPEEDSCOPE_READ_H
#define SONDE_PROFILE_FORMATS_SPEEDSCOPE_READ_H

#include "profile/format.h"

int sonde_speedscope_probe(const char *data, size_t len);
int sonde_speedscope_read(const char *data, size_t len, struct sonde_import *how,
                          struct sonde_profile *p, struct sonde_err *err);

#endif
