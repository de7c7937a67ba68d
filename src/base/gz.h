/* gz.h - gzip whole files in memory, both ways. */
#ifndef SONDE_BASE_GZ_H
#define SONDE_BASE_GZ_H

#include "base/buf.h"

/* Append data to out, compressed. 0, or SONDE_ENOMEM or SONDE_EFULL, which is in out->error. */
int sonde_gz_pack(const void *data, size_t len, int level, struct sonde_buf *out);

/* A file that unpacks to more than so many times what was read of it, and to more than the first
 * megabytes, is not data but a way to use up memory: text of a profiler, at its most repetitive,
 * reaches 100. */
enum { SONDE_GZ_RATIO_MAX = 200, SONDE_GZ_RATIO_FROM = 8 << 20 };

/* Append what is in a gzip file, of one or more members, to out. SONDE_EFORMAT: damaged or cut
 * short, out holds what came before; SONDE_EFULL: more than out may hold, or than the ratio
 * allows. */
int sonde_gz_unpack(const void *data, size_t len, struct sonde_buf *out);

/* 1 if data starts as a gzip file does. */
int sonde_gz_is(const void *data, size_t len);

#endif
