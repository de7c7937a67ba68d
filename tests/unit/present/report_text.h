/* report_text.h - the report of a profile as text, and what is in it; for tests. */
#ifndef UNIT_PRESENT_REPORT_TEXT_H
#define UNIT_PRESENT_REPORT_TEXT_H

#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "present/report/profile.h"

/* Free it. */
static char *report(const struct sonde_profile *p, struct sonde_report_options o)
{
    struct sonde_buf b;
    struct sonde_err err = { "" };
    sonde_buf_init(&b, 1 << 22);
    o.filter.kind = -1;
    if (sonde_profile_report(p, &o, &b, &err) != 0) fail_msg("%s", err.text);
    return sonde_buf_take(&b);
}

static void has(const char *text, const char *what)
{
    if (!strstr(text, what)) fail_msg("no '%s' in:\n%s", what, text);
}

#endif
