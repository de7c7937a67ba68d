/* check_report.h - a check against a baseline (analyze/check.h) as text, Markdown, JSON and JUnit
 * XML. */
#ifndef SONDE_PRESENT_CHECK_REPORT_H
#define SONDE_PRESENT_CHECK_REPORT_H

#include "analyze/check.h"
#include "analyze/run_facts.h"
#include "base/buf.h"
#include "base/err.h"

enum sonde_check_format {
    SONDE_CHECK_TEXT, SONDE_CHECK_MARKDOWN, SONDE_CHECK_JSON, SONDE_CHECK_JUNIT,
};
int sonde_check_format_find(const char *name); /* "text", "markdown", "json", "junit"; or -1 */

/* A fact that is not the same of the baseline's runs and of those compared with it. */
struct sonde_check_difference {
    enum sonde_run_fact fact;
    char before[SONDE_FACT_BYTES], after[SONDE_FACT_BYTES];
};

struct sonde_check_view {
    const char *baseline;       /* its name */
    const char *after;          /* what is compared with it */
    double created_s, now_s;    /* unix time of the baseline's first run, and of the check */
    const struct sonde_check_difference *differences;
    size_t difference_count;
    int same_build;             /* the baseline's program and this are one build */
    int defaults;               /* the limits are those of sonde_check_defaults */
    int unknown_ok;
    int commands;               /* runs were recorded by the check itself */
    size_t limit;               /* functions in JSON; 0 = 30 */
    enum sonde_check_format format;
    int width, ascii;
};

/* SONDE_ENOMEM. */
int sonde_check_report(const struct sonde_check *k, const struct sonde_comparison *c,
                       const struct sonde_check_view *v, struct sonde_buf *out,
                       struct sonde_err *err);

/* What a row says, without a newline: "CPU time a request regressed by 3.1 % (2.2…4.1 %): 1.47 ms →
 * 1.51 ms". */
void sonde_check_row_sentence(const struct sonde_check_row *r, int ascii, struct sonde_buf *out);

/* The first line: passed or failed, and the weightiest row. Without a newline. */
void sonde_check_headline(const struct sonde_check *k, const struct sonde_comparison *c,
                          const struct sonde_check_view *v, struct sonde_buf *out);

/* Which runs would have to be recorded to see a change that cannot be seen now: "" = there are
 * enough. Without a newline. */
void sonde_check_advice(const struct sonde_check *k, const struct sonde_comparison *c,
                        const struct sonde_check_view *v, struct sonde_buf *out);

/* Writers, by format. */
void sonde_check_json(const struct sonde_check *k, const struct sonde_comparison *c,
                      const struct sonde_check_view *v, struct sonde_buf *out);
void sonde_check_junit(const struct sonde_check *k, const struct sonde_comparison *c,
                       const struct sonde_check_view *v, struct sonde_buf *out);

#endif
