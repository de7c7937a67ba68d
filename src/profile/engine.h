/* engine.h - what an inference engine told of its devices, pools and tokenizers (sonde/engine.h),
 * kept with a profile: the series themselves, as they stood at its end. They count from the start
 * of the program, as heap facts do. What follows from them is worked out by analyze/engine.h, of an
 * agent and of a recording alike. */
#ifndef SONDE_PROFILE_ENGINE_H
#define SONDE_PROFILE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

struct sonde_profile;

enum { SONDE_ENGINE_SERIES_MAX = 4096 };

struct sonde_engine_bucket {     /* of a histogram: segment/segment.h */
    uint32_t p, pad;
    uint64_t n;
};

struct sonde_engine_series {
    const char *family;          /* "sonde_device_operation_seconds" … */
    const char *program;
    uint32_t pid;
    uint32_t bucket_count;
    const char *subject;         /* its first label: device, pool or tokenizer */
    const char *detail;          /* its second: operation, state, length …; "" = it has none */
    double value;                /* a counter's, a gauge's; of a histogram the sum of its values */
    double peak;                 /* of a gauge: the most that the agent saw */
    uint64_t count, zero;        /* of a histogram: values, and those below all buckets */
    struct sonde_engine_bucket *buckets; /* owned; ascending p */
};

/* Hung on a profile (profile.h); texts are strings of that. */
struct sonde_engine_run {
    struct sonde_engine_series *series;
    uint32_t count, cap;
};

/* Copies s; one that is known (all but its values) is replaced. 0 or SONDE_ENOMEM: over p's memory,
 * or there are too many. */
int sonde_engine_run_add(struct sonde_profile *p, const struct sonde_engine_series *s);
/* Takes all of from's over, when profiles are merged. */
int sonde_engine_run_merge(struct sonde_profile *p, const struct sonde_profile *from);
void sonde_engine_run_destroy(struct sonde_engine_run *r);  /* NULL is fine */

#endif
