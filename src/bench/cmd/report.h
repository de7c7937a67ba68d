/* report.h - what `sonde bench cmd` found: as a result (bench/result.h) with members of its own,
 *
 *   commands[{name, command, shell, rounds, failures, parallel[{copies, wall_s{mean, low, high,
 *     stddev, median, min, max}, throughput_per_s, outliers[{run, wall_s, relative, reason}]}],
 *     scaling{contention, coherence, best_parallel, …}}],
 *   comparison[{name, reference, parallel, ratio, low, high, p, verdict, smallest}],
 *   shell_s, counters
 *
 * as a table, and as a table in Markdown. */
#ifndef SONDE_BENCH_CMD_REPORT_H
#define SONDE_BENCH_CMD_REPORT_H

#include "analyze/usl.h"
#include "base/buf.h"
#include "bench/cmd/timing.h"
#include "bench/result.h"

/* A case in numbers. */
struct sonde_timing_row {
    const struct sonde_timing_case *of;
    double *walls;               /* owned: b->rounds, less the shell */
    struct sonde_estimate mean;
    double half;                 /* of its 95 % interval, the shell's error with it */
    double median, least, most, deviation;
    double metric[SONDE_TIMING_METRICS]; /* means; NaN = not known */
    int rss_floor;               /* in more than half of the runs */
    struct sonde_timing_outlier *outliers; /* owned */
    size_t outlier_count;
    size_t reference;            /* row of the fastest with as many copies; itself: it is that */
    struct sonde_timing_ratio ratio; /* to that */
};

struct sonde_timing_scaling { int known; struct sonde_usl usl; };

struct sonde_timing_report {
    const struct sonde_timing_options *o;
    const struct sonde_timing_bench *b;
    struct sonde_timing_row *rows;  /* owned: one a case */
    struct sonde_timing_scaling *scaling; /* owned: one a command */
};

/* o and b are borrowed. SONDE_ENOMEM. */
int sonde_timing_report_init(struct sonde_timing_report *r, const struct sonde_timing_options *o,
                             const struct sonde_timing_bench *b);
void sonde_timing_report_release(struct sonde_timing_report *r);

/* Figures, doubts and members. SONDE_ENOMEM. */
int sonde_timing_report_result(const struct sonde_timing_report *r, struct sonde_bench_result *out);

/* width: cells, 0 = as wide as needed. */
void sonde_timing_report_text(const struct sonde_timing_report *r, int width, int ascii,
                              struct sonde_buf *out);
void sonde_timing_report_markdown(const struct sonde_timing_report *r, struct sonde_buf *out);

/* "1.91 times as long (1.89 … 1.93)"; "no difference seen …". Shared by text and Markdown. */
enum sonde_timing_verdict { SONDE_TIMING_FASTEST, SONDE_TIMING_SLOWER, SONDE_TIMING_NO_DIFFERENCE,
                         SONDE_TIMING_NOT_KNOWN };
enum sonde_timing_verdict sonde_timing_verdict(const struct sonde_timing_report *r, size_t row);

#endif
