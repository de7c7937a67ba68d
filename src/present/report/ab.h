/* ab.h - what GET /api/ab says of two servers behind a front (agent/arms.h), for people. */
#ifndef SONDE_PRESENT_REPORT_AB_H
#define SONDE_PRESENT_REPORT_AB_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define SONDE_AB_ANSWER_MAX (1u << 20) /* bytes of such an answer; a real one has 5 KB */

struct sonde_ab_style {
    int width;      /* in cells; 0 = as wide as needed */
    int ascii;
};

/* An answer as text: both servers, differences with intervals, errors, the verdict; harmless to a
 * terminal whatever the answer holds. SONDE_EINVAL with a sentence: it is no such answer. */
int sonde_ab_text(const char *json, size_t len, const struct sonde_ab_style *style,
                  struct sonde_buf *out, struct sonde_err *err);

#endif
