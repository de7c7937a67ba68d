/* why.h - critical paths (analyze/path/path.h) for people and programs: what `sonde why` prints and
 * /api/why answers. Wherever a path comes from, it is written as JSON, and text is made of that:
 * so a file and an agent's answer look the same. docs/why.md describes the JSON. */
#ifndef SONDE_PRESENT_REPORT_WHY_H
#define SONDE_PRESENT_REPORT_WHY_H

#include "base/buf.h"
#include "base/err.h"
#include "profile/profile.h"

/* Of request and trace at most one, and with neither span nor slowest; all NULL: the slowest
 * 1 %. */
struct sonde_why_query {
    const char *request;   /* as sonde_request_is */
    const char *trace;     /* 32 hexadecimal digits, or a UUID */
    const char *span;      /* name, a glob */
    const char *slowest;   /* "5", "1%": which of the requests, or of the spans, are slow */
};

/* SONDE_EINVAL: a query that contradicts itself or cannot be read; SONDE_ENOENT: nothing is as it
 * says; SONDE_ENOMEM. */
int sonde_why_json(const struct sonde_profile *p, const struct sonde_why_query *q,
                   struct sonde_buf *out, struct sonde_err *err);

struct sonde_why_style { int width, ascii; };

/* Text of what sonde_why_json wrote, here or elsewhere: nothing is assumed about it. SONDE_EFORMAT
 * with what is wrong, SONDE_ENOMEM. */
int sonde_why_text(const char *json, size_t len, const struct sonde_why_style *style,
                   struct sonde_buf *out, struct sonde_err *err);

#endif
