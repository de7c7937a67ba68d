/* report_json.h - the members of the short report (report_json.c) that the long one of
 * present/report/ has as well, so that both have one shape. */
#ifndef SONDE_PROFILE_FORMATS_REPORT_JSON_H
#define SONDE_PROFILE_FORMATS_REPORT_JSON_H

#include "base/buf.h"
#include "profile/profile.h"
#include "profile/tree/tree.h"

/* Members "cpu", "off_cpu", "runnable", "imported" and "wall" of an open object that has one
 * already: those of which samples pass, with at most `limit` functions each. 0 or SONDE_ENOMEM. */
int sonde_report_short_functions(const struct sonde_profile *p,
                                 const struct sonde_profile_filter *f, size_t limit,
                                 struct sonde_buf *out);

/* "peak_mb", "allocations", "leaked_mb" … as members of an open object. Returns 1 if there are
 * any. */
int sonde_report_short_memory(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                              struct sonde_buf *out);

#endif
