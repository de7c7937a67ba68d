/* report_html.h - `sonde report --format html`: the dashboard as one file (present/page_file.h), of
 * a profile or of a running agent. */
#ifndef SONDE_CLI_REPORT_HTML_H
#define SONDE_CLI_REPORT_HTML_H

#include "base/buf.h"
#include "cli/cli.h"
#include "profile/profile.h"

struct sonde_report_html {
    const char *target;            /* what the user said: a file, a URL */
    const struct sonde_profile *p; /* NULL = target is an agent's URL, and it is asked */
    double from_s, to_s;           /* of an agent: unix time, or negative: so long ago; 0 = the last
                                      15 minutes, now */
};

/* Appends the file. Exit status as sonde_cli_profile. */
int sonde_cli_report_html(const struct sonde_cli *cli, const struct sonde_report_html *o,
                          struct sonde_buf *out);

#endif
