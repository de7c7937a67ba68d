/* profile.h - a profile in words and tables: where the time (or the bytes) went, by
 * function, by thread and by span, and how far to believe it: what share of the stacks is whole,
 * what was lost, which modules have no names. */
#ifndef SONDE_PRESENT_REPORT_PROFILE_H
#define SONDE_PRESENT_REPORT_PROFILE_H

#include "base/buf.h"
#include "base/err.h"
#include "analyze/finding/finding.h"
#include "profile/profile.h"
#include "profile/tree/tree.h"

enum sonde_report_style { SONDE_REPORT_TEXT, SONDE_REPORT_MARKDOWN, SONDE_REPORT_JSON,
                          SONDE_REPORT_CSV, SONDE_REPORT_PDF };

struct sonde_pdf;

struct sonde_report_options {
    struct sonde_profile_filter filter;
    enum sonde_report_style style;
    size_t limit;       /* functions, threads and spans shown of each; 0 = 20 */
    double share_min;   /* of the total: smaller nodes of the tree are left out; 0 = 0.01 */
    int width;          /* of text; 0 = as wide as needed */
    int ascii;
    const struct sonde_finding_options *rules; /* findings come first; NULL = none are looked for.
                                                  A report of a part has none */
    struct sonde_pdf *pdf; /* what a PDF is drawn on; set by sonde_profile_report itself */
};

/* The series of a recording (tracks and those of its end) as Prometheus' text format 0.0.4: gauges
 * as they were last; counters and histograms of final.h since their programs began, and others what
 * they gained while it was recorded. from_ns and to_ns of the filter count, the rest does not.
 * SONDE_ENOENT and why when it has no series; SONDE_ENOMEM. */
int sonde_report_prometheus(const struct sonde_profile *p, const struct sonde_profile_filter *f,
                            struct sonde_buf *out, struct sonde_err *err);

/* The JSON Schema (draft 2020-12) of SONDE_REPORT_JSON: docs/report.schema.json. */
extern const char sonde_report_schema[];

/* Append the report. SONDE_ENOENT and why when nothing passes the filter; SONDE_EINVAL;
 * SONDE_ENOMEM. */
int sonde_profile_report(const struct sonde_profile *p, const struct sonde_report_options *o,
                         struct sonde_buf *out, struct sonde_err *err);

/* The first `limit` functions by their own weight, a line each: " 61.0 %  burn  src/burn.c:12". */
void sonde_profile_top(const struct sonde_tree *t, size_t limit, int ascii, struct sonde_buf *out);

/* The heap in a few lines: how much is in use, the peak, what was allocated, then each leak, at
 * most `leaks` of them. Nothing without heap facts. */
void sonde_heap_summary(const struct sonde_profile *p, size_t leaks, int ascii,
                        struct sonde_buf *out);

#endif
