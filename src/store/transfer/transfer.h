/* transfer.h - series of a store as files, and back: JSON, CSV, OpenMetrics, Prometheus' text.
 * Every tick with its exact value and every bucket of a histogram, so that a file that is read into
 * a store and written again is the same, byte for byte.
 *
 *   JSON, CSV       all that the store has: raw integers with their scale, kinds, sources
 *   OpenMetrics,    names, help, labels, times and values, as others read them. Histograms have all
 *   Prometheus      their buckets, with their own bounds as le. What a counter is measured in is
 *                   found out again when it is read; kinds, sources and processes are not there
 *
 * Files of others can be read as well: times of a series may be any, in ascending order. */
#ifndef SONDE_STORE_TRANSFER_TRANSFER_H
#define SONDE_STORE_TRANSFER_TRANSFER_H

#include "base/buf.h"
#include "base/err.h"
#include "store/store.h"

enum sonde_transfer_start {
    SONDE_START_NONE,          /* goes on from the point before */
    SONDE_START_ZERO,          /* a counter that began at zero since the tick before */
    SONDE_START_BASE,          /* what it was before is not known: no increase */
};

struct sonde_transfer_point {
    int64_t time_ms;
    uint64_t value;            /* counter: total; gauge: bits */
    uint64_t zero, sum_raw;    /* histogram: added in this tick */
    uint32_t first, count;     /* of its buckets in the series' */
    uint32_t start;            /* enum sonde_transfer_start; the first point's is never NONE but of
                                  what is no counter */
};

struct sonde_transfer_series {
    struct sonde_store_series spec; /* texts owned */
    struct sonde_transfer_point *point;
    size_t count, cap;
    struct sonde_transfer_bucket { uint16_t p; uint64_t n; } *bucket;
    size_t bucket_count, bucket_cap;
};

struct sonde_transfer {
    struct sonde_transfer_series *at;
    size_t count, cap;
};

void sonde_transfer_release(struct sonde_transfer *x);
/* A new series, with copies of spec's texts (NULL = ""); NULL = no memory. */
struct sonde_transfer_series *sonde_transfer_add(struct sonde_transfer *x,
                                                 const struct sonde_store_series *spec);
void sonde_transfer_series_release(struct sonde_transfer_series *s);
/* 0 or SONDE_ENOMEM. */
int sonde_transfer_point(struct sonde_transfer_series *s, const struct sonde_transfer_point *p);
int sonde_transfer_bucket(struct sonde_transfer_series *s, uint16_t p, uint64_t n);

enum sonde_transfer_format { SONDE_TRANSFER_JSON, SONDE_TRANSFER_CSV, SONDE_TRANSFER_OPENMETRICS,
                             SONDE_TRANSFER_PROMETHEUS };
/* -1: there is none of that name. */
int sonde_transfer_format(const char *name);

struct sonde_transfer_result { uint64_t series, points, left_out; };

/* All ticks in q's range to out. left_out: series that the format has no name for. */
int sonde_transfer_export(const struct sonde_store_ops *ops, struct sonde_store *s,
                          const struct sonde_store_query *q, enum sonde_transfer_format format,
                          struct sonde_buf *out, struct sonde_transfer_result *result,
                          struct sonde_err *err);

/* SONDE_EFORMAT with the place and the reason. left_out: numbers that had to be rounded. */
int sonde_transfer_read(const char *text, size_t len, enum sonde_transfer_format format,
                        struct sonde_transfer *x, struct sonde_transfer_result *result,
                        struct sonde_err *err);

/* All of it to the store at path, as one run, or several if times do not go together. */
int sonde_transfer_import(const struct sonde_store_ops *ops, const char *path, const char *name,
                          const struct sonde_transfer *x, struct sonde_err *err);

/* ---- The formats: json.c, csv.c, text.c --------------------------------- */

struct sonde_transfer_writer {
    struct sonde_buf *out;
    enum sonde_transfer_format format;
    char *name;                /* of the family before; owned */
    enum sonde_type type;      /* of it */
    uint64_t series, left_out;
};
void sonde_transfer_json_write(struct sonde_transfer_writer *w,
                               const struct sonde_transfer_series *s);
void sonde_transfer_csv_write(struct sonde_transfer_writer *w,
                              const struct sonde_transfer_series *s);
void sonde_transfer_text_write(struct sonde_transfer_writer *w,
                               const struct sonde_transfer_series *s);
int sonde_transfer_json_read(const char *text, size_t len, struct sonde_transfer *x,
                             struct sonde_err *err);
int sonde_transfer_csv_read(const char *text, size_t len, struct sonde_transfer *x,
                            struct sonde_err *err);
int sonde_transfer_text_read(const char *text, size_t len, int openmetrics,
                             struct sonde_transfer *x, uint64_t *rounded, struct sonde_err *err);

/* Names of types and kinds, back; -1 = there is none. */
int sonde_transfer_type(const char *name);
int sonde_transfer_kind(const char *name);
/* raw in the exported unit, as the model has it. */
double sonde_transfer_value(double raw, double scale);
double sonde_transfer_double(uint64_t bits);
uint64_t sonde_transfer_bits(double d);

#endif
