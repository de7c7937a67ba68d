/* chrome_read.h - the reading side of the Trace Event Format, for chrome.c. */
#ifndef SONDE_PROFILE_FORMATS_CHROME_READ_H
#define SONDE_PROFILE_FORMATS_CHROME_READ_H

#include "profile/format.h"

int sonde_chrome_probe(const char *data, size_t len);
int sonde_chrome_read(const char *data, size_t len, struct sonde_import *how,
                      struct sonde_profile *p, struct sonde_err *err);

#endif
