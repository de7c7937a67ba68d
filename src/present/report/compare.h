/* compare.h - a comparison (analyze/compare.h) in words, tables and JSON. */
#ifndef SONDE_PRESENT_REPORT_COMPARE_H
#define SONDE_PRESENT_REPORT_COMPARE_H

#include "analyze/compare.h"
#include "base/buf.h"
#include "base/err.h"
#include "present/report/profile.h"

struct sonde_compare_view {
    const char *before, *after;   /* what they are called */
    const char *more_runs;        /* how several runs of each are compared; NULL = it is not said */
    const char *all_figures;      /* what shows all figures, "--format json"; NULL = alike */
    enum sonde_report_style style;
    size_t limit;                 /* functions shown; 0 = 30 */
    int width, ascii;
};

/* The sentence on top: "b.run is 12.1 % ± 3.0 % faster than a.run in request time p50", and what
 * contributed most. At most two lines, each with its newline. */
void sonde_compare_headline(const struct sonde_comparison *c, const struct sonde_compare_view *v,
                            struct sonde_buf *out);

/* All of it. SONDE_ENOMEM. */
int sonde_compare_report(const struct sonde_comparison *c, const struct sonde_compare_view *v,
                         struct sonde_buf *out, struct sonde_err *err);

/* An object: verdict, summary, figures[] and functions[], as `sonde diff --json` has them.
 * sonde_compare_report writes this for SONDE_REPORT_JSON; the HTTP answer is the same. */
void sonde_compare_json(const struct sonde_comparison *c, const struct sonde_compare_view *v,
                        struct sonde_buf *out);

/* A value of a figure as people read it: "12.3 ms", "4.56 MiB/s", "31.2 %". */
#define SONDE_MEASURE_BYTES 40
const char *sonde_compare_measure_format(char out[SONDE_MEASURE_BYTES], double value,
                                         const char *unit, int ascii);
/* "-20.1…-12.3 %", "" where there is no interval. */
const char *sonde_compare_measure_interval(char out[SONDE_MEASURE_BYTES],
                                           const struct sonde_compare_measure *f, int ascii);

#endif
