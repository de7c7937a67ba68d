/* result.h - what a benchmark found: figures with intervals, and on what machine, with what
 * settings and seed they were taken. Every command of `sonde bench` makes one, and what is common
 * to them (saving, listing, comparing, drawing) is done with the figures alone.
 *
 * As JSON one object:
 *
 *   schema, kind, name, time_s, sonde, seed, command[], machine{…},
 *   verdict{valid, reasons[]},
 *   figures[{name, unit, better, value, low, high, samples, parts[]}],
 *   and what only this kind has (`metrics`, `requests_per_s` …): its extra members
 *
 * low and high are the limits of a 95 % interval of value; null = not known. parts are what the
 * interval was made of, in order of time: runs of a command, or sub-windows of a run (stats.h says
 * why not requests). So two results that were saved can be compared long after (analyze/stats.h).
 *
 * Names of figures have dots where the JSON of a kind has levels: "ttft_s.p50". */
#ifndef SONDE_BENCH_RESULT_H
#define SONDE_BENCH_RESULT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define SONDE_BENCH_SCHEMA 1
#define SONDE_BENCH_NAME_MAX 127
#define SONDE_BENCH_FIGURES_MAX 100000u
#define SONDE_BENCH_PARTS_MAX 100000u   /* of a figure */
#define SONDE_BENCH_JSON_MAX ((size_t)256 << 20)

struct sonde_bench_figure {
    char name[SONDE_BENCH_NAME_MAX + 1];
    char unit[16];           /* "s", "bytes", "1/s", "bytes/s", "ratio", "" = a number */
    int better;              /* -1: less is, 1: more is, 0: neither */
    double value;            /* NaN = could not be measured */
    double low, high;        /* 95 % interval; NaN = not known */
    uint64_t samples;        /* single observations behind it */
    double *parts;           /* owned; NULL = none */
    size_t part_count;
};

struct sonde_bench_machine {
    char cpu[96];            /* "" = not known, as with the others */
    uint32_t cpus;           /* that may be used */
    uint64_t memory_bytes;
    char kernel[96], governor[32], host[65];
    int virtual;             /* runs under a hypervisor */
    double load_before;      /* running processes, mean of a minute, when it began */
    double stolen_ratio;     /* CPU time that the host took meanwhile; NaN = not known */
    uint64_t stolen_ticks[2]; /* private: taken, and all, at the beginning */
};

struct sonde_bench_result {
    const char *kind;        /* "http", "cmd", "run", "compress", "cache", "tokenizer", "ab" …:
                                static, or kind_owned */
    char *kind_owned;        /* of one that was read; NULL = none */
    char sonde[32];          /* version that made it */
    char name[SONDE_BENCH_NAME_MAX + 1];
    double time_s;           /* Unix time of its beginning */
    uint64_t seed;           /* of all that is random; 0 = nothing is */
    char **command;          /* owned: how it was called; NULL = not known */
    size_t command_count;
    struct sonde_bench_machine machine;
    struct sonde_bench_figure *figures; /* owned */
    size_t figure_count, figure_cap;
    char **reasons;          /* owned: why it is not valid; none = it is */
    size_t reason_count, reason_cap;
    struct sonde_buf extra;  /* members of this kind's own, as JSON without outer braces */
};

/* Now: time and machine are read. */
void sonde_bench_result_init(struct sonde_bench_result *r, const char *kind, const char *name);
void sonde_bench_result_release(struct sonde_bench_result *r);

/* What it was called with is copied; strip: without arguments (base/strip.h) it is left out. */
int sonde_bench_result_command(struct sonde_bench_result *r, char *const *argv, size_t count);

/* A new figure, zero but for name, unit, better, and value, low and high, which are NaN; NULL = no
 * memory, or too many. It is valid until the next is made. */
struct sonde_bench_figure *sonde_bench_figure_add(struct sonde_bench_result *r, const char *name,
                                                  const char *unit, int better);
const struct sonde_bench_figure *sonde_bench_figure_find(const struct sonde_bench_result *r,
                                                         const char *name);
/* parts are copied. 0 or SONDE_ENOMEM. */
int sonde_bench_figure_parts(struct sonde_bench_figure *f, const double *parts, size_t count);
/* Value, interval and samples from the parts: their mean, and Student's t. */
void sonde_bench_figure_mean(struct sonde_bench_figure *f);

/* A reason not to trust it; whoever adds one makes it invalid. 0 or SONDE_ENOMEM. */
int sonde_bench_result_doubt(struct sonde_bench_result *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* It is over: what was stolen meanwhile is read. */
void sonde_bench_result_end(struct sonde_bench_result *r);

/* Appends the object and a newline. */
void sonde_bench_result_json(const struct sonde_bench_result *r, struct sonde_buf *out);

/* The next object of a text, in which nothing is believed: out needs no init, and is released
 * by the caller if 0 is returned. Members that only a kind has are kept as they stand (extra).
 * SONDE_EFORMAT and what is wrong, SONDE_EVERSION, SONDE_ENOMEM. */
struct sonde_json_reader;
int sonde_bench_result_read(struct sonde_json_reader *json, struct sonde_bench_result *out,
                            struct sonde_err *err);

#endif
