/* units.h - a value with its unit the way a human reads it: three digits and a prefix. */
#ifndef SONDE_PRESENT_UNITS_H
#define SONDE_PRESENT_UNITS_H

#include <stddef.h>

#include "profile/profile.h"

enum sonde_unit {
    SONDE_UNIT_COUNT,    /* 950, 12.3k, 4.56M */
    SONDE_UNIT_SECONDS,  /* 1.20 ns, 340 µs, 5.00 ms, 1.50 s, 12.5 min, 3.20 h, 2.10 d */
    SONDE_UNIT_BYTES,    /* 512 B, 1.50 KiB, 1023 MiB */
    SONDE_UNIT_RATIO,    /* 0.123 is 12.3 % */
    SONDE_UNIT_PERCENT,  /* 12.3 is 12.3 % */
    SONDE_UNIT_CELSIUS,  /* 45.0 C */
    SONDE_UNIT_WATTS,    /* 12.0 W */
    SONDE_UNIT_HERTZ,    /* 1.20 GHz */
    SONDE_UNIT_DATE,     /* unix time: 16 Nov 26 */
};

/* From a family's unit ("seconds"), or if that is empty or unknown from the suffix of its name
 * (…_seconds, …_bytes_total). Names that end in …_boot_time_seconds, …_start_time_seconds or
 * …_timestamp_seconds are points in time. Either may be NULL. */
enum sonde_unit sonde_unit_of(const char *unit, const char *name);

/* The unit of a counter's increase per second: seconds per second are a share of the time. */
enum sonde_unit sonde_unit_rate(enum sonde_unit u);

#define SONDE_VALUE_CELLS 9   /* no value is wider: "-1023 KiB" */
#define SONDE_VALUE_BYTES 24

/* At most SONDE_VALUE_CELLS cells, not padded; "–" when v is not a number ("-" with ascii).
 * Returns out, so that it can be used as an argument. */
const char *sonde_value_format(char out[SONDE_VALUE_BYTES], double v, enum sonde_unit u,
                               int ascii);

/* What v is divided by where it is written with a prefix, and what then stands behind it, static:
 * 1e-3 and " ms". For axes, all numbers of which have the same. v is finite. */
double sonde_unit_prefix(enum sonde_unit u, double v, const char **text);

/* A weight of samples as people read it: 1.23 s, 4.56 MiB, 789. */
#define SONDE_WEIGHT_BYTES 24
const char *sonde_weight_format(char out[SONDE_WEIGHT_BYTES], uint64_t weight,
                                enum sonde_sample_kind kind, int ascii);

#endif
