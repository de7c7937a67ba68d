/* exposition.h - what others show at /metrics: the text format 0.0.4 of Prometheus and OpenMetrics
 * 1.0, read strictly. Pure: text in, a call for each sample out; no model, no network.
 *
 * Prometheus is followed in what is an error, and an error anywhere makes all of it worthless: a
 * text that is cut short must not look like one whose last series have ended. Exemplars and times
 * are checked and passed over. */
#ifndef SONDE_MODEL_EXPOSITION_H
#define SONDE_MODEL_EXPOSITION_H

#include <stddef.h>

#include "base/err.h"
#include "model/model.h"

enum sonde_exposition_type {
    SONDE_EXPOSITION_UNKNOWN, SONDE_EXPOSITION_COUNTER, SONDE_EXPOSITION_GAUGE,
    SONDE_EXPOSITION_HISTOGRAM, SONDE_EXPOSITION_SUMMARY, SONDE_EXPOSITION_INFO,
    SONDE_EXPOSITION_STATESET, SONDE_EXPOSITION_GAUGEHISTOGRAM,
};

#define SONDE_EXPOSITION_LABELS_MAX 64

struct sonde_exposition_sample {
    const char *name;                    /* as it stands there: x_total, x_bucket … */
    const struct sonde_label *labels;    /* in the order they stand there */
    size_t label_count;
    double value;
    int has_time;
    double time_s;                       /* unix */
    enum sonde_exposition_type type;     /* of the family */
    const char *family, *help, *unit;    /* "" = not said */
};

struct sonde_exposition_sink {
    /* Everything in s is borrowed for the call. Not 0: stop, and return that. */
    int (*sample)(const struct sonde_exposition_sample *s, void *arg);
    void *arg;
};

/* 0, SONDE_EFORMAT with line and reason, SONDE_ENOMEM, or what sample returned. */
int sonde_exposition_read(const char *text, size_t len, int openmetrics,
                          const struct sonde_exposition_sink *sink, struct sonde_err *err);

/* The number that stands at text up to end, as Prometheus and OpenMetrics write them. 0 or -1. */
int sonde_exposition_number(const char *text, const char *end, double *out);

#endif
