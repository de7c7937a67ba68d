/* final.h - series as they stood at the end of a recording, kept with its profile: what an
 * inference engine told of its devices, pools and tokenizers (sonde/engine.h), and operations,
 * errors, caches and bandwidth (sonde/sonde.h). They count from the start of the program, as heap
 * facts do. What follows from them is computed by analyze/engine.h and analyze/activity.h, for an
 * agent and for a recording alike; which ones are kept is a table in analyze/final_model.c. */
#ifndef SONDE_PROFILE_FINAL_H
#define SONDE_PROFILE_FINAL_H

#include <stddef.h>
#include <stdint.h>

struct sonde_profile;

enum { SONDE_FINAL_MAX = 4096 };

struct sonde_final_bucket {     /* of a histogram: segment/segment.h */
    uint32_t p, pad;
    uint64_t n;
};

struct sonde_final_series {
    const char *family;          /* "sonde_device_operation_seconds" … */
    const char *program;
    uint32_t pid;
    uint32_t bucket_count;
    const char *subject;         /* of its labels, what it is about: device, operation, tier … */
    const char *detail;          /* and the other: state, outcome, direction …; "" = it has none */
    const char *extra;           /* and a third: of tasks their outcome; "" = it has none */
    double value;                /* a counter's, a gauge's; of a histogram the sum of its values */
    double peak;                 /* of a gauge: the most that the agent saw */
    uint64_t count, zero;        /* of a histogram: values, and those below all buckets */
    double seconds;              /* it has counted for so long; 0 = not known */
    struct sonde_final_bucket *buckets; /* owned; ascending p */
};

/* Hung on a profile (profile.h); texts are strings of that. */
struct sonde_final {
    struct sonde_final_series *series;
    uint32_t count, cap;
};

/* Copies s; one that is known (all but its values) is replaced. 0 or SONDE_ENOMEM: over p's memory,
 * or there are too many. */
int sonde_final_add(struct sonde_profile *p, const struct sonde_final_series *s);
/* Takes all of from's over, when profiles are merged. */
int sonde_final_merge(struct sonde_profile *p, const struct sonde_profile *from);
void sonde_final_destroy(struct sonde_final *r);  /* NULL is fine */

#endif
