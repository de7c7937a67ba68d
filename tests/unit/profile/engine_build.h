/* engine_build.h - series of made-up engines (profile/final.h), with figures that are known. */
#ifndef SONDE_TESTS_ENGINE_BUILD_H
#define SONDE_TESTS_ENGINE_BUILD_H

#include <string.h>

#include "profile/final.h"
#include "segment/segment.h"

struct engine_built {
    struct sonde_final_series series[64];
    struct sonde_final_bucket buckets[64][2];
    size_t count;
    const char *program;
    uint32_t pid;
};

static inline struct sonde_final_series *engine_built_add(struct engine_built *b,
                                                           const char *family, const char *subject,
                                                           const char *detail)
{
    struct sonde_final_series *s = &b->series[b->count++];
    *s = (struct sonde_final_series){
        .family = family, .subject = subject, .detail = detail,
        .program = b->program ? b->program : "engine", .pid = b->pid ? b->pid : 42,
    };
    return s;
}

static inline void engine_built_value(struct engine_built *b, const char *family,
                                      const char *subject, const char *detail, double value)
{
    engine_built_add(b, family, subject, detail)->value = value;
}

/* n times `ns`, and then one of `ns_last` if that is not 0. */
static inline void engine_built_times(struct engine_built *b, const char *family,
                                      const char *subject, const char *detail, uint64_t n,
                                      uint64_t ns, uint64_t ns_last)
{
    struct sonde_final_bucket *bucket = b->buckets[b->count];
    struct sonde_final_series *s = engine_built_add(b, family, subject, detail);
    s->buckets = bucket;
    s->bucket_count = ns_last ? 2 : 1;
    s->count = n + (ns_last != 0);
    s->value = (double)(n * ns + ns_last) * 1e-9;
    bucket[0] =
        (struct sonde_final_bucket){ (uint32_t)sonde__hist_bucket((double)ns * 1e-9), 0, n };
    bucket[1] =
        (struct sonde_final_bucket){ (uint32_t)sonde__hist_bucket((double)ns_last * 1e-9), 0, 1 };
}

#endif
