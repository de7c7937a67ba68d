/* figure.h - figures for people: values with units, tables, and limits (--fail-on). */
#ifndef SONDE_BENCH_FIGURE_H
#define SONDE_BENCH_FIGURE_H

#include "base/buf.h"
#include "base/err.h"
#include "bench/result.h"

/* "1.20 ms", "3.4k/s", "512 MiB/s", "2.71"; "–" = not known. Returns out. */
#define SONDE_BENCH_VALUE_BYTES 40
const char *sonde_bench_value_format(char out[SONDE_BENCH_VALUE_BYTES], double v, const char *unit,
                                     int ascii);
/* "+3.1 %", "-0.20 %"; "–" = not known, and bounds that are infinite alike. */
const char *sonde_bench_percent_format(char out[SONDE_BENCH_VALUE_BYTES], double ratio, int ascii);

/* A result: what, when, where, figures with intervals, verdict. */
struct sonde_bench_view {
    int markdown;
    int width;       /* cells; 0 = as wide as needed */
    int ascii;
    int details;     /* with machine, seed and command line */
};
void sonde_bench_result_text(const struct sonde_bench_result *r, const struct sonde_bench_view *v,
                             struct sonde_buf *out);
/* A table that was filled, as text or as Markdown. */
struct sonde_table;
void sonde_bench_table_text(const struct sonde_table *t, const struct sonde_bench_view *v,
                            struct sonde_buf *out);
/* Unix time, "2026-11-18 07:30:12", local. */
const char *sonde_bench_time_format(char out[SONDE_BENCH_VALUE_BYTES], double time_s);

/* The little language of --fail-on (analyze/compare_fail.h), with figures' names or globs:
 *
 *   FIGURE > LIMIT%           of a comparison: it grew by more than that
 *   FIGURE > LIMIT[UNIT]      it is more than that: 'ttft_s.p95>200ms', 'requests_per_s<50'
 *
 * and < alike. Of several figures that a glob names, any breaks it. */
struct sonde_bench_limit {
    char text[256];              /* as it was given */
    char glob[SONDE_BENCH_NAME_MAX + 1];
    int sign;                    /* 1: grew, or more than; -1: shrank, or less */
    int absolute;
    double limit;                /* 0.05 = 5 % */
    const char *kind;            /* static: what a unit was given of; NULL = none */
};
int sonde_bench_limit_parse(const char *text, struct sonde_bench_limit *out, struct sonde_err *err);

/* 1 and the figure that breaks an absolute limit by most; 0: none does. SONDE_ENOENT: there is no
 * such figure; SONDE_EINVAL: it is not of the limit's unit, or the limit is one of a change. */
int sonde_bench_limit_check(const struct sonde_bench_limit *l, const struct sonde_bench_result *r,
                            const struct sonde_bench_figure **out, struct sonde_err *err);
/* SONDE_EINVAL: a figure of that unit cannot have the limit. */
int sonde_bench_limit_unit(const struct sonde_bench_limit *l, const char *name, const char *unit,
                           struct sonde_err *err);

#endif
