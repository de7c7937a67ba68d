/* health.h - how those that a model watches do, from what was recorded in the last seconds: nothing
 * is asked of them for it, least of all an inference. */
#ifndef SONDE_ANALYZE_HEALTH_H
#define SONDE_ANALYZE_HEALTH_H

#include "model/model.h"

/* When it is not well; 0 = that does not matter. */
struct sonde_health_options {
    double window_s;            /* of what is looked at; 0 = 60 */
    double p95_s_max;           /* latency: more is degraded */
    double error_ratio_max;     /* of requests that failed: more is degraded … */
    double error_ratio_failing; /* … and so many failing */
    double memory_ratio_max;    /* of the machine's memory that is in use: more is degraded */
};

/* NaN = not known. */
struct sonde_health {
    const char *source;        /* of latencies: "inference", "spans"; NULL = nothing was recorded */
    double count, failed;      /* in the window; failed: errors, time-outs and lost ones, not those
                                  that their client cancelled */
    double p50_s, p95_s;
    double front_count, front_failed; /* requests that the front passed on, and those that their
                                   upstream did not answer to the end; NaN = there is no front */
    double memory_total, memory_available; /* bytes, of the machine */
    double resident;           /* bytes, of the processes that are watched */
    double gpu_ratio;          /* busy, the mean of all GPUs */
};

#define SONDE_HEALTH_MIN 5      /* with fewer in the window nothing is made of errors and latency */

/* With the read lock (asserted). 0 or SONDE_ENOMEM. */
int sonde_health_measure(const struct sonde_model *m, double window_s, struct sonde_health *out);

#endif
