/* gzip.h - compress an answer. Level 1: most of the gain at a fraction of the time. */
#ifndef SONDE_SERVE_GZIP_H
#define SONDE_SERVE_GZIP_H

#include "base/buf.h"

/* Append in, compressed, to out. 0, or SONDE_ENOMEM or SONDE_EFULL, which is in out->error. */
int sonde_gzip(const struct sonde_buf *in, struct sonde_buf *out);

#endif
